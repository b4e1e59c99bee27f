"""`topology`: how a device's memory hierarchy is built, by measuring or from a stored run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from clmembench.cli import options, stored, study

if TYPE_CHECKING:
    from clmembench.measure.worker import Found
    from clmembench.model import DeviceInfo, Hierarchy, Record, Run
    from clmembench.plan.selection import Selection

MIN_COLUMNS, MAX_COLUMNS = 80, 110  # of a drawing on a terminal
FILE_COLUMNS = 100  # of a drawing that goes elsewhere
NO_EVIDENCE = "holds no records of chase, from which a hierarchy is inferred: measure them with clmembench topology -d DEVICE"


def topology(
    context: typer.Context,
    path: Annotated[
        Path | None, options.stored_run_argument("Results file of this command; the hierarchy is inferred from it again.")
    ] = None,
    device: options.Device = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    as_md: options.Markdown = False,
    as_latex: options.Latex = False,
    spaces: Annotated[
        str | None,
        typer.Option(metavar="SPACES", help="Only these memory spaces, such as global,local,constant; default: all."),
    ] = None,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Measure and draw the memory hierarchy: caches, TLBs, spaces.

    Every level has its size, line, sector, ways, sets, policy and latency, with intervals, beside the claims of the driver and
    of the spec sheet. Properties whose points --budget leaves out are undetermined.
    """
    form = options.output_format(json=as_json, csv=as_csv, md=as_md, latex=as_latex)
    given = study.Options(device, budget, timeout, seed, output, overwrite)
    hierarchy = study.Study(lambda info: _measurement(given, spaces), is_chased, NO_EVIDENCE, show)
    study.measure_or_read(hierarchy, context, path, form, given)


def _measured(info: DeviceInfo, found: Found, selection: Selection, spaces: Sequence[str]) -> Iterator[Record]:
    """Every record of a dissection, as it is measured: adaptive, in these memory spaces (empty: all), within the budget
    and limits of the selection."""
    import time

    from clmembench.benchmarks import discovered
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.measure import runner
    from clmembench.model import CHASE
    from clmembench.plan import hierarchy

    deadline = time.monotonic() + selection.budget_s if selection.budget_s else None
    plan = hierarchy.dissected(info, spaces)
    yield from runner.follow(plan, discovered()[CHASE], "opencl", info, found, selection, deadline=deadline)
    if not spaces or "global" in spaces:
        cpus = sorted(usable_cpus()) if info.kind == "cpu" else []
        plan = hierarchy.mapped(info, cpus)
        yield from runner.follow(plan, discovered()[hierarchy.MAP], "opencl", info, found, selection, deadline=deadline)


def _measurement(given: study.Options, spaces: str | None) -> study.Measurement:
    """Raises ValueError for what is no memory space, too."""
    from clmembench.model import CHASE
    from clmembench.plan import hierarchy

    selection = given.selection("topology", globs=(CHASE,))
    return study.Measurement(
        selection, (CHASE, hierarchy.MAP), partial(_measured, selection=selection, spaces=_parse_spaces(spaces))
    )


def _parse_spaces(text: str | None) -> tuple[str, ...]:
    """The memory spaces that the user named; none: all. Raises ValueError naming those that exist."""
    from clmembench.model import Space

    named = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    unknown = [name for name in named if name not in get_args(Space)]
    if unknown or (text is not None and not named):
        raise ValueError(f"--spaces {text!r}: choose from {', '.join(get_args(Space))}")
    return named


def is_chased(run: Run) -> bool:
    """Whether a run has chases, from which a hierarchy is inferred."""
    from clmembench.report.hierarchy import from_runs

    return from_runs.has_chases(run)


def _infer_hierarchy(run: Run) -> Hierarchy:
    from clmembench.report.hierarchy import from_runs

    return from_runs.infer_hierarchy(run)


def show(run: Run, form: str) -> None:
    """Print what a run tells of the hierarchy, in one of the forms."""
    from clmembench.report import finding_tables
    from clmembench.report.hierarchy import hierarchy_json, tree
    from clmembench.specs import claims

    sheet = stored.sheet_of(run)
    found = _infer_hierarchy(run)
    if form == "text":
        info, bold = run.header.device, sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(tree.drawn(found, info, claims.said(info, sheet), _columns(), bold), end="\n\n")
    elif form == "csv":
        print(finding_tables.to_csv(found), end="")
    else:
        print({"json": hierarchy_json.to_json, "md": finding_tables.to_markdown, "latex": finding_tables.to_latex}[form](found))


def _columns() -> int:
    if not sys.stdout.isatty():
        return FILE_COLUMNS
    return max(MIN_COLUMNS, min(MAX_COLUMNS, shutil.get_terminal_size().columns))
