"""The number of sets of a level behind translation, from how many pages have a line of one eviction set's set. Pure.

Page frames lie anywhere in memory, so bits of the frame's number put lines at one offset in their pages into sets by chance.
Where the offset chooses the rest of the set's number, one of C pages has a line in a given set, and the level has C times as
many sets as a page has lines. Lines at other offsets check that: none of them may fall into the set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from clmembench.infer.hierarchy.eviction_sets import EvictionSets
from clmembench.infer.hierarchy.line_probe import MIN_PAGE_BYTES
from clmembench.infer.hierarchy.traced_pool import missing_lines
from clmembench.model import Inquiry

FILL_SHARE, MAX_FILL_SHARE = 0.4, 0.55  # of what the level surely holds at one offset: pages of a trace, which then overflow no
# other set; and where it holds few, so that a trace without the set's lines has to show which overflow another
MIN_BATCH_PAGES = 12
MAX_TRACES = 120
WANTED_PAGES, MAX_PAGES = 81, 324  # of the set: so many tell their share to a ninth, so that at most one power of two is within
# three times that; and where none is within twice that
MIN_PAGES = 30  # with which a share is believed, where no more can be had
SIGMAS, MAX_OFF_SIGMAS = 3.0, 2.0  # of the number of pages: what is excluded, and what is still a power of two
MIN_SEEN_SHARE = 0.9  # of the set's known lines, which must be seen to miss: as large a part of the pages is counted
OFFSET_TRACES, MIN_OTHER_OFFSETS = 3, 2  # for each bit of an offset; lines of the set there, one of which may be others' doing


def sets_by_pages(found: EvictionSets, line_bytes: int, low_bytes: float, most_bytes: int) -> Inquiry[int | None]:
    """The number of sets of the level, where it is a power of two; None where it is not known, or where frame and offset choose
    sets together. `low_bytes`: what the level surely holds."""
    probe = replace(found.probe, filler=found.fillers[0])
    members = list(found.lines[0][: found.ways])
    offset = members[0] % MIN_PAGE_BYTES
    taken = {line // MIN_PAGE_BYTES for line in (*found.lines[0], *probe.filler)}
    pages = [page for page in range(most_bytes // MIN_PAGE_BYTES) if page not in taken]
    room, least = low_bytes / MIN_PAGE_BYTES, max(MIN_BATCH_PAGES, len(probe.filler))  # as many empty the nearer cache
    batch = max(int(FILL_SHARE * room) - len(members), least)
    if found.stride_bytes != MIN_PAGE_BYTES or found.fills_all or batch + len(members) > MAX_FILL_SHARE * room:
        return None
    probe, is_crowded = replace(probe, filler=()), batch + len(members) > FILL_SHARE * room
    congruent = tried = seen = possible = 0
    sets: int | None = None
    for number in range(min(MAX_TRACES, len(pages) // batch)):
        candidates = [page * MIN_PAGE_BYTES + offset for page in pages[number * batch : (number + 1) * batch]]
        missing = set((yield from missing_lines(probe, [*members, *candidates])))
        tried += len(candidates)
        over = missing & set(candidates)
        if over and is_crowded:
            over -= set((yield from missing_lines(probe, candidates)))
        congruent += len(over)
        if missing:
            seen, possible = seen + len(missing & set(members)), possible + len(members)
        if congruent >= WANTED_PAGES:
            sets = _power_of_two(congruent, tried)
            if sets is not None or congruent >= MAX_PAGES:
                break
    sets = sets or _power_of_two(congruent, tried)
    # members miss as candidates do: where a policy lets few of them miss in a trace, pages are missed too
    if sets is None or seen < MIN_SEEN_SHARE * possible:
        return None
    for bit in range(line_bytes.bit_length() - 1, MIN_PAGE_BYTES.bit_length() - 1):
        if (yield from _reaches_other_offsets(found, members, pages, 1 << bit, batch)):
            return None
    return sets * (MIN_PAGE_BYTES // line_bytes)


def _power_of_two(congruent: int, tried: int) -> int | None:
    """One of how many pages is congruent, where that is a power of two and no other is possible."""
    if congruent < MIN_PAGES:
        return None
    off = SIGMAS * math.sqrt(congruent)
    least, most = tried / (congruent + off), tried / (congruent - off)
    possible = [1 << k for k in range(math.ceil(math.log2(least)), math.floor(math.log2(most)) + 1)]
    if len(possible) != 1:
        return None
    expected = tried / possible[0]
    return possible[0] if abs(congruent - expected) <= MAX_OFF_SIGMAS * math.sqrt(expected) else None


def _reaches_other_offsets(
    found: EvictionSets, members: Sequence[int], pages: Sequence[int], distance: int, batch: int
) -> Inquiry[bool]:
    """True if lines of other pages, whose offset differs in one bit, are of the members' set: frames and offsets are mixed."""
    offset = members[0] % MIN_PAGE_BYTES ^ distance
    probe = replace(found.probe, filler=found.fillers[0])
    over = 0
    for number in range(OFFSET_TRACES):
        candidates = [page * MIN_PAGE_BYTES + offset for page in pages[number * batch : (number + 1) * batch]]
        over += len(set((yield from missing_lines(probe, [*members, *candidates]))) & set(candidates))
    return over >= MIN_OTHER_OFFSETS
