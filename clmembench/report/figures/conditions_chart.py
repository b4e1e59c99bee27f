"""Power, core clock and temperature over the time of a run, one plot each."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.report.figures.style import colour, subplots, svg
from clmembench.report.sections.energy_tables import Condition

SECONDS_A_MINUTE = 60.0
MAX_BUCKETS = 200  # of a curve: more are no wider than its line


def thinned(seconds: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """A long curve with the least and the greatest value of each of its parts, so that no dip and no peak is lost."""
    if len(values) <= 2 * MAX_BUCKETS:
        return list(seconds), list(values)
    kept: list[int] = []
    for bucket in range(MAX_BUCKETS):
        part = range(bucket * len(values) // MAX_BUCKETS, (bucket + 1) * len(values) // MAX_BUCKETS)
        kept += sorted({min(part, key=values.__getitem__), max(part, key=values.__getitem__)})
    return [seconds[at] for at in kept], [values[at] for at in kept]


def conditions_chart(conditions: Sequence[Condition]) -> str:
    """Inline SVG; "" where there is nothing to draw."""
    if not conditions:
        return ""
    figure, axes = subplots(len(conditions), height=2.4, most_columns=3)
    for number, (axis, shown) in enumerate(zip(axes, conditions, strict=True)):
        seconds, values = thinned(shown.seconds, shown.values)
        axis.plot(
            [s / SECONDS_A_MINUTE for s in seconds], values, marker=".", markersize=4, linewidth=0.8, color=colour(number)
        )
        axis.set_title(shown.name, fontsize=9)
        axis.set_xlabel("minutes since the first point", fontsize=8)
        axis.set_ylabel(shown.unit, fontsize=8)
        axis.tick_params(labelsize=8)
        axis.margins(y=0.2)
    return svg(figure)
