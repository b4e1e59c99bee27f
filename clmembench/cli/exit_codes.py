"""Ends of commands: exit codes and their messages, options that exclude each other, and extras that are not installed."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import typer

from clmembench.sanitize import line

OK = 0
INTERNAL = 1
USAGE = 2
NO_DEVICE = 3
FAILED = 4
REGRESSION = 5
INCONCLUSIVE = 6
INTERRUPTED = 130

NO_OPENCL = (
    "no OpenCL device found. For this CPU: pip install 'clmembench[pocl]' (or a system PoCL: apt install pocl-opencl-icd). "
    "For a GPU: install its vendor's OpenCL driver, or register it with a file in /etc/OpenCL/vendors. See docs/install.md"
)

NO_SYCL = (
    "no SYCL device found that has device allocations (USM). For this CPU: pip install intel-opencl-rt intel-cmplr-lib-rt. "
    "For a GPU: install its vendor's Level Zero or OpenCL driver. See docs/install.md"
)


def say(message: str) -> None:
    """Print one line on standard error, with control characters of files and drivers made harmless. Nobody has to read it."""
    with contextlib.suppress(OSError):  # a full disk or a closed pipe behind it ends no run, and changes no exit code
        print(line(f"clmembench: {message}"), file=sys.stderr, flush=True)


def stop(message: str, code: int) -> NoReturn:
    """End the command with one line on standard error."""
    say(message)
    raise typer.Exit(code)


def require(module: str, extra: str, purpose: str) -> None:
    """Ends the command where a library of one of this package's extras does not load."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        stop(f"{purpose} needs {module} ({error}): pip install 'clmembench[{extra}]'", USAGE)


class Conflict(NamedTuple):
    """Parameters that must not be given together on the command line, why, and the values for which that holds."""

    parameters: tuple[str, ...]
    reason: str
    applies: Callable[[Mapping[str, Any]], bool] = lambda values: True


def _same_file(first: str, second: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda values: values[first].absolute() == values[second].absolute()


CONFLICTS: Mapping[str, tuple[Conflict, ...]] = {
    "run": (
        Conflict(("stored", "no_tuning"), "--tuning names stored configurations, and --no-tuning ignores them"),
        Conflict(
            ("no_isolate", "processes"),
            "--no-isolate measures in one process, and --processes starts several",
            lambda values: values["processes"] > 1,
        ),
        Conflict(("dry_run", "as_json"), "--dry-run prints a plan as text, and --json the values of a run"),
    ),
    "tune": (
        Conflict(
            ("output", "records"),
            "-o is the file of configurations, --records that of all trials, and both are the same",
            _same_file("output", "records"),
        ),
    ),
    "show": tuple(
        Conflict(("parquet", name), f"--parquet writes a file of its own, and --{name.removeprefix('as_')} prints")
        for name in ("as_json", "as_csv", "as_md", "as_latex", "energy")
    ),
}


def refuse(context: Any) -> None:
    """End the command where its command line has options that contradict each other. Environment variables are the user's
    defaults, and contradict nothing."""
    given = {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    for conflict in CONFLICTS.get(context.command.name, ()):
        if given >= set(conflict.parameters) and conflict.applies(context.params):
            stop(f"{conflict.reason}: leave out one", USAGE)
