"""A device's history as tables for people and fields for CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench.report.many_runs.history import DeviceHistory, HistoryQuantity
from clmembench.report.table import Column, Document, Entry, Table, columns
from clmembench.sanitize import MAX_LINE_CHARACTERS, printable
from clmembench.units import format_in, format_interval

RUN_COLUMNS = (Column("run", is_number=True), *map(Column, ("started", "driver", "clmembench", "file", "changed")))
COLUMNS = (
    Column("quantity", max_cell=MAX_LINE_CHARACTERS), Column("point", max_cell=MAX_LINE_CHARACTERS),
    Column("runs", is_number=True), Column("first", is_number=True), Column("latest", is_number=True),
    Column("95% interval"), Column("least to most"), Column("change points"),
)  # fmt: skip
FIELDS = (
    "device", "run", "run_id", "started", "driver", "tool_version", "file", "group", "quantity", "point", "version", "unit",
    "better", "status", "value", "low", "high", "changes_here",
)  # fmt: skip


def history_document(found: Sequence[DeviceHistory]) -> Document:
    """The runs of each device, and its quantities."""
    return Document(tuple(table for one in found for table in _tables(one)))


def _tables(one: DeviceHistory) -> list[Table]:
    return [_runs(one), _quantities(one)] if one.quantities else [replace(_runs(one), notes=one.notes)]


def _runs(one: DeviceHistory) -> Table:
    rows = [
        (str(run.run), run.started[:16].replace("T", " "), run.driver, run.tool_version, run.file, run.changed)
        for run in one.runs
    ]
    return Table(f"{one.device}: runs", RUN_COLUMNS, tuple(rows))


def _quantities(one: DeviceHistory) -> Table:
    rows = []
    for quantity in one.quantities:
        good, unit = quantity.good(), quantity.unit
        first, latest, values = good[0], good[-1], [moment.value for moment in good if moment.value is not None]
        rows.append(
            (
                printable(f"{quantity.group}: {quantity.quantity}"),
                printable(quantity.point),
                str(len(good)),
                format_in(first.value, unit, 4),
                format_in(latest.value, unit, 4),
                format_interval(latest.low, latest.high, unit, 4),
                format_interval(min(values), max(values), unit, 4),
                _changes(one, quantity),
            )
        )
    return Table(f"{one.device}: medians", COLUMNS, tuple(rows), one.notes)


def _changes(one: DeviceHistory, quantity: HistoryQuantity) -> str:
    """The change points in words, or why there are none."""
    if quantity.reason:
        return "not looked for"
    sentences = []
    for change in quantity.change_points:
        ratio = f"x {change.ratio:.3f} ({change.low:.3f} to {change.high:.3f})"
        why = f", with {change.changed}" if change.changed else ""
        sentences.append(f"from run {change.run} on ({one.runs[change.run - 1].started[:10]}): {ratio}{why}")
    return "; ".join(sentences) or "none"


def history_fields(found: Sequence[DeviceHistory]) -> Table:
    """One line for each quantity and run, for CSV."""
    rows: list[tuple[Entry, ...]] = []
    for one in found:
        for of in one.quantities:
            changed = {change.run for change in of.change_points}
            for moment in of.values:
                run = one.runs[moment.run - 1]
                stamp = (one.device, run.run, run.run_id, run.started, run.driver, run.tool_version, run.file)
                what = (of.group, of.quantity, of.point, of.version, of.unit, of.better)
                numbers = (moment.status, moment.value, moment.low, moment.high, moment.run in changed)
                rows.append((*stamp, *what, *numbers))
    return Table("", columns(FIELDS), tuple(rows))
