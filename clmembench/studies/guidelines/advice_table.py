"""Guidelines that a run gives the author of a kernel, each with verdict, effect and advice: as tables and as grouped text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from clmembench.model import Run
from clmembench.report import render
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.table import Cell, Column, Table, View, columns
from clmembench.sanitize import line
from clmembench.studies.access import throughput_tables
from clmembench.studies.access.subgroup import SUBGROUP_BENCHMARK
from clmembench.studies.guidelines.advice import Advice
from clmembench.studies.guidelines.all_guidelines import advice_of_guidelines
from clmembench.units import format_value

TEMPLATES = Path(__file__).parent / "templates"
COLUMNS = (*map(Column, ("id", "guideline", "verdict")), Column("effect", is_number=True), Column("advice"))
WIDTH, MIN_WIDTH = 100, 40  # letters of a line
_wrapped = partial(textwrap.wrap, break_on_hyphens=False)
EVIDENCE_BENCHMARKS = (
    SUBGROUP_BENCHMARK,
    "banks",
    "datatypes",
    "copy_grid",
    "private_array",
)  # benchmarks that guidelines are derived from
GROUPS = {
    "L": "Private arrays",
    "S": "Local memory",
    "C": "Constant memory",
    "G": "Global memory",
    "T": "Images",
    "X": "Beyond the paper",
}
MARKS = {"holds": "+", "does not hold": "-", "undetermined": "?", "not applicable": " "}


def has_evidence(run: Run) -> bool:
    """True where a run has records that guidelines are derived from."""
    return any(record.benchmark in EVIDENCE_BENCHMARKS for record in run.records)


def section(run: Run, table: Sequence[Row]) -> Table | None:
    """The guidelines as a section of a summary; None where the run holds nothing for them."""
    if not has_evidence(run):
        return None
    found = derive_guidelines(run, table)
    rows = [(a.id, a.verdict, effect_text(a), _advice(a)) for a in found if _founded(a)]
    left = len(found) - len(rows)
    notes = (f"this run has no evidence for {left} more guidelines: clmembench advise measures all of it",) if left else ()
    title = "Guidelines for kernels (Fang et al. 2017, re-derived from this run; X: beyond the paper)."
    return Table(title, columns(("guideline", "verdict", "effect (95% interval)", "advice"), left=4), tuple(rows), notes)


def _founded(advice: Advice) -> bool:
    """True where the run has evidence for or against the guideline."""
    return bool(advice.evidence) or advice.verdict != "undetermined"


@dataclass(frozen=True, slots=True)
class RunAdvice:
    """A guideline as one of several runs has it; `guideline` is its text, which all runs share."""

    run: int
    guideline: str
    advice: Advice


GUIDELINES: View[RunAdvice] = View(
    names=((Column("id"), lambda one: one.advice.id), (Column("guideline"), lambda one: one.guideline)),
    values=(
        (
            Column("verdict"),
            lambda one: Cell(one.advice.verdict, more=tuple(filter(None, (effect_text(one.advice), _advice(one.advice))))),
        ),
    ),
    across=lambda one: one.run,
)


def page(parts: Sequence[LabelledRun]) -> str:
    """The guidelines of all devices, a column for each run that has evidence; "" where none has."""
    mine = [part for part in parts if has_evidence(part.run)]
    texts: dict[str, str] = {}
    found = [
        RunAdvice(number, texts.setdefault(advice.id, advice.guideline), advice)
        for number, part in enumerate(mine)
        for advice in derive_guidelines(part.run, part.rows)
    ]
    table = GUIDELINES.table(found, [part.label for part in mine])
    without = [part.label for part in parts if not has_evidence(part.run)]
    return render.html("guidelines.html.j2", {"guidelines": table, "without": without}, TEMPLATES) if found else ""


def derive_guidelines(run: Run, table: Sequence[Row]) -> list[Advice]:
    """The guidelines as this run's rows have them."""
    mine = [row for row in table if row.value.benchmark == "copy_grid"]
    findings = throughput_tables.concurrent(run, mine) if mine else {}
    smallest = throughput_tables.smallest_element(run, [row for row in table if row.value.benchmark == "datatypes"])
    found = findings | {smallest.name: smallest}
    return advice_of_guidelines([row.value for row in table], run.header.device, found)


def effect_text(advice: Advice) -> str:
    """The effect with its interval; "" where there is none."""
    if advice.effect is None:
        return ""
    value = f"{format_value(advice.effect)} {advice.unit}"
    if advice.low is None or advice.high is None:
        return value
    low, high = format_value(advice.low), format_value(advice.high)
    return value if low == high == format_value(advice.effect) else f"{value} ({low} to {high})"


def guideline_table(found: Sequence[Advice]) -> Table:
    """One line for each guideline."""
    return Table("", COLUMNS, tuple((a.id, a.guideline, a.verdict, effect_text(a), _advice(a)) for a in found))


def guideline_text(found: Sequence[Advice], width: int | None = None) -> str:
    """Guidelines grouped by memory: a mark, the id and the advice, then the claim and its effect here; no wider than WIDTH or
    `width` columns."""
    width = min(WIDTH, max(MIN_WIDTH, width or WIDTH))
    lines: list[str] = []
    for letter, title in GROUPS.items():
        mine = [a for a in found if a.id.startswith(letter)]
        if mine:
            lines += [title, *(text for a in mine for text in _lines(a, width)), ""]
    counts = {verdict: sum(a.verdict == verdict for a in found) for verdict in MARKS}
    counted = ", ".join(f"{mark.strip() or '·'} {verdict}: {counts[verdict]}" for verdict, mark in MARKS.items())
    lines += _wrapped(counted, width)
    return "\n".join(lines)


def _lines(advice: Advice, width: int) -> list[str]:
    head = f"  {MARKS[advice.verdict].strip() or '·'} {advice.id}  "
    worth = effect_text(advice)
    claim = f"{advice.verdict}: {advice.guideline}" + (f"; here {worth}" if worth else "")
    advice_lines = _wrapped(line(_advice(advice)), width - len(head)) or [""]
    behind = _wrapped(line(claim), width - len(head) - 2)
    pad = " " * len(head)
    return [head + advice_lines[0], *(pad + text for text in advice_lines[1:]), *(f"{pad}  {text}" for text in behind)]


def _advice(advice: Advice) -> str:
    return f"{advice.advice} ({advice.reason})" if advice.reason else advice.advice
