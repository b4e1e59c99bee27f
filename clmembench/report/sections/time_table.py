"""Where the time of a run went, by benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from clmembench.model import Record, Run
from clmembench.report.table import Column, Table, View

PARTS = ("start", "build", "check", "sample", "repeat")
BEFORE = "before the first point"  # the row of what no benchmark took
TITLE = "Seconds of the run, by benchmark: starts of processes, builds, checks, sampling, repeats."
NOTES = (
    "other: data and buffers, readings of clock and sensors; in older runs also builds and checks",
    "between: from a record's end to the next one's start, less the start of its process",
    f"{BEFORE}: the host's load, devices, and programs that are built beforehand",
)


@dataclass(slots=True)
class BenchmarkTime:
    """The records of a benchmark, its processes, and the seconds that they took."""

    name: str
    points: int = 0
    trials: int = 0
    processes: set[object] = field(default_factory=set)
    seconds: float = 0.0
    between_s: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @property
    def other_s(self) -> float:
        return self.seconds - sum(self.parts[part] for part in ("build", "check", "sample"))

    @property
    def total_s(self) -> float:
        return self.seconds + self.between_s + self.parts["start"] + self.parts["repeat"]

    def add(self, record: Record, between_s: float) -> None:
        self.points += record.role == "measure"
        self.trials += record.role == "tune"
        self.processes.add((record.place, record.process))
        self.seconds += record.seconds
        sampled_s = sum(sum(s.host_ns) + sum(s.warmups_ns) for s in record.series) / 1e9  # in older runs
        parts = {"sample": min(record.seconds, sampled_s), **record.parts_s}
        before_s = max(0.0, record.seconds - parts["sample"] - parts.get("check", 0.0))
        parts["build"] = min(parts.get("build", 0.0), before_s)  # kernel_build's are its samples
        for part in PARTS:
            self.parts[part] += parts.get(part, 0.0)
        self.between_s += max(0.0, between_s - parts.get("start", 0.0) - parts.get("repeat", 0.0))


def _seconds(value: float) -> str:
    return f"{value:.1f}"


TIMES: View[BenchmarkTime] = View(
    names=((Column("benchmark"), lambda one: one.name),),
    values=(
        (Column("points", is_number=True), lambda one: str(one.points)),
        (Column("trials", is_number=True), lambda one: str(one.trials)),
        (Column("processes", is_number=True), lambda one: str(len(one.processes))),
        (Column("start", is_number=True), lambda one: _seconds(one.parts["start"])),
        (Column("build", is_number=True), lambda one: _seconds(one.parts["build"])),
        (Column("check", is_number=True), lambda one: _seconds(one.parts["check"])),
        (Column("sample", is_number=True), lambda one: _seconds(one.parts["sample"])),
        (Column("other", is_number=True), lambda one: _seconds(one.other_s)),
        (Column("repeat", is_number=True), lambda one: _seconds(one.parts["repeat"])),
        (Column("between", is_number=True), lambda one: _seconds(one.between_s)),
        (Column("all", is_number=True), lambda one: _seconds(one.total_s)),
    ),
)


def lead_s(run: Run) -> float:
    """Seconds from the run's start to that of the first process that measured: the host's load, devices, programs built
    beforehand."""
    first = min((record for record in run.records if record.started), key=lambda record: record.started, default=None)
    if first is None:
        return 0.0
    begun, ended = (datetime.fromisoformat(at).timestamp() for at in (run.header.started, first.started))
    return max(0.0, ended - begun - first.parts_s.get("start", 0.0))


def times_of(records: Iterable[Record], before_s: float = 0.0) -> list[BenchmarkTime]:
    """The time of every benchmark, the longest first, that before the first of them, and their sum; records that were not tried
    took none."""
    found: dict[str, BenchmarkTime] = {}
    before, whole, end_s = BenchmarkTime(BEFORE, between_s=before_s), BenchmarkTime("all", between_s=before_s), 0.0
    for record in sorted((record for record in records if record.started), key=lambda record: record.started):
        begun_s = datetime.fromisoformat(record.started).timestamp()
        one = found.setdefault(record.benchmark, BenchmarkTime(record.benchmark))
        for of in (one, whole):
            of.add(record, begun_s - end_s if end_s else 0.0)
        end_s = begun_s + record.seconds
    whole.processes = {(name, process) for name, one in found.items() for process in one.processes}
    return [*sorted(found.values(), key=lambda one: -one.total_s), *([before] if before_s else []), whole]


def section(run: Run, chosen: Run) -> Table:
    """Where the time of a run went, of its chosen records."""
    made = TIMES.table(times_of(chosen.records, lead_s(run)), title=TITLE)
    return Table(made.title, made.columns, made.rows, NOTES)
