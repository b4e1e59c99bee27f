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
    from clmembench.report import fleet


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
    from clmembench.report import rows, terminal
    from clmembench.report.sections import roofline_tables

    options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    found = stored.load(path, strict)
    sheet = stored.sheet_of(found)
    found, table = rows.judged_rows(found, sheet)
    if as_json:
        print(rows.to_json(table, roofline_tables.by_point(found, table, sheet)))
    elif as_csv:
        print(rows.to_csv(table), end="")
    elif as_md:
        print(rows.to_markdown(table))
    elif as_latex:
        print(rows.to_latex(table))
    else:
        print(terminal.as_text(found, table, sheet, bold=sys.stdout.isatty() and not _no_color()))
        if topology.is_chased(found):
            topology.show(found, "text")


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
    from clmembench.report import fleet, page
    from clmembench.results import jsonl
    from clmembench.specs import sheets

    if output is not None:
        output_file.check(output, overwrite, name=f"report.{form}", pipe=True)
        output_file.differs(output, paths)
        output_file.check_writable(output)
    groups: list[fleet.Group] = []
    try:
        others = sheets.beside(beside or [])
        if len(paths) > fleet.MANY:
            groups = fleet.grouped(_noted(fleet.digests(paths, strict, len(usable_cpus()))))
            paths = fleet.speakers(groups)
        runs = [stored.load(path, strict) for path in paths]
        runs, dissected = stored.with_hierarchies(runs)
        if form == "html":
            made = page.as_html(runs, others, dissected, groups)
        else:
            made = (page.many_as_markdown(groups) if groups else "") + page.as_markdown(runs, others, dissected)
    except (sheets.SpecError, jsonl.ResultsError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except fleet.WorkerError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    if output is None:
        print(made if form == "md" else _in_any_encoding(made))
        return
    output_file.write(output, made, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


def _noted(found: Iterable[fleet.Digest]) -> Iterator[fleet.Digest]:
    """The same; what was odd about a file goes to standard error."""
    for one in found:
        for note in one.notes:
            exit_codes.say(note)
        yield one


def _in_any_encoding(page: str) -> str:
    """A page that declares UTF-8; for a standard output of another encoding, with letters beyond ASCII as numeric
    references."""
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        return page
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _no_color() -> bool:
    return bool(os.environ.get("NO_COLOR"))
