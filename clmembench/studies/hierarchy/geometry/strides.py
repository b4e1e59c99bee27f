"""Sets and ways of one cache or TLB, from how many places it holds at strides of powers of two. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import listed
from clmembench.studies.hierarchy.geometry.tag_unit import MAX_COUNT_RELATIVE_DIFFERENCE
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, MAX_DISTURBED_LINE_SHARE, CapacityBound, LevelProbe

MIN_PAGE_BYTES = 4096  # no device has smaller pages
ODD_MULTIPLES = (3, 5, 7, 9, 11)  # of a stride, which any number of sets but a multiple of them spreads evenly
# Thresholds
MAX_TAKEN_TAG_SHARE = 0.15  # of a cache's tags, whose lines others take all the time: a further bit would make it half
SETTLED_STRIDES = 3  # in a row, each twice the last, at which as many places fit: no set bit lies between them
MAX_REACH_SHARE = 0.9  # of a TLB's reach or entries: what uses more may overflow its sets
MIN_SHARED_WAYS, MAX_COUNTED_WAYS = 4, 64  # of a set of which the kernel itself may have one
ORDERS_OF_FEWER = 3  # of a lap that should fit: disturbances only add
MAX_HIDDEN_PLACE_SHARE = 0.01  # of many places, which the noise hides one by one
# Thresholds, each with its reason
RANDOM_PLACEMENTS = 5  # random placements; two sets get equal shares of 128 lines in one placement of 14
MIN_SPAN_RATIO = 4  # times the cache's size: address bits spread lines of a smaller span evenly over sets
ORDERS = 3  # of a placement, of which disturbances may spoil some
MAX_LINES = 512  # more are of no fully associative cache that is known


@dataclass(frozen=True, slots=True)
class StrideLimits:
    """Which strides may be tried: the largest working set in bytes, reach in bytes and entries of the nearest TLB, whose misses
    would look like a set's, and a hit's latency in the level before this one (0: there is none), which may hold the few places
    of one set itself."""

    most_bytes: int
    reach_bytes: int
    entries: int
    nearer: float = 0.0


@dataclass(frozen=True, slots=True)
class SetGeometry:
    """Sets of a level, by strides of powers of two: how many places fit at each, which address bits choose the set, how many
    ways."""

    fitting: tuple[tuple[int, int], ...]  # (stride, places that fit)
    bits: tuple[int, ...]
    ways: int | None
    reason: str = ""
    factor: int = 1  # odd: times as many sets as the bits tell apart, as a modulus chooses them

    @property
    def sets(self) -> int:
        """As many as the bits tell apart, times the factor."""
        return self.factor << len(self.bits)

    @property
    def has_neighbouring_bits(self) -> bool:
        """True if no address bit lies between two of the set index: nothing says that others are hashed in."""
        return not self.bits or self.bits[-1] - self.bits[0] == len(self.bits) - 1

    @property
    def way_bytes(self) -> int:
        """The least stride at which all places are of one set."""
        return self.factor * (2 << self.bits[-1] if self.bits else self.fitting[0][0] if self.fitting else 0)


@dataclass(slots=True)
class _StrideDoubling:
    """Strides doubled from one unit on: what fits at each, the bits of the set index so far, how many strides in a row held as
    many places, whether the core was ever restless, or others take lines at any time, and whether one place too many would have
    been detected at the last stride; what was found there."""

    last: int
    fitting: list[tuple[int, int]] = field(default_factory=list)
    bits: list[int] = field(default_factory=list)
    steady: int = 0
    restless: bool = False
    sharp: bool = False
    found: CapacityBound | None = None

    def is_whole(self, tags: int) -> bool:
        """True if as many places fit at several strides in a row, and the bits before tell as many sets as, with these ways,
        there are tags: no further bit is hashed in, whatever longer strides would do."""
        told, slack = self.last << len(self.bits), MAX_DISTURBED_LINE_SHARE * tags if self.restless else 0
        most = MAX_TAKEN_TAG_SHARE * told if self.restless else 0  # what others take makes tags fewer, never more
        return bool(self.bits) and self.steady >= SETTLED_STRIDES and self.sharp and -slack <= told - tags <= most

    @property
    def may_be_one_set(self) -> bool:
        """True if as many places fit at every stride, and one place too many would have been detected at the last."""
        return not self.bits and self.steady >= SETTLED_STRIDES and self.sharp and not self.restless

    def told(self, ways: int | None, reason: str = "") -> SetGeometry:
        """The sets as far as they are known."""
        return SetGeometry(tuple(self.fitting), tuple(self.bits), ways, reason)

    def add(self, stride: int, first: bool, slack: int, found: CapacityBound) -> str:
        """Note what fits at a stride; why no address bit explains it, "" where one does."""
        last = self.last
        self.fitting.append((stride, found.fits))
        self.found = found
        self.restless = self.restless or not found.calm
        self.sharp = found.sharp
        if self.restless:
            slack = max(slack, int(MAX_DISTURBED_LINE_SHARE * last))
        if not first:
            # of few places of one set, one may be of the kernel itself, whose page or line lies in that set at some strides
            own = int(self.restless and MIN_SHARED_WAYS <= last < MAX_COUNTED_WAYS)
            if abs(found.fits - last) <= max(slack, own):
                self.steady += 1
                self.last = max(last, found.fits) if own else found.fits
                return ""
            if abs(2 * found.fits - last) <= 2 * slack:
                self.bits.append(int(math.log2(stride)) - 1)
                self.steady = 0
            else:
                return (
                    f"{last} places fit {stride // 2} B apart and {found.fits} fit {stride} B apart, which no address bit does"
                )
        self.last = found.fits
        return ""


def sets_and_ways(probe: LevelProbe, unit: int, tags: int, limits: StrideLimits) -> Experiment[SetGeometry]:
    """Sets, ways and bits of the set index of a level with `tags` tags, each for `unit` bytes.

    Places lie 2^k units apart: where a doubled stride halves how many fit, the bit that it skips is one of the set index; where
    it stops to, what fits is one set's ways. As in Mei & Chu 2015, section 4.2, stage 2, without the assumption that the bits
    follow each other. Strides at which a TLB or a nearer level would look like a set are left out.
    """
    contrast, doubling, stride = probe.contrast, _StrideDoubling(tags, restless=probe.asked.shared), unit
    while True:
        last = doubling.last
        reason = _beyond_limits(stride, last, limits)
        if reason:
            span = min(limits.most_bytes, int(MAX_REACH_SHARE * limits.reach_bytes))
            is_asked = doubling.may_be_one_set and not limits.nearer and not probe.chase.control_bytes
            if is_asked and (yield from is_fully_associative(probe, unit, last, span)):
                return doubling.told(last)
            return doubling.told(None, reason)
        guesses = (last // 2, last) if stride > unit else (last,)
        apart = 0.0 if contrast.sharp(last) else MAX_HIDDEN_PLACE_SHARE / 2
        found = yield from find_capacity(probe, stride, 2 * last + 2, guesses, apart)
        reason = yield from _not_one_set(probe, stride, found, unit, tags, limits.nearer)
        if reason and doubling.is_whole(tags) and doubling.found is not None:
            return (yield from _confirmed_sets(probe, unit, doubling.found, doubling, limits.most_bytes))
        if reason:
            return doubling.told(None, reason)
        slack = 0 if contrast.sharp(last) else max(1, int(MAX_HIDDEN_PLACE_SHARE * last))
        reason = doubling.add(stride, stride == unit, slack, found)
        if reason:
            return doubling.told(None, reason)
        # bits that a hash draws on may lie anywhere below the capacity
        if doubling.steady >= SETTLED_STRIDES and stride >= tags * unit:
            return (yield from _confirmed_sets(probe, unit, found, doubling, limits.most_bytes))
        stride *= 2


def _beyond_limits(stride: int, last: int, limits: StrideLimits) -> str:
    """Why a stride cannot be tried with `last` places; "" where it can."""
    if stride * last > limits.most_bytes:
        return f"strides over {stride // 2} B are beyond the limit of memory"
    if stride * last > MAX_REACH_SHARE * limits.reach_bytes and last > MAX_REACH_SHARE * limits.entries:
        return f"{last} places {stride} B apart exceed the reach of a TLB, whose misses would look like the cache's"
    return ""


def _not_one_set(probe: LevelProbe, stride: int, found: CapacityBound, unit: int, tags: int, nearer: float) -> Experiment[str]:
    """Why what fits at a stride says nothing of this level's sets; "" where it does."""
    if found.over is None or found.fits < 1:
        why = "" if found.calm else ": the core was never left alone for long enough"
        return f"no largest number of places {stride} B apart that fit was found{why}"
    if nearer and (yield from probe.is_served_nearer(found.fits, stride, nearer)):
        return f"a nearer level holds {found.fits} places {stride} B apart itself"
    # of more than half the lines even those of other sets would fill the cache
    few = 2 * found.fits <= tags
    pages = few and not probe.chase.shift_bytes and stride >= MIN_PAGE_BYTES
    if pages and (yield from _overflows_tlb(probe, stride, found.over, unit)):
        return f"{found.over} places {stride} B apart overflow a TLB too, whose misses would look like the cache's"
    return ""


