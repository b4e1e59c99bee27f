"""Aggregates over the records of one point, one for each process: usual status, clock drift, CPU time, time of a pass."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from clmembench.model import Record

# From best to worst: a group of processes shows its best status, and the first reason with it; but wrong where one is wrong.
_ORDER = ("ok", "suspect", "timeout", "failed", "skipped")


MOVED = 0.03  # relative drift of the core clock during a measurement: less is noise of the readings
SEVERAL = 3  # processes from which on their differences show what changes between them


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
