"""`show --energy`: the energy of a run's points, and what its sensors said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.cli import exit_codes, text_output
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.report.rows import Row


def print_energy(run: Run, values: Sequence[Row], form: str, wide: bool) -> None:
    """Print the energy of each point in a format but JSON, which has it with every value; text no wider than the terminal, or
    as `wide` as it is. Ends the command where sensors were not looked for."""
    from clmembench.report import render
    from clmembench.report.section import table
    from clmembench.report.sections import energy_tables

    found = energy_tables.section(run, values)
    if found is None:
        exit_codes.stop(f"{run.path} has no readings of sensors beside its points: an older version wrote it", exit_codes.USAGE)
    if form == "csv":
        print(render.csv_text(found), end="")
        return
    if form == "text" and not found.rows:
        print("\n".join(map(line, found.notes)))
    else:
        if form == "text":
            text_output.print_document(table(found), wide)
        else:
            print({"md": render.markdown, "latex": render.latex}[form](table(found)))
    if form == "text":
        for shown in energy_tables.conditions(run):
            print(f"{shown.name}: {min(shown.values):g} to {max(shown.values):g} {shown.unit} over {shown.seconds[-1]:.0f} s")
