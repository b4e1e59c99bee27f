"""Measured and published points of the figures that show all devices in one plot, and why others are left out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clmembench.infer.plateaus import extent_per_line_byte
from clmembench.model import Card
from clmembench.model.direction import score
from clmembench.report.figures.paper_figures import UNITS, BestFigure, CurveFigure, PaperFigure
from clmembench.report.parts import Part
from clmembench.report.rows import Row
from clmembench.report.summary import split
from clmembench.report.verdict import headline_cell
from clmembench.sanitize import printable
from clmembench.units import count, is_byte_size

# benchmark, metric and parameters by our names, value, unit, and the name of the device
PublishedPoint = tuple[str, str, Mapping[str, object], float, str, str]
UNIT_SCALES: Mapping[str, Mapping[str, float]] = {  # of units in which others publish, by our unit
    "ns": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "us": {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6},
    "GB/s": {"MB/s": 1e-3, "GB/s": 1, "TB/s": 1e3},
    "GFLOP/s": {"MFLOP/s": 1e-3, "GFLOP/s": 1, "TFLOP/s": 1e3},
}
COMPACT = "compact"  # the placement that every count is measured in


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A value with its 95% interval over its place on the axis; of a published value the interval is the value."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one device in order of x, and the device's number on the page, which decides its look."""

    label: str
    number: int
    points: tuple[PlotPoint, ...]
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class BestValue:
    """The best value of one device in one variant, and the theoretical peak, None where that is not known."""

    label: str
    variant: str
    number: int
    point: PlotPoint
    unit: str
    peak: float | None = None
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class ComparedDevice:
    """A device of the page by its number there, and its rows by benchmark."""

    label: str
    number: int
    part: Part
    rows: Mapping[str, Sequence[Row]]


def compared_devices(parts: Sequence[Part]) -> list[ComparedDevice]:
    """The devices of a report in its order."""
    found = []
    for number, part in enumerate(parts):
        rows: dict[str, list[Row]] = {}
        for row in part.rows:
            rows.setdefault(row.value.benchmark, []).append(row)
        found.append(ComparedDevice(printable(part.label), number, part, rows))
    return found


def eligible(figure: PaperFigure, devices: Sequence[ComparedDevice]) -> tuple[list[ComparedDevice], Card | None, list[str]]:
    """The devices that a figure can show, the latest card of its benchmark, and why others cannot be shown."""
    reasons = []
    linked = [d for d in devices if figure.only != "link" or not d.part.run.header.device.shares_host_memory]
    if len(linked) < len(devices) and figure.only == "link":
        shared = ", ".join(d.label for d in devices if d not in linked)
        reasons.append(f"{shared}: shares memory with its host, so there is no link")
    kind = [d for d in linked if figure.only != "cpu" or d.part.run.header.device.kind == "cpu"]
    measured = [d for d in kind if d.rows.get(figure.benchmark)]
    cards = {d.number: d.part.run.header.benchmarks[figure.benchmark] for d in measured}
    card = max(cards.values(), key=lambda one: one.version, default=None)
    found = [d for d in measured if card is not None and cards[d.number].version == card.version]
    for version in sorted({cards[d.number].version for d in measured if d not in found}):
        older = ", ".join(d.label for d in measured if cards[d.number].version == version)
        latest = card.version if card is not None else version
        reasons.append(f"{older}: measured with version {version} of {figure.benchmark}, and drawn is version {latest}")
    return found, card, reasons


def curve_series(figure: CurveFigure, device: ComparedDevice) -> tuple[Series | None, list[str]]:
    """The line of one device, in its placement compact where there are several, and what is left out of it; None where it has
    no point."""
    rows = _rows_of(figure, device)
    if figure.x == UNITS and any(row.value.place.placement == COMPACT for row in rows):
        rows = _of_placement(rows, device, COMPACT)
    points, reasons = _points(figure, rows, device)
    series = Series(device.label, device.number, points) if points else None
    return series, [f"{device.label}: {reason}" for reason in reasons]


def placement_series(figure: CurveFigure, device: ComparedDevice) -> dict[str, Series]:
    """A line for each placement of a device's threads; none where fewer than two were measured."""
    rows = _rows_of(figure, device)
    names = list(dict.fromkeys(row.value.place.placement for row in rows if row.value.place.placement))
    if len(names) < 2:
        return {}
    found = {}
    for name in names:
        points, _ = _points(figure, _of_placement(rows, device, name), device)
        if points:
            found[name] = Series(device.label, device.number, points)
    return found if len(found) > 1 else {}


def best_values(figure: BestFigure, device: ComparedDevice) -> tuple[list[BestValue], list[str]]:
    """The best value of each variant on one device, and why a variant has none."""
    found, reasons = [], []
    for variant, headlines in figure.variants.items():
        cells = [(one, headline_cell(device.part, figure.benchmark, one)) for one in headlines]
        good = [(one, cell) for one, cell in cells if cell.status == "ok" and cell.value is not None]
        if not good:
            bad = next((cell for _, cell in cells if cell.status != "missing"), None)
            name = f"{device.label}, {variant}" if variant else device.label
            reasons += [] if bad is None else [f"{name}: {bad.status}{': ' * bool(bad.detail)}{bad.detail}"]
            continue
        headline, cell = max(good, key=lambda pair: pair[1].value or 0.0)  # all are rates
        value = cell.value or 0.0
        row = next(
            r
            for r in device.rows[figure.benchmark]
            if r.value.metric == headline.metric and r.value.median == value and r.status == "ok"
        )
        point = PlotPoint(0.0, value, value if cell.low is None else cell.low, value if cell.high is None else cell.high)
        peak = row.peak.value if row.peak else None
        found.append(BestValue(device.label, variant, device.number, point, row.value.unit, peak))
    return found, reasons


