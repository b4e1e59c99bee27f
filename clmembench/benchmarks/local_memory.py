"""Throughput of local memory: copies within it by sub-groups, work-groups and ILP, and reads at full speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clmembench.benchmarks import (
    CORE_CACHE_READS,
    LOCAL_READS,
    axis,
    axis_of,
    benchmark,
    telling_count,
    work_group_sizes,
)
from clmembench.benchmarks.spaces import RESERVED_LOCAL_BYTES
from clmembench.model import Array, Device, DeviceInfo, Headline, Launch, Metric, Quantity, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

THROUGHPUT = Metric("throughput", "GB/s", "nbytes", "slope_rate", "higher", peak="local_memory_bandwidth_gb_s")
READ_BANDWIDTH = Metric("bandwidth", "GB/s", "nbytes", "slope_rate", "higher", peak="local_memory_bandwidth_gb_s")

MAX_RESIDENT_ITEMS = 2048  # per compute unit, on GPUs of several vendors; OpenCL does not report it
SUB_GROUP_SIZE = 32
LOADS_PER_ROUND = 16
MIN_START_VECTORS = 1024  # vectors at which rounds start; the work-group's size if that is larger
CORE_START_VECTORS = 128  # for a core's work-item: 8 KiB, which fit in its first cache
# 4-byte words that a work-item accesses at a time: a cache line on a core; on GPUs the paper's word, and the widest load
CORE_LANES, COPY_LANES, READ_LANES = 16, 1, 4
HASH_FACTOR = 2654435761


def _copy_group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    return work_group_sizes(info, *((16, 64) if info.has_cpu_cores else (32, 64, 128, 256, 512, 1024)))


def _copy_lanes(info: DeviceInfo) -> int:
    """Words that a work-item copies at a time. With 4 bytes at a time a core would be limited by its instructions."""
    return CORE_LANES if info.has_cpu_cores else COPY_LANES


def _copied_bytes(info: DeviceInfo, work_group: int, ilp: int) -> int:
    return 2 * 4 * _copy_lanes(info) * ilp * work_group


def _copy_fits(info: DeviceInfo, work_group: int, groups_a_unit: int, ilp: int) -> bool:
    """Whether this many work-groups can be active at the same time, as far as is known."""
    active = info.has_cpu_cores or work_group * groups_a_unit <= MAX_RESIDENT_ITEMS
    return active and _copied_bytes(info, work_group, ilp) <= info.local_mem_bytes - RESERVED_LOCAL_BYTES


def _in_default_copy_subset(info: DeviceInfo, work_group: int, groups_a_unit: int, ilp: int) -> bool:
    """Points of the default subset.

    One work-group, of doubling numbers of sub-groups, at every ILP; several work-groups of small, medium and large size at one
    ILP.
    """
    if info.has_cpu_cores or groups_a_unit == 1 or (work_group, groups_a_unit) in ((512, 2), (512, 4)):
        return True
    return ilp == 4 and work_group in (64, 256, 512)


@benchmark(
    THROUGHPUT,
    suite="access",
    source="Mei & Chu 2015, section 6.1",
    quantities=[Quantity(LOCAL_READS, "throughput", limit="half of the accesses of a copy are stores", least_share=0.5)],
    where=_copy_fits,
    default_subset=_in_default_copy_subset,
    figure_axis="work_group",
    work_group=axis_of(_copy_group_sizes),
    groups_a_unit=axis_of(lambda info: (1, 2) if info.has_cpu_cores else (1, 2, 3, 4, 5, 6)),
    ilp=axis_of(lambda info: (1, 4, 8) if info.has_cpu_cores else (1, 2, 4, 6, 8)),
    version=2,
)
def local_copy(device: Device, work_group: int, groups_a_unit: int, ilp: int) -> Slope:
    """Throughput of copies within local memory, `ilp` words per work-item at a time, by number and size of work-groups.

    A word has 4 bytes; on CPUs, where local memory is a core's cache, it is a cache line. Bytes read and bytes written are
    counted. The throughput is a slope over copies, in which the costs of launching, of filling local memory and of reading it
    out cancel; the paper instead subtracts the cost of a barrier and a clock. There are `groups_a_unit` work-groups per compute
    unit; the device decides whether all of them are active at the same time, and a GPU gets at most 2048 work-items per unit.
    Each copy back adds 1 to each word: the final contents of both regions prove the number of copies.
    """
    if ilp < 1 or work_group < 1 or groups_a_unit < 1:
        raise Skip("work-items, work-groups and words are at least 1 each")
    if work_group > device.info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {device.info.max_work_group}")
    used, lanes = _copied_bytes(device.info, work_group, ilp), _copy_lanes(device.info)
    if used > device.info.local_mem_bytes - RESERVED_LOCAL_BYTES:
        raise Skip(f"{used} B do not fit into the device's {device.info.local_mem_bytes} B of local memory")
    defines: dict[str, Value] = {"COPY": 1, "GROUP_SIZE": work_group, "ILP": ilp, **_vector(lanes)}
    defines["OWN_BLOCK"] = device.info.has_cpu_cores
    kernel = device.build(kernel_source("local_memory"), **defines)["copy_local"]
    groups = device.info.work_groups or groups_a_unit * device.info.compute_units
    items = groups * work_group
    regions = device.alloc(2 * 4 * lanes * ilp * items)

    def work(copies: int) -> Work:
        rounds = -(-copies // 2)

        def check() -> None:
            first, second = device.download(regions, np.uint32, 2 * ilp * items * lanes).reshape(2, items, ilp, lanes)
            words = np.arange(items * ilp * lanes, dtype=np.uint32).reshape(items, ilp, lanes)
            assert np.array_equal(first, words + np.uint32(rounds)), "the first region holds wrong words"
            assert np.array_equal(second, words + np.uint32(rounds - 1)), "the second region holds wrong words"

        return Work(
            commands=(Launch(kernel, (regions, np.uint32(rounds), np.uint32(0)), (items,), (work_group,)),),
            nbytes=2 * rounds * 2 * 4 * lanes * ilp * items,
            outputs=((regions, 2 * 4 * lanes * ilp * items),),
            check=check,
        )

    return Slope(work, start=1 << 8, most=1 << 30)


def _vector(lanes: int) -> dict[str, Value]:
    """Definitions of the words that a work-item accesses at a time."""
    return {"V": "uint" if lanes == 1 else f"uint{lanes}", "LANES": lanes}


def _read_group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    """Sizes of work-groups, the likely best first. A core has one work-item, which reads line after line."""
    return work_group_sizes(info, *((1,) if info.has_cpu_cores else (512, 1024, 256, 128)))


def _read_fits(info: DeviceInfo, path: str, work_group: int, groups_a_unit: int, ilp: int) -> bool:
    active = info.has_cpu_cores or work_group * groups_a_unit <= MAX_RESIDENT_ITEMS
    return active and _stored_bytes(info, work_group) <= info.local_mem_bytes - RESERVED_LOCAL_BYTES


def _start_vectors(info: DeviceInfo, work_group: int) -> int:
    """The number of vectors at which rounds start: a power of two."""
    least = CORE_START_VECTORS if info.has_cpu_cores else MIN_START_VECTORS
    return max(least, 1 << (work_group - 1).bit_length())


def _read_lanes(info: DeviceInfo) -> int:
    return CORE_LANES if info.has_cpu_cores else READ_LANES


def _stored_bytes(info: DeviceInfo, work_group: int) -> int:
    vectors = _start_vectors(info, work_group) + LOADS_PER_ROUND * min(SUB_GROUP_SIZE, work_group)
    return 4 * _read_lanes(info) * vectors


@benchmark(
    READ_BANDWIDTH,
    suite="access",
    source="Mei & Chu 2015, section 6.1 (theoretical throughput); Zhang & Owens 2011",
    headlines=(
        Headline(
            "bandwidth", "local memory reads, all compute units", "bandwidth", on_cpu="ordinary memory that a cache holds"
        ),
    ),
    quantities=(
        Quantity(LOCAL_READS, "bandwidth"),
        Quantity(CORE_CACHE_READS, "bandwidth", devices="cores"),  # cores keep local memory in this cache
    ),
    where=_read_fits,
    path=axis("portable", "ptx", needs={"ptx": ["ptx"]}),
    work_group=axis_of(_read_group_sizes, tuning=True),
    groups_a_unit=axis_of(lambda info: (1,) if info.has_cpu_cores else (2, 1, 4), tuning=True),
    ilp=axis(4, 8, 2, tuning=True),
    version=2,
)
def local_read(device: Device, path: str, work_group: int, groups_a_unit: int, ilp: int) -> Slope:
    """Bandwidth of conflict-free reads of local memory on all compute units, 16 B per load; on CPUs a cache line.

    Every value read is summed, which proves that no load was left out. Each round starts at another vector than the round
    before, so that the compiler cannot reuse values. The bandwidth is a slope over rounds of 16 loads, in which the costs of
    launching and filling cancel. path ptx: the device's native vector loads; portable: loads of OpenCL C. Raises Skip for
    shapes that this device does not have.
    """
    if path == "ptx" and "ptx" not in device.info.features:
        raise Skip("device has no ptx")
    shape = min(work_group, groups_a_unit, ilp) >= 1 and ilp % 2 == 0 and LOADS_PER_ROUND % ilp == 0
    if not shape or work_group > device.info.max_work_group:
        raise Skip(f"no kernel has {groups_a_unit} work-groups of {work_group} and {ilp} loads at a time here")
    stored, lanes = _stored_bytes(device.info, work_group), _read_lanes(device.info)
    if stored > device.info.local_mem_bytes - RESERVED_LOCAL_BYTES:
        raise Skip(f"{stored} B do not fit into local memory")
    step, turn = min(SUB_GROUP_SIZE, work_group), _start_vectors(device.info, work_group)
    defines: dict[str, Value] = {
        "GROUP_SIZE": work_group,
        "LOAD_STRIDE": step,
        "START_VECTORS": turn,
        "UNROLLED": LOADS_PER_ROUND,
        "ILP": ilp,
        "XOR": device.info.has_cpu_cores,
        **_vector(lanes),
    }
    kernel = device.build(kernel_source("local_memory"), COPY=0, PTX=path == "ptx", **defines)["read_local"]
    groups = device.info.work_groups or groups_a_unit * device.info.compute_units
    items = groups * work_group
    sums = device.alloc(4 * lanes * items)

    def work(least: int) -> Work:
        rounds = telling_count(least, turn // step)
        return Work(
            commands=(Launch(kernel, (sums, np.uint32(rounds)), (items,), (work_group,)),),
            nbytes=rounds * LOADS_PER_ROUND * 4 * lanes * items,
            outputs=((sums, 4 * lanes * items),),
            check=_sum_check(device, sums, rounds, groups, work_group, step, turn, lanes),
        )

    return Slope(work, start=1 << 6, most=1 << 30)


def _sum_check(
    device: Device, sums: object, rounds: int, groups: int, work_group: int, step: int, turn: int, lanes: int
) -> Callable[[], None]:
    def check() -> None:
        stored = device.download(sums, np.uint32, lanes * groups * work_group).reshape(groups, work_group, lanes)
        wanted = expected_sums(rounds, work_group, step, turn, lanes, device.info.has_cpu_cores)
        assert (stored == wanted).all(), "some sums are wrong: loads were left out, or are wrong"

    return check


def expected_sums(rounds: int, work_group: int, step: int, turn: int, lanes: int = READ_LANES, xor: bool = False) -> Array:
    """The sums of each work-item of a group after `rounds` rounds, modulo 2^32: uint32 of shape (work_group, lanes).

    With `xor` each round adds the exclusive or of its loads.
    """
    item = np.arange(work_group, dtype=np.uint64)
    period = turn // step
    total = np.zeros((work_group, lanes), np.uint64)
    for number in range(min(rounds, period)):
        times = (rounds - number + period - 1) // period
        begin = (item + number * step) % turn
        vectors = begin[:, None] + np.arange(LOADS_PER_ROUND, dtype=np.uint64) * step
        words = (vectors[:, :, None] * np.uint64(lanes) + np.arange(lanes, dtype=np.uint64)) * np.uint64(HASH_FACTOR)
        joined = np.bitwise_xor.reduce(words, axis=1) if xor else words.sum(axis=1)
        total += np.uint64(times) * (joined % 2**32)
        total %= 2**32
    wanted: Array = total.astype(np.uint32)
    return wanted
