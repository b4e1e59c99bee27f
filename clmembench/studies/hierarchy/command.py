"""`topology`: how a device's memory hierarchy is built, by measuring or from a stored run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from clmembench.cli import options, outputs, stored_runs
from clmembench.cli.measure_or_read import Measurement, MeasureOptions, StudyCommand, measure_or_read
from clmembench.studies.hierarchy.study import STUDY

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import DeviceInfo, Record, Run
    from clmembench.plan.budget import Deadline
    from clmembench.plan.selection import Selection

NO_EVIDENCE = "holds no records of chase, from which a hierarchy is inferred: measure them with clmembench topology -d DEVICE"
MIN_COLUMNS, MAX_COLUMNS = 60, 110  # of a drawing on a terminal
FILE_COLUMNS = 100  # of a drawing that is redirected


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
    classic: Annotated[
        bool,
        typer.Option(
            "--classic",
            help="Measure by the classic methods too (Saavedra 1992, Wong 2010), on global memory or on those of --spaces, and "
            "show where they contradict each other. A stored run shows them if it has them.",
        ),
    ] = False,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    seed: options.Seed = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
    wait: options.Wait = None,
    wait_quiet: options.WaitQuiet = None,
) -> None:
    """Measure and draw the memory hierarchy: caches, TLBs, spaces.

    Every level has its size, line, sector, ways, sets, policy and latency, with intervals, beside the claims of the driver and
    of the spec sheet. Properties whose points --budget leaves out are undetermined.
    """
    measurement = partial(_measurement, spaces=spaces, classic=classic)
    measure_or_read(context, path, StudyCommand(measurement, _has_evidence, NO_EVIDENCE, show))


def _measurement(given: MeasureOptions, info: DeviceInfo, spaces: str | None, classic: bool) -> Measurement:
    """Also raises ValueError for an unknown memory space."""
    from clmembench.model import CHASE_BENCHMARK
    from clmembench.studies.hierarchy.plan import hierarchy_estimate

    selection = given.selection("topology", globs=(CHASE_BENCHMARK,))
    records = partial(hierarchy_records, selection=selection, spaces=_parse_spaces(spaces), classic=classic)
    return Measurement(selection, STUDY.measures, records, hierarchy_estimate)


def part_of_run(selection: Selection, known: Sequence[Record], deadline: Deadline | None) -> Measurement:
    """The hierarchy as a part of a run of suite everything: measures what the `known` records lack, until the deadline."""
    from clmembench.studies.hierarchy.plan import hierarchy_estimate

    records = partial(hierarchy_records, selection=selection, known=known, deadline=deadline)
    return Measurement(selection, STUDY.measures, records, hierarchy_estimate)


def hierarchy_records(
    info: DeviceInfo,
    found: ProbeResult,
    *,
    selection: Selection,
    spaces: Sequence[str] = (),
    classic: bool = False,
    known: Sequence[Record] = (),
    deadline: Deadline | None = None,
) -> Iterator[Record]:
    """Yields every record of the hierarchy's experiments as it is measured: first the adaptive chases in these memory spaces
    (empty: all), until the deadline or within the limits of the selection; then the classic methods if requested, shared
    storage if all spaces are measured, and the map of the last cache. `known` are the records of an interrupted run."""
    from clmembench.benchmarks import discovered
    from clmembench.host.cpu_topology import usable_cpus
    from clmembench.measure import runner
    from clmembench.model import CHASE_BENCHMARK
    from clmembench.plan.budget import Deadline
    from clmembench.studies.hierarchy import plan as hierarchy
    from clmembench.studies.hierarchy.benchmarks.cache_sharing import SHARING_BENCHMARK
    from clmembench.studies.hierarchy.plan import sharing_plan

    end = deadline or Deadline.after(selection.budget_s)
    plans = [hierarchy.hierarchy_plan(info, spaces)] + [hierarchy.classic_plan(info, spaces)] * classic
    for plan in plans:
        yield from runner.run_plan(plan, discovered()[CHASE_BENCHMARK], info.runtime, info, found, selection, known, end)
    if not spaces:
        plan = sharing_plan(info)
        yield from runner.run_plan(plan, discovered()[SHARING_BENCHMARK], info.runtime, info, found, selection, known, end)
    if not spaces or "global" in spaces:
        cpus = sorted(usable_cpus()) if info.kind == "cpu" else []
        plan = hierarchy.l2_map_plan(info, cpus)
        yield from runner.run_plan(plan, discovered()[hierarchy.L2_MAP], info.runtime, info, found, selection, known, end)


def _parse_spaces(text: str | None) -> tuple[str, ...]:
    """The memory spaces that the user named; none: all. Raises ValueError naming those that exist."""
    from clmembench.model import Space

    named = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    unknown = [name for name in named if name not in get_args(Space)]
    if unknown or (text is not None and not named):
        raise ValueError(f"--spaces {text!r}: choose from {', '.join(get_args(Space))}")
    return named


def _has_evidence(run: Run) -> bool:
    """Whether a run has records from which a hierarchy is inferred. The summary of any run asks, for which nothing of the
    inference need be imported."""
    from clmembench.model import CHASE_BENCHMARK

    return run.has(CHASE_BENCHMARK)


def show_after_summary(run: Run) -> None:
    """Print the hierarchy of a run that has one."""
    if _has_evidence(run):
        show(run, "text")


def show(run: Run, form: str) -> None:
    """Print the hierarchy of a run in one of the formats json, csv, md, latex and text, which is a drawing."""
    from clmembench.report import finding_tables
    from clmembench.report.table import Document
    from clmembench.specs import claims
    from clmembench.studies.hierarchy import from_runs
    from clmembench.studies.hierarchy.plan import stored_classic
    from clmembench.studies.hierarchy.views import classic_table, hierarchy_json, tree

    sheet = stored_runs.sheet_of(run)
    found, classic = from_runs.infer_hierarchy(run), stored_classic(run)
    beside = tuple(classic_table.classic_section(readings, found) for readings in classic)
    if form == "text":
        info, bold = run.header.device, outputs.is_coloured(sys.stdout)
        print(tree.draw_tree(found, info, claims.list_claims(info, sheet), _columns(), bold), end="\n\n")
        if beside:
            outputs.print_document(Document(beside))
        return
    outputs.print_as(
        form,
        lambda: Document((finding_tables.finding_table(found), *beside)),
        lambda: hierarchy_json.hierarchy_object(found, classic),
        lambda: finding_tables.finding_fields(found, classic_table.entries(classic)),
    )


def _columns() -> int:
    if not sys.stdout.isatty():
        return FILE_COLUMNS
    return max(MIN_COLUMNS, min(MAX_COLUMNS, shutil.get_terminal_size().columns))
