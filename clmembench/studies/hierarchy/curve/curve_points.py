"""The points of a latency curve: disturbed ones measured again, averages over page frames, more of short plateaus. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from clmembench.analysis.stats import undisturbed_values
from clmembench.model import Answer, Experiment
from clmembench.studies.hierarchy.curve.curve_steps import (
    LARGE_SET_BYTES,
    MAX_PLATEAU_RELATIVE_DRIFT,
    MIN_RELATIVE_STEP,
    SHORT_PLATEAU_POINTS,
    pooled_rising,
    relative_noise,
)
from clmembench.studies.hierarchy.probes.page_frames import averaged_over_frames
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession

# Thresholds and limits, each with its reason
REMEASURE_RELATIVE_EXCESS = 0.02  # a point this much slower than a larger working set is measured again
LARGE_SET_REMEASURE_RELATIVE_EXCESS = 0.1  # the same for large sets
MAX_REMEASUREMENTS = 3  # of one point, each in another order
POINTS_BETWEEN = 3  # more working sets between two of a short plateau: enough to tell a plateau from a chance
POINTS_OF_LAP_NOISE = 12  # that tell the noise of a lap: three octaves
MAX_TAIL_RELATIVE_RISE = 0.06  # of the octaves that end a curve, which still count as flat


def remeasure_disturbed(
    asked: ProbeSession, chase: ChaseLayout, stride: int, sizes: Sequence[int], best: dict[int, Answer]
) -> Experiment[None]:
    """Measure again, in another order, each point that is slower than a larger working set, which only a disturbance explains;
    the fastest answer counts."""
    for seed in range(1, 1 + MAX_REMEASUREMENTS):
        values = [latency_or_infinity(best[s]) for s in sizes]
        least = undisturbed_values(values)
        large = LARGE_SET_REMEASURE_RELATIVE_EXCESS if seed == 1 else math.inf
        slack = [REMEASURE_RELATIVE_EXCESS if size < LARGE_SET_BYTES else large for size in sizes]
        bent = [s for s, v, low, more in zip(sizes, values, least, slack, strict=True) if v > low * (1 + more)]
        if not bent:
            return
        answers = yield from asked.all([chase.lap(s // stride, stride, seed) for s in bent])
        for size, answer in zip(bent, answers, strict=True):
            if answer.value is not None and answer.value < latency_or_infinity(best[size]):
                best[size] = answer


def remeasure_last(
    asked: ProbeSession, chase: ChaseLayout, stride: int, sizes: Sequence[int], best: dict[int, Answer]
) -> Experiment[None]:
    """Measure the last point again where it is slower than the one before: no larger set shows that it was disturbed."""
    size = sizes[-1]
    if _rise(best, sizes[-2], size) > REMEASURE_RELATIVE_EXCESS:
        again = yield from asked.all([chase.lap(size // stride, stride, seed) for seed in range(1, MAX_REMEASUREMENTS)])
        best[size] = min((best[size], *again), key=latency_or_infinity)


def average_over_frames(
    asked: ProbeSession, chase: ChaseLayout, stride: int, sizes: list[int], best: dict[int, Answer]
) -> Experiment[Mapping[int, float]]:
    """Average the curve's rises over places of the buffer, and measure more of short plateaus between them. Returns by how much
    places differ, relative, by size in bytes."""
    noise = curve_noise(sizes, best)
    soft = _rising_sizes(sizes, best)
    found = yield from averaged_over_frames(asked, chase, stride, {s: best[s] for s in soft}, noise)
    best.update(found.answers)
    more = _between_short_plateaus([s for s in soft if s not in found.spreads], sizes, best, stride)
    answers = yield from asked.all([chase.lap(size // stride, stride) for size in more])
    first = {size: answer for size, answer in zip(more, answers, strict=True) if answer.value is not None}
    if not first:
        return found.spreads
    if not found.compared:
        best.update(first)
        sizes[:] = sorted(best)
        yield from remeasure_disturbed(asked, chase, stride, sizes, best)
        return found.spreads
    finer = yield from averaged_over_frames(asked, chase, stride, first, noise, is_soft=True)
    best.update(finer.answers)
    sizes[:] = sorted(best)
    return {**found.spreads, **finer.spreads}


def _between_short_plateaus(steady: Sequence[int], sizes: Sequence[int], best: Mapping[int, Answer], stride: int) -> list[int]:
    """Working sets between those of plateaus of few points, but for plateaus that go on a little higher."""
    alike = {
        size: after
        for size, after in pairwise(sizes)
        if size in steady and after in steady and _rise(best, size, after) <= MAX_PLATEAU_RELATIVE_DRIFT
    }
    more: list[int] = []
    for first in (size for size in alike if size not in alike.values()):
        run = [first]
        while run[-1] in alike:
            run.append(alike[run[-1]])
        after = next((size for size in sizes if size > run[-1]), run[-1])
        if len(run) < SHORT_PLATEAU_POINTS and (after not in steady or _rise(best, run[-1], after) >= MIN_RELATIVE_STEP / 2):
            for size, following in pairwise(run):
                step = (following - size) / (1 + POINTS_BETWEEN)
                more += [int(size + i * step) // stride * stride for i in range(1, 1 + POINTS_BETWEEN)]
    return [size for size in dict.fromkeys(more) if size not in best]


def _rise(best: Mapping[int, Answer], size: int, after: int) -> float:
    """By how much latency differs between two working sets, relative."""
    return abs(latency_or_infinity(best[after]) / latency_or_infinity(best[size]) - 1)


def _rising_sizes(sizes: Sequence[int], best: Mapping[int, Answer]) -> list[int]:
    """Working sets beyond the first level, up to where nearly all accesses are of memory, as far as their laps take little."""
    smooth = pooled_rising([latency_or_infinity(best[s]) for s in sizes])
    first, last = smooth[0] * (1 + MIN_RELATIVE_STEP), smooth[-1] / (1 + MAX_TAIL_RELATIVE_RISE / 2)
    return [s for s, v in zip(sizes, smooth, strict=True) if first < v < last and s < LARGE_SET_BYTES]


def curve_noise(sizes: Sequence[int], best: Mapping[int, Answer]) -> float:
    """The relative noise of one lap."""
    values = [latency_or_infinity(best[s]) for s in sizes]
    return min(sorted(_lap_noise(best[s]) for s in sizes)[len(sizes) // 2], relative_noise(values))


def noises_around(sizes: Sequence[int], best: Mapping[int, Answer]) -> list[float]:
    """The relative noise of a lap at each size: of the laps over it and the next smaller sets, and no more than the curve's.
    Where others load memory laps of large sets scatter, which says nothing of those that a cache holds."""
    count = min(POINTS_OF_LAP_NOISE, len(sizes))
    ends = (max(count, number) for number in range(1, 1 + len(sizes)))
    whole = curve_noise(sizes, best)
    return [min(whole, curve_noise(sizes[end - count : end], best)) for end in ends]


def latency_or_infinity(answer: Answer) -> float:
    """The latency of an answer; infinite where there is none."""
    return answer.value if answer.value is not None else math.inf


def _lap_noise(answer: Answer) -> float:
    if not answer.value or answer.low is None or answer.high is None:
        return 0.0
    return (answer.high - answer.low) / 2 / 1.96 / answer.value
