"""One renderer for each format: text, Markdown, LaTeX and HTML of documents and sections, CSV of a section, JSON of objects.

Cells, titles and notes may come from files and drivers: each renderer makes them harmless in its format.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmembench import sanitize
from clmembench.report import folding
from clmembench.report.table import Cell, Document, Entry, Table
from clmembench.sanitize import line, printable
from clmembench.units import count

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
RED, GREEN, YELLOW, MAGENTA, CYAN = 31, 32, 33, 35, 36  # terminal codes
BAR = "▇"  # what the bars of tables are of
STATUS_COLOURS = {
    "suspect": YELLOW, "undetermined": MAGENTA, "undecided": MAGENTA, "inconsistent": YELLOW, "skipped": CYAN,
    "failed": RED, "wrong": RED, "timeout": RED, "slower": RED, "faster": GREEN,
}  # fmt: skip


def text(document: Document, bold: bool = False, width: int | None = None) -> str:
    """Aligned text for a terminal or a pipe, no wider than `width`, which None does not limit; `bold` marks titles and statuses
    with terminal codes."""
    lines = [*(_strong(part, bold) for part in _wrapped(document.heading, width)), ""] if document.heading else []
    for section in document.sections:
        lines += [*([_strong(part, bold) for part in _wrapped(section.title, width)] if section.title else [])]
        lines += [*aligned_with_notes(section, width, bold), ""]
    if document.warnings:
        lines.append(_strong("Warnings", bold))
        lines += [part for warning in document.warnings for part in _wrapped(warning, width, "  - ", "    ")]
        lines.append("")
    return "\n".join(lines)


def aligned_with_notes(section: Table, width: int | None = None, colour: bool = False) -> list[str]:
    """The lines of a table and of its notes."""
    notes = [part for note in section.notes for part in _wrapped(note, width, "  note: ", "    ")]
    return [*aligned(section, width=width, colour=colour), *notes]


def aligned(section: Table, indent: str = "  ", width: int | None = None, colour: bool = False) -> list[str]:
    """The lines of a table: names to the left, numbers to the right. A cell over its column's `max_cell` letters runs on; with
    a `width`, no line is wider, and columns fold. `colour` marks statuses with terminal codes."""
    paint = _coloured if colour else _uncoloured
    rows = [section.header, *section.rows]
    widths = [_width([row[at] for row in rows], column.max_cell) for at, column in enumerate(section.columns)]
    layout = list(zip(section.columns, widths, strict=True))
    lines, widest = [], 0
    for row in rows:
        texts = [line(_plain(cell)) for cell in row]
        cells = [
            text.rjust(width) if column.is_number else text.ljust(width)
            for text, (column, width) in zip(texts, layout, strict=True)
        ]
        widest = max(widest, folding.columns((indent + "  ".join(cells)).rstrip()))
        lines.append((indent + "  ".join(map(paint, texts, cells))).rstrip())
    if width is None or widest <= width:
        return lines
    shapes = [folding.TableShape(column.is_number, column.max_cell) for column in section.columns]
    table = [[folding.FoldedCell(line(_plain(cell)), _runs_on(cell)) for cell in row] for row in rows]
    return folding.fold(shapes, table, width, indent, paint)


def wrapped(texts: Iterable[str], width: int | None) -> list[str]:
    """Texts as harmless lines, none wider than `width`; those that run on begin further to the right."""
    if width is None:
        return list(map(line, texts))
    starts = [(text, text[: len(text) - len(text.lstrip())]) for text in texts]
    return [part for text, start in starts for part in _wrapped(text.lstrip(), width, start, f"{start}  ")]


def markdown(document: Document) -> str:
    """A heading for the document and for each section, a table each, notes as lines below it, warnings as a list."""
    lines = [f"## {sanitize.markdown(document.heading)}", ""] if document.heading else []
    for section in document.sections:
        lines += [f"### {sanitize.markdown(section.title)}", ""] if section.title else []
        lines.append("| " + " | ".join(map(sanitize.markdown, section.header)) + " |")
        lines.append("|" + "|".join("--:" if column.is_number else "---" for column in section.columns) + "|")
        lines += ["| " + " | ".join(sanitize.markdown(_plain(cell)) for cell in row) + " |" for row in section.rows]
        if section.title or section.notes:
            lines += ["", *(f"{sanitize.markdown(note)}  " for note in section.notes), ""]
    if document.warnings:
        lines += ["### Warnings", "", *(f"- {sanitize.markdown(warning)}" for warning in document.warnings), ""]
    return "\n".join(lines)


def latex(document: Document) -> str:
    """Tables for the package booktabs, without a float around them; titles and notes are comments above and below."""
    lines = []
    for section in document.sections:
        kinds = "".join("r" if column.is_number else "l" for column in section.columns)
        lines += [f"% {line(section.title)}"] if section.title else []
        lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", _latex_row(section.header), r"\midrule"]
        lines += [*map(_latex_row, section.rows), r"\bottomrule", r"\end{tabular}"]
        lines += [*(f"% {line(note)}" for note in section.notes), ""] if section.title or section.notes else []
    return "\n".join(lines)


def csv_text(section: Table) -> str:
    """One line for each row under the names of the columns, numbers as they are, None as an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(sanitize.csv_cell, section.header))
    writer.writerows(map(sanitize.csv_cell, map(_raw, row)) for row in section.rows)
    return out.getvalue()


