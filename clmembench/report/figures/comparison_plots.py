"""Plots that show all devices together, each in its look: lines over an axis, and rows of values beside theoretical peaks."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clmembench.report.figures.comparison_data import BestValue, DrawnSeries, named_series, value_ends
from clmembench.report.figures.device_rows import short_number
from clmembench.report.figures.style import (
    LINE_STYLES,
    MIN_LOG_RATIO,
    NO_NAME,
    log_labels,
    log_y,
    look,
    plain,
    spread,
    subplots,
    svg,
)
from clmembench.units import format_bytes, format_in, is_byte_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# inches; two plots of that width fit side by side on a page, and one on a telephone
WIDTH, INSIDE, LEGEND_LINE, ROW, NAME_LINE = 5.2, 2.2, 0.18, 0.24, 0.12
LEFT, RIGHT, TOP, BOTTOM = 0.75, 0.12, 0.28, 0.46  # margins for labels
NAMES_LEFT, VALUES_RIGHT = 1.75, 1.35  # margins of a plot of values
MAX_TICKS = 7  # of a horizontal axis
MAX_VALUE_TICKS = 4  # of one of values, whose labels are longer
MAX_HALF_LEGEND_LETTERS = 27  # letters of a name that half a plot's width has room for
MAX_NAME_LINES = 4
BOUND_SIGNS, ARROW = {"above": 1, "below": -1}, 20  # points of the arrow that says on which side of a bound a value lies
NAME_LETTERS = 26  # of a line of a row's name
GREY, INK = "#c8c8c8", "#222222"
SHADES = (1.0, 0.6, 0.35)  # of a device's colour, for its placements


def curves(
    series: Sequence[DrawnSeries], title: str, axes: tuple[str, str, str], unit: str, y_ends: tuple[float, float]
) -> str:
    """Inline SVG of lines, intervals as bands, published values as hollow marks without a line. `axes` are the parameter of the
    horizontal axis and the labels of both; of `unit` are the values, and `y_ends` the lowest and highest that the vertical axis
    has room for. Of several devices that all have their looks, the page's legend has the names."""
    named = named_series(series)
    measured = [one for one in series if not one.is_published]
    on_page = [] if len(measured) == 1 or any(one not in named for one in measured) else measured
    figure, axis = _plot(INSIDE, LEGEND_LINE * _legend_lines([_name(one) for one in named if one not in on_page]))
    for one in series:
        if one not in named:
            mark = "." if len(one.points) == 1 or one.is_published else ""
            axis.plot(one.xs, one.ys, color=GREY, linewidth=0 if one.is_published else 0.9, marker=mark, zorder=1)
    for one in named:
        _line(axis, one, look(one.number).colour, look(one.number).line, NO_NAME if one in on_page else _name(one))
    _scales(axis, axes, unit, [x for one in series for x in one.xs], y_ends)
    axis.set_title(plain(title), fontsize=10, loc="left")
    _legend(figure, axis)
    return svg(figure)


def placements(lines: Mapping[str, DrawnSeries], title: str, axes: tuple[str, str, str], unit: str) -> str:
    """Inline SVG of one device in its colour: a line for each placement of its threads. `axes` and `unit` as in `curves`."""
    figure, axis = _plot(INSIDE, LEGEND_LINE * _legend_lines(list(lines)), above=2 * TOP)
    for number, (name, one) in enumerate(lines.items()):
        shade = _lighter(look(one.number).colour, SHADES[number % len(SHADES)])
        _line(axis, one, shade, LINE_STYLES[number % len(LINE_STYLES)], name)
    _scales(axis, axes, unit, [x for one in lines.values() for x in one.xs], value_ends(list(lines.values())))
    axis.set_title("\n".join((plain(title), plain(next(iter(lines.values())).label))), fontsize=10, loc="left")
    _legend(figure, axis)
    return svg(figure)


def best(values: Sequence[BestValue], title: str, y_label: str) -> str:
    """Inline SVG of a row for each device: its value with the interval, a bar for the theoretical peak, and hollow marks for
    published values."""
    names = [_row_name(one) for one in values]
    row_height = ROW + NAME_LINE * max(name.count("\n") for name in names)
    figure, axis = _plot(row_height * len(values), 0.0, NAMES_LEFT, VALUES_RIGHT)
    for row, one in enumerate(values):
        mine, point = look(one.number), one.point
        if one.peak is not None:
            axis.plot([one.peak], [row], marker="|", markersize=15, markeredgewidth=2, color="#888888", linestyle="")
        axis.errorbar(
            [point.y], [row], xerr=spread([(point.y, point.low, point.high)]), marker=mine.marker, markersize=6,
            color=mine.colour, markerfacecolor="white" if one.is_published else mine.colour, linestyle="", elinewidth=1.2,
        )  # fmt: skip
        for sign in (s for word, s in BOUND_SIGNS.items() if word in one.qualifier.split()):
            axis.annotate(
                "", (point.y, row), (sign * ARROW, 0), textcoords="offset points", zorder=1,
                arrowprops={"arrowstyle": "<-", "color": mine.colour, "shrinkA": 0, "shrinkB": 4},
            )  # fmt: skip
        text = one.text + (f", {point.y / one.peak:.0%}" if one.peak else "")
        axis.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=8, color=INK)
    axis.set_yticks(range(len(values)), names, fontsize=8)
    axis.set_ylim(len(values) - 0.4, -0.6)
    ends = [v for one in values for v in (one.point.low, one.point.high, one.peak or one.point.y) if v > 0]
    if max(ends) > MIN_LOG_RATIO * min(ends):
        axis.set_xscale("log")
        axis.set_xlim(min(ends) / 1.5, max(ends) * 1.5)
    else:
        axis.set_xlim(0, 1.08 * max(ends))
    _decimal_ticks(axis)
    axis.set_xlabel(plain(y_label + (" (bars: theoretical peak)" if any(one.peak for one in values) else "")), fontsize=9)
    figure.text(0.02, 1 - 0.05 / figure.get_figheight(), plain(title), fontsize=10, va="top")
    return svg(figure)