def _confirmed_sets(
    probe: LevelProbe, unit: int, found: CapacityBound, doubling: _StrideDoubling, most_bytes: int
) -> Experiment[SetGeometry]:
    """The sets where doubled strides hold as many places: without bits they are checked with odd strides, with bits with
    multiples."""
    last = doubling.last
    if not found.sharp:
        return doubling.told(None, f"one place too many of {last} would not have been detected")
    if not doubling.bits:
        uneven = yield from _why_hashed(probe, unit, last)
        return doubling.told(None if uneven else last, uneven)
    sets = yield from _sets_at_odd_multiples(probe, doubling.told(last), most_bytes)
    if sets.ways is None or sets.has_neighbouring_bits or (yield from _needs_each_line(probe, sets)):
        return sets
    reason = f"of {sets.ways + 1} places {sets.way_bytes} B apart one can be left out: a hash lays them into several sets"
    return replace(sets, ways=None, reason=reason)


def _needs_each_line(probe: LevelProbe, sets: SetGeometry) -> Experiment[bool]:
    """True if one line more than the ways overflows them only as long as none is left out: of several sets, over which a hash
    may lay them at every stride of a power of two alike, one alone would overflow."""
    if probe.counting is not None or probe.chase.control_bytes:
        return True  # a TLB is found by differences of laps, which this test does not have
    lines = [number * sets.way_bytes for number in range((sets.ways or 0) + 1)]
    for left_out in lines:
        text = listed([line for line in lines if line != left_out])
        for seed in range(ORDERS_OF_FEWER):
            answer = yield from probe.asked.one(
                Probe(Pattern("random", sets.ways or 0, segments=text, seed=seed), probe.chase.space)
            )
            if answer.value is None or answer.value <= probe.contrast.limit(len(lines) - 1):
                break  # in a run stored before there is none
        else:
            return False
    return True


