"""Claims of a driver and of a spec sheet about a device's memory hierarchy, compared with the findings. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clmembench.model import CacheLevel, DeviceInfo, Finding
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_bytes

Verdict = Literal["agrees", "contradicted", "not confirmed"]

MAX_SIZE_RATIO = 1.25  # a gradual knee, rounding or a reserved part explains a smaller difference
# common sizes of a compute unit's first cache: some drivers claim the sum over their units instead of the largest cache
USUAL_UNIT_CACHE_BYTES = tuple(kib << 10 for kib in (16, 32, 48, 64, 128))
MEMORY = "DRAM"  # once its latency is known, no cache lies beyond the last one
LATENCIES = ("latency_cycles", "latency_ns")
FIRST_CACHE, LARGEST_CACHE = "first cache", "largest cache"  # the levels of claims that name none
LEVEL_BY_FIGURE = {"l1_bytes": "L1", "l2_bytes": "L2", "l3_bytes": "L3", "local_memory_bytes": "local"}  # by name in a sheet


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of `source` that the property `name` of `level` has this `value`.

    `level` is named as in a Hierarchy, or FIRST_CACHE or LARGEST_CACHE. `unit_bytes`: the value may be the sum over compute
    units with first caches of this size; 0: it is no such sum. `about` is the subject of the claim where it is not the level
    under which the claim is listed; such a claim is not compared with that level.
    """

    level: str
    name: str
    value: float
    source: str
    unit_bytes: int = 0
    about: str = ""


def list_claims(info: DeviceInfo, sheet: SpecSheet | None = None) -> tuple[Claim, ...]:
    """All claims of the driver about its device and of a sheet about the hardware; a driver's 0 is no claim."""
    driver = (
        Claim(FIRST_CACHE, "line_bytes", info.line_bytes, "the driver"),
        Claim(LARGEST_CACHE, "size_bytes", info.cache_bytes, "the driver", unit_cache_bytes(info)),
        Claim("local", "size_bytes", info.local_mem_bytes, "the driver"),
        Claim("DRAM", "size_bytes", info.global_mem_bytes, "the driver"),
    )
    figures = sheet.figures.items() if sheet is not None else ()
    printed = [
        Claim(LEVEL_BY_FIGURE[name], "size_bytes", f.value, "the sheet") for name, f in figures if name in LEVEL_BY_FIGURE
    ]
    return (*(claim for claim in driver if claim.value > 0), *printed)


def unit_cache_bytes(info: DeviceInfo) -> int:
    """Bytes of each compute unit's first cache where the claimed cache may be the sum of these, else 0.

    OpenCL does not define which cache the claim is about. NVIDIA's driver claims 4.1 MiB for an H200, which is 132 times 32
    KiB; its L2 has 50 MiB. CPU drivers claim a shared cache.
    """
    if info.has_cpu_cores or info.compute_units < 2:
        return 0
    each, rest = divmod(info.cache_bytes, info.compute_units)
    return each if not rest and each in USUAL_UNIT_CACHE_BYTES else 0


def verdict(finding: Finding | None, claimed: float) -> Verdict:
    """The verdict on a claim by a finding: sizes may differ by MAX_SIZE_RATIO from its interval, other values must be in it.

    An undetermined or inconsistent finding confirms no claim, but its bounds may contradict one. A finding that is a word
    confirms and contradicts nothing.
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
    """The claims about each level.

    A claim about a level that was found in parts ("L2 near", "L2 far") is about the whole level and is listed under the last
    part. A claim that names no level is about the first cache, or about the largest, which is the last one. Where several paths
    lead to the same caches, claims are listed under the path of global memory if there is one.
    """
    shared = any(level.space.startswith("global") for level in levels)
    names = [level.name if not shared or not level.space.startswith("readonly") else "" for level in levels]
    caches = [i for i, level in enumerate(levels) if "size_bytes" in level.findings and names[i]]
    of: list[list[Claim]] = [[] for _ in levels]
    for claim in claims:
        parts = [i for i, name in enumerate(names) if name == claim.level]
        parts = parts or [i for i, name in enumerate(names) if name.split(" ")[0] == claim.level]
        if claim.level == LARGEST_CACHE and caches:
            first, last = caches[0], caches[-1]
            here = _of_largest_cache(claim, levels[last].findings["size_bytes"], _reaches_memory(levels))
            of[first if here.level == FIRST_CACHE else last].append(here)
            continue
        for index in caches[:1] if claim.level == FIRST_CACHE else parts[-1:]:
            of[index].append(claim)
    return of


def _of_largest_cache(claim: Claim, size: Finding, reaches_memory: bool) -> Claim:
    """A claim about the largest cache, restated where the size of the last measured cache contradicts it.

    It may then be the sum of all compute units' first caches, or be about a cache that the measurement did not reach.
    """
    if verdict(size, claim.value) != "contradicted":
        return claim
    if claim.unit_bytes:
        return replace(claim, level=FIRST_CACHE, about=f"for all compute units, {format_bytes(claim.unit_bytes)} each")
    least = size.low if size.low is not None else size.value
    if not reaches_memory and isinstance(least, int | float) and claim.value > least:
        return replace(claim, about="for its largest cache, which was not reached")
    return claim


def _reaches_memory(levels: Sequence[CacheLevel]) -> bool:
    """True if the latency of memory is known, so that no larger cache lies beyond the last one."""
    latencies = [level.findings[n] for level in levels if level.name == MEMORY for n in LATENCIES if n in level.findings]
    return any(latency.status == "ok" for latency in latencies)
