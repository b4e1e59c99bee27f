"""Properties of one cache by the classic methods, the trace of single accesses and this tool's own method, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clmembench.model import CacheLevel, Finding, Hierarchy
from clmembench.report.finding_tables import Entry, property_label, value_text
from clmembench.report.table import Column, Table
from clmembench.studies.hierarchy.classic.chase_answers import PROPERTY_NAMES
from clmembench.studies.hierarchy.classic.methods import FINE_GRAINED_TRACE, ClassicReadings
from clmembench.studies.hierarchy.classic.saavedra import SAAVEDRA
from clmembench.studies.hierarchy.classic.wong import WONG

TRACE_PROPERTIES = ("set_bits", "run_bytes")  # properties that only the trace gives


def classic_section(read: ClassicReadings, hierarchy: Hierarchy | None = None) -> Table:
    """A row for each property, a column for each method and one for the nearest cache of `hierarchy` in that memory space; if
    they disagree, the notes say which method decides, and why the others are wrong."""
    level = None if hierarchy is None else nearest_cache(hierarchy, read.space)
    findings_by_method = _findings_by_method(read)
    if level is not None:
        findings_by_method[f"adaptive chase ({level.name})"] = level.findings
    rows = []
    for name in (*PROPERTY_NAMES, *TRACE_PROPERTIES):
        cells = [value_text(findings[name]) if name in findings else "" for findings in findings_by_method.values()]
        if any(cells):
            rows.append((property_label(name), *cells))
    notes = tuple(_resolutions(read)) or ("The classic methods agree.",)
    title = f"The classic methods on {read.space} memory: each under its assumptions"
    return Table(title, (Column("property"), *(Column(name) for name in findings_by_method)), tuple(rows), notes)


def entries(readings: Sequence[ClassicReadings]) -> list[Entry]:
    """Every finding of the methods and of the trace; the method is in the column of the level."""
    return [
        Entry(method, read.space, name, finding)
        for read in readings
        for method, findings in _findings_by_method(read).items()
        for name, finding in findings.items()
    ]


def nearest_cache(hierarchy: Hierarchy, space: str) -> CacheLevel | None:
    """The nearest cache inferred for a memory space."""
    levels = (*hierarchy.levels, *hierarchy.constant, *hierarchy.image)
    return next((level for level in levels if level.space == space and "size_bytes" in level.findings), None)


def _findings_by_method(read: ClassicReadings) -> dict[str, Mapping[str, Finding]]:
    return {SAAVEDRA: read.by_strides, WONG: read.by_sizes, FINE_GRAINED_TRACE: read.fine or {}}


def _resolutions(read: ClassicReadings) -> Iterator[str]:
    """The deciding method for each property on which the methods disagree, then the reasons why the others are wrong, each
    once."""
    causes: dict[str, None] = {}
    for name, found in read.resolved().items():
        label = property_label(name)
        if found.method == FINE_GRAINED_TRACE and found.reason:
            statement, _, cause = found.reason.partition(": ")
            causes[cause] = None
            yield f"{label} {value_text(found)}: {statement}"
        elif found.status != "ok":
            yield f"{label} {found.status}: {found.reason}"
    yield from (f"because {cause}" for cause in causes)
