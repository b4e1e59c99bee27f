"""Tables of private arrays (Fang et al. 2017, table 3, for any device) and of the measured width of a sub-group."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clmembench.model import Finding, Run
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.studies.access.registers import COST_EVIDENCE, MEMORY_EVIDENCE, SPILL_EVIDENCE, RegisterLimit, register_limits
from clmembench.studies.access.subgroup_width import SubGroupWidth, measure_sub_group_width
from clmembench.units import format_value

PUBLISHED = "published (Fang et al. 2017, table 3): sm_10: add 29, matmul 2*2, sort 0; sm_35: add 73, matmul 6*6, sort 0"


def registers_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """The largest private array kept in registers, by pattern and indexing, by all evidence and by each kind."""
    limits = register_limits([row.value for row in rows])
    unit = limits[0].unit if limits else ""
    header = ["private_array: pattern", "indexing", "in registers", "spilled from"]
    header += ["by stack or private memory", "by spills", "by cost"]
    header += [f"{unit} in registers", f"{unit} at the largest", "status"]
    lines = [
        (
            one.pattern,
            one.indexing,
            _limit(one, one.limit),
            "–" if one.spilled_from is None else _words(one, one.spilled_from),
            *(_range(one, one.by[kind]) for kind in (MEMORY_EVIDENCE, SPILL_EVIDENCE, COST_EVIDENCE)),
            *("–" if cost is None else format_value(cost) for cost in (one.registers_cost, one.largest_cost)),
            one.limit.status,
        )
        for one in limits
    ]
    notes = [f"{one.pattern} {one.indexing}: {one.limit.reason}" for one in limits if one.limit.reason]
    title = "Largest private array kept in registers, in 4-byte words, of one work-item in a small work-group."
    return [Table(title, columns(tuple(header), left=2), tuple(lines), (*notes, PUBLISHED))]


def width_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Measured and claimed width, and the cost of divergence by the number of neighbours that take the same branch."""
    width = measure_sub_group_width([row.value for row in rows], run.header.device)
    if width is None:
        return []
    multiples = {str(n) for row in rows if type(n := row.value.facts.get("preferred_multiple")) is int}
    finding, claimed = width.finding, str(width.claimed) if width.claimed else "–"
    line = (_measured(finding), claimed, "/".join(sorted(multiples)) or "–", finding.status, width.verdict)
    title = "Width of a sub-group: measured by divergence, and claimed by the device."
    header = ("sub-group: measured work-items", "claimed", "kernel's preferred multiple", "status", "claim")
    notes = (finding.reason,) if finding.reason else ()
    return [Table(title, columns(header), (line,), notes), _costs(width, rows)]


def _costs(found: SubGroupWidth, rows: Sequence[Row]) -> Table:
    ratios = {span: (low, high) for span, low, high in found.ratios}
    lines: list[tuple[Entry, ...]] = []
    for row in rows:
        value, span = row.value, row.value.params.get("span")
        bounds = ratios.get(span) if isinstance(span, int) else None
        if not row.is_good or bounds is None:
            lines.append((str(span), Cell(row.status, reason=row.reason), "", ""))
            continue
        low, high = bounds
        cycles = "" if value.cycles is None else format_value(value.cycles)
        lines.append((str(span), f"{format_value(value.median)} {value.unit}", cycles, f"{low:.3f} to {high:.3f}"))
    header = ("divergence: neighbours on the same branch", "multiply-add", "cycles", "ratio to the widest spans")
    title = "Cost of a multiply-add when work-items take two branches; in the last row all take the same one."
    return noted(Table(title, columns(header), tuple(lines)))


def _limit(one: RegisterLimit, finding: Finding) -> str:
    if isinstance(finding.value, float | int):
        return _words(one, int(finding.value))
    return _range(one, finding)


def _range(one: RegisterLimit, finding: Finding) -> str:
    """Range by one kind of evidence: from the largest size kept in registers to one below the smallest that is not."""
    if finding.low is None:
        return "–"
    low = _words(one, int(finding.low))
    return f"at least {low}" if finding.high is None else f"{low}, under {_words(one, int(finding.high) + 1)}"


def _words(one: RegisterLimit, words: int) -> str:
    """The size of a matrix as its sides, as the paper has it."""
    side = math.isqrt(words)
    return f"{side}*{side}" if one.pattern == "matmul" and words and side * side == words else str(words)


def _measured(finding: Finding) -> str:
    if isinstance(finding.value, float | int):
        return str(int(finding.value))
    bounds = (("at least", finding.low), ("at most", finding.high))
    return " and ".join(f"{name} {bound:.0f}" for name, bound in bounds if bound is not None) or "–"
