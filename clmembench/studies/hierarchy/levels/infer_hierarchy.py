"""The whole of a memory hierarchy, probe by probe: curve, translation, then geometry and policy of each level. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.analysis.plateaus import CLAIMED_CACHES_RATIO
from clmembench.model import CacheLevel, Experiment, Hierarchy, Space, TlbLevel
from clmembench.studies.hierarchy.curve.curve_findings import (
    LapTranslation,
    LevelLatency,
    latency_findings,
    memory_level,
)
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve, WorkingSets, measure_curve
from clmembench.studies.hierarchy.curve.memory_latency import measure_memory, measure_memory_apart, measure_plateau
from clmembench.studies.hierarchy.curve.own_latency import without_prefetcher
from clmembench.studies.hierarchy.curve.unsettled_levels import (
    is_hidden_between_nodes,
    may_hide_a_level,
    with_unknown_number,
    with_unsettled_merged,
)
from clmembench.studies.hierarchy.geometry.paired_lines import (
    MIN_HALF_BYTES,
    Paired,
    number_of,
    with_sector_of_nearer,
    without_paired_lines,
)
from clmembench.studies.hierarchy.geometry.strides import StrideLimits
from clmembench.studies.hierarchy.levels import memory_spaces
from clmembench.studies.hierarchy.levels.cache_level import USUAL_WAYS, LevelContext, infer_cache_level
from clmembench.studies.hierarchy.levels.evicted_level import RECENCY_POLICIES
from clmembench.studies.hierarchy.levels.path_geometry import with_geometry_of_path
from clmembench.studies.hierarchy.levels.scanned_levels import with_both_memories, with_scanned_sizes, with_share_of_last
from clmembench.studies.hierarchy.patterns.pattern_paths import PatternLimits, with_patterns
from clmembench.studies.hierarchy.probes import fill_unit, prefetch
from clmembench.studies.hierarchy.probes.fill_unit import OTHER_LINE_BYTES
from clmembench.studies.hierarchy.probes.page_probe import PageCountLimits
from clmembench.studies.hierarchy.probes.prefetch_control import (
    MAX_BLOCK_REACH_SHARE,
    BlockTranslation,
    PlateauPoint,
    free_of_prefetching,
)
from clmembench.studies.hierarchy.probes.probing import LONGEST_LINE_BYTES, MIN_RELATIVE_LAP_NOISE, ChaseLayout, ProbeSession
from clmembench.studies.hierarchy.replacement.set_lines import NearerSet
from clmembench.studies.hierarchy.tlb import tlb
from clmembench.studies.hierarchy.tlb.tlb_by_control import ControlLimits, measure_tlbs_by_control
from clmembench.studies.hierarchy.tlb.tlb_geometry import TlbGeometry
from clmembench.studies.hierarchy.tlb.tlb_level import infer_tlb_level

KIB = 1 << 10
# Thresholds and limits, each with its reason
FIRST_SET_NODES, FIRST_SET_BYTES, MIN_SET_NODES = 16, 2 * KIB, 4  # of the smallest working set: no first cache is smaller
MAX_CURVE_FLOOR_RATIO, MIN_CURVE_FLOOR_RATIO = 4, 2  # times the floor: where the curve ends, flat or not; the latter
LARGE_CURVE_BYTES = 256 << 20  # from there on a lap takes seconds: the curve ends at the lesser ratio
FAR_PARTITION_BYTES = (
    128 << 20
)  # larger last caches of GPUs, whose far parts are slower, are not known; CPUs have no such parts
OTHER_PATHS_FIRST_CACHE_RATIO = 8  # times the first cache: how far other paths to memory are followed
MIN_FIRST_CACHE_BYTES = 64 * KIB  # taken for the first cache where that is smaller or not known
FIRST_ORDERS = 4  # of a lap that a busy host may spoil
MIN_BLOCK_BYTES, LARGEST_BLOCK_BYTES = 16 * KIB, 8 << 20
FIRST_CACHE_OVERFLOW = 8  # times the first cache: of three times as many lines 6% hit where victims are random, of these none
FIRST_CURVE_BYTES = 512 * KIB  # where the first cache's TLB is looked for first: first caches of CPUs hold at most 192 KiB
FIRST_PREFETCHED = 2  # number of the level, from 0, whose lines a CPU's prefetchers bring in pairs into the one before
BLOCK_BYTES = 128 * KIB  # visited as a whole, so that translation is paid once for many lines; more than prefetchers look at


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """Limits of the probes: the largest working set, that beyond which a flat end is memory, and the spaces there are. Where
    the former is less than the latter, memory is not seen."""

    most_bytes: int
    floor_bytes: int
    spaces: frozenset[Space] = frozenset({"global"})
    line_bytes: int = 64  # as the device claims
    translates_first: bool = False  # the first cache asks a TLB for every access, as on CPUs

    @property
    def enough_bytes(self) -> int:
        """From where on a flat curve needs no larger sets: what shows memory; a quarter of the largest set where that
        cannot."""
        return self.floor_bytes if self.floor_bytes <= self.most_bytes else self.most_bytes // 4

    @property
    def through(self) -> Space:
        """The space that reaches the second level: past the first where the device allows that."""
        return "global_cg" if "global_cg" in self.spaces else "global"


def infer_hierarchy(limits: ProbeLimits) -> Experiment[Hierarchy]:
    """Global memory through all its levels and its translation, if it is among the spaces, and the other spaces. What cannot be
    found is `undetermined` and says why."""
    asked = ProbeSession(shared=limits.translates_first)
    if not limits.spaces & {"global", "global_cg"}:
        asked.patience = 0
        return (yield from _other_spaces(asked, 0, max(limits.line_bytes, LONGEST_LINE_BYTES), limits.spaces, None))
    enough = limits.enough_bytes
    node = yield from fill_unit.longest_unit(asked, "global", enough, limits.line_bytes, limits.most_bytes)
    farthest = max(MIN_CURVE_FLOOR_RATIO * enough, min(MAX_CURVE_FLOOR_RATIO * enough, LARGE_CURVE_BYTES))
    dense_to = FAR_PARTITION_BYTES if enough > FAR_PARTITION_BYTES else 0
    if dense_to and limits.through != "global":
        farthest = MAX_CURVE_FLOOR_RATIO * enough  # a GPU's L2 that protects lines still serves some of a lap over ten times it
    sets = WorkingSets(
        node,
        max(MIN_SET_NODES * node, min(FIRST_SET_NODES * node, FIRST_SET_BYTES)),
        min(limits.most_bytes, farthest),
        enough,
        dense_to_bytes=dense_to,
        may_wander=limits.translates_first,
    )
    begun = replace(sets, last_bytes=min(sets.last_bytes, FIRST_CURVE_BYTES)) if limits.translates_first else sets
    curve = yield from measure_curve(asked, ChaseLayout(block_bytes=BLOCK_BYTES), begun)
    if curve is None:
        return Hierarchy(notes=("no chase through global memory gave an answer",))
    noise = max(MIN_RELATIVE_LAP_NOISE, curve.steps[0].noise if curve.steps else curve.noise)
    translating, found = yield from _translation(asked, curve, node, noise, limits)
    chase = ChaseLayout(block_bytes=(yield from _suitable_block(asked, curve, node, found)))
    if chase.block_bytes != BLOCK_BYTES or begun is not sets:
        curve = (yield from measure_curve(asked, chase, sets)) or curve
    context = _level_context(found, noise, node, limits.most_bytes, chase.block_bytes)
    levels = yield from _levels(asked, chase, curve, context, limits)
    sure = False
    if curve.memory is not None and not limits.translates_first:
        point = PlateauPoint(curve.sizes[-1], node, curve.memory_noise)
        sure = bool((yield from free_of_prefetching(asked, chase, point, _block_translation(found))))
    translations: list[TlbLevel] = []
    for number, one in enumerate(found):
        before = translations[-1] if translations else None
        translations.append((yield from infer_tlb_level(asked, translating, number, one, curve.ghz, before)))
    levels, far_partition = yield from with_scanned_sizes(asked, levels, curve, limits.most_bytes)
    if limits.translates_first:
        levels = with_unsettled_merged(levels)
    asked.patience = 0  # on CPUs the other spaces are the same memory again
    spaces = limits.spaces
    if limits.translates_first and levels and levels[0].findings["ways"].status == "ok":
        spaces = spaces - {"readonly"}  # the same cache, of which no more is to be learnt
    first_bytes = curve.steps[0].over_bytes if curve.steps else 0
    others = yield from _other_spaces(asked, first_bytes, node, spaces, levels[0] if levels else None)
    # where loads can pass by the first cache, the read-only path has an instruction of its own, and may have a cache of its own
    if limits.through == "global" and levels and others.levels and others.levels[0].space == "readonly":
        levels[0] = with_geometry_of_path(levels[0], others.levels[0])
    if limits.translates_first and curve.steps:
        claimed = limits.floor_bytes // CLAIMED_CACHES_RATIO
        far = yield from measure_memory(asked, chase, node, curve.steps[-1], limits.most_bytes, claimed)
        memory: tuple[CacheLevel, ...] = (CacheLevel("DRAM", "global", latency_findings(curve, far)),)
        levels = yield from with_share_of_last(asked, levels, curve, memory[0], limits.most_bytes)
    else:
        apart = yield from _memory_apart(asked, chase, curve, context, limits)
        if isinstance(apart, LevelLatency):
            memory = (CacheLevel("DRAM", "global", latency_findings(curve, apart)),)
        else:
            is_sure, two = sure or apart is True, far_partition is not None
            memory = memory_level(curve, is_sure, limits.floor_bytes, context.translation, node, two)
            memory = with_both_memories(memory, curve, far_partition)
    whole = replace(others, levels=(*levels, *memory, *others.levels), tlb=tuple(translations))
    overflowed, seen = bool(translating.lap_lines), curve.sizes[-1] >= limits.floor_bytes
    paths = PatternLimits(limits.most_bytes, curve.ghz, limits.through, overflowed, seen, limits.translates_first)
    whole = yield from with_patterns(whole, paths)
    return whole if len(curve.steps) < 2 else (yield from _with_prefetch(whole, curve, node, limits.through))


def _memory_apart(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, around: LevelContext, limits: ProbeLimits
) -> Experiment[LevelLatency | bool | None]:
    """Latency of memory by lines far apart, where it is not as the curve says; True: it is; None: not known."""
    if curve.memory is None or not curve.steps or limits.floor_bytes > curve.sizes[-1]:
        return None
    return (yield from measure_memory_apart(asked, chase, around.node_bytes, curve, limits.most_bytes, around.penalty))


def _translation(
    asked: ProbeSession, curve: LatencyCurve, node: int, noise: float, limits: ProbeLimits
) -> Experiment[tuple[ChaseLayout, list[TlbGeometry]]]:
    """The chase over lines of pages, and the TLBs that it found: where the nearest cache may ask none, behind it."""
    # tags of their own, however long a line is: nodes are but as long as what a miss brings in
    apart = max(node, LONGEST_LINE_BYTES)
    held = tuple(step.fits_bytes // apart for step in curve.steps)
    chase = ChaseLayout("global", shift_bytes=apart, control_bytes=apart, page_lines=tlb.PAGE_LINES, near_lines=held)
    if not (yield from _has_two_orders(asked, chase)):
        return (yield from _stored_translation(asked, curve, node, noise, limits))
    tried = [chase]
    if limits.translates_first:  # two orders of many lines differ by what prefetchers do
        held = tuple(step.fits_bytes // node for step in curve.steps)
        tried = [replace(chase, shift_bytes=node, control_bytes=node, page_lines=1, near_lines=held)]
    elif limits.through != "global":
        tried.append(replace(chase, space=limits.through, near_lines=held[1:]))
    elif curve.steps:
        tried.append(replace(chase, lap_lines=FIRST_CACHE_OVERFLOW * curve.steps[0].over_bytes // apart))
    last: list[TlbGeometry] = []
    last_chase = chase
    for layout in tried:
        one, found = yield from tlb.measure_translation(asked, layout, PageCountLimits(limits.most_bytes, noise))
        if found and found[0].page.nbytes is not None:
            return one, found
        if found or not last:
            last, last_chase = found, one
    return last_chase, last


def _suitable_block(asked: ProbeSession, curve: LatencyCurve, node: int, found: Sequence[TlbGeometry]) -> Experiment[int]:
    """The size in bytes of the blocks in which laps visit their lines: smaller than usual where a TLB holds fewer pages, larger
    where a prefetcher finds lines to fetch in usual ones, as far as a TLB holds them."""
    reach = int(MAX_BLOCK_REACH_SHARE * found[0].pages.fits * found[0].stride_bytes) if found else 0
    if reach >= BLOCK_BYTES and found[0].page.nbytes is None:
        return BLOCK_BYTES  # how far a TLB reaches is not known without its page
    if 0 < reach < BLOCK_BYTES:
        return max(MIN_BLOCK_BYTES, 1 << reach.bit_length() - 1)
    largest = 1 << reach.bit_length() - 1 if 0 < reach < LARGEST_BLOCK_BYTES else LARGEST_BLOCK_BYTES
    if largest == BLOCK_BYTES:
        return BLOCK_BYTES
    if curve.memory is None:
        return largest
    translation, chase = _block_translation(found), ChaseLayout(block_bytes=BLOCK_BYTES)
    for size, noise in ((curve.sizes[-1], curve.memory_noise), *((s.fits_bytes // 2, s.noise) for s in curve.steps[1:])):
        point = PlateauPoint(curve.size_below(size), node, noise)
        if (yield from free_of_prefetching(asked, chase, point, translation)) is False:
            return largest
    return BLOCK_BYTES


def _block_translation(found: Sequence[TlbGeometry]) -> BlockTranslation:
    """What translation adds to laps in larger blocks."""
    if not found:
        return BlockTranslation()
    return BlockTranslation(found[0].pages.fits * found[0].stride_bytes, max(tlb.dearest for tlb in found))


def _has_two_orders(asked: ProbeSession, chase: ChaseLayout) -> Experiment[bool]:
    """True if laps in both orders get an answer, as they do not in a run stored before; a busy host may spoil one."""
    for seed in range(FIRST_ORDERS):
        if (yield from chase.mean(asked, tlb.FIRST_PAGES, tlb.PAGE_STRIDES_BYTES[0], seed)) is not None:
            return True
    return False


def _stored_translation(
    asked: ProbeSession, curve: LatencyCurve, node: int, noise: float, limits: ProbeLimits
) -> Experiment[tuple[ChaseLayout, list[TlbGeometry]]]:
    """The chase over one line a page, and the TLBs that it found, of a run stored before there were two orders."""
    apart = max(node, LONGEST_LINE_BYTES)
    chase = ChaseLayout(limits.through, shift_bytes=apart, control_bytes=apart)
    nearby = curve.steps if limits.through == "global" else curve.steps[1:]
    hazy = tuple((step.fits_bytes // apart // 2, 2 * step.over_bytes // node) for step in nearby if step.flat)
    return chase, (yield from measure_tlbs_by_control(asked, chase, ControlLimits(limits.most_bytes, noise, hazy)))


def _level_context(found: Sequence[TlbGeometry], noise: float, node: int, most_bytes: int, block_bytes: int) -> LevelContext:
    """Context of every level; without a TLB translation limits no stride."""
    if not found:
        return LevelContext(0, noise, node, StrideLimits(most_bytes, most_bytes, most_bytes))
    first = found[0]
    entries = first.tags.fits if first.tags else first.pages.fits
    alone = entries if first.sets is not None and first.sets.sets == 1 and first.sets.ways is not None else 0
    strides = StrideLimits(most_bytes, first.pages.fits * first.stride_bytes, entries)
    page = first.page.nbytes or 0
    missed = tuple((t.pages.fits * t.stride_bytes, t.contrast.hit + max(t.penalties)) for t in found if t.penalties)
    translation = LapTranslation(missed, min(page, block_bytes))
    return LevelContext(0, noise, node, strides, page, max(t.dearest for t in found), alone, translation=translation)


def _levels(
    asked: ProbeSession, chase: ChaseLayout, curve: LatencyCurve, around: LevelContext, limits: ProbeLimits
) -> Experiment[list[CacheLevel]]:
    """The levels that the curve's steps leave, the nearest first."""
    through, line_bytes = limits.through, limits.line_bytes
    levels: list[CacheLevel] = []
    hidden = yield from is_hidden_between_nodes(asked, chase, curve, around.node_bytes, line_bytes)
    for number in range(len(curve.steps)):
        nearer = curve.steps[number - 1].hit if number else 0.0
        here = replace(around, number=number, strides=replace(around.strides, nearer=nearer))
        # where the first level can be left out, nothing stands before the second
        space: Space = through if number else "global"
        level = yield from infer_cache_level(asked, replace(chase, space=space), curve, here)
        if asked.shared and number >= FIRST_PREFETCHED and level.findings["latency_ns"].status == "ok":
            apart = yield from measure_plateau(asked, chase, around.node_bytes, curve.steps[number - 1], curve.steps[number])
            level = replace(level, findings={**level.findings, **latency_findings(curve, apart)})
        if levels and space == "global":
            level = with_sector_of_nearer(without_paired_lines(level, levels[0]) if asked.shared else level, levels[-1])
        around = _behind(around, level, number)
        levels.append(with_unknown_number(level) if hidden and number else level)
        hidden = hidden or may_hide_a_level(curve.steps[number], level, number == 0)
    return levels


