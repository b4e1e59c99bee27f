"""Line and sector of a level by lines of one set: what shares a tag with them, and what a miss brings in. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from clmembench.infer.hierarchy.eviction_sets import EvictionSets, find_line
from clmembench.infer.hierarchy.fill_unit import MAX_END_SHARE, MIN_FIRST_MISS_SHARE, UnitSize
from clmembench.infer.hierarchy.line_probe import LineProbe
from clmembench.infer.hierarchy.probing import LAP_NOISE_SIGMAS, MIN_RELATIVE_LAP_NOISE
from clmembench.model import Inquiry, Pattern, Probe
from clmembench.model.address_patterns import NODE_BYTES


def line_of_sets(probe: LineProbe, sets: Sequence[tuple[int, ...]]) -> Inquiry[int | None]:
    """The line in bytes of a level that no nearer cache hides, by its sets' first lines, which are aligned: the least distance
    by which each can be moved and is of another set; None where that is not the same of all."""
    return (yield from find_line(EvictionSets(probe, tuple(sets), ((),) * len(sets), 0)))


def sector_of_set(probe: LineProbe, lines: Sequence[int], line_bytes: int) -> Inquiry[UnitSize]:
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
    cost = probe.miss - probe.hit
    if 2 * known[0] - probe.hit < probe.hit + MIN_FIRST_MISS_SHARE * cost:
        return UnitSize(None, "of one line more than a set holds not all miss")
    noise = max(MIN_RELATIVE_LAP_NOISE, probe.noise) * max(known)
    if 2 * LAP_NOISE_SIGMAS * noise > MAX_END_SHARE * cost:
        return UnitSize(None, "the cost of a miss is within the noise of pairs of accesses")
    rises = [2 * (mean - known[0]) / cost for mean in known]
    if any(MAX_END_SHARE < rise < 1 - MAX_END_SHARE for rise in rises) or any(
        b < a - MAX_END_SHARE for a, b in pairwise(rises)
    ):
        return UnitSize(None, "the second access to a line of one set neither hits nor misses")
    return UnitSize(next((d for d, rise in zip(distances, rises, strict=True) if rise > MAX_END_SHARE), line_bytes))
