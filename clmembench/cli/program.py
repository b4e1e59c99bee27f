"""The program `clmembench`: all commands under their headings, and its entry point."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from clmembench import __version__, sanitize
from clmembench.cli import devices, exit_codes
from clmembench.cli.command import Command, Group
from clmembench.cli.commands import compare, doctor, history, import_results, new, report, run, show, tune
from clmembench.studies import Study, StudyError, studies

app = typer.Typer(
    name="clmembench",
    help="Characterise OpenCL devices by micro-benchmarks.\n\nStart with: clmembench run --device 0 --suite quick",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes leave 24 of 80 columns to the texts, and markup drops [a,b]
    context_settings={
        "auto_envvar_prefix": "CLMEMBENCH",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"clmembench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, allow_from_autoenv=False, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options of every command."""


MEASURE, READ, UNDERSTAND, TOOLS = "Measure", "Read and compare", "Understand", "Tools"  # headings in --help
COMMANDS: tuple[tuple[str, str, Any], ...] = (
    (MEASURE, "run", run.run),
    (MEASURE, "tune", tune.tune),
    (READ, "show", show.show),
    (READ, "report", report.report),
    (READ, "compare", compare.compare),
    (READ, "check", compare.check),
    (READ, "baseline", compare.baseline),
    (READ, "history", history.history),
    (READ, "import", import_results.import_results),
    (TOOLS, "devices", devices.devices),
    (TOOLS, "suites", devices.suites),
    (TOOLS, "describe", devices.describe),
    (TOOLS, "doctor", doctor.doctor),
    (TOOLS, "new", new.new),
)


def _register() -> None:
    """Make every command of the core and of the studies a command of the program, under its heading."""
    of_studies: list[tuple[str, str, Any]] = []
    classes: dict[str, type[Command]] = {}
    for study in studies():
        try:
            for word, name in study.commands.items():
                of_studies.append((study.group, word, _guarded(study, word, study.load(name))))
            classes |= {word: study.load(name) for word, name in study.replaces.items()}
        except StudyError as error:
            exit_codes.say(f"warning: {error}: its commands are left out")
    order = {heading: place for place, heading in enumerate((MEASURE, READ, UNDERSTAND, TOOLS))}
    for heading, word, command in sorted((*COMMANDS, *of_studies), key=lambda one: order.get(one[0], len(order))):
        if isinstance(command, typer.Typer):
            command.info.cls = Group
            for registered in command.registered_commands:
                registered.cls = Command
            app.add_typer(command, name=word, rich_help_panel=heading)
        else:
            app.command(word, cls=classes.get(word, Command), rich_help_panel=heading)(command)
    app.info.cls = Group


def _guarded(study: Study, word: str, command: Any) -> Any:
    """A study's command, or group of commands, that raises StudyError for a fault of the study."""
    if isinstance(command, typer.Typer):
        for registered in command.registered_commands:
            registered.callback = _guarded(study, f"{word} {registered.name or ''}".strip(), registered.callback)
        return command

    @wraps(command)
    def guarded(*args: Any, **options: Any) -> Any:
        from clmembench.benchmarks.plugins.foreign_code import ExternalError

        ends = (typer.Exit, typer.Abort, typer.BadParameter, SystemExit, _OutputError)
        with study.errors(f"command {word}", ExternalError, *ends):
            return command(*args, **options)

    return guarded


_register()


def main() -> None:
    """The entry point. A closed pipe (`clmembench show | head`) is no error and changes no exit code; a full disk under
    standard output ends in one line on standard error."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next file to be opened would take its place
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 - lives as long as the process
    own = sys.stdout = _own_output(sys.stdout)
    sanitize.write_anywhere(sys.stdout)
    sanitize.write_anywhere(sys.stderr)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # while an error can still be reported
            sys.stdout = sys.stderr  # what other code prints when the interpreter ends is no output either
    except ValueError as error:
        from clmembench.benchmarks.plugins.foreign_code import ExternalError

        if not isinstance(error, ExternalError | StudyError):
            raise
        exit_codes.say(str(error))
        sys.exit(exit_codes.USAGE)
    except _OutputError as error:
        _drop(own)
        print(f"clmembench: cannot write to standard output: {error.strerror}", file=sys.stderr)
        sys.exit(exit_codes.INTERNAL)


class _OutputError(OSError):
    """Standard output takes no more."""


class _Output(io.FileIO):
    """A file that drops what is written after its reader has closed the pipe, so that a command that decides or measures still
    ends with its own exit code."""

    beneath: TextIO

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return memoryview(data).nbytes
        except OSError as error:
            raise _OutputError(error.errno, error.strerror) from error


def _own_output(stream: TextIO) -> TextIO:
    """The stream on top of an _Output, which alone writes to standard output from here on: what drivers and foreign benchmarks
    print from C goes to standard error. The stream itself where it has no file descriptor, as under a test."""
    try:
        stream.flush()
        raw = _Output(os.dup(stream.fileno()), "w")
        os.dup2(sys.stderr.fileno(), stream.fileno())
    except (OSError, ValueError, AttributeError):
        return stream
    raw.beneath = stream  # or its destruction would close the file
    own = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=stream.isatty()
    )
    sys.__stdout__ = own  # type: ignore[misc]  # of which the width of the terminal is asked
    return own


def _drop(output: TextIO) -> None:
    """Let the interpreter's last flush succeed, which would otherwise print an error of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
