"""The page of a TLB, from two orders of pairs of lines. Pure."""

from __future__ import annotations

import math
import statistics

from clmembench.infer.hierarchy.fill_unit import MAX_END_SHARE, UnitSize
from clmembench.infer.hierarchy.page_probe import MAX_SEEDS, PageProbe
from clmembench.infer.hierarchy.probing import LAP_NOISE_SIGMAS
from clmembench.model import Inquiry, Pattern, Probe

KIB = 1 << 10
# Thresholds and limits, each with its reason
SAME_PAGE_BYTES = 256  # bytes: in the same page for all but a few of the places that are moved within it
MAX_FIRST_LEVEL_ENTRIES = 1 << 10  # of a first level; a page is looked for from that part of the reach on
MIN_PAIR_ORDERS = 3  # of pairs of lines: a single lap may be disturbed


def page_size(pages: PageProbe, reach: int, least: int = 0) -> Inquiry[UnitSize]:
    """The least power of two at which two lines so far apart are translated apart: of pairs of lines in one page the second is
    translated with the first where pairs are visited one after another, not where all first lines are visited before; of lines
    in two pages both are missed either way. Pairs are twice that apart, and span two to four times the reach. `least`: the page
    of the level before, which is no longer."""
    distance = least or max(4 * KIB, 1 << (reach // MAX_FIRST_LEVEL_ENTRIES).bit_length())
    first = not least
    while True:
        # first lines alone lie in twice as many pages as fit, where memory allows it: random victims leave some
        times = 4 if 5 * reach <= pages.field.most_bytes else 2
        count, span = max(16, times * reach // (2 * distance) + 1), 2 * distance
        if count * span > pages.field.most_bytes or distance > reach:
            return UnitSize(None, f"no page up to {distance // 2} B was found within the limit of memory")
        inside, across, noise = yield from _pair_differences(pages, count, span, distance)
        if inside is None or across is None:
            return UnitSize(None, "pairs of lines got no answer")
        if LAP_NOISE_SIGMAS * noise > MAX_END_SHARE * inside:
            return UnitSize(None, f"the cost of a miss is within the noise of pairs: {noise:.2g} of {inside:.4g}")
        share = across / inside
        if share < MAX_END_SHARE:
            if first and distance > 4 * KIB:
                return UnitSize(None, f"pages are shorter than {distance} B: more than {MAX_FIRST_LEVEL_ENTRIES} of them fit")
            return UnitSize(distance)
        if abs(share - 1) > MAX_END_SHARE:
            return UnitSize(None, f"lines {distance} B apart are neither of one page nor of two")
        distance, first = 2 * distance, False


def _pair_differences(
    pages: PageProbe, count: int, span: int, distance: int
) -> Inquiry[tuple[float | None, float | None, float]]:
    """By how much pairs visited in two rounds are slower than one after another, 256 B and `distance` apart: medians over as
    many orders as the noise requires, three at least, since a lap may be disturbed; and their noise."""
    chase, shift = pages.chase, max(pages.chase.shift_bytes, 2 * SAME_PAGE_BYTES)
    found: tuple[list[float], list[float]] = ([], [])
    noise = math.inf
    for seed in range(1, 1 + MAX_SEEDS):
        probes = [
            Probe(Pattern(order, count, span, shift, apart, 2, seed=seed), chase.space)
            for apart in (SAME_PAGE_BYTES, distance)
            for order in ("by_round", "by_page")
        ]
        values = [answer.value for answer in (yield from pages.asked.all(probes))]
        known = [value for value in values if value is not None]
        if len(known) < len(probes):
            return None, None, math.inf
        for number, differences in enumerate(found):
            differences.append(known[2 * number] - known[2 * number + 1])
        noise = math.sqrt(2 / seed) * pages.field.noise * statistics.median(known)
        if seed >= MIN_PAIR_ORDERS and LAP_NOISE_SIGMAS * noise <= MAX_END_SHARE / 2 * statistics.median(found[0]):
            break
    return statistics.median(found[0]), statistics.median(found[1]), noise
