"""Rows of the verdict that were inferred: levels of the memory hierarchy, and banks of local memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clmembench.analysis import decision, noise
from clmembench.model import CHASE_BENCHMARK, Finding, Header, Hierarchy
from clmembench.report.finding_tables import value_text
from clmembench.report.memory_paths import main_levels
from clmembench.report.rows import Row
from clmembench.report.verdict_cells import Cell, Line
from clmembench.sanitize import printable
from clmembench.studies.access.banks import bank_accesses, study_banks

NOTE_DRAM = (
    "without address translation and without lines that prefetchers bring, which the end of a sweep (row memory) includes"
)
LEVEL_PROPERTIES = (("latency", "latency_ns"), ("capacity", "size_bytes"))


def level_lines(hierarchies: Sequence[Hierarchy | None], headers: Sequence[Header]) -> Iterator[Line]:
    """Latencies and capacities of the levels that a hierarchy has, by the names of the levels; `headers` are of the devices'
    runs."""
    levels = [{} if h is None else {level.name: level for level in main_levels(h)} for h in hierarchies]
    names = dict.fromkeys(name for of in levels for name in of)
    for group, prop in LEVEL_PROPERTIES:
        for name in names:
            hint = "not measured: clmembench topology"
            cells = [
                _with_noise(_finding_cell(of[name].findings.get(prop) if name in of else None, hint), header)
                for of, header in zip(levels, headers, strict=True)
            ]
            if any(cell.status != "missing" for cell in cells):
                what = {"latency": f"load from {name}", "capacity": f"size of {name}"}[group]
                note = NOTE_DRAM if (group, name) == ("latency", "DRAM") else ""
                yield Line(group, f"{what}, by topology", "lower" if group == "latency" else "", tuple(cells), note)


def _with_noise(cell: Cell, header: Header) -> Cell:
    """A latency that was inferred of chases, with what chases of such a device vary by."""
    if cell.value is None or cell.low is None or cell.high is None or cell.low <= 0:
        return cell
    kind = noise.kind_of(header.device, header.host)
    return replace(
        cell, noisy=decision.inferred(cell.value, cell.low, cell.high, noise.calibrated().of_slopes(kind, CHASE_BENCHMARK))
    )


def bank_lines(devices: Sequence[Sequence[Row]]) -> Iterator[Line]:
    """Banks of local memory, from the latencies of conflicts."""
    cells = []
    for rows in devices:
        measured, unit = bank_accesses([row.value for row in rows if row.status == "ok"])
        findings = study_banks(measured, unit).findings if measured else {}
        finding = findings.get("banks", findings.get("memory"))  # ordinary memory has none
        cells.append(_finding_cell(finding, "not measured: clmembench advise, benchmark banks"))
    if any(cell.status != "missing" for cell in cells):
        yield Line("capacity", "banks of local memory", "", tuple(cells))


def _finding_cell(finding: Finding | None, hint: str) -> Cell:
    """A finding as a cell; `hint` says what measures it where there is none. Only a number is a value."""
    if finding is None:
        return Cell("–", detail=hint)
    if finding.status != "ok":
        return Cell(value_text(finding), detail=printable(finding.reason), status=finding.status)
    text, whole = value_text(finding, interval=False), value_text(finding)
    number = float(finding.value) if isinstance(finding.value, int | float) else None
    return Cell(text, detail=whole, status="ok", value=number, low=finding.low, high=finding.high)
