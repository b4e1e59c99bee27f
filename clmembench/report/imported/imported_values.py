"""What was not measured here: published and imported values as points of ours, cells, tables and marks; claims and data sheets.

They have no interval and take no part in ranks, ratios or statistics: others' methods differ from ours and from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clmembench.gates.whole import MEMORY_PEAK
from clmembench.model import DeviceInfo
from clmembench.report.imported.joins import BYTES, JOINS, Join, join_of, why_not_joined
from clmembench.report.scorecard_cells import Line, ScorecardCell
from clmembench.report.table import Column, Table
from clmembench.results.imported import ImportedRun, ImportedValue
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_bytes, format_in, format_params

FP64_PEAK, FP32_PEAK = "fp64_vector_gflop_s", "fp32_vector_gflop_s"
PEAKS = {"theoretical bandwidth": MEMORY_PEAK, "FP64 vector": FP64_PEAK, "FP32 vector": FP32_PEAK}
QUALIFIERS = {"": "", "about": "about ", "above": "over ", "below": "below "}
# claims by the name of the row: the number, 0 where the driver says nothing, and its text
CLAIMS: dict[str, tuple[Callable[[DeviceInfo], int], Callable[[int], str]]] = {
    "compute units": (lambda info: info.compute_units, "{:,}".format),
    "device memory": (lambda info: info.global_mem_bytes, format_bytes),
    "cache of global memory": (lambda info: info.cache_bytes, format_bytes),
    "cache line": (lambda info: info.line_bytes, format_bytes),
    "local memory of a work-group": (lambda info: info.local_mem_bytes, format_bytes),
    "work-items of a sub-group": (lambda info: info.sub_group_items, "{:,}".format),
    "work-items of a work-group, at most": (lambda info: info.max_work_group, "{:,}".format),
}
# theoretical figures by the name of the row
FIGURES = {
    "memory bandwidth": MEMORY_PEAK,
    "local memory bandwidth": "local_memory_bandwidth_gb_s",
    "FP64, vector": FP64_PEAK,
    "FP64, matrix instructions": "fp64_matrix_gflop_s",
    "FP32, vector": FP32_PEAK,
    "FP16, vector": "fp16_vector_gflop_s",
    "BF16, vector": "bf16_vector_gflop_s",
    "FP16, matrix instructions": "fp16_matrix_gflop_s",
    "BF16, matrix instructions": "bf16_matrix_gflop_s",
    "TF32, matrix instructions": "tf32_matrix_gflop_s",
    "FP8, matrix instructions": "fp8_matrix_gflop_s",
    "INT8, vector": "int8_vector_gop_s",
    "INT8, matrix instructions": "int8_matrix_gop_s",
    "host link, one direction": "link_gb_s",
}
VALUE = Column("value", is_number=True)
COLUMNS = (*map(Column, ("benchmark", "metric", "parameters")), VALUE, Column("our quantity"), Column("source"))
BENCHMARK_COLUMNS = (*map(Column, ("device", "parameters", "metric")), VALUE, Column("source"))


@dataclass(frozen=True, slots=True)
class JoinedValue:
    """A value as it was reported, and as a point of ours: with our benchmark, metric and parameters, and sizes in B."""

    value: ImportedValue
    ours: ImportedValue
    join: Join


def joined_values(run: ImportedRun) -> list[JoinedValue]:
    """The values of a run that are points of ours, in the order of JOINS; each value is one point."""
    found = [(join, value) for value in run.values if (join := join_of(value)) is not None]
    return [JoinedValue(value, _ours(value, join), join) for join, value in sorted(found, key=lambda one: JOINS.index(one[0]))]


def _ours(value: ImportedValue, join: Join) -> ImportedValue:
    scale = BYTES[value.unit] if join.unit == "B" else 1
    low, high = (None if end is None else end * scale for end in (value.low, value.high))
    params = {**join.point, **{ours: value.params[theirs] for ours, theirs in join.axes.items()}}
    named = replace(value, benchmark=join.to[0], metric=join.to[1], params=params)
    return replace(named, value=value.value * scale, unit=join.unit, low=low, high=high)


def published_points(runs: Iterable[ImportedRun]) -> list[tuple[str, ImportedValue]]:
    """What figures draw of published runs: the device and a value as a point of ours."""
    return [(run.device, one.ours) for run in runs if run.sheet is not None for one in joined_values(run)]


def value_text(value: ImportedValue) -> str:
    """A value to our digits, with its unit and its qualifier, which has no digits that the paper does not print: "about 160
    GB/s"."""
    scale = BYTES.get(value.unit)
    if scale is not None:
        return QUALIFIERS[value.qualifier] + format_bytes(value.value * scale)
    if value.qualifier:
        return f"{QUALIFIERS[value.qualifier]}{value.value:,.4g} {value.unit}"
    return format_in(value.value, value.unit)


