"""What the verdict's numbers mean for the author of a kernel, in sentences: ratios with intervals, and crossover sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.model.direction import score
from clmembench.report.parts import Part
from clmembench.report.verdict_cells import OLDER, Cell, Line, Verdict
from clmembench.report.verdict_published import published_sentences
from clmembench.report.verdict_runtimes import runtime_sentences
from clmembench.report.verdict_sums import sum_sentences
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_in, format_value

# the headline that a sentence is about, and how it begins
RATIOS = (
    ("memory triad, double", "Kernels bound by memory bandwidth run"),
    ("DGEMM", "Dense FP64 products run"),
    ("SpMV reservoir, best format", "Sparse products (SpMV reservoir, each in its best format) run"),
)
LATENCY, LATENCY_OF_ALL_UNITS = "memory", "load from DRAM, by topology"
MAX_NAMED_DEVICES = 5  # devices that a sentence names beside the first
MIN_NAMED_RATIO = 1.01  # smaller ratios are written as a percentage: three digits would read 1.00


def sentences(found: Verdict, parts: Sequence[Part], others: Sequence[SpecSheet] = ()) -> list[str]:
    """Some sentences on the best device and the next ones, none where one device alone was measured; and what papers state of
    `others`."""
    lines = {line.name: line for line in found.lines}
    said = [text for name, start in RATIOS if name in lines for text in _ratio(lines[name], found.labels, start)]
    by_topology = _latency(lines.get(LATENCY_OF_ALL_UNITS), found.labels, "Over all compute units, a load from DRAM takes")
    # a sweep is of one compute unit, whose distance from the memory would pass for a difference of devices
    by_sweep = _latency(lines.get(LATENCY), found.labels, "At the end of a latency sweep a dependent load from memory takes")
    said += by_topology or by_sweep
    said += sum_sentences(parts)
    return said + runtime_sentences(found) + published_sentences(others) + _cautions(parts)


def _ranked(line: Line) -> list[int]:
    """The places of the devices with a value, the best first."""
    having = [place for place, cell in enumerate(line.cells) if cell.value]
    return sorted(having, key=lambda place: -score(line.cells[place].value or 0.0, line.better))


def _ratio(line: Line, labels: Sequence[str], start: str) -> Iterator[str]:
    ranked = _ranked(line)
    if len(ranked) < 2:
        return
    best, others = line.cells[ranked[0]], ranked[1:]
    several = len({line.cells[place].size for place in ranked}) > 1
    names = [_with_remarks(label, cell, several) for label, cell in zip(labels, line.cells, strict=False)]
    told = []
    for place in _named(others):
        other = line.cells[place]
        assert best.value and other.value
        if None not in (best.low, other.high) and (best.low or 0.0) <= (other.high or 0.0):
            told.append(f"as fast as on {names[place]}, within the intervals")
            continue
        span = ""
        if best.low and best.high and other.low and other.high:
            span = f" ({format_value(best.low / other.high)} to {format_value(best.high / other.low)})"
        ratio = best.value / other.value
        times = f"{format_value(ratio)}{span} times as fast as" if ratio >= MIN_NAMED_RATIO else f"{ratio - 1:.1%} faster than"
        told.append(f"{times} on {names[place]}")
    older = [label for label, cell in zip(labels, line.cells, strict=False) if cell.status == OLDER]
    without = f" By an older version, and left out: {_listed(older)}." if older else ""
    value = f"({line.name}: {best.text.partition(', ')[0]} on the first)"
    yield f"{start} on {names[ranked[0]]} {_listed(told)} {value}.{_left_out(others)}{without}"


def _with_remarks(label: str, cell: Cell, with_size: bool) -> str:
    """A device's name, with the size that it was measured at where sizes differ, and with its fraction of the peak."""
    fraction = f"{cell.fraction:.0%} of peak" if cell.fraction is not None else ""
    remarks = ", ".join(filter(None, (cell.size if with_size else "", fraction)))
    return f"{label} ({remarks})" if remarks else label


def _named(places: Sequence[int]) -> list[int]:
    """The places that a sentence names: all, or of many the first few and the last."""
    return list(places) if len(places) <= MAX_NAMED_DEVICES else [*places[: MAX_NAMED_DEVICES - 1], places[-1]]


def _left_out(places: Sequence[int]) -> str:
    left = len(places) - MAX_NAMED_DEVICES
    return f" {count(left, 'device')} between the last two are in the table." if left > 0 else ""


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _latency(line: Line | None, labels: Sequence[str], start: str) -> list[str]:
    ranked = _ranked(line) if line is not None else []
    if line is None or len(ranked) < 2:
        return []
    told = [f"{_with_interval(line.cells[p])} on {labels[p]}" for p in _named(ranked)]
    same = ": the intervals overlap, so that no difference can be told" if _all_overlap(line, ranked) else ""
    return [f"{start} {_listed(told)}{same}.{_left_out(ranked)}"]


def _all_overlap(line: Line, places: Sequence[int]) -> bool:
    """True where one value lies in the intervals of all these devices."""
    cells = [line.cells[place] for place in places]
    lows, highs = [c.low for c in cells if c.low is not None], [c.high for c in cells if c.high is not None]
    return len(lows) == len(highs) == len(cells) and max(lows) <= min(highs)


def _with_interval(cell: Cell) -> str:
    text = format_in(cell.value, "ns")
    return text if cell.low is None or cell.high is None else f"{text} ({format_value(cell.low)} to {format_value(cell.high)})"


def _cautions(parts: Sequence[Part]) -> list[str]:
    """What intervals do not hold where hosts are virtual machines: differences between runs, and neighbours."""
    values = [row.value for part in parts for row in part.rows if row.status == "ok"]
    virtual = sum(bool(part.run.header.host.get("virtual")) for part in parts)
    if len(parts) < 2 or not values or not virtual:
        return []
    once = sum(value.processes == 1 for value in values) / len(values)
    hosts = f"{virtual} of {count(len(parts), 'device')} {'was' if virtual == 1 else 'were'} measured on virtual machines"
    return [f"Intervals do not hold what differs between runs: {hosts}, and {once:.0%} of all values are of one process."]
