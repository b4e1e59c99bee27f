"""Findings: values that were inferred, with their evidence; and the hierarchy, whose properties they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

UNKNOWN_CLOCK = "the core's clock is not known here"
UNIT_OF_PROPERTY = {
    "size_bytes": "B", "line_bytes": "B", "sector_bytes": "B", "page_bytes": "B", "reach_bytes": "B", "prefetch_bytes": "B",
    "tagged_bytes": "B", "pair_bytes": "B", "effective_bytes": "B", "all_caches_bytes": "B",
    "latency_cycles": "cycles", "penalty_cycles": "cycles", "latency_ns": "ns", "penalty_ns": "ns",
    "bandwidth_gb_s": "GB/s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """An inferred value, a number or a word, with its interval and the evidence for it (ids of records, or of traces). A value
    that cannot be inferred is `undetermined`; two methods that disagree make it `inconsistent`, and `reason` names both. Raises
    ValueError for a finding that is ok and names no evidence."""

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
            raise ValueError(f"{self.name}: a finding that is ok names the records that it rests on, its evidence")


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """One level as seen through one memory space: `findings` by property name. Those of levels: size_bytes, line_bytes,
    sector_bytes, ways, sets, policy, latency_cycles, latency_ns; more where known (set_bits, victim_probabilities,
    bandwidth_gb_s, prefetch_bytes, partitions). A level that is memory itself (DRAM, or local memory) has latencies alone."""

    name: str  # L1, L2, L3, DRAM, local, private
    space: str
    findings: Mapping[str, Finding]


@dataclass(frozen=True, slots=True)
class TlbLevel:
    """One level of address translation: entries, page_bytes, reach_bytes, ways, sets, policy, penalty_cycles, penalty_ns; of
    the first one also translation: whether the first cache asks it ("before L1"), or only its misses do ("behind L1")."""

    name: str  # L1 TLB, L2 TLB
    findings: Mapping[str, Finding]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """All that was found. `levels` and `tlb` are of global memory, from the nearest on; `constant` and `image` of those
    paths; `patterns` are the global latency patterns P1 to P6, `patterns_past` those of loads that bypass the first cache;
    `sharing` says which paths, local memory and compute units share
    storage; `notes` say what could not be probed and why."""

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
    """A value that can be relied on, in the unit its name says; without bounds it is exact. `evidence` are ids of the records
    that it rests on. Raises ValueError where there are none."""
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
    """No value; why, and what bounds there are."""
    return Finding(name, None, low, high, UNIT_OF_PROPERTY.get(name, ""), "undetermined", method, evidence, reason)


def inconsistent_finding(
    name: str, reason: str, low: float, high: float, method: str, evidence: tuple[str, ...] = ()
) -> Finding:
    """Two methods that disagree: what each found are the bounds, and `reason` names both."""
    return Finding(name, None, low, high, UNIT_OF_PROPERTY.get(name, ""), "inconsistent", method, evidence, reason)
