"""What the lines of nearer caches tell of a level's line and sector. Pure."""

from __future__ import annotations

from dataclasses import replace

from clmembench.model import CacheLevel
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.geometry.level_geometry import LINE_METHOD
from clmembench.studies.hierarchy.geometry.paired_lines import NOT_MEASURED

PAIRED_LINES = (
    "as many places at odd strides fit as of lines twice as long as the first cache's: tags may be of pairs, or a prefetcher "
    "brings pairs"
)
SECTOR_OF_NEARER_METHOD = "its line, as much as a miss of the nearer cache brings in"


def without_paired_lines(level: CacheLevel, first: CacheLevel) -> CacheLevel:
    """The level of a CPU without a line longer than the first cache's that nothing but capacities at odd strides told, and
    without the sets that follow from it: a prefetcher that brings the other line of each pair looks the same."""
    line, shorter = level.findings["line_bytes"], number_of(first, "line_bytes")
    told = line.method in (LINE_METHOD, f"{LINE_METHOD}; {NOT_MEASURED}")
    if line.status != "ok" or not told or not shorter or number_of(level, "line_bytes") == shorter:
        return level
    findings = {**level.findings}
    for name in ("sets", "set_bits"):
        if name in findings:
            findings[name] = undetermined_finding(name, PAIRED_LINES, findings[name].method, findings[name].evidence)
    findings["line_bytes"] = undetermined_finding("line_bytes", PAIRED_LINES, line.method, line.evidence, shorter, line.high)
    return replace(level, findings=findings)


def with_sector_of_nearer(level: CacheLevel, nearer: CacheLevel) -> CacheLevel:
    """The level with its line as sector where the nearer level's misses bring in as much at once: pairs of accesses within it,
    which the nearer level serves, cannot tell."""
    sector, line, unit = level.findings["sector_bytes"], number_of(level, "line_bytes"), number_of(nearer, "sector_bytes")
    if sector.status != "undetermined" or not line or not unit or unit < line:
        return level
    evidence = (*level.findings["line_bytes"].evidence, *nearer.findings["sector_bytes"].evidence)
    found = measured_finding("sector_bytes", line, SECTOR_OF_NEARER_METHOD, evidence)
    return replace(level, findings={**level.findings, "sector_bytes": found})


def number_of(level: CacheLevel, name: str) -> int | None:
    """The whole number that a finding of a level has as value; None where it has none."""
    value = level.findings[name].value if name in level.findings else None
    return int(value) if isinstance(value, int | float) else None
