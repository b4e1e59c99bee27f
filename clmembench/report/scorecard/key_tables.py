"""The key quantities as tables that a terminal shows whole: of one run, of two that are compared, and of several devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from clmembench.analysis.stats import Ratio
from clmembench.model import Run
from clmembench.model.metrics import more_is_better
from clmembench.report import folding, render
from clmembench.report.comparison import ratio_text
from clmembench.report.device_runs import device_label, short_names
from clmembench.report.frame import parts
from clmembench.report.scorecard.answers import answers
from clmembench.report.scorecard.key_quantities import KeyQuantity, key_lines
from clmembench.report.scorecard.scorecard import verdict
from clmembench.report.scorecard_cells import BOUND, NOT_GOOD, OLDER, Line, Scorecard, ScorecardCell
from clmembench.report.table import DEFAULT_COLUMNS, Cell, Column, Entry, Table, noted
from clmembench.report.views import PLAIN, scorecard_keys
from clmembench.units import count, format_interval

BAR_COLUMNS = range(6, 21)  # letters of the bar of a peak, by the room that is left
EMPTY = "·"  # the rest of a bar
OTHER_VERSION = "measured by another version of the benchmark"
OTHER_KERNELS = "by other kernels of the same version"


def run_table(found: Scorecard, width: int | None = None, title: str = "") -> Table:
    """A row for each key quantity of one run: its value, its interval, and the fraction of its peak as a bar, no wider than a
    terminal of `width` letters; the column of peaks only where a sheet gives any."""
    cells = [
        (_title(quantity, line), line.cells[0], _interval(line.cells[0], line.unit)) for quantity, line in key_lines(found)
    ]
    columns = [Column(""), Column("median", is_number=True), Column("95% interval", is_number=True)]
    rows: list[tuple[Entry, ...]] = [(name, _value(cell, _remark(cell)), interval) for name, cell, interval in cells]
    if any(cell.fraction is not None for _, cell, _ in cells):
        texts = zip(*((name, str(value), interval) for name, value, interval in rows), ("", "", columns[-1].name), strict=True)
        used = sum(max(map(len, column)) + len(folding.GAP) for column in texts)
        room = (width or DEFAULT_COLUMNS) - used - len(folding.GAP) - max(len(_share(cell)) for _, cell, _ in cells)
        bar = min(max(room, BAR_COLUMNS.start), BAR_COLUMNS.stop - 1)
        columns.append(Column("of peak"))
        rows = [(*row, _bar(cell, bar)) for row, (_, cell, _) in zip(rows, cells, strict=True)]
    return noted(Table(title, tuple(columns), tuple(rows)))


def _title(quantity: KeyQuantity, line: Line) -> str:
    """The title of a key quantity; where several lines may stand for it, with this line's own, such as the matrix of SpMV."""
    of_one = line.name.partition(", ")[0]
    return of_one if of_one.startswith(f"{quantity.title} ") else quantity.title


def _value(cell: ScorecardCell, remark: str = "") -> Cell:
    """The value of a cell with this remark as a note; its status or its bound, with the reason, where it has none."""
    return Cell(cell.signed_text, reason=remark if cell.status in PLAIN else cell.detail)


def _remark(cell: ScorecardCell) -> str:
    """What a value is not, or not quite, as a note."""
    return "; ".join(filter(None, (OTHER_VERSION if cell.status == OLDER else "", cell.meaning)))


def _interval(cell: ScorecardCell, unit: str) -> str:
    """The interval of a value, without the unit where the value has the same."""
    if cell.value is None or cell.low is None:
        return ""
    text, (_, _, own) = format_interval(cell.low, cell.high, unit, 4), cell.text.rpartition(" ")
    return text.removesuffix(f" {own}")


def _bar(cell: ScorecardCell, room: int) -> str:
    if cell.fraction is None:
        return ""
    filled = min(room, round(room * cell.fraction))
    return f"{render.BAR * filled}{EMPTY * (room - filled)}{_share(cell)}"


def _share(cell: ScorecardCell) -> str:
    """The fraction of the peak as a percentage, and of which peak where there are several."""
    return "" if cell.fraction is None else f" {cell.fraction:4.0%} {cell.peak_name.removesuffix('peak')}".rstrip()


