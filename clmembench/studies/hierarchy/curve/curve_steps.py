"""Steps of a latency curve: where a growing working set leaves one level for the next, and what each level costs. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from clmembench.analysis.stats import noise_of_deviations
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, MIN_RELATIVE_LAP_NOISE

# Thresholds of a step. Why this is not the detector of `analysis.plateaus`: see `analysis.distributions`.
MAX_VALLEY_SLOPE_RATIO = 0.3  # of the lower of two rises: a slope below that between them parts two levels
MAX_VALLEY_SPREAD = 0.05  # between page frames, relative: where latency depends more on them, a valley is chance
MAX_PLATEAU_RELATIVE_FALL = 0.02  # from the first half of a plateau to the second
MAX_PLATEAU_SCATTER = 0.03  # of the points of a plateau, relative
MIN_WANDERING_POINTS, MIN_WANDERING_RATIO = 3, 1.4  # of a plateau that wanders, and from its first point to its last
MAX_WANDER = 0.08  # relative
MIN_VALLEY_SLOPES = 2  # slopes in a row that make a valley: a single one may be chance
USUAL_POINT_OCTAVES, MIN_POINT_OCTAVES = 0.25, 0.01  # between points; sizes are whole numbers of nodes
MIN_SLOPE_SIGMAS = 4  # of the curve's noise: what rises less between two points counts as flat
LARGE_SET_BYTES = 24 << 20  # laps from there on are slow, so that few are measured, and depend on where lines lie
MIN_LARGE_SLOPE_SIGMAS, MAX_LARGE_SLOPE = 2.5, 0.03  # of the noise of such laps; a rise between two that is none of it
MIN_SLOPE = 0.004  # relative: the least rise between two points that counts, however quiet the curve is
MAX_HALT_OCTAVES, LONGER_PLATEAU_RATIO = 0.5, 3  # of a halt within a rise, and how many times as long the plateau behind is
MIN_RELATIVE_STEP = 0.2  # two neighbouring levels differ by more
MIN_LARGE_PLATEAU_POINTS = 4  # of large sets, which are a plateau, as of a far partition, where so many are alike
MIN_RELATIVE_STEP_OF_LARGE = 0.15  # behind such a plateau
MAX_HIDDEN_MISS_SHARE, HIDDEN_MISS_SIGMAS = 0.5, 2.0  # of a plateau's last set: misses that the scatter of its points hides
MIN_LEVEL_RATIO = 1.5  # times where the level before is surely left: sets with half as many lines again as ways miss all
MAX_HALT_OVERFLOW_RATIO = 3  # of the overflow at which a halt ends to that at which it begins: 2 where NRU makes it
MIN_STEP_SIGMAS = 6  # of the noise around a step, by which its two levels differ
MIN_RELATIVE_STEP_WITHOUT_PLATEAU = 0.6  # a level without a flat plateau must differ from the next by more
SHORT_PLATEAU_POINTS = 6  # in a shorter one between two such small steps a few pages may happen to lie well
MAX_PLATEAU_RELATIVE_DRIFT = 0.025  # two parts of one plateau differ by no more
APPROACH_RISE_RATIOS = (0.5, 0.75)  # at most, of rises over two points to those before them: the curve approaches a plateau
MAX_APPROACH_RELATIVE_RISE = 0.1  # over the two points before the last two: what rises more is a ramp
APPROACH_SHARES = (0.6, 0.8)  # of the last working set on a plateau: where two stretches begin that tell what it approaches
MIN_APPROACH_RISE = 0.004  # relative, of the last stretch: what rises less is flat
MAX_APPROACH_LEFT = 0.05  # relative: more is not extrapolated
LEFT_RELATIVE_EXCESS = 0.02  # over a hit: a working set this much slower has surely left the level
GONE_MISS_SHARE = 0.75  # of accesses that miss, lap after lap: no level that could hold the set lets that happen


@dataclass(frozen=True, slots=True)
class CurveStep:
    """One level of a curve. `hit` and `hit_ns` are its latency while the working set fits, `miss` the latency once it does not.

    `fits_bytes` is the last size on the level, `over_bytes` the first that has surely left it, `gone_bytes` the first at which
    three quarters of the accesses miss, which is more than the level holds. `flat`: the latency is the same at the plateau's
    middle and end, so it is surely the level's own. `noise`: relative standard deviation of a lap on the level. `scatter`: the
    same of working sets on its plateau, whose lines lie elsewhere each; 0 where the plateau has too few points.
    """

    hit: float
    hit_ns: float
    miss: float
    fits_bytes: int
    over_bytes: int
    gone_bytes: int
    flat: bool = True
    noise: float = 0.0
    scatter: float = 0.0

    @property
    def surely_fits_bytes(self) -> int:
        """What the level holds at least: of the last working set on its plateau as many accesses may miss as the scatter of the
        plateau hides, and a policy that protects some lines lets no more of a larger set miss than do not fit."""
        hidden = HIDDEN_MISS_SIGMAS * self.scatter / (self.miss / self.hit - 1)
        return int(self.fits_bytes * (1 - min(MAX_HIDDEN_MISS_SHARE, hidden)))


def find_steps(
    sizes: Sequence[int],
    values: Sequence[float],
    ns: Sequence[float],
    noise: float,
    spreads: Sequence[float] = (),
    large_noise: float = 0.0,
    may_wander: bool = False,
    noises: Sequence[float] = (),
) -> tuple[CurveStep, ...]:
    """The levels that a curve rises through; `values` and `ns` are latencies at `sizes` bytes, `noise` is relative, of one lap,
    and `noises` that of laps around each size (none: the same everywhere). `spreads`: by how much, relative, latency depends on
    which page frames a working set has; 0 on a plateau.
    `large_noise`: that of laps over sets of at least 24 MiB. `may_wander`: others use the caches too, so that latencies
    wander on plateaus where page frames matter.

    A curve rises from one level to the next in one hump of its slope, steeply or softly; where the slope falls to a fraction of
    two humps between them, there is a level.
    """
    rising = pooled_rising(values)
    noises = noises or [noise] * len(sizes)
    of_large = min(MIN_LARGE_SLOPE_SIGMAS * large_noise, MAX_LARGE_SLOPE)
    dims = [
        max(MIN_SLOPE_SIGMAS * own, MIN_SLOPE, of_large if size >= LARGE_SET_BYTES else 0.0)
        for size, own in zip(sizes, noises, strict=True)
    ]
    spreads = spreads or [0.0] * len(sizes)
    humps = _rise_ranges(_slopes(sizes, rising, dims), [min(pair) > MAX_VALLEY_SPREAD for pair in pairwise(spreads)])
    found: list[CurveStep] = []
    before, start = 0, None
    for number, (first, stop) in enumerate(humps):
        start = first if start is None else start
        after = humps[number + 1][0] if number + 1 < len(humps) else len(rising) - 1
        hit, miss = _plateau_latency(rising, before, start), _plateau_latency(rising, stop, after)
        is_long = False
        if sizes[before] >= LARGE_SET_BYTES:
            start = _flat_until(values, before, start, max(MAX_PLATEAU_RELATIVE_DRIFT, dims[before]))
            is_long = start - before + 1 >= MIN_LARGE_PLATEAU_POINTS
            hit = statistics.median(values[before : start + 1]) if is_long else hit
        least = MIN_RELATIVE_STEP_OF_LARGE if is_long else MIN_RELATIVE_STEP
        around = min(relative_noise(values[before : start + 1]), relative_noise(values[stop : after + 1]))
        if miss / hit - 1 < max(least, MIN_STEP_SIGMAS * (around if math.isfinite(around) else noise)):
            halt, behind = math.log2(sizes[start] / sizes[before]), math.log2(sizes[after] / sizes[stop])
            if found and miss > hit and halt < min(MAX_HALT_OCTAVES, behind / LONGER_PLATEAU_RATIO):
                # a halt in the last rise, as where few page frames fall unevenly, before the plateau that follows
                last = _gone(rising, 0, found[-1].hit, miss)
                found[-1] = replace(found[-1], miss=miss, gone_bytes=sizes[last])
                before, start = stop, None
            continue  # else a part of the next hump's rise, or noise
        if found and _is_halt_of_policy(sizes, values, rising, (before, start), found[-1]):
            # a policy that misses as many accesses of one line too many as of two, as NRU of four ways does
            found[-1] = replace(found[-1], miss=miss, gone_bytes=sizes[_gone(rising, 0, found[-1].hit, miss)])
            before, start = stop, None
            continue
        scatter = relative_noise(values[before : start + 1])
        flat = is_long or _is_flat(values, rising, before, start)
        flat = flat and statistics.median(spreads[before : start + 1]) == 0
        flat = flat and not _falls(values[before : start + 1], noises[start])
        if math.isfinite(scatter) and scatter > max(MAX_PLATEAU_SCATTER, MIN_SLOPE_SIGMAS * noises[start]):
            flat = False  # laps in other orders take other times: some of their lines are prefetched
        wander = None if flat or not found or not may_wander else _wander(sizes, rising, spreads, before, start)
        flat = flat or wander is not None
        rises = miss / hit - 1, hit / found[-1].hit - 1 if found else math.inf
        if rises[0] < MIN_RELATIVE_STEP_WITHOUT_PLATEAU and not flat:
            continue
        if max(rises) < MIN_RELATIVE_STEP_WITHOUT_PLATEAU and start - before < SHORT_PLATEAU_POINTS:
            found[-1] = replace(found[-1], miss=miss, gone_bytes=sizes[_gone(rising, before, found[-1].hit, miss)])
            before, start = stop, None
            continue
        own = max(MIN_RELATIVE_LAP_NOISE, min(noise, relative_noise(values[before : start + 1])), (wander or 0.0) / 2)
        if may_wander and any(spreads[before : start + 1]) and math.isfinite(scatter):
            own = max(own, scatter)
        if may_wander and start - before > MIN_WANDERING_POINTS:  # a core whose clock changes slows some laps, others not
            own = max(own, _usual_deviation(values[before : start + 1]))
        approached = _approached_latency(sizes, rising, spreads, found[-1].gone_bytes, start) if found else None
        if approached is not None:
            own = max(own, (approached / rising[start] - 1) / LAP_NOISE_SIGMAS)  # laps take that much less than hits
            hit, flat, found[-1] = approached, True, replace(found[-1], miss=approached)
        middle = start // 2 if before == 0 else start - (start - before) // 3 // 2
        over = next(i for i in range(start + 1, len(rising)) if rising[i] > hit * (1 + max(dims[start], LEFT_RELATIVE_EXCESS)))
        gone = _gone(rising, over, hit, miss)
        found.append(
            CurveStep(
                hit, hit * ns[middle] / values[middle], miss, sizes[start], sizes[over], sizes[gone], flat, own,
                scatter if math.isfinite(scatter) else 0.0,
            )
        )  # fmt: skip
        before, start = stop, None
    return tuple(found if start is None else _with_last_miss(found, sizes, rising, humps[-1][1]))


def _is_halt_of_policy(
    sizes: Sequence[int], values: Sequence[float], rising: Sequence[float], plateau: tuple[int, int], last: CurveStep
) -> bool:
    """True if a plateau, from one point to another, may belong to the overflow of the level before: it ends soon, and lasts no
    longer than a policy halts that misses as many accesses of two lines too many in each set as of one."""
    first, end = plateau
    if sizes[end] >= min(MIN_LEVEL_RATIO * last.over_bytes, LARGE_SET_BYTES):
        return False
    begun, ended = sizes[first] - last.fits_bytes, sizes[end] - last.fits_bytes
    return ended <= MAX_HALT_OVERFLOW_RATIO * begun or not _is_flat(values, rising, first, end)


def _with_last_miss(
    found: Sequence[CurveStep], sizes: Sequence[int], rising: Sequence[float], last: int
) -> Sequence[CurveStep]:
    """The steps with the end of the curve as what the last one misses, where the rises after it, up to point `last`, left no
    further level."""
    miss = _plateau_latency(rising, last, len(rising) - 1)
    if not found or miss / found[-1].miss - 1 < MIN_RELATIVE_STEP:
        return found
    return [*found[:-1], replace(found[-1], miss=miss, gone_bytes=sizes[_gone(rising, 0, found[-1].hit, miss)])]


def _wander(sizes: Sequence[int], rising: Sequence[float], spreads: Sequence[float], before: int, start: int) -> float | None:
    """How far, relative, a plateau wanders that page frames, or others that use the cache, keep from being flat: its points
    differ little over more than half an octave; None where they are few, differ more, or frames do not matter."""
    part, spread = rising[before : start + 1], statistics.median(spreads[before : start + 1])
    if len(part) < MIN_WANDERING_POINTS or not 0 < spread <= MAX_WANDER or sizes[start] < MIN_WANDERING_RATIO * sizes[before]:
        return None
    middle, half = statistics.median(part), len(part) // 2
    drift = statistics.median(part[half:]) / statistics.median(part[:half]) - 1
    wander = max(drift, spread, statistics.stdev(part) / middle)
    return wander if wander <= MAX_WANDER else None


def _usual_deviation(values: Sequence[float]) -> float:
    """The standard deviation of most values, relative to their median."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values) / middle


