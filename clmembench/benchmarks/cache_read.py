"""Read bandwidth of each cache level and of memory, by rereading sets of data of different sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks import (
    CORE_CACHE_READS,
    MEMORY_READS,
    MIB,
    axis,
    axis_of,
    benchmark,
    headline_bytes,
    work_group_sizes,
)
from clmembench.model import Array, Device, DeviceInfo, Headline, Launch, Metric, Quantity, Skip, Slope, Work
from clmembench.resources import kernel_source

READ_BANDWIDTH = Metric("read_bandwidth", "GB/s", "nbytes", "slope_rate", "higher")
KIB = 1 << 10
MAX_SET_BYTES = 4096 * MIB  # caches hold a negligible part of it
PATH_CODES = {"plain": 0, "ca": 1, "cg": 2}  # as in cache_read.cl
HASH_FACTOR, SEED = 2654435761, 0x85EBCA6B
GPU_BLOCK_FACTOR = 5  # gives each work-group a different order
XORED_AT_A_TIME = 1 << 14  # batches per step on the host: 32 MiB
MIN_BATCHES = 64
# on GPUs larger than the nearer caches; on CPUs with a last-level cache of 32 MiB or more within that cache
SHARED_HEADLINE_BYTES = 16 * MIB
LARGE_UNIT_ITEMS = (1024, 2048)  # work-items per compute unit


def _floor_power_of_two(nbytes: int) -> int:
    """The largest power of two up to `nbytes`."""
    return 1 << (nbytes.bit_length() - 1)


def _largest_set(info: DeviceInfo) -> int:
    """Bytes of the largest set.

    On GPUs it is twice the usual array: accesses are random, and a cache of 50 MiB still holds 5% of 1 GiB.
    """
    if info.has_cpu_cores or info.array_bytes is not None:
        return _floor_power_of_two(min(headline_bytes(info), MAX_SET_BYTES))
    return _floor_power_of_two(min(2 * headline_bytes(info), info.max_alloc_bytes, MAX_SET_BYTES))


def _own_sets(info: DeviceInfo) -> tuple[int, ...]:
    """Sizes of one work-group's own set: within a compute unit's first cache and beyond; on CPUs also within its second
    cache."""
    return tuple(n * KIB for n in ((16, 32, 256, 1024, 4096) if info.has_cpu_cores else (16, 32, 64, 128, 256)))


def _shared_sets(info: DeviceInfo) -> tuple[int, ...]:
    """Sizes of shared sets: within a cache shared by all compute units, and beyond; on CPUs half of its claimed size, and
    memory."""
    if info.has_cpu_cores:
        near = _floor_power_of_two(max(4 * MIB, min(info.cache_bytes // 2, 16 * MIB)))
        return tuple(dict.fromkeys((min(near, _largest_set(info)), _largest_set(info))))
    return (*(n * MIB for n in (1, 2, 4, 8, 16, 32, 64, 128) if n * MIB < _largest_set(info)), _largest_set(info))


def _where(info: DeviceInfo, set: str, set_bytes: int, path: str, unit_items: int) -> bool:
    own = set == "own"
    if set_bytes not in (_own_sets(info) if own else _shared_sets(info)) and set_bytes in (
        *_own_sets(info),
        *_shared_sets(info),
    ):
        return False
    # a unit with one set has one work-group of that size, whose batch fits into the set
    return not own or info.has_cpu_cores or _read_shape(info, own, unit_items, set_bytes).group == unit_items


def _in_default_subset(info: DeviceInfo, set: str, set_bytes: int, path: str, unit_items: int) -> bool:
    """Points of the default subset.

    Own sets are read by as many work-items as fit; past the first cache one size suffices, since all sizes lie in the second.
    Shared sets are read by many work-items.
    """
    if set == "shared":
        return info.has_cpu_cores or unit_items in LARGE_UNIT_ITEMS
    most = max(n for n in _unit_items(info) if _where(info, set, set_bytes, path, n))
    return unit_items == most and (path != "cg" or set_bytes == _own_sets(info)[0])


def _unit_items(info: DeviceInfo) -> tuple[int, ...]:
    return (1,) if info.has_cpu_cores else (256, 512, *LARGE_UNIT_ITEMS)


@dataclass(frozen=True, slots=True)
class _ReadShape:
    """The launch that reads a set: work-groups, work-items of each, loads of a batch, words of a load.

    `xor`: the loads of a batch are combined by exclusive or before they are summed.
    """

    groups: int
    group: int
    ilp: int
    lanes: int
    xor: bool = False

    @property
    def batch_bytes(self) -> int:
        return self.ilp * self.group * self.lanes * 4


def _read_shape(info: DeviceInfo, own: bool, unit_items: int, set_bytes: int) -> _ReadShape:
    """The launch that reads a set.

    CPUs: one work-item per core with its widest vectors. It combines two loads by one exclusive or, since additions occupy
    ports that wide loads need: of 128 B/cycle Golden Cove reached 88 with one addition per load and 115 with one per two loads.
    GPUs: 16 bytes per load; one work-group per unit or, for a shared set, as many as make `unit_items`. No work-group is larger
    than it must be to read the set in one batch.
    """
    if info.has_cpu_cores:
        return _ReadShape(info.compute_units, 1, 32, 16, xor=True)
    (group,) = work_group_sizes(info, max(1, min(unit_items, 1024, set_bytes // (4 * 16))))
    return _ReadShape(info.compute_units * (1 if own else max(1, unit_items // group)), group, 4, 4)


@benchmark(
    READ_BANDWIDTH,
    suite="access",
    source="Mei & Chu 2015, section 5.1; Little 1961",
    where=_where,
    default_subset=_in_default_subset,
    headlines=(
        Headline("bandwidth", "reads of each compute unit's own set, best size", "read_bandwidth", {"set": "own"}),
        # the best of all sizes would be the smallest: nearer caches hold part of its lines, and requests to them are merged
        Headline(
            "bandwidth",
            "reads of one set of 16 MiB by all compute units",
            "read_bandwidth",
            {"set": "shared", "path": "plain", "set_bytes": SHARED_HEADLINE_BYTES},
        ),
    ),
    quantities=(
        Quantity(MEMORY_READS, "read_bandwidth", {"set": ("shared",)}, largest="set_bytes", beyond_caches=True),
        Quantity(CORE_CACHE_READS, "read_bandwidth", {"set": ("own",), "set_bytes": (16 * KIB, 32 * KIB)}, devices="cores"),
    ),
    figure_axis="set_bytes",
    set=axis("own", "shared"),
    path=axis_of(lambda info: ("plain", "cg") if "ptx" in info.features else ("plain",)),
    set_bytes=axis_of(lambda info: (*_own_sets(info), *_shared_sets(info))),
    unit_items=axis_of(_unit_items),
)
def cache_read(device: Device, set: str, path: str, set_bytes: int, unit_items: int) -> Slope:
    """Read bandwidth of all compute units together, by the size of a set that is read again and again.

    With `own` sets each work-group, one per compute unit, rereads its own `set_bytes`; a set that fits comes from the unit's
    first cache. All work-groups read a `shared` set, each from a different starting block. On GPUs each work-group reads the
    blocks in its own order, since groups with the same order catch up with each other, and then one fetch from a cache serves
    several. By chance groups still read the same block at the same time, but rarely in large sets.

    Loads have 16 bytes per work-item, 4 of them in flight (on CPUs 64 bytes, 32 in a row); `unit_items` is the number of
    work-items per compute unit. Path `plain` loads through all caches, `cg` bypasses the first (NVIDIA's PTX). The bandwidth is
    a slope over bytes. All data read are summed, and the sums are compared exactly. Raises Skip for a set that is no power of
    two, that is smaller than a batch of its work-group, or that exceeds one buffer.
    """
    info, own = device.info, set == "own"
    shape = _read_shape(info, own, unit_items, set_bytes)
    if not info.has_cpu_cores and own and shape.group != unit_items:
        raise Skip(f"a set of {set_bytes} B is smaller than a batch of one work-group of {unit_items} on this device")
    blocks = set_bytes // shape.batch_bytes
    factor = 1 if own or info.has_cpu_cores else GPU_BLOCK_FACTOR
    if set_bytes & (set_bytes - 1) or blocks < 1:
        raise Skip(f"a set of {set_bytes} B is not a power of two of at least {shape.batch_bytes} B")
    data_bytes = set_bytes * (shape.groups if own else 1)
    if data_bytes > info.max_alloc_bytes:
        raise Skip(f"{data_bytes} B of sets do not fit into one buffer of {info.max_alloc_bytes} B")
    ptx = "ptx" in info.features and not info.has_cpu_cores
    kernels = device.build(
        kernel_source("cache_read"),
        V=f"uint{shape.lanes}",
        ILP=shape.ilp,
        GROUP_SIZE=shape.group,
        XOR=shape.xor,
        PATH=PATH_CODES["ca" if path == "plain" and ptx else path],
    )
    data, sums_bytes = device.kept("cache_read data", data_bytes), shape.groups * shape.group * shape.lanes * 4
    sums, seed = device.kept("cache_read sums", sums_bytes), (SEED + device.seed) % 2**32
    device.run([Launch(kernels["number_words"], (data, np.uint32(seed)), (data_bytes // 4,))])

    xors = functools.cache(lambda: batch_xors(data_bytes // shape.batch_bytes, shape.ilp, shape.lanes, seed))

    def work(batches: int) -> Work:
        args = (data, sums, np.uint32(batches), np.uint32(blocks - 1), np.uint32(own), np.uint32(factor))
        return Work(
            commands=(Launch(kernels["cache_read"], args, (shape.groups * shape.group,), (shape.group,)),),
            nbytes=batches * shape.batch_bytes * shape.groups,
            outputs=((sums, sums_bytes),),
            check=_check(device, sums, shape, lambda: expected(batches)),
            concurrent_units=shape.groups if info.kind == "cpu" else 0,
        )

    def expected(batches: int) -> Array:
        if shape.xor:
            return sums_of_xors(xors(), shape.groups, blocks, own, batches)
        return expected_sums(shape.groups, shape.group, shape.ilp, shape.lanes, blocks, own, factor, batches, seed)

    # both ends of the slope traverse the whole set, so that the far end accesses no new data
    rounds = 4 * blocks if own else -(-2 * blocks // shape.groups)
    return Slope(work, start=max(MIN_BATCHES, rounds), most=1 << 31)


def _check(device: Device, sums: object, shape: _ReadShape, wanted: Callable[[], Array]) -> Callable[[], None]:
    def check() -> None:
        expected = wanted()
        stored = device.download(sums, np.uint32, expected.size).reshape(expected.shape)
        wrong = int((stored != expected).sum())
        assert wrong == 0, f"{wrong} of {expected.size} sums are wrong"

    return check


def batch_xors(batches: int, ilp: int, lanes: int, seed: int) -> Array:
    """The exclusive or of each batch's vectors, by the formula of cache_read.cl's words: uint32 of shape (batches, lanes)."""
    xors = np.empty((batches, lanes), np.uint32)
    each = ilp * lanes
    for first in range(0, batches, XORED_AT_A_TIME):
        last = min(batches, first + XORED_AT_A_TIME)
        words = np.arange(first * each, last * each, dtype=np.uint32) * np.uint32(HASH_FACTOR) + np.uint32(seed)
        np.bitwise_xor.reduce(words.reshape(last - first, ilp, lanes), axis=1, out=xors[first:last])
    return xors


def sums_of_xors(xors: Array, groups: int, blocks: int, own: bool, batches: int) -> Array:
    """The sums that cache_read.cl computes with XOR: uint32 of shape (groups, 1, lanes).

    Groups have one work-item and read blocks in ascending order.
    """
    laps, rest = divmod(batches, blocks)
    sums = np.empty((groups, 1, xors.shape[1]), np.uint32)
    for group in range(groups):
        mine = xors[group * blocks : (group + 1) * blocks] if own else xors
        first = 0 if own else group * blocks // groups
        around = (mine, mine[first : first + rest], mine[: max(0, first + rest - blocks)])
        lap, part, begin = (read.sum(axis=0, dtype=np.uint64) for read in around)
        sums[group, 0] = (lap * np.uint64(laps) + part + begin).astype(np.uint32)
    return sums


def expected_sums(
    groups: int, group: int, ilp: int, lanes: int, blocks: int, own: bool, factor: int, batches: int, seed: int
) -> Array:
    """The sums that cache_read.cl computes, by the formula of its words: uint32 of shape (groups, group, lanes)."""
    number = np.arange(groups, dtype=np.int64)
    first = number * 0 if own else number * blocks // groups
    laps, rest = divmod(batches, blocks)
    lap_sum = np.uint64(blocks * (blocks - 1) // 2)
    block_sum = np.uint64(laps) * lap_sum + _sum_of_blocks(first, blocks, factor, rest)
    if own:
        block_sum = block_sum + number.astype(np.uint64) * np.uint64(blocks * batches)
    # 32-bit sums wrap
    loads, vectors = np.uint64(batches * ilp), np.uint64(ilp * group)
    base = block_sum * vectors * np.uint64(ilp) + np.uint64(batches * group * (ilp * (ilp - 1) // 2))
    index = base[:, None] + loads * np.arange(group, dtype=np.uint64)[None, :]
    words = index[:, :, None] * np.uint64(lanes) + loads * np.arange(lanes, dtype=np.uint64)
    sums: Array = (words * np.uint64(HASH_FACTOR) + loads * np.uint64(seed)).astype(np.uint32)
    return sums


def _sum_of_blocks(first: Array, blocks: int, factor: int, count: int) -> Array:
    """The sum of the first `count` block indices that each work-group reads, fewer than all: uint64, shape of `first`."""
    if factor == 1:
        around = np.concatenate(([0], np.cumsum(np.tile(np.arange(blocks, dtype=np.uint64), 2)))).astype(np.uint64)
        return np.asarray(around[first + count] - around[first])
    addend = (np.arange(first.size, dtype=np.uint64) * np.uint64(HASH_FACTOR) & np.uint64(2**32 - 1)) >> np.uint64(
        7
    ) | np.uint64(1)
    block, total, mask = first.astype(np.uint64), np.zeros(first.size, np.uint64), np.uint64(blocks - 1)
    for _ in range(count):
        total += block
        block = (block * np.uint64(factor) + addend) & mask
    return total
