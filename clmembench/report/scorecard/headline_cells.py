"""The cell of one device for one headline quantity: its best good point, a plateau of its curve, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmembench.analysis import decision, derive, noise, plateaus
from clmembench.benchmarks import MIN_PROCESSES_FOR_INTERVAL, discovered, headline_bytes
from clmembench.gates.cpu_share import possible_gain
from clmembench.gates.point import NO_CYCLE_GATE
from clmembench.gates.whole import CORES_GATE, latency_curve, memory_latency
from clmembench.model import Headline, Value
from clmembench.model.metrics import more_is_better, score
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.scorecard_cells import BOUND, BoundKind, Line, ScorecardCell
from clmembench.report.views import interval
from clmembench.sanitize import printable
from clmembench.units import count, format_bytes, format_in, format_interval, format_params, format_value

PEAK_NAMES = {  # those of one quantity with several peaks; others are that of the row's own quantity
    "fp64_matrix_gflop_s": "matrix peak",
    "fp64_vector_gflop_s": "vector peak",
    "fp32_vector_gflop_s": "vector peak",
}
MIN_BOUND_SHARE = 1 / 16  # of the working set that memory's latency needs: smaller ones lie in caches and bound nothing
RANDOM_LOADS = "random loads with address translation"
MIN_ARRAY_TO_CACHE_RATIO = 4  # STREAM's rule for an array and the last cache (McCalpin)


def headline_cell(part: LabelledRun, benchmark: str, headline: Headline) -> ScorecardCell:
    """The cell of one device: the best good point at the extremes of the headline's axes; where no point there is good, the
    status of the first."""
    usual, *others = headline.params_on(part.run.header.device.has_cpu_cores)
    here = _rows(part, benchmark, headline, usual)
    instead: Mapping[str, Value] = {}
    for params in others:
        if not any(row.value.median for row in here):
            instead = headline.core_params
            here = _rows(part, benchmark, headline, params) or here
    if not here:
        return ScorecardCell("–")
    card = part.run.header.benchmarks[benchmark]
    if card.growing in headline.extremes:
        return _plateau_cell(part, headline.extremes[card.growing])
    for axis, extreme in headline.extremes.items():
        tried = [row for row in here if row.status != "skipped"] or here  # a budget that was spent says nothing of a size
        numbers = [value for row in tried if isinstance(value := row.value.params.get(axis), int | float)]
        chosen = (max if extreme == "largest" else min)(numbers, default=None)
        here = [row for row in here if row.value.params.get(axis) == chosen]
    good = [row for row in here if row.status == "ok" and row.value.median]
    if not good:
        first = next((row for row in here if row.status != "skipped"), here[0])
        meaning = headline.meaning(part.run.header.device.has_cpu_cores, part.run.header.device.shares_host_memory)
        if first.status == "skipped" and (bound := _search_bound(part, first, headline)) is not None:
            return bound
        if meaning and first.value.gate == NO_CYCLE_GATE:
            return ScorecardCell("under 1 cycle", detail=printable(first.reason), status=BOUND, meaning=meaning)
        return ScorecardCell(first.status, detail=printable(first.reason), status=first.status)
    row = max(good, key=_score)
    rivals = [r for r in here if r.value.gate == CORES_GATE and possible_gain(r.value) * _score(r) > _score(row)]
    if rivals:
        why = f"{count(len(rivals), 'point')} that may be better lacked CPUs: {rivals[0].reason}"
        return ScorecardCell("suspect", detail=printable(why), status="suspect")
    why = _why_in_a_cache(part, row, headline.beyond_caches)
    if why and row.value.median:
        return _bound("at most", row.value.median, row.value.unit, why)
    return _measured(part, row, headline, instead)


def _rows(part: LabelledRun, benchmark: str, headline: Headline, params: Mapping[str, Value]) -> list[Row]:
    """The rows of the headline's metric on the whole device at the points with these parameters."""
    return [
        row
        for row in part.rows
        if row.value.benchmark == benchmark
        and row.value.metric == headline.metric
        and row.value.place.compute_units is None
        and all(row.value.params.get(name) == value for name, value in params.items())
    ]


