"""Full associativity of a TLB: random pages, as many as it has entries, all hit, whatever their numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from clmembench.infer.hierarchy.listed_pages import cost_of_pages
from clmembench.infer.hierarchy.page_probe import PageCost, PageProbe
from clmembench.model import Inquiry

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

    def choose(random: np.random.Generator) -> Sequence[int]:
        return random.choice(room, count, replace=False).tolist()  # type: ignore[no-any-return]

    values: list[float] = []
    for seed in range(MAX_PLACEMENTS):
        value = yield from cost_of_pages(pages, page, count, choose, seed)
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
