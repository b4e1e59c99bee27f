"""What a traced kernel demands of a device: instructions, bytes of every level, passes over banks, atomics, intervals. Pure.

The trace is a sample of whole work-groups; amounts are those of the whole launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.studies.kernel import lockstep, program
from clmembench.studies.kernel.facts import KernelFacts
from clmembench.studies.kernel.issue import estimated_instructions, fewest_instructions, is_function, most_instructions
from clmembench.studies.kernel.loops import UNROLLED
from clmembench.studies.kernel.patterns import MOST, touched_lines
from clmembench.studies.kernel.requests import LOCAL, Accesses, Integers, Requests, Sample, joined, requests
from clmembench.studies.kernel.reuse import COLD, stack_distances
from clmembench.studies.kernel.trace import ATOMIC, LOAD, STORE

LOCAL_BASE = 1 << 62  # added to addresses of local memory on devices that cache it like global memory
SECTOR_BYTES = 32  # that GPUs' caches fill
WIDTH, BANKS, BANK_BYTES = "32", "32", 4  # of facts on local memory
MOST_KEPT = 64  # numbers of one load that a work-item keeps in registers


@dataclass(frozen=True, slots=True)
class Intervals:
    """The requests of the representative sub-group, those between two waits together, and how many operations of each latency
    it waits for besides, from a load to what needs its value."""

    requests: Sequence[tuple[int, ...]]
    operations: Mapping[str, int]


@dataclass(frozen=True)
class Demand:
    """Amounts of the whole launch for sub-groups of `width` work-items and lines of `line_bytes`.

    `instructions` are those of sub-groups, at least, at best estimate and at most, `functions` the mathematical ones of
    work-items, and `chained` the operations of work-items that wait for each other in loops. `requests` are lines that
    sub-groups ask the first cache for, and lines of private arrays in memory, of which there are `most_requests` if work-items
    access different places; `private_stores` are those lines that are stored, at least and at most. `local_passes` are those
    over the banks of local memory. `atomics` are passes over blocks of global memory, of which there are `atomic_blocks`: a
    request makes one over each block that it touches, and another for each further work-item at the same address (on CPUs one
    for each operation); `hottest` are those over the busiest block. `local_atomics` are passes over banks (on CPUs
    operations). `whole` are the blocks that a work-group stores every byte of, and `prefetched` says of each request whether
    its instruction walks on from block to block, on CPUs.
    """

    sample: Sample
    width: int
    line_bytes: int
    block_bytes: int
    in_lockstep: bool
    instructions: tuple[float, float, float]
    functions: float
    chained: float
    flops: float
    double_flops: float
    requests: float
    most_requests: float
    private_stores: tuple[float, float]
    item_requests: float
    loaded_bytes: float
    stored_bytes: float
    local_passes: float
    atomics: float
    atomic_blocks: float
    hottest: float
    local_atomics: float
    barriers: float
    intervals: Intervals
    slow_intervals: Intervals  # if a compiler moves no load before an earlier round of its loop
    served: Requests
    block_request: Integers
    block: Integers
    distance: Integers  # of blocks, from the last touch of the same one
    whole: Integers
    prefetched: np.ndarray

    def missed(self, cache_bytes: float, groups: int) -> np.ndarray:
        """Whether each touch of a block misses the first caches of that size; `groups` are the work-groups that share one, of
        which each has its part. Stores and atomics pass through those of devices in lockstep."""
        capacity = cache_bytes / self.block_bytes / max(1, groups)
        missed = (self.distance == COLD) | (self.distance >= capacity)
        if self.in_lockstep:
            missed = missed | (self.served.operation[self.block_request] != LOAD)
        return np.asarray(missed)

    def miss_share(self, cache_bytes: float, groups: int) -> np.ndarray:
        """The share of each request's blocks that miss the first cache, by the number of the request in the trace."""
        missed = self.missed(cache_bytes, groups)
        total = np.bincount(self.block_request, minlength=self.served.count)
        return np.asarray(np.bincount(self.block_request, missed, self.served.count) / np.maximum(total, 1))


