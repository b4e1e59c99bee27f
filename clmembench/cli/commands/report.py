"""`report`: one page on stored runs of any number of devices."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exit_codes, options, outputs, stored_runs
from clmembench.cli.running import progress
from clmembench.sanitize import line

if TYPE_CHECKING:
    from markupsafe import Markup

    from clmembench.analysis.matching import PointFilter
    from clmembench.model import Run
    from clmembench.report.device_runs import DeviceRun, Findings
    from clmembench.report.many_runs import digests, fleet
    from clmembench.results.imported import ImportedRun

    FilesOfStudies = dict[str, dict[Path, Markup]]  # study -> file -> its section

MAX_UNCOLLECTED = 500_000  # objects: looking for garbage more often takes a fifth of a report's time, and finds little


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN", help="Results files of any number of devices.")],
    form: Annotated[
        Literal["text", "html", "md", "latex"] | None,
        typer.Option(
            "-f",
            "--format",
            help="html is one file that loads nothing, the default with -o; text has answers and key quantities, the default "
            "without -o; md is Markdown; latex has the tables alone.",
        ),
    ] = None,
    output: Annotated[Path | None, options.output_option("File to write; default: standard output.")] = None,
    bench: options.Bench = None,
    suite: options.ShownSuite = None,
    axis: options.Axis = None,
    status: options.Status = None,
    device: options.AnyDevice = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside", metavar="NAME", help="Add published results of this sheet in platforms/, or of all; repeatable."
        ),
    ] = None,
    baseline: Annotated[
        str, typer.Option(metavar="DEVICE", help="Device, by its name in the report, to which the report gives ratios.")
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN=NAME", help="Name of a run's device in the report; runs with different names stay apart; repeatable."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    strict: options.StrictReading = False,
) -> None:
    """Report on any number of runs and devices.

    Without -o it prints the answers and the key quantities; with -o it writes the whole report, one page. Runs of one device
    with one driver are shown as one device, with the latest value of each point. Files that `import` wrote are unranked
    columns, those of `kernel --json` sections of the page. With filters the report covers the selected points only, as if no
    others had been measured."""
    chosen: str = form or ("text" if output is None else "html")
    if output is not None:
        name = f"report.{chosen}".replace(".latex", ".tex").replace(".text", ".txt")
        output = outputs.in_folder(output, name)
        outputs.check(output, overwrite, name=name, pipe=True)
        outputs.check_not_input(output, paths)
        outputs.check_writable(output)
    wanted = stored_runs.parse(bench, suite, axis, status)
    names = _labels(label or [], paths)
    files = _files_of_studies(paths)
    if files and chosen != "html":
        exit_codes.say(f"{', '.join(files)}: shown on the page alone: add -o report.html")
    paths = [path for path in paths if all(path not in known for known in files.values())]
    if not paths:
        exit_codes.stop("none of these is a run: name one, whose devices the report is of", exit_codes.USAGE)
    paths, foreign = _without_imports(paths, names)
    if device is not None:
        paths = stored_runs.of_device(paths, device, (stored_runs.load(path, strict) for path in paths))
    gc.set_threshold(MAX_UNCOLLECTED)
    made = _made(paths, foreign, names, wanted, chosen, baseline, beside or [], strict, files)
    if output is None:
        print(_in_any_encoding(made) if chosen == "html" else made)
        if form is None:
            print("The whole report: add -o report.html")
        return
    outputs.write(output, made, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


def _made(
    paths: list[Path],
    foreign: list[ImportedRun],
    names: Mapping[Path, str],
    wanted: PointFilter,
    form: str,
    baseline: str,
    beside: list[str],
    strict: bool,
    files: FilesOfStudies,
) -> str:
    """The report on these files in a format. Ends the command where one cannot be read, or a name is of nothing."""
    from clmembench.report import scorecard_cells as verdict_cells
    from clmembench.report.device_runs import with_findings
    from clmembench.report.many_runs import digests
    from clmembench.results import imported, jsonl
    from clmembench.specs import sheets

    try:
        others = [*map(imported.published_run, sheets.published_sheets(beside)), *foreign]
        paths, groups = _representatives(paths, wanted, strict)
        found = _devices(paths, names, wanted, strict)
        runs, findings = with_findings([one.run for one in found])
        return _rendered(form, runs, others, findings, groups, [one.label for one in found], baseline, files)
    except (sheets.SpecError, jsonl.ResultsError, verdict_cells.UnknownDevice) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except digests.ReaderError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)


def _representatives(paths: list[Path], wanted: PointFilter, strict: bool) -> tuple[list[Path], list[fleet.DeviceGroup]]:
    """The runs that the page shows in full, and the groups of a fleet, which has more runs than a page has columns. Ends the
    command where a fleet's points are to be filtered."""
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.report.many_runs import digests, fleet
    from clmembench.results import jsonl

    if len(paths) <= fleet.MAX_RUNS_WITH_COLUMNS or not fleet.may_be_fleet(list(map(jsonl.read_header, paths))):
        return paths, []
    if not wanted.takes_all:
        limit = f"over {fleet.MAX_RUNS_WITH_COLUMNS} runs have no columns of their own, and their points are not filtered"
        exit_codes.stop(f"{limit}: name fewer runs, or leave out {wanted.words}", exit_codes.USAGE)
    each = digests.digests(paths, strict, len(usable_cpus()))
    groups = fleet.grouped(_with_notes_printed(progress.counted(each, len(paths), "reading runs")))
    return (fleet.representative_runs(groups), groups) if fleet.is_fleet(groups) else (paths, [])


