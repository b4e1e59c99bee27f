"""Ways of a level whose eviction sets no pool of few lines holds, by the number of lines after which one is evicted. Pure.

A line is loaded, then the first lines of a crowd, then its own latency is timed. The least number of lines after which it is
evicted ends with a line of its set, which is kept while the next is looked for among those before it; once the kept ones alone
evict it, they are as many as its set has ways, where what was loaded longest ago goes first. Whatever maps lines to sets, and
however large the level, one timed access is a test (Vila, Köpf & Morales 2019, section 5, whose groups are here prefixes of one
order). Under other policies repeats disagree, and nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clmembench.model import Experiment, Pattern, Probe, Space
from clmembench.model.address_patterns import MIN_PAGE_BYTES, crowd_offsets
from clmembench.studies.hierarchy.probes.probing import ProbeSession

# Thresholds and limits, each with its reason
COUNTS_PER_PROBE = 17  # numbers of lines in one probe: each leaves a sixteenth of the interval
MAX_CROWD = 1 << 19  # lines of a crowd: a probe of more takes seconds
MIN_WAYS, MAX_WAYS = 2, 40
AGREEING_VICTIMS, MAX_TRIED_VICTIMS = 2, 4  # lines from other places whose sets have as many ways
MAX_FAILED_VICTIMS = 1  # whose set has more lines in the crowd than others, or that something disturbed
MAX_PROBES = 320  # of one level
MIN_EVICTED_SHARE = 0.7  # of the repeats, in which a line is evicted
MAX_SPARED_SHARE = 0.3  # of the repeats, in which it is evicted although all fit, by something else
ROUNDS = 2  # of loads before an access is timed
NEARER_FACTOR = 4  # times the lines of a nearer cache, which empty it whatever it replaces
VICTIM_DISTANCE_BYTES = 37 * 64 << 10  # between victims: other pages and other offsets in them, since it is no power of two
UNSTABLE = "a line is evicted in some repeats only"


@dataclass(frozen=True, slots=True)
class CrowdLevel:
    """A level as crowds test it: the memory space, its line in bytes (or a part of it), the latency from which on it missed,
    bytes that it and the nearer cache (0: none) hold, the largest working set, and how far apart places are of different lines
    for sure: two of one line would count as two, or keep a line that should go."""

    asked: ProbeSession
    space: Space
    line_bytes: int
    missed_from: float
    least_bytes: float
    nearer_bytes: float
    most_bytes: int
    apart_bytes: int

    @property
    def crowd(self) -> int:
        """Lines of a crowd that evicts any line: a power of two of at least twice as many as fit."""
        return 1 << int(2 * self.least_bytes / self.line_bytes - 1).bit_length()


@dataclass(slots=True)
class _Victim:
    """The search for lines of one line's set: its offset, lines found, and the least number of lines that
    evict it: lines between the last found and that number are of other sets, and empty the nearer cache."""

    offset: int
    members: list[int] = field(default_factory=list)
    until: int = 0
    least: int = 0


def sets_by_crowds(level: CrowdLevel) -> Experiment[tuple[tuple[int, ...], ...] | str]:
    """Lines of some sets of a level, of each one more than its ways, as offsets in bytes of which the first is a multiple of
    64 KiB; or why there are none."""
    if level.crowd > MAX_CROWD or 2 * level.crowd * level.apart_bytes > level.most_bytes:
        return f"a crowd of {level.crowd} lines takes too long or too much memory"
    last = len(level.asked.answers) + MAX_PROBES
    found: list[tuple[int, ...]] = []
    for number in range(MAX_TRIED_VICTIMS):
        offset = level.crowd * level.apart_bytes + number * VICTIM_DISTANCE_BYTES // level.apart_bytes * level.apart_bytes
        victim = _Victim(offset)
        reason = yield from _find_members(level, victim, last)
        if reason:
            if number - len(found) >= MAX_FAILED_VICTIMS:
                return reason
            continue
        found.append((offset, *victim.members))
        alike = tuple(one for one in found if len(one) == len(found[-1]))
        if len(alike) == AGREEING_VICTIMS:
            return alike
    counts = [str(len(one) - 1) for one in found]
    return f"{' and '.join(counts)} lines of a set evicted one" if len(set(counts)) > 1 else reason or UNSTABLE


def _find_members(level: CrowdLevel, victim: _Victim, last: int) -> Experiment[str]:
    """Finds as many lines of its set as evict one line; "", or why they are not known."""
    victim.until = level.crowd
    while len(victim.members) <= MAX_WAYS:
        if victim.members:
            alone = yield from _evicted(level, victim, (0, 0), 1)
            if isinstance(alone, str):
                return alone
            if alone[0]:
                return "a single line evicts another, as by chance" if len(victim.members) < MIN_WAYS else ""
        least = yield from _least_count(level, victim, last)
        if isinstance(least, str):
            return least
        victim.least = victim.least or least
        victim.members.append(int(crowd_offsets(_probe(level, victim, (0, 0), 1), least)[-1]))
        victim.until = least - 1
    return f"over {MAX_WAYS} lines of a set do not evict another one"


def _least_count(level: CrowdLevel, victim: _Victim, last: int) -> Experiment[int | str]:
    """The least number of first lines of the crowd that evict the victim together with the members found; or why there is
    none."""
    low, high = 0, victim.until
    while True:
        if len(level.asked.answers) > last:
            return "the lines of a set were not found in time"
        count = min(COUNTS_PER_PROBE, high - low + 1)
        evicted = yield from _evicted(level, victim, (low, high), count)
        if isinstance(evicted, str):
            return evicted
        if not evicted[-1]:
            return UNSTABLE if victim.members or low else f"{high} lines do not evict one"
        at, counts = evicted.index(True), _counts(low, high, count)
        if at == 0:
            return UNSTABLE
        low, high = counts[at - 1], counts[at]
        if high - low <= 1:
            return high


def _counts(low: int, high: int, count: int) -> list[int]:
    """The numbers of lines of a probe: see `address_patterns.crowd_counts`."""
    between = max(1, count - 1)
    return [high - (high - low) * (between - j) // between for j in range(count)]


def _evicted(level: CrowdLevel, victim: _Victim, ends: tuple[int, int], count: int) -> Experiment[list[bool] | str]:
    """Whether the victim is evicted, for each number of lines; or why that is not known: no clock, or repeats disagree before
    the first number that evicts it."""
    answer = yield from level.asked.one(_probe(level, victim, ends, count))
    if answer.latencies is None:
        return answer.reason
    share = np.mean(answer.latencies > level.missed_from, axis=0)
    first = next((i for i, value in enumerate(share) if value >= MIN_EVICTED_SHARE), len(share))
    if any(value > MAX_SPARED_SHARE for value in share[:first]):
        return UNSTABLE
    return [i >= first for i in range(len(share))]


def _probe(level: CrowdLevel, victim: _Victim, ends: tuple[int, int], count: int) -> Probe:
    """The victim's latency after each number of lines; a line half a page from it translates its page beforehand."""
    offset = victim.offset
    beside = offset // MIN_PAGE_BYTES * MIN_PAGE_BYTES + (offset % MIN_PAGE_BYTES + MIN_PAGE_BYTES // 2) % MIN_PAGE_BYTES
    places = ";".join(f"{place}:1:1:1" for place in (offset, beside, *victim.members))
    also = (0, 0)
    if level.nearer_bytes and victim.members:
        lines = int(NEARER_FACTOR * level.nearer_bytes / level.line_bytes)
        also = (victim.until, min(victim.least, victim.until + lines))
    return Probe(
        Pattern("segments", segments=places), level.space, "evict", ends[0], count, until=ends[1], crowd=level.crowd,
        crowd_bytes=level.apart_bytes, also_from=also[0], also_until=also[1], rounds=ROUNDS,
    )  # fmt: skip
