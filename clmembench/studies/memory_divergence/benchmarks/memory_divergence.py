"""Time of intervals whose loads touch several lines a sub-group: the kernels that the memory divergence model predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clmembench.benchmarks import MIB, axis, axis_of, benchmark
from clmembench.benchmarks.subgroup import sub_group_width
from clmembench.model import Array, Device, DeviceInfo, Launch, Metric, Read, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

LINE_BYTES = 128  # the model's block, and the line of the GPUs that it was made for
WORD_BYTES = 4
LINE_WORDS = LINE_BYTES // WORD_BYTES
MIN_NEAR_BYTES = 16 * MIB  # many times the first cache; drivers of GPUs understate the last one
MIN_FAR_BYTES = 1024 * MIB  # a cache of 50 MiB holds 5% of it
STORED_INTERVALS = 32  # a work-item cycles through this many words: stores go to lines of the last cache, never of the first
MAX_EXACT_SUM = 1 << 24  # of whole numbers in a float
MAX_WORD = 255  # of the data
MAX_CHECKED_LINES = 1 << 18  # line numbers that the host computes; with more sub-groups it checks evenly spaced ones
MAX_UNIT_REGISTERS, REGISTER_STEP = 1 << 16, 8  # of a compute unit of NVIDIA's since Kepler, and of a work-item's share
MAX_MISPLACED_SHARE = 0.02  # work-groups that run on another compute unit than planned
HASH_FACTOR, SCRAMBLE_FACTOR, SEED = 2654435761, 2246822519, 0x27220A95
INTERVAL = Metric("interval", "ns", "ops", "slope", "lower", cycles=True)
LINE_RATE = Metric("line_bandwidth", "GB/s", "nbytes", "slope_rate", "higher")
# instructions of a GPU's sub-group, counted in the source. Per load: the line's number (4 operations, 1 of them wide), the
# address, the load and its sum; per interval: the sum, the counter and the loop. Then the dependent operations before a load,
# and after one
LOAD_INSTRUCTIONS, INTERVAL_INSTRUCTIONS, STORE_INSTRUCTIONS = 12, 6, 5
DEPENDENT_PER_INTERVAL = 14
NO_SUB_GROUPS = (
    "its cores run the work-items of a sub-group one after the other: no load touches several lines at once, and no compute "
    "unit has misses of many sub-groups in flight"
)


def near_bytes(info: DeviceInfo) -> int:
    """A footprint that the last-level cache of a GPU holds and the first does not; a quarter of the user's --size."""
    return _floor_power_of_two((info.array_bytes or 4 * max(MIN_NEAR_BYTES, info.cache_bytes // 2)) // 4)


def far_bytes(info: DeviceInfo) -> int:
    """A footprint of many times the last-level cache; the user's --size."""
    wanted = info.array_bytes or max(MIN_FAR_BYTES, 4 * info.cache_bytes)
    return _floor_power_of_two(min(wanted, info.max_alloc_bytes))


def _floor_power_of_two(nbytes: int) -> int:
    return 1 << (max(1, nbytes).bit_length() - 1)


@dataclass(frozen=True, slots=True)
class DivergenceShape:
    """Layout of sub-groups in work-groups, and of lines in the footprint: work-groups, work-items per group, work-items that
    share a line, the distance of their words, and lines of each of the `width` / `sharing` regions."""

    groups: int
    items: int
    width: int
    sharing: int
    word_step: int
    region_lines: int

    @property
    def lines_per_load(self) -> int:
        """Distinct lines of one load of a whole sub-group."""
        return self.width // self.sharing

    @property
    def footprint_bytes(self) -> int:
        """Bytes of all regions."""
        return self.region_lines * self.lines_per_load * LINE_BYTES


def _resident_sub_groups(info: DeviceInfo) -> tuple[int, ...]:
    """1, 2, 4 ... 64 sub-groups per compute unit, at most those of two work-groups of the largest size."""
    most = 2 * info.max_work_group // sub_group_width(info)
    return tuple(n for n in (1, 2, 4, 8, 16, 32, 64) if n <= max(1, most))


@benchmark(
    INTERVAL,
    LINE_RATE,
    suite="memory",
    source="Wang et al. 2019, section 2 (memory divergence), as kernels of this project",
    adaptive=True,  # `model validate` plans its points; the whole grid has 2016
    figure_axis="lines",
    lines=axis_of(lambda info: tuple(n for n in (1, 2, 4, 8, 16, 32) if n <= sub_group_width(info))),
    fmas=axis(0, 16, 64, 256),
    loads=axis(1, 2, 4),
    sub_groups=axis_of(_resident_sub_groups),
    footprint_bytes=axis_of(lambda info: tuple(dict.fromkeys((near_bytes(info), far_bytes(info))))),
    stores=axis(0, 1),
)
def memory_divergence(
    device: Device, lines: int, fmas: int, loads: int, sub_groups: int, footprint_bytes: int, stores: int
) -> Slope:
    """Time of an interval of loads that touch several distinct lines a sub-group, and of arithmetic that waits for them.

    Each compute unit has `sub_groups` resident sub-groups. In an interval each makes `loads` independent loads, each of which
    touches `lines` lines of 128 B at random places of the footprint, then `fmas` dependent multiply-adds, and with `stores` 1 a
    store of one line; the next interval waits for that. The metrics count intervals of a sub-group, all of which run at once,
    and whole lines. In-kernel cycles of each work-group are stored beside the events where the device has such a clock. All
    loads and stores are verified; with many sub-groups, those of evenly spaced ones. Raises Skip on devices without sub-groups
    in lockstep, and where work-groups are not distributed over compute units as planned."""
    shape = _shape(device.info, lines, sub_groups, footprint_bytes)
    interval_bytes = loads * shape.groups * shape.items // shape.sharing * LINE_BYTES
    return prepare_intervals(device, shape, fmas, loads, stores, interval_bytes)


def _shape(info: DeviceInfo, lines: int, sub_groups: int, footprint_bytes: int) -> DivergenceShape:
    """Raises Skip for what this device cannot run."""
    if info.has_cpu_cores:
        raise Skip(NO_SUB_GROUPS)
    width = sub_group_width(info)
    if lines > width or width % lines or width // lines > LINE_WORDS:
        raise Skip(f"a sub-group of {width} work-items cannot touch {lines} lines of {LINE_BYTES} B a load")
    groups_per_unit = -(-sub_groups * width // info.max_work_group)
    if sub_groups % groups_per_unit or groups_per_unit > 2:
        raise Skip(f"{sub_groups} sub-groups of {width} are over two work-groups of {info.max_work_group} a compute unit")
    region_lines = _floor_power_of_two(footprint_bytes) // LINE_BYTES // lines
    if region_lines < 2 or region_lines * lines * LINE_BYTES > info.max_alloc_bytes:
        raise Skip(f"a footprint of {footprint_bytes} B has no two lines for each of {lines}, or does not fit one buffer")
    units = info.work_groups or info.compute_units
    return DivergenceShape(
        units * groups_per_unit, sub_groups // groups_per_unit * width, width, width // lines, 1, region_lines
    )


def prepare_intervals(device: Device, shape: DivergenceShape, fmas: int, loads: int, stores: int, interval_bytes: int) -> Slope:
    """The slope over intervals of a shape, each counted as `interval_bytes`; its check verifies every word that the checked
    sub-groups loaded and stored."""
    info = device.info
    ptx = "ptx" in info.features
    defines: dict[str, Value] = {
        "WIDTH": shape.width, "LOADS": loads, "FMAS": fmas, "STORES": stores, "STORED_INTERVALS": STORED_INTERVALS,
        "TICKS": 1 if ptx else 0, "TICK_BITS": 64, "PTX": int(ptx),
    }  # fmt: skip
    kernels = device.build(kernel_source("memory_divergence"), **defines)
    items, seed = shape.groups * shape.items, (SEED + device.seed) % 2**32
    words = shape.footprint_bytes // WORD_BYTES
    data = device.kept("memory_divergence data", shape.footprint_bytes)
    device.run([Launch(kernels["number_words"], (data, np.uint32(seed)), (words,))])
    sums, ticks, units = device.alloc(WORD_BYTES * items), device.alloc(8 * shape.groups), device.alloc(4 * shape.groups)
    stored_bytes = WORD_BYTES * items * (STORED_INTERVALS if stores else 1)
    stored = device.kept("memory_divergence stored", stored_bytes)
    kernel = kernels["memory_divergence"]
    facts = device.compiled(kernel)
    _check_registers(facts.get("registers"), -(-shape.groups // info.compute_units) * shape.items)

    def work(intervals: int) -> Work:
        args: tuple[Any, ...] = (data, sums, stored, ticks, units)
        numbers = (intervals, shape.region_lines - 1, (shape.sharing - 1).bit_length(),
                   (shape.region_lines * LINE_WORDS - 1).bit_length(), shape.word_step, seed, 0)  # fmt: skip
        args += (*map(np.uint32, numbers), np.float32(1))
        return Work(
            commands=(Launch(kernel, args, (items,), (shape.items,)),),
            ops=intervals,
            nbytes=intervals * interval_bytes,
            reads={"ticks": Read(ticks, "uint64", shape.groups, "cycles")} if ptx else {},
            outputs=((sums, WORD_BYTES * items), *([(stored, stored_bytes)] if stores else [])),
            check=_check(device, shape, (sums, stored, units), (loads, fmas, stores), intervals, seed),
            facts=facts,
        )

    return Slope(work, start=8, most=MAX_EXACT_SUM // (MAX_WORD * loads + fmas))


def _check(
    device: Device,
    shape: DivergenceShape,
    buffers: tuple[Any, Any, Any],
    interval: tuple[int, int, int],
    intervals: int,
    seed: int,
) -> Callable[[], None]:
    (sums, stored, units), (loads, fmas, stores) = buffers, interval
    items = shape.groups * shape.items

    def check() -> None:
        if "ptx" in device.info.features:
            _check_places(device.download(units, np.uint32, shape.groups), device.info.compute_units)
        chosen = _checked_items(shape, items, intervals * loads)
        added = expected_intervals(chosen, shape, loads, fmas, intervals, seed)
        left = device.download(sums, np.float32, items)
        assert not np.isnan(left).any(), f"{int(np.isnan(left).sum())} of {items} work-items left no sum"
        wrong = int((left[chosen] != added.sum(axis=0).astype(np.float32)).sum())
        assert wrong == 0, f"{wrong} of {chosen.size} work-items did not load the words that they should have"
        for number in range(max(0, intervals - STORED_INTERVALS), intervals) if stores else ():
            row = number % STORED_INTERVALS
            kept = device.download(stored, np.float32, items, offset_bytes=row * items * WORD_BYTES)[chosen]
            wrong = int((kept != added[number].astype(np.float32)).sum())
            assert wrong == 0, f"{wrong} of {chosen.size} work-items did not store what interval {number} added"

    return check


def _check_registers(registers: Value | None, items: int) -> None:
    """Raises Skip if that many work-items per compute unit are not resident at once: the rest would run after them."""
    if not isinstance(registers, int):
        return  # only NVIDIA's compiler reports it
    held = -(-registers // REGISTER_STEP) * REGISTER_STEP * items
    if held > MAX_UNIT_REGISTERS:
        raise Skip(f"{items} work-items of {registers} registers are not resident at once: {held} of {MAX_UNIT_REGISTERS}")


def _check_places(units: Array, compute_units: int) -> None:
    """Raises Skip if compute units have unequal numbers of work-groups: the number of resident sub-groups is then undefined."""
    if len(units) < compute_units:
        return
    counts = np.bincount(units, minlength=compute_units)
    even = -(-len(units) // compute_units)
    misplaced = int(np.maximum(counts - even, 0).sum())
    if misplaced > MAX_MISPLACED_SHARE * len(units):
        raise Skip(f"{misplaced} of {len(units)} work-groups shared a compute unit with more than {even - 1} others")


def _checked_items(shape: DivergenceShape, items: int, loads: int) -> Array:
    """The work-items whose results the host computes: whole sub-groups, evenly spaced, the first and the last among them."""
    sub_groups = -(-items // shape.width)
    count = max(1, min(sub_groups, MAX_CHECKED_LINES // max(1, loads * shape.width)))
    chosen = np.unique(np.linspace(0, sub_groups - 1, count).astype(np.int64))
    items_of_chosen = (chosen[:, None] * shape.width + np.arange(shape.width)).reshape(-1)
    return items_of_chosen[items_of_chosen < items]


def expected_intervals(items: Array, shape: DivergenceShape, loads: int, fmas: int, intervals: int, seed: int) -> Array:
    """What each interval of memory_divergence.cl adds to the sums of these work-items: shape (intervals, work-items), uint64.
    Whole numbers: floats hold their sums exactly, in any order."""
    lane = items % shape.width
    region = (lane // shape.sharing).astype(np.uint32)
    start = (items // shape.width).astype(np.uint32) * np.uint32(HASH_FACTOR) + region * np.uint32(SCRAMBLE_FACTOR)
    counter = (start + np.uint32(seed))[None, :] + np.arange(intervals * loads, dtype=np.uint32)[:, None]
    within = (lane % shape.sharing * shape.word_step).astype(np.uint32)
    word = line_of(counter, shape.region_lines - 1) + region * np.uint32(shape.region_lines)
    word = word * np.uint32(LINE_WORDS) + within
    values = (word * np.uint32(HASH_FACTOR) + np.uint32(seed)) >> np.uint32(24)
    return np.asarray(values.reshape(intervals, loads, items.size).sum(axis=1) + np.uint64(fmas))


def line_of(counter: Array, mask: int) -> Array:
    """The line of a region that a load with this counter reads, as memory_divergence.cl computes it: uint32."""
    h = np.asarray(counter, np.uint32)
    h = np.asarray((h ^ (h >> np.uint32(15))) * np.uint32(SCRAMBLE_FACTOR), np.uint32)
    h = np.asarray((h ^ (h >> np.uint32(13))) * np.uint32(HASH_FACTOR), np.uint32)
    return np.asarray((h >> np.uint32(5)) & np.uint32(mask), np.uint32)
