"""Points of the figures that show all devices in one plot, measured and published, and why others are left out. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from clmembench.analysis.plateaus import extent_per_line_byte
from clmembench.model import Value
from clmembench.model.metrics import score
from clmembench.report.figures.comparison_data import (
    BestValue,
    DrawnSeries,
    PlotPoint,
)
from clmembench.report.figures.device_rows import Omission, is_positive_number, value_and_interval, with_interval
from clmembench.report.figures.paper_figures import UNITS, BestFigure, CurveFigure
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.scorecard.headline_cells import headline_cell
from clmembench.report.summary import PLACES, SIZES, split
from clmembench.results.imported import ImportedValue
from clmembench.sanitize import printable
from clmembench.units import count, format_params, is_byte_size

COMPACT = "compact"  # the placement that every count is measured in

PublishedPoint = tuple[str, ImportedValue]  # the name of the device, and a value with benchmark, metric and parameters of ours
BOUNDS = ("above", "below")  # qualifiers of values that are bounds
UNIT_SCALES: Mapping[str, Mapping[str, float]] = {  # of units in which others publish, by our unit
    "ns": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "us": {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6},
    "GB/s": {"MB/s": 1e-3, "GB/s": 1, "TB/s": 1e3},
    "GFLOP/s": {"MFLOP/s": 1e-3, "GFLOP/s": 1, "TFLOP/s": 1e3},
}
PUBLISHED_UNITS = ("compute_units", "work_groups", "threads")  # OpenCL's compute units of a CPU are its hardware threads


def curve_series(figure: CurveFigure, device: LabelledRun) -> tuple[DrawnSeries | None, list[Omission]]:
    """The line of one device, in its placement compact where there are several, and what is left out of it; None where it has
    no point."""
    rows = _rows_of(figure, device)
    if figure.x == UNITS and any(row.value.place.placement == COMPACT for row in rows):
        rows = _of_placement(rows, device, COMPACT)
    points, given, reasons = _points(figure, rows, device)
    series = DrawnSeries(device.label, device.number, points, given=given) if points else None
    return series, [(device.label, reason) for reason in reasons]


def placement_series(figure: CurveFigure, device: LabelledRun) -> dict[str, DrawnSeries]:
    """A line for each placement of a device's threads; none where fewer than two were measured."""
    rows = _rows_of(figure, device)
    names = list(dict.fromkeys(row.value.place.placement for row in rows if row.value.place.placement))
    if len(names) < 2:
        return {}
    found = {}
    for name in names:
        points, _, _ = _points(figure, _of_placement(rows, device, name), device)
        if points:
            found[name] = DrawnSeries(device.label, device.number, points)
    return found if len(found) > 1 else {}


def best_values(figure: BestFigure, device: LabelledRun) -> tuple[list[BestValue], list[Omission]]:
    """The best value of each variant on one device, and why a variant has none."""
    found: list[BestValue] = []
    omitted: list[Omission] = []
    for variant, headlines in figure.variants.items():
        cells = [(one, headline_cell(device, figure.benchmark, one)) for one in headlines]
        good = [(one, cell) for one, cell in cells if cell.status == "ok" and cell.value is not None]
        if not good:
            bad = next((cell for _, cell in cells if cell.status != "missing"), None)
            name = f"{device.label}, {variant}" if variant else device.label
            omitted += [] if bad is None else [(name, f"{bad.status}{': ' * bool(bad.detail)}{bad.detail}")]
            continue
        headline, cell = max(good, key=lambda pair: pair[1].value or 0.0)  # all are rates
        value = cell.value or 0.0
        row = next(
            r
            for r in device.of(figure.benchmark).rows
            if r.value.metric == headline.metric and r.value.median == value and r.status == "ok"
        )
        point = PlotPoint(0.0, *with_interval(value, cell.low, cell.high))
        peak = row.peak.value if row.peak else None
        found.append(BestValue(device.label, variant, device.number, point, row.value.unit, peak))
    return found, omitted


