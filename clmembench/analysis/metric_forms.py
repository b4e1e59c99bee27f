"""Samples of a record to values of a metric, by the form of the metric: ends of slopes, inverses, overlap."""

from __future__ import annotations

import math

from clmembench.analysis import stats
from clmembench.model import Metric, Record, Series


def hidden_shares(record: Record, metric: Metric) -> list[float]:
    """Overlap of two Works for each sample: the time saved by running them at once, over that of the shorter one."""
    if len(record.series) != 3:
        return []
    alone = [[t / s.passes for t in s.times_ns()] for s in record.series]
    return [
        metric.scale * (one + other - both) / min(one, other)
        for one, other, both in zip(*alone, strict=False)
        if min(one, other) > 0
    ]


def slope_ends(record: Record, metric: Metric, factor: float) -> tuple[list[float], list[float]] | None:
    """The samples of a slope's two ends, scaled so that their difference is the metric's value, or for a slope_rate the time of
    one of its amount; None where there are not two of different amounts, or no samples."""
    if len(record.series) != 2:
        return None
    near, far = sorted(record.series, key=lambda s: amount_of(record, s, metric))
    extra = amount_of(record, far, metric) - amount_of(record, near, metric)
    if extra <= 0 or not near.times_ns() or not far.times_ns():
        return None
    scale = factor * (metric.scale if metric.form == "slope" else 1.0) / extra
    return [scale * t / near.passes for t in near.times_ns()], [scale * t / far.passes for t in far.times_ns()]


def inverse_slope(slope: stats.Summary, scale: float) -> stats.Summary:
    """Rates of a slope's times. A slope that may be 0 has no largest rate, and one that is not above 0 has none at all."""

    def rate(time: float) -> float:
        return scale / time if time > 0 else math.inf

    low, high = rate(slope.high), rate(slope.low)
    # the least rate is that of the largest time, which a summary does not have
    return stats.Summary(rate(slope.median), low, high, rate(slope.q3), rate(slope.q1), math.nan, slope.n, slope.processes)


def amount_of(record: Record, series: Series, metric: Metric) -> int:
    """Amount of one pass that the metric counts; 0 where a parameter that it is multiplied by is no number."""
    times = record.params.get(metric.times, 0) if metric.times else 1
    return int(getattr(series, metric.amount)) * (times if isinstance(times, int) else 0)
