"""`show` and `report`: what stored runs say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exit_codes, output_file, stored
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.report import digests


def show(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A results file.")],
    as_json: Annotated[bool, typer.Option("--json", help="A list with one object for each point and metric.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line for each point and metric.")] = False,
    as_md: Annotated[bool, typer.Option("--md", help="A Markdown table of every point and metric.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="The same table for LaTeX, with booktabs.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a file with a bad line, rather than read the rest.")] = False,
) -> None:
    """Show a stored run: its summary, or every value as JSON, CSV, Markdown or LaTeX."""
    from clmembench.cli import topology
    from clmembench.report import render, rows, terminal
    from clmembench.report.section import table as alone
    from clmembench.report.sections import roofline_tables

    if as_json + as_csv + as_md + as_latex > 1:
        exit_codes.stop("choose one of --json, --csv, --md and --latex", exit_codes.USAGE)
    found = stored.load(path, strict)
    sheet = stored.sheet_of(found)
    found, table = rows.judged_rows(found, sheet)
    if as_json:
        print(render.json_text(rows.point_objects(table, roofline_tables.by_point(found, table, sheet))))
    elif as_csv:
        print(render.csv_text(rows.point_fields(table)), end="")
    elif as_md:
        print(render.markdown(alone(rows.point_table(table))))
    elif as_latex:
        print(render.latex(alone(rows.point_table(table))))
    else:
        print(render.text(terminal.summary_document(found, table, sheet), bold=sys.stdout.isatty() and not _no_color()))
        if topology.is_chased(found):
            topology.show(found, "tree")


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Results files, any number and any devices.")],
    form: Annotated[Literal["html", "md"], typer.Option("-f", "--format", help="html (one file, no script) or md.")] = "html",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to; standard output if not given.")] = None,
    beside: Annotated[
        list[str] | None, typer.Option("--beside", help="Also what papers published of a device: a name in platforms/, or all.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse files with a bad line, rather than read the rest.")] = False,
) -> None:
    """Make one report over any number of runs and devices."""
    from clmembench.cli import topology
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.report import digests, fleet, markdown_page, page
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
            groups = fleet.grouped(_noted(digests.digests(paths, strict, len(usable_cpus()))))
            paths = fleet.speakers(groups)
        runs = [stored.load(path, strict) for path in paths]
        runs, dissected = topology.consistent(runs, list(map(topology.dissected, runs)))
        if form == "html":
            made = page.render_html(runs, others, dissected, groups)
        else:
            made = (markdown_page.render_fleet_markdown(groups) if groups else "") + markdown_page.render_markdown(
                runs, others, dissected
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


def _noted(found: Iterable[digests.Digest]) -> Iterator[digests.Digest]:
    """The same; what was odd about a file goes to standard error."""
    for one in found:
        for note in one.notes:
            exit_codes.say(note)
        yield one


def _in_any_encoding(page: str) -> str:
    """A page that says its letters are UTF-8: where standard output's are others, those beyond ASCII by their numbers."""
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        return page
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _no_color() -> bool:
    return bool(os.environ.get("NO_COLOR"))
