"""Useful bandwidth when neighbouring work-items read every n-th word: an example of a benchmark in one .py and one .cl."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import MIB, axis, benchmark, headline_bytes
from clmembench.model import Device, Launch, Metric, Skip, Work
from clmembench.resources import kernel_source

USEFUL = Metric("useful_bandwidth", "GB/s", "nbytes", "rate", "higher")
MAX_ARRAY_BYTES = 256 * MIB  # many times most caches, and soon filled by the host
WORK_GROUP = 64


@benchmark(
    USEFUL,
    suite="memory",
    source="Fang et al. 2017, section 4 (non-consecutive access)",
    quick={"stride": axis(1, 16)},
    stride=axis(1, 2, 4, 8, 16, 32),
)
def strided_read(device: Device, stride: int) -> Work:
    """Useful bandwidth of a copy whose neighbouring work-items read words that lie `stride` words apart.

    Counts the words read and the words written, 4 bytes each, and none that were fetched but not used.
    """
    array_bytes = device.info.array_bytes or min(MAX_ARRAY_BYTES, headline_bytes(device.info))  # --size, where it is given
    items = array_bytes // (4 * stride * WORK_GROUP) * WORK_GROUP
    if items == 0:
        raise Skip(f"an array of {array_bytes} B gives no work-group {WORK_GROUP} words that lie {stride} apart: raise --size")
    kernel = device.build(kernel_source("strided_read"), STRIDE=stride)["strided_read"]
    words = np.arange(items * stride, dtype=np.uint32)
    source, target = device.alloc(words.nbytes), device.alloc(4 * items)
    device.upload(source, words)

    def check() -> None:
        found = device.download(target, np.uint32, items)
        assert np.array_equal(found, words[::stride]), "the words that arrived are not those that lie a stride apart"

    return Work(
        commands=(Launch(kernel, (source, target), (items,), (WORK_GROUP,)),),
        nbytes=2 * 4 * items,
        outputs=((target, 4 * items),),
        check=check,
    )
