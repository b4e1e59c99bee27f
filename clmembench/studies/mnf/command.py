"""`casestudy`: published programs in the versions that their paper optimised them by, and the gain of each version here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import options, outputs, stored_runs
from clmembench.cli.measure_or_read import Measurement, MeasureOptions, StudyCommand, measure_or_read

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import DeviceInfo, Record, Run
    from clmembench.plan.selection import Selection
    from clmembench.studies.mnf.benchmarks.cubes import CubeSize

HELP = "Measure a published program in each of its optimised versions."
casestudy = typer.Typer(help=HELP)

NO_EVIDENCE = "holds no records of MNF: measure them with clmembench casestudy mnf -d DEVICE"
TIMEOUT_S = 300.0  # of a point: on the host alone a large cube takes seconds a pass


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
    wait: options.Wait = None,
    wait_quiet: options.WaitQuiet = None,
) -> None:
    """Measure maximum noise fraction (MNF) in 15 versions of 3 steps.

    MNF rotates a hyperspectral cube. Every version is verified against NumPy; its gain has a 95% interval and a verdict. The
    whole program is compared with NumPy on the host. Points that --budget leaves out are skipped.
    """
    measurement = partial(_measurement, size=size, processes=processes)
    measure_or_read(context, path, StudyCommand(measurement, _has_evidence, NO_EVIDENCE, show, timeout_s=TIMEOUT_S))


def _measurement(given: MeasureOptions, info: DeviceInfo, size: str | None, processes: int | None) -> Measurement:
    """Raises ValueError for what is no cube, too."""
    from clmembench.benchmarks import discovered
    from clmembench.plan.interleave import available_peers
    from clmembench.studies.mnf import plan

    selection = given.selection("casestudy", globs=plan.BENCHMARKS)
    records = partial(_records, selection=selection, size=plan.parse_optional_size(size), processes=processes)
    peers = [peer.name for peer in available_peers(discovered()[plan.COVARIANCE], info)]
    return Measurement(selection, (*plan.BENCHMARKS, *peers), records)


def _records(
    info: DeviceInfo, found: ProbeResult, *, selection: Selection, size: CubeSize | None, processes: int | None
) -> Iterator[Record]:
    """Every record of the study, as it is measured: the steps first, since the whole is made of their quickest versions."""
    from clmembench.benchmarks import discovered
    from clmembench.measure import runner
    from clmembench.plan.budget import Deadline
    from clmembench.plan.interleave import available_peers, interleave_peers
    from clmembench.studies.mnf import plan

    deadline = Deadline.after(selection.budget_s)
    known: list[Record] = []
    with runner.WorkerSlot(selection.isolated) as slot:
        for n, name in enumerate(plan.BENCHMARKS):
            part = deadline.share(1 / (len(plan.BENCHMARKS) - n))  # each step has its part of a budget, and what others left
            points, benchmark = plan.plan(name, info, size, processes, tuple(known)), discovered()[name]
            others = available_peers(benchmark, info)  # cuBLAS on the same sums
            if others:
                points = interleave_peers(points, benchmark, others, info, replace(selection, processes=processes))
            for record in runner.run_plan(
                points, benchmark, info.runtime, info, found, selection, deadline=part, others=others, slot=slot
            ):
                known.append(record)
                yield record


def _has_evidence(run: Run) -> bool:
    from clmembench.studies.mnf import mnf_tables

    return any(record.benchmark in mnf_tables.TITLES for record in run.records)


def show(run: Run, form: str) -> None:
    """Print the versions of a run in a format."""
    from clmembench.gates.whole import judged_run
    from clmembench.report import frame, summary
    from clmembench.report.sections import peer_values
    from clmembench.report.table import Document
    from clmembench.studies.mnf import mnf_data, mnf_tables

    sheet = stored_runs.sheet_of(run)
    run = judged_run(run, sheet)
    heading = summary.device_line(run.header, sheet) if form == "text" else ""
    libraries = peer_values.section(run, frame.rows(run, sheet))
    outputs.print_as(
        form,
        lambda: Document((*mnf_tables.sections(run), *([libraries] if libraries else [])), heading),
        lambda: mnf_data.study_object(run),
        lambda: mnf_data.version_fields(run),
    )
