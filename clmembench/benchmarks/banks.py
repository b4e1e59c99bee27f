"""Latency of local memory over the stride between work-items, which reveals its banks."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import LATENCY, axis, axis_of, benchmark
from clmembench.benchmarks.chase.spaces import SPARE_BYTES
from clmembench.model import Device, DeviceInfo, Launch, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

STEPS_A_BLOCK = 16  # as unrolled in banks.cl
SUB_GROUP = 32  # most GPUs' size; drivers without cl_khr_subgroups report none
NARROW = 4  # bytes of a word that holds only the place of the next one
WORDS = {NARROW: "uint", 8: "uint2"}  # bytes: type
MOST_STRIDE = 64
COUNTED = 32  # where conflicts are likely: the number of work-items is varied
# fewer: 8-byte words mostly repeat the result of 4-byte words
WIDE = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 24, 31, 32, 33, 64)


def _strides(info: DeviceInfo) -> tuple[int, ...]:
    """Strides in words; on CPUs, which have no banks, only a few, to show that."""
    return (0, 1, 2, 3, 4, 8, 16, 31, 32, 33, 64) if info.kind == "cpu" else tuple(range(MOST_STRIDE + 1))


def _items(info: DeviceInfo) -> tuple[int, ...]:
    return (SUB_GROUP,) if info.kind == "cpu" else (SUB_GROUP, 1, 2, 4, 8, 16, 64)


def _where(info: DeviceInfo, stride: int, word_bytes: int, items: int) -> bool:
    return items == SUB_GROUP or stride == COUNTED


def _thin(info: DeviceInfo, stride: int, word_bytes: int, items: int) -> bool:
    """Points of the default subset: 4-byte words at all strides; 8-byte words at fewer strides, and with 1 or 2 work-items
    besides a sub-group's."""
    if items != SUB_GROUP:
        return word_bytes == 4 or items <= 2
    return word_bytes == 4 or stride in WIDE


@benchmark(
    LATENCY,
    suite="access",
    source="Mei & Chu 2015, section 6.2; Fang et al. 2017, section 6.2",
    where=_where,
    thin=_thin,
    x="stride",
    stride=axis_of(_strides),
    word_bytes=axis(*WORDS),
    items=axis_of(_items),
)
def banks(device: Device, stride: int, word_bytes: int, items: int) -> Slope:
    """Latency of a load from local memory by one work-group of `items`, whose words lie `stride` words apart.

    The latency is a slope over dependent loads, which every work-item makes: each word holds the place of the next work-item's
    word. With a stride of 0 all load one word. A stride of 32 is a column of a [32][32] tile of such words, a stride of 33 a
    column of a padded [32][33] tile. The second half of an 8-byte word is summed separately. Raises Skip for words and shapes
    that this device does not have.
    """
    if word_bytes not in WORDS:
        raise Skip(f"no type has {word_bytes} B here: choose from {', '.join(map(str, WORDS))}")
    if not 1 <= items <= device.info.max_work_group or stride < 0:
        raise Skip(f"{items} work-items at a stride of {stride} are no work-group of this device")
    words = items * max(MOST_STRIDE, stride)  # all usual strides run the same kernel
    if word_bytes * words > device.info.local_mem_bytes - SPARE_BYTES:
        raise Skip(f"{word_bytes * words} B do not fit into local memory, of which there are {device.info.local_mem_bytes} B")
    defines: dict[str, Value] = {"T": WORDS[word_bytes], "WORD_BYTES": word_bytes, "WORDS": words}
    kernel = device.build(kernel_source("banks"), PTX="ptx" in device.info.features, **defines)["follow"]
    reached = device.alloc(8 * items)

    def work(steps: int) -> Work:
        blocks = -(-steps // STEPS_A_BLOCK)

        def check() -> None:
            found, met = device.download(reached, np.uint32, 2 * items).reshape(2, items)
            loads = blocks * STEPS_A_BLOCK
            wanted = (np.arange(items) + loads) % items * stride
            assert np.array_equal(found, wanted), (
                "a work-item is not where so many loads lead: some were not made, or are wrong"
            )
            assert (met == (0 if word_bytes == NARROW else loads)).all(), "halves of some words were not loaded, or are wrong"

        return Work(
            commands=(Launch(kernel, (reached, np.uint32(stride), np.uint32(blocks)), (items,), (items,)),),
            ops=blocks * STEPS_A_BLOCK,
            outputs=((reached, 8 * items),),
            check=check,
        )

    return Slope(work, start=1 << 10, most=1 << 30)
