"""Peers of dgemm: the product of two dense matrices by the host's BLAS through NumPy, and by cuBLAS through CuPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark
from clmembench.benchmarks.dgemm.dgemm import MAX_ELEMENT, SEEDS, element, expected_products
from clmembench.benchmarks.gemm.gemm import RATES, SIZES, element_bits, result_type, row_pitch
from clmembench.host.cpu_topology import usable_cpus
from clmembench.model import Array, Batch, Call, Device, DeviceInfo, Metric, Skip, Value, Work
from clmembench.studies.peers.benchmarks import cuda_timing

PERFORMANCE = Metric("performance", "GFLOP/s", "flops", "rate", "higher")
FREIVALDS_VECTORS = 4  # of Freivalds' check
COMPARED_ELEMENTS = 4096  # elements of a GPU's matrix that the host compares
CHUNKS_PER_OPERAND = 4  # of values that fit beside the operands
OPERANDS = "three matrices and what checks them"
BLAS_NAMES = {"openblas": "OpenBLAS", "mkl": "MKL", "blis": "BLIS", "flexiblas": "FlexiBLAS"}
NUMPY_TYPES: Mapping[str, np.dtype[Any]] = {"double": np.dtype(np.float64), "float": np.dtype(np.float32)}
# a matrix as in dgemm.cl, and the product of each row with a few vectors, without the library that is measured
CUDA_SOURCE = """
__device__ int element(unsigned long long i, unsigned seed, unsigned most) {
    unsigned h = ((unsigned)(i ^ (i >> 32)) * 2654435761u) ^ seed;
    h = (h ^ (h >> 15)) * 2246822519u;
    return (int)((h ^ (h >> 13)) % (2 * most + 1)) - (int)most;
}
extern "C" __global__ void fill(SCALAR *a, unsigned seed, unsigned most, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) a[i] = element(i, seed, most);
}
extern "C" __global__ void times(const SCALAR *a, const double *x, double *y, unsigned long long n, unsigned vectors) {
    unsigned long long row = blockIdx.x;
    double sum[VECTORS] = {0};
    for (unsigned long long k = threadIdx.x; k < n; k += blockDim.x)
        for (int v = 0; v < VECTORS; ++v) sum[v] += a[row * n + k] * x[k * vectors + v];
    for (int v = 0; v < VECTORS; ++v) atomicAdd(&y[row * vectors + v], sum[v]);
}
"""


def require_memory(info: DeviceInfo, place: Literal["host", "device"], nbytes: int, what: str, remedy: str = "n") -> None:
    """Raises Skip where that many bytes do not fit into the memory of the host or of the device."""
    if nbytes > (info.host_mem_bytes if place == "host" else info.global_mem_bytes):
        raise Skip(f"{what} do not fit into this {place}'s memory: lower {remedy}")


def host_facts(library: str, version: str, threads: int = 1) -> Mapping[str, Value]:
    """Facts of a record about a library on the host."""
    return {"library": library, "version": version, "threads": threads, "timed": "one call at a time by the host's clock"}


def check_rows(wrong: Array) -> None:
    """Raises AssertionError where any row of a product is wrong."""
    rows = np.flatnonzero(wrong)
    assert not rows.size, f"{rows.size} of {len(wrong)} rows of the library's product are wrong, first row {rows[:1].sum()}"


def configure_blas(info: DeviceInfo) -> Mapping[str, Value]:
    """Gives NumPy's BLAS one thread for each CPU of this process; returns facts for the record."""
    from threadpoolctl import ThreadpoolController

    pools = ThreadpoolController()
    pools.limit(limits=len(usable_cpus()), user_api="blas")
    found = [pool for pool in pools.info() if pool["user_api"] == "blas"]
    # SciPy has its own copy
    mine = next((pool for pool in found if "numpy" in str(pool.get("filepath"))), found[0] if found else {})
    version = f"{mine.get('version') or 'of unknown version'} (NumPy {np.__version__})"
    return host_facts(BLAS_NAMES.get(mine.get("internal_api", ""), "a BLAS"), version, int(mine.get("num_threads", 1)))


@benchmark(
    PERFORMANCE,
    suite="compute",
    source="the host's BLAS, as NumPy has it",
    peer_of="dgemm",
    is_available=lambda info: info.kind == "cpu",
    figure_axis="n",
    dtype=axis("double", "float"),
    n=axis_of(lambda info: (512, 1024, 2048)),
)
def numpy_gemm(device: Device, dtype: str, n: int) -> Work:
    """Rate of C = A B by NumPy's BLAS on all cores, for the same matrices as dgemm's.

    A product has 2 n^3 FLOP. `numpy.dot` writes into an existing array, with one thread for each CPU. The product is compared
    exactly by Freivalds' check. Raises Skip for matrices that do not fit into the host's memory.
    """
    scalar = NUMPY_TYPES[dtype]
    require_memory(device.info, "host", CHUNKS_PER_OPERAND * 8 * n * n, OPERANDS)
    seeds = [(seed + device.seed) % 2**32 for seed in SEEDS]
    a, b = (element(np.arange(n * n), seed).reshape(n, n).astype(scalar) for seed in seeds)
    c = np.full((n, n), np.nan, scalar)
    vectors = np.random.default_rng(device.seed).integers(1, 17, (n, FREIVALDS_VECTORS)).astype(np.float64)
    wanted = _exact_product(a, _exact_product(b, vectors))

    def check() -> None:
        _check_elements(_exact_product(c, vectors), wanted)

    return Work(
        (Call(lambda: np.dot(a, b, out=c)),), flops=2 * n**3, check=check, clock="host", facts=configure_blas(device.info)
    )


