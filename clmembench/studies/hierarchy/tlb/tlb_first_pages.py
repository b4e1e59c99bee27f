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
from clmembench.studies.hierarchy.tlb.tlb_ramp import HIT_SIGMA

# Thresholds and limits, each with its reason
FIRST_PAGES, SPREAD = 6, 0.618  # other first pages; by golden steps, so that they are alike modulo no number of sets
SPAN_RATIO, MIN_SPAN_RATIO = 1.3, 0.3  # times the pages that fit: how far they are spread; at least, where memory ends
MORE_PAGES, MORE_SIXTEENTHS = (0, 1, 2, 4, 8), (2, 4)  # pages more than fit, and parts of these, that are compared
NOISE_SHARE, MAX_SEEDS_OF_FIRST = 0.015, 3  # of the cost of a miss, that is wanted; orders for it
DIFFERENCE_SIGMAS = 5.0  # of the noise of both: from there on two first pages differ
MIN_DIFFERENCE_MISSES = 2.0  # a set that overflows by one makes more miss, whatever the policy


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
    compared = 0
    base = starting_at(pages, first, page_bytes)
    for other in sorted({0, *first_pages(held.fits, room)} - {first}, reverse=True):
        own = starting_at(pages, other, page_bytes)
        for count in counts:
            here = yield from _mean(base, count, page_bytes, cost, MAX_SEEDS_OF_FIRST)
            there = yield from _mean(own, count, page_bytes, cost, MAX_SEEDS_OF_FIRST)
            if here is None or there is None:
                continue
            compared += 1
            if not _differ(here, there, count, cost):
                continue
            # one may have been disturbed
            here = yield from _mean(base, count, page_bytes, cost, MAX_SEEDS)
            there = yield from _mean(own, count, page_bytes, cost, MAX_SEEDS)
            if here is not None and there is not None and _differ(here, there, count, cost):
                return False
    return True if compared >= len(counts) else None


def _mean(pages: PageProbe, count: int, page_bytes: int, cost: PageCost, most: int) -> Experiment[PageMean | None]:
    wanted = NOISE_SHARE * (cost.miss - cost.hit) / (1 if most == MAX_SEEDS_OF_FIRST else 2)
    return (yield from pages.precise(count, page_bytes, wanted, most, 2))


def _differ(one: PageMean, other: PageMean, count: int, cost: PageCost) -> bool:
    """True if two means differ by more than noise, and by more than two misses."""
    noise = math.hypot(one.noise, other.noise, HIT_SIGMA * cost.hit)
    apart = abs(one.value - other.value)
    return apart > DIFFERENCE_SIGMAS * noise and cost.misses(cost.hit + apart, count) > MIN_DIFFERENCE_MISSES
