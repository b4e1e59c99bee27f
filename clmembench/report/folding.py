"""Tables and texts no wider than a terminal.

Wide texts are wrapped within their columns, and columns that still do not fit are folded below their row as "heading: value".
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

GAP = "  "
MIN_COLUMNS = 40  # a narrower terminal wraps by itself
LONG_WORD_COLUMNS = 16  # of a word that may also be broken at the joints of a name
NO_BREAK = "\N{NO-BREAK SPACE}"
CONTINUATION = "    "  # before what is folded below its row

Paint = Callable[[str, str], str]  # the text of a cell, one padded line of it: that line as the terminal gets it

_UNIT = r"(?:(?:[KMGTP]i?)?(?:B|FLOP|op|Hz)(?:/s)?|[num]?s)(?!\w)"
_PIECE = re.compile(rf"\s+|[\d.,]*\d {_UNIT}|[^\s/,=;]+, {_UNIT}|[^\s/,=;]*[/,=;]|[^\s/,=;]+")
_BEFORE_UNIT = re.compile(rf"(?<=\d) (?={_UNIT})")
_PART_OF_NAME = re.compile(r".+?[_.:-](?=[^\W\d])|.+")


class FoldedCell(NamedTuple):
    """A cell of a folded table: its text, which is harmless, and whether it runs on over the cells beside it."""

    text: str
    is_remark: bool = False


class TableShape(NamedTuple):
    """Whether a column holds numbers, and how many letters of a cell may widen it."""

    is_number: bool
    max_cell: int


def fold(
    shapes: Sequence[TableShape], table: Sequence[Sequence[FoldedCell]], width: int, indent: str, paint: Paint
) -> list[str]:
    """The lines of a table, whose first row are headings; none is over `width` letters."""
    available = max(width, MIN_COLUMNS) - len(indent)
    widths = _widths(shapes, table, available)
    lines: list[str] = []
    for number, row in enumerate(table):
        lines += (indent + one for one in _row_lines(row, shapes, widths, available, paint))
        if number:
            lines += (indent + one for one in _folded_lines(table[0], row, len(widths), available, paint))
    return [text.rstrip() for text in lines]


def wrap(text: str, width: int, indent: str = "", further: str = "") -> list[str]:
    """A text as lines of at most `width` letters, the first after `indent`, the others after `further`."""
    width = max(width, MIN_COLUMNS)
    if columns(text) > len(text):  # wide letters are few, so that each is allowed for as if all were wide
        width //= 2
    joined = _BEFORE_UNIT.sub(NO_BREAK, text)
    lines = textwrap.wrap(joined, width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)
    return [part.replace(NO_BREAK, " ") for part in lines] or [indent]


def columns(text: str) -> int:
    """How many columns a terminal gives a text: two for a wide letter, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _widths(shapes: Sequence[TableShape], table: Sequence[Sequence[FoldedCell]], available: int) -> list[int]:
    """The widths of the first columns that fit, of all where they do; at least one."""
    natural, least = zip(*(_bounds(shape, [row[at] for row in table]) for at, shape in enumerate(shapes)), strict=True)
    fitting = next((n for n in range(len(shapes), 0, -1) if _total(least[:n]) <= available), 1)
    widths = list(natural[:fitting])
    while _total(widths) > available:
        widest = max((at for at in range(fitting) if widths[at] > least[at]), key=lambda at: widths[at], default=None)
        if widest is None:
            return [min(width, available) for width in widths]
        widths[widest] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _bounds(shape: TableShape, cells: Sequence[FoldedCell]) -> tuple[int, int]:
    """The widths that a column would have and must have: numbers are never wrapped, texts and headings are."""
    heading, *values = (cell.text for cell in cells if not cell.is_remark)
    longest = max(map(columns, values), default=0)
    head = max((columns(piece) for piece in _pieces(heading)), default=0)
    if shape.is_number:
        return max(longest, columns(heading)), max(longest, head)
    pieces = max((columns(piece.rstrip()) for value in values for piece in _pieces(value)), default=0)
    natural = max(min(longest, shape.max_cell), columns(heading), pieces)
    return natural, max(head, pieces)


def _pieces(text: str) -> list[str]:
    """A text in the pieces between which it may be broken: after spaces and separators, but not between a number or a
    heading's last word and its unit, and in long names after their joints."""
    found = _PIECE.findall(text)
    return [part for piece in found for part in (_PART_OF_NAME.findall(piece) if len(piece) > LONG_WORD_COLUMNS else [piece])]


def _row_lines(
    row: Sequence[FoldedCell], shapes: Sequence[TableShape], widths: Sequence[int], available: int, paint: Paint
) -> Iterator[str]:
    """The lines of one row in the columns that fit. A remark takes the place of the empty cells behind it, too."""
    blocks: list[tuple[FoldedCell, list[str], int, bool]] = []
    at = used = 0
    while at < len(widths):
        cell, width = row[at], widths[at]
        if cell.is_remark:
            width = available - used
        blocks.append((cell, _wrapped(cell.text, width), width, shapes[at].is_number and not cell.is_remark))
        used += width + len(GAP)
        at = len(widths) if cell.is_remark else at + 1
    for number in range(max(1, *(len(lines) for _, lines, _, _ in blocks))):
        parts = []
        for cell, lines, width, to_the_right in blocks:
            text = lines[number] if number < len(lines) else ""
            space = " " * (width - columns(text))
            parts.append(paint(cell.text, space + text if to_the_right else text + space))
        yield GAP.join(parts)


def _folded_lines(
    header: Sequence[FoldedCell], row: Sequence[FoldedCell], fitting: int, available: int, paint: Paint
) -> Iterator[str]:
    """The cells of a row that have no column, with their headings, as many on a line as fit."""
    if any(cell.is_remark for cell in row[:fitting]):
        return
    current = ""
    for heading, cell in zip(header[fitting:], row[fitting:], strict=True):
        if not cell.text.strip():
            continue
        for part in _wrapped(f"{heading.text}: {cell.text}" if heading.text else cell.text, available - len(CONTINUATION)):
            joined = f"{current}{GAP} {part}" if current else part
            if current and columns(joined) > available - len(CONTINUATION):
                yield CONTINUATION + paint(current, current)
                joined = part
            current = joined
    if current:
        yield CONTINUATION + paint(current, current)


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` letters, broken between its pieces, and within one that is wider."""
    lines: list[str] = []
    current = ""
    for piece in _pieces(text):
        if columns((current + piece).rstrip()) <= width:
            current += piece
            continue
        if current.strip():
            lines.append(current.rstrip())
        current = piece.lstrip()
        while columns(current) > width:
            most = next(n for n in range(len(current), 0, -1) if n == 1 or columns(current[:n]) <= width)
            lines.append(current[:most])
            current = current[most:]
    return [*lines, current.rstrip()] if current.strip() or not lines else lines
