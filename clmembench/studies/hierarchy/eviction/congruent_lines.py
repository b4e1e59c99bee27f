"""The number of sets of a level behind translation, from how many lines are of one eviction set's set. Pure.

Page frames lie anywhere in memory, so bits of the frame's number put lines into sets by chance. Of lines at one offset in
their pages one of C is of a given set; where lines at other offsets never are, the level has C times as many sets as a page has
lines. Where some are, as under a hash that mixes frames and offsets, lines anywhere are counted, of which one of as many as
there are sets is of the set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.model import Experiment, Probe
from clmembench.model.address_patterns import pattern_offsets
from clmembench.studies.hierarchy.eviction.eviction_sets import EvictionSets
from clmembench.studies.hierarchy.eviction.traced_pool import WARM_LAPS
from clmembench.studies.hierarchy.probes.line_probe import HELD_LINES_SHARE, MIN_PAGE_BYTES, LineProbe

FILL_SHARE, MAX_FILL_SHARE = 0.4, 0.55  # of what the level surely holds at one offset: pages of a trace, which then overflow no
# other set; and where it holds few, so that a trace without the set's lines has to show which overflow another
ANYWHERE_FILL_SHARE, MAX_ANYWHERE_FILL_SHARE = 0.2, 0.4  # the same of lines anywhere
MIN_OVERFLOW_RATIO = 2.0  # times what the nearest cache holds: so many lines anywhere empty it
TRACED_PAGES = 512  # from which lines of one trace are drawn: every second TLB holds them
MIN_BATCH_PAGES, MAX_PAGES = 12, 1 << 14
MAX_TRACES = 160
WANTED_LINES, MAX_LINES = 81, 324  # of the set: so many tell their share to a ninth; and where that is not enough
MIN_LINES = 30  # with which a share is believed, where no more can be had
MAX_OFF_SIGMAS, MIN_OFF_SIGMAS = 2.0, 3.0  # of the count: from a power of two, and from all others and three times one
MIN_SEEN_SHARE = 0.9  # of the set's known lines, which must be seen to miss: as large a part of the others is counted
# Thresholds of a line that counts as missing in traces
TRACED_ORDERS = 2  # of a lap
MIN_MISS_SHARE, MIN_MISS_TRACES = 0.4, 2  # of the accesses to the line: others evict some of thousands of lines less often
USUAL_PERCENT = 25  # of the lines' mean latencies: that of a hit, where a quarter of the lines hit
SCORE_SIGMAS = 5.0  # of the noise of a mean latency
MAX_LATENCY_RATIO = 8.0  # times a hit: an access that takes longer counts as that long, whatever held it up
MAX_MISS_RATIO = 3.0  # times a hit, which a miss costs at most where its latency is read off a rise that goes on
EXPECTED_ELSEWHERE, MOST_ELSEWHERE = 8, 2  # lines at other offsets, of as many as have the former if half as many sets mix
# frames and offsets; others' doing up to the latter


@dataclass(slots=True)
class CongruentCount:
    """How many lines of those tried are of a set, and of how many of the set's known lines misses were seen."""

    congruent: int = 0
    tried: int = 0
    seen: int = 0
    possible: int = 0
    looks: list[int] = field(default_factory=lambda: [MAX_LINES, MAX_LINES // 2, WANTED_LINES])

    def power_of_two(self) -> int | None:
        """One of how many lines is of the set, where that is a power of two and no other is possible. Where few of the known
        lines are seen to miss, others are overlooked as often: None."""
        if self.congruent < MIN_LINES or self.seen < MIN_SEEN_SHARE * self.possible:
            return None
        near = round(math.log2(self.tried / self.congruent))
        others = [odd * 2.0 ** (near + shift) for odd, shift in ((1, -1), (3, -2), (3, -1), (1, 1))]
        if self._off(2.0**near) > MAX_OFF_SIGMAS or min(self._off(other) for other in others) < MIN_OFF_SIGMAS:
            return None
        return int(2**near)

    def _off(self, one_of: float) -> float:
        """How far the count is, in standard deviations, from what one of so many lines would give."""
        expected = self.tried / one_of
        return abs(self.congruent - expected) / math.sqrt(expected)

    def is_enough(self) -> bool:
        """True if no more lines would tell more. Few looks are taken, since each might show a power of two by chance."""
        if not self.looks or self.congruent < self.looks[-1]:
            return not self.looks
        self.looks.pop()
        return not self.looks or self.power_of_two() is not None


def count_sets(found: EvictionSets, line_bytes: int, low_bytes: float) -> Experiment[int | None]:
    """The number of sets of the level, where it is a power of two; None where it is not known. `low_bytes`: what the level
    surely holds. A larger buffer would have other page frames: all lines lie within the one that the eviction sets are in."""
    if found.stride_bytes != MIN_PAGE_BYTES or found.fills_all:
        return None
    pages = range(found.probe.asked.reached_bytes // MIN_PAGE_BYTES)
    # the filler empties the nearer caches' set of the members, which few lines anywhere are of
    probe = replace(found.probe, filler=found.fillers[0])
    members = list(found.lines[0][: found.ways])
    anywhere = _lines_anywhere(found, pages, line_bytes)
    held = low_bytes / line_bytes
    batch = int(max(ANYWHERE_FILL_SHARE * held, MIN_OVERFLOW_RATIO * probe.held_lines / HELD_LINES_SHARE))
    suffices, is_crowded = batch <= MAX_ANYWHERE_FILL_SHARE * held, batch > ANYWHERE_FILL_SHARE * held + 1
    at_offset = yield from _count_at_offset(found, low_bytes, pages)
    one_of = at_offset.power_of_two()
    if one_of is None and at_offset.congruent >= MAX_LINES:
        return None
    if one_of is not None and suffices:
        sets = one_of * (MIN_PAGE_BYTES // line_bytes)
        offset = members[0] % MIN_PAGE_BYTES
        elsewhere = CongruentCount()
        others = [line for line in anywhere if line % MIN_PAGE_BYTES != offset]
        needed = -(-EXPECTED_ELSEWHERE * sets // batch) * batch
        if needed > len(others):
            return None  # too few to see that frames and offsets are mixed
        for start in range(0, needed, batch):
            yield from _count(probe, members, others[start : start + batch], elsewhere, is_crowded)
            if elsewhere.congruent > MOST_ELSEWHERE:
                break
        else:
            return sets
    if not suffices:
        return None
    found_anywhere = CongruentCount()
    for start in range(0, min(len(anywhere) - batch, MAX_TRACES * batch), batch):
        yield from _count(probe, members, anywhere[start : start + batch], found_anywhere, is_crowded)
        if found_anywhere.is_enough():
            break
    return found_anywhere.power_of_two()


def _count_at_offset(found: EvictionSets, low_bytes: float, usable: Sequence[int]) -> Experiment[CongruentCount]:
    """How many pages have a line of the set at the members' offset; of none tried where the level holds too few there."""
    members = list(found.lines[0][: found.ways])
    offset = members[0] % MIN_PAGE_BYTES
    taken = {line // MIN_PAGE_BYTES for line in (*found.lines[0], *found.fillers[0])}
    pages = [page for page in usable if page not in taken]
    # as many as the filler empty the nearer cache
    room, least = low_bytes / MIN_PAGE_BYTES, max(MIN_BATCH_PAGES, len(found.fillers[0]))
    batch = max(int(FILL_SHARE * room) - len(members), least)
    if batch + len(members) > MAX_FILL_SHARE * room:
        return CongruentCount()
    probe, is_crowded = replace(found.probe, filler=()), batch + len(members) > FILL_SHARE * room
    counted = CongruentCount()
    for number in range(min(MAX_TRACES, len(pages) // batch)):
        candidates = [page * MIN_PAGE_BYTES + offset for page in pages[number * batch : (number + 1) * batch]]
        yield from _count(probe, members, candidates, counted, is_crowded)
        if counted.is_enough():
            break
    return counted


def _count(
    probe: LineProbe, members: Sequence[int], candidates: Sequence[int], counted: CongruentCount, is_crowded: bool = False
) -> Experiment[None]:
    """Count the candidates that miss beside as many lines of the set as it holds. `is_crowded`: other sets may overflow too."""
    missing = set((yield from _missing(probe, [*members, *candidates])))
    over = missing & set(candidates)
    if over and is_crowded:
        over -= set((yield from _missing(probe, candidates)))
    counted.tried += len(candidates)
    counted.congruent += len(over)
    if over:
        counted.seen += len(missing & set(members))
        counted.possible += len(members)


def _missing(probe: LineProbe, lines: Sequence[int]) -> Experiment[list[int]]:
    """The lines, of these and of the filler, whose mean latency in traces of a lap exceeds that of most lines by a share of a
    miss; none where there is no trace.

    The counters of some cores advance in steps longer than a miss (37 cycles on a Zen 4 core, where it costs 36): only means
    of many accesses tell. `traced_pool.missing_lines` counts accesses above a threshold instead, which needs a fine counter and
    finds lines that miss seldom."""
    every = [*lines, *probe.filler]
    traces: dict[int, list[float]] = {line: [] for line in every}
    for seed in range(TRACED_ORDERS):
        pattern = probe.lap(every, seed).pattern
        trace = Probe(pattern, probe.space, "trace", skip=WARM_LAPS * pattern.count, record=pattern.count)
        answer = yield from probe.asked.one(trace)
        if answer.latencies is None:
            return []
        of_lines = np.minimum(np.asarray(answer.latencies), MAX_LATENCY_RATIO * probe.hit).T.tolist()
        for line, own in zip(pattern_offsets(pattern).tolist(), of_lines, strict=True):
            traces[line] += own
    seen = np.array(list(traces.values()))
    means, extra = seen.mean(axis=1), min(probe.miss, MAX_MISS_RATIO * probe.hit) - probe.hit
    usual = float(np.percentile(means, USUAL_PERCENT))
    of_traces = float(np.median(seen.std(axis=1))) / math.sqrt(seen.shape[1])
    below = float(np.median(usual - means[means <= usual]))  # half a deviation of the noise; of few lines means are alike
    slow = (seen > usual + extra / 2).mean(axis=1)
    is_missing = (means > usual + max(SCORE_SIGMAS * max(of_traces, 2.1 * below), MIN_MISS_SHARE * extra)) & (
        slow >= max(MIN_MISS_SHARE, MIN_MISS_TRACES / seen.shape[1])
    )
    return sorted(np.array(list(traces))[is_missing].tolist())


def _lines_anywhere(found: EvictionSets, pages: Sequence[int], line_bytes: int) -> list[int]:
    """Lines of pages at random, from some hundred neighbouring pages after others, but for those of the sets that are known."""
    known = {line for lines in (*found.lines, *found.fillers) for line in lines}
    rng, lines = np.random.default_rng(len(pages)), list[int]()
    for start in range(0, min(len(pages), MAX_PAGES), TRACED_PAGES):
        some = pages[start : start + TRACED_PAGES]
        first, count = some[0] * MIN_PAGE_BYTES, len(some) * MIN_PAGE_BYTES // line_bytes
        lines += (first + rng.permutation(count) * line_bytes).tolist()
    return [line for line in lines if line not in known]
