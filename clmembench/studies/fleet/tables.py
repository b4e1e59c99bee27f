"""Tables of a fleet for people: models, devices that stand apart, populations, drift and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clmembench.report.table import Cell, Column, Document, Entry, Table, View, columns
from clmembench.sanitize import printable
from clmembench.studies.fleet.drift import Drift
from clmembench.studies.fleet.findings import ApartDevice, ApartValue, Failing, FleetFindings, Mode, ModelSummary
from clmembench.units import count, format_in

MAX_ROWS = 50  # of a table for people; JSON has all
NOT_JUDGED = ("suspect", "undetermined", "wrong", "failed", "timeout", "skipped")
WIDE = 70  # letters that widen a column of sentences

MODELS: View[ModelSummary] = View(
    names=((Column("model"), lambda one: printable(one.model)),),
    values=(
        (Column("devices", is_number=True), lambda one: f"{one.devices:,}"),
        (Column("runs", is_number=True), lambda one: f"{one.runs:,}"),
        (Column("slow", is_number=True), lambda one: Cell(str(one.slow), kind="bad" if one.slow else "")),
        (Column("fast", is_number=True), lambda one: str(one.fast)),
        (Column("slow devices have in common", max_cell=WIDE), lambda one: _joined(one.common)),
    ),
)
APART: View[ApartDevice] = View(
    names=((Column("device"), lambda one: printable(one.device.name)),),
    values=(
        (Column("host"), lambda one: printable(one.device.host or "")),
        (Column("model"), lambda one: printable(one.device.model)),
        (Column("slow values", is_number=True), lambda one: f"{one.slow} of {one.judged}"),
        (Column("slowest", max_cell=WIDE), lambda one: _value(one.values[0])),
        (Column("reasons", max_cell=WIDE), lambda one: _joined(one.reasons)),
    ),
)
VALUES: View[ApartValue] = View(
    names=((Column("quantity"), lambda one: printable(one.quantity)),),
    values=(
        (Column("value", is_number=True), lambda one: format_in(one.value, one.unit, 4)),
        (Column("usual", is_number=True), lambda one: format_in(one.usual, one.unit, 4)),
        (Column("slower by", is_number=True), lambda one: f"{one.slower:.1%}"),
        (Column("95% interval", is_number=True), lambda one: f"{one.low:.1%} to {one.high:.1%}"),
        (Column("distance", is_number=True), lambda one: f"{one.distance:.1f}"),
    ),
)
MODES: View[Mode] = View(
    names=((Column("quantity"), lambda one: printable(one.quantity)),),
    values=(
        (Column("model"), lambda one: printable(one.model)),
        (Column("median", is_number=True), lambda one: format_in(one.value, one.unit, 4)),
        (Column("devices", is_number=True), lambda one: f"{one.devices:,} of {one.of_devices:,}"),
        (Column("have in common", max_cell=WIDE), lambda one: _joined(one.common)),
    ),
)
DRIFTS: View[Drift] = View(
    names=((Column("device"), lambda one: printable(one.name)),),
    values=(
        (Column("host"), lambda one: printable(one.host or "")),
        (Column("quantity"), lambda one: printable(one.quantity)),
        (Column("since"), lambda one: printable(one.since[:16].replace("T", " "))),
        (Column("before", is_number=True), lambda one: format_in(one.before, one.unit, 4)),
        (Column("after", is_number=True), lambda one: format_in(one.after, one.unit, 4)),
        (Column("speed ratio", is_number=True), lambda one: f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"),
        (Column("changed"), lambda one: printable(one.changed)),
    ),
)
FAILING: View[Failing] = View(
    names=((Column("device"), lambda one: printable(one.device.name)),),
    values=(
        (Column("host"), lambda one: printable(one.device.host or "")),
        (Column("wrong", is_number=True), lambda one: str(one.wrong)),
        (Column("failed", is_number=True), lambda one: str(one.failed)),
        (Column("timed out", is_number=True), lambda one: str(one.timeout)),
        (Column("example", max_cell=WIDE), lambda one: printable(one.example)),
    ),
)
FIELDS = (
    "device", "name", "host", "model", "driver", "last_run_id", "quantity", "headline", "unit", "value", "usual", "slower",
    "low", "high", "distance",
)  # fmt: skip


def _joined(sentences: Sequence[str]) -> str:
    return printable("; ".join(sentences))


def _value(one: ApartValue) -> str:
    how = "slower" if one.slower > 0 else "faster"
    values = f"{format_in(one.value, one.unit)}, usual {format_in(one.usual, one.unit)}"
    return printable(f"{one.quantity}: {values}, {abs(one.slower):.0%} {how}")


def tables(found: FleetFindings) -> dict[str, Table]:
    """The tables that have rows, by the anchors that a page gives them."""
    every = {
        "models": MODELS.table(found.models, title="Models"),
        "apart": APART.table(found.apart[:MAX_ROWS], title="Devices that stand apart"),
        "modes": MODES.table(found.modes[:MAX_ROWS], title="Several populations"),
        "drift": DRIFTS.table(found.drifts[:MAX_ROWS], title="Drift against the device's own history"),
        "failing": FAILING.table(found.failing[:MAX_ROWS], title="Wrong, failed and timed-out points of the latest runs"),
    }
    rest = {"apart": found.apart, "modes": found.modes, "drift": found.drifts}
    left = {name: len(rows) - MAX_ROWS for name, rows in rest.items()}
    whole = "clmembench fleet show STORE --json has all"
    more = {name: (f"and {number:,} more: {whole}",) for name, number in left.items() if number > 0}
    return {
        name: Table(table.title, table.columns, table.rows, (*table.notes, *more.get(name, ())))
        for name, table in every.items()
        if table.rows
    }


def summary(found: FleetFindings) -> str:
    """Devices, runs and values in a sentence."""
    devices, runs = sum(one.devices for one in found.models), sum(one.runs for one in found.models)
    slow = sum(one.slow for one in found.models)
    left = [f"{found.values[status]:,} {status}" for status in NOT_JUDGED if found.values.get(status)]
    left += [f"{found.alone:,} of models with too few devices"] if found.alone else []
    words = f"{_count(devices, 'device')} of {_count(len(found.models), 'model')}, {_count(runs, 'run')}: "
    words += f"{_count(slow, 'device')} slow, {found.judged:,} values judged"
    return words + (f", not judged: {', '.join(left)}" if left else "")


def _count(number: int, noun: str) -> str:
    return count(number, noun).replace(str(number), f"{number:,}", 1)


def document(found: FleetFindings) -> Document:
    """All tables, for a terminal or Markdown."""
    every = tables(found)
    apart = every.get("apart", Table("Devices that stand apart: none", (), ()))
    every["apart"] = Table(apart.title, apart.columns, apart.rows, (*apart.notes, found.rule))
    return Document(tuple(every.values()), summary(found))


def fields(found: FleetFindings) -> Table:
    """One line for each value that stands apart, for CSV; of each device the farthest."""
    rows: list[tuple[Entry, ...]] = []
    for one in found.apart:
        device = one.device
        stamp = (device.device, device.name, device.host, device.model, device.driver, device.last_run_id)
        for value in one.values:
            numbers = (value.value, value.usual, value.slower, value.low, value.high, value.distance)
            rows.append((*stamp, value.quantity, value.headline, value.unit, *numbers))
    return Table("", columns(FIELDS), tuple(rows))


def rows_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """The rows of a query as text."""
    shown = tuple(tuple(_text(cell) for cell in row) for row in rows)
    numbers = [bool(rows) and all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(names))]
    heads = tuple(Column(printable(name), is_number=number) for name, number in zip(names, numbers, strict=True))
    return Table("", heads, shown)


def plain_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """The rows of a query for CSV."""
    cells = tuple(tuple(cell if isinstance(cell, int | float | None) else _text(cell) for cell in row) for row in rows)
    return Table("", columns(names), cells)


def _text(cell: object) -> str:
    if isinstance(cell, Mapping):
        return printable(" ".join(f"{key}={value}" for key, value in cell.items()))
    return "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else printable(str(cell))
