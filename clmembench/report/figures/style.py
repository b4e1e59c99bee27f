"""Style shared by all figures: colours, markers, axes, harmless text, and inline SVG."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clmembench.sanitize import printable
from clmembench.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


STEPS = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(n / 10 for n in range(10, 100)))  # of labels in a decade, finer and finer
MIN_LOG_RATIO = 8.0  # of values; less is drawn on a linear scale from 0
LABEL_COUNT_RANGE = (3, 12)  # of a logarithmic axis: fewer tell nothing of a scale, more have no room
MAX_HALF_LEGEND_LETTERS = 62  # letters of a name that half a figure's width has room for, in a legend
SAMPLE_INCHES = 0.5, 0.17
MAX_NAME_LETTERS = 60  # of a name that a plot has room for
NO_NAME = "_"  # of a line that a figure's legend leaves out
MARKERS = "osD^vPX*<>hp"
STYLE = "seaborn-v0_8-whitegrid"
CHANGES: dict[str, Any] = {
    "axes.labelsize": 10, "axes.titlesize": 11, "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "clmembench",
    # the first is matplotlib's own, so that a figure has the same layout on every host
    "font.sans-serif": ["DejaVu Sans", "Arial", "Liberation Sans", "sans-serif"],
}  # fmt: skip
# seaborn's "colorblind" (after Wong 2011) without yellow and pink, too pale on white; neighbours differ most
COLOURS = ("#0173b2", "#d55e00", "#029e73", "#cc78bc", "#de8f05", "#56b4e9", "#222222", "#949494")
DEVICE_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "p")
# 8, 11 and 5 have no common factor, so the first 440 devices have looks of their own
LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2, 1, 1.2, 1, 1.2)))


def plain(text: str) -> str:
    """Text as matplotlib draws it: printable, no wider than a plot, and without dollars that would start a formula."""
    # what tells names apart, such as a file's, is more often at their end
    short = (
        text
        if len(text) <= MAX_NAME_LETTERS
        else text[: MAX_NAME_LETTERS // 3] + "…" + text[-(MAX_NAME_LETTERS - MAX_NAME_LETTERS // 3 - 1) :]
    )
    return printable(short).replace("$", r"\$")


def bytes_axis(axis: Axes, label: str) -> None:
    """A horizontal axis of sizes, in IEC units."""
    axis.xaxis.set_major_formatter(lambda value, _: format_bytes(value))
    axis.tick_params(axis="x", rotation=30)
    axis.set_xlabel(label)


def subplots(
    count: int, height: float, most_columns: int = 2, layout: Literal["constrained"] | None = "constrained"
) -> tuple[Figure, list[Axes]]:
    """Up to so many plots a row; figures are not pyplot's, so nothing lives on after them. A layout costs a drawing."""
    from matplotlib import style
    from matplotlib.figure import Figure as MatplotlibFigure

    style.use(["default", STYLE, CHANGES])  # not what a file matplotlibrc says, which is looked for in the current folder first
    columns = min(most_columns, count)
    lines = -(-count // columns)
    figure = MatplotlibFigure(figsize=(10, height * lines), layout=layout)
    grid: Any = figure.subplots(lines, columns, squeeze=False)
    axes = [axis for line in grid for axis in line]
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def log_labels(low: float, high: float) -> list[float]:
    """Where a logarithmic axis from `low` to `high`, both above 0, has labels: 1, 2 and 5 of each decade, more of them where
    fewer than three lie on it, and whole decades where those would be too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found: list[float] = []
    for steps in STEPS:
        found = [
            m * 10.0**k for k in range(first, last + 1) for m in steps if low <= m * 10.0**k * (1 + 1e-9) <= high * (1 + 2e-9)
        ]
        if len(found) >= LABEL_COUNT_RANGE[0]:
            break
    if len(found) > LABEL_COUNT_RANGE[1]:
        decades = [value for value in (10.0**k for k in range(first, last + 1)) if low <= value <= high]
        found = decades if len(decades) > LABEL_COUNT_RANGE[0] else found
        found = found[:: -(-len(found) // LABEL_COUNT_RANGE[1])]
    return found


def log_y(axis: Axes) -> None:
    """A logarithmic axis of values, with labels for all that is drawn. To be called when everything is."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(FixedLocator(log_labels(low, high)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.yaxis.set_minor_locator(NullLocator())  # they have no marks, and laying them out takes long


def spread(ends: Sequence[tuple[float, float, float]]) -> list[list[float]]:
    """How far the ends of intervals lie below and above their values, as error bars are given; of (value, low, high)."""
    return [[value - low for value, low, _ in ends], [high - value for value, _, high in ends]]


def colour(number: int) -> Any:
    """The colour of the line or bar of that number; they can be told apart by the colour-blind."""
    return COLOURS[number % len(COLOURS)]


def svg(figure: Figure) -> str:
    """The figure as an element of a page: without a document's header, metadata or namespaces, which would be URLs in it."""
    out = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that have no room or no glyph here; tables have them whole
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue()
    return re.sub(r' xmlns(:xlink)?="[^"]*"', "", text[text.index("<svg") :])


def image(figure: Figure, form: str) -> bytes:
    """The figure as a file in a format of matplotlib's, such as png, svg or pdf, without a date. Raises ValueError for no such
    format."""
    out = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(out, format=form, metadata=dates.get(form))
    return out.getvalue()


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend below all plots, where it covers nothing; each label once."""
    found = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if any(found):
        columns = 2 if max(map(len, found)) <= MAX_HALF_LEGEND_LETTERS else 1
        looks: dict[str, Any] = {"fontsize": 8, "frameon": False, "handlelength": 3}
        figure.legend(found.values(), found.keys(), ncols=columns, loc="outside lower center", **looks)


@dataclass(frozen=True, slots=True)
class Look:
    """How a device is drawn; `line` is a line style of matplotlib's, a name or a pattern of dashes in points."""

    colour: Any
    marker: str
    line: Any


def sample(number: int) -> str:
    """Inline SVG of a piece of that device's line, for the page's legend."""
    figure, (axis,) = subplots(1, 1.0, layout=None)
    figure.set_size_inches(SAMPLE_INCHES)
    axis.set_position((0, 0, 1, 1))
    axis.set_axis_off()
    mine = look(number)
    axis.plot([0, 1, 2], [0, 0, 0], color=mine.colour, linestyle=mine.line, linewidth=1.6)
    axis.plot([1], [0], color=mine.colour, marker=mine.marker, markersize=6)
    axis.set_xlim(0, 2)
    return svg(figure)


def look(number: int) -> Look:
    """The look of the device of that number, counted from 0 in the order of the page."""
    return Look(
        COLOURS[number % len(COLOURS)],
        DEVICE_MARKERS[number % len(DEVICE_MARKERS)],
        LINE_STYLES[number % len(LINE_STYLES)],
    )
