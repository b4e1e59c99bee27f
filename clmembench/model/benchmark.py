"""Benchmarks as data: their axes, points on them, and the plan that yields points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clmembench.model import declared
from clmembench.model.declared import DeclarationError
from clmembench.model.device import DeviceInfo, Placement
from clmembench.model.metrics import Headline, Metric, Quantity
from clmembench.model.work import Prepared, Value

Role = Literal["measure", "tune"]

PORTABLE_KERNEL_VALUES = frozenset({"portable", "none"})  # values of an axis that say that a kernel is OpenCL C alone


SIZE_AXES = ("array_bytes", "n")  # parameters that are the size of a problem, the same on every number of compute units


@dataclass(frozen=True, slots=True)
class Axis:
    """The values one parameter takes.

    `needs` names the device features a value needs. A tuning axis is searched and its winner is the record. `per_octave` > 0
    marks a growing axis: values are then (first, last) and the plan places that many points an octave between them, going
    on past knees until the metric has been flat for two octaves. `accepts` says whether a user's value, such as a file's name,
    is one although it is not among `values`; it raises ValueError with what is wrong with one that should have been.
    """

    values: Callable[[DeviceInfo], Sequence[Value]]
    needs: Mapping[Value, frozenset[str]] = field(default_factory=dict)
    tuning: bool = False
    per_octave: int = 0
    accepts: Callable[[Value], bool] | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: its axes, its metrics (the first is the headline) and how to prepare a point."""

    name: str
    metrics: tuple[Metric, ...]
    axes: Mapping[str, Axis]
    prepare: Callable[..., Prepared]
    suite: str
    needs: frozenset[str] = frozenset()
    where: Callable[..., bool] | None = None  # (info, **params): whether that choice is a point at all
    default_subset: Callable[..., bool] | None = None  # as `where`: the points measured where the user names none
    quick: Mapping[str, Axis] | None = None  # axes that suite quick replaces; None keeps the benchmark out of it
    figure_axis: str = ""  # the axis that figures are drawn against
    scaling: Callable[[DeviceInfo], Mapping[str, Value]] | None = None  # the point that is shown over compute units
    # further points that are shown over compute units, and points that are also measured on one compute unit of a CPU
    scaling_also: Callable[[DeviceInfo], Sequence[Mapping[str, Value]]] | None = None
    single_unit: Callable[[DeviceInfo], Sequence[Mapping[str, Value]]] | None = None
    processes: Callable[..., int] | None = None  # (info, **params): fresh processes for a point, where what they get changes it
    min_time_s: float = 0.0  # sampling time of a point at least, where the quantity wanders over that time
    max_time_s: float = 0.0  # sampling time of a point of an adaptive benchmark at most, where the fewest samples need it
    adaptive: bool = False  # a plan of its own chooses its points: no suite has it, and there is no grid of it
    peer_of: str | None = None  # the benchmark whose points it measures by another library; its axes are some of that one's
    is_available: Callable[[DeviceInfo], bool] | None = None  # whether this host has the library, as far as is cheap to say
    headlines: tuple[Headline, ...] = ()  # quantities by which a report compares devices
    quantities: tuple[
        Quantity, ...
    ] = ()  # quantities that other benchmarks measure too, so that a run can be held against itself
    summary: str = ""
    source: str = ""
    version: int = 1
    origin: str = ""  # the package or file that it comes from, where it is none of ours

    def __post_init__(self) -> None:
        """Raises DeclarationError for what no benchmark can be."""
        if not declared.several("metrics", self.metrics, (Metric,)):
            raise DeclarationError("it has no metric: the first argument of @benchmark is one, such as BANDWIDTH")
        names = [(metric.name, sorted(metric.only.items())) for metric in self.metrics]
        twice = next((name for name, only in names if names.count((name, only)) > 1), None)
        if twice is not None:
            raise DeclarationError(f"two of its metrics are named {twice}")
        for name, axis in (*self.axes.items(), *(self.quick or {}).items()):
            if not isinstance(axis, Axis):
                raise DeclarationError(f"{name} is {axis!r:.40}, which is no axis: write {name}=axis(...)")
        for name in {*(self.quick or {}), *filter(None, [self.figure_axis])} - {*self.axes}:
            raise DeclarationError(f"quick or figure_axis names {name}, which is none of its axes")
        for part in ("name", "suite", "source"):
            declared.text(part, getattr(self, part), may_be_empty=False)
        declared.text("peer_of", self.peer_of or "")
        declared.whole("version", self.version)
        declared.number("min_time_s", self.min_time_s)
        declared.number("max_time_s", self.max_time_s)
        declared.several("needs", tuple(self.needs), (str,))
        declared.several("headlines", self.headlines, (Headline,))
        declared.several("quantities", self.quantities, (Quantity,))
        for part in ("where", "default_subset", "scaling", "scaling_also", "single_unit", "processes", "is_available"):
            declared.function_or_none(part, getattr(self, part))


@dataclass(frozen=True, slots=True)
class Point:
    """One choice on the axes, to be measured in fresh processes, from index `first` to below `processes`; or not, for that
    `reason`. `note` is kept with its records."""

    benchmark: str
    params: Mapping[str, Value]
    place: Placement = Placement()
    processes: int = 1
    first: int = 0
    role: Role = "measure"
    reason: str = ""
    note: str = ""
