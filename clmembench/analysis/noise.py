"""Variation of values where nothing was changed, between processes, runs and devices; and change points that exceed it.

The figures are learnt from calibration runs (reports/calibration, `scripts/calibrate.py fit`) for each kind of device and each
benchmark, and stand in noise.toml; docs/measuring.md says how. A run's own processes update them.

The levels and their ends minimise the squared distance of the logarithms plus a penalty for each change (PELT: Killick,
Fearnhead & Eckley 2012, by the library ruptures). The penalty is PENALTY times the variance of a run times ln(runs), and the
variance is half the mean square of successive differences (von Neumann 1941), which a step hardly enlarges.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived
from clmembench.analysis.stats import Ratio, ratio
from clmembench.model import DeviceInfo, Fact
from clmembench.resources import noise_text

CONFIDENCE_LEVEL = 0.95  # of intervals
DETECTION_POWER = 0.8  # with which a change is to be seen
MAX_SHORT_PASS_NS, MIN_LONG_PASS_NS = 2e4, 2e5  # of a pass: a launch's jitter is much of a short one, and little of a long one
FALLBACK_KINDS = (
    "cpu",
    "virtual_cpu",
)  # whose noise is taken for a kind that nobody calibrated: rather too much than too little
MIN_PROCESSES = 3  # of a point, to say how much processes differ
MIN_POINTS = 4  # with so many processes, to say how a host differs from the calibrated ones
HOST_FACTOR_RANGE = (1 / 50, 20.0)
# Of ratios within one run (peers, versions of a kernel), which few processes interleave: wide enough for any benchmark.
PROCESS_SD: Mapping[str, float] = {"cpu": 0.08, "gpu": 0.02, "accelerator": 0.05, "host": 0.1}
MAX_LOG_RATIO = 300.0  # of a ratio; its exponential is still a number

PENALTY = 8.0  # found false in at most 0.5% of series of noise, 3% where runs resemble their neighbours: docs/reading.md
MIN_RUNS = 10  # fewer tell too little of how runs differ
MIN_RUNS_OF_LEVEL = 4  # runs before a change, and after it
RULE = (
    f"a change point needs {MIN_RUNS} runs, {MIN_RUNS_OF_LEVEL} of them before and after it, and to explain more than "
    f"{PENALTY:g} x variance x ln(runs) of the squares of the logarithms"
)


@dataclass(frozen=True, slots=True)
class Noise:
    """Variation of the logarithm of a value: the typical standard deviation between processes of one run; the degrees of
    freedom with which values of the class keep to it (Smyth 2004); the standard deviation between runs beyond that, and between
    devices of one model, None where no two of a model were calibrated. What changes between runs, as a CPU's clock does, is not
    seen in one run's processes, and no share of theirs."""

    process_sd: float
    process_freedom: float
    run_sd: float
    device_sd: float | None = None
    run_scales: bool = False  # run_sd is of another kind of device, and taken to differ from this one's as processes do


DEFAULT_NOISE = Noise(0.2, 2.0, 0.2)


@dataclass(frozen=True, slots=True)
class NoiseTable:
    """Noise by kind of device and class of value; the degrees of freedom with which `run_sd` and `device_sd` are known."""

    kinds: Mapping[str, Mapping[str, Noise]]
    run_freedom: float
    device_freedom: float

    def of(self, kind: str, value: Derived) -> Noise:
        """The noise of a value's class: of its benchmark and duration, of its duration, or of all."""
        return self._of_class(kind, value.benchmark, duration_of(value))

    def of_slopes(self, kind: str, benchmark: str) -> Noise:
        """The noise of a benchmark's slopes by the device's clock, of which something was inferred."""
        return self._of_class(kind, benchmark, "slope")

    def _of_class(self, kind: str, benchmark: str, duration: str) -> Noise:
        known = next(name for name in (kind, *FALLBACK_KINDS) if name in self.kinds)
        classes = self.kinds[known]
        names = (f"{benchmark}/{duration}", f"*/{duration}", "*")
        of_value = [classes[name] for name in names if name in classes]
        found = of_value[0] if of_value else DEFAULT_NOISE
        found = replace(found, device_sd=next((entry.device_sd for entry in of_value if entry.device_sd is not None), None))
        # a CPU without neighbours is nowhere calibrated: what changes between its runs changes between their processes, too
        return found if known == kind else replace(found, run_scales=True)


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The logarithm of a ratio with its standard error and degrees of freedom. `low_slack` and `high_slack` are by how much
    more the ratio may be lower or higher for a reason that is no chance, such as other programs on the CPU."""

    log: float
    error: float
    freedom: float
    low_slack: float = 0.0
    high_slack: float = 0.0

    def ratio(self) -> stats.Ratio:
        """With its 95% interval, Student's on the logarithm."""
        reach = stats.student(self.freedom, CONFIDENCE_LEVEL) * self.error
        ends = (self.log, self.log - reach - self.low_slack, self.log + reach + self.high_slack)
        return stats.Ratio(*(math.exp(min(MAX_LOG_RATIO, max(-MAX_LOG_RATIO, end))) for end in ends))

    def chance(self, margin: float) -> tuple[float, float]:
        """One-sided probabilities of so low, and so high, a ratio where the true one lies within the margin round 1."""
        edge = math.log1p(margin)
        below, above = -self.log - edge - self.high_slack, self.log - edge - self.low_slack
        return tuple(stats.student_tail(end / self.error, self.freedom) for end in (below, above))  # type: ignore[return-value]

    def smallest_change(self, margin: float, level: float) -> float:
        """The factor by which a value must have fallen for that to be called at the one-sided `level` in POWER of cases."""
        called, seen = (stats.student(self.freedom, 1 - 2 * tail) for tail in (level, 1 - DETECTION_POWER))
        change = math.log1p(margin) + (called + seen) * self.error + self.high_slack
        return math.exp(min(MAX_LOG_RATIO, change))


