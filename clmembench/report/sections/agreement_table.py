"""The pairs of values of a run that measure one thing, as a table: how far they differ, and why."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.gates import agreement
from clmembench.gates.agreement import AgreementPair
from clmembench.model import Run
from clmembench.report.rows import Row
from clmembench.report.section import Reasons, Section, columns
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_in

TITLE = "Agreement: values of this run that measure one thing, each beside the best of them."


def section(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Section | None:
    """A line for each pair, contradictions first; None where the run has no two values of one thing."""
    pairs = agreement.pairs([row.value for row in table], run, sheet)
    if not pairs:
        return None
    reasons = Reasons()
    rows = tuple(_cells(pair, reasons) for pair in sorted(pairs, key=lambda pair: not pair.contradicts))
    header = ("quantity", "best", "other", "best value", "other value", "other / best", "95% interval", "why")
    wrong = sum(pair.contradicts for pair in pairs)
    verdict = f"contradictions: {wrong} of {count(len(pairs), 'pair')}, whose values are suspect" if wrong else ""
    return Section(TITLE, columns(header, left=3), rows, (*reasons.notes(), *([verdict] if verdict else [])))


def _cells(pair: AgreementPair, reasons: Reasons) -> tuple[str, ...]:
    values = (format_in(v.median, v.unit, 4) for v in (pair.better, pair.other))
    why = f"{'CONTRADICTION ' if pair.contradicts else ''}{reasons.number(pair.why)}"
    interval = f"{pair.share_low:.3f} to {pair.share_high:.3f}"
    return (pair.name, pair.better_label, pair.other_label, *values, f"{pair.share:.3f}", interval, why)
