"""`advise`: what the author of a kernel should do about memory on this device, by measuring or from a stored run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def advise(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A results file with suite access: advise from it, measure nothing.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("-d", "--device", help="INDEX (0 if not given), P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A list: id, verdict, effect, interval, unit, evidence, advice.")
    ] = False,
    as_md: Annotated[bool, typer.Option("--md", help="A Markdown table.")] = False,
    budget: Annotated[str | None, typer.Option(help="Time for all, such as 2m; what is left out is undetermined.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Time for one point before its process is ended; else 120s.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of random orders; 0 if not given.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Results file; default in ./reports.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results file.")] = False,
) -> None:
    """Guidelines for kernels on this device: which of the published ones hold here, what each is worth, and what to do."""
    if as_json and as_md:
        exit_codes.stop("choose one of --json and --md", exit_codes.USAGE)
    form = "json" if as_json else "md" if as_md else "text"
    if path is not None:
        session.only_read(path, context)
        show(_stored(path), form)
        return
    info = devices.select(devices.listed(), device or "0")
    try:
        chosen = _selection(budget, timeout, seed)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.free(output, overwrite)

    def measured(info: DeviceInfo, found: Found, known: Sequence[Record]) -> Iterator[Record]:
        from clmembench.measure.runner import drive_all
        from clmembench.plan import advise

        return drive_all("opencl", info, found, advise.selections(chosen), chosen.budget_s)

    from clmembench.report.sections import advice_table

    kept, bad, interrupted = session.kept(info, chosen, _cards(chosen), measured, output, overwrite)
    run = session.reread(kept)
    if advice_table.speaks(run):
        show(run, form)
    if form == "text":
        name = line(str(kept))
        print(f"Results: {name}\nMore: clmembench show {name} --md; clmembench report {name} -o report.html")
    if interrupted:
        exit_codes.stop(f"interrupted: {kept} holds every record up to here", exit_codes.INTERRUPTED)
    if bad:
        raise typer.Exit(exit_codes.FAILED)


def _selection(budget: str | None, timeout: str | None, seed: int | None) -> Selection:
    """Raises ValueError for what is no duration."""
    from clmembench.plan.selection import Selection

    plain = Selection(suite="advise", seed=seed or 0)
    return Selection(
        suite=plain.suite,
        seed=plain.seed,
        budget_s=units.parse_seconds(budget) if budget else None,
        timeout_s=units.parse_seconds(timeout) if timeout else plain.timeout_s,
    )


def _cards(selection: Selection) -> Mapping[str, Card]:
    """What the file keeps of the benchmarks that are run."""
    from clmembench.plan import advise

    return session.cards(advise.names(selection))


def _stored(path: Path) -> Run:
    """A stored run that guidelines can be derived from. Ends the command where it holds nothing for them."""
    from clmembench.report.sections import advice_table

    run = stored.load(path)
    if not advice_table.speaks(run):
        exit_codes.stop(
            f"{path} holds nothing that guidelines are derived from: measure it with clmembench advise -d DEVICE, or with "
            "clmembench run --suite access",
            exit_codes.USAGE,
        )
    return run


def show(run: Run, form: str) -> None:
    """Print what a run advises, in one of the forms."""
    from clmembench.report import render, rows, terminal
    from clmembench.report.section import table
    from clmembench.report.sections import advice_table

    sheet = stored.sheet_of(run)
    told = advice_table.told(run, rows.rows(run, sheet))
    if form == "json":
        print(render.json_text(advice_table.guideline_objects(told)))
    elif form == "md":
        print(render.markdown(table(advice_table.guideline_table(told))))
    else:
        print(line(terminal.device_line(run.header, sheet)), end="\n\n")
        print(advice_table.guideline_text(told))
