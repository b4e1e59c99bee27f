"""The tables of a report as LaTeX: the verdict, then the summary of each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench.model import Run
from clmembench.report import render, terminal
from clmembench.report.device_runs import Findings, parts
from clmembench.report.many_runs import fleet
from clmembench.report.scorecard.scorecard import verdict, verdict_section
from clmembench.report.section import Document, Section
from clmembench.specs.sheets import SpecSheet


def render_latex(
    runs: Sequence[Run],
    others: Sequence[SpecSheet] = (),
    findings: Sequence[Findings] = (),
    labels: Sequence[str] = (),
    baseline: str = "",
    groups: Sequence[fleet.DeviceGroup] = (),
) -> str:
    """Tables for booktabs, of one device too; of many runs (`groups`) that of the devices first. Titles and notes are comments.
    Raises UnknownDevice where none has the label of the `baseline`."""
    all_parts = parts(runs, labels, findings)
    compared = verdict(all_parts, baseline, others)
    tables: list[Section] = [fleet.group_table(groups)] if groups else []
    tables += [verdict_section(compared)] if compared.lines else []
    for part in all_parts:
        summary = terminal.summary_document(part.run, part.rows, part.sheet)
        tables += [replace(one, title=f"{part.label}: {one.title}") for one in summary.sections]
    return render.latex(Document(tuple(tables)))
