"""The page of a kernel: its source as a heat map, misses over the size of a cache, and all tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clmembench import __version__
from clmembench.report import render
from clmembench.report.figures.style import bytes_axis, legend, subplots, svg
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.table import Document
from clmembench.sanitize import printable
from clmembench.studies.kernel import views
from clmembench.studies.kernel.facts import KernelFacts
from clmembench.units import format_bytes

TEMPLATES = Path(__file__).parent / "templates"
SHADES = 0.60  # of the colour behind the line with most instructions


def render_page(facts: KernelFacts, document: Document, source: str) -> str:
    """One page that loads nothing else; text of the source is escaped. `document` is what the command prints."""
    sections = [section for section in document.sections if section.title != views.SOURCE_TITLE]
    curve = reuse_figure(facts)
    values: dict[str, Any] = {
        "version": __version__,
        "title": printable(facts.kernel),
        "summary": document.heading,
        "faults": facts.faults,
        "lines": [_line(line, facts) for line in views.source_lines(facts, source)],
        "curves": embedded(curve, "Share of requested lines that an LRU cache of each size misses") if curve else [],
        "sections": [section for section in sections if section.title != views.FAULTS_TITLE],
        "style": render.asset("page.css"),
        "script": render.asset("page.js"),
        "script_hash": render.asset_hash("page.js"),
    }
    return render.html("kernel_page.html.j2", values, TEMPLATES)


def _line(line: views.SourceLine, facts: KernelFacts) -> Mapping[str, Any]:
    """A line of the source, with the strength of the colour behind it."""
    most = max(facts.instructions_by_line.values(), default=0.0)
    share = line.instructions / facts.totals.instructions if facts.totals.instructions else 0.0
    shade = SHADES * line.instructions / most if most else 0.0
    return {
        "number": line.number,
        "share": f"{share:.0%}" if line.instructions else "",
        "shade": f"{shade:.0%}",
        "notes": line.notes,
        "text": line.text,
    }


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
