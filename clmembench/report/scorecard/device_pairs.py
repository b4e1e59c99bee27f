"""Every two devices of a report with what `compare` would call at, so that a report states what `compare` does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations

from clmembench.analysis import compare, decision, matching, noise
from clmembench.analysis.decision import DEFAULT_MARGIN, Pair, Side
from clmembench.analysis.noise import LogRatio
from clmembench.report.frame import LabelledRun
from clmembench.report.scorecard_cells import OTHER_UNITS, DevicePairs, KnownPair, Line


def side_of(part: LabelledRun) -> Side:
    """A device of a report as a side of `compare`."""
    cards, header = part.run.header.benchmarks, part.run.header
    values = [row.value for row in part.rows if not cards[row.value.benchmark].peer_of]
    return decision.side_of(values, header.device, header.host)


def device_pairs(
    sides: Sequence[Side], lines: Sequence[Line], parts: Sequence[LabelledRun] = (), margin: float = DEFAULT_MARGIN
) -> DevicePairs:
    """Every two sides. A value is called better at the level at which `compare` calls values of the two runs, and never at a
    higher one than all headline quantities of the two together allow. Kernels of one version that differ, which `compare`
    leaves out, are compared here, since devices are seldom measured by one revision, and named."""
    return DevicePairs(_Pairs(sides, lines, parts, margin), margin)


class _Pairs(Mapping[tuple[int, int], KnownPair]):
    """Pairs of places, the lower one first, each looked at when it is asked for: a cluster has many."""

    def __init__(self, sides: Sequence[Side], lines: Sequence[Line], parts: Sequence[LabelledRun], margin: float) -> None:
        self._sides, self._lines, self._parts, self._margin = sides, lines, parts, margin
        self._known: dict[tuple[int, int], KnownPair] = {}

    def __getitem__(self, key: tuple[int, int]) -> KnownPair:
        i, j = key
        if not 0 <= i < j < len(self._sides):
            raise KeyError(key)
        if key not in self._known:
            self._known[key] = self._look_at(i, j)
        return self._known[key]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return combinations(range(len(self._sides)), 2)

    def __len__(self) -> int:
        return math.comb(len(self._sides), 2)

    def _look_at(self, i: int, j: int) -> KnownPair:
        runs = (self._parts[i].run, self._parts[j].run) if self._parts else None
        left_out = frozenset(matching.incomparable(*runs)) if runs else frozenset()
        first, second = (_without(self._sides[place], left_out) for place in (i, j))
        pair = decision.pair_of(first, second, noise.calibrated())
        of_lines = decision.decision_level(list(_gains(pair, self._lines, i, j)), self._margin)
        level = min(of_lines, compare.level_of(pair, self._margin)) if first.values and second.values else of_lines
        is_share = bool(runs and matching.on_other_units(*runs))
        return KnownPair(pair, level, left_out, OTHER_UNITS if is_share else "")


def _without(side: Side, left_out: Set[str]) -> Side:
    return replace(side, values=[value for value in side.values if value.benchmark not in left_out])


def _gains(pair: Pair, lines: Sequence[Line], i: int, j: int) -> Iterator[LogRatio]:
    for line in lines:
        a, b = line.cells[i], line.cells[j]
        if line.better and a.noisy is not None and b.noisy is not None and a.size == b.size:
            yield pair.gain(a.noisy, b.noisy, line.better)
