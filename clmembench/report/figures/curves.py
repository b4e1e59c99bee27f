"""Figures of a report as inline SVG: curves against an axis, bars of achieved over theoretical. Byte-stable for one input."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clmembench.infer.plateaus import extent_per_line_byte
from clmembench.model import Card
from clmembench.report.figures.style import MARKERS, colour, legend, log_y, plain, subplots, svg
from clmembench.report.rows import Row, labels
from clmembench.report.summary import split
from clmembench.units import format_bytes, format_in, format_param, format_params, format_value, is_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_POINTS = 2  # of a line; one point alone is none
LINES = 8  # more in one plot cannot be told apart
DECADES = 8.0  # of values; less is drawn on a linear scale from 0
LONG_NS = 1e5  # from here on times are labelled in larger units


@dataclass(frozen=True, slots=True)
class Shown:
    """One device's rows of one benchmark, under the name that the report gives the device."""

    label: str
    rows: tuple[Row, ...]
    kind: str = ""
    line_bytes: int = 0  # as the device reports it; 0: it does not
    version: int = 0  # of the benchmark, in the run that these are of; 0: not known


def figure(card: Card, shown: Sequence[Shown]) -> str:
    """The SVGs of one benchmark over all devices; "" where a table says it better.

    Rates have bars, in front of what is possible; whatever was measured at several values of the benchmark's x has curves, and
    so has a study over compute units.
    """
    devices, placed = ([], []) if not shown else _drawable(card, shown)
    scaling = svg(_scaling(card, placed)) if placed else ""
    if not devices:
        return scaling
    if card.growing:
        numbered = [replace(s, rows=rows) for s in devices if (rows := _numbered(card, s))]
        return (svg(_staircase(card, numbered)) if numbered else "") + scaling
    bars = svg(_bars(card, devices)) if card.metrics[0].form == "rate" else ""
    lined = [replace(s, rows=rows) for s in devices if (rows := _of_lines(card, s))]
    return bars + (svg(_curves(card, lined)) if lined else "") + scaling


def drawn_rows(card: Card, device: Shown) -> tuple[list[Row], list[Row]]:
    """A device's rows that are in any plot, and all that are of the metric drawn."""
    whole, placed = _drawable(card, [device])
    mine = [row for shown in whole for row in shown.rows]
    scaled = [row for shown in placed for row in shown.rows]
    parts = split([row for row in device.rows if row.status == "ok" and row.value.median is not None])
    headline = mine + [row for row in parts[1] if row.value.metric == _headline(card, row)]
    if not whole:
        return scaled, headline
    if card.growing:
        return [*_numbered(card, whole[0]), *scaled], headline
    bars = _largest(card, whole[0])[1] if card.metrics[0].form == "rate" else []
    return [*bars, *_of_lines(card, whole[0]), *scaled], headline


def _drawable(card: Card, shown: Sequence[Shown]) -> tuple[list[Shown], list[Shown]]:
    """Good rows of the headline's unit, since others have no place on the same axis: on whole devices, and on parts of them."""
    whole: list[Shown] = []
    placed: list[Shown] = []
    for device in shown:
        rows = [r for r in device.rows if r.value.median is not None and r.status == "ok"]
        parts = split([r for r in rows if r.value.unit == card.metrics[0].unit and r.value.metric == _headline(card, r)])
        for found, part in zip((whole, placed), parts, strict=True):
            if part:
                found.append(replace(device, label=plain(device.label), rows=tuple(part)))
    return whole, [s for s in placed if len({r.value.place.compute_units for r in s.rows}) > 1]


def _headline(card: Card, row: Row) -> str:
    """The first of the card's metrics that speaks of the row's point."""
    return next((m.name for m in card.metrics if m.applies(row.value.params)), "")


def _scaling(card: Card, devices: Sequence[Shown]) -> Figure:
    """One plot a device, since what a compute unit is differs between them: a line for each placement."""
    figure, axes = subplots(len(devices), height=3.4)
    names = list(dict.fromkeys(r.value.place.placement for s in devices for r in s.rows))
    for axis, device in zip(axes, devices, strict=True):
        over = replace(card, x="compute_units" if device.kind == "cpu" else "work_groups", growing="")
        for number, name in enumerate(names):
            rows = [r for r in device.rows if r.value.place.placement == name]
            if rows:
                ordered = sorted(rows, key=lambda r: r.value.place.compute_units or 0)
                _line(axis, over, ordered, plain(name) or "_", number)
        _labels(axis, over, device.label)
        axis.set_xlabel("compute units" if device.kind == "cpu" else "work-groups")
    if any(names):
        legend(figure, axes)
    return figure


