"""The look of each device: one colour, marker and line style, the same in every figure of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# seaborn's "colorblind" (after Wong 2011) without its yellow and pink, which are too pale on white; neighbours differ most
COLOURS = ("#0173b2", "#d55e00", "#029e73", "#cc78bc", "#de8f05", "#56b4e9", "#222222", "#949494")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "p")
# 8, 11 and 5 have no common factor, so the first 440 devices have looks of their own
LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2, 1, 1.2, 1, 1.2)))


@dataclass(frozen=True, slots=True)
class Look:
    """How a device is drawn; `line` is a line style of matplotlib's, a name or a pattern of dashes in points."""

    colour: Any
    marker: str
    line: Any


def look(number: int) -> Look:
    """The look of the device of that number, counted from 0 in the order of the page."""
    return Look(COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], LINE_STYLES[number % len(LINE_STYLES)])
