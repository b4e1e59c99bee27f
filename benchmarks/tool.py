"""Benchmarks of the tool itself with pyperf: start-up, `show` and `report` of one run, and `report` of many runs.

    python benchmarks/tool.py -o tool.json                                     # --help, show and report of one run
    python benchmarks/tool.py --runs 1000 -p 3 -n 1 -w 0 -l 1 -o many.json     # report of 1,000 runs: time and peak memory
    python -m pyperf compare_to before.json after.json --table

Many runs are copies of the stored ones. Each copy has its own run id and start time, and its times differ by some per cent,
as between real runs; one run in a hundred is a third slower.
Peak memory is the largest sum of the resident sets of the process and its workers, read every 50 ms; shared pages count for
each. All other options are those of pyperf.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyperf

STORED = Path(__file__).parent.parent / "reports"
COMMAND = (sys.executable, "-P", "-m", "clmembench")
TIME_FIELDS = ("host_ns", "device_ns", "queue_ns", "cpu_ns")
RESIDENT_INTERVAL_S = 0.05


def main() -> None:
    """Run the benchmarks, or one of them in a process of pyperf."""
    import pyperf

    runner = pyperf.Runner(processes=5, add_cmdline_args=pass_on)
    add = runner.argparser.add_argument
    add("--runs", type=int, default=0, help="report this many copies of stored runs; by default one-run commands are measured")
    add("--records", type=int, default=100, help="records of each copy, at most")
    add("--stored", type=Path, default=STORED, help="folder of the stored runs")
    add("--copies", type=Path, help=argparse.SUPPRESS)  # made by the first process, for those that measure
    options = runner.parse_args()
    if not options.runs:
        measure_single_run(runner, find_stored(options.stored, "h200-sxm-quick"))
    elif options.copies:
        measure_many_runs(runner, options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            options.copies = Path(folder)
            write_copies(find_stored(options.stored, "*"), options.copies, options.runs, options.records)
            measure_many_runs(runner, options)


def pass_on(command: list[str], options: argparse.Namespace) -> None:
    """Give this script's options to the processes that measure."""
    command += ["--runs", str(options.runs), "--records", str(options.records), "--stored", str(options.stored)]
    command += ["--copies", str(options.copies)] if options.copies else []


def find_stored(folder: Path, name: str) -> list[Path]:
    """The stored runs of that name or pattern, compressed or not."""
    return sorted([*folder.glob(f"{name}.jsonl"), *folder.glob(f"{name}.jsonl.gz")])


def measure_single_run(runner: pyperf.Runner, stored: list[Path]) -> None:
    """The commands on one run, each a process from start to end."""
    (run,) = map(str, stored)
    runner.bench_command("help", [*COMMAND, "--help"])
    runner.bench_command("show", [*COMMAND, "show", run])
    runner.bench_command("report", [*COMMAND, "report", run])


def measure_many_runs(runner: pyperf.Runner, options: argparse.Namespace) -> None:
    """A report of all copies: seconds, and bytes of memory."""
    name = f"report_{options.runs}_runs"
    runner.bench_time_func(name, repeated(lambda: report_copies(options.copies)[0]))
    memory = repeated(lambda: report_copies(options.copies)[1])
    runner.bench_time_func(f"{name}_memory", memory, metadata={"unit": "byte"})


def repeated(measure: Callable[[], float]) -> Callable[[int], float]:
    """The sum of that many measurements, as pyperf asks for it."""
    return lambda loops: sum(measure() for _ in range(loops))


def report_copies(folder: Path) -> tuple[float, int]:
    """Seconds and peak resident bytes of a report of a folder's runs."""
    page = folder / "report.html"
    began, peak = time.perf_counter(), 0
    command = [*COMMAND, "report", *map(str, sorted(folder.glob("*.jsonl"))), "-o", str(page), "--overwrite"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(resident_bytes, process_tree(process.pid))))
        time.sleep(RESIDENT_INTERVAL_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command[:5])
    return time.perf_counter() - began, peak


def write_copies(stored: list[Path], folder: Path, count: int, records: int) -> None:
    """Copies of the stored runs in rotation, each with its own speed."""
    parsed = [read_run(path, records) for path in stored]
    for number in range(count):
        header, kept = parsed[number % len(parsed)]
        rng = random.Random(number)  # noqa: S311 - the same copies each time
        speed = rng.gauss(1.0, 0.02) * (1.33 if number % 100 == 77 else 1.0)
        head = {**header, "run_id": f"RUN{number:023d}", "started": f"2026-01-{1 + number % 28:02d}T00:00:00+00:00"}
        lines = [json.dumps(line, separators=(",", ":")) for line in (head, *slowed(kept, speed))]
        (folder / f"{number:04d}.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")


def read_run(path: Path, records: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header of a run and that many of its records, evenly chosen."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        first, *lines = file.read().splitlines()
    count = min(records, len(lines))
    return json.loads(first), [json.loads(lines[i * len(lines) // count]) for i in range(count)]


def slowed(records: list[dict[str, Any]], speed: float) -> Iterator[dict[str, Any]]:
    """The records with all times multiplied by a factor."""
    for record in records:
        series = [
            {key: [round(ns * speed) for ns in value] if key in TIME_FIELDS and value else value for key, value in one.items()}
            for one in record["series"]
        ]
        yield {**record, "series": series}


def process_tree(pid: int) -> list[int]:
    """The process and all that it started, as far as they still run."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in process_tree(int(child)))]


def resident_bytes(pid: int) -> int:
    """The resident set of a process; 0 where it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
