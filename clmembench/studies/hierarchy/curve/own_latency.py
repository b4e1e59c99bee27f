"""Whether a plateau's latency is its level's own, and what hits cost along the path of a level's probes. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from clmembench.model import CacheLevel, Experiment
from clmembench.studies.hierarchy.curve.curve_findings import UNKNOWN_LEVEL_NUMBER
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.probes.prefetch_control import BlockTranslation, PlateauPoint, free_of_prefetching
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession

PREFETCHER_HELPS = "laps in blocks of two sizes differ in latency: a prefetcher fetches some of the lines"
BLOCKS_DIFFER = (
    "laps in blocks of two sizes differ in latency, though nothing is fetched ahead of cold accesses in sequence: translation "
    "may be the cause"
)
CURVE_STOOD = "no prefetcher lowers it, by laps in other blocks held against the curve, as an earlier version did"
NOT_COMPARED = "laps in blocks of another size, which would show whether a prefetcher fetches some of the lines, got no answer"
NO_PLATEAU = "no plateau is flat enough: other levels serve some accesses"
# Thresholds
HELD_SHARE = 0.75  # of the last working set on a plateau, which surely fits: laps over it tell what a hit costs
HELD_ORDERS = 3  # of such a lap
MAX_DEARER_HITS = 0.05  # of what a miss adds: laps that cost more than the plateau by more than that are no hits


def why_not_own_latency(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, number: int, node_bytes: int, translation: BlockTranslation
) -> Experiment[tuple[str, str]]:
    """Why a step's plateau may not be the level's own latency, "" where it is; and how that was told, where not as usual."""
    if not curve.steps[number].flat:
        return NO_PLATEAU, ""
    free, note = yield from _free_of_prefetching(asked, chase, curve, number, node_bytes, translation)
    if not free:
        return NOT_COMPARED if free is None else PREFETCHER_HELPS, ""
    return "" if all(before.flat for before in curve.steps[:number]) else UNKNOWN_LEVEL_NUMBER, note


def with_hits_of_path(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, number: int, node_bytes: int
) -> Experiment[LatencyCurve]:
    """The curve with what a level's hits cost in laps along another path, near the end of the plateau. Along the curve's path
    a nearer cache that keeps some lines for long serves some accesses of the sets on it; along the other it serves none."""
    step, costs = curve.steps[number], list[float]()
    for seed in range(HELD_ORDERS):
        answer = yield from asked.one(chase.lap(max(1, int(HELD_SHARE * step.fits_bytes) // node_bytes), node_bytes, seed))
        costs += [answer.value] if answer.value is not None else []
    hit = statistics.median(costs) if costs else step.hit
    if not 0 < hit - step.hit <= MAX_DEARER_HITS * (step.miss - step.hit):
        return curve
    return replace(curve, steps=(*curve.steps[:number], replace(step, hit=hit), *curve.steps[number + 1 :]))


def without_prefetcher(level: CacheLevel) -> CacheLevel:
    """The level of a device that fetches nothing ahead of cold accesses in sequence: no reason of its findings says that it
    does."""
    findings = {
        name: replace(found, reason=found.reason.replace(PREFETCHER_HELPS, BLOCKS_DIFFER))
        for name, found in level.findings.items()
    }
    return replace(level, findings=findings)


def _compared_sizes(curve: LatencyCurve, number: int) -> list[int]:
    """Working sets of a plateau that tell whether a prefetcher lowers it; later ones where earlier ones got no answer."""
    end = curve.steps[number].fits_bytes
    if not number:
        return [end]
    begun, half = curve.steps[number - 1].gone_bytes, end // 2
    # half of it may be on the rise to the plateau; a run stored before has no other
    return [half, end] if half >= begun or begun >= end else [math.isqrt(begun * end), end, half]


def _rise_of_twice_as_many(curve: LatencyCurve, number: int, block_bytes: int) -> float | None:
    """By how much, relative, laps take longer than those over half as many lines, both on a plateau and within one block."""
    most = curve.size_below(min(curve.steps[number].fits_bytes, block_bytes))
    half = curve.size_below(most / 2)
    if half > most / 2 or (number and half < curve.steps[number - 1].gone_bytes):
        return None
    values = dict(zip(curve.sizes, curve.values, strict=True))
    return values[most] / values[half] - 1


def _free_of_prefetching(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, number: int, node_bytes: int, translation: BlockTranslation
) -> Experiment[tuple[bool | None, str]]:
    """True if no prefetcher lowers the plateau: compared well before its end, which is soft in a cache that pages
    fall into by chance; at its end where there is no answer. None: no answer at all, not along the curve's own path either. And
    a note where a run stored before has no lap in usual blocks along this path, so that the curve's latency stood for it."""
    step, rise = curve.steps[number], _rise_of_twice_as_many(curve, number, chase.block_bytes)
    for path in dict.fromkeys((chase, replace(chase, space="global"))):
        for size in _compared_sizes(curve, number):
            point = PlateauPoint(curve.size_below(size), node_bytes, step.noise, step.hit, rise)
            free = yield from free_of_prefetching(asked, path, point, translation)
            if free is not None:
                usual = yield from asked.one(chase.lap(point.array_bytes // point.stride_bytes, point.stride_bytes))
                return free, "" if usual.value is not None else CURVE_STOOD
    return None, ""
