"""Interleaved A/B measurement: when its rounds are evaluated, and the decision on a value. Pure.

Each round measures both sides, in an order chosen by a fair coin, and gives one log ratio. If the sides do not differ, swapping
them changes only the sign of that ratio, whatever the host does. Wilcoxon's signed-rank test of the ratios is therefore exact,
even if rounds drift or depend on each other. If B is faster or slower by a factor, the same holds for the ratios divided by
that factor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np

from clmembench.analysis import stats
from clmembench.model import Value

Verdict = Literal["faster", "slower", "same", "undecided"]

MAX_ERROR_PROBABILITY = 0.01  # probability that any verdict of a run is false, over all its values and looks
MAX_LOOKS = 8  # evaluations of a value; the last one is when the budget is spent
LOOK_GROWTH = math.sqrt(2)  # factor in rounds between looks: closer looks cost error probability, wider ones cost rounds
DETECTION_POWER = 0.8  # probability of detecting the reported smallest detectable change


@dataclass(frozen=True, slots=True)
class LookSchedule:
    """Numbers of rounds after which values are evaluated, and the maximum number of rounds; `tail` is the error probability of
    each look at each end of its interval."""

    rounds: tuple[int, ...]
    most: int
    tail: float


@dataclass(frozen=True, slots=True)
class ABDecision:
    """Decision on one value after the rounds so far: the gain of B over A (above 1: B is better), with an interval that holds
    simultaneously with those of all other looks and values. `smallest` is the smallest slowdown, as a fraction, that this
    number of rounds with this scatter detects with probability DETECTION_POWER; None if they can detect none."""

    verdict: Verdict
    gain: stats.Ratio | None
    rounds: int
    smallest: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One value on both sides: medians over the rounds, and the decision. `ratio` is B's value over A's: for a time, a larger
    ratio is slower; `reason` is why the verdict is missing or undecided."""

    benchmark: str
    params: Mapping[str, Value]
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    verdict: Literal[Verdict, "failed"]
    a: float | None
    b: float | None
    ratio: stats.Ratio | None
    gain: stats.Ratio | None
    rounds: int
    smallest_slowdown: float | None
    reason: str
    notes: Sequence[str]


def schedule_looks(values: int) -> LookSchedule:
    """The look schedule of a run with that many values. Each look at each value has an equal share of MAX_ERROR_PROBABILITY,
    half at each end (union bound; Slud & Wei 1982 with equal shares). The first look comes as soon as a rank interval at that
    share exists."""
    tail = MAX_ERROR_PROBABILITY / 2 / MAX_LOOKS / max(1, values)
    first = math.ceil(-math.log2(tail))
    return LookSchedule(
        tuple(math.ceil(first * LOOK_GROWTH**n) for n in range(MAX_LOOKS - 1)),
        math.ceil(first * LOOK_GROWTH ** (MAX_LOOKS - 1)),
        tail,
    )


def decide(logs: Sequence[float], margin: float, tail: float) -> ABDecision:
    """The decision after these rounds, given as logarithms of the gain of B over A. A change within the fraction `margin`
    counts as none; `tail` is the error probability at each end of the interval."""
    gain = interval(logs, tail)
    if gain is None:
        return ABDecision(
            "undecided", None, len(logs), reason=f"{len(logs)} rounds of {math.ceil(-math.log2(tail))} that it needs"
        )
    direction = gain.verdict(margin)
    verdict: Verdict = {"more": "faster", "less": "slower"}.get(direction, direction)  # type: ignore[assignment]
    reach = (math.log(gain.high) - math.log(gain.low)) / 2
    normal = NormalDist()
    smallest = math.expm1(math.log1p(margin) + reach * (1 + normal.inv_cdf(DETECTION_POWER) / normal.inv_cdf(1 - tail)))
    return ABDecision(verdict, gain, len(logs), smallest)


def interval(logs: Sequence[float], tail: float) -> stats.Ratio | None:
    """Hodges-Lehmann estimate of exp(centre) of these logarithms, with the interval of all centres that the exact signed-rank
    test does not reject at `tail` on either side; None for too few rounds. A disturbed round counts as one round, however far
    off its value is. Looks whose tails add up give repeated confidence intervals (Jennison & Turnbull 1989): they hold
    simultaneously, whatever ended the run. Raises ValueError for a value that is not finite."""
    known = np.asarray(logs, dtype=np.float64)
    if not np.isfinite(known).all():
        raise ValueError("the logarithm of a ratio is not finite")
    left = _left_out(len(known), tail)
    if left == 0:
        return None
    first, second = np.triu_indices(len(known))
    means = np.sort((known[first] + known[second]) / 2)
    ends = (float(np.median(means)), float(means[left - 1]), float(means[-left]))
    return stats.Ratio(*(math.exp(min(stats.MAX_LOG_RATIO, max(-stats.MAX_LOG_RATIO, end))) for end in ends))


@lru_cache(maxsize=1024)
def _left_out(rounds: int, tail: float) -> int:
    """Rank, from either end, of the pairwise mean that ends the interval; 0 for too few rounds."""
    sums = np.zeros(rounds * (rounds + 1) // 2 + 1)  # probabilities of the sum of the ranks with a positive sign
    sums[0] = 1.0
    for rank in range(1, rounds + 1):
        moved = np.zeros_like(sums)
        moved[rank:] = sums[:-rank]
        sums = (sums + moved) / 2
    return int(np.searchsorted(np.cumsum(sums), tail, side="right")) if rounds else 0
