"""Tables of what a kernel costs on devices, what to change for each, and how two kernels differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from clmembench.report.table import Cell, Column, Table, View, columns, noted
from clmembench.studies.kernel.facts import DevicePrediction, KernelFacts, Number
from clmembench.units import format_in, format_interval, format_value

WIDE_CELL = 60  # letters of a cell with a sentence


DEVICES: View[DevicePrediction] = View(
    names=((Column("device"), lambda one: one.device),),
    values=(
        (Column("predicted"), lambda one: _time(one)),
        (Column("bound by"), lambda one: one.bound if one.ns is not None else ""),
        (Column("MDM", is_number=True), lambda one: _baseline(one.mdm_ns)),
        (Column("roofline", is_number=True), lambda one: _baseline(one.roofline_ns)),
        (Column("bytes / bandwidth", is_number=True), lambda one: _baseline(one.bytes_ns)),
        (Column("measured"), lambda one: _measured(one)),
    ),
)


def device_tables(devices: Sequence[DevicePrediction]) -> list[Table]:
    """The devices, and the changes for each that has some."""
    if not devices:
        return []
    table = DEVICES.table(devices, title="Time of the launch on each device.")
    if all(one.measured_ns is None and not one.reason for one in devices):
        table = replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))
    return [
        table,
        *map(_changes, (one for one in devices if one.suggestions)),
    ]


def _time(one: DevicePrediction) -> Cell:
    if one.refused:
        return Cell("undetermined", reason=one.refused)
    if one.ns is None and not one.missing:
        return Cell("", reason="no --on is of this device")
    if one.ns is None:
        return Cell(
            "undetermined", reason=f"the run lacks {', '.join(one.missing)}: clmembench run -b {' -b '.join(one.missing)}"
        )
    interval = format_interval(one.low_ns, one.high_ns, "ns")
    return Cell(format_in(one.ns, "ns"), reason=_what_widens(one), more=(f"({interval})",), value=one.ns)


def _what_widens(one: DevicePrediction) -> str:
    """Why an interval is wide that another measurement would narrow; "" where none is known."""
    if not one.unmeasured:
        return ""
    how = "clmembench model validate" if "memory_divergence" in one.unmeasured else f"clmembench run -b {one.unmeasured[0]}"
    return f"its lines that are touched in part may take up to a whole line's time: {how} measures them"


def _baseline(ns: Number) -> str:
    return "" if ns is None else format_in(ns, "ns")


def _measured(one: DevicePrediction) -> Cell:
    if one.measured_ns is None:
        return Cell("", reason=one.reason)
    interval = format_interval(one.measured_low_ns, one.measured_high_ns, "ns")
    return Cell(format_in(one.measured_ns, "ns"), more=(f"({interval})",), value=one.measured_ns)


def _changes(one: DevicePrediction) -> Table:
    rows = []
    for change in one.suggestions:
        effect = one.effects.get(change.guideline, "")
        gain = Cell(f"{change.gain:.2f} times", more=(f"({change.gain_low:.2f} to {change.gain_high:.2f})",), value=change.gain)
        rows.append((str(change.line), change.guideline, change.finding, change.change, gain, effect))
    header: tuple[str | Column, ...] = (
        "line",
        "guideline",
        Column("finding", max_cell=WIDE_CELL),
        Column("change", max_cell=WIDE_CELL),
        "estimated gain",
        "effect measured",
    )
    return noted(Table(f"What to change for {one.device}", columns(header, left=6), tuple(rows)))


def difference(first: KernelFacts, second: KernelFacts) -> Table:
    """The amounts of two kernels that either has, and their ratio."""

    def rows() -> Iterator[tuple[str, str, str, str]]:
        before, after = (_amounts(one) for one in (first, second))
        for name in dict.fromkeys((*before, *after)):
            a, b = before.get(name, 0.0), after.get(name, 0.0)
            if a or b:
                yield name, format_value(a), format_value(b), f"{b / a:.3g}" if a else ""

    header = ("amount", first.kernel, f"against {second.kernel}", "ratio")
    return Table("Both kernels.", columns(header), tuple(rows()))


def _amounts(facts: KernelFacts) -> dict[str, float]:
    """Totals by name, requests to lines of 128 B and passes over 32 banks, by sub-groups of 32."""
    found = {
        name.replace("_", " "): float(value) for name, value in asdict(facts.totals).items() if isinstance(value, int | float)
    }
    for one in facts.memory:
        for name, each in (("lines requested", one.lines_per_request.get("32", {}).get("128")),
                           ("passes over banks", one.bank_conflict_ways.get("32", {}).get("32"))):  # fmt: skip
            if each is not None:
                found[name] = found.get(name, 0.0) + each * one.requests["32"]
    return found
