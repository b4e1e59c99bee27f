"""Options that contradict each other, by command: refused before anything is read or measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from clmembench.cli import exit_codes


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
            exit_codes.stop(f"{conflict.reason}: leave out one", exit_codes.USAGE)
