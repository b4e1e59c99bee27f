"""Text from files and devices, shown harmlessly: in a terminal, and in Markdown, LaTeX and CSV."""

from __future__ import annotations

import codecs
import re
from typing import TextIO

LINE = 2000  # letters of one line on a terminal: no honest one is longer, and one of a megabyte hides all others
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # what a spreadsheet takes for a formula's start, full width too

_MARKDOWN = re.compile(r"[\\|`<*\[\]!~$&]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ALIKE = {
    "\u2013": "-", "\u2026": "...", "\xb7": "-", "\xb5": "u", "\u03bc": "u", "\xd7": "x", "\xb1": "+-", "\u2265": ">=",
    "\u2264": "<=", "\u2212": "-", "\u2500": "-", "\u2502": "|", "\u250c": "+", "\u2510": "+", "\u2514": "+", "\u2518": "+",
    "\u2534": "+", "\u252c": "+", "\u2587": "#",
}  # fmt: skip
_BLOCK = re.compile(r"\s*(?:[#>]|[-+=](?=[-+=\s]|$)|[0-9]+(?=[.)](?:\s|$)))")  # what at a line's start is no longer text
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    # after a row's end these would be an argument of it
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip


def write_anywhere(stream: TextIO) -> None:
    """Have a stream write letters that its encoding lacks, as on a terminal of ASCII or Latin-1, by others: ours by ones that
    look alike, those of files and drivers as ?."""
    codecs.register_error("clmembench", _alike)
    reconfigure = getattr(stream, "reconfigure", None)  # of a stream that a program put in the place of its own there is none
    if reconfigure is not None:
        reconfigure(errors="clmembench")


def _alike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ALIKE.get(c, "?") for c in error.object[error.start : error.end]), error.end


def printable(text: str, instead: str = "?") -> str:
    """Text without control, bidirectional, invisible or other unprintable characters, half of a character pair among them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else instead for c in text)


def line(text: str, most: int = LINE) -> str:
    """One line for a terminal: printable, and cut where it is longer than any honest one."""
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def markdown(text: str) -> str:
    """Text that stays text in a Markdown paragraph, heading, list or table: no markup, no HTML, no formula and no link."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", printable(text, " ").strip())
    start = _BLOCK.match(escaped)
    if start is None:
        return escaped
    at = start.end() - (not start[0][-1].isdigit())  # of a numbered item it is the dot that makes one
    return f"{escaped[:at]}\\{escaped[at:]}"


def latex(text: str) -> str:
    """Text that stays text in LaTeX, in a table too."""
    return "".join(_LATEX.get(c, c) for c in printable(text))


def csv_cell(value: object) -> object:
    """A cell of a CSV file. A spreadsheet would run one that starts like a formula: it gets an apostrophe before it."""
    if not isinstance(value, str):
        return value
    return "'" * value.startswith(FORMULA) + printable(value)
