"""The page of a fleet: overview, distributions, devices that stand apart and why, and a section for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clmembench import __version__
from clmembench.report import render
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.table import Column, Table
from clmembench.sanitize import printable
from clmembench.studies.fleet import tables
from clmembench.studies.fleet.findings import ApartDevice, Fleet, FleetFindings
from clmembench.studies.fleet.strips import strips_figure
from clmembench.units import format_value

TEMPLATES = Path(__file__).parent / "templates"
MAX_SECTIONS = 100  # devices that stand apart, the slowest first, with a section of their own
MAX_FIGURES = 20  # models
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
