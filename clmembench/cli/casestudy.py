"""`casestudy`: real programs in the versions that a paper optimised them by, and whether each optimisation pays off here."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, session, stored
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.benchmarks.mnf.cubes import Size
    from clmembench.measure.worker import Found
    from clmembench.model import Card, DeviceInfo, Record, Run
    from clmembench.plan.selection import Selection

casestudy = typer.Typer(help="Programs in the versions that a paper optimised them by: what each version gains here.")

TIMEOUT_S = 300.0  # of a point: on the host alone a large cube takes seconds a pass


@casestudy.callback()
def _several() -> None:
    """Programs in the versions that a paper optimised them by: what each version gains here."""


@casestudy.command("mnf")
def mnf(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A results file of this command: read it, measure nothing.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("-d", "--device", help="INDEX (0 if not given), P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Steps, the whole and the host, with intervals and verdicts.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line for each version of a step.")] = False,
    as_md: Annotated[bool, typer.Option("--md", help="The tables as Markdown.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="The same tables for LaTeX, with booktabs.")] = False,
    size: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT of the cube, 224 bands, or WIDTHxHEIGHTxBANDS; else the device's own.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Fresh processes that measure each point; else 4 on CPUs and 3 on others, 3 of the whole, 2 of NumPy."
        ),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Time for all of it, such as 2m; what is left out is skipped.")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Time for one point before its process is ended; 300s if not given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of the cube; 0 if not given.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Results file; default in ./reports.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results file.")] = False,
) -> None:
    """Maximum noise fraction of a hyperspectral cube: every version of its kernels, verified, and the whole against NumPy."""
    if as_json + as_csv + as_md + as_latex > 1:
        exit_codes.stop("choose one of --json, --csv, --md and --latex", exit_codes.USAGE)
    form = "json" if as_json else "csv" if as_csv else "md" if as_md else "latex" if as_latex else "text"
    if path is not None:
        session.only_read(path, context)
        show(_studied(path), form)
        return
    info = devices.select(devices.listed(), device or "0")
    try:
        chosen, cube = _selection(budget, timeout, seed), _size(size)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.free(output, overwrite)

    def measured(info: DeviceInfo, found: Found, known: Sequence[Record]) -> Iterator[Record]:
        return _measured(info, found, chosen, cube, processes)

    kept, bad, interrupted = session.kept(info, chosen, _cards(), measured, output, overwrite)
    run = session.reread(kept)
    if run.records:
        show(run, form)
    if form == "text":
        print(line(f"Results: {kept}"))
    if interrupted:
        exit_codes.stop(f"interrupted: {kept} holds every record up to here", exit_codes.INTERRUPTED)
    if bad:
        raise typer.Exit(exit_codes.FAILED)


def _measured(
    info: DeviceInfo, found: Found, selection: Selection, size: Size | None, processes: int | None
) -> Iterator[Record]:
    """Every record of the study, as it is measured: the steps first, since the whole is made of their quickest versions."""
    from clmembench.benchmarks import discovered
    from clmembench.measure import runner
    from clmembench.plan import casestudy as study
    from clmembench.plan.budget import Deadline

    deadline = Deadline.after(selection.budget_s)
    known: list[Record] = []
    for name in study.BENCHMARKS:
        plan = study.plan(name, info, size, processes, tuple(known))
        for record in runner.follow(plan, discovered()[name], "opencl", info, found, selection, deadline=deadline):
            known.append(record)
            yield record


def _cards() -> Mapping[str, Card]:
    """What the file keeps of the benchmarks that are run."""
    from clmembench.plan import casestudy as study

    return session.cards(study.BENCHMARKS)


def _selection(budget: str | None, timeout: str | None, seed: int | None) -> Selection:
    """Raises ValueError for what is no duration."""
    from clmembench.plan import casestudy as study
    from clmembench.plan.selection import Selection

    return Selection(
        suite="casestudy",
        globs=study.BENCHMARKS,
        seed=seed or 0,
        budget_s=units.parse_seconds(budget) if budget else None,
        timeout_s=units.parse_seconds(timeout) if timeout else TIMEOUT_S,
    )


def _size(text: str | None) -> Size | None:
    """Raises ValueError for what is no cube."""
    from clmembench.plan import casestudy as study

    return study.parsed(text)


def _studied(path: Path) -> Run:
    """A stored run of this study. Ends the command where it is none."""
    from clmembench.report.sections import mnf_tables as report

    run = stored.load(path)
    if not any(record.benchmark in report.TITLES for record in run.records):
        exit_codes.stop(
            f"{path} holds no records of MNF: measure them with clmembench casestudy mnf -d DEVICE", exit_codes.USAGE
        )
    return run


def show(run: Run, form: str) -> None:
    """Print what a run says of the study, in one of the forms."""
    import os

    from clmembench.gates.whole import judged_run
    from clmembench.report import terminal
    from clmembench.report.sections import mnf_data
    from clmembench.report.sections import mnf_tables as report

    sheet = stored.sheet_of(run)
    run = judged_run(run, sheet)
    if form == "json":
        print(mnf_data.to_json(run))
    elif form == "csv":
        print(mnf_data.to_csv(run), end="")
    elif form == "md":
        print("\n".join(terminal.in_markdown(report.sections(run))))
    elif form == "latex":
        print("\n".join(terminal.in_latex(report.sections(run))))
    else:
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print("\n".join([terminal.device_line(run.header, sheet), "", *terminal.aligned(report.sections(run), bold)]))