def common_size(line: Line, first: LabelledRun, second: LabelledRun) -> tuple[ScorecardCell, ScorecardCell] | None:
    """The cells of two devices at the largest size that both have a good value at, of a headline that is read at the extreme of
    one axis; None where there is no such size."""
    headline = next(h for h in discovered()[line.benchmark].headlines if h.name == line.name)
    if list(headline.extremes.values()) != ["largest"]:
        return None
    (axis,) = headline.extremes
    sizes = [
        {row.value.params.get(axis) for row in part.rows if row.status == "ok" and row.value.benchmark == line.benchmark}
        for part in (first, second)
    ]
    for size in sorted((n for n in sizes[0] & sizes[1] if isinstance(n, int)), reverse=True):
        here = replace(headline, params={**headline.params, axis: size})
        cells = headline_cell(first, line.benchmark, here), headline_cell(second, line.benchmark, here)
        if cells[0].value is not None and cells[1].value is not None:
            return cells
    return None


def _score(row: Row) -> float:
    return score(row.value.median or 0.0, row.value.better)


def _search_bound(part: LabelledRun, skipped: Row, headline: Headline) -> ScorecardCell | None:
    """The best configuration that the search tried at a headline's points, none of which was measured after it: the device is
    at least as good. None where there was no search, and of sizes that caches may hold."""
    benchmark, params = skipped.value.benchmark, skipped.value.params
    wanted = {**headline.params, **{axis: params[axis] for axis in headline.extremes if axis in params}}
    metric = next(m for m in part.run.header.benchmarks[benchmark].metrics if m.name == headline.metric)
    tried = [
        found
        for record in part.run.records
        if (record.benchmark, record.role, record.status) == (benchmark, "tune", "ok")
        and metric.applies(record.params)
        and all(record.params.get(name) == value for name, value in wanted.items())
        and (found := derive.summarise([record], metric)) is not None
    ]
    if not tried or headline.beyond_caches:
        return None
    best = max(tried, key=lambda found: score(found.median, metric.better))
    why = f"the best of {count(len(tried), 'candidate')} of the search, {count(best.n, 'sample')}: {skipped.reason}"
    return _bound("at least" if more_is_better(metric.better) else "at most", best.median, metric.unit, printable(why))


def _bound(side: BoundKind, limit: float, unit: str, why: str) -> ScorecardCell:
    return ScorecardCell(f"{side} {format_in(limit, unit)}", detail=why, status=BOUND, limit=limit, side=side)


def _why_in_a_cache(part: LabelledRun, row: Row, axis: str) -> str:
    """Why a cache may hold what a point reads, "" where none can: it has fewer bytes than four times the claimed cache, or than
    both a latency sweep would need before it may be called memory and the benchmarks choose for this device."""
    size, info = row.value.params.get(axis), replace(part.run.header.device, array_bytes=None)
    needed = min(plateaus.memory_floor_bytes(info), headline_bytes(info))
    needed = max(needed, MIN_ARRAY_TO_CACHE_RATIO * info.cache_bytes)
    if not axis or not isinstance(size, int) or size >= needed:
        return ""
    claimed = f", {size / info.cache_bytes:.2g} times the claimed cache" if info.cache_bytes else ""
    return f"{format_bytes(size)}, the largest array{claimed}: a cache may hold part of it; measure {format_bytes(needed)}"


