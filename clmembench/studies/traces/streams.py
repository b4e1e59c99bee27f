"""Accesses that one cache or TLB received since it was empty, unrecorded ones included. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Accesses, Array
from clmembench.studies.traces.latency_modes import MAX_UNASSIGNED_SHARE

# Thresholds and limits, each with its reason
MAX_UNSEEN_ACCESSES = 400_000  # accesses before the first recorded one: whole laps beyond are left out
MIN_FIRST_MISS_SHARE = 0.9  # share of first accesses to a fill unit: the others are outliers
MIN_PAYING_HITS = 5  # accesses: fewer may be outliers
UNKNOWN_LEVEL = -1  # level of an access that was not recorded


@dataclass(frozen=True, slots=True)
class AccessStream:
    """Addresses in order, starting with an empty cache, and the level that served each (-1: not recorded). This cache is
    `level`."""

    id: str
    stride_bytes: int
    addresses: Array  # int64
    served: Array  # int8
    lap: int  # accesses after which the addresses repeat; 0: they do not
    level: int = 0

    @property
    def missed(self) -> Array:
        """1 for a miss in this level, 0 for a hit, -1 if not recorded; int8."""
        flags: Array = np.where(self.served < 0, UNKNOWN_LEVEL, self.served > self.level).astype(np.int8)
        return flags

    def visits(self, unit_bytes: int) -> AccessStream:
        """The stream without repeated accesses to one unit, which carry no information."""
        unit = self.addresses // unit_bytes
        first = np.r_[True, unit[1:] != unit[:-1]][: unit.size]
        return replace(self, addresses=self.addresses[first], served=self.served[first])

    def cut(self, most: int) -> AccessStream:
        """The first `most` accesses."""
        return replace(self, addresses=self.addresses[:most], served=self.served[:most])


def lap_length(trace: Accesses) -> int:
    """Number of accesses after which the addresses repeat; 0 if they do not, or if too few were recorded."""
    offsets = trace.offsets
    again = np.flatnonzero(offsets[1:] == offsets[0]) + 1
    for period in again[:200]:
        if np.array_equal(offsets[period:], offsets[:-period]):
            return int(period)
    stride, size = trace.stride_bytes, trace.array_bytes
    if again.size or stride <= 0 or size <= 0:
        return 0
    steps = trace.first_step + np.arange(offsets.size)
    count = -(-size // stride)
    if np.array_equal(offsets, steps % count * stride):
        return count
    # a chase visits every node of its array, one per stride, before it revisits one
    return count if offsets.size == count else 0


def unseen_beginning(trace: Accesses) -> tuple[Array, int] | None:
    """The addresses before the first recorded one, and the lap; None if they cannot be known."""
    lap = lap_length(trace)
    if trace.first_step == 0:
        return np.empty(0, dtype=np.int64), lap
    if lap == 0:
        return None
    unseen = trace.first_step
    if unseen > MAX_UNSEEN_ACCESSES:
        unseen = unseen % lap + max(1, (MAX_UNSEEN_ACCESSES - unseen % lap) // lap) * lap
    if lap <= trace.offsets.size:
        whole = trace.offsets[:lap]
        return whole[np.arange(-unseen, 0) % lap], lap
    return (trace.first_step + np.arange(-unseen, 0)) % lap * trace.stride_bytes, lap


def access_streams(traces: Sequence[Accesses], served: Sequence[Array]) -> tuple[list[AccessStream], list[str]]:
    """The stream of the first cache, or TLB, of each trace that starts in a known state, and the ids of the others.

    `served`: for each trace the level that served each access, -1 if unknown; int8, shape (accesses,)."""
    found, left_out = [], []
    for trace, levels in zip(traces, served, strict=True):
        before = unseen_beginning(trace)
        if before is None:
            left_out.append(trace.id)
            continue
        unseen, lap = before
        whole = np.r_[np.full(unseen.size, UNKNOWN_LEVEL, np.int8), levels]
        found.append(AccessStream(trace.id, trace.stride_bytes, np.r_[unseen, trace.offsets], whole, lap))
    return found, left_out


def is_attributed(stream: AccessStream) -> bool:
    """Whether the levels of all but outliers are known: if unknown ones were misses, the remaining accesses would only be
    hits."""
    begun = int(np.argmax(stream.served >= 0))
    return float((stream.served[begun:] < 0).mean()) <= MAX_UNASSIGNED_SHARE if stream.served.size else False


def hits_pay(translated: Sequence[AccessStream], data: Sequence[AccessStream]) -> bool:
    """Whether hits of the first cache include translation too, or none that could was recorded. Otherwise this cache is
    virtually indexed, and its hits carry no information on the TLB."""
    hits = [(t.served > 0)[d.served == 0] for t, d in zip(translated, data, strict=True)]
    return sum(int(h.sum()) for h in hits) >= MIN_PAYING_HITS or not sum(h.size for h in hits)


def passed_to_next_level(first: AccessStream, unit_bytes: int) -> Array:
    """Which accesses reach the next level: those that missed in this one; bool, shape (accesses,).

    An unrecorded access counts as a miss if its unit was new, or if the same access of the lap missed when it was recorded. An
    access of the lap that was never recorded, such as an outlier, counts like the previous one."""
    missed = first.missed
    block = first.addresses // unit_bytes
    inside = np.zeros(block.size, dtype=bool)  # a unit just filled cannot miss: a latency that suggests it is an outlier
    inside[1:] = block[1:] == block[:-1]
    misses: Array = (missed == 1) & ~inside
    unseen = missed == UNKNOWN_LEVEL
    if unseen.any():
        new = np.zeros(block.size, dtype=bool)
        new[np.unique(block, return_index=True)[1]] = True
        if first.lap:
            phase = np.arange(block.size) % first.lap
            again, seen = np.zeros(first.lap, dtype=bool), np.zeros(first.lap, dtype=bool)
            again[phase[misses]] = True
            seen[phase[~unseen]] = True
            new |= _as_before(again, seen)[phase]
        else:  # part of a lap: the accesses before the first recorded one are unknown
            begun = int(np.argmax(~unseen))
            new[begun:] |= _as_before(misses[begun:], ~unseen[begun:])
        misses = np.where(unseen, new, misses)
    return misses


def _as_before(flags: Array, known: Array) -> Array:
    """The flags; an unknown one is that of the last known one before it, cyclically."""
    if not known.any():
        return flags
    before = np.maximum.accumulate(np.where(known, np.arange(known.size), -1))
    filled: Array = flags[np.where(before < 0, np.flatnonzero(known)[-1], before)]
    return filled


def next_level_stream(first: AccessStream, unit_bytes: int) -> AccessStream:
    """The accesses that reach the next level."""
    misses = passed_to_next_level(first, unit_bytes)
    return AccessStream(first.id, first.stride_bytes, first.addresses[misses], first.served[misses], 0, first.level + 1)


def fill_unit_bounds(found: Sequence[AccessStream]) -> tuple[int, int]:
    """Least and greatest bytes that one miss fills, as powers of two; 0 if unbounded.

    An access is compared with the last miss before it, since which nothing can have been replaced. Let both lie within 2^k
    bytes but not within half of that. If the access hits data never accessed before (or hits in a trace in which everything
    misses), a miss fills at least 2^k bytes; if it misses, fewer."""
    hits, misses = np.zeros(64, dtype=np.int64), np.zeros(64, dtype=np.int64)
    for stream in found:
        _count_pairs(stream, hits, misses)
    total = hits + misses
    split = np.flatnonzero((misses >= 3) & (misses >= 0.05 * total))
    whole = np.flatnonzero((hits >= 5) & (misses <= np.maximum(1, 0.02 * total)))
    high = 1 << (int(split[0]) - 1) if split.size else 0
    whole = whole[whole < split[0]] if split.size else whole
    low = (1 << int(whole[-1])) if whole.size else 0
    if low and low == high and _first_miss_share(found, low) < MIN_FIRST_MISS_SHARE:
        return 0, 0  # the array begins within a unit, or the caches were not empty: then the starts of units are unknown
    return low, high


def _first_miss_share(found: Sequence[AccessStream], unit_bytes: int) -> float:
    """Share of first accesses to successive units that missed. All do if units have this size and start with the array, and
    caches were empty; 1 if there are no such accesses."""
    missed = seen = 0
    for stream in (s for s in found if 0 < s.stride_bytes <= unit_bytes):
        first = np.unique(stream.addresses // unit_bytes, return_index=True)[1]
        flags = stream.missed[first]
        missed, seen = missed + int((flags == 1).sum()), seen + int((flags >= 0).sum())
    return missed / seen if seen else 1.0


def _count_pairs(stream: AccessStream, hits: Array, misses: Array) -> None:
    a, flags = stream.addresses, stream.missed
    last = np.maximum.accumulate(np.where(flags == 1, np.arange(a.size), -1))
    last = np.r_[-1, last[:-1]][: a.size]
    apart = np.where(last >= 0, a ^ a[last], 0)
    level = np.where(apart > 0, np.frexp(apart.astype(float))[1], 0)
    telling = (flags >= 0) & (level > 0)
    for k in np.unique(level[telling]):
        here = telling & (level == k)
        new = np.zeros(a.size, dtype=bool)
        new[np.unique(a >> (int(k) - 1), return_index=True)[1]] = True
        entering = np.r_[True, (a[1:] >> int(k)) != (a[:-1] >> int(k))] & (flags >= 0)
        thrashed = entering.sum() >= 20 and (flags[entering] == 1).mean() > 0.97
        counted = here if thrashed else here & new
        hits[k] += int((flags[counted] == 0).sum())
        misses[k] += int((flags[counted] == 1).sum())
