"""Figures over time: a device's history, one plot per quantity, and power, clock and temperature of one run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from clmembench.report.figures.device_rows import with_interval
from clmembench.report.figures.style import colour, image, legend, plain, spread, subplots, svg
from clmembench.report.many_runs.history import DeviceHistory, HistoryQuantity
from clmembench.report.sections.energy_tables import Condition

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_PLOTS = 40


def history_chart(history: DeviceHistory, form: str) -> bytes:
    """The figure in a format of matplotlib's, such as png, svg or pdf; of the first MAX_PLOTS quantities. Raises ValueError
    where there is no quantity, or no such format."""
    shown = history.quantities[:MAX_PLOTS]
    if not shown:
        raise ValueError("no quantity has a value in two runs, so there is nothing to draw")
    figure, axes = subplots(len(shown), height=2.6)
    for axis, quantity in zip(axes, shown, strict=True):
        _draw(axis, history, quantity)
    some = f": {len(shown)} of {len(history.quantities)} quantities" if len(history.quantities) > MAX_PLOTS else ""
    figure.suptitle(plain(history.device) + some, fontsize=11)
    legend(figure, axes)
    return image(figure, form)


def _draw(axis: Axes, history: DeviceHistory, quantity: HistoryQuantity) -> None:
    from matplotlib import dates

    times: list[Any] = [datetime.fromisoformat(run.started).replace(tzinfo=None) for run in history.runs]
    good = quantity.good()
    x, y = [times[moment.run - 1] for moment in good], [moment.value or 0.0 for moment in good]
    bars = spread([with_interval(value, moment.low, moment.high) for value, moment in zip(y, good, strict=True)])
    axis.errorbar(x, y, yerr=bars, fmt="o", markersize=4, capsize=2, color=colour(0), label="median, 95% interval")
    runs = [moment.run for moment in good]
    ends = [0, *(runs.index(change.run) for change in quantity.change_points), len(good)]
    if quantity.change_points:
        for first, last in pairwise(ends):
            level = median(y[first:last])
            axis.plot([x[first], x[last - 1]], [level] * 2, color=colour(1), linewidth=2, label="median between change points")
    for time, run, before in zip(times[1:], history.runs[1:], history.runs, strict=False):
        if run.driver != before.driver:
            axis.axvline(time, color="#777777", linewidth=1, linestyle="--", label="another driver")
    ticks: Any = dates  # its classes have no types
    locator = ticks.AutoDateLocator(minticks=2, maxticks=5)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ticks.DateFormatter("%Y-%m-%d"))
    axis.tick_params(labelsize=8)
    axis.set_title(plain(f"{quantity.group}: {quantity.quantity}"), fontsize=9)
    axis.set_ylabel(plain(quantity.unit), fontsize=8)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.margins(y=0.2)


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
