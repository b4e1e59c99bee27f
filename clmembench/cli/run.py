"""`run`: measure a device, keep every record, and end in a summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, options, session
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.model import Card, DeviceInfo, Run
    from clmembench.plan.selection import Selection

IN_THE_FILE = (
    "device", "suite", "bench", "axis", "matrix", "processes", "seed", "size", "output", "reference", "stored", "no_tuning",
    "overwrite",
)  # fmt: skip
ARRAYS = 3  # the most of one size that a benchmark holds


def run(
    context: typer.Context,
    device: Annotated[
        str | None, typer.Option("-d", "--device", help="INDEX (0 if not given), P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")
    ] = None,
    suite: Annotated[
        str | None, typer.Option("-s", "--suite", help="quick, memory, sync, link, compute or all; see `suites`.")
    ] = None,
    bench: Annotated[list[str] | None, typer.Option("-b", "--bench", help="Only benchmarks matching this glob.")] = None,
    axis: Annotated[
        list[str] | None, typer.Option("-a", "--axis", help="Values of an axis: op=[triad,copy], array_bytes=64MiB.")
    ] = None,
    matrix: Annotated[
        list[Path] | None, typer.Option("--matrix", help="A Matrix Market file for spmv; adds to -a matrix=...")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Time for the whole run, such as 10m; later points are skipped.")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Time for one point before its process is ended; 120s if not given.")
    ] = None,
    benchmark_timeout: Annotated[
        str | None, typer.Option(help="Time for one benchmark; its later points are skipped. No limit if not given.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=100, help="Fresh processes for each point; else 6 where caches decide, and 1.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="Of the random inputs and orders; 0 if not given.")
    ] = None,
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Also what this host's libraries (NumPy, CuPy ...) and programs make of it, in turn."),
    ] = False,
    size: Annotated[str | None, typer.Option(help="Bytes of the largest array, such as 512MiB; else by device.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Results file; default in ./reports.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results file.")] = False,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FILE", help="Go on with a run that was cut off; its file says the rest.")
    ] = None,
    stored: Annotated[
        Path | None, typer.Option("--tuning", metavar="FILE", help="Stored shapes in the place of your own; see `tune`.")
    ] = None,
    no_tuning: Annotated[bool, typer.Option("--no-tuning", help="Search every shape anew, as if none were stored.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 6 where a point is suspect.")] = False,
    no_isolate: Annotated[
        bool, typer.Option("--no-isolate", help="Measure in this process, for debugging: a crash or a hang ends the run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End in JSON as of `show --json` instead of a summary.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured and end.")] = False,
) -> None:
    """Measure a device: every record is kept as it is made, and the end is a summary for people."""
    from clmembench.cli.tune import taken
    from clmembench.host import cpu_topology
    from clmembench.measure.runner import drive
    from clmembench.plan import interleave, sweep
    from clmembench.plan.selection import Selection, check_axes, selected
    from clmembench.results import tuned
    from clmembench.specs import sheets

    if resume is not None:
        if session.on_command_line(context, IN_THE_FILE):
            exit_codes.stop(
                "--resume FILE says device, suite, axes, seed, size and tuning by itself: leave them out", exit_codes.USAGE
            )
        size = None  # which the environment may say
        info, selection, earlier = _earlier(resume)
    else:
        info, earlier = devices.select(devices.listed(), device or "0"), None
    try:
        if earlier is None:
            selection = Selection(
                suite=suite or ("all" if bench else "quick"),
                globs=tuple(bench or ()),
                axes=options.axes_of(axis or [], matrix or []),
                processes=processes,
                seed=seed or 0,
                reference=reference,
            )
        selection = replace(
            selection,
            isolated=selection.isolated and not no_isolate,
            topology=cpu_topology.read() if info.kind == "cpu" else (),
            budget_s=units.parse_seconds(budget) if budget else selection.budget_s,
            timeout_s=units.parse_seconds(timeout) if timeout else selection.timeout_s,
            benchmark_s=units.parse_seconds(benchmark_timeout) if benchmark_timeout else selection.benchmark_s,
        )
        chosen = selected(selection)
        info = _sized(info, units.parse_bytes(size)) if size else info
        check_axes(chosen, info, selection)
        if earlier is None and not no_tuning:
            selection = taken(info, selection, chosen, stored)
        sheets.find(info)  # two sheets that match, or a damaged one, are better known before than after
        if not any(next(sweep.explore(benchmark, info, selection), None) for benchmark in chosen):
            raise ValueError("nothing to measure: no benchmark has a point with all these values; see describe")
    except (ValueError, sheets.SpecError, tuned.TuningError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    if earlier is not None:
        _same(earlier, info, selection)
        info = earlier.header.device
    else:
        session.free(output, overwrite)
    if dry_run:
        for benchmark in chosen:
            print(line(f"{benchmark.name}: {sweep.outlook(benchmark, info, selection)}"))
        if selection.reference:
            print(line(f"references here: {', '.join(interleave.names(selection, info)) or 'none'}"))
        return
    path, bad, interrupted = session.kept(
        info,
        selection,
        _cards(selection, info),
        lambda info, found, known: drive("opencl", info, found, selection, known),
        resume or output,
        overwrite,
        earlier,
    )
    suspect = _finish(path, as_json)
    if interrupted:
        exit_codes.stop(f"interrupted: {path} holds every record up to here", exit_codes.INTERRUPTED)
    if bad:
        raise typer.Exit(exit_codes.FAILED)
    if strict and suspect:
        exit_codes.stop(f"{suspect} of the values above are suspect", exit_codes.INCONCLUSIVE)


def _sized(info: DeviceInfo, array_bytes: int) -> DeviceInfo:
    """The device with the user's --size. Raises ValueError where it cannot hold arrays of that size."""
    size, largest = units.format_bytes(array_bytes), units.format_bytes(info.max_alloc_bytes)
    if array_bytes > info.max_alloc_bytes:
        raise ValueError(f"--size {size} is over this device's largest allocation, {largest}: lower it")
    memory = min(info.global_mem_bytes, info.host_mem_bytes if info.kind == "cpu" else info.global_mem_bytes)
    if ARRAYS * array_bytes > memory:
        raise ValueError(
            f"{ARRAYS} arrays of --size {size} are over this device's memory, {units.format_bytes(memory, 1)}: lower it"
        )
    return replace(info, array_bytes=array_bytes)


