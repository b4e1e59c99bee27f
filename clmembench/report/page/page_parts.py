"""Parts of a page, as its templates take them: contents, verdict, rooflines, and the tables of all points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from clmembench.model import Run
from clmembench.model.metrics import score
from clmembench.report.figures import roofline_chart
from clmembench.report.figures.device_rows import Shown
from clmembench.report.figures.headline_panels import panel_figures
from clmembench.report.frame import Row
from clmembench.report.many_runs import fleet
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.scorecard.scorecard import MARKS, ratio_key
from clmembench.report.scorecard_cells import OLDER, Cell, Line, Scorecard
from clmembench.report.sections import roofline_tables
from clmembench.report.table import Reasons
from clmembench.report.views import interval, percent, point_labels
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.studies import studies
from clmembench.units import count, format_in

# anchors of what is no benchmark; one called like these gets a number instead
SECTIONS = {
    "verdict": "Verdict",
    "aspects": "Aspects",
    "devices": "Devices",
    "points": "All points",
    "published": "Published and imported results",
}
ASPECTS = {
    "plots": "Devices in one plot",
    "roofline": "Roofline",
    "peers": "Peers of the host",
}
SUITES = {
    "memory": "Memory",
    "link": "Host link",
    "sync": "Synchronisation",
    "compute": "Compute",
    "access": "Access patterns",
}
RESERVED = {
    *SECTIONS,
    *ASPECTS,
    *(study.name for study in studies()),
    "main",
    "contents",
    "fleet",
    "outliers",
    "facts",
    "filter",
    "intervals",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")

MAX_DEVICES_WITHOUT_BEST = 12  # devices that a screen shows side by side: of more a column names the best
MAX_NAMED_BEST = 3
PANELS_ALT = "Headline quantities of all devices, in the order of medians; all values are in the table above"
PLAIN = (
    "ok",
    "missing",
    "published",
    "imported",
    "theoretical",
    "claimed",
    OLDER,
)  # statuses of cells that need no reason below the table
KINDS = {
    **dict.fromkeys(("published", "imported", "theoretical", "claimed", OLDER), "published"),
    **dict.fromkeys(("missing", "ok", "skipped"), ""),
}

EMPTY = {"text": "", "note": "", "more": "", "bad": False}


def anchors(names: Iterable[str]) -> dict[str, str]:
    """The anchor of each benchmark: its name, or a number where the name is no identifier, or another section's anchor."""
    return {
        name: name if _NAME.fullmatch(name) and name not in RESERVED else f"benchmark-{number}"
        for number, name in enumerate(names, 1)
    }


