"""A size that two methods agree on: where misses begin, and how much of a lap that turns round still hits. Pure."""

from __future__ import annotations

import math

from clmembench.model import Experiment, Finding
from clmembench.model.findings import measured_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.reversed_laps import turn_round
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession

AGREEING_METHOD = "largest working set without misses; laps that turn round hold as much"
POWER_METHOD = "laps that turn round hold a power of two of bytes"
MAX_DIFFERENCE = 0.01  # between the two, relative: laps that turn round hold all but half a percent
MAX_STEEP_GONE_RATIO = 1.6  # times the size: by then three quarters miss, unless lines fall into sets by chance
HELD_SHARE, MAX_HELD_DIFFERENCE = 0.996, 0.008  # of the capacity, that laps which turn round hold, and how far it may be off


def confirmed_size(
    asked: ProbeSession,
    chase: ChaseLayout,
    step: CurveStep,
    node: int,
    nearer: tuple[float, float],
    most_bytes: int,
    size: Finding,
    node_is_unit: bool = True,
) -> Experiment[Finding]:
    """A size of which only the largest working set that fits is known, if laps that turn round hold as much, or a power of two.

    Both are at most the capacity: fewer lines fit where they fall unevenly into sets; after a turn LRU, FIFO and tree-PLRU hold
    all of it, NRU the share (w - 1) / w of w ways, and random victims leave hits in plain laps, which exclude them. That both
    lack the same part of the capacity would be chance. What NRU holds is no power of two, unless there are two ways, of which
    it holds all, or three or five, which no cache is known to have. `nearer`: bytes and latency of the level before;
    `most_bytes`: the largest working set that does not reach the next level. `node_is_unit`: lines are known to be no shorter
    than the distance of places; else laps may leave out every other line and hold twice the size, which what fits must exclude.
    """
    low = size.low or 0.0
    if size.status != "undetermined" or not low:
        return size
    turned = yield from turn_round(asked, chase, step, node, nearer, most_bytes)
    held = turned.recent_bytes() if turned is not None and turned.excludes_random() else None
    if turned is None or held is None:
        return size
    evidence = tuple(dict.fromkeys((*size.evidence, *turned.evidence)))
    steep = step.gone_bytes <= MAX_STEEP_GONE_RATIO * low
    if steep and abs(held - low) <= MAX_DIFFERENCE * max(held, low):
        return measured_finding("size_bytes", max(low, held), AGREEING_METHOD, evidence, min(low, held), max(low, held))
    power = 2 ** round(math.log2(held / HELD_SHARE))
    if low <= power and (node_is_unit or 2 * low > power) and abs(held / HELD_SHARE - power) <= MAX_HELD_DIFFERENCE * power:
        return measured_finding("size_bytes", power, POWER_METHOD, evidence, min(power, held), max(power, held))
    return size
