"""Latencies and sizes of the levels of a hierarchy as lines of the comparison of devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clmembench.analysis import decision, noise
from clmembench.model import CHASE_BENCHMARK, Header
from clmembench.report.finding_tables import finding_cell, main_levels
from clmembench.report.frame import LabelledRun
from clmembench.report.scorecard_cells import Cell, Line

NOTE_DRAM = "without address translation and prefetched lines, both of which the end of a sweep (row memory) includes"
LEVEL_PROPERTIES = (("latency", "latency_ns"), ("capacity", "size_bytes"))


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
                yield Line(group, f"{what}, by topology", "lower" if group == "latency" else "", tuple(cells), note)


def _with_noise(cell: Cell, header: Header) -> Cell:
    """A latency inferred from chases, with the usual variation of chases on such a device."""
    if cell.value is None or cell.low is None or cell.high is None or cell.low <= 0:
        return cell
    kind = noise.kind_of(header.device, header.host)
    return replace(
        cell, noisy=decision.inferred(cell.value, cell.low, cell.high, noise.calibrated().of_slopes(kind, CHASE_BENCHMARK))
    )