def _earlier(path: Path) -> tuple[DeviceInfo, Selection, Run]:
    """The device as it is now, what was to be measured, and the run to go on with; ends the command where there is
    none, or no such device."""
    from clmembench.plan.selection import Selection
    from clmembench.results import jsonl

    if path.exists() and not path.is_file():  # on a pipe a reader would wait
        exit_codes.stop(f"cannot go on with {path}: it is no regular file", exit_codes.USAGE)
    try:
        earlier = jsonl.read(path)
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    then = earlier.header
    info = next((d for d in devices.listed() if d.id == then.device.id), None)
    if info is None:
        exit_codes.stop(
            f"{path} is of {then.device.name} ({then.device.id}), which is not here: see devices", exit_codes.NO_DEVICE
        )
    selection = Selection(
        suite=then.suite,
        globs=tuple(name for name, card in then.benchmarks.items() if not card.peer_of),
        axes=then.axes,
        processes=then.processes,
        seed=then.seed,
        budget_s=then.budget_s,
        timeout_s=then.timeout_s,
        benchmark_s=then.benchmark_s,
        isolated=then.isolated,
        tuning=then.tuning,
        reference=any(card.peer_of for card in then.benchmarks.values()),
    )
    for note in earlier.notes:
        exit_codes.say(note)
    return replace(info, array_bytes=then.device.array_bytes), selection, earlier


def _same(earlier: Run, info: DeviceInfo, selection: Selection) -> None:
    """Ends with a usage error where this is not the tool, device, driver, host or environment of the earlier part."""
    from clmembench.results import jsonl

    found = jsonl.mismatch(earlier.header, session.header(info, selection, _cards(selection, info)))
    if found is not None:
        what, then, now = found
        exit_codes.stop(f"{earlier.path} is of another {what}, {then}, not {now}: start a new run", exit_codes.USAGE)
    left = jsonl.unsaid(earlier.header)
    if left:
        exit_codes.say(f"warning: {earlier.path} does not say its {' and '.join(left)}: whether they are the same is not known")


def _finish(path: Path, as_json: bool) -> int:
    """Read the file back, as anybody else would, and print what it says. The number of suspect values."""
    from clmembench.report import render, rows, terminal
    from clmembench.report.sections import roofline_tables

    stored = session.reread(path)
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
    """What the file keeps of the benchmarks that are run, and of the references beside them."""
    from clmembench.plan import interleave
    from clmembench.plan.selection import selected

    return session.cards([*(benchmark.name for benchmark in selected(selection)), *interleave.names(selection, info)])