def _sets_at_odd_multiples(probe: LevelProbe, sets: SetGeometry, most_bytes: int) -> Experiment[SetGeometry]:
    """Sets whose lines surely lie that far apart: as many places fit at odd multiples of the stride. Where their number has an
    odd factor, a part of them fit at that multiple; where a hash chooses them, another number."""
    assert sets.ways is not None
    ways, taken = sets.ways, int(probe.asked.shared and sets.ways >= MIN_SHARED_WAYS)
    for odd in ODD_MULTIPLES:
        stride = odd * sets.way_bytes
        if ways < 2 or stride * (ways + 1) > most_bytes:
            break
        found = yield from find_capacity(probe, stride, 2 * ways + 2, (ways, ways // odd))
        if found.fits < 1:
            break  # no answer, as in a run stored before these were asked
        if found.fits * odd == ways and sets.factor == 1:
            ways = found.fits
            sets = replace(sets, ways=ways, factor=odd)
        elif abs(found.fits - ways) > taken:
            reason = f"{ways} places fit {sets.way_bytes} B apart, {found.fits} fit {stride} B apart: a hash chooses sets"
            return replace(sets, ways=None, reason=reason)
    return sets


def _why_hashed(probe: LevelProbe, unit: int, fitting: int) -> Experiment[str]:
    """Why lines that fit at every stride of a power of two are not of one set: "" where as many fit at odd strides; a hash that
    spreads powers of two evenly does not spread those as evenly, nor does a number of sets that is odd."""
    for odd in ODD_MULTIPLES:
        apart = MAX_COUNT_RELATIVE_DIFFERENCE / 4
        found = yield from find_capacity(probe, odd * unit, 2 * fitting + 2, (fitting,), apart)
        if abs(found.fits - fitting) > MAX_COUNT_RELATIVE_DIFFERENCE / 2 * fitting:
            return (
                f"{fitting} places fit at strides of powers of two, {found.fits} at {odd * unit} B: a hash chooses their sets"
            )
    return ""


def _overflows_tlb(probe: LevelProbe, stride: int, count: int, unit: int) -> Experiment[bool]:
    """True if as many places in the same pages take longer too where their lines are of different sets."""
    mean = yield from probe.mean(count, stride)
    apart = yield from probe.shifted(unit).mean(count, stride)
    if mean is None or apart is None:
        return True
    return apart - probe.contrast.hit > max(LAP_NOISE_SIGMAS * probe.contrast.noise, (mean - probe.contrast.hit) / 2)


def is_consistent(sets: SetGeometry, tags: CapacityBound) -> bool:
    """True if sets times ways is what was found to fit at strides that use all sets."""
    if sets.ways is None:
        return False
    slack = 0 if tags.sharp else MAX_HIDDEN_PLACE_SHARE * tags.fits
    return tags.fits - slack <= sets.ways * sets.sets <= tags.fits + slack


def geometric_counts(first: int, last: int, per_octave: int) -> Sequence[int]:
    """Whole numbers from `first` to at most `last`, `per_octave` an octave."""
    steps = int(per_octave * math.log2(max(1, last / first)) + 1e-9)
    return sorted({round(first * 2 ** (i / per_octave)) for i in range(steps + 1)})


def is_fully_associative(probe: LevelProbe, unit: int, count: int, span_bytes: int) -> Experiment[bool]:
    """True if `count` random lines of `unit` bytes within `span_bytes` hit, as consecutive ones do."""
    if count > MAX_LINES or span_bytes < MIN_SPAN_RATIO * count * unit or not probe.contrast.sharp(count):
        return False
    for seed in range(RANDOM_PLACEMENTS):
        drawn = np.random.default_rng([seed, count]).choice(span_bytes // unit, count, replace=False)
        pattern = Pattern("random", count, segments=listed((drawn * unit).tolist()))
        if not (yield from _fits(probe, pattern)):
            return False
    return True


def _fits(probe: LevelProbe, pattern: Pattern) -> Experiment[bool]:
    """True if a lap over the places of a pattern hits, in one of some orders."""
    for seed in range(ORDERS):
        answer = yield from probe.asked.one(Probe(replace(pattern, seed=seed), probe.chase.space))
        if answer.value is not None and answer.value <= probe.contrast.limit(pattern.count):
            return True
    return False