def _rows_of(figure: CurveFigure, device: LabelledRun) -> list[Row]:
    whole, placed = split(device.of(figure.benchmark).rows)
    rows = placed if figure.x == UNITS or figure.units is not None else whole
    mine = [
        row
        for row in rows
        if row.value.metric in (figure.metric, "")
        and (figure.units is None or row.value.place.compute_units == figure.units)
        and all(row.value.params.get(name) in values for name, values in figure.params.items())
    ]
    return _of_one_size(mine) if figure.x == UNITS else mine


def _of_one_size(rows: Sequence[Row]) -> list[Row]:
    """The rows of the problem that was measured on the most numbers of compute units, the largest of several: others are not
    comparable with those."""
    counts: dict[tuple[Value, ...], set[int | None]] = {}
    for row in rows:
        counts.setdefault(_size(row), set()).add(row.value.place.compute_units)
    chosen = max(counts, key=lambda size: (len(counts[size]), *map(_rank, size)), default=())
    return [row for row in rows if _size(row) == chosen]


def _size(row: Row) -> tuple[Value, ...]:
    return tuple(row.value.params.get(name, 0) for name in SIZES)


def _rank(size: Value) -> tuple[float, str]:
    """Numbers by size, before texts."""
    return (0.0, size) if isinstance(size, str) else (float(size), "")


def _of_placement(rows: Sequence[Row], device: LabelledRun, placement: str) -> list[Row]:
    """The rows of a placement's line. One compute unit and all of them are the same CPUs in every placement, and are measured
    in one; rows without a placement belong to every line."""
    same = {1, device.run.header.device.compute_units}
    has_own = {row.value.place.compute_units for row in rows if row.value.place.placement == placement}
    return [
        row
        for row in rows
        if row.value.place.placement in (placement, "")
        or (row.value.place.compute_units in same and row.value.place.compute_units not in has_own)
    ]


def _points(figure: CurveFigure, rows: Sequence[Row], device: LabelledRun) -> tuple[tuple[PlotPoint, ...], str, list[str]]:
    """The best good point at each place on the axis, the open parameters that all of these have, and what has no place."""
    best: dict[float, tuple[float, PlotPoint, Mapping[str, Value]]] = {}
    without: Counter[str] = Counter()
    for row in rows:
        point = _point(figure, row, device.run.header.device.line_bytes)
        if isinstance(point, str):
            without[point] += 1
            continue
        rank = score(point.y, row.value.better)
        if point.x not in best or rank > best[point.x][0]:
            best[point.x] = rank, point, row.value.params
    told = [f"{count(number, 'point')} {why}" for why, number in sorted(without.items())]
    params = [one for _, _, one in best.values()]
    closed = {figure.x, *PLACES, *(name for name, values in figure.params.items() if len(values) == 1)}
    open_names = [name for name in (params[0] if params else ()) if name not in closed]
    given = {name: params[0][name] for name in open_names if all(one.get(name) == params[0][name] for one in params)}
    return tuple(point for _, (_, point, _) in sorted(best.items())), format_params(given), told


def _point(figure: CurveFigure, row: Row, line_bytes: int) -> PlotPoint | str:
    """The point of a row, or why it is none."""
    value = row.value
    if not row.is_good:
        return row.status if row.status != "ok" else "without a value"
    x = value.place.compute_units if figure.x == UNITS else value.params.get(figure.x)
    if not is_positive_number(x):
        return f"whose {figure.x} is no number above 0"
    place = float(x)  # type: ignore[arg-type]
    if is_byte_size(figure.x) and "spacing_bytes" in value.params:
        place /= extent_per_line_byte(value.params, line_bytes) or 1.0
    if figure.in_cycles and value.cycles is None:
        return "without cycles, since the core clock was not known"
    y, low, high = value_and_interval(value, figure.in_cycles)
    if not 0 < y < math.inf:
        return "without a finite value above 0"
    return PlotPoint(place, y, low, high)


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
