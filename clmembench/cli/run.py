"""`run`: measure a device, write every record, and print a summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, interrupted_run, layer_cost, options, session
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import Benchmark, Card, DeviceInfo, Record, Run
    from clmembench.plan.selection import Selection

MAX_ARRAYS = 3  # of one size that a benchmark holds


Suite = Annotated[
    str | None,
    typer.Option(
        "-s",
        "--suite",
        metavar="SUITE",
        help="quick, memory, access, sync, link, compute or all; default: quick, or all with --bench.",
    ),
]
Runtime = Annotated[
    str | None,
    typer.Option("--runtime", metavar="NAMES", help="Runtime, opencl or sycl; opencl,sycl measures both interleaved."),
]
Matrix = Annotated[
    list[Path] | None,
    typer.Option("--matrix", metavar="FILE", help="Matrix Market file for spmv, in addition to -a matrix=...; repeatable."),
]
BenchmarkTimeout = Annotated[
    str | None,
    typer.Option("--benchmark-timeout", metavar="TIME", help="Time limit of a benchmark, as --budget; default: no limit."),
]
Processes = Annotated[int | None, options.processes_option("6 for points that depend on caches, else 1")]
Reference = Annotated[
    bool, typer.Option("--reference", help="Also measure this host's libraries on the same problems, interleaved.")
]
ArraySize = Annotated[
    str | None,
    typer.Option("--size", metavar="BYTES", help="Size of the largest array, such as 512MiB; default: fitted to the device."),
]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="FILE", help="Resume an interrupted run; its settings come from FILE.")
]
Tuning = Annotated[
    Path | None,
    typer.Option("--tuning", metavar="FILE", help="Stored configurations to use; default: those that `tune` stored."),
]
NoTuning = Annotated[bool, typer.Option("--no-tuning", help="Search every configuration anew, without stored ones.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 6 where a value is suspect.")]
NoIsolate = Annotated[
    bool, typer.Option("--no-isolate", help="Measure in this process, for debugging; a crash or a hang ends the run.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the points that would be measured, and measure nothing.")]


def run(
    context: typer.Context,
    device: options.Device = None,
    runtime: Runtime = None,
    suite: Suite = None,
    bench: options.Bench = None,
    axis: options.Axis = None,
    matrix: Matrix = None,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    benchmark_timeout: BenchmarkTimeout = None,
    processes: Processes = None,
    seed: options.Seed = None,
    reference: Reference = False,
    size: ArraySize = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
    resume: Resume = None,
    stored: Tuning = None,
    no_tuning: NoTuning = False,
    strict: Strict = False,
    no_isolate: NoIsolate = False,
    as_json: options.Json = False,
    dry_run: DryRun = False,
) -> None:
    """Measure a device, write every record, and print a summary.

    Records are written as they are measured. Points left when a time limit is reached are skipped, and --resume measures them.
    --json prints the values as `show --json` does.
    """
    earlier = None
    if runtime is not None and resume is None:
        if layer_cost.is_of_both(runtime):
            layer_cost.refuse_options(context)
            layer_cost.measure(device, bench, axis, budget, timeout, seed, size, output, overwrite, as_json)
            return
        device = layer_cost.selector(runtime, device)
    if resume is not None:
        interrupted_run.refuse_options(context)
        size = None  # an environment variable may set it
        info, selection, earlier = interrupted_run.read(resume)
    else:
        info = devices.select(devices.listed(device), device or "0")
    with _usage_errors():
        if earlier is None:
            selection = _selection(suite, bench, axis, matrix, processes, seed, reference)
        selection = _with_limits(selection, info, no_isolate, budget, timeout, benchmark_timeout)
        info = _with_array_size(info, units.parse_bytes(size)) if size else info
        chosen = _chosen(info, selection)
        if earlier is None and not no_tuning:
            selection = session.with_stored_configurations(info, selection, chosen, stored)
        _check_points(info, selection, chosen)
    if earlier is not None:
        interrupted_run.check_conditions(earlier, session.header(info, selection, _cards(selection, info)))
        info = earlier.header.device
    else:
        session.check_output(output, overwrite)
    if dry_run:
        _print_points(info, selection, chosen)
        return
    written = _measure(info, selection, resume or output, overwrite, earlier)
    suspect = _print_results(written.path, as_json)
    session.end(written)
    if strict and suspect:
        exit_codes.stop(f"{suspect} of the values above are suspect", exit_codes.INCONCLUSIVE)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End the command where what was asked for cannot be measured, or a file of the user's is damaged."""
    from clmembench.results.tuned import TuningError
    from clmembench.specs.sheets import SpecError

    try:
        yield
    except (ValueError, SpecError, TuningError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)


