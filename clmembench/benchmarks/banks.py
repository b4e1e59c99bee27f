"""Latency of local memory by the stride between work-items, which reveals its banks."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import (
    LATENCY,
    LOCAL_LATENCY,
    axis,
    axis_of,
    benchmark,
    telling_count,
    work_group_sizes,
)
from clmembench.benchmarks.spaces import RESERVED_LOCAL_BYTES
from clmembench.model import Device, DeviceInfo, Launch, Quantity, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

STEPS_PER_BLOCK = 17  # as unrolled in banks.cl
ASSUMED_SUB_GROUP_SIZE = 32  # most GPUs' size; drivers without cl_khr_subgroups report none
NARROW_WORD_BYTES = 4  # such a word holds only the index of the next one
WORD_TYPES = {NARROW_WORD_BYTES: "uint", 8: "uint2"}  # bytes: type
MAX_STRIDE = 64
CONFLICT_STRIDE = 32  # the number of work-items is varied at this stride, where conflicts are likely
# fewer strides: 8-byte words mostly repeat the result of 4-byte words
WIDE_WORD_STRIDES = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 24, 31, 32, 33, 64)


def _strides(info: DeviceInfo) -> tuple[int, ...]:
    """Strides in words; on CPUs only a few, to show that they have no banks."""
    return (0, 1, 2, 3, 4, 8, 16, 31, 32, 33, 64) if info.has_cpu_cores else tuple(range(MAX_STRIDE + 1))


def _item_counts(info: DeviceInfo) -> tuple[int, ...]:
    sizes = (ASSUMED_SUB_GROUP_SIZE,) if info.has_cpu_cores else (ASSUMED_SUB_GROUP_SIZE, 1, 2, 4, 8, 16, 64)
    return tuple(dict.fromkeys((_usual_items(info), *work_group_sizes(info, *sizes))))


def _usual_items(info: DeviceInfo) -> int:
    """The work-items of a sub-group, or as many as the device allows."""
    return work_group_sizes(info, ASSUMED_SUB_GROUP_SIZE)[0]


def _where(info: DeviceInfo, stride: int, word_bytes: int, items: int) -> bool:
    return items == _usual_items(info) or stride == CONFLICT_STRIDE


def _in_default_subset(info: DeviceInfo, stride: int, word_bytes: int, items: int) -> bool:
    """Points of the default subset: 4-byte words at all strides, 8-byte words at fewer strides.

    The latter also have 1 and 2 work-items besides a sub-group's.
    """
    if items != _usual_items(info):
        return word_bytes == 4 or items <= 2
    return word_bytes == 4 or stride in WIDE_WORD_STRIDES


@benchmark(
    LATENCY,
    suite="access",
    source="Mei & Chu 2015, section 6.2; Fang et al. 2017, section 6.2",
    quantities=[Quantity(LOCAL_LATENCY, "latency", {"stride": (1,), "word_bytes": (4,)}, devices="others")],
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="stride",
    stride=axis_of(_strides),
    word_bytes=axis(*WORD_TYPES),
    items=axis_of(_item_counts),
)
def banks(device: Device, stride: int, word_bytes: int, items: int) -> Slope:
    """Latency of a load from local memory by one work-group of `items`, whose words lie `stride` words apart.

    The latency is a slope over dependent loads of every work-item: each word holds the index of the next one, a stride further
    on. With a stride of 0 all work-items load the same word, and then the next one. A stride of 32 is a column of a [32][32]
    tile of such words, a stride of 33 a column of a padded [32][33] tile. The second half of an 8-byte word is summed
    separately. The final position of each work-item verifies the number of its loads. Raises Skip for words and shapes that
    this device does not have.
    """
    if word_bytes not in WORD_TYPES:
        raise Skip(f"no type has {word_bytes} B: choose from {', '.join(map(str, WORD_TYPES))}")
    if not 1 <= items <= device.info.max_work_group or stride < 0:
        raise Skip(f"{items} work-items at a stride of {stride} exceed a work-group of this device")
    ring, apart = max(items, ASSUMED_SUB_GROUP_SIZE), max(1, stride)
    words = ring * max(MAX_STRIDE, stride)  # all default strides use the same kernel
    if word_bytes * words > device.info.local_mem_bytes - RESERVED_LOCAL_BYTES:
        raise Skip(f"{word_bytes * words} B do not fit into the device's {device.info.local_mem_bytes} B of local memory")
    defines: dict[str, Value] = {"T": WORD_TYPES[word_bytes], "WORD_BYTES": word_bytes, "WORDS": words, "RING": ring}
    kernel = device.build(kernel_source("banks"), PTX="ptx" in device.info.features, **defines)["follow"]
    reached = device.alloc(12 * items)

    def work(steps: int) -> Work:
        blocks = telling_count(-(-steps // STEPS_PER_BLOCK), ring, STEPS_PER_BLOCK)

        def check() -> None:
            ends, halves, made = device.download(reached, np.uint32, 3 * items).reshape(3, items)
            loads = blocks * STEPS_PER_BLOCK
            first = np.arange(items) if stride else np.zeros(items, np.int64)
            wanted = (first + loads) % ring * apart
            assert (made == loads).all(), f"some work-items made {made[made != loads][0]} loads, not {loads}"
            assert np.array_equal(ends, wanted), "a work-item ended at the wrong word: some loads were left out, or are wrong"
            assert (halves == (0 if word_bytes == NARROW_WORD_BYTES else loads)).all(), (
                "halves of some words were not loaded, or are wrong"
            )

        return Work(
            commands=(Launch(kernel, (reached, np.uint32(stride), np.uint32(apart), np.uint32(blocks)), (items,), (items,)),),
            ops=blocks * STEPS_PER_BLOCK,
            outputs=((reached, 12 * items),),
            check=check,
        )

    return Slope(work, start=1 << 10, most=1 << 30)
