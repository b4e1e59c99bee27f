"""Latency of each memory for one work-item, a sub-group and many: concurrent chains of dependent loads in several patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clmembench.benchmarks import (
    LATENCY,
    LOCAL_LATENCY,
    NEAREST_LATENCY,
    axis,
    axis_of,
    benchmark,
    iterate_multiply_add,
    telling_count,
)
from clmembench.benchmarks.pchase import random_cycle
from clmembench.model import Array, Device, DeviceInfo, Launch, Local, Quantity, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

TABLE_WORDS = 2048  # 8 KiB, as in Fang et al., section 3.2
PRIVATE_TABLE_WORDS = 512  # drivers reserve a private copy for every work-item that may run
STEPS_PER_BLOCK = 17  # as unrolled in subgroup.cl
MIN_ROW_WORDS = 16  # in the cycle of consecutive loads: a shorter one would not verify the number of loads
WORDS_BESIDE = 8  # the words of a 32-byte sector, which laps of large steps use alternately
ASSUMED_WIDTH = 32  # if the device does not report the width of sub-groups
LINE_SHIFT_BYTES = (4, 32, 64, 124)  # from the start of a line to a sub-group's first word
MEMORIES = ("register", "private", "local", "constant", "constant_array", "global", "global_cg", "image")
PATTERNS = ("consecutive", "shifted", "permuted", "scattered")
FACTOR, ADDEND = 0x9E3779B1, 0x7F4A7C15
MEMORY_FEATURES: Mapping[Value, Sequence[str]] = {"global_cg": ["ptx"], "image": ["images"]}
ACCESS_LATENCY = replace(LATENCY, name="access_latency")


def sub_group_width(info: DeviceInfo) -> int:
    """Work-items that are treated as a sub-group: the device's claim, else 32, and at most a work-group."""
    return min(info.sub_group_items or ASSUMED_WIDTH, info.max_work_group)


def _degrees(info: DeviceInfo) -> tuple[int, ...]:
    """Work-items that read the same word; on CPUs only one and all, since work-items there run one after the other."""
    every = tuple(1 << k for k in range(sub_group_width(info).bit_length()))
    return every if not info.has_cpu_cores else (1, every[-1])


def _shifts(info: DeviceInfo) -> tuple[int, ...]:
    return (0, *(LINE_SHIFT_BYTES if not info.has_cpu_cores else LINE_SHIFT_BYTES[:1]))


