"""Confirmation of a level of address translation: its count, its page, its sets by strides. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from clmembench.model import Experiment
from clmembench.studies.hierarchy.geometry.strides import SetGeometry, StrideLimits, sets_and_ways
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_probe import RISE_SIGMAS, PageProbe
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.tlb.page_size import MIN_PAIR_ORDERS
from clmembench.studies.hierarchy.tlb.tlb_first_pages import starting_at
from clmembench.studies.hierarchy.tlb.tlb_geometry import MAX_PAGES, TlbGeometry

# Thresholds and limits, each with its reason
MIN_PAGE_BYTES = 4096  # no device has smaller pages
MIN_SECOND_TO_FIRST_PAGES_RATIO = 2  # times the pages of the first level: a second level with fewer is not believed
MAX_NEARER_ENTRIES_RATIO = 1.1  # times the pages of a nearer level: what fits beyond is this one's
OVERFLOW_QUARTERS = 5  # quarters of the pages that fit: most of them miss, whatever is replaced
MAX_SHARED_MISSES = 0.25  # of places that share pages, by which these are of one page each
MAX_SCATTERED_PLACES = 37  # in a page, an odd number, at none of which shorter pages of any power of two begin all alike
APART_BYTES = 1344  # of two lines of a page of which no prefetcher brings one with the other: Intel's go 20 lines ahead
APART_RATIOS = (2, 3, 4, 6, 8, 12, 16, 32, 64)  # times the pages that do not fit: the first at which no cache holds some lines
MIN_APART_ORDERS, MAX_APART_ORDERS = 4, 12  # of the laps that are compared
MIN_APART_SHARE, MIN_SINGLE_APART_SHARE = 0.8, 0.4  # of what a miss costs, left with lines apart; of single lines less is asked
APART_SIGMAS, APART_NOISE_SHARE = 4.0, 0.03  # of the noise of both; of the cost, that is wanted
MAX_PAGE_COUNT_RELATIVE_DIFFERENCE = 0.15  # relative: two counts of the pages that fit differ by no more


@dataclass(frozen=True, slots=True)
class PageCounting:
    """A way of counting pages: the mean latency of so many at a stride, where they first overflow (from a number of pages and
    a latency on), and the level that overflows there."""

    mean: Callable[[int, int], Experiment[float | None]]
    first_overflow: Callable[[int, int, float], Experiment[tuple[int, int] | None]]
    level_at: Callable[[int, tuple[int, int], float], Experiment[TlbGeometry | None]]


def with_second_level(
    asked: ProbeSession, chase: ChaseLayout, first: TlbGeometry, stride: int, counting: PageCounting
) -> Experiment[list[TlbGeometry]]:
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


def page_is_confirmed(asked: ProbeSession, chase: ChaseLayout, tlb: TlbGeometry) -> Experiment[bool]:
    """True if as many pages miss where places are scattered within them. Of shorter pages that lie so far apart that they fall
    into the same sets, more fit then. Where there is no answer, as in a run stored before this was asked, nothing speaks
    against it."""
    held = tlb.tags or (tlb.pages if tlb.stride_bytes == tlb.page.nbytes else None)
    if tlb.page.nbytes is None or held is None or tlb.page.nbytes <= MIN_PAGE_BYTES:
        return True
    page, line = tlb.page.nbytes, max(1, chase.shift_bytes)
    count = max(held.fits + 2, OVERFLOW_QUARTERS * held.fits // 4)
    slots = min(MAX_SCATTERED_PLACES, (count - 1) | 1)  # no more than there are places, which then lie all over their pages
    apart = max(page // slots // line, 2 * chase.page_lines)
    for seed in range(MIN_PAIR_ORDERS):  # a single lap may be disturbed
        plain = yield from chase.mean(asked, count, page, seed)
        scattered = yield from replace(chase, shift_bytes=apart * line).mean(asked, count, page, seed)
        if plain is None or scattered is None or scattered - tlb.contrast.hit >= (plain - tlb.contrast.hit) / 2:
            return True
    return False


def shorter_page(pages: PageProbe, tlb: TlbGeometry) -> Experiment[int]:
    """Half of the page if places half a page apart, of which two would share a page, overflow the level although it has room
    for so many pages; else 0."""
    page = tlb.page.nbytes or 0
    if page < 2 * MIN_PAGE_BYTES or tlb.stride_bytes != page or tlb.pages.fits < 2:
        return 0
    half, hit, fits = page // 2, tlb.contrast.hit, tlb.pages.fits
    most = MAX_SHARED_MISSES * (tlb.contrast.miss - hit)
    rise = []
    # the pages that fit must do so here too, or they were miscounted, and nothing follows from what half as long ones do
    for first, stride, count in ((tlb.first_page, page, fits), (2 * tlb.first_page, half, fits * 3 // 2)):
        at = starting_at(replace(pages, chase=replace(pages.chase, page_bytes=stride)), first, stride)
        mean = yield from at.precise(count, stride, most / 2 / RISE_SIGMAS)
        rise.append(None if mean is None else mean.rises(hit, most))
    return half if rise == [False, True] else 0


def count_without_prefetchers(pages: PageProbe, levels: Sequence[TlbGeometry]) -> Experiment[int]:
    """How many of the levels, from the nearest on, are not what prefetchers explain: misses cost far less there where lines of
    a page lie too far apart for a prefetcher to bring one with the other, as it does page by page, and translation costs the
    same. Without an answer nothing speaks against a level."""
    chase = pages.chase
    apart = replace(pages, chase=replace(chase, control_bytes=APART_BYTES))
    least = MIN_SINGLE_APART_SHARE if chase.page_lines == 1 else MIN_APART_SHARE
    for number, tlb in enumerate(levels):
        stride, hit = tlb.stride_bytes, tlb.contrast.hit
        counts = [times * (tlb.pages.over or 2 * tlb.pages.fits) for times in APART_RATIOS]
        clear = [n for n in counts if chase.is_clear(n, stride) and apart.chase.is_clear(n, stride)]
        if not clear or clear[0] * stride > pages.field.most_bytes:
            continue
        wanted = APART_NOISE_SHARE * max(0.0, tlb.contrast.miss - hit)
        near = yield from pages.precise(clear[0], stride, wanted, MAX_APART_ORDERS, MIN_APART_ORDERS)
        far = yield from apart.precise(clear[0], stride, wanted, MAX_APART_ORDERS, MIN_APART_ORDERS)
        if near is None or far is None:
            continue
        noise = math.hypot(least * near.noise, far.noise)
        if far.value - hit + APART_SIGMAS * noise < least * (near.value - hit):
            return number
    return len(levels)


def entries_and_sets(
    probe: LevelProbe, page: UnitSize, fitting: int, stride: int, most_bytes: int
) -> Experiment[tuple[CapacityBound | None, SetGeometry | None, tuple[str, ...]]]:
    """How many pages fit at an odd multiple of the page, which uses all sets, the sets, and the records of the former; None
    where the page is not known."""
    if page.nbytes is None:
        return None, None, ()
    entries = max(1, fitting * stride // page.nbytes) if stride < page.nbytes else fitting
    tags = yield from find_capacity(probe, 3 * page.nbytes, 2 * entries + 2, (entries,))
    tags_from = probe.asked.cited(4)
    limits = StrideLimits(most_bytes, most_bytes, MAX_PAGES)
    return tags, (yield from sets_and_ways(probe, page.nbytes, max(1, tags.fits), limits)), tags_from
