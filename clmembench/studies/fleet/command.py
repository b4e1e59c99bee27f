"""`fleet`: a store of the runs of many devices, and which of them stand apart."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import exit_codes, options, outputs
from clmembench.sanitize import argument, line
from clmembench.studies.fleet import run_command
from clmembench.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

HELP = "Measure many devices, and find those that stand apart."
EXTRA = "fleet"
fleet = typer.Typer(help=HELP)
fleet.command("run")(run_command.fleet_run)
fleet.command("resume")(run_command.resume)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the store.")]


@fleet.command("import")
def import_files(
    store: Store,
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Results files, or folders of them.")],
) -> None:
    """Add the runs of results files to a store.

    The store is made where there is none. A run that it has is left as it is; one that was resumed replaces its beginning.
    """
    for module in ("pyarrow", "duckdb"):
        exit_codes.require(module, EXTRA, "a store")
    from clmembench.results import run_files
    from clmembench.results.jsonl import ResultsError
    from clmembench.specs.sheets import SpecError
    from clmembench.studies.fleet.compaction import compact
    from clmembench.studies.fleet.store import StoreError, import_run

    added = refused = known = 0
    for path in files:
        for file in run_files.files_of(path) if path.is_dir() else [path]:
            try:
                is_new = import_run(store, file)
            except (ResultsError, SpecError) as error:
                exit_codes.say(f"left out: {error}")
                refused += 1
                continue
            except (StoreError, OSError) as error:
                exit_codes.stop(str(error), exit_codes.USAGE)
            added, known = added + is_new, known + (not is_new)
    if not added + known:
        exit_codes.stop(f"no results file in {', '.join(map(str, files))}", exit_codes.USAGE)
    compact(store)
    rest = [f"{number} {what}" for number, what in ((known, "in it already"), (refused, "left out")) if number]
    print(", ".join([f"{store}: {count(added, 'run')} added", *rest]))
    if refused:
        raise typer.Exit(exit_codes.FAILED)


@fleet.command("show")
def show(
    store: Store,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help='List the points for which this SQL condition holds: "median < 100".'),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="Answer a query of the tables points, samples, runs and devices, by DuckDB."),
    ] = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    wide: options.Wide = False,
) -> None:
    """Show devices that stand apart, or query a store.

    Without an option it lists models, devices that are slow and what they have in common, populations, drift and failures.
    A query reads the store alone, and changes nothing.
    """
    from clmembench.report.table import one_table
    from clmembench.studies.fleet import tables

    form = options.output_format(json=as_json, csv=as_csv, md=as_md)
    if where is not None and sql is not None:
        exit_codes.stop("choose one of --where and --sql: a query has its own WHERE", exit_codes.USAGE)
    with _opened(store) as database:
        if where is None and sql is None:
            from clmembench.studies.fleet.fleet import Fleet

            found = Fleet(database).findings()
            outputs.print_as(form, lambda: tables.document(found), lambda: found, lambda: tables.fields(found), wide)
            return
        from clmembench.studies.fleet import query

        try:
            names, rows = query.answer(database, sql if sql is not None else query.points_where(where or ""))
        except query.QueryError as error:
            exit_codes.stop(str(error), exit_codes.USAGE)
    outputs.print_as(
        form,
        lambda: one_table(tables.rows_table(names, rows)),
        lambda: [dict(zip(names, map(query.plain, row), strict=True)) for row in rows],
        lambda: tables.plain_table(names, rows),
        wide,
    )


@fleet.command("report")
def report(
    store: Store,
    output: Annotated[Path, options.output_option("Page to write: one HTML file that loads nothing.")],
    overwrite: options.Overwrite = False,
) -> None:
    """Write a page on the devices of a store.

    It has the distributions of each model, and a section on each device that stands apart.
    """
    from clmembench.studies.fleet.fleet import Fleet
    from clmembench.studies.fleet.page import render_page

    output = outputs.in_folder(output, "fleet.html")
    outputs.check(output, overwrite, name="fleet.html")
    outputs.check_writable(output)
    with _opened(store) as database:
        of_store = Fleet(database)
        page = render_page(of_store, of_store.findings(), store.resolve().name)
    outputs.write(output, page, overwrite)
    print(line(f"wrote {output}"), file=sys.stderr)


@fleet.command("export")
def export(
    store: Store,
    prometheus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Gauges to write, in Prometheus's text format, for a textfile collector."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JUnit XML to write: a test case for each device, which fails if it is slow."),
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN_ID", help="Run of which --results writes the results file.")] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Results file to write: the run as it was imported.")
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a store's findings for other programs.

    They are gauges for monitoring and test cases for acceptance. A run of the store becomes a results file again.
    """
    from clmembench.results import run_files
    from clmembench.studies.fleet import export as formats
    from clmembench.studies.fleet import store as runs
    from clmembench.studies.fleet.fleet import Fleet

    wanted = [(prometheus, "--prometheus", formats.prometheus_text), (junit, "--junit", formats.junit_text)]
    named = [(path, option, text) for path, option, text in wanted if path is not None]
    if (run is None) != (results is None):
        exit_codes.stop("--run names the run, and --results the file of it: give both", exit_codes.USAGE)
    if not named and results is None:
        exit_codes.stop("name a file: --prometheus FILE, --junit FILE, or --results FILE with --run", exit_codes.USAGE)
    for path, option in [*((path, option) for path, option, _ in named), *([(results, "--results")] if results else [])]:
        outputs.check(path, overwrite, option, path.name, pipe=True)
    with _opened(store) as database:
        if run is not None and results is not None:
            try:
                content = runs.export_run(store, run).encode()
            except runs.StoreError as error:
                exit_codes.stop(str(error), exit_codes.USAGE)
            outputs.write(results, run_files.compress(content) if run_files.is_compressed(results) else content, overwrite)
        if not named:
            return
        of_store = Fleet(database)
        found = of_store.findings()
        for path, option, text in named:
            outputs.write(path, text(of_store, found), overwrite, option)


@contextmanager
def _opened(store: Path) -> Iterator[DuckDBPyConnection]:
    """The store's tables. Ends the command where there are none."""
    for module in ("pyarrow", "duckdb"):
        exit_codes.require(module, EXTRA, "a store")
    from clmembench.studies.fleet import query
    from clmembench.studies.fleet.store import StoreError, parts

    try:
        found = parts(store)
    except StoreError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    if not found:
        exit_codes.stop(f"{store} has no runs: add some with clmembench fleet import {argument(store)} FILES", exit_codes.USAGE)
    with query.opened(store, found) as database:
        yield database
