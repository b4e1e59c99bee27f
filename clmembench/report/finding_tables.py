"""Findings in words for people, and a hierarchy's as a table by path to memory and as fields for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clmembench.model import CacheLevel, Finding, Hierarchy
from clmembench.report.scorecard_cells import BOUND, BoundKind, ScorecardCell
from clmembench.report.table import Column, Table, columns
from clmembench.sanitize import line, printable
from clmembench.units import format_bytes, format_in, format_interval, format_value

HEADINGS = {
    "readonly": "Read-only global memory",
    "private": "Private memory",
    "constant": "Constant memory",
    "constant_array": "Constant arrays",
    "image1d_buffer": "Images over a buffer",
    "image1d": "One-dimensional images",
    "image2d": "Two-dimensional images",
}

COLUMNS = tuple(
    Column(name, is_number=name in ("value", "interval"))
    for name in ("level", "space", "property", "value", "interval", "status", "method", "evidence", "why")
)
FIELDS = ("level", "space", "property", "value", "low", "high", "unit", "status", "method", "evidence", "reason")  # of CSV
SHARING_HEADING = "Shared storage"
MAX_NAMED_RECORDS = 3  # ids of records that a table for people has room for


@dataclass(frozen=True, slots=True)
class Path:
    """The levels that loads from one memory space meet, from the nearest on; `group` stands before their names."""

    space: str
    heading: str
    group: str
    levels: tuple[CacheLevel, ...]


def main_space(hierarchy: Hierarchy) -> str:
    """Common prefix of the spaces of the levels between a compute unit and memory: global, unless nothing was found there."""
    if not hierarchy.levels or any(level.space.startswith("global") for level in hierarchy.levels):
        return "global"
    return hierarchy.levels[0].space


def main_levels(hierarchy: Hierarchy) -> tuple[CacheLevel, ...]:
    """The levels from the nearest cache to memory, each beyond the one before it."""
    space = main_space(hierarchy)
    return tuple(level for level in hierarchy.levels if level.space.startswith(space))


def other_paths(hierarchy: Hierarchy) -> list[Path]:
    """Every other path: it begins at the compute unit too, and none of its levels lies beyond memory."""
    main = main_levels(hierarchy)
    rest = [(level, "") for level in hierarchy.levels if level not in main]
    rest += [(level, "constant") for level in hierarchy.constant] + [(level, "image") for level in hierarchy.image]
    found: dict[tuple[str, str], list[CacheLevel]] = {}
    for level, group in rest:
        found.setdefault((level.space, group or level.space), []).append(level)
    return [Path(space, HEADINGS.get(space, line(space)), group, tuple(levels)) for (space, group), levels in found.items()]


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding and what it is of: a level, the memory space it was seen through, and the heading of the path there (""
    for that to memory itself)."""

    level: str
    space: str
    name: str
    finding: Finding
    path: str = ""


def entries(hierarchy: Hierarchy) -> list[Entry]:
    """Every finding: global memory from the nearest level on, its TLBs and latency patterns, local memory, then each other
    path, under its heading; then what shares storage."""
    local = [hierarchy.local] if hierarchy.local is not None else []
    found = [
        *((level.name, level.space, level.findings, "") for level in main_levels(hierarchy)),
        *((level.name, "global", level.findings, "") for level in hierarchy.tlb),
        ("patterns", "global", hierarchy.patterns, ""),
        ("patterns", "global_cg", hierarchy.patterns_past, ""),
        *((level.name, level.space, level.findings, "Local memory") for level in local),
        *((level.name, level.space, level.findings, path.heading) for path in other_paths(hierarchy) for level in path.levels),
        ("sharing", "", hierarchy.sharing, SHARING_HEADING),
    ]
    return [Entry(level, space, name, finding, path) for level, space, of, path in found for name, finding in of.items()]


def finding_fields(hierarchy: Hierarchy, more: Sequence[Entry] = ()) -> Table:
    """One line for each finding, then for each of `more`, for CSV, numbers as they are; ids of records are joined by spaces."""
    found = []
    for entry in (*entries(hierarchy), *more):
        f = entry.finding
        numbers = (f.value, f.low, f.high, f.unit, f.status, f.method, " ".join(f.evidence), f.reason)
        found.append((entry.level, entry.space, entry.name, *numbers))
    return Table("", columns(FIELDS), tuple(found))


def finding_table(hierarchy: Hierarchy) -> Table:
    """One line for each finding, for people, and one above each path that begins at the compute unit anew."""
    return Table("", COLUMNS, tuple(_with_headings(hierarchy)))


