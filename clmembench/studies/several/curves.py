"""Figures of device_link and of the NUMA benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import value_and_interval
from clmembench.report.figures.style import MARKERS, bytes_axis, colour, legend, log_y, plain, subplots, svg
from clmembench.report.frame import LabelledRun
from clmembench.studies.several.matrices import BANDWIDTH, node_of_cores, node_of_memory
from clmembench.units import format_value


def device_link(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """A plot for each run: bandwidth over bytes from the first device to the second one, a line for each way."""
    plots = []
    for device in shown:
        lines: dict[str, list[tuple[int, float, float, float]]] = {}
        for row in device.rows:
            p = row.value.params
            if row.is_good and row.value.metric == BANDWIDTH and (p["traffic"], p["sender"], p["receiver"]) == ("one", 0, 1):
                lines.setdefault(str(p["by"]), []).append((int(p["array_bytes"]), *value_and_interval(row.value)))
        if lines:
            plots.append((plain(device.label), lines))
    if not plots:
        return ""
    figure, axes = subplots(len(plots), height=3.4)
    for axis, (label, lines) in zip(axes, plots, strict=True):
        for number, (way, points) in enumerate(sorted(lines.items())):
            sizes, medians, low, high = zip(*sorted(points), strict=True)
            axis.plot(sizes, medians, marker=MARKERS[number], markersize=4, linewidth=1.4, color=colour(number), label=way)
            axis.fill_between(sizes, low, high, color=colour(number), alpha=0.2, linewidth=0)
        axis.set_xscale("log", base=2)
        log_y(axis)
        bytes_axis(axis, "bytes from device 0 to device 1")
        axis.set_ylabel("bandwidth (GB/s)")
        axis.set_title(label, fontsize=10)
    legend(figure, axes)
    return svg(figure)


def numa(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """A map for each run and policy, where there are several nodes: cores of a node down, memory of a node across."""
    plots = []
    for device in shown:
        for policy in dict.fromkeys(str(row.value.params["policy"]) for row in device.rows):
            good = [row for row in device.rows if row.is_good and row.value.params["policy"] == policy]
            values = {(node_of_cores(row), node_of_memory(row)): row.value for row in good}
            if len(values) > 1:
                plots.append((f"{plain(device.label)}, {policy.replace('_', ' ')}", values))
    if not plots:
        return ""
    figure, axes = subplots(len(plots), height=3.4)
    for axis, (title, values) in zip(axes, plots, strict=True):
        down, across = (sorted({key[side] for key in values}) for side in (0, 1))
        medians = [[values[a, b].median if (a, b) in values else None for b in across] for a in down]
        numbers = [[float("nan") if median is None else median for median in line] for line in medians]
        axis.imshow(numbers, cmap="Blues", aspect="auto", alpha=0.5, interpolation="none")
        for y, line in enumerate(medians):
            for x, median in enumerate(line):
                axis.text(x, y, "–" if median is None else format_value(median), ha="center", va="center", color="black")
        axis.set_xticks(range(len(across)), [str(node) for node in across])
        axis.set_yticks(range(len(down)), [str(node) for node in down])
        axis.grid(visible=False)
        axis.set_xlabel("memory of node")
        axis.set_ylabel("cores of node")
        unit = next(iter(values.values())).unit
        axis.set_title(f"{title}, in {unit}", fontsize=10)
    return svg(figure)
