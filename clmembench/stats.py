"""Numbers to summaries and intervals. Pure functions; they know nothing of benchmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

MIN_SAMPLES = 6  # fewer give no 95% interval of the median: 2 * 0.5**5 > 0.05


@dataclass(frozen=True, slots=True)
class Summary:
    """Median with its 95% interval, quartiles, least value, n samples from `processes` processes; in the samples' unit."""

    median: float
    low: float
    high: float
    q1: float
    q3: float
    least: float
    n: int
    processes: int

    @property
    def noise(self) -> float:
        """Half the interval's width over the median; infinite where there is no interval or the median is 0."""
        if self.median == 0 or not math.isfinite(self.low):
            return math.inf
        return abs((self.high - self.low) / 2 / self.median)


@lru_cache(maxsize=4096)
def median_ranks(n: int, level: float = 0.95) -> tuple[int, int] | None:
    """0-based ranks (lo, hi) of the order statistics that bracket the median of n samples with at least `level` coverage.

    Exact from the binomial distribution (distribution-free); None where n is too small for that level.
    """
    tail = (1 - level) / 2
    cumulative, rank = 0.0, -1
    while True:
        step = math.exp(math.lgamma(n + 1) - math.lgamma(rank + 2) - math.lgamma(n - rank) - n * math.log(2))
        if cumulative + step > tail or rank + 1 >= n // 2:
            break
        cumulative += step
        rank += 1
    return (rank, n - 1 - rank) if rank >= 0 else None


def summarise(samples: Sequence[float]) -> Summary:
    """Summary of one process's samples. The interval is (-inf, inf) below MIN_SAMPLES. Raises ValueError when empty."""
    if not samples:
        raise ValueError("no samples")
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    ranks = median_ranks(len(ordered))
    low, high = (float(ordered[ranks[0]]), float(ordered[ranks[1]])) if ranks else (-math.inf, math.inf)
    q1, median, q3 = (float(q) for q in np.percentile(ordered, (25, 50, 75)))
    return Summary(median, low, high, q1, q3, float(ordered[0]), len(ordered), 1)


def pool(processes: Sequence[Sequence[float]], seed: int = 0, rounds: int = 2000) -> Summary:
    """Summary over processes: the median of the processes' medians, its interval by resampling processes, then samples.

    The process (a fresh allocation) is the unit, since repeats within one agree far better than two of them do. With one
    process this is `summarise`. With fewer than 5 processes the percentile bootstrap is too narrow, so the interval is at
    least as wide as the range of the processes' medians. Raises ValueError when there are no samples.
    """
    filled = [np.asarray(p, dtype=np.float64) for p in processes if len(p)]
    if len(filled) <= 1:
        return summarise(list(filled[0]) if filled else [])
    rng = np.random.default_rng(seed)
    medians = np.array([np.median(p) for p in filled])
    # each process's own median, resampled within the process, drawn before the processes are
    inner = np.stack([np.median(rng.choice(p, size=(rounds, len(p))), axis=1) for p in filled])
    drawn = rng.integers(len(filled), size=(rounds, len(filled)))
    boot = np.median(inner[drawn, np.arange(rounds)[:, None]], axis=1)
    low, high = (float(q) for q in np.percentile(boot, (2.5, 97.5)))
    if len(filled) < 5:
        low, high = min(low, float(medians.min())), max(high, float(medians.max()))
    everything = np.concatenate(filled)
    q1, q3 = (float(q) for q in np.percentile(everything, (25, 75)))
    return Summary(
        float(np.median(medians)), low, high, q1, q3, float(everything.min()), len(everything), len(filled)
    )


def outliers(samples: Sequence[float], limit: float = 14.8) -> list[int]:
    """Indices of samples further than `limit` median absolute deviations from the median. They are flagged, never dropped."""
    values = np.asarray(samples, dtype=np.float64)
    if not len(values):
        return []
    distance = np.abs(values - np.median(values))
    mad = float(np.median(distance))
    return [int(i) for i in np.nonzero(distance > limit * mad)[0]] if mad > 0 else []


def agree(first: Sequence[float], second: Sequence[float], within: float) -> bool:
    """Whether two blocks' medians differ by at most the fraction `within`."""
    a, b = float(np.median(first)), float(np.median(second))
    return abs(a - b) <= within * max(abs(a), abs(b), 1e-300)
