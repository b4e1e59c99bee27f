"""Full associativity of a TLB: random pages, as many as it has entries, all hit, whatever their numbers. Pure."""

from __future__ import annotations

import math

import numpy as np

from clmembench.infer.hierarchy.line_probe import listed
from clmembench.infer.hierarchy.page_probe import PageCost, PageProbe
from clmembench.infer.hierarchy.probing import PAGE_ORDERS
from clmembench.model import Inquiry, Pattern, Probe

# Thresholds, each with its reason
MIN_PLACEMENTS, MAX_PLACEMENTS = 6, 16  # random placements; two sets get equal shares of 60 pages in one placement of ten
MIN_ROOM_RATIO = 4  # times the entries: pages closer together are spread evenly over sets
MIN_PAGES, MAX_PAGES = 12, 256  # of few pages few fall unevenly; more are of no fully associative TLB that is known
MAX_MISS_SHARE = 0.02  # of accesses: of two sets of 30 random ways, that get pages by chance, 4% miss, and half under LRU
FIT_SIGMAS = 2.0  # of the noise of all placements
MISS_SIGMAS = 4.0  # of one's noise: a placement beyond has misses


def is_fully_associative_tlb(pages: PageProbe, cost: PageCost, page: int, count: int) -> Inquiry[bool]:
    """True if `count` random pages hit as consecutive ones do."""
    room = pages.field.most_bytes // page
    if not MIN_PAGES <= count <= MAX_PAGES or room < MIN_ROOM_RATIO * count or cost.miss <= cost.hit:
        return False
    values: list[float] = []
    for seed in range(MAX_PLACEMENTS):
        value = yield from _translation_cost(pages, page, count, room, seed)
        if value is None:
            return False
        values.append((value - cost.hit) / (cost.miss - cost.hit))
        noise = pages.noise(count, page) / (cost.miss - cost.hit)
        if values[-1] > MAX_MISS_SHARE + MISS_SIGMAS * noise:
            return False
        most = MAX_MISS_SHARE - FIT_SIGMAS * noise / math.sqrt(len(values))
        if len(values) >= MIN_PLACEMENTS and abs(float(np.mean(values))) <= most:
            return True
    return False


def _translation_cost(pages: PageProbe, page: int, count: int, room: int, seed: int) -> Inquiry[float | None]:
    """Mean latency that an access to another page adds, over random pages; None without an answer."""
    chase, random = pages.chase, np.random.default_rng([seed, count])
    lines = chase.lines_of_page(count, page)
    first = random.integers(0, max(1, page // chase.control_bytes - lines), count) * chase.control_bytes
    places = listed((np.sort(random.choice(room, count, replace=False)) * page + first).tolist())
    rounds, together = (
        Probe(Pattern(order, count, 0, 0, chase.control_bytes, lines, places, seed), chase.space) for order in PAGE_ORDERS
    )
    return (yield from chase.difference(pages.asked, (rounds, together), lines))[0]
