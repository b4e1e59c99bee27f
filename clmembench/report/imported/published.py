"""Results that were published of other devices, for comparison with what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.gates.whole import MEMORY_PEAK
from clmembench.report.imported.published_map import JOINS, QUALIFIERS
from clmembench.report.table import Column, Table
from clmembench.specs.sheets import Published, SpecSheet
from clmembench.units import format_params

FP64_PEAK, FP32_PEAK = "fp64_vector_gflop_s", "fp32_vector_gflop_s"
COLUMNS = (*map(Column, ("benchmark", "metric", "parameters")), Column("value", is_number=True), Column("source"))


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """One result of another device, as text; `ours` is the benchmark of ours that it is a point of, "" where it is none."""

    benchmark: str
    metric: str
    params: str
    value: str
    source: str
    note: str
    ours: str = ""


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """Another device: its theoretical figures and the results that were published of it."""

    name: str
    heading: str
    bandwidth: str
    fp64: str
    fp32: str
    rows: tuple[PublishedResult, ...]


def published(sheets: Sequence[SpecSheet]) -> list[PublishedDevice]:
    """Published results of these devices, as text."""
    return [_device(sheet) for sheet in sheets]


def _device(sheet: SpecSheet) -> PublishedDevice:
    bandwidth, fp64, fp32 = (peak_text(sheet, name) for name in (MEMORY_PEAK, FP64_PEAK, FP32_PEAK))
    results = (
        PublishedResult(
            p.benchmark,
            p.metric,
            format_params(p.params),
            f"{QUALIFIERS[p.qualifier]}{p.value:g} {p.unit}",
            f"{p.source} ({p.read_from})",
            "; ".join(filter(None, (_derivation(p), p.note))),
            next((join.to[0] for join in JOINS if join.holds(p)), ""),
        )
        for p in sheet.published
    )
    name = sheet.name if sheet.origin == "published" else f"{sheet.name}, {sheet.origin}"
    heading = f"{sheet.name}: {sheet.origin}, not measured here"
    return PublishedDevice(name, heading, bandwidth, fp64, fp32, tuple(results))


def _derivation(result: Published) -> str:
    """How a value was computed, and its bounds where it has any."""
    how = ": ".join(filter(None, (result.derived, result.formula)))
    ends = [f"{end:g}" for end in (result.low, result.high) if end is not None]
    return "; ".join(filter(None, (f"derived: {how}" if how else "", " to ".join(ends))))


def published_table(device: PublishedDevice) -> Table:
    """One line for each published result of a device."""
    rows = ((r.benchmark, r.metric, r.params, r.value, f"{r.source} {r.note}".strip()) for r in device.rows)
    return Table("", COLUMNS, tuple(rows))


def peak_text(sheet: SpecSheet | None, name: str) -> str:
    """A theoretical figure of a sheet with its unit and what it is of."""
    figure = sheet.figures.get(name) if sheet else None
    return f"{figure.value:g} {figure.unit} a {figure.scope}" if figure else "not known"
