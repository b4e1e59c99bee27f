"""Experiments on a memory hierarchy as plans: their probes become points of `chase`, or a stored run answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from clmembench.analysis import plateaus
from clmembench.model import (
    CHASE_BENCHMARK,
    Answer,
    DeviceInfo,
    Experiment,
    Placement,
    Plan,
    Point,
    Probe,
    Record,
    Run,
    Space,
    Value,
)
from clmembench.plan.estimate import Amount, BenchmarkEstimate, RunEstimate
from clmembench.studies.hierarchy.benchmarks.cache_sharing import PATH_CODES, SHARING_BENCHMARK
from clmembench.studies.hierarchy.chase_latency import clock_of, usual
from clmembench.studies.hierarchy.classic.methods import ClassicReadings, classic_experiment
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.sharing.cache_sharing import (
    KIB,
    pairs_to_try,
    sharing_findings,
    sharing_notes,
    stored_fits,
    void_reason,
)
from clmembench.studies.hierarchy.sharing.llc_placement import PlacedHierarchy, place_last_cache

Result = TypeVar("Result")
L2_MAP = "l2_map"
MAX_MAPPED_CORES = 4  # cores of a CPU whose last cache is mapped
GIB = 1 << 30
SPACES_OF_CPUS: tuple[Space, ...] = ("global", "readonly", "local", "private")  # spaces that are measured by default
HIERARCHY_POINTS = 650  # of the experiments on the memory hierarchy
HIERARCHY_POINT_S = {"cpu": 0.25, "gpu": 0.11}
GPU_MAP_POINTS, MAP_POINT_S = 2, 3.0  # of a map of the last cache: points of a GPU, and seconds of one
SHARING_S = 10.0  # of a GPU's points of cache_sharing, most of which build a program
ProbeKey = tuple[tuple[str, Value], ...]  # the parameters of a probe and of its record
FEATURE_BY_SPACE: dict[Space, str] = {"global_cg": "ptx"}  # features of the device, by space
CPU_REASON = "on CPUs every memory space is ordinary memory, behind one first data cache of a core"
LOCAL_BYTES = tuple(n * KIB for n in (1, 4, 8, 16, 32, 46))  # drivers refuse to launch with all of 48 KiB
FEATURE_BY_PATH = {"readonly": "ptx", "image1d_buffer": "images"}
GPU_POINTS = 25  # most points on a GPU: fits, pairs of four paths both ways, and the map of compute units


def probe_limits(info: DeviceInfo, spaces: Sequence[str] = ()) -> ProbeLimits:
    """Limits of the probes on a device: at most half of its largest buffer and an eighth of the host's memory, in these spaces
    (empty: all)."""
    most = min(info.max_alloc_bytes // 2, GIB if info.has_cpu_cores else 16 * GIB)
    if info.kind == "cpu":
        most = min(most, info.host_mem_bytes // 8)
    # on CPUs constants and images are ordinary memory: of these paths only the read-only one is measured
    spaces = spaces or [s for s in get_args(Space) if not info.has_cpu_cores or s in SPACES_OF_CPUS]
    usable = [s for s in get_args(Space) if FEATURE_BY_SPACE.get(s, "") in ("", *info.features) and s in spaces]
    return ProbeLimits(most, plateaus.memory_floor_bytes(info), frozenset(usable), max(64, info.line_bytes), info.has_cpu_cores)


def hierarchy_plan(info: DeviceInfo, spaces: Sequence[str] = ()) -> Plan:
    """The points of the experiments, chosen as records come in."""
    return experiment_plan(infer_hierarchy(probe_limits(info, spaces)))


def classic_plan(info: DeviceInfo, spaces: Sequence[str] = ()) -> Plan:
    """The points of the classic methods on those of these memory spaces (empty: global memory) that the device has."""
    for space in sorted(probe_limits(info, spaces or ["global"]).spaces):
        yield from experiment_plan(classic_experiment(space))


def experiment_plan(experiment: Experiment[object]) -> Plan:
    """The points of an experiment's probes."""
    ghz = None
    try:
        probes = next(experiment)
        while True:
            records = yield [Point(CHASE_BENCHMARK, probe.params()) for probe in probes]
            ghz = ghz or clock_of(records)  # of the first probes, as a reader of the file determines it too
            kept = {_record_key(record): record for record in records}  # whatever order they came in
            probes = experiment.send([usual(kept[_probe_key(probe)], probe, ghz) for probe in probes])
    except StopIteration:
        return


def l2_map_plan(info: DeviceInfo, cpus: Sequence[int]) -> Plan:
    """The points of the last cache's map: on CPUs one per core, if processes can be pinned to it."""
    if info.kind == "cpu":
        places = [Placement(1, (cpu,), "compact", 1) for cpu in cpus[:MAX_MAPPED_CORES]]
        yield [Point(L2_MAP, {"access": "load"}, place) for place in places]
    elif "ptx" in info.features:
        yield [Point(L2_MAP, {"access": access}) for access in ("load", "atomic")]