def _item_counts(info: DeviceInfo) -> tuple[int, ...]:
    wide = sub_group_width(info)
    times = (1, 4, 8, 16, 32) if not info.has_cpu_cores else (1, 8)
    return tuple(dict.fromkeys((1, *(min(n * wide, info.max_work_group, TABLE_WORDS // 2) for n in times))))


def _large_group_size(info: DeviceInfo) -> int:
    """Work-items per group if several groups run: eight sub-groups, 256 in Fang et al."""
    return min(8 * sub_group_width(info), info.max_work_group, TABLE_WORDS // 2)


def _group_counts(info: DeviceInfo) -> tuple[int, ...]:
    """1, 4 and 8 work-groups per compute unit; 8 fill a unit that can run 64 sub-groups."""
    units = info.compute_units
    return tuple(dict.fromkeys((1, *(n * units for n in ((1, 4, 8) if not info.has_cpu_cores else (1,))))))


def _where(info: DeviceInfo, memory: str, pattern: str, degree: int, shift_bytes: int, items: int, groups: int) -> bool:
    if (pattern == "shifted") != (shift_bytes > 0) or (degree > 1 and pattern != "consecutive") or items < degree:
        return False
    if items == 1 and (pattern != "consecutive" or groups > 1):
        return False
    # work-items without shared data have no common pattern, and a register is not memory
    return not (memory in ("register", "private") and pattern != "consecutive") and not (memory == "register" and degree > 1)


def _in_default_subset(
    info: DeviceInfo, memory: str, pattern: str, degree: int, shift_bytes: int, items: int, groups: int
) -> bool:
    """Points of the default subset: every pattern for one sub-group.

    More work-items, and groups of eight sub-groups, have only the extreme patterns.
    """
    wide = sub_group_width(info)
    extreme = degree in (1, wide) and pattern in ("consecutive", "scattered")
    if memory == "register":
        return items <= wide and groups == 1
    if items <= wide:
        return groups == 1
    if groups == 1:
        return extreme
    most = groups == max(_group_counts(info)) and shift_bytes == LINE_SHIFT_BYTES[0]
    return items == _large_group_size(info) and (extreme or most)


def _latencies(params: Mapping[str, tuple[Value, ...]]) -> tuple[Quantity, ...]:
    """Latencies of one work-item that other benchmarks also measure."""
    near = Quantity(LOCAL_LATENCY, "access_latency", {**params, "memory": ("local",)})
    limit, least = "the address of the table is added to an offset between two loads", 0.7
    return near, Quantity(NEAREST_LATENCY, "access_latency", {**params, "memory": ("global",)}, limit=limit, least_share=least)


@benchmark(
    ACCESS_LATENCY,
    suite="access",
    source="Fang et al. 2017, sections 3.2, 4 and 5 (table 1, figures 5 to 11)",
    where=_where,
    default_subset=_in_default_subset,
    quantities=_latencies({"items": (1,), "groups": (1,), "pattern": ("consecutive",)}),
    figure_axis="items",
    memory=axis(*MEMORIES, needs=MEMORY_FEATURES),
    pattern=axis(*PATTERNS),
    degree=axis_of(_degrees),
    shift_bytes=axis_of(_shifts),
    items=axis_of(_item_counts),
    groups=axis_of(_group_counts),
)
def subgroup(device: Device, memory: str, pattern: str, degree: int, shift_bytes: int, items: int, groups: int) -> Slope:
    """Latency of dependent loads by concurrent work-items, by memory and by access pattern across work-items.

    Each work-item follows a chain of loads in a table of 2048 words (512 if it is private); each word holds the index of the
    next. `groups` work-groups of `items` work-items do this at the same time, and the latency is that of one load by all of
    them.

    pattern consecutive: neighbouring work-items read neighbouring words, `degree` of them each word (a broadcast if above 1);
    each load is one word further within a sub-group's words, all of which are read at once. shifted: the same, from
    `shift_bytes` on. permuted: within a sub-group's words, in an order that changes with each load (Fang's case 2). scattered:
    each work-item in its own column, in rows of a sub-group's words that differ and change with each load (Fang's case 3). A
    private array belongs to one work-item: `degree` is then the number of work-items with the same index.

    memory constant is a buffer in constant memory, constant_array an array at program scope; global loads through L1 and
    global_cg past it, from a separate table for each work-group; image is an image1d_buffer. register has no load: one
    operation (a multiplication and an addition) that reads the result of the last one. The end of each chain verifies the
    number of loads. Raises Skip for a work-group that the device cannot run.
    """
    table, start = make_chains(memory, pattern, degree, shift_bytes, items, sub_group_width(device.info), device.seed)
    return _prepare_chains(device, memory, table, start, groups)


@benchmark(
    ACCESS_LATENCY,
    suite="access",
    source="Fang et al. 2017, section 3.2 (figure 2)",
    quantities=_latencies({}),
    figure_axis="step",
    memory=axis("constant", "constant_array", "local", "global", "image", needs=MEMORY_FEATURES),
    step=axis(*(1 << k for k in range(11))),
)
def step_latency(device: Device, memory: str, step: int) -> Slope:
    """Load-to-use latency of one work-item that reads 2048 words in equal steps.

    Each word leads to the one `step` words further, modulo the length of the table. Small steps stay in a line that was just
    loaded, and large ones return to the same few lines, each time to another of eight words: the difference between steps is
    the cost of a new line of the nearest cache.
    """
    index = np.arange(TABLE_WORDS)
    following = (index + step) % TABLE_WORDS
    if step >= WORDS_BESIDE:  # a lap of few words would not verify the number of loads
        word = (index + 1) % WORDS_BESIDE
        following = np.where(index + step >= TABLE_WORDS, following // WORDS_BESIDE * WORDS_BESIDE + word, following)
    return _prepare_chains(device, memory, following, np.zeros(1, np.int64), 1)


def make_chains(
    memory: str, pattern: str, degree: int, shift_bytes: int, items: int, wide: int, seed: int
) -> tuple[Array, Array]:
    """The table as indices of the next word, shape (words,), and the start index of each work-item, shape (items,)."""
    words = PRIVATE_TABLE_WORDS if memory == "private" else TABLE_WORDS
    index, item = np.arange(words), np.arange(items)
    rng = np.random.default_rng(seed)
    if pattern == "permuted":
        return np.concatenate([first + _random_cycle(wide, rng) for first in range(0, words, wide)]), item
    if pattern == "scattered":
        rows = words // wide
        columns = np.stack([_random_cycle(rows, rng) for _ in range(wide)], axis=1)  # the next row, for each row and column
        first = np.stack(
            [rng.permutation(rows)[:wide] if rows >= wide else rng.integers(rows, size=wide) for _ in range(-(-items // wide))]
        )
        return (columns * wide + np.arange(wide)).reshape(-1), (first.reshape(-1)[:items] * wide + item % wide)
    row, shift = max(wide, MIN_ROW_WORDS), shift_bytes // 4
    place = (index - shift) % words
    return (place // row * row + (place + 1) % row + shift) % words, (item // degree * degree + shift) % words


def _random_cycle(count: int, rng: np.random.Generator) -> Array:
    """The successor of each number in one random cycle through all of them."""
    return random_cycle(count, int(rng.integers(1 << 31)))[1].astype(np.int64)


def position_after(table: Array, start: Array, steps: int) -> Array:
    """The positions of chains after `steps` steps, by repeated squaring of the table; shape of `start`."""
    place, power = start, table
    while steps:
        if steps & 1:
            place = power[place]
        power, steps = power[power], steps >> 1
    return place


def _prepare_chains(device: Device, memory: str, table: Array, start: Array, groups: int) -> Slope:
    """The slope over chains in a table in this memory, from these start positions in each work-group."""
    items = start.size
    if items > device.info.max_work_group:
        raise Skip(f"a work-group of {items} is over this device's {device.info.max_work_group} work-items")
    unit = 1 if memory in ("image", "private", "register") else 4  # the unit of an index
    text, args = _place_table(device, memory, (unit * table).astype(np.uint32), groups)
    ptx = "ptx" in device.info.features
    kernel = device.build(text + kernel_source("subgroup"), **{f"MEMORY_{memory}": 1}, WORDS=table.size, PTX=ptx)["follow"]
    starts, ends = device.alloc(4 * items), device.alloc(8 * items * groups)
    device.upload(starts, (unit * start).astype(np.uint32))
    period = _cycle_length(table, int(start[0]))

    def work(least: int) -> Work:
        blocks = telling_count(least, period, STEPS_PER_BLOCK)
        steps = STEPS_PER_BLOCK * blocks

        def check() -> None:
            reached, made = device.download(ends, np.uint32, 2 * items * groups).reshape(2, groups, items)
            assert (made == steps).all(), f"some work-items made {made[made != steps].flat[0]} steps, not {steps}"
            wanted = (
                iterate_multiply_add(start, FACTOR, ADDEND, steps)
                if memory == "register"
                else unit * position_after(table, start, steps)
            )
            wrong = int((reached != wanted.astype(np.uint32)).sum())
            assert wrong == 0, f"{wrong} of {reached.size} chains end at a wrong word after {steps} steps"

        launch = Launch(kernel, (*args, starts, ends, np.uint32(blocks)), (items * groups,), (items,))
        return Work(commands=(launch,), ops=steps, outputs=((ends, 8 * items * groups),), check=check)

    return Slope(work, start=16, most=1 << 26)


def _cycle_length(table: Array, start: int) -> int:
    """The number of steps after which the chain returns to its first word."""
    place, length = int(table[start]), 1
    while place != start and length <= table.size:
        place, length = int(table[place]), length + 1
    return length


def _place_table(device: Device, memory: str, cells: Array, groups: int) -> tuple[str, tuple[Any, ...]]:
    """The text in front of the kernel's source, and the kernel's first arguments."""
    if memory == "register":
        return "", (np.uint32(FACTOR), np.uint32(ADDEND))
    if memory == "image":
        if device.info.image_buffer_texels < cells.size:
            raise Skip("device has no images of this form")
        return "", (device.image(cells, "1d_buffer"),)
    if memory == "constant_array":
        return f"constant uint constant_table[{cells.size}] = {{{','.join(map(str, cells.tolist()))}}};\n", (device.alloc(4),)
    if memory in ("global", "global_cg"):
        cells = np.tile(cells, groups)
    buffer = device.alloc(cells.nbytes)
    device.upload(buffer, cells)
    return "", (buffer, Local(cells.nbytes)) if memory == "local" else (buffer,)
