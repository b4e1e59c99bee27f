"""`peers`: ours, the best of the host's libraries and the theoretical limit in one table, by measuring or from a stored run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, session, stored
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.measure.worker import Found
    from clmembench.model import Card, DeviceInfo, Record, Run
    from clmembench.plan.selection import Selection


def peers(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A results file with references: show it, measure nothing.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("-d", "--device", help="INDEX (0 if not given), P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Every line with every peer, intervals and how each was timed.")
    ] = False,
    as_md: Annotated[bool, typer.Option("--md", help="A Markdown table.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=100, help="Rounds of ours and the peers in turn, each in fresh processes; else 3.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Time for all, such as 5m; what is left out has no line.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Time for one point before its process is ended; else 120s.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of random inputs and orders; 0 if not given.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Results file; default in ./reports.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results file.")] = False,
) -> None:
    """Ours beside this host's libraries (BLAS, SciPy, CuPy's, BabelStream, clpeak) and the theoretical limit, in one table."""
    if as_json and as_md:
        exit_codes.stop("choose one of --json and --md", exit_codes.USAGE)
    form = "json" if as_json else "md" if as_md else "text"
    if path is not None:
        session.only_read(path, context)
        show(_stored(path), form)
        return
    info = devices.select(devices.listed(), device or "0")
    try:
        chosen = _with_stored(_selection(budget, timeout, seed, processes), info)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.free(output, overwrite)

    def measured(info: DeviceInfo, found: Found, known: Sequence[Record]) -> Iterator[Record]:
        from clmembench.measure.runner import drive_all
        from clmembench.plan import peers

        return drive_all("opencl", info, found, peers.selections(chosen, info), chosen.budget_s)

    kept, bad, interrupted = session.kept(info, chosen, _cards(chosen, info), measured, output, overwrite)
    run = session.reread(kept)
    if run.records:
        show(run, form)
    if form == "text":
        name = line(str(kept))
        print(f"Results: {name}\nMore: clmembench show {name}; clmembench report {name} -o report.html")
    if interrupted:
        exit_codes.stop(f"interrupted: {kept} holds every record up to here", exit_codes.INTERRUPTED)
    if bad:
        raise typer.Exit(exit_codes.FAILED)


def _selection(budget: str | None, timeout: str | None, seed: int | None, processes: int | None) -> Selection:
    """Raises ValueError for what is no duration."""
    from clmembench.plan.selection import Selection

    plain = Selection(suite="peers", seed=seed or 0, processes=processes, reference=True)
    return replace(
        plain,
        budget_s=units.parse_seconds(budget) if budget else None,
        timeout_s=units.parse_seconds(timeout) if timeout else plain.timeout_s,
    )


def _with_stored(selection: Selection, info: DeviceInfo) -> Selection:
    """With the stored shapes of what is measured. Raises ValueError where the user's own file of them is damaged."""
    from clmembench.benchmarks import discovered
    from clmembench.cli.tune import taken
    from clmembench.plan import peers

    return taken(info, selection, [discovered()[name] for name in peers.names(selection, info)], None)


def _cards(selection: Selection, info: DeviceInfo) -> Mapping[str, Card]:
    """What the file keeps of the benchmarks that are run."""
    from clmembench.plan import peers

    return session.cards(peers.names(selection, info))


def _stored(path: Path) -> Run:
    """A stored run that the table has a line for. Ends the command where it holds nothing for it."""
    from clmembench.report.sections import peer_table

    run = stored.load(path)
    if not peer_table.speaks(run):
        exit_codes.stop(
            f"{path} holds nothing that this table is of: measure it with clmembench peers -d DEVICE, or with "
            "clmembench run --reference",
            exit_codes.USAGE,
        )
    return run


def show(run: Run, form: str) -> None:
    """Print the table of a run in one of the forms."""
    from clmembench.gates.whole import judged_run
    from clmembench.report import render, rows, terminal
    from clmembench.report.section import Document, table
    from clmembench.report.sections import peer_table

    sheet = stored.sheet_of(run)
    run = judged_run(run, sheet)
    lines = peer_table.told(run, rows.rows(run, sheet))
    if form == "json":
        print(render.json_text(peer_table.peer_object(run, lines)))
    elif form == "md":
        print(render.markdown(table(peer_table.peer_section(run, lines))))
    else:
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        document = Document((peer_table.peer_section(run, lines),), terminal.device_line(run.header, sheet))
        print(render.text(document, bold))