def _exact_product(matrix: Array, vectors: Array) -> Array:
    """The product without the BLAS: sums of whole numbers below 2**53, exact in any order."""
    with np.errstate(all="ignore"):  # memory that was never written may hold anything
        return np.stack([(matrix * column).sum(axis=1, dtype=np.float64) for column in vectors.T], axis=1)


def _check_elements(found: Array, wanted: Array) -> None:
    check_rows((found != wanted).any(axis=1))  # a NaN equals nothing


@benchmark(
    PERFORMANCE,
    suite="compute",
    source="NVIDIA's cuBLAS, as CuPy has it",
    peer_of="dgemm",
    is_available=cuda_timing.is_available,
    figure_axis="n",
    dtype=axis("double", "float"),
    n=axis_of(lambda info: (1024, 4096, 8192)),
)
def cublas_gemm(device: Device, dtype: str, n: int) -> Work:
    """Rate of C = A B by cuBLAS, for the same matrices as dgemm's, with rows padded to 128 bytes.

    A product has 2 n^3 FLOP; double uses the instructions that cuBLAS chooses, single excludes TF32. Passes are enqueued behind
    a blocking kernel, between two CUDA events. The product is compared exactly by Freivalds' check, whose products come from a
    kernel of its own. Raises Skip where CuPy does not work or does not find this GPU, and for matrices that do not fit into its
    memory.
    """
    cupy = cuda_timing.cupy_on(device.info)
    scalar = NUMPY_TYPES[dtype]
    pitch = row_pitch(n, scalar.itemsize) // scalar.itemsize
    require_memory(device.info, "device", CHUNKS_PER_OPERAND * scalar.itemsize * n * pitch, OPERANDS)
    kernels = _kernels(cupy, "double" if dtype == "double" else "float")
    seeds = [(seed + device.seed) % 2**32 for seed in SEEDS]
    a, b = (_make_matrix(cupy, kernels, scalar, n, seed) for seed in seeds)
    vectors = np.random.default_rng(device.seed).integers(1, 17, (n, FREIVALDS_VECTORS)).astype(np.float64)
    wanted = cupy.asnumpy(_times_vectors(cupy, kernels, a, _times_vectors(cupy, kernels, b, cupy.asarray(vectors))))

    a = _padded(cupy, a, pitch)
    b = _padded(cupy, b, pitch)
    c = cupy.full((n, pitch), np.nan, scalar)

    def check() -> None:
        found = _times_vectors(cupy, kernels, cupy.ascontiguousarray(c[:, :n]), cupy.asarray(vectors))
        _check_elements(cupy.asnumpy(found), wanted)

    one, zero, cublas, plain = np.ones(1, scalar), np.zeros(1, scalar), cupy.cuda.cublas, 0
    product = cublas.dgemm if dtype == "double" else cublas.sgemm

    def multiply() -> object:
        # C by rows is its transpose by columns, the product of B's transpose and A's
        return product(
            cupy.cuda.device.get_cublas_handle(), plain, plain, n, n, n,
            one.ctypes.data, b.data.ptr, pitch, a.data.ptr, pitch, zero.ctypes.data, c.data.ptr, pitch,
        )  # fmt: skip

    facts = cuda_timing.library_facts(cupy, "cuBLAS", lambda: cublas.getVersion(cupy.cuda.device.get_cublas_handle()), 10_000)
    return Work((Batch(cuda_timing.timed_batch(cupy, multiply)),), flops=2 * n**3, check=check, facts=facts)


@cache
def _kernels(cupy: Any, scalar: str) -> Any:
    return cupy.RawModule(code=f"#define SCALAR {scalar}\n#define VECTORS {FREIVALDS_VECTORS}\n{CUDA_SOURCE}")