def pair_opening(first: Run, second: Run, margin: float, width: int | None, colour: bool) -> list[str]:
    """The opening of a comparison of two runs: the answers of a report and the key quantities that both measured. It is empty
    where they share none, or are one run. Columns carry the devices' names, or say first and second run of one device."""
    labels = [run.header.label or device_label(run.header) for run in (first, second)]
    of = parts([first, second], labels if labels[0] != labels[1] else ["first run", "second run"])
    found = verdict(of, margin=margin)
    measured = tuple(line for line in found.lines if not any(cell.status == "missing" for cell in line.cells))
    found = replace(found, lines=measured)
    table = pair_table(found, short_names(found.labels))
    if not table.rows or first.records == second.records:
        return []
    told = render.wrapped((f"  {answer.text}" for answer in answers(found, of)), width)
    return [*told, "", *render.aligned_with_notes(table, width, colour)]


def pair_table(found: Scorecard, names: Sequence[str]) -> Table:
    """A row for each key quantity of two devices, or two runs of one, under these names: both values, the second over the first
    with its 95% interval, and the verdict; where the two cannot be compared, or were measured by other kernels, a note."""
    columns = [Column(""), *(Column(name, is_number=True) for name in names)]
    columns += [Column("second / first (95%)"), Column("verdict")]
    rows: list[tuple[Entry, ...]] = []
    for quantity, line in key_lines(found):
        first, second = line.cells[:2]
        is_older = OLDER in (first.status, second.status)
        why = OTHER_VERSION if is_older else found.pairs.objection(line, 0, 1)
        decided = None if why else found.pairs.decide(line, 0, 1)
        if decided is not None:
            remark = OTHER_KERNELS if found.pairs.are_other_kernels(0, 1, (line.benchmark,)) else ""
            ending: tuple[Entry, Entry] = ratio_text(_ratio(line, decided.gain)), Cell(decided.verdict, reason=remark)
        else:
            ending = "", Cell("–", reason="" if why == NOT_GOOD else f"not compared: {why}")
        rows.append((_title(quantity, line), _value(first), _value(second), *ending))
    return noted(Table("", tuple(columns), tuple(rows)))


def _ratio(line: Line, gain: Ratio) -> Ratio:
    """The ratio of the values of a gain, which is turned so that more is better."""
    return gain if more_is_better(line.better) else Ratio(1 / gain.value, 1 / gain.high, 1 / gain.low)


def devices_table(found: Scorecard, names: Sequence[str], width: int | None = None) -> Table:
    """A row for each key quantity, a column for each device under its short name: as many of them as a terminal of `width`
    letters shows, and a note on the others."""
    rows: list[tuple[Entry, ...]] = []
    for quantity, line in key_lines(found):
        units = [_unit(cell) for cell in line.cells if cell.value is not None]
        units = units or [_unit(cell) for cell in line.cells if cell.limit is not None] or [line.unit]
        unit = Counter(units).most_common(1)[0][0]
        rows.append((_title(quantity, line), unit, *(_ranked(cell, unit) for cell in line.cells)))
    columns = (Column(""), Column("unit"), *(Column(name, is_number=True) for name in names))
    whole = noted(Table("", columns, tuple(rows)))
    used, shown = 0, 0
    for heading, *cells in zip(whole.header, *whole.rows, strict=True):
        used += len(folding.GAP) + max(map(len, [*heading.split(), *map(str, cells)]), default=0)  # a heading may fold
        shown += used <= (width or DEFAULT_COLUMNS)
    shown = max(shown - 2, 1)  # devices
    both = zip(names[:shown], found.labels, strict=False)
    full = [f"{name} is {label}" for name, label in both if not label.endswith(name)]
    notes = [*scorecard_keys(found)]
    if any(cell.status == BOUND for _, line in key_lines(found) for cell in line.cells[:shown]):
        notes.append("≤ ≥ bounds: the whole report has the reasons")
    notes += ["; ".join(full)] if full else []
    notes += [f"{count(len(names) - shown, 'more device')} in the whole report"] if shown < len(names) else []
    return noted(Table("", columns[: shown + 2], tuple(row[: shown + 2] for row in rows), tuple(notes)))


def _unit(cell: ScorecardCell) -> str:
    return cell.text.rpartition(" ")[2]


def _ranked(cell: ScorecardCell, unit: str) -> Cell:
    """The value of a cell among those of other devices, without that unit, with its mark and its ratio to a baseline; a dash
    where it has neither a value nor a bound, with the reason as a note."""
    value = _value(cell, _remark(cell))
    if cell.status == BOUND:
        value = replace(value, reason="")
    elif cell.status not in PLAIN:
        return Cell("–", reason=f"{cell.status}: {cell.detail}")
    text = value.text.removesuffix(f" {unit}") + cell.mark
    return replace(value, text=text, more=(f"({cell.ratio})",) if cell.ratio else ())
