"""`fleet`: a store of the runs of many devices, and which of them stand apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clmembench.cli import exit_codes
from clmembench.studies.fleet import run_command
from clmembench.units import count

HELP = "Keep the runs of many devices in one store, and find the devices that stand apart."
EXTRA = "fleet"
fleet = typer.Typer(help=HELP)
fleet.command("run")(run_command.fleet_run)
fleet.command("resume")(run_command.resume)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the store.")]


@fleet.command("import")
def import_files(
    store: Store,
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Results files, or folders of them.")],
) -> None:
    """Add the runs of results files to a store, which is made where there is none.

    A run that the store has is left as it is; one that was resumed replaces its beginning.
    """
    exit_codes.require("pyarrow", EXTRA, "a store")
    exit_codes.require("duckdb", EXTRA, "a store")
    from clmembench.results import run_files
    from clmembench.results.jsonl import ResultsError
    from clmembench.specs.sheets import SpecError
    from clmembench.studies.fleet.compaction import compact
    from clmembench.studies.fleet.store import StoreError, import_run

    added = refused = known = 0
    for path in files:
        for file in run_files.files_of(path) if path.is_dir() else [path]:
            try:
                is_new = import_run(store, file)
            except (ResultsError, SpecError) as error:
                exit_codes.say(f"left out: {error}")
                refused += 1
                continue
            except (StoreError, OSError) as error:
                exit_codes.stop(str(error), exit_codes.USAGE)
            added, known = added + is_new, known + (not is_new)
    if not added + known:
        exit_codes.stop(f"no results file in {', '.join(map(str, files))}", exit_codes.USAGE)
    compact(store)
    rest = [f"{number} {what}" for number, what in ((known, "in it already"), (refused, "left out")) if number]
    print(", ".join([f"{store}: {count(added, 'run')} added", *rest]))
    if refused:
        raise typer.Exit(exit_codes.FAILED)
