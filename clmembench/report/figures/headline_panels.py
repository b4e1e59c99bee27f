"""Headline quantities of many devices as small multiples: a panel a quantity, a row a device, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.model.metrics import score
from clmembench.report.figures.style import colour, plain, subplots, svg
from clmembench.report.scorecard_cells import Line, Scorecard, ScorecardCell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ROWS = 40  # devices of a panel: the best ones
ROW_INCHES, TITLE_INCHES = 0.17, 0.55
MAX_LINEAR_RATIO = 20.0  # largest value over the smallest, from which on a panel is logarithmic
PANELS_A_FIGURE = 8  # more would make a figure that no screen shows whole

_Row = tuple[str, ScorecardCell]


def panel_figures(found: Scorecard) -> list[str]:
    """The figures as inline SVG; quantities that fewer than two devices have a value of are left out."""
    panels = [(line, rows) for line in found.lines if len(rows := _ranked(line, found.labels)) > 1]
    return [_figure(panels[start : start + PANELS_A_FIGURE]) for start in range(0, len(panels), PANELS_A_FIGURE)]


def _ranked(line: Line, labels: Sequence[str]) -> list[_Row]:
    """Devices with a value, the best first; none of a quantity of which more is neither better nor worse."""
    having = [(label, cell) for label, cell in zip(labels, line.cells, strict=True) if cell.value]
    return sorted(having, key=lambda row: -score(row[1].value or 0.0, line.better)) if line.better else []


def _figure(panels: Sequence[tuple[Line, Sequence[_Row]]]) -> str:
    rows = max(min(len(rows), MAX_ROWS) for _, rows in panels)
    figure, axes = subplots(len(panels), height=TITLE_INCHES + ROW_INCHES * rows)
    for axis, (line, ranked) in zip(axes, panels, strict=True):
        _draw(axis, line, ranked[:MAX_ROWS], len(ranked))
        axis.set_ylim(rows - 0.4, -0.6)  # rows of all panels are as high
    return svg(figure)


def _draw(axis: Axes, line: Line, rows: Sequence[_Row], count: int) -> None:
    values = [cell.value or 0.0 for _, cell in rows]
    places = range(len(rows))
    ends = [(cell.low or value, cell.high or value) for value, (_, cell) in zip(values, rows, strict=True)]
    axis.hlines(places, [low for low, _ in ends], [high for _, high in ends], color="#777777", linewidth=1.5)
    axis.scatter(values, places, s=14, zorder=3, color=[colour(2 if cell.is_best else 0) for _, cell in rows])
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    if most > MAX_LINEAR_RATIO * least > 0:
        axis.set_xscale("log")
        axis.set_xlim(least / 1.2, most * (most / least) ** 0.45)  # room for the values' texts
    else:
        axis.set_xlim(0, most * 1.5)
    for place, (value, (_, cell)) in enumerate(zip(values, rows, strict=True)):
        axis.annotate(
            plain(cell.text), (max(value, ends[place][1]), place), (5, 0), textcoords="offset points", va="center", fontsize=7
        )
    axis.set_yticks(list(places), [plain(label) for label, _ in rows], fontsize=7)
    axis.set_xticks([], [])
    axis.set_xticks([], [], minor=True)
    axis.grid(axis="y", color="#dddddd", linewidth=0.5)
    of = f", the best {len(rows)} of {count}" if count > len(rows) else ""
    axis.set_title(plain(f"{line.name}{of}{', log scale' if axis.get_xscale() == 'log' else ''}"), fontsize=9)
