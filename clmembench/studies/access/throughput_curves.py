"""Figures of global memory's throughput: Mei & Chu's figure 12 of each device, and bandwidth over the size reread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import value_and_interval
from clmembench.report.figures.style import MARKERS, bytes_axis, colour, legend, log_y, plain, spread, subplots, svg
from clmembench.report.frame import LabelledRun, Row
from clmembench.studies.access.intensity_knee import intensity_curves, knee
from clmembench.studies.access.throughput_tables import best_of_sets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BYTES_PER_LOADED_BYTE = 2.0  # bytes copied for each that is loaded


def grid(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """A plot for each device and work-group size: throughput over the number of work-groups, a line an ILP. And one for each
    device over bytes in flight, with Little's law."""
    good = [(device, rows) for device in shown if (rows := [row for row in device.rows if row.is_good])]
    plots = [
        (f"{plain(device.label)}, work-groups of {size}", mine, rows)
        for device, rows in good
        for size in _values(rows, "work_group")
        for mine in [_of(rows, "work_group", size)]
    ]
    if not plots:
        return ""
    figure, axes = subplots(len(plots), height=3.2)
    ilps = sorted({ilp for _, rows in good for ilp in _values(rows, "ilp")})  # one look for one ILP in every plot
    for axis, (title, mine, every) in zip(axes, plots, strict=True):
        for number, ilp in enumerate(ilps):
            if _of(mine, "ilp", ilp):
                _line(axis, _of(mine, "ilp", ilp), "groups", f"ILP {ilp}", number)
        _rate(axis, every, title)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_xlabel("work-groups")
    legend(figure, axes)
    # on CPUs a work-group is a loop on a core, whose work-items are not in flight at once
    many = [(plain(device.label), rows) for device, rows in good if not device.run.header.device.has_cpu_cores]
    return svg(figure) + (_little(many) if many else "")


def _little(devices: Sequence[tuple[str, list[Row]]]) -> str:
    """Throughput over bytes in flight, and the line of Little's law through the point with the shortest latency: loads of
    points below it had to queue."""
    figure, axes = subplots(len(devices), height=3.8)
    for axis, (label, rows) in zip(axes, devices, strict=True):
        for number, ilp in enumerate(_values(rows, "ilp")):
            mine = _of(rows, "ilp", ilp)
            x = [loaded_bytes(row) for row in mine]
            points = [value_and_interval(row.value) for row in mine]
            axis.errorbar(
                x, [y for y, _, _ in points], spread(points), fmt=MARKERS[number], markersize=4, elinewidth=1,
                color=colour(number), label=f"ILP {ilp}",
            )  # fmt: skip
        away = min(BYTES_PER_LOADED_BYTE * loaded_bytes(row) / (row.value.median or 1.0) for row in rows)
        top = max(row.value.ci_high or row.value.median or 0.0 for row in rows)
        ends = [min(loaded_bytes(row) for row in rows), top * away / BYTES_PER_LOADED_BYTE]
        if ends[1] > ends[0]:
            line = [BYTES_PER_LOADED_BYTE * end / away for end in ends]
            axis.plot(ends, line, color="#333333", linewidth=1.0, label="Little's law, at the shortest latency")
        _rate(axis, rows, f"{label}: a load takes {away:.0f} ns at least")
        axis.set_ylim(bottom=0.7 * min(row.value.median or 0.0 for row in rows))
        log_y(axis)
        bytes_axis(axis, "bytes in flight, loads of all work-items")
    legend(figure, axes)
    return svg(figure)


def loaded_bytes(row: Row) -> float:
    """Bytes that the work-items of a copy of the grid load at once, if the device holds all of them."""
    p = row.value.params
    return 4.0 * int(p["groups"]) * int(p["work_group"]) * int(p["ilp"])


def _of(rows: Sequence[Row], name: str, value: int) -> list[Row]:
    return [row for row in rows if row.value.params[name] == value]


def _values(rows: Sequence[Row], name: str) -> list[int]:
    return sorted({int(row.value.params[name]) for row in rows})


