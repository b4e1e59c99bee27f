"""Comparisons of runs: text for people, objects for programs, and JUnit XML for what runs tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from clmembench.analysis.baseline_check import Judgement
from clmembench.analysis.compare import Change, Comparison
from clmembench.analysis.decision import Verdict
from clmembench.analysis.matching import Uncompared
from clmembench.analysis.stats import Ratio
from clmembench.model import DeviceInfo, Run
from clmembench.model.device_identity import distinction, is_same_device, is_same_model, is_same_platform
from clmembench.report import render
from clmembench.report.table import DEFAULT_COLUMNS, Cell, Column, Entry, Table
from clmembench.sanitize import MAX_LINE_CHARACTERS, line, printable
from clmembench.units import count, format_in, format_params, format_value

COLUMNS = (
    Column("", max_cell=MAX_LINE_CHARACTERS),
    Column("value", max_cell=MAX_LINE_CHARACTERS),
    Column("first", is_number=True, max_cell=MAX_LINE_CHARACTERS),
    Column("second", is_number=True, max_cell=MAX_LINE_CHARACTERS),
    Column("second / first (95% interval)", max_cell=MAX_LINE_CHARACTERS),
    Column("would see", max_cell=0),  # after remarks of any length it has no place of its own
)
MAX_LISTED = 10  # values below the opening of a comparison
MIN_PLAIN_RATIO = 0.1  # with three digits after the point; a smaller one, and a larger one than 10, has three of its own
VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "undecided", "same")


@dataclass(frozen=True, slots=True)
class ComparedDevice:
    """The device of one of two runs that are compared."""

    name: str
    platform: str
    driver: str
    runtime: str


@dataclass(frozen=True, slots=True)
class ComparisonObject:
    """A run compared with the first one; `same_device`: the devices of both are one, as far as drivers say."""

    first: str
    second: str
    first_device: ComparedDevice
    second_device: ComparedDevice
    same_device: bool
    geometric_means: Mapping[str, Ratio]
    changes: Sequence[Change]
    only_first: Sequence[str]
    only_second: Sequence[str]
    left_out: Mapping[str, str]


def comparison_text(
    names: Sequence[str],
    comparisons: Sequence[Comparison],
    everything: bool,
    verdicts: Set[str] = frozenset(),
    width: int | None = None,
    colour: bool = False,
    devices: Sequence[DeviceInfo] = (),
    openings: Sequence[Sequence[str]] = (),
) -> str:
    """Each further run against the first: their `devices`, geometric means of the gains, then the points, worst first; those
    that are the same are only counted unless `everything` or that verdict is wanted. Below the lines of an opening, which say
    the most important, MAX_LISTED values are listed unless it is `everything`. With a `width` no line is wider; `colour` marks
    verdicts with terminal codes."""
    lines: list[str] = []
    for number, (name, found) in enumerate(zip(names[1:], comparisons, strict=True), 1):
        said = [f"{name} against {names[0]}"]
        said += [f"  {text}" for text in device_lines(devices[0], devices[number])] if devices else []
        if openings and openings[number - 1]:
            lines += [*render.wrapped(said, width), "", *openings[number - 1], ""]
            said = []
        of = count(len(found.changes), "value")
        said.append("  " + ", ".join(f"{found.count(v)} {v}" for v in VERDICTS) + f" of {of}")
        means = [f"{group} {ratio_text(mean)}" for group, mean in found.means.items()]
        lines += render.wrapped(said, width)
        if means:
            lines += render.wrapped([f"  geometric means of the gains: {'; '.join(means)}"], width or DEFAULT_COLUMNS)
        listed = verdicts or {verdict for verdict in VERDICTS if everything or verdict != "same"}
        shown = [c for v in VERDICTS if v in listed for c in found.changes if c.verdict == v]
        if openings and not everything:
            shown = sorted(shown, key=lambda c: (VERDICTS.index(c.verdict), -_distance(c)))[:MAX_LISTED]
        lines += ["", *render.aligned(_table(shown), width=width, colour=colour)] if shown else []
        left = len(found.changes) - len(shown) if openings else 0
        said = [f"  {count(left, 'more value')}: --all"] if left else []
        reasons = dict.fromkeys(c.reason for c in (shown if openings else found.changes) if c.reason and c.ratio is not None)
        said += [f"  note: undecided: {reason}" for reason in reasons]
        said += _left_out(list(found.left_out.values()), everything or not openings)
        for which, points in (("first", found.only_first), ("second", found.only_second)):
            if points:
                said.append(f"  only in the {which}: {count(len(points), 'point')}, such as {points[0]}")
        lines += [*render.wrapped(said, width), ""]
    return "\n".join(lines)


def _distance(change: Change) -> float:
    """How far a value is from the first run's, as the logarithm of a factor; of one that is not known less than any."""
    return -1.0 if change.gain is None else abs(math.log(change.gain.value))


def _left_out(reasons: Sequence[str], everything: bool) -> list[str]:
    """The benchmarks that were not compared, each with its reason, or the first of them."""
    if everything or len(reasons) < 2:
        return [f"  left out: {reason}: see --force" for reason in reasons]
    return [f"  left out: {reasons[0]}, and {count(len(reasons) - 1, 'more benchmark')}: see --force"]