def _plateau_cell(part: LabelledRun, extreme: str) -> ScorecardCell:
    """The first plateau of the run's latency curve, or memory where the curve has settled there."""
    curve, info = latency_curve(part.run), part.run.header.device
    finding = memory_latency(part.run)
    if extreme == "largest" and finding.status != "ok" and curve:
        return _memory_bound(curve, finding.reason, plateaus.memory_floor_bytes(info))
    if not curve or (extreme == "largest" and finding.status != "ok"):
        return ScorecardCell("undetermined", detail=finding.reason, status="undetermined")
    plateau = plateaus.find_plateaus(curve)[-1] if extreme == "largest" else plateaus.nearest_cache(curve)
    if plateau is None:
        least = format_bytes(plateaus.SURELY_NEAREST_BYTES)
        why = f"no plateau begins at or below {least}, and the points there are too few or differ"
        return ScorecardCell("undetermined", detail=why, status="undetermined")
    ends = f"{format_bytes(plateau.first_bytes)} to {format_bytes(plateau.last_bytes)}"
    kind = noise.kind_of(info, part.run.header.host)
    return ScorecardCell(
        text=format_in(plateau.ns, "ns"),
        extra=f"{format_value(plateau.cycles)} cycles" if plateau.cycles else "",
        detail=f"{format_interval(plateau.low, plateau.high, 'ns')} over working sets of {ends}",
        status="ok",
        value=plateau.ns,
        low=plateau.low,
        high=plateau.high,
        noisy=decision.inferred(plateau.ns, plateau.low, plateau.high, noise.calibrated().of_slopes(kind, "pchase")),
        meaning=RANDOM_LOADS if extreme == "largest" else "",
    )


def _memory_bound(curve: Sequence[plateaus.CurvePoint], reason: str, floor_bytes: int) -> ScorecardCell:
    """The latency of random loads over still larger sets from below: the least of the last octave of working sets, which caches
    may still serve in part. It contains address translation, so that it bounds no load from DRAM. None where these sets are far
    smaller than `floor_bytes`."""
    largest = curve[-1].array_bytes
    if largest < MIN_BOUND_SHARE * floor_bytes:
        why = f"{reason}: it ends at {format_bytes(largest, 1)}, which caches hold"
        return ScorecardCell("undetermined", detail=why, status="undetermined")
    least = min(point.ns for point in curve if point.array_bytes >= largest / 2)
    sets = f"{format_bytes(largest / 2, 1)} to {format_bytes(largest, 1)}"
    why = f"{RANDOM_LOADS} over {sets}, no bound of DRAM alone, which topology measures: {reason}"
    return replace(_bound("at least", least, "ns", why), meaning=RANDOM_LOADS)


def _measured(part: LabelledRun, row: Row, headline: Headline, instead: Mapping[str, Value]) -> ScorecardCell:
    """The cell of a good row; `instead` are the parameters of points that stand in for those of the headline."""
    value, info = row.value, part.run.header.device
    varying = {name: v for name, v in value.params.items() if name not in headline.params}
    point = format_params(varying)
    extra = [f"{format_value(value.cycles)} cycles"] if value.cycles else []
    peak_name = PEAK_NAMES.get(value.peak or "", "peak")
    extra += [f"{row.fraction:.0%} of {peak_name}"] if row.fraction is not None else []
    few = 1 < value.processes < MIN_PROCESSES_FOR_INTERVAL
    spread = f"range over {value.processes} processes" if few else "95% interval"
    detail = f"{spread} {interval(value)}, n {value.n} in {count(value.processes, 'process', 'processes')}"
    return ScorecardCell(
        text=format_in(value.median, value.unit),
        extra=", ".join(extra),
        detail=f"{detail}; {point}" if point else detail,
        status="ok",
        value=value.median,
        low=value.ci_low,
        high=value.ci_high,
        fraction=row.fraction,
        noisy=decision.side_of((), info, part.run.header.host).noisy(value, noise.calibrated()),
        meaning=headline.meaning(info.has_cpu_cores, info.shares_host_memory),
        peak_name=peak_name,
        point=point,
        # beyond the caches a bandwidth is the same at every size
        size=""
        if headline.beyond_caches
        else format_params({**instead, **{axis: value.params[axis] for axis in headline.extremes}}),
    )