def _make_matrix(cupy: Any, kernels: Any, scalar: np.dtype[np.generic], n: int, seed: int) -> Any:
    """The matrix of that seed, generated on the GPU; some of its elements are compared with the host's. Raises
    AssertionError."""
    matrix = cupy.empty((n, n), scalar)
    group = 256
    arguments = (matrix, np.uint32(seed), np.uint32(MAX_ELEMENT), np.uint64(n * n))
    kernels.get_function("fill")((-(-n * n // group),), (group,), arguments)
    index = np.random.default_rng(seed).integers(0, n * n, COMPARED_ELEMENTS)
    found = cupy.asnumpy(matrix.ravel()[cupy.asarray(index)]).astype(np.float64)
    assert np.array_equal(found, element(index, seed)), "the GPU's matrix is not that of dgemm"
    return matrix


def _padded(cupy: Any, matrix: Any, pitch: int) -> Any:
    """The matrix with zeros behind each row, whose elements and zeros are so many."""
    wide = cupy.zeros((len(matrix), pitch), matrix.dtype)
    wide[:, : matrix.shape[1]] = matrix
    return wide


def _times_vectors(cupy: Any, kernels: Any, matrix: Any, vectors: Any) -> Any:
    """The product of a matrix and some vectors, shape (n, FREIVALDS_VECTORS): exact sums of whole numbers."""
    n = matrix.shape[0]
    found = cupy.zeros((n, FREIVALDS_VECTORS))
    kernels.get_function("times")((n,), (256,), (matrix, vectors, found, np.uint64(n), np.uint32(FREIVALDS_VECTORS)))
    return found


# cudaDataType of operands and of the result, and cublasComputeType: sums of 32 bits, floats by TF32
CUDA_TYPES = {"half": (2, 0, 68), "bfloat16": (14, 0, 68), "tf32": (0, 0, 77), "char": (3, 10, 72)}
DEFAULT_ALGORITHM = -1
NOT_SUPPORTED = "CUBLAS_STATUS_NOT_SUPPORTED"


@benchmark(
    *RATES.values(),
    suite="compute",
    source="NVIDIA's cuBLAS, as CuPy has it",
    peer_of="gemm",
    is_available=cuda_timing.is_available,
    figure_axis="n",
    dtype=axis(*RATES),
    n=axis(*SIZES),
)
def cublas_gemm_ex(device: Device, dtype: str, n: int) -> Work:
    """Rate of C = A B in low precision by cuBLAS (cublasGemmEx), for the same matrices, layout and types as gemm's.

    A product has 2 n^3 operations. Passes are enqueued behind a blocking kernel, between two CUDA events. The product is
    compared exactly by Freivalds' check, whose products come from a kernel of its own and from the host. Raises Skip where CuPy
    does not work or does not find this GPU, for matrices that do not fit into its memory, and for what this cuBLAS does not
    multiply.
    """
    cupy = cuda_timing.cupy_on(device.info)
    bits, result = element_bits(dtype), result_type(dtype)
    pitch = row_pitch(n, bits.itemsize) // bits.itemsize
    require_memory(device.info, "device", n * (2 * pitch * bits.itemsize + n * CHUNKS_PER_OPERAND * result.itemsize), OPERANDS)
    seeds = ((SEEDS[0] + device.seed) % 2**32, (SEEDS[1] + device.seed) % 2**32)
    kernels, values = _kernels(cupy, "signed char"), cupy.asarray(bits)
    a, b = (_make_matrix(cupy, kernels, np.dtype(np.int8), n, seed).astype(np.int32) + MAX_ELEMENT for seed in seeds)
    left, right = _padded(cupy, values[a], pitch), _padded(cupy, values[b.T], pitch)
    del a, b
    c = cupy.full((n, n), -1, result)
    one, zero = np.ones(1, result), np.zeros(1, result)
    kind, result_kind, computed = CUDA_TYPES[dtype]
    cublas, transposed, plain = cupy.cuda.cublas, 1, 0

    def multiply() -> object:
        # C by rows is its transpose by columns, the product of B's transpose and A's
        return cublas.gemmEx(
            cupy.cuda.device.get_cublas_handle(), transposed, plain, n, n, n,
            one.ctypes.data, right.data.ptr, kind, pitch, left.data.ptr, kind, pitch,
            zero.ctypes.data, c.data.ptr, result_kind, n, computed, DEFAULT_ALGORITHM,
        )  # fmt: skip

    try:
        multiply()
    except cublas.CUBLASError as error:
        if NOT_SUPPORTED not in str(error):
            raise
        raise Skip(f"this cuBLAS does not multiply matrices of {dtype} at n = {n}: {error}") from error
    multiplied = _kernels(cupy, "int" if dtype == "char" else "float")

    def check() -> None:
        vectors, wanted = expected_products(n, seeds)
        _check_elements(cupy.asnumpy(_times_vectors(cupy, multiplied, c, cupy.asarray(vectors))), wanted)

    facts = cuda_timing.library_facts(cupy, "cuBLAS", lambda: cublas.getVersion(cupy.cuda.device.get_cublas_handle()), 10_000)
    return Work((Batch(cuda_timing.timed_batch(cupy, multiply)),), flops=2 * n**3, check=check, facts=facts)
