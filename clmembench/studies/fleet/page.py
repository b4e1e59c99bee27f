"""The page of a fleet: overview, distributions, devices that stand apart and why, and a section for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clmembench import __version__
from clmembench.report import render
from clmembench.report.figures.style import colour, plain, subplots, svg
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.table import Column, Table
from clmembench.sanitize import printable
from clmembench.studies.fleet import tables
from clmembench.studies.fleet.findings import ApartDevice, FleetFindings, Strip
from clmembench.studies.fleet.fleet import Fleet
from clmembench.units import format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPLATES = Path(__file__).parent / "templates"
MAX_SECTIONS = 100  # devices that stand apart, the slowest first, with a section of their own
MAX_FIGURES = 20  # models
MAX_DOTS = 60  # devices that are drawn one by one; of more the distribution
MAX_NAMES = 2  # slow devices that a strip names
BINS = 90
ROW_INCHES = 0.34
SPEEDS = (0.4, 1.6)  # that a strip shows at most; further devices lie on its edge
TITLES = {"models": "Models", "distributions": "Distributions", "devices": "Devices one by one"}


def render_page(fleet: Fleet, found: FleetFindings, name: str) -> str:
    """One page that loads nothing else; all text from files is escaped."""
    made = tables.tables(found)
    figures = _figures(fleet)
    devices = [_device(number, one) for number, one in enumerate(found.apart[:MAX_SECTIONS], 1)]
    titles = {key: table.title for key, table in made.items()} | {"distributions": TITLES["distributions"]}
    order = ("models", "apart", "distributions", "modes", "drift", "failing")
    contents = [{"id": key, "title": titles[key]} for key in order if key in made or (key == "distributions" and figures)]
    contents += [{"id": "devices", "title": TITLES["devices"]}] if devices else []
    values: dict[str, Any] = {
        "version": __version__, "title": printable(name), "summary": tables.summary(found), "rule": found.rule,
        "contents": contents, "tables": made, "figures": figures, "devices": devices,
        "left_out": len(found.apart) - len(devices),
        "style": render.asset("page.css"), "script": render.asset("page.js"),
        "script_hash": render.asset_hash("page.js"),
    }  # fmt: skip
    return render.html("fleet_page.html.j2", values, TEMPLATES)


def _figures(fleet: Fleet) -> list[dict[str, Any]]:
    """The distributions of each model's headlines, the model with most devices first."""
    names = [device.name for device in fleet.devices]
    apart = fleet.slow_in()
    made: list[dict[str, Any]] = []
    for number, model in sorted(enumerate(fleet.models), key=lambda one: -fleet.sizes[one[1]])[:MAX_FIGURES]:
        strips = [strip for strip in fleet.strips if strip.model == number]
        if strips:
            alt = f"Speed of the devices of {model} in each headline; flagged values are in the tables"
            is_open = not made or any((strip.number, number) in apart for strip in strips)
            made.append({"model": model, "svg": embedded(strips_figure(strips, apart, names), alt), "is_open": is_open})
    return made


def _device(number: int, one: ApartDevice) -> dict[str, Any]:
    device = one.device
    facts = {"host": device.host or "", "model": device.model, "driver": device.driver, "runs": str(device.runs)}
    facts |= {"latest run": f"{device.last_run_id}, {device.last_run}", "id": device.device}
    facts |= {f"tag {name}": value for name, value in device.tags.items()}
    facts |= {name: format_value(value, 4) for name, value in device.numbers.items()}
    rows = tuple((name, printable(value)) for name, value in facts.items())
    return {
        "id": f"device-{number}", "name": device.name, "reasons": one.reasons,
        "facts": Table("", (Column("fact"), Column("value")), rows),
        "values": tables.VALUES.table(one.values), "more": one.slow + one.fast - len(one.values),
        "title": f"{device.name}: {one.slow} of {one.judged} values slow",
    }  # fmt: skip


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
    axis.set_yticks(range(len(strips)), [plain(strip.quantity.label) for strip in strips], fontsize=8)
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
