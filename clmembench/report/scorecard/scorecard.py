"""The verdict of a report: devices side by side in headline quantities, matched by meaning and not by exact parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clmembench.analysis.decision import DEFAULT_MARGIN, spread_of
from clmembench.analysis.noise import calibrated
from clmembench.benchmarks import discovered
from clmembench.model import HEADLINE_GROUPS, Benchmark, DeviceInfo, Headline
from clmembench.model.metrics import more_is_better, score
from clmembench.report.device_runs import merged_runs, short_names
from clmembench.report.frame import LabelledRun, Paths, parts, results_files
from clmembench.report.imported.imported_values import imported_cells, known_lines, scorecard_label
from clmembench.report.scorecard.device_pairs import device_pairs, side_of
from clmembench.report.scorecard.headline_cells import headline_cell
from clmembench.report.scorecard_cells import OLDER, Decision, DevicePairs, Line, Scorecard, ScorecardCell, UnknownDevice
from clmembench.results import jsonl
from clmembench.results.imported import ImportedRun
from clmembench.specs.sheets import SpecSheet
from clmembench.studies import studies
from clmembench.units import count, format_value

if TYPE_CHECKING:
    import pandas as pd

MAX_NAMED_DEVICES = 12  # devices that a note names; of more it says how many


def verdict(
    parts: Sequence[LabelledRun],
    baseline: str = "",
    others: Sequence[ImportedRun] = (),
    margin: float = DEFAULT_MARGIN,
) -> Scorecard:
    """Headline quantities that at least one device has, with columns of the values of `others`; then, of all devices, what
    drivers claim, and theoretical figures.

    With the label of a `baseline` each cell has its ratio to that device's, above 1 where it is better. Raises UnknownDevice
    where none has that label.
    """
    of_studies = [line for study in studies() if study.headlines for line in study.call(study.headlines, parts)]
    names = note_names([part.label for part in parts], others)
    found = [*_with_stand_ins(_benchmark_lines(parts, names), of_studies), *of_studies]
    devices = [(part.label, part.run.header.device, part.sheet) for part in parts]
    pairs = device_pairs([side_of(part) for part in parts], found, parts, margin)
    return assembled(devices, found, pairs, baseline, others)


def assembled(
    devices: Sequence[tuple[str, DeviceInfo, SpecSheet | None]],
    found: Iterable[Line],
    pairs: DevicePairs,
    baseline: str,
    others: Sequence[ImportedRun],
) -> Scorecard:
    """The verdict of these lines, with a cell for each of the devices (label, claims, sheet): in the order of groups, the best
    marked, with ratios, values of others, claims and theoretical figures as `verdict` has them."""
    labels = [label for label, _, _ in devices]
    names = note_names(labels, others)
    if baseline and baseline not in labels:
        raise UnknownDevice(f"no device is called {baseline!r}: choose from {', '.join(labels)}")
    order: dict[str, int] = {group: place for place, group in enumerate(HEADLINE_GROUPS)}
    lines = [_with_best(line, pairs, names) for line in sorted(found, key=lambda line: order[line.group])]
    if baseline:
        lines = [_with_ratios(line, labels.index(baseline), pairs) for line in lines]
    columns = sorted(((run, imported_cells(run)) for run in others), key=lambda one: -len(one[1]))  # a screen shows the first
    lines = [replace(one, cells=(*one.cells, *(of.get(one.name, ScorecardCell("–")) for _, of in columns))) for one in lines]
    lines += known_lines([info for _, info, _ in devices], [*(of for _, _, of in devices), *(run.sheet for run, _ in columns)])
    all_labels = (*labels, *(scorecard_label(run) for run, _ in columns))
    return Scorecard(all_labels, tuple(lines), baseline, tuple(info for _, info, _ in devices), pairs)


def note_names(labels: Sequence[str], others: Sequence[ImportedRun]) -> list[str]:
    """What notes call the devices with these labels: as the table's columns, among which are those of `others`."""
    return list(short_names([*labels, *map(scorecard_label, others)])[: len(labels)])


def _benchmark_lines(parts: Sequence[LabelledRun], names: Sequence[str]) -> Iterator[Line]:
    parts = _with_claims_of_the_cpu(parts)
    for benchmark in discovered().values():
        cards = [part.run.header.benchmarks.get(benchmark.name) for part in parts]
        versions = [card.version if card is not None else 0 for card in cards]
        for headline in benchmark.headlines:
            cells = [headline_cell(part, benchmark.name, headline) for part in parts]
            yield from headline_lines(benchmark, headline, names, cells, versions)


