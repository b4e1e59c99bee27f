"""Full associativity of a cache: random lines, as many as it holds, all hit, whatever their addresses. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import listed
from clmembench.studies.hierarchy.probes.probing import LevelProbe

# Thresholds, each with its reason
RANDOM_PLACEMENTS = 5  # random placements; two sets get equal shares of 128 lines in one placement of 14
MIN_SPAN_RATIO = 4  # times the cache's size: address bits spread lines of a smaller span evenly over sets
ORDERS = 3  # of a placement, of which disturbances may spoil some
MAX_LINES = 512  # more are of no fully associative cache that is known


def is_fully_associative(probe: LevelProbe, unit: int, count: int, span_bytes: int) -> Experiment[bool]:
    """True if `count` random lines of `unit` bytes within `span_bytes` hit, as consecutive ones do."""
    if count > MAX_LINES or span_bytes < MIN_SPAN_RATIO * count * unit or not probe.contrast.sharp(count):
        return False
    for seed in range(RANDOM_PLACEMENTS):
        drawn = np.random.default_rng([seed, count]).choice(span_bytes // unit, count, replace=False)
        pattern = Pattern("random", count, segments=listed((drawn * unit).tolist()))
        if not (yield from _fits(probe, pattern)):
            return False
    return True


def _fits(probe: LevelProbe, pattern: Pattern) -> Experiment[bool]:
    """True if a lap over the places of a pattern hits, in one of some orders."""
    for seed in range(ORDERS):
        answer = yield from probe.asked.one(Probe(replace(pattern, seed=seed), probe.chase.space))
        if answer.value is not None and answer.value <= probe.contrast.limit(pattern.count):
            return True
    return False
