"""Which lines and rows have room in a plot of many devices, and how far its vertical axis goes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clmembench.report.figures.comparison_data import BestValue, DrawnSeries

MAX_NAMED = 8  # devices of a plot that have a look of their own; further ones are grey
MAX_ROWS = 40  # of a plot of values


def named_series(series: Sequence[DrawnSeries]) -> list[DrawnSeries]:
    """The lines that have a look and a name: all, or of more than MAX_NAMED measured ones so many in equal steps of their rank
    at the place on the axis that most of them have, lowest and highest among them; published ones up to the same number."""
    measured, published = ([s for s in series if s.is_published == kind] for kind in (False, True))
    if len(measured) > MAX_NAMED:
        shared = Counter(x for one in measured for x in _xs(one))
        place = max(shared, key=lambda x: (shared[x], x))
        with_place = [one for one in measured if place in _xs(one)]
        ranked = sorted(with_place, key=lambda one: one.points[_xs(one).index(place)].y)
        last = len(ranked) - 1
        ranks = {round(n * last / (MAX_NAMED - 1)) for n in range(MAX_NAMED)}
        chosen = [ranked[n] for n in ranks]
        measured = [one for one in measured if one in chosen]
    return [*measured, *published[:MAX_NAMED]]


def shown_rows(values: Sequence[BestValue]) -> list[BestValue]:
    """The rows of a plot of values, variant by variant, best first; of more than MAX_ROWS the best of each variant."""
    variants = list(dict.fromkeys(one.variant for one in values))
    room = max(1, MAX_ROWS // max(1, len(variants)))
    found = []
    for variant in variants:
        mine = sorted((one for one in values if one.variant == variant), key=lambda one: -one.point.y)
        found += mine[:room]
    return found


def value_ends(series: Sequence[DrawnSeries]) -> tuple[float, float]:
    """The lowest and highest value of lines; intervals that reach far below do not stretch the axis."""
    points = [point for one in series for point in one.points]
    return min(max(p.low, p.y / 2) for p in points), max(min(p.high, 2 * p.y) for p in points)


def _xs(one: DrawnSeries) -> list[float]:
    return [point.x for point in one.points]
