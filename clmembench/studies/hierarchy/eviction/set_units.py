"""Line and sector of a level by lines of one set: what shares a tag with them, and what a miss brings in. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import NODE_BYTES
from clmembench.studies.hierarchy.eviction.eviction_sets import LINE_BYTES
from clmembench.studies.hierarchy.probes.fill_unit import MAX_END_SHARE, MIN_FIRST_MISS_SHARE, UnitSize
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, MIN_RELATIVE_LAP_NOISE

MIN_DECIDING_MISSES = 3  # that a lap has more, or fewer, than half way: one line in a far slice costs nearly one miss more
ORDERS = 3  # of each lap, whose median counts: one may be disturbed


def line_of_sets(probe: LineProbe, sets: Sequence[tuple[int, ...]]) -> Experiment[int | None]:
    """The line in bytes of a level that no nearer cache hides, by sets of one line more than fits, of which the first byte of
    each line is named: the least distance by which a line can be moved and is of another set; None where that is not the same
    of all, or where few accesses of a whole set miss.

    Hits differ by the slice that has the line: those of an H200's far partition cost nearly as much more as a miss. So laps are
    compared with two of their own set, in one of which all lines fit, and what decides is several misses.
    """
    sizes = set()
    for lines in sets:
        sizes.add((yield from _line_of_set(probe, _by_alignment(lines))))
    return sizes.pop() if len(sizes) == 1 else None


def _by_alignment(lines: Sequence[int]) -> list[int]:
    """Places with that first which is a multiple of most."""
    return sorted(lines, key=lambda place: -(place & -place) if place else -math.inf)


def _line_of_set(probe: LineProbe, lines: Sequence[int]) -> Experiment[int | None]:
    """The least distance by which the first of these lines is of another set, or is another line of the same."""
    fits, whole = (yield from _mean(probe, lines[1:])), (yield from _mean(probe, lines))
    least = MIN_DECIDING_MISSES * (probe.miss - probe.hit) / len(lines)
    if fits is None or whole is None or whole - fits < 2 * least:
        return None
    for distance in LINE_BYTES:
        moved = lines[0] ^ distance
        instead = yield from _mean(probe, [moved, *lines[1:]])
        both = yield from _mean(probe, [lines[0], moved, *lines[2:]])
        if instead is None or both is None:
            return None
        middle = (fits + whole) / 2
        if min(abs(instead - middle), abs(both - middle)) < least / 2:
            return None  # neither as many misses as of the whole set nor as few as of what fits
        if instead < middle or both > middle:
            return distance
    return None


def _mean(probe: LineProbe, lines: Sequence[int]) -> Experiment[float | None]:
    """The median latency of laps over these lines in some orders; None: no answer."""
    answers = yield from probe.asked.all([probe.lap(lines, seed) for seed in range(ORDERS)])
    values = [answer.value for answer in answers if answer.value is not None]
    return statistics.median(values) if len(values) == ORDERS else None


def sector_of_sets(probe: LineProbe, sets: Sequence[tuple[int, ...]], line_bytes: int) -> Experiment[UnitSize]:
    """What a miss brings in by each of some sets, if it is the same of all."""
    found: list[UnitSize] = []
    for lines in sets:
        found.append((yield from sector_of_set(probe, lines, line_bytes)))
    unknown = [one for one in found if one.nbytes is None]
    if unknown:
        return unknown[0]
    if len({one.nbytes for one in found}) > 1:
        return UnitSize(None, "misses of two sets bring in " + " and ".join(f"{one.nbytes} B" for one in found))
    return found[0]


def sector_of_set(probe: LineProbe, lines: Sequence[int], line_bytes: int) -> Experiment[UnitSize]:
    """What a miss brings in, by a lap over one line more than a set holds, each of which misses, and right after it a place of
    the same line (Mei & Chu 2015, section 4.2, stage 1, of one set): the least distance at which that misses too."""
    distances = [NODE_BYTES << i for i in range(line_bytes.bit_length()) if NODE_BYTES << i < line_bytes]
    probes = [
        Probe(Pattern("segments", segments=";".join(f"{line}:{distance}:2:1" for line in lines)), probe.space)
        for distance in distances
    ]
    means = [answer.value for answer in (yield from probe.asked.all(probes))]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means) or not known:
        return UnitSize(None, "pairs of accesses to lines of one set got no answer")
    ordered = _by_alignment(lines)
    fits, whole = (yield from _mean(probe, ordered[1:])), (yield from _mean(probe, ordered))
    cost = 0.0 if fits is None or whole is None else whole - fits
    if fits is None or cost < MIN_FIRST_MISS_SHARE * (probe.miss - probe.hit):
        return UnitSize(None, "accesses to one line more than a set holds do not all miss")
    if 2 * known[0] - fits < fits + MIN_FIRST_MISS_SHARE * cost:
        return UnitSize(None, "the first accesses of pairs within one set do not all miss")
    noise = max(MIN_RELATIVE_LAP_NOISE, probe.noise) * max(known)
    if 2 * LAP_NOISE_SIGMAS * noise > MAX_END_SHARE * cost:
        return UnitSize(None, "the cost of a miss is within the noise of pairs of accesses")
    rises = [2 * (mean - known[0]) / cost for mean in known]
    if any(MAX_END_SHARE < rise < 1 - MAX_END_SHARE for rise in rises) or any(
        b < a - MAX_END_SHARE for a, b in pairwise(rises)
    ):
        return UnitSize(None, "the second access to a line of one set neither hits nor misses")
    return UnitSize(next((d for d, rise in zip(distances, rises, strict=True) if rise > MAX_END_SHARE), line_bytes))
