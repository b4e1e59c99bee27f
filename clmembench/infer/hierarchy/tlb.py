"""Address translation from whole laps over lines of pages: reach, page, entries and sets of each TLB level. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from clmembench.infer.hierarchy.fill_unit import UnitSize
from clmembench.infer.hierarchy.page_probe import (
    MAX_SEEDS_AT_KNEE,
    PageCost,
    PageCountLimits,
    PageMean,
    PageProbe,
    count_pages,
    count_pages_near,
)
from clmembench.infer.hierarchy.page_size import is_page_of_next, page_size
from clmembench.infer.hierarchy.probing import CapacityBound, ChaseLayout, LevelProbe, ProbeCache
from clmembench.infer.hierarchy.strides import SetGeometry, geometric_counts
from clmembench.infer.hierarchy.tlb_confirmation import entries_and_sets, page_is_confirmed, without_nearer_sets
from clmembench.infer.hierarchy.tlb_geometry import TlbEvidence, TlbGeometry
from clmembench.infer.hierarchy.tlb_ramp import RampFit, RampPoint, SetWays, fit_ramp_of_sets, with_plain_bits
from clmembench.model import Inquiry

KIB, MIB = 1 << 10, 1 << 20
# Thresholds and limits, each with its reason
PAGE_STRIDES_BYTES = (4 * KIB, 64 * KIB, 2 * MIB, 32 * MIB)  # places that far apart are tried, until a TLB overflows
MAX_PAGES = 1 << 13  # looked for: a lap over more pages takes long
FIRST_PAGES = 4  # from there on their number grows
PAGE_LINES = 2  # of each page, whose two orders are compared
SCAN_PER_OCTAVE = 1  # numbers of pages that are tried, until they overflow
MAX_SEEDS_OF_SCAN = 6  # orders of one of these where a rise is near the noise
MIN_SCAN_SIGMAS = 2.0  # of the noise: a mean below is no rise
PENALTY_QUARTERS = (8, 10, 12, 16, 24, 32)  # quarters of the pages that fit, at which the cost of a miss is read
NEAR_PENALTY_QUARTERS = (5, 6, 7)  # the same where memory has no room for more
PENALTY_NOISE_SHARE = 0.008  # of a penalty: the noise that is wanted for it
MAX_PENALTY_RELATIVE_RISE = 0.015  # of penalties that agree: with more pages they do not rise
MIN_SECOND_TO_FIRST_PAGES_RATIO = 2  # times the pages of the first level: a second level with fewer is not believed
MIN_SECOND_PENALTY_RATIO = 1.3  # times the penalty of the first level, which a second level must exceed
RAMP_COUNTS = (1, 2, 3, 4, 6, 8)  # pages beyond those that fit, at which misses are counted
RAMP_SIXTEENTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # of those that fit: as many pages more
RAMP_NOISE_SHARE = 0.015  # of the cost of a miss: the noise that is wanted there
MAX_SEEDS_OF_RAMP = 3


@dataclass(frozen=True, slots=True)
class _Overflow:
    """Where pages at a stride begin to overflow a level: counts that fit and do not, what an access costs before and behind."""

    stride_bytes: int
    fits: int
    over: int
    floor: float
    behind: float


def measure_tlbs(asked: ProbeCache, chase: ChaseLayout, field: PageCountLimits) -> Inquiry[list[TlbGeometry]]:
    """The levels found, at most two. The field's noise is relative, of one lap."""
    without_page: TlbGeometry | None = None
    for stride in PAGE_STRIDES_BYTES:
        if 2 * FIRST_PAGES * stride > field.most_bytes:
            break
        # wherever places lie in longer strides, lines of a page share it, and they spread over more sets of the caches
        pages = PageProbe(asked, replace(chase, page_bytes=stride), field)
        seen = yield from _first_overflow(pages, stride, FIRST_PAGES, 0.0)
        if seen is None or _may_be_of_nearest_cache(pages.chase, seen):
            continue
        first = yield from _first_level(pages, seen)
        if first is None:
            continue
        if first.page.nbytes is None:  # at longer strides fewer lines are in use, and the noise is less
            without_page = first
            continue
        second = yield from _second_level(pages, first)
        levels = [(yield from _with_sets(pages, first, 0))]
        if second is not None:
            levels.append((yield from _with_sets(pages, second, first.pages.fits)))
        return levels
    return [without_page] if without_page is not None else []


def _may_be_of_nearest_cache(chase: ChaseLayout, seen: _Overflow) -> bool:
    """True if the lines of the pages overflow the nearest cache too, behind which alone TLBs may be asked."""
    if chase.lap_lines or chase.space != "global" or not chase.near_lines:
        return False
    return chase.lines_of_page(seen.over, seen.stride_bytes) * seen.over > chase.near_lines[0]


