"""Eviction sets from a pool of so many lines that a lap over it empties the nearer caches itself, whatever maps these. Pure.

Lines drawn from neighbouring pages fill some set of a hashed level long before the level is full. They are visited with lines
that are neighbours, of which each set of the nearer caches gets more than it has ways. The fewest first lines that
overflow one end with a member of that set; without any other member they do not overflow it. Group testing tells which those
are: a lap without a group still overflows the set if no member is among the group. The neighbours stay in the laps as a filler.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clmembench.model import Experiment
from clmembench.studies.hierarchy.eviction.eviction_sets import (
    AGREEING_SETS,
    RESTLESS,
    EvictionSets,
    find_line_of_sets,
    sets_of_pools,
)
from clmembench.studies.hierarchy.eviction.filler_lines import least_overflow
from clmembench.studies.hierarchy.eviction.pool_reduction import MAX_WAYS, confirmed_set
from clmembench.studies.hierarchy.probes.line_probe import MAX_ENTRIES_SHARE, MAX_ORDERS_OF_TEST, MIN_PAGE_BYTES, LineProbe

MIN_NEARER_RATIO = 1.6  # times the lines that the nearer caches hold are neighbours: recency then keeps none of a lap
GROWTH = 1.25  # from one number of lines to the next
MAX_LINES = 1 << 11  # of a lap: a test takes several
MAX_WINDOW_BYTES = 8 << 20  # that the lines are drawn from
MAX_DEVIATION = 1.0  # of the misses of a lap: a set that recency fills misses with each of its lines
USUAL_WAYS = 16  # members that groups are made for
TRIED_POOLS = 4
MAX_PROBES = 1200  # of one level
SURE_DEVIATION, MAX_OTHER_MISSES = 0.1, 0.3  # of misses that a lap without one member may have
MIN_ORDERS, MAX_ORDERS, FIRST_ORDER = 3, 40, 20  # of laps without one member


def find_dense_sets(probe: LineProbe, nearer_bytes: float, most_bytes: int) -> Experiment[EvictionSets | str]:
    """Two eviction sets of equal size of a level behind one that holds `nearer_bytes`; or why there are none."""
    if probe.asked.restless:
        return RESTLESS
    if not probe.nearer or not nearer_bytes:
        return "no nearer cache is known"
    last = len(probe.asked.answers) + MAX_PROBES
    least = int(MIN_NEARER_RATIO * nearer_bytes / probe.node_bytes)
    reach = int(MAX_ENTRIES_SHARE * probe.reach_bytes) if probe.page_bytes else most_bytes
    window = min(reach, MAX_WINDOW_BYTES, most_bytes // TRIED_POOLS) // probe.node_bytes
    most = min(MAX_LINES, window)
    while most > least and probe.deviation(most) > MAX_DEVIATION:
        most = int(most / GROWTH)
    if most <= least:
        return "laps over as many lines as empty the nearer caches are too long, or beyond the reach of a TLB"
    probe = replace(probe, filler=(), is_near=True)
    yield from probe.asked.one(probe.lap([0, (TRIED_POOLS * window - 8) * probe.node_bytes]))
    pools = []
    for number in range(TRIED_POOLS):
        drawn = [*range(least), *(least + np.random.default_rng(number).permutation(window - least)[: most - least])]
        pools.append([(number * window + int(i)) * probe.node_bytes for i in drawn])
    found = yield from sets_of_pools(probe, pools, lambda pool: _set_of(probe, pool, least, last), AGREEING_SETS, TRIED_POOLS)
    if isinstance(found, str):
        return found
    found = replace(found, stride_bytes=MIN_PAGE_BYTES, fills_all=True)
    return replace(found, line_bytes=(yield from find_line_of_sets(found)))


def _set_of(
    probe: LineProbe, pool: Sequence[int], least: int, last: int
) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """Lines of the pool that overflow a set, none of which can be left out, and the others that were visited with them."""
    count = float(least)
    while not (yield from probe.overflows(pool[: int(count)])):
        if int(count) >= len(pool):
            return "no set overflows with as many lines as can be tried"
        count = min(count * GROWTH, len(pool))
    over = yield from least_overflow(probe, pool[: int(count)], ())
    lines = pool[:over]
    if over <= least or not (yield from probe.is_served_here(lines[:-1])):
        return "the nearer caches serve some of the lines that overflow a set"
    members = yield from _members(probe, lines, last)
    if members is None:
        return "lines could not be told from those of one set in time"
    sure = []
    for line in members:  # what a lap did not show by chance, laps in other orders do
        if not (yield from probe.overflows([other for other in lines if other != line], MAX_ORDERS_OF_TEST)):
            sure.append(line)
    members = sure
    filler = tuple(line for line in lines[:least] if line not in members)
    probe = replace(probe, filler=filler)
    if not (yield from _nothing_else_misses(probe, members)):
        return "lines of other sets miss too, or laps are too noisy to exclude it"
    return (yield from confirmed_set(probe, tuple(members)))


def _nothing_else_misses(probe: LineProbe, members: Sequence[int]) -> Experiment[bool]:
    """True if laps without one member miss nothing: else several sets overflow, each of which misses too little to be seen."""
    orders = math.ceil((probe.deviation(len(members) + len(probe.filler)) / SURE_DEVIATION) ** 2)
    if not members or orders > MAX_ORDERS:
        return False
    values = []
    for number in range(max(MIN_ORDERS, orders)):
        left = [line for i, line in enumerate(members) if i != number % len(members)]
        values.append((yield from probe.misses(left, FIRST_ORDER + number)))
    known = [value for value in values if value is not None]
    return len(known) == len(values) and statistics.median(known) < MAX_OTHER_MISSES


def _members(probe: LineProbe, lines: Sequence[int], last: int) -> Experiment[list[int] | None]:
    """The lines of these without each of which they do not overflow a set, the last line among them; None: not found."""
    members = [lines[-1]]  # in the order in which they are found
    untold = list(lines[:-1])
    group_size = max(1, len(untold) // USUAL_WAYS)
    while untold:
        if len(members) > 2 * MAX_WAYS or len(probe.asked.answers) > last:
            return None
        group = untold[:group_size]
        if (yield from _overflows_without(probe, lines, group)):
            untold = untold[len(group) :]
            continue
        while len(group) > 1:
            half = group[: len(group) // 2]
            if (yield from _overflows_without(probe, lines, half)):
                untold = untold[len(half) :]
                group = group[len(half) :]
            else:
                group = half
        members.append(group[0])
        untold = [line for line in untold if line != group[0]]
    return members


def _overflows_without(probe: LineProbe, lines: Sequence[int], group: Sequence[int]) -> Experiment[bool]:
    left_out = frozenset(group)
    return (yield from probe.overflows([line for line in lines if line not in left_out]))
