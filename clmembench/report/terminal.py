"""The summary of a run as a document, under the line that describes its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench import studies
from clmembench.model import Header, Run
from clmembench.report.rows import Row, point_table
from clmembench.report.run_warnings import warnings
from clmembench.report.section import Document
from clmembench.report.sections import energy_tables, peer_values, roofline_tables
from clmembench.report.summary import sections
from clmembench.sanitize import MAX_LINE_CHARACTERS, line
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes


def device_line(header: Header, sheet: SpecSheet | None) -> str:
    """The device on one line: the user's label, name, what it has, its driver, the sheet its peaks come from, the host's name
    and tags."""
    device, host = header.device, header.host.get("name")
    facts = [
        *([header.label] if header.label else []),
        device.name,
        count(device.compute_units, "compute unit"),
        f"{format_bytes(device.global_mem_bytes)} memory",
        f"{device.platform} {device.driver}",
        f"peaks of {sheet.name}" if sheet else "no spec sheet",
        *([f"host {host}"] if host else []),
        *(f"{key}={value}" for key, value in header.tags.items()),
    ]
    return line(" · ".join(facts))


def summary_document(run: Run, table: Sequence[Row], sheet: SpecSheet | None, is_whole: bool = True) -> Document:
    """The summary of a run: every benchmark, the host's peers, the roofline, answers of studies, and warnings. Of a part of
    a run that is not `is_whole` there are no roofline, agreement and answers, which need all of it."""
    found = [*sections(run, table)]
    peers = peer_values.section(run, table)
    found += [peers] if peers is not None else []
    if is_whole:
        agreement = roofline_tables.agreement_section(run, table, sheet)
        found += [*roofline_tables.sections(run, table, sheet), *([agreement] if agreement is not None else [])]
        own = [study.call(study.summary, run, table) for study in studies.studies() if study.summary]
        found += [section for section in own if section is not None]
    energy = energy_tables.determined(run, table)
    found += [energy] if energy is not None else []
    return Document(tuple(found), device_line(run.header, sheet), tuple(warnings(run, table, sheet)))


def points_document(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Document:
    """A line for each value, nothing inferred, under the line of the device, and warnings."""
    plain = point_table(table)
    wide = tuple(
        replace(column, max_cell=MAX_LINE_CHARACTERS) if column.name == "parameters" else column for column in plain.columns
    )
    values = replace(plain, title="Values, each with what it is of.", columns=wide)
    return Document((values,), device_line(run.header, sheet), tuple(warnings(run, table, sheet)))
