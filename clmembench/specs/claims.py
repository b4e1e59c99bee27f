"""Claims about a device's memory hierarchy by its driver and its sheet, and their verdicts by what was measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clmembench.model import CacheLevel, DeviceInfo, Finding
from clmembench.specs.sheets import SpecSheet

Verdict = Literal["agrees", "contradicted", "not confirmed"]

MAX_SIZE_RATIO = 1.25  # beyond what a ramp, a rounding or a reserved part explains
FIRST_CACHE, LARGEST_CACHE = "first cache", "largest cache"  # of claims that name no level
LEVEL_BY_FIGURE = {"l1_bytes": "L1", "l2_bytes": "L2", "l3_bytes": "L3", "local_memory_bytes": "local"}  # a sheet's figures


@dataclass(frozen=True, slots=True)
class Claim:
    """`source` says that `level` (as in a Hierarchy, or FIRST or LARGEST) has that `value` of the property `name`."""

    level: str
    name: str
    value: float
    source: str


def list_claims(info: DeviceInfo, sheet: SpecSheet | None = None) -> tuple[Claim, ...]:
    """Claims of the driver about its device and of a sheet about the hardware; a driver's 0 is no claim."""
    driver = (
        Claim(FIRST_CACHE, "line_bytes", info.line_bytes, "the driver"),
        Claim(LARGEST_CACHE, "size_bytes", info.cache_bytes, "the driver"),
        Claim("local", "size_bytes", info.local_mem_bytes, "the driver"),
        Claim("DRAM", "size_bytes", info.global_mem_bytes, "the driver"),
    )
    figures = sheet.figures.items() if sheet is not None else ()
    printed = [
        Claim(LEVEL_BY_FIGURE[name], "size_bytes", f.value, "the sheet") for name, f in figures if name in LEVEL_BY_FIGURE
    ]
    return (*(claim for claim in driver if claim.value > 0), *printed)


def verdict(finding: Finding | None, claimed: float) -> Verdict:
    """Verdict on a claim by a finding: sizes within NEAR of its interval, all else within the interval itself.

    What is undetermined or inconsistent confirms nothing, but the bounds that it has may contradict. So does no word.
    """
    if finding is None or isinstance(finding.value, str):
        return "not confirmed"
    ends = [end for end in (finding.low, finding.high, finding.value) if end is not None]
    slack = MAX_SIZE_RATIO if finding.name == "size_bytes" else 1.0
    sure = finding.status == "ok"
    low = finding.low if finding.low is not None else min(ends) if sure and ends else -math.inf
    high = finding.high if finding.high is not None else max(ends) if sure and ends else math.inf
    if not low / slack <= claimed <= high * slack:
        return "contradicted"
    return "agrees" if sure and ends else "not confirmed"


def claims_by_level(claims: Sequence[Claim], levels: Sequence[CacheLevel]) -> list[list[Claim]]:
    """For each level the claims about it. One that names a level found in parts ("L2 near", "L2 far") is about the whole, which
    the last of them is taken for; one that names no level is about the first cache or the largest, which is the last. Of paths
    that lead to the same caches it is the one of global memory, where there is one."""
    shared = any(level.space.startswith("global") for level in levels)
    names = [level.name if not shared or not level.space.startswith("readonly") else "" for level in levels]
    caches = [i for i, level in enumerate(levels) if "size_bytes" in level.findings and names[i]]
    of: list[list[Claim]] = [[] for _ in levels]
    for claim in claims:
        parts = [i for i, name in enumerate(names) if name == claim.level]
        parts = parts or [i for i, name in enumerate(names) if name.split(" ")[0] == claim.level]
        at = {FIRST_CACHE: caches[:1], LARGEST_CACHE: caches[-1:]}.get(claim.level, parts[-1:])
        for index in at:
            of[index].append(claim)
    return of
