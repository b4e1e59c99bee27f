"""The roofline of each device as a figure: measured roofs, theoretical ones dashed, and a dot for each kernel under them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clmembench.analysis.roofline import KernelPosition, Roofline
from clmembench.analysis.roofs import MEMORY, Roof
from clmembench.report.figures.style import MARKERS, colour, legend, plain, spread, subplots, svg
from clmembench.units import format_param, format_value, is_byte_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes


HEIGHT = 4.6
NAMED = {"double": "FP64", "float": "FP32"}
THEORETICAL = "theoretical, of the spec sheet"
FITS = ", its data fit a cache as stated"
MAX_SHARED_NAME_DECADES = 0.08  # decades: roofs so near each other have one name
FONT, WIDTH_POINTS, HEIGHT_POINTS, LINE_STEPS = 7.5, 600.0, 240.0, 120  # of a plot, about, since its labels take their room
MEASURED, FAINT, SHEET = "#222222", "#6b6b6b", "#b5651d"


@dataclass(frozen=True, slots=True)
class Plot:
    """One device in one precision, under the name that the report gives the device."""

    label: str
    precision: str
    roofline: Roofline

    @property
    def placed(self) -> list[KernelPosition]:
        return [p for p in self.roofline.placed if p.precision == self.precision]

    def span(self) -> tuple[float, float]:
        """The intensities drawn: all kernels', and where levels' roofs meet those of arithmetic. Names need room, right."""
        tops = [top.rate.value for top in self.roofline.arithmetic(self.precision)]
        every = [p.intensity for p in self.placed] + [top / roof.rate.value for top in tops for roof in self.roofline.levels]
        return min(every) / 8, 12 * max(every)

    @property
    def memory(self) -> Roof:
        return next(roof for roof in self.roofline.levels if roof.name == MEMORY)

    @property
    def top(self) -> float:
        """The highest measured roof of arithmetic, in GFLOP/s."""
        return max(roof.rate.value for roof in self.roofline.arithmetic(self.precision))


def plots(found: Sequence[tuple[str, Roofline]]) -> list[Plot]:
    """A plot for each device and precision that has kernels with a place."""
    every = [Plot(plain(label), precision, roofline) for label, roofline in found for precision in NAMED]
    return [plot for plot in every if plot.placed]


def drawn(found: Sequence[tuple[str, Roofline]]) -> str:
    """Inline SVG of all devices' rooflines, with one legend; "" where no kernel has a place."""
    all_plots = plots(found)
    if not all_plots:
        return ""
    figure, axes = subplots(len(all_plots), HEIGHT, most_columns=1)
    names = sorted({p.value.benchmark for plot in all_plots for p in plot.placed})  # one look for one name in every plot
    for axis, plot in zip(axes, all_plots, strict=True):
        _scales(axis, plot)
        _roofs(axis, plot)
        for number, name in enumerate(names):
            _dots(axis, [p for p in plot.placed if p.value.benchmark == name], plain(name), number)
        _names(axis, plot)
    legend(figure, axes)
    return svg(figure)


def _scales(axis: Axes, plot: Plot) -> None:
    left, right = plot.span()
    rates = [p.gflop_s.value for p in plot.placed]
    lowest = min(plot.memory.rate.value * left, 0.6 * min(rates))
    # small sizes, which show what a launch costs, may lie far below; five decades are enough to see that
    bottom = max(lowest, plot.top / 1e5)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(left, right)
    axis.set_ylim(bottom, 3 * max(plot.top, *rates))
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(lambda value, _: f"{value:,g}")
        one.set_minor_formatter("")
    axis.set_xlabel("arithmetic intensity (FLOP per byte of memory)")
    axis.set_ylabel("achieved (GFLOP/s)")
    axis.set_title(f"{plot.label}, {NAMED[plot.precision]}", fontsize=10)
    below = sum(rate < bottom for rate in rates)
    if below:
        axis.text(0.99, 0.02, f"{below} below this plot", transform=axis.transAxes, ha="right", fontsize=7, color=FAINT)


def _roofs(axis: Axes, plot: Plot) -> None:
    """Memory's roof and arithmetic's in full, those of inner levels faint, each with its band and its name on it."""
    left, right = plot.span()
    for roof in plot.roofline.arithmetic(plot.precision):
        start = roof.rate.value / plot.memory.rate.value
        _line(axis, roof, (start, right), level=False)
        text = f"{roof.name} {format_value(roof.rate.value / 1e3)} TFLOP/s" if roof.rate.value >= 1e4 else (
            f"{roof.name} {format_value(roof.rate.value)} GFLOP/s")  # fmt: skip
        # where the roof begins: kernels that reach it do many operations a byte, far to the right
        axis.text(1.45 * start, 1.04 * roof.rate.value, text, ha="left", va="bottom", fontsize=FONT, color=MEASURED)
    for roof in plot.roofline.levels:
        _line(axis, roof, (left, plot.top / roof.rate.value), level=True)
    for together in _beside(plot.roofline.levels):
        rate = max(roof.rate.value for roof in together)
        axis.text(
            0.75 * plot.top / rate, 1.12 * 0.75 * plot.top,
            ", ".join(f"{roof.name} {format_value(roof.rate.value)}" for roof in together) + " GB/s",
            rotation=math.degrees(math.atan(rate)), rotation_mode="anchor", transform_rotates_text=True,
            ha="right", va="bottom", fontsize=FONT, color=MEASURED if together[0].name == MEMORY else FAINT,
        )  # fmt: skip


def _beside(levels: Sequence[Roof]) -> list[list[Roof]]:
    """Roofs that lie on each other together, since they have room for one name."""
    found: list[list[Roof]] = []
    for roof in levels:
        near = (g for g in found if abs(math.log10(g[0].rate.value / roof.rate.value)) < MAX_SHARED_NAME_DECADES)
        group = next(near, None)
        if group is None:
            found.append([roof])
        else:
            group.append(roof)
    return found


