"""Full associativity of a TLB: random pages, as many as it has entries, all hit, whatever their numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.page_probe import PageCost, PageProbe, cost_of_pages

# Thresholds, each with its reason
MIN_PLACEMENTS, MAX_PLACEMENTS = 6, 16  # random placements; two sets get equal shares of 60 pages in one placement of ten
MIN_ROOM_RATIO = 4  # times the entries: pages closer together are spread evenly over sets
MIN_PAGES, MAX_PAGES = 12, 256  # of few pages few fall unevenly; more are of no fully associative TLB that is known
MAX_MISS_SHARE = 0.02  # of accesses: of two sets of 30 random ways, that get pages by chance, 4% miss, and half under LRU
FIT_SIGMAS = 2.0  # of the noise of all placements
MISS_SIGMAS = 4.0  # of one's noise: a placement beyond has misses
MORE_SHARE = 0.125  # more pages than fit, of which as many miss in every lap, whatever the policy
MIN_MISSED_SHARE = 0.7  # of those, in each placement: else the number that fits was a mistake
MORE_PLACEMENTS = 2


def is_fully_associative_tlb(pages: PageProbe, cost: PageCost, page: int, count: int) -> Experiment[bool]:
    """True if `count` random pages hit as consecutive ones do, and more of them do not."""
    room = pages.field.most_bytes // page
    if not MIN_PAGES <= count <= MAX_PAGES or room < MIN_ROOM_RATIO * count or cost.miss <= cost.hit:
        return False
    values: list[float] = []
    for seed in range(MAX_PLACEMENTS):
        value = yield from _miss_share(pages, cost, page, count, seed)
        if value is None:
            return False
        values.append(value)
        noise = pages.noise(count, page) / (cost.miss - cost.hit)
        if values[-1] > MAX_MISS_SHARE + MISS_SIGMAS * noise:
            return False
        most = MAX_MISS_SHARE - FIT_SIGMAS * noise / math.sqrt(len(values))
        if len(values) >= MIN_PLACEMENTS and abs(float(np.mean(values))) <= most:
            return (yield from _more_miss(pages, cost, page, count))
    return False


def _more_miss(pages: PageProbe, cost: PageCost, page: int, count: int) -> Experiment[bool]:
    """True if of some more random pages as many miss as do not fit, at least."""
    more = count + math.ceil(MORE_SHARE * count)
    for seed in range(MORE_PLACEMENTS):
        value = yield from _miss_share(pages, cost, page, more, seed)
        if value is None or value < MIN_MISSED_SHARE * (1 - count / more):
            return False
    return True


def _miss_share(pages: PageProbe, cost: PageCost, page: int, count: int, seed: int) -> Experiment[float | None]:
    """The share of accesses to `count` random pages that miss; None without an answer."""
    room = pages.field.most_bytes // page

    def choose(random: np.random.Generator) -> Sequence[int]:
        return random.choice(room, count, replace=False).tolist()  # type: ignore[no-any-return]

    value = yield from cost_of_pages(pages, page, count, choose, seed)
    return None if value is None else (value - cost.hit) / (cost.miss - cost.hit)
