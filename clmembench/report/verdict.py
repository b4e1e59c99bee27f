"""The verdict of a report: devices side by side in headline quantities, matched by meaning and not by exact parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clmembench.benchmarks import discovered, headline_bytes
from clmembench.gates.whole import latency_curve
from clmembench.infer import plateaus
from clmembench.infer.access.saturation import memory_latency
from clmembench.model import HEADLINE_GROUPS, Headline, Hierarchy
from clmembench.model.direction import gain, score
from clmembench.report.imported_headlines import imported_cells
from clmembench.report.parts import Part
from clmembench.report.published_headlines import published_cells
from clmembench.report.rows import Row, interval, percent
from clmembench.report.section import Column, Section
from clmembench.report.sections.level_table import MAX_L1_START_BYTES
from clmembench.report.verdict_cells import Cell, Line, UnknownDevice, Verdict
from clmembench.report.verdict_findings import bank_lines, level_lines
from clmembench.report.verdict_known import known_lines
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in, format_interval, format_params, format_value

OLDER = "older version"  # status of a cell


def verdict(
    parts: Sequence[Part],
    hierarchies: Sequence[Hierarchy | None] = (),
    baseline: str = "",
    others: Sequence[SpecSheet] = (),
) -> Verdict:
    """Headline quantities that at least one device has, with columns of what was published of `others`; then, of all devices,
    what drivers claim, and theoretical figures.

    With the label of a `baseline` each cell has its ratio to that device's, above 1 where it is better. Raises UnknownDevice
    where none has that label.
    """
    labels = [part.label for part in parts]
    if baseline and baseline not in labels:
        raise UnknownDevice(f"no device is called {baseline!r}: choose from {', '.join(labels)}")
    found = [
        *_benchmark_lines(parts),
        *level_lines([*hierarchies, *[None] * (len(parts) - len(hierarchies))]),
        *bank_lines([part.rows for part in parts]),
    ]
    order: dict[str, int] = {group: place for place, group in enumerate(HEADLINE_GROUPS)}
    lines = [_with_best(line) for line in sorted(found, key=lambda line: order[line.group])]
    if baseline:
        lines = [_with_ratios(line, labels.index(baseline)) for line in lines]
    published = [published_cells(one) if one.origin == "published" else imported_cells(one) for one in others]
    lines = [replace(one, cells=(*one.cells, *(of.get(one.name, Cell("–")) for of in published))) for one in lines]
    lines += known_lines([part.run.header.device for part in parts], [part.sheet for part in parts], others)
    names = (*labels, *(printable(f"{sheet.name}, {sheet.origin}") for sheet in others))
    return Verdict(names, tuple(lines), baseline)


def verdict_section(found: Verdict) -> Section:
    """The verdict as a table: the best of each line is marked by a star."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for line in found.lines:
        mark = ""
        if line.note:
            notes.append(f"[{len(notes) + 1}] {line.note}")
            mark = f" [{len(notes)}]"
        rows.append((line.group, line.name + mark, *(_cell_text(cell) for cell in line.cells)))
    columns = (Column("group"), Column("quantity"), *(Column(label, is_number=True) for label in found.labels))
    best = "* the best device, and those whose 95% interval overlaps its own"
    against = (f"in brackets: how many times as good as {found.baseline}",) if found.baseline else ()
    return Section("Devices compared", columns, tuple(rows), (best, *against, *notes))


def _cell_text(cell: Cell) -> str:
    value = ", ".join(filter(None, (cell.text, cell.extra, f"by an {OLDER}" if cell.status == OLDER else "")))
    return f"{value}{f' ({cell.ratio})' if cell.ratio else ''}{'*' if cell.is_best else ''}"


def _benchmark_lines(parts: Sequence[Part]) -> Iterator[Line]:
    for benchmark in discovered().values():
        for headline in benchmark.headlines:
            better = next(m.better for m in benchmark.metrics if m.name == headline.metric)
            cells = [headline_cell(part, benchmark.name, headline) for part in parts]
            cells = _of_latest_version(parts, cells, benchmark.name)
            if all(cell.status == "missing" for cell in cells):
                continue
            hint = f"not measured: suite {benchmark.suite}, benchmark {benchmark.name}"
            cells = [cell if cell.status != "missing" else Cell("–", detail=hint) for cell in cells]
            yield Line(headline.group, headline.name, better, tuple(cells), _difference(parts, cells))


def _of_latest_version(parts: Sequence[Part], cells: Sequence[Cell], benchmark: str) -> list[Cell]:
    """The cells; those of an older version of the benchmark than other devices were measured by keep their text and detail, and
    have no value: versions are not comparable."""
    cards = [part.run.header.benchmarks.get(benchmark) for part in parts]
    versions = [card.version if card is not None and c.status == "ok" else 0 for card, c in zip(cards, cells, strict=True)]
    latest = max(versions, default=0)
    why = "measured by version {} of {}, not comparable with version {}: measure it again; {}"
    return [
        replace(c, status=OLDER, value=None, detail=why.format(v, benchmark, latest, c.detail)) if 0 < v < latest else c
        for c, v in zip(cells, versions, strict=True)
    ]


