"""A pool of lines reduced to those that overflow a set by the latencies of single accesses of a lap. Pure.

A lap's mean says that something missed, the trace of a lap which lines: those of the sets that overflow. Where the fewest
lines of which some miss are few more than one set has ways, one trace takes the place of some hundred laps. The lines of a pool
lie at one offset in their pages, so that nearer caches have most of them in one set, which hardly serves any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench.infer.hierarchy.line_probe import TRACED_ORDERS, LineProbe
from clmembench.infer.hierarchy.pool_reduction import MAX_WAYS
from clmembench.model import Inquiry

# lines that are traced, until some miss: more pages than that a second TLB might not hold
TRACED_COUNTS = (24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024)
MIN_MISSING = 3  # lines, of a set that overflows: fewer may be others' doing
GROWTH = 1.04  # of the pool where too few of a set's lines were seen to miss
MAX_GROWN = 4  # times
MAX_PROBES = 250  # of one pool: where others evict lines all the time, more traces tell no more
MAX_PROPOSED = 4 * (MAX_WAYS + 1)  # lines: with more, as many sets overflow as cannot be told apart in time
ORDERS = 1, 5  # pairs of orders that are traced: the latter where other lines of a set miss in other orders
MAX_TRIED_LINES, TURNS = 6, 3  # lines of which the set is looked for; turns of traces with a line and without it
LATER_ORDER = 20  # of a trace that confirms another
MAX_FILLERS = 4  # tried: some of a filler's lines may be of the set
MIN_SET_SHARE = 0.5  # of a set's lines, which are seen to miss where one is too many


def reduce_by_trace(
    probe: LineProbe, pool: Sequence[int], fill: int, last: int
) -> Inquiry[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """As `reduce_pool`, with a filler of `fill` lines of the pool; or why no traces show a set."""
    last = min(last, len(probe.asked.answers) + MAX_PROBES)
    found = yield from _fewest_lines(probe, pool)
    if found is None:
        return "no trace shows lines that miss among those at one offset in their pages"
    count, missing = found
    for _ in range(MAX_GROWN):
        if len(missing) > MAX_PROPOSED or len(probe.asked.answers) > last:
            break
        for orders in ORDERS:
            if len(probe.asked.answers) > last:
                break
            # a line that misses lets others of its set miss: they are no filler
            if orders > 1:
                missing = yield from _missing_in_orders(probe, pool[:count], orders)
            others = [line for line in pool[:count] if line not in missing]
            lines = yield from _one_set(replace(probe, filler=tuple(others)), missing, orders)
            for number in range(MAX_FILLERS if lines else 0):
                filler = tuple(others[number * fill : (number + 1) * fill])
                if len(filler) == fill and (yield from _is_one_set(replace(probe, filler=filler), lines, orders)):
                    return lines, filler
        count = min(len(pool), max(count + 1, int(count * GROWTH)))
        missing = yield from probe.missing(pool[:count])
    return "the lines that miss in traces could not be told apart by sets"


def _fewest_lines(probe: LineProbe, pool: Sequence[int]) -> Inquiry[tuple[int, list[int]] | None]:
    """The least number of first lines of the pool of which some miss, and these; None: none do."""
    low, high, missing = 0, 0, list[int]()
    for count in TRACED_COUNTS:
        if count > len(pool):
            return None
        missing = yield from _missing_twice(probe, pool[:count])
        if missing:
            high = count
            break
        low = count
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        fewer = yield from _missing_twice(probe, pool[:middle])
        if fewer:
            high, missing = middle, fewer
        else:
            low = middle
    return (high, missing) if high else None


def _missing_twice(probe: LineProbe, lines: Sequence[int]) -> Inquiry[list[int]]:
    """The lines that miss, if as many as a set's do, and again in other orders: what others evict they evict for a while."""
    for first in (0, LATER_ORDER):
        missing = yield from probe.missing(lines, first)
        if len(missing) < MIN_MISSING:
            return []
    return missing


def _missing_in_orders(probe: LineProbe, lines: Sequence[int], orders: int) -> Inquiry[list[int]]:
    """The lines, of these and of the filler, that miss in some order."""
    missing = set[int]()
    for number in range(orders):
        missing |= set((yield from probe.missing(lines, number * TRACED_ORDERS)))
    return sorted(missing)


def _one_set(probe: LineProbe, missing: Sequence[int], orders: int) -> Inquiry[tuple[int, ...]]:
    """Lines that overflow one set, of these which overflow one or some: without one of them no other of its set misses, if
    there was one too many. Empty where traces do not agree. Where few `orders` tell, traces with and without that one line take
    turns, since others evict lines for a while."""
    lines = list(missing)
    for _ in range(MAX_TRIED_LINES):
        if len(lines) <= 2:
            break
        first, *others = lines
        steady, left = set(lines), set[int]()
        for turn in range(TURNS if orders == 1 else 1):
            if orders == 1:
                steady &= set((yield from probe.missing(lines, turn * TRACED_ORDERS)))
                left |= set((yield from probe.missing(others, turn * TRACED_ORDERS)))
            else:
                left |= set((yield from _missing_in_orders(probe, others, orders)))
        found = (first, *(line for line in others if line in steady and line not in left))
        if first in steady and MIN_MISSING <= len(found) <= MAX_WAYS + 1 and (yield from probe.overflows(found)):
            return found
        lines = [line for line in others if line in left] if orders > 1 else others
    return ()


def _is_one_set(probe: LineProbe, lines: Sequence[int], orders: int) -> Inquiry[bool]:
    """True if these lines, which the filler keeps from being served nearer, overflow a set, and without one of them none."""
    missing = yield from _missing_in_orders(probe, lines, orders)
    if not set(missing) & set(lines) or len(set(missing) & set(lines)) < max(MIN_MISSING, MIN_SET_SHARE * len(lines)):
        return False
    for number in range(len(lines)):
        fewer = [*lines[:number], *lines[number + 1 :]]
        if (yield from probe.overflows(fewer)) and (yield from probe.overflows(fewer, LATER_ORDER)):
            return False
    return (yield from probe.is_served_here(lines[1:]))
