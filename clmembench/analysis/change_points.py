"""Change points in a device's values over its runs: where their level moved by more than neighbouring runs differ. Pure.

The levels and their ends minimise the squared distance of the logarithms plus a penalty for each change (PELT: Killick,
Fearnhead & Eckley 2012, by the library ruptures). The penalty is PENALTY times the variance of a run times ln(runs), and the
variance is half the mean square of successive differences (von Neumann 1941), which a step hardly enlarges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from clmembench.analysis.stats import Ratio, ratio

PENALTY = 8.0  # found false in at most 0.5% of series of noise, 3% where runs resemble their neighbours: docs/reading.md
MIN_RUNS = 10  # fewer tell too little of how runs differ
MIN_RUNS_OF_LEVEL = 4  # runs before a change, and after it
RULE = (
    f"a change point needs {MIN_RUNS} runs, {MIN_RUNS_OF_LEVEL} of them before and after it, and to explain more than "
    f"{PENALTY:g} x variance x ln(runs) of the squares of the logarithms"
)


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The place of the first run of a new level, and the ratio of that level to the one before."""

    index: int
    ratio: Ratio


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """The change points of values above 0 in the order of their runs; none of fewer than MIN_RUNS. The interval of a ratio
    takes the place as given. Raises ImportError where ruptures is missing, ValueError for a value that is not above 0."""
    if min(values, default=1.0) <= 0:
        raise ValueError("change points are of values above 0")
    if len(values) < MIN_RUNS:
        return []
    import ruptures

    logs = np.log(np.asarray(values, dtype=np.float64))
    steps = np.diff(logs)
    variance = float(steps @ steps) / (2 * len(steps))
    if variance == 0:
        return []
    search = ruptures.KernelCPD(kernel="linear", min_size=MIN_RUNS_OF_LEVEL).fit(logs.reshape(-1, 1))
    ends = [0, *search.predict(pen=PENALTY * variance * math.log(len(logs)))]
    levels = [list(values[first:last]) for first, last in pairwise(ends)]
    return [
        ChangePoint(place, ratio(before, after, math.sqrt(variance), 0.0))
        for place, (before, after) in zip(ends[1:-1], pairwise(levels), strict=True)
    ]
