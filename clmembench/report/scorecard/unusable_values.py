"""Values of a scorecard that are suspect, bounds, undetermined, failed or by older versions: how many, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from clmembench.report.device_runs import short_names
from clmembench.report.frame import LabelledRun
from clmembench.report.scorecard.rankings import listed, shortened
from clmembench.report.scorecard_cells import BOUND, OLDER, LineCell, Scorecard
from clmembench.units import count

UNUSABLE = {  # statuses of values that are not compared, with one and more of them
    OLDER: ("value by an older version", "values by older versions"),
    BOUND: ("bound", "bounds"),
    "undetermined": ("undetermined value", "undetermined values"),
    "failed": ("failed value", "failed values"),
    "wrong": ("wrong value", "wrong values"),
    "timeout": ("value that timed out", "values that timed out"),
}


def unusable_values(found: Scorecard, parts: Sequence[LabelledRun]) -> tuple[list[str], list[str]]:
    """What is suspect, and how many headlines are bounds, undetermined, failed or by older versions, in a sentence of several
    lengths, the longest first; and the reasons. Nothing where all values are good."""
    names = short_names(found.labels)
    cells = [one for one in found.cells() if one.device < len(found.devices)]
    suspect: dict[str, list[str]] = {}
    for one in cells:
        if one.cell.status == "suspect":
            suspect.setdefault(one.line.name.partition(",")[0], []).append(names[one.device])
    points = _suspect_points(parts)
    headlines = sum(map(len, suspect.values()))
    others = max(0, sum(map(len, points.values())) - headlines)
    counts = ((sum(one.cell.status == status for one in cells), words) for status, words in UNUSABLE.items())
    left = [count(number, *words) for number, words in counts if number]
    if not headlines and not others and not left:
        return [], []
    rest = f". Not compared: {listed(left)}" if left else ""
    more = f"; {count(others, 'other value')}" if others else ""
    if headlines:
        named = [f"{quantity} on {shortened(of, 2)}" for quantity, of in suspect.items()]
        first = f"{named[0]}; {count(len(named) - 1, 'more key quantity', 'more key quantities')}"
        texts = ["; ".join(named), *([first] if len(named) > 1 else []), count(headlines, "key value")]
        forms = [f"Suspect: {text}{more}{rest}." for text in texts]
    elif others:
        most = max(points, key=lambda name: len(points[name]))
        where = f" ({f'{len(points[most])} ' if len(points) > 1 else ''}on {most})" if len(parts) > 1 else ""
        start = f"Suspect: no key quantity, but {count(others, 'other value')}"
        forms = [f"{start}{where}{rest}.", f"{start}{rest}."]
    else:
        forms = [f"Suspect: nothing{rest}."]
    return forms, [*_reasons(cells, names), *(_counts_of_points(points) if others else ())]


def _suspect_points(parts: Sequence[LabelledRun]) -> dict[str, list[str]]:
    """The benchmarks of suspect values by device; values of a headline's point are among them."""
    names = short_names([part.label for part in parts])
    each = ([row.value.benchmark for row in part.rows if row.status == "suspect"] for part in parts)
    return {name: of for name, of in zip(names, each, strict=True) if of}


def _counts_of_points(points: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, of in points.items():
        benchmarks = listed([f"{number} of {benchmark}" for benchmark, number in Counter(of).most_common()])
        yield f"{name}: {count(len(of), 'suspect value')}, {benchmarks}; reasons are in All points."


def _reasons(cells: Sequence[LineCell], names: Sequence[str]) -> Iterator[str]:
    """Why headlines are not compared, those of one device and reason together, the suspect ones first."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in sorted(cells, key=lambda one: one.cell.status != "suspect"):
        status = one.cell.status
        if status in UNUSABLE or status == "suspect":
            why = f"{status}, not comparable with newer values" if status == OLDER else one.cell.detail
            text = "" if status == OLDER else f" ({one.cell.text if status == BOUND else status})"
            reasons.setdefault((names[one.device], why), []).append(f"{one.line.name}{text}")
    return (f"{name}, {'; '.join(of)}: {why}." for (name, why), of in reasons.items())
