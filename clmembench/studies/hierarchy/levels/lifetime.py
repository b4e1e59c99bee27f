"""Capacity of a level by Little's law: how many bytes are loaded, on average, until a line that was loaded is evicted. Pure.

Lines of a long scan enter a cache once and are not visited again. Each that enters makes one leave, so that a line stays, on
average, for as many others as the cache holds (Little 1961: the number in a system is the rate of arrivals times the mean
time in it), whatever maps lines to sets and whatever policy chooses the one that leaves. Probes in mode residence load a scan
and time lines of it that lie a growing number of lines back; the share that still hits, summed over all these numbers, is that
mean. It is counted in bytes, since a scan in small windows visits every part of a line soon after the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Array, Experiment, Pattern, Probe, Space
from clmembench.model.address_patterns import MIN_PAGE_BYTES, probe_bytes, scan_offsets, timed_numbers
from clmembench.studies.hierarchy.probes.probing import LONGEST_LINE_BYTES, ProbeSession
from clmembench.studies.hierarchy.probes.typical_latency import clock_step

# Thresholds and limits, each with its reason
MIN_WINDOW_BYTES, MAX_WINDOW_BYTES = 16 << 10, 512 << 10  # in which the order is scrambled: pages that TLBs hold
WINDOWS_HELD = 64  # by a level: parts of a line are visited at different times within one
LOOKS = 4096  # lines that one probe times
MAX_BATCHES = 3  # of so many probes; one where what a level holds changes meanwhile
WANTED_RELATIVE_HALF_WIDTH = 0.02  # of the interval: a narrower one needs no more of them
AGES = 64  # numbers of lines that these lie back
MIN_LINES_PER_LOOK = 256  # loaded between two timed ones, which use two more lines
PROBES = 8  # of which each times other lines: a quarter of the mean stay lies between lines where sets have 16 ways
FIRST_AGES_RATIO, MORE_RATIO = 8.0, 3.0  # times the least size: how far lines lie back in a first probe; and more in others
MAX_FIRST_PROBES = 4
SCAN_RATIO, MIN_SCAN_RATIO = 8.0, 2.0  # times a first estimate of the capacity: lines loaded while others are timed
MIN_SCAN_BYTES = 32 << 20  # of the same: pages enough that their frames fill all sets alike
MIN_TURNS, MAX_TURNS, MAX_SCANNED_BYTES = 2, 8, 1 << 30  # repeats over different lines, and what all may take
MAX_CLOCK_STEP_SHARE = 0.5  # of the difference between a hit and a miss: a clock of larger steps tells no line's outcome
FEW_SHARE = 0.02  # of lines: the numbers of others after which few are evicted, or few are left, bound what is looked at
MIN_BEGUN_SHARE = 0.9  # of lines, that hit after the fewest others: else something else evicts them
MIN_BUSY_BEGUN_SHARE = 0.4  # the same where others use the core, so that hits are late
BUSY_AGES_RATIO = 4.0  # times the stay, how far lines lie back there: of random victims one in fifty is held for longer
OLD_SHARE = 0.75  # of the numbers of others, from which on lines are old
FAST_MISSES = 0.01  # of old lines, that take less than what parts them: of these each number of others would have so many hits
MAX_LEFT_SHARE, MAX_FIRST_LEFT_SHARE = 0.05, 0.025  # of them, that hit after the most: else something keeps them
END_AGES = 3  # numbers whose shares say what is left
YOUNG_SHARE, NEARER_GONE_RATIO = 0.8, 1.5  # of the least size, and times what empties the nearer cache: between both lines hit
MAX_SLOWER_HITS = 0.25  # of a hit: lines further back that take longer by more hit in another level
MAX_LATENCY_STEP_SHARE = 0.25  # of that difference: a clock of larger steps tells no latency
MIN_COMPARED = 16  # hits, to say so
FAR_RATIO, MIN_FAR_SHARE = 1.2, 0.08  # times the mean stay, up to which a level surely serves some: fewer are fast misses
SIGMAS = 2.0


@dataclass(frozen=True, slots=True)
class ScannedLevel:
    """A level as scans test it: the memory space, the distance of lines in bytes (no longer than the level's line), the latency
    of a hit, that from which on it missed, and by how much a miss takes longer; bytes that it holds at least, bytes that empty
    the nearer cache (0: none), and the most that a scan may take. `wanders`: what it holds changes meanwhile, as others leave,
    so that lines further back have to be timed than those that hit at first. `busy`: others use the core, so that laps do not
    tell what single hits and misses take, and some hits are late. `is_alone`: a line is brought in when it is visited; else, as
    where the line is not known, its neighbours may bring it in before."""

    asked: ProbeSession
    space: Space
    unit_bytes: int
    hit: float
    missed_from: float
    apart: float
    least_bytes: float
    nearer_bytes: float
    most_bytes: int
    wanders: bool = False
    busy: bool = False
    is_alone: bool = True

    def part(self, behind: LevelBehind) -> ScannedLevel:
        """The level before another one that is behind it."""
        return replace(self, missed_from=behind.parted_from, apart=behind.slower_by)

    @property
    def window(self) -> int:
        """Lines of a window."""
        fit = 1 << int(max(1.0, self.least_bytes / WINDOWS_HELD)).bit_length() - 1
        return min(max(fit, MIN_WINDOW_BYTES), MAX_WINDOW_BYTES) // self.unit_bytes

    @property
    def early_bytes(self) -> float:
        """How many bytes before a line is visited it may be brought in, on average: of a line in parts those visited later stay
        for less, by a third of a window; any line of a window may be brought in as it begins, or within the page before."""
        window = self.window * self.unit_bytes
        if not self.is_alone:
            return window / 2 + MIN_PAGE_BYTES
        return window / 3 if self.unit_bytes < LONGEST_LINE_BYTES else 0.0


@dataclass(frozen=True, slots=True)
class Looks:
    """Timed lines of a scan: bytes that were loaded since each was, and its latencies, shape (repeats, lines)."""

    since: Array
    latencies: Array


@dataclass(frozen=True, slots=True)
class LevelBehind:
    """A level that serves what misses before misses are as slow as beyond it: the latency that parts its hits from those of
    the level before, by how much they are slower, and half of an interval of that (None: the clock is too coarse)."""

    parted_from: float
    slower_by: float
    half: float | None


@dataclass(frozen=True, slots=True)
class Residence:
    """Mean bytes loaded until a line is evicted, with their interval (infinite where some lines are kept); the timed lines of
    each probe, and the records, that it rests on; and the level that lines stay in, where that is another one behind."""

    nbytes: float
    low: float
    high: float
    looks: tuple[Looks, ...]
    evidence: tuple[str, ...]
    behind: LevelBehind | None = None


def measure_residence(level: ScannedLevel) -> Experiment[Residence | str]:
    """How long lines stay in a level; or why that is not known."""
    begun = yield from _first_estimate(level)
    if isinstance(begun, str):
        return begun
    level, first, young = begun
    level.asked.cited()
    looks: list[Looks] = []
    found: Residence | str = ""
    for batch in range(1 if level.wanders else MAX_BATCHES):
        more = yield from look_back(level, first.stay, (first.youngest, first.oldest), batch)
        if isinstance(more, str):
            return more
        looks += more
        found = residence_of(level, looks, ())
        if isinstance(found, str):
            return found
        if found.high - found.low <= 2 * WANTED_RELATIVE_HALF_WIDTH * found.nbytes:
            break
    assert isinstance(found, Residence)
    return replace(found, behind=_level_behind(level, young, found), evidence=level.asked.cited())


def _level_behind(level: ScannedLevel, young: Looks, found: Residence) -> LevelBehind | None:
    """Another level, if hits of lines that lie back as far as most stay are slower than those of lines that surely are in this
    one: then it is that level which most lines stay in."""
    near = _hits_of(level, young, (NEARER_GONE_RATIO * level.nearer_bytes, YOUNG_SHARE * level.least_bytes))
    beyond = found.nbytes, FAR_RATIO * found.nbytes
    far = np.concatenate([_hits_of(level, one, beyond) for one in found.looks])
    if min(near.size, far.size) < MIN_COMPARED or _share_of_hits(level, found.looks, beyond) < MIN_FAR_SHARE:
        return None
    first, second = float(near.mean()), float(far.mean())
    chance = SIGMAS * float(np.hypot(near.std() / np.sqrt(near.size), far.std() / np.sqrt(far.size)))
    if second - first <= MAX_SLOWER_HITS * level.hit + chance:
        return None
    if clock_step(young.latencies) > MAX_LATENCY_STEP_SHARE * (second - first):
        return LevelBehind((first + second) / 2, second - first, None)
    usual = float(np.median(far) - np.median(near))  # a few of either are of the other level
    return LevelBehind((first + second) / 2, usual, chance + abs(usual - (second - first)))


def _share_of_hits(level: ScannedLevel, looks: Sequence[Looks], since: tuple[float, float]) -> float:
    """The share of lines that lie so far back which hit."""
    chosen = [one.latencies[:, (since[0] <= one.since) & (one.since <= since[1])].ravel() for one in looks]
    return float((np.concatenate(chosen) <= level.missed_from).mean())


def _hits_of(level: ScannedLevel, looks: Looks, since: tuple[float, float]) -> Array:
    """Latencies of hits of lines that lie so far back."""
    chosen = looks.latencies[:, (since[0] <= looks.since) & (looks.since <= since[1])]
    return np.asarray(chosen[chosen <= level.missed_from])


def residence_of(level: ScannedLevel, looks: list[Looks], evidence: tuple[str, ...]) -> Residence | str:
    """The mean stay from the timed lines of several probes; or why there is none."""
    found = [_stay(level, one) for one in looks]
    begun, left = (float(np.mean([getattr(one, name) for one in found])) for name in ("begun", "left"))
    if begun < (MIN_BUSY_BEGUN_SHARE if level.busy else MIN_BEGUN_SHARE):
        return f"{1 - begun:.0%} of lines miss after few others: something else evicts them"
    keeps = left > MAX_LEFT_SHARE
    if keeps and not level.wanders:
        return f"{left:.0%} of lines hit after {found[0].oldest:.0f} B of others: something keeps them"
    stays = np.array([one.stay for one in found])
    mean, slack = float(stays.mean()), SIGMAS * float(stays.std(ddof=1) / np.sqrt(stays.size))
    # of random victims the share falls by the same part for every capacity; lines that hit by chance leave none
    behind = left * mean + level.early_bytes
    # of a cache that others use the mean until the oldest of these is a lower bound all the same
    most = np.inf if keeps else (mean + behind) / (1.0 if level.busy else begun)
    return Residence(mean + behind / 2, mean - slack, most + slack, tuple(looks), evidence)


@dataclass(frozen=True, slots=True)
class _Stay:
    """The share of hits summed over all numbers of bytes, the shares that hit after the fewest and the most, and the numbers
    between which it falls."""

    stay: float
    begun: float
    left: float
    youngest: float
    oldest: float


def _stay(level: ScannedLevel, looks: Looks) -> _Stay:
    places, shares = shares_by_age(looks, looks.latencies <= level.missed_from)
    if level.busy:
        begun = float(shares[: max(1, int((places <= YOUNG_SHARE * level.least_bytes).sum()))].mean())
        shares = shares / max(begun, FEW_SHARE)
        stay = mean_stay(places, shares)
        return _Stay(stay, begun, float(shares[-END_AGES:].mean()), 0.0, float(min(places[-1], BUSY_AGES_RATIO * stay)))
    whole, hits = np.concatenate([[0.0], places]), np.concatenate([[1.0], shares])
    all_hit, none_hits = hits >= 1 - FEW_SHARE, hits <= FEW_SHARE
    youngest = whole[max(0, int(np.argmin(all_hit)) - 2)] if not all_hit.all() else whole[-1]
    oldest = whole[min(int(np.flatnonzero(~none_hits)[-1]) + 2, whole.size - 1)]
    return _Stay(mean_stay(places, shares), float(shares[0]), float(shares[-END_AGES:].mean()), float(youngest), float(oldest))


def mean_stay(places: Array, shares: Array) -> float:
    """The share of lines that are held summed over all numbers of bytes, from the shares at some; all are at 0."""
    whole, held = np.concatenate([[0.0], places]), np.concatenate([[1.0], shares])
    return float(((held[1:] + held[:-1]) / 2 * np.diff(whole)).sum())


def shares_by_age(looks: Looks, hits: Array) -> tuple[Array, Array]:
    """The numbers of bytes that timed lines lie back, and the share of truth values `hits`, shape (repeats, lines), at each."""
    places, of = np.unique(looks.since, return_inverse=True)
    return places, np.asarray(np.bincount(of, hits.mean(axis=0)) / np.bincount(of))


def _first_estimate(level: ScannedLevel) -> Experiment[tuple[ScannedLevel, _Stay, Looks] | str]:
    """The level with what is seen of its misses, about how long lines stay, and the lines that were timed first, some of them
    soon; or why there are none."""
    laps_level, oldest, young = level, FIRST_AGES_RATIO * level.least_bytes, None
    for _ in range(MAX_FIRST_PROBES):
        looks = yield from _looks(level, [_probe(level, level.least_bytes, (0.0, oldest), 0)])
        if isinstance(looks, str):
            return looks
        step = clock_step(looks[0].latencies)
        if step > MAX_CLOCK_STEP_SHARE * level.apart:
            return f"a clock that steps by {step:g} does not tell hits from misses, {level.apart:.3g} apart"
        young = young or looks[0]
        seen = _with_seen_misses(laps_level, young, looks[0]) if level.busy else level
        if isinstance(seen, str):
            return seen
        level = seen
        found = _stay(level, looks[0])
        if found.left <= MAX_FIRST_LEFT_SHARE:
            return level, replace(found, youngest=0.0, oldest=oldest) if level.wanders else found, young
        oldest *= MORE_RATIO
    return f"{found.left:.0%} of lines hit after {oldest / MORE_RATIO:.0f} B of others: something keeps them"


def _with_seen_misses(level: ScannedLevel, young: Looks, old: Looks) -> ScannedLevel | str:
    """The level with the latency from which on it missed as that which nearly all old lines take; as it is where too few take
    less that surely are in it. Or why the clock does not tell these apart."""
    sooner = (NEARER_GONE_RATIO * level.nearer_bytes <= young.since) & (young.since <= YOUNG_SHARE * level.least_bytes)
    held, late = young.latencies[:, sooner], old.latencies[:, old.since >= OLD_SHARE * old.since.max()]
    if min(held.size, late.size) < MIN_COMPARED:
        return level
    fastest = float(np.quantile(late, FAST_MISSES, method="lower"))  # a clock in steps gives many of them just that
    limit = min(level.missed_from, float(np.nextafter(fastest, -np.inf)))
    if (held <= limit).mean() < MIN_BUSY_BEGUN_SHARE:
        return level
    apart, step = limit - float(np.median(held)), clock_step(young.latencies)
    if step > apart:
        return f"a clock that steps by {step:g} does not tell hits from the fastest misses, {apart:.3g} apart"
    return replace(level, missed_from=limit)


def look_back(level: ScannedLevel, capacity: float, ages: tuple[float, float], batch: int = 0) -> Experiment[list[Looks] | str]:
    """Lines of scans that were loaded so many bytes before, from the least to the largest of `ages`; or why there are none.
    `capacity`: about what the level holds, in bytes. `batch`: number of the probes, of which each looks at others."""
    numbers = range(batch * PROBES, (batch + 1) * PROBES)
    return (yield from _looks(level, [_probe(level, capacity, ages, number) for number in numbers]))


def _looks(level: ScannedLevel, probes: list[Probe]) -> Experiment[list[Looks] | str]:
    """The timed lines of each probe; or why there are none."""
    few = [replace(probe, turns=MIN_TURNS) for probe in probes]
    too_large = next((probe for probe in few if probe_bytes(probe) > level.most_bytes), None)
    if too_large is not None:
        return f"a scan of {probe_bytes(too_large)} B takes too much memory"
    probes = [_with_turns(level, probe) for probe in probes]
    answers = yield from level.asked.all(probes)
    found = []
    for probe, answer in zip(probes, answers, strict=True):
        if answer.latencies is None:
            return answer.reason
        alone = _alone(probe)
        loaded, timed = timed_numbers(probe)
        lines_per_look = (probe.until - probe.skip - probe.also_until) / probe.record
        missed = float((answer.latencies > level.missed_from).mean())
        # what was timed in between brought in a line where it missed, and mostly one of the other half of its page
        since = (loaded - timed) * (1 + 2 * missed / lines_per_look) * level.unit_bytes
        found.append(Looks(since[alone], answer.latencies[:, alone]))
    return found


def _probe(level: ScannedLevel, capacity: float, ages: tuple[float, float], number: int) -> Probe:
    """A scan that times lines which lie so far back. Its `number` makes it time other lines."""
    unit = level.unit_bytes
    oldest = int(ages[1] / unit)
    enough = min(SCAN_RATIO * capacity, LOOKS * MIN_LINES_PER_LOOK * unit)
    scanned = int(max(enough, MIN_SCAN_RATIO * capacity, MIN_SCAN_BYTES) / unit)
    skip = number * (level.window // PROBES + 1)
    record = min(LOOKS, scanned // MIN_LINES_PER_LOOK // AGES * AGES)
    return Probe(
        Pattern("sequential", 1, unit), level.space, "residence", skip, record, until=skip + oldest + 1 + scanned,
        crowd=level.window, crowd_bytes=unit, also_from=int(ages[0] / unit), also_until=oldest, rounds=AGES,
    )  # fmt: skip


def _with_turns(level: ScannedLevel, probe: Probe) -> Probe:
    """The probe with as many repeats over different lines as memory allows: caches that protect what comes again hold them the
    less, the later that is."""
    a_turn = probe_bytes(replace(probe, turns=1))
    return replace(probe, turns=max(MIN_TURNS, min(MAX_TURNS, min(level.most_bytes, MAX_SCANNED_BYTES) // a_turn)))


def _alone(probe: Probe) -> Array:
    """Which timed lines nothing brought back before: no timed line or other half of a page in the same or a neighbouring
    part."""
    offsets = scan_offsets(probe, timed_numbers(probe)[1])
    touched = np.stack([offsets ^ MIN_PAGE_BYTES // 2, offsets], axis=1).reshape(-1) // LONGEST_LINE_BYTES
    _, first = np.unique(touched, return_index=True)
    is_first = np.zeros(touched.size, bool)
    is_first[first] = True
    return np.asarray(is_first[1::2])
