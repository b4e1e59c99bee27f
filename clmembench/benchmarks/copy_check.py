"""The array that copying benchmarks copy, and the check that all of it arrived."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clmembench.benchmarks import MIB, headline_bytes
from clmembench.model import Array, Buffer, Device, DeviceInfo, Launch
from clmembench.resources import kernel_source

MAX_GPU_ARRAY_BYTES = 512 * MIB  # far larger than any cache, and still copied quickly by few work-items
HOST_CHECKED_WORDS = 4096  # words at each end that the host also compares
SEED = 0x9E3779B9
CACHE_LINE_WORDS = 16  # of 4 bytes


def store_kinds(info: DeviceInfo) -> tuple[int, ...]:
    """Kinds of stores of a copy, 1 for non-temporal, the likely best first.

    A CPU's ordinary stores read first what they overwrite, so that a copy moves half as much again as is counted. GPUs write
    whole sectors anyway.
    """
    return (1, 0) if info.has_cpu_cores else (0,)


def copy_array_bytes(info: DeviceInfo) -> int:
    """Bytes of the copied array: more than any cache holds, or the user's --size."""
    return headline_bytes(info) if info.kind == "cpu" else min(MAX_GPU_ARRAY_BYTES, headline_bytes(info))


def expected_words(first: int, count: int, seed: int) -> Array:
    """The words of copied.cl from index `first` on: uint32 of shape (count,)."""
    i = np.arange(first, first + count, dtype=np.uint64)
    folded = i.astype(np.uint32) ^ ((i >> np.uint64(32)).astype(np.uint32) * np.uint32(2246822519))
    h = (folded * np.uint32(2654435761)) ^ np.uint32(seed)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    return h ^ (h >> np.uint32(13))


def prepare_copy(device: Device, nbytes: int) -> tuple[Buffer, Buffer, Callable[[], None]]:
    """A filled array of at least `nbytes`, an array for its copy, and the check that all bytes arrived.

    The check compares every word on the device, and both ends up to the last byte on the host; it raises AssertionError. Points
    of one process share arrays of the same size.
    """
    count, seed = -(-nbytes // 4), (SEED + device.seed) % 2**32
    kernels = device.build(kernel_source("copied"))
    source, target, wrong = device.kept("copied from", 4 * count), device.kept("copied to", 4 * count), device.alloc(4)
    device.run([Launch(kernels["fill_words"], (source, np.uint32(seed)), (count,))])

    def check() -> None:
        whole = nbytes // 4
        if whole:
            device.upload(wrong, np.zeros(1, np.uint32))
            device.run([Launch(kernels["count_wrong"], (target, np.uint32(seed), wrong), (whole,))])
            bad = int(device.download(wrong, np.uint32, 1)[0])
            assert bad == 0, f"{bad} of {whole} words differ from the source"
        # the host also compares, so that the device does not only check itself
        for first in {0, max(0, count - HOST_CHECKED_WORDS)}:
            expected = expected_words(first, min(HOST_CHECKED_WORDS, count - first), seed).view(np.uint8)[: nbytes - 4 * first]
            found = device.download(target, np.uint8, expected.size, 4 * first)
            assert np.array_equal(found, expected), f"bytes from {4 * first} on differ from the source, as the host sees it"

    return source, target, check
