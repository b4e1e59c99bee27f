"""Measurements of `model measure` and `model validate`, the file of frozen predictions between them, and their output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clmembench.cli import exit_codes, outputs, stored_runs
from clmembench.cli.measure_or_read import Measurement, MeasureOptions
from clmembench.cli.running import run_header, session
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import DeviceInfo, Plan, Record, Run
    from clmembench.plan.budget import Deadline
    from clmembench.plan.selection import Selection
    from clmembench.studies.memory_divergence.views.mdm_validation import Validation

NO_EVIDENCE = "holds no kernels that the model predicts: measure them with clmembench model validate -d DEVICE"
FIGURES = (".png", ".svg", ".pdf")
REPORTS = Path("reports")  # where results files are made by default


def measurement(given: MeasureOptions, info: DeviceInfo, validating: bool) -> Measurement:
    """The inputs of the model, and with `validating` the kernels that it predicts. Raises ValueError for a device that the
    model does not apply to."""
    from clmembench.studies.memory_divergence import plan as mdm

    if info.has_cpu_cores:
        raise ValueError(f"{info.name} {mdm.NO_MODEL_OF_CORES}")
    selection = given.selection("model validate" if validating else "model measure")
    names = (*mdm.INPUTS, mdm.VALIDATED) if validating else mdm.INPUTS
    folder = given.output.parent if given.output is not None else REPORTS
    return Measurement(selection, names, partial(_records, selection=selection, folder=folder if validating else None))


def _records(info: DeviceInfo, found: ProbeResult, *, selection: Selection, folder: Path | None) -> Iterator[Record]:
    """Yields every record of the inputs as it is measured; then, if predictions go into a `folder`, those of the kernels."""
    from clmembench.plan.budget import Deadline
    from clmembench.studies.memory_divergence import plan as mdm

    deadline, measured = Deadline.after(selection.budget_s), []
    for record in _input_records(info, found, selection, deadline):
        measured.append(record)
        yield record
    if folder is not None:
        note = _frozen(info, found, selection, measured, folder)
        yield from _planned(mdm.validation_plan(info, note), mdm.VALIDATED, info, found, selection, deadline)


def _input_records(info: DeviceInfo, found: ProbeResult, selection: Selection, deadline: Deadline) -> Iterator[Record]:
    from clmembench.measure import runner
    from clmembench.studies.memory_divergence import plan as mdm

    for chosen in mdm.input_selections(selection, info):
        left = deadline.left_s()
        yield from runner.run_selections("opencl", info, found, [chosen], None if math.isinf(left) else left)
    yield from _planned(mdm.mlp_plan(info), mdm.MLP, info, found, selection, deadline)


def _planned(
    plan: Plan, name: str, info: DeviceInfo, found: ProbeResult, selection: Selection, deadline: Deadline
) -> Iterator[Record]:
    from clmembench.benchmarks import discovered
    from clmembench.measure import runner

    yield from runner.run_plan(plan, discovered()[name], "opencl", info, found, selection, deadline=deadline)


def _frozen(info: DeviceInfo, found: ProbeResult, selection: Selection, measured: Sequence[Record], folder: Path) -> str:
    """Write the predictions of every kernel before any is measured, and return the note for their records. Ends the command if
    an input is missing."""
    from dataclasses import replace

    from clmembench.model import Run
    from clmembench.studies.memory_divergence import mdm_frozen
    from clmembench.studies.memory_divergence import plan as mdm
    from clmembench.studies.memory_divergence.views import mdm_validation

    head = run_header.header(info, selection, session.cards(mdm.INPUTS))
    run = Run("", replace(head, clock_step_ns=found.quantum_ns), tuple(measured))
    try:
        inputs = mdm_validation.inputs_of([run], stored_runs.sheet_of(run))
        text = mdm_frozen.freeze(replace(inputs, origin=mdm_frozen.OWN_RUN).sheet(), info)
    except ValueError as error:
        exit_codes.stop(f"no predictions, so no kernels were measured: {error}", exit_codes.INCONCLUSIVE)
    sha256 = mdm_frozen.digest(text)
    path = folder / mdm_frozen.file_name(sha256)
    outputs.write(path, text, overwrite=True)  # the same hash is the same text
    exit_codes.say(f"predictions frozen in {path}")
    return mdm_frozen.NOTE.format(sha256)


def has_evidence(run: Run) -> bool:
    """Whether a run has measurements of kernels that the model predicts, or is of a kind of device that the model refuses."""
    from clmembench.studies.memory_divergence.views import mdm_held_out, mdm_validation

    found = mdm_validation.has_evidence(run) or mdm_held_out.has_held_out(run)
    return found or run.header.device.has_cpu_cores


def print_inputs(runs: Sequence[Run]) -> None:
    """Print the inputs that runs of one device provide. Ends the command if runs are of several devices, and with INCONCLUSIVE
    if an input is missing."""
    from clmembench.model.device_identity import is_same_model
    from clmembench.studies.memory_divergence.views import mdm_outputs, mdm_validation

    _refuse_cores(runs[0])
    names = {run.header.device.name for run in runs}
    if not all(is_same_model(runs[0].header.device, run.header.device) for run in runs):
        exit_codes.stop(f"runs of several devices ({', '.join(sorted(names))}): name those of one", exit_codes.USAGE)
    inputs = mdm_validation.inputs_of(runs, stored_runs.sheet_of(runs[0]))
    print(mdm_outputs.inputs_toml(inputs), end="")
    if inputs.missing:
        exit_codes.say(f"not known: {', '.join(inputs.missing)}: comments in the output say why")
        raise typer.Exit(exit_codes.INCONCLUSIVE)


def check_figure(path: Path) -> None:
    """Ends the command if no figure of that name can be made. An existing figure is replaced."""
    if path.suffix not in FIGURES:
        exit_codes.stop(f"--figure {path}: name a file that ends with {', '.join(FIGURES)}", exit_codes.USAGE)
    outputs.check(path, overwrite=True, option="--figure", name="validation.svg")
    outputs.check_writable(path, "--figure")


def show_validation(run: Run, form: str, figure: Path | None = None) -> None:
    """Print the comparison of the model with a run, and draw it into a figure. Ends the command if the run lacks inputs."""
    from clmembench.report import summary
    from clmembench.report.table import Document
    from clmembench.studies.memory_divergence.mdm_frozen import FrozenError
    from clmembench.studies.memory_divergence.views import mdm_held_out, mdm_outputs, mdm_tables, mdm_validation

    _refuse_cores(run)
    sheet = stored_runs.sheet_of(run)
    try:
        kernels, hardware = mdm_held_out.held_out(run, sheet) if mdm_held_out.has_held_out(run) else ([], None)
        if hardware is None or mdm_validation.has_evidence(run):
            found = mdm_validation.validation(run, sheet, mdm_validation.text_beside(run))
        else:
            found = mdm_validation.without_points(hardware)
    except FrozenError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except (OSError, ValueError) as error:
        exit_codes.stop(f"{run.path}: {error}", exit_codes.INCONCLUSIVE)
    if figure is not None:
        _draw(found, run.header.device.name, figure)
    heading = line(summary.device_line(run.header, sheet))
    outputs.print_as(
        form,
        lambda: Document(tuple(mdm_tables.validation_sections(found, kernels)), heading),
        lambda: mdm_outputs.validation_object(found, kernels),
    )


def _draw(found: Validation, label: str, path: Path) -> None:
    from clmembench.studies.memory_divergence.views.mdm_chart import mdm_chart

    try:
        content = mdm_chart(found, label, path.suffix[1:])
    except ValueError as error:
        exit_codes.stop(f"--figure: {error}", exit_codes.USAGE)
    outputs.write(path, content, overwrite=True, option="--figure")
    exit_codes.say(f"wrote {path}")


def _refuse_cores(run: Run) -> None:
    from clmembench.studies.memory_divergence.plan import NO_MODEL_OF_CORES

    if run.header.device.has_cpu_cores:
        exit_codes.stop(f"{run.header.device.name} {NO_MODEL_OF_CORES}", exit_codes.USAGE)
