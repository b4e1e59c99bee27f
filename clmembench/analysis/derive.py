"""Records to values: applies each benchmark's metrics to raw samples and pools processes. Pure; needs the file alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clmembench.analysis import record_values, stats
from clmembench.analysis.record_values import amount_of, hidden_shares, inverse_slope, slope_ends
from clmembench.model import BenchmarkInfo, Cause, Metric, Placement, Record, Run, Value

TIME_LIMITS = (Cause.BUDGET, Cause.BENCHMARK_BUDGET)


@dataclass(frozen=True, slots=True)
class Derived:
    """One metric of one point, processes pooled. `status` is a record's status, or "undetermined" for a slope whose interval
    contains 0. Numbers are None unless status is ok or suspect. `cycles` and `ghz` use the core clock measured beside it.
    Among `params` are, where a Place asked for them, compute_units and placement (work_groups where the device is no CPU);
    `nbytes` is what one pass moves, `flops` what it computes, `work` what it does of the metric's amount and `pass_ns` how long
    it takes by `clock` (of a slope 0), `busy` and `together` how many compute units it should use, and must use at once.
    `medians` has one of each process of `measured_in`; `sampled` is the metric and the records whose samples these are of;
    `outliers` are counted, never dropped. `others` is the share of the host's CPUs that other processes
    used, `stolen` the largest share of its time that other guests took from a CPU at work, `waited` that for which a thread had
    no CPU. `gate` names the gate that a suspect value failed, `cause` says why there is no value, `key` names the point as
    `key_of` does; `evidence` are the ids of the records, and `facts` what the compiler said."""

    benchmark: str
    params: Mapping[str, Value]
    tuning: Mapping[str, Value]
    place: Placement
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
    busy: int = 0
    together: int = 0
    nbytes: int = 0
    flops: int = 0
    work: int = 0
    pass_ns: float = 0.0
    clock: str = "device"
    others: float = 0.0
    stolen: float = 0.0
    waited: float | None = None
    gate: str = ""
    cause: Cause = Cause.NONE
    medians: tuple[float, ...] = ()
    measured_in: tuple[int, ...] = ()
    key: tuple[object, ...] = ()
    checked: bool = False
    stopped: str = ""
    notes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    facts: Mapping[str, Value] = field(default_factory=dict)
    sampled: tuple[Metric, Sequence[Record]] | None = field(default=None, repr=False, compare=False)

    @property
    def outliers(self) -> int:
        """Samples that are outliers in their process; counted only where that is asked for, since it sorts every sample."""
        metric, records = self.sampled or (None, ())
        return sum(len(stats.outliers(values_of(record, metric))) for record in records) if metric is not None else 0


def values_of(record: Record, metric: Metric) -> list[float]:
    """One value a sample, in the metric's unit; empty where the record's Works have none of the metric's amount."""
    if metric.form in ("slope", "slope_rate"):
        ends = slope_ends(record, metric, 1.0)
        differences = [b - a for a, b in zip(*ends, strict=False)] if ends else []
        return differences if metric.form == "slope" else [metric.scale / d for d in differences if d > 0]
    if metric.form == "overlap":
        return hidden_shares(record, metric)
    if len(record.series) != 1:
        return []
    series = record.series[0]
    amount = amount_of(record, series, metric) * series.passes
    if amount <= 0:
        return []
    times = series.times_ns() if metric.part is None else series.part_ns(metric.part)
    if metric.form == "rate":
        return [metric.scale * amount / t for t in times if t > 0]
    return [metric.scale * t / amount for t in times]


def summarise(records: Sequence[Record], metric: Metric, in_cycles: bool = False) -> stats.Summary | None:
    """Summary of a metric over records, one a process; None where none has samples of it.

    In cycles, each process counts by its own clock, so that one that ran at another frequency does not mix in; records without
    a known clock are left out.
    """
    if in_cycles:
        records = [r for r in records if r.core_clock is not None and r.core_clock.ghz]
    factors = [r.core_clock.ghz or 1.0 if in_cycles and r.core_clock is not None else 1.0 for r in records]
    if metric.form in ("slope", "slope_rate"):
        ends = [slope_ends(r, metric, f) for r, f in zip(records, factors, strict=True)]
        usable = [pair for pair in ends if pair is not None]
        slope = stats.pool_differences(usable) if usable else None
        if slope is None or metric.form == "slope":
            return slope
        rates = [v for r in records for v in values_of(r, metric)]
        return replace(inverse_slope(slope, metric.scale), least=min(rates, default=math.nan))
    values = [[f * v for v in values_of(r, metric)] for r, f in zip(records, factors, strict=True)]
    return stats.pool(values) if any(values) else None


