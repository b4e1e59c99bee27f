"""Metrics of benchmarks: how a time becomes a value, which direction is better, and which device quantity it measures."""

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
    """The formula from a time to a value. It is data, so that a stored run can be read without the benchmark's code.

    rate: amount per time, in `unit`; cost: time per amount; slope: the cost of the extra amount between two ends; slope_rate:
    the rate of that extra amount; overlap: the share of the shorter of two Works that runs concurrently with the other. `times`
    names a parameter by which the amount is multiplied (from the operations of one work-item to those of all). `scale` converts
    amount/ns (rates) or ns/amount (cost, slope) to `unit`. `peak` names a figure of the spec sheet. With `part`, a rate or cost
    is that of one part of the commands' time by event stamps, instead of the Work's own clock.
    """

    name: str
    unit: str
    amount: Literal["nbytes", "flops", "ops"]
    form: Form
    better: Literal["higher", "lower"]
    scale: float = 1.0
    peak: str | None = None
    times: str = ""
    cycles: bool = False  # also shown in cycles of the measured core clock
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # the parameter values for which it holds; empty: all
    part: Part | None = None

    def __post_init__(self) -> None:
        """Raises DeclarationError for an invalid metric."""
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
    """A quantity of the device that several benchmarks measure; reports compare their values of one name within each run.

    The benchmark's points are those of `metric` on the whole device whose parameters have the values in `params`, at the
    largest value of the parameter `largest`; its value is that of the best point. With `beyond_caches` the value refutes
    another one only if its data (`largest` in bytes, else the bytes of a pass) are at least four times the cache, or at least
    as many as the other's. `limit` is the reason why the value may be worse than the quantity, such as a kernel that does more
    work; it explains values down to `least_share` of the quantity. Without a limit the benchmark claims to reach the quantity.
    `devices`: where local memory is a core's cache, reads of local memory and of that cache are one quantity, on cores only.
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

    `metric` is taken at the points whose parameters have the values in `params`; among those at the extreme value of each axis
    in `extremes`; and if several remain, at the best one. Parameters that then still differ between devices become footnotes.
    The extreme of a growing axis is a plateau of its curve: the first one, or memory if the curve has settled there.
    `beyond_caches` names an axis in bytes: if a cache may hold its value, the quantity is undetermined. `note` tells readers
    who compare devices what else the value depends on. `on_cpu` is the different meaning of the value on CPU cores,
    `in_host_memory` that on a device that shares the host's memory; there it is not compared with other devices. On CPU cores
    a device without points of `params` shows those of `core_params`, which name the difference. `same_as` names a study's row
    of the same quantity, which supplies the value where this benchmark has none.
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
    core_params: Mapping[str, Value] = field(default_factory=dict)
    same_as: str = ""

    def params_on(self, has_cpu_cores: bool) -> tuple[Mapping[str, Value], ...]:
        """The parameters that the quantity may be read at on such a device, the preferred ones first; with a meaning of its own
        on CPU cores, `core_params` alone."""
        if not has_cpu_cores or not self.core_params:
            return (self.params,)
        instead = {**self.params, **self.core_params}
        return (instead,) if self.on_cpu else (self.params, instead)

    def meaning(self, has_cpu_cores: bool, shares_host_memory: bool) -> str:
        """The different meaning of the value on such a device; "" where its name describes it."""
        return (self.on_cpu if has_cpu_cores else "") or (self.in_host_memory if shares_host_memory else "")


def more_is_better(better: str) -> bool:
    """Whether a larger value is better; stored words other than "higher" mean that it is not."""
    return better == "higher"


def sign(better: str) -> int:
    """1 where larger values are better, -1 where smaller ones are; a value times its sign is larger if it is better."""
    return 1 if more_is_better(better) else -1


def gain(ratio: float, better: str) -> float:
    """The factor by which one value is better than another, from their ratio, which is not 0."""
    return ratio if more_is_better(better) else 1 / ratio


def score(value: float, better: str) -> float:
    """A value converted so that more is better; 0 where less is better and the value is not above 0."""
    if more_is_better(better):
        return value
    return 1 / value if value > 0 else 0.0