def _staircase(card: Card, devices: Sequence[Shown]) -> Figure:
    """All devices in one plot: latency over working set, both logarithmic, intervals as bands."""
    figure, axes = subplots(1, height=5.2)
    _together(axes[0], card, devices)
    legend(figure, axes)
    return figure


def _curves(card: Card, devices: Sequence[Shown]) -> Figure:
    """All devices in one plot where their lines can be told apart, else one plot a device."""
    lines = _lines(card, devices)
    if len(lines) <= LINES:
        figure, axes = subplots(1, height=4.4)
        _together(axes[0], card, devices)
    else:
        figure, axes = subplots(len(devices), height=4.0)
        names = list(dict.fromkeys(params for _, params, _ in lines))  # one look for one name in every plot
        for axis, device in zip(axes, devices, strict=True):
            # named among all devices: of one alone what tells its lines apart may be less
            for _, params, rows in (line for line in lines if line[0] == device.label):
                _line(axis, card, rows, params, names.index(params))
            _labels(axis, card, device.label)
    legend(figure, axes)
    return figure


def _together(axis: Axes, card: Card, devices: Sequence[Shown]) -> None:
    """A line for each device and its other parameters; those of a chase over the bytes of the lines that it touches."""
    lines_of = {device.label: device.line_bytes for device in devices}
    for number, (label, params, rows) in enumerate(_lines(card, devices)):
        name = f"{label}, {params}" if params else label
        stretch = extent_per_line_byte(rows[0].value.params, lines_of[label]) if card.growing else 1.0
        if stretch is None:
            name += " (its line is not known: over the array's extent)"
        elif stretch > 1:
            name += f" (in an array {stretch:g} times as long)"
        _line(axis, card, rows, name, number, stretch or 1.0)
    _labels(axis, card, "")


def _bars(card: Card, devices: Sequence[Shown]) -> Figure:
    """One plot a device: a bar for each point at the largest size, in front of its theoretical peak."""
    tops = [_largest(card, device) for device in devices]
    figure, axes = subplots(len(devices), height=1.6 + 0.26 * max(len(rows) for _, rows in tops))
    for axis, device, (size, rows) in zip(axes, devices, tops, strict=True):
        medians = [r.value.median or 0.0 for r in rows]
        peaks = [r.peak.value if r.peak else 0.0 for r in rows]
        spread = [
            [m - (r.value.ci_low if r.value.ci_low is not None else m) for m, r in zip(medians, rows, strict=True)],
            [(r.value.ci_high if r.value.ci_high is not None else m) - m for m, r in zip(medians, rows, strict=True)],
        ]
        places = range(len(rows))
        if any(peaks):
            axis.barh(places, peaks, color="#dddddd", label="theoretical peak")
        axis.barh(places, medians, height=0.55, xerr=spread, color=colour(0), ecolor="#333333", label="achieved (95% interval)")
        for place, row in enumerate(rows):
            text = f" {format_value(medians[place])}" + (f"  {row.fraction:.0%}" if row.fraction else "")
            axis.text(medians[place] + spread[1][place], place, text, va="center", fontsize=8, color="#111111")
        axis.set_yticks(places, _names(rows))
        axis.set_xlim(0, 1.25 * max(*medians, *peaks))
        axis.invert_yaxis()
        axis.set_title(device.label, fontsize=10, loc="right")  # towards the names of the bars, where there is room
        axis.set_xlabel(_metric(card) + (f" at {size}" if size else ""))
        axis.grid(visible=False, axis="y")
    if any(row.peak for _, rows in tops for row in rows):
        legend(figure, axes)
    return figure


def _names(rows: Sequence[Row]) -> list[str]:
    """Short names of bars: the values alone, of the parameters that differ; the whole of what tells them apart if need be."""
    params = [r.value.params for r in rows]
    differing = [name for name in params[0] if len({str(p.get(name)) for p in params}) > 1]
    short = [", ".join(_short(name, p.get(name)) for name in differing) for p in params] if differing else []
    return [plain(name) for name in (short if len(set(short)) == len(rows) else labels(rows))]


def _short(name: str, value: object) -> str:
    """A parameter's value as a name of a bar has room for it."""
    return _number(value) if type(value) is int and not is_size(name) else format_param(name, value)


