"""Peers of stream and transfer: copies and dot products of the host's libraries, and CUDA's own copies through CuPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from clmembench.benchmarks import BANDWIDTH, MIB, axis, axis_of, benchmark, headline_bytes
from clmembench.benchmarks.link.transfer import DUPLEX, LINK_BANDWIDTH, SEED, pattern
from clmembench.model import Batch, Call, Command, Device, DeviceInfo, Value, Work
from clmembench.studies.peers.benchmarks import cuda_timing
from clmembench.studies.peers.benchmarks.reference_blas import NUMPY_TYPES, configure_blas, host_facts, require_memory

BATCH_BYTES, MAX_COPIES = 2 << 30, 256  # over the link: the cost of starting and waiting is then negligible
BLOCK_ELEMENTS = (1 << 20) + 7  # random elements, which are repeated
INPUT_LEVELS = 16  # of inputs of a dot product, so that its sum is exact


def _is_large(info: DeviceInfo, array_bytes: int, **_: Value) -> bool:
    """Whether arrays are so large that a call from Python is a small part of the time."""
    return array_bytes >= MIB


@benchmark(
    BANDWIDTH,
    suite="memory",
    source="NumPy's copyto, and dot by its BLAS",
    peer_of="stream",
    is_available=lambda info: info.kind == "cpu",
    where=_is_large,
    figure_axis="array_bytes",
    op=axis("copy", "dot"),
    dtype=axis("double", "float"),
    array_bytes=axis_of(lambda info: (headline_bytes(info),)),
)
def numpy_stream(device: Device, op: str, dtype: str, array_bytes: int) -> Work:
    """Bandwidth of NumPy's copy on one thread, and of its BLAS's dot product, over arrays as large as stream's.

    Bytes are counted as in STREAM. Copies are compared element by element, the dot product within the rounding error of a sum
    of its length in its type. Raises Skip where the arrays do not fit into the host's memory.
    """
    require_memory(device.info, "host", 4 * array_bytes, "two arrays", "--size")
    count, rng = array_bytes // NUMPY_TYPES[dtype].itemsize, np.random.default_rng(device.seed)
    blocks = [rng.integers(0, INPUT_LEVELS, BLOCK_ELEMENTS, dtype=np.uint8).astype(NUMPY_TYPES[dtype]) for _ in range(2)]
    b, other = (np.resize(block, count) for block in blocks)  # repeated: drawing all would take seconds
    if op == "copy":
        c = np.full(count, np.nan, NUMPY_TYPES[dtype])
        facts = host_facts("NumPy", np.__version__)

        def check() -> None:
            assert np.array_equal(b, c), "NumPy's copy is not what was copied"

        return Work((Call(lambda: np.copyto(c, b)),), nbytes=2 * b.nbytes, check=check, clock="host", facts=facts)
    products, rest = (blocks[0] * blocks[1]).astype(np.float64), count % BLOCK_ELEMENTS
    wanted = float(count // BLOCK_ELEMENTS * products.sum() + products[:rest].sum())  # exact: whole numbers
    allowed = count * float(np.finfo(NUMPY_TYPES[dtype]).eps) * wanted
    found = {"dot": np.nan}

    def multiply() -> None:
        found["dot"] = float(np.dot(b, other))

    def check_sum() -> None:
        assert abs(found["dot"] - wanted) <= allowed, f"the library's dot product is {found['dot']!r}, not {wanted!r}"

    facts = configure_blas(device.info)
    return Work((Call(multiply),), nbytes=2 * b.nbytes, flops=2 * count, check=check_sum, clock="host", facts=facts)


@benchmark(
    BANDWIDTH,
    suite="memory",
    source="CUDA's cudaMemcpyAsync, through CuPy",
    peer_of="stream",
    is_available=cuda_timing.is_available,
    where=_is_large,
    figure_axis="array_bytes",
    op=axis("copy"),
    dtype=axis("double", "float"),
    array_bytes=axis_of(lambda info: (headline_bytes(info),)),
)
def cuda_copy(device: Device, op: str, dtype: str, array_bytes: int) -> Work:
    """Bandwidth of CUDA's copy from device memory to device memory, over arrays as large as stream's.

    Bytes read and bytes written are counted. Passes are enqueued behind a blocking kernel, between two CUDA events. All bytes
    are compared. Raises Skip where CuPy does not work or does not find this GPU, and where two arrays do not fit into its
    memory.
    """
    require_memory(device.info, "device", 3 * array_bytes, "two arrays", "--size")
    cupy = cuda_timing.cupy_on(device.info)
    words = array_bytes // 4
    source, target = cupy.arange(words, dtype=np.uint32), cupy.zeros(words, np.uint32)
    source ^= np.uint32(device.seed % 2**32)
    nbytes = 4 * words
    stream = cupy.cuda.get_current_stream()

    def check() -> None:
        assert bool((source == target).all()), "CUDA's copy is not what was copied"
        last = np.array([words - 1], np.uint32) ^ np.uint32(device.seed % 2**32)
        assert np.array_equal(cupy.asnumpy(target[-1:]), last), "the last word is not what was copied, as the host sees it"

    batch = cuda_timing.timed_batch(cupy, lambda: target.data.copy_from_device_async(source.data, nbytes, stream))
    return Work((Batch(batch),), nbytes=2 * nbytes, check=check, facts=_cuda_facts(cupy, cuda_timing.NOTE_TIMING))


def _cuda_facts(cupy: object, timed: str) -> Mapping[str, Value]:
    """Facts of a record about CUDA's own copies."""
    version: Callable[[], int] = cupy.cuda.runtime.runtimeGetVersion  # type: ignore[attr-defined]
    # 13000 is 13.0, and 12080 12.8
    return {**cuda_timing.library_facts(cupy, "CUDA's copy", lambda: 10 * version(), 10_000), "timed": timed}


