"""The verdict as a page shows it: groups of rows whose cells are short, and every reason is a numbered note below the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from clmembench.model.metrics import score
from clmembench.report.figures.headline_panels import panel_figures
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.scorecard.scorecard import MARKS, ratio_key
from clmembench.report.scorecard_cells import OLDER, Cell, Line, Scorecard
from clmembench.report.section import Reasons

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
