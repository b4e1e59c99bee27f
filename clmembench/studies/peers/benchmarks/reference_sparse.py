"""Peers of spmv: a sparse matrix in CSR times a vector by SciPy, and by cuSPARSE through CuPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.benchmarks.spmv import matrices, matrix_market
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.model import Array, Batch, Call, Device, DeviceError, DeviceInfo, Skip, Work
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import check_rows, host_facts

REFERENCE_FORMAT = "csr"  # of both libraries


@dataclass(frozen=True, slots=True, eq=False)
class _SparseProblem:
    """The matrix and vector of spmv's point, their product, and the largest error that each row may have."""

    matrix: Csr
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    allowed: npt.NDArray[np.float64]
    nbytes: int  # that any format must move, as spmv counts them


@lru_cache(maxsize=1)
def _make_problem(matrix: str, seed: int, most: int) -> _SparseProblem:
    """The problem of a matrix. Raises ValueError with the defect of the matrix."""
    a = matrices.generate(matrix, seed, most) if matrix in matrices.GENERATORS else matrix_market.read_matrix(matrix)
    x = np.random.default_rng([seed, 1]).uniform(0.5, 1.5, a.columns)
    rows = np.repeat(np.arange(a.rows), a.row_lengths)
    terms = a.values * x[a.indices]
    # computed without the library that is measured
    y, magnitude = (np.bincount(rows, of, a.rows).astype(np.float64) for of in (terms, np.abs(terms)))
    # Higham 2002, section 3.1, for both sides: see spmv
    allowed = 2 * (a.row_lengths + 2.0) * (magnitude * 2.0**-53 + np.finfo(float).smallest_subnormal)
    met = np.zeros(a.columns, dtype=bool)
    met[a.indices] = True
    return _SparseProblem(a, x, y, allowed, 12 * a.nonzeros + 4 * (a.rows + 1) + 8 * int(met.sum()) + 8 * a.rows)


def _problem(matrix: str, seed: int, info: DeviceInfo) -> _SparseProblem:
    """The problem of a point. Raises Skip for a generated matrix that cannot be made, DeviceError for a file that cannot be
    read."""
    try:
        return _make_problem(matrix, seed % 2**32, matrices.MAX_INDEX if info.array_bytes is None else info.array_bytes // 8)
    except ValueError as error:
        raise (Skip if matrix in matrices.GENERATORS else DeviceError)(str(error)) from error


def _check(problem: _SparseProblem, product: Array) -> None:
    check_rows(~(np.abs(product - problem.y) <= problem.allowed))  # a NaN is within no bound


@benchmark(
    BANDWIDTH,
    suite="compute",
    source="SciPy's csr_array",
    peer_of="spmv",
    is_available=lambda info: info.kind == "cpu",
    figure_axis="matrix",
    matrix=axis(*matrices.GENERATORS, accepts=matrix_market.is_file),
)
def scipy_spmv(device: Device, matrix: str) -> Work:
    """Sparse matrix-vector product in CSR by SciPy on one thread, for the same matrix and vector as spmv's.

    Bytes are those of spmv, which any format must move. SciPy allocates its result anew each time. Every row is compared within
    the rounding error of a sum of its length. Raises Skip and DeviceError as spmv does.
    """
    import scipy
    from scipy.sparse import csr_array

    problem = _problem(matrix, device.seed, device.info)
    a = problem.matrix
    stored = csr_array((a.values, a.indices, a.indptr), shape=(a.rows, a.columns))
    found: dict[str, Array] = {"y": np.full(a.rows, np.nan)}

    def multiply() -> None:
        found["y"] = np.asarray(stored @ problem.x)

    facts = {**host_facts("SciPy", scipy.__version__), "format": REFERENCE_FORMAT}
    return Work(
        (Call(multiply),),
        problem.nbytes,
        2 * a.nonzeros,
        1,
        check=lambda: _check(problem, found["y"]),
        clock="host",
        facts=facts,
    )


@benchmark(
    BANDWIDTH,
    suite="compute",
    source="NVIDIA's cuSPARSE, as CuPy has it",
    peer_of="spmv",
    is_available=cuda_timing.is_available,
    figure_axis="matrix",
    matrix=axis(*matrices.GENERATORS, accepts=matrix_market.is_file),
)
def cusparse_spmv(device: Device, matrix: str) -> Work:
    """Sparse matrix-vector product in CSR by cuSPARSE, for the same matrix and vector as spmv's.

    Bytes are those of spmv, which any format must move. Duplicate entries of a row are added up first, as CuPy requires: the
    generated power_law has a few. Passes are enqueued behind a blocking kernel, between two CUDA events. Every row is compared
    within the rounding error of a sum of its length. Raises Skip where CuPy does not work or does not find this GPU.
    """
    cupy = cuda_timing.cupy_on(device.info)
    from cupyx import cusparse
    from cupyx.scipy.sparse import csr_matrix

    problem = _problem(matrix, device.seed, device.info)
    a = problem.matrix
    parts = tuple(cupy.asarray(part) for part in (a.values, a.indices, a.indptr))
    stored = csr_matrix(parts, shape=(a.rows, a.columns))
    stored.sum_duplicates()
    x, y = cupy.asarray(problem.x), cupy.full(a.rows, np.nan)

    def multiply() -> object:
        return cusparse.spmv(stored, x, y, alpha=1.0, beta=0.0)

    library = cupy.cuda.cusparse
    facts = cuda_timing.library_facts(
        cupy, "cuSPARSE", lambda: library.getVersion(cupy.cuda.device.get_cusparse_handle()), 1000
    )
    return Work(
        (Batch(cuda_timing.timed_batch(cupy, multiply)),),
        problem.nbytes,
        2 * a.nonzeros,
        1,
        check=lambda: _check(problem, np.asarray(cupy.asnumpy(y))),
        facts={**facts, "format": REFERENCE_FORMAT},
    )
