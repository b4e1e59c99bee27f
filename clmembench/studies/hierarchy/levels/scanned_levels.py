"""Sizes of levels behind the first that nothing else told, by how long lines of a scan stay in them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmembench.model import CacheLevel, Experiment, Finding, Space
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_findings import LevelLatency, latency_findings
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.curve.set_count import with_sets_between_bounds, with_sets_of_size
from clmembench.studies.hierarchy.curve.unsettled_levels import numbered
from clmembench.studies.hierarchy.levels.evicted_level import RECENCY_POLICIES
from clmembench.studies.hierarchy.levels.home_partitions import FarPartition, measure_far_partition
from clmembench.studies.hierarchy.levels.lifetime import Residence, ScannedLevel, measure_residence
from clmembench.studies.hierarchy.probes.probing import ProbeSession

RESIDENCE_METHOD = "mean number of bytes of a scan after which a line of it is evicted (Little's law)"
SHARE_METHOD = f"{RESIDENCE_METHOD}, of all caches together"
FAR_METHOD = f"{RESIDENCE_METHOD}, of lines at home in either partition"
MEMORIES_METHOD = "single accesses to lines that both partitions evicted, in two groups; interval: the middle 90%"
FAR_LATENCY_METHOD = "single accesses to lines that the near partition evicted and the far one holds"
BEHIND_METHOD = "single accesses to lines of a scan that hit more slowly than those loaded lately"
BEHIND_REASON = "laps do not tell it from the level before"
SERVED_REASON = "another level, which laps do not show, serves some of its misses"
OTHERS_REASON = "others on the host may hold a part of it, so that what misses bounds their share alone"
KEPT_REASON = "some lines hit however many others were loaded: caches that others use keep lines for different times"
DOUBTED = ("policy", "sector_bytes")
OTHER_PROPERTIES = ("line_bytes", "sector_bytes", "ways", "sets", "policy")
# Thresholds and limits, each with its reason
MIN_SCANNED_BYTES = 128 << 10  # of a level: what times its lines would take a part of a smaller one
MIN_SHARED_LEVEL_BYTES = 256 << 10  # of one of which most accesses miss only from twice that on
MAX_RELATIVE_HALF_WIDTH = 0.025  # of an interval: a wider one tells what was left to the scan beside others, not the size
MAX_USUAL_HALF_WIDTH = 0.033  # the same where one usual size alone is in it, of which none lie closer than twice that
MIN_MISS_RATIO = 2.0  # of memory's latency to that of the last known level: less leaves no room for one between
MIN_SHARED_BYTES = 1 << 20  # that the caches of a core that shares the last one hold about, at least
SHORTEST_LINE_BYTES, SHORTEST_CPU_LINE_BYTES = 32, 64  # of caches behind the first
MAX_NEARER_SHARE = 0.04  # of a level: what the one before may hold besides, where no usual size tells how much that is
USUAL_FACTORS = range(1, 16, 2)  # whose products with powers of two lie at least 6.5% apart
MAX_OUT_OF_BOUNDS = 0.1  # by which a mean stay may leave bounds that laps gave


def with_scanned_sizes(
    asked: ProbeSession, levels: Sequence[CacheLevel], curve: LatencyCurve, most_bytes: int
) -> Experiment[tuple[list[CacheLevel], FarPartition | None]]:
    """The levels, with the sizes of those whose size nothing else told; and the far partition of the last one, if that has two,
    which then stands in place of what laps show behind it."""
    found: list[CacheLevel] = []
    for number, level in enumerate(levels):
        size, step = level.findings["size_bytes"], curve.steps[number]
        found.append(level)
        if not number or size.status != "undetermined" or not step.flat or _least_bytes(step, asked) < MIN_SCANNED_BYTES:
            continue
        unit = _unit_bytes(level, levels[number - 1], SHORTEST_CPU_LINE_BYTES if asked.shared else SHORTEST_LINE_BYTES)
        if not unit:
            continue
        scanned = _scanned_level(asked, level, curve, number, unit, most_bytes)
        stay = yield from measure_residence(scanned)
        if isinstance(stay, str):
            found[-1] = _with_size(level, replace(size, reason=f"{size.reason}; {RESIDENCE_METHOD}: {stay}"))
            continue
        nearer = 0.0
        if scanned.nearer_bytes and not (number == 1 and _keeps_recent(found[-2])):
            nearer = _most_bytes(found[-2], curve.steps[number - 1].gone_bytes)
        inner: Residence | str = stay
        if stay.behind is not None:
            scanned = scanned.part(stay.behind)
            inner = yield from measure_residence(scanned)
            level = found[-1] = _with_doubt(level)
        if isinstance(inner, Residence) and inner.behind is None:
            found[-1] = _with_residence(level, inner, nearer, asked.shared)
            far = (yield from measure_far_partition(scanned, inner)) if not asked.shared else ""
            if isinstance(far, FarPartition):
                found.append(_far_level(curve, number, level, inner, far))
                return numbered(found), far
            nearer = inner.high
        else:
            nearer = _most_bytes(level, stay.nbytes)
        if stay.behind is not None:
            found.append(_level_behind(curve, number, level, stay, nearer, asked.shared))
    return numbered(found), None


def _with_doubt(level: CacheLevel) -> CacheLevel:
    """A level without what rests on the cost of a miss, where another level serves some of them."""
    doubted = {name: undetermined_finding(name, SERVED_REASON) for name in DOUBTED if level.findings[name].status == "ok"}
    return replace(level, findings={**level.findings, **doubted})


def _unit_bytes(level: CacheLevel, before: CacheLevel, shortest: int) -> int:
    """The distance of a scan's lines: the level's line, or no more than any line has (`shortest`), or what the cache before
    brings in, where that is more; 0 where that is not known. Longer distances would leave lines out, so that the size counts
    too large; shorter ones than what that cache brings in would not all reach the level."""
    line = level.findings["line_bytes"].value
    if isinstance(line, int):
        return line
    brought = before.findings["sector_bytes"].value if level.space == "global" else shortest
    return max(shortest, brought) if isinstance(brought, int) else 0


def _scanned_level(
    asked: ProbeSession, level: CacheLevel, curve: LatencyCurve, number: int, unit_bytes: int, most_bytes: int
) -> ScannedLevel:
    """A level as scans test it. What a miss costs is the next plateau, or what is left of it."""
    step, following = curve.steps[number], curve.steps[number + 1 :]
    miss = min([step.miss, *(one.hit for one in following[:1])])
    space: Space = "global_cg" if level.space == "global_cg" else "global"
    nearer = curve.steps[number - 1].gone_bytes if space == "global" or number > 1 else 0
    between = (step.hit + miss) / 2, miss - step.hit
    least = _least_bytes(step, asked)
    is_alone = level.findings["line_bytes"].status == "ok"
    return ScannedLevel(
        asked, space, unit_bytes, step.hit, *between, least, nearer, most_bytes, busy=asked.shared, is_alone=is_alone
    )


def _least_bytes(step: CurveStep, asked: ProbeSession) -> int:
    """What a level surely holds. Where others take lines single ones miss before; a level of which most miss late is large."""
    others = asked.shared and step.gone_bytes >= 2 * MIN_SHARED_LEVEL_BYTES
    return max(step.fits_bytes, MIN_SHARED_LEVEL_BYTES if others else 0)


def _most_bytes(level: CacheLevel, otherwise: float) -> float:
    """What a level holds at most."""
    size = level.findings["size_bytes"]
    return float(size.value) if isinstance(size.value, int | float) else size.high or otherwise


def _keeps_recent(level: CacheLevel) -> bool:
    """True if a level surely evicts a line of a scan sooner than a larger one behind it."""
    policy = level.findings.get("policy")
    return policy is not None and policy.value in RECENCY_POLICIES


def with_share_of_last(
    asked: ProbeSession, levels: Sequence[CacheLevel], curve: LatencyCurve, memory: CacheLevel, most_bytes: int
) -> Experiment[list[CacheLevel]]:
    """The levels, the last one with what the caches held together for this core, where others on the host use it too and its
    size is not known: then what misses is no upper bound of it."""
    size = levels[-1].findings["size_bytes"] if levels else None
    if size is None or len(levels) < 2 or size.status == "ok":
        return list(levels)
    others = f"{size.reason}; {OTHERS_REASON}" if size.high is not None else size.reason
    last = _with_size(levels[-1], replace(size, high=None, reason=others))
    flat = [step for step in curve.steps if step.flat]
    beyond = memory.findings["latency_cycles" if curve.unit == "cycles" else "latency_ns"]
    miss = beyond.value if isinstance(beyond.value, int | float) else beyond.low
    if flat and miss and miss > MIN_MISS_RATIO * flat[-1].hit:
        hit, least = flat[-1].hit, max(flat[-1].fits_bytes, MIN_SHARED_BYTES)
        scanned = ScannedLevel(
            asked, "global", SHORTEST_CPU_LINE_BYTES, hit, (hit + miss) / 2, miss - hit, least, 0, most_bytes, wanders=True
        )
        stay = yield from measure_residence(scanned)
        if isinstance(stay, str):
            last = _with_size(last, replace(last.findings["size_bytes"], reason=f"{others}; {SHARE_METHOD}: {stay}"))
        else:
            last = _with_stay(last, "all_caches_bytes", stay, SHARE_METHOD, KEPT_REASON)
    return [*levels[:-1], last]


def with_both_memories(memory: Sequence[CacheLevel], curve: LatencyCurve, far: FarPartition | None) -> tuple[CacheLevel, ...]:
    """Memory with its latency in front of either partition, where that is known in cycles."""
    if far is None or curve.unit != "cycles":
        return tuple(memory)
    each = (("latency_near_cycles", far.near_memory), ("latency_far_cycles", far.far_memory))
    both = {
        name: measured_finding(name, value, MEMORIES_METHOD, far.evidence, low, high, "cycles")
        for name, (value, low, high) in each
    }
    return tuple(replace(level, findings={**level.findings, **both}) for level in memory)


def _with_size(level: CacheLevel, size: Finding) -> CacheLevel:
    return replace(level, findings={**level.findings, "size_bytes": size})


def _with_stay(level: CacheLevel, name: str, stay: Residence, method: str, kept: str = "") -> CacheLevel:
    """A level with what was left of it, or of all caches, as the finding of that name. `kept`: why none is an upper end."""
    if math.isfinite(stay.high):
        held = measured_finding(name, stay.nbytes, method, stay.evidence, stay.low, stay.high)
    else:
        held = undetermined_finding(name, kept, method, stay.evidence, stay.low)
    return replace(level, findings={**level.findings, name: held})


def _with_residence(level: CacheLevel, stay: Residence, nearer: float, shared: bool) -> CacheLevel:
    """A level with its size, where it is known closely and suits what laps said; else with what was left of it. `nearer`: bytes
    that the level before may hold besides, as one whose policy keeps some lines for long, or in front of a cache that takes
    what it evicts."""
    size = level.findings["size_bytes"]
    at_least, at_most = size.low or 0.0, size.high or float("inf")
    evidence = tuple(dict.fromkeys((*size.evidence, *stay.evidence)))
    suits = at_least * (1 - MAX_OUT_OF_BOUNDS) <= stay.high and stay.low <= at_most * (1 + MAX_OUT_OF_BOUNDS)
    if shared:  # others may hold any part of it, all the time
        return _with_stay(level, "effective_bytes", stay, RESIDENCE_METHOD)
    if not suits:
        return level
    # laps may hide a few misses: what surely fits by them widens the interval too
    least = min(max(stay.low - nearer, at_least), stay.low)
    most = max(stay.high, at_least)
    bounds = replace(size, low=least, high=most, method=RESIDENCE_METHOD, evidence=evidence)
    findings: Mapping[str, Finding] = with_sets_between_bounds({**level.findings, "size_bytes": bounds})
    usual = _usual_size(least, most)
    closest = MAX_RELATIVE_HALF_WIDTH if usual is None else MAX_USUAL_HALF_WIDTH
    if stay.high - stay.low > 2 * closest * stay.nbytes:
        return replace(level, findings=findings)
    if findings["size_bytes"].status != "ok" and (usual is not None or nearer <= MAX_NEARER_SHARE * stay.nbytes):
        measured = measured_finding("size_bytes", usual or stay.nbytes, RESIDENCE_METHOD, evidence, least, most)
        findings = with_sets_of_size({**findings, "size_bytes": measured})
    return replace(level, findings=findings)


def _level_behind(
    curve: LatencyCurve, number: int, level: CacheLevel, stay: Residence, nearer: float, shared: bool
) -> CacheLevel:
    """A level that laps do not tell from the one before: its size, and its latency by single accesses."""
    assert stay.behind is not None
    step = curve.steps[number]
    latency = LevelLatency(BEHIND_METHOD, stay.evidence, why="the clock inside the kernel steps too coarsely")
    if stay.behind.half is not None:
        value = step.hit + stay.behind.slower_by
        ends = 1 - stay.behind.half / value, 1 + stay.behind.half / value
        latency = LevelLatency(BEHIND_METHOD, stay.evidence, value, value * step.hit_ns / step.hit, ends=ends)
    nothing = {name: undetermined_finding(name, BEHIND_REASON) for name in ("size_bytes", *OTHER_PROPERTIES)}
    return _with_residence(
        CacheLevel("", level.space, {**nothing, **latency_findings(curve, latency)}), replace(stay, behind=None), nearer, shared
    )


def _usual_size(low: float, high: float) -> int | None:
    """The only number between both that is a small odd one times a power of two, as a few slices or ways of a power of two
    of sets make."""
    found = {odd << k for odd in USUAL_FACTORS for k in range(40) if low <= odd << k <= high}
    return found.pop() if len(found) == 1 else None


def _far_level(curve: LatencyCurve, number: int, level: CacheLevel, near: Residence, far: FarPartition) -> CacheLevel:
    """Both partitions of a level of which `level` is the near one: what both hold, and what a hit in the far one costs."""
    whole = near.nbytes + far.nbytes, near.low + far.low, near.high + far.high
    evidence = tuple(dict.fromkeys((*near.evidence, *far.evidence)))
    (value, low, high), step = far.hit, curve.steps[number]
    ns = value * step.hit_ns / step.hit
    latency = LevelLatency(FAR_LATENCY_METHOD, far.evidence, value, ns, ends=(low / value, high / value))
    return CacheLevel(
        "",
        level.space,
        {
            "size_bytes": measured_finding("size_bytes", whole[0], FAR_METHOD, evidence, whole[1], whole[2]),
            **{name: undetermined_finding(name, "its lines were not looked for one by one") for name in OTHER_PROPERTIES},
            **latency_findings(curve, latency),
        },
    )
