"""What one `run` is to measure on one device, checked before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clmembench import units
from clmembench.cli import exit_codes, options
from clmembench.cli.running import interrupted_run, run_header, session
from clmembench.studies import studies

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import Benchmark, BenchmarkInfo, DeviceInfo, Record, Run
    from clmembench.plan.estimate import BenchmarkEstimate, RunEstimate
    from clmembench.plan.selection import Selection
    from clmembench.studies import Study


MIN_ARRAY_BYTES = 64 << 10  # of --size: 256 work-items with a vector of 16 doubles each, twice


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `run` that say what is measured, as they were given; those of a run that is resumed are its own."""

    suite: str | None
    bench: Sequence[str]
    axis: Sequence[str]
    matrix: Sequence[Path]
    processes: int | None
    seed: int | None
    reference: bool
    size: str | None
    stored: Path | None
    no_tuning: bool
    no_isolate: bool
    budget: str | None
    timeout: str | None
    benchmark_timeout: str | None
    energy: bool

    def plan(self, info: DeviceInfo) -> PlannedRun:
        """The run on a device. Raises ValueError, SpecError and TuningError for what cannot be measured there."""
        selection = self._with_limits(self._selection(), info)
        info = _with_array_size(info, parse_array_bytes(self.size)) if self.size else info
        chosen = _chosen(info, selection)
        if not self.no_tuning:
            selection = session.with_stored_configurations(info, selection, chosen, self.stored)
        _check_points(info, selection, chosen)
        return PlannedRun(info, selection, chosen)

    def resume(self, info: DeviceInfo, selection: Selection, earlier: Run) -> PlannedRun:
        """The rest of an interrupted run. Ends the command where the device or the host are not as they were."""
        from clmembench.model.device_identity import renamed

        selection = self._with_limits(selection, info)
        chosen = _chosen(info, selection)
        _check_points(info, selection, chosen)
        found = PlannedRun(info, selection, chosen, earlier)
        interrupted_run.check_conditions(earlier, run_header.header(info, selection, found.cards()))
        return replace(found, info=renamed(earlier.header.device, info))

    def _selection(self) -> Selection:
        """What a new run measures, without its limits. Raises ValueError for what are no values of an axis."""
        from clmembench.plan.selection import EVERYTHING, Selection

        if self.suite == EVERYTHING and (self.bench or self.axis or self.matrix):
            raise ValueError("suite everything has all points of all parts: leave out -b, -a and --matrix, or use -s all")
        return Selection(
            suite=self.suite or ("all" if self.bench else "quick"),
            globs=tuple(self.bench),
            axes=options.parse_axes(list(self.axis), list(self.matrix)),
            processes=self.processes,
            seed=self.seed or 0,
            reference=self.reference or self.suite == EVERYTHING,
        )

    def _with_limits(self, selection: Selection, info: DeviceInfo) -> Selection:
        """The selection with the limits that were given, and with this host's CPUs. Raises ValueError for what is no
        duration."""
        from clmembench.host import cpu_topology

        return replace(
            selection,
            isolated=selection.isolated and not self.no_isolate,
            energy=self.energy,
            topology=cpu_topology.read() if info.kind == "cpu" else (),
            budget_s=units.parse_seconds(self.budget, "--budget") if self.budget else selection.budget_s,
            timeout_s=units.parse_seconds(self.timeout, "--timeout") if self.timeout else selection.timeout_s,
            benchmark_s=units.parse_seconds(self.benchmark_timeout, "--benchmark-timeout")
            if self.benchmark_timeout
            else selection.benchmark_s,
        )


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """What is measured on a device: the selection and its benchmarks, and the run that is resumed, if one is."""

    info: DeviceInfo
    selection: Selection
    chosen: Sequence[Benchmark]
    earlier: Run | None = None

    def _studies(self) -> list[Study]:
        """The studies that are a part of it."""
        from clmembench.plan.selection import EVERYTHING

        return [study for study in studies() if study.part and self.selection.suite == EVERYTHING]

    def cards(self) -> Mapping[str, BenchmarkInfo]:
        """The benchmarks that the header keeps: the chosen ones, their peers, and those of studies."""
        from clmembench.plan import interleave

        names = [*(benchmark.name for benchmark in self.chosen), *interleave.peer_names(self.selection, self.info)]
        cards = dict(session.cards(names))
        for study in self._studies():
            with study.errors("measures"):
                cards |= session.cards(study.measures)
        return cards

    def estimate(self, info: DeviceInfo) -> RunEstimate:
        """How many points it has and how long they take, all parts together, on a device with these features."""
        from clmembench.plan import estimate

        own: list[BenchmarkEstimate] = []
        for study in self._studies():
            part = study.call(study.part, self.selection, (), None)
            with study.errors(study.part):
                own += part.estimate(info).benchmarks if part.estimate is not None else ()
        return estimate.RunEstimate((*estimate.estimate_run(info, self.selection).benchmarks, *own))

    def _core_share(self, info: DeviceInfo) -> float:
        """The share of the budget for the selected benchmarks; the studies' own plans have the rest."""
        from clmembench.plan import estimate

        whole = self.estimate(info).seconds
        return estimate.estimate_run(info, self.selection).seconds / whole if whole else 1.0

    def records(self, info: DeviceInfo, found: ProbeResult, known: Sequence[Record]) -> Iterator[Record]:
        """Every record of it, as it is measured on the device with the features that were found."""
        from clmembench.measure.runner import run_selection
        from clmembench.measure.worker_process import WorkerError
        from clmembench.plan.budget import Deadline

        deadline, own = Deadline.after(self.selection.budget_s), self._studies()
        share = self._core_share(info) if own and self.selection.budget_s is not None else 1.0
        yield from run_selection(info.runtime, info, found, self.selection, known, deadline.share(share))
        for study in own:
            part = study.call(study.part, self.selection, known, deadline)
            with study.errors(study.part, WorkerError):
                yield from part.records(info, found)


