"""Which rows of a device a figure of any benchmark draws, which it leaves out and why, and how lines and bars are named."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from clmembench.analysis.derive import Derived
from clmembench.model import BenchmarkInfo
from clmembench.report.figures.style import plain
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.summary import split
from clmembench.report.views import point_labels
from clmembench.sanitize import line
from clmembench.units import count, format_bytes, format_param, format_params, is_byte_size

MIN_LINE_POINTS = 2  # of a line; one point alone is none
MAX_LISTED = 8  # names of devices in a sentence

Omission = tuple[str, str]  # the name of a device, "" of the only one, and why it or some of its points are not drawn


def comparable(name: str, card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> tuple[list[LabelledRun], list[Omission]]:
    """The devices with the card's version of the benchmark of that name, or without any, and why the others are not drawn."""
    same: list[LabelledRun] = []
    omitted: list[Omission] = []
    for device in devices:
        own = device.run.header.benchmarks.get(name, card)
        if own.version == card.version:
            same.append(device)
        elif device.rows:
            why = f"measured with version {own.version} of {name}, and drawn is version {card.version}"
            omitted.append((device.label, why))
    return same, omitted


def by_reason(omitted: Iterable[Omission], between: str = ": ") -> list[str]:
    """One text for each reason, the names that it holds for before it."""
    names: dict[str, list[str]] = {}
    for name, reason in omitted:
        names.setdefault(reason, []).append(name)
    return [line(f"{listed(of)}{between}{reason}" if any(of) else reason) for reason, of in names.items()]