def _with_claims_of_the_cpu(parts: Sequence[LabelledRun]) -> list[LabelledRun]:
    """The runs; where drivers claim caches of different sizes of one CPU, the largest claim is that of all of them."""
    largest: dict[tuple[str, int], int] = {}
    infos = [part.run.header.device for part in parts]
    for info in infos:
        cpu = (info.cpu_id, info.compute_units)
        largest[cpu] = max(largest.get(cpu, 0), info.cache_bytes)
    known = [
        replace(info, cache_bytes=largest[info.cpu_id, info.compute_units]) if info.kind == "cpu" and info.cpu_id else info
        for info in infos
    ]
    headers = [replace(part.run.header, device=info) for part, info in zip(parts, known, strict=True)]
    return [replace(part, run=replace(part.run, header=header)) for part, header in zip(parts, headers, strict=True)]


def _with_stand_ins(lines: Iterable[Line], study_lines: Iterable[Line]) -> Iterator[Line]:
    """The lines; a device without a value has that of the study's line with the same quantity, where that has one."""
    same_as = {headline.name: headline.same_as for benchmark in discovered().values() for headline in benchmark.headlines}
    of_studies = {line.name: line for line in study_lines}
    for line in lines:
        other = of_studies.get(same_as[line.name])
        if other is None:
            yield line
            continue
        cells = [
            replace(theirs, detail=f"{other.name}: {theirs.detail}") if own.value is None and theirs.value is not None else own
            for own, theirs in zip(line.cells, other.cells, strict=True)
        ]
        yield replace(line, cells=tuple(cells))


def headline_lines(
    benchmark: Benchmark, headline: Headline, labels: Sequence[str], cells: Sequence[ScorecardCell], versions: Sequence[int]
) -> Iterator[Line]:
    """The line of a headline, from each device's cell and its version of the benchmark; none where no device has a value."""
    metric = next(m for m in benchmark.metrics if m.name == headline.metric)
    cells = _of_latest_version(cells, versions, benchmark.name)
    if all(cell.status == "missing" for cell in cells):
        return
    hint = f"not measured: suite {benchmark.suite}, benchmark {benchmark.name}"
    cells = [cell if cell.status != "missing" else ScorecardCell("–", detail=hint) for cell in cells]
    note = "; ".join(filter(None, (_difference(labels, cells), headline.note, *_meanings(labels, cells))))
    yield Line(headline.group, headline.name, metric.better, tuple(cells), note, benchmark.name, metric.unit)


def _meanings(labels: Sequence[str], cells: Sequence[ScorecardCell]) -> Iterator[str]:
    """What else the value is on some devices."""
    for meaning in dict.fromkeys(cell.meaning for cell in cells if cell.meaning):
        yield f"{meaning}: {', '.join(label for label, cell in zip(labels, cells, strict=True) if cell.meaning == meaning)}"


def _of_latest_version(cells: Sequence[ScorecardCell], measured: Sequence[int], benchmark: str) -> list[ScorecardCell]:
    """The cells; those of an older version of the benchmark than other devices were measured by keep their text and detail, and
    have no value: versions are not comparable."""
    versions = [version if cell.status == "ok" else 0 for cell, version in zip(cells, measured, strict=True)]
    latest = max(versions, default=0)
    why = "measured by version {} of {}, not comparable with version {}: measure it again; {}"
    details = [why.format(version, benchmark, latest, cell.detail) for cell, version in zip(cells, versions, strict=True)]
    return [
        replace(cell, status=OLDER, value=None, limit=cell.value, detail=detail) if 0 < version < latest else cell
        for cell, version, detail in zip(cells, versions, details, strict=True)
    ]


def _difference(labels: Sequence[str], cells: Sequence[ScorecardCell]) -> str:
    """At which points the devices were read, where these differ."""
    devices: dict[str, list[str]] = {}
    for label, cell in zip(labels, cells, strict=True):
        if cell.status == "ok":
            devices.setdefault(cell.point, []).append(label)
    if len(devices) < 2:
        return next((f"at {point}" for point in devices if point), "")
    devices.pop("", None)  # medians of runs at several points have none
    if sum(map(len, devices.values())) > MAX_NAMED_DEVICES:
        return "; ".join(f"{count(len(of), 'device')}: {point}" for point, of in devices.items())
    named = {label: point for point, of in devices.items() for label in of}
    return "; ".join(f"{label}: {named[label]}" for label in labels if label in named)


