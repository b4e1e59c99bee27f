"""Figures of global memory's throughput: Mei & Chu's figure 12 of each device, and bandwidth over the size reread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.model import Card
from clmembench.report.drawing import MARKERS, colour, legend, plain, subplots, svg
from clmembench.report.figures import Shown
from clmembench.report.rows import Row
from clmembench.report.throughput import best_of_sets, good
from clmembench.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 2  # points of a line


def grid(card: Card, shown: Sequence[Shown]) -> str:
    """A plot for each device and work-group size: throughput over the number of work-groups, a line an ILP."""
    plots: list[tuple[str, list[Row], float]] = []
    for device in shown:
        rows = good(device.rows)
        top = max((row.value.ci_high or row.value.median or 0.0 for row in rows), default=0.0)
        sizes = sorted({int(row.value.params["work_group"]) for row in rows})
        for size in sizes:
            mine = [row for row in rows if row.value.params["work_group"] == size]
            plots.append((f"{plain(device.label)}, work-groups of {size}", mine, top))
    plots = [plot for plot in plots if len({row.value.params["groups"] for row in plot[1]}) >= LEAST]
    if not plots:
        return ""
    figure, axes = subplots(len(plots), height=3.2)
    for axis, (title, rows, top) in zip(axes, plots, strict=True):
        for number, ilp in enumerate(sorted({int(row.value.params["ilp"]) for row in rows})):
            _line(axis, [row for row in rows if row.value.params["ilp"] == ilp], "groups", f"ILP {ilp}", number)
        peak = next((row.peak.value for row in rows if row.peak), None)
        if peak:
            axis.axhline(peak, color="#999999", linestyle="--", linewidth=1.0, label="theoretical peak")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_ylim(0, 1.08 * max(top, peak or 0.0))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_xlabel("work-groups")
        axis.set_ylabel("throughput (GB/s)")
        axis.set_title(title, fontsize=10)
    legend(figure, axes)
    return svg(figure)


def caches(card: Card, shown: Sequence[Shown]) -> str:
    """A plot for each device: read bandwidth over the size of the set, a line for each kind of set and path."""
    devices = [(plain(s.label), best_of_sets(s.rows)) for s in shown]
    devices = [(label, rows) for label, rows in devices if len(rows) >= LEAST]
    if not devices:
        return ""
    figure, axes = subplots(len(devices), height=3.6)
    for axis, (label, rows) in zip(axes, devices, strict=True):
        lines = sorted({(str(row.value.params["set"]), str(row.value.params["path"])) for row in rows})
        for number, (kind, path) in enumerate(lines):
            mine = [r for r in rows if (r.value.params["set"], r.value.params["path"]) == (kind, path)]
            name = f"{kind} set" + (", first cache left out" if path == "cg" else "")
            _line(axis, mine, "set_bytes", name, number)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: format_bytes(value))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.yaxis.set_minor_formatter("")
        axis.tick_params(axis="x", rotation=30)
        axis.set_xlabel("set that is reread, by each compute unit or by all")
        axis.set_ylabel("read bandwidth (GB/s)")
        axis.set_title(label, fontsize=10)
    legend(figure, axes)
    return svg(figure)


def _line(axis: Axes, rows: Sequence[Row], x: str, label: str, number: int) -> None:
    ordered = sorted(rows, key=lambda row: float(row.value.params[x]))
    places = [float(row.value.params[x]) for row in ordered]
    medians = [row.value.median or 0.0 for row in ordered]
    low = [m if row.value.ci_low is None else row.value.ci_low for row, m in zip(ordered, medians, strict=True)]
    high = [m if row.value.ci_high is None else row.value.ci_high for row, m in zip(ordered, medians, strict=True)]
    marker = MARKERS[number % len(MARKERS)]
    axis.plot(places, medians, marker=marker, markersize=4, linewidth=1.4, color=colour(number), label=label)
    axis.fill_between(places, low, high, color=colour(number), alpha=0.2, linewidth=0)