def listed(names: Sequence[str]) -> str:
    """Names in a row; of many the first, and how many others there are."""
    if len(names) <= MAX_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[: MAX_LISTED // 2])} and {len(names) - MAX_LISTED // 2} others"


def without_value(rows: Sequence[Row]) -> list[str]:
    """How many rows have no value to be drawn, by status; nothing where all have one."""
    by_status = Counter(row.status for row in rows if not row.is_good)
    kinds = ", ".join(f"{number} {status}" for status, number in sorted(by_status.items()))
    return [f"{count(by_status.total(), 'value')} without a result ({kinds})"] if kinds else []


def without_place(card: BenchmarkInfo, device: LabelledRun) -> list[str]:
    """Points with a value in none of the benchmark's plots, by what keeps them out; points of a metric that is drawn only."""
    good = [row for row in device.rows if row.is_good]
    drawn, headline = drawn_rows(card, device)
    kept = {id(row) for row in drawn}
    points = {_point(row) for row in drawn}
    left = [row for row in good if id(row) not in kept and _point(row) not in points]
    alone = [row for row in left if any(row is one for one in headline)]
    told = {_point(row) for row in alone}
    other = [row for row in left if _point(row) not in told]
    found = []
    if other:
        metrics = ", ".join(dict.fromkeys(f"{row.value.metric} in {row.value.unit}" for row in other))
        found.append(f"{_points(other)}: {metrics} has no place on an axis of {card.metrics[0].name} in {card.metrics[0].unit}")
    if alone:
        x = x_axis(card)
        numbers = all(type(row.value.params.get(x)) in (int, float) for row in alone)
        why = (
            f"a line needs two values of {x}" if numbers else f"{x} is not numeric" if x else "there is no axis to draw it over"
        )
        found.append(f"{_points(alone)}: {why}")
    return found


def _point(row: Row) -> str:
    return repr((row.value.params, row.value.tuning))


def _points(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(format_params(row.value.params) for row in rows))
    return names[0] if len(names) == 1 else f"{len(names)} points, such as {names[0]}"


def drawn_rows(card: BenchmarkInfo, device: LabelledRun) -> tuple[list[Row], list[Row]]:
    """A device's rows that are in any plot, and all that are of the metric drawn."""
    whole, placed = drawable(card, [device])
    mine = [row for shown in whole for row in shown.rows]
    scaled = [row for shown in placed for row in shown.rows]
    parts = split([row for row in device.rows if row.is_good])
    headline = mine + [row for row in parts[1] if row.value.metric == _headline(card, row)]
    if not whole:
        return scaled, headline
    if card.growing:
        return [*numbered(card, whole[0]), *scaled], headline
    bars = at_largest(card, whole[0])[1] if has_bars(card, whole) else []
    return [*bars, *rows_of_lines(card, whole[0]), *scaled], headline


def has_bars(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> bool:
    """Whether points have bars: rates do, but those by slopes only where no points make a line."""
    form = card.metrics[0].form
    return form == "rate" or (form == "slope_rate" and not any(rows_of_lines(card, device) for device in devices))


def drawable(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> tuple[list[LabelledRun], list[LabelledRun]]:
    """Good rows of the headline's unit, since others have no place on the same axis: on whole devices, and on parts of them."""
    whole: list[LabelledRun] = []
    placed: list[LabelledRun] = []
    for device in shown:
        rows = [r for r in device.rows if r.is_good]
        parts = split([r for r in rows if r.value.unit == card.metrics[0].unit and r.value.metric == _headline(card, r)])
        for found, part in zip((whole, placed), parts, strict=True):
            if part:
                found.append(replace(device, label=plain(device.label), rows=tuple(part)))
    return whole, [s for s in placed if len({r.value.place.compute_units for r in s.rows}) > 1]


def _headline(card: BenchmarkInfo, row: Row) -> str:
    """The first of the card's metrics that speaks of the row's point."""
    return next((m.name for m in card.metrics if m.applies(row.value.params)), "")


def bar_names(rows: Sequence[Row]) -> list[str]:
    """Short names of bars: the values alone, of the parameters that differ; the whole of what tells them apart if need be."""
    params = [r.value.params for r in rows]
    differing = [name for name in params[0] if len({str(p.get(name)) for p in params}) > 1]
    short = [", ".join(_short(name, p.get(name)) for name in differing) for p in params] if differing else []
    return [plain(name) for name in (short if len(set(short)) == len(rows) else point_labels(rows))]


def _short(name: str, value: object) -> str:
    """A parameter's value as a name of a bar has room for it."""
    return short_number(value) if type(value) is int and not is_byte_size(name) else format_param(name, value)


def lines_of(card: BenchmarkInfo, devices: Sequence[LabelledRun]) -> list[tuple[str, str, list[Row]]]:
    """(device, other parameters, rows in order of x) of every line; parameters that all lines share are left out."""
    every = [row.value.params for device in devices for row in device.rows]
    shared = {n for params in every[:1] for n in params if all(p.get(n) == params[n] for p in every)}
    found: list[tuple[str, str, list[Row]]] = []
    for device in devices:
        groups: dict[str, list[Row]] = {}
        for row in device.rows:
            groups.setdefault(repr({k: v for k, v in row.value.params.items() if k != x_axis(card)}), []).append(row)
        found += [
            (
                device.label,
                _params(rows[0], {x_axis(card)} | shared),
                sorted(rows, key=lambda r: float(r.value.params[x_axis(card)])),
            )
            for rows in groups.values()
        ]
    return found


def rows_of_lines(card: BenchmarkInfo, device: LabelledRun) -> tuple[Row, ...]:
    """The rows of lines with enough points, of numbers, to be drawn as curves."""
    lines = lines_of(card, [replace(device, rows=numbered(card, device))])
    return tuple(row for _, _, rows in lines if len(rows) >= MIN_LINE_POINTS for row in rows)


def numbered(card: BenchmarkInfo, device: LabelledRun) -> tuple[Row, ...]:
    """The rows that have a place on a logarithmic axis of x."""
    x = x_axis(card)
    return tuple(r for r in device.rows if is_positive_number(r.value.params.get(x)))


def is_positive_number(value: object) -> bool:
    """Whether a parameter has a place on a logarithmic axis."""
    return type(value) in (int, float) and 0 < value < math.inf  # type: ignore[operator]


def value_and_interval(value: Derived, in_cycles: bool = False) -> tuple[float, float, float]:
    """The median with the ends of its 95% interval, which are the median where there is none, in its unit or in cycles."""
    if in_cycles:
        return with_interval(value.cycles or 0.0, value.cycles_low, value.cycles_high)
    return with_interval(value.median or 0.0, value.ci_low, value.ci_high)


def with_interval(value: float, low: float | None, high: float | None) -> tuple[float, float, float]:
    """A value with an interval that can be drawn: finite, the value within it."""
    lowest = value if low is None or not math.isfinite(low) else min(low, value)
    highest = value if high is None or not math.isfinite(high) else max(high, value)
    return value, lowest, highest


def short_number(value: float) -> str:
    """A number as an axis has room for it: large powers of two as such."""
    large = value >= 1e5 and value == int(value) and int(value) & (int(value) - 1) == 0
    return f"2^{int(value).bit_length() - 1}" if large else f"{value:g}"


def at_largest(card: BenchmarkInfo, device: LabelledRun) -> tuple[str, list[Row]]:
    """The row at the largest x of each line where x is a number, and that x where all share it; else all rows."""
    x = x_axis(card)
    if not all(type(r.value.params.get(x)) in (int, float) for r in device.rows):
        return "", list(device.rows)
    tops = [rows[-1] for _, _, rows in lines_of(card, [device])]
    sizes = {float(r.value.params[x]) for r in tops}
    if len(sizes) > 1:
        return "", tops
    (size,) = sizes
    return format_bytes(int(size)) if is_byte_size(x) else plain(f"{x} = {short_number(size)}"), tops


def _params(row: Row, without: Collection[str]) -> str:
    return plain(format_params({k: v for k, v in row.value.params.items() if k not in without}))


def metric_label(card: BenchmarkInfo) -> str:
    """The headline metric and its unit, as an axis is labelled."""
    return plain(f"{card.metrics[0].name.replace('_', ' ')} ({card.metrics[0].unit})")


def x_axis(card: BenchmarkInfo) -> str:
    """The parameter that a figure of the benchmark is drawn over."""
    return card.x or card.growing
