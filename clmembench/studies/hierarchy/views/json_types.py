"""Shape of a memory hierarchy as `topology --json` and `infer --json` print it."""

from __future__ import annotations

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import NotRequired, TypedDict  # noqa: UP035

from clmembench.report.json_outputs import FindingStatus, Number


class FindingObject(TypedDict):
    """An inferred property; only an ok one is a result."""

    value: float | int | str | None
    low: Number
    high: Number
    unit: str
    status: FindingStatus
    method: str
    evidence: list[str]
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


class ClassicObject(TypedDict):
    """Readings of the classic methods in one memory space."""

    space: str
    saavedra: dict[str, FindingObject]
    wong: dict[str, FindingObject]
    trace: dict[str, FindingObject]
    resolved: dict[str, FindingObject]


class NoLevel(TypedDict):
    """Stands for local memory if there is none."""


class HierarchyObject(TypedDict):
    """A memory hierarchy."""

    levels: list[CacheLevelObject]
    tlb: list[TlbLevelObject]
    local: CacheLevelObject | NoLevel
    constant: list[CacheLevelObject]
    image: list[CacheLevelObject]
    patterns: dict[str, FindingObject]
    patterns_past: dict[str, FindingObject]
    sharing: dict[str, FindingObject]
    notes: list[str]
    classic: NotRequired[list[ClassicObject]]
