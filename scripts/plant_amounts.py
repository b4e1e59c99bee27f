"""Plants kernels that do another amount of work than is counted, measures them, and prints what found each, as a table.

The list is kernel_amounts.toml: for each kernel some changes that leave out loads, steps, terms or waits, or repeat one place.
A changed kernel is measured as `clmembench run` measures it, in a worker process, at the points that the list names for the
kind of device; it must not give a value that is `ok`. A change counts as found by the benchmark's own check, or by a gate that
needs nothing but the value and that the unchanged kernel passes. Points whose kernels do not contain the changed text do not
count: at those the kernel compiles though no compiler takes the text. The exit code is 1 where a change is not found and the
list has no reason, and where an unchanged kernel is wrong.
Usage: python scripts/plant_amounts.py [FILE ...] [--device cpu|gpu] [--only TEXT] [--jobs N] [--table FILE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.analysis.derive import derive
from clmembench.benchmarks import named
from clmembench.gates.impossible import impossible
from clmembench.measure.job import Job
from clmembench.measure.worker_process import Start, WorkerError, WorkerProcess, probed
from clmembench.model import BenchmarkInfo, Cause, DeviceInfo, Header, Point, Record, Run
from clmembench.plan.budget import Budget
from clmembench.resources import KERNELS_VARIABLE
from clmembench.runtimes import runtime

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("kernel_amounts.toml")
BRIEF = Budget(0.0, 0.05, 0.05, 1e6)
POINT_LIMIT_S = 120.0
VALUE_GATES = ("cycle", "grows")  # of one record, whatever the host does
NOT_FOUND, SKIPPED, GATE = "NOT FOUND", "not here: ", "gate "
UNBUILT = "does not compile: "
UNCOMPILABLE = "@"  # before a text: no kernel compiles that contains it, unless the preprocessor leaves it out
NOT_HERE = (SKIPPED, "skipped: ")  # how a finding without a change begins where the device has no such point


@dataclass(frozen=True, slots=True)
class Change:
    """A kernel file's text with another amount of work, and where it is measured."""

    file: str
    line: int
    name: str
    text: str
    uncompilable: str  # the text that does not compile where a kernel contains what is changed
    at: tuple[str, ...]
    reason: str


def changes(listed: Mapping[str, Any], kernels: Path = ROOT / "cl_kernels") -> list[Change]:
    """Every change of the list. Raises ValueError where the text that one replaces does not occur exactly once."""
    made = []
    for entry in listed["change"]:
        text = (kernels / f"{entry['file']}.cl").read_text(encoding="utf-8")
        if text.count(entry["old"]) != 1:
            raise ValueError(f"{entry['file']}.cl has {text.count(entry['old'])} times {entry['old']!r}: mend {LIST.name}")
        line = text[: text.index(entry["old"])].count("\n") + 1
        points = (entry["at"],) if isinstance(entry["at"], str) else tuple(entry["at"])
        changed, broken = (text.replace(entry["old"], by) for by in (entry["new"], UNCOMPILABLE + entry["old"]))
        made.append(Change(entry["file"], line, entry["kind"], changed, broken, points, entry.get("reason", "")))
    return made


@dataclass(frozen=True, slots=True)
class Bench:
    """A device and the points that are measured on it."""

    device: DeviceInfo
    job: Job
    points: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, kind: str, points: Mapping[str, Mapping[str, Any]]) -> Bench:
        """The first OpenCL device of that kind, probed."""
        device = next(info for info in runtime("opencl").devices() if info.kind == kind)
        found = probed(Job("opencl", device))
        job = Job(
            "opencl", device, budget=BRIEF, features=found.features, cycles_per_op=found.cycles_per_op, origin=found.origin,
            quantum_ns=found.quantum_ns,
        )  # fmt: skip
        return cls(device, job, points)

    def finding(self, name: str, kernels: Path | None) -> str:
        """What is found at a point with the kernels of a folder: empty where its value would be shown."""
        entry = self.points[name]
        params = {**entry.get("both", {}), **entry.get(self.device.kind, {})}
        if not {"both", self.device.kind} & entry.keys():
            return f"{SKIPPED}it has no point on a {self.device.kind}"
        environment = {KERNELS_VARIABLE: str(kernels)} if kernels is not None else {}
        job = replace(self.job, benchmark=entry["benchmark"])
        try:
            with WorkerProcess(job, Start(environment=environment)) as worker:
                return self._judged(worker.measure(Point(entry["benchmark"], params), POINT_LIMIT_S))
        except WorkerError as error:
            return f"{error.status}: {error}"

    def _judged(self, record: Record) -> str:
        if record.cause is Cause.BUILD:
            return f"{UNBUILT}{record.reason}"
        if record.status not in ("ok", "suspect"):
            return f"{record.status}: {record.reason}"
        if record.gate in VALUE_GATES:
            return f"{GATE}{record.gate}: {record.reason}"
        bench = named(record.benchmark)
        card = BenchmarkInfo(bench.version, bench.suite, "", "", bench.metrics)
        head = Header(
            schema=1, tool_version="", run_id="", started="", argv=(), suite="", seed=0, runtime="opencl", device=self.device,
            features=(), host={}, benchmarks={record.benchmark: card},
        )  # fmt: skip
        run = Run("", head, (replace(record, status="ok", gate="", reason=""),))
        return next((f"{GATE}impossible: {reason}" for _, reason in impossible(derive(run), run)), "")


