"""What the verdict's numbers mean for a kernel's author, in sentences: devices, published ones, and runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from clmembench.analysis.decision import DEFAULT_MARGIN
from clmembench.model import DeviceInfo
from clmembench.model.device_identity import is_same_platform
from clmembench.model.metrics import more_is_better, score
from clmembench.report.frame import LabelledRun
from clmembench.report.imported.imported_values import JoinedValue, joined_values, value_text
from clmembench.report.scorecard.device_pairs import device_pairs, side_of
from clmembench.report.scorecard.headline_cells import common_size
from clmembench.report.scorecard.sum_crossover import sum_sentences
from clmembench.report.scorecard_cells import OLDER, OTHER_SIZE, Decision, Line, Scorecard, ScorecardCell
from clmembench.results.imported import ImportedRun
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_value

QUANTITIES = ("memory triad, double", "DGEMM")  # headlines that a sentence compares
ACCELERATORS = ("accelerator", "gpu")  # kinds that CPUs are compared with: GPUs where a paper has no accelerator

_Known = tuple[SpecSheet, list[JoinedValue]]

MAX_PAIRS = 3  # pairs of columns with a sentence: a cluster's nodes are of one model

# the headlines that a sentence is about, and its subject
RATES = (
    ("memory triad, double", "Memory bandwidth (triad of doubles)"),
    ("DGEMM", "DGEMM"),
    ("SpMV reservoir, best format", "SpMV (matrix reservoir, each device's best format)"),
)
# the first of these that says something: a sweep is of one compute unit, whose distance from the memory would pass for a
# difference of devices
LATENCIES = (
    ("load from DRAM, by topology", "Load from DRAM, over all compute units"),
    ("memory", "Dependent load from memory, at the end of a latency sweep"),
)
MAX_NAMED_DEVICES = 5  # devices that a sentence names beside the first


def published_sentences(others: Sequence[ImportedRun]) -> list[str]:
    """One sentence for each quantity and paper that has values of a CPU and of an accelerator or a GPU. Values of one paper are
    comparable with each other; none is compared with what was measured here, and no ratio is drawn."""
    known = [(run.sheet, joined_values(run)) for run in others if run.sheet is not None]
    papers = dict.fromkeys(point.value.paper for _, points in known for point in points)
    return [text for paper in papers for quantity in QUANTITIES for text in _published_sentence(known, paper, quantity)]


def _published_sentence(known: Sequence[_Known], paper: str, quantity: str) -> Iterator[str]:
    having = [
        (sheet, next((p for p in points if p.value.paper == paper and quantity in p.join.headlines), None))
        for sheet, points in known
    ]
    mine = [(sheet, point) for sheet, point in having if point is not None]
    cpus = [one for one in mine if one[0].kind == "cpu"]
    first = next((found for kind in ACCELERATORS if (found := [one for one in mine if one[0].kind == kind])), [])
    if not cpus or not first:
        return
    told = [f"{text} on {_listed(names)}" for group in (first, cpus) for text, names in _by_value(group).items()]
    caveats = dict.fromkeys(point.join.caveat for _, point in (*first, *cpus) if point.join.caveat)
    about = f"{quantity} ({'; '.join(caveats)})" if caveats else quantity
    yield printable(f"Published in {paper}, not measured here, {about}: {'; '.join(told)}.")


def _by_value(mine: Sequence[tuple[SpecSheet, JoinedValue]]) -> dict[str, list[str]]:
    """The names of the devices of each value, which has its bounds, how it was derived, and what the sheet notes of it."""
    found: dict[str, list[str]] = {}
    for sheet, point in mine:
        ends = point.ours.low is not None and point.ours.high is not None
        bounds = f"{format_value(point.ours.low)} to {format_value(point.ours.high)}" if ends else ""
        details = "; ".join(filter(None, (bounds, point.value.derived, point.value.note)))
        found.setdefault(f"{value_text(point.value)}{f' ({details})' if details else ''}", []).append(sheet.name)
    return found


def runtime_sentences(found: Scorecard) -> list[str]:
    """A sentence for each two columns that are a CPU of one model with as many compute units, under different platforms, of
    MAX_PAIRS of them at most. That it is the same machine cannot be known from runs, and is not claimed."""
    devices = found.devices
    pairs = [(a, b) for a, b in combinations(range(len(devices)), 2) if _is_one_cpu(devices[a], devices[b])]
    said = [text for a, b in pairs[:MAX_PAIRS] for text in _runtime_sentence(found, a, b)]
    left = len(pairs) - MAX_PAIRS
    return (
        [*said, f"{count(left, 'more pair')} of such columns {'is' if left == 1 else 'are'} in the table."]
        if left > 0
        else said
    )


def _is_one_cpu(one: DeviceInfo, other: DeviceInfo) -> bool:
    alike = (one.kind, one.cpu_id, one.compute_units) == (other.kind, other.cpu_id, other.compute_units)
    return alike and one.kind == "cpu" and bool(one.cpu_id) and not is_same_platform(one, other)


def _runtime_sentence(found: Scorecard, a: int, b: int) -> Iterator[str]:
    lines = [(line, found.pairs.decide(line, b, a)) for line in found.lines if line.better]
    decided = [(line.name, one) for line, one in lines if one is not None]
    better = sorted(((one.gain.value, name) for name, one in decided if one.verdict == "faster"), reverse=True)
    worse = sorted(((1 / one.gain.value, name) for name, one in decided if one.verdict == "slower"), reverse=True)
    if not better and not worse:
        return
    first, second = found.labels[a], found.labels[b]
    told = [_told(better, first), _told(worse, second)]
    left = len(decided) - len(better) - len(worse)
    rest = f"; {count(left, 'quantity', 'quantities')} the same or undecided" if left else ""
    layer = _layer(found.devices[a], found.devices[b])
    yield f"Of a CPU of one model under two runtimes, {' and '.join(filter(None, told))}{rest}.{layer}"


def _layer(one: DeviceInfo, other: DeviceInfo) -> str:
    """What two runtimes of one driver differ in."""
    if {one.runtime, other.runtime} != {"opencl", "sycl"} or one.driver != other.driver:
        return ""
    return (
        " Both run kernels by the same driver, so that kernels' own times should agree, and differ where the host disturbed "
        "one of the runs; run --runtime opencl,sycl measures both interleaved, and what the layer of SYCL costs."
    )


def _told(ratios: Sequence[tuple[float, str]], label: str) -> str:
    if not ratios:
        return ""
    most = ", ".join(f"{name}: {format_value(ratio)} times" for ratio, name in ratios[:3])
    return f"{label} is better in {count(len(ratios), 'quantity', 'quantities')} ({most})"


def sentences(found: Scorecard, parts: Sequence[LabelledRun], others: Sequence[ImportedRun] = ()) -> list[str]:
    """Some sentences on the best device and those that compare calls worse or the same, none where it decides nothing; and
    what papers state of `others`."""
    lines = {line.name: line for line in found.lines}
    # figures of a fleet are of some runs, which are no columns
    columns = parts if [part.label for part in parts] == list(found.labels[: len(found.devices)]) else ()
    said = [text for name, subject in RATES if name in lines for text in _against_best(lines[name], found, subject, columns)]
    latencies = ([*_against_best(lines[name], found, subject, ())] for name, subject in LATENCIES if name in lines)
    said += next(filter(None, latencies), [])
    said += sum_sentences(parts, found.pairs if columns else device_pairs([side_of(part) for part in parts], (), parts))
    return said + runtime_sentences(found) + published_sentences(others) + _cautions(parts)


def _ranked(line: Line) -> list[int]:
    """The places of the devices with a value that may be compared, the best first."""
    having = [place for place, cell in enumerate(line.cells) if cell.value]
    return sorted(having, key=lambda place: -score(line.cells[place].value or 0.0, line.better))


def _against_best(line: Line, found: Scorecard, subject: str, columns: Sequence[LabelledRun]) -> Iterator[str]:
    """The best device, and each other one with its ratio where compare decides it, at the largest common size where theirs
    differ; why the rest is not compared."""
    ranked = _ranked(line)
    if len(ranked) < 2:
        return
    best, labels = ranked[0], found.labels
    decided = {place: (found.pairs.decide(line, place, best), line.cells[place]) for place in ranked[1:]}
    for place in [place for place in decided if columns and found.pairs.objection(line, best, place) == OTHER_SIZE]:
        smaller = common_size(line, columns[best], columns[place])
        if smaller is not None and smaller[0].noisy is not None and smaller[1].noisy is not None:
            values = (place, best, smaller[1].noisy, smaller[0].noisy)
            decided[place] = found.pairs.decide_values(*values, line.better), smaller[1]
    clear = [place for place, (one, _) in decided.items() if one is not None and one.verdict in ("faster", "same")]
    if not clear:
        return
    told = []
    for place in _named(clear):
        one, cell = decided[place]
        assert one is not None
        at = f"at {cell.size} " if cell is not line.cells[place] else ""
        told.append(at + _ratio_to(one, labels[place], "" if at else _remark(cell), line))
    remark = _remark(line.cells[best])
    value = line.cells[best].text.partition(", ")[0]
    first = f"{subject}: {labels[best]} {value}{f' ({remark})' if remark else ''}"
    undecided = [labels[place] for place, (one, _) in decided.items() if one is not None and one.verdict == "undecided"]
    rest = f" Undecided: {_listed(undecided)}." if undecided else ""
    others = [labels[place] for place in clear if found.pairs.are_other_kernels(best, place, (line.benchmark,))]
    kernels = f" By other kernels of the same version: {_listed(others)}." if others else ""
    missing = _not_compared(line, found, best, [place for place, (one, _) in decided.items() if one is not None])
    yield f"{first}, {_listed(told)}.{_left_out(clear)}{rest}{missing}{kernels}"


def _ratio_to(one: Decision, label: str, remark: str, line: Line) -> str:
    """How many times as good the best device is as this one."""
    if one.verdict == "same":
        return f"as much as {label}{f' ({remark})' if remark else ''} within {DEFAULT_MARGIN:.0%}"
    span = f"95% interval {format_value(one.gain.low)} to {format_value(one.gain.high)}"
    details = f"({'; '.join(filter(None, (span, remark)))})"
    ratio = f"{format_value(one.gain.value)} times"
    return f"{ratio} {label} {details}" if more_is_better(line.better) else f"{label} takes {ratio} as long {details}"


def _remark(cell: ScorecardCell) -> str:
    """The size that a value was measured at, where it depends on one, and its fraction of the peak."""
    return ", ".join(filter(None, (cell.size, f"{cell.fraction:.0%} of {cell.peak_name}" if cell.fraction is not None else "")))


def _not_compared(line: Line, found: Scorecard, best: int, compared: Sequence[int]) -> str:
    """The devices with a value that is not compared with the best one's, each with the reason."""
    told = []
    for place, cell in enumerate(line.cells[: len(found.devices)]):
        if cell.status == OLDER:
            told.append(f"{found.labels[place]} (by an {OLDER})")
        elif (
            cell.value is not None
            and place not in (best, *compared)
            and (why := found.pairs.objection(line, best, place)) != ""
        ):
            told.append(f"{found.labels[place]} ({', '.join(filter(None, (why, cell.size)))})")
    return f" Not compared: {_listed(told)}." if told else ""


def _named(places: Sequence[int]) -> list[int]:
    """The places that a sentence names: all, or of many the first few and the last."""
    return list(places) if len(places) <= MAX_NAMED_DEVICES else [*places[: MAX_NAMED_DEVICES - 1], places[-1]]


def _left_out(places: Sequence[int]) -> str:
    left = len(places) - MAX_NAMED_DEVICES
    return f" {count(left, 'device')} between the last two are in the table." if left > 0 else ""


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _cautions(parts: Sequence[LabelledRun]) -> list[str]:
    """What the intervals of the table do not include where hosts are virtual machines: run-to-run variation, and neighbours."""
    values = [row.value for part in parts for row in part.rows if row.status == "ok"]
    virtual = sum(bool(part.run.header.host.get("virtual")) for part in parts)
    if len(parts) < 2 or not values or not virtual:
        return []
    once = sum(value.processes == 1 for value in values) / len(values)
    hosts = f"{virtual} of {count(len(parts), 'device')} {'was' if virtual == 1 else 'were'} measured on virtual machines"
    return [
        "The table's intervals do not include run-to-run variation, which stars and ratios do: "
        f"{hosts}, and {once:.0%} of all values are of one process."
    ]
