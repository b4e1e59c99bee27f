"""Numbers to summaries, intervals, tails of distributions and discoveries. Pure; nothing here knows benchmarks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_LOG_RATIO = 300.0  # of a ratio: beyond are numbers that nobody measured, and soon none that a float holds
MAX_SAMPLES_SORTED_BY_PYTHON = 256  # samples that Python sorts as fast as NumPy does
MAX_DEVIATIONS = 14.8  # median absolute deviations from the median: a sample further off is an outlier
MIN_SAMPLES = 6  # fewer give no 95% interval of the median: 2 * 0.5**5 > 0.05
# Thresholds and limits, each with its reason
MEDIAN_OF_ABSOLUTE_NORMAL = 0.6745  # standard deviations: the median of |x| of a normal distribution
MIDPOINT_VARIANCE_FACTOR = 1.5  # a point less the mean of two others has that many times the variance of one


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
    ordered = _sorted(samples)
    ranks = median_ranks(len(ordered))
    low, high = (ordered[ranks[0]], ordered[ranks[1]]) if ranks else (-math.inf, math.inf)
    q1, median, q3 = (_quantile(ordered, q) for q in (0.25, 0.5, 0.75))
    return Summary(median, low, high, q1, q3, ordered[0], len(ordered), 1)


def _sorted(samples: Sequence[float]) -> list[float]:
    """As floats, in order: NumPy's calls cost more than few samples do, and a report has thousands of series of few."""
    if len(samples) <= MAX_SAMPLES_SORTED_BY_PYTHON:
        return sorted(map(float, samples))
    found: list[float] = np.sort(np.asarray(samples, dtype=np.float64)).tolist()
    return found


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Between order statistics linearly, to the last bit as numpy.percentile has it."""
    at = (len(ordered) - 1) * q
    before = math.floor(at)
    share, a, b = at - before, ordered[before], ordered[min(before + 1, len(ordered) - 1)]
    return b - (b - a) * (1 - share) if share >= 0.5 else a + (b - a) * share


def difference(near: Sequence[float], far: Sequence[float]) -> Summary:
    """Summary of median(far) - median(near), samples taken in turn but compared as two groups.

    On a host that interrupts many samples, two medians of n stand where a median of n differences falls over: half as many of
    the latter are clean. The interval combines the medians' own (method of variance estimates recovery, Zou & Donner 2008).
    Quartiles and least are those of the differences taken in order. Raises ValueError when a group is empty.
    """
    a, b = summarise(near), summarise(far)
    pairs = summarise([y - x for x, y in zip(near, far, strict=False)])
    low, high = difference_interval(a, b)
    return Summary(b.median - a.median, low, high, pairs.q1, pairs.q3, pairs.least, pairs.n, 1)


def difference_interval(near: Summary, far: Summary) -> tuple[float, float]:
    """The ends of the interval of `difference` alone, from the summaries of both groups."""
    median = far.median - near.median
    low = median - math.hypot(far.median - far.low, near.high - near.median)
    return low, median + math.hypot(far.high - far.median, near.median - near.low)


def pool(processes: Sequence[Sequence[float]], seed: int = 0, rounds: int = 2000) -> Summary:
    """Summary over processes: the median of the processes' medians, its interval by resampling processes, then samples.

    The process (a fresh allocation) is the unit, since repeats within one agree far better than two of them do. With one
    process this is `summarise`. The interval is at least as wide as the rank interval of the processes' medians; with fewer
    than 6 that is their range, which k processes cover with 1 - 2 / 2**k only. Raises ValueError when there are no samples.
    """
    given = [p for p in processes if len(p)]
    if len(given) <= 1:
        return summarise(given[0] if given else [])
    return _resampled(tuple(map(tuple, given)), seed, rounds)


@lru_cache(maxsize=1024)  # many tables and findings of a run pool the same samples
def _resampled(given: tuple[tuple[float, ...], ...], seed: int, rounds: int) -> Summary:
    rng = np.random.default_rng(seed)
    draws = np.stack([_resampled_medians(np.asarray(p, dtype=np.float64), rng, rounds) for p in given])
    return _pooled([summarise(p) for p in given], draws, rng)


def pool_differences(
    processes: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0, rounds: int = 2000
) -> Summary:
    """`difference` over processes, each a pair (near, far), pooled as `pool` does. Raises ValueError when all are empty."""
    given = [(a, b) for a, b in processes if len(a) and len(b)]
    if len(given) <= 1:
        return difference(*(given[0] if given else ([], [])))
    return _resampled_differences(tuple((tuple(a), tuple(b)) for a, b in given), seed, rounds)


@lru_cache(maxsize=1024)
def _resampled_differences(given: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...], seed: int, rounds: int) -> Summary:
    rng = np.random.default_rng(seed)
    filled = [(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)) for a, b in given]
    draws = np.stack([_resampled_medians(b, rng, rounds) - _resampled_medians(a, rng, rounds) for a, b in filled])
    return _pooled([difference(a, b) for a, b in given], draws, rng)


def _resampled_medians(samples: Floats, rng: np.random.Generator, rounds: int) -> Floats:
    """Medians of resamples, without making them: the r-th smallest of n draws with replacement is the sample at n times the
    r-th smallest of n uniform numbers, whose distribution is Beta(r, n - r + 1); of an even number the next one follows."""
    ordered, n = np.sort(samples), len(samples)
    rank = (n + 1) // 2
    uniform = rng.beta(rank, n - rank + 1, rounds)
    low = ordered[np.minimum((uniform * n).astype(np.int64), n - 1)]
    if n % 2:
        return np.asarray(low)
    after = 1 - (1 - uniform) * rng.random(rounds) ** (1 / (n - rank))
    return np.asarray((low + ordered[np.minimum((after * n).astype(np.int64), n - 1)]) / 2)


def _pooled(each: Sequence[Summary], draws: Floats, rng: np.random.Generator) -> Summary:
    """One summary of several processes'; `draws` has a row of resampled medians for each."""
    count, rounds = draws.shape
    medians = [s.median for s in each]
    chosen = rng.integers(count, size=(rounds, count))
    boot = np.median(draws[chosen, np.arange(rounds)[:, None]], axis=1)
    low, high = (float(q) for q in np.percentile(boot, (2.5, 97.5)))
    # the percentile bootstrap of few processes is too narrow: never less than the ranks of their medians allow
    ranks = median_ranks(count) or (0, count - 1)
    ordered = sorted(medians)
    low, high = min(low, ordered[ranks[0]]), max(high, ordered[ranks[1]])
    q1, q3 = (float(np.median([getattr(s, q) for s in each])) for q in ("q1", "q3"))
    return Summary(float(np.median(medians)), low, high, q1, q3, min(s.least for s in each), sum(s.n for s in each), count)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of b to a with its 95% interval."""

    value: float
    low: float
    high: float

    def verdict(self, margin: float) -> Literal["more", "less", "same", "undecided"]:
        """`more` or `less` where the whole interval lies off 1 by over the fraction `margin`, `same` where it lies within."""
        if self.low > 1 + margin:
            return "more"
        if self.high < 1 / (1 + margin):
            return "less"
        return "same" if self.low >= 1 / (1 + margin) and self.high <= 1 + margin else "undecided"


def ratio(a: Sequence[float], b: Sequence[float], prior: float, between_runs: float, freedom: float = 4.0) -> Ratio:
    """median(b) / median(a), each a value above 0 from each process of a run.

    The process is the unit: what repeats within one say of their median tells nothing of the next. How much processes differ is
    estimated from both runs together, shrunk towards `prior`, the standard deviation of the logarithm that is expected anyway,
    which counts as `freedom` degrees of freedom (an empirical Bayes variance, as Smyth 2004 has it for few samples a group);
    with one process a run the prior is all there is. `between_runs` is the standard deviation that two runs have beyond that.
    The interval is Student's on the logarithm. Raises ValueError for values that are not above 0, or none.
    """
    if not a or not b or min(*a, *b) <= 0:
        raise ValueError("a ratio needs values above 0")
    logs = [np.log(np.asarray(values, dtype=np.float64)) for values in (a, b)]
    squares = sum(float(np.sum((x - x.mean()) ** 2)) for x in logs)
    known = len(a) + len(b) - 2
    variance = (freedom * prior**2 + squares) / (freedom + known)
    # a median of three or more wanders by pi / 2 times the variance of a mean
    parts = sum((math.pi / 2 if len(x) > 2 else 1.0) * variance / len(x) for x in logs)
    reach = student(freedom + known) * math.sqrt(parts + 2 * between_runs**2)
    middle = float(np.median(logs[1]) - np.median(logs[0]))
    return Ratio(*(math.exp(min(MAX_LOG_RATIO, max(-MAX_LOG_RATIO, end))) for end in (middle, middle - reach, middle + reach)))


def paired_ratio(a: Sequence[float], b: Sequence[float], spread: float, freedom: float = 4.0) -> Ratio:
    """median of b / a within pairs, each of one process: what differs from one process to the next is in both, and cancels.

    As `ratio` has it for two runs: Student's interval on the logarithm, whose variance is shrunk towards `spread` squared, the
    standard deviation that the logarithm of such a ratio is expected to have anyway. But where pairs are noisier than that, a
    few of them do not outweigh it: so the interval is never narrower than what they alone say. Raises ValueError for values
    that are not above 0, none, or no pairs.
    """
    if not a or len(a) != len(b) or min(*a, *b) <= 0:
        raise ValueError("a ratio needs pairs of values above 0")
    logs = np.log(np.asarray(b, dtype=np.float64)) - np.log(np.asarray(a, dtype=np.float64))
    known, squares = len(logs) - 1, float(np.sum((logs - logs.mean()) ** 2))
    shrunk = student(freedom + known) * math.sqrt((freedom * spread**2 + squares) / (freedom + known))
    own = student(known) * math.sqrt(squares / known) if known else 0.0
    # a median of three or more wanders by pi / 2 times the variance of a mean
    reach = max(shrunk, own) * math.sqrt((math.pi / 2 if len(logs) > 2 else 1.0) / len(logs))
    middle = float(np.median(logs))
    return Ratio(*(math.exp(min(MAX_LOG_RATIO, max(-MAX_LOG_RATIO, end))) for end in (middle, middle - reach, middle + reach)))


def outliers(samples: Sequence[float], limit: float = MAX_DEVIATIONS) -> list[int]:
    """Indices of samples further than `limit` median absolute deviations from the median. They are flagged, never dropped.

    Where over half the samples are equal, as a coarse clock makes them, a thousandth of the median stands for the deviation.
    """
    if not len(samples):
        return []
    summary = summarise(samples)
    median = summary.median
    # no more than half of the samples lie nearer to the median than both quartiles do: so far is the median deviation at least
    nearest = min(summary.q3 - median, median - summary.q1)
    if 0 < max(max(samples) - median, median - summary.least) <= limit * nearest:
        return []
    distance = [abs(value - median) for value in samples]
    deviation = _quantile(_sorted(distance), 0.5) or abs(median) / 1000
    return [index for index, far in enumerate(distance) if far > limit * deviation]


def medians_agree(first: Sequence[float], second: Sequence[float], within: float) -> bool:
    """True where the medians of two blocks differ by at most the fraction `within`."""
    a, b = float(np.median(first)), float(np.median(second))
    return abs(a - b) <= within * max(abs(a), abs(b), 1e-300)


@lru_cache(maxsize=256)
def student(freedom: float, level: float = 0.95) -> float:
    """Half-width in standard errors of the two-sided interval of that level, by Student's distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def student_tail(t: float, freedom: float) -> float:
    """The probability that Student's t is over `t`."""
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


