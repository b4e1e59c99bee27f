"""Geometry of the first cache of a path that is not global memory's: constant, image, read-only. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clmembench.model import CacheLevel, Experiment, Finding, Space
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.geometry.level_geometry import SIZE_METHOD, LevelGeometry, unit_finding
from clmembench.studies.hierarchy.geometry.strides import StrideLimits, sets_and_ways
from clmembench.studies.hierarchy.geometry.tag_unit import find_tag_unit
from clmembench.studies.hierarchy.levels.cache_level import MIN_OVERFLOW_MISS_SHARE, MIN_UNIT_BYTES
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.fill_unit import find_fill_unit
from clmembench.studies.hierarchy.probes.probing import CapacityBound, LevelProbe
from clmembench.studies.hierarchy.replacement.policy_probe import probe_policy
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, SetLines, SetOfLevel

PAIRS_METHOD = "pairs of accesses"
NOT_PROBED = "misses begin and are frequent there; its sets were not probed"
TILED = "rows and columns of an image are laid out as the driver likes: no stride is one of addresses"
LIKE_FIRST_CACHE = "latency and size are those of global memory's L1, whose sets were probed there"
SAME_CACHE = "by the read-only path, whose first cache has this latency"
ADOPTED = ("size_bytes", "line_bytes", "ways", "sets")  # findings of another path's first cache
SOFT_END = "misses begin there and grow slowly: sets are filled unevenly"
TILED_SPACES: frozenset[Space] = frozenset({"image2d"})  # of which neither strides nor single lines mean addresses
# Thresholds
COARSE_RELATIVE_TOLERANCE = 0.02  # relative: so closely the end is located where its geometry is not
MAX_LATENCY_RELATIVE_DIFFERENCE = 0.01  # between two paths that end in one cache
SIZE_SLACK = 1 - COARSE_RELATIVE_TOLERANCE, 1 + COARSE_RELATIVE_TOLERANCE  # of bounds that a neighbour on the core disturbs
OVERFLOW_RATIO = 1.25  # times what fits, where most accesses miss if lines fall evenly into sets


@dataclass(frozen=True, slots=True)
class PathLevel:
    """The first level of a path: how it is probed, its step of the curve, the bytes between the curve's nodes, the largest
    working set that the space allows, whether what a miss costs has a plateau of its own, and global memory's first cache."""

    probe: LevelProbe
    step: CurveStep
    spacing: int
    last_bytes: int
    miss_is_known: bool
    global_first: CacheLevel | None = None

    def size_like_global(self) -> Finding | None:
        """The size of global memory's first cache, where it is known and the latency is the same; else None."""
        found = self.global_first.findings if self.global_first is not None else {}
        size = found.get("size_bytes")
        if size is None or size.status != "ok":
            return None
        latency = found.get("latency_cycles")
        if latency is None or latency.status != "ok" or not isinstance(latency.value, int | float):
            return None
        alike = abs(self.step.hit / latency.value - 1) <= MAX_LATENCY_RELATIVE_DIFFERENCE
        return size if alike else None


def path_geometry(level: PathLevel) -> Experiment[dict[str, Finding]]:
    """Size, sector, line, ways, sets and policy, by the methods of global memory as far as the space has room for them."""
    probe, asked = level.probe, level.probe.asked
    asked.cited()
    filled = yield from find_fill_unit(probe, level.step.gone_bytes, level.spacing)
    sector = {"sector_bytes": unit_finding("sector_bytes", filled, PAIRS_METHOD, asked.cited())}
    if probe.chase.space in TILED_SPACES:
        return {**sector, **(yield from _coarse_size(level, TILED))}
    unit = filled.nbytes or MIN_UNIT_BYTES
    like = level.size_like_global()
    dense = yield from _dense_capacity(level, unit, like)
    if not dense.fits or dense.over is None:
        return {**sector, **(yield from _coarse_size(level, NOT_PROBED))}
    dense_from = asked.cited()
    share = yield from probe.misses(int(dense.fits * OVERFLOW_RATIO) + 1, unit)
    if share is not None and share < MIN_OVERFLOW_MISS_SHARE:
        low = (dense.fits - int(dense.hidden)) * unit
        return {**sector, "size_bytes": undetermined_finding("size_bytes", SOFT_END, SIZE_METHOD, dense_from, low)}
    begun = LevelGeometry(filled, dense, unit, level.step.gone_bytes, first=True, shared=probe.asked.shared)
    if like is not None and isinstance(like.value, int | float) and _near(begun, like.value):
        low, high = begun.bounds_bytes()
        method = f"{SIZE_METHOD}; global memory's L1 has this size and latency"
        size = measured_finding("size_bytes", like.value, method, dense_from, min(low, like.value), max(high, like.value))
        unknown = {name: undetermined_finding(name, LIKE_FIRST_CACHE, SIZE_METHOD, dense_from) for name in ("ways", "sets")}
        return {**sector, "size_bytes": size, **unknown}
    return {**sector, **(yield from _strides(level, begun, dense_from))}


