"""Figures of a report as inline SVG: curves against an axis, bars of achieved over theoretical. Byte-stable for one input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clmembench import studies
from clmembench.analysis.plateaus import extent_per_line_byte
from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import (
    at_largest,
    bar_names,
    by_reason,
    comparable,
    drawable,
    has_bars,
    lines_of,
    metric_label,
    numbered,
    rows_of_lines,
    short_number,
    value_and_interval,
    without_place,
    without_value,
    x_axis,
)
from clmembench.report.figures.paper_figures import drawn_over_units
from clmembench.report.figures.style import (
    LINE_STYLES,
    MARKERS,
    MIN_LOG_RATIO,
    NO_NAME,
    Look,
    bytes_axis,
    colour,
    legend,
    log_y,
    look,
    plain,
    spread,
    subplots,
    svg,
)
from clmembench.report.frame import LabelledRun, Row
from clmembench.studies import NO_FIGURE
from clmembench.units import format_in, format_value, is_byte_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 8  # of one plot: more are not distinguishable
MIN_LABELLED_NS = 1e5  # from here on times are labelled in larger units

Draw = Callable[[BenchmarkInfo, Sequence[LabelledRun]], str]  # inline SVG, "" where there is nothing to draw


def drawn(name: str, card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> str:
    """The figures of one benchmark over all devices that were measured with the card's version of it; "" where it has none.
    `devices` are all of the page, each with its rows of that benchmark."""
    own = studies.figure(name)
    if own == NO_FIGURE:
        return ""
    draw: Draw = own if callable(own) else figure
    return draw(card, comparable(name, card, devices)[0])


def left_out(name: str, card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> list[str]:
    """Values that these figures leave out, each with its reason; figures of a study draw all values that have a result."""
    same, omitted = comparable(name, card, devices)
    several = len([device for device in devices if device.rows]) > 1
    for device in same:
        reasons = without_value(device.rows) + ([] if studies.figure(name) else without_place(card, device))
        omitted += [(device.label if several else "", reason) for reason in reasons]
    return by_reason(omitted)


def figure(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> str:
    """The SVGs of one benchmark over all devices; "" where a table says it better.

    Rates have bars, in front of what is possible; whatever was measured at several values of the benchmark's x has curves, and
    so has a study over compute units, unless it is among the figures that show all devices in one plot.
    """
    whole, placed = drawable(card, devices)
    placed = [replace(device, rows=rows) for device in placed if (rows := _drawn_nowhere_else(device))]
    scaling = svg(_scaling(card, placed)) if placed else ""
    if not whole:
        return scaling
    if card.growing:
        growing = [replace(s, rows=rows) for s in whole if (rows := numbered(card, s))]
        return (svg(_staircase(card, growing)) if growing else "") + scaling
    bars = svg(_bars(card, whole)) if has_bars(card, whole) else ""
    lined = [replace(s, rows=rows) for s in whole if (rows := rows_of_lines(card, s))]
    return bars + (svg(_curves(card, lined)) if lined else "") + scaling


def _drawn_nowhere_else(device: LabelledRun) -> tuple[Row, ...]:
    """The rows over compute units that no figure shows with those of other devices."""
    kind = device.run.header.device.kind
    values = ((row, row.value) for row in device.rows)
    return tuple(row for row, v in values if not drawn_over_units(v.benchmark, v.params, kind))


def _scaling(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> Figure:
    """One plot a device, since what a compute unit is differs between them: a line for each placement."""
    figure, axes = subplots(len(devices), height=3.4)
    names = list(dict.fromkeys(r.value.place.placement for s in devices for r in s.rows))
    for axis, device in zip(axes, devices, strict=True):
        is_cpu = device.run.header.device.kind == "cpu"
        over = replace(card, x="compute_units" if is_cpu else "work_groups", growing="")
        for number, name in enumerate(names):
            rows = [r for r in device.rows if r.value.place.placement == name]
            if rows:
                ordered = sorted(rows, key=lambda r: r.value.place.compute_units or 0)
                _line(axis, over, ordered, plain(name) or "_", _look_of_line(number))
        _labels(axis, over, device.label)
        axis.set_xlabel("compute units" if is_cpu else "work-groups")
    if any(names):
        legend(figure, axes)
    return figure


def _staircase(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> Figure:
    """All devices in one plot: latency over working set, both logarithmic, intervals as bands."""
    figure, axes = subplots(1, height=5.2)
    _together(axes[0], card, devices)
    legend(figure, axes)
    return figure


def _curves(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> Figure:
    """All devices in one plot where their lines can be told apart, else one plot a device."""
    lines = lines_of(card, devices)
    if len(lines) <= MAX_LINES:
        figure, axes = subplots(1, height=4.4)
        _together(axes[0], card, devices)
    else:
        figure, axes = subplots(len(devices), height=4.0)
        names = list(dict.fromkeys(params for _, params, _ in lines))  # one look for one name in every plot
        for axis, device in zip(axes, devices, strict=True):
            # named among all devices: of one alone what tells its lines apart may be less
            for _, params, rows in (line for line in lines if line[0] == device.label):
                _line(axis, card, rows, params, _look_of_line(names.index(params)))
            _labels(axis, card, device.label)
    legend(figure, axes)
    return figure


def _together(axis: Axes, card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> None:
    """A line for each device, in its look, and its other parameters, by line style; those of a chase over the bytes of the
    lines that it touches. Of several devices the page's legend has the names."""
    by_label = {device.label: device for device in devices}
    lines = lines_of(card, devices)
    others = list(dict.fromkeys(params for _, params, _ in lines))
    on_page = len(devices) > 1
    for number, params in enumerate(others if on_page and len(others) > 1 else []):
        axis.plot([], [], color="#333333", linestyle=LINE_STYLES[number % len(LINE_STYLES)], label=params or "–")
    for label, params, rows in lines:
        device = by_label[label]
        name = NO_NAME if on_page else f"{label}, {params}" if params else label
        mine = look(device.number)
        if len(others) > 1:
            mine = replace(mine, line=LINE_STYLES[others.index(params) % len(LINE_STYLES)])
        stretch = extent_per_line_byte(rows[0].value.params, device.run.header.device.line_bytes) if card.growing else 1.0
        if stretch is None:
            name = f"{label} (its line is not known: over the array's extent)"
        elif stretch > 1 and not on_page:
            name += f" (in an array {stretch:g} times as long)"
        _line(axis, card, rows, name, mine, stretch or 1.0)
    _labels(axis, card, "")


