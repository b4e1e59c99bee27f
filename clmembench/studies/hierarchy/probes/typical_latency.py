"""One latency from accesses that should be alike: its median, how sure it is, and whether it is longer than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.analysis import stats
from clmembench.model import Array

# Thresholds and limits, each with its reason
MAX_SAME_LATENCY_RELATIVE_DIFFERENCE = 0.015  # relative: latencies that differ by less count as one
MAX_TYPICAL_RELATIVE_DISTANCE, MIN_TYPICAL_SHARE = (
    0.20,
    0.75,
)  # most accesses of a pattern lie that close to their median: a cache in slices spreads that far
MIN_ACCESSES = 3  # accesses: fewer give no latency
MIN_SECOND_GROUP_SHARE = 0.1  # of the accesses of a pattern: a smaller second group is outliers
MIN_GROUP_DISTANCE_SIGMAS = (
    4.0  # standard deviations within two groups that their means are apart; of one Gaussian's halves 2.7, a uniform's 3.5
)
GROUP_DISTANCE_CHANCE_ACCESSES = 6.0  # accesses: the halves of so few may be twice as far apart by chance
MAX_CLOCK_STEP_SHARE = 0.2  # of a latency: a larger step of the clock hides it
MAX_INTERVAL_RELATIVE_HALF_WIDTH = 0.05  # half width of an interval over its latency: a wider one is not reported as a number
NO_SUCH_ACCESS = "the trace has no such access"


@dataclass(frozen=True, slots=True)
class TypicalLatency:
    """A latency in the answer's unit with its interval, NaN where there is none for the reason `why`; the interval may still
    bound it. `said`: which of the accesses it rests on, where not all agree."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    accesses: tuple[int, ...] = ()
    why: str = ""
    said: str = ""

    @property
    def sure(self) -> bool:
        return bool(np.isfinite(self.value))

    def above(self, other: TypicalLatency) -> bool:
        """True if this is a longer latency for certain."""
        return self.low > other.high and self.value > other.value * (1 + MAX_SAME_LATENCY_RELATIVE_DIFFERENCE)

    def like(self, other: TypicalLatency) -> bool:
        return abs(self.value - other.value) <= MAX_SAME_LATENCY_RELATIVE_DIFFERENCE * other.value


@dataclass(frozen=True, slots=True)
class TraceReader:
    """Latencies of a trace, and by how much the clock they were read from steps."""

    latencies: Array
    clock_step: float
    own_cost: float = 0.0  # how wide the interval of what was taken off is

    def mean(self, accesses: Sequence[int]) -> float:
        """The mean of the latencies that lie close to their median."""
        values = self.latencies[list(accesses)]
        middle = float(np.median(values))
        return float(
            values[np.abs(values - middle) <= max(MAX_TYPICAL_RELATIVE_DISTANCE * middle, 3.0, self.clock_step)].mean()
        )

    def of(self, accesses: Sequence[int]) -> TypicalLatency:
        """The latency of accesses that should be alike: none where they fall into two groups far apart of which neither has
        three quarters of them, or where fewer than that lie close to their median. The latency of a few others is reported
        beside it."""
        values = self.latencies[list(accesses)]
        if len(values) < MIN_ACCESSES:
            return TypicalLatency(why=NO_SUCH_ACCESS)
        summary = stats.summarise(values.tolist())
        spread = max(MAX_TYPICAL_RELATIVE_DISTANCE * summary.median, 3.0)
        close = np.abs(values - summary.median) <= spread
        if self.clock_step > MAX_CLOCK_STEP_SHARE * summary.median:
            return TypicalLatency(
                why=f"the clock inside the kernel steps by {self.clock_step:g}, too coarsely to resolve a latency"
            )
        parted = two_groups(values, self.clock_step)
        even = parted is not None and min(map(len, parted)) > (1 - MIN_TYPICAL_SHARE) * len(values)
        if (
            parted is not None
            and even
            and float(parted[1].mean() - parted[0].mean()) / 2 > MAX_INTERVAL_RELATIVE_HALF_WIDTH * summary.median
        ):
            return TypicalLatency(
                low=float(values.min()), high=float(values.max()), why=f"two latencies: {format_groups(parted)}"
            )
        if close.mean() < MIN_TYPICAL_SHARE:
            why = (
                f"only {close.mean():.0%} of its {len(values)} accesses lie within {MAX_TYPICAL_RELATIVE_DISTANCE:.0%} of "
                "their median"
            )
            return TypicalLatency(why=why)
        half = (self.clock_step + self.own_cost) / 2
        # a median of whole steps is a whole step; their mean is not, since an access begins anywhere between two
        value = float(values[close].mean()) if self.clock_step else summary.median
        # of fewer than 6 accesses the range
        ends = (summary.low, summary.high) if np.isfinite(summary.low) else (float(values.min()), float(values.max()))
        if parted is not None and even:  # neither group is the whole
            ends = min(ends[0], float(parted[0].mean())), max(ends[1], float(parted[1].mean()))
        low, high = min(value, ends[0]) - half, max(value, ends[1]) + half
        if not (high - low) / 2 <= MAX_INTERVAL_RELATIVE_HALF_WIDTH * value:
            steps = f", by a clock that steps by {self.clock_step:g}" if self.clock_step else ""
            return TypicalLatency(
                low=low, high=high, why=f"between {low:.4g} and {high:.4g}, too wide an interval for a value{steps}"
            )
        said = f"two groups: {format_groups(parted)}" if parted is not None else ""
        off = int((~close).sum())
        if not said and off:
            said = f"{off} of {len(values)} accesses lie further than {MAX_TYPICAL_RELATIVE_DISTANCE:.0%} from their median"
        return TypicalLatency(value, low, high, tuple(accesses), said=said)


def two_groups(values: Array, step: float = 0.0) -> tuple[Array, Array] | None:
    """The faster and the slower of two groups that latencies fall into, split where they vary least within; None where they are
    one group, by a clock whose steps are `step`. A group is at least a tenth of them, and three."""
    ordered = np.sort(values)
    least = max(MIN_ACCESSES, int(np.ceil(MIN_SECOND_GROUP_SHARE * ordered.size)))
    places = np.arange(least, ordered.size - least + 1)
    if not places.size:
        return None
    # the square of the groups' distance, weighted: what it takes of the spread is most where least is left within
    sums = np.cumsum(ordered - ordered.mean())[places - 1]
    place = int(places[np.argmax(sums**2 / (places * (ordered.size - places)))])
    near, far = ordered[:place], ordered[place:]
    gap = float(far.mean() - near.mean())
    within = float(np.sqrt((near.var() * near.size + far.var() * far.size) / ordered.size))
    # one latency falls on two neighbouring steps of a clock
    if gap <= max(
        MIN_GROUP_DISTANCE_SIGMAS * (1 + GROUP_DISTANCE_CHANCE_ACCESSES / ordered.size) * within,
        MAX_SAME_LATENCY_RELATIVE_DIFFERENCE * float(np.median(ordered)),
        2 * step,
    ):
        return None
    return near, far


def format_groups(parted: tuple[Array, Array]) -> str:
    """Two groups as text: how many accesses take how long."""
    return " and ".join(f"{part.size} accesses of {part[0]:.4g} to {part[-1]:.4g}" for part in parted)


def clock_step(latencies: Array) -> float:
    """The least difference of two latencies, where there are so few different ones that the clock must be coarse."""
    distinct = np.unique(latencies)
    return float(np.diff(distinct).min()) if 1 < distinct.size < latencies.size / 4 else 0.0
