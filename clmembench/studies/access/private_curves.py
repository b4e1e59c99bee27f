"""The figure of private arrays: cost of a step over array size, one plot per pattern; hollow markers are not in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import value_and_interval
from clmembench.report.figures.style import LINE_STYLES, MIN_LOG_RATIO, Look, legend, log_y, look, plain, subplots, svg
from clmembench.report.frame import LabelledRun
from clmembench.studies.access.registers import arrays_in_registers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLACE_SUFFIX = {None: "", True: ", in registers", False: ", not in registers"}


@dataclass(frozen=True, slots=True)
class _Dot:
    """One point of a line: where it lies, its interval, and whether its array is in registers (None: unknown)."""

    words: int
    cost: float
    low: float
    high: float
    kept: bool | None


def registers_figure(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """A plot for each pattern, a line for each device and indexing; "" where no point has a cost."""
    values = [r.value for s in shown for r in s.rows if r.is_good]
    in_cycles = all(v.cycles is not None for v in values)
    lines: dict[str, dict[str, list[_Dot]]] = {}
    looks: dict[str, Look] = {}
    ways: list[str] = []  # of indexing, by line style
    for device in shown:
        good = [r.value for r in device.rows if r.is_good]
        for value, kept in zip(good, arrays_in_registers(good), strict=True):
            words = value.params.get("words")
            if not isinstance(words, int) or words <= 0:
                continue
            name = plain(", ".join([device.label] * (len(shown) > 1) + [str(value.params.get("indexing"))]))
            cost, low, high = value_and_interval(value, in_cycles)
            named = lines.setdefault(str(value.params.get("pattern")), {})
            named.setdefault(name, []).append(_Dot(words, cost, low, high, kept))
            ways = list(dict.fromkeys([*ways, str(value.params.get("indexing"))]))
            style = LINE_STYLES[ways.index(str(value.params.get("indexing"))) % len(LINE_STYLES)]
            looks[name] = replace(look(device.number), line=style)
    if not lines:
        return ""
    figure, axes = subplots(len(lines), height=3.2)
    for axis, (pattern, named) in zip(axes, lines.items(), strict=True):
        for name, dots in named.items():
            _line(axis, name, sorted(dots, key=lambda dot: dot.words), looks[name])
        _labels(axis, pattern, named, "cycles a step" if in_cycles else "ns a step")
    legend(figure, axes)
    return svg(figure)


def _line(axis: Axes, name: str, dots: Sequence[_Dot], mine: Look) -> None:
    from matplotlib.lines import Line2D

    x, shade = [dot.words for dot in dots], mine.colour
    axis.plot(x, [dot.cost for dot in dots], linewidth=1.2, color=shade, linestyle=mine.line)
    axis.fill_between(x, [dot.low for dot in dots], [dot.high for dot in dots], color=shade, alpha=0.2, linewidth=0)
    for kept, suffix in PLACE_SUFFIX.items():
        at = [dot for dot in dots if dot.kept is kept]
        if at:
            face = "white" if kept is False else shade
            handle = Line2D(
                [], [], color=shade, marker=mine.marker, markersize=5, markerfacecolor=face, linestyle=mine.line, linewidth=1.2
            )
            handle.set_label(name + suffix)
            axis.add_line(handle)  # what the legend shows: the line and its marks as one
            axis.plot(
                [dot.words for dot in at], [dot.cost for dot in at], mine.marker,
                markersize=5, color=shade, markerfacecolor=face,
            )  # fmt: skip


def _labels(axis: Axes, pattern: str, named: Mapping[str, Sequence[_Dot]], unit: str) -> None:
    costs = [dot.cost for dots in named.values() for dot in dots]
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if max(costs) > MIN_LOG_RATIO * min(costs) > 0:
        log_y(axis)
    else:
        axis.set_ylim(0, 1.15 * max(costs))
    axis.set_title(plain(pattern), fontsize=10)
    axis.set_xlabel("words of one array")
    axis.set_ylabel(unit)
