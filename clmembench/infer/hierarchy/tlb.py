"""Address translation from whole laps over one line a page: reach, page, entries, ways of each TLB level. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from clmembench.infer.hierarchy.capacity_search import find_capacity
from clmembench.infer.hierarchy.fill_unit import MAX_END_SHARE, UnitSize
from clmembench.infer.hierarchy.page_probe import PageCountLimits, PageProbe
from clmembench.infer.hierarchy.probing import (
    LAP_NOISE_SIGMAS,
    MIN_RELATIVE_LAP_NOISE,
    CapacityBound,
    ChaseLayout,
    HitMissModel,
    LevelProbe,
    ProbeCache,
)
from clmembench.infer.hierarchy.strides import SetGeometry, StrideLimits, geometric_counts, is_consistent, sets_and_ways
from clmembench.model import Inquiry, Pattern, Probe

KIB, MIB = 1 << 10, 1 << 20
# Thresholds and limits, each with its reason
PAGE_STRIDES_BYTES = (4 * KIB, 64 * KIB, 2 * MIB, 32 * MIB)  # places that far apart are tried, until a TLB overflows
MAX_PAGES = 1 << 13  # looked for: a lap over more pages takes long
BASE_LINES = 64  # lines, whose latency is what an access costs where nothing overflows
SAME_PAGE_BYTES = 256  # bytes: in the same page for all but a few of the places that are moved within it
MAX_FIRST_LEVEL_ENTRIES = 1 << 10  # of a first level; a page is looked for from that part of the reach on
MIN_SECOND_TO_FIRST_PAGES_RATIO = 2  # times the pages of the first level: a second level with fewer is not believed
MAX_NEARER_ENTRIES_RATIO = 1.1  # times the pages of a nearer level: what fits beyond is this one's
OVERFLOW_QUARTERS = 5  # quarters of the pages that fit: most of them miss, whatever is replaced
SCATTERED_PLACES_PER_PAGE = 37  # places in a page, at none of which shorter pages of any power of two begin all alike
MAX_PAGE_COUNT_RELATIVE_DIFFERENCE = 0.15  # relative: two counts of the pages that fit differ by no more
MIN_SECOND_PENALTY_RATIO = 1.3  # times the penalty of the first level, which a second level must exceed


@dataclass(frozen=True, slots=True)
class TlbGeometry:
    """One level: how many pages fit, what a miss costs beyond a hit (and at two to four times as many pages, which
    tells whether it is the whole cost), the page, its sets; None and why where that is not known."""

    contrast: HitMissModel
    pages: CapacityBound
    stride_bytes: int  # at which pages were counted
    penalties: tuple[float, ...]
    page: UnitSize
    tags: CapacityBound | None
    sets: SetGeometry | None
    dearest: float = 0.0  # what a miss costs at most
    sources: TlbEvidence = field(default_factory=lambda: TlbEvidence())


@dataclass(frozen=True, slots=True)
class TlbEvidence:
    """Ids of the records that tell a level's penalty, its page, how many pages fit, and its sets."""

    penalty: tuple[str, ...] = ()
    page: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()


