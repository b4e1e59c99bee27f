"""`show` and `report`: stored runs as summaries, tables and pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exit_codes, options, output_file, stored
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
        Literal["html", "md"], typer.Option("-f", "--format", help="html is one file without scripts; md is Markdown.")
    ] = "html",
    output: Annotated[Path | None, options.output_option("File to write; default: standard output.")] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside", metavar="NAME", help="Add published results of this sheet in platforms/, or of all; repeatable."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    strict: options.StrictReading = False,
) -> None:
    """Write one report on any number of runs and devices."""
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.report import digests, fleet, markdown_page, page
    from clmembench.results import jsonl
    from clmembench.specs import sheets

    if output is not None:
        output_file.check(output, overwrite, name=f"report.{form}", pipe=True)
        output_file.check_not_input(output, paths)
        output_file.check_writable(output)
    groups: list[fleet.Group] = []
    try:
        others = sheets.published_sheets(beside or [])
        if len(paths) > fleet.MAX_RUNS_WITH_COLUMNS:
            groups = fleet.grouped(_with_notes_printed(digests.digests(paths, strict, len(usable_cpus()))))
            paths = fleet.representative_runs(groups)
        runs = [stored.load(path, strict) for path in paths]
        runs, hierarchies = stored.with_hierarchies(runs)
        if form == "html":
            made = page.render_html(runs, others, hierarchies, groups)
        else:
            made = (markdown_page.render_fleet_markdown(groups) if groups else "") + markdown_page.render_markdown(
                runs, others, hierarchies
            )
    except (sheets.SpecError, jsonl.ResultsError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except digests.WorkerError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    if output is None:
        print(made if form == "md" else _in_any_encoding(made))
        return
    output_file.write(output, made, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


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
