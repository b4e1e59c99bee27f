"""`peers`: our kernels, the host's libraries and the theoretical limit in one table, by measuring or from a stored run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import options, outputs, stored_runs
from clmembench.cli.measure_or_read import Measurement, MeasureOptions, StudyCommand, measure_or_read
from clmembench.cli.running import session

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import DeviceInfo, Record, Run

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
    form = options.output_format(json=as_json, md=as_md)
    given = MeasureOptions(device, budget, timeout, seed, output, overwrite, wait, wait_quiet)
    command = StudyCommand(lambda info: _measurement(info, given, processes), _has_evidence, NO_EVIDENCE, show, FOOTER)
    measure_or_read(command, context, path, form, given)


def _measurement(info: DeviceInfo, given: MeasureOptions, processes: int | None) -> Measurement:
    """Raises ValueError where the user's own file of stored configurations is damaged, too."""
    from clmembench.benchmarks import discovered
    from clmembench.measure.runner import run_selections
    from clmembench.plan import estimate
    from clmembench.studies.peers import plan as peers

    plain = given.selection("peers", processes=processes, reference=True)
    names = peers.names(plain, info)
    selection = session.with_stored_configurations(info, plain, [discovered()[name] for name in names])

    def records(info: DeviceInfo, found: ProbeResult) -> Iterator[Record]:
        return run_selections(info.runtime, info, found, peers.selections(selection, info), selection.budget_s)

    return Measurement(
        selection, names, records, lambda info: estimate.estimate_selections(info, peers.selections(selection, info))
    )


def _has_evidence(run: Run) -> bool:
    from clmembench.studies.peers import peer_table

    return peer_table.has_peer_lines(run)


def show(run: Run, form: str) -> None:
    """Print the table of a run in one of the forms."""
    from clmembench.gates.whole import judged_run
    from clmembench.report import frame, render, summary
    from clmembench.report.table import Document, one_table
    from clmembench.studies.peers import peer_table

    sheet = stored_runs.sheet_of(run)
    run = judged_run(run, sheet)
    lines = peer_table.peer_lines(run, frame.rows(run, sheet))
    if form == "json":
        print(render.json_text(peer_table.peer_object(run, lines)))
    elif form == "md":
        print(render.markdown(one_table(peer_table.peer_section(run, lines))))
    else:
        document = Document((peer_table.peer_section(run, lines),), summary.device_line(run.header, sheet))
        outputs.print_document(document)
