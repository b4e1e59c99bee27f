"""Published results as cells of the verdict: those points of `published_points` that belong to a headline."""

from __future__ import annotations

from clmembench.report.imported.published_map import published_text
from clmembench.report.imported.published_points import PublishedPoint, published_points
from clmembench.report.scorecard_cells import Cell
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_params


def published_cells(sheet: SpecSheet) -> dict[str, Cell]:
    """The published results of a device by headline, of several the first of the map. They have a text and no value, and take
    no part in ranks or ratios: their methods differ from ours."""
    found: dict[str, Cell] = {}
    for point in published_points(sheet):
        for headline in point.headlines:
            found.setdefault(headline, _cell(point))
    return found


def _cell(point: PublishedPoint) -> Cell:
    result = point.result
    parts = (f"{result.source} ({result.read_from})", format_params(result.params), point.caveat, result.note)
    derived = f"derived: {point.derived}" if point.derived else ""
    quote = f"“{point.quote}”" if point.quote else ""
    detail = "; ".join(part for part in (*parts, derived, quote) if part)
    return Cell(
        printable(published_text(result)),
        extra="derived" if point.derived else "",
        detail=printable(f"published: {detail}"),
        status="published",
    )
