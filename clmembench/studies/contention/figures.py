"""Figures of contention: latency over achieved bandwidth, and latency between compute units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.style import MARKERS, colour, legend, plain, spread, subplots, svg
from clmembench.report.frame import LabelledRun
from clmembench.studies.contention.loaded_curve import LATENCY_RATIO, UNLOADED, loaded_points
from clmembench.studies.contention.loaded_tables import PEAK, TRAFFIC_NAMES
from clmembench.studies.contention.pair_clusters import find_clusters
from clmembench.studies.contention.pair_tables import pair_map
from clmembench.units import format_value

MAX_NUMBERED_UNITS = 8  # whose pairs have room for a number


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
        axis.set_xlim(0, 1.03 * axis.get_xlim()[1])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("achieved bandwidth of the streams (GB/s)")
        axis.set_ylabel("latency of the chase (ns)")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_title(plain(device.label), fontsize=10)
    legend(figure, axes)
    return svg(figure)


def pairs(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> str:
    """A heat map for each device: latency from each compute unit to each other, units of one cluster side by side."""
    known = [(device, found) for device in devices for row in device.rows if (found := pair_map(row)) is not None]
    if not known:
        return ""
    figure, axes = subplots(len(known), height=4.2)
    for axis, (device, found) in zip(axes, known, strict=True):
        levels, _ = find_clusters(found)
        order = sorted(range(len(found.units)), key=lambda n: tuple(level.of_unit[n] for level in reversed(levels)))
        values = found.ns[np.ix_(order, order)]
        mesh = axis.imshow(np.ma.masked_invalid(values), cmap="viridis", aspect="auto", interpolation="none")
        figure.colorbar(mesh, ax=axis, label="one-way latency (ns)")
        names = [str(found.units[n]) for n in order]
        if len(names) <= MAX_NUMBERED_UNITS:
            middle = (np.nanmin(values) + np.nanmax(values)) / 2
            for (y, x), value in np.ndenumerate(values):
                shade = "black" if value > middle else "white"
                axis.text(x, y, format_value(value), ha="center", va="center", fontsize=8, color=shade)
        axis.set_xticks(range(len(names)), names, fontsize=7, rotation=90 if len(names) > MAX_NUMBERED_UNITS else 0)
        axis.set_yticks(range(len(names)), names, fontsize=7)
        axis.grid(visible=False)
        axis.set_xlabel(found.called)
        axis.set_ylabel(found.called)
        counts = " and ".join(str(len(level.sizes)) for level in levels)
        axis.set_title(plain(device.label) + (f": {counts} clusters" if levels else ": one cluster"), fontsize=10)
    return svg(figure)
