"""One titled table of a summary, as data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table; every row has as many cells as the header, the first `left` of them names. `notes` stand below it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1


@dataclass(slots=True)
class Reasons:
    """Reasons of a table's rows: a cell has the number, and the text stands below the table, where it widens no column."""

    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, reason: str) -> str:
        """The cell of a row with that reason; "" where there is none. Rows of one reason share a number."""
        return f"[{self._numbers.setdefault(reason, len(self._numbers) + 1)}]" if reason else ""

    def notes(self) -> tuple[str, ...]:
        """What stands below the table."""
        return tuple(f"[{number}] {reason}" for reason, number in self._numbers.items())
