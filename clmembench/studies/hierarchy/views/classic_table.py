"""What the classic methods, the trace of single accesses and this tool's own inquiry tell of one cache, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clmembench.model import CacheLevel, Finding, Hierarchy
from clmembench.report.finding_tables import Entry, property_label, value_text
from clmembench.report.section import Column, Section
from clmembench.studies.hierarchy.classic.chase_answers import PROPERTY_NAMES
from clmembench.studies.hierarchy.classic.contradiction import FINE_GRAINED_TRACE
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.classic.saavedra import SAAVEDRA
from clmembench.studies.hierarchy.classic.wong import WONG

TRACE_PROPERTIES = ("set_bits", "run_bytes")  # that the trace alone tells


def classic_section(read: ClassicReadings, hierarchy: Hierarchy | None = None) -> Section:
    """A row for each property, a column for each method and one for the nearest cache of `hierarchy` in that memory space; the
    notes say which method decides where they disagree, and why the others err."""
    level = None if hierarchy is None else nearest_cache(hierarchy, read.space)
    told = _told(read)
    if level is not None:
        told[f"active inquiry ({level.name})"] = level.findings
    rows = []
    for name in (*PROPERTY_NAMES, *TRACE_PROPERTIES):
        cells = [value_text(findings[name]) if name in findings else "" for findings in told.values()]
        if any(cells):
            rows.append((property_label(name), *cells))
    notes = tuple(_resolutions(read)) or ("The classic methods agree.",)
    title = f"The classic methods on {read.space} memory: each under its assumptions"
    return Section(title, (Column("property"), *(Column(name) for name in told)), tuple(rows), notes)


def entries(readings: Sequence[ClassicReadings]) -> list[Entry]:
    """Every finding of the methods and of the trace; the method stands in the place of the level."""
    return [
        Entry(method, read.space, name, finding)
        for read in readings
        for method, told in _told(read).items()
        for name, finding in told.items()
    ]


def nearest_cache(hierarchy: Hierarchy, space: str) -> CacheLevel | None:
    """The nearest cache that was found through a memory space."""
    levels = (*hierarchy.levels, *hierarchy.constant, *hierarchy.image)
    return next((level for level in levels if level.space == space and "size_bytes" in level.findings), None)


def _told(read: ClassicReadings) -> dict[str, Mapping[str, Finding]]:
    return {SAAVEDRA: read.by_strides, WONG: read.by_sizes, FINE_GRAINED_TRACE: read.fine or {}}


def _resolutions(read: ClassicReadings) -> Iterator[str]:
    """What decides each property on which the methods disagree, then the reasons why the others err, each once."""
    causes: dict[str, None] = {}
    for name, found in read.resolved().items():
        label = property_label(name)
        if found.method == FINE_GRAINED_TRACE and found.reason:
            said, _, cause = found.reason.partition(": ")
            causes[cause] = None
            yield f"{label} {value_text(found)}: {said}"
        elif found.status != "ok":
            yield f"{label} {found.status}: {found.reason}"
    yield from (f"because {cause}" for cause in causes)
