"""The command line: `clmembench COMMAND`. One module a group of commands; no logic here or there."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand

from clmembench import __version__, sanitize
from clmembench.cli import (
    advise,
    casestudy,
    compare,
    devices,
    doctor,
    exit_codes,
    infer,
    live,
    peers,
    run,
    show,
    topology,
    tune,
)
from clmembench.cli.command import Command, Group

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
app.command("show")(show.show)
app.command("report")(show.report)
app.command("infer")(infer.infer)
app.command("compare", cls=live.Compare)(compare.compare)
app.command("check")(compare.check)
app.add_typer(compare.baseline, name="baseline")
app.add_typer(casestudy.casestudy, name="casestudy")


for _group in (app, compare.baseline, casestudy.casestudy):
    _group.info.cls = Group
    for _one in _group.registered_commands:
        _one.cls = Command if _one.cls in (None, TyperCommand) else _one.cls


def main() -> None:
    """The entry point. A closed pipe (`clmembench show | head`) is no error and changes no exit code; output to a full disk is
    an error, in a line."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next file to be opened would take its place
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 - lives as long as the process
    sys.stdout = _through_closed_pipes(sys.stdout)
    sanitize.write_anywhere(sys.stdout)
    sanitize.write_anywhere(sys.stderr)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # while what goes wrong can still be said
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        _drop_output()
        print(f"clmembench: cannot write to standard output: {error.strerror}", file=sys.stderr)
        sys.exit(exit_codes.INTERNAL)


class _Output(io.FileIO):
    """A file that takes, and drops, what is written after its reader has closed the pipe: a command that decides or measures
    goes on to its own exit code."""

    beneath: TextIO

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return memoryview(data).nbytes


def _through_closed_pipes(stream: TextIO) -> TextIO:
    """The stream with an _Output under it; itself where it is no file of the system's, as under a test."""
    try:
        raw = _Output(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError, AttributeError):
        return stream
    stream.flush()
    raw.beneath = stream  # which would close the file were it let go
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=stream.isatty()
    )


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _drop_output() -> None:
    """Let the interpreter's own last flush succeed, which would else complain in its own words."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
