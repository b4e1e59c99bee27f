"""`advise`: what the author of a kernel should do about memory on this device, by measuring or from a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import options, outputs, stored_runs
from clmembench.cli.measure_or_read import Measurement, MeasureOptions, StudyCommand, measure_or_read

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo, Run

NO_EVIDENCE = (
    "holds nothing that guidelines are derived from: measure it with clmembench advise -d DEVICE, or with "
    "clmembench run --suite access"
)
FOOTER = "Results: {0}\nMore: clmembench show {0} --md; clmembench report {0} -o report.html"


def advise(
    context: typer.Context,
    path: Annotated[Path | None, options.stored_run_argument("Results file with suite access; nothing is measured.")] = None,
    device: options.Device = None,
    as_json: options.Json = False,
    as_md: options.Markdown = False,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
    wait: options.Wait = None,
    wait_quiet: options.WaitQuiet = None,
) -> None:
    """State which guidelines for kernels hold here, and their effect.

    Each of 30 guidelines, most of them published, has a verdict, an effect with its 95% interval, its evidence and one line of
    advice. Guidelines whose points --budget leaves out are undetermined.
    """
    measure_or_read(context, path, StudyCommand(_measurement, _has_evidence, NO_EVIDENCE, show, FOOTER))


def _measurement(given: MeasureOptions, info: DeviceInfo) -> Measurement:
    from clmembench.studies.guidelines import plan

    selection = given.selection("advise")
    return Measurement.of_selections(selection, plan.names(selection), lambda info: plan.selections(selection))


def _has_evidence(run: Run) -> bool:
    from clmembench.studies.guidelines import advice_table

    return advice_table.has_evidence(run)


def show(run: Run, form: str) -> None:
    """Print the guidelines that a run gives evidence for, in one of the formats json, md and text."""
    from clmembench.report import frame, render, summary
    from clmembench.report.table import one_table
    from clmembench.studies.guidelines import advice_table

    sheet = stored_runs.sheet_of(run)
    guidelines = advice_table.derive_guidelines(run, frame.rows(run, sheet))
    if form == "json":
        print(render.json_text(guidelines))
    elif form == "md":
        print(render.markdown(one_table(advice_table.guideline_table(guidelines))))
    else:
        width = outputs.width()
        print("\n".join(render.wrapped([summary.device_line(run.header, sheet)], width)), end="\n\n")
        print(advice_table.guideline_text(guidelines, width))
        if not run.header.device.has_cpu_cores:
            more = "What scattered loads cost at your occupancy: clmembench model predict (docs/memory-divergence.md)"
            print("\n" + "\n".join(render.wrapped([more], width)))