def derive(run: Run, benchmarks: Collection[str] = frozenset()) -> list[Derived]:
    """Every metric of every measured point, or of these benchmarks alone, in the order of the benchmarks and their axes; tuning
    trials are left out (their winners were measured again)."""
    wanted = run.header.benchmarks.keys() & (benchmarks or run.header.benchmarks.keys())
    groups: dict[tuple[object, ...], dict[int, Record]] = defaultdict(dict)
    for record in _of_last_searches(run, wanted):
        # a run that went on after its budget was spent has a later record for what was skipped
        groups[key_of(record)][record.process] = record
    derived: list[Derived] = []
    for records in _in_order([list(processes.values()) for processes in groups.values()], list(run.header.benchmarks)):
        points = derive_point(records, run.header.benchmarks[records[0].benchmark])
        derived.extend(points if run.header.device.kind == "cpu" else map(_by_work_groups, points))
    return derived


def _in_order(points: Sequence[list[Record]], benchmarks: Sequence[str]) -> list[list[Record]]:
    """The records of each point, by benchmark, whole device before parts of it, and axes: numbers by size, words as planned.
    A run measures in an order of its own, which begins with what matters most."""
    planned: dict[tuple[str, str, Value], int] = {}
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for record in sorted((records[0] for records in points), key=lambda record: record.index):
        names[record.benchmark].update(dict.fromkeys(record.params))
        for name, value in record.params.items():
            planned.setdefault((record.benchmark, name, value), record.index)

    def place(name: str, record: Record) -> tuple[int, float]:
        value = record.params.get(name)
        return (0, value) if isinstance(value, int | float) else (1, planned.get((record.benchmark, name, value or ""), -1))

    def key(records: list[Record]) -> tuple[object, ...]:
        first = records[0]
        axes = tuple(place(name, first) for name in names[first.benchmark])
        return benchmarks.index(first.benchmark), first.place.compute_units or 0, axes, min(r.index for r in records)

    return sorted(points, key=key)


def _of_last_searches(run: Run, wanted: Collection[str]) -> list[Record]:
    """The measured records of these benchmarks. A resumed run goes on with a search that its budget had ended, and may find
    another configuration than the one that was measured, or skipped, before: that one is left out."""
    points: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    searched: set[tuple[object, ...]] = set()  # points that were tried again after they were measured
    for record in (record for record in run.records if record.benchmark in wanted):
        mine = points[key := _searched_key(record, run)]
        if record.role == "tune" and mine and record.status != "skipped":
            searched.add(key)
        elif record.role == "measure":
            if key in searched and record.status in ("ok", "suspect"):
                mine[:] = (one for one in mine if one.params == record.params or one.status not in ("ok", "suspect", "skipped"))
                searched.remove(key)
            mine.append(record)
    return [record for records in points.values() for record in records]


def left_out(run: Run) -> list[Record]:
    """The records that a time limit left out, and that no resumed run has made good since: points by a record in any
    configuration, trials by another trial of their search."""
    found: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    cut = {record.benchmark for record in run.records if record.cause in TIME_LIMITS} & run.header.benchmarks.keys()
    for record in (record for record in run.records if record.benchmark in cut):
        mine = found[_searched_key(record, run), record.role, record.process]
        if record.cause in TIME_LIMITS:
            mine.append(record)
        else:
            mine.clear()
    return [record for records in found.values() for record in records]


def _searched_key(record: Record, run: Run) -> tuple[object, ...]:
    """Key of the point that a search measures in any of its configurations; a user's values make points of their own."""
    names = set(run.header.benchmarks[record.benchmark].tuning) - run.header.axes.keys()
    params = tuple(sorted(pair for pair in record.params.items() if pair[0] not in names))
    return record.benchmark, params, record.place


def key_of(record: Record) -> tuple[object, ...]:
    """Key of a record's point, the same for every process that measured it."""
    return record.benchmark, tuple(sorted(record.params.items())), record.place


def id_of(record: Record) -> str:
    """Name of a record in the evidence of findings: benchmark, place in the plan, process."""
    return f"{record.benchmark}:{record.index}:{record.process}"


def derive_point(records: Sequence[Record], card: BenchmarkInfo) -> list[Derived]:
    """The metrics of one point from its records, one a process. Metrics its Works do not speak of are absent."""
    wrong = [r for r in records if r.status == "wrong"]  # a device that is right most of the time is not right
    best = wrong[0] if wrong else record_values.usual_record(records)
    metrics = [metric for metric in card.metrics if metric.applies(best.params)]
    if not metrics:
        measured = best.status in ("ok", "suspect")
        why = ("failed", "no metric of this benchmark speaks of this point") if measured else (best.status, best.reason)
        return [_valueless(best, card.metrics[0], card, *why)]
    usable = [r for r in records if r.status == best.status and r.status in ("ok", "suspect")]
    if not usable:
        return [_valueless(best, metrics[0], card, best.status, best.reason)]
    lost = len(records) - len(usable)
    summaries = [(metric, summary) for metric in metrics if (summary := summarise(usable, metric)) is not None]
    if not summaries:
        return [_valueless(best, metrics[0], card, "failed", "no samples were kept")]
    shared = _of_all_metrics(usable, lost)
    return [_pooled(usable, shared, metric, card, summary) for metric, summary in summaries]


