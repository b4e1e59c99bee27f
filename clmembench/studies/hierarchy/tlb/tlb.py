"""Address translation from whole laps over lines of pages: reach, page, entries and sets of each TLB level. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from clmembench.model import Experiment, Pattern, Probe
from clmembench.studies.hierarchy.geometry.strides import SetGeometry
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_probe import (
    MAX_SEEDS_AT_KNEE,
    PageCost,
    PageCountLimits,
    PageProbe,
    count_pages,
    count_pages_near,
)
from clmembench.studies.hierarchy.probes.probing import (
    MAX_FILL_SHARE,
    MIN_SINGLE_OVERFLOW_RATIO,
    ChaseLayout,
    LevelProbe,
    ProbeSession,
)
from clmembench.studies.hierarchy.tlb.fully_associative_tlb import is_fully_associative_tlb
from clmembench.studies.hierarchy.tlb.page_size import next_page_size, page_size
from clmembench.studies.hierarchy.tlb.tlb_bits import MAX_ENTRIES, sets_by_bits, sets_by_remainders
from clmembench.studies.hierarchy.tlb.tlb_confirmation import (
    APART_BYTES,
    count_without_prefetchers,
    entries_and_sets,
    page_is_confirmed,
    shorter_page,
    without_nearer_sets,
)
from clmembench.studies.hierarchy.tlb.tlb_cost import (
    MAX_RISE_FROM_TWICE,
    PENALTY_NOISE_SHARE,
    costs_that_agree,
    knee_penalties,
    measure_ramp,
    miss_penalties,
    penalties_agree,
)
from clmembench.studies.hierarchy.tlb.tlb_first_pages import best_first_page, is_alike_from_other_pages, starting_at
from clmembench.studies.hierarchy.tlb.tlb_geometry import (
    Overflow,
    TlbEvidence,
    TlbGeometry,
    costs_nothing,
    costs_surely,
    first_overflow,
    may_be_of_nearest_cache,
    sets_agree,
)
from clmembench.studies.hierarchy.tlb.tlb_ramp import SetWays, with_equal_sets, with_plain_bits, with_sets
from clmembench.studies.hierarchy.tlb.unequal_tlb import sets_page_by_page

KIB, MIB = 1 << 10, 1 << 20
# Thresholds and limits, each with its reason
PAGE_STRIDES_BYTES = (4 * KIB, 64 * KIB, 2 * MIB, 32 * MIB)  # places that far apart are tried, until a TLB overflows
FIRST_PAGES = 4  # from there on their number grows
PAGE_LINES = 2  # of each page, whose two orders are compared
MIN_MORE_PLACES_RATIO = 1.5  # times as many places fit half as far apart, of pages half as long that fill sets alike
MIN_SPAN_RATIO = 3  # times the entries, over which pages are chosen that tell sets whatever the policy
MAX_GAP_SHARE = 1 / 32  # of the pages that fit, to the first number that does not: beyond it nothing tells the entries
MOVED_BYTES = 64 * KIB  # by which lines of a last page may be moved beyond the limit
MAX_MISSES_RATIO = 1.15  # times the pages of a lap: no more than all miss
MAX_REACH_DIFFERENCE = 0.15  # relative, of the reach of a level in the nearer level's pages and in its own
MIN_SECOND_TO_FIRST_PAGES_RATIO = 2  # times the pages of the first level: a second level with fewer is not believed


def measure_translation(
    asked: ProbeSession, chase: ChaseLayout, field: PageCountLimits
) -> Experiment[tuple[ChaseLayout, list[TlbGeometry]]]:
    """The levels found, and the chase that found them: that of lines of a page so far apart that no prefetcher brings one with
    the other, where those side by side are brought."""
    found = yield from measure_tlbs(asked, chase, field)
    standing = yield from count_without_prefetchers(PageProbe(asked, chase, field), found)
    if standing == len(found):
        return chase, found
    apart = replace(chase, control_bytes=APART_BYTES, lap_lines=min(1, chase.lap_lines))
    if chase.page_lines == 1:  # the control of lines apart would be translated too
        return chase, found[:standing]
    again = yield from measure_tlbs(asked, apart, field)
    return apart, [] if chase.lap_lines and again and _nearest_cache_holds_some(apart, again[0]) else again


def _nearest_cache_holds_some(chase: ChaseLayout, tlb: TlbGeometry) -> bool:
    """True if the level may have seemed to overflow where the nearest cache did, behind which alone TLBs may be asked."""
    lines, near = chase.lines_of_page(tlb.pages.fits, tlb.stride_bytes), chase.near_lines[0] if chase.near_lines else 0
    over = lines * (tlb.pages.over or tlb.pages.fits)
    return MAX_FILL_SHARE * near < over and lines * tlb.pages.fits < MIN_SINGLE_OVERFLOW_RATIO * near


def measure_tlbs(asked: ProbeSession, chase: ChaseLayout, field: PageCountLimits) -> Experiment[list[TlbGeometry]]:
    """The levels found, at most two. The field's noise is relative, of one lap."""
    without_page: TlbGeometry | None = None
    # the largest buffer first, so that all laps begin at the same page
    yield from asked.one(Probe(Pattern("random", 2, field.most_bytes + MOVED_BYTES), chase.space))
    for stride in PAGE_STRIDES_BYTES:
        if 2 * FIRST_PAGES * stride > field.most_bytes:
            break
        # wherever places lie in longer strides, lines of a page share it, and they spread over more sets of the caches
        pages = PageProbe(asked, replace(chase, page_bytes=stride), field)
        seen = yield from first_overflow(pages, stride, FIRST_PAGES, 0.0)
        if seen is None or may_be_of_nearest_cache(pages.chase, seen):
            continue
        first = yield from _first_level(pages, seen)
        if first is None:
            continue
        if first.page.nbytes is None:  # at longer strides fewer lines are in use, and the noise is less
            without_page = first
            continue
        second = yield from _second_level(pages, first)
        if second is not None and costs_nothing(first, second):  # it is the first itself, of which chance showed an end before
            first = replace(second, page=first.page, sources=replace(second.sources, page=first.sources.page))
            second = yield from _second_level(pages, first)
        levels = [(yield from _with_bits(pages, (yield from _with_sets(pages, first, 0))))]
        if second is not None:
            second = yield from _with_sets(pages, second, first.pages.fits)
            levels.append((yield from _with_bits(pages, second)))
        return levels
    return [without_page] if without_page is not None and costs_surely(without_page) else []