def _behind(around: LevelContext, level: CacheLevel, number: int) -> LevelContext:
    """The context of what is behind a level, with what is known of its sets."""
    ways, sets, line = (number_of(level, name) for name in ("ways", "sets", "line_bytes"))
    way_bytes = 1 << (sets * line - 1).bit_length() if sets and line else 0
    policy = level.findings["policy"].value if "policy" in level.findings else None
    # nothing stands before the first level that is passed, so that its set sees all accesses
    alone = number == 0 or (number == 1 and level.space != "global")
    shortest = around.shortest_nearer_line
    nearer_set = NearerSet.of(ways, str(policy)) if alone and ways and way_bytes and policy else None
    return replace(
        around,
        nearer_ways=max(ways or USUAL_WAYS, around.nearer_ways if number else 0),
        nearer_way_bytes=max(way_bytes, around.nearer_way_bytes),
        nearer_set=nearer_set,
        nearer_keeps=policy not in RECENCY_POLICIES,
        paired=_paired(level, around),
        nearer_line=line or 0,
        shortest_nearer_line=min(line or shortest, shortest) if number else line or 0,
    )


def _paired(level: CacheLevel, around: LevelContext) -> Paired:
    """The level as one whose misses bring in several lines, or may, where what they bring in is not known; where they do not,
    the nearer one whose misses do."""
    brought, line = level.findings.get("pair_bytes"), number_of(level, "line_bytes") or MIN_HALF_BYTES
    if brought is not None and brought.high:
        return Paired(int(brought.high), line)
    return around.paired if level.findings["sector_bytes"].status == "ok" else Paired(OTHER_LINE_BYTES, line)