def _with_best(line: Line, pairs: DevicePairs, labels: Sequence[str]) -> Line:
    """The line with each value as a share of the best one, marks on its best cell, on each that compare calls the same, on each
    that is undecided and on bounds whose open side is the better one, and a note on those that are not compared. No share where
    more is not better, and no mark where compare calls all the same, or decides nothing."""
    good = [place for place, cell in enumerate(line.cells) if cell.value is not None]
    if len(good) < 2 or not line.better:
        return line
    # what a value means on some devices alone is the best only where it means that on all
    best = max(good, key=lambda place: (not line.cells[place].meaning, score(line.cells[place].value or 0.0, line.better)))
    comparable = [place for place in good if place == best or not pairs.objection(line, best, place)]
    top = score(line.cells[best].value or 0.0, line.better)
    shares = {
        place: score(line.cells[place].value or 0.0, line.better) / top for place in comparable if top and len(comparable) > 1
    }
    cells = tuple(replace(cell, of_best=shares.get(place)) for place, cell in enumerate(line.cells))
    line = replace(line, cells=cells)
    decided = {place: pairs.decide(line, best, place) for place in good if place != best}
    verdicts = {best: "same"} | {place: one.verdict for place, one in decided.items() if one is not None}
    all_are_compared = len(verdicts) == len(good)
    if "slower" not in verdicts.values() and (all_are_compared or [*verdicts.values()].count("same") < 2):
        return line
    verdicts |= {place: "undecided" for place, cell in enumerate(line.cells) if _may_be_better(cell, line.better)}
    cells = tuple(
        replace(cell, is_best=verdicts.get(place) == "same", is_open=verdicts.get(place) == "undecided")
        for place, cell in enumerate(line.cells)
    )
    return replace(line, cells=cells, note="; ".join(filter(None, (line.note, _objections(line, pairs, labels, best)))))


def _may_be_better(cell: ScorecardCell, better: str) -> bool:
    """Whether a cell is a bound whose open side is the better one."""
    return cell.side == ("at least" if more_is_better(better) else "at most")


def _objections(line: Line, pairs: DevicePairs, labels: Sequence[str], best: int) -> str:
    """The devices with a value that is not compared with the best one's."""
    groups: dict[str, list[str]] = {}
    for place, cell in enumerate(line.cells):
        why = pairs.objection(line, best, place) if cell.value is not None and place != best else ""
        if why and cell.meaning == line.cells[best].meaning:  # others' meanings are in the note already
            groups.setdefault(why, []).append(labels[place])
    return "; ".join(f"not compared with the best, {why}: {', '.join(of)}" for why, of in groups.items())


def _with_ratios(line: Line, baseline: int, pairs: DevicePairs) -> Line:
    if line.cells[baseline].value is None or not line.better:
        return line
    cells = [
        replace(cell, ratio="1x" if place == baseline else _ratio_text(pairs.decide(line, baseline, place)))
        for place, cell in enumerate(line.cells)
    ]
    return replace(line, cells=tuple(cells))


def _ratio_text(found: Decision | None) -> str:
    if found is None:
        return ""
    return f"{format_value(found.gain.value)}x" if found.verdict in ("faster", "slower") else found.verdict


def headlines(paths: Paths) -> pd.DataFrame:
    """The verdict of a report, a row for each quantity of each device: columns device, group, quantity, value, low, high,
    log_sd, log_freedom, better, status, text, point, is_best. Runs of one device are one device. Only what is `ok` has a value.
    `low` and `high` are within a run; `log_sd` is the standard deviation of the value's logarithm over processes and runs, with
    its degrees of freedom. Raises as `read`."""
    import pandas as pd

    devices = merged_runs([jsonl.read(path) for path in results_files(paths)])
    measured = parts([device.run for device in devices], [device.label for device in devices])
    found = verdict(measured)
    sides = [side_of(part) for part in measured]

    def spread(place: int, cell: ScorecardCell) -> dict[str, float]:
        known = spread_of(cell.noisy, sides[place], calibrated()) if cell.noisy is not None else (math.nan, math.nan)
        return dict(zip(("log_sd", "log_freedom"), known, strict=True))

    rows = [
        {
            "device": found.labels[one.device],
            "group": one.line.group,
            "quantity": one.line.name,
            "value": one.cell.value,
            "low": one.cell.low,
            "high": one.cell.high,
            **spread(one.device, one.cell),
            "better": one.line.better,
            "status": one.cell.status,
            "text": one.cell.text,
            "point": one.cell.point,
            "is_best": one.cell.is_best,
        }
        for one in found.cells()
    ]
    return pd.DataFrame(rows)
