"""The figures of a study in a report, in place of those that any benchmark has, by the benchmark's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmembench.model import Card
from clmembench.report.figures import local_curves, subgroup_curves, throughput_curves
from clmembench.report.figures.curves import Shown, figure
from clmembench.report.figures.left_out import comparable, reasons, without_value
from clmembench.report.figures.private_curves import registers_figure
from clmembench.report.sections import mnf_tables

Drawing = Callable[[Card, Sequence[Shown]], str]  # inline SVG, "" where there is nothing to draw

FIGURES: Mapping[str, Drawing] = {
    "subgroup": subgroup_curves.drawn,
    "copy_grid": throughput_curves.grid,
    "cache_read": throughput_curves.caches,
    "private_array": registers_figure,
    "banks": local_curves.banks,
    "local_copy": local_curves.local_copy,
    **dict.fromkeys(mnf_tables.SECTIONS, mnf_tables.no_figure),  # their tables say it better
}


def drawn(name: str, card: Card, shown: Sequence[Shown]) -> str:
    """The figures of one benchmark over all devices that were measured with the card's version of it; "" where a table says it
    better."""
    return FIGURES.get(name, figure)(card, comparable(card, shown)[0])


def left_out(name: str, card: Card, shown: Sequence[Shown]) -> list[str]:
    """What these figures do not draw, each with its reason."""
    same, why = comparable(card, shown)
    return why + (without_value(same) if name in FIGURES else reasons(card, same))
