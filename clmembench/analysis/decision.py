"""Which of two values is better, and by how much: the one statistics of compare, check and reports. Pure.

A value is that of a run on a device, and varies with processes, runs and devices of its model where nothing was changed
(noise.py). Faster and slower are called of all values of a pair together; what is not called is `same` or `undecided`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clmembench.analysis import noise, stats
from clmembench.analysis.derive import Derived
from clmembench.analysis.noise import LogRatio, Noise, NoiseTable
from clmembench.model import DeviceInfo, Fact, device_identity
from clmembench.model.metrics import sign

Verdict = Literal["faster", "slower", "same", "undecided"]

DEFAULT_MARGIN = 0.05  # what a user would not care about, and hosts do by themselves
FALSE_DISCOVERY_RATE = 0.01  # of what is called faster or slower: so much of it is expected to be false
CONTENTION_EXPONENT = 2.0  # a pass that should have all CPUs may lose the square of the share that other programs left it
MIN_OTHERS = 0.05  # of the CPUs, that other programs used: less is the accounting's own grain
NORMAL_95 = 1.96  # standard deviations from the middle of a 95% interval to its ends


@dataclass(frozen=True, slots=True)
class NoisyValue:
    """A value above 0, as its median in each process, the noise of its class, and by how much, as a logarithm, other programs
    may have slowed it down."""

    medians: tuple[float, ...]
    noise: Noise
    slack: float = 0.0

    @property
    def value(self) -> float:
        """The median over processes."""
        return statistics.median(self.medians)


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one run, the kind of device they are of (noise.kind_of), what identifies the device, and its model."""

    values: Sequence[Derived]
    kind: str
    device: str
    on_cpu: bool = False
    model: str = ""

    def noisy(self, value: Derived, table: NoiseTable) -> NoisyValue | None:
        """A value of this side as what is compared; None where it is not good."""
        if value.status != "ok" or not value.medians or min(value.medians) <= 0:
            return None
        return NoisyValue(value.medians, table.of(self.kind, value), _contention(value.others) if self.on_cpu else 0.0)


def side_of(values: Sequence[Derived], device: DeviceInfo, host: Mapping[str, Fact]) -> Side:
    """The values of a run on this device and host."""
    model = f"{device_identity.model_key(device)}, {device.compute_units}"  # CPUs of any number of cores go by one name
    return Side(values, noise.kind_of(device, host), device_identity.device_key(device), device.kind == "cpu", model)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides with what is known of their noise."""

    first: Side
    second: Side
    factors: tuple[float, float]
    table: NoiseTable

    def gain(self, a: NoisyValue, b: NoisyValue, better: str) -> LogRatio:
        """The second side's value over the first's, turned so that more is better."""
        two_of_a_model = self.first.device != self.second.device and self.first.model == self.second.model
        found = noise.log_ratio(a.medians, b.medians, (a.noise, b.noise), self.table, two_of_a_model, self.factors)
        # other programs on its CPU only slow a run down: undisturbed it may have been faster
        return replace(found, log=sign(better) * found.log, low_slack=a.slack, high_slack=b.slack)


def pair_of(first: Side, second: Side, table: NoiseTable) -> Pair:
    """Two sides, each with the factor by which its host is noisier than the calibrated ones."""
    own = [noise.host_factor(table, side.kind, side.values) for side in (first, second)]
    if first.kind == second.kind:  # what one host is seen to do is the best guess for another of its kind
        own = [factor or other for factor, other in zip(own, reversed(own), strict=True)]
    return Pair(first, second, (own[0] or 1.0, own[1] or 1.0), table)


def decision_level(gains: Sequence[LogRatio], margin: float) -> float:
    """The probability up to which values of a pair are called faster or slower, so that at most FALSE_DISCOVERY_RATE of the
    calls is expected to be false however many values there are (Benjamini & Hochberg 1995)."""
    chances = [min(1.0, 2 * min(gain.chance(margin))) for gain in gains]
    return stats.benjamini_hochberg(chances, FALSE_DISCOVERY_RATE)


def decision(gain: LogRatio, level: float, margin: float) -> Verdict:
    """Faster or slower at that level; `same` where the 95% interval lies within the margin."""
    slower, faster = (2 * chance <= level for chance in gain.chance(margin))
    if slower or faster:
        return "slower" if slower else "faster"
    return "same" if gain.ratio().verdict(margin) == "same" else "undecided"


def inferred(value: float, low: float, high: float, own: Noise) -> NoisyValue:
    """A value that was inferred with a 95% interval, of values whose noise is `own`."""
    sd = math.log(high / low) / (2 * NORMAL_95)
    return NoisyValue((value,), replace(own, process_sd=math.hypot(own.process_sd, sd)))


def spread_of(value: NoisyValue, side: Side, table: NoiseTable, factor: float | None = None) -> tuple[float, float]:
    """The standard deviation of the logarithm of a side's value over processes and runs where nothing was changed, and its
    degrees of freedom. `factor` scales it for the host, where that factor is known."""
    factor = factor or noise.host_factor(table, side.kind, side.values) or 1.0
    variance, freedom = noise.process_variance(value.medians, value.noise, factor)
    between = (value.noise.run_sd * (factor if value.noise.run_scales else 1.0)) ** 2
    return noise.summed([(variance, freedom), (between, table.run_freedom)])


def next_run(value: NoisyValue, side: Side, table: NoiseTable, factor: float | None = None) -> tuple[float, float]:
    """The ends of the interval in which a further run of the same points has its value with a probability of 95%: this one
    varies over processes and runs, and so does that one. `factor` is as in `spread_of`."""
    sd, freedom = spread_of(value, side, table, factor)
    ratio = LogRatio(0.0, math.sqrt(2) * sd, freedom).ratio()
    return value.value * ratio.low, value.value * ratio.high


def sum_of(a: NoisyValue, b: NoisyValue) -> NoisyValue:
    """The sum of two values of one run, whose errors are taken to be alike, which makes its interval rather too wide."""
    total = a.value + b.value
    shares = a.value / total, b.value / total
    sds = [math.sqrt(noise.process_variance(one.medians, one.noise)[0]) for one in (a, b)]
    device_sds = [one.noise.run_sd if one.noise.device_sd is None else one.noise.device_sd for one in (a, b)]

    def mean(of: Sequence[float]) -> float:
        return sum(share * one for share, one in zip(shares, of, strict=True))

    joint = Noise(
        mean(sds),
        min(a.noise.process_freedom, b.noise.process_freedom),
        mean([a.noise.run_sd, b.noise.run_sd]),
        mean(device_sds),
        a.noise.run_scales or b.noise.run_scales,
    )
    return NoisyValue((total,), joint, mean([a.slack, b.slack]))


def _contention(others: float) -> float:
    """By how much, as a logarithm, other programs that used this share of the CPUs may have slowed a value down."""
    return CONTENTION_EXPONENT * -math.log(1 - min(0.9, others)) if others > MIN_OTHERS else 0.0
