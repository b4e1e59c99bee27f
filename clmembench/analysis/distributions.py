"""Quantiles and tails of distributions, discoveries among many tests, and the noise of a curve. Pure functions.

Two detectors exist because two kinds of curves exist, and each detector fails on the other kind:

- `plateaus.find_plateaus` reads stored points that nobody can measure again. Disturbed points are in them for good, so it
  looks for the long flat stretches and lets a few slow points lie among them.
- `hierarchy.curve_steps.find_steps` reads a curve whose disturbed points the experiment has measured again. It looks for the
  rises, since under random replacement or with pages in random frames a level ends in a soft rise, on which short flat
  stretches mean nothing.

Levels of simulated curves (three machines, 4 points an octave, noise of 0.5%, 440 levels of 120 curves; right: latency within
5% and capacity bracketed):

| curves | detector | right | capacity wrong | latency of no level |
|---|---|--:|--:|--:|
| a point in eight 5 to 40% slower | plateaus | 440 | 0 | 0 |
| | steps | 330 | 72 | 9 |
| random replacement, undisturbed | plateaus | 284 | 66 | 19 |
| | steps | 312 | 1 | 37 |

On curves of 36 simulated hierarchies (`tests/hierarchies.py`, 110 levels) they are equal within chance: plateaus 91 right and
11 capacities wrong, steps 88 and 10. A step also states where a level is left and where most of its accesses miss, and bounds a
level without a plateau; the experiment needs both.

`tests/analysis/test_curve_noise.py` keeps both halves of that comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

# Thresholds and limits, each with its reason
MEDIAN_OF_ABSOLUTE_NORMAL = 0.6745  # standard deviations: the median of |x| of a normal distribution
MIDPOINT_VARIANCE_FACTOR = 1.5  # a point less the mean of two others has that many times the variance of one


@lru_cache(maxsize=256)
def student(freedom: float, level: float = 0.95) -> float:
    """Half-width in standard errors of the two-sided interval of that level, by Student's distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def student_tail(t: float, freedom: float) -> float:
    """The probability that Student's t is over `t`."""
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


@lru_cache(maxsize=256)
def mean_log_chi2(freedom: float) -> float:
    """The mean logarithm of a chi-squared variable over its degrees of freedom: below 0, the more so the fewer they are."""
    from scipy.special import digamma

    return float(digamma(freedom / 2)) - math.log(freedom / 2)


def benjamini_hochberg(chances: Sequence[float], rate: float) -> float:
    """The largest probability at which to call a discovery, so that at most `rate` of those called are expected to be false
    (Benjamini & Hochberg 1995); with nothing to call `rate` over their number."""
    ordered, n = sorted(chances), len(chances)
    passing = [rate * (k + 1) / n for k, chance in enumerate(ordered) if chance <= rate * (k + 1) / n]
    return passing[-1] if passing else rate / max(1, n)


def undisturbed_values(values: Sequence[float]) -> list[float]:
    """The least value of each point and all larger working sets: a set that fits where a larger one does is as fast as that,
    and disturbances only add."""
    least, found = math.inf, []
    for value in reversed(values):
        least = min(least, value)
        found.append(least)
    return found[::-1]


def noise_of_deviations(deviations: Iterable[float], none: float) -> float:
    """The standard deviation of single points, from how far each lies from the midpoint of its two neighbours; `none` where
    there are no such distances. The median is taken: most points lie on plateaus, and rises do not count."""
    ordered = sorted(deviations)
    if not ordered:
        return none
    return ordered[len(ordered) // 2] / MEDIAN_OF_ABSOLUTE_NORMAL / math.sqrt(MIDPOINT_VARIANCE_FACTOR)
