"""Drives Plans: makes each benchmark's points, hands them to children, and asks the plan for the next ones."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from clmembench import derive
from clmembench.infer import levels
from clmembench.isolate import Child, ChildError, Found, Job
from clmembench.model import Axis, Benchmark, Card, DeviceInfo, Place, Plan, Point, Record, Value
from clmembench.selection import PLACE, Selection, placeable, selected, takes
from clmembench.units import format_bytes, format_params

DEATHS = 2  # a benchmark that ends its process this often is not tried again
SPENT = "the run's --budget was spent"
BETTER = 0.01  # a tuning trial must win by more than this to replace the default


def card(benchmark: Benchmark) -> Card:
    """What a run file keeps of a benchmark."""
    return Card(
        version=benchmark.version,
        suite=benchmark.suite,
        summary=benchmark.summary,
        source=benchmark.source,
        metrics=benchmark.metrics,
        tuning=tuple(name for name, axis in benchmark.axes.items() if axis.tuning),
        growing=next((name for name, axis in benchmark.axes.items() if axis.per_octave), ""),
        x=benchmark.x,
    )


# ---- which points ---------------------------------------------------------------------------------------------------


def explore(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> Plan:
    """The points of a benchmark: the grid, tuned where it has tuning axes, grown along an axis that grows; then, unless the
    user named values, one of its points over compute units, in the shape found best for it on all of them."""
    winners: dict[frozenset[tuple[str, Value]], dict[str, Value]] = {}
    for place in selection.places(info) if placeable(benchmark, info) else [Place()]:
        yield from _grid(benchmark, info, selection, place, winners)
    base = _study(benchmark, info, selection)
    tuned = winners.get(frozenset(base.items()))
    if base and tuned is not None:
        # what depends on the number of compute units, such as of competing work-groups, goes with it
        points = [({**tuned, **_study(benchmark, place.seen(info), selection)}, place) for place in selection.sweep(info)]
        yield [Point(benchmark.name, params, place, selection.processes) for params, place in points]


def _study(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> Mapping[str, Value]:
    """The point that is measured over compute units; empty where the benchmark has none, or the user wants something else."""
    if benchmark.scaling is None or selection.suite == "quick" or set(selection.axes) & {*benchmark.axes, *PLACE}:
        return {}
    return benchmark.scaling(info)


def _grid(
    benchmark: Benchmark,
    info: DeviceInfo,
    selection: Selection,
    place: Place,
    winners: dict[frozenset[tuple[str, Value]], dict[str, Value]],
) -> Plan:
    """Every point at one Place; `winners` is told the best shape of each."""
    info = place.seen(info)
    axes = _chosen_axes(benchmark, info, selection)
    plain = {n: a.values(info) for n, a in axes.items() if not a.tuning and not a.per_octave}
    tuning = {n: a.values(info) for n, a in axes.items() if a.tuning}
    growing = next(((n, a) for n, a in axes.items() if a.per_octave), None)
    bases = [dict(zip(plain, values, strict=True)) for values in itertools.product(*plain.values())]
    batch: list[Point] = []
    for base in bases:
        if growing is not None:
            yield from _grow(benchmark, info, base, *growing, place, selection.processes)
            continue
        choices = [dict(zip(tuning, values, strict=True)) for values in itertools.product(*tuning.values())]
        allowed = [c for c in choices if benchmark.where is None or benchmark.where(info, **base, **c)]
        usable = [c for c in allowed if not missing(benchmark, {**base, **c}, info.features)]
        if tuning and not allowed:
            reason = f"no {'/'.join(tuning)} that is tried suits this device" + (
                " or the values named" if selection.axes else ""
            )
            batch.append(Point(benchmark.name, {**base, **choices[0]}, place, selection.processes, reason=reason))
            continue
        if benchmark.thin is not None and not set(selection.axes) & set(axes):
            allowed = [c for c in allowed if benchmark.thin(info, **base, **c)]
            usable = [c for c in usable if c in allowed]
        if not allowed:
            continue
        if len(usable) < 2:
            best = (usable or allowed)[0]
            batch.append(Point(benchmark.name, {**base, **best}, place, selection.processes))
        else:
            if batch:  # in the order of the axes, as people read them
                yield batch
                batch = []
            best = yield from _tune(benchmark, base, usable, tuning, place)
            yield [Point(benchmark.name, {**base, **best}, place, selection.processes)]
        winners[frozenset(base.items())] = best
    if batch:
        yield batch


def _chosen_axes(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> dict[str, Axis]:
    """The benchmark's axes, replaced by those of suite quick and then by the values a user gave, as far as they are this
    benchmark's: two may have an axis of one name and other words on it."""
    axes = dict(benchmark.axes)
    if selection.suite == "quick" and benchmark.quick is not None:
        axes.update(benchmark.quick)
        axes = {n: replace(a, needs=benchmark.axes[n].needs, accepts=benchmark.axes[n].accepts) for n, a in axes.items()}
    for name, values in selection.axes.items():
        if name in axes:
            # a user who names values of a tuning axis wants to see the best of each of them
            own = tuple(value for value in values if takes(benchmark.axes[name], info, value))
            axes[name] = Axis(_fixed(own), axes[name].needs)
    return axes


