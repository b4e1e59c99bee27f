"""One level of the hierarchy: its geometry, policy and latency as findings, each with the records behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clmembench.infer.findings import undetermined_finding
from clmembench.infer.hierarchy.capacity_search import find_capacity
from clmembench.infer.hierarchy.curve_findings import LevelLatency, latency_findings
from clmembench.infer.hierarchy.curve_steps import MAX_PLATEAU_RELATIVE_DRIFT, CurveStep
from clmembench.infer.hierarchy.evicted_level import LevelBeyondStrides, findings_by_eviction
from clmembench.infer.hierarchy.fill_unit import find_fill_unit
from clmembench.infer.hierarchy.latency_curve import LatencyCurve, PlateauPoint, free_of_prefetching
from clmembench.infer.hierarchy.level_geometry import LevelGeometry, unit_finding
from clmembench.infer.hierarchy.line_probe import HELD_LINES_SHARE, LineProbe
from clmembench.infer.hierarchy.policy_probe import probe_policy
from clmembench.infer.hierarchy.probing import CapacityBound, ChaseLayout, HitMissModel, LevelProbe, ProbeCache, all_hit
from clmembench.infer.hierarchy.soft_end import soft_end
from clmembench.infer.hierarchy.strides import MIN_PAGE_BYTES, SetGeometry, StrideLimits, sets_and_ways
from clmembench.infer.hierarchy.tag_unit import find_tag_unit
from clmembench.infer.hierarchy.turning import MAX_NEXT_SHARE
from clmembench.model import CacheLevel, Finding, Inquiry

GEOMETRY_PROPERTIES = ("line_bytes", "sector_bytes", "ways", "sets", "policy")
PLATEAU_METHOD = "plateau of whole laps over growing working sets"
PREFETCHER_HELPS = "laps in blocks of two sizes differ in latency: a prefetcher fetches some of the lines"
UNKNOWN_LEVEL_NUMBER = "a step before it has no plateau, so that the number of this level is unknown"
NO_PLATEAU = "no plateau is flat enough: other levels serve some accesses"
# Thresholds
MIN_OVERFLOW_MISS_SHARE = 0.2  # of accesses a quarter beyond where misses begin: fewer are a soft end
MIN_UNIT_BYTES = 32  # taken for what a miss brings in where that is not known: no device brings in less
USUAL_WAYS = 16  # taken for those of a nearer cache where they are not known
NEXT_LATENCY_RATIO = 3  # of a hit: what a miss is taken to cost at most, since a level without a plateau may come next
LOOSE_RELATIVE_BOUNDS = 0.005  # of a size that single lines cannot tell


@dataclass(frozen=True, slots=True)
class LevelContext:
    """Context of one level: its number from 0, the relative noise of a lap, the longest unit in bytes
    that any level brings in, the strides that may be tried, the length of a page (0: not known), and what a missing translation
    costs at most; entries of the first TLB if it has one set (0: else); ways, and bytes of a way, of the levels before, as far
    as they are known."""

    number: int
    noise: float
    node_bytes: int
    strides: StrideLimits
    page_bytes: int = 0
    penalty: float = 0.0
    entries: int = 0
    nearer_ways: int = USUAL_WAYS
    nearer_way_bytes: int = 0


def infer_cache_level(asked: ProbeCache, chase: ChaseLayout, curve: LatencyCurve, around: LevelContext) -> Inquiry[CacheLevel]:
    """Size, line, sector, ways, sets, policy and latency of a level that a curve's step leaves."""
    step, name = curve.steps[around.number], f"L{around.number + 1}"
    reason = yield from _why_not_own_latency(asked, chase, curve, around)
    latencies = latency_findings(curve, _plateau_latency(curve, around.number, reason))
    if reason:
        plateau = curve.plateau(around.number)
        # where a plateau is in doubt so is what most misses are: no upper bound
        most = step.gone_bytes if reason == PREFETCHER_HELPS else None
        bounds = undetermined_finding("size_bytes", reason, PLATEAU_METHOD, plateau, step.fits_bytes, most)
        return CacheLevel(
            name, chase.space, {"size_bytes": bounds, **_undetermined_properties(GEOMETRY_PROPERTIES, reason), **latencies}
        )
    asked.cited()
    probe = LevelProbe(asked, chase, _hit_miss_model(step, around))
    before = curve.steps[0 if chase.space == "global" else 1 : around.number]
    filled = yield from find_fill_unit(probe, step.gone_bytes, around.node_bytes, [nearer.hit for nearer in before])
    fill_from = asked.cited()
    least = filled.nbytes or min(max(MIN_UNIT_BYTES, filled.least), around.node_bytes)
    unit, dense = yield from _finest_capacity(probe, step, least, around)
    dense_from = asked.cited()
    sector = unit_finding("sector_bytes", filled, "pairs of accesses", fill_from)
    if not dense.fits:
        why = "no working set was found that fits into it without misses"
        none = _undetermined_properties(("size_bytes", "line_bytes", "ways", "sets", "policy"), why)
        return CacheLevel(name, chase.space, {**none, "sector_bytes": sector, **latencies})
    share = yield from probe.misses(dense.fits * 5 // 4 + 1, unit)  # most miss, where lines fall evenly into sets
    if share is not None and share < MIN_OVERFLOW_MISS_SHARE:
        soft = {
            **soft_end(curve, curve.steps[around.number], around.page_bytes, dense.fits * unit),
            "sector_bytes": sector,
            **latencies,
        }
        return CacheLevel(name, chase.space, (yield from _with_eviction_sets(probe, soft, curve, around, least)))
    known, sources = yield from _geometry(
        probe, LevelGeometry(filled, dense, unit, step.gone_bytes, around.number == 0), around
    )
    policy = yield from _policy(probe, known, curve, around)
    findings = {
        "size_bytes": known.size(dense_from),
        "line_bytes": known.line(sources[0]),
        "sector_bytes": sector,
        **known.sets_findings(sources[1]),
        **policy,
        **latencies,
    }
    return CacheLevel(name, chase.space, (yield from _with_eviction_sets(probe, findings, curve, around, least)))


def _undetermined_properties(names: tuple[str, ...], reason: str) -> dict[str, Finding]:
    return {name: undetermined_finding(name, reason) for name in names}


def _why_not_own_latency(asked: ProbeCache, chase: ChaseLayout, curve: LatencyCurve, around: LevelContext) -> Inquiry[str]:
    """Why a step's plateau may not be the level's own latency; "" where it is."""
    step = curve.steps[around.number]
    if not step.flat:
        return NO_PLATEAU
    if not (yield from _free_of_prefetching(asked, chase, curve, around)):
        return PREFETCHER_HELPS
    return "" if all(before.flat for before in curve.steps[: around.number]) else UNKNOWN_LEVEL_NUMBER


def _plateau_latency(curve: LatencyCurve, number: int, doubt: str) -> LevelLatency:
    """The latency of a step's plateau; a bound where only the level's number is in doubt."""
    step, plateau = curve.steps[number], curve.plateau(number)
    if not doubt:
        return LevelLatency(PLATEAU_METHOD, plateau, step.hit, step.hit_ns, noise=step.noise)
    if doubt == UNKNOWN_LEVEL_NUMBER:
        return LevelLatency(PLATEAU_METHOD, plateau, why=doubt, least=step.hit, least_ns=step.hit_ns)
    return LevelLatency(PLATEAU_METHOD, plateau, why=doubt, noise=step.noise)


def _hit_miss_model(step: CurveStep, around: LevelContext) -> HitMissModel:
    """Cost of the level's hits and misses. A block's pages are translated once each, for all their lines."""
    beyond = 0.0
    if step.over_bytes > around.strides.reach_bytes:
        beyond = around.penalty * around.node_bytes / max(MIN_PAGE_BYTES, around.page_bytes)
    return HitMissModel(step.hit, step.miss, (step.noise or around.noise) * step.hit, beyond)


def _free_of_prefetching(asked: ProbeCache, chase: ChaseLayout, curve: LatencyCurve, around: LevelContext) -> Inquiry[bool]:
    """True if no prefetcher lowers the plateau: compared well before its end, which is soft in a cache that pages
    fall into by chance; at its end where there is no answer. Where the plateau is only approached there, with the curve."""
    step = curve.steps[around.number]
    for size in (step.fits_bytes // 2, step.fits_bytes)[0 if around.number else 1 :]:
        near, value = max(pair for pair in zip(curve.sizes, curve.values, strict=True) if pair[0] <= max(size, curve.sizes[0]))
        if value < step.hit * (1 - MAX_PLATEAU_RELATIVE_DRIFT):
            point = PlateauPoint(near, around.node_bytes, value, step.noise)
        else:
            point = PlateauPoint(size, around.node_bytes, step.hit, step.noise)
        free = yield from free_of_prefetching(asked, chase, point, around.strides.reach_bytes)
        if free is not None:
            return free
    return False


def _geometry(
    probe: LevelProbe, begun: LevelGeometry, around: LevelContext
) -> Inquiry[tuple[LevelGeometry, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """The geometry with its tag unit and its sets, and the records behind each of these two."""
    asked, limits = probe.asked, around.strides
    if probe.chase.space != "global":
        limits = replace(limits, nearer=0.0)
    tag, tags = yield from find_tag_unit(probe, begun.unit, begun.dense, limits.most_bytes)
    tag_from = asked.cited()
    sets: SetGeometry | None = None
    if tag.nbytes is not None:
        count = begun.dense.fits * begun.unit // tag.nbytes
        sets = yield from sets_and_ways(_without_blocks(probe), tag.nbytes, count, limits)
    return replace(begun, tag=tag, tags=tags, sets=sets), (tag_from, asked.cited())


def _without_blocks(probe: LevelProbe) -> LevelProbe:
    """The probe with places in one random cycle."""
    return replace(probe, chase=replace(probe.chase, block_bytes=0))


def _miss_is_known(curve: LatencyCurve, number: int) -> bool:
    """True if what is beyond a level has a plateau of its own."""
    following = curve.steps[number + 1 :]
    return following[0].flat if following else curve.memory is not None


def _with_eviction_sets(
    probe: LevelProbe, findings: dict[str, Finding], curve: LatencyCurve, around: LevelContext, unit: int
) -> Inquiry[dict[str, Finding]]:
    """The findings of a level of which no stride told the ways, with what eviction sets tell."""
    if findings["ways"].status == "ok":
        return findings
    first = curve.steps[0 if probe.chase.space == "global" else 1]
    step, limits = curve.steps[around.number], around.strides
    nearer = limits.nearer if around.number and step is not first else 0.0
    miss = min(step.miss, NEXT_LATENCY_RATIO * step.hit)
    lines = LineProbe(
        probe.asked, probe.chase.space, step.hit, miss, nearer, step.noise or around.noise, around.node_bytes, first.hit,
        int(HELD_LINES_SHARE * first.fits_bytes / around.node_bytes), around.entries, around.page_bytes,
        reach_bytes=limits.reach_bytes,
    )  # fmt: skip
    before = curve.steps[around.number - 1] if nearer else None
    following = curve.steps[around.number + 1 :]
    most_bytes = min([limits.most_bytes, *(int(MAX_NEXT_SHARE * s.fits_bytes) for s in following[:1])])
    held = (before.fits_bytes, before.hit) if before is not None else (0.0, 0.0)
    way_bytes = around.nearer_way_bytes if nearer else 0
    misses = tuple(
        (size, (value - step.hit) / (step.miss - step.hit)) for size, value in zip(curve.sizes, curve.values, strict=True)
    )
    level = LevelBeyondStrides(
        _without_blocks(probe), lines, step, around.number, held, around.nearer_ways, way_bytes, limits.most_bytes, most_bytes,
        unit, _miss_is_known(curve, around.number), misses,
    )  # fmt: skip
    return (yield from findings_by_eviction(level, probe.chase, findings))


def _policy(
    probe: LevelProbe, known: LevelGeometry, curve: LatencyCurve, around: LevelContext
) -> Inquiry[Mapping[str, Finding]]:
    """The replacement policy, where a set can be overflowed on purpose and a miss's cost is known."""
    miss_known = _miss_is_known(curve, around.number)
    sets = known.sets
    if sets is not None and sets.ways is not None and known.agrees() and miss_known:
        nearer = around.strides.nearer if probe.chase.space == "global" else 0.0
        return (yield from probe_policy(_without_blocks(probe), sets.ways, sets.way_bytes, known.unit, nearer))
    why = "its sets are unknown, so no set can be overflowed on purpose" if miss_known else "the cost of a miss is unknown"
    return {"policy": undetermined_finding("policy", why)}


def _finest_capacity(
    probe: LevelProbe, step: CurveStep, least: int, around: LevelContext
) -> Inquiry[tuple[int, CapacityBound]]:
    """The unit in bytes in which places are counted, and how many neighbouring ones just fit. Beyond the first level they are
    counted in whole lines of any level, since laps are slow there, and only checked with `least`, the unit that a miss brings
    in."""
    unit = least if around.number == 0 else around.node_bytes
    dense = yield from _dense_capacity(probe, step, unit)
    if unit <= least or not dense.fits:
        return unit, dense
    # where lines are shorter and a hash spreads them, as many places as there are lines fit at any stride
    finer = replace(dense, fits=dense.fits * unit // least, over=dense.over and -(-dense.over * unit // least))
    if not (yield from all_hit(probe, finer.fits, least)):
        finer = yield from _dense_capacity(probe, step, least)
    return least, finer


def _dense_capacity(probe: LevelProbe, step: CurveStep, unit: int) -> Inquiry[CapacityBound]:
    """How many neighbouring units just fit. A power of two between the curve's points is tried first: most caches are one."""
    low, over = step.fits_bytes // unit, -(-step.over_bytes // unit)
    powers = [p for p in (1 << k for k in range(40)) if low < p < over] + [3 << k for k in range(39) if low < 3 << k < over]
    sharp = probe.contrast.sharp(over)
    guesses = [low, *powers, over] if sharp else [low, over]
    return (yield from find_capacity(probe, unit, 2 * over, guesses, 0.0 if sharp else LOOSE_RELATIVE_BOUNDS))
