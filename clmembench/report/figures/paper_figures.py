"""The catalogue of figures that show all devices in one plot, after those of Razzaq et al. 2016: what each is drawn of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clmembench.model import Headline, Value

PAPER = "Razzaq et al. 2016"
UNITS = "compute units"  # as an axis: how many a point was measured on; of a GPU, how many work-groups


@dataclass(frozen=True, slots=True)
class CurveFigure:
    """A line for each device, under a title of up to 60 letters: the metric of a benchmark over a parameter or over compute
    units, at the points whose other parameters are among `params`; at each place on the axis the best of them. `figures` are
    those of the paper, and `placements` those of it that compare placements of threads: they become a plot for each device.
    With `units` the points are those on so many compute units, and otherwise on the whole device. Figures of an aspect with
    the same `scale` have the same vertical axis."""

    title: str
    benchmark: str
    metric: str
    x: str
    x_label: str  # UNITS is said as the devices need it
    figures: str
    params: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    placements: str = ""
    in_cycles: bool = False
    units: int | None = None
    only: Literal["", "cpu", "link"] = ""
    scale: str = ""
    y_label: str = ""  # where the metric's name does not say enough


@dataclass(frozen=True, slots=True)
class BestFigure:
    """A row for each device and variant: the best value at the largest size beside the theoretical peak. A variant is the best
    of several headlines; its name is "" where there is one alone."""

    title: str
    benchmark: str
    figures: str
    variants: Mapping[str, tuple[Headline, ...]]
    only: Literal["", "cpu", "link"] = ""


PaperFigure = CurveFigure | BestFigure

_ADDS: Mapping[str, tuple[Value, ...]] = {
    "op": ("add",),
    "memory": ("global",),
    "address": ("same",),
    "result": ("used",),
}
_DOUBLE: Mapping[str, tuple[Value, ...]] = {"dtype": ("double",)}
_EACH_LINE: Mapping[str, tuple[Value, ...]] = {"spacing_bytes": ("line",)}
_EACH = "time of one add"
CSR, ELL = ("csr_row", "csr_team", "csr_adaptive"), ("ell", "sell")


def _link(direction: str, memory: str, figures: str) -> CurveFigure:
    way = {"to_device": "Host to device", "from_device": "Device to host"}[direction]
    params: Mapping[str, tuple[Value, ...]] = {"direction": (direction,), "memory": (memory,)}
    title = f"{way}, {memory} host memory"
    return CurveFigure(
        title, "transfer", "link_bandwidth", "array_bytes", "bytes of a copy", figures, params, only="link", scale="link"
    )


def _spmv(title: str, formats: tuple[str, ...], figures: str, placements: str) -> CurveFigure:
    params: Mapping[str, tuple[Value, ...]] = {"matrix": ("reservoir",), "format": formats}
    return CurveFigure(title, "spmv", "flop_rate", UNITS, UNITS, figures, params, placements, scale="spmv")


def _best_link(name: str, direction: str, memory: str) -> tuple[Headline, ...]:
    params: Mapping[str, Value] = {"direction": direction, "memory": memory}
    return (Headline("host link", name, "link_bandwidth", params, {"array_bytes": "largest"}),)


def _best_spmv(formats: tuple[str, ...]) -> tuple[Headline, ...]:
    return tuple(Headline("sparse", one, "flop_rate", {"matrix": "reservoir", "format": one}) for one in formats)


CATALOGUE: Mapping[str, tuple[PaperFigure, ...]] = {
    "Latency": (
        CurveFigure("Load-to-use latency", "pchase", "latency", "array_bytes", "working set", "2", _EACH_LINE),
        CurveFigure(
            "Load-to-use latency in core cycles", "pchase", "latency", "array_bytes", "working set", "3",
            _EACH_LINE, in_cycles=True,
        ),
    ),
    "Bandwidth": (
        CurveFigure(
            "Memory bandwidth of triad", "stream", "bandwidth", UNITS, UNITS, "4",
            {"op": ("triad",)}, placements="6 and 7",
        ),
        BestFigure(
            "Memory bandwidth of triad, double, whole device", "stream", "5",
            {"": (Headline("bandwidth", "triad", "bandwidth", {"op": "triad", "dtype": "double"},
                           {"array_bytes": "largest"}, beyond_caches="array_bytes"),)},
        ),
    ),
    "Atomics": (
        CurveFigure(
            "Atomic add of int to one address", "atomic", "time", "items", "competing work-items", "8",
            {**_ADDS, "dtype": ("int",)}, scale="atomics", y_label=_EACH,
        ),
        CurveFigure(
            "Atomic add of long, which compilers never combine", "atomic", "time", "items", "competing work-items", "8",
            {**_ADDS, "dtype": ("long",)}, scale="atomics", y_label=_EACH,
        ),
        CurveFigure(
            "Atomic add of int, one work-item per compute unit", "atomic", "time", UNITS, UNITS, "8",
            {**_ADDS, "dtype": ("int",)}, placements="9 and 10", only="cpu", y_label=_EACH,
        ),
    ),
    "Synchronisation": (
        CurveFigure(
            "Barrier across concurrent work-groups", "device_barrier", "barrier", "groups", "work-groups", "11",
            scale="synchronisation", y_label="time of a barrier",
        ),
        CurveFigure(
            "Launch of an empty kernel and wait for its end", "launch", "round_trip", "groups", "work-groups", "11",
            scale="synchronisation", y_label="time of a round trip",
        ),
        CurveFigure(
            "Barrier, one work-group per compute unit", "device_barrier", "barrier", UNITS, UNITS, "11",
            placements="12 and 13", only="cpu", y_label="time of a barrier",
        ),
    ),
    "Reduction": (
        CurveFigure("Sum of n doubles, best method", "reduction", "time", "n", "n", "14", y_label="time of a sum"),
        # as a rate: devices differ in the n that fits them
        CurveFigure(
            "Sum of n doubles, bytes read", "reduction", "bandwidth", UNITS, UNITS, "15 and 16", placements="15 and 16"
        ),
    ),
    "Host link": (
        _link("to_device", "pinned", "17"),
        _link("from_device", "pinned", "17"),
        _link("to_device", "pageable", "18"),
        _link("from_device", "pageable", "18"),
        BestFigure(
            "Bandwidth of the host link at the largest copy", "transfer", "19",
            {
                "to device, pinned": _best_link("to device, pinned", "to_device", "pinned"),
                "from device, pinned": _best_link("from device, pinned", "from_device", "pinned"),
                "to device, pageable": _best_link("to device, pageable", "to_device", "pageable"),
                "from device, pageable": _best_link("from device, pageable", "from_device", "pageable"),
            },
            only="link",
        ),
    ),
    "Dense matrix product": (
        CurveFigure("DGEMM on one compute unit", "dgemm", "performance", "n", "n", "20", _DOUBLE, units=1, only="cpu"),
        CurveFigure("DGEMM on the whole device, best variant", "dgemm", "performance", "n", "n", "21", _DOUBLE),
        BestFigure(
            "DGEMM at the largest n", "dgemm", "22",
            {"": (Headline("compute", "DGEMM", "performance", {"dtype": "double"}, {"n": "largest"}),)},
        ),
        CurveFigure(
            "DGEMM", "dgemm", "performance", UNITS, UNITS, "23 and 24", _DOUBLE, placements="23 and 24"
        ),
    ),
    "Sparse matrix times vector": (
        _spmv("SpMV of the reservoir matrix, CSR", CSR, "25", "28 and 29"),
        _spmv("SpMV of the reservoir matrix, ELL or SELL", ELL, "26", "28 and 29"),
        BestFigure(
            "SpMV of the reservoir matrix, whole device", "spmv", "27",
            {"CSR": _best_spmv(CSR), "ELL or SELL": _best_spmv(ELL)},
        ),
    ),
}  # fmt: skip


def drawn_over_units(benchmark: str, params: Mapping[str, Value], kind: str) -> bool:
    """Whether a figure here shows such a point over compute units; `kind` is the device's."""
    every = (figure for group in CATALOGUE.values() for figure in group if isinstance(figure, CurveFigure))
    return any(
        (figure.benchmark, figure.x) == (benchmark, UNITS)
        and (figure.only != "cpu" or kind == "cpu")
        and all(params.get(name) in values for name, values in figure.params.items())
        for figure in every
    )