def _line(axis: Axes, roof: Roof, ends: tuple[float, float], level: bool) -> None:
    rate, strong = roof.rate, not level or roof.name == MEMORY

    def heights(of: float) -> list[float]:
        return [of * x for x in ends] if level else [of, of]

    shade, width, label = (
        (MEASURED, 1.6, "measured roof, with its interval") if strong else (FAINT, 0.9, "roof of an inner level")
    )
    axis.plot(ends, heights(rate.value), color=shade, linewidth=width, zorder=2, label=label)
    axis.fill_between(ends, heights(rate.low), heights(rate.high), color=MEASURED, alpha=0.25 if strong else 0.1, linewidth=0)
    if roof.theoretical is not None and strong:
        sheet = heights(roof.theoretical.value)
        axis.plot(ends, sheet, color=SHEET, linewidth=1.0, linestyle="--", zorder=2.5, label=THEORETICAL)


def _dots(axis: Axes, placed: Sequence[KernelPosition], name: str, number: int) -> None:
    """A dot for each kernel with its interval, hollow where its data fit a cache and memory's roof need not hold."""
    look, mark = colour(number), MARKERS[number % len(MARKERS)]
    for hollow in (False, True):
        mine = [p for p in placed if hollow == (p.cached and p.bound.name == MEMORY)]
        if not mine:
            continue
        x, y = [p.intensity for p in mine], [p.gflop_s.value for p in mine]
        ends = [(p.gflop_s.value, p.gflop_s.low, p.gflop_s.high) for p in mine]
        axis.errorbar(
            x, y, yerr=spread(ends), fmt=mark, markersize=5, color=look, ecolor=look, elinewidth=0.8, zorder=3,
            markerfacecolor="white" if hollow else look, label=f"{name}{FITS}" if hollow else name,
        )  # fmt: skip


def _names(axis: Axes, plot: Plot) -> None:
    """The fastest kernel of each benchmark, and of each of its variants, by name beside its dot."""
    best: dict[tuple[str, str], KernelPosition] = {}
    for p in plot.placed:
        key = (p.value.benchmark, str(p.value.params.get("variant", "")))
        if key not in best or p.gflop_s.value > best[key].gflop_s.value:
            best[key] = p
    fastest = sorted(best.values(), key=lambda p: -p.gflop_s.value)
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()

    def place(intensity: float, gflop_s: float) -> tuple[float, float]:
        return (
            WIDTH_POINTS * math.log(intensity / left) / math.log(right / left),
            HEIGHT_POINTS * math.log(gflop_s / bottom) / math.log(top / bottom),
        )

    steps = [left * (right / left) ** (i / LINE_STEPS) for i in range(LINE_STEPS)]
    tops = [roof.rate.value for roof in plot.roofline.arithmetic(plot.precision)]
    in_way = [place(x, min(top, plot.memory.rate.value * x)) for x in steps for top in tops]
    in_way += [place(p.intensity, p.gflop_s.value) for p in plot.placed]
    names = [_short(p) for p in fastest]
    dots = [place(p.intensity, p.gflop_s.value) for p in fastest]
    for p, name, (right_by, up_by) in zip(fastest, names, offsets(dots, names, in_way, FONT), strict=True):
        far = math.hypot(right_by, up_by) > 2 * FONT
        axis.annotate(
            name, (p.intensity, p.gflop_s.value), (right_by, up_by), textcoords="offset points", fontsize=FONT, va="center",
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkB": 3} if far else None, zorder=4,
        )  # fmt: skip


def _short(p: KernelPosition) -> str:
    """The benchmark and what it was given, but for its type, which the plot names."""
    values = {k: v for k, v in p.value.params.items() if k != "dtype"}
    words = [format_param(k, v) if is_byte_size(k) else _power(k, v) for k, v in values.items()]
    return plain(" ".join([p.value.benchmark, *words]))


def _power(name: str, value: object) -> str:
    large = isinstance(value, int) and value > 1 << 16 and value & (value - 1) == 0
    number = f"2^{value.bit_length() - 1}" if large and isinstance(value, int) else str(value)
    return f"{name}={number}" if isinstance(value, int) else number


Spot = tuple[float, float]  # to the right and up, in points

LETTER = 0.56  # of a font's size: the mean width of a letter
RIGHT = (7.0, 20.0, 40.0, 65.0, 95.0, 130.0)
UP = tuple(4.5 * step for step in range(-22, 23))
AWAY = 3.5  # points about a dot or a line's point that a name leaves free


def offsets(dots: Sequence[Spot], names: Sequence[str], in_way: Sequence[Spot], font: float) -> list[Spot]:
    """For each dot how far from it its name begins, at half its height: the nearest place to its right that is free of `in_way`
    and of the names before it; just beside the dot where none is."""
    found: list[Spot] = []
    taken: list[tuple[float, float, float, float]] = [(x - AWAY, y - AWAY, x + AWAY, y + AWAY) for x, y in in_way]
    tried = sorted(itertools.product(RIGHT, UP), key=lambda spot: math.hypot(*spot))
    for (x, y), name in zip(dots, names, strict=True):
        boxes = [(spot, _box((x + spot[0], y + spot[1]), name, font)) for spot in tried]
        spot, box = next((pair for pair in boxes if not any(_overlap(pair[1], other) for other in taken)), boxes[0])
        found.append(spot)
        taken.append(box)
    return found


def _box(at: Spot, name: str, font: float) -> tuple[float, float, float, float]:
    return at[0], at[1] - 0.6 * font, at[0] + LETTER * font * len(name), at[1] + 0.6 * font


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
