"""A memory hierarchy as JSON: every property of every level is a finding, determined or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clmembench.model import CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.studies.hierarchy.classic.methods import ClassicReadings

if TYPE_CHECKING:
    from clmembench.studies.hierarchy.views.json_types import FindingObject

CACHE = {
    "size_bytes": "B",
    "line_bytes": "B",
    "sector_bytes": "B",
    "ways": "",
    "sets": "",
    "policy": "",
    "latency_cycles": "cycles",
    "latency_ns": "ns",
}
TLB = {
    "entries": "",
    "page_bytes": "B",
    "reach_bytes": "B",
    "ways": "",
    "sets": "",
    "policy": "",
    "penalty_cycles": "cycles",
    "penalty_ns": "ns",
}


def hierarchy_object(hierarchy: Hierarchy, classic: Sequence[ClassicReadings] | None = None) -> dict[str, Any]:
    """One object: levels, tlb, local (empty where there is none), constant, image, patterns, patterns_past (those of loads that
    bypass the first cache, empty if none does), sharing and notes; of a device also classic, the readings of the classic
    methods in each memory space where they were measured: saavedra, wong, trace and resolved.

    A level has its name and space as plain strings, and each property as {value, low, high, unit, status, method, evidence,
    reason}. A property that a level lacks is `undetermined` with a reason, so that every key is always present; further
    properties, such as set_bits, follow."""
    return {
        "levels": [_level(level) for level in hierarchy.levels],
        "tlb": [_tlb(level) for level in hierarchy.tlb],
        "local": {} if hierarchy.local is None else _level(hierarchy.local),
        "constant": [_level(level) for level in hierarchy.constant],
        "image": [_level(level) for level in hierarchy.image],
        "patterns": {name: finding_object(finding) for name, finding in hierarchy.patterns.items()},
        "patterns_past": {name: finding_object(finding) for name, finding in hierarchy.patterns_past.items()},
        "sharing": {name: finding_object(finding) for name, finding in hierarchy.sharing.items()},
        "notes": list(hierarchy.notes),
    } | ({} if classic is None else {"classic": [_classic(readings) for readings in classic]})


def finding_object(finding: Finding) -> FindingObject:
    """The parts of a finding as JSON has them; a number that is not finite is null."""
    return {
        "value": finding.value if isinstance(finding.value, str) else _number(finding.value),
        "low": _number(finding.low),
        "high": _number(finding.high),
        "unit": finding.unit,
        "status": finding.status,
        "method": finding.method,
        "evidence": list(finding.evidence),
        "reason": finding.reason,
    }


def _classic(readings: ClassicReadings) -> dict[str, Any]:
    methods = {
        "saavedra": readings.by_strides,
        "wong": readings.by_sizes,
        "trace": readings.fine or {},
        "resolved": readings.resolved(),
    }
    found = {method: {name: finding_object(f) for name, f in findings.items()} for method, findings in methods.items()}
    return {"space": readings.space, **found}


def _level(level: CacheLevel) -> dict[str, Any]:
    memory = "size_bytes" not in level.findings
    return {"name": level.name, "space": level.space, **_findings(level.findings, CACHE, memory)}


def _tlb(level: TlbLevel) -> dict[str, Any]:
    return {"name": level.name, **_findings(level.findings, TLB, memory=False)}


def _findings(findings: Mapping[str, Finding], units: Mapping[str, str], memory: bool) -> dict[str, Any]:
    reason = "memory itself has only a latency" if memory else "no measurement determined it"
    absent = {name: Finding(name, None, None, None, unit, "undetermined", "", reason=reason) for name, unit in units.items()}
    return {name: finding_object(finding) for name, finding in {**absent, **findings}.items()}


def _number(value: float | None) -> float | None:
    """A number as Python's own, whole ones as int."""
    number = math.nan if value is None else float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
