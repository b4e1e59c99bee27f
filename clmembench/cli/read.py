"""`show` and `report`: what stored runs say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exits, output_file
from clmembench.shown import line

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.report import fleet
    from clmembench.specs import SpecSheet


def load(path: Path, strict: bool = False) -> Run:
    """A stored run. Ends the command when the file is none, or if `strict` at its first bad line; else what was odd goes to
    standard error."""
    from clmembench import results

    try:
        found = results.read(path, strict)
    except results.ResultsError as error:
        exits.stop(str(error), exits.USAGE)
    for note in found.notes:
        exits.say(note)
    return found


def sheet_of(run: Run) -> SpecSheet | None:
    """The spec sheet of a run's device, None where there is none. Ends the command where two match, or one is damaged."""
    from clmembench.report import rows
    from clmembench.specs import SpecError

    try:
        return rows.sheet_of(run)
    except SpecError as error:
        exits.stop(str(error), exits.USAGE)


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
    from clmembench.report import roofline, rows, text

    if as_json + as_csv + as_md + as_latex > 1:
        exits.stop("choose one of --json, --csv, --md and --latex", exits.USAGE)
    found = load(path, strict)
    sheet = sheet_of(found)
    found, table = rows.judged_rows(found, sheet)
    if as_json:
        print(rows.to_json(table, roofline.by_point(found, table, sheet)))
    elif as_csv:
        print(rows.to_csv(table), end="")
    elif as_md:
        print(rows.to_markdown(table))
    elif as_latex:
        print(rows.to_latex(table))
    else:
        print(text.as_text(found, table, sheet, bold=sys.stdout.isatty() and not _no_color()))
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
    from clmembench import results, specs
    from clmembench.cli import topology
    from clmembench.report import document, fleet
    from clmembench.topology import usable_cpus

    if output is not None:
        output_file.check(output, overwrite, name=f"report.{form}", pipe=True)
        output_file.differs(output, paths)
        output_file.check_writable(output)
    groups: list[fleet.Group] = []
    try:
        others = specs.beside(beside or [])
        if len(paths) > fleet.MANY:
            groups = fleet.grouped(_noted(fleet.digests(paths, strict, len(usable_cpus()))))
            paths = fleet.speakers(groups)
        runs = [load(path, strict) for path in paths]
        runs, dissected = topology.consistent(runs, list(map(topology.dissected, runs)))
        if form == "html":
            made = document.as_html(runs, others, dissected, groups)
        else:
            made = (document.many_as_markdown(groups) if groups else "") + document.as_markdown(runs, others, dissected)
    except (specs.SpecError, results.ResultsError) as error:
        exits.stop(str(error), exits.USAGE)
    except fleet.WorkerError as error:
        exits.stop(str(error), exits.INTERNAL)
    if output is None:
        print(made if form == "md" else _in_any_encoding(made))
        return
    output_file.write(output, made, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


def _noted(found: Iterable[fleet.Digest]) -> Iterator[fleet.Digest]:
    """The same; what was odd about a file goes to standard error."""
    for one in found:
        for note in one.notes:
            exits.say(note)
        yield one


def _in_any_encoding(page: str) -> str:
    """A page that says its letters are UTF-8: where standard output's are others, those beyond ASCII by their numbers."""
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        return page
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _no_color() -> bool:
    return bool(os.environ.get("NO_COLOR"))
