"""`model`: the memory divergence model of Wang et al. 2019: predictions, its inputs from measurements, and its error here."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from clmembench.cli import exit_codes, options, outputs, stored_runs
from clmembench.cli.measure_or_read import StudyCommand, measure_or_read

HELP = "Predict kernels whose loads diverge, and test the model."
model = typer.Typer(help=HELP)

Latency = Annotated[
    Literal["printed", "mixed"],
    typer.Option("--latency", help="Equation 6 as the paper prints it, or the mean of both latencies, as its scripts have it."),
]
Scheduling = Annotated[
    Literal["lrr", "gto"],
    typer.Option("--scheduling", help="Loose round robin as in table 1, or greedy-then-oldest with issue 1 as in the scripts."),
]
Request = Annotated[Literal["block", "sector"], typer.Option("--request", help="Unit that a miss moves.")]
GpumechDram = Annotated[
    Literal["half", "md1"],
    typer.Option("--gpumech-dram", help="GPUMech's DRAM queue: half of all requests (the text), or M/D/1 (the scripts)."),
]


@model.callback(help=HELP)
def _several() -> None:
    """A group whatever the number of its commands."""


@model.command("predict")
def predict(
    hardware: Annotated[str, typer.Argument(metavar="HW", help="TOML file of hardware, or a shipped name: wang2019-table1.")],
    profile: Annotated[Path, typer.Argument(metavar="PROFILE", help="TOML file of an interval profile.")],
    as_json: options.Json = False,
    as_md: options.Markdown = False,
    latency: Latency = "printed",
    scheduling: Scheduling = "lrr",
    request: Request = "block",
    gpumech_dram: GpumechDram = "half",
) -> None:
    """Predict the performance of an interval profile by each model.

    The models are MDM, those that its paper compares it with, and an upper bound. A profile has `warps = N` and [[interval]]
    tables with instructions, cycles (C_i) or stall_cycles, read_misses and write_misses a warp, and llc_miss_ratio."""
    from clmembench.studies.memory_divergence.mdm_inputs import InputError, load_hardware, load_profile
    from clmembench.studies.memory_divergence.model.equations import ModelOptions
    from clmembench.studies.memory_divergence.model.predict import predictions
    from clmembench.studies.memory_divergence.views import mdm_prediction

    form = options.output_format(json=as_json, md=as_md)
    try:
        sheet, intervals = load_hardware(hardware), load_profile(profile)
    except InputError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    reading = ModelOptions(latency, scheduling, request, gpumech_dram)
    predicted = predictions(sheet, intervals, reading)
    outputs.print_as(
        form,
        lambda: mdm_prediction.document(sheet, intervals, predicted, reading),
        lambda: predicted,
    )


@model.command("measure")
def measure(
    context: typer.Context,
    path: Annotated[list[Path] | None, options.stored_run_argument("Results files of one device; nothing is measured.")] = None,
    device: options.Device = None,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Print the model's inputs as TOML, from measurements.

    Latencies, bandwidths, clock, issue width and misses in flight of a compute unit, each with its interval and its source, as
    `model predict` reads them. An unknown input becomes a comment with the reason, and the exit code is 6."""
    from clmembench.studies.memory_divergence import model_runs

    first, others = (path[0], path[1:]) if path else (None, [])
    inputs = StudyCommand(
        partial(model_runs.measurement, validating=False),
        lambda run: True,
        "",
        lambda run, form: model_runs.print_inputs([run, *map(stored_runs.load, others)]),
        footer="# results: {}",  # a comment, as all of this is TOML
    )
    measure_or_read(context, first, inputs)


@model.command("validate")
def validate(
    context: typer.Context,
    path: Annotated[Path | None, options.stored_run_argument("Results file of this command; nothing is measured.")] = None,
    device: options.Device = None,
    as_json: options.Json = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw latency stacks, errors and predicted over measured IPC: .png, .svg or .pdf."),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Test the models on over 300 kernels, and print their errors.

    Inputs are measured first; predictions are then frozen in a file beside the results, whose hash every later record names;
    then the kernels are measured. Errors are printed with the paper's published ones.
    """
    from clmembench.studies.memory_divergence import model_runs

    if figure is not None:
        model_runs.check_figure(figure)
    measurement, show = partial(model_runs.measurement, validating=True), partial(model_runs.show_validation, figure=figure)
    measure_or_read(context, path, StudyCommand(measurement, model_runs.has_evidence, model_runs.NO_EVIDENCE, show))
