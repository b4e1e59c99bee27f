"""`show`: a stored run as a summary, a table, data, or the energy of its points."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import exit_codes, measure_or_read, options, outputs, stored_runs
from clmembench.sanitize import line
from clmembench.units import count

if TYPE_CHECKING:
    from clmembench.analysis.matching import PointFilter
    from clmembench.model import Run
    from clmembench.report.frame import Row
    from clmembench.specs.sheets import SpecSheet


def print_energy(run: Run, sheet: SpecSheet | None, form: str, wanted: PointFilter, wide: bool) -> None:
    """Print the energy of each wanted point in a format but JSON, which has it with every value."""
    from clmembench.report import frame, render
    from clmembench.report.sections import energy_tables
    from clmembench.report.table import one_table

    part, values = stored_runs.chosen_rows(*frame.judged_rows(run, sheet), wanted)
    found = energy_tables.section(part, values) or energy_tables.NO_SENSORS
    if form == "csv":
        print(render.csv_text(found), end="")
    elif form != "text":
        print({"md": render.markdown, "latex": render.latex}[form](one_table(found)))
    else:
        if found.rows:
            outputs.print_document(one_table(found), wide)
        else:
            print("\n".join(map(line, found.notes)))
        for shown in energy_tables.conditions(part):
            print(f"{shown.name}: {min(shown.values):g} to {max(shown.values):g} {shown.unit} over {shown.seconds[-1]:.0f} s")


def show(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Results file.")],
    bench: options.Bench = None,
    suite: options.ShownSuite = None,
    axis: options.Axis = None,
    status: options.Status = None,
    device: options.AnyDevice = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a table for pandas, Polars or R, as clmembench.read gives it; needs pyarrow."),
    ] = None,
    wide: options.Wide = False,
    overwrite: options.Overwrite = False,
    strict: options.StrictReading = False,
    energy: options.ShowEnergy = False,
    time: Annotated[bool, typer.Option("--time", help="Show where the run's time went, by benchmark.")] = False,
) -> None:
    """Show the tables of a stored run, or every value as one table.

    Without an option it prints the key quantities that `run` ends with, a table or two for each benchmark, and the memory
    hierarchy where it was measured. JSON, CSV, Markdown, LaTeX and Parquet have one object or line for each point and metric;
    so has the text with -a or --status. Filters change no value.
    """

    form = options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    wanted = stored_runs.parse(bench, suite, axis, status)
    if parquet is not None:
        if form != "text":
            exit_codes.stop(f"choose one of --parquet and {options.FORMAT_FLAGS[form]}", exit_codes.USAGE)
        _write_parquet(parquet, path, strict, overwrite, wanted)
        return
    run = stored_runs.load(path, strict)
    stored_runs.of_device([path], device, [run])
    if time:
        if form == "json":
            exit_codes.stop("--time is a table: choose --csv or --md", exit_codes.USAGE)
        from clmembench.report.sections import time_table
        from clmembench.report.table import one_table

        (chosen,) = stored_runs.chosen_runs([run], wanted)
        found = time_table.section(run, chosen)
        outputs.print_as(form, lambda: one_table(found), fields=lambda: found, wide=wide)
        return
    sheet = stored_runs.sheet_of(run)
    if energy and form != "json":
        print_energy(run, sheet, form, wanted, wide)
        return
    _print(run, sheet, form, wanted, wide)


def _print(run: Run, sheet: SpecSheet | None, form: str, wanted: PointFilter, wide: bool) -> None:
    """Print the wanted values of a run, judged and derived as those of the whole run."""
    from clmembench.report import frame, views
    from clmembench.report.sections import roofline_tables
    from clmembench.report.table import one_table

    run, whole = frame.judged_rows(run, sheet)
    part, values = stored_runs.chosen_rows(run, whole, wanted)
    if form == "text":
        _print_text(part, values, sheet, wanted, wide)
        return

    def objects() -> list[object]:
        kept = set(map(id, values))
        known = frame.point_values(whole, roofline_tables.by_point(run, whole, sheet))
        return [one for one, row in zip(known, whole, strict=True) if id(row) in kept]

    outputs.print_as(form, lambda: one_table(views.point_table(values)), objects, lambda: frame.point_fields(values))


def _print_text(run: Run, values: list[Row], sheet: SpecSheet | None, wanted: PointFilter, wide: bool) -> None:
    """Print a summary, or a line for each value where points were chosen: what is inferred from a curve needs all of it."""
    from clmembench.report import summary

    if wanted.axes or wanted.statuses:
        outputs.print_document(summary.points_document(run, values, sheet), wide)
        return
    document = summary.summary_document(run, values, sheet, is_whole=wanted.takes_all)
    if wanted.takes_all and (key := summary.key_table(run, values, sheet, outputs.width(wide))).rows:
        document = replace(document, sections=(key, *document.sections))
    outputs.print_document(document, wide)
    measure_or_read.show_with_run(run)


def _write_parquet(output: Path, path: Path, strict: bool, overwrite: bool, wanted: PointFilter) -> None:
    """Write the wanted values of a run as Parquet. Ends the command where pyarrow is missing or the file cannot be written."""
    from clmembench.report import frame

    output = outputs.in_folder(output, "run.parquet")
    outputs.check(output, overwrite, "--parquet", "run.parquet")
    outputs.check_not_input(output, [path], "--parquet")
    outputs.check_writable(output, "--parquet")
    exit_codes.require("pyarrow", "data", "show --parquet")
    run = stored_runs.load(path, strict)
    stored_runs.sheet_of(run)  # ends the command where a spec sheet is damaged
    (run,) = stored_runs.chosen_runs([run], wanted)
    table = frame.run_frame(run)
    outputs.write(output, frame.parquet(table), overwrite, "--parquet")
    print(line(f"wrote {output}: {count(len(table), 'row')}"), file=sys.stderr)
