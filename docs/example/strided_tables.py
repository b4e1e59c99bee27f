"""Table of strided reads: useful bandwidth by stride, and its fraction of that of neighbouring words."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import Run
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.report.views import interval, percent
from clmembench.units import format_value


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """One line for each stride; a point without a value has its status, with the reason as a note."""
    lines: list[tuple[Entry, ...]] = []
    neighbours = next((row.value.median for row in rows if row.value.params["stride"] == 1), None)
    for row in rows:
        stride, median = str(row.value.params["stride"]), row.value.median
        if row.status != "ok" or median is None:
            lines.append((stride, Cell(row.status, reason=row.reason), "–", "–"))
            continue
        share = median / neighbours if neighbours else None
        lines.append((stride, f"{format_value(median)} {row.value.unit}", interval(row.value), percent(share)))
    header = ("strided_read: stride", "useful bandwidth", "95% interval", "of stride 1")
    title = "Useful bandwidth of strided reads, and its fraction of that of neighbouring words."
    return [noted(Table(title, columns(header), tuple(lines)))]
