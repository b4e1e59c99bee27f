"""The command line: `clmembench COMMAND`. One module a group of commands; no logic here or there."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from clmembench import __version__, shown
from clmembench.cli import advise, against, casestudy, devices, doctor, exits, peers, read, run, topology, traces, tune

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
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, allow_from_autoenv=False, help="Print the version."),
    ] = False,
) -> None:
    """Options of every command."""


app.command("devices")(devices.devices)
app.command("suites")(devices.suites)
app.command("describe")(devices.describe)
app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.command("tune")(tune.tune)
app.command("topology")(topology.topology)
app.command("advise")(advise.advise)
app.command("peers")(peers.peers)
app.command("show")(read.show)
app.command("report")(read.report)
app.command("infer")(traces.infer)
app.command("compare")(against.compare)
app.command("check")(against.check)
app.add_typer(against.baseline, name="baseline")
app.add_typer(casestudy.casestudy, name="casestudy")


class _Command(TyperCommand):
    """A command that the environment cannot make print its help in the place of its work."""

    def get_help_option(self, ctx: Any) -> Any:
        return _asked_only(super().get_help_option(ctx))


class _Group(TyperGroup):
    """As `_Command`, for the commands' groups."""

    def get_help_option(self, ctx: Any) -> Any:
        return _asked_only(super().get_help_option(ctx))


def _asked_only(option: Any) -> Any:
    if option is not None:
        option.allow_from_autoenv = False
    return option


for _group in (app, against.baseline, casestudy.casestudy):
    _group.info.cls = _Group
    for _one in _group.registered_commands:
        _one.cls = _Command


def main() -> None:
    """The entry point. A closed pipe (`clmembench show | head`) is no error; output to a full disk is one, in a line."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next file to be opened would take its place
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 - lives as long as the process
    shown.write_anywhere(sys.stdout)
    shown.write_anywhere(sys.stderr)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # while what goes wrong can still be said
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # typer's answer to one is exit code 1
            raise
        _drop_output()
        sys.exit(exits.OK)
    except BrokenPipeError:
        _drop_output()
        sys.exit(exits.OK)
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        _drop_output()
        print(f"clmembench: cannot write to standard output: {error.strerror}", file=sys.stderr)
        sys.exit(exits.INTERNAL)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _drop_output() -> None:
    """Let the interpreter's own last flush succeed, which would else complain in its own words."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
