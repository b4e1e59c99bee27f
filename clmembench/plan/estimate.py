"""Estimates of a run before it starts: points, time, memory and disk. A run corrects them as it progresses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clmembench.analysis.plateaus import memory_floor_bytes
from clmembench.model import Benchmark, DeviceInfo, Point, Record
from clmembench.plan.configurations import missing_features, most_trials
from clmembench.plan.interleave import available_peers, interleave_peers
from clmembench.plan.measurements import Measurement, Use, can_share_process, has_peers_process, walk
from clmembench.plan.selection import Selection, measuring_order
from clmembench.plan.sweep import explore

MAX_ARRAYS = 3  # arrays of the same size that a benchmark holds
RECORD_BYTES = 8 << 10  # in a results file: 3 to 10 KiB per record in reports/
HEADER_BYTES = 24 << 10
TIME_FACTOR = 2.5  # up to which runs in reports/ took longer or shorter than estimated


@dataclass(frozen=True, slots=True)
class PointCost:
    """Seconds that a point takes on a kind of device, fitted to the runs in reports/.

    `prepare_s` covers preparation and check, `sampled_share` is the sampling time as a share of the longest allowed one;
    `trial_s` and `trial_share` are the same for a tuning trial. `process_s` is the start of a worker process.
    """

    prepare_s: float
    sampled_share: float
    trial_s: float
    trial_share: float
    process_s: float


COSTS = {
    "cpu": PointCost(prepare_s=0.25, sampled_share=0.65, trial_s=0.25, trial_share=0.35, process_s=0.5),
    "gpu": PointCost(prepare_s=0.1, sampled_share=0.15, trial_s=0.05, trial_share=0.05, process_s=0.9),
}
# measured over estimated time of the benchmarks for which it is over 1.3 or under 1 / 1.3 in full runs in reports/: some
# build a program for each point
TIME_RATIOS = {
    "cpu": {"arithmetic": 0.37, "copy_grid": 1.5, "datatypes": 1.9, "device_barrier": 0.57, "dgemm": 1.5, "divergence": 0.66,
            "kernel_build": 3.8, "l2_map": 2.5, "launch": 0.28, "launch_call": 0.5, "launch_method": 0.4,
            "launch_wait": 0.39, "loaded_latency": 1.3, "local_read": 0.43, "pchase": 1.2, "reduction": 0.7, "spmv": 2.2,
            "stream": 1.6, "transfer": 2, "transfer_latency": 0.36, "transfer_overlap": 4.3, "transpose": 2.4,
            "usm_bandwidth": 1.9},
    "gpu": {"arithmetic": 0.59, "atomic": 0.38, "banks": 0.25, "barrier": 0.23, "barrier_exchange": 0.23, "cache_read": 0.54,
            "copy_grid": 0.4, "core_to_core": 11, "datatypes": 0.27, "device_barrier": 0.44, "dgemm": 2.4,
            "divergence": 0.25, "gemm": 2.9, "instruction": 0.39, "kernel_build": 1.5, "l2_map": 30, "launch": 0.26,
            "launch_call": 0.43, "launch_dispatch": 1.5, "launch_method": 0.22, "launch_wait": 0.21, "loaded_latency": 1.7,
            "local_copy": 0.27, "local_read": 0.45, "pchase": 0.67, "private_array": 0.35, "spmv": 2.5, "step_latency": 0.26,
            "stream": 0.48, "subgroup": 0.34, "transfer_latency": 0.23, "transfer_overlap": 6.2, "transpose": 0.27,
            "usm_bandwidth": 1.7},
}  # fmt: skip
ENERGY_S = 2.1  # added to a point by an energy counter that is updated every 100 ms; on CPUs the samples suffice
PEER_S = 1.5  # for a point of a host's library or program; it mostly sets up its problem


Kind = Literal["first", "further", "trial", "peer", "skipped"]  # of a measurement; its time depends on it


@dataclass(frozen=True, slots=True)
class Amount:
    """The number of measurements of one kind, and the seconds for all of them."""

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BenchmarkEstimate:
    """A benchmark with its peers: points, measurements by kind, starts of worker processes, and bytes of its largest array.

    A measurement is one point in one process, or one tuning trial; there may be up to `most_trials` of these. `grows`: the
    counts are upper bounds, since an axis grows until its metric settles; `least_share` of them is measured in any case.
    `is_open`: the plan chooses its points one by one, and the count is that of earlier runs and no bound.
    """

    name: str
    points: int
    amounts: Mapping[Kind, Amount]
    most_trials: int = 0
    processes: int = 1
    array_bytes: int = 0
    grows: bool = False
    least_share: float = 1.0
    is_open: bool = False

    @property
    def seconds(self) -> float:
        return sum(amount.seconds for amount in self.amounts.values())

    @property
    def repeats(self) -> int:
        """Measurements of points in further processes."""
        return self.all_records - self.most_trials - self.points

    @property
    def all_records(self) -> int:
        """Measurements, each a line of the results file: an upper bound unless the plan is open."""
        measured = sum(amount.count for kind, amount in self.amounts.items() if kind != "trial")
        return measured + self.most_trials

    @property
    def is_bound(self) -> bool:
        """Whether the counts are upper bounds that the run may stay below."""
        return self.grows or bool(self.most_trials) or "peer" in self.amounts


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Estimates of every benchmark of a run, in the order of the run."""

    benchmarks: tuple[BenchmarkEstimate, ...]

    @property
    def points(self) -> int:
        return sum(one.points for one in self.benchmarks)

    @property
    def trials(self) -> int:
        return sum(one.most_trials for one in self.benchmarks)

    @property
    def all_records(self) -> int:
        return sum(one.all_records for one in self.benchmarks)

    @property
    def bound(self) -> str:
        """The words before the number of measurements: "at most " for an upper bound, "about " for an open plan."""
        if any(one.is_open for one in self.benchmarks):
            return "about "
        return "at most " if any(one.is_bound for one in self.benchmarks) else ""

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.benchmarks)

    @property
    def seconds_range(self) -> tuple[float, float]:
        """The shortest and the longest time that the run may take."""
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
    """The estimate of a selection on a device, by the features in the device's description."""
    return estimate_selections(info, (selection,))


