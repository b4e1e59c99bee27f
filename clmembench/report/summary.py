"""Summary of a run: a table or two for each benchmark, and the document of them under the line of its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from clmembench import studies
from clmembench.analysis import decision, noise
from clmembench.model import CHASE_BENCHMARK, BenchmarkInfo, Header, Run, Value
from clmembench.model.metrics import gain, more_is_better
from clmembench.report.device_runs import device_label
from clmembench.report.frame import LabelledRun, Row, by_point
from clmembench.report.run_warnings import complaints, warnings, without_value
from clmembench.report.scorecard.key_quantities import key_lines
from clmembench.report.scorecard.key_tables import run_table
from clmembench.report.scorecard.scorecard import verdict
from clmembench.report.scorecard_cells import Scorecard, ScorecardCell
from clmembench.report.sections import energy_tables, peer_values, roofline_tables
from clmembench.report.sections.level_table import cycles_cell, levels_section
from clmembench.report.table import Cell, Column, Document, Entry, Table, View
from clmembench.report.views import interval, percent, point_table
from clmembench.sanitize import MAX_LINE_CHARACTERS, line
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_duration, format_in, format_param, format_params, format_value

SIZES = ("array_bytes", "n", "matrix")  # parameters that are the size of a problem
MAX_SHORT_LINES = 40  # of the tables that a run prints at its end: a screen
AROUND_A_TABLE = 3  # lines: its title, its header, and an empty one
MAX_NAMED = 4  # benchmarks that have a point without a value
NEXT_RUN = "95% of runs"
NEXT_RUN_NOTE = "95% of runs: where a further run is expected, by calibrated variation"
BROKEN = ("failed", "wrong", "timeout")
PLACES = ("compute_units", "work_groups", "placement")  # parameters that say where a point was measured


class RunSummary(NamedTuple):
    """What a run prints at its end: its key quantities, all its tables where they are short, else none, and the lines below
    them."""

    key: Document
    tables: Document
    lines: tuple[str, ...]


def sections(run: Run, table: Sequence[Row]) -> list[Table]:
    """A section or two a benchmark, in file order: levels where it has a growing axis, else its points at the largest size; and
    its points over compute units. A study has its own sections. What a hierarchy is inferred from is not for people,
    and references have a section with ours (peers)."""
    found = []
    ours = {name: card for name, card in run.header.benchmarks.items() if not card.peer_of}
    for name, card in ours.items():
        everywhere, placed = split([row for row in table if row.value.benchmark == name != CHASE_BENCHMARK])
        own = studies.tables(name)
        if everywhere and own is not None:
            found += own(run, everywhere)
        elif everywhere:
            found.append(levels_section(run, name, card, everywhere) if card.growing else _points(name, card, everywhere))
        if placed:
            found += _scalings(name, card, placed, run.header.device.kind)
    return found


def split(table: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows on the whole device, and rows of a study over compute units. Where a user asked for all points on some
    compute units there is no such study."""
    whole = [row for row in table if row.value.place.compute_units is None]
    placed = [row for row in table if row.value.place.compute_units is not None]
    return (whole, placed) if whole else (placed, [])


def _points(name: str, card: BenchmarkInfo, mine: Sequence[Row]) -> Table:
    """A line for each point at the largest size: what differs between points, the headline metric, then the others."""
    sizes = [row.value.params.get("array_bytes") for row in mine]
    largest = max((s for s in sizes if isinstance(s, int)), default=None)
    points = by_point([row for row in mine if largest is None or row.value.params.get("array_bytes") == largest])
    heads = [point[0] for point in points]
    varying, title = _varying(card.summary, heads)
    first = {row.value.metric for row in heads}
    others = list(dict.fromkeys(row.value.metric for point in points for row in point[1:] if row.value.metric not in first))
    tuned = [n for n in card.tuning if any(n in row.value.tuning for row in heads)]
    values = [MEDIAN, INTERVAL]
    if any(row.value.cycles for row in heads):
        values.append((Column("cycles", is_number=True), _if_good(lambda row: cycles_cell(row.value.cycles))))
    if any(row.fraction for row in heads):
        values.append((Column("of peak", is_number=True), _if_good(lambda row: percent(row.fraction))))
    best = Column(f"best {'/'.join(tuned)}", is_number=True)
    headings = [f"{name}: {varying[0]}" if varying[0] else name, *varying[1:]]
    view: View[list[Row]] = View(
        names=tuple((Column(heading), partial(_param, param)) for heading, param in zip(headings, varying, strict=True)),
        values=(
            *((column, _of_head(of)) for column, of in values),
            *((Column(metric, is_number=True), partial(_other_metric, metric)) for metric in others),
            *([(best, _of_head(lambda row: "/".join(str(row.value.tuning.get(n, "")) for n in tuned)))] if tuned else []),
        ),
    )
    made = view.table(points, title=title)
    return replace(made, notes=(*made.notes, *dict.fromkeys(note for row in heads for note in row.value.notes)))


