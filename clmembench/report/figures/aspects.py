"""The section of a report that shows all devices together, aspect by aspect: each figure with its caption and what it omits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clmembench.model import BenchmarkInfo
from clmembench.report.figures import comparison_plots as plots
from clmembench.report.figures import comparison_series as series
from clmembench.report.figures.comparison_data import DrawnSeries, eligible_devices, named_series, shown_rows, value_ends
from clmembench.report.figures.comparison_series import PublishedPoint
from clmembench.report.figures.device_rows import by_reason, listed
from clmembench.report.figures.paper_figures import CATALOGUE, PAPER, UNITS, BestFigure, CurveFigure, PaperFigure
from clmembench.report.frame import LabelledRun
from clmembench.sanitize import line
from clmembench.units import count, format_bytes, format_in, is_byte_size

MAX_PLACEMENT_PLOTS = 8  # of one figure, a device each
BALANCED = "Where balanced is missing it is scatter or compact: the same CPUs, alternating between sockets alike."


@dataclass(frozen=True, slots=True)
class AspectFigure:
    """One figure: inline SVG, its title, a caption that names the paper's figure, a text that says what it shows, and lines on
    what it leaves out."""

    title: str
    svg: str
    caption: str
    alt: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aspect:
    """What devices are compared in, its first benchmark, its figures, and a line for each figure that is not drawn, with the
    reason."""

    name: str
    benchmark: str
    figures: tuple[AspectFigure, ...]
    not_drawn: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Curve:
    """Lines that are to be drawn, in which unit and over what, and what they leave out."""

    figure: CurveFigure
    lines: tuple[DrawnSeries, ...]
    unit: str
    x_label: str
    left_out: tuple[str, ...]


def aspects(parts: Sequence[LabelledRun], published: Iterable[PublishedPoint] = ()) -> list[Aspect]:
    """Every figure of the catalogue for these devices, in the order of the catalogue. `published` are hollow marks of values
    that others measured, by the names of their devices. An aspect that no device was measured in is left out."""
    measured, beside = {row.value.benchmark for part in parts for row in part.rows}, list(published)
    found = []
    for name, catalogue in CATALOGUE.items():
        benchmarks = [figure.benchmark for figure in catalogue if figure.benchmark in measured]
        if benchmarks:
            figures, not_drawn = _aspect(catalogue, parts, beside)
            found.append(Aspect(name, benchmarks[0], figures, not_drawn))
    return found


def _aspect(
    catalogue: Sequence[PaperFigure], devices: Sequence[LabelledRun], published: Sequence[PublishedPoint]
) -> tuple[tuple[AspectFigure, ...], tuple[str, ...]]:
    found: list[tuple[PaperFigure, _Curve | list[AspectFigure] | str]] = []
    for wanted in catalogue:
        if isinstance(wanted, CurveFigure):
            found.append((wanted, _curve(wanted, devices, published)))
        else:
            found.append((wanted, _best(wanted, devices, published)))
    drawn = [one for _, one in found if isinstance(one, _Curve)]
    figures: list[AspectFigure] = []
    for _, one in found:
        if isinstance(one, _Curve):
            figures.append(_drawn_curve(one, _shared_ends(one, drawn)))
            figures += _placement_figures(one.figure, devices, one.unit)
        elif not isinstance(one, str):
            figures += one
    return tuple(figures), tuple(line(f"{figure.title}: {one}") for figure, one in found if isinstance(one, str))


def _shared_ends(one: _Curve, drawn: Sequence[_Curve]) -> tuple[float, float]:
    """The ends of the vertical axis: those of all figures of the aspect with the same scale and unit."""
    same = [c for c in drawn if c is one or (one.figure.scale and (c.figure.scale, c.unit) == (one.figure.scale, one.unit))]
    return value_ends([line for curve in same for line in curve.lines])


def _curve(figure: CurveFigure, devices: Sequence[LabelledRun], published: Sequence[PublishedPoint]) -> _Curve | str:
    """The lines of a figure; where no device has a point, why."""
    eligible, card, omitted = eligible_devices(figure, devices)
    lines = []
    for device in eligible:
        drawn, reasons = series.curve_series(figure, device)
        lines += [] if drawn is None else [drawn]
        omitted += reasons or ([(device.label, _what_is_missing(figure))] if drawn is None else [])
    if card is None or not lines:
        return "; ".join(by_reason(omitted)) or _what_is_missing(figure)
    unit = "cycles" if figure.in_cycles else _unit(card, figure.metric)
    beside, without_place = series.published_series(figure, unit, published, len(devices))
    left_out = by_reason([*omitted, *without_place])
    every = [*lines, *beside]
    named = named_series(every)
    if len(named) < len(every):
        grey = [one.label for one in every if one not in named and not one.is_published]
        left_out += [f"names and colours of {listed(grey)}, which are grey"] if grey else []
        more = [one.label for one in every if one not in named and one.is_published]
        left_out += [f"names and colours of published values of {listed(more)}, which are grey"] if more else []
    shown = {one.number for one in lines}
    x_label = _units_label([d for d in eligible if d.number in shown]) if figure.x == UNITS else figure.x_label
    return _Curve(figure, tuple(every), unit, x_label, tuple(map(line, left_out)))


def _units_label(devices: Sequence[LabelledRun]) -> str:
    """What an axis of compute units counts: on other devices than CPUs these are work-groups."""
    cpus = [device.run.header.device.kind == "cpu" for device in devices]
    if all(cpus):
        return UNITS
    return f"{UNITS} (of GPUs: work-groups)" if any(cpus) else "work-groups"


def _drawn_curve(one: _Curve, ends: tuple[float, float]) -> AspectFigure:
    figure = one.figure
    title = f"{figure.title}, over {one.x_label}"
    axes = (figure.x, one.x_label, _y_label(figure))
    drawn = plots.curves(one.lines, figure.title, axes, one.unit, ends)
    caption = line(f"{title}, after {_source(figure.figures)}; bands are 95% intervals.{_given(one.lines)}")
    return AspectFigure(title, drawn, caption, _curve_alt(title, figure, one.lines, one.unit), one.left_out)


def _y_label(figure: CurveFigure) -> str:
    return figure.y_label or figure.metric.replace("_", " ")


def _source(figures: str) -> str:
    return f"{PAPER}, figure{'s' if ' ' in figures else ''} {figures}"


def _given(lines: Sequence[DrawnSeries]) -> str:
    """Parameters in which the lines differ or that all have, as a sentence."""
    given = [(one.label, one.given) for one in lines if one.given]
    if len({params for _, params in given}) == 1 and len(given) == len([one for one in lines if not one.is_published]):
        return f" All at {given[0][1]}."
    return f" {'; '.join(by_reason(given, ' at '))}." if given else ""


def _placement_figures(figure: CurveFigure, devices: Sequence[LabelledRun], unit: str) -> Iterator[AspectFigure]:
    """A plot for each device that was measured in several placements of its threads."""
    if not figure.placements:
        return
    eligible, _, _ = eligible_devices(figure, devices)
    found = [(device, lines) for device in eligible if (lines := series.placement_series(figure, device))]
    for device, lines in found[:MAX_PLACEMENT_PLOTS]:
        title = f"{figure.title}, by placement: {device.label}"
        drawn = plots.placements(lines, figure.title, (UNITS, UNITS, _y_label(figure)), unit)
        caption = f"{title}, after {_source(figure.placements)}; bands are 95% intervals. {BALANCED}"
        further = [other.label for other, _ in found[MAX_PLACEMENT_PLOTS:]] if device is found[0][0] else []
        left_out = (line(f"placements on {listed(further)}: too many plots"),) if further else ()
        yield AspectFigure(title, drawn, caption, _curve_alt(title, figure, list(lines.values()), unit, list(lines)), left_out)


def _best(figure: BestFigure, devices: Sequence[LabelledRun], published: Sequence[PublishedPoint]) -> list[AspectFigure] | str:
    eligible, card, omitted = eligible_devices(figure, devices)
    values = []
    for device in eligible:
        drawn, reasons = series.best_values(figure, device)
        values += drawn
        omitted += reasons or ([] if drawn else [(device.label, f"no points of {figure.benchmark} with these parameters")])
    left_out = by_reason(omitted)
    if card is None or not values:
        return "; ".join(left_out) or f"no points of {figure.benchmark}"
    metric = next(iter(figure.variants.values()))[0].metric
    values += series.published_best(figure, values[0].unit, published, len(devices))
    rows = shown_rows(values)
    if len(rows) < len(values):
        left_out.append(f"{count(len(values) - len(rows), 'lower value')}: {len(rows)} rows have room")
    axis = f"{metric.replace('_', ' ')} ({values[0].unit})"
    drawn_svg = plots.best(rows, figure.title, axis)
    caption = line(f"{figure.title}, after {_source(figure.figures)}; lines through marks are 95% intervals.")
    said = (
        f"{one.name}{': ' * bool(one.variant)}{one.variant} {one.text}"
        + (f" of {format_in(one.peak, one.unit)} in theory" if one.peak else "")
        for one in rows
    )
    alt = line(f"{figure.title}: {'; '.join(said)}.")
    return [AspectFigure(figure.title, drawn_svg, caption, alt, tuple(map(line, left_out)))]


def _curve_alt(title: str, figure: CurveFigure, lines: Sequence[DrawnSeries], unit: str, names: Sequence[str] = ()) -> str:
    """A figure in words: where each line begins and ends."""
    said = []
    described = list(lines) if names else named_series(lines)
    for number, one in enumerate(described):
        name = names[number] if names else one.name
        first, last = (
            f"{format_in(p.y, unit)} at {format_bytes(p.x) if is_byte_size(figure.x) else f'{p.x:.10g}'}"
            for p in (one.points[0], one.points[-1])
        )
        said.append(f"{name} {first}" + (f" to {last}" if len(one.points) > 1 else ""))
    said += [f"{count(len(lines) - len(described), 'further line')} in grey"] if len(described) < len(lines) else []
    return line(f"{title}: {'; '.join(said)}.")


def _what_is_missing(figure: CurveFigure) -> str:
    over = (
        "over compute units" if figure.x == UNITS else "on one compute unit" if figure.units == 1 else "with these parameters"
    )
    return f"no points of {figure.benchmark} {over}"


def _unit(card: BenchmarkInfo, metric: str) -> str:
    return next(one.unit for one in card.metrics if one.name == metric)
