"""Sparse matrices by rows (CSR), and generated ones of known structure; pure, without a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

MAX_KEPT_BYTES = min(2 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8)  # of matrices, and of conversions
MAX_INDEX = 2**31 - 1  # the limit of rows, columns and nonzeros with 32-bit indices
MIN_GENERATED_NONZEROS = 1000  # fewer do not show a generated matrix's structure
SPE10_CELLS = (60, 220, 85)  # SPE10's second model
BAND_DIAGONALS = 13  # on each side of the main diagonal
UNIFORM_ROW_LENGTH = 16
ROWS_AT_A_TIME = 4096  # of power_law: their keys fit in a core's second cache
PARETO_EXPONENT, MIN_ROW_LENGTH, MAX_ROW_LENGTH = 1.2, 3, 1024  # lengths of power_law's rows: exponent, minimum, maximum


T = TypeVar("T")


class Kept(Generic[T]):
    """Values by key, up to MAX_KEPT_BYTES: those that were used longest ago go first, but never the last one."""

    def __init__(self, nbytes: Callable[[T], int]) -> None:
        self._nbytes = nbytes
        self._kept: dict[Hashable, T] = {}  # the last used at the end

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, made where it is not kept."""
        self._kept[key] = self._kept.pop(key) if key in self._kept else make()
        while len(self._kept) > 1 and sum(map(self._nbytes, self._kept.values())) > MAX_KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return self._kept[key]


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
    columns = rng.integers(0, rows, indptr[-1], dtype=np.int32)
    for first in range(0, rows, ROWS_AT_A_TIME):
        of = lengths[first : first + ROWS_AT_A_TIME]
        some = columns[indptr[first] : indptr[first + len(of)]]
        keys = np.repeat(np.arange(len(of)) << 32, of)
        keys += some
        keys.sort()
        some[:] = keys & 0xFFFFFFFF
    return Csr(rows, rows, indptr, columns, rng.uniform(0.5, 1.5, len(columns)))


