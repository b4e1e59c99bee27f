"""What all figures share: how they look, what text in them may be, and how they become part of a page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clmembench.shown import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTERS = 60  # of a name that a plot has room for
MARKERS = "osD^vPX*<>hp"


def plain(text: str) -> str:
    """Text as matplotlib draws it: printable, no wider than a plot, and without dollars that would start a formula."""
    # what tells names apart, such as a file's, is more often at their end
    short = text if len(text) <= LETTERS else text[: LETTERS // 3] + "…" + text[-(LETTERS - LETTERS // 3 - 1) :]
    return printable(short).replace("$", r"\$")


def subplots(count: int, height: float, most_columns: int = 2) -> tuple[Figure, list[Axes]]:
    """Up to so many plots a row; figures are not pyplot's, so nothing lives on after them."""
    import seaborn
    from matplotlib import rcdefaults, rcParams
    from matplotlib.figure import Figure as MatplotlibFigure

    rcdefaults()  # not what a file matplotlibrc says, which is looked for in the current folder first
    seaborn.set_theme(style="whitegrid", rc={"svg.fonttype": "none", "svg.hashsalt": "clmembench", "font.size": 9})
    rcParams["font.family"] = "sans-serif"
    columns = min(most_columns, count)
    lines = -(-count // columns)
    figure = MatplotlibFigure(figsize=(10, height * lines), layout="constrained")
    grid: Any = figure.subplots(lines, columns, squeeze=False)
    axes = [axis for line in grid for axis in line]
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def colour(number: int) -> Any:
    """The colour of the line or bar of that number; they can be told apart by the colour-blind."""
    import seaborn

    return seaborn.color_palette("colorblind")[number % 10]


def svg(figure: Figure) -> str:
    """The figure as an element of a page: without a document's header, metadata or namespaces, which would be URLs in it."""
    out = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that have no room or no glyph here; tables have them whole
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue()
    return re.sub(r' xmlns(:xlink)?="[^"]*"', "", text[text.index("<svg") :])


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend below all plots, where it covers nothing; each label once."""
    found = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if any(found):
        figure.legend(found.values(), found.keys(), fontsize=8, frameon=False, ncols=2, loc="outside lower center")
