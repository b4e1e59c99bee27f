"""A titled table as data, and a document of such tables; `render` makes text, Markdown, LaTeX, CSV or HTML of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Cell = str | int | float | None  # what people read is text; numbers and None are for programs

MAX_CELL = 40  # letters of a cell that widen its column in text, so that one long reason does not


class Remark(str):
    """A cell whose text runs on over the cells beside it: it widens no column."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, whether it holds numbers (aligned to the right), the unit of all its values ("" where cells have
    their own or none), and how many letters of a cell widen it in text."""

    name: str
    is_number: bool = False
    unit: str = ""
    max_cell: int = MAX_CELL

    @property
    def heading(self) -> str:
        """Text above the column."""
        return f"{self.name} in {self.unit}" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table: every row has as many cells as there are columns. `notes` stand below it; without a title and notes it
    is the table alone."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """Text above each column."""
        return tuple(column.heading for column in self.columns)


@dataclass(frozen=True, slots=True)
class Document:
    """Output of a command for people: a heading, sections, and warnings. Without heading and warnings it is the sections."""

    sections: tuple[Table, ...]
    heading: str = ""
    warnings: tuple[str, ...] = ()


def columns(header: Iterable[str | Column], left: int = 1) -> tuple[Column, ...]:
    """Columns by their names: the first `left` of them hold names, the others numbers. A Column among them stays as it is."""
    return tuple(
        name if isinstance(name, Column) else Column(name, is_number=index >= left) for index, name in enumerate(header)
    )


def one_table(table: Table) -> Document:
    """A document of one table."""
    return Document((table,))


def reasons_as_notes(section: Table, names: Sequence[str]) -> Table:
    """The table without the columns of that name, whose texts push numbers off a page: they stand as notes below it, and the
    last cell that is left has their number."""
    kept = [at for at, column in enumerate(section.columns) if column.name not in names]
    moved = [at for at, column in enumerate(section.columns) if column.name in names]
    reasons, rows = Reasons(), []
    for row in section.rows:
        reason = "; ".join(str(row[at]) for at in moved if row[at])
        number = reasons.number(reason)
        *cells, last = (row[at] for at in kept)
        rows.append((*cells, f"{last} {number}" if number else last))
    columns = tuple(section.columns[at] for at in kept)
    return Table(section.title, columns, tuple(rows), (*section.notes, *reasons.notes()))


@dataclass(slots=True)
class Reasons:
    """Reasons of a table's rows: a cell has the number, and the text stands below the table, where it widens no column."""

    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, reason: str) -> str:
        """The cell of a row with that reason; "" where there is none. Rows of one reason share a number."""
        return f"[{self._numbers.setdefault(reason, len(self._numbers) + 1)}]" if reason else ""

    def notes(self) -> tuple[str, ...]:
        """Lines below the table."""
        return tuple(f"[{number}] {reason}" for reason, number in self._numbers.items())