def _fixed(values: tuple[Value, ...]) -> Callable[[DeviceInfo], tuple[Value, ...]]:
    return lambda info: values


def _tune(
    benchmark: Benchmark,
    base: dict[str, Value],
    usable: list[dict[str, Value]],
    tuning: Mapping[str, Sequence[Value]],
    place: Place,
) -> Generator[Sequence[Point], list[Record], dict[str, Value]]:
    """Search one axis after the other from the first choice; the winner is measured anew by the caller, since the best of
    several trials is biased upwards."""

    def trial(choice: dict[str, Value]) -> Point:
        return Point(benchmark.name, {**base, **choice}, place, role="tune")

    best = usable[0]
    score = _score(benchmark, (yield [trial(best)]))
    tried = [best]
    for name, values in tuning.items():
        others = [{**best, name: value} for value in values]
        others = [c for c in others if c in usable and c not in tried]
        for choice in others:
            tried.append(choice)
            found = _score(benchmark, (yield [trial(choice)]))
            if found > score * (1 + BETTER):
                best, score = choice, found
    return best


def _score(benchmark: Benchmark, records: Sequence[Record]) -> float:
    """The headline metric's median, turned so that more is better; 0 where there is none."""
    metric = benchmark.metrics[0]
    values = [v for r in records if r.status == "ok" for v in derive.values_of(r, metric)]
    if not values:
        return 0.0
    median = sorted(values)[len(values) // 2]
    return median if metric.better == "higher" else (1 / median if median > 0 else 0.0)


def _grow(
    benchmark: Benchmark, info: DeviceInfo, base: dict[str, Value], name: str, axis: Axis, place: Place, processes: int
) -> Plan:
    """An octave at a time, until the metric has settled or the axis ends."""
    first, last = (int(v) for v in axis.values(info))
    seen: list[Record] = []
    sizes = octaves(first, last, axis.per_octave)
    for start in range(0, len(sizes), axis.per_octave):
        params = [{**base, name: size} for size in sizes[start : start + axis.per_octave]]
        seen += yield [
            Point(benchmark.name, p, place, processes) for p in params if benchmark.where is None or benchmark.where(info, **p)
        ]
        if levels.settled(levels.curve(seen, benchmark.metrics[0], name), levels.floor_bytes(info)):
            return


def octaves(first: int, last: int, per_octave: int) -> list[int]:
    """Sizes from `first` to `last`, `per_octave` an octave, in whole KiB; powers of two times `first` are met exactly."""
    sizes: list[int] = []
    step = 0
    while True:
        size = int(first * 2 ** (step // per_octave) * 2 ** (step % per_octave / per_octave)) // 1024 * 1024
        if size > last:
            return sizes
        if size not in sizes:
            sizes.append(size)
        step += 1


def missing(benchmark: Benchmark, params: Mapping[str, Value], features: frozenset[str]) -> list[str]:
    """The features that a point needs and the device lacks."""
    needed = set(benchmark.needs)
    for name, value in params.items():
        needed |= benchmark.axes[name].needs.get(value, frozenset())
    return sorted(needed - features)


def outlook(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> str:
    """What `explore` will do, in words; how far a growing axis goes and which trials tuning takes is known only then."""
    axes = _chosen_axes(benchmark, info, selection)
    parts = []
    for name, axis in axes.items():
        values = [format_bytes(v) if isinstance(v, int) and name.endswith("_bytes") else str(v) for v in axis.values(info)]
        if axis.per_octave:
            parts.append(f"{name} {values[0]} to at most {values[-1]}, {axis.per_octave} an octave until it settles")
        else:
            parts.append(f"{'tuned ' if axis.tuning else ''}{name} {', '.join(values)}")
    places = [p for p in (selection.places(info) if placeable(benchmark, info) else []) if p != Place()]
    base = _study(benchmark, info, selection)
    if base:
        places = selection.sweep(info)
        parts.append(f"{format_params(base)} over compute units")
    if places:
        parts.append(", ".join(f"{p.compute_units} {p.placement}".strip() for p in places))
    return "; ".join(parts)


# ---- driving them ---------------------------------------------------------------------------------------------------


def probe(runtime: str, info: DeviceInfo) -> Found:
    """What the device can do, found in a child. Raises ChildError when it cannot be opened."""
    with Child(Job(runtime, info)) as child:
        return child.probe()


def drive(runtime: str, info: DeviceInfo, found: Found, selection: Selection, known: Sequence[Record] = ()) -> Iterator[Record]:
    """Every record of a selection, as it is measured. `info` holds the features that were found. `known` are the records of the
    part of this run that was measured before: they answer for their points, which are neither measured nor given again."""
    answered = {_identity(r.benchmark, r.params, r.place, r.role, r.process): r for r in known if r.reason != SPENT}
    deadline = time.monotonic() + selection.budget_s if selection.budget_s else None
    for benchmark in selected(selection):
        job = Job(
            runtime,
            info,
            benchmark.name,
            seed=selection.seed,
            budget=selection.budget_of(benchmark),
            features=found.features,
            cycles_per_op=found.cycles_per_op,
            origin=found.origin,
            quantum_ns=found.quantum_ns,
        )
        with _Attempts(job, selection.timeout_s, deadline) as attempts:
            plan = explore(benchmark, info, selection)
            answers: list[Record] | None = None
            while True:
                try:
                    points = next(plan) if answers is None else plan.send(answers)
                except StopIteration:
                    break
                answers = []
                for point, process in _processes(points):
                    record = answered.get(_identity(point.benchmark, point.params, point.place, point.role, process))
                    if record is None:
                        record = attempts.record(benchmark, point, process)
                        yield record
                    answers.append(record)


def _identity(benchmark: str, params: Mapping[str, Value], place: Place, role: str, process: int) -> tuple[object, ...]:
    return (benchmark, tuple(sorted(params.items())), place, role, process)


def _processes(points: Sequence[Point]) -> Iterator[tuple[Point, int]]:
    """Each point in each process, process by process, so that a child is used for all its points."""
    for process in range(max((p.processes for p in points), default=0)):
        for point in points:
            if process < point.processes:
                yield point, process


class _Attempts:
    """Measures points in a child, with a new one for each Place and process index and after each death."""

    def __init__(self, job: Job, timeout_s: float, deadline: float | None) -> None:
        self._job = job
        self._timeout_s = timeout_s
        self._deadline = deadline
        self._child: Child | None = None
        self._deaths = 0
        self._deadly: list[Mapping[str, Value]] = []  # shapes whose trial ended its process

    def __enter__(self) -> _Attempts:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def record(self, benchmark: Benchmark, point: Point, process: int) -> Record:
        if point.reason:
            return self._unmeasured(benchmark, point, process, "skipped", point.reason)
        lacking = missing(benchmark, point.params, self._job.features)
        if lacking:
            return self._unmeasured(benchmark, point, process, "skipped", f"device has no {', '.join(lacking)}")
        shape = {name: value for name, value in point.params.items() if benchmark.axes[name].tuning}
        if point.role == "tune" and shape in self._deadly:
            return self._unmeasured(benchmark, point, process, "failed", "not tried: this shape has ended its process")
        if self._deaths >= DEATHS:
            reason = f"not tried: {benchmark.name} has ended its process {DEATHS} times"
            return self._unmeasured(benchmark, point, process, "failed", reason)
        if self._deadline is not None and time.monotonic() > self._deadline:
            return self._unmeasured(benchmark, point, process, "skipped", SPENT)
        try:
            return self._started(point.place, process).measure(point, self._timeout_s)
        except ChildError as error:
            if point.role == "tune":
                self._deadly.append(shape)
            else:
                self._deaths += 1
            self._end()
            status = "timeout" if error.timed_out else "failed"
            record = self._unmeasured(benchmark, point, process, status, str(error))
            return replace(record, log=error.log)

    def _started(self, place: Place, process: int) -> Child:
        if self._child is not None and (self._child.job.place, self._child.job.process) != (place, process):
            self._end()
        if self._child is None:
            self._child = Child(replace(self._job, place=place, process=process))
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _unmeasured(self, benchmark: Benchmark, point: Point, process: int, status: str, reason: str) -> Record:
        return Record(
            benchmark=benchmark.name,
            version=benchmark.version,
            params=point.params,
            place=point.place,
            process=process,
            status=status,  # type: ignore[arg-type]
            reason=reason,
            role=point.role,
        )
