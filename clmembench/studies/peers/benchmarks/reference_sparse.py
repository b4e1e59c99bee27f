"""Peers of spmv: a sparse matrix in CSR times a vector by SciPy, and by cuSPARSE through CuPy."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.benchmarks.spmv import matrices
from clmembench.benchmarks.spmv.spmv_problem import Problem, is_matrix, problem_of_point
from clmembench.model import Array, Batch, Call, Device, Work
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import check_rows, host_facts

REFERENCE_FORMAT = "csr"  # of both libraries


def _check(problem: Problem, product: Array) -> None:
    """Compares with the product that is computed without the library that is measured."""
    a = problem.matrix
    wanted = np.bincount(np.repeat(np.arange(a.rows), a.row_lengths), a.values * problem.x[a.indices], a.rows)
    check_rows(~(np.abs(product - wanted) <= problem.allowed))  # a NaN is within no bound


@benchmark(
    BANDWIDTH,
    suite="compute",
    source="SciPy's csr_array",
    peer_of="spmv",
    is_available=lambda info: info.kind == "cpu",
    figure_axis="matrix",
    matrix=axis(*matrices.USUAL, accepts=is_matrix),
)
def scipy_spmv(device: Device, matrix: str) -> Work:
    """Sparse matrix-vector product in CSR by SciPy on one thread, for the same matrix and vector as spmv's.

    Bytes are those of spmv, which any format must move. SciPy allocates its result anew each time. Every row is compared within
    the rounding error of a sum of its length. Raises Skip and DeviceError as spmv does.
    """
    import scipy
    from scipy.sparse import csr_array

    problem = problem_of_point(matrix, device.seed % 2**32, device.info)
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
    matrix=axis(*matrices.USUAL, accepts=is_matrix),
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

    problem = problem_of_point(matrix, device.seed % 2**32, device.info)
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