def with_geometry_of_path(first: CacheLevel, path: CacheLevel) -> CacheLevel:
    """Global memory's first cache with what strides told of the first cache of another path, where its own sets are not known
    and it is the same one: of the same latency, and of the size or a size between the bounds. On CPUs every path is ordinary
    memory."""
    own, other = first.findings, path.findings
    size, told = own.get("size_bytes"), other.get("size_bytes")
    if size is None or told is None or told.status != "ok" or not isinstance(told.value, int | float):
        return first
    if own["ways"].status != "undetermined" or other["ways"].status != "ok":
        return first
    latencies = [found["latency_ns"].value for found in (own, other) if "latency_ns" in found]
    near, far = (value if isinstance(value, int | float) else 0.0 for value in (*latencies, 0.0, 0.0)[:2])
    if not near or abs(far / near - 1) > MAX_LATENCY_RELATIVE_DIFFERENCE:
        return first
    low, high = ((end or 0.0) * slack for end, slack in zip((size.low, size.high), SIZE_SLACK, strict=True))
    if not low <= told.value <= high:
        return first
    names = [name for name in ADOPTED if name in other and other[name].status == "ok"]
    adopted = {name: replace(other[name], method=f"{other[name].method}; {SAME_CACHE}") for name in names}
    return replace(first, findings={**own, **adopted})


def _strides(level: PathLevel, begun: LevelGeometry, dense_from: tuple[str, ...]) -> Experiment[dict[str, Finding]]:
    """What strides tell: the line, sets and ways, the policy, and the size that these confirm."""
    probe, asked, last = level.probe, level.probe.asked, level.last_bytes
    tag, tags = yield from find_tag_unit(probe, begun.unit, begun.dense, last)
    tag_from = asked.cited()
    sets = None
    if tag.nbytes is not None:
        count = begun.dense.fits * begun.unit // tag.nbytes
        sets = yield from sets_and_ways(probe, tag.nbytes, count, StrideLimits(last, last, last))
    sets_from = asked.cited()
    known = LevelGeometry(begun.filled, begun.dense, begun.unit, begun.gone_bytes, True, tag, tags, sets, asked.shared)
    found = {"size_bytes": known.size(dense_from), "line_bytes": known.line(tag_from), **known.sets_findings(sets_from)}
    # where pairs had no room, strides show what a tag stands for only where sets confirm it
    return {**found, **(yield from _policy(level, known))}


def _policy(level: PathLevel, known: LevelGeometry) -> Experiment[Mapping[str, Finding]]:
    """The replacement policy, where a set can be overflowed on purpose."""
    sets = known.sets
    if sets is None or sets.ways is None or not known.agrees():
        reason = "its sets are unknown, so no set can be overflowed on purpose"
        return {"policy": undetermined_finding("policy", reason)}
    lines = SetLines(sets.ways + EXTRA_LINES, sets.way_bytes, level.probe.chase.shift_bytes)
    of_set = SetOfLevel(sets.ways, lines, known.unit, miss_is_known=level.miss_is_known)
    return (yield from probe_policy(level.probe, of_set))


def _dense_capacity(level: PathLevel, unit: int, like: Finding | None) -> Experiment[CapacityBound]:
    """How many neighbouring units fit; the size of global memory's first cache is tried first, then powers of two."""
    step = level.step
    low, over = step.fits_bytes // unit, -(-step.over_bytes // unit)
    same = [int(like.value) // unit] if like is not None and isinstance(like.value, int | float) else []
    powers = [n << k for k in range(40) for n in (1, 3) if low < n << k < over]
    sharp = level.probe.contrast.sharp(over)
    guesses = [*same, low, *powers, over] if sharp else [*same, low, over]
    apart = 0.0 if sharp else COARSE_RELATIVE_TOLERANCE / 4
    return (yield from find_capacity(level.probe, unit, 2 * over, guesses, apart))


def _coarse_size(level: PathLevel, reason: str) -> Experiment[dict[str, Finding]]:
    """Bounds of the size alone: where misses begin among the curve's nodes, and where most accesses miss."""
    step, spacing = level.step, level.spacing
    low, over = step.fits_bytes // spacing, -(-step.over_bytes // spacing)
    found = yield from find_capacity(level.probe, spacing, 2 * over, (low, over), COARSE_RELATIVE_TOLERANCE)
    evidence = level.probe.asked.cited()
    size = undetermined_finding("size_bytes", reason, SIZE_METHOD, evidence, found.fits * spacing, step.gone_bytes)
    return {"size_bytes": size}


def _near(begun: LevelGeometry, size: float) -> bool:
    """True if a known size lies within the bounds of this one, or so near that a few lines of others would explain it: on an
    H200 seven were there in one run of two."""
    low, high = (end * slack for end, slack in zip(begun.bounds_bytes(), SIZE_SLACK, strict=True))
    return low <= size <= high
