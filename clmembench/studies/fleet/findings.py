"""Findings on a fleet, as `fleet show --json` prints them, and their words. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clmembench.studies.fleet import drift, judging
from clmembench.studies.fleet.judging import CommonFactor, Flag, Floats, Integers, Population, Thresholds
from clmembench.units import count, format_value


@dataclass(frozen=True, slots=True)
class Quantity:
    """A point and metric of a benchmark; `headline` names the quantity of the device that it is, if any."""

    benchmark: str
    version: int
    point: str
    metric: str
    unit: str
    better: str
    headline: str

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.benchmark}: {self.headline}" if self.headline else f"{self.benchmark} {self.point} {self.metric}"

    def value(self, slowness: float) -> float:
        """The value of a slowness."""
        return math.exp(slowness if self.better == "lower" else -slowness)


@dataclass(frozen=True, slots=True)
class DeviceStamp:
    """A device of the fleet: its id, the names that people use, and its latest run."""

    device: str
    name: str
    model: str
    host: str | None
    driver: str
    runs: int
    last_run: str
    last_run_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)  # sensors at the start of the latest run, and its core clock


@dataclass(frozen=True, slots=True)
class ApartValue:
    """A value of a device that stands apart from `usual`, the median of its population; `slower` is the fraction of the usual
    speed that it lacks, negative where it is faster, with a 95% interval."""

    quantity: str
    headline: str
    unit: str
    value: float
    usual: float
    slower: float
    low: float
    high: float
    distance: float


@dataclass(frozen=True, slots=True)
class ApartDevice:
    """A device with values that stand apart: how many of its `judged` values are slow and fast, the farthest of them, and the
    reasons, a sentence each."""

    device: DeviceStamp
    judged: int
    slow: int
    fast: int
    values: tuple[ApartValue, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mode:
    """One of several populations of a quantity's values, with what its devices have in common."""

    quantity: str
    model: str
    unit: str
    value: float
    devices: int
    of_devices: int
    common: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failing:
    """A device whose latest run has wrong, failed or timed-out points."""

    device: DeviceStamp
    wrong: int
    failed: int
    timeout: int
    example: str


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The devices of one model, how many of them are slow, and what the slow ones have in common."""

    model: str
    devices: int
    runs: int
    slow: int
    fast: int
    common: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Strip:
    """A headline quantity, by its number, on the devices of one model: the speed of each over that of the median device."""

    number: int
    quantity: Quantity
    model: int
    usual: float
    devices: Integers
    speed: Floats


@dataclass(frozen=True, slots=True)
class FleetFindings:
    """What `fleet show --json` prints. `values` counts the values of the store by status; `judged` of them were, and `alone`
    had fewer devices of their model than a judgement needs."""

    models: tuple[ModelSummary, ...]
    apart: tuple[ApartDevice, ...]
    modes: tuple[Mode, ...]
    drifts: tuple[drift.Drift, ...]
    failing: tuple[Failing, ...]
    values: Mapping[str, int]
    judged: int
    alone: int
    rule: str


def rule(limits: Thresholds = judging.DEFAULT) -> str:
    """How values are flagged, in a sentence or two."""
    return (
        f"A value stands apart if its 95% interval lies over {limits.min_effect:.0%} off the median of its population, and its "
        f"distance in robust spreads (at least {limits.min_spread:.0%} each) is improbable: of all flagged values at most "
        f"{limits.false_discovery_rate:.0%} are expected to be false (Benjamini & Hochberg 1995)."
    )


def apart_value(flag: Flag, population: Population, quantity: Quantity) -> ApartValue:
    """A flagged value in the quantity's unit."""
    value, usual = quantity.value(population.middle + flag.effect), quantity.value(population.middle)
    slower, low, high = (1 - math.exp(-end) for end in (flag.effect, flag.low, flag.high))
    return ApartValue(quantity.label, quantity.headline, quantity.unit, value, usual, slower, low, high, flag.distance)


def benchmark_words(quantities: Sequence[Quantity], how: str) -> str:
    """The benchmarks of these quantities with how many there are of each; "" of none."""
    counts = Counter(quantity.benchmark for quantity in quantities).most_common()
    words = ", ".join(f"{name} ({count(number, 'value')})" for name, number in counts)
    return f"{how} in {words}" if words else ""


def has_factor(device: DeviceStamp, factor: CommonFactor) -> bool:
    """Whether a device is one of those that a common factor is of."""
    if not factor.level:
        return False
    name = factor.factor.removeprefix("tag ")
    known = device.tags.get(name) if factor.factor.startswith("tag ") else getattr(device, name)
    return bool(known == factor.level)


def sentence(one: CommonFactor, what: str) -> str:
    """A common factor in words."""
    if not one.level:
        medians = format_value(one.inside_median, 3), format_value(one.outside_median, 3)
        return f"{one.factor}: median {medians[0]} of those {what}, {medians[1]} of the others"
    others = f"{one.outside} of the {one.outside_all:,} others"
    return f"{one.factor} {one.level}: {one.inside} of its {one.inside_all} {what}, {others}"