def kind_of(device: DeviceInfo, host: Mapping[str, Fact]) -> str:
    """The kind of device whose noise applies: gpu, accelerator, cpu, or virtual_cpu (a virtual machine, with neighbours)."""
    return "virtual_cpu" if device.kind == "cpu" and host.get("virtual") else device.kind


def duration_of(value: Derived) -> str:
    """The class of a value by how long a pass takes (short, medium, long; slope where many passes give one value), marked where
    it is by the host's clock or the driver's stamps of queueing."""
    if value.pass_ns <= 0:
        duration = "slope"
    else:
        duration = "short" if value.pass_ns < MAX_SHORT_PASS_NS else "medium" if value.pass_ns < MIN_LONG_PASS_NS else "long"
    return duration if value.clock == "device" else f"{duration}-host"


@lru_cache(maxsize=1)
def calibrated() -> NoiseTable:
    """The table that is shipped."""
    raw = tomllib.loads(noise_text())
    kinds = {kind: {name: Noise(**entry) for name, entry in classes.items()} for kind, classes in raw["kinds"].items()}
    return NoiseTable(kinds, raw["run_freedom"], raw["device_freedom"])


def host_factor(table: NoiseTable, kind: str, values: Sequence[Derived]) -> float | None:
    """By what factor processes of this run differ more than the calibrated ones of its kind, over all its points with several
    processes; None where there are too few. Drawn towards 1 as much as MIN_POINTS points would."""
    found = []
    for value in values:
        if value.status == "ok" and len(value.medians) >= MIN_PROCESSES and min(value.medians) > 0:
            noise, variance = table.of(kind, value), _variance(value.medians)
            freedom = len(value.medians) - 1
            # the mean logarithm of a variance with few degrees of freedom is below the logarithm of its mean
            expected = stats.mean_log_chi2(freedom) - stats.mean_log_chi2(noise.process_freedom)
            found.append(math.log(max(variance, 1e-12)) - 2 * math.log(noise.process_sd) - expected)
    if len(found) < MIN_POINTS:
        return None
    factor = math.exp(statistics.median(found) / 2 * len(found) / (len(found) + MIN_POINTS))
    return min(HOST_FACTOR_RANGE[1], max(HOST_FACTOR_RANGE[0], factor))


def log_ratio(
    a: Sequence[float],
    b: Sequence[float],
    noise: tuple[Noise, Noise],
    table: NoiseTable,
    two_of_a_model: bool,
    factors: tuple[float, float] = (1.0, 1.0),
) -> LogRatio:
    """median(b) / median(a), each a value above 0 from each process of a run, with all that differs where nothing changed.

    The process is the unit. The variance between processes is estimated in each run from its own, drawn towards `noise` times
    the host's factor (an empirical Bayes variance, Smyth 2004); runs differ by `run_sd` beyond that, and two devices of one
    model by `device_sd`: where that is not known, as runs do. Between devices of different models the ratio is of these two
    devices, and others of their models are not spoken of. Raises ValueError
    for values that are not above 0, or none.
    """
    if not a or not b or min(*a, *b) <= 0:
        raise ValueError("a ratio needs values above 0")
    parts: list[tuple[float, float]] = []  # variance, degrees of freedom
    for values, own, factor in zip((a, b), noise, factors, strict=True):
        parts.append(process_variance(values, own, factor))
        between_runs = (own.run_sd * (factor if own.run_scales else 1.0)) ** 2, table.run_freedom
        parts.append(between_runs)
        if two_of_a_model:
            parts.append(between_runs if own.device_sd is None else (own.device_sd**2, table.device_freedom))
    log = math.log(statistics.median(b)) - math.log(statistics.median(a))
    return LogRatio(log, *summed(parts))


def summed(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The standard deviation of a sum of parts, each a variance with its degrees of freedom, and its degrees of freedom (Welch
    and Satterthwaite)."""
    total = sum(variance for variance, _ in parts)
    return math.sqrt(total), total**2 / sum(variance**2 / known for variance, known in parts)


def process_variance(values: Sequence[float], own: Noise, factor: float = 1.0) -> tuple[float, float]:
    """The variance of the logarithm of the median of processes' values, and its degrees of freedom."""
    prior, known = (own.process_sd * factor) ** 2, len(values) - 1
    freedom = own.process_freedom + known
    variance = (own.process_freedom * prior + known * _variance(values)) / freedom
    # a median of three or more wanders by pi / 2 times the variance of a mean
    return variance * (math.pi / 2 if known > 1 else 1.0) / len(values), freedom


def _variance(values: Sequence[float]) -> float:
    """Standard deviation of the logarithms; 0 of one value."""
    return statistics.variance([math.log(v) for v in values]) if len(values) > 1 else 0.0


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
