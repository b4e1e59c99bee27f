"""Eviction sets: lines of one set of a cache whatever maps them, by bisection. Their number tells the ways. Pure.

After Vila, Köpf & Morales 2019: of lines at one offset in their pages some set gets more than it has ways once there are enough
of them. The fewest first lines of which that is so end with a member of such a set, which is kept while the next is looked for;
the lines that are kept are of one set, and one more than its ways, whatever the policy: a lap over lines that all fit misses
none, and one over more than fit misses at least one. Bisection, as in Zhao et al. 2024, takes fewer tests than groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clmembench.infer.hierarchy.filler_lines import MAX_TRIED_FILLERS, find_filler, least_overflow
from clmembench.infer.hierarchy.line_probe import MIN_PAGE_BYTES, LineProbe
from clmembench.model import Inquiry
from clmembench.model.address_patterns import NODE_BYTES

STRIDES_BYTES = (64 << 10, 4 << 10)  # between lines: as long as pages of GPUs, and of CPUs
POOL_COUNTS = (6, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # lines that are tried, until some overflow
AGREEING_SETS, AGREEING_SETS_OF_FIRST = 2, 3  # of equal size, from other places: sets of a first cache may be uneven
MAX_TRIED_SETS = 5
MAX_ROOM = 1 << 12  # places that are looked at
MAX_NEEDED_IN_A_ROW = 4  # of many lines: where each one is needed, they overflow all sets of a TLB, not one of a cache
MAX_REDUCTIONS = 2  # of one pool
MAX_PROBES = 1000  # of one level
MAX_WAYS = 40
LINE_BYTES = (32, 64, 128, 256, 512)  # that are tried
CANDIDATE_BATCH, MAX_BATCHES = 24, 40  # lines among which another one of a set is looked for
# Thresholds


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

    @property
    def ways(self) -> int:
        return len(self.lines[0]) - 1


def find_eviction_sets(
    probe: LineProbe, nearer_ways: int, nearer_way_bytes: int, most_bytes: int
) -> Inquiry[EvictionSets | str]:
    """Some eviction sets of equal size, or why there are none. `nearer_ways`, `nearer_way_bytes`: of the levels before."""
    if probe.asked.restless:
        return "other programs use the core, and take lines of every set"
    last = len(probe.asked.answers) + MAX_PROBES
    reason = "no stride was found at which few lines overflow a set"
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
        if isinstance(found, EvictionSets):
            line = yield from _find_line(found)
            return replace(found, line_bytes=line)
        reason = found or reason
    return reason


def _agreeing_sets(probe: LineProbe, stride: int, room: int, last: int) -> Inquiry[EvictionSets | str]:
    """Eviction sets of equal size from other places and offsets in their pages, found with `last` probes in all; or why not."""
    usable = room - MAX_TRIED_FILLERS * max(1, len(probe.filler))
    found: list[tuple[int, ...]] = []
    fillers: list[tuple[int, ...]] = []
    reason = ""
    for number in range(MAX_TRIED_SETS):
        first = number * usable // (MAX_TRIED_SETS + 1)
        # filler and lines share their offset: nearer caches have them in the same sets
        offset = 0 if probe.nearer else number * 5 * LINE_BYTES[-1] % MIN_PAGE_BYTES  # the first byte of a line
        pool = [(first + i) * stride + offset for i in range(min(POOL_COUNTS[-1], usable - first))]
        lines = yield from _eviction_set(probe, pool, last)
        if isinstance(lines, str):
            reason = lines
            if not found and number:
                return reason
            continue
        found.append(lines[0])
        fillers.append(lines[1])
        if len({len(one) for one in found}) > 1:
            return f"eviction sets of {' and '.join(str(len(one)) for one in found)} lines were found: sets differ"
        if len(found) == (AGREEING_SETS if probe.nearer else AGREEING_SETS_OF_FIRST):
            return EvictionSets(probe, tuple(found), tuple(fillers), stride)
    return reason


def _eviction_set(probe: LineProbe, pool: Sequence[int], last: int) -> Inquiry[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """Lines of the pool, and of the filler, that overflow a set, none of which can be left out; and the rest of the filler."""
    for count in POOL_COUNTS:
        if count > len(pool):
            break
        if (yield from probe.overflows(pool[:count])):
            break
    else:
        count = len(pool) + 1
    if count > len(pool):
        return "no set overflows with as many lines at one offset in their pages as can be tried"
    found: tuple[tuple[int, ...], tuple[int, ...]] | str = ""
    lines: Sequence[int] = pool[:count]
    for _ in range(MAX_REDUCTIONS):  # a test that failed leaves lines of other sets, which a second reduction leaves out
        members = yield from _members(probe, lines, last)
        if members is None:
            return "lines at one offset in their pages could not be reduced to those of one set in time"
        found = yield from _without_filler(probe, members)
        if not isinstance(found, str) or len(members) >= len(lines):
            break
        lines = members
    return found


def _without_filler(probe: LineProbe, members: Sequence[int]) -> Inquiry[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """Lines that overflow a set, with those of the filler that are of that set too, and the rest of the filler; or why not."""
    lines, rest = list(members), list[int]()
    for number, line in enumerate(probe.filler):
        other = replace(probe, filler=probe.filler[:number] + probe.filler[number + 1 :])
        if (yield from other.overflows(lines)):
            rest.append(line)
        else:
            lines.append(line)
    if not 2 < len(lines) <= MAX_WAYS + 1:
        return f"{len(lines)} lines are left, which are too many or too few for a set"
    return (yield from _confirmed(replace(probe, filler=tuple(rest)), tuple(lines)))


def _members(probe: LineProbe, lines: Sequence[int], last: int) -> Inquiry[list[int] | None]:
    """Lines of these, which overflow a set, that overflow it alone; None: not found with `last` probes in all.

    Of the fewest first lines that overflow a set, with the members found before, the last one is a member. It takes a bisection
    to find each.
    """
    members: list[int] = []
    others, needed = list(lines), 0
    while len(members) <= MAX_WAYS and needed < MAX_NEEDED_IN_A_ROW:
        if members and (yield from probe.overflows(members)):
            return members
        over = yield from least_overflow(probe, others, members)
        if len(probe.asked.answers) > last:
            return None
        if not over:
            return None
        needed = needed + 1 if over == len(others) > MAX_WAYS else 0
        members.append(others[over - 1])
        others = others[: over - 1]
    return None


def _confirmed(probe: LineProbe, lines: tuple[int, ...]) -> Inquiry[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """The lines and the filler if these lines overflow a set, and without any one of them none, though no nearer cache serves
    them; else why not."""
    if not (yield from probe.overflows(lines, 3)):
        return f"{len(lines)} lines that seemed to overflow a set did not do so again"
    for number in range(len(lines)):
        fewer = [*lines[:number], *lines[number + 1 :]]
        if (yield from probe.overflows(fewer)):
            return f"of {len(lines)} lines one could be left out after all"
        if not (yield from probe.is_served_here(fewer)):
            return f"a nearer cache serves {len(fewer)} lines of a set"
    return lines, probe.filler


def _find_line(found: EvictionSets) -> Inquiry[int | None]:
    """The least distance by which a line of a set can be moved and is of another set, or another line of the same; the same of
    all sets, else None."""
    sizes = []
    for lines, filler in zip(found.lines, found.fillers, strict=True):
        probe, size = replace(found.probe, filler=filler), None
        for distance in LINE_BYTES:
            moved = lines[0] + distance
            if filler:  # a nearer cache may have it in another set, which lines as far from the filler empty
                more = replace(found.probe, filler=(*filler, *(line + distance for line in filler)))
                if (yield from more.is_served_here(lines[1:])):  # else they are lines of the filler, which that cache serves
                    probe = more
                if (yield from probe.overflows(lines[1:])):
                    break
            is_member = yield from probe.overflows([moved, *lines[1:]])
            if not is_member or (yield from probe.overflows([lines[0], moved, *lines[2:]])):
                size = distance
                break
        sizes.append(size)
    return sizes[0] if len(set(sizes)) == 1 else None


def find_another_line(found: EvictionSets, most_bytes: int) -> Inquiry[EvictionSets]:
    """The eviction sets with one more line of the first one's set, where one is found."""
    probe, lines = replace(found.probe, filler=found.fillers[0]), found.lines[0]
    rest, offset = lines[1:], lines[0] % MIN_PAGE_BYTES
    taken = {*lines, *probe.filler}
    room = min(most_bytes // found.stride_bytes, MAX_ROOM)
    places = [offset + i * found.stride_bytes for i in range(room - 1)]
    candidates = [place for place in places if place not in taken]
    for number in range(MAX_BATCHES):
        batch = candidates[number * CANDIDATE_BATCH : (number + 1) * CANDIDATE_BATCH]
        if len(batch) < 1:
            break
        if not (yield from probe.overflows([*rest, *batch])):
            continue
        while len(batch) > 1:
            half = batch[: len(batch) // 2]
            batch = half if (yield from probe.overflows([*rest, *half])) else batch[len(batch) // 2 :]
        if (yield from probe.overflows([*rest, *batch], 2)):
            return replace(found, more=(*lines, *batch))
    return found
