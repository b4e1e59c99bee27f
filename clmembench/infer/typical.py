"""One latency from accesses that should be alike: its median, how sure it is, and whether it is longer than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench import stats
from clmembench.model import Array

SAME = 0.015  # latencies that differ by less are one
TYPICAL, SHARE = 0.20, 0.75  # most accesses of a pattern lie that close to their median: a cache in slices spreads that far
LEAST = 3  # accesses that make a latency
STEP = 0.2  # of a latency that the clock's step may be
SURE = 0.05  # half of an interval, as a fraction of the latency: a wider one is no number
ABSENT = "the trace has no such access"


@dataclass(frozen=True, slots=True)
class Typical:
    """A latency in the answer's unit with its interval, NaN where there is none for the reason `why`."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    accesses: tuple[int, ...] = ()
    why: str = ""

    @property
    def sure(self) -> bool:
        return bool(np.isfinite(self.value))

    def above(self, other: Typical) -> bool:
        """Whether this is a longer latency for certain."""
        return self.low > other.high and self.value > other.value * (1 + SAME)

    def like(self, other: Typical) -> bool:
        return abs(self.value - other.value) <= SAME * other.value


@dataclass(frozen=True, slots=True)
class Reader:
    """Latencies of a trace, and by how much the clock they were read from steps."""

    latencies: Array
    clock_step: float
    own_cost: float = 0.0  # how wide the interval of what was taken off is

    def mean(self, accesses: Sequence[int]) -> float:
        """Of those within TYPICAL of their median."""
        values = self.latencies[list(accesses)]
        middle = float(np.median(values))
        return float(values[np.abs(values - middle) <= max(TYPICAL * middle, 3.0, self.clock_step)].mean())

    def of(self, accesses: Sequence[int]) -> Typical:
        """The latency of accesses that should be alike."""
        values = self.latencies[list(accesses)]
        if len(values) < LEAST:
            return Typical(why=ABSENT)
        summary = stats.summarise(values.tolist())
        spread = max(TYPICAL * summary.median, 3.0)
        close = np.abs(values - summary.median) <= spread
        if self.clock_step > STEP * summary.median:
            return Typical(why=f"the clock inside the kernel steps by {self.clock_step:g}, too much to tell a latency")
        if close.mean() < SHARE:
            return Typical(why=f"only {close.mean():.0%} of its {len(values)} accesses lie within 10% of their median")
        half = (self.clock_step + self.own_cost) / 2
        # a median of whole steps is a whole step; their mean is not, since an access begins anywhere between two
        value = float(values[close].mean()) if self.clock_step else summary.median
        # of fewer than 6 accesses the range
        ends = (summary.low, summary.high) if np.isfinite(summary.low) else (float(values.min()), float(values.max()))
        low, high = min(value, ends[0]) - half, max(value, ends[1]) + half
        if not (high - low) / 2 <= SURE * value:
            return Typical(why=f"between {low:.4g} and {high:.4g}, which is no number: the clock steps by {self.clock_step:g}")
        return Typical(value, low, high, tuple(accesses))


def clock_step(latencies: Array) -> float:
    """The least difference of two latencies, where there are so few different ones that the clock must be coarse."""
    distinct = np.unique(latencies)
    return float(np.diff(distinct).min()) if 1 < distinct.size < latencies.size / 4 else 0.0