def _first_level(pages: PageProbe, seen: Overflow) -> Experiment[TlbGeometry | None]:
    """The level that overflows there, counted in whole pages where these are found; None where there is none."""
    rough = yield from count_pages(pages, seen.stride_bytes, PageCost(0.0, seen.behind), seen.fits, seen.over)
    if rough is None or rough.fits < 1 or rough.over is None:
        return None
    pages.asked.cited()
    page = yield from page_size(pages, seen.stride_bytes * rough.fits)
    paged = pages.asked.cited()
    if page.nbytes is not None and page.nbytes != seen.stride_bytes:
        # at longer strides sets overflow, those of a further level too; at shorter ones places share pages
        pages = replace(pages, chase=replace(pages.chase, page_bytes=page.nbytes))
        whole = yield from first_overflow(pages, page.nbytes, FIRST_PAGES, 0.0)
        if whole is None:
            return None
        seen = whole
    level = yield from _level_at(pages, seen, page, paged)
    while level is not None:
        # where pairs of accesses overflow a second TLB too, they show that TLB's page, which may be larger
        shorter = yield from shorter_page(pages, level)
        if not shorter and (yield from page_is_confirmed(pages.asked, pages.chase, level)):
            break
        before, page = level.pages.fits, UnitSize(shorter or (level.page.nbytes or 0) // 2)
        pages = replace(pages, chase=replace(pages.chase, page_bytes=page.nbytes or 0))
        whole = yield from first_overflow(pages, page.nbytes or 0, FIRST_PAGES, 0.0)
        paged = pages.asked.cited()
        level = None if whole is None else (yield from _level_at(pages, whole, page, paged))
        if level is not None and not shorter and level.pages.fits < MIN_MORE_PLACES_RATIO * before:
            return None  # fewer than twice as many at half the distance: something else than pages did not fit
    return level


def _second_level(pages: PageProbe, first: TlbGeometry) -> Experiment[TlbGeometry | None]:
    """The level behind the first, in pages of the first."""
    stride = first.page.nbytes or first.stride_bytes
    pages = replace(pages, chase=replace(pages.chase, page_bytes=first.page.nbytes or 0))
    entries = max(1, first.pages.fits * first.stride_bytes // stride)
    least, floor, seen = MIN_SECOND_TO_FIRST_PAGES_RATIO * entries, first.contrast.miss, None
    if pages.chase.page_lines == 1 and least <= pages.chase.most_in_first():
        seen = yield from first_overflow(pages, stride, least, floor, pages.chase.most_in_first())
    if seen is None and pages.chase.page_lines == 1:
        # a miss costs more where the lines come from the second cache: it is read where they first all do
        beyond = pages.chase.least_beyond_first()
        mean = (yield from pages.precise(beyond, stride, PENALTY_NOISE_SHARE * floor)) if beyond > least else None
        if mean is not None and mean.value < MAX_RISE_FROM_TWICE * floor:
            least, floor = beyond, max(floor, mean.value)
    seen = seen or (yield from first_overflow(pages, stride, least, floor))
    if seen is None or not seen.fits:
        return None
    # of laps in which each page misses the first level, and none the second
    if first.penalties and floor == first.contrast.miss:
        seen = replace(seen, floor=sum(first.penalties) / len(first.penalties))
    second = yield from _level_at(pages, seen, UnitSize(None, "the page of the first level is not known"), ())
    if second is None or second.pages.fits < MIN_SECOND_TO_FIRST_PAGES_RATIO * entries:
        return None
    if first.penalties and floor == first.contrast.miss:
        second = replace(second, hit_doubt=max(first.penalties) - min(first.penalties))
    if first.page.nbytes is None:
        return second
    pages.asked.cited()
    cost = PageCost(second.contrast.hit, second.contrast.miss)
    page = yield from next_page_size(pages, stride, second.pages.over or second.pages.fits, cost)
    sources = replace(second.sources, page=pages.asked.cited())
    if page.nbytes is None or page.nbytes == stride:
        return replace(second, page=page, sources=sources)
    return (yield from _in_own_pages(pages, replace(second, page=page, sources=sources, ramp=None), least, floor))


def _in_own_pages(pages: PageProbe, rough: TlbGeometry, least: int, floor: float) -> Experiment[TlbGeometry]:
    """A further level whose pages are larger than the nearer level's, of which several share an entry, counted in its own ones
    where at `least` as many fit: fewer the nearer level may hold; else as it is."""
    assert rough.page.nbytes is not None
    page = rough.page.nbytes
    pages = replace(pages, chase=replace(pages.chase, page_bytes=page))
    seen = yield from first_overflow(pages, page, least, floor)
    if seen is None or seen.fits < least:
        return rough
    whole = yield from _level_at(pages, replace(seen, floor=rough.contrast.hit), rough.page, rough.sources.page)
    reach = rough.pages.fits * rough.stride_bytes
    if whole is None or abs(whole.pages.fits * page - reach) > max(page, MAX_REACH_DIFFERENCE * reach):
        return rough
    return whole


def _level_at(pages: PageProbe, seen: Overflow, page: UnitSize, paged: tuple[str, ...]) -> Experiment[TlbGeometry | None]:
    """The level that overflows there; None where it cannot be counted."""
    asked, stride = pages.asked, seen.stride_bytes
    held = yield from count_pages(pages, stride, PageCost(seen.floor, seen.behind), seen.fits, seen.over)
    if held is None or held.fits < 1 or held.over is None:
        return None
    floor = seen.floor
    first, held = yield from best_first_page(pages, stride, PageCost(floor, seen.behind), held)
    assert held.over is not None
    pages = starting_at(pages, first, stride)
    asked.cited()
    penalties, noise = yield from miss_penalties(pages, stride, held.fits, floor)
    cost_from = asked.cited()
    known = sum(penalties) / len(penalties) if penalties_agree(penalties, noise) else max(penalties, default=0.0)
    cost = PageCost(floor, floor + (known or seen.behind - floor))
    held = yield from count_pages(pages, stride, cost, held.fits, held.over)
    if held is None or held.fits < 1 or held.over is None:
        return None
    held_from = asked.cited(4)
    if held.misses > MAX_MISSES_RATIO * held.over:
        # what a miss costs depends on the cache that has the lines: it is read with as few as overflow the level
        penalties, noise = yield from knee_penalties(pages, stride, held.over, floor)
        cost_from = asked.cited()
        cost = PageCost(floor, floor + max(penalties, default=cost.miss - floor))
    ramp, saturated = yield from measure_ramp(pages, stride, cost, held)
    if len(saturated) > 1 and not penalties_agree(penalties, noise):
        penalties, noise = costs_that_agree(saturated)
    ramp_from = asked.cited()
    if pages.chase.page_lines == 1 and floor and (ramp is None or ramp.sets is None):
        penalties = []  # lines of so many pages may miss in the second cache too, which only its sets exclude
    probe = pages.level(cost.hit, cost.miss, held.over, stride)
    return TlbGeometry(
        probe.contrast,
        held,
        stride,
        tuple(penalties),
        page,
        None,
        None,
        cost.miss,
        noise,
        TlbEvidence(cost_from, paged, held_from, ramp_from),
        ramp,
        first_page=first,
    )


def _with_sets(pages: PageProbe, tlb: TlbGeometry, nearer: int) -> Experiment[TlbGeometry]:
    """The level with its sets: those that the growth of misses tells, else by strides. `nearer`: pages of a level before."""
    page, decided = tlb.page.nbytes, tlb.ramp.sets if tlb.ramp is not None else None
    if page is None or tlb.stride_bytes != page:
        return tlb
    if tlb.pages.over is not None and tlb.pages.over - tlb.pages.fits > max(1, MAX_GAP_SHARE * tlb.pages.fits):
        return replace(tlb, ramp=None)  # a cache may hold some of the lines of the numbers between
    cost = PageCost(tlb.contrast.hit, tlb.contrast.miss)
    pages = replace(pages, chase=replace(pages.chase, page_bytes=page))
    tlb = yield from _compared_with_other_pages(pages, cost, page, tlb)
    if tlb.by_pages is not None or tlb.alike is False:
        return tlb
    decided = tlb.ramp.sets if tlb.ramp is not None else None
    is_open = decided is None or _may_draw(tlb)
    if decided is not None and not decided.misses_all:  # else misses of each set tell its ways
        can_ask = decided.entries <= min(MAX_ENTRIES, pages.field.most_bytes // page // MIN_SPAN_RATIO)
        is_open = is_open or decided.sets == 1 or (nearer > 0 and can_ask)
    if decided is not None and not is_open and (nearer or (yield from _sets_hold_ways(pages, cost, decided, page))):
        held = replace(tlb.pages, fits=decided.entries, over=decided.entries + 1, hidden=0.0)
        return replace(tlb, tags=held, sets=_as_geometry(decided, page) if decided.large == decided.ways else None)
    if is_open:
        found = yield from _with_sets_of_any_policy(pages, cost, page, tlb)
        if found is not None:
            return found
    if decided is not None:  # some accesses hit, as where the nearest cache holds lines
        tlb = replace(tlb, ramp=None)
    pages.asked.cited()
    contrast = replace(tlb.contrast, noise=tlb.contrast.noise / math.sqrt(MAX_SEEDS_AT_KNEE))
    counting = partial(count_pages_near, pages, cost)
    probe = LevelProbe(pages.asked, pages.chase, contrast, counting)
    tags, sets, tags_from = yield from entries_and_sets(probe, tlb.page, tlb.pages.fits, page, pages.field.most_bytes)
    counted = tuple(dict.fromkeys((*tlb.sources.entries, *tags_from)))
    sources = replace(tlb.sources, entries=counted, sets=pages.asked.cited())
    ramp = tlb.ramp
    if ramp is not None and sets is not None and not _may_draw(tlb):
        ramp = with_plain_bits(ramp, len(sets.bits))
    found = replace(tlb, tags=tags, sets=sets, sources=sources, ramp=ramp)
    return without_nearer_sets(found, nearer) if nearer else found


def _compared_with_other_pages(pages: PageProbe, cost: PageCost, page: int, tlb: TlbGeometry) -> Experiment[TlbGeometry]:
    """The level, without sets that are equal where as many pages do not miss from each first page on; then with the sets that
    single pages tell."""
    pages.asked.cited()
    alike = yield from is_alike_from_other_pages(pages, page, cost, tlb.pages, tlb.first_page)
    if alike is None:
        return tlb
    ramp = with_equal_sets(tlb.ramp) if tlb.ramp is not None else None
    if alike and ramp is not None:
        return replace(tlb, ramp=ramp, alike=True)
    sources = replace(tlb.sources, sets=pages.asked.cited())
    found = yield from sets_page_by_page(pages, page, cost, tlb.first_page, tlb.pages.fits)
    if found is None or (alike and found.large != found.ways):  # of unequal sets others overflow first from other pages on
        return replace(tlb, ramp=None, alike=alike, sources=sources)
    evidence = pages.asked.cited()
    held = replace(tlb.pages, fits=found.entries, over=found.entries + 1, hidden=0.0)
    sources = replace(tlb.sources, entries=evidence, sets=evidence)
    sets = _as_geometry(found, page) if found.large == found.ways else None
    return replace(tlb, ramp=None, by_pages=found, tags=held, sets=sets, alike=alike, sources=sources)


def _with_bits(pages: PageProbe, tlb: TlbGeometry) -> Experiment[TlbGeometry]:
    """A level with the sets that bits of a page's number tell, where nothing else told them."""
    page = tlb.page.nbytes
    if page is None or tlb.stride_bytes != page or tlb.pages.over is None or tlb.decided or sets_agree(tlb):
        return tlb
    if tlb.alike is False:
        return tlb
    pages = replace(pages, chase=replace(pages.chase, page_bytes=page))
    pages.asked.cited()
    found = yield from sets_by_bits(pages, PageCost(tlb.contrast.hit, tlb.contrast.miss), page, tlb.pages)
    if found is None or found.entries < tlb.pages.fits - tlb.pages.hidden:  # more pages in a row surely fit
        return tlb
    evidence = pages.asked.cited()
    entries = tuple(dict.fromkeys((*tlb.sources.entries, *evidence)))
    return replace(tlb, by_rows=found, sources=replace(tlb.sources, entries=entries, sets=evidence))


def _may_draw(tlb: TlbGeometry) -> bool:
    """True if drawn victims explain how misses grow, which then tells no sets: where pages in a row overflow them, several miss
    as evenly as a single one does."""
    return "random" in {one.policy for one in (tlb.ramp.likely if tlb.ramp is not None else ())}


def _with_sets_of_any_policy(pages: PageProbe, cost: PageCost, page: int, tlb: TlbGeometry) -> Experiment[TlbGeometry | None]:
    """The level with equal sets that chosen pages tell, as many as there are entries, whatever the policy; None where they do
    not, or the entries are not known."""
    is_exact = pages.chase.page_lines != 1 and tlb.pages.sharp and tlb.pages.over == tlb.pages.fits + 1
    entries = (tlb.ramp.entries if tlb.ramp is not None else None) or (tlb.pages.fits if is_exact else 0)
    if not entries:
        return None
    pages.asked.cited()
    # asked first, since it takes the fewest laps
    if (yield from is_fully_associative_tlb(pages, cost, page, entries)):
        found: SetWays | None = SetWays(1, entries, entries)
    else:
        found = yield from sets_by_remainders(pages, cost, page, entries)
    if found is None:
        return None
    held = replace(tlb.pages, fits=entries, over=entries + 1, hidden=0.0)
    sources, ramp = replace(tlb.sources, sets=pages.asked.cited()), tlb.ramp and with_sets(tlb.ramp, found)
    return replace(tlb, by_rows=found, tags=held, sets=_as_geometry(found, page), ramp=ramp, sources=sources)


def _sets_hold_ways(pages: PageProbe, cost: PageCost, sets: SetWays, page: int) -> Experiment[bool]:
    """True if as many pages as a set has ways fit where all are of one set, or memory has no room for them; of a single set as
    many at twice the distance."""
    apart = page * (sets.period if sets.large > sets.ways else max(2, sets.sets))
    if apart * (sets.large + 1) > pages.field.most_bytes:
        return True
    most = 2 * sets.large + 2
    found = yield from count_pages_near(pages, cost, apart, most, (sets.ways, sets.large))
    if found.over is None:  # the nearest cache may hold the lines of so few pages; if it does not, there is no such set
        return found.fits < most
    return found.fits in (sets.ways, sets.large)


def _as_geometry(sets: SetWays, page: int) -> SetGeometry:
    """Equal sets, of pages in a row by turns."""
    factor, low = sets.sets, page.bit_length() - 1
    bits: list[int] = []
    while factor % 2 == 0:
        factor //= 2
        bits.append(low + len(bits))
    return SetGeometry(((page, sets.entries), (sets.sets * page, sets.ways)), tuple(bits), sets.ways, "", factor)
