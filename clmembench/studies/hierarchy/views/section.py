"""The section "Memory hierarchy" of a report: each device's drawing, its figures and all its findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clmembench.analysis import decision, noise
from clmembench.model import CHASE_BENCHMARK, DeviceInfo, Header, Hierarchy
from clmembench.model.work import Array
from clmembench.report import finding_tables, render
from clmembench.report.finding_tables import finding_cell, main_levels
from clmembench.report.frame import LabelledRun
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.scorecard_cells import Line, ScorecardCell
from clmembench.report.table import Document, Table, reasons_as_notes
from clmembench.specs import claims
from clmembench.specs.sheets import SpecSheet
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.views import latency_figures, tree
from clmembench.studies.hierarchy.views.classic_table import classic_section
from clmembench.studies.hierarchy.views.layout import Box, lay_out

TEMPLATES = Path(__file__).parent.parent / "templates"
MIN_WIDTH_PERCENT = 84  # width of the nearest level in per cent of the page: levels further out are wider
NOTE_DRAM = "without address translation and prefetched lines, both of which the end of a sweep (row memory) includes"
LEVEL_PROPERTIES = (("latency", "latency_ns"), ("capacity", "size_bytes"))


@dataclass(frozen=True, slots=True)
class HierarchyFindings:
    """Findings on the device of one run. `regions` is the latency in cycles from each compute unit to each region of the last
    cache, of shape (units, regions); `classic` the answers to the classic methods, a space each."""

    hierarchy: Hierarchy
    regions: Array | None = None
    classic: tuple[ClassicReadings, ...] = ()


def markdown(part: LabelledRun) -> str:
    """The drawing as it is on a terminal, and a table of every finding."""
    found, info = part.findings["hierarchy"], part.run.header.device
    drawing = tree.draw_tree(found.hierarchy, info, claims.list_claims(info, part.sheet))
    block = "\n".join(f"    {line}".rstrip() for line in drawing.split("\n"))  # indented: nothing in it can end it
    sections = (classic_section(readings, found.hierarchy) for readings in found.classic)
    tables = Document((finding_tables.finding_table(found.hierarchy), *sections))
    return f"### Memory hierarchy\n\n{block}\n\n{render.markdown(tables)}\n"


def page(parts: Sequence[LabelledRun]) -> str:
    """The latency patterns of all devices as one figure, and those that bypass the first cache as another; "" if there are
    none."""
    known = [(p.label, p.number, p.findings["hierarchy"].hierarchy) for p in parts if "hierarchy" in p.findings]
    title = "Latency patterns of global memory on each device"
    through = latency_figures.patterns([(label, number, found.patterns) for label, number, found in known])
    past = latency_figures.patterns([(label, n, found.patterns_past) for label, n, found in known if found.patterns_past])
    figures = [*embedded(through, title), *embedded(past, f"{title}, past the first cache")]
    return render.html("patterns.html.j2", {"patterns": figures}, TEMPLATES) if figures else ""


def device_page(anchor: str, part: LabelledRun) -> str:
    """The hierarchy of a device: its drawing, figures and findings."""
    made = device_values(part.label, part.findings["hierarchy"], part.run.header.device, part.sheet)
    made["regions"] = embedded(made["regions"], f"Heat map of the latency from each compute unit of {part.label}")
    for classic in made["classic"]:
        classic["figures"] = embedded(classic["svg"], f"{classic['title']} of {part.label}")
    found = {**made, "findings": reasons_as_notes(made["findings"], ("evidence", "why"))}
    return render.html("hierarchy.html.j2", {"id": anchor, "label": part.label, "found": found}, TEMPLATES)


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
        "findings": Table("", finding_tables.COLUMNS, tuple(finding_tables.cells(found.hierarchy))),
    }


def _box(box: Box) -> dict[str, Any]:
    return {"title": box.title, "head": box.head, "latency": box.latency, "facts": box.facts, "times": box.times}


def level_lines(parts: Sequence[LabelledRun]) -> Iterator[Line]:
    """Latencies and capacities of the levels in the hierarchies of the devices, by the names of the levels."""
    hierarchies = [part.findings["hierarchy"].hierarchy if "hierarchy" in part.findings else None for part in parts]
    levels = [{} if h is None else {level.name: level for level in main_levels(h)} for h in hierarchies]
    names = dict.fromkeys(name for of in levels for name in of)
    for group, prop in LEVEL_PROPERTIES:
        for name in names:
            hint = "not measured: clmembench topology"
            cells = [
                _with_noise(finding_cell(of[name].findings.get(prop) if name in of else None, hint), part.run.header)
                for of, part in zip(levels, parts, strict=True)
            ]
            if any(cell.status != "missing" for cell in cells):
                what = {"latency": f"load from {name}", "capacity": f"size of {name}"}[group]
                note = NOTE_DRAM if (group, name) == ("latency", "DRAM") else ""
                better, unit = ("lower", "ns") if group == "latency" else ("", "B")
                yield Line(group, f"{what}, by topology", better, tuple(cells), note, unit=unit)


def _with_noise(cell: ScorecardCell, header: Header) -> ScorecardCell:
    """A latency inferred from chases, with the usual variation of chases on such a device."""
    if cell.value is None or cell.low is None or cell.high is None or cell.low <= 0:
        return cell
    kind = noise.kind_of(header.device, header.host)
    return replace(
        cell, noisy=decision.inferred(cell.value, cell.low, cell.high, noise.calibrated().of_slopes(kind, CHASE_BENCHMARK))
    )
