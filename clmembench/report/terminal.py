"""A run's summary as plain aligned text for a terminal or a pipe, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import Header, Run
from clmembench.report import markup_tables
from clmembench.report.rows import Row
from clmembench.report.section import Section
from clmembench.report.sections import advice_table, peer_values, roofline_tables
from clmembench.report.summary import sections, warnings
from clmembench.sanitize import line, markdown
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes

LONGEST = 40  # letters of a cell that widen its column


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


def as_text(run: Run, table: Sequence[Row], sheet: SpecSheet | None, bold: bool = False) -> str:
    """The whole summary. `bold` marks titles with terminal codes."""

    def title(text: str) -> str:
        return _title(text, bold)

    lines = [title(device_line(run.header, sheet)), "", *aligned(_all(run, table, sheet), bold)]
    found = warnings(run, table, sheet)
    if found:
        lines += [title("Warnings"), *(f"  - {line(w)}" for w in found), ""]
    return "\n".join(lines)


def as_markdown(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> str:
    """The summary as Markdown: a heading for the device, a table a section, warnings as a list."""
    lines = [f"## {markdown(device_line(run.header, sheet))}", ""]
    lines += in_markdown(_all(run, table, sheet))
    found = warnings(run, table, sheet)
    if found:
        lines += ["### Warnings", "", *(f"- {markdown(w)}" for w in found), ""]
    return "\n".join(lines)


def _all(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> list[Section]:
    """Every benchmark's, beside the host's libraries, the roofline, and what they mean for kernels."""
    beside, meant = peer_values.section(run, table), advice_table.section(run, table)
    placed = roofline_tables.sections(run, table, sheet)
    return sections(run, table) + [section for section in (beside, *placed, meant) if section is not None]


def aligned(found: Sequence[Section], bold: bool = False) -> list[str]:
    """Lines of titled tables, with their notes."""
    lines = []
    for section in found:
        lines += [_title(section.title, bold), *_aligned(section), *(f"  note: {line(n)}" for n in section.notes), ""]
    return lines


def in_markdown(found: Sequence[Section]) -> list[str]:
    """The same as Markdown: a heading and a table each."""
    lines = []
    for section in found:
        lines += [f"### {markdown(section.title)}", "", "| " + " | ".join(map(markdown, section.header)) + " |"]
        lines.append("|" + "---|" * len(section.header))
        lines += ["| " + " | ".join(map(markdown, row)) + " |" for row in section.rows]
        lines += ["", *(f"{markdown(note)}  " for note in section.notes), ""]
    return lines


def in_latex(found: Sequence[Section]) -> list[str]:
    """The same for LaTeX: titles and notes are comments above and below each table."""
    lines = []
    for section in found:
        columns = "l" * section.left + "r" * (len(section.header) - section.left)
        lines += [f"% {line(section.title)}", markup_tables.latex(section.header, columns, section.rows)]
        lines += [*(f"% {line(note)}" for note in section.notes), ""]
    return lines


def _title(text: str, bold: bool) -> str:
    return f"\x1b[1m{line(text)}\x1b[0m" if bold else line(text)


def _aligned(section: Section) -> list[str]:
    """The table with columns aligned: names to the left, values to the right. A long reason runs on."""
    table = [tuple(map(line, row)) for row in (section.header, *section.rows)]
    widths = [
        max((len(cell) for cell in column if len(cell) <= LONGEST), default=LONGEST) for column in zip(*table, strict=True)
    ]
    lines = []
    for row in table:
        cells = [c.ljust(w) if i < section.left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
