"""The command line: `clmembench COMMAND`. One module a group of commands; no logic here or there."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from clmembench import __version__
from clmembench.cli import against, devices, doctor, read, run

app = typer.Typer(
    name="clmembench",
    help="Characterise any OpenCL device by micro-benchmarks, and say only what was measured.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "CLMEMBENCH", "help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"clmembench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of every command."""


app.command("devices")(devices.devices)
app.command("suites")(devices.suites)
app.command("describe")(devices.describe)
app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.command("show")(read.show)
app.command("report")(read.report)
app.command("compare")(against.compare)
app.command("check")(against.check)
app.add_typer(against.baseline, name="baseline")


def main() -> None:
    """The entry point. A closed pipe (`clmembench show | head`) is no error."""
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