def _other_spaces(
    asked: ProbeSession, first_bytes: int, node: int, spaces: frozenset[Space], first: CacheLevel | None
) -> Experiment[Hierarchy]:
    """Levels of the other memory spaces; those of the read-only path and private memory are in `levels`. `first`: global
    memory's first cache, of `first_bytes`, where that was looked at."""
    paths: dict[Space, tuple[CacheLevel, ...]] = {}
    longest = OTHER_PATHS_FIRST_CACHE_RATIO * max(first_bytes, MIN_FIRST_CACHE_BYTES)
    for path in memory_spaces.MAX_SET_BYTES_OF_SPACE:
        if path in spaces:
            paths[path] = yield from memory_spaces.path_levels(asked, path, node, longest, first)
    local = (yield from memory_spaces.own_memory_level(asked, "local")) if "local" in spaces else None
    private = (yield from memory_spaces.own_memory_level(asked, "private")) if "private" in spaces else None
    return Hierarchy(
        levels=(*paths.get("readonly", ()), *((private,) if private else ())),
        local=local,
        constant=memory_spaces.levels_of_spaces(paths, "constant_array", "constant"),
        image=memory_spaces.levels_of_spaces(paths, "image1d_buffer", "image1d", "image2d"),
    )


def _with_prefetch(whole: Hierarchy, curve: LatencyCurve, node: int, through: Space) -> Experiment[Hierarchy]:
    """The hierarchy with how far ahead data is fetched into its second level; where none is, no level's reason says so."""
    held = OTHER_PATHS_FIRST_CACHE_RATIO // 2 * curve.steps[0].over_bytes if through == "global" else 0
    ahead = yield from prefetch.measure_prefetch(node, held, through)
    second = replace(whole.levels[1], findings={**whole.levels[1].findings, "prefetch_bytes": ahead})
    levels = [whole.levels[0], second, *whole.levels[2:]]
    if ahead.status == "ok" and ahead.value == 0:
        levels = [without_prefetcher(level) for level in levels]
    return replace(whole, levels=tuple(levels))