def published_series(figure: CurveFigure, unit: str, points: Iterable[PublishedPoint], first: int) -> list[Series]:
    """Published points that have a place on the figure's axis, by device; `first` is the number of the first of all devices
    that have any published point."""
    points = list(points)
    numbers = {label: first + n for n, label in enumerate(dict.fromkeys(point[5] for point in points))}
    names = ("compute_units", "work_groups") if figure.x == UNITS else (figure.x,)
    found: dict[str, list[PlotPoint]] = {}
    for benchmark, metric, params, value, given, label in points:
        scaled = value * _unit_scale(unit, given)
        x = next((params[name] for name in names if _is_positive_number(params.get(name))), None)
        mine = benchmark == figure.benchmark and metric == figure.metric and scaled > 0 and x is not None
        if mine and all(params.get(name, values[0]) in values for name, values in figure.params.items()):
            found.setdefault(label, []).append(PlotPoint(float(x), scaled, scaled, scaled))  # type: ignore[arg-type]
    return [
        Series(printable(label), numbers[label], tuple(sorted(mine, key=lambda p: p.x)), is_published=True)
        for label, mine in found.items()
    ]


def published_best(figure: BestFigure, unit: str, points: Iterable[PublishedPoint], first: int) -> list[BestValue]:
    """The best published value of each variant and device; numbers as in `published_series`."""
    points = list(points)
    numbers = {label: first + n for n, label in enumerate(dict.fromkeys(point[5] for point in points))}
    found: dict[tuple[str, str], float] = {}
    for variant, headlines in figure.variants.items():
        for benchmark, metric, params, value, given, label in points:
            scaled = value * _unit_scale(unit, given)
            mine = benchmark == figure.benchmark and scaled > 0
            if mine and any(
                metric == one.metric and all(params.get(name, want) == want for name, want in one.params.items())
                for one in headlines
            ):
                found[variant, label] = max(scaled, found.get((variant, label), 0.0))
    return [
        BestValue(printable(label), variant, numbers[label], PlotPoint(0.0, value, value, value), unit, is_published=True)
        for (variant, label), value in found.items()
    ]


def _rows_of(figure: CurveFigure, device: ComparedDevice) -> list[Row]:
    whole, placed = split(device.rows.get(figure.benchmark, ()))
    rows = placed if figure.x == UNITS or figure.units is not None else whole
    return [
        row
        for row in rows
        if row.value.metric in (figure.metric, "")
        and (figure.units is None or row.value.place.compute_units == figure.units)
        and all(row.value.params.get(name) in values for name, values in figure.params.items())
    ]


def _of_placement(rows: Sequence[Row], device: ComparedDevice, placement: str) -> list[Row]:
    """The rows of a placement's line. One compute unit and all of them are the same CPUs in every placement, and are measured
    in one; rows without a placement belong to every line."""
    same = {1, device.part.run.header.device.compute_units}
    has_own = {row.value.place.compute_units for row in rows if row.value.place.placement == placement}
    return [
        row
        for row in rows
        if row.value.place.placement in (placement, "")
        or (row.value.place.compute_units in same and row.value.place.compute_units not in has_own)
    ]


def _points(figure: CurveFigure, rows: Sequence[Row], device: ComparedDevice) -> tuple[tuple[PlotPoint, ...], list[str]]:
    """The best good point at each place on the axis, and what has no place there."""
    best: dict[float, tuple[float, PlotPoint]] = {}
    without: Counter[str] = Counter()
    for row in rows:
        point = _point(figure, row, device.part.run.header.device.line_bytes)
        if isinstance(point, str):
            without[point] += 1
            continue
        rank = score(point.y, row.value.better)
        if point.x not in best or rank > best[point.x][0]:
            best[point.x] = rank, point
    told = [f"{count(number, 'point')} {why}" for why, number in sorted(without.items())]
    return tuple(point for _, (_, point) in sorted(best.items())), told


def _point(figure: CurveFigure, row: Row, line_bytes: int) -> PlotPoint | str:
    """The point of a row, or why it is none."""
    value = row.value
    if row.status != "ok" or value.median is None:
        return row.status if row.status != "ok" else "without a value"
    x = value.place.compute_units if figure.x == UNITS else value.params.get(figure.x)
    if not _is_positive_number(x):
        return f"whose {figure.x} is no number above 0"
    place = float(x)  # type: ignore[arg-type]
    if is_byte_size(figure.x) and "spacing_bytes" in value.params:
        place /= extent_per_line_byte(value.params, line_bytes) or 1.0
    ends = (value.median, value.ci_low, value.ci_high)
    if figure.in_cycles:
        if value.cycles is None:
            return "without cycles, since the core clock was not known"
        ends = (value.cycles, value.cycles_low, value.cycles_high)
    y, low, high = ends
    if y <= 0:
        return "not above 0"
    return PlotPoint(place, y, y if low is None else low, y if high is None else high)


def _is_positive_number(value: object) -> bool:
    return type(value) in (int, float) and value > 0  # type: ignore[operator]


def _unit_scale(unit: str, given: str) -> float:
    """What a value in the unit `given` is multiplied by for `unit`; 0 where they are not of one kind."""
    return 1.0 if unit == given else UNIT_SCALES.get(unit, {}).get(given, 0.0)
