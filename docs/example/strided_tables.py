"""Table of strided reads: useful bandwidth by stride, and its fraction of that of neighbouring words."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import Run
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Column, Entry, Table, View
from clmembench.report.views import interval, percent
from clmembench.units import format_value


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """One line for each stride; a point without a value has its status, with the reason as a note."""
    neighbours = next((row.value.median for row in rows if row.value.params["stride"] == 1), None)

    def bandwidth(row: Row) -> Entry:
        if row.value.median is None or not row.is_good:
            return Cell(row.status, reason=row.reason)
        return f"{format_value(row.value.median)} {row.value.unit}"

    def share(row: Row) -> str:
        return percent(row.value.median / neighbours if row.value.median and row.is_good and neighbours else None)

    strides: View[Row] = View(
        names=((Column("strided_read: stride"), lambda row: str(row.value.params["stride"])),),
        values=(
            (Column("useful bandwidth", is_number=True), bandwidth),
            (Column("95% interval", is_number=True), lambda row: interval(row.value) if row.is_good else ""),
            (Column("of stride 1", is_number=True), share),
        ),
    )
    title = "Useful bandwidth of strided reads, and its fraction of that of neighbouring words."
    return [strides.table(rows, title=title)]
