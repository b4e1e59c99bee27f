"""Peers of spmv: a sparse matrix times a vector by SciPy, by MKL, and by cuSPARSE through CuPy and after its preprocessing."""

from __future__ import annotations

import ctypes
import itertools
import re
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.benchmarks.spmv import matrices, spmv_formats
from clmembench.benchmarks.spmv.spmv_problem import Problem, is_matrix, problem_of_point
from clmembench.host.cpu_topology import usable_cpus
from clmembench.model import Array, Batch, Call, Device, DeviceError, Skip, Work
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import check_rows, host_facts

REFERENCE_FORMAT = "csr"  # of all libraries
# of mkl_spblas.h
MKL_ZERO_BASED, MKL_NOT_TRANSPOSED, MKL_GENERAL_MATRIX = 0, 10, 20
MKL_EXPECTED_CALLS = 1_000_000  # enough for any analysis to be worth its time
# of cusparse.h
INDEX_32, ZERO_BASED, DOUBLE, NOT_TRANSPOSED = 2, 0, 1, 0
CSR_ALGORITHM_1, CSR_ALGORITHM_2, SLICED_ELL_ALGORITHM = 2, 3, 5
NOT_SUPPORTED = 10
SLICE_ROWS = 32
CUSPARSE_FILES = ("libcusparse.so.12", "libcusparse.so.13", "libcusparse.so.11")


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
    version=2,  # on all CPUs
)
def scipy_spmv(device: Device, matrix: str) -> Work:
    """Sparse matrix-vector product in CSR by SciPy, one thread per CPU, for the same matrix and vector as spmv's.

    SciPy uses one thread per product, so each thread has a block of rows, with about equally many rows and entries together.
    Bytes are those of spmv, which any format must move. SciPy allocates its result anew each time. Every row is compared within
    the rounding error of a sum of its length. Raises Skip and DeviceError as spmv does.
    """
    import scipy
    from scipy.sparse import csr_array

    problem = problem_of_point(matrix, device.seed % 2**32, device.info)
    a = problem.matrix
    threads = len(usable_cpus())
    path = a.indptr + np.arange(a.rows + 1, dtype=np.int64)
    bounds = np.unique(np.searchsorted(path, path[-1] * np.arange(threads + 1) // threads))
    blocks = []
    for first, end in itertools.pairwise(bounds.tolist()):
        part = slice(a.indptr[first], a.indptr[end])
        stored = a.values[part], a.indices[part], a.indptr[first : end + 1] - a.indptr[first]
        blocks.append(csr_array(stored, shape=(end - first, a.columns)))
    pool = ThreadPoolExecutor(threads)
    found: dict[str, list[Array]] = {"y": []}

    def multiply() -> None:
        found["y"] = list(pool.map(lambda block: np.asarray(block @ problem.x), blocks))

    facts = {**host_facts("SciPy", scipy.__version__, threads), "format": REFERENCE_FORMAT}
    return Work(
        (Call(multiply),),
        problem.nbytes,
        2 * a.nonzeros,
        1,
        check=lambda: _check(problem, np.concatenate(found["y"]) if found["y"] else np.full(a.rows, np.nan)),
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


def _cusparse_peer(name: str, what: str, algorithm: int) -> Any:
    """A peer by one algorithm of cuSPARSE, after its preprocessing of the matrix."""

    def prepare(device: Device, matrix: str) -> Work:
        cupy = cuda_timing.cupy_on(device.info)
        from cupyx import cusparse  # noqa: F401 - loads the library

        problem = problem_of_point(matrix, device.seed % 2**32, device.info)
        stored = PreparedProduct(cupy, problem, algorithm)
        library = cupy.cuda.cusparse
        handle = cupy.cuda.device.get_cusparse_handle()
        facts = cuda_timing.library_facts(cupy, "cuSPARSE", lambda: library.getVersion(handle), 1000)
        return Work(
            (Batch(cuda_timing.timed_batch(cupy, stored.multiply)),),
            problem.nbytes,
            2 * problem.matrix.nonzeros,
            1,
            check=lambda: _check(problem, np.asarray(cupy.asnumpy(stored.y))),
            facts={**facts, "format": "sell" if algorithm == SLICED_ELL_ALGORITHM else REFERENCE_FORMAT},
        )

    prepare.__name__, prepare.__module__ = name, __name__
    prepare.__doc__ = f"""Sparse matrix-vector product by cuSPARSE, {what}, preprocessed, for spmv's matrix and vector.

    `cusparseSpMV_preprocess` is not timed, as conversions of ours are not. Bytes, clock and check are those of cusparse_spmv;
    duplicate entries stay. Raises Skip where CuPy or the library does not work or lacks the algorithm, and for much padding.
    """
    return benchmark(
        BANDWIDTH,
        suite="compute",
        source="NVIDIA's cuSPARSE",
        peer_of="spmv",
        is_available=cuda_timing.is_available,
        figure_axis="matrix",
        matrix=axis(*matrices.USUAL, accepts=is_matrix),
    )(prepare)


cusparse_csr_1 = _cusparse_peer("cusparse_csr_1", "CSR and algorithm 1", CSR_ALGORITHM_1)
cusparse_csr_2 = _cusparse_peer("cusparse_csr_2", "CSR and algorithm 2", CSR_ALGORITHM_2)
cusparse_sell = _cusparse_peer("cusparse_sell", "sliced ELL of 32 rows", SLICED_ELL_ALGORITHM)


@cache
def _cusparse() -> Any:
    """cuSPARSE, as CuPy has loaded it. Raises Skip where it is not found."""
    for name in CUSPARSE_FILES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Skip("cuSPARSE is not found: its name is none of " + ", ".join(CUSPARSE_FILES))


class PreparedProduct:
    """A product of a matrix and a vector by cuSPARSE, preprocessed; `multiply` enqueues one, `y` has the result."""

    def __init__(self, cupy: Any, problem: Problem, algorithm: int) -> None:
        a, pointer, length = problem.matrix, ctypes.c_void_p, ctypes.c_int64
        self._library = _cusparse()
        self.y = cupy.full(a.rows, np.nan)
        matrix, x, y = pointer(), pointer(), pointer()
        sizes: tuple[int, ...] = (a.rows, a.columns, a.nonzeros)
        host, create = (a.indptr, a.indices, a.values), "cusparseCreateCsr"
        if algorithm == SLICED_ELL_ALGORITHM:
            host, create = _sliced(a), "cusparseCreateSlicedEll"
            sizes += len(host[2]), SLICE_ROWS
        parts = [cupy.asarray(part) for part in (*host, problem.x)]
        kinds = INDEX_32, INDEX_32, ZERO_BASED, DOUBLE
        *stored, vector = (pointer(part.data.ptr) for part in parts)
        self._call(create, ctypes.byref(matrix), *map(length, sizes), *stored, *kinds)
        self._call("cusparseCreateDnVec", ctypes.byref(x), length(a.columns), vector, DOUBLE)
        self._call("cusparseCreateDnVec", ctypes.byref(y), length(a.rows), pointer(self.y.data.ptr), DOUBLE)
        handle, one, zero = pointer(cupy.cuda.device.get_cusparse_handle()), ctypes.c_double(1), ctypes.c_double(0)
        head = (handle, NOT_TRANSPOSED, ctypes.byref(one), matrix, x, ctypes.byref(zero), y, DOUBLE, algorithm)
        nbytes = ctypes.c_size_t()
        self._call("cusparseSpMV_bufferSize", *head, ctypes.byref(nbytes))
        buffer = cupy.empty(max(1, nbytes.value), np.uint8)
        self._arguments = (*head, pointer(buffer.data.ptr))
        self._kept = parts, buffer, one, zero
        self._call("cusparseSpMV_preprocess", *self._arguments)

    def multiply(self) -> None:
        self._call("cusparseSpMV", *self._arguments)

    def _call(self, name: str, *arguments: object) -> None:
        try:
            failure = getattr(self._library, name)(*arguments)
        except AttributeError as error:
            raise Skip(f"this cuSPARSE has no {name}") from error
        if failure == NOT_SUPPORTED:
            raise Skip(f"this cuSPARSE does not support {name} for this matrix and algorithm")
        if failure:
            raise DeviceError(f"{name} failed with status {failure}")


def _sliced(a: matrices.Csr) -> tuple[Array, Array, Array]:
    """Slice offsets, columns (-1 for padding) and values of sliced ELL. Raises Skip where it would be padded too much."""
    try:
        stored = spmv_formats.sell(a, SLICE_ROWS, 1)
    except spmv_formats.UnsuitedFormat as reason:
        raise Skip(str(reason)) from reason
    values, indices, begins, _ = stored.arrays
    lengths = np.zeros(stored.items, np.int64)
    lengths[: a.rows] = a.row_lengths
    slices = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    position = np.arange(begins[-1]) - begins[slices]
    padding = position[:, None] >= lengths.reshape(-1, SLICE_ROWS)[slices]
    return begins * SLICE_ROWS, np.where(padding.ravel(), np.int32(-1), indices), values
