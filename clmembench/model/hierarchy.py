"""The memory hierarchy of a device: levels of caches and TLBs in each memory space, every property a Finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model.record import Finding


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
