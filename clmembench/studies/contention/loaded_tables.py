"""Tables of loaded_latency, and the bandwidth at twice the unloaded latency as a line of the comparison of devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.model import Run
from clmembench.report.finding_tables import finding_cell, interval_text
from clmembench.report.frame import LabelledRun, Row, sheet_of
from clmembench.report.scorecard_cells import Line
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.report.views import percent
from clmembench.studies.contention.loaded_curve import (
    UNLOADED,
    Interval,
    LoadedPoint,
    bandwidth_at_twice,
    loaded_points,
)
from clmembench.units import format_interval, format_value

TRAFFIC_NAMES = {"read": "reads", "read_write": "2 reads : 1 write", "copy": "copies"}
PEAK = "memory_bandwidth_gb_s"
TITLE = "Latency of memory under load: a chase by one work-item while all other compute units stream."
NOTES = (
    "spins: pauses between two batches of a work-item; bandwidth: bytes that the streams loaded and stored during the chase, "
    "as programs count them (a write that first loads its line counts once)",
)


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """The curve of each traffic, and what it says."""
    points = {(p.traffic, p.spins): p for p in loaded_points([row.value for row in rows])}
    idle = next((p.latency.value for p in points.values() if p.traffic == UNLOADED), None)
    cells = [_cells(row, points.get((str(row.value.params["traffic"]), int(row.value.params["spins"]))), idle) for row in rows]
    header = ["loaded_latency: traffic", "spins", "bandwidth, GB/s", "95% interval"]
    header += ["latency, ns", "95% interval", "times idle"]
    curve = noted(Table(TITLE, columns(header), tuple(cells), NOTES))
    sheet = sheet_of(run)
    peak = sheet.figures[PEAK].value if sheet is not None and PEAK in sheet.figures else None
    found = [_summary(list(points.values()), traffic, peak) for traffic in TRAFFIC_NAMES]
    lines = tuple(line for line in found if line is not None)
    title = "Most bandwidth beside the chase, and bandwidth at twice the unloaded latency."
    header = ["loaded_latency: of", "most, GB/s", "of peak", "at twice the latency, GB/s", "95% interval"]
    return [curve, *([noted(Table(title, columns(header), lines))] if lines else [])]


def _cells(row: Row, point: LoadedPoint | None, idle: float | None) -> tuple[Entry, ...]:
    traffic, spins = str(row.value.params["traffic"]), row.value.params["spins"]
    names = (TRAFFIC_NAMES.get(traffic, traffic), str(spins) if traffic != UNLOADED else "–")
    if point is None:
        status = row.status if not row.is_good else "undetermined"
        return (*names, "–", "–", Cell(status, reason=row.reason or "too few samples for an interval"), "–", "–")
    bandwidth = ("0", "–") if traffic == UNLOADED else _two(point.bandwidth)
    return (*names, *bandwidth, *_two(point.latency), f"{point.latency.value / idle:.2f}" if idle else "–")


def _two(value: Interval) -> tuple[str, str]:
    return format_value(value.value), format_interval(value.low, value.high, "").strip()


def _summary(points: Sequence[LoadedPoint], traffic: str, peak: float | None) -> tuple[Entry, ...] | None:
    mine = [p for p in points if p.traffic == traffic]
    if not mine:
        return None
    most = max(p.bandwidth.value for p in mine)
    found = bandwidth_at_twice(points, traffic)
    cell: Entry = Cell(found.status, reason=found.reason)
    if isinstance(found.value, int | float):
        cell = format_value(float(found.value))
    share = percent(most / peak) if peak else "–"
    return TRAFFIC_NAMES[traffic], format_value(most), share, cell, interval_text(found) or "–"


def headlines(parts: Sequence[LabelledRun]) -> Iterator[Line]:
    """Bandwidth of reads at twice the unloaded latency."""
    cells = []
    for part in parts:
        points = loaded_points([row.value for row in part.rows])
        found = bandwidth_at_twice(points, "read") if points else None
        cells.append(finding_cell(found, "not measured: benchmark loaded_latency"))
    if any(cell.status != "missing" for cell in cells):
        yield Line("bandwidth", "reads at twice the unloaded latency", "higher", tuple(cells), benchmark="", unit="GB/s")
