"""Estimates of a run before it: how many points, how long, how much memory and disk. A run corrects them as it goes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from clmembench.model import CHASE_BENCHMARK, Benchmark, DeviceInfo, Place, Plan, Point, Record
from clmembench.model.sharing import SHARING_BENCHMARK
from clmembench.plan.configurations import missing_features
from clmembench.plan.hierarchy import L2_MAP, MAX_MAPPED_CORES
from clmembench.plan.interleave import available_peers, interleave_peers
from clmembench.plan.selection import Selection, selected_benchmarks
from clmembench.plan.sharing import GPU_POINTS
from clmembench.plan.sweep import explore

MAX_ARRAYS = 3  # of one size that a benchmark holds
RECORD_BYTES = 8 << 10  # of a results file: 3 to 10 KiB a record in reports/
HEADER_BYTES = 24 << 10
TIME_FACTOR = 2.5  # by which a run of reports/ may be shorter or longer than its estimate


@dataclass(frozen=True, slots=True)
class PointCost:
    """Seconds that a point takes on a kind of device: to be prepared and checked, and to be sampled as a share of the longest
    time that it may sample; the same of a tuning trial; and to start a worker process. Fitted to the runs of reports/."""

    prepare_s: float
    sampled_share: float
    trial_s: float
    trial_share: float
    process_s: float


COSTS = {
    "cpu": PointCost(prepare_s=0.25, sampled_share=0.65, trial_s=0.25, trial_share=0.35, process_s=0.5),
    "gpu": PointCost(prepare_s=0.1, sampled_share=0.15, trial_s=0.05, trial_share=0.05, process_s=0.9),
}
HIERARCHY_POINTS = 650  # of an inquiry into the memory hierarchy
HIERARCHY_POINT_S = {"cpu": 0.25, "gpu": 0.11}
GPU_MAP_POINTS, MAP_POINT_S = 2, 3.0  # of a map of the last cache: points of a GPU, and seconds of one
SHARING_S = 10.0  # of a GPU's points of cache_sharing, most of which build a program
ENERGY_S = 2.1  # of a point whose energy is wanted, by a counter that is updated every 100 ms: of a CPU's its samples suffice
PEER_S = 1.5  # of a point of a host's library or program, most of which sets its problem up


@dataclass(frozen=True, slots=True)
class BenchmarkEstimate:
    """Of one benchmark and its peers: points, tuning trials, records of points in all processes, worker processes, seconds,
    and bytes of its largest array. `grows`: these are the most, since an axis grows until its metric settles."""

    name: str
    points: int
    trials: int
    records: int
    processes: int
    seconds: float
    array_bytes: int
    grows: bool

    @property
    def all_records(self) -> int:
        """Lines of the results file."""
        return self.records + self.trials


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Estimates of every benchmark of a run, in the order of the run."""

    benchmarks: tuple[BenchmarkEstimate, ...]

    @property
    def points(self) -> int:
        return sum(one.points for one in self.benchmarks)

    @property
    def trials(self) -> int:
        return sum(one.trials for one in self.benchmarks)

    @property
    def all_records(self) -> int:
        return sum(one.all_records for one in self.benchmarks)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.benchmarks)

    @property
    def seconds_range(self) -> tuple[float, float]:
        """The time that the run may take, from and to."""
        return self.seconds / TIME_FACTOR, self.seconds * TIME_FACTOR

    @property
    def array_bytes(self) -> int:
        """Bytes of the largest array; 0 where no benchmark has array_bytes."""
        return max((one.array_bytes for one in self.benchmarks), default=0)

    @property
    def file_bytes(self) -> int:
        """Bytes of the results file."""
        return HEADER_BYTES + RECORD_BYTES * self.all_records


