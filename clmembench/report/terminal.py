"""The summary of a run as a document, under the line that describes its device."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import Header, Run
from clmembench.report.rows import Row
from clmembench.report.run_warnings import warnings
from clmembench.report.section import Document
from clmembench.report.sections import advice_table, energy_tables, peer_values, roofline_tables
from clmembench.report.summary import sections
from clmembench.sanitize import line
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes


def device_line(header: Header, sheet: SpecSheet | None) -> str:
    """The device on one line: name, what it has, its driver, and the sheet its peaks come from."""
    device = header.device
    facts = [
        device.name,
        count(device.compute_units, "compute unit"),
        f"{format_bytes(device.global_mem_bytes)} memory",
        f"{device.platform} {device.driver}",
        f"peaks of {sheet.name}" if sheet else "no spec sheet",
    ]
    return line(" · ".join(facts))


def summary_document(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Document:
    """The summary of a run: every benchmark, the host's peers, the roofline, guidelines for kernels, and warnings."""
    peers, guidelines = peer_values.section(run, table), advice_table.section(run, table)
    kernels = roofline_tables.sections(run, table, sheet)
    found = [
        *sections(run, table),
        *(section for section in (peers, *kernels, guidelines, energy_tables.determined(run, table)) if section is not None),
    ]
    return Document(tuple(found), device_line(run.header, sheet), tuple(warnings(run, table, sheet)))