def _of_head(of: Callable[[Row], Entry]) -> Callable[[Sequence[Row]], Entry]:
    """What a point shows of its headline metric."""
    return lambda point: of(point[0])


def _if_good(of: Callable[[Row], Entry]) -> Callable[[Row], Entry]:
    """What a good row shows; nothing for any other."""
    return lambda row: of(row) if row.is_good else ""


def _status_or_median(row: Row) -> Entry:
    return format_in(row.value.median, row.value.unit) if row.is_good else Cell(row.status, reason=row.reason)


MEDIAN = (Column("median", is_number=True), _status_or_median)
CPU_OVER_WALL = (
    Column("CPU/wall", is_number=True),
    lambda row: "" if row.value.cpu_over_wall is None else f"{row.value.cpu_over_wall:.2f}",
)
INTERVAL = (Column("95% interval", is_number=True), _if_good(lambda row: interval(row.value)))


def _other_metric(metric: str, point: Sequence[Row]) -> str:
    if not point[0].is_good:
        return ""
    row = {row.value.metric: row for row in point[1:]}.get(metric)
    if row is None or not row.is_good:
        return "–" if row is None or row.status == "ok" else row.status
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    return format_in(row.value.median, row.value.unit) + share


def _param(name: str, point: Sequence[Row]) -> str:
    value = point[0].value.params.get(name)
    return "" if value is None else format_param(name, value)


def _scalings(name: str, card: BenchmarkInfo, mine: Sequence[Row], kind: str) -> list[Table]:
    """A section for each point that was measured on several numbers of compute units, and one for those on one number."""
    groups: dict[str, list[Row]] = {}
    for row in mine:
        groups.setdefault(repr(sorted(_apart_from_place(card, row).items())), []).append(row)
    several = [of for of in groups.values() if len({row.value.place.compute_units for row in of}) > 1]
    alone = [row for of in groups.values() if of not in several for row in of]
    if len(groups) == 1:
        return [_scaling(name, card, mine, kind)]
    return [*(_scaling(name, card, of, kind) for of in several), *([_points(name, card, alone)] if alone else [])]


def _apart_from_place(card: BenchmarkInfo, row: Row) -> dict[str, Value]:
    """The parameters of a row that are the same on every number of compute units."""
    grows = () if card.x in SIZES else (card.x,)  # such as the number of competing work-groups
    return {name: v for name, v in row.value.params.items() if name not in (*PLACES, *grows)}


