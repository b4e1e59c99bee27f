"""Which rows of a device a figure of any benchmark draws, and how lines and bars are named after their parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from clmembench.analysis.derive import Derived
from clmembench.model import BenchmarkInfo
from clmembench.report.figures.style import plain
from clmembench.report.frame import Row
from clmembench.report.summary import split
from clmembench.report.views import point_labels
from clmembench.units import format_bytes, format_param, format_params, is_byte_size

MIN_LINE_POINTS = 2  # of a line; one point alone is none


@dataclass(frozen=True, slots=True)
class Shown:
    """One device's rows of one benchmark, under the name that the report gives the device."""

    label: str
    rows: tuple[Row, ...]
    kind: str = ""
    line_bytes: int = 0  # as the device reports it; 0: it does not
    version: int = 0  # of the benchmark, in the run that these are of; 0: not known
    has_cpu_cores: bool = False  # as DeviceInfo has it
    number: int = 0  # of the device on the page, which decides its look


def drawn_rows(card: BenchmarkInfo, device: Shown) -> tuple[list[Row], list[Row]]:
    """A device's rows that are in any plot, and all that are of the metric drawn."""
    whole, placed = drawable(card, [device])
    mine = [row for shown in whole for row in shown.rows]
    scaled = [row for shown in placed for row in shown.rows]
    parts = split([row for row in device.rows if row.status == "ok" and row.value.median is not None])
    headline = mine + [row for row in parts[1] if row.value.metric == _headline(card, row)]
    if not whole:
        return scaled, headline
    if card.growing:
        return [*numbered(card, whole[0]), *scaled], headline
    bars = at_largest(card, whole[0])[1] if card.metrics[0].form == "rate" else []
    return [*bars, *rows_of_lines(card, whole[0]), *scaled], headline


def drawable(card: BenchmarkInfo, shown: Sequence[Shown]) -> tuple[list[Shown], list[Shown]]:
    """Good rows of the headline's unit, since others have no place on the same axis: on whole devices, and on parts of them."""
    whole: list[Shown] = []
    placed: list[Shown] = []
    for device in shown:
        rows = [r for r in device.rows if r.value.median is not None and r.status == "ok"]
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


def lines_of(card: BenchmarkInfo, devices: Sequence[Shown]) -> list[tuple[str, str, list[Row]]]:
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


def rows_of_lines(card: BenchmarkInfo, device: Shown) -> tuple[Row, ...]:
    """The rows of lines with enough points, of numbers, to be drawn as curves."""
    lines = lines_of(card, [Shown(device.label, numbered(card, device))])
    return tuple(row for _, _, rows in lines if len(rows) >= MIN_LINE_POINTS for row in rows)


def numbered(card: BenchmarkInfo, device: Shown) -> tuple[Row, ...]:
    """The rows that have a place on a logarithmic axis of x."""
    x = x_axis(card)
    return tuple(r for r in device.rows if type(r.value.params.get(x)) in (int, float) and float(r.value.params[x]) > 0)


def value_and_interval(value: Derived, in_cycles: bool = False) -> tuple[float, float, float]:
    """The median with the ends of its 95% interval, which are the median where there is none, in its unit or in cycles."""
    ends = (value.cycles, value.cycles_low, value.cycles_high) if in_cycles else (value.median, value.ci_low, value.ci_high)
    middle = ends[0] or 0.0
    low, high = (middle if end is None else end for end in ends[1:])
    return middle, min(low, middle), max(high, middle)


def short_number(value: float) -> str:
    """A number as an axis has room for it: large powers of two as such."""
    large = value >= 1e5 and value == int(value) and int(value) & (int(value) - 1) == 0
    return f"2^{int(value).bit_length() - 1}" if large else f"{value:g}"


def at_largest(card: BenchmarkInfo, device: Shown) -> tuple[str, list[Row]]:
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