def estimate_selections(info: DeviceInfo, selections: Sequence[Selection]) -> RunEstimate:
    """The estimate of several selections that are measured as one run."""
    chosen = measuring_order(selections, any(one.budget_s is not None for one in selections))
    parts = []
    for selection, benchmark in chosen:
        others = available_peers(benchmark, info) if selection.reference else ()
        plan = explore(benchmark, info, selection)
        if others:
            plan = interleave_peers(plan, benchmark, others, info, selection)
        parts.append(_Part(benchmark, others, selection, walk(plan, benchmark, info, others, selection.seed)))
    _count_starts(parts, info)
    return RunEstimate(tuple(_estimate(part, info) for part in parts))


@dataclass(slots=True)
class _Part:
    """A benchmark of a run with its peers: its measurements, turn by turn, and the worker processes that start for it."""

    benchmark: Benchmark
    others: Sequence[Benchmark]
    selection: Selection
    turns: Sequence[Sequence[Measurement]]
    starts: Counter[Kind] = field(default_factory=Counter)

    def kind(self, info: DeviceInfo, point: Point, process: int) -> Kind:
        """The kind of one measurement."""
        lacks = point.benchmark == self.benchmark.name and missing_features(self.benchmark, point.params, info.features)
        return "skipped" if point.reason or lacks else kind_of(point, process, self.benchmark.name)


def _count_starts(parts: Sequence[_Part], info: DeviceInfo) -> None:
    """Count the starts of worker processes where the benchmarks of a run take their turns, as long as they need, one after the
    other."""
    living: dict[bool, Use] = {}  # by whether it is the peers' process
    for n in range(max((len(part.turns) for part in parts), default=0)):
        for part in parts:
            known = {one.name: one for one in (part.benchmark, *part.others)}
            for point, process in part.turns[n] if n < len(part.turns) else ():
                kind = part.kind(info, point, process)
                if kind == "skipped":
                    continue
                use = known[point.benchmark], point.place, process
                before = living.get(which := has_peers_process(info, use[0]))
                part.starts[kind] += before is None or (before != use and not can_share_process(info, before, use))
                living[which] = use


def kind_of(of: Point | Record, process: int, benchmark: str) -> Kind:
    """The kind of a measurement of a benchmark or one of its peers, in one of its processes."""
    if of.benchmark != benchmark:
        return "peer"
    if of.role == "tune":
        return "trial"
    return "further" if process else "first"


def _estimate(part: _Part, info: DeviceInfo) -> BenchmarkEstimate:
    benchmark, selection = part.benchmark, part.selection
    measured = [point for turn in part.turns for point, _ in turn if point.role == "measure"]
    counts: Counter[Kind] = Counter()
    seconds: defaultdict[Kind, float] = defaultdict(float)
    hardware = "cpu" if info.has_cpu_cores else "gpu"
    for turn in part.turns:
        for point, process in turn:
            kind = part.kind(info, point, process)
            counts[kind] += 1
            if kind != "skipped":  # which takes no time
                seconds[kind] += _point_seconds(kind, benchmark, process, info, selection)
    sizes = [value for point in measured if isinstance(value := point.params.get("array_bytes"), int)]
    growing = next((n for n, axis in benchmark.axes.items() if axis.per_octave and n not in selection.axes), "")
    sure = [p for p in measured if not growing or int(p.params.get(growing, 0)) <= memory_floor_bytes(info)]
    ratio, start_s = TIME_RATIOS[hardware].get(benchmark.name, 1.0), COSTS[hardware].process_s
    return BenchmarkEstimate(
        name=benchmark.name,
        points=len({(p.benchmark, tuple(sorted(p.params.items())), p.place) for p in measured}),
        amounts={kind: Amount(n, ratio * (seconds[kind] + start_s * part.starts[kind])) for kind, n in counts.items()},
        most_trials=most_trials(benchmark, info, selection),
        processes=part.starts.total(),
        array_bytes=max(sizes, default=0),
        grows=bool(growing),
        least_share=len(sure) / max(1, len(measured)),
    )


def _point_seconds(kind: Kind, benchmark: Benchmark, process: int, info: DeviceInfo, selection: Selection) -> float:
    """Seconds of one measurement, without the start of its process."""
    cost = COSTS["cpu" if info.has_cpu_cores else "gpu"]
    limit = selection.budget_in(benchmark, process)
    if kind == "peer":
        return PEER_S
    if kind == "trial":
        return cost.trial_s + cost.trial_share * limit.max_time_s
    sampled = max(limit.min_time_s, cost.sampled_share * limit.max_time_s)
    return cost.prepare_s + sampled + ENERGY_S * (limit.energy and not info.has_cpu_cores)


def most_array_bytes(info: DeviceInfo) -> int:
    """The largest array size, in whole MiB, at which any benchmark's arrays fit on this device."""
    memory = min(info.global_mem_bytes, info.host_mem_bytes if info.kind == "cpu" else info.global_mem_bytes)
    return min(info.max_alloc_bytes, memory // MAX_ARRAYS) >> 20 << 20