def headline_values(run: ImportedRun) -> dict[str, JoinedValue]:
    """The values of a run by headline: of several that of the largest arrays, as with ours, or else the first by the joins."""
    found: dict[str, JoinedValue] = {}
    for one in sorted(joined_values(run), key=lambda one: -_array_bytes(one.value)):
        for headline in one.join.headlines:
            found.setdefault(headline, one)
    return found


def imported_cells(run: ImportedRun) -> dict[str, ScorecardCell]:
    """The cells of a run by headline, which have a text and no value."""
    return {headline: _cell(run, one) for headline, one in headline_values(run).items()}


def _array_bytes(value: ImportedValue) -> float:
    size = value.params.get("array_bytes", 0)
    return size if isinstance(size, int | float) else 0


def _cell(run: ImportedRun, one: JoinedValue) -> ScorecardCell:
    value, size = one.value, _array_bytes(one.value)
    quote = f"“{value.quote}”" if value.quote else ""
    detail = _joined(_source(run, value), format_params(value.params), one.join.caveat, remarks(value), quote)
    extra = "derived" if _derivation(value) else f"arrays of {format_bytes(size)}" if size else ""
    status = "imported" if run.sheet is None else "published"
    return ScorecardCell(printable(value_text(value)), extra, printable(f"{run.origin}: {detail}"), status)


def import_table(run: ImportedRun) -> Table:
    """The values of a run, each with the quantity of ours that it is, and below them what is left out."""
    rows = tuple(
        (*_names(run, value), format_params(value.params), _reported(value), _quantity(value), _cited(run, value))
        for value in run.values
    )
    left = tuple(f"left out: {reason}" for reason in run.left_out)
    return Table(f"{run.device}: {run.origin}, not measured here", COLUMNS, rows, left)


def benchmark_tables(runs: Sequence[ImportedRun]) -> dict[str, Table]:
    """The values of these devices by the benchmark of ours that they are of, or by the one that the source names."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    for run in runs:
        for value in run.values:
            (name, metric), join = _names(run, value), join_of(value)
            row = column_name(run), format_params(value.params), metric, _reported(value), _cited(run, value)
            for benchmark in {name, join.to[0] if join else name}:
                rows.setdefault(benchmark, []).append(row)
    return {name: Table("", BENCHMARK_COLUMNS, tuple(of)) for name, of in rows.items()}


def sheet_table(runs: Sequence[ImportedRun]) -> Table:
    """Theoretical figures of these devices, and the number of their values."""
    columns = (Column("device"), *(Column(name, is_number=True) for name in (*PEAKS, "results")))
    rows = ((column_name(run), *(peak_text(run.sheet, name) for name in PEAKS.values()), str(len(run.values))) for run in runs)
    return Table("Other devices, from their data sheets", columns, tuple(rows))


def column_name(run: ImportedRun) -> str:
    """The label of a device in a comparison; of imported values with the program that measured them."""
    return run.device if run.sheet is not None else f"{run.device}, {run.origin}"


def scorecard_label(run: ImportedRun) -> str:
    """The label of a device's column in a scorecard."""
    return printable(f"{run.device}, {run.origin}")


