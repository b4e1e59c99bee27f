"""`run`: measure a device, keep every record, and end in a summary."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import units
from clmembench.cli import devices, exits, session
from clmembench.shown import line

if TYPE_CHECKING:
    from clmembench.model import Card, DeviceInfo, Run, Value
    from clmembench.selection import Selection

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
    from clmembench import plan, references, specs, topology, tuning
    from clmembench.cli.tune import taken
    from clmembench.drive import drive
    from clmembench.selection import Selection, check_axes, selected

    if resume is not None:
        if session.on_command_line(context, IN_THE_FILE):
            exits.stop("--resume FILE says device, suite, axes, seed, size and tuning by itself: leave them out", exits.USAGE)
        size = None  # which the environment may say
        info, selection, earlier = _earlier(resume)
    else:
        info, earlier = devices.select(devices.listed(), device or "0"), None
    try:
        if earlier is None:
            selection = Selection(
                suite=suite or ("all" if bench else "quick"),
                globs=tuple(bench or ()),
                axes=axes_of(axis or [], matrix or []),
                processes=processes,
                seed=seed or 0,
                reference=reference,
            )
        selection = replace(
            selection,
            isolated=selection.isolated and not no_isolate,
            topology=topology.read() if info.kind == "cpu" else (),
            budget_s=units.parse_seconds(budget) if budget else selection.budget_s,
            timeout_s=units.parse_seconds(timeout) if timeout else selection.timeout_s,
            benchmark_s=units.parse_seconds(benchmark_timeout) if benchmark_timeout else selection.benchmark_s,
        )
        chosen = selected(selection)
        info = _sized(info, units.parse_bytes(size)) if size else info
        check_axes(chosen, info, selection)
        if earlier is None and not no_tuning:
            selection = taken(info, selection, chosen, stored)
        specs.find(info)  # two sheets that match, or a damaged one, are better known before than after
        if not any(next(plan.explore(benchmark, info, selection), None) for benchmark in chosen):
            raise ValueError("nothing to measure: no benchmark has a point with all these values; see describe")
    except (ValueError, specs.SpecError, tuning.TuningError) as error:
        exits.stop(str(error), exits.USAGE)
    if earlier is not None:
        _same(earlier, info, selection)
        info = earlier.header.device
    else:
        session.free(output, overwrite)
    if dry_run:
        for benchmark in chosen:
            print(line(f"{benchmark.name}: {plan.outlook(benchmark, info, selection)}"))
        if selection.reference:
            print(line(f"references here: {', '.join(references.names(selection, info)) or 'none'}"))
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
        exits.stop(f"interrupted: {path} holds every record up to here", exits.INTERRUPTED)
    if bad:
        raise typer.Exit(exits.FAILED)
    if strict and suspect:
        exits.stop(f"{suspect} of the values above are suspect", exits.INCONCLUSIVE)


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
    from clmembench import results
    from clmembench.selection import Selection

    if path.exists() and not path.is_file():  # on a pipe a reader would wait
        exits.stop(f"cannot go on with {path}: it is no regular file", exits.USAGE)
    try:
        earlier = results.read(path)
    except results.ResultsError as error:
        exits.stop(str(error), exits.USAGE)
    then = earlier.header
    info = next((d for d in devices.listed() if d.id == then.device.id), None)
    if info is None:
        exits.stop(f"{path} is of {then.device.name} ({then.device.id}), which is not here: see devices", exits.NO_DEVICE)
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
        exits.say(note)
    return replace(info, array_bytes=then.device.array_bytes), selection, earlier


def _same(earlier: Run, info: DeviceInfo, selection: Selection) -> None:
    """Ends with a usage error where this is not the tool, device, driver, host or environment of the earlier part."""
    from clmembench import results

    found = results.mismatch(earlier.header, session.header(info, selection, _cards(selection, info)))
    if found is not None:
        what, then, now = found
        exits.stop(f"{earlier.path} is of another {what}, {then}, not {now}: start a new run", exits.USAGE)
    left = results.unsaid(earlier.header)
    if left:
        exits.say(f"warning: {earlier.path} does not say its {' and '.join(left)}: whether they are the same is not known")


def _finish(path: Path, as_json: bool) -> int:
    """Read the file back, as anybody else would, and print what it says. The number of suspect values."""
    from clmembench.report import roofline, rows, text

    stored = session.reread(path)
    sheet = rows.sheet_of(stored)
    stored, table = rows.judged_rows(stored, sheet)
    if as_json:
        print(rows.to_json(table, roofline.by_point(stored, table, sheet)))
    else:
        print(text.as_text(stored, table, sheet, bold=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
        name = line(str(path))
        print(f"Results: {name}\nMore: clmembench show {name} --md; clmembench report {name} -o report.html")
    return sum(row.status == "suspect" for row in table)


def _cards(selection: Selection, info: DeviceInfo) -> Mapping[str, Card]:
    """What the file keeps of the benchmarks that are run, and of the references beside them."""
    from clmembench import references
    from clmembench.selection import selected

    return session.cards([*(benchmark.name for benchmark in selected(selection)), *references.names(selection, info)])


def axes_of(given: list[str], matrices: list[Path]) -> Mapping[str, tuple[Value, ...]]:
    """name=value or name=[value,value], and files as values of axis matrix. Raises ValueError for anything else."""
    axes: dict[str, tuple[Value, ...]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        values = values.strip().removeprefix("[").removesuffix("]")
        if not equals or not name.strip() or not values.strip():
            raise ValueError(f"-a {text!r}: write name=value or name=[value,value]")
        axes[name.strip()] = tuple(_value(name.strip(), part.strip().strip("\"'")) for part in values.split(","))
    if matrices:
        axes["matrix"] = (*axes.get("matrix", ()), *map(str, matrices))
    return axes


def _value(name: str, text: str) -> Value:
    if re.fullmatch(r"-?[0-9]+", text):
        if len(text) > 19:
            raise ValueError(f"-a {name}: {text[:30]} is beyond 64 bits")
        return int(text)
    if name.endswith("_bytes") and text[:1].isdigit():
        return units.parse_bytes(text)
    return text
