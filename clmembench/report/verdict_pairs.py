"""Every two devices of a report with what `compare` would call at, so that a report states what `compare` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import combinations

from clmembench.analysis import compare, decision, matching, noise
from clmembench.analysis.decision import DEFAULT_MARGIN, Pair, Side
from clmembench.analysis.noise import LogRatio
from clmembench.report.parts import Part
from clmembench.report.verdict_cells import OTHER_UNITS, DevicePairs, KnownPair, Line


def side_of(part: Part) -> Side:
    """A device of a report as a side of `compare`."""
    cards, header = part.run.header.benchmarks, part.run.header
    values = [row.value for row in part.rows if not cards[row.value.benchmark].peer_of]
    return decision.side_of(values, header.device, header.host)


def device_pairs(sides: Sequence[Side], lines: Sequence[Line], parts: Sequence[Part] = ()) -> DevicePairs:
    """Every two sides. A value is called better at the level at which `compare` calls values of the two runs, and never at a
    higher one than all headline quantities of the two together allow. Kernels of one version that differ, which `compare`
    leaves out, are compared here, since devices are seldom measured by one revision, and named."""
    found = {}
    for i, j in combinations(range(len(sides)), 2):
        left_out = frozenset(matching.incomparable(parts[i].run, parts[j].run)) if parts else frozenset()
        first, second = (_without(sides[place], left_out) for place in (i, j))
        pair = decision.pair_of(first, second, noise.calibrated())
        of_lines = decision.decision_level(list(_gains(pair, lines, i, j)), DEFAULT_MARGIN)
        level = min(of_lines, compare.level_of(pair)) if sides[i].values and sides[j].values else of_lines
        is_share = bool(parts and matching.on_other_units(parts[i].run, parts[j].run))
        found[i, j] = KnownPair(pair, level, left_out, OTHER_UNITS if is_share else "")
    return DevicePairs(found)


def _without(side: Side, left_out: Set[str]) -> Side:
    return replace(side, values=[value for value in side.values if value.benchmark not in left_out])


def _gains(pair: Pair, lines: Sequence[Line], i: int, j: int) -> Iterator[LogRatio]:
    for line in lines:
        a, b = line.cells[i], line.cells[j]
        if line.better and a.noisy is not None and b.noisy is not None and a.size == b.size:
            yield pair.gain(a.noisy, b.noisy, line.better)
