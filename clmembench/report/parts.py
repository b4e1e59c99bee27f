"""The runs of a report, each under its own name with what was derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clmembench.model import Run
from clmembench.report.rows import Row, judged_rows, sheet_of
from clmembench.sanitize import printable
from clmembench.specs import sheets as specs
from clmembench.specs.sheets import SpecSheet
from clmembench.studies import studies

Findings = Mapping[str, Any]  # by the name of the study that found it


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """A run with what was derived from it, under the name the report gives it."""

    label: str
    run: Run
    sheet: SpecSheet | None
    rows: tuple[Row, ...]
    findings: Findings = field(default_factory=dict)


def with_findings(runs: Sequence[Run]) -> tuple[list[Run], list[Findings]]:
    """Runs with what the studies find in each, the runs of one device checked against each other. Raises SpecError where two
    spec sheets match a device, or one is damaged."""
    found: list[dict[str, object]] = [{} for _ in runs]
    for study in studies():
        if study.findings:
            runs, own = study.call(study.findings, runs)
            for findings, one in zip(found, own, strict=True):
                findings |= {study.name: one} if one is not None else {}
    return list(runs), [*found]


def parts(runs: Sequence[Run], labels: Sequence[str] = (), findings: Sequence[Findings] = ()) -> list[LabelledRun]:
    """Runs with these labels, or else the device's name, and a number where two runs have the same one; and with the findings
    of the studies, for as many runs as there are any. Raises SpecError."""
    names = [printable(name) for name in labels or [run.header.device.name for run in runs]]
    found, sheets = [], specs.all_sheets()
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        label = name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        sheet = sheet_of(run, sheets)
        judged, table = judged_rows(run, sheet)
        found.append(LabelledRun(label, judged, sheet, tuple(table), findings[index] if index < len(findings) else {}))
    return found
