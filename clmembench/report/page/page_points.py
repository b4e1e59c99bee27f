"""The tables of all points of a page: a row a point and metric, a cell a device, and reasons as notes below the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clmembench.report.figures.device_rows import Shown
from clmembench.report.many_runs import fleet
from clmembench.report.rows import Row, interval, percent, point_labels
from clmembench.report.section import Reasons
from clmembench.sanitize import printable
from clmembench.units import count, format_in

EMPTY = {"text": "", "note": "", "more": "", "bad": False}


def point_values(name: str, shown: Sequence[Shown], groups: Sequence[fleet.DeviceGroup]) -> dict[str, Any]:
    """The table of a benchmark's points over the devices `shown`, or over `groups` where a report is of many runs."""
    columns = [group.label for group in groups] or [device.label for device in shown]
    reasons = Reasons()
    rows = fleet.points(groups, name) if groups else _compared(shown, reasons)
    return {"columns": columns, "rows": rows, "notes": reasons.notes()}


def _compared(shown: Sequence[Shown], reasons: Reasons) -> list[dict[str, Any]]:
    """One line for each point and metric, one cell a device."""
    cells: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for device, part in enumerate(shown):
        for label, row in zip(point_labels(part.rows), part.rows, strict=True):
            cells.setdefault((label, row.value.metric), {})[device] = _cell(row, reasons)
    return [
        {"params": params, "metric": metric, "cells": [found.get(device, EMPTY) for device in range(len(shown))]}
        for (params, metric), found in cells.items()
    ]


def _cell(row: Row, reasons: Reasons) -> dict[str, Any]:
    value = row.value
    if value.median is None or row.status != "ok":
        why = ": ".join(filter(None, (value.gate, printable(row.reason))))
        return {"text": row.status, "note": reasons.number(why), "more": "", "bad": row.status != "skipped"}
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    several = f" in {count(value.processes, 'process', 'processes')}" if value.processes > 1 else ""
    more = f"{interval(value)}, n {value.n}{several}"
    return {"text": f"{format_in(value.median, value.unit, 4)}{share}", "note": "", "more": more, "bad": False}
