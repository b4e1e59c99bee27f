"""Requests of all sub-groups of a trace in the order in which a device serves them. Pure.

Accesses of a sub-group's work-items by the same execution of an instruction are one request. On devices whose work-items run in
lockstep, the sub-groups of a work-group take turns, request by request; on CPUs a work-item runs to the next barrier before the
next one starts, which is the order of the trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clmembench.analysis import stats
from clmembench.studies.kernel.issue import Dependences
from clmembench.studies.kernel.loops import Loops
from clmembench.studies.kernel.trace import BRANCH, Trace

Integers = npt.NDArray[np.int64]
GLOBAL, LOCAL = 1, 3  # address spaces
BUFFER_SHIFT = 48  # of an address: the number of its buffer, from 1 in the order of arguments, stands above
STRETCHES = 8  # of a launch, of which trace_plugin.cpp takes work-groups in turn
MOST_ACCESSES = 400_000  # of a trace that costs are computed from: whole work-groups up to that many


@dataclass(frozen=True, slots=True)
class Accesses:
    """Memory accesses in the order of execution, an element each: number of the instruction, work-group, work-item of the
    group, how often the work-item had executed the instruction, address, bytes, address space, operation, and how many barriers
    the group had passed."""

    instruction: Integers
    group: Integers
    item: Integers
    nth: Integers
    address: Integers
    size: Integers
    space: Integers
    operation: Integers
    epoch: Integers

    def __getitem__(self, chosen: Any) -> Accesses:
        return Accesses(*(getattr(self, name)[chosen] for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.item)


@dataclass(frozen=True, slots=True)
class Branches:
    """Executions of branches on a condition: number of the instruction, work-item of the launch, how often it had executed the
    branch, and the number of the instruction that followed."""

    instruction: Integers
    item: Integers
    nth: Integers
    target: Integers

    def __len__(self) -> int:
        return len(self.item)

    def sub_groups(self, group_items: int, width: int) -> Integers:
        """The number of each one's sub-group; none has work-items of two work-groups."""
        return self.item // group_items * -(-group_items // width) + self.item % group_items // width


def _sampling_error(trace: Trace, group_items: int) -> float:
    """The 95% error of a launch's amounts, as a share, by how much the events of traced stretches of the launch differ, since
    neighbours are alike. 0 where all work-groups were traced, or those of fewer than two stretches."""
    groups = trace.events["group"].astype(np.int64)
    if trace.items % group_items:  # the last one was cut
        groups = groups[groups != groups[-1:].sum()]
    numbers, events = np.unique(groups, return_counts=True)
    stretch = numbers // -(-trace.all_groups // STRETCHES)
    means = np.array([events[stretch == one].mean() for one in np.unique(stretch)])
    if len(numbers) >= trace.all_groups or len(means) < 2:
        return 0.0
    return stats.student(len(means) - 1) * float(means.std(ddof=1) / math.sqrt(len(means)) / means.mean())


NO_BRANCHES = Branches(*[np.zeros(0, np.int64)] * 4)


@dataclass(frozen=True)
class Sample:
    """The part of a trace that costs are computed from. `executed` has how often the launch executes each instruction, by its
    number, `buffer_bytes` the sizes of buffers by their number, as far as they are known, and `local_bytes` those that a
    work-group has of local memory."""

    groups: int
    group_items: int
    traced_groups: float  # those that `accesses` are of
    accesses: Accesses
    executed: Mapping[int, float]
    texts: Mapping[int, str]
    barriers: float
    buffer_bytes: Mapping[int, int]
    local_bytes: int
    branches: Branches = NO_BRANCHES  # of the same work-groups
    error: float = 0.0  # of amounts that are scaled to the launch, as a share

    @classmethod
    def of(cls, trace: Trace, buffer_bytes: Mapping[int, int]) -> Sample:
        """The sample of a trace: its first work-groups."""
        events = trace.events[trace.events["operation"] != BRANCH]
        ends = np.flatnonzero(np.diff(events["group"].astype(np.int64), append=-1)) + 1
        count = max(1, int(np.searchsorted(ends, MOST_ACCESSES, side="right")))
        kept = events[: ends[count - 1]] if len(ends) else events
        group_items = math.prod(trace.local_size)
        whole = math.prod(trace.global_size) / max(1, trace.items)
        taken = trace.events[trace.events["operation"] == BRANCH]
        if len(kept) < len(events):
            taken = taken[np.isin(taken["group"], np.unique(kept["group"]))]
        return cls(
            trace.all_groups,
            group_items,
            trace.items / group_items if len(kept) == len(events) else float(count),
            Accesses(**{name: kept[name].astype(np.int64) for name in Accesses.__slots__}),
            {number: one.executed * whole for number, one in trace.instructions.items()},
            {number: one.text for number, one in sorted(trace.instructions.items())},
            trace.barriers * whole,
            buffer_bytes,
            trace.local_bytes,
            Branches(
                taken["instruction"].astype(np.int64),
                taken["group"].astype(np.int64) * group_items + taken["item"],
                taken["nth"].astype(np.int64),
                taken["address"].astype(np.int64),
            ),
            _sampling_error(trace, group_items),
        )

    @property
    def scale(self) -> float:
        """How many times the sample the launch is."""
        return self.groups / self.traced_groups

    @cached_property
    def dependences(self) -> Dependences:
        """Which loads each instruction waits for."""
        return Dependences(self.texts)

    @cached_property
    def loops(self) -> Loops:
        """The loops of the program."""
        return Loops(self.texts, self.executed)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of sub-groups, each a number from 0 in the order in which they are served; `of` has that of each access."""

    of: Integers
    count: int
    instruction: Integers
    sub_group: Integers
    operation: Integers


def requests(accesses: Accesses, group_items: int, width: int, in_lockstep: bool) -> Requests:
    """The requests of accesses by sub-groups of `width`."""
    sub_group = accesses.group * -(-group_items // width) + accesses.item // width
    keys = joined(joined(sub_group, accesses.instruction), accesses.nth)
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    if in_lockstep:  # the n-th requests of all sub-groups of a group, then the next ones
        step = _ranks(sub_group[first], first)
        order = np.lexsort((sub_group[first], step, accesses.epoch[first], accesses.group[first]))
    else:
        order = np.argsort(first, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    at = first[order]
    return Requests(number[of], len(order), accesses.instruction[at], sub_group[at], accesses.operation[at])


def joined(first: Integers, second: Integers) -> Integers:
    """One number for each pair of numbers, in their order."""
    return first * (int(second.max(initial=0)) + 1) + second


def _ranks(owner: Integers, time: Integers) -> Integers:
    """For each element, how many earlier ones have the same owner."""
    order = np.lexsort((time, owner))
    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return ranks
