"""One level of the hierarchy: its geometry, policy and latency as findings, each with the records behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clmembench.model import CacheLevel, Experiment, Finding
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_findings import (
    NO_TRANSLATION,
    PLATEAU_METHOD,
    LapTranslation,
    latency_findings,
    plateau_latency,
    with_steep_bound,
    without_translation,
)
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.curve.own_latency import PREFETCHER_HELPS, why_not_own_latency, with_hits_of_path
from clmembench.studies.hierarchy.curve.reversed_laps import MAX_NEXT_SHARE
from clmembench.studies.hierarchy.curve.set_count import with_sets_between_bounds, with_sets_of_size
from clmembench.studies.hierarchy.curve.set_ramp import with_sets_by_ramp
from clmembench.studies.hierarchy.geometry.cache_bits import with_sets_by_bits
from clmembench.studies.hierarchy.geometry.gradual_knee import soft_end
from clmembench.studies.hierarchy.geometry.level_geometry import (
    UNKNOWN_CAPACITY,
    LevelGeometry,
    confirmed_size,
    dense_capacity,
    unit_finding,
    with_size_elsewhere,
    without_contradiction,
)
from clmembench.studies.hierarchy.geometry.paired_lines import (
    LINES_METHOD,
    PAIRS,
    UNPAIRED,
    LineUnit,
    Paired,
    settle_line_unit,
    shortest_line,
    without_doubted_line,
    without_sets_of_pairs,
)
from clmembench.studies.hierarchy.geometry.strides import MIN_PAGE_BYTES, SetGeometry, StrideLimits, sets_and_ways
from clmembench.studies.hierarchy.geometry.tag_unit import find_tag_unit
from clmembench.studies.hierarchy.levels.evicted_level import LevelBeyondStrides, findings_by_eviction
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize, find_fill_unit
from clmembench.studies.hierarchy.probes.line_probe import HELD_LINES_SHARE, LineProbe
from clmembench.studies.hierarchy.probes.prefetch_control import BlockTranslation
from clmembench.studies.hierarchy.probes.probing import (
    LAP_NOISE_SIGMAS,
    CapacityBound,
    ChaseLayout,
    HitMissModel,
    LevelProbe,
    ProbeSession,
    all_hit,
)
from clmembench.studies.hierarchy.replacement.policy_probe import probe_policy
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, NearerSet, SetLines, SetOfLevel

GEOMETRY_PROPERTIES = ("line_bytes", "sector_bytes", "ways", "sets", "policy")
LINGERING = "the nearer cache, whose policy may keep lines for long, serves some accesses of so small working sets"
HALVES_APART = "{tag} B suit the odd strides, but halves of these are evicted each by itself, as of lines of {line} B"
TOO_LARGE = "laps over so large a level take too long to look for its lines one by one"
# Thresholds
MAX_PROBED_BYTES = 32 << 20  # of a level whose geometry is looked for: a lap of a larger one takes a third of a second
MIN_LINGERING_RATIO = 2.2  # times the level before: NRU of 16 ways serves 4% of laps over 1.9 times its lines, none from there
MIN_OVERFLOW_MISS_SHARE = 0.2  # of accesses a quarter beyond where misses begin: fewer are a soft end
MIN_UNIT_BYTES = 32  # taken for what a miss brings in where that is not known: no device brings in less
USUAL_WAYS = 16  # taken for those of a nearer cache where they are not known
NEXT_LATENCY_RATIO = 3  # of a hit: what a miss is taken to cost at most, since a level without a plateau may come next


@dataclass(frozen=True, slots=True)
class LevelContext:
    """Context of one level: its number from 0, the relative noise of a lap, the longest unit in bytes
    that any level brings in, the strides that may be tried, the length of a page (0: not known), and what a missing translation
    costs at most; entries of the first TLB if it has one set (0: else); ways, and bytes of a way, of the levels before, as far
    as they are known; the set of the only nearer level, where its policy is known; the nearer level whose misses bring in
    several lines; whether the level before may keep lines for longer than one that holds what was used last; the
    line of that level (0: not known; None: there is no such level); the shortest line known of the levels before (0: the first
    one's is not); and what translation adds to laps."""

    number: int
    noise: float
    node_bytes: int
    strides: StrideLimits
    page_bytes: int = 0
    penalty: float = 0.0
    entries: int = 0
    nearer_ways: int = USUAL_WAYS
    nearer_way_bytes: int = 0
    nearer_set: NearerSet | None = None
    paired: Paired = UNPAIRED
    nearer_keeps: bool = False
    nearer_line: int | None = None
    shortest_nearer_line: int = 0
    translation: LapTranslation = NO_TRANSLATION


def infer_cache_level(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, around: LevelContext
) -> Experiment[CacheLevel]:
    """Size, line, sector, ways, sets, policy and latency of a level that a curve's step leaves."""
    step, name = curve.steps[around.number], f"L{around.number + 1}"
    translation = BlockTranslation(around.strides.reach_bytes, around.penalty)
    reason, note = yield from why_not_own_latency(asked, chase, curve, around.number, around.node_bytes, translation)
    # the plateau's middle: it begins where the level before is gone
    begun = curve.steps[around.number - 1].gone_bytes if around.number else 0
    translated = around.translation.cost((min(begun, step.fits_bytes) + step.fits_bytes) / 2, around.node_bytes)
    lingers = around.nearer_keeps and step.fits_bytes < MIN_LINGERING_RATIO * curve.steps[around.number - 1].fits_bytes
    latency = plateau_latency(curve, around.number, reason)
    if lingers and not reason:
        least = 1 - LAP_NOISE_SIGMAS * max(step.noise, around.noise)
        latency = replace(latency, value=None, ns=None, why=LINGERING, least=least * step.hit, least_ns=least * step.hit_ns)
    latency = replace(latency, method=f"{latency.method}; {note}" if note else latency.method)
    latencies = latency_findings(curve, without_translation(latency, translated))
    if reason:
        plateau = curve.plateau(around.number)
        # where a plateau is in doubt so is what most misses are: no upper bound
        most = step.gone_bytes if reason == PREFETCHER_HELPS else None
        bounds = undetermined_finding("size_bytes", reason, PLATEAU_METHOD, plateau, step.fits_bytes, most)
        return CacheLevel(
            name, chase.space, {"size_bytes": bounds, **_undetermined_properties(GEOMETRY_PROPERTIES, reason), **latencies}
        )
    if around.number and step.fits_bytes > MAX_PROBED_BYTES:
        # a working set of which three quarters of the accesses miss is larger than the level
        most = step.gone_bytes if _miss_is_known(curve, around.number) else None
        size = undetermined_finding(
            "size_bytes", TOO_LARGE, PLATEAU_METHOD, curve.plateau(around.number), step.surely_fits_bytes, most
        )
        size = with_steep_bound(size, curve, around.number)
        return CacheLevel(
            name, chase.space, {"size_bytes": size, **_undetermined_properties(GEOMETRY_PROPERTIES, TOO_LARGE), **latencies}
        )
    if chase.space != "global":
        curve = yield from with_hits_of_path(asked, chase, curve, around.number, around.node_bytes)
        step = curve.steps[around.number]
    asked.cited()
    probe = LevelProbe(asked, chase, _hit_miss_model(step, around))
    before = curve.steps[0 if chase.space == "global" else 1 : around.number]
    filled = yield from find_fill_unit(probe, step.gone_bytes, around.node_bytes, [nearer.hit for nearer in before])
    fill_from = asked.cited()
    least = filled.nbytes or min(max(MIN_UNIT_BYTES, filled.least), around.node_bytes)
    unit, dense = yield from _finest_capacity(probe, step, least, around)
    dense_from = asked.cited()
    of_line = yield from settle_line_unit(probe, filled, dense.fits * unit, around.strides.most_bytes, around.paired)
    filled = of_line.filled
    if of_line.line_bytes:
        fill_from, least = (*fill_from, *asked.cited()), of_line.line_bytes
        unit, dense = yield from _finest_capacity(probe, step, least, around)
    sector = unit_finding("sector_bytes", filled, LINES_METHOD if of_line.line_bytes else "pairs of accesses", fill_from)
    latencies |= of_line.pair_finding(fill_from)
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
        soft["size_bytes"] = yield from _confirmed_size(probe, curve, around, soft["size_bytes"], filled)
        if of_line.line_bytes:
            soft["line_bytes"] = measured_finding("line_bytes", of_line.line_bytes, LINES_METHOD, fill_from)
        soft, possible = yield from _with_eviction_sets(probe, soft, curve, around, least, of_line)
        soft["size_bytes"] = with_steep_bound(soft["size_bytes"], curve, around.number)
        soft = _with_counted_sets(without_doubted_line(soft, of_line, around.nearer_line), curve, around, possible)
        soft["size_bytes"] = of_line.with_surely_held(soft["size_bytes"], unit if not around.number else around.node_bytes)
        return CacheLevel(name, chase.space, soft)
    known, sources = yield from _geometry(
        probe, LevelGeometry(filled, dense, unit, step.gone_bytes, around.number == 0, shared=asked.shared), around, of_line
    )
    policy = yield from _policy(probe, known, curve, around)
    size = known.size(dense_from)
    size = yield from with_size_elsewhere(probe, unit, size, around.number == 0)
    findings = {
        "size_bytes": (yield from _confirmed_size(probe, curve, around, size, filled)),
        "line_bytes": of_line.noted(known.line(sources[0])),
        "sector_bytes": sector,
        **known.sets_findings(sources[1]),
        **policy,
        **latencies,
    }
    findings, possible = yield from _with_eviction_sets(probe, findings, curve, around, least, of_line)
    size = with_steep_bound(findings["size_bytes"], curve, around.number)
    findings = without_doubted_line({**findings, "size_bytes": size}, of_line, around.nearer_line)
    findings = _with_counted_sets(findings, curve, around, possible)
    findings["size_bytes"] = of_line.with_surely_held(findings["size_bytes"], unit if not around.number else around.node_bytes)
    return CacheLevel(name, chase.space, findings)


def _with_counted_sets(
    findings: dict[str, Finding], curve: LatencyCurve, around: LevelContext, possible: frozenset[str]
) -> dict[str, Finding]:
    """The findings with the number of sets that ways, line, and the size, its bounds or the growth of misses tell. `possible`:
    policies (none: all)."""
    findings = with_sets_between_bounds(findings)
    if _miss_is_known(curve, around.number):
        findings = with_sets_by_ramp(findings, curve, curve.steps[around.number], around.page_bytes, possible)
    return with_sets_of_size(findings) if around.number else findings


def _undetermined_properties(names: tuple[str, ...], reason: str) -> dict[str, Finding]:
    return {name: undetermined_finding(name, reason) for name in names}


def _hit_miss_model(step: CurveStep, around: LevelContext) -> HitMissModel:
    """Cost of the level's hits and misses. A block's pages are translated once each, for all their lines."""
    beyond = 0.0
    if step.over_bytes > around.strides.reach_bytes:
        beyond = around.penalty * around.node_bytes / max(MIN_PAGE_BYTES, around.page_bytes)
    return HitMissModel(step.hit, step.miss, (step.noise or around.noise) * step.hit, beyond)


def _geometry(
    probe: LevelProbe, begun: LevelGeometry, around: LevelContext, of_line: LineUnit
) -> Experiment[tuple[LevelGeometry, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """The geometry with its tag unit and its sets, and the records behind each of these two."""
    asked, limits = probe.asked, around.strides
    if probe.chase.space != "global" and around.number == 1:
        limits = replace(limits, nearer=0.0)
    if of_line.line_bytes:
        tag, tags = UnitSize(of_line.line_bytes), UNKNOWN_CAPACITY
    else:
        tag, tags = yield from find_tag_unit(probe, begun.unit, begun.dense, limits.most_bytes, limits.nearer)
        if tag.nbytes and (begun.filled.is_prefetched or tag.nbytes > (begun.filled.nbytes or 0)):
            fitting = begun.dense.fits * begun.unit
            line = yield from shortest_line(probe, tag.nbytes, fitting, limits.most_bytes)
            # no line is shorter than what a miss brings in, here or nearer: one of just that length is no pair of lines
            is_least = line in (begun.filled.nbytes, around.nearer_line) and not around.paired.pair_bytes
            if line is None:
                tag = UnitSize(None, PAIRS.format(unit=tag.nbytes))
            elif line != tag.nbytes and not (begun.filled.is_prefetched or is_least):
                tag = UnitSize(None, HALVES_APART.format(tag=tag.nbytes, line=line))
            else:
                tag = UnitSize(line)
    tag_from = asked.cited()
    sets: SetGeometry | None = None
    if tag.nbytes is not None:
        count = begun.dense.fits * begun.unit // tag.nbytes
        alone = _without_blocks(probe)
        sets = without_sets_of_pairs((yield from sets_and_ways(alone, tag.nbytes, count, limits)), of_line.pair_bytes)
        if around.number and sets.ways is None:
            least, most = (nbytes // tag.nbytes for nbytes in begun.bounds_bytes())
            sets = yield from with_sets_by_bits(alone, tag.nbytes, (least, most), sets, limits)
            if sets.ways is not None:  # a nearer cache may hold a few of the lines that seemed to fit
                fits = sets.ways * sets.sets * tag.nbytes // begun.unit
                begun = replace(begun, dense=replace(begun.dense, fits=fits, over=fits + 1, hidden=0.0))
    return replace(begun, tag=tag, tags=tags, sets=sets), (tag_from, asked.cited())


def _without_blocks(probe: LevelProbe) -> LevelProbe:
    """The probe with places in one random cycle."""
    return replace(probe, chase=replace(probe.chase, block_bytes=0))


def _miss_is_known(curve: LatencyCurve, number: int) -> bool:
    """True if what is beyond a level has a plateau of its own."""
    following = curve.steps[number + 1 :]
    return following[0].flat if following else curve.memory is not None


def _confirmed_size(
    probe: LevelProbe, curve: LatencyCurve, around: LevelContext, size: Finding, filled: UnitSize
) -> Experiment[Finding]:
    """The size, which reversed laps may confirm where the cost of a miss is known. `filled`: what a miss brings in."""
    if not _miss_is_known(curve, around.number):
        return size
    held, most_bytes = _turning_limits(probe.chase, curve, around)
    # laps that leave out short lines would seem to hold as many others, where a hash spreads these over all sets
    apart = min(around.node_bytes, filled.nbytes or around.node_bytes) if not around.number else around.node_bytes
    step, is_unit = curve.steps[around.number], filled.nbytes is not None and filled.nbytes >= apart
    return (yield from confirmed_size(probe.asked, probe.chase, step, apart, held, most_bytes, size, is_unit))


def _turning_limits(chase: ChaseLayout, curve: LatencyCurve, around: LevelContext) -> tuple[tuple[float, float], int]:
    """Bytes and latency of the level before, 0 where a chase reaches none, and the largest working set that does not reach the
    next level."""
    first = 0 if chase.space == "global" else 1
    before = curve.steps[around.number - 1] if around.number > first else None
    following = curve.steps[around.number + 1 :]
    most_bytes = min([around.strides.most_bytes, *(int(MAX_NEXT_SHARE * s.fits_bytes) for s in following[:1])])
    return (before.fits_bytes, before.hit) if before is not None else (0.0, 0.0), most_bytes


def _with_eviction_sets(
    probe: LevelProbe, findings: dict[str, Finding], curve: LatencyCurve, around: LevelContext, unit: int, of_line: LineUnit
) -> Experiment[tuple[dict[str, Finding], frozenset[str]]]:
    """The findings of a level of which no stride told the ways, with what eviction sets tell; and the policies that are
    possible (none: all). `of_line`: whether a prefetcher of pairs would make another line of the level's."""
    if findings["ways"].status == "ok":
        return findings, frozenset()
    first = curve.steps[0 if probe.chase.space == "global" else 1]
    step, limits = curve.steps[around.number], around.strides
    nearer = limits.nearer if around.number and step is not first else 0.0
    miss = min(step.miss, NEXT_LATENCY_RATIO * step.hit)
    lines = LineProbe(
        probe.asked, probe.chase.space, step.hit, miss, nearer, step.noise or around.noise, around.node_bytes, first.hit,
        int(HELD_LINES_SHARE * first.fits_bytes / around.node_bytes), around.entries, around.page_bytes,
        reach_bytes=limits.reach_bytes, nearer_line=around.shortest_nearer_line,
    )  # fmt: skip
    held, most_bytes = _turning_limits(probe.chase, curve, around)
    way_bytes = around.nearer_way_bytes if nearer else 0
    misses = tuple(
        (size, (value - step.hit) / (step.miss - step.hit)) for size, value in zip(curve.sizes, curve.values, strict=True)
    )
    level = LevelBeyondStrides(
        _without_blocks(probe), lines, step, around.number, held, around.nearer_ways, way_bytes, limits.most_bytes, most_bytes,
        unit, _miss_is_known(curve, around.number), misses, around.nearer_set if nearer else None,
        of_line.line_bytes, of_line.may_be_pairs(around.nearer_line),
    )  # fmt: skip
    found, possible = yield from findings_by_eviction(level, probe.chase, findings)
    return without_contradiction(found), possible


def _policy(
    probe: LevelProbe, known: LevelGeometry, curve: LatencyCurve, around: LevelContext
) -> Experiment[Mapping[str, Finding]]:
    """The replacement policy, where a set can be overflowed on purpose."""
    sets = known.sets
    if sets is None or sets.ways is None or not known.agrees():
        reason = "its sets are unknown, so no set can be overflowed on purpose"
        return {"policy": undetermined_finding("policy", reason)}
    passed = 0 if probe.chase.space == "global" else 1  # levels that this path leaves out
    nearer = around.strides.nearer if around.number > passed else 0.0
    before = around.nearer_set if nearer else None
    lines = _lines_of_set(sets.ways, sets.way_bytes, before, around.nearer_way_bytes)
    of_set = SetOfLevel(sets.ways, lines, known.unit, nearer, before, _miss_is_known(curve, around.number))
    return (yield from probe_policy(_without_blocks(probe), of_set))


def _lines_of_set(ways: int, way_bytes: int, before: NearerSet | None, nearer_way_bytes: int) -> SetLines:
    """Lines of one set; behind a nearer set with so many lines of other sets that it is given twice as many as it has ways."""
    count = ways + EXTRA_LINES
    if before is None or not nearer_way_bytes or way_bytes % nearer_way_bytes:
        return SetLines(count, way_bytes)
    filler = min(max(0, 2 * before.ways - count), way_bytes // nearer_way_bytes - 1)
    own = tuple(line * way_bytes for line in range(count))
    return SetLines(count, own=own, filler=tuple((1 + number) * nearer_way_bytes for number in range(filler)))


def _finest_capacity(
    probe: LevelProbe, step: CurveStep, least: int, around: LevelContext
) -> Experiment[tuple[int, CapacityBound]]:
    """The unit in bytes in which places are counted, and how many neighbouring ones just fit. Beyond the first level they are
    counted in whole lines of any level, since laps are slow there, and only checked with `least`, the unit that a miss brings
    in."""
    unit = least if around.number == 0 else around.node_bytes
    dense = yield from dense_capacity(probe, step, unit)
    if unit <= least or not dense.fits:
        return unit, dense
    # where lines are shorter and a hash spreads them, as many places as there are lines fit at any stride
    finer = replace(dense, fits=dense.fits * unit // least, over=dense.over and -(-dense.over * unit // least))
    if not (yield from all_hit(probe, finer.fits, least)):
        finer = yield from dense_capacity(probe, step, least)
    return least, finer
