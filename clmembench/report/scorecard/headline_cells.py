"""The cell of one device for one headline quantity: its best good point, a plateau of its curve, or why there is none."""

from __future__ import annotations

from dataclasses import replace

from clmembench.analysis import decision, noise, plateaus
from clmembench.benchmarks import MIN_PROCESSES_FOR_INTERVAL, discovered, headline_bytes
from clmembench.gates.cpu_share import possible_gain
from clmembench.gates.whole import CORES_GATE, latency_curve
from clmembench.model import Headline
from clmembench.model.metrics import score
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.scorecard_cells import Line, ScorecardCell
from clmembench.report.sections.level_table import MAX_L1_START_BYTES
from clmembench.report.views import interval, percent
from clmembench.sanitize import printable
from clmembench.units import count, format_bytes, format_in, format_interval, format_params, format_value

PEAK_NAMES = {"fp64_matrix_gflop_s": "matrix peak"}  # others are that of the row's own quantity
MIN_ARRAY_TO_CACHE_RATIO = 4  # STREAM's rule for an array and the last cache (McCalpin)


def headline_cell(part: LabelledRun, benchmark: str, headline: Headline) -> ScorecardCell:
    """The cell of one device: the best good point at the extremes of the headline's axes; where no point there is good, the
    status of the first."""
    here = [
        row
        for row in part.rows
        if row.value.benchmark == benchmark
        and row.value.metric == headline.metric
        and row.value.place.compute_units is None
        and all(row.value.params.get(name) == value for name, value in headline.params.items())
    ]
    if not here:
        return ScorecardCell("–")
    card = part.run.header.benchmarks[benchmark]
    if card.growing in headline.extremes:
        return _plateau_cell(part, headline.extremes[card.growing])
    for axis, extreme in headline.extremes.items():
        numbers = [value for row in here if isinstance(value := row.value.params.get(axis), int | float)]
        chosen = (max if extreme == "largest" else min)(numbers, default=None)
        here = [row for row in here if row.value.params.get(axis) == chosen]
    good = [row for row in here if row.status == "ok" and row.value.median]
    if not good:
        first = next((row for row in here if row.status != "skipped"), here[0])
        return ScorecardCell(first.status, detail=printable(first.reason), status=first.status)
    row = max(good, key=_score)
    rivals = [r for r in here if r.value.gate == CORES_GATE and possible_gain(r.value) * _score(r) > _score(row)]
    if rivals:
        why = f"{count(len(rivals), 'point')} that may be better lacked CPUs: {rivals[0].reason}"
        return ScorecardCell("suspect", detail=printable(why), status="suspect")
    why = _why_in_a_cache(part, row, headline.beyond_caches)
    if why:
        return ScorecardCell("undetermined", detail=why, status="undetermined")
    return _measured(part, row, headline)


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


def _why_in_a_cache(part: LabelledRun, row: Row, axis: str) -> str:
    """Why a cache may hold what a point reads, "" where none can: it has fewer bytes than a latency sweep would need before it
    may be called memory, and fewer than the benchmarks choose for this device."""
    size, info = row.value.params.get(axis), replace(part.run.header.device, array_bytes=None)
    needed = min(plateaus.memory_floor_bytes(info), headline_bytes(info))
    if not axis or not isinstance(size, int) or size >= needed:
        return ""
    largest = f"{format_params({axis: size})} is the largest that was measured"
    return f"{largest}, and a cache may hold part of it: measure {format_bytes(needed)}"


def _plateau_cell(part: LabelledRun, extreme: str) -> ScorecardCell:
    """The first plateau of the run's latency curve, or memory where the curve has settled there."""
    curve, info = latency_curve(part.run), part.run.header.device
    found = plateaus.find_plateaus(curve) if curve else []
    finding = plateaus.memory_latency(curve, info)
    if extreme == "largest" and finding.status != "ok":
        return ScorecardCell("undetermined", detail=finding.reason, status="undetermined")
    if not found or (extreme == "smallest" and found[0].first_bytes > MAX_L1_START_BYTES):
        why = f"no plateau begins at or below {format_bytes(MAX_L1_START_BYTES)}"
        return ScorecardCell("undetermined", detail=why, status="undetermined")
    plateau = found[-1] if extreme == "largest" else found[0]
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
    )


def _measured(part: LabelledRun, row: Row, headline: Headline) -> ScorecardCell:
    """The cell of a good row, with the remark that a cache may hold much of its array where the driver claims such a cache."""
    value, info = row.value, part.run.header.device
    cache_bytes = info.cache_bytes
    varying = {name: v for name, v in value.params.items() if name not in headline.params}
    point = format_params(varying)
    extra = [f"{format_value(value.cycles)} cycles"] if value.cycles else []
    peak_name = PEAK_NAMES.get(value.peak or "", "peak")
    extra += [f"{percent(row.fraction)} of {peak_name}"] if row.fraction is not None else []
    size, caveat = value.params.get(headline.beyond_caches), ""
    if isinstance(size, int) and size < MIN_ARRAY_TO_CACHE_RATIO * cache_bytes:
        caveat = f"array of {size / cache_bytes:.2g} times the claimed cache"
        extra.append(caveat)
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
        caveat=caveat,
        meaning=headline.meaning(info.has_cpu_cores, info.shares_host_memory),
        peak_name=peak_name,
        point=point,
        # beyond the caches a bandwidth is the same at every size
        size="" if headline.beyond_caches else format_params({axis: value.params[axis] for axis in headline.extremes}),
    )
