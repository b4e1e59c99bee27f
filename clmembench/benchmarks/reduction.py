"""B5: the sum of n doubles, reduced to one double in device memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clmembench.benchmarks import (
    BANDWIDTH,
    MEMORY_READS,
    MIB,
    axis_of,
    benchmark,
    is_timed_in_batches,
    work_group_sizes,
)
from clmembench.model import Array, Device, DeviceInfo, Headline, Kernel, Launch, Local, Metric, Quantity, Skip, Value, Work
from clmembench.resources import kernel_source
from clmembench.units import format_bytes

TIME = Metric("time", "ns", "ops", "cost", "lower")
WIDTHS = (1, 2, 4, 8, 16)  # a vector of 3 occupies 4
MAX_ELEMENTS = 1 << 30  # 8 GiB; Razzaq et al. 2016 sum 10^9 elements
SEED = 0x9E3779B9
ROW_BITS = 16
STREAMS_PER_ITEM = 4  # vectors that a work-item reads at the same time, as in reduction.cl
NOTE_FEWER_GROUPS = "short sums have fewer work-groups than `groups_a_unit` demands, since more would have too little work"
MAX_SINGLE_GROUP_ELEMENTS = 1 << 15  # one core sums these faster than another core wakes up
MIN_BLOCK_ELEMENTS = 1 << 13  # fewer are not worth a separate work-group
NOTE_LAUNCH = "by the device's clock: excludes the launch and the wait for its end"


def hash_9_bits(index: Array, seed: int) -> Array:
    """A whole number from 0 to 511 for each index, as reduction.cl computes it. Shape of `index`."""
    h = (index.astype(np.uint32) ^ np.uint32(seed)) * np.uint32(2654435761)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    return h >> np.uint32(23)


def exact_total(n: int, seed: int) -> int:
    """The exact sum of n elements, from whole rows and columns, without adding single elements."""
    columns, rows = 1 << ROW_BITS, n >> ROW_BITS
    rest = n - rows * columns
    of_column = hash_9_bits(np.arange(columns), seed).astype(np.int64)
    of_row = hash_9_bits(np.arange(rows + 1), seed ^ 0xFFFFFFFF).astype(np.int64)
    whole = rows * int(of_column.sum()) + columns * int(of_row[:rows].sum())
    return n + whole + int(of_column[:rest].sum()) + rest * int(of_row[rows])


def _largest_length(info: DeviceInfo) -> int:
    """The largest n: a power of two up to 2^30.

    It is within the user's --size, or within one allocation, an eighth of the device's memory and, as for other arrays, a 32nd
    of a CPU host's memory (but at least 256 MiB).
    """
    limit = info.global_mem_bytes // 8 if info.array_bytes is None else info.array_bytes
    if info.kind == "cpu" and info.array_bytes is None:
        limit = min(limit, max(256 * MIB, info.host_mem_bytes // 32))
    elements = max(1, min(limit, info.max_alloc_bytes) // 8)
    return min(MAX_ELEMENTS, 1 << (elements.bit_length() - 1))


def _lengths(info: DeviceInfo) -> tuple[int, ...]:
    """Every second power of two from 2^10 on, and the largest n."""
    most = _largest_length(info)
    return (*(1 << bits for bits in range(10, MAX_ELEMENTS.bit_length(), 2) if 1 << bits < most), most)


def _methods(info: DeviceInfo) -> tuple[str, ...]:
    """Methods, the likely best first."""
    return ("loop", "tree", "atomic") if info.has_cpu_cores else ("tree", "atomic", "loop")


def _groups_per_unit(info: DeviceInfo) -> tuple[int, ...]:
    """Numbers of work-groups per compute unit; a scaling study can also distribute them evenly among fewer units."""
    return (4, 1) if info.has_cpu_cores else (8, 4)


def _widths(info: DeviceInfo) -> tuple[int, ...]:
    """Widths of vectors: on CPUs first a cache line of doubles; on GPUs first 32 bytes.

    On an H200 the latter depended least on the other axes.
    """
    return (8, 4) if info.has_cpu_cores else (4, 2)


def _group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    """Sizes of work-groups; `loop` uses 1. On GPUs 256 come first: eight of them fill a compute unit.

    On an H200 they took 13% less time than four of 1,024 for 2^24 doubles, and 2% less for 2^27.
    """
    sizes = (1, 64, 1024) if info.has_cpu_cores else (256, 1024, 1)
    return tuple(dict.fromkeys(work_group_sizes(info, size)[0] for size in sizes))


def _where(info: DeviceInfo, n: int, method: str, groups_a_unit: int, width: int, work_group: int) -> bool:
    return (method == "loop") == (work_group == 1)


def _in_default_subset(info: DeviceInfo, n: int, method: str, groups_a_unit: int, width: int, **_: Value) -> bool:
    """Points of the default subset: the device's usual method at every n, and the other methods where they are instructive.

    The time of a short sum is that of its launch, so only the size of its work-group is searched.
    """
    most = _largest_length(info)
    if n < min(1 << 20, most) and (groups_a_unit, width) != (_groups_per_unit(info)[0], _widths(info)[0]):
        return False
    if info.has_cpu_cores:
        return method == "loop" or n in {min(1 << bits, most) for bits in (14, 18, 24)}
    return method != "loop" or n == min(1 << 24, most)


@benchmark(
    TIME,
    BANDWIDTH,
    suite="sync",
    version=4,  # one launch instead of two; all sums are timed in batches on GPUs
    source="Razzaq et al. 2016, section IV-B3 (B5)",
    quick={
        "n": axis_of(lambda info: (min(1 << 24, _largest_length(info)),)),
        "method": axis_of(lambda info: _methods(info)[:1]),
        "groups_a_unit": axis_of(lambda info: _groups_per_unit(info)[:1], tuning=True),
        "width": axis_of(lambda info: _widths(info)[:1], tuning=True),
        # 256 work-items summed 16.8 million doubles 5% (H100) and 11% (H200) faster, and short of 1,024 elsewhere
        "work_group": axis_of(lambda info: _group_sizes(info)[: 1 if info.has_cpu_cores else 2], tuning=True),
    },
    headlines=(
        Headline("reduction", "sum of 1,024 doubles", "time", {"n": 1024}, note=NOTE_LAUNCH),
        Headline("reduction", "sum of 16,777,216 doubles", "time", {"n": 1 << 24}, note=NOTE_LAUNCH),
    ),
    quantities=[
        Quantity(
            MEMORY_READS,
            "bandwidth",
            {"method": ("tree", "loop")},
            largest="n",
            beyond_caches=True,
            limit="a sum's last work-group adds up those of all others",
            least_share=0.75,
        )
    ],
    needs=["fp64"],
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="n",
    scaling=lambda info: {
        "n": min(1 << (24 if info.has_cpu_cores else 26), _largest_length(info)),
        "method": _methods(info)[0],
    },
    n=axis_of(_lengths),
    method=axis_of(_methods, needs={"atomic": ["int64_atomics"]}),
    groups_a_unit=axis_of(_groups_per_unit, tuning=True),
    width=axis_of(_widths, tuning=True),
    work_group=axis_of(_group_sizes, tuning=True),
)
def reduction(device: Device, n: int, method: str, groups_a_unit: int, width: int, work_group: int) -> Work:
    """Time to sum n doubles to one double in device memory.

    loop: the only work-item of each work-group sums one block, which suits a CPU's core. tree: work-groups of many work-items,
    and a tree in local memory. In both, the group that ends last (by an atomic counter) adds up the groups' sums. atomic: as
    tree, but each group adds its sum to one cell by compare-and-swap. Each method is one launch, which also resets the counter
    and the cell. Only as many groups are launched as have enough work, unless the device's info sets their number. Bytes are
    those of the n doubles. The sum is compared exactly. Raises Skip for a shape that OpenCL C or this device does not have, and
    for fewer than one element or work-group.
    """
    _refuse(device.info, n, groups_a_unit, width, work_group)
    groups = groups_a_unit * device.info.compute_units
    launched = device.info.work_groups or min(groups, _useful_groups(n, method, width, work_group))
    seed = (SEED + device.seed) % 2**32
    # reused from point to point: touching new pages took most of a point's time
    elements, result = device.kept("reduction elements", 8 * n), device.alloc(8)
    cells = np.zeros(1 if method == "atomic" else launched)
    sums, ended = device.alloc(cells.nbytes), device.alloc(4)
    shape = ((launched * work_group,), (work_group,))
    device.upload(sums, cells)
    device.upload(ended, np.zeros(1, np.uint32))
    kernels = _kernels(device, method, width, work_group)
    device.run([Launch(kernels["init"], (elements, np.uint64(n), np.uint32(seed)), *shape)])
    reduce = Launch(kernels["reduce"], (elements, sums, ended, result, np.uint64(n), Local(8 * work_group)), *shape)
    wanted = exact_total(n, seed)

    def check() -> None:
        total = float(device.download(result, np.float64, 1)[0])
        assert total == wanted, f"the sum is {total!r}, not {wanted}"

    return Work(
        commands=(reduce,),
        nbytes=8 * n,
        flops=n - 1,
        ops=1,
        outputs=((result, 8),) if method == "atomic" else ((sums, 8 * launched), (result, 8)),
        check=check,
        notes=(NOTE_FEWER_GROUPS,) if launched < groups and device.info.work_groups is None else (),
        back_to_back=is_timed_in_batches(device.info),
    )


def _refuse(info: DeviceInfo, n: int, groups_a_unit: int, width: int, work_group: int) -> None:
    """Raises Skip for a shape that OpenCL C or this device does not have, and for fewer than one element or work-group."""
    if width not in WIDTHS:
        raise Skip(f"OpenCL C has no packed vector of {width}: choose from {', '.join(map(str, WIDTHS))}")
    if work_group > info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {info.max_work_group}")
    if 8 * n > info.max_alloc_bytes:
        raise Skip(f"n={n} is over this device's largest buffer, {format_bytes(info.max_alloc_bytes)}: lower n")
    if min(n, groups_a_unit, work_group) < 1:
        raise Skip("a sum takes at least one element, one work-group and one work-item")


def _kernels(device: Device, method: str, width: int, work_group: int) -> Mapping[str, Kernel]:
    """`init` and `reduce`, built for one configuration."""
    return device.build(
        kernel_source("reduction"),
        V="double" if width == 1 else f"double{width}",
        WIDTH=width,
        GROUP_SIZE=work_group,
        BLOCKED=method == "loop",
        ATOMIC=method == "atomic",
        ROW_BITS=ROW_BITS,
    )


def _useful_groups(n: int, method: str, width: int, work_group: int) -> int:
    """The number of work-groups with enough work: a block each, or one round of vectors for each work-item."""
    if method == "loop":
        return 1 if n <= MAX_SINGLE_GROUP_ELEMENTS else n // MIN_BLOCK_ELEMENTS
    return -(-n // (STREAMS_PER_ITEM * width * work_group))
