"""The figures of one benchmark in a report, and the values that they leave out, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from clmembench import studies
from clmembench.model import BenchmarkInfo
from clmembench.report.figures import device_rows
from clmembench.report.figures.curves import figure
from clmembench.report.figures.device_rows import Shown
from clmembench.report.frame import Row
from clmembench.sanitize import line
from clmembench.studies import NO_FIGURE
from clmembench.units import count, format_params

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


def comparable(card: BenchmarkInfo, shown: Sequence[Shown]) -> tuple[list[Shown], list[str]]:
    """The devices that the card's version of the benchmark was measured on, and why the others are not drawn."""
    same = [device for device in shown if device.version in (0, card.version)]
    why = [
        line(f"{device.label}: measured with version {device.version} of this benchmark, and drawn is version {card.version}")
        for device in shown
        if device not in same and device.rows
    ]
    return same, why


def reasons(card: BenchmarkInfo, shown: Sequence[Shown]) -> list[str]:
    """Why points of these devices are in none of the benchmark's plots; points of a metric that is drawn only."""
    found = []
    several = len([device for device in shown if device.rows]) > 1
    for device in shown:
        told = [*_without_value(device.rows), *_not_drawn(card, device)]
        found += [line(f"{device.label}: {why}" if several else why) for why in told]
    return found


def without_value(shown: Sequence[Shown]) -> list[str]:
    """Number of values without a result for each device, for figures that draw all results."""
    several = len([device for device in shown if device.rows]) > 1
    return [line(f"{d.label}: {why}" if several else why) for d in shown for why in _without_value(d.rows)]


def _without_value(rows: Sequence[Row]) -> list[str]:
    by_status = Counter(row.status for row in rows if row.status != "ok" or row.value.median is None)
    total = sum(by_status.values())
    kinds = ", ".join(f"{number} {status}" for status, number in sorted(by_status.items()))
    return [f"{count(total, 'value')} not to be shown ({kinds})"] if total else []


def _not_drawn(card: BenchmarkInfo, device: Shown) -> list[str]:
    """Points with a value in none of the plots, by what keeps them out."""
    good = [row for row in device.rows if row.status == "ok" and row.value.median is not None]
    drawn, headline = device_rows.drawn_rows(card, device)
    kept = {id(row) for row in drawn}
    points = {repr((row.value.params, row.value.tuning)) for row in drawn}
    left = [row for row in good if id(row) not in kept and repr((row.value.params, row.value.tuning)) not in points]
    alone = [row for row in left if any(row is one for one in headline)]
    told = {repr((row.value.params, row.value.tuning)) for row in alone}
    other = [row for row in left if repr((row.value.params, row.value.tuning)) not in told]
    found = []
    if other:
        metrics = ", ".join(dict.fromkeys(f"{row.value.metric} in {row.value.unit}" for row in other))
        found.append(f"{_points(other)}: {metrics} has no place on an axis of {card.metrics[0].name} in {card.metrics[0].unit}")
    if alone:
        x = card.x or card.growing
        numbers = all(type(row.value.params.get(x)) in (int, float) for row in alone)
        why = f"one value of {x} makes no line" if numbers else f"{x} is no number" if x else "there is no axis to draw it over"
        found.append(f"{_points(alone)}: {why}")
    return found


def _points(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(format_params(row.value.params) for row in rows))
    return names[0] if len(names) == 1 else f"{len(names)} points, such as {names[0]}"
