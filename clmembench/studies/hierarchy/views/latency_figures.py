"""Figures of a memory hierarchy as inline SVG: a map of latencies, the global latency patterns, the two classic methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from clmembench.model import Answer, Finding
from clmembench.model.work import Array
from clmembench.report.figures.device_rows import with_interval
from clmembench.report.figures.style import MARKERS, NO_NAME, bytes_axis, colour, legend, look, plain, spread, subplots, svg
from clmembench.report.finding_tables import property_label, value_text
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.views.layout import PATTERNS
from clmembench.units import format_bytes, format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Device = tuple[str, int, Mapping[str, Finding]]  # its name, its number on the page, and its patterns

MAX_LEGEND_LINES = 12  # lines that a legend has room for
MAX_SIZE_TICKS = 8  # at most, on the axis of sizes
MAX_FITTING_RATIO = 1.1  # ratio of the slowest to the fastest stride of an array that fits
ZOOM_SHARE = 0.2  # margin around the ramp, as a share of it
SAAVEDRA, WONG, FINE = "Saavedra 1992: latency over stride", "Wong 2010: latency over array size", "Single accesses"


def regions(cycles: Array, title: str = "", unit: str = "cycles", region: str = "region of the L2") -> str:
    """A heat map of the latency from each compute unit (rows) to each region (columns), both numbered from 0; cycles is of
    shape (units, regions), NaN where there is no value, which is left blank. "" where there is none at all."""
    values = np.ma.masked_invalid(np.asarray(cycles, dtype=float))
    if values.ndim != 2 or values.count() == 0:
        return ""
    figure, (axis,) = subplots(1, height=min(6.0, 2.0 + 0.03 * values.shape[0]))
    mesh = axis.imshow(values, cmap="viridis", aspect="auto", interpolation="none")  # one picture, a pixel a value
    figure.colorbar(mesh, ax=axis, label=plain(f"latency ({unit})"))
    for ticks, count in ((axis.set_xticks, values.shape[1]), (axis.set_yticks, values.shape[0])):
        step = next(s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1 << 20) if count <= 18 * s)
        ticks(range(0, count, step), [str(n) for n in range(0, count, step)])
    axis.set_xlabel(plain(region))
    axis.set_ylabel("compute unit")
    axis.grid(visible=False)
    low, high = format_value(float(values.min())), format_value(float(values.max()))
    axis.set_title(plain(f"{title}: " if title else "") + plain(f"{low} to {high} {unit}"), fontsize=10, loc="left")
    return svg(figure)


def patterns(devices: Sequence[_Device]) -> str:
    """Bars with intervals of the global latency patterns, P1 to P6 of Mei & Chu 2015 (figure 14), devices side by side; those
    in another unit have their own plot. A missing pattern has a text in place of its bar. "" for none."""
    by_unit: dict[str, list[_Device]] = {}
    for name, number, found in devices:
        unit = next((f.unit for f in found.values() if isinstance(f.value, (int, float))), "")
        if unit:
            by_unit.setdefault(unit, []).append((name, number, {k: f for k, f in found.items() if _in_unit(k, f, unit)}))
    if not by_unit:
        return ""
    most = max(len(group) for group in by_unit.values())
    names = list(dict.fromkeys(name for group in by_unit.values() for *_, found in group for name in found))
    figure, axes = subplots(len(by_unit), height=1.2 + len(names) * (0.24 + 0.2 * most))
    for axis, (unit, group) in zip(axes, by_unit.items(), strict=True):
        _bars(axis, names, group, short=len(by_unit) > 1)
        axis.set_xlabel(plain(f"latency ({unit})"))
    legend(figure, axes)
    return svg(figure)


def _in_unit(name: str, finding: Finding, unit: str) -> bool:
    """True if a finding is drawn in the plot of a unit: a pattern is stored in cycles and, under the name P1_ns, in ns."""
    twin = unit != "ns" and name.endswith("_ns")
    return finding.unit == unit or (finding.value is None and not twin)


def _bars(axis: Axes, names: Sequence[str], group: Sequence[_Device], short: bool) -> None:
    height, top = 0.8 / len(group), 0.0
    for place_in_group, (device, number, found) in enumerate(group):
        offset = (place_in_group - (len(group) - 1) / 2) * height
        known = {n: f for n, f in found.items() if isinstance(f.value, (int, float))}
        at = [names.index(name) + offset for name in known]
        ends = [with_interval(float(f.value), f.low, f.high) for f in known.values()]  # type: ignore[arg-type]
        shade, values = look(number).colour, [value for value, _, _ in ends]
        label = NO_NAME if len(group) > 1 else plain(device)  # of several devices the page's legend has the names
        axis.barh(at, values, 0.9 * height, xerr=spread(ends), color=shade, ecolor="#333333", label=label)
        top = max([top, *(high for *_, high in ends)])
        for place, (value, _, high) in zip(at, ends, strict=True):
            _beside(axis, high, place, format_value(value), "#111111")
        for name in [name for name in names if name not in known]:
            why = plain(found[name].status) if name in found else "not measured"
            _beside(axis, 0, names.index(name) + offset, why, "#555555")
    axis.set_yticks(range(len(names)), [plain(n if short or n not in PATTERNS else f"{n}: {PATTERNS[n]}") for n in names])
    axis.set_xlim(0, 1.15 * top or 1.0)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")


def _beside(axis: Axes, x: float, y: float, text: str, shade: str) -> None:
    """Text slightly to the right of a point; leading spaces would not be drawn."""
    axis.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color=shade)


def classic(found: ClassicReadings) -> str:
    """Both classic methods side by side, with their readings under each title. "" if neither has answers."""
    strides, sizes = _answered(found.strides), _answered(found.sizes)
    if not strides and not sizes:
        return ""
    figure, (left, right) = subplots(2, height=4.6)
    unit = (strides or sizes)[0].unit
    _over_strides(left, strides)
    _over_sizes(right, sizes)
    for axis, name, read in ((left, SAAVEDRA, found.by_strides), (right, WONG, found.by_sizes)):
        axis.set_title(f"{name}\n{plain(_read(read))}", fontsize=9, loc="left")
        axis.set_ylabel(plain(f"latency ({unit})"))
    return svg(figure)


def disagreements(found: ClassicReadings) -> list[str]:
    """Contradictions between the methods, one line per property: both are determined, and their intervals are disjoint."""
    by_method = {SAAVEDRA: found.by_strides, WONG: found.by_sizes, FINE: found.fine or {}}
    lines = []
    for name in dict.fromkeys(name for read in by_method.values() for name in read):
        sure = {
            m: f
            for m, read in by_method.items()
            if (f := read.get(name)) is not None and f.status == "ok" and f.value is not None
        }
        if any(_apart(a, b) for a, b in combinations(sure.values(), 2)):
            lines.append(
                f"{property_label(name)}: " + "; ".join(f"{m.split(':')[0]}, {value_text(f)}" for m, f in sure.items())
            )
    return lines


def _apart(first: Finding, second: Finding) -> bool:
    if isinstance(first.value, str) or isinstance(second.value, str):
        return first.value != second.value
    (_, low, high), (_, lowest, highest) = (with_interval(float(f.value or 0), f.low, f.high) for f in (first, second))
    return high < lowest or highest < low


def _read(read: Mapping[str, Finding]) -> str:
    values = [f"{property_label(n)} {value_text(f, interval=False)}" for n, f in read.items() if f.value is not None]
    missing = [property_label(n) for n, f in read.items() if f.value is None]
    return ", ".join(values + [f"not {' or '.join(missing)}"] * bool(missing))


def _answered(answers: Sequence[Answer]) -> list[Answer]:
    return [a for a in answers if a.value is not None and a.probe.pattern.stride_bytes > 0 and a.probe.pattern.count > 0]


def _over_strides(axis: Axes, answers: Sequence[Answer]) -> None:
    """One line per array size; those that are equally fast at every stride are grey."""
    from matplotlib import colormaps

    by_size: dict[int, dict[int, float]] = {}
    for a in answers:
        pattern = a.probe.pattern
        by_size.setdefault(pattern.count * pattern.stride_bytes, {})[pattern.stride_bytes] = float(a.value or 0)
    slow = [n for n, curve in sorted(by_size.items()) if max(curve.values()) > MAX_FITTING_RATIO * min(curve.values())]
    flat = [n for n in sorted(by_size) if n not in slow]
    shades: list[Any] = [colormaps["viridis_r"]((number + 2) / (len(slow) + 2)) for number in range(len(slow))]
    looks = {n: ("#999999", f"up to {format_bytes(flat[-1], 1)}" if n == flat[-1] else "_") for n in flat}
    looks |= {n: (shade, format_bytes(n, 1)) for n, shade in zip(slow, shades, strict=True)}
    for number, (size, (shade, name)) in enumerate(looks.items()):
        x, marker = sorted(by_size[size]), MARKERS[number % len(MARKERS)]
        y, over = [by_size[size][s] for s in x], 3 - size / max(by_size)  # draw smaller arrays over larger ones
        axis.plot(x, y, marker=marker, markersize=3.5, linewidth=1.1, color=shade, label=name, zorder=over)
    axis.set_xscale("log", base=2)
    bytes_axis(axis, "stride")
    axis.set_ylim(bottom=0)
    if 0 < len(slow) <= MAX_LEGEND_LINES:
        axis.legend(title="array", fontsize=8, title_fontsize=8, ncols=2, loc="lower center")


def _over_sizes(axis: Axes, answers: Sequence[Answer]) -> None:
    """One line; if it rises, only the rise is shown, since octaves would hide its steps."""
    from matplotlib.ticker import MultipleLocator

    curve = {a.probe.pattern.count * a.probe.pattern.stride_bytes: float(a.value or 0) for a in answers}
    x = sorted(curve)
    axis.plot(x, [curve[n] for n in x], marker="o", markersize=3, linewidth=1.1, color=colour(0))
    ends = _zoom(x, [curve[n] for n in x])
    if ends is not None:
        axis.set_xlim(*ends)
        axis.xaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2((ends[1] - ends[0]) / MAX_SIZE_TICKS))))
    strides = sorted({a.probe.pattern.stride_bytes for a in answers})
    bytes_axis(axis, "array size" + (f", stride {format_bytes(strides[0])}" if len(strides) == 1 else ""))
    axis.set_ylim(bottom=0)


def _zoom(x: Sequence[int], y: Sequence[float]) -> tuple[float, float] | None:
    """The range from the last size as fast as the smallest to the first almost as slow as the slowest, with a margin; None
    without a rise."""
    if len(x) < 3 or not max(y) > 1.1 * y[0]:
        return None
    first = next(n for n in range(1, len(x)) if y[n] > y[0] + 0.05 * (max(y) - y[0]))
    last = next(n for n in range(first, len(x)) if y[n] >= y[0] + 0.95 * (max(y) - y[0]))
    around = max(ZOOM_SHARE * (x[last] - x[first - 1]), 4 * (x[first] - x[first - 1]))
    return max(0.0, x[first - 1] - around), x[last] + around
