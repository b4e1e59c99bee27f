"""`run -d all --together`: the points of several devices once more, all devices at once, beside each alone: what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clmembench.cli import exit_codes, outputs, stored_runs
from clmembench.cli.running.progress import progress
from clmembench.sanitize import line
from clmembench.units import count

if TYPE_CHECKING:
    from clmembench.cli.running.several_devices import Target
    from clmembench.model import Plan, Point, Record, Run
    from clmembench.results.jsonl import Writer

SUFFIX = "-together"  # of the name of a device's second file
TAG = "together"


def file_of(path: Path) -> Path:
    """The file of what a device measures while the others do, beside that of the device alone."""
    from clmembench.results import run_files

    stem, suffix = run_files.split_suffix(path)
    return stem.with_name(f"{stem.name}{SUFFIX}{suffix}")


def measure(targets: Sequence[Target], one_by_one: Callable[[], object], overwrite: bool) -> None:
    """Measure devices `one_by_one`, then their points again on all devices at once, and compare both. In each round every
    device measures its next point of one benchmark, with the configuration that was best alone. Ends the command where devices
    cannot be used, after Ctrl-C, and as the devices alone did."""
    for target in targets:
        if target.output is not None and (path := file_of(target.output)).exists():
            outputs.check(path, overwrite)
    code = exit_codes.OK
    try:
        one_by_one()
    except typer.Exit as ended:
        code = ended.exit_code
        if code == exit_codes.INTERRUPTED:
            raise
    _measure(targets, overwrite)
    raise typer.Exit(code)


def _measure(targets: Sequence[Target], overwrite: bool) -> None:
    from clmembench.host import device_lock
    from clmembench.measure.worker_process import WorkerError
    from clmembench.results import jsonl

    alone = [(target, jsonl.read(target.output)) for target in targets if target.output and target.output.is_file()]
    if len(alone) < 2:
        exit_codes.stop("fewer than two devices have been measured: nothing to measure together", exit_codes.FAILED)
    try:
        with ExitStack() as stack:
            stack.enter_context(device_lock.held(*(target.planned.info for target, _ in alone)))
            sides = [_Side(target, run, f"{len(alone)} devices", overwrite) for target, run in alone]
            for side in sides:
                stack.enter_context(side.writer)
            _measure_rounds(sides)
    except (device_lock.HeldError, WorkerError) as error:
        exit_codes.stop(str(error), exit_codes.NO_DEVICE)
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    except KeyboardInterrupt:
        exit_codes.stop("interrupted: files hold every record up to here", exit_codes.INTERRUPTED)
    for side in sides:
        _print_comparison(side)
    print(_overlap_text(sides))


class _Side:
    """One of the devices: the run of it alone, and the file that is written. Raises WorkerError and ResultsError."""

    def __init__(self, target: Target, alone: Run, words: str, overwrite: bool) -> None:
        from ulid import ULID

        from clmembench.measure import worker_process
        from clmembench.measure.job import Job
        from clmembench.results.jsonl import Writer

        assert target.output is not None
        planned = target.planned
        self.alone, self.selection = alone, planned.selection
        self.records: list[Record] = []
        self.found = worker_process.probed(Job(planned.info.runtime, planned.info), self.selection.isolated)
        self.info = replace(planned.info, features=self.found.features)
        head = replace(
            alone.header,
            run_id=str(ULID()),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            tags={**alone.header.tags, TAG: words},
        )
        self.writer: Writer = Writer(file_of(target.output), head, overwrite)

    def points(self, benchmark: str) -> list[Point]:
        """The points of a benchmark that have a value, each once."""
        from clmembench.model import Point

        return list(
            {
                (str(sorted(one.params.items(), key=str)), one.place): Point(benchmark, one.params, one.place)
                for one in self.alone.records
                if one.benchmark == benchmark and one.role == "measure" and one.status in ("ok", "suspect")
            }.values()
        )

    def measured(self, benchmark: str) -> Iterator[Record]:
        """The records of those points, as they are measured."""
        from clmembench.benchmarks import discovered
        from clmembench.measure.quiet import Repeats
        from clmembench.measure.runner import run_plan

        plan, info = _only(self.points(benchmark)), self.info
        repeats = Repeats(info, wait=lambda info, most_s: ["the other devices are measured"])
        return run_plan(plan, discovered()[benchmark], info.runtime, info, self.found, self.selection, repeats=repeats)


def _only(points: Sequence[Point]) -> Plan:
    """The plan of these points alone."""
    yield points


def _measure_rounds(sides: Sequence[_Side]) -> None:
    from clmembench.benchmarks import discovered

    names = dict.fromkeys(name for side in sides for name in side.alone.header.benchmarks if name in discovered())
    with ThreadPoolExecutor(len(sides)) as pool, progress() as shown:
        for name in names:
            going = {side: side.measured(name) for side in sides}
            try:
                while going:
                    for side, record in zip(list(going), list(pool.map(_next, going.values())), strict=True):
                        if record is None:
                            del going[side]
                            continue
                        side.writer.write(record)
                        side.records.append(record)
                        shown.show(record)
            finally:
                for records in going.values():
                    records.close()  # type: ignore[attr-defined]  # ends the worker process


def _next(records: Iterator[Record]) -> Record | None:
    return next(records, None)


def _print_comparison(side: _Side) -> None:
    """The values of a device beside those of it alone."""
    from clmembench.analysis import compare
    from clmembench.gates.whole import judged_run
    from clmembench.report import comparison

    runs = [stored_runs.load(Path(path)) for path in (side.alone.path, str(side.writer.path))]
    first, second = (judged_run(run, stored_runs.sheet_of(run)) for run in runs)
    names = [f"{side.info.name} alone ({first.path})", f"with the other devices ({second.path})"]
    print(comparison.comparison_text(names, [compare.compare(first, second)], False, frozenset(), *outputs.layout()))


def _overlap_text(sides: Sequence[_Side]) -> str:
    """How much of the time all devices were measuring, and where the files are."""
    spans = [[(datetime.fromisoformat(r.started).timestamp(), r.seconds) for r in side.records if r.started] for side in sides]
    shares = []
    for together in zip(*spans, strict=False):
        begins, ends = [begun for begun, _ in together], [begun + seconds for begun, seconds in together]
        shares.append(max(0.0, min(ends) - max(begins)) / max(1e-9, max(ends) - min(begins)))
    share = sum(shares) / max(1, len(shares))
    files = " ".join(line(str(side.writer.path)) for side in sides)
    return f"All {count(len(sides), 'device')} measured at once for {share:.0%} of the time of a point\nFiles: {files}"
