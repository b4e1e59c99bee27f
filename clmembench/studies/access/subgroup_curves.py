"""Latency of a load over the number of simultaneous loads: one plot for each memory, devices side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import value_and_interval
from clmembench.report.figures.style import MARKERS, colour, legend, log_y, plain, subplots, svg
from clmembench.report.frame import LabelledRun, Row
from clmembench.studies.access import subgroup
from clmembench.studies.access.subgroup_tables import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {"consecutive": "consecutive words", "broadcast": "one word for all", "scattered": "scattered words"}


def drawn(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """For each device the latency by memory over work-items in flight (Fang, figures 5 to 11); "" where no row has a value."""
    return "".join(filter(None, (_device(device) for device in shown)))


def _device(device: LabelledRun) -> str:
    rows = [r for r in device.rows if r.is_good and r.value.params["memory"] != "register"]
    memories = [name for name in subgroup.MEMORY_ORDER if any(r.value.params["memory"] == name for r in rows)]
    if not memories:
        return ""
    wide = subgroup.sub_group_width_of([r.value for r in rows])
    figure, axes = subplots(len(memories), height=2.7)
    for axis, memory in zip(axes, memories, strict=True):
        for number, (kind, label) in enumerate(KINDS.items()):
            _lines(axis, [r for r in rows if r.value.params["memory"] == memory and _kind(r, wide) == kind], label, number)
        axis.set_xscale("log", base=2)
        log_y(axis)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.tick_params(axis="x", rotation=30)
        axis.set_title(NAMES[memory], fontsize=10)
        axis.set_xlabel("work-items that load at the same time")
        axis.set_ylabel("latency (cycles)" if any(r.value.cycles for r in rows) else "latency (ns)")
    figure.suptitle(plain(device.label), fontsize=10)
    legend(figure, axes)
    return svg(figure)


def _kind(row: Row, wide: int) -> str:
    params = row.value.params
    if params["pattern"] == "scattered":
        return "scattered"
    if params["pattern"] != "consecutive":
        return ""
    # one work-item is both
    return "consecutive" if params["degree"] == 1 else "broadcast" if params["degree"] == wide else ""


def _lines(axis: Axes, rows: Sequence[Row], label: str, number: int) -> None:
    """Solid over the work-items of one group, dashed over groups."""
    for several, style in ((False, "-"), (True, "--")):
        of = sorted((r for r in rows if (int(r.value.params["groups"]) > 1) == several), key=_flying)
        if of:
            ends = [value_and_interval(r.value, in_cycles=bool(r.value.cycles)) for r in of]
            x, shade = [_flying(r) for r in of], colour(number)
            name = f"{label}, {'several groups' if several else 'one group'}"
            axis.fill_between(x, [low for _, low, _ in ends], [high for *_, high in ends], color=shade, alpha=0.2, linewidth=0)
            axis.plot(x, [y for y, _, _ in ends], style, marker=MARKERS[number], markersize=4, color=shade, label=name)


def _flying(row: Row) -> int:
    return int(row.value.params["items"]) * int(row.value.params["groups"])
