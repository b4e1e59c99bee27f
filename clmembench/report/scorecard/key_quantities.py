"""The eight headline quantities that a reader sees first, and which line of a scorecard stands for each."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.report.scorecard_cells import Line, Scorecard


@dataclass(frozen=True, slots=True)
class KeyQuantity:
    """A quantity under its short title; `names` are the scorecard's lines that may stand for it, the best one first."""

    title: str
    names: tuple[str, ...]


KEY_QUANTITIES = (
    KeyQuantity("Memory bandwidth, triad", ("memory triad, double",)),
    KeyQuantity("DGEMM", ("DGEMM",)),
    KeyQuantity("SpMV", ("SpMV reservoir, best format", "SpMV banded, best format", "SpMV power_law, best format")),
    # a sweep is of one compute unit, whose distance from the memory it contains
    KeyQuantity("Memory latency", ("load from DRAM, by topology", "memory")),
    KeyQuantity("Nearest cache latency", ("nearest cache", "load from L1, by topology")),
    KeyQuantity("Launch, round trip", ("launch, round trip",)),
    KeyQuantity("One atomic add", ("add by one work-item",)),
    KeyQuantity("Host link, to device", ("host to device",)),
)


def key_lines(scorecard: Scorecard) -> list[tuple[KeyQuantity, Line]]:
    """The key quantities of a scorecard in their order, each with its line that most devices have a value in, of as many the
    first."""
    lines = {line.name: line for line in scorecard.lines}
    found = []
    for quantity in KEY_QUANTITIES:
        own = [lines[name] for name in quantity.names if name in lines]
        if own:
            found.append((quantity, max(own, key=_values)))
    return found


def _values(line: Line) -> int:
    return sum(cell.value is not None for cell in line.cells)
