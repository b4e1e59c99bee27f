"""The section "Memory hierarchy" of a report: each device's drawing, its figures and all its findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clmembench.model import DeviceInfo, Finding, Hierarchy
from clmembench.model.work import Array
from clmembench.report import finding_tables, render
from clmembench.report.section import Document, Section
from clmembench.specs import claims
from clmembench.specs.sheets import SpecSheet
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.views import latency_figures, tree
from clmembench.studies.hierarchy.views.classic_table import classic_section
from clmembench.studies.hierarchy.views.layout import Box, lay_out

MIN_WIDTH_PERCENT = 84  # width of the nearest level in per cent of the page: levels further out are wider


@dataclass(frozen=True, slots=True)
class HierarchyFindings:
    """Findings on the device of one run. `regions` is the latency in cycles from each compute unit to each region of the last
    cache, of shape (units, regions); `classic` the answers to the classic methods, a space each."""

    hierarchy: Hierarchy
    regions: Array | None = None
    classic: tuple[ClassicReadings, ...] = ()


def render_hierarchy(found: HierarchyFindings, info: DeviceInfo, sheet: SpecSheet | None) -> str:
    """The drawing as it is on a terminal, and a table of every finding."""
    drawing = tree.draw_tree(found.hierarchy, info, claims.list_claims(info, sheet))
    block = "\n".join(f"    {line}".rstrip() for line in drawing.split("\n"))  # indented: nothing in it can end it
    sections = (classic_section(readings, found.hierarchy) for readings in found.classic)
    tables = Document((finding_tables.finding_table(found.hierarchy), *sections))
    return f"### Memory hierarchy\n\n{block}\n\n{render.markdown(tables)}\n"


def pattern_figure(devices: Sequence[tuple[str, Mapping[str, Finding]]], labels: Sequence[str] = ()) -> str:
    """The latency patterns of all devices as one figure: inline SVG, "" where none has any. `labels` are those of all devices
    of the page, in its order, which decides their looks."""
    return latency_figures.patterns(devices, labels)


def device_values(label: str, found: HierarchyFindings, info: DeviceInfo, sheet: SpecSheet | None) -> dict[str, Any]:
    """Values for the page's template; figures are inline SVG."""
    sketch = lay_out(found.hierarchy, info, claims.list_claims(info, sheet))
    levels = max(1, len(sketch.path) - 1)
    figures = [
        {
            "title": f"The two classic methods through {classic.space} memory",
            "svg": latency_figures.classic(classic),
            "fine": ", ".join(
                f"{finding_tables.property_label(n)} {finding_tables.value_text(f)}" for n, f in (classic.fine or {}).items()
            ),
            "disagreements": latency_figures.disagreements(classic),
        }
        for classic in found.classic
    ]
    return {
        "label": label,
        "unit": sketch.unit,
        "near": [_box(box) for box in sketch.near],
        "path": [
            {**_box(box), "width": round(MIN_WIDTH_PERCENT + (100 - MIN_WIDTH_PERCENT) * index / levels)}
            for index, box in enumerate(sketch.path)
        ],
        "tlb": [_box(box) for box in sketch.tlb],
        "branches": [{"heading": heading, "levels": [_box(box) for box in boxes]} for heading, boxes in sketch.branches],
        "sharing": sketch.sharing,
        "surprises": sketch.surprises,
        "footnotes": sketch.footnotes,
        "remarks": sketch.remarks,
        "regions": latency_figures.regions(found.regions) if found.regions is not None else "",
        "classic": figures,
        "findings": Section("", finding_tables.COLUMNS, tuple(finding_tables.cells(found.hierarchy))),
    }


def _box(box: Box) -> dict[str, Any]:
    return {"title": box.title, "head": box.head, "latency": box.latency, "facts": box.facts, "times": box.times}
