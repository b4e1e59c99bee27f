"""Figures of contention: latency over achieved bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.style import MARKERS, colour, legend, log_y, plain, spread, subplots, svg
from clmembench.report.frame import LabelledRun
from clmembench.studies.contention.loaded_curve import LATENCY_RATIO, UNLOADED, loaded_points
from clmembench.studies.contention.loaded_tables import PEAK, TRAFFIC_NAMES


def loaded(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> str:
    """A plot for each device: latency over achieved bandwidth, a line for each traffic, from the idle device on."""
    known = [(device, points) for device in devices if (points := loaded_points([row.value for row in device.rows]))]
    if not known:
        return ""
    figure, axes = subplots(len(known), height=3.8)
    for axis, (device, points) in zip(axes, known, strict=True):
        idle = next((p for p in points if p.traffic == UNLOADED), None)
        for number, (traffic, name) in enumerate(TRAFFIC_NAMES.items()):
            mine = [*([idle] if idle else []), *(p for p in points if p.traffic == traffic)]
            if mine[-1:] == [idle]:
                continue
            x, y = (
                [(i.value, i.low, i.high) for i in of] for of in zip(*((p.bandwidth, p.latency) for p in mine), strict=True)
            )
            axis.errorbar(
                [value for value, _, _ in x], [value for value, _, _ in y], spread(y), spread(x), marker=MARKERS[number],
                markersize=4, linewidth=1.2, elinewidth=0.8, color=colour(number), label=name,
            )  # fmt: skip
        if idle:
            label = f"{LATENCY_RATIO:g} times the unloaded latency"
            axis.axhline(LATENCY_RATIO * idle.latency.value, color="#666666", linestyle=":", linewidth=1.0, label=label)
        if device.sheet is not None and PEAK in device.sheet.figures:
            peak = device.sheet.figures[PEAK].value
            axis.axvline(peak, color="#b5651d", linestyle="--", linewidth=1.0, label="theoretical peak")
        axis.set_xlim(left=0)
        axis.set_xlabel("achieved bandwidth of the streams (GB/s)")
        axis.set_ylabel("latency of the chase (ns)")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_title(plain(device.label), fontsize=10)
        log_y(axis)
    legend(figure, axes)
    return svg(figure)
