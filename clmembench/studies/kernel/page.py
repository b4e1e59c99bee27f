"""The page of a kernel: its source as a heat map, misses over the size of a cache, and all tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import TypeAdapter

from clmembench import __version__, sanitize
from clmembench.analysis import kernel_time
from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate
from clmembench.analysis.roofline import KernelPosition, Roofline
from clmembench.model import Placement
from clmembench.report import render
from clmembench.report.figures import roofline_chart
from clmembench.report.figures.style import bytes_axis, legend, subplots, svg
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.table import Document, Table
from clmembench.sanitize import printable
from clmembench.studies import SelectionError
from clmembench.studies.kernel import device_views, views
from clmembench.studies.kernel.facts import KernelFacts, Number
from clmembench.units import format_bytes

TEMPLATES = Path(__file__).parent / "templates"
FIRST_KEY, MAX_FIRST_BYTES = re.compile(rb'\s*\{\s*"kernel":'), 64
MAX_FILE_BYTES = 64 << 20
SHADES = 0.60  # of the colour behind the line that costs most
COMPULSORY_BYTES = "different bytes of global memory"


def render_page(facts: KernelFacts, document: Document, rooflines: Mapping[str, Roofline]) -> str:
    """One page that loads nothing else; text of the source is escaped. `document` is what the command prints, `rooflines` are
    those of the devices by name."""
    costs = [table.title for table in device_views.device_tables(facts.devices)]
    sections = [one for one in document.sections if one.title not in (views.SOURCE_TITLE, views.FAULTS_TITLE)]
    roofs, curve = roofline_figure(facts, rooflines), reuse_figure(facts)
    cost_name, lines = source_lines(facts)
    values: dict[str, Any] = {
        "version": __version__,
        "title": printable(facts.kernel),
        "summary": document.heading,
        "faults": facts.faults,
        "cost": cost_name,
        "lines": lines,
        "costs": [one for one in sections if one.title in costs],
        "roofs": embedded(roofs, "The kernel under the roofs of each device") if roofs else [],
        "facts": [(one, _figures(one, curve)) for one in sections if one.title not in costs],
        "style": render.asset("page.css"),
        "script": render.asset("page.js"),
        "script_hash": render.asset_hash("page.js"),
    }
    return render.html("kernel_page.html.j2", values, TEMPLATES)


def file_section(path: Path) -> Markup | None:
    """A kernel in a report, from a file that `kernel --json` wrote: its time on devices, what to change, and the source; None
    for any other file. Raises SelectionError where it is damaged."""
    try:
        with sanitize.open_regular(path) as file:
            if not FIRST_KEY.match(file.read(MAX_FIRST_BYTES)):
                return None
        facts = TypeAdapter(KernelFacts).validate_json(sanitize.read_regular(path, MAX_FILE_BYTES))
    except OSError:
        return None
    except ValueError as error:
        raise SelectionError(f"{path} is no output of `clmembench kernel --json` of this version: trace it again") from error
    cost_name, lines = source_lines(facts)
    values: dict[str, object] = {
              "kernel": printable(facts.kernel), "summary": printable(views.heading(facts)), "cost": cost_name, "lines": lines,
              "tables": device_views.device_tables(facts.devices)}  # fmt: skip
    return render.html("kernel_section.html.j2", values, TEMPLATES)


def _figures(table: Table, curve: str) -> list[Markup]:
    """The figures that belong to a table."""
    is_reuse = table.title == views.REUSE_TITLE and curve
    return embedded(curve, "Share of requested lines that an LRU cache of each size misses") if is_reuse else []


def source_lines(facts: KernelFacts) -> tuple[str, list[Mapping[str, Any]]]:
    """What the colours of lines are of, and the lines of the source, each with the strength of its colour."""
    name, shares = views.line_shares(facts)
    most = max(shares.values(), default=0.0)
    return name, [
        {
            "number": line.number,
            "instructions": _percent(line.instructions / max(1.0, facts.totals.instructions)),
            "cost": _percent(shares.get(line.number, 0.0)),
            "shade": f"{SHADES * shares.get(line.number, 0.0) / most if most else 0.0:.0%}",
            "notes": line.notes,
            "text": line.text,
        }
        for line in views.source_lines(facts)
    ]


def _percent(share: float) -> str:
    return f"{share:.0%}" if share else ""


def roofline_figure(facts: KernelFacts, rooflines: Mapping[str, Roofline]) -> str:
    """SVG of the kernel's place under the roofs of each device, predicted and measured; "" without floating-point operations.
    Its bytes are the different ones of global memory."""
    found = []
    for one in facts.devices:
        times = {"predicted": (one.ns, one.low_ns, one.high_ns),
                 "measured": (one.measured_ns, one.measured_low_ns, one.measured_high_ns)}  # fmt: skip
        if (roofline := rooflines.get(one.device)) is not None:
            placed = (_position(facts, how, ends, roofline) for how, ends in times.items())
            found.append((one.device, replace(roofline, placed=tuple(each for each in placed if each is not None))))
    return roofline_chart.drawn(found)


def _position(facts: KernelFacts, how: str, ns: tuple[Number, Number, Number], roofline: Roofline) -> KernelPosition | None:
    flops, nbytes = facts.totals.flops, facts.totals.global_unique_bytes_high
    precision = "double" if 2 * facts.totals.double_flops > flops else "float"
    tops = roofline.arithmetic(precision)
    value, low, high = ns
    if not (flops and nbytes and tops and value and low and high):
        return None
    memory, rate = roofline.levels[0], Estimate(flops / value, flops / high, flops / low)
    slanted = kernel_time.scaled(memory.rate, flops / nbytes)
    bound, limit = (memory, slanted) if slanted.value < tops[0].rate.value else (tops[0], tops[0].rate)
    shown = Derived(f"{facts.kernel}, {how}", {}, {}, Placement(), "time", "ns", "lower", None, "ok", "")
    return KernelPosition(
        shown, precision, flops / nbytes, rate, bound, limit, rate.times(limit.inverse()), int(nbytes), COMPULSORY_BYTES,
        nbytes <= roofline.cache_bytes, False,
    )  # fmt: skip


def reuse_figure(facts: KernelFacts) -> str:
    """SVG of the miss ratio over the size of a cache, a line for each size of a line; "" without accesses."""
    if not facts.reuse:
        return ""
    figure, (axis,) = subplots(1, height=3.0)
    for curve in facts.reuse:
        axis.plot(
            curve.sizes_bytes, curve.miss_ratio, drawstyle="steps-post", label=f"lines of {format_bytes(curve.line_bytes)}"
        )
    axis.set_xscale("log", base=2)
    bytes_axis(axis, "size of the cache")
    axis.set_ylabel("share of requested lines missed")
    axis.set_ylim(0, 1.02)
    legend(figure, [axis])
    return svg(figure)
