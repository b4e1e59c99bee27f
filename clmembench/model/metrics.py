"""Metrics of benchmarks: how time becomes a value, which direction is better, and what one value says of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from clmembench.model import declared
from clmembench.model.declared import DeclarationError
from clmembench.model.work import Value

Form = Literal["rate", "cost", "slope", "slope_rate", "overlap"]
Part = Literal["submit", "wait", "run"]  # queued to submitted, submitted to started, started to ended
Devices = Literal["all", "cores", "others"]
HeadlineGroup = Literal[
    "latency", "bandwidth", "atomics", "synchronisation", "host link", "compute", "sparse", "reduction", "capacity"
]
HEADLINE_GROUPS: tuple[HeadlineGroup, ...] = get_args(HeadlineGroup)
Extreme = Literal["largest", "smallest"]


@dataclass(frozen=True, slots=True)
class Metric:
    """How time becomes a value. Data, so that a stored run can be read without the benchmark's code.

    rate: amount per time, in `unit`; cost: time per amount; slope: the cost of the extra amount between two ends; slope_rate:
    the rate of that extra amount; overlap: the share of the shorter of two Works that hides behind the other. `times` names a
    parameter that the amount is multiplied by (operations of one work-item, of all). `scale` turns amount/ns (rates) or
    ns/amount (cost, slope) into `unit`. `peak` names a figure of the spec sheet.
    `part` is the part of the commands' way, by the event stamps, that a rate or cost is of, in place of the Work's own clock.
    """

    name: str
    unit: str
    amount: Literal["nbytes", "flops", "ops"]
    form: Form
    better: Literal["higher", "lower"]
    scale: float = 1.0
    peak: str | None = None
    times: str = ""
    cycles: bool = False  # also worth showing in cycles of the measured core clock
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # the parameter values it speaks of; empty: all
    part: Part | None = None

    def __post_init__(self) -> None:
        """Raises DeclarationError for what no metric can be."""
        declared.text("Metric.name", self.name, may_be_empty=False)
        of = f"Metric {self.name[:40]!r}: "
        declared.text(f"{of}unit", self.unit)
        declared.one_of(f"{of}amount", self.amount, ("nbytes", "flops", "ops"))
        declared.one_of(f"{of}form", self.form, get_args(Form))
        declared.one_of(f"{of}better", self.better, ("higher", "lower"))
        if declared.number(f"{of}scale", self.scale) <= 0:
            raise DeclarationError(f"{of}scale is {self.scale}, not above 0")
        declared.text(f"{of}peak", self.peak or "")
        declared.text(f"{of}times", self.times)
        declared.one_of(f"{of}cycles", self.cycles, (False, True))
        declared.one_of(f"{of}part", self.part, (None, *get_args(Part)))
        object.__setattr__(self, "only", declared.choices(f"{of}only", self.only))

    def applies(self, params: Mapping[str, Value]) -> bool:
        """True if a point with these parameters has this metric."""
        return all(params.get(name) in values for name, values in self.only.items())


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of the device that points of a benchmark measure; benchmarks that name the same one are compared in each run.

    Its points are those of `metric` on the whole device whose parameters have the values in `params`, at the largest value of
    the parameter `largest`; the best of them is what the benchmark says of the quantity. With `beyond_caches` it proves others
    wrong only where its data, `largest` in bytes or else what a pass moves, are four times the cache or as many as the other's.
    `limit` says why it may be worse than the quantity, as of a kernel that does more than what is measured, and `least_share`
    down to which share of it this is an explanation; without a limit the benchmark claims to reach the quantity. `devices`:
    where local memory is a core's cache, its reads and those of the cache are one quantity, on cores alone.
    """

    name: str
    metric: str
    params: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    largest: str = ""
    beyond_caches: bool = False
    limit: str = ""
    least_share: float = 0.0
    devices: Devices = "all"


@dataclass(frozen=True, slots=True)
class Headline:
    """A quantity of one benchmark that is compared across devices, matched by meaning and not by exact parameters.

    `metric` is read at the points whose parameters have the values in `params`; of those, at the extreme value of each axis in
    `extremes`; and where several are left, at the best of them. What then differs between devices is a footnote. Of a growing
    axis an extreme is a plateau of its curve: the first one, or memory where the curve has settled there. `beyond_caches` names
    an axis in bytes: a value of it that a cache may hold makes the quantity undetermined. `note` says what else the value
    depends on, for a reader who compares devices. `on_cpu` says what else the value is on the cores of a CPU, `in_host_memory`
    what it is on a device that shares the host's memory: there it is not compared with what it is elsewhere.
    """

    group: HeadlineGroup
    name: str
    metric: str
    params: Mapping[str, Value] = field(default_factory=dict)
    extremes: Mapping[str, Extreme] = field(default_factory=dict)
    beyond_caches: str = ""
    note: str = ""
    on_cpu: str = ""
    in_host_memory: str = ""

    def meaning(self, has_cpu_cores: bool, shares_host_memory: bool) -> str:
        """What else the value is on such a device; "" where it is what its name says."""
        return (self.on_cpu if has_cpu_cores else "") or (self.in_host_memory if shares_host_memory else "")


def more_is_better(better: str) -> bool:
    """Whether a larger value is a better one. Stored words other than "higher" mean that it is not."""
    return better == "higher"


def sign(better: str) -> int:
    """1 where larger values are better, -1 where smaller ones are. Multiplied by a value, larger is better."""
    return 1 if more_is_better(better) else -1


def gain(ratio: float, better: str) -> float:
    """How many times as good one value is as another, from their ratio, which is not 0."""
    return ratio if more_is_better(better) else 1 / ratio


def score(value: float, better: str) -> float:
    """A value turned so that more is better; 0 where less is better and the value is not above 0."""
    if more_is_better(better):
        return value
    return 1 / value if value > 0 else 0.0
