"""Measures the cost of a report over many runs: copies stored runs, reports on them, and prints time, memory and size.

Copies have their own run ids and start times, and times that differ by some per cent between runs, as on real machines; one in
a hundred is slower by a third. With `--records N` each keeps N records, like a short suite. With `--again` the report is made
twice, the second time from the digests that the first has stored beside the runs. Peak memory is the largest sum of the
resident sets of the process and its workers, read every 50 ms (shared pages count for each).
Usage: python scripts/report_cost.py [--runs 1000] [--records N] [--form html] [--again] [RUN...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STORED = sorted((Path(__file__).parent.parent / "reports").glob("*.jsonl"))
TIME_FIELDS = ("host_ns", "device_ns", "queue_ns", "cpu_ns")


def main() -> None:
    """Makes the runs, reports on them, and prints the cost."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    options.add_argument("stored", nargs="*", type=Path, default=STORED, help="runs to copy; those in reports/ if not given")
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--records", type=int, default=None, help="of each run, at most")
    options.add_argument("--form", choices=("html", "md"), default="html")
    options.add_argument("--again", action="store_true", help="make the report a second time")
    options.add_argument("--keep", type=Path, default=None, help="copy the report there")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        paths = list(make_copies(chosen.stored, Path(folder), chosen.runs, chosen.records))
        total = sum(path.stat().st_size for path in paths)
        print(f"made {len(paths)} runs of {total / 1e6:,.0f} MB in {time.monotonic() - begun:.1f} s")
        report = Path(folder) / f"report.{chosen.form}"
        for what in ("report", "again") if chosen.again else ("report",):
            used = _cpu_s()
            seconds, peak_kib, code = run_watched(
                [
                    "report",
                    *map(str, paths),
                    "-f",
                    chosen.form,
                    "-o",
                    str(report),
                    *(["--overwrite"] if what == "again" else []),
                ]
            )
            size = report.stat().st_size if report.exists() else 0
            took = f"{seconds:.1f} s ({_cpu_s() - used:.1f} CPU s)"
            print(f"{what}: {took}, peak {peak_kib / 1024:,.0f} MiB, {size / 1e6:.2f} MB, exit code {code}")
        if chosen.keep is not None and size:
            chosen.keep.write_bytes(report.read_bytes())


def _cpu_s() -> float:
    """CPU seconds of the child processes that have ended, and of their children."""
    used = os.times()
    return used.children_user + used.children_system


def make_copies(stored: list[Path], folder: Path, count: int, records: int | None) -> Iterator[Path]:
    """That many files: copies of the stored runs in rotation, each with a speed of its own."""
    lines = [path.read_text(encoding="utf-8").splitlines() for path in stored]
    parsed = [(json.loads(first), [json.loads(line) for line in _thin_record(rest, records)]) for first, *rest in lines]
    for number in range(count):
        header, found = parsed[number % len(parsed)]
        rng = random.Random(number)  # noqa: S311 - of a test's runs
        speed = rng.gauss(1.0, 0.02) * (1.33 if number % 100 == 77 else 1.0)
        head = {**header, "run_id": f"RUN{number:023d}", "started": f"2026-01-{1 + number % 28:02d}T00:00:00+00:00"}
        path = folder / f"{number:04d}.jsonl"
        slower = [json.dumps(_slow_record(record, speed), separators=(",", ":")) for record in found]
        path.write_text("\n".join([json.dumps(head), *slower, ""]), encoding="utf-8")
        yield path


def _thin_record(lines: list[str], records: int | None) -> list[str]:
    if records is None or len(lines) <= records:
        return lines
    return [lines[i * len(lines) // records] for i in range(records)]


def _slow_record(record: dict[str, Any], speed: float) -> dict[str, Any]:
    """The record with all times multiplied by a factor."""
    series = [
        {k: [round(t * speed) for t in v] if k in TIME_FIELDS and v is not None else v for k, v in one.items()}
        for one in record["series"]
    ]
    return {**record, "series": series}


def run_watched(arguments: list[str]) -> tuple[float, int, int]:
    """Seconds, the peak resident KiB of the command and its children, and its exit code."""
    begun, peak = time.monotonic(), 0
    process = subprocess.Popen([sys.executable, "-P", "-m", "clmembench", *arguments])
    while process.poll() is None:
        peak = max(peak, sum(_resident_kib(pid) for pid in _family(process.pid)))
        time.sleep(0.05)
    return time.monotonic() - begun, peak, process.returncode


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in _family(int(child)))]


def _resident_kib(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    main()