def headline_cell(part: Part, benchmark: str, headline: Headline) -> Cell:
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
        return Cell("–")
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
        return Cell(first.status, detail=printable(first.reason), status=first.status)
    row = max(good, key=lambda r: score(r.value.median or 0.0, r.value.better))
    why = _why_in_a_cache(part, row, headline.beyond_caches)
    return Cell("undetermined", detail=why, status="undetermined") if why else _measured(row, headline)


def _why_in_a_cache(part: Part, row: Row, axis: str) -> str:
    """Why a cache may hold what a point reads, "" where none can: it has fewer bytes than a latency sweep would need before it
    may be called memory, and fewer than the benchmarks choose for this device."""
    size, info = row.value.params.get(axis), replace(part.run.header.device, array_bytes=None)
    needed = min(plateaus.memory_floor_bytes(info), headline_bytes(info))
    if not axis or not isinstance(size, int) or size >= needed:
        return ""
    largest = f"{format_params({axis: size})} is the largest that was measured"
    return f"{largest}, and a cache may hold part of it: measure {format_bytes(needed)}"


def _plateau_cell(part: Part, extreme: str) -> Cell:
    """The first plateau of the run's latency curve, or memory where the curve has settled there."""
    curve, info = latency_curve(part.run), part.run.header.device
    found = plateaus.find_plateaus(curve) if curve else []
    finding = memory_latency(curve, info)
    if extreme == "largest" and finding.status != "ok":
        return Cell("undetermined", detail=finding.reason, status="undetermined")
    if not found or (extreme == "smallest" and found[0].first_bytes > MAX_L1_START_BYTES):
        why = f"no plateau begins at or below {format_bytes(MAX_L1_START_BYTES)}"
        return Cell("undetermined", detail=why, status="undetermined")
    plateau = found[-1] if extreme == "largest" else found[0]
    ends = f"{format_bytes(plateau.first_bytes)} to {format_bytes(plateau.last_bytes)}"
    return Cell(
        text=format_in(plateau.ns, "ns"),
        extra=f"{format_value(plateau.cycles)} cycles" if plateau.cycles else "",
        detail=f"{format_interval(plateau.low, plateau.high, 'ns')} over working sets of {ends}",
        status="ok",
        value=plateau.ns,
        low=plateau.low,
        high=plateau.high,
    )


def _measured(row: Row, headline: Headline) -> Cell:
    value = row.value
    varying = {name: v for name, v in value.params.items() if name not in headline.params}
    point = format_params(varying)
    extra = [f"{format_value(value.cycles)} cycles"] if value.cycles else []
    extra += [f"{percent(row.fraction)} of peak"] if row.fraction is not None else []
    detail = f"95% interval {interval(value)}, n {value.n} in {count(value.processes, 'process', 'processes')}"
    return Cell(
        text=format_in(value.median, value.unit),
        extra=", ".join(extra),
        detail=f"{detail}; {point}" if point else detail,
        status="ok",
        value=value.median,
        low=value.ci_low,
        high=value.ci_high,
        point=point,
        # beyond the caches a bandwidth is the same at every size
        size="" if headline.beyond_caches else format_params({axis: value.params[axis] for axis in headline.extremes}),
    )


def _difference(parts: Sequence[Part], cells: Sequence[Cell]) -> str:
    """At which points the devices were read, where these differ."""
    good = [(part.label, cell.point) for part, cell in zip(parts, cells, strict=True) if cell.status == "ok"]
    points = {point for _, point in good}
    if len(points) < 2:
        return next((f"at {point}" for point in points if point), "")
    return "; ".join(f"{label}: {point}" for label, point in good)


def _with_best(line: Line) -> Line:
    """The line with its best cell marked, and those whose interval overlaps that one's; nothing where one device alone has a
    value, or where more is not better."""
    good = [cell for cell in line.cells if cell.value is not None]
    if len(good) < 2 or not line.better:
        return line
    best = max(good, key=lambda cell: score(cell.value or 0.0, line.better))
    marked = tuple(replace(c, is_best=c.value is not None and (c is best or _overlap(c, best))) for c in line.cells)
    return line if all(cell.is_best for cell in marked if cell.value is not None) else replace(line, cells=marked)


def _with_ratios(line: Line, baseline: int) -> Line:
    against = line.cells[baseline].value
    if not against or not line.better:
        return line
    ratios = ["" if not c.value else f"{format_value(gain(c.value / against, line.better))}x" for c in line.cells]
    return replace(line, cells=tuple(replace(cell, ratio=text) for cell, text in zip(line.cells, ratios, strict=True)))


def _overlap(first: Cell, second: Cell) -> bool:
    ends = (first.low, first.high, second.low, second.high)
    if any(end is None for end in ends):
        return first.value == second.value
    low, high, least, most = ends
    return bool(low <= most and least <= high)  # type: ignore[operator]
