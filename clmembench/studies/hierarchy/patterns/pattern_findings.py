"""The latency of each global latency pattern as findings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.model import Answer, Finding
from clmembench.studies.hierarchy.probes.typical_latency import TypicalLatency

PATTERN_NAMES = ("P1", "P2", "P3", "P4", "P5", "P6")


@dataclass(frozen=True, slots=True)
class PatternLatency:
    """One pattern's latency in cycles and in ns, and the accesses of the trace (from 0) that met it."""

    cycles: Finding
    ns: Finding
    accesses: tuple[int, ...] = ()


def as_pattern_findings(found: Mapping[str, PatternLatency]) -> Mapping[str, Finding]:
    """As a Hierarchy keeps them: P1 to P6 in cycles, and P1_ns to P6_ns."""
    return {name: f.cycles for name, f in found.items()} | {f"{name}_ns": f.ns for name, f in found.items()}


def pattern_latency(found: TypicalLatency, name: str, answer: Answer, method: str, ghz: float | None) -> PatternLatency:
    """In cycles and in ns, from the records that the answer names."""
    method = f"{method}; {found.said}" if found.said else method
    ratio = ghz or (answer.value / answer.ns if answer.unit == "cycles" and answer.value and answer.ns else None)

    def ends(scale: float) -> tuple[float | None, float | None]:
        low, high = (scale * v if np.isfinite(v) else None for v in (found.low, found.high))
        return low, high

    def finding(unit: str) -> Finding:
        own, label = answer.unit == unit, f"latency_{name}" + ("_ns" if unit == "ns" else "")
        if not found.sure or (not own and ratio is None):
            why = (
                found.why
                if not found.sure
                else f"the core's clock is not known, so {answer.unit} cannot be converted to {unit}"
            )
            low, high = ends(1.0) if own else (None, None)
            return Finding(label, None, low, high, unit, "undetermined", method, answer.evidence, why)
        scale = 1.0 if own or ratio is None else (1 / ratio if unit == "ns" else ratio)
        value, (low, high) = scale * found.value, ends(scale)
        return Finding(label, value, low, high, unit, "ok", method, answer.evidence)

    return PatternLatency(finding("cycles"), finding("ns"), found.accesses)
