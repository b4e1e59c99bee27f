"""A titled table as data, its cells, how one is declared over entries, and a document of tables.

`render` makes text, Markdown, LaTeX, CSV or HTML of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Generic, TypeVar

DEFAULT_COLUMNS = 100  # letters of a line of what people read first, where there is no terminal that has fewer or more
MAX_CELL = 40  # letters of a cell that widen its column in text, so that one long reason does not

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with more than its text: a `mark` after it, what stands below it (`more`), what a page shows on demand (`detail`),
    and a `reason`, which `noted` makes a numbered note below the table; `note` is its number. `kind` says how a page shows it
    (best, bad, muted, published), `value` is its number for programs. A cell that `runs_on` takes the place of empty cells
    beside it and widens no column. Each format shows what it has room for."""

    text: str
    mark: str = ""
    more: tuple[str, ...] = ()
    detail: str = ""
    reason: str = ""
    kind: str = ""
    value: float | None = None
    note: str = ""
    runs_on: bool = False

    def __str__(self) -> str:
        """The cell in one line, without its detail; of what stands below, brackets follow without a comma."""
        text = ", ".join((self.text, *self.more)).replace(", (", " (")
        return " ".join(filter(None, (text, self.mark, self.note)))


Entry = Cell | str | int | float | None  # what people read is text; numbers and None are for programs


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, whether it holds numbers (aligned to the right), the unit of all its values ("" where cells have
    their own or none), how many letters of a cell widen it in text, and whether a page shows it as headings over the rows that
    share its text, as the first column may be."""

    name: str
    is_number: bool = False
    unit: str = ""
    max_cell: int = MAX_CELL
    is_group: bool = False

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
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """Text above each column."""
        return tuple(column.heading for column in self.columns)

    @property
    def groups(self) -> list[tuple[str, list[tuple[Entry, ...]]]]:
        """Rows by the text of a first column that groups them, without it; all under "" where none does."""
        if not self.columns[0].is_group:
            return [("", list(self.rows))]
        return [(str(name), [row[1:] for row in rows]) for name, rows in groupby(self.rows, lambda row: row[0])]


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """A table as it is declared: the columns that name a row, and those of its values, each with what it shows of an entry.
    With `across`, which gives the place of an entry's column, entries of one name share a row, and the one value is spread over
    as many columns as there are devices."""

    names: tuple[tuple[Column, Callable[[T], Entry]], ...]
    values: tuple[tuple[Column, Callable[[T], Entry]], ...]
    across: Callable[[T], int] | None = None

    def table(self, entries: Iterable[T], headings: Sequence[str] = (), title: str = "") -> Table:
        """The table of these entries, its reasons as notes below; `headings` are those of the columns that a value is spread
        over."""
        columns = [column for column, _ in self.names]
        if self.across is None:
            columns += [column for column, _ in self.values]
            rows = [tuple(of(entry) for _, of in (*self.names, *self.values)) for entry in entries]
        else:
            ((column, value),) = self.values
            columns += [replace(column, name=heading) for heading in headings]
            spread: dict[tuple[Entry, ...], list[Entry]] = {}
            for entry in entries:
                cells = spread.setdefault(tuple(of(entry) for _, of in self.names), [""] * len(headings))
                cells[self.across(entry)] = value(entry)
            rows = [(*names, *cells) for names, cells in spread.items()]
        return noted(Table(title, tuple(columns), tuple(rows)))


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


def noted(table: Table) -> Table:
    """The table with a number in each cell that has a reason; the reasons stand as notes below it, before its others. Cells of
    one reason share a number."""
    numbers: dict[str, int] = {}

    def numbered(cell: Entry) -> Entry:
        if not isinstance(cell, Cell) or not cell.reason:
            return cell
        return replace(cell, note=f"[{numbers.setdefault(cell.reason, len(numbers) + 1)}]")

    rows = tuple(tuple(map(numbered, row)) for row in table.rows)
    return replace(table, rows=rows, notes=(*(f"[{number}] {reason}" for reason, number in numbers.items()), *table.notes))


def reasons_as_notes(section: Table, names: Sequence[str]) -> Table:
    """The table without the columns of that name, whose texts push numbers off a page: they are the reason of the last cell
    that is left."""
    kept = [at for at, column in enumerate(section.columns) if column.name not in names]
    moved = [at for at, column in enumerate(section.columns) if column.name in names]
    rows = []
    for row in section.rows:
        *cells, last = (row[at] for at in kept)
        rows.append((*cells, Cell(str(last), reason="; ".join(str(row[at]) for at in moved if row[at]))))
    return noted(Table(section.title, tuple(section.columns[at] for at in kept), tuple(rows), section.notes))
