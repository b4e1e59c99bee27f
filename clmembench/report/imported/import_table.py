"""Imported runs as tables and objects: each value with its statistic and the benchmark of ours that means the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from clmembench.report.imported.imported_headlines import joined_headlines
from clmembench.report.table import Column, Document, Table
from clmembench.results.imported import ImportedRun, ImportedValue
from clmembench.sanitize import printable
from clmembench.units import format_bytes, format_in, format_params

COLUMNS = (Column("name"), Column("value", is_number=True), Column("of"), Column("means our"), Column("note"))


def import_document(runs: Sequence[ImportedRun]) -> Document:
    """A table for each device, with what was left out of it below."""
    return Document(tuple(map(_section, runs)))


def _section(run: ImportedRun) -> Table:
    left = tuple(f"left out: {printable(reason)}" for reason in run.left_out)
    rows = [
        (printable(value.name), _value(value), _statistic(value), _ours(value), printable(value.note)) for value in run.values
    ]
    return Table(printable(f"{run.device}, {run.origin}"), COLUMNS, tuple(rows), left)


def _value(value: ImportedValue) -> str:
    return format_bytes(value.value) if value.unit == "B" else printable(format_in(value.value, value.unit, 4))


def _statistic(value: ImportedValue) -> str:
    extremes = "" if value.least is None or value.most is None else f"; from {value.least:.4g} to {value.most:.4g} {value.unit}"
    return printable(value.statistic + extremes)


def _ours(value: ImportedValue) -> str:
    """The headlines that mean the same, or else the point of a benchmark."""
    if headlines := joined_headlines(value):
        return "; ".join(headlines)
    return printable(f"{value.benchmark} {value.metric} {format_params(value.params)}") if value.benchmark else "–"


def import_objects(runs: Sequence[ImportedRun]) -> list[dict[str, Any]]:
    """One object for each device, for JSON, as in an import file."""
    return [asdict(run) | {"values": [{**asdict(v), "params": dict(v.params)} for v in run.values]} for run in runs]