def _scaling(name: str, card: BenchmarkInfo, mine: Sequence[Row], kind: str) -> Table:
    """The headline metric of one point over compute units, beside that on the fewest of them: how many times faster, or of the
    cost of one operation how many times dearer."""
    heads = [point[0] for point in by_point(mine)]
    good = [row for row in heads if row.status == "ok" and row.value.median]
    least = min(good, key=lambda row: row.value.place.compute_units or 0, default=None)
    dearer = any(m.form == "slope" for m in card.metrics if heads and m.name == heads[0].value.metric)

    def ratio(row: Row) -> str:
        if least is None or not least.value.median or row.value.median is None:
            return ""
        times = row.value.median / least.value.median
        return format_value(times if dearer else gain(times, row.value.better))

    units = "compute units" if kind == "cpu" else "work-groups"
    over = f" over {least.value.place.compute_units}" if least is not None and least is not heads[0] else ""
    placed = any(row.value.place.placement for row in heads)
    view: View[Row] = View(
        names=(
            (Column(f"{name}: {units}"), lambda row: str(row.value.place.compute_units)),
            *([(Column("placement"), lambda row: row.value.place.placement)] if placed else []),
        ),
        values=(
            MEDIAN,
            INTERVAL,
            (Column(("cost ratio" if dearer else "speed-up") + over, is_number=True), _if_good(ratio)),
            *([CPU_OVER_WALL] if kind == "cpu" else []),
        ),
    )
    params = {k: v for k, v in (heads[0].value.params if heads else {}).items() if k not in (*PLACES, card.x)}
    if card.x in SIZES and heads and card.x in heads[0].value.params:
        params[card.x] = heads[0].value.params[card.x]
    of = f": {format_params(params)}" if params else ""
    return view.table(heads, title=f"{name} over {units}{of}.")


