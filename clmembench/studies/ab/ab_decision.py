"""Interleaved A/B measurement: when its rounds are looked at, and what they decide of a value. Pure.

A round measures both sides, in an order drawn anew by a fair coin, and gives one log ratio. Where nothing differs, swapping the
sides of a round changes nothing but the ratio's sign, whatever the host does: so Wilcoxon's signed-rank test of the ratios is
exact, whether rounds are alike, drift, or depend on each other. Where B is faster or slower by some factor, that holds of the
ratios with the factor taken out.
"""

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
from clmembench.model.direction import more_is_better

Verdict = Literal["faster", "slower", "same", "undecided"]

MAX_ERROR_PROBABILITY = 0.01  # probability that any verdict of a run is false, over all its values and looks
MAX_LOOKS = 8  # at most, the last of them when the budget is spent
LOOK_GROWTH = math.sqrt(2)  # of the number of rounds from look to look: closer looks cost error, wider ones rounds
DETECTION_POWER = 0.8  # of the smallest change that is said to be found


@dataclass(frozen=True, slots=True)
class LookSchedule:
    """Numbers of rounds after which a value is looked at, and the most that are measured; `tail` is the probability of error
    that each look has at each end of its interval."""

    rounds: tuple[int, ...]
    most: int
    tail: float


@dataclass(frozen=True, slots=True)
class ABDecision:
    """Decision on one value by the rounds so far: how many times as good B is (more is better), with an interval that holds
    together with those of all other looks and values. `smallest` is the slowdown, as a fraction, that so many rounds of such a
    scatter call `slower` with probability POWER; None where they can call nothing."""

    verdict: Verdict
    gain: stats.Ratio | None
    rounds: int
    smallest: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One value on both sides: medians over the rounds, and what was decided; `failed` says why there is no verdict."""

    benchmark: str
    params: Mapping[str, Value]
    metric: str
    unit: str
    better: str
    a: float | None
    b: float | None
    decision: ABDecision
    failed: str = ""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        return "failed" if self.failed else self.decision.verdict

    @property
    def ratio(self) -> stats.Ratio | None:
        """B's value over A's, as they are: of a time a larger one is slower."""
        gain = self.decision.gain
        if gain is None or more_is_better(self.better):
            return gain
        return stats.Ratio(1 / gain.value, 1 / gain.high, 1 / gain.low)


def schedule_looks(values: int) -> LookSchedule:
    """When a run with that many values is looked at: each look at each value has an equal share of ERROR, half at each end (a
    union bound: Slud & Wei 1982 with equal shares). The first look is as early as a rank interval of that share exists."""
    tail = MAX_ERROR_PROBABILITY / 2 / MAX_LOOKS / max(1, values)
    first = math.ceil(-math.log2(tail))
    return LookSchedule(
        tuple(math.ceil(first * LOOK_GROWTH**n) for n in range(MAX_LOOKS - 1)),
        math.ceil(first * LOOK_GROWTH ** (MAX_LOOKS - 1)),
        tail,
    )


def decide(logs: Sequence[float], margin: float, tail: float) -> ABDecision:
    """The decision after these rounds, each the logarithm of how many times as good B is. `margin` is the fraction within which
    a change counts as none, `tail` the probability of error at each end of the interval."""
    gain = interval(logs, tail)
    if gain is None:
        return ABDecision(
            "undecided", None, len(logs), reason=f"{len(logs)} rounds of {math.ceil(-math.log2(tail))} that it needs"
        )
    said = gain.verdict(margin)
    verdict: Verdict = {"more": "faster", "less": "slower"}.get(said, said)  # type: ignore[assignment]
    reach = (math.log(gain.high) - math.log(gain.low)) / 2
    normal = NormalDist()
    smallest = math.expm1(math.log1p(margin) + reach * (1 + normal.inv_cdf(DETECTION_POWER) / normal.inv_cdf(1 - tail)))
    return ABDecision(verdict, gain, len(logs), smallest)


def interval(logs: Sequence[float], tail: float) -> stats.Ratio | None:
    """Hodges and Lehmann's estimate of exp(the centre) of these logarithms, with the interval of all centres that the exact
    signed-rank test does not refuse at `tail` on either side; None where they are too few for any. A round that was disturbed
    counts as one round, however far off it lies. Looks whose tails add up give repeated confidence intervals (Jennison &
    Turnbull 1989): they hold together, whatever ended the run. Raises ValueError for what is no finite number."""
    known = np.asarray(logs, dtype=np.float64)
    if not np.isfinite(known).all():
        raise ValueError("a logarithm of a ratio is no finite number")
    left = _left_out(len(known), tail)
    if left == 0:
        return None
    first, second = np.triu_indices(len(known))
    means = np.sort((known[first] + known[second]) / 2)
    ends = (float(np.median(means)), float(means[left - 1]), float(means[-left]))
    return stats.Ratio(*(math.exp(min(stats.MAX_LOG_RATIO, max(-stats.MAX_LOG_RATIO, end))) for end in ends))


@lru_cache(maxsize=1024)
def _left_out(rounds: int, tail: float) -> int:
    """The rank, counted from either end, of the mean of two rounds that ends the interval; 0 where the rounds are too few."""
    sums = np.zeros(rounds * (rounds + 1) // 2 + 1)  # probabilities of the sum of the ranks with a positive sign
    sums[0] = 1.0
    for rank in range(1, rounds + 1):
        moved = np.zeros_like(sums)
        moved[rank:] = sums[:-rank]
        sums = (sums + moved) / 2
    return int(np.searchsorted(np.cumsum(sums), tail, side="right")) if rounds else 0