@benchmark(
    LINK_BANDWIDTH,
    DUPLEX,
    suite="link",
    source="CUDA's cudaMemcpyAsync from and to pinned memory, through CuPy",
    peer_of="transfer",
    is_available=cuda_timing.is_available,
    where=_is_large,
    figure_axis="array_bytes",
    min_time_s=0.4,  # as transfer
    direction=axis("to_device", "from_device", "both"),
    memory=axis("pinned"),
    array_bytes=axis_of(lambda info: (min(256 * MIB, headline_bytes(info)),)),
)
def cuda_transfer(device: Device, direction: str, memory: str, array_bytes: int) -> Work:
    """Bandwidth between pinned host memory and the device by CUDA's copies, timed as in transfer, by the host's clock.

    As many back-to-back copies as make 2 GiB (at most 256), waited for once. Both directions run on two streams, and the bytes
    of both count. Arrived data are compared word by word. Raises Skip where CuPy does not work or does not find this GPU.
    """
    cupy = cuda_timing.cupy_on(device.info)
    import cupyx

    words, seed = array_bytes // 4, SEED + device.seed
    outgoing, incoming = (cupyx.empty_pinned(words, np.uint32) for _ in range(2))
    sent, received = pattern(words, seed), pattern(words, seed + 1)
    outgoing[:], incoming[:] = sent, 0
    there, back = cupy.zeros(words, np.uint32), cupy.asarray(received)
    runtime, streams = cupy.cuda.runtime, [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    # keeps source and target alive: a copy knows only their addresses
    jobs: list[tuple[Callable[[], object], Any, Any]] = []
    if direction != "from_device":
        to, at, one = there.data.ptr, outgoing.ctypes.data, streams[0].ptr
        jobs.append((lambda: runtime.memcpyAsync(to, at, 4 * words, runtime.memcpyHostToDevice, one), outgoing, there))
    if direction != "to_device":
        home, of, other = incoming.ctypes.data, back.data.ptr, streams[1].ptr
        jobs.append((lambda: runtime.memcpyAsync(home, of, 4 * words, runtime.memcpyDeviceToHost, other), back, incoming))
    used = streams if direction == "both" else streams[:1] if direction == "to_device" else streams[1:]
    cupy.cuda.Device().synchronize()
    times = max(1, min(MAX_COPIES, BATCH_BYTES // array_bytes))

    def copy() -> None:
        for _ in range(times):
            for start, _, _ in jobs:
                start()
        for stream in used:
            stream.synchronize()

    def check() -> None:
        if direction != "from_device":
            assert np.array_equal(cupy.asnumpy(there), sent), "the device did not receive what the host sent"
        if direction != "to_device":
            assert np.array_equal(incoming, received), "the host did not receive what the device sent"

    commands: tuple[Command, ...] = (Call(copy),)
    facts = _cuda_facts(cupy, f"{times} copies back to back by the host's clock, waited for once")
    return Work(commands, nbytes=times * 4 * words * len(jobs), check=check, clock="host", facts=facts)
