"""The geometry of one cache or TLB from whole laps: fill unit, tag unit, capacity, sets and ways, bits of the set index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.infer.hierarchy.probing import LEAST_NOISE, SIGMAS, Asked, Bound, Chase, Contrast, bound
from clmembench.model import Inquiry, Pattern, Probe, Space

UNITS = (8, 16, 32, 64, 128, 256)  # bytes: distances at which the second access of a pair is tried
FAR = 512  # surely another line
APART = 7 * UNITS[-1]  # an odd multiple of what may be one line, so that pairs fall into as many sets as can be
NEIGHBOURS = 0.15  # relative: pairs 256 B apart that take that much less than those 512 B apart were prefetched
CLEAR = 0.25  # of the way from hit to miss: what lies nearer to an end is that end
SETTLED = 3  # strides in a row, each twice the last, at which as many places fit: no set bit lies between them
MOST_PLACES = 1 << 20
LINES = 6  # pairs that surely miss are so many for each 1.5 KiB of what is beyond all caches
MANY = 1 << 17  # places that are dear to visit
FAINT = 0.06  # the same where noise is small
ALL_MISS = 0.8  # of what a miss costs, which the first accesses of pairs must take
BEYOND = 0.06  # relative: how far beyond what fits the misses of two strides are compared
ODD = (3, 5, 7, 9, 11)  # multiples of a unit that any number of sets but a multiple of them spreads evenly
ALIKE = 3  # times: shares that differ by no more are of one kind
SLACK = 0.04  # relative: counts of places that differ by no more are one
PAGE = 4096  # bytes: the least page there is
NO_ANSWER = "pairs of accesses got no answer"
LARGE = 4 << 20  # bytes: levels from there on take more places to overflow
HELD = 0.25  # of accesses: so many at most may a nearer level answer
TAKEN = 0.07  # of the lines of a level, by what else uses the core, or of its sets by the kernel itself
BLUR = 0.01  # relative: what single places hide in the noise of many


@dataclass(frozen=True, slots=True)
class Unit:
    """A size in bytes that was looked for, or None and why not; then `least` is what it is at least, 0 where not known."""

    nbytes: int | None
    reason: str = ""
    least: int = 0


def longest_unit(asked: Asked, space: Space, beyond_bytes: int, claimed: int) -> Inquiry[int]:
    """The longest unit that any level brings in, for nodes that never share one: pairs of accesses over a working set
    beyond all caches. Where neighbours are brought in too, which prefetchers do, it cannot be told, and what is claimed is
    taken."""
    count = max(64, min(MANY, LINES * beyond_bytes // APART))
    means = yield from _pairs(asked, space, count)
    if means is None or means[-2] < (1 - NEIGHBOURS) * means[-1]:
        return claimed
    shared = [d for d, v in zip(UNITS, means, strict=False) if v < means[-1] * (1 - CLEAR / 2)]
    return max(claimed, 2 * max(shared, default=16))


def _pairs(asked: Asked, space: Space, count: int) -> Inquiry[list[float] | None]:
    """The least mean of two orders (of many places one) for each distance of UNITS and FAR; None where there is no answer."""
    distances, seeds = (*UNITS, FAR), (1, 2) if count <= MANY else (1,)
    probes = [Probe(Pattern("pairs", count, APART, block_bytes=d, seed=seed), space) for d in distances for seed in seeds]
    values = [answer.value for answer in (yield from asked.all(probes))]
    if any(value is None for value in values):
        return None
    each = len(seeds)
    return [min(v for v in values[each * i : each * (i + 1)] if v is not None) for i in range(len(distances))]


def fill_unit(asked: Asked, space: Space, contrast: Contrast, capacity: int, longest: int = UNITS[2]) -> Inquiry[Unit]:
    """The unit that a miss brings in: the least distance at which an access just after a miss misses too (Mei & Chu 2015,
    section 4.2, stage 1, as pairs, which need no clock in the kernel). `capacity`: bytes that the level holds at most; the
    first accesses are so many that they always miss, if each takes a line as long as the `longest`, so that the next level
    holds them; if that tells nothing, so many more that they do where lines are short."""
    found, least = Unit(None, ""), 0
    for line in dict.fromkeys((longest, UNITS[2])):
        count = 2 * capacity // line if capacity < LARGE else int(1.3 * capacity) // UNITS[4]
        found = yield from _filled(asked, space, contrast, capacity, count)
        if found.nbytes is not None or found.reason == NO_ANSWER:
            return found
        least = max(least, found.least)
    return replace(found, least=least)


def _filled(asked: Asked, space: Space, contrast: Contrast, capacity: int, count: int) -> Inquiry[Unit]:
    """The same by so many pairs."""
    if count > MOST_PLACES:
        return Unit(None, f"a cache of up to {capacity} B is not overflowed by {MOST_PLACES} pairs of accesses")
    means = yield from _pairs(asked, space, max(64, count))
    if means is None:
        return Unit(None, NO_ANSWER)
    near, far = means[0], means[-1]
    if far - near < max(4 * SIGMAS * contrast.noise, CLEAR * (contrast.miss - contrast.hit) / 2):
        return Unit(None, f"pairs {UNITS[0]} and {FAR} B apart take {near:.4g} and {far:.4g}: too alike to tell units")
    if 2 * near - contrast.hit < ALL_MISS * contrast.miss:
        return Unit(None, f"the first accesses of {count} pairs do not all miss")
    if means[-2] < (1 - NEIGHBOURS) * far:  # as far as lines of any level are long, the next may still be of the same one
        return Unit(None, f"lines {UNITS[-1]} B behind a miss are there sooner than others: a prefetcher brings them")
    # the first access of a pair costs as much at any distance, so a mean rises by half of what the second does; that is held
    # against a miss of this level, since the first access may have missed others too
    noise = max(LEAST_NOISE, contrast.noise / contrast.hit) * max(means)
    if 2 * SIGMAS * noise > CLEAR * (contrast.miss - contrast.hit):
        return Unit(None, f"what a miss costs is within the noise of pairs, {noise:.2g} of {max(means):.4g}")
    rises = [2 * (m - near) / (contrast.miss - contrast.hit) for m in means]
    # less than a miss, but surely more than none: a level in between that the curve did not show
    faint = min(CLEAR, max(FAINT, SIGMAS * 3 * noise / (contrast.miss - contrast.hit)))
    odd = [d for d, rise in zip(UNITS, rises, strict=False) if faint < rise < 1 - CLEAR]
    if odd:
        why = f"the second access of pairs {odd[0]} B apart neither hits nor misses: a prefetcher, or mixed levels"
        return Unit(None, why, odd[0])
    apart = [rise > 1 - CLEAR for rise in rises]
    if apart != sorted(apart):
        return Unit(None, "whether the second access of a pair hits does not depend on its distance alone")
    return Unit((*UNITS, FAR)[apart.index(True)] if True in apart else None, "no distance was found at which both miss")


def tag_unit(
    asked: Asked, chase: Chase, contrast: Contrast, unit: int, dense: Bound, most_bytes: int
) -> Inquiry[tuple[Unit, Bound]]:
    """The unit that a tag stands for, and how many tags there are. `dense` is how many places `unit` bytes apart fit, C
    bytes.

    Places 3u apart with u a power of two: where a tag stands for 4u or more, no more than C / 3u of them fit, however lines
    fall into sets; where it stands for 2u or less, each is a line of its own and more fit. So the first u at which more fit
    tells 2u, if at u / 2 there were just C / 3u. At the first u it is u itself, or 2u where at 3u, 5u and 7u just half as
    many fit.
    """
    size, found = unit, dense
    capacity = dense.fits * unit

    def dearer(stride: int) -> Contrast:
        """Translation is paid for fewer places a page."""
        return replace(contrast, extra=contrast.extra * stride / unit)

    while size <= FAR and 3 * capacity <= most_bytes:
        found = yield from _spread(asked, chase, dearer(3 * size), 3 * size, capacity)
        if found.over is None or not found.fits:
            why = "" if found.calm else ", and the core was never left alone for long enough to tell of more"
            return Unit(None, f"{found.fits} places {3 * size} B apart still fit{why}"), found
        ratio = found.fits * 3 * size / capacity
        if ratio > 1 + SLACK:
            if size > unit:
                return Unit(2 * size), found
            # uneven sets only lower a count: the largest is nearest to how many lines there are
            shares = [ratio / 1.5]
            for odd in (5, 7):
                other = yield from _spread(asked, chase, dearer(odd * size), odd * size, capacity)
                shares.append(other.fits * 2 * size / capacity)
            most = max(shares)
            if most > 1 + SLACK:
                return Unit(size), found
            if sum(most - share < SLACK for share in shares) > 1 and abs(most - 1) < SLACK:
                return Unit(2 * size), found
            return Unit(None, f"how many places fit at strides of 3, 5 and 7 times {size} B suits no tag unit"), found
        if ratio < 1 - SLACK / 2:
            return Unit(None, f"only {found.fits} places {3 * size} B apart fit: lines fall unevenly into sets"), found
        beyond = yield from _share(asked, chase, contrast, found.fits, 3 * size)
        dense_beyond = yield from _share(asked, chase, contrast, dense.fits, unit)
        if beyond < dense_beyond / ALIKE:  # a few lines of an uneven set, not the capacity
            return Unit(
                None, f"places {3 * size} B apart begin to miss there for another reason: lines fall unevenly into sets"
            ), found
        size *= 2
    return Unit(None, "strides that would tell are beyond the limit of memory"), found


def _share(asked: Asked, chase: Chase, contrast: Contrast, fitting: int, stride: int) -> Inquiry[float]:
    """The share of accesses that miss a little beyond what fits."""
    count = int((1 + BEYOND) * fitting) + 1
    mean = yield from chase.mean(asked, count, stride)
    return max(0.0, contrast.misses(mean, count) / count) if mean is not None else 0.0


def _spread(asked: Asked, chase: Chase, contrast: Contrast, stride: int, capacity: int) -> Inquiry[Bound]:
    """How many places at an odd stride fit. Translation is paid more often at longer strides: a hit is what surely fits
    there."""
    least = max(1, capacity // stride)
    base = yield from chase.mean(asked, max(1, 2 * least // 3), stride)
    more = base - contrast.hit if base is not None and base > contrast.hit + 2 * SIGMAS * contrast.noise else 0.0
    here = replace(contrast, hit=contrast.hit + more, miss=contrast.miss + more)
    guesses = [least, 3 * least // 2, 3 * least]
    return (yield from bound(asked, chase, here, stride, 4 * least, guesses, SLACK / 4))


@dataclass(frozen=True, slots=True)
class Sets:
    """What strides of powers of two told: how many places fit at each, which address bits choose the set, how many ways."""

    fitting: tuple[tuple[int, int], ...]  # (stride, places that fit)
    bits: tuple[int, ...]
    ways: int | None
    reason: str = ""
    factor: int = 1  # odd: times as many sets as the bits tell apart, as a modulus chooses them

    @property
    def sets(self) -> int:
        """As many as the bits tell apart, and times the factor."""
        return self.factor << len(self.bits)

    @property
    def way_bytes(self) -> int:
        """The least stride at which all places are of one set."""
        return self.factor * (2 << self.bits[-1] if self.bits else self.fitting[0][0] if self.fitting else 0)


def sets_and_ways(
    asked: Asked,
    chase: Chase,
    contrast: Contrast,
    unit: int,
    tags: int,
    reach_bytes: int,
    entries: int,
    most_bytes: int,
    nearer: float = 0.0,
) -> Inquiry[Sets]:
    """Places 2^k units apart: where a doubled stride halves how many fit, the bit that it skips is one of the set index;
    where it stops to, what fits is one set's ways. As in Mei & Chu 2015, section 4.2, stage 2, without assuming that the
    bits follow each other. A TLB that overflows would look like a set: strides are left out at which `entries` pages or
    `reach_bytes` are exceeded; so would a level before this one, of a hit's latency `nearer`, which holds the few places of
    one set itself."""
    fitting: list[tuple[int, int]] = []
    bits: list[int] = []
    stride, last, steady, restless = unit, tags, 0, False
    while True:
        if stride * last > most_bytes:
            return Sets(tuple(fitting), tuple(bits), None, f"strides over {stride // 2} B are beyond the limit of memory")
        if stride * last > 0.9 * reach_bytes and last > 0.9 * entries:
            reason = f"{last} places {stride} B apart exceed the reach of a TLB, whose misses would look like the cache's"
            return Sets(tuple(fitting), tuple(bits), None, reason)
        guesses = (last // 2, last) if stride > unit else (last,)
        apart = 0.0 if contrast.sharp(last) else BLUR / 2
        found = yield from bound(asked, chase, contrast, stride, 2 * last + 2, guesses, apart)
        if found.over is None or found.fits < 1:
            why = "" if found.calm else ": the core was never left alone for long enough"
            reason = f"no number of places {stride} B apart was found that just fits{why}"
            return Sets(tuple(fitting), tuple(bits), None, reason)
        if nearer and (yield from _held(asked, chase, contrast, stride, found.fits, nearer)):
            return Sets(tuple(fitting), tuple(bits), None, f"a nearer level holds {found.fits} places {stride} B apart itself")
        # of more than half the lines even those of other sets would fill the cache
        few = 2 * found.fits <= tags
        if (
            few
            and not chase.shift_bytes
            and stride >= PAGE
            and (yield from _translated(asked, chase, contrast, stride, found.over, unit))
        ):
            reason = f"{found.over} places {stride} B apart overflow a TLB too, whose misses would look like the cache's"
            return Sets(tuple(fitting), tuple(bits), None, reason)
        fitting.append((stride, found.fits))
        slack = 0 if contrast.sharp(last) else max(1, int(BLUR * last))
        restless = restless or not found.calm
        if restless:
            slack = max(slack, int(TAKEN * last))
        if stride > unit:
            if abs(found.fits - last) <= slack:
                steady += 1
            elif abs(2 * found.fits - last) <= 2 * slack:
                bits.append(int(math.log2(stride)) - 1)
                steady = 0
            else:
                reason = (
                    f"{last} places fit {stride // 2} B apart and {found.fits} fit {stride} B apart, which no address bit does"
                )
                return Sets(tuple(fitting), tuple(bits), None, reason)
        last = found.fits
        # bits that a hash draws on may lie anywhere below the capacity
        if steady >= SETTLED and stride >= tags * unit:
            if not found.sharp:
                return Sets(tuple(fitting), tuple(bits), None, f"one place too many of {last} would not have been seen")
            if not bits:
                uneven = yield from _hashed(asked, chase, contrast, unit, last)
                return Sets(tuple(fitting), (), None if uneven else last, uneven)
            return (yield from _whole_sets(asked, chase, contrast, Sets(tuple(fitting), tuple(bits), last), most_bytes))
        stride *= 2


def _whole_sets(asked: Asked, chase: Chase, contrast: Contrast, sets: Sets, most_bytes: int) -> Inquiry[Sets]:
    """Sets whose lines surely lie that far apart: as many places fit at odd multiples of the stride. Where their number has an
    odd factor, a part of them fit at that multiple; where a hash chooses them, another number."""
    assert sets.ways is not None
    for odd in ODD:
        stride = odd * sets.way_bytes
        if sets.ways < 2 or stride * (sets.ways + 1) > most_bytes:
            break
        found = yield from bound(asked, chase, contrast, stride, 2 * sets.ways + 2, (sets.ways, sets.ways // odd))
        if found.fits * odd == sets.ways and sets.factor == 1:
            sets = replace(sets, ways=found.fits, factor=odd)
        elif found.fits != sets.ways:
            reason = f"{sets.ways} places fit {sets.way_bytes} B apart, {found.fits} fit {stride} B apart: a hash chooses sets"
            return replace(sets, ways=None, reason=reason)
    return sets


def _hashed(asked: Asked, chase: Chase, contrast: Contrast, unit: int, fitting: int) -> Inquiry[str]:
    """Why lines that fit at every stride of a power of two are not of one set: "" where as many fit at odd strides; a hash that
    spreads powers of two evenly does not spread those as evenly, nor does a number of sets that is odd."""
    for odd in ODD:
        found = yield from bound(asked, chase, contrast, odd * unit, 2 * fitting + 2, (fitting,), SLACK / 4)
        if abs(found.fits - fitting) > SLACK / 2 * fitting:
            return (
                f"{fitting} places fit at strides of powers of two, {found.fits} at {odd * unit} B: a hash chooses their sets"
            )
    return ""


def _held(asked: Asked, chase: Chase, contrast: Contrast, stride: int, count: int, nearer: float) -> Inquiry[bool]:
    """Whether so many places are answered by the level before more often than now and then."""
    mean = yield from chase.mean(asked, count, stride)
    return mean is None or mean < contrast.hit - HELD * (contrast.hit - nearer)


def _translated(asked: Asked, chase: Chase, contrast: Contrast, stride: int, count: int, unit: int) -> Inquiry[bool]:
    """Whether as many places in the same pages take longer too where their lines are of different sets."""
    mean = yield from chase.mean(asked, count, stride)
    apart = yield from replace(chase, shift_bytes=unit).mean(asked, count, stride)
    if mean is None or apart is None:
        return True
    return apart - contrast.hit > max(SIGMAS * contrast.noise, (mean - contrast.hit) / 2)


def consistent(sets: Sets, tags: Bound) -> bool:
    """Whether sets times ways is what was found to fit at strides that use all sets."""
    if sets.ways is None:
        return False
    slack = 0 if tags.sharp else BLUR * tags.fits
    return tags.fits - slack <= sets.ways * sets.sets <= tags.fits + slack


def growing(first: int, last: int, per_octave: int) -> Sequence[int]:
    """Whole numbers from `first` to at most `last`, so many an octave."""
    steps = int(per_octave * math.log2(max(1, last / first)) + 1e-9)
    return sorted({round(first * 2 ** (i / per_octave)) for i in range(steps + 1)})
