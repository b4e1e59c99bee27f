"""The matrix and vector that spmv multiplies and the check of the product, created once for all points of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clmembench.benchmarks.spmv import matrices, matrix_market
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.model import Buffer, Device, DeviceError, DeviceInfo, Skip


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A matrix, a vector, their product, and the largest allowed error of each row of a result."""

    matrix: Csr
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    allowed: npt.NDArray[np.float64]
    met: int  # columns that have an entry: the part of x that must be read

    @property
    def nbytes(self) -> int:
        """Bytes that a product in any format must move."""
        return 12 * self.matrix.nonzeros + 4 * (self.matrix.rows + 1) + 8 * self.met + 8 * self.matrix.rows


PROBLEMS = matrices.Kept[Problem](lambda one: one.nbytes)


def make_problem(matrix: str, seed: int, most: int) -> Problem:
    """The problem of a matrix, which is kept with others, since the points of several matrices take turns. Raises ValueError
    with the defect of the matrix."""
    return PROBLEMS.get((matrix, seed, most), lambda: _made(matrix, seed, most))


def _made(matrix: str, seed: int, most: int) -> Problem:
    a = matrices.generate(matrix, seed, most) if matrix in matrices.GENERATORS else matrix_market.read_matrix(matrix)
    x = np.random.default_rng([seed, 1]).uniform(0.5, 1.5, a.columns)
    y = matrices.product(a, x)
    magnitude = y if a.values.min(initial=0) >= 0 else matrices.product(a, x, absolute=True)  # x is positive
    if not np.isfinite(magnitude).all():
        raise ValueError(f"{matrix}: products of its values and numbers about 1 overflow")
    # Higham 2002, section 3.1: the error of a sum of n products in any order is at most n u times the sum of their magnitudes;
    # here both results may have it. Each subnormal product loses up to one step of the smallest subnormal numbers.
    terms = a.row_lengths + 2.0
    allowed = 2 * terms * (magnitude * 2.0**-53 + np.finfo(float).smallest_subnormal)
    met = np.zeros(a.columns, dtype=bool)
    met[a.indices] = True
    return Problem(a, x, y, allowed, int(met.sum()))


def is_matrix(value: object) -> bool:
    """Whether a value names a generated matrix or a Matrix Market file. Raises ValueError as matrix_market.is_file does."""
    return value in matrices.GENERATORS or matrix_market.is_file(value)


def problem_of_point(matrix: str, seed: int, info: DeviceInfo) -> Problem:
    """The problem, created once for all points of a matrix. Raises Skip if it would not fit.

    Raises DeviceError for a file that cannot be read: the user named it, so that a run without it is a failure.
    """
    most = matrices.MAX_INDEX if info.array_bytes is None else info.array_bytes // 8
    try:
        if matrix not in matrices.GENERATORS:
            header = matrix_market.read_header(matrix)
            require_memory(info, header.rows, header.columns, header.nonzeros)
        problem = make_problem(matrix, seed, most)
    except ValueError as error:
        raise (Skip if matrix in matrices.GENERATORS else DeviceError)(str(error)) from error
    require_memory(info, problem.matrix.rows, problem.matrix.columns, problem.matrix.nonzeros)
    return problem


def require_memory(info: DeviceInfo, rows: int, columns: int, stored: int) -> None:
    """Raises Skip for a matrix whose stored entries would not fit together with the host's intermediate arrays."""
    nbytes, largest = 12 * stored + 12 * rows + 8 * columns, 8 * max(stored, rows, columns)
    host = 4 * nbytes > info.host_mem_bytes
    if largest > info.max_alloc_bytes or 2 * nbytes > info.global_mem_bytes or host:
        size, whose = f"{nbytes / 2**30:.2g} GiB of matrix and vectors", "host" if host else "device"
        raise Skip(f"{size} are too much for this {whose}: lower --size, or take a smaller file")


def product_check(device: Device, y: Buffer, problem: Problem) -> Callable[[], None]:
    """The check of y against the problem's product, for Work; it raises AssertionError with the first wrong row."""

    def check() -> None:
        rows = device.download(y, np.float64, len(problem.y))
        wrong = np.flatnonzero(~(np.abs(rows - problem.y) <= problem.allowed))  # a NaN is never within the bound
        if len(wrong):
            row = wrong[0]
            values = f"{float(rows[row])!r} and not {float(problem.y[row])!r} within {problem.allowed[row]:.1e}"
            raise AssertionError(f"{len(wrong)} of {len(rows)} rows are wrong, the first is row {row}: {values}")

    return check
