"""What the verdict's numbers mean for the author of a kernel, in sentences: ratios with intervals, and crossover sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clmembench.benchmarks import discovered
from clmembench.model.direction import score
from clmembench.report.parts import Part
from clmembench.report.rows import Row
from clmembench.report.verdict_cells import OLDER, Cell, Line, Verdict
from clmembench.report.verdict_published import published_sentences
from clmembench.report.verdict_runtimes import runtime_sentences
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
MAX_CROSSOVERS = 4  # pairs of a GPU and a CPU with sentences
MIN_NAMED_RATIO = 1.01  # below it a ratio is told in per cent: three digits would read 1.00
SUM_BYTES = 8  # of an element of a sum


@dataclass(frozen=True, slots=True)
class _Time:
    """The time of a sum of n doubles in ns, with its interval."""

    ns: float
    low: float
    high: float


def sentences(found: Verdict, parts: Sequence[Part], others: Sequence[SpecSheet] = ()) -> list[str]:
    """Some sentences on the best device and the next ones, none where one device alone was measured; and what papers state of
    `others`."""
    lines = {line.name: line for line in found.lines}
    said = [text for name, start in RATIOS if name in lines for text in _ratio(lines[name], found.labels, start)]
    if LATENCY in lines:
        start = "At the end of a latency sweep, of one compute unit, a dependent load from memory takes"
        said += _latency(lines[LATENCY], found.labels, start)
    if LATENCY_OF_ALL_UNITS in lines:
        start = "By topology, whose intervals hold all compute units, a load from DRAM takes"
        said += _latency(lines[LATENCY_OF_ALL_UNITS], found.labels, start)
    said += _crossovers(parts)
    return said + runtime_sentences(found) + published_sentences(others)


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
    names = [
        f"{label}{f' ({cell.size})' if several and cell.size else ''}" for label, cell in zip(labels, line.cells, strict=False)
    ]
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


def _named(places: Sequence[int]) -> list[int]:
    """The places that a sentence names: all, or of many the first few and the last."""
    return list(places) if len(places) <= MAX_NAMED_DEVICES else [*places[: MAX_NAMED_DEVICES - 1], places[-1]]


def _left_out(places: Sequence[int]) -> str:
    left = len(places) - MAX_NAMED_DEVICES
    return f" {count(left, 'device')} between the last two are in the table." if left > 0 else ""


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _latency(line: Line, labels: Sequence[str], start: str) -> Iterator[str]:
    ranked = _ranked(line)
    if len(ranked) > 1:
        told = [f"{_with_interval(line.cells[p])} on {labels[p]}" for p in _named(ranked)]
        same = " These devices do not differ in it: the intervals overlap." if _all_overlap(line, ranked) else ""
        yield f"{start} {_listed(told)}.{same}{_left_out(ranked)}"


def _all_overlap(line: Line, places: Sequence[int]) -> bool:
    """True where one value lies in the intervals of all these devices."""
    cells = [line.cells[place] for place in places]
    lows, highs = [c.low for c in cells if c.low is not None], [c.high for c in cells if c.high is not None]
    return len(lows) == len(highs) == len(cells) and max(lows) <= min(highs)


def _with_interval(cell: Cell) -> str:
    text = format_in(cell.value, "ns")
    return text if cell.low is None or cell.high is None else f"{text} ({format_value(cell.low)} to {format_value(cell.high)})"


def _crossovers(parts: Sequence[Part]) -> Iterator[str]:
    """From which size on a sum is faster on each GPU than on each CPU, with its operands there and with their way over the
    link."""
    gpus, cpus = ([part for part in parts if part.run.header.device.kind == kind] for kind in ("gpu", "cpu"))
    found = [told for gpu in gpus for cpu in cpus if (told := list(_crossover(gpu, cpu)))]
    yield from (text for told in found[:MAX_CROSSOVERS] for text in told)
    if len(found) > MAX_CROSSOVERS:
        yield f"Of sums on {len(found) - MAX_CROSSOVERS} more pairs of a GPU and a CPU the points below tell the same."
    pairs = len(gpus) * len(cpus)
    if found and len(found) < pairs:
        yield (
            f"Sums of the other {count(pairs - len(found), 'pair')} of a GPU and a CPU are not compared: launches or sums were "
            "measured by other versions, or at fewer than two common sizes."
        )


def _crossover(gpu: Part, cpu: Part) -> Iterator[str]:
    cards = [part.run.header.benchmarks.get("reduction") for part in (gpu, cpu)]
    there, here = _round_trip(gpu), _round_trip(cpu)
    if len({card.version for card in cards if card is not None}) != 1 or there is None or here is None:
        return
    # sums are timed by the device's clock, which does not have the launch in it
    fast = {n: _plus(time, there) for n, time in _sums(gpu.rows).items()}
    slow = {n: _plus(time, here) for n, time in _sums(cpu.rows).items()}
    common = sorted(fast.keys() & slow.keys())
    if len(common) < 2:
        return
    costs = f"{format_in(there.ns, 'ns')} and {format_in(here.ns, 'ns')}"
    pair = f"faster on {gpu.label} than on {cpu.label}"
    start = f"A sum of doubles that lie in device memory is {pair}"
    told = f"{_from_size(start, common, fast, slow)} A launch and its completion, {costs}, are counted."
    link = _link_gb_s(gpu)
    if link:
        moved = {n: _plus(fast[n], _Time(*[SUM_BYTES * n / link] * 3)) for n in common}
        start = f"With the copy of its operands over the link ({format_in(link, 'GB/s')}) the sum is faster there"
        told = f"{told} {_from_size(start, common, moved, slow)}"
    yield told


def _from_size(start: str, sizes: Sequence[int], fast: Mapping[int, _Time], slow: Mapping[int, _Time]) -> str:
    """The sentence on the least size from which on the first is surely faster at every size that both were measured at."""
    surely = [fast[n].high < slow[n].low for n in sizes]
    if not surely[-1]:
        return f"{start} at no size up to {sizes[-1]:,}."
    first = next(place for place in range(len(sizes)) if all(surely[place:]))
    if first == 0:
        return f"{start} from the smallest size on, {sizes[0]:,}."
    return f"{start} from some size between {sizes[first - 1]:,} and {sizes[first]:,} elements on."


def _round_trip(part: Part) -> _Time | None:
    """A launch and its completion; None where that was not measured, or by an older version."""
    card = part.run.header.benchmarks.get("launch")
    if card is None or card.version < discovered()["launch"].version:
        return None
    rows = [row for row in part.rows if row.value.benchmark == "launch" and row.value.metric == "round_trip"]
    return next((time for row in rows if row.value.params.get("groups") == 1 and (time := _time(row))), None)


def _time(row: Row) -> _Time | None:
    """A good row's median and interval on the whole device; None of others."""
    value = row.value
    if row.status != "ok" or not (value.median and value.ci_low and value.ci_high) or value.place.compute_units is not None:
        return None
    return _Time(value.median, value.ci_low, value.ci_high)


def _sums(table: Sequence[Row]) -> dict[int, _Time]:
    """The least time of a sum of n doubles by n, over methods."""
    found: dict[int, _Time] = {}
    for row in table:
        n, time = row.value.params.get("n"), _time(row)
        if row.value.benchmark == "reduction" and row.value.metric == "time" and isinstance(n, int) and time is not None:
            found[n] = min(found.get(n, time), time, key=lambda one: one.ns)
    return found


def _link_gb_s(part: Part) -> float | None:
    """The best bandwidth to the device; None where it was measured by an older version, which timed the start of a copy too."""
    card = part.run.header.benchmarks.get("transfer")
    if card is None or card.version < discovered()["transfer"].version:
        return None
    rates = [
        row.value.median
        for row in part.rows
        if row.value.benchmark == "transfer"
        and row.value.metric == "link_bandwidth"
        and row.value.params.get("direction") == "to_device"
        and row.status == "ok"
        and row.value.median
    ]
    return max(rates, default=None)


def _plus(first: _Time, second: _Time) -> _Time:
    return _Time(first.ns + second.ns, first.low + second.low, first.high + second.high)
