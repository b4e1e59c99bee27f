"""Values that others published, as marks of the figures that show all devices in one plot. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clmembench.report.figures.comparison_data import BestValue, DrawnSeries, Omission, PlotPoint, is_positive_number
from clmembench.report.figures.paper_figures import UNITS, BestFigure, CurveFigure
from clmembench.results.imported import ImportedValue
from clmembench.sanitize import printable

PublishedPoint = tuple[str, ImportedValue]  # the name of the device, and a value with benchmark, metric and parameters of ours
BOUNDS = ("above", "below")  # qualifiers of values that are bounds
UNIT_SCALES: Mapping[str, Mapping[str, float]] = {  # of units in which others publish, by our unit
    "ns": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "us": {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6},
    "GB/s": {"MB/s": 1e-3, "GB/s": 1, "TB/s": 1e3},
    "GFLOP/s": {"MFLOP/s": 1e-3, "GFLOP/s": 1, "TFLOP/s": 1e3},
}
PUBLISHED_UNITS = ("compute_units", "work_groups", "threads")  # OpenCL's compute units of a CPU are its hardware threads


def published_series(
    figure: CurveFigure, unit: str, points: Iterable[PublishedPoint], first: int
) -> tuple[list[DrawnSeries], list[Omission]]:
    """Published points that have a place on the figure's axis, by device, and those whose place is not stated; `first` is the
    number of the first of all devices that have any published point."""
    points = list(points)
    names = PUBLISHED_UNITS if figure.x == UNITS else (figure.x,)
    found: dict[str, list[PlotPoint]] = {}
    omitted: dict[Omission, None] = {}
    for label, value in points:
        params, scaled = value.params, value.value * _unit_scale(unit, value.unit)
        stated = all(params.get(name, values[0]) in values for name, values in figure.params.items())
        here = figure.x == UNITS or _units(params) == figure.units
        if (value.benchmark, value.metric) != (figure.benchmark, figure.metric) or not (scaled > 0 and stated and here):
            continue
        x = next((params[name] for name in names if is_positive_number(params.get(name))), None)
        if value.qualifier in BOUNDS:
            omitted[f"{printable(label)}, published", "only a bound is known"] = None
        elif x is not None:
            found.setdefault(label, []).append(PlotPoint(float(x), scaled, scaled, scaled))
        elif figure.x != UNITS:
            omitted[f"{printable(label)}, published", f"{figure.x_label} not stated"] = None
    numbers = _numbers(points, first)
    lines = [
        DrawnSeries(printable(label), numbers[label], tuple(sorted(mine, key=lambda p: p.x)), is_published=True)
        for label, mine in found.items()
    ]
    return lines, list(omitted)


def published_best(figure: BestFigure, unit: str, points: Iterable[PublishedPoint], first: int) -> list[BestValue]:
    """The best published value of each variant and device, a bound where there is no more; numbers as in `published_series`. A
    value that does not state what tells variants apart has a row of its own."""
    points = list(points)
    found: dict[tuple[str, str], tuple[bool, float, str]] = {}
    for label, value in points:
        params, scaled = value.params, value.value * _unit_scale(unit, value.unit)
        if value.benchmark != figure.benchmark or not scaled > 0 or _units(params) is not None:  # or of a part of a device
            continue
        variants = [
            variant
            for variant, headlines in figure.variants.items()
            if any(
                value.metric == one.metric and all(params.get(name, want) == want for name, want in one.params.items())
                for one in headlines
            )
        ]
        if variants:
            variant = variants[0] if len(variants) == 1 else ", ".join(map(str, params.values()))
            mine = (value.qualifier not in BOUNDS, scaled, printable(value.qualifier))
            found[variant, label] = max(mine, found.get((variant, label), mine))
    numbers = _numbers(points, first)
    return [
        BestValue(
            printable(label),
            printable(variant),
            numbers[label],
            PlotPoint(0.0, y, y, y),
            unit,
            is_published=True,
            qualifier=said,
        )
        for (variant, label), (_, y, said) in found.items()
    ]


def _numbers(points: Iterable[PublishedPoint], first: int) -> dict[str, int]:
    """The numbers of devices that have published points, after those that were measured."""
    return {label: first + number for number, label in enumerate(dict.fromkeys(label for label, _ in points))}


def _units(params: Mapping[str, object]) -> object:
    """The number of compute units that a value is of; None where it is of the whole device."""
    return next((params[name] for name in PUBLISHED_UNITS if is_positive_number(params.get(name))), None)


def _unit_scale(unit: str, given: str) -> float:
    """What a value in the unit `given` is multiplied by for `unit`; 0 where they are not of one kind."""
    return 1.0 if unit == given else UNIT_SCALES.get(unit, {}).get(given, 0.0)