def estimate_run(info: DeviceInfo, selection: Selection) -> RunEstimate:
    """The estimates of a selection on a device, by the features that its driver claims."""
    found = []
    for benchmark in selected_benchmarks(selection):
        others = available_peers(benchmark, info) if selection.reference else ()
        plan = explore(benchmark, info, selection)
        if others:
            plan = interleave_peers(plan, benchmark, others, info, selection)
        found.append(_estimate(benchmark, others, plan, info, selection))
    return RunEstimate(tuple(found))


def estimate_selections(info: DeviceInfo, selections: Sequence[Selection]) -> RunEstimate:
    """The estimates of several selections, one after the other."""
    return RunEstimate(tuple(one for selection in selections for one in estimate_run(info, selection).benchmarks))


def _estimate(
    benchmark: Benchmark, others: Collection[Benchmark], plan: Plan, info: DeviceInfo, selection: Selection
) -> BenchmarkEstimate:
    cost = COSTS["cpu" if info.has_cpu_cores else "gpu"]
    points = walk(plan, benchmark)
    limits = {process: selection.budget_in(benchmark, process) for process in (0, 1)}
    measured = [point for point in points if point.role == "measure"]
    started: set[tuple[str, Place, int]] = set()
    seconds, records = 0.0, 0
    for point in points:
        records += (point.processes - point.first) * (point.role == "measure")
        if point.reason or (point.benchmark == benchmark.name and missing_features(benchmark, point.params, info.features)):
            continue  # it is skipped at once
        for process in range(point.first, point.processes):
            started.add((point.benchmark, point.place, process))
            limit = limits[min(1, process)]
            sampled = max(limit.min_time_s, cost.sampled_share * limit.max_time_s)
            if point.benchmark != benchmark.name:
                seconds += PEER_S
            elif point.role == "tune":
                seconds += cost.trial_s + cost.trial_share * limit.max_time_s
            else:
                seconds += cost.prepare_s + sampled + ENERGY_S * (limit.energy and not info.has_cpu_cores)
    sizes = [value for point in measured if isinstance(value := point.params.get("array_bytes"), int)]
    return BenchmarkEstimate(
        name=benchmark.name,
        points=len({(p.benchmark, tuple(sorted(p.params.items())), p.place) for p in measured}),
        trials=len(points) - len(measured),
        records=records,
        processes=len(started),
        seconds=seconds + cost.process_s * len(started),
        array_bytes=max(sizes, default=0),
        grows=any(axis.per_octave and name not in selection.axes for name, axis in benchmark.axes.items()),
    )


def hierarchy_estimate(info: DeviceInfo) -> RunEstimate:
    """What an inquiry into the memory hierarchy takes, whose every question depends on earlier answers, by those of
    reports/."""
    seconds = HIERARCHY_POINTS * HIERARCHY_POINT_S["cpu" if info.has_cpu_cores else "gpu"]
    chase = BenchmarkEstimate(CHASE_BENCHMARK, HIERARCHY_POINTS, 0, HIERARCHY_POINTS, 1, seconds, 0, grows=True)
    count = min(MAX_MAPPED_CORES, info.compute_units) if info.kind == "cpu" else GPU_MAP_POINTS
    l2_map = BenchmarkEstimate(L2_MAP, count, 0, count, count, count * MAP_POINT_S, 0, grows=True)
    points = 1 if info.has_cpu_cores else GPU_POINTS
    seconds = 0.0 if info.has_cpu_cores else SHARING_S
    sharing = BenchmarkEstimate(SHARING_BENCHMARK, points, 0, points, 1, seconds, 0, grows=True)
    return RunEstimate((chase, sharing, l2_map))


def walk(plan: Plan, benchmark: Benchmark) -> list[Point]:
    """Every point that a plan asks for where all are measured, no trial beats the first configuration and no curve settles."""
    asked: list[Point] = []
    answers: list[Record] | None = None
    while True:
        try:
            points = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            return asked
        asked += points
        answers = [Record(p.benchmark, benchmark.version, p.params, p.place, 0, "ok", role=p.role) for p in points]