def _falls(values: Sequence[float], noise: float) -> bool:
    """True if a stretch of a curve falls, as where a replacement policy happens to suit a working set: no plateau does."""
    half = len(values) // 2
    least = 1 - max(MAX_PLATEAU_RELATIVE_FALL, LAP_NOISE_SIGMAS * noise)
    return half > 1 and statistics.median(values[-half:]) < least * statistics.median(values[:half])


def _flat_until(values: Sequence[float], first: int, last: int, drift: float) -> int:
    """The last point of a plateau from point `first` on, where noise hides slow rises: no point until there is slower by more
    than `drift`, relative, than the first half is, though some of the larger sets may happen to lie better."""
    hit = statistics.median(values[first : first + (last - first) // 2 + 1])
    slower = next((i for i in range(first, last + 1) if values[i] / hit - 1 > drift), last + 1)
    return slower - 1 if slower - first > MIN_VALLEY_SLOPES else last


def _slopes(sizes: Sequence[int], rising: Sequence[float], dims: Sequence[float]) -> list[float]:
    """The slopes between points, as of points a quarter of an octave apart; 0 where a curve rises by no more than `dims`."""
    rises = [math.log(b / a) for a, b in pairwise(rising)]
    widths = [max(MIN_POINT_OCTAVES, math.log2(b / a)) for a, b in pairwise(sizes)]
    return [
        rise * USUAL_POINT_OCTAVES / width if rise > dim else 0.0 for rise, width, dim in zip(rises, widths, dims, strict=False)
    ]


def _gone(rising: Sequence[float], first: int, hit: float, miss: float) -> int:
    """The first point, from `first` on, at which three quarters of the accesses miss."""
    return next(i for i in range(first, len(rising)) if rising[i] >= hit + GONE_MISS_SHARE * (miss - hit))


def pooled_rising(values: Sequence[float]) -> list[float]:
    """The nearest curve that never falls, by the sum of absolute differences: neighbours that fall are pooled at their median,
    since a larger working set is no faster. So neither a disturbed point counts nor one that is faster by chance, as where a
    working set just suits a replacement policy."""
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and statistics.median(pools[-2]) > statistics.median(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    return [statistics.median(pool) for pool in pools for _ in pool]


def relative_noise(values: Sequence[float]) -> float:
    """The relative noise of a curve that is flat at first: how far its points lie from the midpoint of their neighbours;
    infinite for fewer than three points."""
    triples = zip(values, values[1:], values[2:], strict=False)
    return noise_of_deviations((abs(b - (a + c) / 2) / b for a, b, c in triples), math.inf)


def same_latency(values: Sequence[float], others: Sequence[float], slack: float = MAX_PLATEAU_RELATIVE_DRIFT) -> bool:
    """True if the medians of two stretches of a curve differ by no more than `slack`, relative to the larger."""
    a, b = sorted(values)[len(values) // 2], sorted(others)[len(others) // 2]
    return abs(a - b) <= slack * max(a, b)


def _is_flat(values: Sequence[float], rising: Sequence[float], before: int, start: int) -> bool:
    """True if the last third of a plateau, which ends at point `start`, is as fast as the third before it. Two or three even
    points may belong to a ramp, where pages happen to lie well."""
    if before == 0:
        return True
    third = (start - before) // 3
    drift = MAX_PLATEAU_RELATIVE_DRIFT
    if start - before > MIN_VALLEY_SLOPES:
        drift = max(drift, 2 * relative_noise(values[before : start + 1]))
    end, earlier = rising[start - third : start + 1], rising[start - 2 * third : start - third + 1]
    return (third > 0 and same_latency(end, earlier, drift)) or _approaches_plateau(rising, start)


def _approaches_plateau(rising: Sequence[float], last: int) -> bool:
    """True if a curve rises ever less up to its point `last`, over one and a half octaves, and at last by no more than a
    plateau may drift: so it does behind a level that gives up lines at random, and what is to come is no more than that."""
    if last < 6:
        return False
    early, middle, late = (math.log(rising[last - i] / rising[last - i - 2]) for i in (4, 2, 0))
    most_late, most_middle = (ratio * rise for ratio, rise in zip(APPROACH_RISE_RATIOS, (middle, early), strict=True))
    return late <= min(MAX_PLATEAU_RELATIVE_DRIFT, most_late) and middle <= min(MAX_APPROACH_RELATIVE_RISE, most_middle)


def _plateau_latency(values: Sequence[float], first: int, last: int) -> float:
    """The latency of a level between two humps: of its last third, since random replacement approaches it slowly."""
    part = sorted(values[first + (last - first) * 2 // 3 : last + 1])
    return part[len(part) // 2]


def _approached_latency(
    sizes: Sequence[int], rising: Sequence[float], spreads: Sequence[float], gone_bytes: int, last: int
) -> float | None:
    """The latency that a plateau, which ends at point `last`, approaches; None where it is flat, or what is left to rise is not
    little. Where victims are drawn at random the level before, of which three quarters miss at `gone_bytes`, serves ever fewer
    accesses: what is left falls exponentially with the working set, since a line is as likely to survive each further miss.
    Two stretches of the plateau's end tell it. What frames decide ends sooner, so that the middle between both is returned."""
    first, middle = (min(range(last), key=lambda i: abs(sizes[i] - share * sizes[last])) for share in APPROACH_SHARES)
    widths = sizes[middle] - sizes[first], sizes[last] - sizes[middle]
    if min(widths) <= 0 or sizes[first] < gone_bytes or any(spreads[first : last + 1]):
        return None
    early, late = ((rising[b] - rising[a]) / width for a, b, width in zip((first, middle), (middle, last), widths, strict=True))
    if late * widths[1] <= MIN_APPROACH_RISE * rising[last] or early <= late:
        return None
    rate = math.log(early / late) / (sum(widths) / 2)
    left = late * math.exp(-rate * widths[1] / 2) / rate
    return rising[last] + left / 2 if left <= MAX_APPROACH_LEFT * rising[last] else None


def _rise_ranges(rises: Sequence[float], shaky: Sequence[bool]) -> list[tuple[int, int]]:
    """(first, last) points of each rise: runs of slopes, which fewer than MIN_VALLEY_SLOPES flat ones in a row do not end,
    parted at their valleys. A slope where page frames matter (`shaky`) is a part of a rise, however flat it is."""
    runs: list[list[int]] = []
    for i, rise in enumerate(rises):
        if rise <= 0 and not shaky[i]:
            continue
        if runs and i - runs[-1][1] < MIN_VALLEY_SLOPES:
            runs[-1][1] = i + 1
        else:
            runs.append([i, i + 1])
    return [part for start, stop in runs for part in _split_at_valleys(rises, shaky, start, stop)]


def _split_at_valleys(rises: Sequence[float], shaky: Sequence[bool], start: int, stop: int) -> list[tuple[int, int]]:
    """A run of slopes, parted at its deepest valley, and each part again."""
    best: tuple[float, int] | None = None
    for i in range(start + 1, stop - MIN_VALLEY_SLOPES):
        if any(shaky[i : i + MIN_VALLEY_SLOPES]):
            continue
        lower = min(max(rises[start:i]), max(rises[i + MIN_VALLEY_SLOPES : stop]))
        depth = max(rises[i : i + MIN_VALLEY_SLOPES]) / lower if lower > 0 else 1.0
        if depth < MAX_VALLEY_SLOPE_RATIO and (best is None or depth < best[0]):
            best = (depth, i)
    if best is None:
        return [(start, stop)]
    first, second = (start, best[1]), (best[1] + MIN_VALLEY_SLOPES, stop)
    return [part for ends in (first, second) for part in _split_at_valleys(rises, shaky, *ends)]
