"""A memory hierarchy as a table for a terminal: one row a property, and why where nothing is said."""

from __future__ import annotations

from clmembench.model import Finding, Hierarchy
from clmembench.units import format_in

HIDDEN = ("latency_ns", "penalty_ns")  # where the unit of time is not known they say nothing in every row


def table(hierarchy: Hierarchy) -> list[str]:
    """Rows of text, the notes last."""
    rows = []
    for level in (*hierarchy.levels, *hierarchy.constant, *hierarchy.image, *([hierarchy.local] if hierarchy.local else [])):
        rows += [f"{level.name} ({level.space})", *(_row(name, f) for name, f in level.findings.items() if _worth(name, f))]
    for tlb in hierarchy.tlb:
        rows += [tlb.name, *(_row(name, f) for name, f in tlb.findings.items() if _worth(name, f))]
    rows += [f"note: {note}" for note in hierarchy.notes]
    return rows or ["nothing was found"]


def _worth(name: str, finding: Finding) -> bool:
    return name not in HIDDEN or finding.status == "ok"


def _row(name: str, finding: Finding) -> str:
    if finding.status != "ok":
        bounds = ""
        if finding.low is not None or finding.high is not None:
            bounds = f" [{_value(finding.low, finding.unit)}, {_value(finding.high, finding.unit)}]"
        return f"  {name:<20} {finding.status}{bounds}: {finding.reason}"
    shown = _value(finding.value, finding.unit)
    if finding.low is not None and finding.high is not None and finding.low != finding.high:
        shown += f"  ({_value(finding.low, finding.unit)} to {_value(finding.high, finding.unit)})"
    return f"  {name:<20} {shown}"


def _value(value: float | str | None, unit: str) -> str:
    if value is None:
        return "?"
    if isinstance(value, str):
        return value
    if unit == "B":
        return format_in(float(value), "B", 4)
    return f"{value:.5g}" if unit in ("", "as recorded") else f"{value:.4g} {unit}"
