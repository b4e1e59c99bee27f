"""Filler: lines that empty the nearer caches in every lap and overflow no set of the level in question. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.line_probe import LineProbe

MAX_TRIED_FILLERS = 6
MAX_LEFT_OUT = 12  # lines of a filler: of sets that get more than they have ways of it
FILLERS_PER_WAY, MORE_FILLERS = 2, 4  # lines that empty the nearer caches of others
USUAL_WAYS = 16  # lines of a set that are still to be found among others
MIN_POOL_PLACES = 16  # that are left for the lines to be tested


def find_filler(
    probe: LineProbe, stride: int, nearer_ways: int, nearer_way_bytes: int, room: int
) -> Experiment[tuple[int, ...] | None]:
    """Lines, places from the end of the room, that empty the nearer caches; none where there are no nearer ones. They lie the
    stride apart, or where too few such lines fit a way of the nearer caches apart, which keeps to one of their sets too."""
    if not probe.nearer:
        return ()
    count = FILLERS_PER_WAY * nearer_ways + MORE_FILLERS
    if room - MAX_TRIED_FILLERS * count < MIN_POOL_PLACES:
        return None
    for apart in (stride, nearer_way_bytes)[: 1 + (0 < nearer_way_bytes < stride)]:
        places = [(room - 1) * stride - i * apart for i in range(MAX_TRIED_FILLERS * count)]
        lines = yield from _lines_that_fit(probe, places, count)
        if lines is not None and (yield from probe.is_served_here(lines)):
            return tuple(lines)
    return None


def _lines_that_fit(probe: LineProbe, places: Sequence[int], count: int) -> Experiment[list[int] | None]:
    """The first `count` of these places that overflow no set, the last of each overflow left out; None: too few."""
    fitting: list[int] = []
    rest = list(places)
    for _ in range(MAX_LEFT_OUT):
        tried = rest[: count - len(fitting)]
        if not (yield from probe.overflows([*fitting, *tried])):
            return [*fitting, *tried] if len(fitting) + len(tried) == count else None
        over = yield from least_overflow(probe, tried, fitting)
        fitting, rest = [*fitting, *tried[: over - 1]], rest[over:]
    return None


def least_overflow(probe: LineProbe, lines: Sequence[int], others: Sequence[int]) -> Experiment[int]:
    """How many first ones of these lines, which overflow a set together with others, are enough for that. Of n lines, with as
    many of the set still to be found as sets usually have ways, the last one lies within n / 16 of the end."""
    low, over, step = 0, len(lines), max(1, len(lines) // USUAL_WAYS)
    while over > step:
        if not (yield from probe.overflows([*lines[: over - step], *others])):
            low = over - step
            break
        over, step = over - step, 2 * step
    while over - low > 1:
        middle = (low + over) // 2
        if (yield from probe.overflows([*lines[:middle], *others])):
            over = middle
        else:
            low = middle
    return over
