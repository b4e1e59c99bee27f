"""Peers of reduction: the sum of n doubles by NumPy, and by CUB through CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from clmembench.benchmarks import BANDWIDTH, axis_of, benchmark
from clmembench.benchmarks.reduction import ROW_BITS, SEED, exact_total, hash_9_bits
from clmembench.model import Array, Batch, Call, Device, DeviceInfo, Work
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import host_facts, require_memory

MIN_ELEMENTS = 1 << 20  # with fewer, a call from Python is much of the time


def _is_long(info: DeviceInfo, n: int) -> bool:
    return n >= MIN_ELEMENTS


def _element_parts(n: int, seed: int) -> tuple[Array, Array]:
    """Terms of reduction's elements: 1 plus a number of the row, (rows, 1), and a number of the column, (1, columns)."""
    columns, rows = 1 << ROW_BITS, -(-n // (1 << ROW_BITS))
    row = 1 + hash_9_bits(np.arange(rows), seed ^ 0xFFFFFFFF).astype(np.float64)
    return row[:, None], hash_9_bits(np.arange(columns), seed).astype(np.float64)[None, :]


def _check(found: Any, n: int, seed: int) -> None:
    wanted = exact_total(n, seed)
    assert float(found) == wanted, f"the library's sum is {float(found)!r}, not {wanted}"


@benchmark(
    BANDWIDTH,
    suite="sync",
    source="NumPy's sum",
    peer_of="reduction",
    is_available=lambda info: info.kind == "cpu",
    where=_is_long,
    figure_axis="n",
    n=axis_of(lambda info: (1 << 20, 1 << 25)),
)
def numpy_sum(device: Device, n: int) -> Work:
    """Time to sum n doubles by NumPy on one thread, for the same elements as reduction's, from a million of them on.

    Bytes are those of the n doubles. The sum is compared exactly. Raises Skip where they do not fit into the host's memory.
    """
    require_memory(device.info, "host", 4 * 8 * n, "the elements")
    seed = (SEED + device.seed) % 2**32
    elements = np.add(*_element_parts(n, seed)).ravel()[:n]
    found = np.full(1, np.nan)
    facts = host_facts("NumPy", np.__version__)
    call = Call(lambda: np.sum(elements, out=found[0:1].reshape(())))
    return Work((call,), nbytes=8 * n, flops=n - 1, ops=1, check=lambda: _check(found[0], n, seed), clock="host", facts=facts)


@benchmark(
    BANDWIDTH,
    suite="sync",
    source="NVIDIA's CUB, as CuPy has it",
    peer_of="reduction",
    is_available=cuda_timing.is_available,
    where=_is_long,
    figure_axis="n",
    n=axis_of(lambda info: (1 << 24, 1 << 28)),
)
def cub_sum(device: Device, n: int) -> Work:
    """Time to sum n doubles by CUB to one double in device memory, for the same elements as reduction's, from a million on.

    Bytes are those of the n doubles. Passes are enqueued behind a blocking kernel, between two CUDA events. The sum is compared
    exactly. Raises Skip where CuPy does not work or does not find this GPU, or where the elements do not fit.
    """
    require_memory(device.info, "device", 3 * 8 * n, "the elements")
    cupy = cuda_timing.cupy_on(device.info)
    cupy._core.set_reduction_accelerators(["cub"])
    seed = (SEED + device.seed) % 2**32
    elements = cupy.add(*map(cupy.asarray, _element_parts(n, seed))).ravel()[:n]
    found = cupy.full((), np.nan)
    facts = cuda_timing.library_facts(cupy, "CUB", lambda: int(cupy.cuda.cub.get_build_version()), 100_000)
    batch = Batch(cuda_timing.timed_batch(cupy, lambda: cupy.sum(elements, out=found)))
    return Work((batch,), nbytes=8 * n, flops=n - 1, ops=1, check=lambda: _check(found, n, seed), facts=facts)