def stencil_5(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A 5-point stencil on a square grid of up to 1,600 x 1,600 cells."""
    side = max(2, int(min(1600, (most / 5) ** 0.5)))
    return _stencil(rng, (side, side), [o for o in np.ndindex(3, 3) if sum(abs(step - 1) for step in o) < 2])


def stencil_27(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A 27-point stencil on a cube of up to 80 x 80 x 80 cells."""
    side = max(2, int(min(80, (most / 27) ** (1 / 3))))
    return _stencil(rng, (side, side, side), [*np.ndindex(3, 3, 3)])


def block(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Dense blocks of 4 x 4: up to 100,000 block rows, each with 8 random block columns."""
    size = 4
    rows = min(100_000, most // (8 * size * size))
    blocks = min(8, rows)
    columns = rng.integers(0, rows - blocks + 1, (rows, blocks))
    columns.sort(axis=1)
    columns = np.repeat((columns + np.arange(blocks)) * size, size, axis=1) + np.tile(np.arange(size), blocks)
    columns = np.repeat(columns, size, axis=0).astype(np.int32)
    return Csr(size * rows, size * rows, *_of_even_rows(rng, columns))


def empty_rows(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Random rows, of which a random half is empty and the others have 32 entries: up to 1,000,000 rows."""
    rows, width = min(1_000_000, most // 16), 32
    lengths = rng.permutation(np.where(np.arange(rows) < rows // 2, width, 0))
    columns = rng.integers(0, rows - width + 1, (rows // 2, width), dtype=np.int32)
    columns.sort(axis=1)
    columns += np.arange(width, dtype=np.int32)
    return Csr(rows, rows, _ends(lengths), columns.ravel(), rng.uniform(0.5, 1.5, columns.size))


def arrow(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A dense first row, a dense first column and the diagonal: up to 2,000,000 rows."""
    rows = max(2, min(2_000_000, most // 3))
    lengths = np.full(rows, 2)
    lengths[0] = rows
    others = np.stack([np.zeros(rows - 1, np.int32), np.arange(1, rows, dtype=np.int32)], axis=1).ravel()
    columns = np.concatenate([np.arange(rows, dtype=np.int32), others])
    return Csr(rows, rows, _ends(lengths), columns, rng.uniform(0.5, 1.5, len(columns)))


def wide(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Few long rows: up to 2,000 rows of 3,500 entries each in 1,000,000 columns."""
    width = 3500
    rows = max(1, min(2000, most // width))
    columns = np.sort(rng.integers(0, 1_000_000 - width, (rows, min(width, most)), dtype=np.int32), axis=1)
    columns += np.arange(columns.shape[1], dtype=np.int32)
    return Csr(rows, 1_000_000, *_of_even_rows(rng, columns))


def tall(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Many short rows: up to 4,000,000 rows of 2 entries each in 64 columns."""
    columns = np.sort(rng.integers(0, 63, (min(4_000_000, most // 2), 2), dtype=np.int32), axis=1)
    columns[:, 1] += 1
    return Csr(len(columns), 64, *_of_even_rows(rng, columns))


def one_row(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A single row of up to 8,000,000 entries, all columns that there are."""
    columns = np.arange(min(8_000_000, most), dtype=np.int32)[None, :]
    return Csr(1, columns.size, *_of_even_rows(rng, columns))


def diagonal(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """One entry per row: up to 4,000,000 rows."""
    columns = np.arange(min(4_000_000, most), dtype=np.int32)[:, None]
    return Csr(columns.size, columns.size, *_of_even_rows(rng, columns))


def rmat(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A power-law graph of the Graph500 kind (R-MAT, Chakrabarti et al. 2004; 0.57, 0.19, 0.19, 0.05): up to 2^20 rows, 16
    edges for each, in random order of vertices; an edge that is drawn several times is one entry."""
    scale = max(4, min(20, int(np.log2(most / 16))))
    edges = 16 << scale
    keys = np.zeros(edges, np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], rng.random(edges), side="right")
        keys = keys * 2 + (quadrant >> 1 << np.int64(32)) + (quadrant & 1)
    rename = rng.permutation(1 << scale)
    return _of_entries(rng, 1 << scale, rename[keys >> 32], rename[keys & 0xFFFFFFFF])


def triangle(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """A dense lower triangle: up to 4,000 rows, of which row r has r + 1 entries."""
    rows = int(min(4000, (2 * most) ** 0.5 - 1))
    _, columns = np.tril_indices(rows)
    return Csr(rows, rows, _ends(np.arange(1, rows + 1)), columns.astype(np.int32), rng.uniform(0.5, 1.5, len(columns)))


def near_band(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Rows of up to 40 entries in random columns within 5,000 of the diagonal, cyclically: up to 500,000 rows."""
    rows = min(500_000, most // 40)
    row = np.repeat(np.arange(rows), rng.integers(1, 41, rows))
    reach = min(5000, rows // 2)
    return _of_entries(rng, rows, row, (row + rng.integers(-reach, reach + 1, len(row))) % rows)


def few_dense(rng: np.random.Generator, most: int = MAX_INDEX) -> Csr:
    """Every hundredth row has some 500 random entries, the others 3 about the diagonal: up to 800,000 rows."""
    rows = min(800_000, most // 8)
    is_dense = np.arange(rows) % 100 == 50
    row = np.repeat(np.arange(rows), np.where(is_dense, 500, 3))
    near = np.clip(row, 1, rows - 2) + np.resize([-1, 0, 1], len(row))
    return _of_entries(rng, rows, row, np.where(is_dense[row], rng.integers(0, rows, len(row)), near))


# the matrices that a run measures by default, and all that it can be given by name
USUAL: Mapping[str, Callable[[np.random.Generator, int], Csr]] = {
    of.__name__: of for of in (reservoir, banded, uniform, power_law)
}
STRUCTURES = (
    stencil_5,
    stencil_27,
    block,
    empty_rows,
    arrow,
    wide,
    tall,
    one_row,
    diagonal,
    rmat,
    triangle,
    near_band,
    few_dense,
)
GENERATORS = {**USUAL, **{of.__name__: of for of in STRUCTURES}}


def _stencil(rng: np.random.Generator, shape: tuple[int, ...], offsets: list[tuple[int, ...]]) -> Csr:
    """Cells of a grid, each with its neighbours at these offsets (0 to 2, where 1 is the cell itself) that exist."""
    cells = np.indices(shape, np.int32).reshape(len(shape), -1)
    near = np.stack([cells + np.array(offset, np.int32)[:, None] - 1 for offset in offsets], axis=2)
    exists = ((near >= 0) & (near < np.array(shape, np.int32)[:, None, None])).all(axis=0)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1].astype(np.int32)
    columns = np.tensordot(strides, near, axes=1).astype(np.int32)[exists]
    rows = cells.shape[1]
    return Csr(rows, rows, _ends(exists.sum(axis=1)), columns, rng.uniform(0.5, 1.5, len(columns)))


def _of_entries(rng: np.random.Generator, rows: int, row: npt.NDArray[Any], column: npt.NDArray[Any]) -> Csr:
    """A square matrix with entries in these rows and columns; one that is named several times is one entry."""
    keys = np.unique(row.astype(np.int64) << 32 | column)
    lengths = np.bincount(keys >> 32, minlength=rows)
    return Csr(rows, rows, _ends(lengths), keys.astype(np.int32), rng.uniform(0.5, 1.5, len(keys)))


def _of_even_rows(rng: np.random.Generator, columns: npt.NDArray[Any]) -> tuple[Any, Any, Any]:
    """indptr, indices and random values for rows of these columns, (rows, width)."""
    return _ends(np.full(len(columns), columns.shape[1])), columns.ravel().astype(np.int32), rng.uniform(0.5, 1.5, columns.size)


def _ends(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """indptr for rows of these lengths. Raises ValueError for over 2**31 - 1 nonzeros."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] > MAX_INDEX:
        raise ValueError(f"{ends[-1]} nonzeros are over {MAX_INDEX}, the most that 32-bit row pointers can count")
    return ends.astype(np.int32)
