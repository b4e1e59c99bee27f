"""A pool of lines reduced to those of one cache set: one more than its ways, by bisection. Pure.

After Vila, Köpf & Morales 2019: of lines at one offset in their pages some set gets more than it has ways once there are enough
of them. The fewest first lines of which that is so end with a member of such a set, which is kept while the next is looked for;
the lines that are kept are of one set, and one more than its ways, whatever the policy: a lap over lines that all fit misses
none, and one over more than fit misses at least one. Bisection, as in Zhao et al. 2024, takes fewer tests than groups.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from clmembench.model import Experiment
from clmembench.studies.hierarchy.eviction.filler_lines import least_overflow
from clmembench.studies.hierarchy.probes.line_probe import MIN_MISSES, LineProbe

MAX_NEEDED_IN_A_ROW = 4  # of many lines: where each one is needed, they overflow all sets of a TLB, not one of a cache
MAX_REDUCTIONS = 2  # of one pool
MAX_WAYS = 32  # of a set: no cache is known to have more


def reduce_pool(
    probe: LineProbe, pool: Sequence[int], counts: Sequence[int], last: int
) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """Lines of the pool, and of the filler, that overflow a set, none of which can be left out; and the rest of the filler."""
    for count in counts:
        if count > len(pool):
            break
        if (yield from probe.overflows(pool[:count])):
            break
    else:
        count = len(pool) + 1
    if count > len(pool):
        return "no set overflows with as many lines at one offset in their pages as can be tried"
    found: tuple[tuple[int, ...], tuple[int, ...]] | str = ""
    lines: Sequence[int] = pool[:count]
    for _ in range(MAX_REDUCTIONS):  # a test that failed leaves lines of other sets, which a second reduction leaves out
        members = yield from _members(probe, lines, last)
        if members is None:
            return "lines at one offset in their pages could not be reduced to those of one set in time"
        found = yield from set_without_filler(probe, members)
        if not isinstance(found, str) or len(members) >= len(lines):
            break
        lines = members
    return found


def set_without_filler(probe: LineProbe, members: Sequence[int]) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """Lines that overflow a set, with those of the filler that are of that set too, and the rest of the filler; or why not."""
    lines, rest = list(members), list[int]()
    # those of a nearer cache may be shorter: some of them are one line here, which is of the set or is not
    groups: dict[int, list[int]] = {}
    for place in probe.filler:
        groups.setdefault(place // probe.node_bytes, []).append(place)
    for group in groups.values():
        other = replace(probe, filler=tuple(place for place in probe.filler if place not in group))
        if (yield from other.overflows(lines)):
            rest += group
        else:
            lines.append(group[0])
    if not 2 < len(lines) <= MAX_WAYS + 1:
        return f"{len(lines)} lines are left, which are too many or too few for a set"
    return (yield from confirmed_set(replace(probe, filler=tuple(rest)), tuple(lines)))


def _members(probe: LineProbe, lines: Sequence[int], last: int) -> Experiment[list[int] | None]:
    """Lines of these, which overflow a set, that overflow it alone; None: not found with `last` probes in all.

    Of the fewest first lines that overflow a set, with the members found before, the last one is a member. It takes a bisection
    to find each.
    """
    members: list[int] = []
    others, needed = list(lines), 0
    while len(members) <= MAX_WAYS and needed < MAX_NEEDED_IN_A_ROW:
        if members and (yield from probe.overflows(members)):
            return members
        over = yield from least_overflow(probe, others, members)
        if len(probe.asked.answers) > last:
            return None
        if not over:
            return None
        needed = needed + 1 if over == len(others) > MAX_WAYS else 0
        members.append(others[over - 1])
        others = others[: over - 1]
    return None


def confirmed_set(probe: LineProbe, lines: tuple[int, ...]) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """The lines and the filler if these lines overflow a set, and without any one of them none, though no nearer cache serves
    them; else why not."""
    if not (yield from probe.overflows(lines, 3)):
        return f"{len(lines)} lines that seemed to overflow a set did not do so again"
    whole = yield from probe.misses(lines, 0)
    left: list[float] = []
    for number in range(len(lines)):
        fewer = [*lines[:number], *lines[number + 1 :]]
        if (yield from probe.overflows(fewer)):
            return f"of {len(lines)} lines one could be left out after all"
        if not (yield from probe.is_served_here(fewer)):
            return f"a nearer cache serves {len(fewer)} lines of a set"
        left.append((yield from probe.misses(fewer, 0)) or 0.0)
    # lines in far slices of a cache cost more than the mean hit, but as much with one left out
    if whole is None or whole - statistics.mean(left) < MIN_MISSES:
        return f"{len(lines)} lines cost no more than without one of them"
    return lines, probe.filler
