"""Records of a point to numbers: by a metric's form, and over its processes: status, clock drift, CPU time, a pass."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from clmembench.analysis import stats
from clmembench.model import Benchmark, Metric, Record, Series, Value, Work

# From best to worst: a group of processes shows its best status, and the first reason with it; but wrong where one is wrong.
_ORDER = ("ok", "suspect", "timeout", "failed", "skipped")


GIVE_UP_RATIO = 3  # a configuration whose first pass takes this many times as long is not the best in further ones
MOVED = 0.03  # relative drift of the core clock during a measurement: less is noise of the readings
SEVERAL = 3  # processes from which on their differences show what changes between them


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


def headline_metric(benchmark: Benchmark, params: Mapping[str, Value]) -> Metric:
    """The first metric of a benchmark that a point with these parameters has."""
    return next((metric for metric in benchmark.metrics if metric.applies(params)), benchmark.metrics[0])


def amount_of(record: Record, series: Series | Work, metric: Metric) -> int:
    """Amount of one pass that the metric counts; 0 where a parameter that it is multiplied by is no number."""
    times = record.params.get(metric.times, 0) if metric.times else 1
    return int(getattr(series, metric.amount)) * (times if isinstance(times, int) else 0)


def give_up_ns(record: Record, metric: Metric) -> float:
    """Limit of the first pass of another configuration of this record's point, in ns per unit of its amount: a slower one is
    given up. 0, no limit, for slopes, overlaps, and times by the host's clock, which include compilation."""
    if record.status != "ok" or len(record.series) != 1 or record.series[0].clock != "device":
        return 0.0
    (series,) = record.series
    amount = amount_of(record, series, metric)
    times = series.times_ns()
    return GIVE_UP_RATIO * median_or_zero(times) / series.passes / amount if amount and times else 0.0


def usual_record(records: Sequence[Record]) -> Record:
    """A record that speaks for all: a good one where at least half of those that were measured are, since one survivor among
    failures is no evidence; else one of the commonest status."""
    tried = [r for r in records if r.status != "skipped"] or records
    counts = Counter(r.status for r in tried)
    if 2 * counts["ok"] >= len(tried):
        return next(r for r in tried if r.status == "ok")
    return min((r for r in tried if r.status != "ok"), key=lambda r: (-counts[r.status], _ORDER.index(r.status)))


def clock_drift(records: Sequence[Record]) -> float:
    """Half of what the core's clock moved by, which samples of one process do not show; several show it by themselves."""
    moved = [r.core_clock.moved for r in records if r.core_clock is not None]
    return max(moved) / 2 if moved and len(records) < SEVERAL and max(moved) > MOVED else 0.0


def cpu_over_wall(records: Sequence[Record], walls: Sequence[Sequence[float]]) -> float | None:
    """CPU time over the time that kernels took by the series' own clock: how many cores a process really used, the median of
    the records. Of a slope that of its extra amount, so that what both ends share, such as waking threads, is not in it.
    `walls` are the `median_times` of the records."""
    ratios = []
    for record, medians in zip(records, walls, strict=True):
        ends = sorted(zip(medians, (median_or_zero(s.cpu_ns) for s in record.series), strict=True))
        wall, cpu = ends[-1] if ends else (0.0, 0.0)
        if len(ends) == 2:
            wall, cpu = wall - ends[0][0], cpu - ends[0][1]
        if wall > 0:
            ratios.append(cpu / wall)
    return median_or_none(ratios)


def median_times(records: Sequence[Record]) -> list[list[float]]:
    """The median time in ns of each series of each record, by its own clock."""
    return [[median_or_zero(series.times_ns()) for series in record.series] for record in records]


def pass_ns(records: Sequence[Record], walls: Sequence[Sequence[float]]) -> float:
    """Time of one pass in ns, the median over records; `walls` are their `median_times`."""
    pairs = zip(records, walls, strict=True)
    return median_or_zero([time / s.passes for record, times in pairs for s, time in zip(record.series, times, strict=True)])


def median_or_none(numbers: Sequence[float]) -> float | None:
    """The median; None of no numbers."""
    return statistics.median(numbers) if numbers else None


def median_or_zero(numbers: Sequence[float]) -> float:
    """The median; 0 of no numbers."""
    return statistics.median(numbers) if numbers else 0.0