def peak_text(sheet: SpecSheet | None, name: str) -> str:
    """A theoretical figure of a sheet with its unit and what it is of."""
    figure = sheet.figures.get(name) if sheet else None
    return f"{figure.value:,g} {figure.unit} per {figure.scope}" if figure else "not known"


def _names(run: ImportedRun, value: ImportedValue) -> tuple[str, str]:
    """Benchmark and metric of a value; the program and its own name for what is none of ours."""
    return value.benchmark or run.program, value.metric or value.name


def _reported(value: ImportedValue) -> str:
    """A value to the digits of its source."""
    if value.unit == "B":
        return format_bytes(value.value)
    return f"{QUALIFIERS[value.qualifier]}{value.value:,.6g} {value.unit}"


def _quantity(value: ImportedValue) -> str:
    """The headlines in whose rows a value is shown, or the point that it is; else why it is none."""
    join = join_of(value)
    if join is None:
        why = why_not_joined(value)
        return f"none: {why}" if why else "–"
    return "; ".join(join.headlines) or f"{' '.join(join.to)} {format_params(_ours(value, join).params)}"


def _cited(run: ImportedRun, value: ImportedValue) -> str:
    return " ".join(filter(None, (_source(run, value), remarks(value))))


def _source(run: ImportedRun, value: ImportedValue) -> str:
    return f"{value.source or run.file} ({value.read_from or 'file'})"


def remarks(value: ImportedValue) -> str:
    """How a value was computed, its bounds, what it is of a program's repetitions, and what the source or the sheet notes."""
    ends = [f"{end:g}" for end in (value.low, value.high) if end is not None]
    how, extremes = _derivation(value), ""
    if value.least is not None and value.most is not None:
        extremes = f"from {value.least:.4g} to {value.most:.4g} {value.unit}"
    named = f"{value.name}: {value.statistic}" if value.name else ""
    return _joined(f"derived: {how}" if how else "", " to ".join(ends), named, extremes, value.note)


def _derivation(value: ImportedValue) -> str:
    return ": ".join(filter(None, (value.derived, value.formula)))


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def known_lines(devices: Sequence[DeviceInfo], sheets: Sequence[SpecSheet | None]) -> Iterator[Line]:
    """Claims of measured devices, then the figures of their sheets and of those of other devices, which follow; rows that none
    has are left out."""
    for name, (number, text) in CLAIMS.items():
        claims = [number(info) for info in devices]
        cells = [_claim(text(claim) if claim > 0 else "") for claim in claims] + [ScorecardCell("–")] * (
            len(sheets) - len(devices)
        )
        if any(claim > 0 for claim in claims):
            yield Line("claimed by the driver", name, "", tuple(cells))
    for name, figure in FIGURES.items():
        cells = [_figure(sheet, figure) for sheet in sheets]
        if any(cell.status == "theoretical" for cell in cells):
            yield Line("theoretical, by spec sheet", name, "", tuple(cells))


def _claim(text: str) -> ScorecardCell:
    return ScorecardCell(text, status="claimed") if text else ScorecardCell("–", detail="the driver says nothing of it")


def _figure(sheet: SpecSheet | None, name: str) -> ScorecardCell:
    known = sheet.figures.get(name) if sheet else None
    if known is None:
        return ScorecardCell("–")
    core = "core" if sheet and sheet.kind == "cpu" else "compute unit"
    scope = f" per {core if known.scope == 'core' else known.scope}" if known.scope != "device" else ""
    text = printable(f"{format_in(known.value, known.unit)}{scope}")
    return ScorecardCell(text, detail=printable(known.source), status="theoretical")
