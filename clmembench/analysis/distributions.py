"""Quantiles and tails of distributions, and discoveries among many tests. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache


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
