"""The answers that a report begins with: which device for which code and by how much, in one short sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.decision import DEFAULT_MARGIN
from clmembench.report.device_runs import short_names
from clmembench.report.frame import LabelledRun
from clmembench.report.imported.imported_values import JoinedValue, joined_values, remarks, scorecard_label, value_text
from clmembench.report.scorecard.device_pairs import device_pairs, side_of
from clmembench.report.scorecard.key_quantities import KEY_QUANTITIES, key_lines
from clmembench.report.scorecard.rankings import (
    Ranking,
    Rival,
    listed,
    ranking,
    ranking_details,
    runtime_details,
    shortened,
)
from clmembench.report.scorecard.sum_crossover import sum_sentences
from clmembench.report.scorecard.unusable_values import unusable_values
from clmembench.report.scorecard_cells import BOUND, Line, Scorecard, ScorecardCell
from clmembench.results.imported import ImportedRun
from clmembench.sanitize import printable
from clmembench.units import count, format_value

MAX_ANSWERS, MAX_WORDS = 4, 25
PRECISE_RATIO = 1.5  # upper over lower end of an interval: a ratio known less well is stated as "about"


@dataclass(frozen=True, slots=True)
class Question:
    """The code that a key quantity decides about, and what is said of it where there is one device."""

    code: str
    of_one: str = "{name} reaches {value}{of_peak}."


TRIAD, DGEMM, SPMV, MEMORY, LAUNCH = (KEY_QUANTITIES[place].title for place in (0, 1, 2, 3, 5))
QUESTIONS = {  # in the order of the answers
    TRIAD: Question("Memory-bound code"),
    DGEMM: Question("Compute-bound code (double)"),
    MEMORY: Question("Latency-bound code", "a load from memory takes {value} on {name}."),
    LAUNCH: Question("Small kernels", "a launch and its completion take {value} on {name}."),
    SPMV: Question("Irregular code (SpMV)"),
}
PUBLISHED = {"memory triad, double": "memory bandwidth", "DGEMM": "DGEMM"}  # quantities of the answer on published devices
ACCELERATORS = ("accelerator", "gpu")  # kinds that CPUs are compared with: GPUs where a paper has no accelerator


@dataclass(frozen=True, slots=True)
class Answer:
    """One sentence with one result, and the evidence for it in some more."""

    text: str
    details: tuple[str, ...] = ()


def answers(found: Scorecard, parts: Sequence[LabelledRun], others: Sequence[ImportedRun] = ()) -> list[Answer]:
    """At most four answers: on memory-bound and compute-bound code, on latencies, launches or irregular code, on published
    devices, and on what is suspect. Comparisons are those that `compare` decides; one device is held against its peaks."""
    columns = _columns(found, parts)
    lines = {quantity.title: line for quantity, line in key_lines(found)}
    asked = [(question, lines[title]) for title, question in QUESTIONS.items() if title in lines]
    answered = [one for question, line in asked if (one := _answer(question, line, found, columns)) is not None]
    sentences, reasons = unusable_values(found, parts)
    unusable = [Answer(_short_enough(sentences), tuple(reasons))] if sentences else []
    last = [*_published(found, others)[:1], *unusable]
    room = MAX_ANSWERS - len(last)
    return [*answered[:room], *last]


def further_details(found: Scorecard, parts: Sequence[LabelledRun], others: Sequence[ImportedRun] = ()) -> list[str]:
    """Comparisons and cautions that belong to none of the answers: other key quantities, sizes from which a sum is faster on a
    GPU, runtimes of one CPU."""
    columns, stated = _columns(found, parts), {answer.text for answer in answers(found, parts, others)}
    lines = {quantity.title: line for quantity, line in key_lines(found)}
    told = []
    for title, question in QUESTIONS.items():
        if title in lines and (one := _answer(question, lines[title], found, columns)) and one.text not in stated:
            told.append(" ".join((one.text, *one.details)))
    pairs = found.pairs if columns else device_pairs([side_of(part) for part in parts], (), parts)
    return [*told, *sum_sentences(parts, pairs), *runtime_details(found), *_cautions(parts)]


def _columns(found: Scorecard, parts: Sequence[LabelledRun]) -> Sequence[LabelledRun]:
    """The runs of the scorecard's columns; none of a fleet, whose figures are of some runs, which are no columns."""
    return parts if [part.label for part in parts] == list(found.labels[: len(found.devices)]) else ()


