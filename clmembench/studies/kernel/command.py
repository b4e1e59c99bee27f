"""`kernel`: what a user's kernel does to memory, by a trace of one launch; no device is needed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import sanitize, units
from clmembench.cli import devices, exit_codes, options, outputs, stored_runs

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo
    from clmembench.studies.kernel.facts import DevicePrediction
    from clmembench.studies.kernel.launch import KernelLaunch

ARGUMENT_HELP = "In order: buffer:SIZE, buffer:SIZE:random, local:SIZE, file:X.npy or TYPE:VALUE."
MEASURE_TIMEOUT_S = 120.0
MOST_LOG_LINES = 30  # of a compiler's log
ACCESSES, SECONDS = 2_000_000, 5.0  # after which no further work-group is traced


def kernel(
    source: Annotated[Path | None, typer.Argument(metavar="[FILE.cl]", help="OpenCL C, or a TOML file of a launch.")] = None,
    name: Annotated[str, typer.Option("--kernel", metavar="NAME", help="The kernel; may be left out where there is one.")] = "",
    global_size: Annotated[
        str, typer.Option("--global", metavar="N[,N[,N]]", help="Work-items in each dimension, such as 1048576 or 4096,4096.")
    ] = "",
    local_size: Annotated[
        str, typer.Option("--local", metavar="N[,N[,N]]", help="Work-items of a work-group; without it up to 256.")
    ] = "",
    arguments: Annotated[list[str] | None, typer.Option("--arg", metavar="ARG", help=ARGUMENT_HELP)] = None,
    defines: Annotated[list[str] | None, typer.Option("--define", metavar="NAME=VALUE", help="As -D of a compiler.")] = None,
    script: Annotated[
        str, typer.Option("--from", metavar="SCRIPT.py", help="Trace the kernel in this PyOpenCL program (with its arguments).")
    ] = "",
    accesses: Annotated[
        int, typer.Option("--accesses", min=1, help="Trace no further work-group after so many accesses to memory.")
    ] = ACCESSES,
    budget: Annotated[str | None, options.budget_option(f"{SECONDS:g}s of tracing")] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--on", metavar="RUN", help="Stored run of a device for which the time is predicted; repeatable."),
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the kernel on --device, too.")] = False,
    device: options.Device = None,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE.cl", help="Compare with this kernel in the same launch.")
    ] = None,
    output: Annotated[Path | None, options.output_option("Write a page, with the source as a heat map.", "FILE.html")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    as_md: options.Markdown = False,
) -> None:
    """Trace what a kernel does to memory, and predict its time.

    One launch is simulated and traced, on any machine: accesses and patterns of each line, requests of sub-groups, conflicts
    of banks, divergent branches, reuse, races and accesses outside buffers. Where the launch is large, some work-groups stand
    for all; the output says how many. With --on the time on that device is predicted, and what to change for it."""
    from clmembench.studies.kernel import device_views, facts_of_trace, page, views
    from clmembench.studies.kernel.launch import LaunchError, buffer_sizes, buffers_bytes
    from clmembench.studies.kernel.prediction import measured_devices, predict
    from clmembench.studies.kernel.requests import Sample
    from clmembench.studies.kernel.trace import TraceError, trace, trace_script

    form = options.output_format(json=as_json, md=as_md)
    if output is not None:
        outputs.check(output, overwrite, "-o", "kernel.html")
    known = measured_devices([stored_runs.load(path) for path in runs or ()])
    info = devices.select(devices.listed(device), devices.or_first(device)) if measure else None
    other = None
    try:
        seconds = units.parse_seconds(budget, "--budget") if budget is not None else SECONDS
        launch = None if script else _launch(source, name, global_size, local_size, arguments or (), defines or ())
        if launch is None:
            if source is not None or global_size or arguments:
                raise LaunchError("--from traces a program that launches its own kernel: leave out FILE.cl, --global and --arg")
            if measure or against is not None:
                raise LaunchError("--measure and --against need a launch: FILE.cl, --global and --arg")
            traced = trace_script(shlex.split(script), name, accesses, seconds)
        else:
            traced = trace(launch, accesses, seconds)
            if against is not None:
                second = replace(launch, source=against)
                other = facts_of_trace.facts_of(trace(second, accesses, seconds), second, buffers_bytes(second))
    except TraceError as error:
        lines = error.log.strip().splitlines()
        for line in (*lines[:MOST_LOG_LINES], *(["..."] if len(lines) > MOST_LOG_LINES else [])):
            typer.echo(sanitize.printable(line), err=True)
        exit_codes.stop(str(error), exit_codes.USAGE)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    facts = facts_of_trace.facts_of(traced, launch, buffers_bytes(launch) if launch is not None else None)
    sample = Sample.of(traced, buffer_sizes(launch) if launch is not None else {})
    found = predict(sample, facts, known) if known else []
    if info is not None and launch is not None:
        found = _with_measured(found, info, launch)
    facts = replace(facts, devices=tuple(found))
    document = views.document(facts)
    more = [device_views.difference(facts, other)] if other is not None else []
    document = replace(document, sections=(*document.sections, *device_views.device_tables(found), *more))
    if output is not None:
        rooflines = {one.name: one.roofline for one in known if one.roofline is not None}
        outputs.write(output, page.render_page(facts, document, rooflines), overwrite, "-o")
    outputs.print_as(form, lambda: document, lambda: facts)


def _launch(
    source: Path | None, name: str, global_size: str, local_size: str, arguments: Sequence[str], defines: Sequence[str]
) -> KernelLaunch:
    """The launch as the command line has it. Raises LaunchError."""
    from clmembench.studies.kernel.launch import KernelLaunch, LaunchError, default_local, of_file

    if source is None:
        raise LaunchError("no kernel: name FILE.cl and --global, or a program with --from")
    if source.suffix == ".toml":
        return of_file(source)
    if not global_size:
        raise LaunchError("--global is missing: the number of work-items in each dimension, such as --global 1048576")
    sizes = _sizes(global_size, "--global")
    wrong = [one for one in defines if not one.partition("=")[0].isidentifier()]
    if wrong:
        raise LaunchError(f"--define {wrong[0]}: not NAME or NAME=VALUE")
    local = _sizes(local_size, "--local") if local_size else default_local(sizes)
    pairs = (one.partition("=") for one in defines)
    return KernelLaunch(source, name, sizes, local, tuple(arguments), {key: value or "1" for key, _, value in pairs})


def _sizes(text: str, option: str) -> tuple[int, ...]:
    from clmembench.studies.kernel.launch import LaunchError

    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError as error:
        raise LaunchError(f"{option} {text}: not one to three numbers with commas, such as 4096,4096") from error


def _with_measured(found: list[DevicePrediction], info: DeviceInfo, launch: KernelLaunch) -> list[DevicePrediction]:
    """The predictions with the time that was measured on a device, which has a line of its own where no run is its."""
    from clmembench.host import device_lock
    from clmembench.measure.worker_process import WorkerError
    from clmembench.studies.kernel.facts import DevicePrediction
    from clmembench.studies.kernel.measured import measure, point_of
    from clmembench.studies.kernel.prediction import ends

    try:
        (time,) = measure(info, [point_of(launch)], MEASURE_TIMEOUT_S)
    except (device_lock.HeldError, WorkerError) as error:
        exit_codes.stop(str(error), exit_codes.FAILED)
    low, value, high = ends(time.ns)
    if all(one.device != info.name for one in found):
        found = [*found, DevicePrediction(info.name, None, None, None, "", {}, (), None, None, None, (), {})]
    return [
        replace(one, measured_ns=value, measured_low_ns=low, measured_high_ns=high, reason=time.reason)
        if one.device == info.name
        else one
        for one in found
    ]