def _selection(
    suite: str | None,
    bench: list[str] | None,
    axis: list[str] | None,
    matrix: list[Path] | None,
    processes: int | None,
    seed: int | None,
    reference: bool,
) -> Selection:
    """What a new run measures, without its limits. Raises ValueError for what are no values of an axis."""
    from clmembench.plan.selection import Selection

    return Selection(
        suite=suite or ("all" if bench else "quick"),
        globs=tuple(bench or ()),
        axes=options.parse_axes(axis or [], matrix or []),
        processes=processes,
        seed=seed or 0,
        reference=reference,
    )


def _with_limits(
    selection: Selection,
    info: DeviceInfo,
    no_isolate: bool,
    budget: str | None,
    timeout: str | None,
    benchmark_timeout: str | None,
) -> Selection:
    """The selection with the limits that were given, and with this host's CPUs. Raises ValueError for what is no duration."""
    from clmembench.host import cpu_topology

    return replace(
        selection,
        isolated=selection.isolated and not no_isolate,
        topology=cpu_topology.read() if info.kind == "cpu" else (),
        budget_s=units.parse_seconds(budget) if budget else selection.budget_s,
        timeout_s=units.parse_seconds(timeout) if timeout else selection.timeout_s,
        benchmark_s=units.parse_seconds(benchmark_timeout) if benchmark_timeout else selection.benchmark_s,
    )


def _chosen(info: DeviceInfo, selection: Selection) -> Sequence[Benchmark]:
    """The benchmarks of a selection. Raises ValueError where there are none, or an axis has no such values."""
    from clmembench.plan.selection import check_axes, selected_benchmarks

    chosen = selected_benchmarks(selection)
    check_axes(chosen, info, selection)
    return chosen


def _check_points(info: DeviceInfo, selection: Selection, chosen: Sequence[Benchmark]) -> None:
    """Raises ValueError where there is no point to measure, and SpecError where two spec sheets match the device or one is
    damaged, which is better known before the run than after it."""
    from clmembench.plan import sweep
    from clmembench.specs import sheets

    sheets.match_sheet(info)
    if not any(next(sweep.explore(benchmark, info, selection), None) for benchmark in chosen):
        raise ValueError("nothing to measure: no benchmark has a point with all these values; see describe")


def _print_points(info: DeviceInfo, selection: Selection, chosen: Sequence[Benchmark]) -> None:
    from clmembench.plan import interleave, sweep

    for benchmark in chosen:
        print(line(f"{benchmark.name}: {sweep.describe_plan(benchmark, info, selection)}"))
    if selection.reference:
        print(line(f"peers here: {', '.join(interleave.peer_names(selection, info)) or 'none'}"))


def _measure(
    info: DeviceInfo, selection: Selection, output: Path | None, overwrite: bool, earlier: Run | None
) -> session.Written:
    from clmembench.measure.runner import run_selection

    def records(info: DeviceInfo, found: ProbeResult, known: Sequence[Record]) -> Iterator[Record]:
        return run_selection(info.runtime, info, found, selection, known)

    return session.measure_to_file(info, selection, _cards(selection, info), records, output, overwrite, earlier)


def _with_array_size(info: DeviceInfo, array_bytes: int) -> DeviceInfo:
    """The device with the user's --size. Raises ValueError where it cannot hold arrays of that size."""
    size, largest = units.format_bytes(array_bytes), units.format_bytes(info.max_alloc_bytes)
    if array_bytes > info.max_alloc_bytes:
        raise ValueError(f"--size {size} is over this device's largest allocation, {largest}: lower it")
    memory = min(info.global_mem_bytes, info.host_mem_bytes if info.kind == "cpu" else info.global_mem_bytes)
    if MAX_ARRAYS * array_bytes > memory:
        raise ValueError(
            f"{MAX_ARRAYS} arrays of --size {size} are over this device's memory, {units.format_bytes(memory, 1)}: lower it"
        )
    return replace(info, array_bytes=array_bytes)


def _print_results(path: Path, as_json: bool) -> int:
    """Read the results file back like any other and print its summary, or its values as JSON. The number of suspect values."""
    from clmembench.report import render, rows, terminal
    from clmembench.report.sections import roofline_tables

    stored = session.read_back(path)
    sheet = rows.sheet_of(stored)
    stored, table = rows.judged_rows(stored, sheet)
    if as_json:
        print(render.json_text(rows.point_objects(table, roofline_tables.by_point(stored, table, sheet))))
    else:
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(render.text(terminal.summary_document(stored, table, sheet), bold))
        name = line(str(path))
        print(f"Results: {name}\nMore: clmembench show {name} --md; clmembench report {name} -o report.html")
    return sum(row.status == "suspect" for row in table)


def _cards(selection: Selection, info: DeviceInfo) -> Mapping[str, Card]:
    """The benchmarks that the header keeps, and their peers."""
    from clmembench.plan import interleave
    from clmembench.plan.selection import selected_benchmarks

    return session.cards(
        [*(benchmark.name for benchmark in selected_benchmarks(selection)), *interleave.peer_names(selection, info)]
    )
