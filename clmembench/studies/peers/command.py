"""`peers`: our kernels, the host's libraries and the theoretical limit in one table, by measuring or from a stored run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import options, outputs, stored_runs
from clmembench.cli.measure_or_read import Measurement, MeasureOptions, StudyCommand, measure_or_read
from clmembench.cli.running import session

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo, Run

NO_EVIDENCE = "holds no benchmark of this table: measure it with clmembench peers -d DEVICE, or with clmembench run --reference"
FOOTER = "Results: {0}\nMore: clmembench show {0}; clmembench report {0} -o report.html"


def peers(
    context: typer.Context,
    path: Annotated[
        Path | None, options.stored_run_argument("Results file of this command; its table is printed and nothing is measured.")
    ] = None,
    device: options.Device = None,
    as_json: options.Json = False,
    as_md: options.Markdown = False,
    processes: Annotated[int | None, options.processes_option("3, each a round of our kernels and the libraries")] = None,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
    wait: options.Wait = None,
    wait_quiet: options.WaitQuiet = None,
) -> None:
    """Compare our kernels with this host's libraries and the limit.

    These are BLAS, SciPy, cuBLAS, cuSPARSE, CUB, BabelStream and clpeak, if installed. They solve the same problems,
    interleaved with our kernels. Problems that --budget leaves out have no row."""
    measurement = partial(_measurement, processes=processes)
    measure_or_read(context, path, StudyCommand(measurement, _has_evidence, NO_EVIDENCE, show, FOOTER))


def _measurement(given: MeasureOptions, info: DeviceInfo, processes: int | None) -> Measurement:
    """Raises ValueError where the user's own file of stored configurations is damaged, too."""
    from clmembench.benchmarks import discovered
    from clmembench.studies.peers import plan

    plain = given.selection("peers", processes=processes, reference=True)
    names = plan.names(plain, info)
    selection = session.with_stored_configurations(info, plain, [discovered()[name] for name in names])
    return Measurement.of_selections(selection, names, partial(plan.selections, selection))


def _has_evidence(run: Run) -> bool:
    from clmembench.studies.peers import peer_table

    return peer_table.has_peer_lines(run)


def show(run: Run, form: str) -> None:
    """Print the table of a run in a format."""
    from clmembench.gates.whole import judged_run
    from clmembench.report import frame, summary
    from clmembench.report.table import Document
    from clmembench.studies.peers import peer_table

    sheet = stored_runs.sheet_of(run)
    run = judged_run(run, sheet)
    lines = peer_table.peer_lines(run, frame.rows(run, sheet))
    heading = summary.device_line(run.header, sheet) if form == "text" else ""
    outputs.print_as(
        form,
        lambda: Document((peer_table.peer_section(run, lines),), heading),
        lambda: peer_table.peer_object(run, lines),
    )