def _lines(card: Card, devices: Sequence[Shown]) -> list[tuple[str, str, list[Row]]]:
    """(device, other parameters, rows in order of x) of every line; parameters that all lines share are left out."""
    every = [row.value.params for device in devices for row in device.rows]
    shared = {n for params in every[:1] for n in params if all(p.get(n) == params[n] for p in every)}
    found: list[tuple[str, str, list[Row]]] = []
    for device in devices:
        groups: dict[str, list[Row]] = {}
        for row in device.rows:
            groups.setdefault(repr({k: v for k, v in row.value.params.items() if k != _x(card)}), []).append(row)
        found += [
            (
                device.label,
                _params(rows[0], {_x(card)} | shared),
                sorted(rows, key=lambda r: float(r.value.params[_x(card)])),
            )
            for rows in groups.values()
        ]
    return found


def _of_lines(card: Card, device: Shown) -> tuple[Row, ...]:
    """The rows of lines with enough points, of numbers, to be drawn as curves."""
    lines = _lines(card, [Shown(device.label, _numbered(card, device))])
    return tuple(row for _, _, rows in lines if len(rows) >= CURVE_POINTS for row in rows)


def _numbered(card: Card, device: Shown) -> tuple[Row, ...]:
    """The rows that have a place on a logarithmic axis of x."""
    x = _x(card)
    return tuple(r for r in device.rows if type(r.value.params.get(x)) in (int, float) and float(r.value.params[x]) > 0)


def _line(axis: Axes, card: Card, rows: Sequence[Row], label: str, number: int, stretch: float = 1.0) -> None:
    x = [float(r.value.params[_x(card)]) / stretch for r in rows]
    y = [r.value.median or 0.0 for r in rows]
    low = [r.value.ci_low if r.value.ci_low is not None else m for r, m in zip(rows, y, strict=True)]
    high = [r.value.ci_high if r.value.ci_high is not None else m for r, m in zip(rows, y, strict=True)]
    axis.plot(x, y, marker=MARKERS[number % len(MARKERS)], markersize=4, linewidth=1.4, color=colour(number), label=label)
    axis.fill_between(x, low, high, color=colour(number), alpha=0.2, linewidth=0)


def _labels(axis: Axes, card: Card, title: str) -> None:
    import numpy as np

    axis.set_xscale("log", base=2)
    values = [float(y) for line in axis.get_lines() for y in np.asarray(line.get_ydata(), dtype=float)]
    if max(values) > DECADES * min(values) > 0:
        log_y(axis)
    else:
        axis.set_ylim(0, 1.15 * float(axis.dataLim.ymax))  # bands included
    if is_size(_x(card)):
        axis.xaxis.set_major_formatter(lambda value, _: format_bytes(value))
        axis.set_xlabel(
            "lines that are touched" if card.growing else plain(_x(card).removesuffix("_bytes").replace("_", " ")) + " size"
        )
        axis.tick_params(axis="x", rotation=30)
    else:
        axis.xaxis.set_major_formatter(lambda value, _: _number(value))
        axis.set_xlabel(plain(_x(card).replace("_", " ")))
    if card.metrics[0].unit == "ns" and max(values) >= LONG_NS:
        axis.yaxis.set_major_formatter(lambda value, _: format_in(value, "ns", 1 if value < 10 else 2) if value else "0")
        axis.set_ylabel(plain(card.metrics[0].name.replace("_", " ")))
    else:
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_ylabel(_metric(card))
    axis.set_title(title, fontsize=10)


def _number(value: float) -> str:
    """A number as an axis has room for it: large powers of two as such."""
    large = value >= 1e5 and value == int(value) and int(value) & (int(value) - 1) == 0
    return f"2^{int(value).bit_length() - 1}" if large else f"{value:g}"


def _largest(card: Card, device: Shown) -> tuple[str, list[Row]]:
    """Of each line the row at its largest x, where x is a number, and what x is there where it is one; else all rows."""
    x = _x(card)
    if not all(type(r.value.params.get(x)) in (int, float) for r in device.rows):
        return "", list(device.rows)
    tops = [rows[-1] for _, _, rows in _lines(card, [device])]
    sizes = {float(r.value.params[x]) for r in tops}
    if len(sizes) > 1:
        return "", tops
    (size,) = sizes
    return format_bytes(int(size)) if is_size(x) else plain(f"{x} = {_number(size)}"), tops


def _params(row: Row, without: Collection[str]) -> str:
    return plain(format_params({k: v for k, v in row.value.params.items() if k not in without}))


def _metric(card: Card) -> str:
    """The headline metric and its unit, as an axis is labelled."""
    return plain(f"{card.metrics[0].name.replace('_', ' ')} ({card.metrics[0].unit})")


def _x(card: Card) -> str:
    return card.x or card.growing