def plant(bench: Bench, change: Change, clean: Mapping[str, str]) -> str:
    """The first finding of a changed kernel; empty where one of its points has none. `clean` has the findings without it."""
    here = [name for name in change.at if not clean[name].startswith(NOT_HERE)]
    if not here:
        return f"{SKIPPED}{clean[change.at[0]].removeprefix(SKIPPED)}"
    found = _findings(bench, change.file, change.text, here)
    missed = [name for name in here if not found[name] or (found[name].startswith(GATE) and clean[name].startswith(GATE))]
    missed += [name for name in here if found[name].startswith(UNBUILT)]
    elsewhere = [name for name, broken in _findings(bench, change.file, change.uncompilable, missed).items() if not broken]
    run = [name for name in here if name not in elsewhere]
    for name in elsewhere:
        print(f"{change.file}.cl:{change.line} {change.name}: no kernel of {name} contains it", file=sys.stderr)
    for name in set(missed) & set(run):
        print(f"{change.file}.cl:{change.line} {change.name}: not found at {name}. {found[name]}", file=sys.stderr)
    if not run:
        return f"{SKIPPED}no kernel of its points contains what is changed"
    return "" if set(missed) & set(run) else found[run[0]]


def _findings(bench: Bench, file: str, text: str, points: Sequence[str]) -> dict[str, str]:
    """What is found at each point with another text of a kernel file."""
    with tempfile.TemporaryDirectory(prefix="amounts-") as folder:
        (Path(folder) / f"{file}.cl").write_text(text, encoding="utf-8")
        return {name: bench.finding(name, Path(folder)) for name in points}


def table(rows: Sequence[tuple[Change, str]]) -> str:
    """A row for each change."""
    lines = ["| kernel | change | found by | why none can |", "|---|---|---|---|"]
    for change, found in rows:
        cell = (found or (NOT_FOUND if not change.reason else "–")).split("\n")[0].replace("|", "\\|")[:140]
        lines.append(f"| `{change.file}.cl:{change.line}` | {change.name} | {cell} | {change.reason} |")
    return "\n".join(lines)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="kernel files without .cl; all when none is named")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--only", default="", help="changes with this text in their description")
    parser.add_argument("--jobs", type=int, default=2, help="changes that are measured at the same time")
    parser.add_argument("--table", type=Path, help="also write the table into this file")
    return parser.parse_args(arguments)


def main() -> int:
    """Plants the changes; returns the exit code."""
    given, listed = options(), tomllib.loads(LIST.read_text(encoding="utf-8"))
    planted = [c for c in changes(listed) if c.file in (given.files or [c.file]) and given.only in c.name]
    bench = Bench.of(given.device, listed["at"])
    with ThreadPoolExecutor(given.jobs) as pool:
        names = sorted({name for change in planted for name in change.at})
        clean = dict(zip(names, pool.map(lambda name: bench.finding(name, None), names), strict=True))
        broken = {name: found for name, found in clean.items() if found and not found.startswith((*NOT_HERE, GATE))}
        for name, found in clean.items():
            if found:
                print(f"without a change, {name}: {found}", file=sys.stderr)
        rows: list[tuple[Change, str]] = []
        for change, found in zip(planted, pool.map(lambda change: plant(bench, change, clean), planted), strict=True):
            rows.append((change, found))
            print(f"{change.file}.cl:{change.line} {change.name}: {found or NOT_FOUND}", file=sys.stderr, flush=True)
            if given.table:
                given.table.write_text(table(rows) + "\n", encoding="utf-8")
    print(table(rows))
    missed = [change for change, found in rows if not found and not change.reason]
    elsewhere = sum(found.startswith(SKIPPED) for _, found in rows)
    print(f"{len(rows)} changes; {len(missed)} not found, {elsewhere} not of this device", file=sys.stderr)
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