def hierarchy_estimate(info: DeviceInfo) -> RunEstimate:
    """Estimate for the experiments on the memory hierarchy, from the runs in reports/: each probe depends on earlier
    answers."""

    def part(name: str, count: int, seconds: float, processes: int = 1) -> BenchmarkEstimate:
        return BenchmarkEstimate(name, count, {"first": Amount(count, seconds)}, processes=processes, is_open=True)

    chase_s = HIERARCHY_POINTS * HIERARCHY_POINT_S["cpu" if info.has_cpu_cores else "gpu"]
    cores = min(MAX_MAPPED_CORES, info.compute_units) if info.kind == "cpu" else GPU_MAP_POINTS
    shared = (1, 0.0) if info.has_cpu_cores else (GPU_POINTS, SHARING_S)
    return RunEstimate(
        (
            part(CHASE_BENCHMARK, HIERARCHY_POINTS, chase_s),
            part(SHARING_BENCHMARK, *shared),
            part(L2_MAP, cores, cores * MAP_POINT_S, cores),
        )
    )


def infer_stored(run: Run) -> PlacedHierarchy:
    """The hierarchy of a stored run: the same experiments answered by its records, shared storage, and the map of its last
    cache. A probe that the run lacks, such as one in a memory space that was left out, gets an answer without a value, with
    this reason."""
    kept = _stored_chases(run)
    experiment = infer_hierarchy(probe_limits(run.header.device, _chased_spaces(kept)))
    found = replay(experiment, _stored_answers(kept))
    sharing, notes = sharing_findings(run.records), (*found.notes, *sharing_notes(run.records))
    return place_last_cache(replace(found, sharing=sharing, notes=notes), run.records)


def stored_classic(run: Run) -> tuple[ClassicReadings, ...]:
    """Readings of the classic methods from a stored run, for each memory space in which it has every first chase of Saavedra's
    figure."""
    kept = _stored_chases(run)
    spaces = sorted(probe_limits(run.header.device, _chased_spaces(kept)).spaces)
    complete = [s for s in spaces if all(_probe_key(probe) in kept for probe in next(classic_experiment(s)))]
    return tuple(replay(classic_experiment(space), _stored_answers(kept)) for space in complete)


def _stored_chases(run: Run) -> dict[ProbeKey, Record]:
    """The records of chases by the probe that they answer, the last one of each."""
    return {_record_key(record): record for record in run.records if record.benchmark == CHASE_BENCHMARK}


def _chased_spaces(kept: Mapping[ProbeKey, Record]) -> list[str]:
    return sorted({str(record.params.get("space", "global")) for record in kept.values()})


def _stored_answers(kept: Mapping[ProbeKey, Record]) -> Callable[[Sequence[Probe]], list[Answer]]:
    """A function from probes to the answers of the records, in cycles of the first record's clock."""
    ghz: list[float | None] = []

    def answers_of(probes: Sequence[Probe]) -> list[Answer]:
        records = [kept.get(_probe_key(probe)) for probe in probes]
        if not any(ghz):
            ghz[:] = [clock_of([record for record in records if record is not None])]
        nothing = "this run has no answer to this probe"
        return [
            Answer(probe, reason=nothing) if record is None else usual(record, probe, ghz[0])
            for probe, record in zip(probes, records, strict=True)
        ]

    return answers_of


def replay(experiment: Experiment[Result], answers: Callable[[Sequence[Probe]], list[Answer]]) -> Result:
    """The result of an experiment; `answers` is a function from a probe to its answer."""
    try:
        probes = next(experiment)
        while True:
            probes = experiment.send(answers(probes))
    except StopIteration as found:
        result: Result = found.value
        return result


def _record_key(record: Record) -> ProbeKey:
    return tuple(sorted(record.params.items()))


def _probe_key(probe: Probe) -> ProbeKey:
    return tuple(sorted(probe.params().items()))


def sharing_plan(info: DeviceInfo) -> Plan:
    """The points on a device, chosen as records come in; on CPUs one that says why nothing is measured."""
    first = {"question": "fit", "owner": "global"}
    if info.has_cpu_cores:
        yield [_point(first, CPU_REASON)]
        return
    known: list[Record] = list((yield [_point(first)]))
    if not stored_fits(known):
        return
    rest = [path for path in PATH_CODES if path != "global" and FEATURE_BY_PATH.get(path, "") in ("", *info.features)]
    fits: list[Mapping[str, Value]] = [{"question": "fit", "owner": path} for path in rest]
    fits += [{**first, "local_bytes": local} for local in LOCAL_BYTES if local <= info.local_mem_bytes - KIB]
    known += yield [_point(params) for params in fits]
    pairs = pairs_to_try(known)
    if pairs:
        yield [
            _point(
                {
                    "question": "paths",
                    "owner": pair.owner,
                    "other": pair.other,
                    "array_bytes": pair.array_bytes,
                    "other_bytes": pair.other_bytes,
                }
            )
            for pair in pairs
        ]
    if "ptx" in info.features and not void_reason("constant_array", stored_fits(known)):
        yield [_point({"question": "units"})]


def _point(params: Mapping[str, Value], reason: str = "") -> Point:
    return Point(SHARING_BENCHMARK, params, reason=reason)