def _devices(paths: list[Path], names: Mapping[Path, str], wanted: PointFilter, strict: bool) -> list[DeviceRun]:
    """The devices of runs, with the wanted points of each; one that has none is left out."""
    from clmembench.report import device_runs

    found = device_runs.merged_runs([stored_runs.load(path, strict) for path in paths], [names.get(path, "") for path in paths])
    for one in found:
        for note in one.notes:
            exit_codes.say(f"{one.label}: {note}")
    if wanted.takes_all:
        return found
    parts = stored_runs.chosen_runs([one.run for one in found], wanted)
    return [replace(one, run=part) for one, part in zip(found, parts, strict=True) if part.header.benchmarks]


def _rendered(
    form: str,
    runs: list[Run],
    others: list[ImportedRun],
    findings: list[Findings],
    groups: list[fleet.DeviceGroup],
    labels: list[str],
    baseline: str,
    files: FilesOfStudies,
) -> str:
    """The report in a format."""
    from clmembench.report.page import page, text_pages
    from clmembench.report.table import DEFAULT_COLUMNS

    if form == "text":
        width, colour = outputs.width() or DEFAULT_COLUMNS, outputs.is_coloured(sys.stdout)
        return text_pages.render_text(runs, others, findings, groups, labels, baseline, width, colour)
    if form == "html":
        shown = {name: list(sections.values()) for name, sections in files.items()}
        return page.render_html(runs, others, findings, groups, labels, baseline, shown)
    if form == "latex":
        return text_pages.render_latex(runs, others, findings, labels, baseline, groups)
    return text_pages.render_markdown(runs, others, findings, groups, labels, baseline)


def _files_of_studies(paths: Sequence[Path]) -> FilesOfStudies:
    """The sections of files that studies' own commands wrote."""
    from clmembench import studies

    found: FilesOfStudies = {}
    for study in studies.studies():
        for path in paths if study.file_page else ():
            try:
                section = study.call(study.file_page, path)
            except studies.SelectionError as error:
                exit_codes.stop(str(error), exit_codes.USAGE)
            if section is not None:
                found.setdefault(study.name, {})[path] = section
    return found


def _without_imports(paths: list[Path], names: Mapping[Path, str]) -> tuple[list[Path], list[ImportedRun]]:
    """The results files, and the runs of import files under the user's names. Ends the command where no file is of ours."""
    from clmembench.results import imported

    foreign = [path for path in paths if imported.is_import_file(path)]
    try:
        runs = [run for path in foreign for run in _named(imported.read(path), names.get(path, ""))]
    except imported.ImportFault as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    measured = [path for path in paths if path not in foreign]
    if not measured:
        exit_codes.stop("these are imported results alone: name a run of clmembench to show them beside", exit_codes.USAGE)
    return measured, runs


def _named(runs: list[ImportedRun], name: str) -> list[ImportedRun]:
    """The runs of one file under the user's name, to which those of several devices add their own."""
    if not name:
        return runs
    return [replace(run, device=name if len(runs) == 1 else f"{name}, {run.device}") for run in runs]


def _labels(given: Iterable[str], paths: Iterable[Path]) -> dict[Path, str]:
    """Names of devices by the file they were given for. Ends the command for one that is no RUN=NAME of these files."""
    known, found = set(paths), {}
    for text in given:
        path, equals, name = text.rpartition("=")
        if not equals or not name.strip() or Path(path) not in known:
            exit_codes.stop(f"--label {text!r}: write RUN=NAME with one of the results files", exit_codes.USAGE)
        found[Path(path)] = name.strip()
    return found


def _with_notes_printed(found: Iterable[digests.Digest]) -> Iterator[digests.Digest]:
    """The digests; notes on their files go to standard error."""
    for digest in found:
        for note in digest.notes:
            exit_codes.say(note)
        yield digest


def _in_any_encoding(page: str) -> str:
    """A page that declares UTF-8; for a standard output of another encoding, with letters beyond ASCII as numeric
    references."""
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        return page
    return page.encode("ascii", "xmlcharrefreplace").decode()