def _varying(summary: str, heads: Sequence[Row]) -> tuple[list[str], str]:
    """The parameters that differ between points, and the summary with those that do not."""
    names = list(dict.fromkeys(name for row in heads for name in row.value.params))
    values = {name: {repr(row.value.params.get(name)) for row in heads} for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    if not varying:  # one point: say which, where its size is not the title's
        varying = [name for name in names if name != "array_bytes"]
    same = {name: heads[0].value.params[name] for name in names if name not in varying}
    here = f"; here {format_params(same)}" if same else ""
    return varying or [""], f"{summary.rstrip('.')}{here}."


def device_line(header: Header, sheet: SpecSheet | None) -> str:
    """The device on one line: the user's label, name, what it has, its driver, the sheet its peaks come from, the host's name
    and tags."""
    device, host = header.device, header.host.get("name")
    facts = [
        *([header.label] if header.label else []),
        device.name,
        count(device.compute_units, "compute unit"),
        f"{format_bytes(device.global_mem_bytes)} memory",
        f"{device.platform} {device.driver}",
        f"peaks of {sheet.name}" if sheet else "no spec sheet",
        *([f"host {host}"] if host else []),
        *(f"{key}={value}" for key, value in header.tags.items()),
    ]
    return line(" · ".join(facts))


def summary_document(run: Run, table: Sequence[Row], sheet: SpecSheet | None, is_whole: bool = True) -> Document:
    """The summary of a run: every benchmark, the host's peers, the roofline, answers of studies, and warnings. Of a part of
    a run that is not `is_whole` there are no roofline, agreement and answers, which need all of it."""
    found = [*sections(run, table)]
    peers = peer_values.section(run, table)
    found += [peers] if peers is not None else []
    if is_whole:
        agreement = roofline_tables.agreement_section(run, table, sheet)
        found += [*roofline_tables.sections(run, table, sheet), *([agreement] if agreement is not None else [])]
        own = [study.call(study.summary, run, table) for study in studies.studies() if study.summary]
        found += [section for section in own if section is not None]
    energy = energy_tables.determined(run, table)
    found += [energy] if energy is not None else []
    return Document(tuple(found), device_line(run.header, sheet), tuple(warnings(run, table, sheet)))


def key_table(run: Run, table: Sequence[Row], sheet: SpecSheet | None, width: int | None) -> Table:
    """The key quantities of a run, a row each; no rows where it measured none of them."""
    part = LabelledRun(device_label(run.header), run, sheet, tuple(table))
    return key_quantities(verdict([part]), part, width, "Key quantities")


def key_quantities(found: Scorecard, part: LabelledRun, width: int | None, title: str = "") -> Table:
    """The key quantities of the one run of a scorecard, each with the interval of a further run's value."""
    side = decision.side_of([row.value for row in part.rows], part.run.header.device, part.run.header.host)
    factor = noise.host_factor(noise.calibrated(), side.kind, side.values) or 1.0
    lines = [replace(line, cells=(_of_next_run(line.cells[0], line.better, side, factor),)) for line in found.lines]
    made = run_table(replace(found, lines=tuple(lines)), width, title)
    columns = tuple(replace(one, name=NEXT_RUN) if one.name == INTERVAL[0].name else one for one in made.columns)
    has_any = any(line.cells[0].low is not None for _, line in key_lines(replace(found, lines=tuple(lines))))
    return replace(made, columns=columns, notes=(*made.notes, *([NEXT_RUN_NOTE] if has_any else [])))


def _of_next_run(cell: ScorecardCell, better: str, side: decision.Side, factor: float) -> ScorecardCell:
    """The cell with the interval of a further run's value, which holds its own, and ends at its peak."""
    if cell.noisy is None or cell.value is None or cell.low is None or cell.high is None:
        return cell
    low, high = decision.next_run(cell.noisy, side, noise.calibrated(), factor)
    if cell.fraction and more_is_better(better):
        high = min(high, cell.value / cell.fraction)
    return replace(cell, low=min(cell.low, low), high=max(cell.high, high))


def run_summary(run: Run, table: Sequence[Row], sheet: SpecSheet | None, width: int | None = None) -> RunSummary:
    """What a run prints at its end: the device and the time it took, its key quantities, no wider than `width` letters, all
    tables where they are short, then which points have no value, and what makes the others weaker than they look."""
    ours = peer_values.without_peers(run, table)
    device = run.header.device
    label = device_label(run.header)
    measured = f"{count(len(by_point(ours)), 'point')} of {count(len({row.value.benchmark for row in ours}), 'benchmark')}"
    seconds = _duration_s(run)
    heading = " · ".join(
        [
            label if device.kind == "cpu" else f"{label}, {device.platform} {device.driver}",
            *([run.header.label] if run.header.label else []),
            measured + (f" in {format_duration(seconds)}" if seconds else ""),
        ]
    )
    key = key_table(run, table, sheet, width)
    whole = summary_document(run, table, sheet)
    is_short = sum(len(one.rows) + len(one.notes) + AROUND_A_TABLE for one in whole.sections) <= MAX_SHORT_LINES
    shown = (replace(key, title=""),) if key.rows else ()
    return RunSummary(
        Document(shown, line(heading)), Document(whole.sections if is_short else ()), _state_lines(run, table, ours, sheet)
    )


def _duration_s(run: Run) -> float:
    """The seconds from the start of a run to its last record, without the time for which it was interrupted; 0 where its file
    does not tell."""
    known = [(datetime.fromisoformat(r.started), r.seconds) for r in run.records if r.started]
    if not known:
        return 0.0
    total, before = 0.0, datetime.fromisoformat(run.header.started)
    for started, seconds in known:
        idle = (started - before).total_seconds()
        total += seconds + (idle if 0 < idle <= run.header.timeout_s else 0.0)
        before = started + timedelta(seconds=seconds)
    return total


def _state_lines(run: Run, table: Sequence[Row], ours: Sequence[Row], sheet: SpecSheet | None) -> tuple[str, ...]:
    """In a line, which points have no value and the reason where something broke; in another, what weakens all others."""
    found = []
    for status, points in without_value(ours).items():
        values = [point.value for point in points]
        if status in BROKEN:
            first = f"{values[0].benchmark} {format_params(dict(values[0].params))}".rstrip()
            which = f"{'first: ' if len(values) > 1 else ''}{first}: {points[0].reason}"
        else:
            names = list(dict.fromkeys(value.benchmark for value in values))
            which = ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
        found.append(f"{len(values)} {status} ({which})")
    skipped = len(by_point([row for row in ours if row.status == "skipped"]))
    found += [f"{skipped} skipped"] if skipped else []
    notes = [one.what for one in complaints(run, table, sheet)]
    return (
        f"Without a value: {', '.join(found)}" if found else "Every point has a value.",
        *([f"Notes: {'; '.join(notes)}"] if notes else []),
    )


def points_document(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Document:
    """A line for each value, nothing inferred, under the line of the device, and warnings."""
    plain = point_table(table)
    wide = tuple(
        replace(column, max_cell=MAX_LINE_CHARACTERS) if column.name == "parameters" else column for column in plain.columns
    )
    values = replace(plain, title="Values, each with what it is of.", columns=wide)
    return Document((values,), device_line(run.header, sheet), tuple(warnings(run, table, sheet)))
