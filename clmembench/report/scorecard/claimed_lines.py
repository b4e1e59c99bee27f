"""Rows of the verdict that nobody measured: what drivers claim of devices, and theoretical figures of their spec sheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from clmembench.model import DeviceInfo
from clmembench.report.scorecard_cells import Cell, Line
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_bytes, format_in

# claims by the name of the row: the number, 0 where the driver says nothing, and its text
CLAIMS: dict[str, tuple[Callable[[DeviceInfo], int], Callable[[int], str]]] = {
    "compute units": (lambda info: info.compute_units, "{:,}".format),
    "device memory": (lambda info: info.global_mem_bytes, format_bytes),
    "cache, of a level that OpenCL does not name": (lambda info: info.cache_bytes, format_bytes),
    "cache line": (lambda info: info.line_bytes, format_bytes),
    "local memory of a work-group": (lambda info: info.local_mem_bytes, format_bytes),
    "work-items of a sub-group": (lambda info: info.sub_group_items, "{:,}".format),
    "work-items of a work-group, at most": (lambda info: info.max_work_group, "{:,}".format),
}
# theoretical figures by the name of the row
FIGURES = {
    "memory bandwidth": "memory_bandwidth_gb_s",
    "local memory bandwidth": "local_memory_bandwidth_gb_s",
    "FP64, vector": "fp64_vector_gflop_s",
    "FP64, matrix instructions": "fp64_matrix_gflop_s",
    "FP32, vector": "fp32_vector_gflop_s",
    "host link, one direction": "link_gb_s",
}


def known_lines(
    devices: Sequence[DeviceInfo], sheets: Sequence[SpecSheet | None], others: Sequence[SpecSheet]
) -> Iterator[Line]:
    """Claims of measured devices, then the figures of their sheets and of other devices; rows that none has are left out."""
    for name, (number, text) in CLAIMS.items():
        claims = [number(info) for info in devices]
        cells = [_claim(text(claim) if claim > 0 else "") for claim in claims] + [Cell("–")] * len(others)
        if any(claim > 0 for claim in claims):
            yield Line("claimed by the driver", name, "", tuple(cells))
    for name, figure in FIGURES.items():
        cells = [_figure(sheet, figure) for sheet in (*sheets, *others)]
        if any(cell.status == "theoretical" for cell in cells):
            yield Line("theoretical, by spec sheet", name, "", tuple(cells))


def _claim(text: str) -> Cell:
    return Cell(text, status="claimed") if text else Cell("–", detail="the driver says nothing of it")


def _figure(sheet: SpecSheet | None, name: str) -> Cell:
    known = sheet.figures.get(name) if sheet else None
    if known is None:
        return Cell("–")
    core = "core" if sheet and sheet.kind == "cpu" else "compute unit"
    scope = f" a {core if known.scope == 'core' else known.scope}" if known.scope != "device" else ""
    text = printable(f"{format_in(known.value, known.unit)}{scope}")
    return Cell(text, detail=printable(known.source), status="theoretical")