def _rate(axis: Axes, rows: Sequence[Row], title: str) -> None:
    """The axis of throughput, up to the theoretical peak where that is known."""
    peak = next((row.peak.value for row in rows if row.peak), None)
    if peak:
        axis.axhline(peak, color="#999999", linestyle="--", linewidth=1.0, label="theoretical peak")
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, 1.08 * max(peak or 0.0, *(row.value.ci_high or row.value.median or 0.0 for row in rows)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_ylabel("throughput (GB/s)")
    axis.set_title(title, fontsize=10)


def caches(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """A plot for each device: read bandwidth over the size of the set, a line for each kind of set and path."""
    devices = [(plain(s.label), best_of_sets(s.rows)) for s in shown]
    devices = [(label, rows) for label, rows in devices if rows]
    if not devices:
        return ""
    figure, axes = subplots(len(devices), height=3.6)
    # one look for one kind of set in every plot
    lines = sorted({(str(row.value.params["set"]), str(row.value.params["path"])) for _, rows in devices for row in rows})
    for axis, (label, rows) in zip(axes, devices, strict=True):
        for number, (kind, path) in enumerate(lines):
            mine = [r for r in rows if (r.value.params["set"], r.value.params["path"]) == (kind, path)]
            name = f"{kind} set" + (", first cache bypassed" if path == "cg" else "")
            if mine:
                _line(axis, mine, "set_bytes", name, number)
        axis.set_xscale("log", base=2)
        log_y(axis)
        bytes_axis(axis, "size of the set that each compute unit, or all, reread")
        axis.set_ylabel("read bandwidth (GB/s)")
        axis.set_title(label, fontsize=10)
    legend(figure, axes)
    return svg(figure)


def intensity(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """A plot for each device and type: rate over arithmetic intensity, from memory and the last cache, and their roofs."""
    plots = []
    for device in shown:
        curves = intensity_curves([row.value for row in device.rows])
        plots += [
            (f"{plain(device.label)}, {dtype}", [curve for curve in curves if curve.dtype == dtype])
            for dtype in dict.fromkeys(curve.dtype for curve in curves)
        ]
    if not plots:
        return ""
    figure, axes = subplots(len(plots), height=3.6)
    for axis, (title, curves) in zip(axes, plots, strict=True):
        for number, curve in enumerate(curves):
            x, rates = [x for x, _ in curve.points], [(rate.value, rate.low, rate.high) for _, rate in curve.points]
            ends = sorted((*x, min(max(x), curve.ridge.value)))
            roof = [min(curve.best.value, curve.bandwidth.value * at) for at in ends]
            axis.plot(ends, roof, color=colour(number), linewidth=0.8, linestyle="--", label=f"roof of {curve.level}")
            axis.errorbar(
                x, [rate for rate, _, _ in rates], spread(rates), fmt=MARKERS[number], markersize=4, elinewidth=1,
                color=colour(number), label=f"from {curve.level}",
            )  # fmt: skip
            found = knee(curve)
            if isinstance(found.value, int | float):
                label = f"knee of {curve.level}"
                axis.axvline(float(found.value), color=colour(number), linewidth=0.8, linestyle=":", label=label)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
        axis.set_xlabel("arithmetic intensity (FLOP per byte read)")
        axis.set_ylabel("Gop/s" if curves[0].dtype == "int" else "GFLOP/s")
        axis.set_title(title, fontsize=10)
        log_y(axis)
    legend(figure, axes)
    return svg(figure)


def _line(axis: Axes, rows: Sequence[Row], x: str, label: str, number: int) -> None:
    ordered = sorted(rows, key=lambda row: float(row.value.params[x]))
    places = [float(row.value.params[x]) for row in ordered]
    medians, low, high = zip(*(value_and_interval(row.value) for row in ordered), strict=True)
    marker = MARKERS[number % len(MARKERS)]
    axis.plot(places, medians, marker=marker, markersize=4, linewidth=1.4, color=colour(number), label=label)
    axis.fill_between(places, low, high, color=colour(number), alpha=0.2, linewidth=0)
