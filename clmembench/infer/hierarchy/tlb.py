"""Address translation from whole laps over one line a page: reach, page, entries, ways of each TLB level. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from clmembench.infer.hierarchy.capacity_search import find_capacity
from clmembench.infer.hierarchy.fill_unit import UnitSize
from clmembench.infer.hierarchy.page_probe import PageCountLimits, PageProbe
from clmembench.infer.hierarchy.page_size import MIN_PAIR_ORDERS, page_size
from clmembench.infer.hierarchy.probing import (
    LAP_NOISE_SIGMAS,
    CapacityBound,
    ChaseLayout,
    HitMissModel,
    LevelProbe,
    ProbeCache,
)
from clmembench.infer.hierarchy.strides import SetGeometry, StrideLimits, geometric_counts, is_consistent, sets_and_ways
from clmembench.model import Inquiry

KIB, MIB = 1 << 10, 1 << 20
# Thresholds and limits, each with its reason
PAGE_STRIDES_BYTES = (4 * KIB, 64 * KIB, 2 * MIB, 32 * MIB)  # places that far apart are tried, until a TLB overflows
MAX_PAGES = 1 << 13  # looked for: a lap over more pages takes long
FIRST_PAGES = 4  # from there on their number grows
PAGE_LINES = 2  # of each page, whose two orders are compared
PENALTY_QUARTERS = (8, 10, 12, 16, 24, 32)  # quarters of the pages that fit, at which the cost of a miss is read
PENALTY_NOISE_SHARE = 0.008  # of a penalty: the noise that is wanted for it
MAX_PENALTY_RELATIVE_RISE = 0.015  # of penalties that agree: with more pages they do not rise
MIN_SECOND_TO_FIRST_PAGES_RATIO = 2  # times the pages of the first level: a second level with fewer is not believed
MAX_NEARER_ENTRIES_RATIO = 1.1  # times the pages of a nearer level: what fits beyond is this one's
OVERFLOW_QUARTERS = 5  # quarters of the pages that fit: most of them miss, whatever is replaced
SCATTERED_PLACES_PER_PAGE = 37  # places in a page, at none of which shorter pages of any power of two begin all alike
MAX_PAGE_COUNT_RELATIVE_DIFFERENCE = 0.15  # relative: two counts of the pages that fit differ by no more
MIN_SECOND_PENALTY_RATIO = 1.3  # times the penalty of the first level, which a second level must exceed


@dataclass(frozen=True, slots=True)
class TlbGeometry:
    """One level: how many pages fit, what a miss costs beyond a hit (and at several times as many pages, which tells whether it
    is the whole cost; `noise` is theirs), the page, its sets; None and why where that is not known."""

    contrast: HitMissModel
    pages: CapacityBound
    stride_bytes: int  # at which pages were counted
    penalties: tuple[float, ...]
    page: UnitSize
    tags: CapacityBound | None
    sets: SetGeometry | None
    dearest: float = 0.0  # what a miss costs at most
    noise: float = 0.0
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
    pages = PageProbe(asked, chase, field)
    for stride in PAGE_STRIDES_BYTES:
        if 64 * stride > field.most_bytes:
            return []
        seen = yield from _first_overflow(pages, stride, FIRST_PAGES, 0.0)
        if seen is None:
            continue
        first = yield from _tlb_at_overflow(pages, stride, seen, 0.0)
        if first is not None and (first.page.nbytes or 0) > stride:  # counted again in whole pages
            stride = first.page.nbytes or stride
            seen = yield from _first_overflow(pages, stride, FIRST_PAGES, 0.0)
            first = (yield from _tlb_at_overflow(pages, stride, seen, 0.0)) if seen is not None else None
        if first is None or not count_is_confirmed(first) or not (yield from page_is_confirmed(asked, chase, first)):
            continue  # something else rose there
        counting = PageCounting(
            pages.mean,
            partial(_first_overflow, pages),
            partial(_tlb_at_overflow, pages, least_page=first.page.nbytes or 0),
        )
        return (yield from with_second_level(asked, chase, first, stride, counting))
    return []


@dataclass(frozen=True, slots=True)
class PageCounting:
    """A way of counting pages: the mean latency of so many at a stride, where they first overflow (from a number of pages and
    a latency on), and the level that overflows there."""

    mean: Callable[[int, int], Inquiry[float | None]]
    first_overflow: Callable[[int, int, float], Inquiry[tuple[int, int] | None]]
    level_at: Callable[[int, tuple[int, int], float], Inquiry[TlbGeometry | None]]


def with_second_level(
    asked: ProbeCache, chase: ChaseLayout, first: TlbGeometry, stride: int, counting: PageCounting
) -> Inquiry[list[TlbGeometry]]:
    """A first level that is confirmed, and the one behind it where that is found and confirmed too."""
    step = max(stride, first.page.nbytes or stride)
    entries = max(1, first.pages.fits * stride // step)
    floor = first.contrast.miss
    further = yield from counting.first_overflow(step, 4 * entries, floor)
    if further and further[0]:  # as many misses of the first as just before the second's begin
        floor = (yield from counting.mean(further[0], step)) or floor
    second = (yield from counting.level_at(step, further, floor)) if further else None
    if second is None or not count_is_confirmed(second) or second.pages.fits < MIN_SECOND_TO_FIRST_PAGES_RATIO * entries:
        return [first]
    if not (yield from page_is_confirmed(asked, chase, second)):
        return [first]
    return [first, without_nearer_sets(second, entries)]


def without_nearer_sets(tlb: TlbGeometry, nearer: int) -> TlbGeometry:
    """The level without sets that rest on no more pages than the `nearer` one holds itself."""
    if tlb.sets is None or tlb.sets.ways is None or tlb.sets.ways > MAX_NEARER_ENTRIES_RATIO * nearer:
        return tlb
    reason = f"a nearer TLB holds {tlb.sets.ways} pages itself"
    return replace(tlb, sets=replace(tlb.sets, ways=None, reason=reason))


def count_is_confirmed(tlb: TlbGeometry) -> bool:
    """True if its page was found, and as many pages fit at odd strides as the first count says."""
    if tlb.page.nbytes is None or tlb.tags is None:
        return False
    expected = tlb.pages.fits * min(1.0, tlb.stride_bytes / tlb.page.nbytes)
    return abs(tlb.tags.fits - expected) <= max(1.0, MAX_PAGE_COUNT_RELATIVE_DIFFERENCE * expected)


def page_is_confirmed(asked: ProbeCache, chase: ChaseLayout, tlb: TlbGeometry) -> Inquiry[bool]:
    """True if as many pages miss where places are scattered within them. Of shorter pages that lie so far apart that they fall
    into the same sets, more fit then. Where there is no answer, as in a run stored before this was asked, nothing speaks
    against it."""
    if tlb.page.nbytes is None or tlb.tags is None or tlb.page.nbytes <= PAGE_STRIDES_BYTES[0]:
        return True
    page, line = tlb.page.nbytes, max(1, chase.shift_bytes)
    count = max(tlb.tags.fits + 2, OVERFLOW_QUARTERS * tlb.tags.fits // 4)
    apart = max(page // SCATTERED_PLACES_PER_PAGE // line, 2 * chase.page_lines)
    for seed in range(MIN_PAIR_ORDERS):  # a single lap may be disturbed
        plain = yield from chase.mean(asked, count, page, seed)
        scattered = yield from replace(chase, shift_bytes=apart * line).mean(asked, count, page, seed)
        if plain is None or scattered is None or scattered - tlb.contrast.hit >= (plain - tlb.contrast.hit) / 2:
            return True
    return False


def _first_overflow(pages: PageProbe, stride: int, first: int, floor: float) -> Inquiry[tuple[int, int] | None]:
    """(count that fits, count that does not) where latency beyond the control first rises over `floor`, and stays there."""
    last, risen = 0, 0
    for count in geometric_counts(first, min(MAX_PAGES, pages.field.most_bytes // stride), 2):
        value = yield from pages.mean(count, stride)
        if value is None:
            continue
        if value <= floor + max(2 * LAP_NOISE_SIGMAS * pages.noise(count, stride), (MIN_SECOND_PENALTY_RATIO - 1) * floor):
            last, risen = count, 0
        elif risen:
            return last, risen
        else:
            risen = count
    return None


def _tlb_at_overflow(
    pages: PageProbe, stride: int, seen: tuple[int, int], floor: float, least_page: int = 0
) -> Inquiry[TlbGeometry | None]:
    """The TLB that overflows between two numbers of pages, `seen`; None where it cannot be counted. `floor`: what an access
    costs before."""
    asked, (fit, over) = pages.asked, seen
    rough = yield from pages.mean(over, stride)
    assert rough is not None
    held = yield from find_capacity(pages.level(floor, max(rough, floor), over, stride), stride, over, (fit,))
    if held.fits < 1 or held.over is None:
        return None
    asked.cited()
    penalties, noise = yield from _penalties(pages, stride, held.fits, floor)
    cost_from = asked.cited()
    # too high a cost of a miss would hide single misses
    probe = pages.level(floor, floor + max(penalties, default=rough - floor), over, stride)
    held = yield from find_capacity(probe, stride, over, (held.fits,))
    if held.fits < 1 or held.over is None:
        return None
    held_from = asked.cited(4)
    page = yield from page_size(pages, stride * held.fits, least_page)
    page_from = asked.cited()
    tags, sets, tags_from = yield from entries_and_sets(probe, page, held.fits, stride, pages.field.most_bytes)
    dearest = floor + max(penalties, default=rough - floor)
    sources = TlbEvidence(cost_from, page_from, tuple(dict.fromkeys((*held_from, *tags_from))), asked.cited())
    return TlbGeometry(probe.contrast, held, stride, tuple(penalties), page, tags, sets, dearest, noise, sources)


def _penalties(pages: PageProbe, stride: int, fitting: int, floor: float) -> Inquiry[tuple[list[float], float]]:
    """Costs of a miss at several times as many pages as fit, with their noise: at those numbers next to each other that agree,
    or at all. Where victims are drawn at random, some pages still hit at few times as many; with more the next TLB misses."""
    costs: list[tuple[float, float]] = []
    for quarters in PENALTY_QUARTERS:
        count = fitting * quarters // 4
        if count * stride > pages.field.most_bytes or count > MAX_PAGES:
            break
        rough = yield from pages.mean(count, stride)
        wanted = PENALTY_NOISE_SHARE * max(0.0, (rough or 0.0) - floor)
        value, noise = yield from pages.precise(count, stride, wanted)
        if value is None:
            break
        costs.append((value - floor, noise))
    runs = [costs[i : j + 1] for i in range(len(costs)) for j in range(i + 1, len(costs))]
    alike = [run for run in runs if _are_alike(run)]
    best = min(alike, key=_noise_of_mean) if alike else costs
    return [value for value, _ in best], _noise_of_mean(best)


def _are_alike(run: Sequence[tuple[float, float]]) -> bool:
    """True if costs, each with its noise, differ by no more than noise, and grow no more than a few hits would make them."""
    values = [value for value, _ in run]
    return max(values) - min(values) <= max(MAX_PENALTY_RELATIVE_RISE * max(values), 2 * max(noise for _, noise in run))


def _noise_of_mean(run: Sequence[tuple[float, float]]) -> float:
    return math.sqrt(sum(noise**2 for _, noise in run)) / len(run) if run else math.inf


def entries_and_sets(
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


def sets_agree(tlb: TlbGeometry) -> bool:
    """True if sets times ways is the number of entries that odd strides found."""
    return tlb.sets is not None and tlb.tags is not None and is_consistent(tlb.sets, tlb.tags)
