"""Bandwidth that is left when neighbours read every n-th word: an example of a benchmark in one .py and one .cl."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import MIB, axis, benchmark
from clmembench.model import Device, Launch, Metric, Work
from clmembench.resources import kernel_source

USEFUL = Metric("useful_bandwidth", "GB/s", "nbytes", "rate", "higher")
ITEMS = 4 * MIB


@benchmark(
    USEFUL,
    suite="memory",
    source="Fang et al. 2017, section 4 (non-consecutive access)",
    quick={"stride": axis(1, 16)},
    stride=axis(1, 2, 4, 8, 16, 32),
)
def strided_read(device: Device, stride: int) -> Work:
    """Useful bandwidth of a copy whose neighbouring work-items read words that lie `stride` words apart."""
    kernel = device.build(kernel_source("strided_read"), STRIDE=stride)["strided_read"]
    words = np.arange(ITEMS * stride, dtype=np.uint32)
    source, target = device.alloc(words.nbytes), device.alloc(4 * ITEMS)
    device.upload(source, words)

    def check() -> None:
        found = device.download(target, np.uint32, ITEMS)
        assert np.array_equal(found, words[::stride]), "the words that arrived are not the ones that lie a stride apart"

    return Work(
        commands=(Launch(kernel, (source, target), (ITEMS,), (64,)),),
        nbytes=2 * 4 * ITEMS,
        outputs=((target, 4 * ITEMS),),
        check=check,
    )
