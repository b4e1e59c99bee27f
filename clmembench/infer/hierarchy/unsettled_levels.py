"""Consecutive levels of which no property is known, merged into one: how many there are is not known either. Pure.

On a CPU latency beyond the private caches also rises where a TLB's reach ends and where page tables leave the caches. A rise
whose plateau nothing settles is no level by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench.model import CacheLevel

UNSETTLED = "latency rises more than once and no plateau is flat: caches or TLBs that were not found may be the cause"


def with_unsettled_merged(levels: Sequence[CacheLevel]) -> list[CacheLevel]:
    """The levels, the nearest first, with one in place of each run of levels of which no property is known; renumbered."""
    merged: list[CacheLevel] = []
    for level in levels:
        if merged and _is_unsettled(level) and _is_unsettled(merged[-1]):
            merged[-1] = _both(merged[-1], level)
        else:
            merged.append(level)
    return [replace(level, name=f"L{number}") for number, level in enumerate(merged, 1)]


def _is_unsettled(level: CacheLevel) -> bool:
    return all(finding.status == "undetermined" for finding in level.findings.values())


def _both(near: CacheLevel, far: CacheLevel) -> CacheLevel:
    """One level in place of two: at least what the nearer one holds, at most what the farther one does."""
    size, beyond = near.findings["size_bytes"], far.findings["size_bytes"]
    evidence = tuple(dict.fromkeys((*size.evidence, *beyond.evidence)))
    findings = {name: replace(finding, reason=UNSETTLED) for name, finding in near.findings.items()}
    findings["size_bytes"] = replace(size, high=beyond.high, reason=UNSETTLED, evidence=evidence)
    return replace(near, findings=findings)