def json_text(data: object) -> str:
    """JSON of dataclasses, dicts and lists, by the names of their fields. Raises ValueError for a number that is not finite."""
    from pydantic import TypeAdapter

    # "python" leaves texts as they are, which need not be UTF-8 in names of files
    return json.dumps(TypeAdapter(Any).dump_python(data, mode="python"), indent=1, allow_nan=False)


def html(template: str, values: dict[str, object], folder: Path | None = None) -> Markup:
    """A page, or a part of one, by a template of `templates/` or of a study's folder, in which `table.html.j2` renders
    sections. All text is escaped."""
    from markupsafe import Markup

    return Markup(_environment(folder).get_template(template).render(values))  # noqa: S704 - escaped by the template


@cache
def asset(name: str) -> Markup:
    """A style sheet or a script of `templates/`, as part of a page."""
    from markupsafe import Markup

    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - of this package


def asset_hash(name: str) -> str:
    """The hash by which a page's Content-Security-Policy lets this script run, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()


@cache
def _environment(folder: Path | None) -> Environment:
    """Where templates are, each compiled once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([TEMPLATES, *([folder] if folder else [])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_harmless,
    )
    environment.globals["count"] = count
    environment.globals["as_rows"] = _rows
    return environment


def _rows(section: Table) -> Markup:
    """A table as the page's script reads it: JSON in which no markup is left, with its rows by groups. A cell that is more than
    text is an object of what it has."""
    from markupsafe import Markup

    columns = section.columns[1:] if section.columns[0].is_group else section.columns
    data = {
        "columns": [[printable(column.heading), int(column.is_number)] for column in columns],
        "groups": [[printable(group), [list(map(_cell, row)) for row in rows]] for group, rows in section.groups],
    }
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704 - nothing in it begins a tag


def _cell(cell: Entry) -> str | dict[str, Any]:
    if not isinstance(cell, Cell):
        return printable(_plain(cell))
    text = printable(" ".join(filter(None, (cell.text, cell.mark))))
    having = {"note": cell.note, "kind": cell.kind, "detail": printable(cell.detail), "more": list(map(printable, cell.more))}
    extra = {name: value for name, value in having.items() if value}
    return {"text": text, **extra} if extra else text


def _harmless(value: object) -> object:
    """Text from files without control and bidirectional characters; SVG of our own as it is."""
    return printable(value) if type(value) is str else value


def _latex_row(cells: Iterable[Entry]) -> str:
    return " & ".join(sanitize.latex(_plain(cell)) for cell in cells) + r" \\"


def _raw(cell: Entry) -> str | int | float | None:
    """A cell as a program reads it: its number where it has one."""
    return cell if not isinstance(cell, Cell) else str(cell) if cell.value is None else cell.value


def _plain(cell: Entry) -> str:
    return "" if cell is None else str(cell)


def _runs_on(cell: Entry) -> bool:
    return isinstance(cell, Cell) and cell.runs_on


def _width(cells: Sequence[Entry], max_cell: int) -> int:
    lengths = [len(line(_plain(cell))) for cell in cells if not _runs_on(cell)]
    return max((length for length in lengths if length <= max_cell), default=max_cell)


def _wrapped(text: str, width: int | None, indent: str = "", further: str = "") -> list[str]:
    return [indent + line(text)] if width is None else folding.wrap(line(text), width, indent, further)


def _coloured(cell: str, text: str) -> str:
    """A line of a cell as a terminal gets it: in colour where the cell is a status or begins with one, or with a bar."""
    if cell.startswith(BAR):
        filled = text.rfind(BAR) + 1
        return f"\x1b[{CYAN}m{text[:filled]}\x1b[0m{text[filled:]}"
    colour = STATUS_COLOURS.get(cell.partition(":")[0].partition(" ")[0])
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and text.strip() else text


def _uncoloured(cell: str, text: str) -> str:
    return text


def _strong(title: str, bold: bool) -> str:
    return f"\x1b[1m{line(title)}\x1b[0m" if bold else line(title)
