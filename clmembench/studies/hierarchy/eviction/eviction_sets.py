"""Eviction sets: lines of one set of a cache whatever maps them. Their number tells the ways. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.model import Experiment
from clmembench.model.address_patterns import NODE_BYTES
from clmembench.studies.hierarchy.eviction.filler_lines import MAX_TRIED_FILLERS, find_filler
from clmembench.studies.hierarchy.eviction.pool_reduction import reduce_pool
from clmembench.studies.hierarchy.eviction.traced_pool import reduce_by_trace
from clmembench.studies.hierarchy.probes.line_probe import (
    HELD_LINES_SHARE,
    MAX_ENTRIES_SHARE,
    MIN_MISSES,
    MIN_PAGE_BYTES,
    LineProbe,
)

STRIDES_BYTES = (64 << 10, 4 << 10)  # between lines: as long as pages of GPUs, and of CPUs
SCATTERED_SHARES = (0.06, 0.12, 0.18, 0.25, 0.33, 0.42, 0.54, 0.7, 0.85)  # of what a first cache holds: lines that are tried
MIN_WINDOW_RATIO = (
    2  # times what it holds: lines of a first cache are drawn from that many, so that all its sets are among them
)
MAX_SCATTERED_LINES = 1 << 12  # of a pool: laps over more are too noisy for a single miss
MAX_WINDOW_BYTES = 2 << 20  # arrays are aligned to that, so that offsets within a window are bits of the address
POOL_COUNTS = (6, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # lines that are tried, until some overflow
AGREEING_SETS, AGREEING_SETS_OF_FIRST = 2, 3  # of equal size, from other places: sets of a first cache may be uneven
MAX_TRIED_SETS, MAX_EMPTY_POOLS = 5, 2
MAX_ROOM = 1 << 12  # places that are looked at
MAX_PROBES, MAX_PROBES_OF_FIRST = 1000, 2000  # of one level; laps over the first cache of a GPU are fast
LINE_BYTES = (32, 64, 128, 256, 512)  # that are tried
RESTLESS = "other programs use the core, and take lines of every set"
MAX_SERVED_GROWTH = 1.5  # of the share of a lap that a nearer cache serves, as where it draws victims: more is served again
CANDIDATE_BATCH, MAX_BATCHES = 24, 40  # lines among which another one of a set is looked for


@dataclass(frozen=True, slots=True)
class EvictionSets:
    """Sets of lines of one cache set each, the filler that goes with each, the stride between candidates, and the unit of a tag
    (None: not known)."""

    probe: LineProbe
    lines: tuple[tuple[int, ...], ...]
    fillers: tuple[tuple[int, ...], ...]
    stride_bytes: int
    line_bytes: int | None = None
    more: tuple[int, ...] = field(default_factory=tuple)  # the first of `lines` with another line of its set
    fills_all: bool = False  # the fillers empty all sets of the nearer caches
    window_bytes: int = 0  # aligned windows that the lines of each set are drawn from; 0: lines lie `stride_bytes` apart

    @property
    def ways(self) -> int:
        return len(self.lines[0]) - 1

    @property
    def may_overflow_tlb(self) -> bool:
        """True if as many lines fit as a TLB has entries, each in a page of its own."""
        page = self.probe.page_bytes
        if not page or self.ways not in (self.probe.entries, self.probe.reach_bytes // page):
            return False
        return any(len({line // page for line in lines}) == len(lines) for lines in self.lines)


def find_eviction_sets(
    probe: LineProbe, nearer_ways: int, nearer_way_bytes: int, most_bytes: int
) -> Experiment[EvictionSets | str]:
    """Some eviction sets of equal size, or why there are none. `nearer_ways`, `nearer_way_bytes`: of the levels before."""
    if probe.asked.restless and not probe.asked.shared:
        return RESTLESS
    is_fast = not probe.nearer and not probe.asked.shared
    last = len(probe.asked.answers) + (MAX_PROBES_OF_FIRST if is_fast else MAX_PROBES)
    reason = "no stride was found at which few lines overflow a set"
    if not probe.nearer:
        scattered = yield from _scattered_sets(probe, most_bytes, last)
        if isinstance(scattered, EvictionSets):
            return scattered
    shortest = max(nearer_way_bytes, min(probe.page_bytes, STRIDES_BYTES[0]), STRIDES_BYTES[-1])
    strides = [shortest] if probe.page_bytes else [max(stride, nearer_way_bytes) for stride in STRIDES_BYTES]
    for stride in dict.fromkeys(strides):
        room = min(most_bytes // stride, MAX_ROOM)
        if room < 4 * POOL_COUNTS[2]:
            continue
        probe = replace(probe, stride_bytes=stride)
        # one buffer holds all lines from here on, in the same pages
        yield from probe.asked.one(probe.lap([0, room * stride - 8 * NODE_BYTES]))
        filler = yield from find_filler(probe, stride, nearer_ways, nearer_way_bytes, room)
        if filler is None:
            reason = "no lines were found that empty the nearer caches and none of its own sets"
            continue
        found = yield from _agreeing_sets(replace(probe, filler=filler), stride, room, last)
        if isinstance(found, EvictionSets) and found.may_overflow_tlb:
            found = f"{found.ways} lines fit, each in a page of its own, as many as a TLB has entries"
        if isinstance(found, EvictionSets):
            line = yield from find_line_of_sets(found)
            return replace(found, line_bytes=line)
        reason = found or reason
    return reason


def _scattered_sets(probe: LineProbe, most_bytes: int, last: int) -> Experiment[EvictionSets | str]:
    """Eviction sets among lines of a first cache that are drawn at random from windows of neighbouring ones: lines at equal
    distances fall as evenly as neighbours into sets that a hash chooses, and overflow none until the cache is full."""
    fitting = int(probe.held_lines / HELD_LINES_SHARE)
    window = 1 << (MIN_WINDOW_RATIO * fitting - 1).bit_length()
    if not fitting or MAX_TRIED_SETS * window * probe.node_bytes > min(most_bytes, MAX_TRIED_SETS * MAX_WINDOW_BYTES):
        return "no window of so many lines can be had"
    if window * probe.node_bytes > MAX_ENTRIES_SHARE * probe.reach_bytes:
        return "a window of so many lines is beyond the reach of a TLB"
    probe = replace(probe, is_near=True)
    counts = tuple(dict.fromkeys(n for share in SCATTERED_SHARES if 2 < (n := int(share * fitting)) <= MAX_SCATTERED_LINES))
    yield from probe.asked.one(probe.lap([0, MAX_TRIED_SETS * window * probe.node_bytes - 8 * NODE_BYTES]))
    pools = [
        [(number * window + int(i)) * probe.node_bytes for i in np.random.default_rng(number).permutation(window)[: counts[-1]]]
        for number in range(MAX_TRIED_SETS)
    ]
    found = yield from sets_of_pools(probe, pools, lambda pool: reduce_pool(probe, pool, counts, last), AGREEING_SETS_OF_FIRST)
    if not isinstance(found, EvictionSets):
        return found
    found = replace(found, stride_bytes=probe.node_bytes, window_bytes=window * probe.node_bytes)
    return replace(found, line_bytes=(yield from find_line_of_sets(found)))


def _agreeing_sets(probe: LineProbe, stride: int, room: int, last: int) -> Experiment[EvictionSets | str]:
    """Eviction sets of equal size from other places and offsets in their pages, found with `last` probes in all; or why not."""
    usable = room - MAX_TRIED_FILLERS * max(1, len(probe.filler))
    pools = []
    for number in range(MAX_TRIED_SETS):
        first = number * usable // (MAX_TRIED_SETS + 1)
        # filler and lines share their offset: nearer caches have them in the same sets
        offset = 0 if probe.nearer else number * 5 * LINE_BYTES[-1] % MIN_PAGE_BYTES  # the first byte of a line
        pools.append([(first + i) * stride + offset for i in range(min(POOL_COUNTS[-1], usable - first))])
    needed = AGREEING_SETS if probe.nearer else AGREEING_SETS_OF_FIRST
    found = yield from sets_of_pools(probe, pools, lambda pool: _reduced(probe, pool, POOL_COUNTS, last), needed)
    return replace(found, stride_bytes=stride) if isinstance(found, EvictionSets) else found


def _reduced(
    probe: LineProbe, pool: Sequence[int], counts: Sequence[int], last: int
) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """A set of the pool: by traces where others take lines at any time, since these show which lines miss, else by laps."""
    if probe.asked.shared:
        found = yield from reduce_by_trace(probe, pool, counts, last)
        if not isinstance(found, str):
            return found
        if probe.asked.restless:
            return f"{RESTLESS}{found and ': '}{found}"
    return (yield from reduce_pool(probe, pool, counts, last))


def sets_of_pools(
    probe: LineProbe,
    pools: Sequence[Sequence[int]],
    reduce: Callable[[Sequence[int]], Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]],
    needed: int,
    empty: int = MAX_EMPTY_POOLS,
) -> Experiment[EvictionSets | str]:
    """`needed` eviction sets of equal size, each from a pool of its own that is reduced to the set and its filler; or why not.
    `empty`: after so many pools without any set no more are tried."""
    found: list[tuple[int, ...]] = []
    fillers: list[tuple[int, ...]] = []
    reason = ""
    for number, pool in enumerate(pools):
        lines = yield from reduce(pool)
        if isinstance(lines, str):
            reason = lines
            if not found and number + 1 >= empty:
                return reason
            continue
        found.append(lines[0])
        fillers.append(lines[1])
        if len({len(one) for one in found}) > 1:
            return f"eviction sets of {' and '.join(str(len(one)) for one in found)} lines were found: sets differ"
        if len(found) == needed:
            return EvictionSets(probe, tuple(found), tuple(fillers), 0)
    return reason


def find_line_of_sets(found: EvictionSets) -> Experiment[int | None]:
    """The least power of two by which a place of a set can be moved, to and fro, and is of another set, or another line of the
    same; the same of all sets, else None. Places may lie anywhere in their lines, in which such a move of less keeps them."""
    sizes = []
    for places, filler in zip(found.lines, found.fillers, strict=True):
        lines = sorted(places, key=lambda place: -(place & -place) if place else -math.inf)
        probe, size = replace(found.probe, filler=filler), None
        for distance in LINE_BYTES:
            moved = lines[0] ^ distance
            # a nearer cache may have it in another set, which lines as far from the filler empty, unless its lines are longer
            if filler and not found.fills_all:
                probe = replace(found.probe, filler=filler)
                if distance >= probe.nearer_line:
                    emptied = yield from _with_moved_filler(probe, lines, distance)
                    if emptied is None:
                        break  # that cache may serve the moved place
                    probe = emptied
                if (yield from probe.overflows(lines[1:])):
                    break
            elif found.probe.nearer and not filler and not found.fills_all:
                # the set alone empties that of the nearer cache that it is in, and so do other places of its lines this one's;
                # in a set of their own they fit, and beside the others they are of the same lines
                probe = replace(found.probe, filler=tuple(line + distance for line in lines[2:]))
                if not (yield from probe.is_served_here([moved])):
                    break
            is_member = yield from probe.overflows([moved, *lines[1:]])
            if not is_member or (yield from probe.overflows([lines[0], moved, *lines[2:]])):
                size = distance
                break
        sizes.append(size)
    return sizes[0] if len(set(sizes)) == 1 else None


def _with_moved_filler(probe: LineProbe, lines: Sequence[int], distance: int) -> Experiment[LineProbe | None]:
    """The probe whose laps also empty the nearer cache's set of a line that is moved by `distance`: its filler is moved, too.
    Where the moved filler does not fill that set, other lines of this set are moved besides. None: the nearer cache serves
    more of these laps than of laps without the moved lines, so that it may serve the moved line as well."""
    fitting = lines[1:]
    usual = yield from probe.misses(fitting, 0)
    for moved in (probe.filler, (*probe.filler, *lines[2:])):
        more = replace(probe, filler=(*probe.filler, *(line + distance for line in moved)))
        misses = yield from more.misses(fitting, 0)
        if usual is None or misses is None:
            continue
        growth = (len(fitting) + len(more.filler)) / (len(fitting) + len(probe.filler))
        served = MAX_SERVED_GROWTH * growth * min(0.0, usual) if probe.nearer_line else 0.0
        if misses > served - MIN_MISSES:
            return replace(more, hidden=max(0.0, -misses))
    return None


def find_another_line(found: EvictionSets, most_bytes: int) -> Experiment[EvictionSets]:
    """The eviction sets with one more line of the first one's set, where one is found."""
    probe, lines = replace(found.probe, filler=found.fillers[0]), found.lines[0]
    rest, offset = lines[1:], lines[0] % MIN_PAGE_BYTES
    line = found.line_bytes or LINE_BYTES[-1]
    taken = {place // line for place in (*lines, *probe.filler)}
    room = min(most_bytes // found.stride_bytes, MAX_ROOM)
    places = [offset + i * found.stride_bytes for i in range(room - 1)]
    candidates = [place for place in places if place // line not in taken]
    for number in range(MAX_BATCHES):
        batch = candidates[number * CANDIDATE_BATCH : (number + 1) * CANDIDATE_BATCH]
        if len(batch) < 1:
            break
        if not (yield from probe.overflows([*rest, *batch])):
            continue
        while len(batch) > 1:
            half = batch[: len(batch) // 2]
            batch = half if (yield from probe.overflows([*rest, *half])) else batch[len(batch) // 2 :]
        if not (yield from probe.overflows([*rest, *batch], 2)):
            continue
        if not (yield from probe.overflows([*rest[1:], *batch], 4)):  # else of another set, which the filler fills
            return replace(found, more=(*lines, *batch))
    return found