def _answer(question: Question, line: Line, found: Scorecard, columns: Sequence[LabelledRun]) -> Answer | None:
    """The answer by one line; None where no device has a value in it."""
    one = ranking(line, found, columns)
    names, room = short_names(found.labels), MAX_WORDS - len(question.code.split())
    if one is not None:
        text = _of_one(question, one, found) if len(found.devices) == 1 else _of_several(one, found, room)
        return Answer(f"{question.code}: {text}", tuple(ranking_details(one, found)))
    bounds = [f"{cell.text} on {names[place]}" for place, cell in enumerate(line.cells) if cell.status == BOUND]
    return Answer(f"{question.code}: only bounds are known, {shortened(bounds, 2)}.") if bounds else None


def _value(cell: ScorecardCell) -> str:
    return cell.text.partition(", ")[0]


def _of_one(question: Question, one: Ranking, found: Scorecard) -> str:
    cell = one.line.cells[one.best]
    share = (
        f", {cell.fraction:.0%} of its theoretical {cell.peak_name}" if cell.fraction is not None else "; its peak is not known"
    )
    return question.of_one.format(name=short_names(found.labels)[one.best], value=_value(cell), of_peak=share)


def _of_several(one: Ranking, found: Scorecard, room: int) -> str:
    """The best device with its ratio to the next one and to the best one of another kind, in the longest form that is short."""
    names = short_names(found.labels)
    best, better, equal, undecided = names[one.best], one.of("faster"), one.of("same"), one.of("undecided", "slower")
    value = _value(one.line.cells[one.best])
    beyond = [f"at least {_floored(ratio)} times as fast as {names[place]}" for place, ratio in one.at_least()]
    if beyond and not better and not equal:
        return _short_enough([f"{best} is {listed(beyond[:most])}." for most in (2, 1)], room)
    if not one.rivals:
        others = [f"{names[place]} ({why})" for place, why in one.objections]
        forms = [f"{best} has {value}; not compared: {shortened(others, most)}." for most in (3, 2, 1)]
        return _short_enough(forms, room) if others else f"only {best} has a value, {value}."
    if not better and not equal:
        return f"no difference is decided; {best} has the best median, {value}."
    ratios = [_ratio(rival, names) for rival in _two(better, one.best, found)]
    rest = f"; undecided against {shortened([names[r.place] for r in undecided], 2)}" if undecided else ""
    if not equal:
        forms = [f"{best} is {listed(ratios[:most])}{rest}." for most in (2, 1)]
    else:
        first = f"{shortened([best, *(names[r.place] for r in equal)], 3)} are equal within {DEFAULT_MARGIN:.0%}"
        forms = [f"{', '.join(filter(None, (first, listed(ratios[:most]))))}{rest}." for most in (2, 1, 0)]
    return _short_enough(forms, room)


def _ratio(rival: Rival, names: Sequence[str]) -> str:
    """How many times as fast the best device is as another, to the digits that the interval leaves."""
    gain = rival.found.gain
    is_precise = gain.high <= PRECISE_RATIO * gain.low
    times = (
        f"{format_value(gain.value) if is_precise else f'about {_rounded(gain.value)}'} times as fast as {names[rival.place]}"
    )
    return f"{times} at {rival.size}" if rival.size else times


def _two(better: Sequence[Rival], best: int, found: Scorecard) -> list[Rival]:
    """The next device, and the best one of another kind than the best, or else the last."""
    kind = found.devices[best].kind
    other = next((rival for rival in better if found.devices[rival.place].kind != kind), better[-1] if better else None)
    return list(dict.fromkeys(filter(None, (*better[:1], other))))


def _floored(ratio: float) -> str:
    """A ratio to two digits, never more than it is."""
    unit = 10.0 ** (math.floor(math.log10(ratio)) - 1)
    return f"{math.floor(ratio / unit) * unit:,.15g}"


def _rounded(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,.15g}"


def _short_enough(forms: Sequence[str], room: int = MAX_WORDS) -> str:
    return next((text for text in forms if len(text.split()) <= room), forms[-1])


# ---- published devices --------------------------------------------------------------------------------------------------


