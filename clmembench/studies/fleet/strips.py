"""Figure of a model's devices: for each headline a strip with the distribution of its speed and the slow devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clmembench.report.figures.style import colour, plain, subplots, svg
from clmembench.studies.fleet.findings import Strip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_DOTS = 60  # devices that are drawn one by one; of more the distribution
MAX_NAMES = 2  # slow devices that a strip names
BINS = 90
ROW_INCHES = 0.34
SPEEDS = (0.4, 1.6)  # that a strip shows at most; further devices lie on its edge


def strips_figure(strips: Sequence[Strip], apart: Mapping[tuple[int, int], Sequence[int]], names: Sequence[str]) -> str:
    """Inline SVG; `apart` has the devices that are slow in each quantity and model, and `names` those of all devices by their
    numbers."""
    figure, (axis,) = subplots(1, height=0.7 + ROW_INCHES * len(strips), most_columns=1)
    speeds = np.concatenate([np.quantile(strip.speed, (0, 0.001, 0.999, 1)) for strip in strips])
    low, high = (float(end) for end in np.clip((speeds.min(), speeds.max()), *SPEEDS))
    low, high = min(low, 0.97) - 0.01, max(high, 1.03) + 0.01
    labels = []
    for row, strip in enumerate(strips):
        slow = apart.get((strip.number, strip.model), ())
        _draw(axis, row, strip, slow, (low, high))
        labels.append(_slow(strip, slow, names))
    axis.set_xlim(100 * low, 100 * high)
    axis.set_ylim(len(strips) - 0.3, -0.9)
    axis.set_yticks(range(len(strips)), [plain(strip.quantity.headline) for strip in strips], fontsize=8)
    axis.set_xlabel("speed, % of the median device")
    axis.grid(axis="y", visible=False)
    right = axis.twinx()
    right.set_ylim(axis.get_ylim())
    right.set_yticks(range(len(strips)), labels, fontsize=7)
    right.grid(visible=False)
    for side in (axis, right):
        side.tick_params(length=0)
    return svg(figure)


def _draw(axis: Axes, row: int, strip: Strip, slow: Sequence[int], ends: tuple[float, float]) -> None:
    speed = 100 * np.clip(strip.speed, *ends)
    axis.axhline(row, color="#dddddd", linewidth=0.7, zorder=0)
    if len(speed) <= MAX_DOTS:
        axis.scatter(speed, np.full(len(speed), row), s=12, color="#777777", alpha=0.6, linewidths=0)
    else:
        counts, edges = np.histogram(speed, BINS, (100 * ends[0], 100 * ends[1]))
        height = 0.75 * np.sqrt(counts / counts.max())  # a root, so that few devices are seen
        axis.fill_between((edges[1:] + edges[:-1]) / 2, row - height, row, step="mid", color="#999999", linewidth=0)
    axis.plot([100, 100], [row - 0.8, row], color="#333333", linewidth=1)
    if slow:
        at = np.isin(strip.devices, slow)
        axis.scatter(speed[at], np.full(int(at.sum()), row), s=16, color=colour(1), zorder=3)


def _slow(strip: Strip, slow: Sequence[int], names: Sequence[str]) -> str:
    """The slowest devices by name, and how many more there are."""
    speeds = dict(zip(strip.devices.tolist(), strip.speed.tolist(), strict=True))
    ordered = sorted((number for number in slow if speeds[number] < 1), key=lambda number: speeds[number])
    more = f", +{len(ordered) - MAX_NAMES}" if len(ordered) > MAX_NAMES else ""
    return plain(", ".join(names[number] for number in ordered[:MAX_NAMES]) + more) if ordered else ""
