"""`run --dry-run`: what would be measured, how long it takes, and how much memory and disk it needs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from clmembench import units
from clmembench.cli.running import session
from clmembench.cli.running.progress import counts_text
from clmembench.sanitize import line
from clmembench.units import count, format_bytes, format_duration

if TYPE_CHECKING:
    from clmembench.cli.running.run_request import PlannedRun
    from clmembench.plan.estimate import BenchmarkEstimate, RunEstimate


HIERARCHY_WORDS = "the memory hierarchy, each point chosen by the answers to those before, until --budget ends it"


def print_plan(planned: PlannedRun, output: Path | None) -> None:
    """Print a line for each benchmark of a run, and what the run takes in all."""
    from clmembench.plan import interleave, sweep

    info = session.with_probed_features(planned.info, planned.selection)
    found = planned.estimate(info)
    by_name = {one.name: one for one in found.benchmarks}
    print(line(f"{info.name}:"))
    for benchmark in planned.chosen:
        words = sweep.describe_plan(benchmark, info, planned.selection)
        print(line(f"{benchmark.name}: {words}: {_benchmark_text(by_name[benchmark.name])}"))
    for one in found.benchmarks:
        if one.is_open:
            print(line(f"{one.name}: {HIERARCHY_WORDS}: {_benchmark_text(one)}"))
    if planned.selection.reference:
        names = interleave.peer_names(planned.selection, info)
        print(line(f"peers here: {', '.join(names) or 'none'}"))
    for text in _totals(planned, found, output):
        print(line(text))


def _benchmark_text(one: BenchmarkEstimate) -> str:
    most = "about " if one.is_open else "at most " if one.grows or "peer" in one.amounts else ""
    counts = counts_text(one.points, one.repeats, one.most_trials, most, "up to ")
    return f"{counts}, about {format_duration(max(1.0, one.seconds))}"


def _totals(planned: PlannedRun, found: RunEstimate, output: Path | None) -> list[str]:
    least, most = found.seconds_range
    processes = sum(one.processes for one in found.benchmarks)
    time = f"about {format_duration(found.seconds)} ({format_duration(least)} to {format_duration(most)})"
    budget = planned.selection.budget_s
    if budget is not None and found.seconds > budget:
        time += f"; --budget ends it after {format_duration(budget)}"
    parts = counts_text(found.points, sum(one.repeats for one in found.benchmarks), found.trials)
    known = f", of which {planned.earlier.path} has {len(planned.earlier.records)}" if planned.earlier else ""
    return [
        f"points: {found.bound}{found.points} in {count(processes, 'process', 'processes')}",
        f"measurements: {found.bound}{found.all_records} ({parts}){known}",
        f"time: {time}",
        f"memory: {_memory_text(planned, found.array_bytes)}",
        f"disk: {_disk_text(found.file_bytes, output)}",
    ]


def _memory_text(planned: PlannedRun, array_bytes: int) -> str:
    """The most that arrays take, of the device's memory."""
    from clmembench.plan.estimate import MAX_ARRAYS

    if not array_bytes:
        return "not known: no benchmark here has array_bytes, by which it would be"
    all_bytes = format_bytes(planned.info.global_mem_bytes, 1)
    most = format_bytes(MAX_ARRAYS * array_bytes, 1)
    return f"at most {most} of {all_bytes} for arrays, {MAX_ARRAYS} of {format_bytes(array_bytes, 1)}"


def _disk_text(file_bytes: int, output: Path | None) -> str:
    """The size of the results file, and what is free where it will be."""
    folder = output.parent if output is not None else Path("reports")
    there = folder if folder.is_dir() else Path()
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        return f"about {format_bytes(file_bytes, 1)} in {folder}"
    short = ": too little, choose another place with -o" if free < file_bytes else ""
    return f"about {units.format_bytes(file_bytes, 1)} in {folder}, {units.format_bytes(free, 1)} free{short}"