def _published(found: Scorecard, others: Sequence[ImportedRun]) -> list[Answer]:
    """An answer for each paper that has values of CPUs and of an accelerator or a GPU: values of one paper are comparable with
    each other, and none is compared with what was measured here."""
    known = [(run, joined_values(run)) for run in others if run.sheet is not None]
    papers = dict.fromkeys(point.value.paper for _, points in known for point in points)
    return [answer for paper in papers for answer in _of_paper(paper, known, found)]


def _of_paper(paper: str, known: Sequence[tuple[ImportedRun, list[JoinedValue]]], found: Scorecard) -> Iterator[Answer]:
    names = dict(zip(found.labels, short_names(found.labels), strict=True))
    told: list[str] = []
    details: list[str] = []
    subject = ""
    for quantity, title in PUBLISHED.items():
        having = [
            (run, point)
            for run, points in known
            if (point := next((p for p in points if p.value.paper == paper and quantity in p.join.headlines), None)) is not None
        ]
        cpus = [one for one in having if _kind(one[0]) == "cpu"]
        first = next((mine for kind in ACCELERATORS if (mine := [one for one in having if _kind(one[0]) == kind])), [])
        if not cpus or not first:
            continue
        (run, point), (cpu, other) = first[0], max(cpus, key=lambda one: one[1].ours.value)
        low, high = _bounds(point, other)
        details += _stated(quantity, (*first, *cpus), names)
        ratio = _published_ratio(point.ours.value / other.ours.value, low, high)
        if not ratio or subject not in ("", run.device):
            continue
        whose = f"of the paper's CPUs ({names.get(scorecard_label(cpu), cpu.device)})" if not told else ""
        told.append(f"{ratio} times {'their' if told else 'the'} {title} {whose}".strip())
        subject = run.device
        label = names.get(scorecard_label(run), subject)
    if told:
        start = f"{paper}, not measured here; only values of one paper are compared with each other."
        yield Answer(printable(f"Published values: {label} has {listed(told)}."), tuple(map(printable, (start, *details))))


def _published_ratio(value: float, low: float, high: float) -> str:
    """A ratio between two bounds in words; "" where it may lie on either side of 1."""
    if low == 0:
        return f"at most {_rounded(high)}" if high <= PRECISE_RATIO else ""
    if high == math.inf:
        return f"at least {_rounded(low)}" if low > 1 else ""
    return "" if low <= 1 <= high else f"about {_rounded(value)}"


def _kind(run: ImportedRun) -> str:
    return run.sheet.kind if run.sheet is not None else ""


def _bounds(one: JoinedValue, other: JoinedValue) -> tuple[float, float]:
    """Between which ends the ratio of two published values lies, as far as their paper says."""
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    return low / other_high, high / other_low if other_low else math.inf


def _ends(one: JoinedValue) -> tuple[float, float]:
    value, ours = one.value, one.ours
    low = ours.low if ours.low is not None else 0.0 if value.qualifier == "below" else ours.value
    return low, ours.high if ours.high is not None else math.inf if value.qualifier == "above" else ours.value


def _stated(quantity: str, having: Sequence[tuple[ImportedRun, JoinedValue]], names: Mapping[str, str]) -> Iterator[str]:
    """What a paper states of a quantity, the devices of one statement together."""
    devices: dict[str, list[str]] = {}
    for run, point in having:
        more = "; ".join(filter(None, (point.join.caveat, remarks(point.value))))
        text = f"{value_text(point.value)}{f' ({more})' if more else ''}"
        devices.setdefault(text, []).append(names.get(scorecard_label(run), run.device))
    return (f"{quantity}, {listed(of)}: {text}." for text, of in devices.items())


def _cautions(parts: Sequence[LabelledRun]) -> list[str]:
    """What the intervals of the table do not include where hosts are virtual machines: run-to-run variation, and neighbours."""
    values = [row.value for part in parts for row in part.rows if row.status == "ok"]
    virtual = sum(bool(part.run.header.host.get("virtual")) for part in parts)
    if len(parts) < 2 or not values or not virtual:
        return []
    once = sum(value.processes == 1 for value in values) / len(values)
    hosts = f"{virtual} of {count(len(parts), 'device')} {'was' if virtual == 1 else 'were'} measured on virtual machines"
    return [
        "Intervals of the table do not include run-to-run variation, which ratios and marks of the best do: "
        f"{hosts}, and {once:.0%} of all values are of one process."
    ]
