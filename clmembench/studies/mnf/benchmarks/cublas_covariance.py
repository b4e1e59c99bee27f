"""Peers of mnf_covariance: the sums by cuBLAS in double, by syrk as in Fang et al. (table 8) and by a product of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Batch, Device, Work
from clmembench.studies.mnf.benchmarks import numpy_mnf
from clmembench.studies.mnf.benchmarks.mnf_steps import (
    POINT_LIMIT_S,
    SIZE_AXIS,
    SOURCE,
    TIME,
    cube_of,
    noise_of,
    require_size,
    sums_of,
)
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import check_rows, require_memory

UPPER_BY_ROWS, TRANSPOSED = 0, 1  # cuBLAS counts by columns: the lower triangle there is the upper one of rows
VALUE_BYTES = 8 + 2  # of a double and of what it is made from


@benchmark(
    TIME,
    suite="compute",
    source=f"NVIDIA's cuBLAS, as CuPy has it; {SOURCE}.3, table 8",
    peer_of="mnf_covariance",
    is_available=cuda_timing.is_available,
    max_time_s=POINT_LIMIT_S,
    of=axis("noise", "data"),
    size=SIZE_AXIS,
)
def cublas_syrk(device: Device, of: str, size: str) -> Work:
    """Time of the sums of a covariance matrix by cuBLAS's syrk, which computes one triangle.

    A pass converts the values to double, since sums in single precision are not exact, and also sums each band (gemv). All sums
    are compared exactly. Raises Skip where CuPy does not work or does not find this GPU, and for a cube that does not fit.
    """

    def syrk(cupy: Any, doubles: Any, products: Any) -> None:
        (bands, pixels), one, zero = doubles.shape, np.ones(1), np.zeros(1)
        cupy.cuda.cublas.dsyrk(
            cupy.cuda.device.get_cublas_handle(), UPPER_BY_ROWS, TRANSPOSED, bands, pixels,
            one.ctypes.data, doubles.data.ptr, pixels, zero.ctypes.data, products.data.ptr, bands,
        )  # fmt: skip

    return _sums(device, of, size, "cuBLAS syrk", syrk)


@benchmark(
    TIME,
    suite="compute",
    source=f"NVIDIA's cuBLAS, as CuPy has it; {SOURCE}.3",
    peer_of="mnf_covariance",
    is_available=cuda_timing.is_available,
    max_time_s=POINT_LIMIT_S,
    of=axis("noise", "data"),
    size=SIZE_AXIS,
)
def cublas_gram(device: Device, of: str, size: str) -> Work:
    """Time of the sums of a covariance matrix by cuBLAS's product of the matrix and its transpose, which computes both
    triangles.

    Conversion, the sums of bands, verification and Skip are those of cublas_syrk.
    """
    return _sums(device, of, size, "cuBLAS gemm", lambda cupy, doubles, products: cupy.matmul(doubles, doubles.T, out=products))


def _sums(device: Device, of: str, size: str, library: str, multiply: Callable[[Any, Any, Any], object]) -> Work:
    """Conversion, `multiply`, of the library and function named, and the sums of bands as one pass."""
    shape = require_size(size)
    require_memory(device.info, "device", VALUE_BYTES * shape.bands * shape.pixels, "the cube's values in double", "size")
    cupy = cuda_timing.cupy_on(device.info)
    numpy_mnf.use_one_blas_thread()
    rows = cube_of(shape, device.seed) if of == "data" else noise_of(shape, device.seed, "mean")
    values = cupy.asarray(rows.reshape(shape.bands, -1))
    doubles, ones = cupy.full(values.shape, np.nan), cupy.full(shape.pixels, 1.0)
    products, totals = cupy.full((shape.bands, shape.bands), np.nan), cupy.full(shape.bands, np.nan)
    cublas, handle, one, zero = cupy.cuda.cublas, cupy.cuda.device.get_cublas_handle(), np.ones(1), np.zeros(1)

    def once() -> None:
        doubles[...] = values
        multiply(cupy, doubles, products)
        cublas.dgemv(
            handle, TRANSPOSED, shape.pixels, shape.bands, one.ctypes.data, doubles.data.ptr, shape.pixels,
            ones.data.ptr, 1, zero.ctypes.data, totals.data.ptr, 1,
        )  # fmt: skip

    def check() -> None:
        found_totals, found_products = cupy.asnumpy(totals), np.triu(cupy.asnumpy(products))
        wanted_totals, wanted_products = sums_of(shape, device.seed, "data" if of == "data" else "mean")
        check_rows((found_products != np.triu(wanted_products)).any(axis=1) | (found_totals != wanted_totals))

    facts = cuda_timing.library_facts(cupy, library, lambda: cublas.getVersion(handle), 10_000)
    return Work((Batch(cuda_timing.timed_batch(cupy, once)),), ops=1, check=check, facts=facts)
