"""`show --energy`: the energy of a run's points, and what its sensors said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clmembench.cli import output, stored_runs
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.analysis.point_filter import PointFilter
    from clmembench.model import Run
    from clmembench.specs.sheets import SpecSheet


def print_energy(run: Run, sheet: SpecSheet | None, form: str, wanted: PointFilter, wide: bool) -> None:
    """Print the energy of each wanted point in a format but JSON, which has it with every value."""
    from clmembench.report import render, rows
    from clmembench.report.section import table
    from clmembench.report.sections import energy_tables

    part, values = stored_runs.chosen_rows(*rows.judged_rows(run, sheet), wanted)
    found = energy_tables.section(part, values) or energy_tables.NO_SENSORS
    if form == "csv":
        print(render.csv_text(found), end="")
    elif form != "text":
        print({"md": render.markdown, "latex": render.latex}[form](table(found)))
    else:
        if found.rows:
            output.print_document(table(found), wide)
        else:
            print("\n".join(map(line, found.notes)))
        for shown in energy_tables.conditions(part):
            print(f"{shown.name}: {min(shown.values):g} to {max(shown.values):g} {shown.unit} over {shown.seconds[-1]:.0f} s")
