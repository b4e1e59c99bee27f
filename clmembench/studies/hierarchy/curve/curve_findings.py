"""Findings from a latency curve: memory, and the latency of each level. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from clmembench.analysis.plateaus import why_not_memory
from clmembench.model import CacheLevel, Finding
from clmembench.model.findings import UNKNOWN_CLOCK, measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, MIN_RELATIVE_LAP_NOISE

MEMORY_METHOD = "whole laps far beyond the last cache, in blocks whose pages the TLB holds"
PLATEAU_METHOD = "plateau of whole laps over growing working sets"
MAX_MEMORY_SPREAD = 0.1  # relative, of laps beyond the last cache: what differs more is no one latency
MAX_SPREAD_OF_TWO = 0.2  # where memory lies behind two partitions, one farther than the other: the interval has both
TRANSLATION_DOUBT = 1 / 3  # of what translation adds to a lap's accesses
MIN_MISSING_SHARE = 0.9  # of accesses: then nearly every set has more lines than it holds
MAX_STEEP_RATIO = 1.5  # from the last working set that surely fits to the bound: beyond, another level may serve the misses
UNKNOWN_LEVEL_NUMBER = "a step before it has no plateau, so that the number of this level is unknown"


@dataclass(frozen=True, slots=True)
class LevelLatency:
    """A level's latency in the curve's unit and in ns, from the records `evidence`; None where it is not known, for the reason
    `why`, and then `least` and `least_ns` may bound it. `noise`: relative; 0: the curve's. `ends`: those of the interval as
    multiples of the value, where noise does not give them."""

    method: str
    evidence: tuple[str, ...]
    value: float | None = None
    ns: float | None = None
    why: str = ""
    noise: float = 0.0
    least: float | None = None
    least_ns: float | None = None
    ends: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LapTranslation:
    """What translation adds to laps in blocks: levels of TLBs by their reach in bytes and what an access costs that misses
    them, and the bytes of a page that are visited in a row."""

    levels: tuple[tuple[float, float], ...] = ()
    visited_bytes: int = 0

    def cost(self, array_bytes: float, node_bytes: int) -> float:
        """What is added to each access of a lap over so many bytes: where a level holds half of the pages, half of it."""
        missed = [min(1.0, max(0.0, array_bytes / reach - 1)) * cost for reach, cost in self.levels]
        return max(missed, default=0.0) * node_bytes / self.visited_bytes if self.visited_bytes else 0.0


NO_TRANSLATION = LapTranslation()


def memory_level(
    found: LatencyCurve,
    sure: bool,
    floor_bytes: int,
    translation: LapTranslation = NO_TRANSLATION,
    node_bytes: int = 0,
    has_partitions: bool = False,
) -> tuple[CacheLevel, ...]:
    """The level beyond all caches, as far as the curve shows it; `sure`: no prefetcher helped there. By the rule of
    `plateaus.why_not_memory` it must lie beyond `floor_bytes`; else its latency is at least that of the largest sets. Behind
    a cache that `has_partitions` laps differ more."""
    if not found.steps:
        return ()
    value, ns, noise = found.memory, found.memory_ns, found.noise_of_memory()
    least = least_ns = None
    why = "the latency still grows at the largest working set, or a prefetcher lowers it"
    if value is not None and ns is not None and sure:
        why = why_not_memory(found.steps[-1].fits_bytes, found.steps[-1].gone_bytes, found.sizes[-1], floor_bytes)
        spread = LAP_NOISE_SIGMAS * max(MIN_RELATIVE_LAP_NOISE, noise)
        if not why and spread > (MAX_SPREAD_OF_TWO if has_partitions else MAX_MEMORY_SPREAD):
            why = f"laps beyond the last cache differ by up to {spread:.0%}: a prefetcher may serve some of their accesses"
        below = 1 - spread
        least, least_ns = value * below, ns * below
    if why:
        value = ns = None
    latency = LevelLatency(MEMORY_METHOD, found.tail(), value, ns, why, noise, least, least_ns)
    latency = without_translation(latency, translation.cost(found.sizes[-1], node_bytes))
    return (CacheLevel("DRAM", "global", latency_findings(found, latency)),)


def without_translation(latency: LevelLatency, cost: float) -> LevelLatency:
    """A latency less what translation adds to each access, of which a third is in doubt."""
    if latency.value is None or latency.ns is None or not 0 < cost < latency.value / 2:
        return latency
    left = 1 - cost / latency.value
    noise = math.hypot(latency.noise, TRANSLATION_DOUBT * (1 - left) / left / LAP_NOISE_SIGMAS)
    return replace(latency, value=left * latency.value, ns=left * latency.ns, noise=noise)


def plateau_latency(curve: LatencyCurve, number: int, doubt: str) -> LevelLatency:
    """The latency of a step's plateau; a bound where only the level's number is in doubt."""
    step, plateau = curve.steps[number], curve.plateau(number)
    if not doubt:
        return LevelLatency(PLATEAU_METHOD, plateau, step.hit, step.hit_ns, noise=step.noise)
    if doubt == UNKNOWN_LEVEL_NUMBER:
        return LevelLatency(PLATEAU_METHOD, plateau, why=doubt, least=step.hit, least_ns=step.hit_ns)
    return LevelLatency(PLATEAU_METHOD, plateau, why=doubt, noise=step.noise)


def latency_findings(curve: LatencyCurve, latency: LevelLatency) -> dict[str, Finding]:
    """latency_cycles and latency_ns of a level; no cycles where the core's clock is not known."""
    spread, found = LAP_NOISE_SIGMAS * max(MIN_RELATIVE_LAP_NOISE, latency.noise or curve.noise), {}
    in_cycles = curve.unit == "cycles"
    for name, number in (("latency_cycles", latency.value if in_cycles else None), ("latency_ns", latency.ns)):
        if number is None:
            reason = UNKNOWN_CLOCK if name == "latency_cycles" and not in_cycles else latency.why
            least = latency.least_ns if name == "latency_ns" else latency.least if in_cycles else None
            found[name] = undetermined_finding(name, reason, latency.method, latency.evidence, least)
        else:
            low, high = latency.ends or (1 - spread, 1 + spread)
            found[name] = measured_finding(name, number, latency.method, latency.evidence, low * number, high * number)
    return found


def with_steep_bound(size: Finding, curve: LatencyCurve, number: int) -> Finding:
    """The size of a level behind the first with an upper bound where it has none: the first working set of which nearly all
    accesses miss, which is larger than the level however its lines are spread over sets, if the curve climbs there soon."""
    step = curve.steps[number]
    if size.status != "undetermined" or size.high is not None or not size.low or not number:
        return size
    following = curve.steps[number + 1 :]
    miss = min([step.miss, *(one.hit for one in following[:1])])  # what the next plateau says, not what is left of it
    limit = step.hit + MIN_MISSING_SHARE * (miss - step.hit)
    rising = [(s, v) for s, v in zip(curve.sizes, curve.values, strict=True) if s > size.low]
    full = next((s for (s, v), (_, then) in pairwise(rising) if v >= limit and then >= limit), None)
    return replace(size, high=full) if full is not None and full <= MAX_STEEP_RATIO * size.low else size
