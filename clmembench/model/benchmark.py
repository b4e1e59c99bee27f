"""Benchmarks as data: their axes, the points on them, and the plan that yields points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from clmembench.model import declared
from clmembench.model.declared import DeclarationError
from clmembench.model.device import DeviceInfo, Placement
from clmembench.model.metrics import Headline, Metric, Quantity
from clmembench.model.work import Prepared, Value

Role = Literal["measure", "tune"]

PORTABLE_KERNEL_VALUES = frozenset({"portable", "none"})  # axis values of kernels that are OpenCL C only


SIZE_AXES = ("array_bytes", "n")  # problem sizes, which a scaling study keeps constant


@dataclass(frozen=True, slots=True)
class Axis:
    """The values of one parameter.

    `needs` names the device features that a value needs; "fp16 or ptx" is either of them. A tuning axis is searched, and the
    record has its best value. `per_octave` > 0 marks a growing axis: its values are then (first, last), and the plan measures
    that many points per octave until the metric has been flat for two octaves. `accepts` tells whether a value of the user's
    that is not among `values`, such as a file's name, is valid; it raises ValueError with the defect of an invalid one.
    """

    values: Callable[[DeviceInfo], Sequence[Value]]
    needs: Mapping[Value, frozenset[str]] = field(default_factory=dict)
    tuning: bool = False
    per_octave: int = 0
    accepts: Callable[[Value], bool] | None = None


def lacking(needs: Iterable[str], features: Set[str]) -> set[str]:
    """The needs, of an axis' value or of a benchmark, that these features do not meet."""
    return {need for need in needs if features.isdisjoint(alternatives(need))}


def alternatives(need: str) -> list[str]:
    """The features each of which meets a need."""
    return need.split(" or ")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: its axes, its metrics (the first is the headline) and the function that prepares a point."""

    name: str
    metrics: tuple[Metric, ...]
    axes: Mapping[str, Axis]
    prepare: Callable[..., Prepared]
    suite: str
    needs: frozenset[str] = frozenset()
    where: Callable[..., bool] | None = None  # (info, **params): whether these parameters make a point
    default_subset: Callable[..., bool] | None = None  # like `where`: points measured by default
    quick: Mapping[str, Axis] | None = None  # axes as suite quick has them; None: not in suite quick
    figure_axis: str = ""  # the x axis of figures
    scaling: Callable[[DeviceInfo], Mapping[str, Value]] | None = None  # the point of the scaling study
    # further points of the scaling study, and points that are also measured on one compute unit of a CPU
    scaling_also: Callable[[DeviceInfo], Sequence[Mapping[str, Value]]] | None = None
    single_unit: Callable[[DeviceInfo], Sequence[Mapping[str, Value]]] | None = None
    processes: Callable[..., int] | None = None  # (info, **params): fresh processes for a point
    quick_processes: bool = False  # suite quick takes as many, not one: a process decides the result, and costs little
    fresh: bool = False  # its first process measures no other benchmark before
    min_time_s: float = 0.0  # minimum sampling time of a point; for quantities that fluctuate slowly
    max_time_s: float = 0.0  # maximum sampling time of a slow point
    on_nodes: bool = False  # on a CPU each point is measured on the CPUs of each NUMA node in turn
    adaptive: bool = False  # a study's plan chooses its points: it is in no suite and has no grid
    peer_of: str | None = None  # the benchmark whose points it measures with another library, on a subset of its axes
    is_available: Callable[[DeviceInfo], bool] | None = None  # whether this host seems to have the library, by a cheap test
    headlines: tuple[Headline, ...] = ()  # quantities by which a report compares devices
    quantities: tuple[Quantity, ...] = ()  # quantities that other benchmarks measure too, for the consistency of a run
    summary: str = ""
    source: str = ""
    version: int = 1
    origin: str = ""  # the package or file of a benchmark from outside clmembench

    def __post_init__(self) -> None:
        """Raises DeclarationError for an invalid declaration."""
        if not declared.several("metrics", self.metrics, (Metric,)):
            raise DeclarationError("it has no metric: the first argument of @benchmark is one, such as BANDWIDTH")
        names = [(metric.name, sorted(metric.only.items())) for metric in self.metrics]
        twice = next((name for name, only in names if names.count((name, only)) > 1), None)
        if twice is not None:
            raise DeclarationError(f"two of its metrics are named {twice}")
        for name, axis in (*self.axes.items(), *(self.quick or {}).items()):
            if not isinstance(axis, Axis):
                raise DeclarationError(f"{name} is {axis!r:.40}, which is not an axis: write {name}=axis(...)")
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
    """One choice on the axes, to be measured in fresh processes from index `first` to below `processes`.

    A point with a `reason` is not measured. `note` is kept with its records. A tuning trial ends after its first pass where
    that takes longer than `give_up_ns` per unit of the amount that its metric counts (0: never).
    """

    benchmark: str
    params: Mapping[str, Value]
    place: Placement = Placement()
    processes: int = 1
    first: int = 0
    role: Role = "measure"
    reason: str = ""
    note: str = ""
    give_up_ns: float = 0.0
