"""Consecutive levels of which no property is known, merged into one, and levels whose number is not known. Pure.

On a CPU latency beyond the private caches also rises where a TLB's reach ends and where page tables leave the caches. A rise
whose plateau nothing settles is no level by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from clmembench.model import CacheLevel, Experiment
from clmembench.model.findings import undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep, same_latency
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.probes.probing import LONGEST_LINE_BYTES, ChaseLayout, ProbeSession

UNKNOWN_NUMBER_MARK = "?"  # behind a level's name, as in "L2?": it is at least the second
POLICY_BEHIND_UNKNOWN = "a nearer level may not have been found, and would hide some accesses from its sets"
MAX_OVERFLOW_RATIO = 4  # times its size a level misses nearly all: random victims keep 2% of the lines, other policies fewer
FINER_SIZES_FACTORS = (
    0.125,
    0.25,
    0.5,
    1.0,
    2.0,
    4.0,
)  # of what fits the first level, where lines close together are looked at
MAX_KNOWN_DRIFT = 0.1  # relative, to the latency of a level that the curve shows
UNSETTLED = "latency rises more than once and no plateau is flat: caches or TLBs that were not found may be the cause"


def with_unsettled_merged(levels: Sequence[CacheLevel]) -> list[CacheLevel]:
    """The levels, the nearest first, with one in place of each run of levels of which no property is known; renumbered."""
    merged: list[CacheLevel] = []
    for level in levels:
        if merged and _is_unsettled(level) and _is_unsettled(merged[-1]):
            merged[-1] = _both(merged[-1], level)
        else:
            merged.append(level)
    return numbered(merged)


def numbered(levels: Sequence[CacheLevel]) -> list[CacheLevel]:
    """The levels with names by their place, the nearest first; a mark says that a number is not known. Behind a level that may
    be several no number is known."""
    found: list[CacheLevel] = []
    for number, level in enumerate(levels, 1):
        doubt = level.name.endswith(UNKNOWN_NUMBER_MARK) or any(
            before.name.endswith(UNKNOWN_NUMBER_MARK) or before.findings["size_bytes"].reason == UNSETTLED for before in found
        )
        found.append(replace(level, name=f"L{number}{UNKNOWN_NUMBER_MARK if doubt else ''}"))
    return found


def with_unknown_number(level: CacheLevel) -> CacheLevel:
    """A level before which others may be missing: its number is not known, nor, as what they hide, its policy."""
    found = level.findings.get("policy")
    policy = {}
    if found is not None and found.status == "ok":
        policy = {"policy": undetermined_finding("policy", POLICY_BEHIND_UNKNOWN, found.method, found.evidence)}
    name = level.name.rstrip(UNKNOWN_NUMBER_MARK) + UNKNOWN_NUMBER_MARK
    return replace(level, name=name, findings={**level.findings, **policy})


def may_hide_a_level(step: CurveStep, level: CacheLevel, is_first: bool) -> bool:
    """True if a level that the curve does not show may lie behind a level: this one has no plateau, or working sets far larger
    than it are faster than what the next plateau says a miss costs. `is_first`: no page frames spread its lines."""
    size = level.findings["size_bytes"].value
    held = float(size) if isinstance(size, int | float) else step.over_bytes if is_first else math.inf
    return not step.flat or step.gone_bytes > MAX_OVERFLOW_RATIO * held


def is_hidden_between_nodes(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, node_bytes: int, line_bytes: int
) -> Experiment[bool]:
    """True if laps over all lines have a plateau that those over nodes as far apart as a prefetcher reaches do not have: such
    nodes use a part of the sets, which may hold no more of them than a nearer level does."""
    if node_bytes <= LONGEST_LINE_BYTES or not curve.steps:
        return False
    known = [*(step.hit for step in curve.steps), *([curve.memory] if curve.memory is not None else [])]
    before = 0.0
    for factor in FINER_SIZES_FACTORS:
        answer = yield from asked.one(chase.lap(int(factor * curve.steps[0].fits_bytes) // line_bytes, line_bytes))
        value = answer.value
        if value is None:
            return False
        if (
            before
            and same_latency([before], [value])
            and not any(same_latency([value], [one], MAX_KNOWN_DRIFT) for one in known)
        ):
            return True
        before = value
    return False


def _is_unsettled(level: CacheLevel) -> bool:
    return all(finding.status == "undetermined" for finding in level.findings.values())


def _both(near: CacheLevel, far: CacheLevel) -> CacheLevel:
    """One level in place of two: at least what the nearer one holds, at most what the farther one does."""
    size, beyond = near.findings["size_bytes"], far.findings["size_bytes"]
    evidence = tuple(dict.fromkeys((*size.evidence, *beyond.evidence)))
    findings = {name: replace(finding, reason=UNSETTLED) for name, finding in near.findings.items()}
    findings["size_bytes"] = replace(size, high=beyond.high, reason=UNSETTLED, evidence=evidence)
    return replace(near, findings=findings)
