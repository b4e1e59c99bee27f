"""Stored runs and their spec sheets; a file that cannot be read ends the command with a message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clmembench.cli import exit_codes

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.specs.sheets import SpecSheet


def load(path: Path, strict: bool = False) -> Run:
    """A stored run, with notes on malformed lines printed to standard error. Ends the command where the file cannot be read or,
    if `strict`, where it has a malformed line."""
    from clmembench.results import jsonl

    try:
        found = jsonl.read(path, strict)
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    for note in found.notes:
        exit_codes.say(note)
    return found


def sheet_of(run: Run) -> SpecSheet | None:
    """The spec sheet of a run's device, None where there is none. Ends the command where two match, or one is damaged."""
    from clmembench.report import rows
    from clmembench.specs.sheets import SpecError

    try:
        return rows.sheet_of(run)
    except SpecError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
