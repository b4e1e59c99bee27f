"""`show` and `report`: stored runs as summaries, tables and pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exit_codes, options, output_file, progress, stored
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.report import digests


def show(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Results file.")],
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    strict: options.StrictReading = False,
) -> None:
    """Show the summary of a stored run, or every value as a table.

    Without an option it prints the summary that `run` ends with, and the memory hierarchy where it was measured. JSON, CSV,
    Markdown and LaTeX have one object or line for each point and metric.
    """
    from clmembench.cli import topology
    from clmembench.report import render, rows, terminal
    from clmembench.report.hierarchy import from_runs
    from clmembench.report.section import table
    from clmembench.report.sections import roofline_tables

    form = options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    run = stored.load(path, strict)
    sheet = stored.sheet_of(run)
    run, values = rows.judged_rows(run, sheet)
    if form == "json":
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


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN", help="Results files of any number of devices.")],
    form: Annotated[
        Literal["html", "md"], typer.Option("-f", "--format", help="html is one file that loads nothing; md is Markdown.")
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
    devices in headline quantities.
    """
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.report import device_runs, digests, fleet, markdown_page, page, verdict_cells
    from clmembench.results import jsonl
    from clmembench.specs import sheets

    if output is not None:
        output_file.check(output, overwrite, name=f"report.{form}", pipe=True)
        output_file.check_not_input(output, paths)
        output_file.check_writable(output)
    groups: list[fleet.Group] = []
    names = _labels(label or [], paths)
    try:
        others = sheets.published_sheets(beside or [])
        if len(paths) > fleet.MAX_RUNS_WITH_COLUMNS:
            each = digests.digests(paths, strict, len(usable_cpus()))
            groups = fleet.grouped(_with_notes_printed(progress.counted(each, len(paths), "reading runs")))
            paths = fleet.representative_runs(groups)
        found = device_runs.merged_runs([stored.load(path, strict) for path in paths], [names.get(path, "") for path in paths])
        for one in found:
            for note in one.notes:
                exit_codes.say(f"{one.label}: {note}")
        runs, hierarchies = stored.with_hierarchies([one.run for one in found])
        labels = [one.label for one in found]
        if form == "html":
            made = page.render_html(runs, others, hierarchies, groups, labels, baseline)
        else:
            made = (markdown_page.render_fleet_markdown(groups) if groups else "") + markdown_page.render_markdown(
                runs, others, hierarchies, labels, baseline
            )
    except (sheets.SpecError, jsonl.ResultsError, verdict_cells.UnknownDevice) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except digests.WorkerError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    if output is None:
        print(made if form == "md" else _in_any_encoding(made))
        return
    output_file.write(output, made, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


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