def demand(sample: Sample, facts: KernelFacts, width: int, line_bytes: int, in_lockstep: bool) -> Demand:
    """What a launch demands of devices with this width and line."""
    accesses, scale, items = sample.accesses, sample.scale, sample.group_items
    inside = (accesses.space == LOCAL) & in_lockstep  # a core keeps local memory in its caches
    mine = accesses[~inside]
    mine = replace(mine, address=mine.address + LOCAL_BASE * (mine.space == LOCAL))
    served = requests(mine, items, width, in_lockstep)
    lines, _ = touched_lines(served.of, mine.address, mine.size, line_bytes)
    block_bytes = SECTOR_BYTES if in_lockstep else line_bytes
    block_request, block = touched_lines(served.of, mine.address, mine.size, block_bytes)
    group = served.sub_group // -(-items // width)
    # work-groups of one cache are not neighbours on a GPU, and follow each other on a core
    salted = joined(group[block_request], np.unique(block, return_inverse=True)[1]) if in_lockstep else block
    together = _issued_lanes(sample, width) if in_lockstep else dict.fromkeys(sample.texts, 1.0)
    left = {**sample.loops.left, **{number: 0.0 for number, kept in sample.loops.private.items() if kept}}
    private = sum(sample.executed[number] for number, kept in sample.loops.private.items() if not kept)
    issued = {number: times * together[number] / width for number, times in sample.executed.items()}
    fewest, usual = (
        sum(times * cost(sample.texts[number]) * left.get(number, 1.0) for number, times in issued.items())
        for cost in (fewest_instructions, estimated_instructions)
    )
    spilled = {one: _private_lines(sample, issued, one, width if in_lockstep else 1) for one in ("load", "store")}
    most = sum(times * most_instructions(sample.texts[number]) for number, times in issued.items())
    flops = [
        sum(times * program.flops(text) for number, times in sample.executed.items()
            if ("double" in (text := sample.texts[number])) == double)
        for double in (False, True)
    ]  # fmt: skip
    local = [one for one in facts.memory if one.space == "local" and in_lockstep and one.requests]
    atomic = (mine.operation == ATOMIC) & (mine.space != LOCAL)
    passes, places = atomic_passes(mine[atomic], served.of[atomic], block_bytes, in_lockstep)
    inner = accesses[(accesses.operation == ATOMIC) & (accesses.space == LOCAL)]
    return Demand(
        sample, width, line_bytes, block_bytes, in_lockstep,
        instructions=(fewest, usual, most),
        functions=sum(times for number, times in sample.executed.items() if is_function(sample.texts[number])),
        chained=sample.loops.chained,
        flops=flops[0], double_flops=flops[1],
        requests=len(lines) * scale + sum(one[0] for one in spilled.values()),
        most_requests=len(lines) * scale + sum(one[1] for one in spilled.values()),
        private_stores=spilled["store"], item_requests=len(mine) * scale + private,
        loaded_bytes=float(mine.size[mine.operation == LOAD].sum()) * scale,
        stored_bytes=float(mine.size[mine.operation != LOAD].sum()) * scale,
        local_passes=sum(
            one.requests[WIDTH] * one.bank_conflict_ways[WIDTH][BANKS] * max(1, one.access_bytes // BANK_BYTES) for one in local
        ),
        atomics=float(passes.sum()) * scale, atomic_blocks=len(places) * (scale if _grows(mine[atomic]) else 1.0),
        hottest=float(passes.max(initial=0.0)) * scale,
        local_atomics=local_atomic_passes(inner, requests(inner, items, width, in_lockstep).of, in_lockstep) * scale,
        barriers=sample.barriers,
        intervals=intervals(sample, served, in_lockstep, UNROLLED), slow_intervals=intervals(sample, served, in_lockstep, 1),
        served=served, block_request=block_request, block=block, distance=stack_distances(salted),
        whole=_whole_blocks(mine, block_bytes) if in_lockstep else np.zeros(0, np.int64),
        prefetched=np.zeros(served.count, bool) if in_lockstep else _prefetched(served, block_request, block),
    )  # fmt: skip


def _private_lines(sample: Sample, issued: Mapping[int, float], operation: str, width: int) -> tuple[float, float]:
    """Lines of private arrays in memory that loads or stores touch, at least and at most."""
    loops = sample.loops
    mine = [one for one, kept in loops.private.items() if not kept and program.opcode(sample.texts[one]) == operation]
    ends = [(issued[one] * least, issued[one] * most) for one in mine for least, most in (loops.lines(one, width),)]
    return sum(least for least, _ in ends), sum(most for _, most in ends)


def _issued_lanes(sample: Sample, width: int) -> dict[int, float]:
    """Lanes of sub-groups that are issued for each work-item that executes an instruction, by its number."""
    return dict.fromkeys(sample.texts, _divergence(sample, width)) | lockstep.lanes(
        sample.branches, sample.texts, sample.group_items, width
    )


def _divergence(sample: Sample, width: int) -> float:
    """Lanes of sub-groups that execute an access or a branch for each work-item that does, in the mean."""
    accesses = sample.accesses
    count = len(accesses) + len(sample.branches)
    every = requests(accesses, sample.group_items, width, True).count
    owner = sample.branches.sub_groups(sample.group_items, width)
    ways = joined(joined(owner, sample.branches.instruction), sample.branches.nth)
    return max(1.0, (every + len(np.unique(ways))) * width / count) if count else 1.0


def local_atomic_passes(atomics: Accesses, request: Integers, in_lockstep: bool) -> float:
    """Passes over the banks of local memory: of each request the work-items that meet at its busiest bank."""
    if not in_lockstep or not len(atomics):
        return float(len(atomics))
    banks = int(BANKS)
    pair, times = np.unique(request * banks + atomics.address // BANK_BYTES % banks, return_counts=True)
    return float(np.maximum.reduceat(times, np.flatnonzero(np.diff(pair // banks, prepend=-1))).sum())


def atomic_passes(atomics: Accesses, request: Integers, block_bytes: int, in_lockstep: bool) -> tuple[np.ndarray, Integers]:
    """Passes of atomics over each block, and the blocks."""
    if not in_lockstep:
        request = np.arange(len(atomics))
    block, pair = atomics.address // block_bytes, joined(request, np.unique(atomics.address, return_inverse=True)[1])
    _, first, times = np.unique(pair, return_index=True, return_counts=True)  # the same address of a request
    again = times - 1
    touched = np.unique(joined(request, np.unique(block, return_inverse=True)[1]), return_index=True)[1]
    places, of = np.unique(block, return_inverse=True)
    count = len(places)
    return np.bincount(of[touched], minlength=count) + np.bincount(of[first], again, count), places


def _grows(accesses: Accesses) -> bool:
    """Whether the second half of accesses touches many addresses that the first half does not."""
    half = len(accesses) // 2
    first, second = np.unique(accesses.address[:half]), np.unique(accesses.address[half:])
    return 2 * len(np.setdiff1d(second, first)) > len(second)


def _prefetched(served: Requests, block_request: Integers, block: Integers) -> np.ndarray:
    """Of each request, whether most steps of its instruction to another block are to the next one, which cores foresee."""
    found = np.zeros(served.count, bool)
    instruction = served.instruction[block_request]
    for number in np.unique(instruction).tolist():
        steps = np.diff(block[instruction == number])
        found[served.instruction == number] = (steps == 1).sum() >= MOST * max(1, (steps != 0).sum())
    return found


def _whole_blocks(accesses: Accesses, block_bytes: int) -> Integers:
    """The blocks of which a work-group stores every byte."""
    stores = accesses[accesses.operation == STORE]
    places = joined(stores.group, np.unique(stores.address, return_inverse=True)[1])
    stores = stores[np.unique(places, return_index=True)[1]]
    block, of = np.unique(stores.address // block_bytes, return_inverse=True)
    return block[np.bincount(of, stores.size, len(block)) >= block_bytes]


def intervals(sample: Sample, served: Requests, in_order: bool, most_ahead: int) -> Intervals:
    """The requests of the representative sub-group, the one with the middle number of them, cut where it must wait: for an
    address, a branch or data to store, at a barrier, and when a loop has gone round as often as its loads are moved ahead.
    Cores do not execute in order: theirs are the loads that wait for equally many others, one after another. Source: the
    intervals of Huang et al. 2014; Wang et al. 2019, section 2."""
    owners, counts = np.unique(served.sub_group, return_counts=True)
    chosen = owners[np.argsort(counts, kind="stable")[len(counts) // 2]] if len(counts) else -1
    dependences, texts = sample.dependences, sample.texts
    waits_for = dependences.waits_for
    in_runtime_loop, ahead = sample.loops.is_in_runtime_loop, sample.loops.rounds_ahead
    if not in_order:
        return Intervals(_levels(sample, served, chosen), {})
    operations = Counter[str]()
    found, now, pending, times, before = list[tuple[int, ...]](), list[int](), set[int](), dict[int, int](), -1
    for number in np.flatnonzero(served.sub_group == chosen).tolist():
        at = int(served.instruction[number])
        waits, waiting = set(waits_for[at]), [at]
        if not waits & pending:
            for n in range(before + 1, at) if at > before else range(at, before + 1):
                text = texts.get(n, "")
                if text.startswith("br i1"):
                    waits |= waits_for[n]
                    waiting.append(n)
                elif program.kind(text) == "barrier":
                    waits |= pending
        at_once = min(most_ahead, ahead.get(at, 1)) if in_runtime_loop(at) else MOST_KEPT
        if waits & pending or times.get(at, 0) >= at_once:
            found.append(tuple(now))
            operations.update(dependences.way(pending, waiting if waits & pending else ()))
            now, pending, times = [], set(), {}
        now.append(number)
        if served.operation[number] != STORE:
            pending.add(at)
        times[at] = times.get(at, 0) + 1
        before = at
    operations.update(dependences.way(pending, ()))
    return Intervals([*found, tuple(now)], operations)


def _levels(sample: Sample, served: Requests, chosen: int) -> list[tuple[int, ...]]:
    """The loads of a sub-group by how many others each waits for, one after another."""
    waits_for, depth, found = sample.dependences.waits_for, dict[int, int](), list[list[int]]()
    for number in np.flatnonzero((served.sub_group == chosen) & (served.operation != STORE)).tolist():
        at = int(served.instruction[number])
        level = max((depth[one] + 1 for one in waits_for[at] if one in depth), default=0)
        depth[at] = level
        found += [[] for _ in range(level + 1 - len(found))]
        found[level].append(number)
    return [tuple(one) for one in found]
