"""The runs of a report, each under its own name with what was derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.model import Run
from clmembench.report.rows import Row, judged_rows, sheet_of
from clmembench.sanitize import printable
from clmembench.specs import sheets as specs
from clmembench.specs.sheets import SpecSheet


@dataclass(frozen=True, slots=True)
class Part:
    """A run with what was derived from it, under the name the report gives it."""

    label: str
    run: Run
    sheet: SpecSheet | None
    rows: tuple[Row, ...]


def parts(runs: Sequence[Run], labels: Sequence[str] = ()) -> list[Part]:
    """Runs with these labels, or else the device's name; and a number where two runs have the same one. Raises SpecError."""
    names = [printable(name) for name in labels or [run.header.device.name for run in runs]]
    found, sheets = [], specs.all_sheets()
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        label = name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        sheet = sheet_of(run, sheets)
        judged, table = judged_rows(run, sheet)
        found.append(Part(label, judged, sheet, tuple(table)))
    return found
