"""The tables of a report that are declared: all points of one run, and what a row's value is as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.report.frame import Row
from clmembench.report.table import Column, Table, View
from clmembench.units import format_in, format_interval, format_params


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A row under the label of its point; `device` is the place of its run among those of the report."""

    row: Row
    label: str
    device: int = 0


def interval(value: Derived, digits: int = 4) -> str:
    """The 95% interval of the median in the metric's unit, or a dash."""
    return format_interval(value.ci_low, value.ci_high, value.unit, digits)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if fraction is None else f"{fraction:.1%}"


def point_labels(table: Sequence[Row]) -> list[str]:
    """Label that distinguishes each row's point: its parameters, and tuning and place where those alone differ."""
    plain = [format_params(row.value.params) for row in table]
    repeated = Counter((name, row.value.benchmark, row.value.metric) for name, row in zip(plain, table, strict=True))
    full = []
    for name, row in zip(plain, table, strict=True):
        if repeated[(name, row.value.benchmark, row.value.metric)] > 1:
            cpus = row.value.place.cpus
            name = f"{name} {format_params({**row.value.tuning, **({'cpus': cpus} if cpus else {})})}".strip()
        full.append(name)
    return full


def labelled(table: Sequence[Row], device: int = 0) -> list[LabelledRow]:
    """Rows under the labels of their points."""
    return [LabelledRow(row, label, device) for label, row in zip(point_labels(table), table, strict=True)]


def _is_good(one: LabelledRow) -> bool:
    return one.row.status == "ok" and one.row.value.median is not None


POINTS: View[LabelledRow] = View(
    names=(
        (Column("benchmark"), lambda one: one.row.value.benchmark),
        (Column("parameters"), lambda one: one.label),
        (Column("metric"), lambda one: one.row.value.metric),
    ),
    values=(
        (
            Column("value", is_number=True),
            lambda one: format_in(one.row.value.median, one.row.value.unit, 4) if _is_good(one) else "–",
        ),
        (Column("95% interval"), lambda one: interval(one.row.value) if _is_good(one) else "–"),
        (Column("of peak", is_number=True), lambda one: percent(one.row.fraction) if _is_good(one) else "–"),
        (Column("n", is_number=True), lambda one: str(one.row.value.n)),
        (Column("status"), lambda one: ": ".join(filter(None, (one.row.status, one.row.value.gate, one.row.reason)))),
    ),
)


def point_table(table: Sequence[Row]) -> Table:
    """One line for each row, for people."""
    return POINTS.table(labelled(table))
