"""What translation costs over listed pages: laps over their lines in two orders, less each other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import listed
from clmembench.studies.hierarchy.probes.page_probe import PageProbe
from clmembench.studies.hierarchy.probes.probing import PAGE_ORDERS, SIDE_BY_SIDE_BYTES


def cost_of_pages(
    pages: PageProbe, page_bytes: int, count: int, choose: Callable[[np.random.Generator], Sequence[int]], seed: int
) -> Experiment[float | None]:
    """Mean latency that an access to another of `count` pages adds, whose numbers `choose` says; None without an answer.
    `seed`: of these, of where lines lie in pages, and of the order."""
    chase, random = pages.chase, np.random.default_rng([seed, count])
    lines = chase.lines_of_page(count, page_bytes)
    first = random.integers(0, max(1, page_bytes // chase.control_bytes - lines), count) * chase.control_bytes
    places = listed((np.sort(choose(random)) * page_bytes + first).tolist())
    if lines == 1:
        together = replace(chase, shift_bytes=0, block_bytes=SIDE_BY_SIDE_BYTES).lap(count, chase.control_bytes, seed)
        orders = Probe(Pattern("random", count, segments=places, seed=seed), chase.space), together
    else:
        rounds, by_page = (
            Probe(Pattern(order, count, 0, 0, chase.control_bytes, lines, places, seed), chase.space) for order in PAGE_ORDERS
        )
        orders = rounds, by_page
    return (yield from chase.difference(pages.asked, orders, lines))[0]