def device_lines(first: DeviceInfo, second: DeviceInfo) -> list[str]:
    """The devices of two runs with their drivers, and what the ratios include where they differ."""
    a, b = (f"{one.name}, {one.platform} {one.driver}" for one in (first, second))
    if not is_same_model(first, second):
        note = "the devices differ: the ratios compare two devices, not two states of one"
    elif not is_same_device(first, second):
        note = "these are two devices of one model: the ratios include the difference between them"
    elif not is_same_platform(first, second):
        note = "the platforms differ: the ratios compare two runtimes on one device"
    elif first.driver != second.driver:
        note = "the drivers differ: the ratios include the change of the driver"
    else:
        return [f"both on {a}"]
    one, other = (f" ({what})" if what else "" for what in distinction(first, second))
    return [f"first on {a}{one}", f"second on {b}{other}", f"note: {note}"]


def judgement_text(found: Judgement) -> str:
    """The outcome of a check in a sentence or two."""
    said = f"{found.outcome}: {found.reason}."
    if found.smallest is not None and found.largest is not None:
        worst = f", {found.largest:.3g} times at worst" if found.largest > found.smallest else ""
        said += f" The smallest slowdown it would have called: {found.smallest:.3g} times in the median of the values{worst}."
    return line(printable(said))


def comparison_objects(
    runs: Sequence[Run], comparisons: Sequence[Comparison], verdicts: Set[str] = frozenset()
) -> list[ComparisonObject]:
    """One object for each further run, its changes among them, all or those with these verdicts, for JSON."""
    devices = [ComparedDevice(d.name, d.platform, d.driver, d.runtime) for d in (run.header.device for run in runs)]
    return [
        ComparisonObject(
            first=runs[0].path,
            second=run.path,
            first_device=devices[0],
            second_device=device,
            same_device=is_same_device(runs[0].header.device, run.header.device),
            geometric_means=comparison.means,
            changes=[change for change in comparison.changes if not verdicts or change.verdict in verdicts],
            only_first=comparison.only_first,
            only_second=comparison.only_second,
            left_out=comparison.left_out,
        )
        for run, device, comparison in zip(runs[1:], devices[1:], comparisons, strict=True)
    ]


def junit_text(found: Comparison, judged: Judgement) -> str:
    """A test case for each value: a failure where it is slower or broke, skipped where nothing can be said or it was not
    compared; and one for the outcome, so that a test runner that reads nothing else sees it."""
    cases: dict[str, list[tuple[str, str, str]]] = {}
    for c in found.changes:
        outcome = "failure" if c.verdict == "slower" or c.broken else "skipped" if c.verdict == "undecided" else ""
        cases.setdefault(c.benchmark, []).append((_case_name(c), outcome, _said(c)))
    for lost in found.uncompared:
        outcome = "failure" if lost.broken else "skipped"
        cases.setdefault(lost.benchmark, []).append((_case_name(lost), outcome, f"not compared: {lost.reason}"))
    whole = {"PASS": "", "FAIL": "failure", "CANNOT DECIDE": "error"}[judged.outcome]
    suites = Xml.Element("testsuites")
    for name, of in [*cases.items(), ("check", [("outcome", whole, judgement_text(judged))])]:
        counts = {f"{kind}s": str(sum(c[1] == kind for c in of)) for kind in ("failure", "error")}
        skipped = str(sum(outcome == "skipped" for _, outcome, _ in of))
        suite = Xml.SubElement(
            suites, "testsuite", {"name": printable(name), "tests": str(len(of)), "skipped": skipped, **counts}
        )
        for case_name, outcome, said in of:
            case = Xml.SubElement(suite, "testcase", classname=printable(f"clmembench.{name}"), name=printable(case_name))
            if outcome:
                Xml.SubElement(case, outcome, message=printable(said))
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case_name(one: Change | Uncompared) -> str:
    return f"{format_params(dict(one.params))} {one.metric}".strip()


def _said(change: Change) -> str:
    if change.ratio is None:
        return change.reason
    values = f"{_value(change, change.first)} before, {_value(change, change.second)} now"
    return f"{change.verdict}: {values}, {ratio_text(change.ratio)}"


def _table(changes: Sequence[Change]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for change in changes:
        name = printable(f"{change.benchmark} {format_params(dict(change.params))}".strip())
        ratio = ratio_text(change.ratio) if change.ratio is not None else Cell(printable(change.reason), runs_on=True)
        values = _value(change, change.first), _value(change, change.second)
        sees = f"{change.smallest:.3g}x" if change.smallest is not None else ""
        rows.append((change.verdict, f"{name}: {change.metric}", *values, ratio, sees))
    return Table("", COLUMNS, tuple(rows))


def _value(change: Change, value: float | None) -> str:
    return "–" if value is None else format_in(value, change.unit, 4)


def ratio_text(ratio: Ratio) -> str:
    """A ratio with its 95% interval."""
    plain = MIN_PLAIN_RATIO <= ratio.value < 1 / MIN_PLAIN_RATIO
    value, low, high = (f"{n:.3f}" if plain else format_value(n) for n in (ratio.value, ratio.low, ratio.high))
    return f"{value} ({low} to {high})"
