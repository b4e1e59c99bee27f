"""Summary of a run: a table or two for each benchmark, and the document of them under the line of its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench import studies
from clmembench.model import CHASE_BENCHMARK, BenchmarkInfo, Header, Run, Value
from clmembench.model.metrics import gain
from clmembench.report.frame import Row, by_point
from clmembench.report.run_warnings import warnings
from clmembench.report.sections import energy_tables, peer_values, roofline_tables
from clmembench.report.sections.level_table import cycles_cell, levels_section
from clmembench.report.table import Document, Reasons, Table, columns
from clmembench.report.views import interval, percent, point_table
from clmembench.sanitize import MAX_LINE_CHARACTERS, line
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in, format_param, format_params, format_value

SIZES = ("array_bytes", "n", "matrix")  # parameters that are the size of a problem
PLACES = ("compute_units", "work_groups", "placement")  # parameters that say where a point was measured


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
    cycles = any(row.value.cycles for row in heads)
    fractions = any(row.fraction for row in heads)
    tuned = [n for n in card.tuning if any(n in row.value.tuning for row in heads)]
    found, reasons = [], Reasons()
    for point in points:
        row, value = point[0], point[0].value
        cells = [_cell(n, value.params.get(n)) for n in varying]
        more = {r.value.metric: r for r in point[1:]}
        if value.median is None or row.status != "ok":
            cells += [row.status, reasons.number(row.reason)] + [""] * (cycles + fractions + len(others))
        else:
            cells += [format_in(value.median, value.unit), interval(value)]
            cells += [cycles_cell(value.cycles)] * cycles + [percent(row.fraction)] * fractions
            cells += [_median(more.get(metric)) for metric in others]
        cells += ["/".join(str(value.tuning.get(n, "")) for n in tuned)] * bool(tuned)
        found.append(tuple(cells))
    header = [f"{name}: {varying[0]}" if varying[0] else name, *varying[1:], "median", "95% interval"]
    header += ["cycles"] * cycles + ["of peak"] * fractions + others + [f"best {'/'.join(tuned)}"] * bool(tuned)
    notes = dict.fromkeys(note for row in heads for note in row.value.notes)
    return Table(title, columns(tuple(header), left=len(varying)), tuple(found), (*reasons.notes(), *notes))


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
    named = any(row.value.place.placement for row in heads)
    found, reasons = [], Reasons()
    for row in heads:
        value, place = row.value, row.value.place
        cells = [str(place.compute_units)] + [place.placement] * named
        if value.median is None or row.status != "ok" or least is None:
            cells += [row.status, reasons.number(row.reason), ""]
        else:
            assert least.value.median
            times = value.median / least.value.median
            cells += [format_in(value.median, value.unit), interval(value)]
            cells += [format_value(times if dearer else gain(times, value.better))]
        used = f"{value.cpu_over_wall:.2f}" if value.cpu_over_wall is not None else ""
        found.append(tuple(cells + [used] * (kind == "cpu")))
    units = "compute units" if kind == "cpu" else "work-groups"
    params = {k: v for k, v in (heads[0].value.params if heads else {}).items() if k not in (*PLACES, card.x)}
    if card.x in SIZES and heads and card.x in heads[0].value.params:
        params[card.x] = heads[0].value.params[card.x]
    over = f" over {least.value.place.compute_units}" if least is not None and least is not heads[0] else ""
    header = (f"{name}: {units}",) + ("placement",) * named
    header += ("median", "95% interval", ("cost ratio" if dearer else "speed-up") + over) + ("CPU/wall",) * (kind == "cpu")
    of = f": {format_params(params)}" if params else ""
    return Table(f"{name} over {units}{of}.", columns(header, left=1 + named), tuple(found), reasons.notes())


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


def _cell(name: str, value: object) -> str:
    return "" if value is None else format_param(name, value)


def _median(row: Row | None) -> str:
    if row is None or row.value.median is None or row.status != "ok":
        return "–" if row is None or row.status == "ok" else row.status
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    return format_in(row.value.median, row.value.unit) + share


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


def points_document(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Document:
    """A line for each value, nothing inferred, under the line of the device, and warnings."""
    plain = point_table(table)
    wide = tuple(
        replace(column, max_cell=MAX_LINE_CHARACTERS) if column.name == "parameters" else column for column in plain.columns
    )
    values = replace(plain, title="Values, each with what it is of.", columns=wide)
    return Document((values,), device_line(run.header, sheet), tuple(warnings(run, table, sheet)))
