"""What a traced kernel demands of a device: instructions, bytes of every level, passes over banks, atomics, intervals. Pure.

The trace is a sample of whole work-groups; amounts are those of the whole launch. Bytes that a shared cache must fetch from
memory follow from what each buffer grows by with every further work-group: what is accessed again after all of a buffer was
passed over hits as far as the cache holds what all buffers grew by meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.studies.kernel import program
from clmembench.studies.kernel.facts import KernelFacts
from clmembench.studies.kernel.issue import estimated_instructions, fewest_instructions, most_instructions
from clmembench.studies.kernel.patterns import touched_lines
from clmembench.studies.kernel.requests import BUFFER_SHIFT, LOCAL, Integers, Requests, Sample, joined, requests
from clmembench.studies.kernel.reuse import COLD, stack_distances
from clmembench.studies.kernel.trace import ATOMIC, LOAD, STORE

LOCAL_BASE = 1 << 62  # added to addresses of local memory on devices that cache it like global memory
SECTOR_BYTES = 32  # that GPUs' caches fill
WIDTH, BANKS, BANK_BYTES = "32", "32", 4  # of facts on local memory
LOOP_LOADS = 4  # executions of a load that compilers issue before they use the first, in loops that they unroll


@dataclass(frozen=True, slots=True)
class BufferTraffic:
    """Blocks of one buffer that the first caches ask the shared one for, loaded or stored, in the whole launch (`accesses`),
    but for those that the traced work-groups share (`far`); how many distinct ones there are, at most those of the buffer, and
    how many of these are stored."""

    accesses: float
    far: float
    distinct: float
    stored: float
    group_distinct: float


@dataclass(frozen=True)
class Demand:
    """Amounts of the whole launch for sub-groups of `width` work-items and lines of `line_bytes`.

    `instructions` are those of sub-groups, at least, at best estimate and at most; `items` those of work-items. `requests` are
    lines that sub-groups ask the first cache for. `local_passes` are those over the banks of local memory. `atomics` are
    operations on global memory, `hottest` those on its busiest address.
    """

    sample: Sample
    width: int
    line_bytes: int
    block_bytes: int
    in_lockstep: bool
    instructions: tuple[float, float, float]
    flops: float
    double_flops: float
    requests: float
    item_requests: float
    loaded_bytes: float
    stored_bytes: float
    local_passes: float
    atomics: float
    hottest: float
    local_atomics: float
    local_hottest: float
    barriers: float
    intervals: Sequence[tuple[int, ...]]  # requests of the representative sub-group
    served: Requests
    block_request: Integers
    block: Integers
    distance: Integers  # of blocks, from the last touch of the same one

    def missed_blocks(self, cache_bytes: float, groups: int) -> float:
        """Blocks that all first caches of that size miss in loads, and all stored ones where stores pass through; `groups` are
        the work-groups that share a cache, of which each has its part."""
        return float(self._missed(cache_bytes, groups).sum()) * self.sample.scale

    def _missed(self, cache_bytes: float, groups: int) -> np.ndarray:
        capacity = cache_bytes / self.block_bytes / max(1, groups)
        missed = (self.distance == COLD) | (self.distance >= capacity)
        if self.in_lockstep:  # stores and atomics go to the shared cache
            missed = missed | (self.served.operation[self.block_request] != LOAD)
        return np.asarray(missed)

    def miss_share(self, cache_bytes: float, groups: int) -> np.ndarray:
        """The share of each request's blocks that miss the first cache, by the number of the request in the trace."""
        missed = self._missed(cache_bytes, groups)
        total = np.bincount(self.block_request, minlength=self.served.count)
        return np.asarray(np.bincount(self.block_request, missed, self.served.count) / np.maximum(total, 1))

    def traffic(self, cache_bytes: float, groups: int) -> dict[int, BufferTraffic]:
        """What the first caches of that size leave for the shared one, by the number of the buffer."""
        missed = self._missed(cache_bytes, groups)
        block, op = self.block[missed], self.served.operation[self.block_request[missed]]
        buffer = block >> (BUFFER_SHIFT - int(math.log2(self.block_bytes)))
        found = {}
        for number in np.unique(buffer).tolist():
            mine = buffer == number
            most = -(-self.sample.buffer_bytes.get(number, 1 << 62) // self.block_bytes)
            distinct = len(np.unique(block[mine]))
            stored = len(np.unique(block[mine & (op != LOAD)]))
            scale = self.sample.scale
            found[number] = BufferTraffic(
                float(mine.sum()) * scale,
                distinct * scale,
                min(distinct * scale, most),
                min(stored * scale, most),
                distinct / self.sample.traced_groups,
            )
        return found


def memory_blocks(traffic: dict[int, BufferTraffic], cache_blocks: float) -> float:
    """Blocks that a shared cache of that size exchanges with memory, where the launch is one of many with the same data."""
    footprint = sum(one.distinct for one in traffic.values())
    kept = min(1.0, cache_blocks / footprint) if footprint else 1.0
    total = 0.0
    for one in traffic.values():
        period = one.distinct / one.group_distinct if one.group_distinct else 0.0
        meanwhile = sum(min(other.group_distinct * period, other.distinct) for other in traffic.values())
        again = max(0.0, one.far - one.distinct)
        hits = min(1.0, cache_blocks / meanwhile) if meanwhile else 1.0
        total += one.distinct * (1 - kept) + again * (1 - hits) + one.stored * (1 - kept)
    return total


def demand(sample: Sample, facts: KernelFacts, width: int, line_bytes: int, in_lockstep: bool) -> Demand:
    """What a launch demands of devices with this width and line."""
    accesses, scale, items = sample.accesses, sample.scale, sample.group_items
    inside = (accesses.space == LOCAL) & in_lockstep  # a core keeps local memory in its caches
    mine, inner = accesses[~inside], accesses[inside]
    mine = replace(mine, address=mine.address + LOCAL_BASE * (mine.space == LOCAL))
    served = requests(mine, items, width, in_lockstep)
    lines, _ = touched_lines(served.of, mine.address, mine.size, line_bytes)
    block_bytes = SECTOR_BYTES if in_lockstep else line_bytes
    block_request, block = touched_lines(served.of, mine.address, mine.size, block_bytes)
    group = served.sub_group // -(-items // width)
    # work-groups of one cache are not neighbours on a GPU, and follow each other on a core
    salted = joined(group[block_request], np.unique(block, return_inverse=True)[1]) if in_lockstep else block
    every = requests(accesses, items, width, in_lockstep).count
    divergence = max(1.0, every * width / len(accesses)) if len(accesses) and in_lockstep else 1.0
    per_item = [
        sum(times * cost(sample.texts[number]) for number, times in sample.executed.items())
        for cost in (fewest_instructions, estimated_instructions, most_instructions)
    ]
    flops = [
        sum(times * program.flops(text) for number, times in sample.executed.items()
            if ("double" in (text := sample.texts[number])) == double)
        for double in (False, True)
    ]  # fmt: skip
    local = [one for one in facts.memory if one.space == "local" and in_lockstep and one.requests]
    atomic, local_atomic = mine.operation == ATOMIC, inner.operation == ATOMIC
    return Demand(
        sample, width, line_bytes, block_bytes, in_lockstep,
        instructions=tuple(one * divergence / width for one in per_item),  # type: ignore[arg-type]
        flops=flops[0], double_flops=flops[1],
        requests=len(lines) * scale, item_requests=len(mine) * scale,
        loaded_bytes=float(mine.size[mine.operation == LOAD].sum()) * scale,
        stored_bytes=float(mine.size[mine.operation != LOAD].sum()) * scale,
        local_passes=sum(
            one.requests[WIDTH] * one.bank_conflict_ways[WIDTH][BANKS] * max(1, one.access_bytes // BANK_BYTES) for one in local
        ),
        atomics=float(atomic.sum()) * scale, hottest=_hottest(mine.address[atomic]) * scale,
        local_atomics=float(local_atomic.sum()) * scale,
        local_hottest=_hottest(inner.address[local_atomic]) * scale,
        barriers=sample.barriers,
        intervals=intervals(sample, served, in_lockstep),
        served=served, block_request=block_request, block=block, distance=stack_distances(salted),
    )  # fmt: skip


def _hottest(address: Integers) -> float:
    """Operations on the busiest address."""
    return float(np.unique(address, return_counts=True)[1].max()) if len(address) else 0.0


def intervals(sample: Sample, served: Requests, in_order: bool) -> list[tuple[int, ...]]:
    """The requests of the representative sub-group, the one with the middle number of them, cut where it must wait: for an
    address, and where it executes in order also for a branch, for data to store, at a barrier, and when a loop that uses its
    loads has gone round several times. Source: the intervals of Huang et al. 2014; Wang et al. 2019, section 2."""
    owners, counts = np.unique(served.sub_group, return_counts=True)
    chosen = owners[np.argsort(counts, kind="stable")[len(counts) // 2]] if len(counts) else -1
    waits_for, texts = sample.dependences.waits_for, sample.texts
    found, now, pending, times, before = list[tuple[int, ...]](), list[int](), set[int](), dict[int, int](), -1
    for number in np.flatnonzero(served.sub_group == chosen).tolist():
        at = int(served.instruction[number])
        waits = set(waits_for[at]) if served.operation[number] == LOAD or in_order else set()
        if in_order and not waits & pending:
            for n in range(before + 1, at) if at > before else range(at, before + 1):
                text = texts.get(n, "")
                if text.startswith("br i1"):
                    waits |= waits_for[n]
                elif program.kind(text) == "barrier":
                    waits |= pending
        if waits & pending or (in_order and times.get(at, 0) >= LOOP_LOADS):
            found.append(tuple(now))
            now, pending, times = [], set(), {}
        now.append(number)
        if served.operation[number] != STORE:
            pending.add(at)
        times[at] = times.get(at, 0) + 1
        before = at
    return [*found, tuple(now)]
