"""The verdict as a page shows it: groups of rows whose cells are short, and every reason is a numbered note below the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from clmembench.report.section import Reasons
from clmembench.report.verdict import OLDER
from clmembench.report.verdict_cells import Cell, Verdict

PLAIN = ("ok", "missing", "published", "theoretical", OLDER)  # statuses of cells that need no reason below the table
KINDS = {"published": "published", "theoretical": "published", OLDER: "published", "missing": "", "ok": "", "skipped": ""}


def verdict_values(found: Verdict, sentences: Sequence[str]) -> dict[str, Any]:
    """Values for the page's template. A cell's `more`, its interval and where it was read, is shown on demand."""
    reasons = Reasons()
    groups = [
        {"name": name, "lines": [_line(line.name, line.note, line.cells, reasons) for line in lines]}
        for name, lines in groupby(found.lines, lambda line: line.group)
    ]
    against = [f"In brackets: how many times as good as {found.baseline}."] if found.baseline else []
    return {
        "labels": found.labels,
        "groups": groups,
        "sentences": sentences,
        "keys": ["* the best device, and those whose 95% interval overlaps its own.", *against],
        "notes": reasons.notes(),
    }


def _line(name: str, note: str, cells: Sequence[Cell], reasons: Reasons) -> dict[str, Any]:
    return {"name": name, "note": reasons.number(note), "cells": [_cell(cell, reasons) for cell in cells]}


def _cell(cell: Cell, reasons: Reasons) -> dict[str, Any]:
    has_reason = cell.status not in PLAIN
    small = filter(None, (cell.extra, f"by an {OLDER}" if cell.status == OLDER else "", cell.ratio and f"({cell.ratio})"))
    return {
        "text": f"{cell.text}{' *' if cell.is_best else ''}",
        "note": reasons.number(cell.detail) if has_reason else "",
        "small": list(small),
        "more": "" if has_reason else cell.detail,
        "kind": "best" if cell.is_best else KINDS.get(cell.status, "bad" if cell.status != "undetermined" else "muted"),
    }
