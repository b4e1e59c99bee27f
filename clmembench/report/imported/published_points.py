"""Published results as points of our benchmarks, by the map of `published_map`.

`published_points(sheet)` is what figures draw, as hollow marks named "published". The values take no part in ranks, ratios or
statistics of what was measured: the papers' methods differ from ours and from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clmembench.model import Value
from clmembench.report.imported.published_map import BYTES, JOINS, Join
from clmembench.specs.sheets import Published, SpecSheet


@dataclass(frozen=True, slots=True)
class PublishedPoint:
    """One published value as a point of ours, in `unit` (sizes in B): `low` and `high` where the paper or the rounding of its
    numbers bounds it; `qualifier` about, above or below; `derived` says how it was computed where no paper prints it."""

    device: str
    benchmark: str
    metric: str
    params: Mapping[str, Value]
    value: float
    unit: str
    low: float | None
    high: float | None
    qualifier: str
    paper: str
    place: str
    quote: str
    derived: str
    caveat: str
    headlines: tuple[str, ...]
    result: Published


def published_points(sheet: SpecSheet) -> list[PublishedPoint]:
    """The published results of a device that are points of ours, in the order of JOINS; each result is one point."""
    found, taken = [], set()
    for join in JOINS:
        for number, result in enumerate(sheet.published):
            if number not in taken and join.holds(result):
                taken.add(number)
                found.append(_point(sheet, join, result))
    return found


def published_marks(sheets: Iterable[SpecSheet]) -> list[tuple[str, str, Mapping[str, Value], float, str, str, str]]:
    """What figures draw of the published points of devices: benchmark, metric, parameters, value, unit, device, qualifier."""
    points = [point for sheet in sheets if sheet.origin == "published" for point in published_points(sheet)]
    return [(p.benchmark, p.metric, p.params, p.value, p.unit, p.device, p.qualifier) for p in points]


def _point(sheet: SpecSheet, join: Join, result: Published) -> PublishedPoint:
    scale = BYTES[result.unit] if join.unit == "B" else 1
    ends = [None if end is None else end * scale for end in (result.low, result.high)]
    params = {ours: result.params[theirs] for ours, theirs in join.axes.items() if theirs in result.params}
    return PublishedPoint(
        device=sheet.name,
        benchmark=join.to[0],
        metric=join.to[1],
        params={**join.point, **params},
        value=result.value * scale,
        unit=join.unit,
        low=ends[0],
        high=ends[1],
        qualifier=result.qualifier,
        paper=result.paper,
        place=result.place,
        quote=result.quote,
        derived=": ".join(filter(None, (result.derived, result.formula))),
        caveat=join.caveat,
        headlines=join.headlines,
        result=result,
    )