def _plot(inside: float, below: float, left: float = LEFT, right: float = RIGHT, above: float = TOP) -> tuple[Figure, Axes]:
    """A plot of fixed margins, in inches: to find out what labels need takes as long as to draw them. `inside` is the height
    within the axes, `below` that of the legend, `above` that of the title."""
    figure, (axis,) = subplots(1, 1.0, layout=None)
    height = above + inside + BOTTOM + below
    figure.set_size_inches(WIDTH, height)
    axis.set_position((left / WIDTH, (BOTTOM + below) / height, 1 - (left + right) / WIDTH, inside / height))
    axis.tick_params(labelsize=8, pad=2)
    return figure, axis


def _line(axis: Axes, one: DrawnSeries, colour: Any, style: Any, name: str) -> None:
    marker = look(one.number).marker
    if one.is_published:
        axis.plot(one.xs, one.ys, marker=marker, markersize=6, linestyle="", color=colour, markerfacecolor="none", label=name)
        return
    axis.fill_between(one.xs, [p.low for p in one.points], [p.high for p in one.points], color=colour, alpha=0.2, linewidth=0)
    if len(one.points) == 1:  # a band of one place has no width
        (p,) = one.points
        axis.plot([p.x, p.x], [p.low, p.high], color=colour, linewidth=1.2)
    size = 4 if len(one.points) <= 20 else 2.5
    axis.plot(one.xs, one.ys, marker=marker, markersize=size, linewidth=1.4, linestyle=style, color=colour, label=name)


def _scales(axis: Axes, axes: tuple[str, str, str], unit: str, xs: Sequence[float], y_ends: tuple[float, float]) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    name, x_label, y_label = axes
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(count_ticks(xs)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    to_text = format_bytes if is_byte_size(name) else short_number
    axis.xaxis.set_major_formatter(lambda value, _: to_text(value))
    axis.set_xlim(min(xs) / 1.25, max(xs) * 1.25)
    axis.set_xlabel(plain(x_label), fontsize=9)
    low, high = y_ends
    in_time = unit == "ns"
    if high > MIN_LOG_RATIO * low:
        axis.set_ylim(low / 1.25, high * 1.25)
        log_y(axis)
    else:
        axis.set_ylim(0, 1.12 * high)
    if in_time:
        axis.yaxis.set_major_formatter(lambda value, _: format_in(value, "ns", 2) if value else "0")
        axis.set_ylabel(plain(y_label), fontsize=9)
    else:
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_ylabel(plain(f"{y_label} ({unit})"), fontsize=9)


def count_ticks(xs: Sequence[float]) -> list[float]:
    """Where a logarithmic axis of counts or bytes has labels: powers of two, as many as there is room for; the places
    themselves where fewer than two powers lie among them."""
    first, last = math.ceil(math.log2(min(xs)) - 1e-9), math.floor(math.log2(max(xs)) + 1e-9)
    if last <= first:
        return sorted(set(xs))[:MAX_TICKS]
    step = -(-(last - first + 1) // MAX_TICKS)
    return [2.0**k for k in range(first, last + 1, step)]


def _decimal_ticks(axis: Axes) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter

    if axis.get_xscale() == "log":
        found = log_labels(*axis.get_xlim())
        axis.xaxis.set_major_locator(FixedLocator(found[:: -(-len(found) // MAX_VALUE_TICKS)]))
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.xaxis.set_major_locator(MaxNLocator(MAX_VALUE_TICKS))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _legend(figure: Figure, axis: Axes) -> None:
    handles, names = axis.get_legend_handles_labels()
    if not names:
        return
    columns = _legend_columns(names)
    figure.legend(
        handles,
        names,
        fontsize=8,
        frameon=False,
        ncols=columns,
        loc="lower center",
        handlelength=3.2,
        labelspacing=0.3,
        borderpad=0.1,
    )


def _legend_columns(names: Sequence[str]) -> int:
    return 2 if max(map(len, names), default=0) <= MAX_HALF_LEGEND_LETTERS else 1


def _legend_lines(names: Sequence[str]) -> int:
    return -(-len(names) // _legend_columns(names))


def _name(one: DrawnSeries) -> str:
    return plain(one.name)


def _row_name(one: BestValue) -> str:
    name = f"{one.name}: {one.variant}" if one.variant else one.name
    return "\n".join(map(plain, textwrap.wrap(name, NAME_LETTERS)[:MAX_NAME_LINES]))


def _lighter(colour: str, share: float) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - part) for part in to_rgb(colour))
