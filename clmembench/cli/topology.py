"""`topology`: how a device's memory hierarchy is built, by measuring or from a stored run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, session, stored
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.measure.worker import Found
    from clmembench.model import Card, DeviceInfo, Hierarchy, Record, Run
    from clmembench.plan.selection import Selection
    from clmembench.report.hierarchy.section import Dissected

WIDTH = (80, 110)  # columns of a drawing on a terminal; 100 where there is none


def topology(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A results file of this command: infer from it, measure nothing.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("-d", "--device", help="INDEX (0 if not given), P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every level and property with interval, status and method.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line for each finding.")] = False,
    as_md: Annotated[bool, typer.Option("--md", help="A Markdown table of every finding.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="The same table for LaTeX, with booktabs.")] = False,
    spaces: Annotated[
        str | None, typer.Option(help="Only these, such as global,local,constant; else all that the device has.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time for all of it, such as 2m; what is left out is undetermined.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Time for one point before its process is ended; 120s if not given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of the random orders; 0 if not given.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Results file; default in ./reports.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results file.")] = False,
) -> None:
    """Dissect the memory hierarchy: levels, sizes, lines, sets, policy, TLBs, every memory space; drawn as a tree."""
    if as_json + as_csv + as_md + as_latex > 1:
        exit_codes.stop("choose one of --json, --csv, --md and --latex", exit_codes.USAGE)
    form = "json" if as_json else "csv" if as_csv else "md" if as_md else "latex" if as_latex else "tree"
    if path is not None:
        session.only_read(path, context)
        show(_chased(path), form)
        return
    info = devices.select(devices.listed(), device or "0")
    try:
        chosen, wanted = _selection(budget, timeout, seed), _spaces(spaces)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.free(output, overwrite)

    def measured(info: DeviceInfo, found: Found, known: Sequence[Record]) -> Iterator[Record]:
        return _measured(info, found, chosen, wanted)

    kept, bad, interrupted = session.kept(info, chosen, _cards(), measured, output, overwrite)
    run = session.reread(kept)
    if is_chased(run):
        show(run, form)
    if form == "tree":
        print(line(f"Results: {kept}"))
    if interrupted:
        exit_codes.stop(f"interrupted: {kept} holds every record up to here", exit_codes.INTERRUPTED)
    if bad:
        raise typer.Exit(exit_codes.FAILED)


def _measured(info: DeviceInfo, found: Found, selection: Selection, spaces: Sequence[str]) -> Iterator[Record]:
    """Every record of a dissection, as it is measured: adaptive, in these memory spaces (empty: all), within the budget
    and limits of the selection."""
    from clmembench.benchmarks import discovered
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.measure import runner
    from clmembench.model import CHASE
    from clmembench.plan import hierarchy
    from clmembench.plan.budget import Deadline

    deadline = Deadline.after(selection.budget_s)
    plan = hierarchy.dissected(info, spaces)
    yield from runner.follow(plan, discovered()[CHASE], "opencl", info, found, selection, deadline=deadline)
    if not spaces or "global" in spaces:
        cpus = sorted(usable_cpus()) if info.kind == "cpu" else []
        plan = hierarchy.mapped(info, cpus)
        yield from runner.follow(plan, discovered()[hierarchy.MAP], "opencl", info, found, selection, deadline=deadline)


def inferred(run: Run) -> Hierarchy:
    """What the chases of a stored run tell of the hierarchy, held against what else the run measured."""
    from clmembench.gates import consistency
    from clmembench.plan import hierarchy

    (found,) = consistency.across([run], [hierarchy.inferred(run).hierarchy])[1]
    assert found is not None
    return found


def _cards() -> Mapping[str, Card]:
    """What the file keeps of the benchmark that is run."""
    from clmembench.model import CHASE
    from clmembench.plan import hierarchy

    return session.cards((CHASE, hierarchy.MAP))


def dissected(run: Run) -> Dissected | None:
    """What a report shows of a run's memory hierarchy; None where it holds nothing of it."""
    from clmembench.plan import hierarchy
    from clmembench.report.hierarchy.section import Dissected

    if not is_chased(run):
        return None
    found = hierarchy.inferred(run)
    return Dissected(found.hierarchy, found.regions)


def consistent(runs: Sequence[Run], found: Sequence[Dissected | None]) -> tuple[list[Run], list[Dissected | None]]:
    """Runs and what was found of them, with what commands say of one device held against each other."""
    from dataclasses import replace

    from clmembench.gates import consistency, whole

    if not any(found):
        return list(runs), list(found)
    judged = [whole.judged_run(run, stored.sheet_of(run)) for run in runs]
    judged, hierarchies = consistency.across(judged, [None if one is None else one.hierarchy for one in found])
    held = zip(found, hierarchies, strict=True)
    return judged, [None if one is None or here is None else replace(one, hierarchy=here) for one, here in held]


def is_chased(run: Run) -> bool:
    """Whether a run holds what a hierarchy is inferred from."""
    from clmembench.model import CHASE

    return any(record.benchmark == CHASE for record in run.records)


def _chased(path: Path) -> Run:
    """A stored run that holds chases. Ends the command where there is none."""
    from clmembench.model import CHASE

    run = stored.load(path)
    if not is_chased(run):
        exit_codes.stop(
            f"{path} holds no records of {CHASE}, from which a hierarchy is inferred: measure them with "
            "clmembench topology -d DEVICE",
            exit_codes.USAGE,
        )
    return run


def _selection(budget: str | None, timeout: str | None, seed: int | None) -> Selection:
    """Raises ValueError for what is no duration."""
    from clmembench.model import CHASE
    from clmembench.plan.selection import Selection

    plain = Selection(suite="topology", globs=(CHASE,), seed=seed or 0)
    return Selection(
        suite=plain.suite,
        globs=plain.globs,
        seed=plain.seed,
        budget_s=units.parse_seconds(budget) if budget else None,
        timeout_s=units.parse_seconds(timeout) if timeout else plain.timeout_s,
    )


def _spaces(text: str | None) -> tuple[str, ...]:
    """The memory spaces that the user named; none: all. Raises ValueError naming what there is."""
    from clmembench.model import Space

    named = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    unknown = [name for name in named if name not in get_args(Space)]
    if unknown or (text is not None and not named):
        raise ValueError(f"--spaces {text!r}: choose from {', '.join(get_args(Space))}")
    return named


def show(run: Run, form: str) -> None:
    """Print what a run tells of the hierarchy, in one of the forms."""
    from clmembench.report import finding_tables
    from clmembench.report.hierarchy import hierarchy_json, tree
    from clmembench.specs import claims

    sheet = stored.sheet_of(run)
    found = inferred(run)
    if form == "tree":
        info, bold = run.header.device, sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(tree.drawn(found, info, claims.said(info, sheet), _width(), bold), end="\n\n")
    elif form == "csv":
        print(finding_tables.to_csv(found), end="")
    else:
        print({"json": hierarchy_json.to_json, "md": finding_tables.to_markdown, "latex": finding_tables.to_latex}[form](found))


def _width() -> int:
    if not sys.stdout.isatty():
        return 100
    return max(WIDTH[0], min(WIDTH[1], shutil.get_terminal_size().columns))
