"""Findings of a hierarchy: what was measured, what cannot be said, and what two methods disagree on. Pure."""

from __future__ import annotations

from clmembench.model import Finding

UNKNOWN_CLOCK = "the core's clock is not known here"
UNIT_OF_PROPERTY = {
    "size_bytes": "B", "line_bytes": "B", "sector_bytes": "B", "page_bytes": "B", "reach_bytes": "B", "prefetch_bytes": "B",
    "tagged_bytes": "B", "pair_bytes": "B", "effective_bytes": "B", "all_caches_bytes": "B",
    "latency_cycles": "cycles", "penalty_cycles": "cycles", "latency_ns": "ns", "penalty_ns": "ns",
    "bandwidth_gb_s": "GB/s",
}  # fmt: skip


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
