"""One report over any number of runs and devices as Markdown, its tables as LaTeX, and what it begins with as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench.model import Run
from clmembench.report import render, summary
from clmembench.report.device_runs import Findings, short_names
from clmembench.report.frame import LabelledRun, parts
from clmembench.report.imported.imported_values import import_table
from clmembench.report.many_runs import fleet
from clmembench.report.many_runs.fleet_scorecard import fleet_verdict
from clmembench.report.page.page import MAX_TITLE_DEVICES, SECTIONS
from clmembench.report.scorecard.answers import answers, further_details
from clmembench.report.scorecard.key_tables import devices_table, run_table
from clmembench.report.scorecard.scorecard import verdict
from clmembench.report.scorecard_cells import Scorecard
from clmembench.report.table import Document, Table, one_table
from clmembench.report.views import point_table, scorecard_keys, scorecard_table
from clmembench.results.imported import ImportedRun
from clmembench.sanitize import markdown
from clmembench.studies import studies
from clmembench.units import count


def render_markdown(
    runs: Sequence[Run],
    others: Sequence[ImportedRun] = (),
    findings: Sequence[Findings] = (),
    groups: Sequence[fleet.DeviceGroup] = (),
    labels: Sequence[str] = (),
    baseline: str = "",
) -> str:
    """Answers with their evidence; devices side by side where there are several; the spreads of a fleet, where `groups` has
    one; the summaries of all runs, each followed by what the studies found in it, by `findings`, and all its points; and the
    values of `others`. Raises UnknownDevice where none has the label of the `baseline`."""
    all_parts = parts(runs, labels, findings)
    compared = verdict(all_parts, baseline, others)
    first = [_answers(compared, all_parts, others)]
    if len(compared.labels) > 1 and compared.lines:
        first.append(render.markdown(one_table(_scorecard(compared))))
    first += [render_fleet_markdown(groups)] if groups else []
    measured = first + [_measured(part) for part in all_parts]
    elsewhere = Document(tuple(map(import_table, others)), SECTIONS["published"])
    return "\n".join([*measured, *([render.markdown(elsewhere)] if others else [])])


def render_text(
    runs: Sequence[Run],
    others: Sequence[ImportedRun] = (),
    findings: Sequence[Findings] = (),
    groups: Sequence[fleet.DeviceGroup] = (),
    labels: Sequence[str] = (),
    baseline: str = "",
    width: int | None = None,
    colour: bool = False,
) -> str:
    """What the page begins with, on a terminal: the answers, and the key quantities of the devices, or of the one. Raises
    UnknownDevice where none has the label of the `baseline`."""
    all_parts = parts(runs, labels, findings)
    compared = fleet_verdict(groups, baseline, others) if groups else verdict(all_parts, baseline, others)
    names = short_names(compared.labels)
    heading = ", ".join(compared.labels) if len(names) <= MAX_TITLE_DEVICES else count(len(names), "device")
    told = render.wrapped((answer.text for answer in answers(compared, all_parts, others)), width)
    if len(names) > 1:
        table = devices_table(compared, names, width)
    elif groups or not all_parts:
        table = run_table(compared, width)
    else:
        table = summary.key_quantities(compared, all_parts[0], width)
    opening = render.text(Document((), heading), colour, width)
    shown = ["", *render.aligned_with_notes(table, width, colour)] if table.rows else ["No key quantity was measured."]
    return "\n".join([opening, *told, *shown])


def _answers(found: Scorecard, all_parts: Sequence[LabelledRun], others: Sequence[ImportedRun]) -> str:
    """Each answer as an item, its evidence as items of it, then what belongs to none of them."""
    lines = []
    for answer in answers(found, all_parts, others):
        lines += [f"- **{markdown(answer.text)}**", *(f"  - {markdown(detail)}" for detail in answer.details)]
    lines += [f"- {markdown(detail)}" for detail in further_details(found, all_parts, others)]
    return "\n".join([*lines, ""]) if lines else ""


def _scorecard(found: Scorecard) -> Table:
    """Devices side by side, the keys of their marks before the other notes."""
    table = scorecard_table(found)
    return replace(table, notes=(*scorecard_keys(found), *table.notes))


def _measured(part: LabelledRun) -> str:
    shown = render.markdown(summary.summary_document(part.run, part.rows, part.sheet))
    own = [study.call(study.markdown, part) for study in studies() if study.markdown and study.name in part.findings]
    found = "".join(f"{one}\n" for one in own)
    points = render.markdown(one_table(point_table(part.rows)))
    return f"{shown}\n{found}### All points\n\n{points}\n"


def render_fleet_markdown(groups: Sequence[fleet.DeviceGroup]) -> str:
    """A report over many runs: their devices, and of each device every point's spread over its runs."""
    runs = sum(len(group.runs) for group in groups)
    lines = [f"## {count(runs, 'run')}", "", render.markdown(one_table(fleet.group_table(groups)))]
    for name in fleet.versions(groups):
        lines += ["", f"### {markdown(name)}", "", render.markdown(one_table(fleet.points(groups, name)))]
    return "\n".join([*lines, ""])


def render_latex(
    runs: Sequence[Run],
    others: Sequence[ImportedRun] = (),
    findings: Sequence[Findings] = (),
    labels: Sequence[str] = (),
    baseline: str = "",
    groups: Sequence[fleet.DeviceGroup] = (),
) -> str:
    """Tables for booktabs, of one device too; of many runs (`groups`) that of the devices first. Titles and notes are comments.
    Raises UnknownDevice where none has the label of the `baseline`."""
    all_parts = parts(runs, labels, findings)
    compared = verdict(all_parts, baseline, others)
    tables: list[Table] = [fleet.group_table(groups)] if groups else []
    tables += [_scorecard(compared)] if compared.lines else []
    for part in all_parts:
        document = summary.summary_document(part.run, part.rows, part.sheet)
        tables += [replace(one, title=f"{part.label}: {one.title}") for one in document.sections]
    return render.latex(Document(tuple(tables)))