@lru_cache(maxsize=256)
def mean_log_chi2(freedom: float) -> float:
    """The mean logarithm of a chi-squared variable over its degrees of freedom: below 0, the more so the fewer they are."""
    from scipy.special import digamma

    return float(digamma(freedom / 2)) - math.log(freedom / 2)


def benjamini_hochberg(chances: Sequence[float], rate: float) -> float:
    """The largest probability at which to call a discovery, so that at most `rate` of those called are expected to be false
    (Benjamini & Hochberg 1995); with nothing to call `rate` over their number."""
    ordered, n = sorted(chances), len(chances)
    passing = [rate * (k + 1) / n for k, chance in enumerate(ordered) if chance <= rate * (k + 1) / n]
    return passing[-1] if passing else rate / max(1, n)


def undisturbed_values(values: Sequence[float]) -> list[float]:
    """The least value of each point and all larger working sets: a set that fits where a larger one does is as fast as that,
    and disturbances only add."""
    least, found = math.inf, []
    for value in reversed(values):
        least = min(least, value)
        found.append(least)
    return found[::-1]


def noise_of_deviations(deviations: Iterable[float], none: float) -> float:
    """The standard deviation of single points, from how far each lies from the midpoint of its two neighbours; `none` where
    there are no such distances. The median is taken: most points lie on plateaus, and rises do not count."""
    ordered = sorted(deviations)
    if not ordered:
        return none
    return ordered[len(ordered) // 2] / MEDIAN_OF_ABSOLUTE_NORMAL / math.sqrt(MIDPOINT_VARIANCE_FACTOR)
