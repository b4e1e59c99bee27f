"""`show` and `report`: stored runs as summaries, tables and pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exit_codes, extras, options, output_file, progress, stored
from clmembench.sanitize import line
from clmembench.units import count

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.report import digests, fleet
    from clmembench.report.hierarchy.section import HierarchyFindings
    from clmembench.results.imported import ImportedRun
    from clmembench.specs.sheets import SpecSheet


def show(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Results file.")],
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a table for pandas, Polars or R, as clmembench.read gives it; needs pyarrow."),
    ] = None,
    overwrite: options.Overwrite = False,
    strict: options.StrictReading = False,
    energy: options.ShowEnergy = False,
) -> None:
    """Show the summary of a stored run, or every value as a table.

    Without an option it prints the summary that `run` ends with, and the memory hierarchy where it was measured. JSON, CSV,
    Markdown, LaTeX and Parquet have one object or line for each point and metric.
    """
    from clmembench.cli import topology
    from clmembench.cli.energy import print_energy
    from clmembench.report import render, rows, terminal
    from clmembench.report.hierarchy import from_runs
    from clmembench.report.section import table
    from clmembench.report.sections import roofline_tables

    form = options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    if parquet is not None:
        if form != "text":
            exit_codes.stop(f"choose one of --parquet and {options.FORMAT_FLAGS[form]}", exit_codes.USAGE)
        _write_parquet(parquet, path, strict, overwrite)
        return
    run = stored.load(path, strict)
    sheet = stored.sheet_of(run)
    run, values = rows.judged_rows(run, sheet)
    if energy and form != "json":
        print_energy(run, values, form)
    elif form == "json":
        print(render.json_text(rows.point_objects(values, roofline_tables.by_point(run, values, sheet))))
    elif form == "csv":
        print(render.csv_text(rows.point_fields(values)), end="")
    elif form == "md":
        print(render.markdown(table(rows.point_table(values))))
    elif form == "latex":
        print(render.latex(table(rows.point_table(values))))
    else:
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(render.text(terminal.summary_document(run, values, sheet), bold=bold))
        if from_runs.has_chases(run):
            topology.show(run, "text")


def _write_parquet(output: Path, path: Path, strict: bool, overwrite: bool) -> None:
    """Write the values of a run as Parquet. Ends the command where pyarrow is missing or the file cannot be written."""
    from clmembench.report import frames

    output = output_file.in_folder(output, "run.parquet")
    output_file.check(output, overwrite, "--parquet", "run.parquet")
    output_file.check_not_input(output, [path], "--parquet")
    output_file.check_writable(output, "--parquet")
    extras.require("pyarrow", "data", "show --parquet")
    run = stored.load(path, strict)
    stored.sheet_of(run)  # ends the command where a spec sheet is damaged
    frame = frames.run_frame(run)
    output_file.write(output, frames.parquet(frame), overwrite, "--parquet")
    print(line(f"wrote {output}: {count(len(frame), 'row')}"), file=sys.stderr)


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN", help="Results files of any number of devices.")],
    form: Annotated[
        Literal["html", "md", "latex"],
        typer.Option("-f", "--format", help="html is one file that loads nothing; md is Markdown; latex has the tables alone."),
    ] = "html",
    output: Annotated[Path | None, options.output_option("File to write; default: standard output.")] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside", metavar="NAME", help="Add published results of this sheet in platforms/, or of all; repeatable."
        ),
    ] = None,
    baseline: Annotated[
        str, typer.Option(metavar="DEVICE", help="Device, by its name in the report, to which the verdict gives ratios.")
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
    """Write one report on any number of runs and devices.

    Runs of one device with one driver are shown as one device, with the latest value of each point. The verdict compares the
    devices in headline quantities; files that `import` wrote are columns of it, outside ranks.
    """
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.report import device_runs, digests, fleet, imported_headlines, verdict_cells
    from clmembench.results import jsonl
    from clmembench.specs import sheets

    name = f"report.{form}".replace(".latex", ".tex")
    if output is not None:
        output = output_file.in_folder(output, name)
        output_file.check(output, overwrite, name=name, pipe=True)
        output_file.check_not_input(output, paths)
        output_file.check_writable(output)
    groups: list[fleet.Group] = []
    names = _labels(label or [], paths)
    paths, foreign = _without_imports(paths, names)
    try:
        others = [*sheets.published_sheets(beside or []), *map(imported_headlines.imported_sheet, foreign)]
        if len(paths) > fleet.MAX_RUNS_WITH_COLUMNS:
            each = digests.digests(paths, strict, len(usable_cpus()))
            groups = fleet.grouped(_with_notes_printed(progress.counted(each, len(paths), "reading runs")))
            groups = groups if fleet.is_fleet(groups) else []
            paths = fleet.representative_runs(groups) if groups else paths
        found = device_runs.merged_runs([stored.load(path, strict) for path in paths], [names.get(path, "") for path in paths])
        for one in found:
            for note in one.notes:
                exit_codes.say(f"{one.label}: {note}")
        runs, hierarchies = stored.with_hierarchies([one.run for one in found])
        made = _rendered(form, runs, others, hierarchies, groups, [one.label for one in found], baseline)
    except (sheets.SpecError, jsonl.ResultsError, verdict_cells.UnknownDevice) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except digests.WorkerError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    if output is None:
        print(_in_any_encoding(made) if form == "html" else made)
        return
    output_file.write(output, made, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


def _rendered(
    form: str,
    runs: list[Run],
    others: list[SpecSheet],
    hierarchies: list[HierarchyFindings | None],
    groups: list[fleet.Group],
    labels: list[str],
    baseline: str,
) -> str:
    """The report in a format."""
    from clmembench.report import latex_page, markdown_page, page

    if form == "html":
        return page.render_html(runs, others, hierarchies, groups, labels, baseline)
    if form == "latex":
        return latex_page.render_latex(runs, others, hierarchies, labels, baseline, groups)
    return markdown_page.render_markdown(runs, others, hierarchies, groups, labels, baseline)


def _without_imports(paths: list[Path], names: Mapping[Path, str]) -> tuple[list[Path], list[ImportedRun]]:
    """The results files, and the runs of import files under the user's names. Ends the command where no file is of ours."""
    from clmembench.results import imported

    foreign = [path for path in paths if imported.is_import_file(path)]
    try:
        runs = [replace(run, device=names.get(path) or run.device) for path in foreign for run in imported.read(path)]
    except imported.ImportFault as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    measured = [path for path in paths if path not in foreign]
    if not measured:
        exit_codes.stop("these are imported results alone: name a run of clmembench to show them beside", exit_codes.USAGE)
    return measured, runs


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
