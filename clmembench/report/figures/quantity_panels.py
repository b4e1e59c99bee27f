"""The key quantities as small multiples: a panel a quantity, a row a device, as places on an axis that a page draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from clmembench.model.metrics import more_is_better, score
from clmembench.report.device_runs import short_names
from clmembench.report.imported.imported_values import JoinedValue, headline_values, scorecard_label, value_text
from clmembench.report.scorecard.key_quantities import KeyQuantity, key_lines
from clmembench.report.scorecard_cells import OLDER, SIGNS, Line, Scorecard, ScorecardCell
from clmembench.results.imported import ImportedRun
from clmembench.sanitize import printable
from clmembench.units import format_value, scaled

MAX_ROWS = 12  # devices with a row each: of more a panel shows the distribution
MAX_PUBLISHED = 3  # rows of published devices that are not folded
MAX_LINEAR_RATIO = 30.0  # largest number over the smallest, from which on an axis is logarithmic
MARGIN = 1.12  # of a logarithmic axis beyond its numbers, so that no mark is cut
LETTER_PERCENT = 8.0  # of an axis that a letter of its labels is wide
KEYS = {  # of marks
    "●": "median, 95% interval",
    "★": "best, or as good",
    "?": "undecided against the best",
    "○": "not compared: published, a bound, another size, an older version",
    "≥ ≤": "at least, at most",
    "~ < >": "about, below, above, as published",
}
SYMBOLS = {"about": "~", "above": "> ", "below": "< ", "": ""}
OLDER_REASON = f"By an {OLDER} of the benchmark, whose values are not comparable with newer ones."


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One device: its value as text, where its mark and its interval are on the axis, in percent, and the number of its note.
    `kind` is "best", "value", "hollow" for what takes no part in the comparison, or "none"."""

    name: str
    title: str
    text: str
    kind: str
    number: float | None = None
    low: float | None = None
    high: float | None = None
    mark: str = ""
    note: int = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity. With `dots` it is a distribution of many devices, of which `rows` has the best, the median and the worst.
    `ticks` are labels at places in percent; a panel without any has no axis."""

    title: str
    line: str
    caption: str
    rows: tuple[PanelRow, ...]
    published: tuple[PanelRow, ...]
    folded: tuple[PanelRow, ...]
    ticks: tuple[tuple[float, str], ...]
    dots: tuple[PanelRow, ...] = ()


@dataclass(frozen=True, slots=True)
class QuantityPanels:
    """All panels, their devices in order where these have rows, the meaning of marks, notes by the numbers in rows, and full
    names of devices by short ones."""

    panels: tuple[Panel, ...]
    devices: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    names: tuple[tuple[str, str], ...]


def quantity_panels(found: Scorecard, others: Sequence[ImportedRun] = ()) -> QuantityPanels:
    """The panels of the key quantities of which a measured device has a value or a bound, devices in the order of the first."""
    lines, names, notes = key_lines(found), short_names(found.labels), _Notes()
    order = _order(found, [line for _, line in lines])
    values = {scorecard_label(run): headline_values(run) for run in others}
    known = {label: values[label] for label in found.labels[len(found.devices) :]}
    weights = {label: sum(line.name in of for _, line in lines) for label, of in known.items()}
    elsewhere = sorted(known, key=lambda label: -weights[label])
    short = dict(zip(found.labels, names, strict=True))
    panels = tuple(_panel(*one, found, order, {label: known[label] for label in elsewhere}, short, notes) for one in lines)
    rows = [row for panel in panels for row in (*panel.rows, *panel.dots, *panel.published, *panel.folded)]
    marks = {"●", *(row.mark for row in rows)}
    marks |= {"○" for row in rows if row.kind == "hollow"} | {row.text[0] for row in rows}
    keys = tuple((mark, meaning) for mark, meaning in KEYS.items() if marks & set(mark.split()))
    shown = {row.name for panel in panels for row in (*panel.rows, *panel.published, *panel.folded)}
    full = ((name, label.removesuffix(", published")) for label, name in short.items() if name in shown)
    legend = tuple((name, label) for name, label in full if not label.endswith(name))
    devices = tuple(names[place] for place in order) if 1 < len(order) <= MAX_ROWS else ()
    return QuantityPanels(panels, devices, keys, tuple(notes.texts), legend)


class _Notes:
    """Reasons by number, in the order in which they are first given."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts) + 1)


