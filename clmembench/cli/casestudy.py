"""`casestudy`: published programs in the versions that their paper optimised them by, and the gain of each version here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import options, stored, study

if TYPE_CHECKING:
    from clmembench.benchmarks.mnf.cubes import Size
    from clmembench.measure.worker import Found
    from clmembench.model import DeviceInfo, Record, Run
    from clmembench.plan.selection import Selection

HELP = "Measure a published program in each of its optimised versions."
casestudy = typer.Typer(help=HELP)

TIMEOUT_S = 300.0  # of a point: on the host alone a large cube takes seconds a pass
NO_EVIDENCE = "holds no records of MNF: measure them with clmembench casestudy mnf -d DEVICE"


@casestudy.callback(help=HELP)
def _several() -> None:
    """A group with one command is still a group."""


@casestudy.command("mnf")
def mnf(
    context: typer.Context,
    path: Annotated[Path | None, options.stored_run_argument("Results file of this command; nothing is measured.")] = None,
    device: options.Device = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Cube, WIDTHxHEIGHT with 224 bands or WIDTHxHEIGHTxBANDS; default: fitted to the device."
        ),
    ] = None,
    processes: Annotated[
        int | None, options.processes_option("4 on CPUs, 3 on others; 3 for the whole program; 2 for NumPy", None)
    ] = None,
    budget: options.Budget = None,
    timeout: Annotated[str | None, options.timeout_option("300s")] = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Measure maximum noise fraction (MNF) in 15 versions of 3 steps.

    MNF rotates a hyperspectral cube. Every version is verified against NumPy; its gain has a 95% interval and a verdict. The
    whole program is compared with NumPy on the host. Points that --budget leaves out are skipped.
    """
    form = options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    given = study.Options(device, budget, timeout, seed, output, overwrite, timeout_s=TIMEOUT_S)
    program = study.Study(lambda info: _measurement(given, size, processes), _has_evidence, NO_EVIDENCE, show)
    study.measure_or_read(program, context, path, form, given)


def _measured(
    info: DeviceInfo, found: Found, selection: Selection, size: Size | None, processes: int | None
) -> Iterator[Record]:
    """Every record of the study, as it is measured: the steps first, since the whole is made of their quickest versions."""
    import time

    from clmembench.benchmarks import discovered
    from clmembench.measure import runner
    from clmembench.plan import casestudy as study

    deadline = time.monotonic() + selection.budget_s if selection.budget_s else None
    known: list[Record] = []
    for name in study.BENCHMARKS:
        plan = study.plan(name, info, size, processes, tuple(known))
        for record in runner.follow(plan, discovered()[name], "opencl", info, found, selection, deadline=deadline):
            known.append(record)
            yield record


def _measurement(given: study.Options, size: str | None, processes: int | None) -> study.Measurement:
    """Raises ValueError for what is no cube, too."""
    from clmembench.plan import casestudy as plan

    selection = given.selection("casestudy", globs=plan.BENCHMARKS)
    records = partial(_measured, selection=selection, size=plan.parsed(size), processes=processes)
    return study.Measurement(selection, plan.BENCHMARKS, records)


def _has_evidence(run: Run) -> bool:
    from clmembench.report.sections import mnf_tables

    return any(record.benchmark in mnf_tables.TITLES for record in run.records)


def show(run: Run, form: str) -> None:
    """Print what a run says of the study, in one of the forms."""
    import os

    from clmembench.gates.whole import judged_run
    from clmembench.report import terminal
    from clmembench.report.sections import mnf_data
    from clmembench.report.sections import mnf_tables as report

    sheet = stored.sheet_of(run)
    run = judged_run(run, sheet)
    if form == "json":
        print(mnf_data.to_json(run))
    elif form == "csv":
        print(mnf_data.to_csv(run), end="")
    elif form == "md":
        print("\n".join(terminal.in_markdown(report.sections(run))))
    elif form == "latex":
        print("\n".join(terminal.in_latex(report.sections(run))))
    else:
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print("\n".join([terminal.device_line(run.header, sheet), "", *terminal.aligned(report.sections(run), bold)]))
