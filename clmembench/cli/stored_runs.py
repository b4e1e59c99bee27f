"""Stored runs that a command reads, with their spec sheets, and the points that its options choose of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from clmembench.cli import exit_codes, options

if TYPE_CHECKING:
    from clmembench.analysis.compare import Comparison
    from clmembench.analysis.matching import PointFilter
    from clmembench.model import Run
    from clmembench.report.frame import Row
    from clmembench.specs.sheets import SpecSheet

STATUSES = ("ok", "suspect", "undetermined", "wrong", "skipped", "failed", "timeout")
VERDICTS = ("slower", "faster", "undecided", "same")


def load(path: Path, strict: bool = False) -> Run:
    """A stored run, with notes on malformed lines printed to standard error. Ends the command where the file cannot be read or,
    if `strict`, where it has a malformed line."""
    from clmembench.results import jsonl

    try:
        found = jsonl.read(path, strict)
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    for note in found.notes:
        exit_codes.say(note)
    return found


def sheet_of(run: Run) -> SpecSheet | None:
    """The spec sheet of a run's device, None where there is none. Ends the command where two match, or one is damaged."""
    from clmembench.report import frame
    from clmembench.specs.sheets import SpecError

    try:
        return frame.sheet_of(run)
    except SpecError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)


def parse(
    bench: list[str] | None = None,
    suite: str | None = None,
    axis: list[str] | None = None,
    status: list[str] | None = None,
) -> PointFilter:
    """The filter that these options make. Ends the command for a word that is no status or no value of an axis."""
    from clmembench.analysis.matching import PointFilter

    try:
        axes = options.parse_axes(axis or [], [])
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    wanted = PointFilter(
        globs=tuple(bench or ()),
        suite=suite or "",
        suite_members=frozenset(_members(suite)) if suite else frozenset(),
        axes=axes,
        statuses=parse_words(status, STATUSES),
    )
    words = [
        *(f"-b {glob}" for glob in bench or ()),
        *([f"-s {suite}"] if suite else []),
        *(f"-a {text}" for text in axis or ()),
        *([f"--status {','.join(status)}"] if status else []),
    ]
    return PointFilter(wanted.globs, wanted.suite, wanted.suite_members, axes, wanted.statuses, " ".join(words))


def parse_words(given: list[str] | None, known: Sequence[str]) -> frozenset[str]:
    """The words of `--status`, which may be repeated or have several. Ends the command for one that is not known."""
    words = [word.strip() for text in given or () for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            exit_codes.stop(f"--status {word!r}: choose from {', '.join(known)}", exit_codes.USAGE)
    return frozenset(words)


def chosen_rows(run: Run, table: list[Row], wanted: PointFilter) -> tuple[Run, list[Row]]:
    """The wanted part of a judged run, and of its rows, which are those of the whole run. Ends the command where it is none."""
    from clmembench.analysis.matching import filtered_run

    if wanted.takes_all:
        return run, table
    part = filtered_run(run, [row.value for row in table], wanted)
    found = [row for row in table if row.value.benchmark in part.header.benchmarks and wanted.takes_value(row.value)]
    if not found:
        _refuse([run], wanted)
    return part, found


def chosen_runs(runs: Sequence[Run], wanted: PointFilter) -> list[Run]:
    """The wanted parts of runs, each judged as a whole before. Ends the command where no run has any."""
    from clmembench.analysis.matching import filtered_run
    from clmembench.gates.whole import judged_values

    if wanted.takes_all:
        return list(runs)
    found = [filtered_run(*judged_values(run, sheet_of(run)), wanted) for run in runs]
    if not any(part.header.benchmarks for part in found):
        _refuse(runs, wanted)
    return found


def chosen_changes(found: Comparison, first: Run, second: Run, wanted: PointFilter) -> Comparison:
    """The wanted part of a comparison, whose verdicts are those of the whole one. Ends the command where it is none."""
    from clmembench.analysis import compare

    if wanted.takes_all:
        return found
    cards = {**first.header.benchmarks, **second.header.benchmarks}
    names = {name for name, card in cards.items() if wanted.takes_benchmark(name, card)}
    part = compare.restricted(found, names, wanted.takes_params)
    if not (part.changes or part.only_first or part.only_second or part.left_out):
        _refuse([first, second], wanted)
    return part


def of_device(paths: Sequence[Path], text: str | None, load: Iterable[Run]) -> list[Path]:
    """The files whose run is of the device that was named, all where none was. Ends the command where there is none."""
    if text is None:
        return list(paths)
    runs = list(load)
    found = [path for path, run in zip(paths, runs, strict=True) if is_device(run, text)]
    if not found:
        known = "; ".join(dict.fromkeys(f"{run.header.device.name} (uuid:{run.header.device.uuid[:8]})" for run in runs))
        exit_codes.stop(f"--device {text!r} matches no device of these runs: {known}", exit_codes.USAGE)
    return found


def is_device(run: Run, text: str) -> bool:
    """Whether a run is of the device that name~TEXT, uuid:HEX, pci:ADDRESS, P:D or its name names. An index means a device
    of a host as it is now, and matches the device that had it as P:D only."""
    device = run.header.device
    if text.startswith("uuid:"):
        wanted = text[5:].replace("-", "").lower()
        return bool(wanted) and device.uuid.startswith(wanted)
    if text.startswith("pci:"):
        wanted = text[4:].lower()
        return bool(wanted and device.pci) and (device.pci == wanted or device.pci.endswith(f":{wanted}"))
    name = text.removeprefix("name~").removesuffix("~").lower()
    return device.selector == text or (name in device.name.lower() if name != text.lower() else name == device.name.lower())


def _members(suite: str) -> Collection[str]:
    from clmembench.plan import selection

    return selection.suites().get(suite, ())


def _statuses(runs: Sequence[Run], wanted: PointFilter) -> list[str]:
    """The statuses of the values of the wanted benchmarks."""
    from clmembench.gates.whole import judged_values

    found: dict[str, None] = {}
    for run in runs:
        cards = run.header.benchmarks
        for value in judged_values(run, sheet_of(run))[1]:
            if wanted.takes_benchmark(value.benchmark, cards[value.benchmark]):
                found[value.status] = None
    return list(found)


def _refuse(runs: Sequence[Run], wanted: PointFilter) -> NoReturn:
    """End the command, with what there is to choose from."""
    cards = {name: card for run in runs for name, card in run.header.benchmarks.items()}
    left = {name: card for name, card in cards.items() if wanted.takes_benchmark(name, card)}
    files = ", ".join(run.path for run in runs)
    if not left:
        there = f"benchmarks {', '.join(cards)}; suites {', '.join(dict.fromkeys(card.suite for card in cards.values()))}"
    elif wanted.axes:
        axes: dict[str, dict[str, None]] = {}
        for record in (record for run in runs for record in run.records if record.benchmark in left):
            for name, value in record.params.items():
                axes.setdefault(name, {})[str(value)] = None
        named = [name for name in wanted.axes if name in axes] or list(axes)
        there = "; ".join(f"{name} {', '.join(list(axes[name])[:MAX_NAMED_VALUES])}" for name in named)
    else:
        there = f"status {', '.join(_statuses(runs, wanted))}"
    exit_codes.stop(f"no value of {files} matches {wanted.words}: choose from {there}", exit_codes.USAGE)


MAX_NAMED_VALUES = 20  # of an axis, in a message