def _bars(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> Figure:
    """One plot a device: a bar for each point at the largest size, in front of its theoretical peak."""
    tops = [at_largest(card, device) for device in devices]
    figure, axes = subplots(len(devices), height=1.6 + 0.26 * max(len(rows) for _, rows in tops))
    for axis, device, (size, rows) in zip(axes, devices, tops, strict=True):
        ends = [value_and_interval(r.value) for r in rows]
        medians = [median for median, _, _ in ends]
        peaks = [r.peak.value if r.peak else 0.0 for r in rows]
        places = range(len(rows))
        if any(peaks):
            axis.barh(places, peaks, color="#dddddd", label="theoretical peak")
        axis.barh(places, medians, height=0.55, xerr=spread(ends), color=look(device.number).colour, ecolor="#333333")
        for place, row in enumerate(rows):
            text = f" {format_value(medians[place])}" + (f"  {row.fraction:.0%}" if row.fraction else "")
            axis.text(ends[place][2], place, text, va="center", fontsize=8, color="#111111")
        axis.set_yticks(places, bar_names(rows))
        axis.set_xlim(0, 1.25 * max(*medians, *peaks))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.invert_yaxis()
        axis.set_title(device.label, fontsize=10, loc="right")  # towards the names of the bars, where there is room
        axis.set_xlabel(f"{metric_label(card)}{f' at {size}' if size else ''}, with its 95% interval")
        axis.grid(visible=False, axis="y")
    if any(row.peak for _, rows in tops for row in rows):
        legend(figure, axes)
    return figure


def _look_of_line(number: int) -> Look:
    """The look of one of the lines of a plot that has a device to itself."""
    return Look(colour(number), MARKERS[number % len(MARKERS)], "-")


def _line(axis: Axes, card: BenchmarkInfo, rows: Sequence[Row], label: str, mine: Look, stretch: float = 1.0) -> None:
    x = [float(r.value.params[x_axis(card)]) / stretch for r in rows]
    y, low, high = zip(*(value_and_interval(r.value) for r in rows), strict=True)
    axis.plot(x, y, marker=mine.marker, markersize=4, linewidth=1.4, linestyle=mine.line, color=mine.colour, label=label)
    axis.fill_between(x, low, high, color=mine.colour, alpha=0.2, linewidth=0)


def _labels(axis: Axes, card: BenchmarkInfo, title: str) -> None:
    import numpy as np

    axis.set_xscale("log", base=2)
    values = [float(y) for line in axis.get_lines() for y in np.asarray(line.get_ydata(), dtype=float)]
    if max(values) > MIN_LOG_RATIO * min(values) > 0:
        log_y(axis)
    else:
        axis.set_ylim(0, 1.15 * float(axis.dataLim.ymax))  # bands included
    if is_byte_size(x_axis(card)):
        size = plain(x_axis(card).removesuffix("_bytes").replace("_", " ")) + " size"
        bytes_axis(axis, "lines that are touched" if card.growing else size)
    else:
        axis.xaxis.set_major_formatter(lambda value, _: short_number(value))
        axis.set_xlabel(plain(x_axis(card).replace("_", " ")))
    if card.metrics[0].unit == "ns" and max(values) >= MIN_LABELLED_NS:
        axis.yaxis.set_major_formatter(lambda value, _: format_in(value, "ns", 1 if value < 10 else 2) if value else "0")
        axis.set_ylabel(plain(card.metrics[0].name.replace("_", " ")))
    else:
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_ylabel(metric_label(card))
    axis.set_title(title, fontsize=10)
