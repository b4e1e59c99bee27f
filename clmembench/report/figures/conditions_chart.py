"""Power, core clock and temperature over the time of a run, one plot each."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.report.figures.style import colour, subplots, svg
from clmembench.report.sections.energy_tables import Condition

SECONDS_A_MINUTE = 60.0


def conditions_chart(conditions: Sequence[Condition]) -> str:
    """Inline SVG; "" where there is nothing to draw."""
    if not conditions:
        return ""
    figure, axes = subplots(len(conditions), height=2.4, most_columns=3)
    for number, (axis, shown) in enumerate(zip(axes, conditions, strict=True)):
        minutes = [seconds / SECONDS_A_MINUTE for seconds in shown.seconds]
        axis.plot(minutes, shown.values, marker=".", markersize=4, linewidth=0.8, color=colour(number))
        axis.set_title(shown.name, fontsize=9)
        axis.set_xlabel("minutes since the first point", fontsize=8)
        axis.set_ylabel(shown.unit, fontsize=8)
        axis.tick_params(labelsize=8)
        axis.margins(y=0.2)
    return svg(figure)