def _order(found: Scorecard, lines: Sequence[Line]) -> list[int]:
    """The places of devices by the first quantity, the best first; those without a number of it by the next."""

    def rank(place: int) -> list[float]:
        numbers = ((line, line.cells[place].value or line.cells[place].limit) for line in lines)
        return [-score(number, line.better) if number else math.inf for line, number in numbers]

    return sorted(range(len(found.devices)), key=rank)


def _panel(
    quantity: KeyQuantity,
    line: Line,
    found: Scorecard,
    order: Sequence[int],
    elsewhere: Mapping[str, Mapping[str, JoinedValue]],
    short: Mapping[str, str],
    notes: _Notes,
) -> Panel:
    labels = found.labels
    factor, unit = scaled(max((cell.value for cell in line.cells if cell.value), default=0.0), line.unit)
    numbers = [at for at in order if line.cells[at].value or line.cells[at].limit]
    many = len(numbers) > MAX_ROWS  # which have no notes: the table has them
    places = order if len(order) <= MAX_ROWS else numbers
    best = _best(line)
    rows = [_row(short[labels[at]], labels[at], line.cells[at], best, factor, _Notes() if many else notes) for at in places]
    having = [(label, of[line.name]) for label, of in elsewhere.items() if line.name in of]
    published = [_published_row(short[label], label, one, line.unit, factor) for label, one in having]
    published.sort(key=lambda row: row.number is None)
    peak = _peak(line.cells[0]) / factor if len(found.devices) == 1 else 0.0
    axis = _axis(rows if many else [*rows, *published[:MAX_PUBLISHED]], peak)
    is_log = axis is not None and axis.is_log
    caption = [unit, f"{'higher' if more_is_better(line.better) else 'lower'} is better", "log scale" if is_log else ""]
    return Panel(
        quantity.title,
        line.name,
        ", ".join(filter(None, caption)),
        tuple(_extremes(rows, line.better) if many else (_placed(row, axis) for row in rows)),
        tuple(_placed(row, None if many else axis) for row in published[:MAX_PUBLISHED]),
        tuple(_placed(row, None) for row in published[MAX_PUBLISHED:]),
        tuple(_ticks(axis, peak)) if axis is not None else (),
        tuple(_placed(row, axis) for row in rows) if many else (),
    )


def _best(line: Line) -> ScorecardCell | None:
    """The cell that the other cells of a line are compared with: the best one, else the one with the best median."""
    ranked = [cell for cell in line.cells if cell.value]
    return max(ranked, key=lambda cell: (cell.is_best, not cell.meaning, score(cell.value or 0.0, line.better)), default=None)


def _row(name: str, label: str, cell: ScorecardCell, best: ScorecardCell | None, factor: float, notes: _Notes) -> PanelRow:
    title = printable(f"{label}: {cell.text}{f'; {cell.detail}' if cell.detail else ''}")
    kind, mark = ("best", "★") if cell.is_best else ("value", "?" if cell.is_open else "")
    if cell.value:
        low, high, note = _over(cell.low, factor), _over(cell.high, factor), 0
        if best and cell.meaning != best.meaning:
            other = cell.meaning or best.meaning
            kind, note = "hollow", notes.number(f"Another quantity: {other}.")
        elif best and cell.size != best.size:
            kind, note = "hollow", notes.number(f"Measured up to {cell.size}, the best value at {best.size}.")
        return PanelRow(name, title, format_value(cell.value / factor), kind, cell.value / factor, low, high, mark, note)
    if cell.status == "missing":
        return PanelRow(name, title, "–", "none")
    note = notes.number(OLDER_REASON if cell.status == OLDER else printable(f"{cell.status.capitalize()}: {cell.detail}."))
    if cell.limit is None:
        return PanelRow(name, title, cell.status, "none", note=note)
    sign = f"{SIGNS[cell.side]} " if cell.side else ""
    return PanelRow(
        name, title, f"{sign}{format_value(cell.limit / factor)}", "hollow", cell.limit / factor, mark=mark, note=note
    )


