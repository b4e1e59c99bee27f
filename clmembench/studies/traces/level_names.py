"""Names of the levels that traces show: a number or DRAM only where the traces, or the size of the last cache, prove it. Pure.

A latency alone does not identify its level. The fastest is that of the first cache if accesses that must hit it were recorded.
The next is that of the next cache if an array slightly larger than the previous one was recorded, since no cache lies between
such sizes. The slowest is that of memory only if revisits of more bytes than the last cache holds had it: first accesses may
hit a cache that the initialisation of the data filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Accesses, Array
from clmembench.studies.traces.latency_modes import MIN_MODE_ACCESSES, MIN_SECTOR_BYTES
from clmembench.studies.traces.streams import lap_length

# Thresholds and limits, each with its reason
MEMORY, SLOWEST, FASTEST = "DRAM", "slowest seen", "fastest seen"
LINE_BYTES = 64  # touched bytes are counted in blocks of it: with longer lines, arrays only seem smaller
MAX_LINE_STRIDE_BYTES = 512  # at wider strides few lines overflow single sets of several caches at once
MAX_LATER_SHARE = 0.05  # share of revisits of an array that fits: more come from a later level
MIN_LATER_SHARE = 0.05  # and of those of an array that does not
MAX_KNEE_RATIO = 2.0  # ratio of two such arrays: the next cache holds at least twice as much as the previous one
MIN_LAST_CACHE_RATIO = 4.0  # times the last cache: of this many bytes hardly any remain cached under any policy
MIN_MEMORY_SHARE = 0.5  # share of revisits of such an array that the first cache does not serve
MIN_REVISITS = 20  # accesses


@dataclass(frozen=True, slots=True)
class _Revisits:
    """The bytes that one trace touched, and the number of revisits of lines that each level served; int64, shape (levels,)."""

    touched_bytes: int
    narrow: bool  # its stride skips no sets
    by_level: Array

    def share_from(self, level: int) -> float:
        return float(self.by_level[level:].sum() / max(self.by_level.sum(), 1))


def level_names(
    traces: Sequence[Accesses], served: Sequence[Array], levels: int, last_cache_bytes: int | None = None
) -> tuple[str, ...]:
    """The names of this many levels; `served` has the level's number for each access (-1: unknown).

    `last_cache_bytes`: capacity of the last cache, if known."""
    revisits = [r for t, s in zip(traces, served, strict=True) if (r := _revisits(t, s, levels)).by_level.sum() >= MIN_REVISITS]
    names = ["L1" if _must_hits(traces, served) >= MIN_MODE_ACCESSES else FASTEST]
    for number in range(1, levels - 1):
        follows = names[-1] == f"L{number}" and _is_next(revisits, number)
        names.append(f"L{number + 1}" if follows else f"level {number + 1} seen")
    if levels > 1:
        names.append(MEMORY if last_cache_bytes and _is_memory(revisits, levels - 1, last_cache_bytes) else SLOWEST)
    return tuple(names[:levels])


def _must_hits(traces: Sequence[Accesses], served: Sequence[Array]) -> int:
    """Accesses to the same bytes as the previous access that the fastest level served."""
    count = 0
    for trace, levels in zip(traces, served, strict=True):
        block = trace.offsets // MIN_SECTOR_BYTES
        count += int((np.r_[False, block[1:] == block[:-1]][: block.size] & (levels == 0)).sum())
    return count


def _revisits(trace: Accesses, served: Array, levels: int) -> _Revisits:
    """Accesses to a line other than the previous access's that was visited earlier."""
    block, lap = trace.offsets // LINE_BYTES, lap_length(trace)
    again = np.ones(block.size, dtype=bool)
    if lap:
        again[: max(0, lap - trace.first_step)] = False
    else:
        again[np.unique(block, return_index=True)[1]] = False
    if lap > block.size:  # part of a lap: the chase has visited all nodes since
        touched = min(lap, trace.first_step + block.size) * min(trace.stride_bytes, LINE_BYTES)
    else:
        touched = np.unique(block).size * LINE_BYTES
    entering = np.r_[True, block[1:] != block[:-1]][: block.size]
    counts = np.bincount(served[again & entering & (served >= 0)], minlength=levels)
    return _Revisits(touched, 0 < trace.stride_bytes <= MAX_LINE_STRIDE_BYTES, counts)


def _is_next(revisits: Sequence[_Revisits], number: int) -> bool:
    """Whether an array slightly larger than one that fits the previous levels was served by this level where it overflowed."""
    fit = max((r.touched_bytes for r in revisits if r.narrow and r.share_from(number) <= MAX_LATER_SHARE), default=0)
    little_larger = [r for r in revisits if r.narrow and fit < r.touched_bytes <= MAX_KNEE_RATIO * fit]
    over = [r.by_level for r in little_larger if r.share_from(number) > MIN_LATER_SHARE]
    return any(counts[number] > counts[number + 1 :].sum() for counts in over)


def _is_memory(revisits: Sequence[_Revisits], slowest: int, last_cache_bytes: int) -> bool:
    """Whether most revisits beyond the first cache, in arrays far larger than the last one, had the slowest latency."""
    far = [r.by_level for r in revisits if r.touched_bytes >= MIN_LAST_CACHE_RATIO * last_cache_bytes]
    return bool(far) and all(counts[slowest] >= MIN_MEMORY_SHARE * max(counts[1:].sum(), MIN_REVISITS) for counts in far)