@contextmanager
def usage_errors() -> Iterator[None]:
    """End the command where what was asked for cannot be measured, or a file of the user's is damaged."""
    from clmembench.results.tuned import TuningError
    from clmembench.specs.sheets import SpecError

    try:
        yield
    except (ValueError, SpecError, TuningError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)


def _chosen(info: DeviceInfo, selection: Selection) -> Sequence[Benchmark]:
    """The benchmarks of a selection. Raises ValueError where there are none, or an axis has no such values."""
    from clmembench.plan.selection import check_axes, selected_benchmarks

    chosen = [
        benchmark
        for benchmark in selected_benchmarks(selection)
        if not benchmark.origin or _is_usable(benchmark, info, selection)
    ]
    if not chosen:
        raise ValueError("nothing to measure: no benchmark of this selection can be used")
    check_axes(chosen, info, selection)
    return chosen


def _is_usable(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> bool:
    """Whether a benchmark of another origin says its points. One that does not is withdrawn with a warning, so that the others
    of a suite are measured. Raises ValueError where the user named it."""
    from clmembench.benchmarks.plugins import external
    from clmembench.benchmarks.plugins.foreign_code import ExternalError
    from clmembench.plan import sweep

    try:
        next(sweep.explore(benchmark, info, replace(selection, axes={})), None)
    except ExternalError as error:
        if benchmark.name in selection.globs:
            raise
        exit_codes.say(f"warning: {error}: it is left out")
        external.withdraw(benchmark.name)
        return False
    return True


def _check_points(info: DeviceInfo, selection: Selection, chosen: Sequence[Benchmark]) -> None:
    """Raises ValueError where there is no point to measure, and SpecError where two spec sheets match the device or one is
    damaged, which is better known before the run than after it."""
    from clmembench.plan import sweep
    from clmembench.specs import sheets

    sheets.match_sheet(info)
    if not any(next(sweep.explore(benchmark, info, selection), None) for benchmark in chosen):
        raise ValueError("nothing to measure: no benchmark has a point with all these values; see describe")


def parse_array_bytes(text: str) -> int:
    """The bytes of --size. Raises ValueError for what is no size, or holds too little to measure."""
    found = units.parse_bytes(text, "--size")
    if found < MIN_ARRAY_BYTES:
        size, least = units.format_bytes(found), f"{MIN_ARRAY_BYTES >> 10}KiB"
        raise ValueError(f"--size {size} holds too little for the work-groups of most benchmarks: raise it to {least} at least")
    return found


def _with_array_size(info: DeviceInfo, array_bytes: int) -> DeviceInfo:
    """The device with the user's --size. Raises ValueError where it cannot hold arrays of that size."""
    from clmembench.plan.estimate import MAX_ARRAYS, most_array_bytes

    size, most = units.format_bytes(array_bytes), most_array_bytes(info)
    lower = f"lower it to {most >> 20}MiB at most"
    if array_bytes > info.max_alloc_bytes:
        largest = units.format_bytes(info.max_alloc_bytes)
        raise ValueError(f"--size {size} is over this device's largest allocation, {largest}: {lower}")
    if array_bytes > most:
        raise ValueError(f"{MAX_ARRAYS} arrays of --size {size} are over this device's memory: {lower}")
    return replace(info, array_bytes=array_bytes)