def _published_row(name: str, label: str, one: JoinedValue, unit: str, factor: float) -> PanelRow:
    ours = one.ours
    title = printable(f"{label}: {value_text(one.value)}; {one.value.source}")
    if ours.unit != unit:
        return PanelRow(name, title, f"{format_value(ours.value)} {ours.unit}", "none")
    # a value that a paper rounds has no digits that the paper does not print
    text = f"{SYMBOLS[ours.qualifier]}{ours.value / factor:,.4g}" if ours.qualifier else format_value(ours.value / factor)
    return PanelRow(name, title, text, "hollow", ours.value / factor, _over(ours.low, factor), _over(ours.high, factor))


def _over(end: float | None, factor: float) -> float | None:
    return None if end is None else end / factor


def _extremes(rows: Sequence[PanelRow], better: str) -> Iterator[PanelRow]:
    """The best, the median and the worst of many rows; none where all are bounds."""
    ranked = sorted((row for row in rows if row.kind != "hollow"), key=lambda row: -score(row.number or 0.0, better))
    equal = sum(row.kind == "best" for row in ranked) - 1
    more = f" and {equal} as good" if equal > 0 else ""
    for place, mark in ((0, "best"), (len(ranked) // 2, "median"), (-1, "worst")) if ranked else ():
        row = ranked[place]
        yield PanelRow(f"{row.name}{more if place == 0 else ''}", row.title, row.text, row.kind, mark=mark)


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    is_log: bool

    def percent(self, number: float | None) -> float | None:
        """The place of a number, from 0 to 100."""
        if number is None:
            return None
        if self.is_log:
            share = math.log(max(number, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = number / self.high
        return round(100 * min(max(share, 0.0), 1.0), 1)


def _axis(rows: Sequence[PanelRow], peak: float) -> _Axis | None:
    """The axis of these rows, up to the theoretical peak where one is given; None for fewer than two numbers without a peak."""
    numbers = [row.number for row in rows if row.number is not None]
    if not peak and len(numbers) < 2:
        return None
    ends = [end for row in rows for end in (row.number, row.low, row.high) if end is not None and end > 0]
    low, high = min(ends), max(*ends, peak)
    is_log = high > MAX_LINEAR_RATIO * low
    return _Axis(low / MARGIN, high * MARGIN, True) if is_log else _Axis(0.0, high, False)


def _placed(row: PanelRow, axis: _Axis | None) -> PanelRow:
    """A row with its numbers as places on the axis, none without an axis."""
    if axis is None:
        return replace(row, number=None, low=None, high=None)
    return replace(row, number=axis.percent(row.number), low=axis.percent(row.low), high=axis.percent(row.high))


def _peak(cell: ScorecardCell) -> float:
    """The theoretical peak that a value is a fraction of; 0 where none is known."""
    return cell.value / cell.fraction if cell.value and cell.fraction else 0.0


def _ticks(axis: _Axis, peak: float) -> list[tuple[float, str]]:
    """Labels of an axis, as many as have room: decades of a logarithmic one, else round numbers from 0, or 0 and the peak."""
    if axis.is_log:
        decades = range(math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high)) + 1)
        numbers = [10.0**power for power in decades]
    else:
        power = 10.0 ** math.floor(math.log10(axis.high / 2))
        width = next(power * m for m in (5, 2, 1) if power * m <= axis.high / 2)
        numbers = [width * n for n in range(int(axis.high / width) + 1)]
    texts = {0.0: "0", peak: f"peak {format_value(peak)}"} if peak else {number: f"{number:,.12g}" for number in numbers}
    found = [(axis.percent(number) or 0.0, text) for number, text in texts.items()]
    return next((found[::step] for step in range(1, len(found)) if _have_room(found[::step])), found[:1])


def _have_room(ticks: Sequence[tuple[float, str]]) -> bool:
    return all(
        at - before >= LETTER_PERCENT * (len(text) + len(other) + 2) / 2
        for (before, other), (at, text) in itertools.pairwise(ticks)
    )