def _of_all_metrics(records: Sequence[Record], lost: int) -> dict[str, Any]:
    """What all metrics of a point share, from its records that have values; `lost` others of this point have none."""
    first, walls = records[0], record_values.median_times(records)
    return {
        "cpu_over_wall": record_values.cpu_over_wall(records, walls),
        "evidence": tuple(map(id_of, records)),
        "stopped": first.stopped,
        "checked": all(r.checked for r in records),
        "notes": first.notes + ((f"{lost} of {lost + len(records)} processes gave no value",) if lost else ()),
        "nbytes": first.series[0].nbytes,
        "flops": first.series[0].flops,
        "clock": first.series[0].clock,
        "others": record_values.median_or_zero([r.cpu_others for r in records if r.cpu_others is not None]),
        "stolen": record_values.median_or_zero([r.cpu_stolen for r in records if r.cpu_stolen is not None]),
        "waited": record_values.median_or_none([r.cpu_waited for r in records if r.cpu_waited is not None]),
        "busy": first.series[0].busy,
        "together": first.series[0].together,
        "pass_ns": record_values.pass_ns(records, walls) if len(first.series) == 1 else 0.0,
    }


def _pooled(
    records: Sequence[Record], shared: Mapping[str, Any], metric: Metric, card: BenchmarkInfo, summary: stats.Summary
) -> Derived:
    """One metric of records that have values; `shared` is what all metrics of the point share."""
    first = records[0]
    work = amount_of(first, first.series[0], metric)
    common = {**shared, "n": summary.n, "processes": summary.processes, "work": work}
    steep = summarise(records, replace(metric, form="slope")) if metric.form == "slope_rate" else summary
    if metric.form in ("slope", "slope_rate") and steep is not None and steep.low <= 0:
        unit = metric.unit if metric.form == "slope" else "ns a unit"
        said = "not distinguishable from 0" if steep.high >= 0 else "below 0, as by noise or a disturbance"
        reason = f"{said}: the slope lies between {steep.low:.2g} and {steep.high:.2g} {unit}"
        if first.gate in ("grows", "samples"):  # which say why the interval has no lower bound above 0
            return _valueless(first, metric, card, "suspect", first.reason, **common)
        return _valueless(first, metric, card, "undetermined", reason, **common)
    alone = [summarise([r], metric) for r in records] if len(records) > 1 else [summary]
    each = {r.process: one.median for r, one in zip(records, alone, strict=True) if one and math.isfinite(one.median)}
    finite = math.isfinite(summary.low)
    moved = record_values.clock_drift(records)
    cycles = summarise(records, metric, in_cycles=True) if metric.cycles else None
    finite_cycles = cycles is not None and math.isfinite(cycles.low)
    clock = first.core_clock
    clocks = [r.core_clock.ghz for r in records if r.core_clock is not None and r.core_clock.ghz]
    return Derived(
        **_identity(first, metric, card),
        status=first.status,
        reason=first.reason,
        median=summary.median,
        ci_low=summary.low * max(0.0, 1 - moved) if finite else None,
        ci_high=_possible(summary.high * (1 + moved)) if finite else None,
        q1=_possible(summary.q1),
        q3=_possible(summary.q3),
        least=_possible(summary.least),
        cycles=cycles.median if cycles else None,
        cycles_low=cycles.low if cycles and finite_cycles else None,
        cycles_high=cycles.high if cycles and finite_cycles else None,
        medians=tuple(each.values()),
        measured_in=tuple(each),
        sampled=(metric, records),
        ghz=record_values.median_or_zero(clocks) if clocks else None,
        clock_origin=clock.origin if clock is not None else "",
        **common,
    )


def _possible(value: float) -> float | None:
    """A quartile or extreme of differences may be none of a time, or of a rate: below 0, or without bound."""
    return value if math.isfinite(value) and value >= 0 else None


def _identity(record: Record, metric: Metric, card: BenchmarkInfo) -> dict[str, Any]:
    return {
        "benchmark": record.benchmark,
        "params": {k: v for k, v in record.params.items() if k not in card.tuning} | _placed(record.place),
        "tuning": {k: v for k, v in record.params.items() if k in card.tuning},
        "place": record.place,
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "peak": metric.peak,
        "gate": record.gate,
        "cause": record.cause,
        "facts": record.facts,
        "key": key_of(record),
    }


def _valueless(record: Record, metric: Metric, card: BenchmarkInfo, status: str, reason: str, **common: Any) -> Derived:
    return Derived(**_identity(record, metric, card), status=status, reason=reason, **common)


def _by_work_groups(point: Derived) -> Derived:
    """On what is no CPU a place is a number of work-groups, and called so."""
    if point.place.compute_units is None:
        return point
    return replace(point, params={"work_groups" if k == "compute_units" else k: v for k, v in point.params.items()})


def _placed(place: Placement) -> dict[str, Value]:
    """A Place as parameters, so that points which differ in it alone are told apart like any others."""
    units: dict[str, Value] = {} if place.compute_units is None else {"compute_units": place.compute_units}
    return units | ({"placement": place.placement} if place.placement else {})
