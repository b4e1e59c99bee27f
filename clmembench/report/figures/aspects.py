"""The section of a report that shows all devices together, aspect by aspect: each figure with its caption and what it omits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clmembench.model import Card
from clmembench.report.figures import comparison_plots as plots
from clmembench.report.figures import comparison_series as series
from clmembench.report.figures.comparison_series import ComparedDevice, PublishedPoint, Series
from clmembench.report.figures.paper_figures import CATALOGUE, PAPER, UNITS, BestFigure, CurveFigure, PaperFigure
from clmembench.report.parts import Part
from clmembench.sanitize import line
from clmembench.units import count, format_in

if TYPE_CHECKING:
    from markupsafe import Markup

MAX_PLACEMENT_PLOTS = 8  # of one figure, a device each


@dataclass(frozen=True, slots=True)
class AspectFigure:
    """One figure: inline SVG, its title, a caption that names the paper's figure, a text that says what it shows, and lines on
    what it leaves out."""

    title: str
    svg: Markup
    caption: str
    alt: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aspect:
    """What devices are compared in, its figures, and a line for each figure that is not drawn, with the reason."""

    name: str
    figures: tuple[AspectFigure, ...]
    not_drawn: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Curve:
    """Lines that are to be drawn, in which unit, and what they leave out."""

    figure: CurveFigure
    lines: tuple[Series, ...]
    unit: str
    left_out: tuple[str, ...]


def aspects(parts: Sequence[Part], published: Iterable[PublishedPoint] = ()) -> list[Aspect]:
    """Every figure of the catalogue for these devices, in the order of the catalogue. `published` are hollow marks of values
    that others measured: benchmark, metric and parameters by our names, value, unit, name of the device. An aspect that no
    device was measured in is left out."""
    devices, beside = series.compared_devices(parts), list(published)
    found = []
    for name, catalogue in CATALOGUE.items():
        if any(device.rows.get(figure.benchmark) for figure in catalogue for device in devices):
            figures, not_drawn = _aspect(catalogue, devices, beside)
            found.append(Aspect(name, figures, not_drawn))
    return found


def _aspect(
    catalogue: Sequence[PaperFigure], devices: Sequence[ComparedDevice], published: Sequence[PublishedPoint]
) -> tuple[tuple[AspectFigure, ...], tuple[str, ...]]:
    found: list[tuple[PaperFigure, _Curve | list[AspectFigure] | str]] = []
    for figure in catalogue:
        found.append((figure, (_curve if isinstance(figure, CurveFigure) else _best)(figure, devices, published)))  # type: ignore[operator]
    drawn = [one for _, one in found if isinstance(one, _Curve)]
    figures: list[AspectFigure] = []
    for figure, one in found:
        if isinstance(one, _Curve):
            figures.append(_drawn_curve(one, _shared_ends(one, drawn)))
            figures += _placement_figures(one.figure, devices, one.unit)
        elif not isinstance(one, str):
            figures += one
    return tuple(figures), tuple(line(f"{figure.title}: {one}") for figure, one in found if isinstance(one, str))


def _shared_ends(one: _Curve, drawn: Sequence[_Curve]) -> tuple[float, float]:
    """The ends of the vertical axis: those of all figures of the aspect with the same scale and unit."""
    same = [c for c in drawn if c is one or (one.figure.scale and (c.figure.scale, c.unit) == (one.figure.scale, one.unit))]
    return plots.value_ends([line for curve in same for line in curve.lines])


def _curve(
    figure: CurveFigure, devices: Sequence[ComparedDevice], published: Sequence[PublishedPoint]
) -> _Curve | str:
    """The lines of a figure; where no device has a point, why."""
    eligible, card, left_out = series.eligible(figure, devices)
    lines, without = [], []
    for device in eligible:
        drawn, reasons = series.curve_series(figure, device)
        left_out += reasons
        lines += [] if drawn is None else [drawn]
        without += [device.label] if drawn is None and not reasons else []
    if card is None or not lines:
        return "; ".join(left_out) or f"{_what_is_missing(figure)} were measured"
    if without:
        left_out.append(f"{', '.join(without)}: {_what_is_missing(figure)}")
    unit = "cycles" if figure.in_cycles else _unit(card, figure.metric)
    every = [*lines, *series.published_series(figure, unit, published, len(devices))]
    named = plots.named_series(every)
    if len(named) < len(every):
        grey = [one.label for one in every if one not in named and not one.is_published]
        left_out += [f"grey and without a name: {', '.join(grey)}"] if grey else []
        more = [one.label for one in every if one not in named and one.is_published]
        left_out += [f"published values of {', '.join(more)}: grey and without a name"] if more else []
    return _Curve(figure, tuple(every), unit, tuple(map(line, left_out)))


def _drawn_curve(one: _Curve, ends: tuple[float, float]) -> AspectFigure:
    from markupsafe import Markup

    figure = one.figure
    title = _title(figure)
    axes = (figure.x, figure.x_label, figure.metric.replace("_", " "))
    drawn = Markup(plots.curves(one.lines, title, axes, one.unit, ends))  # noqa: S704 matplotlib escapes every text it draws
    caption = f"{title}, after {PAPER}, figure {figure.figures}. Bands are 95% intervals."
    return AspectFigure(title, drawn, caption, _curve_alt(title, figure, one.lines, one.unit), one.left_out)


def _title(figure: CurveFigure) -> str:
    over = {"array_bytes": figure.x_label, UNITS: "compute units", "n": "n"}.get(figure.x, figure.x_label)
    return f"{figure.title} over {over}"


def _placement_figures(figure: CurveFigure, devices: Sequence[ComparedDevice], unit: str) -> Iterator[AspectFigure]:
    """A plot for each device that was measured in several placements of its threads."""
    from markupsafe import Markup

    if not figure.placements:
        return
    eligible, _, _ = series.eligible(figure, devices)
    found = [(device, lines) for device in eligible if (lines := series.placement_series(figure, device))]
    for device, lines in found[:MAX_PLACEMENT_PLOTS]:
        title = f"{figure.title} by placement: {device.label}"
        axes = (figure.x, UNITS, figure.metric.replace("_", " "))
        drawn = Markup(plots.placements(lines, title, axes, unit))  # noqa: S704
        caption = f"{title}, after {PAPER}, figures {figure.placements}. balanced uses the CPUs of scatter."
        further = [other.label for other, _ in found[MAX_PLACEMENT_PLOTS:]] if device is found[0][0] else []
        left_out = (line(f"placements on {', '.join(further)}: too many plots"),) if further else ()
        yield AspectFigure(title, drawn, caption, _curve_alt(title, figure, list(lines.values()), unit, list(lines)), left_out)


def _best(
    figure: BestFigure, devices: Sequence[ComparedDevice], published: Sequence[PublishedPoint]
) -> list[AspectFigure] | str:
    from markupsafe import Markup

    eligible, card, left_out = series.eligible(figure, devices)
    values = []
    for device in eligible:
        drawn, reasons = series.best_values(figure, device)
        values += drawn
        left_out += reasons
    if card is None or not values:
        return "; ".join(left_out) or f"no points of {figure.benchmark} were measured"
    metric = next(iter(figure.variants.values()))[0].metric
    values += series.published_best(figure, values[0].unit, published, len(devices))
    rows = plots.shown_rows(values)
    if len(rows) < len(values):
        left_out.append(f"{count(len(values) - len(rows), 'lower value')}: {len(rows)} rows have room")
    axis = f"{metric.replace('_', ' ')} ({values[0].unit})"
    drawn_svg = Markup(plots.best(rows, figure.title, axis))  # noqa: S704
    caption = f"{figure.title}, after {PAPER}, figure {figure.figures}. Lines through marks are 95% intervals."
    said = (
        f"{one.label}{', published' * one.is_published}{': ' * bool(one.variant)}{one.variant} {format_in(one.point.y, one.unit)}"
        + (f" of {format_in(one.peak, one.unit)} in theory" if one.peak else "")
        for one in rows
    )
    alt = line(f"{figure.title}: {'; '.join(said)}.")
    return [AspectFigure(figure.title, drawn_svg, caption, alt, tuple(map(line, left_out)))]


def _curve_alt(
    title: str, figure: CurveFigure, lines: Sequence[Series], unit: str, names: Sequence[str] = ()
) -> str:
    """A figure in words: where each line begins and ends."""
    said = []
    for number, one in enumerate(lines):
        name = names[number] if names else f"{one.label}{', published' * one.is_published}"
        first, last = one.points[0], one.points[-1]
        ends = f"{format_in(first.y, unit)} at {first.x:g}"
        said.append(f"{name} {ends}" + (f" to {format_in(last.y, unit)} at {last.x:g}" if last.x > first.x else ""))
    return line(f"{title}: {'; '.join(said)}.")


def _what_is_missing(figure: CurveFigure) -> str:
    over = "over compute units" if figure.x == UNITS else "on one compute unit" if figure.units == 1 else "of these parameters"
    return f"no points of {figure.benchmark} {over}"


def _unit(card: Card, metric: str) -> str:
    return next(one.unit for one in card.metrics if one.name == metric)
