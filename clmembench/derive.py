"""Records to values: applies each benchmark's metrics to raw samples and pools processes. Pure; needs the file alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clmembench import stats
from clmembench.model import Card, Metric, Place, Record, Run, Series, Value

# From best to worst: a group of processes shows its best status, and the first reason with it.
_ORDER = ("ok", "suspect", "wrong", "timeout", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Derived:
    """One metric of one point, processes pooled. `status` is a record's status, or "undetermined" for a slope whose interval
    contains 0. Numbers are None unless status is ok or suspect. `cycles` and `ghz` use the core clock measured beside it."""

    benchmark: str
    params: Mapping[str, Value]
    tuning: Mapping[str, Value]
    place: Place
    metric: str
    unit: str
    better: str
    peak: str | None
    status: str
    reason: str
    median: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    q1: float | None = None
    q3: float | None = None
    least: float | None = None
    n: int = 0
    processes: int = 0
    cycles: float | None = None
    cycles_low: float | None = None
    cycles_high: float | None = None
    ghz: float | None = None
    clock_origin: str = ""
    cpu_over_wall: float | None = None
    checked: bool = False
    stopped: str = ""
    notes: tuple[str, ...] = ()


def values_of(record: Record, metric: Metric) -> list[float]:
    """One value a sample, in the metric's unit; empty where the record's Works have none of the metric's amount."""
    if metric.form == "slope":
        if len(record.series) != 2:
            return []
        near, far = sorted(record.series, key=lambda s: _amount(s, metric))
        extra = _amount(far, metric) - _amount(near, metric)
        if extra <= 0:
            return []
        return [
            metric.scale * (b / far.passes - a / near.passes) / extra
            for a, b in zip(near.times_ns(), far.times_ns(), strict=False)
        ]
    if len(record.series) != 1:
        return []
    series = record.series[0]
    amount = _amount(series, metric) * series.passes
    if amount <= 0:
        return []
    if metric.form == "rate":
        return [metric.scale * amount / t for t in series.times_ns() if t > 0]
    return [metric.scale * t / amount for t in series.times_ns()]


def derive(run: Run) -> list[Derived]:
    """Every metric of every measured point, in file order; tuning trials are left out (their winners were measured again)."""
    groups: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in run.records:
        if record.role == "measure" and record.benchmark in run.header.benchmarks:
            groups[(record.benchmark, tuple(sorted(record.params.items())), record.place)].append(record)
    derived: list[Derived] = []
    for records in groups.values():
        derived.extend(derive_point(records, run.header.benchmarks[records[0].benchmark]))
    return derived


def derive_point(records: Sequence[Record], card: Card) -> list[Derived]:
    """The metrics of one point from its records, one a process. Metrics its Works do not speak of are absent."""
    best = min(records, key=lambda r: _ORDER.index(r.status))
    metrics = [metric for metric in card.metrics if metric.applies(best.params)] or list(card.metrics)
    usable = [r for r in records if r.status == best.status and r.status in ("ok", "suspect")]
    if not usable:
        return [_valueless(best, metrics[0], card, best.status, best.reason)]
    found = [
        _pooled(usable, metric, card, samples)
        for metric in metrics
        if any(samples := [values_of(record, metric) for record in usable])
    ]
    return found or [_valueless(best, metrics[0], card, "failed", "no samples were kept")]


def _pooled(records: Sequence[Record], metric: Metric, card: Card, samples: Sequence[Sequence[float]]) -> Derived:
    first = records[0]
    summary = stats.pool(samples)
    common = {
        "cpu_over_wall": _cpu_over_wall(records),
        "stopped": first.stopped,
        "checked": all(r.checked for r in records),
        "notes": first.notes,
        "n": summary.n,
        "processes": summary.processes,
    }
    if metric.form == "slope" and summary.low <= 0 <= summary.high:
        reason = f"the interval of the slope contains 0: {summary.low:.3g} to {summary.high:.3g} {metric.unit}"
        return _valueless(first, metric, card, "undetermined", reason, **common)
    finite = math.isfinite(summary.low)
    cycles = _in_cycles(records, metric, samples)
    clock = first.core_clock
    return Derived(
        **_identity(first, metric, card),
        status=first.status,
        reason=first.reason,
        median=summary.median,
        ci_low=summary.low if finite else None,
        ci_high=summary.high if finite else None,
        q1=summary.q1,
        q3=summary.q3,
        least=summary.least,
        cycles=cycles.median if cycles else None,
        cycles_low=cycles.low if cycles and finite else None,
        cycles_high=cycles.high if cycles and finite else None,
        ghz=clock.ghz if clock is not None else None,
        clock_origin=clock.origin if clock is not None else "",
        **common,  # type: ignore[arg-type]
    )


def _in_cycles(records: Sequence[Record], metric: Metric, samples: Sequence[Sequence[float]]) -> stats.Summary | None:
    """The values in cycles, each process by its own clock, so that one that ran at another frequency does not mix in."""
    if not metric.cycles:
        return None
    scaled = [
        [value * record.core_clock.ghz for value in values]
        for record, values in zip(records, samples, strict=True)
        if record.core_clock is not None and record.core_clock.ghz
    ]
    return stats.pool(scaled) if any(scaled) else None


def _cpu_over_wall(records: Iterable[Record]) -> float | None:
    """CPU time over wall time of all samples: how many cores this process really used."""
    cpu = sum(sum(s.cpu_ns) for r in records for s in r.series)
    wall = sum(sum(s.host_ns) for r in records for s in r.series)
    return cpu / wall if wall else None


def _identity(record: Record, metric: Metric, card: Card) -> dict[str, object]:
    return {
        "benchmark": record.benchmark,
        "params": {k: v for k, v in record.params.items() if k not in card.tuning},
        "tuning": {k: v for k, v in record.params.items() if k in card.tuning},
        "place": record.place,
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "peak": metric.peak,
    }


def _valueless(
    record: Record, metric: Metric, card: Card, status: str, reason: str, **common: object
) -> Derived:
    return Derived(**_identity(record, metric, card), status=status, reason=reason, **common)  # type: ignore[arg-type]


def _amount(series: Series, metric: Metric) -> int:
    return int(getattr(series, metric.amount))
