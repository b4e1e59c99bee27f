"""A device's history as tables for people, fields for CSV and objects for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clmembench.analysis.noise import RULE
from clmembench.report.many_runs.history import DeviceHistory, HistoryQuantity, changed_at
from clmembench.report.table import Cell, Column, Document, Table, columns
from clmembench.sanitize import printable
from clmembench.units import format_in, format_interval

if TYPE_CHECKING:
    from clmembench.report.json_outputs import HistoryObject, QuantityObject

RUN_COLUMNS = (Column("run", is_number=True), *map(Column, ("started", "driver", "clmembench", "file", "changed")))
COLUMNS = (
    Column("quantity"), Column("point"), Column("runs", is_number=True), Column("first", is_number=True),
    Column("latest", is_number=True), Column("95% interval"), Column("least to most"), Column("change points"),
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
        (str(place + 1), stamp.started[:16].replace("T", " "), stamp.driver, stamp.tool_version, stamp.path, stamp.changed)
        for place, stamp in enumerate(one.runs)
    ]
    return Table(f"{one.label}: runs", RUN_COLUMNS, tuple(rows))


def _quantities(one: DeviceHistory) -> Table:
    rows = []
    for quantity in one.quantities:
        good, unit = quantity.good(), quantity.unit
        first, latest, values = good[0], good[-1], [moment.value for moment in good if moment.value is not None]
        rows.append(
            (
                printable(f"{quantity.group}: {quantity.name}"),
                printable(quantity.point),
                str(len(good)),
                format_in(first.value, unit, 4),
                format_in(latest.value, unit, 4),
                format_interval(latest.low, latest.high, unit, 4),
                format_interval(min(values), max(values), unit, 4),
                _changes(one, quantity),
            )
        )
    return Table(f"{one.label}: medians", COLUMNS, tuple(rows), one.notes)


def _changes(one: DeviceHistory, quantity: HistoryQuantity) -> str:
    """The change points in words, or why there are none."""
    if quantity.reason:
        return "not looked for"
    told = []
    for change in quantity.changes:
        place, why = changed_at(one, quantity, change)
        ratio = f"x {change.ratio.value:.3f} ({change.ratio.low:.3f} to {change.ratio.high:.3f})"
        told.append(f"from run {place + 1} on ({one.runs[place].started[:10]}): {ratio}{f', with {why}' if why else ''}")
    return "; ".join(told) or "none"


def history_fields(found: Sequence[DeviceHistory]) -> Table:
    """One line for each quantity and run, for CSV."""
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        for of in one.quantities:
            places = {changed_at(one, of, change)[0] for change in of.changes}
            for moment in of.moments:
                run = one.runs[moment.run]
                stamp = (one.label, moment.run + 1, run.run_id, run.started, run.driver, run.tool_version, run.path)
                what = (of.group, of.name, of.point, of.version, of.unit, of.better)
                numbers = (moment.status, moment.value, moment.low, moment.high, moment.run in places)
                rows.append((*stamp, *what, *numbers))
    return Table("", columns(FIELDS), tuple(rows))


def history_objects(found: Sequence[DeviceHistory]) -> list[HistoryObject]:
    """One object for each device, for JSON; runs are counted from 1."""
    return [
        {
            "device": one.label,
            "runs": [
                {
                    "run": place + 1,
                    "run_id": stamp.run_id,
                    "started": stamp.started,
                    "driver": stamp.driver,
                    "tool_version": stamp.tool_version,
                    "file": stamp.path,
                    "changed": stamp.changed,
                }
                for place, stamp in enumerate(one.runs)
            ],
            "quantities": [_quantity_object(one, quantity) for quantity in one.quantities],
            "rule": RULE,
            "notes": list(one.notes),
        }
        for one in found
    ]


def _quantity_object(one: DeviceHistory, quantity: HistoryQuantity) -> QuantityObject:
    places = [(*changed_at(one, quantity, change), change.ratio) for change in quantity.changes]
    return {
        "group": quantity.group,
        "quantity": quantity.name,
        "point": quantity.point,
        "version": quantity.version,
        "unit": quantity.unit,
        "better": quantity.better,
        "values": [
            {"run": m.run + 1, "status": m.status, "value": m.value, "low": m.low, "high": m.high} for m in quantity.moments
        ],
        "change_points": [
            {"run": place + 1, "ratio": ratio.value, "low": ratio.low, "high": ratio.high, "changed": why}
            for place, why, ratio in places
        ],
        "reason": quantity.reason,
    }
