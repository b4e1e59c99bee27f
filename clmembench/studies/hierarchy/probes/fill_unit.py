"""The unit that a miss brings in, from pairs of accesses at growing distances. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.model import Experiment, Pattern, Probe, Space
from clmembench.studies.hierarchy.probes.probing import (
    LAP_NOISE_SIGMAS,
    MIN_RELATIVE_LAP_NOISE,
    HitMissModel,
    LevelProbe,
    ProbeSession,
    without_answer,
)

PAIR_DISTANCES_BYTES = (8, 16, 32, 64, 128, 256)  # at which the second access of a pair is tried
LONGER_DISTANCES_BYTES = (512, 1024, 2048)  # up to half of a page, which prefetchers do not leave
OTHER_LINE_BYTES = 512  # a distance that is surely in another line
PAIR_SPACING_BYTES = 7 * PAIR_DISTANCES_BYTES[-1]  # an odd multiple of the longest line, so that pairs use many sets
USUAL_UNIT_BYTES = 32  # that a miss brings in at least on most devices
USUAL_LINE_BYTES = 128  # longer lines than most last caches have
BROUGHT_SOONER = f"lines {PAIR_DISTANCES_BYTES[-1]} B behind a miss are there sooner than others: a prefetcher brings them"
# Thresholds
MAX_PREFETCHED_RELATIVE_GAIN = 0.15  # pairs 256 B apart that are faster than those 512 B apart by more were prefetched
MAX_END_SHARE = 0.25  # of the way from hit to miss: what lies nearer to an end is that end
MAX_FALL_SHARE = 0.3  # of the range of means, that a pair further apart takes less: more is noise, not a unit
MAX_FALL_SHARE_OF_ONE_ORDER = 0.15  # the same of laps so long that one order must do, of which none shows what is chance
MAX_ORDER_DIFFERENCE = 0.03  # relative, of two orders of pairs: more asks for a third
MAX_SPREAD_SHARE = 0.2  # of what a miss costs, by which laps in two orders usually differ: more makes rises by chance
MIN_PARTIAL_RISE_SHARE = 0.06  # of the way from hit to miss: less is no level in between, however small the noise is
MIN_HIT_RISE = 0.5  # times a hit, that a hit of a level in between costs more
MIN_FIRST_MISS_SHARE = 0.8  # of what a miss costs, which the first accesses of pairs must take to have missed
MAX_PAIRS = 1 << 20  # a lap over more would take too long
MAX_REPEATED_PAIRS = 1 << 17  # from there on a lap takes so long that one order must do
MIN_PAIRS = 64  # of a lap: the mean of fewer is noisy
BEYOND_CACHES_SHARE = 0.5  # of a working set beyond all caches, which the pairs fill even with the shortest lines: they miss
LARGE_LEVEL_BYTES = 4 << 20  # levels from there on take fewer pairs for their size, since laps are slow
LARGE_LEVEL_OVERFLOW = 1.3  # times a large level, which the first accesses of pairs take


@dataclass(frozen=True, slots=True)
class UnitSize:
    """A size in bytes that was looked for, or None and why not; then `least` is its lower bound, 0 where there is none.
    `is_answered` is False where a probe got no answer, so that further ones are not worth asking; `is_prefetched` is True where
    a prefetcher fetches more than one line. `beside` is the distance in bytes of the lines that it fetches, where they are not
    adjacent; `reason` then says that it fetches them at some misses only."""

    nbytes: int | None
    reason: str = ""
    least: int = 0
    is_answered: bool = True
    is_prefetched: bool = False
    beside: int = 0


def longest_unit(
    asked: ProbeSession, space: Space, beyond_bytes: int, claimed: int, most_bytes: int = 1 << 30
) -> Experiment[int]:
    """The longest unit in bytes that any level brings in, for nodes that never share one: from pairs of accesses over a working
    set of `beyond_bytes`, beyond all caches. Where lines are short and a hash spreads them, a cache holds as many at any
    distance, so that many are visited. Where a prefetcher brings neighbours in too, it is as far as that goes, in working sets
    of up to `most_bytes`; else, and where others use the caches, `claimed`."""
    count = max(MIN_PAIRS, min(MAX_REPEATED_PAIRS, int(BEYOND_CACHES_SHARE * beyond_bytes) // USUAL_UNIT_BYTES))
    means, _, _ = yield from _pair_latencies(asked, space, count)
    if not means:
        return claimed
    if means[-2] < (1 - MAX_PREFETCHED_RELATIVE_GAIN) * means[-1]:
        return claimed if asked.shared else (yield from _prefetched_unit(asked, space, count, claimed, most_bytes))
    shared = [d for d, v in zip(PAIR_DISTANCES_BYTES, means, strict=False) if v < means[-1] * (1 - MAX_END_SHARE / 2)]
    return max(claimed, 2 * max(shared, default=16))


def _prefetched_unit(asked: ProbeSession, space: Space, count: int, claimed: int, most_bytes: int) -> Experiment[int]:
    """The least distance from which on second accesses of pairs take as long as those twice as far apart; `claimed`: none."""
    before = 0.0
    for distance in LONGER_DISTANCES_BYTES:
        spacing = 7 * distance // 2  # an odd multiple of half the distance, so that no two places are one
        if count * spacing > most_bytes:
            break
        pattern = Pattern("pairs", count, spacing, block_bytes=distance, seed=1)
        answer = yield from asked.one(Probe(pattern, space))
        if answer.value is None:
            break
        if before >= (1 - MAX_PREFETCHED_RELATIVE_GAIN) * answer.value:
            return distance // 2
        before = answer.value
    return claimed


def _pair_latencies(asked: ProbeSession, space: Space, count: int) -> Experiment[tuple[list[float], float, str]]:
    """The mean latency of pairs at each of PAIR_DISTANCES_BYTES and OTHER_LINE_BYTES, the least of two orders (of one where a
    lap takes long), of three where these differ, or the median of three where others use the core; empty where there is no
    answer. And by how much two orders of a distance usually differ; and why there is no answer."""
    distances, seeds = (*PAIR_DISTANCES_BYTES, OTHER_LINE_BYTES), (1, 2) if count <= MAX_REPEATED_PAIRS else (1,)
    probes = [
        Probe(Pattern("pairs", count, PAIR_SPACING_BYTES, block_bytes=d, seed=seed), space) for d in distances for seed in seeds
    ]
    answers = yield from asked.all(probes)
    values = [answer.value for answer in answers if answer.value is not None]
    if len(values) < len(probes):
        return [], 0.0, without_answer("pairs of accesses", answers)
    each = len(seeds)
    orders = [values[each * i : each * (i + 1)] for i in range(len(distances))]
    told = [min(one) for one in orders]
    for i, distance in enumerate(distances):
        if max(orders[i]) > (1 + MAX_ORDER_DIFFERENCE) * told[i]:  # one of them is wrong, or both, whichever it is
            third = Probe(Pattern("pairs", count, PAIR_SPACING_BYTES, block_bytes=distance, seed=each + 1), space)
            answer = yield from asked.one(third)
            if answer.value is not None:
                told[i] = statistics.median([*orders[i], answer.value]) if asked.shared else min(told[i], answer.value)
    return told, statistics.median(max(one) - min(one) for one in orders), ""


def find_fill_unit(
    probe: LevelProbe, capacity: int, longest: int = USUAL_UNIT_BYTES, nearer: Sequence[float] = ()
) -> Experiment[UnitSize]:
    """The unit that a miss brings in: the least distance at which an access just after a miss misses too (Mei & Chu 2015,
    section 4.2, stage 1, as pairs, which need no clock in the kernel).

    `capacity`: bytes that the level holds at most. The first accesses are so many that they always miss, if each takes a line
    as long as `longest`, so that the next level holds them; where that is inconclusive, so many more that they miss where lines
    are short. `nearer`: latencies of the levels before, the nearest first, which serve second accesses themselves up to their
    own units.
    """
    found, least = UnitSize(None, ""), 0
    for line in dict.fromkeys((longest, USUAL_UNIT_BYTES)):
        large = int(LARGE_LEVEL_OVERFLOW * capacity) // USUAL_LINE_BYTES
        count = 2 * capacity // line if capacity < LARGE_LEVEL_BYTES else large
        found = yield from _unit_of_pairs(probe, capacity, count, nearer, least)
        if found.nbytes is not None or not found.is_answered:
            return found
        least = max(least, found.least)
    return replace(found, least=least)


def _unit_of_pairs(probe: LevelProbe, capacity: int, count: int, nearer: Sequence[float], doubted: int) -> Experiment[UnitSize]:
    """The unit that a miss brings in, from laps of `count` pairs. `doubted`: as of `_first_distance_that_misses`."""
    if count > MAX_PAIRS:
        return UnitSize(None, f"a cache of up to {capacity} B is not overflowed by {MAX_PAIRS} pairs of accesses")
    means, spread, missing = yield from _pair_latencies(probe.asked, probe.chase.space, max(MIN_PAIRS, count))
    if not means:
        return UnitSize(None, missing, is_answered=False)
    beside = _sector_beside_others(means, probe.contrast, nearer, spread)
    if beside is not None:
        return beside
    reason = _too_alike(means, probe.contrast, count, min(nearer, default=probe.contrast.hit))
    if reason:
        return UnitSize(None, reason, is_prefetched=reason == BROUGHT_SOONER)
    return _first_distance_that_misses(means, probe.contrast, nearer, spread, doubted)


def _too_alike(means: Sequence[float], contrast: HitMissModel, count: int, nearest: float) -> str:
    """Why the means of pairs tell no unit; "" where they may. `nearest`: what serves a second access to the same bytes."""
    near, far = means[0], means[-1]
    if far - near < max(4 * LAP_NOISE_SIGMAS * contrast.noise, MAX_END_SHARE * (contrast.miss - contrast.hit) / 2):
        pair = f"pairs {PAIR_DISTANCES_BYTES[0]} and {OTHER_LINE_BYTES} B apart"
        return f"{pair} take {near:.4g} and {far:.4g}: too similar to resolve units"
    if 2 * near - nearest < MIN_FIRST_MISS_SHARE * contrast.miss:
        return f"the first accesses of {count} pairs do not all miss"
    most = MAX_FALL_SHARE if count <= MAX_REPEATED_PAIRS else MAX_FALL_SHARE_OF_ONE_ORDER
    if max(one - min(means[i:]) for i, one in enumerate(means)) > most * (max(means) - min(means)):
        return "pairs of accesses that lie further apart take less time than nearer ones: their laps differ by chance"
    if means[-2] < (1 - MAX_PREFETCHED_RELATIVE_GAIN) * far:  # such a distance is longer than any line
        return BROUGHT_SOONER
    return ""


def _sector_beside_others(
    means: Sequence[float], contrast: HitMissModel, nearer: Sequence[float], spread: float
) -> UnitSize | None:
    """What a miss brings in of its own line, where second accesses miss and those further away do not, or not as often: a
    prefetcher brings the same sector of other lines. None: it is not so, or laps differ by as much."""
    nearest, cost = min(nearer, default=contrast.hit), contrast.miss - contrast.hit
    noise = max(MIN_RELATIVE_LAP_NOISE, contrast.noise / contrast.hit) * max(means)
    slack = max(2 * LAP_NOISE_SIGMAS * noise, 2 * spread) / cost
    if slack > MAX_END_SHARE or 2 * means[0] - nearest < MIN_FIRST_MISS_SHARE * contrast.miss:
        return None
    rises = [2 * (mean - means[0]) / cost for mean in means]
    served = [0.0, *((level - nearest) / cost for level in (*nearer, contrast.hit))]
    hits = [any(abs(rise - one) <= MAX_END_SHARE / 2 for one in served) for rise in rises]
    misses = [rise > 1 - MAX_END_SHARE + max(served) for rise in rises]
    first = hits.index(False) if False in hits else 0
    after = next((i for i in range(first, len(rises)) if not misses[i]), 0)
    last = next((i for i in range(after, len(rises)) if misses[i]), 0)
    if not 0 < first < after < last or not all(misses[last:]):
        return None
    brought = PAIR_DISTANCES_BYTES[last - 1]
    partly = "" if all(hits[after:last]) else f"second accesses {brought} B away hit behind some misses alone"
    return UnitSize(PAIR_DISTANCES_BYTES[first], partly, beside=brought)


def _first_distance_that_misses(
    means: Sequence[float], contrast: HitMissModel, nearer: Sequence[float] = (), spread: float = 0.0, doubted: int = 0
) -> UnitSize:
    """The least distance at which the second access of a pair misses. `spread`: between two orders of a distance. `doubted`: a
    distance at which the second accesses of fewer pairs neither hit nor missed (0: none). Where more pairs miss a further level
    too, a part of its misses costs more than a miss of this one: neither is settled, unless all or none of them reach it.

    The first access of a pair costs as much at any distance, so a mean rises by half of what the second does. The rise is
    compared with a miss of this level, since the first access may have missed others too. Beyond the unit of a nearer level,
    and within its own, this level serves the second access: a rise from that level's latency to its own.
    """
    cost = contrast.miss - contrast.hit
    noise = max(MIN_RELATIVE_LAP_NOISE, contrast.noise / contrast.hit) * max(means)
    if spread > MAX_SPREAD_SHARE * cost:
        return UnitSize(
            None, f"pairs in two orders differ by {spread:.2g}, which is too much beside what a miss costs: {cost:.2g}"
        )
    if 2 * LAP_NOISE_SIGMAS * noise > MAX_END_SHARE * cost:
        return UnitSize(None, f"the cost of a miss is within the noise of pairs: {noise:.2g} of {max(means):.4g}")
    rises = [2 * (m - means[0]) / cost for m in means]
    # less than a miss, but surely more than none: a level in between that the curve did not show, whose hits may cost little
    # beside a miss, but take longer than this level's by as much again
    least_rise = min(MIN_PARTIAL_RISE_SHARE, MIN_HIT_RISE * contrast.hit / cost)
    partial = min(MAX_END_SHARE, max(least_rise, LAP_NOISE_SIGMAS * 3 * noise / cost, 2 * spread / cost))
    served = [(level - min(nearer)) / cost for level in (*nearer, contrast.hit) if nearer]
    least_miss = 1 - MAX_END_SHARE + max(served, default=0.0)
    most_miss = 1 + MAX_END_SHARE + max(served, default=0.0)
    odd = [
        d
        for d, rise in zip(PAIR_DISTANCES_BYTES, rises, strict=False)
        if (partial < rise < least_miss and not any(abs(rise - one) <= partial for one in served))
        or (d == doubted and most_miss < rise < (1 - MAX_END_SHARE) * rises[-1])
    ]
    if odd:
        why = f"the second access of pairs {odd[0]} B apart neither hits nor misses: a prefetcher, or mixed levels"
        return UnitSize(None, why, odd[0])
    misses = [rise > least_miss for rise in rises]
    if misses != sorted(misses):
        return UnitSize(None, "the second access of a pair hits or misses for other reasons than its distance")
    distances = (*PAIR_DISTANCES_BYTES, OTHER_LINE_BYTES)
    return UnitSize(distances[misses.index(True)] if True in misses else None, "no distance was found at which both miss")