def contents(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sections that a page with these values has, in order; each with its anchor, title, and groups of entries."""
    aspects = [(name, title) for name, title in ASPECTS.items() if page[name]]
    aspects += [(study["id"], study["title"]) for study in page["studies"]]
    groups = [_group("", aspects), *(_group(s["title"], [(p["id"], p["name"]) for p in s["parts"]]) for s in page["suites"])]
    devices = [_group("", [(device["id"], device["label"]) for device in page["devices"]])]
    entries: dict[str, Sequence[dict[str, Any]]] = {"verdict": [], "aspects": groups, "devices": devices, "points": []}
    having = {name: title for name, title in SECTIONS.items() if name in ("devices",) or page[name]}
    return [
        {"id": name, "title": title, "groups": [group for group in entries.get(name, []) if group["entries"]]}
        for name, title in having.items()
    ]


def _group(title: str, entries: Iterable[tuple[str, str]]) -> dict[str, Any]:
    return {"title": title, "entries": [{"id": anchor, "title": text} for anchor, text in entries]}


def verdict_values(found: Scorecard, sentences: Sequence[str]) -> dict[str, Any]:
    """Values for the page's template. A cell's `more`, its interval and where it was read, is shown on demand."""
    reasons = Reasons()
    measured = {place for line in found.lines for place, cell in enumerate(line.cells) if cell.value is not None}
    has_best = len(measured) > MAX_DEVICES_WITHOUT_BEST  # published columns have no values that are ranked
    groups = [
        {"name": name, "lines": [_line(line, found.labels if has_best else (), reasons) for line in lines]}
        for name, lines in groupby(found.lines, lambda line: line.group)
    ]
    against = [f"{ratio_key(found.baseline).capitalize()}."] if found.baseline else []
    return {
        "labels": found.labels,
        "has_best": has_best,
        "panels": [svg for one in panel_figures(found) for svg in embedded(one, PANELS_ALT)] if has_best else [],
        "groups": groups,
        "sentences": sentences,
        "keys": [*(f"{mark} {said}." for mark, said in MARKS.items()), *against],
        "notes": reasons.notes(),
    }


def _line(line: Line, labels: Sequence[str], reasons: Reasons) -> dict[str, Any]:
    return {
        "name": line.name,
        "note": reasons.number(line.note),
        "best": _best(line, labels),
        "cells": [_cell(cell, reasons) for cell in line.cells],
    }


def _best(line: Line, labels: Sequence[str]) -> str:
    """The devices that are the best of a line, the highest value first; "" without labels, where so few devices are compared
    that one sees it."""
    best = [(label, cell) for label, cell in zip(labels, line.cells, strict=False) if cell.is_best]
    best.sort(key=lambda one: -score(one[1].value or 0.0, line.better))
    more = len(best) - MAX_NAMED_BEST
    named = "; ".join(f"{label}: {cell.text}" for label, cell in best[:MAX_NAMED_BEST])
    return named + (f" and {more} more" if more > 0 else "")


def _cell(cell: Cell, reasons: Reasons) -> dict[str, Any]:
    has_reason = cell.status not in PLAIN
    small = filter(None, (cell.extra, f"by an {OLDER}" if cell.status == OLDER else "", cell.ratio and f"({cell.ratio})"))
    return {
        "text": f"{cell.text} {cell.mark}".rstrip(),
        "note": reasons.number(cell.detail) if has_reason else "",
        "small": list(small),
        "more": "" if has_reason else cell.detail,
        "kind": "best" if cell.is_best else KINDS.get(cell.status, "bad" if cell.status != "undetermined" else "muted"),
    }


def roofline_values(runs: Sequence[tuple[str, Run, Sequence[Row], SpecSheet | None]]) -> dict[str, Any]:
    """Values for the page's template, by the labels of runs; no devices where none has a roofline."""
    from markupsafe import Markup

    found = [
        (label, roofline_tables.tables(made, table), roofline_tables.agreement_section(run, table, sheet), made)
        for label, run, table, sheet in runs
        if (made := roofline_tables.derive_roofline(run, table, sheet)) is not None
    ]
    return {
        "source": roofline_tables.SOURCE,
        # matplotlib escapes every text it draws
        "svg": Markup(roofline_chart.drawn([(label, made) for label, _, _, made in found])),  # noqa: S704
        "devices": [
            {"label": label, "tables": tables if agreed is None else [*tables, agreed]} for label, tables, agreed, _ in found
        ],
    }


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
            cells.setdefault((label, row.value.metric), {})[device] = _point_cell(row, reasons)
    return [
        {"params": params, "metric": metric, "cells": [found.get(device, EMPTY) for device in range(len(shown))]}
        for (params, metric), found in cells.items()
    ]


def _point_cell(row: Row, reasons: Reasons) -> dict[str, Any]:
    value = row.value
    if value.median is None or row.status != "ok":
        why = ": ".join(filter(None, (value.gate, printable(row.reason))))
        return {"text": row.status, "note": reasons.number(why), "more": "", "bad": row.status != "skipped"}
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    several = f" in {count(value.processes, 'process', 'processes')}" if value.processes > 1 else ""
    more = f"{interval(value)}, n {value.n}{several}"
    return {"text": f"{format_in(value.median, value.unit, 4)}{share}", "note": "", "more": more, "bad": False}
