"""The figures of one benchmark in a report: those of its study, else those that any benchmark has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from clmembench import studies
from clmembench.model import BenchmarkInfo
from clmembench.report.figures.curves import figure
from clmembench.report.figures.device_rows import Shown
from clmembench.report.figures.left_out import comparable, reasons, without_value
from clmembench.studies import NO_FIGURE

Figure = Callable[[BenchmarkInfo, Sequence[Shown]], str]  # inline SVG, "" where there is nothing to draw


def drawn(name: str, card: BenchmarkInfo, shown: Sequence[Shown]) -> str:
    """The figures of one benchmark over all devices that were measured with the card's version of it; "" where it has none.
    `shown` are all devices of the page in its order, which decides their looks."""
    own = studies.figure(name)
    if own == NO_FIGURE:
        return ""
    draw: Figure = own if callable(own) else figure
    numbered = [replace(device, number=number) for number, device in enumerate(shown)]
    return draw(card, comparable(card, numbered)[0])


def left_out(name: str, card: BenchmarkInfo, shown: Sequence[Shown]) -> list[str]:
    """Values that these figures leave out, each with its reason."""
    same, why = comparable(card, shown)
    return why + (without_value(same) if studies.figure(name) else reasons(card, same))
