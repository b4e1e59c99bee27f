"""`kernel`: what a user's kernel does to memory, by a trace of one launch; no device is needed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from clmembench import sanitize, units
from clmembench.cli import exit_codes, options, outputs
from clmembench.studies.kernel.launch import ARGUMENT, KernelLaunch, LaunchError, buffers_bytes, default_local, of_file

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
    arguments: Annotated[list[str] | None, typer.Option("--arg", metavar="ARG", help=f"In order: {ARGUMENT}.")] = None,
    defines: Annotated[list[str] | None, typer.Option("--define", metavar="NAME=VALUE", help="As -D of a compiler.")] = None,
    script: Annotated[
        str, typer.Option("--from", metavar="SCRIPT.py", help="Trace the kernel in this PyOpenCL program (with its arguments).")
    ] = "",
    accesses: Annotated[
        int, typer.Option("--accesses", min=1, help="Trace no further work-group after so many accesses to memory.")
    ] = ACCESSES,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Trace no further work-group after this time, such as 5s or 1m.")
    ] = f"{SECONDS:g}s",
    output: Annotated[Path | None, options.output_option("Write a page, with the source as a heat map.", "FILE.html")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    as_md: options.Markdown = False,
) -> None:
    """Tell what a kernel does to memory.

    One launch is simulated and traced, on any machine: accesses and patterns of each line, requests of sub-groups, conflicts
    of banks, divergent branches, reuse, races and accesses outside buffers. Where the launch is large, some work-groups stand
    for all; the output says how many."""
    from clmembench.studies.kernel import facts_of_trace, page, views
    from clmembench.studies.kernel.trace import TraceError, trace, trace_script

    form = options.output_format(json=as_json, md=as_md)
    if output is not None:
        outputs.check(output, overwrite, "-o", "kernel.html")
    try:
        seconds = units.parse_seconds(budget, "--budget")
        launch = None if script else _launch(source, name, global_size, local_size, arguments or (), defines or ())
        if launch is None:
            if source is not None or global_size or arguments:
                raise LaunchError("--from traces a program that launches its own kernel: leave out FILE.cl, --global and --arg")
            traced = trace_script(shlex.split(script), name, accesses, seconds)
        else:
            traced = trace(launch, accesses, seconds)
    except TraceError as error:
        if error.log.strip():
            typer.echo(sanitize.printable(error.log.strip()), err=True)
        exit_codes.stop(str(error), exit_codes.USAGE)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    facts = facts_of_trace.facts_of(traced, launch, buffers_bytes(launch) if launch is not None else None)
    document = views.document(facts, traced.source)
    if output is not None:
        outputs.write(output, page.render_page(facts, document, traced.source), overwrite, "-o")
    outputs.print_as(form, lambda: document, lambda: facts)


def _launch(
    source: Path | None, name: str, global_size: str, local_size: str, arguments: Sequence[str], defines: Sequence[str]
) -> KernelLaunch:
    """The launch as the command line has it. Raises LaunchError."""
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
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError as error:
        raise LaunchError(f"{option} {text}: not one to three numbers with commas, such as 4096,4096") from error