def measure_tlbs(asked: ProbeCache, chase: ChaseLayout, field: PageCountLimits) -> Inquiry[list[TlbGeometry]]:
    """The levels found, at most two. The field's noise is relative, of one lap."""
    few = [BASE_LINES >> k for k in range(5)]
    bases = yield from asked.all([Probe(Pattern("random", n, chase.control_bytes), chase.space) for n in few])
    values = [base.value for base in bases if base.value is not None]
    if len(values) < len(few):
        return []
    # where lines differ among themselves, as in an L2 that is nearer to some, means over few of them differ too
    spread = math.sqrt(sum((v - values[0]) ** 2 * n for v, n in zip(values[1:], few[1:], strict=True)) / (len(few) - 1))
    own = field.noise * values[0]  # of the difference of two laps
    field = replace(field, noise=math.sqrt(2) * own, spread=spread if spread > 2 * LAP_NOISE_SIGMAS * own else 0.0)
    pages = PageProbe(asked, chase, field)
    for stride in PAGE_STRIDES_BYTES:
        if 64 * stride > field.most_bytes:
            return []
        seen = yield from _first_overflow(pages, stride, 4, 0.0)
        if seen is None:
            continue
        first = yield from _tlb_at_overflow(pages, stride, seen, 0.0)
        if first is None or not _count_is_confirmed(first) or not (yield from _page_is_confirmed(pages, first)):
            continue  # something else rose there
        step = max(stride, first.page.nbytes or stride)
        entries = max(1, first.pages.fits * stride // step)
        floor = first.contrast.miss
        further = yield from _first_overflow(pages, step, 4 * entries, floor)
        if further and further[0]:  # as many misses of the first as just before the second's begin
            floor = (yield from pages.mean(further[0], step)) or floor
        second = (yield from _tlb_at_overflow(pages, step, further, floor)) if further else None
        if second is None or not _count_is_confirmed(second) or second.pages.fits < MIN_SECOND_TO_FIRST_PAGES_RATIO * entries:
            return [first]
        if not (yield from _page_is_confirmed(pages, second)):
            return [first]
        return [first, _without_nearer_sets(second, entries)]
    return []


def _without_nearer_sets(tlb: TlbGeometry, nearer: int) -> TlbGeometry:
    """The level without sets that rest on no more pages than the `nearer` one holds itself."""
    if tlb.sets is None or tlb.sets.ways is None or tlb.sets.ways > MAX_NEARER_ENTRIES_RATIO * nearer:
        return tlb
    reason = f"a nearer TLB holds {tlb.sets.ways} pages itself"
    return replace(tlb, sets=replace(tlb.sets, ways=None, reason=reason))


def _count_is_confirmed(tlb: TlbGeometry) -> bool:
    """True if its page was found, and as many pages fit at odd strides as the first count says."""
    if tlb.page.nbytes is None or tlb.tags is None:
        return False
    expected = tlb.pages.fits * min(1.0, tlb.stride_bytes / tlb.page.nbytes)
    return abs(tlb.tags.fits - expected) <= max(1.0, MAX_PAGE_COUNT_RELATIVE_DIFFERENCE * expected)


def _page_is_confirmed(pages: PageProbe, tlb: TlbGeometry) -> Inquiry[bool]:
    """True if as many pages miss where places are scattered within them. Of shorter pages that lie so far apart that they fall
    into the same sets, more fit then. Where there is no answer, as in a run stored before this was asked, nothing speaks
    against it."""
    if tlb.page.nbytes is None or tlb.tags is None or tlb.page.nbytes <= PAGE_STRIDES_BYTES[0]:
        return True
    page, line = tlb.page.nbytes, max(1, pages.chase.shift_bytes)
    count = max(tlb.tags.fits + 2, OVERFLOW_QUARTERS * tlb.tags.fits // 4)
    plain = yield from pages.mean(count, page)
    chase = replace(pages.chase, shift_bytes=page // SCATTERED_PLACES_PER_PAGE // line * line)
    scattered = yield from chase.mean(pages.asked, count, page)
    if plain is None or scattered is None:
        return True
    return scattered - tlb.contrast.hit >= (plain - tlb.contrast.hit) / 2


def _first_overflow(pages: PageProbe, stride: int, first: int, floor: float) -> Inquiry[tuple[int, int] | None]:
    """(count that fits, count that does not) where latency beyond the control first rises over `floor`, and stays there."""
    field = pages.field
    counts = [n for n in geometric_counts(first, min(MAX_PAGES, field.most_bytes // stride), 2) if field.clear(n)]
    last, risen = 0, 0
    while counts:
        count = counts.pop(0)
        value = yield from pages.mean(count, stride)
        if value is None:
            continue
        if value <= floor + max(2 * LAP_NOISE_SIGMAS * field.of(count), (MIN_SECOND_PENALTY_RATIO - 1) * floor):
            last, risen = count, 0
        elif risen:
            return last, risen
        else:
            risen, little = count, count * 6 // 5
            if (not counts or counts[0] > 2 * count) and field.clear(little):
                counts.insert(0, little)  # a cache's capacity is near
    return None


def _tlb_at_overflow(pages: PageProbe, stride: int, seen: tuple[int, int], floor: float) -> Inquiry[TlbGeometry | None]:
    """The TLB that overflows between two numbers of pages, `seen`; None where it may be a cache. `floor`:
    what an access costs before."""
    field, asked, (fit, over) = pages.field, pages.asked, seen
    rough = yield from pages.mean(over, stride)
    assert rough is not None
    held = yield from find_capacity(pages.level(floor, max(rough, floor), over), stride, over, (fit,))
    if held.fits < 1 or held.over is None or not field.clear(held.over):
        return None
    asked.cited()
    penalties, hazy = yield from _penalties(pages, stride, held.fits, floor)
    hazy.insert(0, rough - floor)
    cost_from = asked.cited()
    # too high a cost of a miss would hide single misses
    probe = pages.level(floor, floor + max(penalties, default=max(field.of(over), min(hazy))), over)
    held = yield from find_capacity(probe, stride, over, (held.fits,))
    if held.fits < 1 or held.over is None or not field.clear(held.over):
        return None
    held_from = asked.cited(4)
    page = yield from _page_size(probe, stride * held.fits, field)
    page_from = asked.cited()
    tags, sets, tags_from = yield from _entries_and_sets(probe, page, held.fits, stride, field.most_bytes)
    dearest = floor + max(penalties, default=rough - floor)
    sources = TlbEvidence(cost_from, page_from, tuple(dict.fromkeys((*held_from, *tags_from))), asked.cited())
    return TlbGeometry(probe.contrast, held, stride, tuple(penalties), page, tags, sets, dearest, sources)


def _penalties(pages: PageProbe, stride: int, fitting: int, floor: float) -> Inquiry[tuple[list[float], list[float]]]:
    """Costs of a miss at two to four times as many pages as fit, and apart those at which a cache may go from hits to misses
    too."""
    penalties: list[float] = []
    hazy: list[float] = []
    for count in (2 * fitting, fitting * 5 // 2, 3 * fitting, 4 * fitting):
        value = yield from pages.mean(count, stride)
        if value is not None:
            (penalties if pages.field.clear(count) else hazy).append(value - floor)
    return penalties, hazy


def _entries_and_sets(
    probe: LevelProbe, page: UnitSize, fitting: int, stride: int, most_bytes: int
) -> Inquiry[tuple[CapacityBound | None, SetGeometry | None, tuple[str, ...]]]:
    """How many pages fit at an odd multiple of the page, which uses all sets, the sets, and the records of the former; None
    where the page is not known."""
    if page.nbytes is None:
        return None, None, ()
    entries = max(1, fitting * stride // page.nbytes) if stride < page.nbytes else fitting
    tags = yield from find_capacity(probe, 3 * page.nbytes, 2 * entries + 2, (entries,))
    tags_from = probe.asked.cited(4)
    limits = StrideLimits(most_bytes, most_bytes, MAX_PAGES)
    return tags, (yield from sets_and_ways(probe, page.nbytes, max(1, tags.fits), limits)), tags_from


def _page_size(probe: LevelProbe, reach: int, field: PageCountLimits) -> Inquiry[UnitSize]:
    """The least power of two at which an access that far behind one that missed misses too. Places are twice that apart, so
    that each lies near the start of a page, and span twice the reach."""
    chase, contrast = probe.chase, probe.contrast
    distance = max(4 * KIB, 1 << (reach // MAX_FIRST_LEVEL_ENTRIES).bit_length())
    first = True
    while True:
        count, span = max(16, 2 * reach // (2 * distance) + 1), 2 * distance
        if count * span > field.most_bytes or distance > reach:
            return UnitSize(None, f"no page up to {distance // 2} B was found within the limit of memory")
        probes = [
            Probe(Pattern("pairs", count, span, chase.shift_bytes, d, seed=1), chase.space) for d in (SAME_PAGE_BYTES, distance)
        ]
        inside, across = yield from probe.asked.all(probes)
        if inside.value is None or across.value is None:
            return UnitSize(None, inside.reason or across.reason)
        gap = (contrast.miss - contrast.hit) / 2
        noise = max(MIN_RELATIVE_LAP_NOISE * inside.value, field.noise) + field.spread / math.sqrt(count)
        noise = max(noise, *((a.high - a.low) / 4 for a in (inside, across) if a.high is not None and a.low is not None))
        if 2 * LAP_NOISE_SIGMAS * noise > gap:
            return UnitSize(None, f"the cost of a miss is within the noise of pairs: {noise:.2g} of {inside.value:.4g}")
        rise = (across.value - inside.value) / gap
        if rise > 1 - MAX_END_SHARE:
            if first and distance > 4 * KIB:
                return UnitSize(None, f"pages are shorter than {distance} B: more than {MAX_FIRST_LEVEL_ENTRIES} of them fit")
            return UnitSize(distance)
        if abs(rise) > MAX_END_SHARE:
            return UnitSize(None, f"accesses {distance} B behind one that missed neither hit nor miss")
        distance, first = 2 * distance, False


def sets_agree(tlb: TlbGeometry) -> bool:
    """True if sets times ways is the number of entries that odd strides found."""
    return tlb.sets is not None and tlb.tags is not None and is_consistent(tlb.sets, tlb.tags)
