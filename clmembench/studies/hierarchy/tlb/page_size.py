"""The page of a TLB, from two orders of pairs of lines. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.chase import Order
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_probe import MIN_NOISE_OF_OTHER_LINES, PageCost, PageProbe, mean_of_orders
from clmembench.studies.hierarchy.probes.probing import ChaseLayout

KIB = 1 << 10
# Thresholds and limits, each with its reason
SAME_PAGE_BYTES = 256  # bytes: in the same page for all but a few of the places that are moved within it
MAX_FIRST_LEVEL_ENTRIES = 1 << 10  # of a first level; a page is looked for from that part of the reach on
LIKELY_ENTRIES = 64  # of a first level: the search begins with pages of that part of the reach
MAX_PAGE_SHARE = 0.35  # of the difference in one page: with less, lines are of two pages
PAIR_SIGMAS, MIN_INSIDE_SIGMAS = 3.5, 6.0  # of a difference's noise: where it surely is, and is no noise itself
MIN_PAIR_ORDERS = 3  # of pairs of lines: a single lap may be disturbed
MAX_PAIR_ORDERS = 30  # of the same, where the noise of one is near to what a miss costs
MIN_PAIRS = 16  # of a lap
ORDERS: tuple[Order, ...] = ("by_round", "by_page")
PAIR_OVERFLOW = 1.25  # times the reach of a further level, in which pairs lie that overflow it
MANY_PAGES_RATIO = 4  # times that reach, as far as memory goes: of pairs in random order a quarter find their page there
MIN_MISSED_SHARE = 0.25  # of first lines miss a further level, at least: under NRU 0.29 in a third more pages than fit
MAX_SHARE_OF_TWO, MAX_OFF_HALF = 0.25, 0.2  # of pairs in one page, where all are of two; off the half that are at half a page
NO_ANSWER = "pairs of lines got no answer"
GOLDEN = 0.618  # steps by which pairs begin all over a page


def page_size(pages: PageProbe, reach: int) -> Experiment[UnitSize]:
    """The least power of two at which two lines so far apart are translated apart: of pairs of lines in one page the second is
    translated with the first where pairs are visited one after another, not where all first lines are visited before; of lines
    in two pages both are missed either way. Pairs are twice that apart, and span two to four times the reach."""
    shortest = max(4 * KIB, 1 << (reach // MAX_FIRST_LEVEL_ENTRIES).bit_length())
    distance = max(shortest, 1 << max(0, (reach // LIKELY_ENTRIES).bit_length() - 1))
    across = yield from _are_apart(pages, reach, distance)
    if across is True:
        while distance > shortest and (yield from _are_apart(pages, reach, distance // 2)) is True:
            distance //= 2
        below = distance > shortest and (yield from _are_apart(pages, reach, distance // 2))
        if isinstance(below, str):
            return UnitSize(None, below)
        if distance == shortest > 4 * KIB:
            return UnitSize(None, f"pages are shorter than {distance} B: more than {MAX_FIRST_LEVEL_ENTRIES} of them fit")
    else:
        while across is False:
            distance *= 2
            across = yield from _are_apart(pages, reach, distance)
        if isinstance(across, str):
            return UnitSize(None, across)
    if (yield from _are_apart(pages, reach, 2 * distance)) is False:  # then it was no page that parted them
        return UnitSize(None, f"lines {distance} B apart are of two pages, and lines {2 * distance} B apart of one")
    return UnitSize(distance)


def _are_apart(pages: PageProbe, reach: int, distance: int) -> Experiment[bool | str]:
    """True if lines so far apart are of two pages, False if of one; or why that is not known."""
    # first lines alone lie in twice as many pages as fit, where memory allows it: random victims leave some
    times = 4 if 5 * reach <= pages.field.most_bytes else 2
    count, span = max(MIN_PAIRS, times * reach // (2 * distance) + 1), 2 * distance
    if count * span > pages.field.most_bytes or distance > reach:
        return f"no page up to {distance // 2} B was found within the limit of memory"
    found = yield from _pair_differences(pages, count, span, (SAME_PAGE_BYTES, distance), _shares_decided)
    if found is None:
        return NO_ANSWER
    (inside, across), noise = found
    if not _shares_decided([inside, across], noise):
        return f"the cost of a miss is within the noise of pairs: {noise:.2g} of {inside:.4g}"
    share = across / inside
    if abs(share - 0.5) <= 0.5 - MAX_PAGE_SHARE:
        return f"lines {distance} B apart are neither of one page nor of two"
    return share < MAX_PAGE_SHARE


def _shares_decided(means: Sequence[float], noise: float) -> bool:
    """True if pairs of the first distance surely show a miss, and those of the second surely more or less than half of it."""
    inside, across = means
    slack = PAIR_SIGMAS * noise * math.sqrt(1.25)  # of one less half the other
    return inside > MIN_INSIDE_SIGMAS * noise and abs(across - inside / 2) > slack


def next_page_size(pages: PageProbe, page_bytes: int, entries: int, cost: PageCost) -> Experiment[UnitSize]:
    """The page of a further level, of so many `entries` of the nearer level's pages: the least power of two at which the second
    line of a pair misses the further level whether it follows the first one or not. Pairs begin anywhere in a page, so that
    half of those half a page apart are of two. `cost`: of a hit there, which the nearer level misses, and of a miss."""
    reach, distance, before = entries * page_bytes, page_bytes, 1.0
    while distance <= reach:
        share = yield from _share_of_one_page(pages, reach, distance, cost)
        if share == NO_ANSWER and (yield from _are_missed_alike(pages, page_bytes, entries, cost.miss - cost.hit)):
            return UnitSize(page_bytes, is_answered=False)
        if isinstance(share, str):
            return UnitSize(None, share)
        if share < MAX_SHARE_OF_TWO and (distance == page_bytes or abs(before - 0.5) < MAX_OFF_HALF):
            return UnitSize(distance)
        if share > before + MAX_OFF_HALF:
            break
        before, distance = share, 2 * distance
    return UnitSize(None, f"no distance up to {reach} B parts pairs of its pages")


def _are_missed_alike(pages: PageProbe, page_bytes: int, entries: int, cost: float) -> Experiment[bool]:
    """True if pairs of the nearer level's pages take as long in either order, as where a further level, whose misses cost that
    much more, translates these one by one. So pages were told in runs stored before first lines were shown to miss."""
    count = max(MIN_PAIRS, math.ceil(PAIR_OVERFLOW * entries / 2) + 1)
    if 2 * count * page_bytes > pages.field.most_bytes:
        return False
    found = yield from _pair_differences(
        pages, count, 2 * page_bytes, (page_bytes,), lambda means, noise: abs(means[0] - cost / 4) > PAIR_SIGMAS * noise
    )
    return found is not None and abs(found[0][0]) + PAIR_SIGMAS * found[1] < cost / 4


def _share_of_one_page(pages: PageProbe, reach: int, distance: int, cost: PageCost) -> Experiment[float | str]:
    """The share of pairs so far apart that are of one page of a further level; or why that is not known: first lines have to
    miss it, as those of pairs in one page of the nearer level show."""
    count = min(int(MANY_PAGES_RATIO * reach), pages.field.most_bytes) // (3 * distance)
    if count < MIN_PAIRS or 3 * count * distance < PAIR_OVERFLOW * reach:
        return "pairs of pages that overflow it are beyond the limit of memory"

    def missed(inside: float) -> float:
        return inside - cost.hit / 2

    def is_decided(means: Sequence[float], noise: float) -> bool:
        return PAIR_SIGMAS * noise < MAX_SHARE_OF_TWO / 2 * missed(means[0])

    found = yield from _pair_differences(pages, count, 3 * distance, (SAME_PAGE_BYTES, distance), is_decided)
    if found is None:
        return NO_ANSWER
    (inside, across), noise = found
    if missed(inside) < MIN_MISSED_SHARE * (cost.miss - cost.hit) / 2:
        return "the first lines of pairs of pages do not miss it"
    if not is_decided((inside, across), noise):
        return f"the cost of a miss is within the noise of pairs: {noise:.2g} of {inside:.4g}"
    return across / missed(inside)


def _pair_differences(
    pages: PageProbe,
    count: int,
    span: int,
    distances: tuple[int, ...],
    is_decided: Callable[[Sequence[float], float], bool],
) -> Experiment[tuple[list[float], float] | None]:
    """By how much pairs visited in two rounds are slower than one after another, at each of some distances: means over as many
    orders as decide, three at least, since a lap may be disturbed; and their noise."""
    chase = pages.chase
    found: list[list[float]] = [[] for _ in distances]
    least: list[float] = []
    values, noise = list[float](), math.inf
    for seed in range(1, 1 + MAX_PAIR_ORDERS):
        probes = [Probe(_pairs(chase, order, count, span, apart, seed), chase.space) for apart in distances for order in ORDERS]
        answers = yield from pages.asked.all(probes)
        known = [answer.value for answer in answers if answer.value is not None]
        if len(known) < len(probes):
            return None
        if chase.page_lines == 1:  # disturbances only add
            least = known if not least else [min(pair) for pair in zip(least, known, strict=True)]
            values = [least[2 * number] - least[2 * number + 1] for number in range(len(distances))]
            noise = math.sqrt(2) * max(pages.field.noise, MIN_NOISE_OF_OTHER_LINES) * min(least)
            if seed >= MIN_PAIR_ORDERS and is_decided(values, noise):
                break
            continue
        for number, differences in enumerate(found):
            differences.append(known[2 * number] - known[2 * number + 1])
        one = math.sqrt(2) * pages.field.noise * statistics.median(known)
        means = [mean_of_orders(differences, one) for differences in found]
        values, noise = [mean.value for mean in means], max(mean.noise for mean in means)
        if seed >= MIN_PAIR_ORDERS and is_decided(values, noise):
            break
    return values, noise


def _pairs(chase: ChaseLayout, order: Order, count: int, span: int, distance: int, seed: int) -> Pattern:
    """Pairs of lines so far apart, in spans of their own; where the nearest cache must not hold them, as many in each span as
    overflow it. First lines lie in the first half of a span, each span's a line further on than the last's, so that they
    spread over the sets of the caches."""
    each = max(1, min(-(-chase.lap_lines // (2 * count)), span // 4 // (2 * SAME_PAGE_BYTES)))
    gap = span // 4 // each // (2 * SAME_PAGE_BYTES) * 2 * SAME_PAGE_BYTES
    if span == 3 * distance or (distance == SAME_PAGE_BYTES and span % 3 == 0):
        each = max(1, min(-(-chase.lap_lines // (2 * count)), span // 3 // (2 * SAME_PAGE_BYTES)))
        starts = _scattered_starts(chase, each * count, each, span, distance)
        return Pattern(order, len(starts), 0, 0, distance, 2, ";".join(f"{start}:0:1:1" for start in starts), seed)
    run = max(1, span // 4 // chase.control_bytes)  # spans until lines begin again where the first did
    places = [
        f"{first * span + number * gap}:{span + chase.control_bytes}:{min(run, count - first)}:1"
        for first in range(0, count, run)
        for number in range(each)
    ]
    return Pattern(order, each * count, 0, 0, distance, 2, ";".join(places), seed)


def _scattered_starts(chase: ChaseLayout, count: int, each: int, span: int, distance: int) -> list[int]:
    """Where pairs begin, anywhere in the first two thirds of spans of their own, so many in each; no two share a line."""
    line, room = chase.control_bytes, 2 * span // 3
    used, starts = set[int](), list[int]()
    for n in range(count):
        start = n // each * span + int(n * GOLDEN % 1 * room) // line * line
        if not used & {start, start + distance}:
            used |= {start, start + distance}
            starts.append(start)
    return starts
