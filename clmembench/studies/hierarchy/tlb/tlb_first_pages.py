"""Whether pages in a row fill the sets of a TLB alike wherever they begin: those of unequal or hashed sets do not. Pure.

Of equal sets that pages in a row fill by turns as many pages miss whichever the first is. Where sets differ, or others than
consecutive numbers choose them, the first page decides which sets overflow first, and how many pages fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.page_probe import (
    MAX_SEEDS,
    MAX_SEEDS_OF_SEARCH,
    PageCost,
    PageMean,
    PageProbe,
    count_pages,
    look_at,
)
from clmembench.studies.hierarchy.probes.probing import CapacityBound
from clmembench.studies.hierarchy.tlb.tlb_ramp import COST_SIGMA, HIT_SIGMA

# Thresholds and limits, each with its reason
FIRST_PAGES, SPREAD = 6, 0.618  # other first pages; by golden steps, so that they are alike modulo no number of sets
SPAN_RATIO, MIN_SPAN_RATIO = 1.3, 0.3  # times the pages that fit: how far they are spread; at least, where memory ends
MORE_PAGES, MORE_SIXTEENTHS = (0, 1, 2, 4, 8), (2, 4)  # pages more than fit, and parts of these, that are compared
NOISE_SHARE, MAX_SEEDS_OF_FIRST = 0.015, 3  # of the cost of a miss, that is wanted; orders for it
SCREENING_SIGMAS, DIFFERENCE_SIGMAS = 3.0, 5.0  # of the noise of both: from there on more orders are asked; two rows differ
MIN_DIFFERENCE_MISSES = 0.5  # a set of one way more makes one more miss: half way to it


def first_pages(fits: int, room: int) -> list[int]:
    """Other first pages, in numbers of pages, of rows up to twice as long as fit, in memory for `room` pages."""
    longest = fits + max(*MORE_PAGES, *(fits * n // 16 for n in MORE_SIXTEENTHS))
    span = min(int(SPAN_RATIO * fits), room - longest)
    if span < max(FIRST_PAGES, MIN_SPAN_RATIO * fits):
        return []
    return list(dict.fromkeys(1 + int((n * SPREAD) % 1 * (span - 1)) for n in range(1, 1 + FIRST_PAGES)))


def with_numbers(pages: PageProbe, numbers: Sequence[int]) -> PageProbe:
    """A probe of pages of these numbers."""
    return replace(pages, chase=replace(pages.chase, numbers=tuple(numbers)))


def starting_at(pages: PageProbe, first: int, stride_bytes: int) -> PageProbe:
    """A probe of pages in a row from another first one on, as far as memory goes."""
    if not first:
        return pages
    most = pages.field.most_bytes - first * stride_bytes
    return replace(with_numbers(pages, range(first, first + most // stride_bytes)), field=replace(pages.field, most_bytes=most))


def best_first_page(
    pages: PageProbe, stride_bytes: int, cost: PageCost, held: CapacityBound
) -> Experiment[tuple[int, CapacityBound]]:
    """The first page, 0 or another, from which most pages in a row fit, and how many: where sets are unequal one of them gets
    too many from some."""
    first, most = 0, held
    room = pages.field.most_bytes // stride_bytes
    for other in sorted(first_pages(held.fits, room), reverse=True):  # the largest buffer first, in which all others then lie
        own = starting_at(pages, other, stride_bytes)
        count = most.over or most.fits + 1
        mean = yield from look_at(own, stride_bytes, cost, count, MAX_SEEDS_OF_SEARCH)
        if mean is None or mean.rises(cost.hit, cost.slack) or 2 * count > room - other:
            continue
        found = yield from count_pages(own, stride_bytes, cost, count, 2 * count)
        if found is not None and found.over is not None and found.fits >= count:
            first, most = other, found
    return first, most


def is_alike_from_other_pages(
    pages: PageProbe, page_bytes: int, cost: PageCost, held: CapacityBound, first: int
) -> Experiment[bool | None]:
    """True if as many pages miss from other first pages on as from page `first`; False if not; None where nothing tells it, as
    in a run stored before this was asked."""
    room = pages.field.most_bytes // page_bytes
    more = sorted({*MORE_PAGES, *(held.fits * n // 16 for n in MORE_SIXTEENTHS)})
    counts = [held.fits + n for n in more]
    compared, wanted = 0, NOISE_SHARE * (cost.miss - cost.hit)
    base = starting_at(pages, first, page_bytes)
    for other in sorted({0, *first_pages(held.fits, room)} - {first}, reverse=True):
        own = starting_at(pages, other, page_bytes)
        rows: list[tuple[int, PageMean, PageMean]] = []
        for count in counts:
            here = yield from base.precise(count, page_bytes, wanted, MAX_SEEDS_OF_FIRST, 2)
            there = yield from own.precise(count, page_bytes, wanted, MAX_SEEDS_OF_FIRST, 2)
            if here is not None and there is not None:
                rows.append((count, here, there))
        compared += len(rows)
        dearer = _cost_difference(*rows[-1][1:], cost) if rows else COST_SIGMA
        for count, here, there in rows:
            if not _differ(here, there, count, cost, dearer, SCREENING_SIGMAS):
                continue
            # laps may have been disturbed, and by chance more miss of drawn victims: the spread of so many orders shows both
            here = yield from base.precise(count, page_bytes, 0.0, MAX_SEEDS)
            there = yield from own.precise(count, page_bytes, 0.0, MAX_SEEDS)
            if here is not None and there is not None and _differ(here, there, count, cost, dearer, DIFFERENCE_SIGMAS):
                return False
    return True if compared >= len(counts) else None


def _cost_difference(one: PageMean, other: PageMean, cost: PageCost) -> float:
    """By how much, relative, a miss may cost more in one of two rows, of which most pages miss."""
    least = min(one.value, other.value) - cost.hit
    apart = math.hypot(one.value - other.value, one.noise, other.noise)
    return min(COST_SIGMA, apart / least) if least > 0 else COST_SIGMA


def _differ(one: PageMean, other: PageMean, count: int, cost: PageCost, dearer: float, sigmas: float) -> bool:
    """True if two means differ by more than noise and than what a hit and a miss may cost more in one of the rows, and by a
    miss rather than by none."""
    least = max(0.0, min(one.value, other.value) - cost.hit)
    noise = math.hypot(one.noise, other.noise, HIT_SIGMA * cost.hit, dearer * least)
    apart = abs(one.value - other.value)
    return apart > sigmas * noise and cost.misses(cost.hit + apart, count) > MIN_DIFFERENCE_MISSES
