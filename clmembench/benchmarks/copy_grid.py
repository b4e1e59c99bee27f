"""Throughput of global memory by number and size of work-groups, and by the words that each work-item has in flight."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import (
    BANDWIDTH,
    MEMORY_COPIES,
    axis_of,
    benchmark,
    work_group_sizes,
)
from clmembench.benchmarks.copy_check import CACHE_LINE_WORDS, copy_array_bytes, prepare_copy, store_kinds
from clmembench.model import Device, DeviceInfo, Launch, Quantity, Skip, Value, Work
from clmembench.resources import kernel_source

ILPS = (1, 2, 4, 8)  # as in copy_grid.cl
VECTOR_WIDTHS = (1, 2, 4, 8, 16)  # words of a vector; a vector of 3 occupies 4
GPU_GROUPS_PER_UNIT = (1, 2, 4, 8, 16, 32, 256)  # work-groups
MAX_RESIDENT_ITEMS = 2048  # per compute unit, on most GPUs
QUEUED_GROUPS = (256, 256)  # work-items, and work-groups per unit: most wait, so that fast units take more of them
GPU_WIDTH = 2  # words: with one an H200's best copy of the grid had 92% of its fastest one, with two 97%, with four as much

NOTE_IN_STEP = (
    "here a core runs the work-items of a work-group in a loop: one barrier per round keeps them on neighbouring words"
)


def _group_counts(info: DeviceInfo) -> tuple[int, ...]:
    """Numbers of work-groups: on GPUs from a quarter of the compute units to many per unit; on CPUs 1, one per unit, and 4 per
    unit."""
    units = info.compute_units
    if info.has_cpu_cores:
        return tuple(dict.fromkeys((1, units, 4 * units)))
    return tuple(dict.fromkeys((max(1, units // 4), *(n * units for n in GPU_GROUPS_PER_UNIT))))


def _group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    return work_group_sizes(info, *((64, 1024) if info.has_cpu_cores else (32, 64, 256, 1024)))


def _in_default_subset(info: DeviceInfo, groups: int, work_group: int, ilp: int, array_bytes: int, **_: Value) -> bool:
    """Points of the default subset.

    Work-groups are at most as many as can be resident, but for one size, of which many more are queued where the array is large
    enough. Large ones have few numbers below one per compute unit, small ones every other number above.
    """
    if info.has_cpu_cores:
        return True
    units, small = info.compute_units, work_group < 256
    if groups < units:
        return work_group in (_group_sizes(info)[0], _group_sizes(info)[-1])
    if (work_group, groups) == (QUEUED_GROUPS[0], QUEUED_GROUPS[1] * units):
        return ilp * groups * work_group * 4 * GPU_WIDTH <= array_bytes
    return groups * work_group <= MAX_RESIDENT_ITEMS * units and groups not in ((2 * units, 8 * units) if small else ())


@benchmark(
    BANDWIDTH,
    suite="access",
    source="Mei & Chu 2015, section 5.1 (figure 12, table VI)",
    default_subset=_in_default_subset,
    quantities=[
        Quantity(
            MEMORY_COPIES,
            "bandwidth",
            largest="array_bytes",
            beyond_caches=True,
            limit="a fixed number of work-groups copies in a loop",
            least_share=0.75,
        )
    ],
    figure_axis="groups",
    work_group=axis_of(_group_sizes),
    ilp=axis_of(lambda info: (1, 4) if info.has_cpu_cores else ILPS),
    groups=axis_of(_group_counts),
    array_bytes=axis_of(lambda info: (copy_array_bytes(info),)),
    # a core that copies 4 bytes at a time is limited by its instructions, not by memory
    width=axis_of(lambda info: (CACHE_LINE_WORDS if info.has_cpu_cores else GPU_WIDTH,), tuning=True),
    nontemporal=axis_of(store_kinds, needs={1: ["nontemporal"]}, tuning=True),
    version=3,
)
def copy_grid(
    device: Device, work_group: int, ilp: int, groups: int, array_bytes: int, width: int = 1, nontemporal: int = 0
) -> Work:
    """Throughput of a copy in global memory by number and size of work-groups and by ILP.

    ILP is the number of words that each work-item has in flight: it loads all of them before it stores any. A word has 8 bytes;
    on CPUs it is a cache line, and the search for the best configuration also chooses the kind of stores. Bytes read and bytes
    written are counted. Every word is compared after the copy. Raises Skip for an ILP other than 1, 2, 4 and 8, for a vector
    width that OpenCL C does not have, and for a work-group over the device's largest.
    """
    if ilp not in ILPS:
        raise Skip(f"the kernel has no ILP of {ilp}: choose from {', '.join(map(str, ILPS))}")
    if width not in VECTOR_WIDTHS:
        raise Skip(f"OpenCL C has no vector of {width} words: choose from {', '.join(map(str, VECTOR_WIDTHS))}")
    if work_group > device.info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {device.info.max_work_group}")
    count, items = array_bytes // (4 * width), groups * work_group
    if count < ilp * items:
        each = f"{ilp} words of {4 * width} B each"
        raise Skip(f"{array_bytes} B are fewer than {items} work-items with {each} copy at once: raise --size")
    defines: dict[str, Value] = {"ILP": ilp, "IN_STEP": device.info.has_cpu_cores, "NONTEMPORAL": nontemporal}
    kernel = device.build(kernel_source("copy_grid"), V="uint" if width == 1 else f"uint{width}", **defines)["copy_grid"]
    nbytes = 4 * width * count
    source, target, check = prepare_copy(device, nbytes)
    rounds = count // (ilp * items)
    return Work(
        commands=(Launch(kernel, (source, target, np.uint64(count), np.uint64(rounds)), (items,), (work_group,)),),
        nbytes=2 * nbytes,
        outputs=((target, nbytes),),
        check=check,
        notes=(NOTE_IN_STEP,) if device.info.has_cpu_cores else (),
    )
