"""A memory hierarchy as JSON: every property of every level is a finding, determined or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import TypedDict

from clmembench.model import CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.report.json_outputs import Number
from clmembench.studies.hierarchy.classic.methods import ClassicReadings


@dataclass(frozen=True, slots=True)
class FindingObject:
    """An inferred property; only an ok one is a result."""

    value: float | int | str | None
    low: Number
    high: Number
    unit: str
    status: Literal["ok", "undetermined", "inconsistent"]
    method: str
    evidence: Sequence[str]
    reason: str


class CacheLevelObject(TypedDict):
    """A level of a memory hierarchy: its name, its space, and properties, each a finding; it may have further ones."""

    name: str
    space: str
    size_bytes: FindingObject
    line_bytes: FindingObject
    sector_bytes: FindingObject
    ways: FindingObject
    sets: FindingObject
    policy: FindingObject
    latency_cycles: FindingObject
    latency_ns: FindingObject


class TlbLevelObject(TypedDict):
    """A level of address translation; it may have further properties."""

    name: str
    entries: FindingObject
    page_bytes: FindingObject
    reach_bytes: FindingObject
    ways: FindingObject
    sets: FindingObject
    policy: FindingObject
    penalty_cycles: FindingObject
    penalty_ns: FindingObject


class NoLevel(TypedDict):
    """Stands for local memory if there is none."""


@dataclass(frozen=True, slots=True)
class ClassicObject:
    """Readings of the classic methods in one memory space."""

    space: str
    saavedra: dict[str, FindingObject]
    wong: dict[str, FindingObject]
    trace: dict[str, FindingObject]
    resolved: dict[str, FindingObject]


@dataclass(frozen=True, slots=True)
class HierarchyObject:
    """A memory hierarchy; of a device also `classic`, the readings of the classic methods where they were measured."""

    levels: list[CacheLevelObject]
    tlb: list[TlbLevelObject]
    local: CacheLevelObject | NoLevel
    constant: list[CacheLevelObject]
    image: list[CacheLevelObject]
    patterns: dict[str, FindingObject]
    patterns_past: dict[str, FindingObject]
    sharing: dict[str, FindingObject]
    notes: Sequence[str]
    classic: list[ClassicObject] = field(default_factory=list)


UNITS = {"bytes": "B", "cycles": "cycles", "ns": "ns"}  # by the end of a property's name
CACHE, TLB = (
    {name: UNITS.get(name.rpartition("_")[2], "") for name in kind.__annotations__ if name not in ("name", "space")}
    for kind in (CacheLevelObject, TlbLevelObject)
)


def hierarchy_object(hierarchy: Hierarchy, classic: Sequence[ClassicReadings]) -> HierarchyObject:
    """The hierarchy of a device."""
    return HierarchyObject(**hierarchy_fields(hierarchy), classic=[_classic(readings) for readings in classic])


def hierarchy_fields(hierarchy: Hierarchy) -> dict[str, Any]:
    """The fields of a HierarchyObject that are not of a device alone.

    A level has its name and space as plain strings, and each property as a finding. A property that a level lacks is
    `undetermined` with a reason, so that every key is always present; further properties, such as set_bits, follow."""
    return {
        "levels": [_level(level) for level in hierarchy.levels],
        "tlb": [_tlb(level) for level in hierarchy.tlb],
        "local": {} if hierarchy.local is None else _level(hierarchy.local),
        "constant": [_level(level) for level in hierarchy.constant],
        "image": [_level(level) for level in hierarchy.image],
        "patterns": _objects(hierarchy.patterns),
        "patterns_past": _objects(hierarchy.patterns_past),
        "sharing": _objects(hierarchy.sharing),
        "notes": hierarchy.notes,
    }


def _objects(findings: Mapping[str, Finding]) -> dict[str, FindingObject]:
    return {name: _finding(finding) for name, finding in findings.items()}


def _finding(finding: Finding) -> FindingObject:
    """The parts of a finding as JSON has them; a number that is not finite is null."""
    return FindingObject(
        value=finding.value if isinstance(finding.value, str) else _number(finding.value),
        low=_number(finding.low),
        high=_number(finding.high),
        unit=finding.unit,
        status=finding.status,
        method=finding.method,
        evidence=finding.evidence,
        reason=finding.reason,
    )


def _classic(readings: ClassicReadings) -> ClassicObject:
    methods = (readings.by_strides, readings.by_sizes, readings.fine or {}, readings.resolved())
    return ClassicObject(readings.space, *map(_objects, methods))


def _level(level: CacheLevel) -> dict[str, Any]:
    memory = "size_bytes" not in level.findings
    return {"name": level.name, "space": level.space, **_properties(level.findings, CACHE, memory)}


def _tlb(level: TlbLevel) -> dict[str, Any]:
    return {"name": level.name, **_properties(level.findings, TLB, memory=False)}


def _properties(findings: Mapping[str, Finding], units: Mapping[str, str], memory: bool) -> dict[str, FindingObject]:
    reason = "memory itself has only a latency" if memory else "no measurement determined it"
    absent = {name: Finding(name, None, None, None, unit, "undetermined", "", reason=reason) for name, unit in units.items()}
    return _objects({**absent, **findings})


def _number(value: float | None) -> float | None:
    """A number as Python's own, whole ones as int."""
    number = math.nan if value is None else float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
