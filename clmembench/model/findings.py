"""Findings: inferred values with their evidence; and the hierarchy, whose properties they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

UNKNOWN_CLOCK = "the core clock is unknown"
UNIT_OF_PROPERTY = {
    "size_bytes": "B", "line_bytes": "B", "sector_bytes": "B", "page_bytes": "B", "reach_bytes": "B", "prefetch_bytes": "B",
    "tagged_bytes": "B", "pair_bytes": "B", "effective_bytes": "B", "all_caches_bytes": "B",
    "latency_cycles": "cycles", "penalty_cycles": "cycles", "latency_ns": "ns", "penalty_ns": "ns",
    "bandwidth_gb_s": "GB/s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """An inferred value, a number or a word, with its interval and its evidence (ids of records, or of traces).

    A value that cannot be inferred is `undetermined`; if two methods disagree it is `inconsistent`, and `reason` names both.
    Raises ValueError for a finding that is ok and has no evidence.
    """

    name: str
    value: float | str | None
    low: float | None
    high: float | None
    unit: str
    status: Literal["ok", "undetermined", "inconsistent"]
    method: str
    evidence: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if self.status == "ok" and not any(name.strip(" -") for name in self.evidence):
            raise ValueError(f"{self.name}: a finding that is ok needs evidence: the records from which it was inferred")


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """One level as measured through one memory space, with its `findings` by property name.

    The properties are size_bytes, line_bytes, sector_bytes, ways, sets, policy, latency_cycles and latency_ns; further ones
    where they are known (set_bits, victim_probabilities, bandwidth_gb_s, prefetch_bytes, partitions). A level that is memory
    itself (DRAM, or local memory) has latencies only.
    """

    name: str  # L1, L2, L3, DRAM, local, private
    space: str
    findings: Mapping[str, Finding]


@dataclass(frozen=True, slots=True)
class TlbLevel:
    """One level of address translation: entries, page_bytes, reach_bytes, ways, sets, policy, penalty_cycles and penalty_ns.

    The first level also has `translation`: whether all accesses to the first cache use it ("before L1") or only that cache's
    misses ("behind L1").
    """

    name: str  # L1 TLB, L2 TLB
    findings: Mapping[str, Finding]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """All findings about a device's memory hierarchy.

    `levels` and `tlb` are of global memory, the nearest first; `constant` and `image` are of these paths. `patterns` are the
    global latency patterns P1 to P6, `patterns_past` those of loads that bypass the first cache. `sharing` says which paths,
    local memory and compute units share storage. `notes` name what could not be probed, with the reason.
    """

    levels: tuple[CacheLevel, ...] = ()
    tlb: tuple[TlbLevel, ...] = ()
    local: CacheLevel | None = None
    constant: tuple[CacheLevel, ...] = ()
    image: tuple[CacheLevel, ...] = ()
    patterns: Mapping[str, Finding] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sharing: Mapping[str, Finding] = field(default_factory=dict)
    patterns_past: Mapping[str, Finding] = field(default_factory=dict)


def measured_finding(
    name: str,
    value: float | str,
    method: str,
    evidence: tuple[str, ...],
    low: float | None = None,
    high: float | None = None,
    unit: str = "",
) -> Finding:
    """A reliable value, in the unit of its name; without bounds it is exact.

    `evidence` are the ids of the records from which it was inferred. Raises ValueError where there are none.
    """
    exact = value if isinstance(value, int | float) else None
    return Finding(
        name,
        value,
        exact if low is None else low,
        exact if high is None else high,
        unit or UNIT_OF_PROPERTY.get(name, ""),
        "ok",
        method,
        evidence,
    )


def undetermined_finding(
    name: str,
    reason: str,
    method: str = "",
    evidence: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
) -> Finding:
    """A finding without a value, with the reason and the known bounds."""
    return Finding(name, None, low, high, UNIT_OF_PROPERTY.get(name, ""), "undetermined", method, evidence, reason)


def inconsistent_finding(
    name: str, reason: str, low: float, high: float, method: str, evidence: tuple[str, ...] = ()
) -> Finding:
    """A finding of two methods that disagree: their results are the bounds, and `reason` names both methods."""
    return Finding(name, None, low, high, UNIT_OF_PROPERTY.get(name, ""), "inconsistent", method, evidence, reason)
