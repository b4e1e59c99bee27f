"""`history`: stored runs of one device over time, with driver changes and change points."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import exit_codes, options, outputs, stored_runs
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.report.many_runs.history import DeviceHistory

FIGURES = (".png", ".svg", ".pdf")


def history(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN", help="Results files, or folders of them.")],
    bench: options.Bench = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the quantities of the one device over time: .png, .svg or .pdf.")
    ] = None,
    wide: options.Wide = False,
    overwrite: options.Overwrite = False,
    strict: options.StrictReading = False,
) -> None:
    """Show how the values of a device changed from run to run.

    The headline quantities of each device are listed over its runs, or with -b every point of those benchmarks, with what
    changed (driver, version) and change points. CSV and JSON have every value of every run.
    """
    from clmembench.report.many_runs import history as report
    from clmembench.report.many_runs import history_tables
    from clmembench.specs.sheets import SpecError

    form = options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    if figure is not None:
        _check_figure(figure, overwrite)
    try:
        found = report.histories(_runs(paths, strict), bench or ())
    except SpecError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    outputs.print_as(
        form,
        lambda: history_tables.history_document(found),
        lambda: found,
        lambda: history_tables.history_fields(found),
        wide,
    )
    for note in dict.fromkeys(note for one in found for note in one.notes if note == report.NO_LIBRARY):
        exit_codes.say(note)
    if figure is not None:
        _draw(found, figure, overwrite)


def _runs(paths: list[Path], strict: bool) -> list[Run]:
    """Every run of the files and folders, each once. A file of a folder that is no results file is left out with a note; ends
    the command where a named file is none, or no run is left."""
    from clmembench.results import jsonl, run_files

    found: dict[str, Run] = {}
    for path in paths:
        for file in run_files.files_of(path) if path.is_dir() else [path]:
            try:
                run = stored_runs.load(file, strict) if file == path else jsonl.read(file, strict)
            except jsonl.ResultsError as error:
                exit_codes.say(f"left out: {error}")
                continue
            if run.header.run_id in found:
                exit_codes.say(f"left out: {file} is the run of {found[run.header.run_id].path}")
            else:
                found[run.header.run_id] = run
    if not found:
        exit_codes.stop(f"no results file in {', '.join(map(str, paths))}", exit_codes.USAGE)
    return list(found.values())


def _check_figure(path: Path, overwrite: bool) -> None:
    if path.suffix not in FIGURES and not path.is_dir():
        exit_codes.stop(f"--figure {path}: name a file that ends with {', '.join(FIGURES)}", exit_codes.USAGE)
    outputs.check(path, overwrite, "--figure", "history.png")
    outputs.check_writable(path, "--figure")


def _draw(found: list[DeviceHistory], path: Path, overwrite: bool) -> None:
    from clmembench.report.figures.history_chart import history_chart

    if len(found) > 1:
        names = ", ".join(one.device for one in found)
        exit_codes.stop(f"--figure is of one device, and these runs are of {len(found)}: {names}", exit_codes.USAGE)
    try:
        content = history_chart(found[0], path.suffix[1:])
    except ValueError as error:
        exit_codes.stop(f"--figure: {error}", exit_codes.USAGE)
    outputs.write(path, content, overwrite, "--figure")
    print(line(f"wrote {path}"), file=sys.stderr)
