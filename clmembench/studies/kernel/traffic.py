"""Blocks that first caches leave for a shared one, and a shared one for memory, of a traced kernel. Pure.

What a shared cache must fetch from memory follows from what each buffer grows by with every further work-group: what is
accessed again after all of a buffer was passed over hits as far as the cache holds what all buffers grew by meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.analysis.little import Estimate
from clmembench.studies.kernel.demand import Demand
from clmembench.studies.kernel.requests import BUFFER_SHIFT, joined
from clmembench.studies.kernel.trace import ATOMIC, LOAD


@dataclass(frozen=True, slots=True)
class Flow:
    """Blocks, and among them `parts` that do not fill a line together, which are in so many `lines`."""

    blocks: float
    parts: float = 0.0
    lines: float = 0.0

    def ns(self, block_bytes: int, byte_rate: Estimate, line_rate: Estimate | None) -> float:
        """Their time where bytes of whole lines, and lines that are touched in part, come at these rates."""
        parts_ns = self.lines / line_rate.value if line_rate is not None else 0.0
        return (
            max(self.parts * block_bytes / byte_rate.value, parts_ns)
            + (self.blocks - self.parts) * block_bytes / byte_rate.value
        )

    def most_ns(self, block_bytes: int, line_bytes: int, byte_rate: Estimate) -> float:
        """Their time if each line that is touched in part came as a whole, which bounds the time of those at no known rate."""
        return ((self.blocks - self.parts) * block_bytes + self.lines * line_bytes) / byte_rate.value


@dataclass(frozen=True, slots=True)
class BufferTraffic:
    """Blocks of one buffer that the first caches ask the shared one for, but for those that the traced work-groups share
    (`far`); how many distinct ones there are in the launch, at most those of the buffer, how many of these are stored, and how
    many are stored whole and never loaded. `stores` is the share of accesses that store, `parts` that of blocks whose lines
    all traced work-groups touch in part, and `lines` are those lines for each block."""

    far: float
    distinct: float
    stored: float
    whole: float
    group_distinct: float
    stores: float
    parts: float
    lines: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Blocks that the shared cache is asked for, loaded and stored without atomics, and the buffers by their numbers. On CPUs
    a store loads a block first, and all count as loads."""

    loads: Flow
    stores: Flow
    buffers: Mapping[int, BufferTraffic]

    @property
    def distinct(self) -> float:
        """Distinct blocks of all buffers."""
        return sum(one.distinct for one in self.buffers.values())

    def from_memory(self, cache_blocks: float) -> Flow:
        """The blocks that a shared cache of that size exchanges with memory, where the launch is one of many with the same
        data. A block that is stored in part is loaded first."""
        kept = min(1.0, cache_blocks / self.distinct) if self.distinct else 1.0
        blocks, parts, lines = 0.0, 0.0, 0.0
        for one in self.buffers.values():
            period = one.distinct / one.group_distinct if one.group_distinct else 0.0
            meanwhile = sum(min(other.group_distinct * period, other.distinct) for other in self.buffers.values())
            hits = min(1.0, cache_blocks / meanwhile) if meanwhile else 1.0
            again = max(0.0, one.far - one.distinct) * (1 - hits) * (1 + one.stores)
            mine = (one.distinct - one.whole + one.stored) * (1 - kept) + again
            blocks, parts, lines = blocks + mine, parts + mine * one.parts, lines + mine * one.lines
        return Flow(blocks, parts, lines)


def traffic(demand: Demand, cache_bytes: float, groups: int) -> Traffic:
    """What the first caches of that size leave for the shared one."""
    missed = demand.missed(cache_bytes, groups)
    block, request = demand.block[missed], demand.block_request[missed]
    operation = demand.served.operation[request]
    loads, per_line = operation == LOAD, demand.line_bytes // demand.block_bytes
    line = joined(request, np.unique(block // per_line, return_inverse=True)[1])
    _, first, of_line, blocks = np.unique(line, return_index=True, return_inverse=True, return_counts=True)
    starts = np.zeros(len(block), bool)
    starts[first] = True
    alone = blocks[of_line] < per_line
    scale = demand.sample.scale

    def flow(chosen: np.ndarray) -> Flow:
        return Flow(*(float(one.sum()) * scale for one in (chosen, chosen & alone, chosen & alone & starts)))

    stores = ~loads & (operation != ATOMIC) if demand.in_lockstep else np.zeros(len(block), bool)
    loaded = flow(loads if demand.in_lockstep else ~stores)
    return Traffic(loaded, flow(stores), _buffers(demand, block, loads))


def _buffers(demand: Demand, block: np.ndarray, loads: np.ndarray) -> dict[int, BufferTraffic]:
    per_line = demand.line_bytes // demand.block_bytes
    shift = BUFFER_SHIFT - int(math.log2(demand.block_bytes))
    touched = np.unique(block)
    in_line = np.unique(touched // per_line, return_counts=True)[1]
    parts = np.repeat(in_line, in_line) < per_line
    starts = np.diff(touched // per_line, prepend=-1) != 0
    sample, found = demand.sample, {}
    for number in np.unique(touched >> shift).tolist():
        mine, ours = block >> shift == number, touched >> shift == number
        most = -(-sample.buffer_bytes.get(number, 1 << 62) // demand.block_bytes)
        distinct, stored = int(ours.sum()), np.unique(block[mine & ~loads])
        whole = np.setdiff1d(np.intersect1d(demand.whole, stored), block[mine & loads])
        found[number] = BufferTraffic(
            far=distinct * sample.scale,
            distinct=min(distinct * sample.scale, most),
            stored=min(len(stored) * sample.scale, most),
            whole=min(len(whole) * sample.scale, most),
            group_distinct=distinct / sample.traced_groups,
            stores=float((mine & ~loads).sum() / mine.sum()),
            parts=float((ours & parts).sum()) / distinct,
            lines=float((ours & parts & starts).sum()) / distinct,
        )
    return found
