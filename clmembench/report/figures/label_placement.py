"""Where names of dots in a figure go, so that they cover neither dots nor each other. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Spot = tuple[float, float]  # to the right and up, in points

LETTER = 0.56  # of a font's size: the mean width of a letter
RIGHT = (7.0, 20.0, 40.0, 65.0, 95.0, 130.0)
UP = tuple(4.5 * step for step in range(-22, 23))
AWAY = 3.5  # points about a dot or a line's point that a name leaves free


def offsets(dots: Sequence[Spot], names: Sequence[str], in_way: Sequence[Spot], font: float) -> list[Spot]:
    """For each dot how far from it its name begins, at half its height: the nearest place to its right that is free of `in_way`
    and of the names before it; just beside the dot where none is."""
    found: list[Spot] = []
    taken: list[tuple[float, float, float, float]] = [(x - AWAY, y - AWAY, x + AWAY, y + AWAY) for x, y in in_way]
    tried = sorted(itertools.product(RIGHT, UP), key=lambda spot: math.hypot(*spot))
    for (x, y), name in zip(dots, names, strict=True):
        boxes = [(spot, _box((x + spot[0], y + spot[1]), name, font)) for spot in tried]
        spot, box = next((pair for pair in boxes if not any(_overlap(pair[1], other) for other in taken)), boxes[0])
        found.append(spot)
        taken.append(box)
    return found


def _box(at: Spot, name: str, font: float) -> tuple[float, float, float, float]:
    return at[0], at[1] - 0.6 * font, at[0] + LETTER * font * len(name), at[1] + 0.6 * font


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
