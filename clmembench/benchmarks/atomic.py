"""B3: contended atomic operations on one address and on many, in global and in local memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks import (
    axis,
    axis_of,
    benchmark,
    telling_count,
    work_group_sizes,
)
from clmembench.model import Array, Device, DeviceInfo, Fill, Headline, Launch, Metric, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

TIME = Metric("time", "ns", "ops", "slope", "lower", cycles=True)
THROUGHPUT = Metric("throughput", "Gop/s", "ops", "slope_rate", "higher", times="items")

OPERATION_CODES = {"add": 0, "cas": 1, "exchange": 2}
LOOP_ADD_CODE = 3
REAL_TYPES = {"float": "float", "double": "double"}
DEFAULT_POINT: Mapping[str, Value] = {
    "op": "add",
    "dtype": "int",
    "memory": "global",
    "address": "same",
    "result": "used",
}  # at any number of work-items
ADDRESS_CODES = {"same": 0, "group": 1, "line": 2, "spread": 3, "near": 3}
GPU_GROUP_SIZE = 256  # work-items of a GPU's work-group
MAX_LOOPING_ITEMS = 1024  # after each success of a compare-and-swap all other work-items retry
NOTE_COMBINED_ADDS = "int: compilers may combine a sub-group's additions to one address into one atomic; long is never combined"
CELL_DISTANCE_BYTES = 256  # so that no cache line or sector holds two cells
SPREAD_CELLS = 1 << 20  # cells that the operations with address=spread use
LOCAL_SPREAD_CELLS = 1 << 10
NEAR_CELLS = 1 << 8  # neighbouring words, as many as the bins of a usual histogram: few lines of a cache
RANDOM = ("spread", "near")
MIN_SPREAD_SHARE = 0.5  # of the cells that random operations reach: compare-and-swaps favour cells they have already reached
MAX_EXACT_COUNT = {"float": 1 << 24, "double": 1 << 31}  # exact in this type and in the kernel's counter


def _item_counts(info: DeviceInfo) -> tuple[int, ...]:
    """Numbers of competing work-items: on CPUs up to one per compute unit, in work-groups of one; on GPUs up to 8 work-groups
    per unit."""
    units = info.compute_units
    if info.has_cpu_cores:
        return tuple(dict.fromkeys([1 << k for k in range(12) if 1 << k < units] + [units]))
    group = work_group_sizes(info, GPU_GROUP_SIZE)[0]
    return tuple(dict.fromkeys((1, 32, group, MAX_LOOPING_ITEMS, group * units, 8 * group * units)))


def _default_items(info: DeviceInfo) -> int:
    """The number of work-items at which the other axes are varied: one work-group per compute unit."""
    return info.compute_units * (1 if info.has_cpu_cores else work_group_sizes(info, GPU_GROUP_SIZE)[0])


def _where(info: DeviceInfo, op: str, dtype: str, memory: str, address: str, result: str, items: int) -> bool:
    if op == "cas" and result == "unused":
        return False  # the result of a compare-and-swap is its success
    if dtype in REAL_TYPES and (op != "add" or result == "unused" or (not info.has_cpu_cores and items > MAX_LOOPING_ITEMS)):
        return False
    # work-groups share no local memory, and local memory has no lines
    return memory == "global" or address in ("same", *RANDOM)


def _in_default_subset(info: DeviceInfo, **params: Value) -> bool:
    """Points of the default subset.

    The default point and `long`, whose additions compilers do not combine, are measured at all numbers of work-items. At one
    number, further points differ from the default in one axis, or in two related ones; random additions are also measured at
    the largest, which shows their throughput.
    """
    differing = {name for name, value in DEFAULT_POINT.items() if params[name] != value}
    if differing <= {"result"} or (differing == {"dtype"} and params["dtype"] == "long"):
        return True
    usual = min(MAX_LOOPING_ITEMS, _default_items(info)) if params["dtype"] in REAL_TYPES else _default_items(info)
    if params["items"] == 1 and differing == {"address"} and params["address"] == "spread":
        return not info.has_cpu_cores
    together = ({"memory", "address"}, {"memory", "result"}, {"address", "result"})
    if params["items"] == _item_counts(info)[-1] and params["address"] in RANDOM and params["result"] == "unused":
        return differing <= {"memory", "address", "result"}
    return params["items"] == usual and (
        len(differing) == 1 or (differing in together and params["address"] in ("same", *RANDOM))
    )


def _scaling_point(info: DeviceInfo) -> Mapping[str, Value]:
    """The point of a scaling study: on CPUs the default with one work-item on each compute unit.

    Other devices have none, since the axis `items` already covers it.
    """
    if info.kind != "cpu":
        return {}
    return {**DEFAULT_POINT, "items": info.compute_units}


@benchmark(
    TIME,
    THROUGHPUT,
    suite="sync",
    source="Razzaq et al. 2016, section IV-B1 (B3)",
    quick={
        "op": axis("add"),
        "dtype": axis("int"),
        "memory": axis("global"),
        "address": axis_of(lambda info: ("same",) if info.has_cpu_cores else ("same", "spread")),
        "result": axis("used"),
        "items": axis_of(lambda info: tuple(dict.fromkeys((1, _default_items(info))))),
    },
    headlines=(
        Headline(
            "atomics",
            "add by one work-item",
            "time",
            {**DEFAULT_POINT, "address": "spread", "items": 1},
            note="mean over random words of 4 MiB, near and far in a partitioned last cache; a smaller one misses some",
            on_cpu="one word, in the core's own cache",
            core_params={"address": "same"},
        ),
        # long, since GPUs' compilers merge a sub-group's additions of int; nothing merges those of several cores
        Headline(
            "atomics",
            "adds to one address by all work-items",
            "throughput",
            {**DEFAULT_POINT, "dtype": "long"},
            {"items": "largest"},
            core_params={"dtype": "int"},
        ),
    ),
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="items",
    scaling=_scaling_point,
    op=axis(*OPERATION_CODES),
    dtype=axis("int", "long", "float", "double", needs={"long": ["int64_atomics"], "double": ["int64_atomics", "fp64"]}),
    memory=axis("global", "local"),
    address=axis(*ADDRESS_CODES),
    result=axis("used", "unused"),
    items=axis_of(_item_counts),
)
def atomic(device: Device, op: str, dtype: str, memory: str, address: str, result: str, items: int) -> Slope:
    """Latency and throughput of contended atomic add, compare-and-swap and exchange.

    All work-items perform equally many operations, one after the other. Addresses: the `same` word for all; neighbouring words,
    one per work-`group`; a separate `line` for each work-item; words `spread` at random over 2^20 (2^10 in local memory); or
    `near` ones, at random of 2^8 neighbours, which share few lines. A
    float or double is added by a compare-and-swap loop (native additions are silently wrong on some runtimes), which counts as
    one operation; `cas` is one attempt. With the result `used` each operation waits for the result of the previous one; with
    `unused` it does not, though results of exchanges are summed. Compilers may combine the additions of a sub-group. On CPUs a
    work-group is one work-item, so that work-groups compete.

    The final contents of the cells and the values that operations returned verify the number of operations exactly. Raises Skip
    for work-items that would run one after the other, or that are not a whole number of work-groups.
    """
    contest = _atomic_case(device.info, op, dtype, memory, address, result, items)
    kernel = device.build(kernel_source("atomic"), **contest.defines())["compete"]
    cells, carried = device.alloc(contest.cells * contest.word.itemsize), device.alloc(items * contest.word.itemsize)
    counted = device.alloc(items * contest.word.itemsize)
    reset = Fill(cells, contest.cells * contest.word.itemsize)
    combined = not device.info.has_cpu_cores and op == "add" and dtype == "int" and items > 1

    def work(least: int) -> Work:
        rounds = contest.telling(least)

        def check() -> None:
            held, counts = (device.download(b, contest.word, items) for b in (carried, counted))
            contest.verify(rounds, device.download(cells, contest.word, contest.cells), held, counts)

        return Work(
            commands=(
                Launch(kernel, (cells, carried, counted, contest.word.type(0), np.uint32(rounds)), (items,), (contest.group,)),
            ),
            ops=rounds,
            before=(reset,),
            outputs=((carried, items * contest.word.itemsize), (counted, items * contest.word.itemsize)),
            check=check,
            concurrent_units=items if device.info.kind == "cpu" else 0,
            notes=(NOTE_COMBINED_ADDS,) if combined else (),
        )

    looping = dtype in REAL_TYPES
    return Slope(work, start=1 if looping else 16, most=MAX_EXACT_COUNT[dtype] // items if looping else 1 << 30)


@dataclass(frozen=True, slots=True)
class _AtomicCase:
    """One combination of the axes: its launch, and its expected results."""

    op: str
    dtype: str
    local: bool
    address: str
    used: bool
    items: int
    group: int

    @property
    def word(self) -> np.dtype[np.unsignedinteger]:
        return np.dtype("u8" if self.dtype in ("long", "double") else "u4")

    @property
    def random_cells(self) -> int:
        """Words that random operations of one cell memory address; 1 for others."""
        spread = LOCAL_SPREAD_CELLS if self.local else SPREAD_CELLS
        return {"spread": spread, "near": NEAR_CELLS}.get(self.address, 1)

    @property
    def cells(self) -> int:
        """Words of global memory: the cells, or, for local memory, a copy of each work-group's cells."""
        if self.local:
            return self.items // self.group * self.random_cells
        across = self.items * (CELL_DISTANCE_BYTES // self.word.itemsize)
        return {"group": self.items // self.group, "line": across}.get(self.address, self.random_cells)

    def defines(self) -> dict[str, Value]:
        looping, wide = self.dtype in REAL_TYPES, self.word.itemsize == 8
        defines: dict[str, Value] = {
            "T": "ulong" if wide else "uint",
            "LONG": wide,
            "OP": LOOP_ADD_CODE if looping else OPERATION_CODES[self.op],
            "ADDRESS": ADDRESS_CODES[self.address],
            "USED": self.used,
            "IN_LOCAL": self.local,
            "SPREAD_CELLS": self.random_cells,
            "LOCAL_CELLS": self.random_cells,
            "LINE_BYTES": CELL_DISTANCE_BYTES,
        }
        if looping:
            defines |= {
                "REAL": REAL_TYPES[self.dtype],
                "AS_REAL": f"as_{self.dtype}",
                "AS_T": "as_ulong" if wide else "as_uint",
            }
        return defines | ({"FP64": 1} if self.dtype == "double" else {})

    def telling(self, least: int) -> int:
        """The first number of operations per work-item, from `least` on, at which wrapping sums reveal any missing operation.

        For real numbers it is `least`, since their sums are exact.
        """
        if self.dtype in REAL_TYPES:
            return least
        words = 1 << 8 * self.word.itemsize
        return telling_count(least, words // math.gcd(self.items, words))

    def verify(self, rounds: int, cells: Array, held: Array, counts: Array) -> None:
        """Raises AssertionError for cells, values or counts of work-items that differ from the expected results."""
        if self.address in RANDOM:
            self._verify_spread(rounds, cells, counts)
        if self.dtype in REAL_TYPES:
            added = float(cells.view("f8" if self.word.itemsize == 8 else "f4").astype(np.float64).sum())
            assert added == self.items * rounds, f"{self.items * rounds} additions of 1 left {added:g}"
            assert (counts == rounds).all(), "some work-items did not do all their operations"
        elif self.op == "exchange":
            self._verify_exchanges(rounds, cells, held, counts)
        elif self.op == "cas":
            self._verify_swaps(rounds, cells, held, counts)
        else:
            self._verify_additions(rounds, cells, counts)

    @property
    def _mask(self) -> int:
        return (1 << 8 * self.word.itemsize) - 1  # unsigned words wrap, and so does an expected sum

    def _sum(self, *words: Array) -> int:
        return sum(int(part.sum(dtype=np.uint64)) for part in words) & self._mask

    def _busy(self, cells: Array) -> Array:
        """The cells that operations use, if these are not spread."""
        return cells[:: CELL_DISTANCE_BYTES // self.word.itemsize] if self.address == "line" else cells

    def _verify_spread(self, rounds: int, cells: Array, counts: Array) -> None:
        """The operations that wrote reached at least half as many cells as random ones do."""
        wrote = int(counts.sum(dtype=np.uint64)) if self.op == "cas" else self.items * rounds
        groups = self.items // self.group if self.local else 1
        expected = len(cells) * -math.expm1(-wrote / groups / (len(cells) // groups))
        reached = np.count_nonzero(cells)
        assert reached >= MIN_SPREAD_SHARE * expected, (
            f"{wrote} operations reached {reached} cells; random ones reach {expected:.0f}"
        )

    def _verify_additions(self, rounds: int, cells: Array, counts: Array) -> None:
        total, wanted = self._sum(cells), self.items * rounds & self._mask
        assert total == wanted, f"{self.items * rounds} additions left {total}"
        if self.address in RANDOM:
            return
        busy = self._busy(cells)
        each = self.items // len(busy) * rounds
        wrong = busy[busy != each & self._mask]
        assert not wrong.size, f"a cell holds {wrong[0]} instead of {each}"
        if self.used:  # the additions to a cell return 0, 1, 2 ... once each
            seen, wanted = self._sum(counts), len(busy) * (each * (each - 1) // 2) & self._mask
            assert seen == wanted, f"the old values add up to {seen} instead of {wanted}: some values were returned twice"

    def _verify_swaps(self, rounds: int, cells: Array, missed: Array, counts: Array) -> None:
        total, won = self._sum(cells), self._sum(counts)
        assert 0 < won == total, f"{won} compare-and-swaps succeeded, and the cells hold {total}"
        tried = (counts + missed)[counts + missed != self.word.type(rounds & self._mask)]
        assert not tried.size, f"a work-item made {tried[0]} attempts instead of {rounds}"
        # an attempt fails only if another one has succeeded since the last attempt
        if self.address not in RANDOM and self.items * rounds <= self._mask:
            busy = self._busy(cells)
            assert (busy >= rounds).all(), f"a cell has {busy.min()} successes, but each work-item made {rounds} attempts"

    def _verify_exchanges(self, rounds: int, cells: Array, held: Array, counts: Array) -> None:
        """Every value that was exchanged into a cell was returned by another exchange or is still there.

        With the result used, each exchange adds 1 to a value that a work-item or a cell held; otherwise a work-item stores its
        index, and 1 more each time.
        """
        first, n = self.items * (self.items + 1) // 2, self.items * rounds
        total = self._sum(cells, held if self.used else counts)
        wanted = first + n if self.used else rounds * first + n * (rounds - 1) // 2
        assert total == wanted & self._mask, f"values add up to {total} instead of {wanted & self._mask}: exchanges are missing"
        assert self.address in RANDOM or (self._busy(cells) != 0).all(), "some cells were never written"
        if not self.used:
            last = (np.arange(1, self.items + 1, dtype=np.uint64) + np.uint64(rounds)).astype(self.word)
            assert np.array_equal(held, last), "a work-item did not do all its operations"


def _atomic_case(info: DeviceInfo, op: str, dtype: str, memory: str, address: str, result: str, items: int) -> _AtomicCase:
    """The case of one point. Raises Skip if its work-items could not compete."""
    if info.has_cpu_cores and items > info.compute_units:
        raise Skip(
            f"{items} work-groups on {info.compute_units} compute units would run one after the other instead of competing"
        )
    group = 1 if info.has_cpu_cores else min(items, work_group_sizes(info, GPU_GROUP_SIZE)[0])
    if items % group:
        raise Skip(f"{items} work-items are not a whole number of work-groups of {group}")
    return _AtomicCase(op, dtype, memory == "local", address, result == "used", items, group)
