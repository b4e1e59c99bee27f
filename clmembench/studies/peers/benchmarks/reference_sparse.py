"""Peers of spmv: a sparse matrix in CSR times a vector by SciPy, by MKL, and by cuSPARSE through CuPy."""

from __future__ import annotations

import ctypes
import re
import weakref
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.benchmarks.spmv import matrices
from clmembench.benchmarks.spmv.spmv_problem import Problem, is_matrix, problem_of_point
from clmembench.host.cpu_topology import usable_cpus
from clmembench.model import Array, Batch, Call, Device, DeviceError, Skip, Work
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import check_rows, host_facts

REFERENCE_FORMAT = "csr"  # of all libraries
# of mkl_spblas.h
MKL_ZERO_BASED, MKL_NOT_TRANSPOSED, MKL_GENERAL_MATRIX = 0, 10, 20
MKL_EXPECTED_CALLS = 1_000_000  # enough for any analysis to be worth its time


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


class MatrixDescription(ctypes.Structure):
    """MKL's struct matrix_descr."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))


def _mkl_path() -> str | None:
    """The dispatching library of pip's package mkl, None where it is not installed."""
    try:
        files = metadata.files("mkl") or ()
    except metadata.PackageNotFoundError:
        return None
    return next((str(file.locate()) for file in files if file.name.startswith("libmkl_rt.so")), None)


@cache
def _mkl() -> Any:
    """MKL. Raises Skip where it does not load."""
    try:
        return ctypes.CDLL(_mkl_path() or "libmkl_rt.so")
    except OSError as error:
        raise Skip(f"MKL does not load here: {str(error)[:200]}") from error


@benchmark(
    BANDWIDTH,
    suite="compute",
    source="Intel's oneMKL",
    peer_of="spmv",
    is_available=lambda info: info.kind == "cpu" and _mkl_path() is not None,
    figure_axis="matrix",
    matrix=axis(*matrices.USUAL, accepts=is_matrix),
)
def mkl_spmv(device: Device, matrix: str) -> Work:
    """Sparse matrix-vector product in CSR by MKL, a thread for each CPU, for the same matrix and vector as spmv's.

    MKL analyses the matrix for a million products first (`mkl_sparse_optimize`), which is not timed, as conversions of ours are
    not. Bytes and check are those of scipy_spmv. Raises Skip where MKL does not load, and otherwise as spmv does.
    """
    library, threads = _mkl(), len(usable_cpus())
    problem = problem_of_point(matrix, device.seed % 2**32, device.info)
    a, x, y = problem.matrix, problem.x, np.full(problem.matrix.rows, np.nan)
    stored, general = ctypes.c_void_p(), MatrixDescription(MKL_GENERAL_MATRIX, 0, 0)

    def call(name: str, *arguments: object) -> None:
        status = getattr(library, name)(*arguments)
        if status:
            raise DeviceError(f"MKL's {name} failed with status {status}")

    def multiply() -> None:
        one, zero = ctypes.c_double(1), ctypes.c_double(0)
        call("mkl_sparse_d_mv", MKL_NOT_TRANSPOSED, one, stored, general, _address(x), zero, _address(y))

    library.MKL_Set_Num_Threads(threads)
    arrays = [_address(array) for array in (a.indptr, a.indptr[1:], a.indices, a.values)]
    call("mkl_sparse_d_create_csr", ctypes.byref(stored), MKL_ZERO_BASED, a.rows, a.columns, *arrays)
    weakref.finalize(multiply, library.mkl_sparse_destroy, stored)
    call("mkl_sparse_set_mv_hint", stored, MKL_NOT_TRANSPOSED, general, MKL_EXPECTED_CALLS)
    call("mkl_sparse_optimize", stored)
    text = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(text, len(text))
    version = re.search(r"Version ([\d.]+)", text.value.decode(errors="replace"))
    return Work(
        (Call(multiply),),
        problem.nbytes,
        2 * a.nonzeros,
        1,
        check=lambda: _check(problem, y),
        clock="host",
        facts={**host_facts("MKL", version[1] if version else "of unknown version", threads), "format": REFERENCE_FORMAT},
    )


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


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
