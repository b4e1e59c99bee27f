"""Sparse matrices by rows (CSR), and generated ones of known structure; pure, without a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_INDEX = 2**31 - 1  # the limit of rows, columns and nonzeros with 32-bit indices
MIN_GENERATED_NONZEROS = 1000  # fewer do not show a generated matrix's structure
SPE10_CELLS = (60, 220, 85)  # SPE10's second model
BAND_DIAGONALS = 13  # on each side of the main diagonal
UNIFORM_ROW_LENGTH = 16
PARETO_EXPONENT, MIN_ROW_LENGTH, MAX_ROW_LENGTH = 1.2, 3, 1024  # lengths of power_law's rows: exponent, minimum, maximum


@dataclass(frozen=True, slots=True, eq=False)
class Csr:
    """A sparse matrix by rows: row r has values[indptr[r]:indptr[r+1]] in the columns indices[indptr[r]:indptr[r+1]].

    indptr is int32 (rows + 1,); indices are int32 (nonzeros,), ascending within a row; values are float64 (nonzeros,). Explicit
    zeros of a file are kept, so that "nonzeros" are the stored entries.
    """

    rows: int
    columns: int
    indptr: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]

    @property
    def nonzeros(self) -> int:
        """Stored entries."""
        return len(self.values)

    @property
    def row_lengths(self) -> npt.NDArray[np.int32]:
        """Stored entries of each row, shape (rows,)."""
        return np.diff(self.indptr)


def product(matrix: Csr, x: npt.NDArray[np.float64], absolute: bool = False) -> npt.NDArray[np.float64]:
    """A x, shape (rows,), by SciPy; `absolute`: |A| |x|, the scale of its rounding errors."""
    from scipy.sparse import csr_array

    values, x = (np.abs(matrix.values), np.abs(x)) if absolute else (matrix.values, x)
    y: npt.NDArray[np.float64] = csr_array((values, matrix.indices, matrix.indptr), shape=(matrix.rows, matrix.columns)) @ x
    return y


def generate(name: str, seed: int, most: int = MAX_INDEX) -> Csr:
    """The generated matrix with this name (see GENERATORS), in its usual size or with at most `most` nonzeros.

    Equal arguments give equal matrices. Raises ValueError if `most` is too small for a matrix of that structure.
    """
    if most < MIN_GENERATED_NONZEROS:
        raise ValueError(f"{most} nonzeros are too few for a matrix of this structure: raise --size")
    return GENERATORS[name](np.random.default_rng(seed), most)


def reservoir(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """The pressure system of a reservoir: 7-point stencil on SPE10's 60 x 220 x 85 cells, log-normal permeabilities.

    1,122,000 rows, 7,780,000 nonzeros; symmetric, diagonally dominant. The coefficient between neighbours is the harmonic mean
    of their permeabilities; the diagonal is the sum of a row's coefficients and a small compressibility. Source: Christie &
    Blunt 2001 for the cells; Razzaq et al. 2016, section V-B, for its use.
    """
    scale = min(1.0, (most / (7 * np.prod(SPE10_CELLS, dtype=float))) ** (1 / 3))
    nx, ny, nz = shape = tuple(max(2, int(n * scale)) for n in SPE10_CELLS)
    rows = int(np.prod(shape))
    resistance = np.exp(-1.5 * rng.standard_normal((nz, ny, nx)))
    # one column per neighbour in ascending order of its index, with the row itself in the middle
    values = np.zeros((nz, ny, nx, 7))
    for axis, (lower, upper) in enumerate([(0, 6), (1, 5), (2, 4)]):
        near, far = (tuple(part if a == axis else slice(None) for a in range(3)) for part in (slice(1, None), slice(None, -1)))
        exchange = -2 / (resistance[near] + resistance[far])
        values[(*near, lower)] = exchange
        values[(*far, upper)] = exchange
    flat = values.reshape(rows, 7)
    exists = flat != 0
    flat[:, 3] = 1e-3 - flat.sum(axis=1)
    exists[:, 3] = True
    offsets = np.array([-nx * ny, -nx, -1, 0, 1, nx, nx * ny], dtype=np.int32)
    columns = np.arange(rows, dtype=np.int32)[:, None] + offsets
    return Csr(rows, rows, _ends(exists.sum(axis=1)), columns[exists], flat[exists])


def banded(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A full band of 27 diagonals: 1,000,000 rows, 26,999,818 nonzeros; all columns of a row are near its diagonal."""
    rows = min(1_000_000, most // (2 * BAND_DIAGONALS + 1))
    first = np.arange(rows) - BAND_DIAGONALS
    begins, ends = np.maximum(first, 0), np.minimum(first + 2 * BAND_DIAGONALS + 1, rows)
    lengths = ends - begins
    indptr = _ends(lengths)
    columns = np.arange(indptr[-1], dtype=np.int32)
    columns -= np.repeat((indptr[:-1] - begins).astype(np.int32), lengths)
    return Csr(rows, rows, indptr, columns, rng.uniform(0.5, 1.5, len(columns)))


def uniform(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """16 distinct random columns per row: 1,000,000 rows, 16,000,000 nonzeros; no locality in x beyond chance."""
    rows = min(1_000_000, most // UNIFORM_ROW_LENGTH)
    width = min(UNIFORM_ROW_LENGTH, rows)
    columns = rng.integers(0, rows - width + 1, (rows, width), dtype=np.int32)
    columns.sort(axis=1)
    columns += np.arange(width, dtype=np.int32)  # makes ascending numbers distinct
    return Csr(rows, rows, _ends(np.full(rows, width)), columns.ravel(), rng.uniform(0.5, 1.5, columns.size))


def power_law(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Rows whose lengths follow Pareto's law (exponent 1.2, 3 to 1024): 1,048,576 rows, about 13.5 million nonzeros.

    Columns are random, ascending within a row; the few columns that a long row draws twice are two stored entries.
    """
    rows = 1 << 20
    lengths = np.minimum(MIN_ROW_LENGTH * (1 + rng.pareto(PARETO_EXPONENT, rows)), MAX_ROW_LENGTH).astype(np.int64)
    rows = int(np.searchsorted(lengths.cumsum(), most, side="right"))
    lengths = np.minimum(lengths[:rows], rows)
    indptr = _ends(lengths)
    keys = np.repeat(np.arange(rows, dtype=np.int64) << 32, lengths)
    keys += rng.integers(0, rows, len(keys), dtype=np.int32)
    keys.sort()
    return Csr(rows, rows, indptr, keys.astype(np.int32), rng.uniform(0.5, 1.5, len(keys)))


GENERATORS: Mapping[str, Callable[[np.random.Generator, int], Csr]] = {
    "reservoir": reservoir,
    "banded": banded,
    "uniform": uniform,
    "power_law": power_law,
}


def _ends(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """indptr for rows of these lengths. Raises ValueError for over 2**31 - 1 nonzeros."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] > MAX_INDEX:
        raise ValueError(f"{ends[-1]} nonzeros are over {MAX_INDEX}, the most that 32-bit row pointers can count")
    return ends.astype(np.int32)
