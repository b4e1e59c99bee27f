"""Sets of a cache behind another, from which bits of an address choose among them. Pure.

Strides of powers of two leave fewer and fewer lines, until a nearer cache holds them itself. Lines whose addresses all have one
bit at 0 use half of the sets where that bit chooses among them, and all sets otherwise: three quarters of the lines that fit
then miss mostly, or all hit, and they are more than any nearer cache holds. So the bits that strides left open are asked alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import listed
from clmembench.studies.hierarchy.geometry.strides import MAX_REACH_SHARE, SetGeometry, StrideLimits
from clmembench.studies.hierarchy.probes.probing import LevelProbe

# Thresholds, each with its reason
ASKED_QUARTERS = 3  # of the lines that fit: half of the sets have room for two of these, all have for all
MIN_MISS_SHARE, MAX_MISS_SHARE = 0.3, 0.08  # of accesses: where a bit is one of the sets', and where it is none
MAX_ROWS_SHARE = 0.02  # of accesses to as many random rows of lines as there are ways: of uneven sets more miss
MIN_OVER_SHARE = 0.08  # of one row more: a set of 16 ways that draws victims misses more; frames rarely overflow each time
MAX_WAYS = 32  # no cache is known to have more in sets that bits choose
ORDERS, MAX_ORDERS = 2, 5  # of laps, which have to agree on that; tried at most
MIN_BITS = 2  # of which a single one may be chance
MAX_RUNS = 3072  # of neighbouring lines in a lap: each is listed in the record
ROWS_SEEDS, MIN_ROOM_RATIO = 8, 2  # random choices of rows, one line of each set, that have to fit; times them to choose from
MAX_COUNT_DIFFERENCE = 0.01  # relative, of the lines that seem to fit: a nearer cache may hold a few


def with_sets_by_bits(
    probe: LevelProbe, line: int, counts: tuple[int, int], sets: SetGeometry, limits: StrideLimits
) -> Experiment[SetGeometry]:
    """The sets of a level that at least and at most so many lines fit into, by the bits that strides told, from the line on
    without a gap, and those above, each asked alone; as they were where these leave several numbers of ways, or something else
    chooses sets too."""
    low, told = line.bit_length() - 1, len(sets.bits)
    asked = ASKED_QUARTERS * counts[0] // 4
    most = min(limits.most_bytes, int(MAX_REACH_SHARE * limits.reach_bytes))
    is_plain = sets.bits == tuple(range(low, low + told))
    if sets.ways is not None or not is_plain or 2 * asked * line > most or asked >> told > MAX_RUNS:
        return sets
    base = yield from _share(probe, [n * line for n in range(asked)])
    if base is None or base > MAX_MISS_SHARE:
        return sets
    bits = told
    while 1 << bits < asked:
        below = (1 << bits) - 1
        halves = yield from _share(probe, [((n & ~below) * 2 + (n & below)) * line for n in range(asked)])
        if halves is None or MAX_MISS_SHARE < halves < MIN_MISS_SHARE:
            return sets
        if halves <= MAX_MISS_SHARE:
            break
        bits += 1
    least, most_lines = (1 - MAX_COUNT_DIFFERENCE) * counts[0], (1 + MAX_COUNT_DIFFERENCE) * counts[1]
    tried = range(math.ceil(least / (1 << bits)), int(most_lines / (1 << bits)) + 1)
    if bits < MIN_BITS or len(tried) != 1 or tried[0] > MAX_WAYS:
        return sets
    found = replace(sets, bits=tuple(range(low, low + bits)), ways=tried[0], reason="")
    return found if (yield from _rows_fit(probe, line, found, most)) else sets


def _rows_fit(probe: LevelProbe, line: int, sets: SetGeometry, most_bytes: int) -> Experiment[bool]:
    """True if as many random rows of lines, one of each set, fit as there are ways, and never one row more: no other bits, no
    modulus and no page frames choose sets too, which would spread rows unevenly, some well and some not."""
    ways, row_bytes = sets.ways or 0, sets.sets * line
    room = most_bytes // row_bytes
    if room < MIN_ROOM_RATIO * ways:
        return False
    for seed in range(ROWS_SEEDS):
        rows = np.random.default_rng([seed, ways]).choice(room, ways + 1, replace=False)
        places = (rows[:, None] * row_bytes + np.arange(sets.sets)[None, :] * line).reshape(-1).tolist()
        share = yield from _share(probe, places[: -sets.sets])
        if share is None or share > MAX_ROWS_SHARE:
            return False
        over = yield from _share(probe, places)
        if over is None or over < MIN_OVER_SHARE:
            return False
    return True


def _share(probe: LevelProbe, places: Sequence[int]) -> Experiment[float | None]:
    """The share of accesses that miss in laps over these places, by orders that agree, or their middle; None: no answers."""
    found: list[float] = []
    text = listed(places)
    for seed in range(MAX_ORDERS):
        answer = yield from probe.asked.one(Probe(Pattern("random", len(places), segments=text, seed=seed), probe.chase.space))
        if answer.value is not None:
            found.append(probe.contrast.misses(answer.value, len(places)) / len(places))
        if len(found) >= ORDERS and (min(found) >= MIN_MISS_SHARE or max(found) <= MAX_MISS_SHARE):
            break
    return statistics.median(found) if len(found) >= ORDERS else None