def _first_overflow(pages: PageProbe, stride: int, first: int, floor: float) -> Inquiry[_Overflow | None]:
    """Where the latency first rises over `floor`, and stays there."""
    most = min(MAX_PAGES, pages.field.most_bytes // stride)
    counts = [*(n for n in geometric_counts(first, most, SCAN_PER_OCTAVE) if n < 0.9 * most), most]
    counts = [n for n in counts if pages.chase.has_enough_lines(n, stride)]
    last, risen, before = 0, 0, floor
    for count in counts:
        slack = (MIN_SECOND_PENALTY_RATIO - 1) * floor
        mean = yield from pages.until(
            count,
            stride,
            lambda m: m.rises(floor, slack) or m.value - MIN_SCAN_SIGMAS * m.noise < floor + slack,  # noqa: B023
            MAX_SEEDS_OF_SCAN,
        )
        if mean is None:
            continue
        if not mean.rises(floor, slack):
            last, risen, before = count, 0, mean.value if floor else 0.0
        elif risen:
            return _Overflow(stride, last, risen, before, mean.value)
        else:
            risen = count
            if count == most:
                again = yield from pages.precise(count, stride, 0.0, MAX_SEEDS_OF_SCAN)
                if again is not None and again.rises(floor, slack):
                    return _Overflow(stride, last, count, before, again.value)
    return None


def _first_level(pages: PageProbe, seen: _Overflow) -> Inquiry[TlbGeometry | None]:
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
        whole = yield from _first_overflow(pages, page.nbytes, FIRST_PAGES, 0.0)
        if whole is None:
            return None
        seen = whole
    level = yield from _level_at(pages, seen, page, paged)
    return level if level is not None and (yield from page_is_confirmed(pages.asked, pages.chase, level)) else None


def _second_level(pages: PageProbe, first: TlbGeometry) -> Inquiry[TlbGeometry | None]:
    """The level behind the first, in pages of the first."""
    stride = first.page.nbytes or first.stride_bytes
    pages = replace(pages, chase=replace(pages.chase, page_bytes=first.page.nbytes or 0))
    entries = max(1, first.pages.fits * first.stride_bytes // stride)
    seen = yield from _first_overflow(pages, stride, MIN_SECOND_TO_FIRST_PAGES_RATIO * entries, first.contrast.miss)
    if seen is None or not seen.fits:
        return None
    if first.penalties:  # of laps in which each page misses the first level, and none the second
        seen = replace(seen, floor=sum(first.penalties) / len(first.penalties))
    second = yield from _level_at(pages, seen, UnitSize(None, "the page of the first level is not known"), ())
    if second is None or second.pages.fits < MIN_SECOND_TO_FIRST_PAGES_RATIO * entries:
        return None
    if first.page.nbytes is None:
        return second
    pages.asked.cited()
    cost = second.contrast.miss - second.contrast.hit
    if (yield from is_page_of_next(pages, stride, second.pages.over or second.pages.fits, cost)):
        sources = replace(second.sources, page=pages.asked.cited())
        return replace(second, page=UnitSize(stride), sources=sources)
    return replace(second, page=UnitSize(None, "pairs of pages that overflow it are beyond the limit of memory, or share entries"))


def _level_at(
    pages: PageProbe, seen: _Overflow, page: UnitSize, paged: tuple[str, ...]
) -> Inquiry[TlbGeometry | None]:
    """The level that overflows there; None where it cannot be counted."""
    asked, stride = pages.asked, seen.stride_bytes
    held = yield from count_pages(pages, stride, PageCost(seen.floor, seen.behind), seen.fits, seen.over)
    if held is None or held.fits < 1 or held.over is None:
        return None
    asked.cited()
    floor = seen.floor
    penalties, noise = yield from _penalties(pages, stride, held.fits, floor)
    cost_from = asked.cited()
    known = sum(penalties) / len(penalties) if penalties and _ends_agree(penalties) else max(penalties, default=0.0)
    cost = PageCost(floor, floor + (known or seen.behind - floor))
    held = yield from count_pages(pages, stride, cost, held.fits, held.over)
    if held is None or held.fits < 1 or held.over is None:
        return None
    held_from = asked.cited(4)
    ramp = yield from _ramp(pages, stride, cost, held)
    ramp_from = asked.cited()
    probe = pages.level(cost.hit, cost.miss, held.over, stride)
    sources = TlbEvidence(cost_from, paged, held_from, ramp_from)
    return TlbGeometry(
        probe.contrast, held, stride, tuple(penalties), page, None, None, cost.miss, noise, sources, ramp
    )


def _ramp(pages: PageProbe, stride: int, cost: PageCost, held: CapacityBound) -> Inquiry[RampFit | None]:
    """The sets that explain how misses grow beyond the pages that fit."""
    most = min(pages.field.most_bytes // stride, MAX_PAGES)
    more = sorted({*RAMP_COUNTS, *(held.fits * n // 16 for n in RAMP_SIXTEENTHS)})
    points = []
    for count in (held.fits, *(held.fits + n for n in more if n > 0)):
        if count > most:
            break
        mean = yield from pages.precise(count, stride, RAMP_NOISE_SHARE * (cost.miss - cost.hit), MAX_SEEDS_OF_RAMP)
        if mean is None:
            return None
        points.append(RampPoint(count, mean.value, mean.noise))
    least = held.fits - int(held.hidden / 2)
    return fit_ramp_of_sets(points, cost.hit, cost.miss - cost.hit, least, held.over - 1 if held.over else held.fits)


def _penalties(pages: PageProbe, stride: int, fitting: int, floor: float) -> Inquiry[tuple[list[float], float]]:
    """Costs of a miss at several times as many pages as fit, with their noise: at those numbers next to each other that agree,
    or at all. Where victims are drawn at random, some pages still hit at few times as many; with more the next TLB misses."""
    costs: list[PageMean] = []
    most = min(pages.field.most_bytes // stride, MAX_PAGES)
    near = NEAR_PENALTY_QUARTERS if fitting * PENALTY_QUARTERS[1] // 4 > most else ()
    for quarters in (*near, *PENALTY_QUARTERS):
        count = fitting * quarters // 4
        if count > most:
            break
        rough = yield from pages.mean(count, stride)
        wanted = PENALTY_NOISE_SHARE * max(0.0, (rough or 0.0) - floor)
        found = yield from pages.precise(count, stride, wanted, MAX_SEEDS_AT_KNEE)
        if found is None:
            break
        costs.append(PageMean(found.value - floor, found.noise))
    sure = min((one.noise for one in costs), default=0.0)
    clear = [one for one in costs if one.noise <= max(2 * sure, PENALTY_NOISE_SHARE * one.value)]
    costs = clear if len(clear) > 1 else costs
    runs = [costs[i : j + 1] for i in range(len(costs)) for j in range(i + 1, len(costs))]
    alike = [run for run in runs if _are_alike(run)]
    best = min(alike, key=_noise_of_mean) if alike else costs
    return [one.value for one in best], _noise_of_mean(best)


def _are_alike(run: Sequence[PageMean]) -> bool:
    """True if costs, each with its noise, differ by no more than noise, and grow no more than a few hits would make them."""
    values = [one.value for one in run]
    return max(values) - min(values) <= max(MAX_PENALTY_RELATIVE_RISE * max(values), 2 * max(one.noise for one in run))


def _ends_agree(penalties: Sequence[float]) -> bool:
    """True if costs at several times as many pages are the cost of a miss, and not of some misses."""
    return len(penalties) > 1 and max(penalties) - min(penalties) <= 2 * MAX_PENALTY_RELATIVE_RISE * max(penalties)


def _noise_of_mean(run: Sequence[PageMean]) -> float:
    return math.sqrt(sum(one.noise**2 for one in run)) / len(run) if run else math.inf


def _with_sets(pages: PageProbe, tlb: TlbGeometry, nearer: int) -> Inquiry[TlbGeometry]:
    """The level with its sets: those that the growth of misses tells, else by strides. `nearer`: pages of a level before."""
    page, decided = tlb.page.nbytes, tlb.ramp.sets if tlb.ramp is not None else None
    if page is None or tlb.stride_bytes != page:
        return tlb
    if decided is not None:
        return replace(tlb, sets=_as_geometry(decided, page) if decided.large == decided.ways else None)
    pages.asked.cited()
    pages = replace(pages, chase=replace(pages.chase, page_bytes=page))
    contrast = replace(tlb.contrast, noise=tlb.contrast.noise / math.sqrt(MAX_SEEDS_AT_KNEE))
    counting = partial(count_pages_near, pages, PageCost(contrast.hit, contrast.miss))
    probe = LevelProbe(pages.asked, pages.chase, contrast, counting)
    tags, sets, tags_from = yield from entries_and_sets(probe, tlb.page, tlb.pages.fits, page, pages.field.most_bytes)
    counted = tuple(dict.fromkeys((*tlb.sources.entries, *tags_from)))
    sources = replace(tlb.sources, entries=counted, sets=pages.asked.cited())
    ramp = with_plain_bits(tlb.ramp, len(sets.bits)) if tlb.ramp is not None and sets is not None else tlb.ramp
    found = replace(tlb, tags=tags, sets=sets, sources=sources, ramp=ramp)
    return without_nearer_sets(found, nearer) if nearer else found


def _as_geometry(sets: SetWays, page: int) -> SetGeometry:
    """Equal sets, of pages in a row by turns."""
    factor, low = sets.sets, page.bit_length() - 1
    bits: list[int] = []
    while factor % 2 == 0:
        factor //= 2
        bits.append(low + len(bits))
    return SetGeometry(((page, sets.entries), (sets.sets * page, sets.ways)), tuple(bits), sets.ways, "", factor)
