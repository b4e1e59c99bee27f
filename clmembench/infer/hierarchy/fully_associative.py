"""Whether a level is one set: lines at places drawn at random, as many as it holds, all fit. Pure."""

from __future__ import annotations

import numpy as np

from clmembench.infer.hierarchy.line_probe import listed
from clmembench.infer.hierarchy.probing import LevelProbe
from clmembench.model import Inquiry, Pattern, Probe

# Thresholds, each with its reason
RANDOM_PLACEMENTS = 5  # of lines, all of which fit: two sets of 64 ways happen to get as many of 128 lines in one of 14
MIN_SPAN_RATIO = 4  # times the level's size: lines closer together are spread evenly by address bits
ORDERS = 3  # of a placement, of which disturbances may spoil some
MAX_LINES = 512  # more are of no fully associative cache that is known


def holds_any_lines(probe: LevelProbe, unit: int, count: int, span_bytes: int) -> Inquiry[bool]:
    """True if a level that holds `count` neighbouring lines of `unit` bytes holds as many at any places within `span_bytes`."""
    if count > MAX_LINES or span_bytes < MIN_SPAN_RATIO * count * unit or not probe.contrast.sharp(count):
        return False
    for seed in range(RANDOM_PLACEMENTS):
        drawn = np.random.default_rng([seed, count]).choice(span_bytes // unit, count, replace=False)
        pattern = Pattern("random", count, segments=listed((drawn * unit).tolist()))
        if not (yield from _fits(probe, pattern)):
            return False
    return True


def _fits(probe: LevelProbe, pattern: Pattern) -> Inquiry[bool]:
    """True if a lap over the places of a pattern hits, in one of some orders."""
    for seed in range(ORDERS):
        lap = Pattern(pattern.order, pattern.count, segments=pattern.segments, seed=seed)
        (answer,) = yield from probe.asked.all([Probe(lap, probe.chase.space)])
        if answer.value is not None and answer.value <= probe.contrast.limit(pattern.count):
            return True
    return False