def _with_headings(hierarchy: Hierarchy) -> Iterator[tuple[str, ...]]:
    """The cells of each finding, and a row with its heading before the first of each other path."""
    before = ""
    for entry, row in zip(entries(hierarchy), cells(hierarchy), strict=True):
        if entry.path != before:
            anew = "" if entry.path == SHARING_HEADING else ": from the compute unit"
            yield (f"{entry.path}{anew}", *[""] * (len(COLUMNS) - 1))
        before = entry.path
        yield row


def cells(hierarchy: Hierarchy) -> Iterator[tuple[str, ...]]:
    """The cells of each finding, by COLUMNS. A finding that is not sure shows no value, unless two methods gave one."""
    for entry in entries(hierarchy):
        finding = entry.finding
        more = len(finding.evidence) - MAX_NAMED_RECORDS
        evidence = ", ".join(finding.evidence[:MAX_NAMED_RECORDS]) + (f" and {more} more" if more > 0 else "")
        value = "–" if finding.value is None else value_text(finding, interval=False)
        exact = finding.value is not None and finding.value == finding.low == finding.high
        told = (
            value,
            "exact" if exact else interval_text(finding) or "–",
            finding.status,
            finding.method,
            evidence,
            finding.reason,
        )
        called = property_label(entry.name)
        called = called if called.endswith(f" in {finding.unit}") else called.partition(" in ")[0]  # latencies as recorded
        yield (entry.level, entry.space, called, *told)


def value_text(finding: Finding, interval: bool = True) -> str:
    """The value of a finding with its interval, in units that people read; "undetermined" with its bounds where it is that."""
    value, span = finding.value, interval_text(finding) if interval else ""
    if isinstance(value, str):
        return line(value)
    if value is None:
        return f"{finding.status}{f', {span}' if span else ''}"
    text = _one(value, finding.unit)
    return f"{text} ({span})" if span else text


def interval_text(finding: Finding) -> str:
    """The interval of a finding; "at least" or "at most" where one end is open, "" where it says nothing more than the value.
    The unit stands with what is open and with sizes; that of other values is the value's."""
    low, high, unit = (*(None if end is None or math.isinf(end) else end for end in (finding.low, finding.high)), finding.unit)
    if low is None or high is None:
        end = low if low is not None else high
        return "" if end is None else f"at {'least' if high is None else 'most'} {_one(end, unit)}"
    if low == high == finding.value:
        return ""
    if low == high:
        return _one(low, unit)
    if unit == "B":
        return _sizes(low, high)
    return (
        f"{number_text(low)} to {number_text(high)}"
        if not unit
        else line(format_interval(low, high, unit)).removesuffix(f" {unit}")
    )


def property_label(name: str) -> str:
    """Name of a property for people: line_bytes is "line", latency_ns is "latency in ns"."""
    stem = name.removesuffix("_bytes").removesuffix("_gb_s")
    for unit in ("cycles", "ns"):
        stem = f"{stem.removesuffix(f'_{unit}')} in {unit}" if stem.endswith(f"_{unit}") else stem
    return line(stem.replace("_", " "))


def number_text(value: float) -> str:
    """A number without a unit: whole ones as they are."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e7 else format_value(value)


def _one(value: float, unit: str) -> str:
    return format_bytes(value, 1) if unit == "B" else number_text(value) if not unit else line(format_in(value, unit))


def _sizes(low: float, high: float) -> str:
    """Two sizes in the larger one's unit, with as many digits as tell them apart; each in its own where they are far apart."""
    if high >= 1024 * low:
        return f"{format_bytes(low, 1)} to {format_bytes(high, 1)}"
    scale = 1024.0 ** max(p for p in range(5) if p == 0 or high >= 1024**p)
    digits = next((d for d in range(1, 7) if f"{low / scale:.{d}f}" != f"{high / scale:.{d}f}"), 6)
    first = f"{low / scale:.{digits}f}".rstrip("0").rstrip(".")
    return f"{first} to {format_bytes(high, digits)}"


def finding_cell(finding: Finding | None, hint: str) -> ScorecardCell:
    """A finding as a cell; `hint` says what measures it where there is none. Only a number is a value."""
    if finding is None:
        return ScorecardCell("–", detail=hint)
    if finding.status != "ok":
        ends = [end for end in (finding.low, finding.high) if end is not None and math.isfinite(end)]
        if finding.status == "undetermined" and finding.value is None and len(ends) == 1:
            side: BoundKind = "at least" if finding.low in ends else "at most"
            text, why = interval_text(finding), printable(finding.reason)
            return ScorecardCell(text, detail=why, status=BOUND, limit=ends[0], side=side)
        return ScorecardCell(value_text(finding), detail=printable(finding.reason), status=finding.status)
    text, whole = value_text(finding, interval=False), value_text(finding)
    number = float(finding.value) if isinstance(finding.value, int | float) else None
    return ScorecardCell(text, detail=whole, status="ok", value=number, low=finding.low, high=finding.high)
