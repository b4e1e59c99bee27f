"""Interleaved A/B measurement: both sides of each point in fresh worker processes, round by round, until all is decided."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clmembench.child import Found, Job
from clmembench.choices import missing
from clmembench.derive import Derived, derive_point
from clmembench.interleaved import Decision, Looks, decide, looks
from clmembench.isolate import Child, ChildError, Start
from clmembench.model import Benchmark, Card, DeviceInfo, Metric, Place, Point, Record, Role, Value
from clmembench.plan import card, explore
from clmembench.selection import Selection

WORK = 0.01  # of what a pass moves or computes, that two shapes of one point may differ by, since they round sizes
SEARCH = 0.3  # of the budget, that the search for A's shapes may take
# Gates that speak of a disturbed host, which both sides meet with the same chance: what it does to a ratio is in its interval.
DISTURBED = ("drift", "cores", "levels", "sizes", "knee")
BAD = ("failed", "wrong", "timeout", "skipped")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Side:
    """A or B: its device with the features that were found, how its worker processes start, and the parameters that are not
    those of A."""

    name: str
    info: DeviceInfo
    found: Found
    start: Start = Start()
    changes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Case:
    """One point on both sides, and what its rounds gave: of each metric a pair of values a round, and what was decided of it.
    `lost` has why rounds gave no pair; `failed` why the point has no verdict at all."""

    benchmark: Benchmark
    params: Mapping[str, Value]  # A's
    place: Place
    index: int
    metrics: Mapping[str, Metric]
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    lost: dict[str, list[str]] = field(default_factory=dict)
    failed: str = ""
    same_kernels: bool = False

    @property
    def open(self) -> bool:
        """Whether another round is to measure it."""
        return not self.failed and any(d.verdict == "undecided" for d in self.decisions.values())

    def logs(self, metric: str) -> list[float]:
        """Of each round the logarithm of how many times as good B is."""
        sign = 1 if self.metrics[metric].better == "higher" else -1
        return [sign * (math.log(b) - math.log(a)) for a, b in self.pairs.get(metric, [])]

    def look(self, margin: float, tail: float) -> None:
        """Decide what is undecided from the rounds so far."""
        for metric, decision in self.decisions.items():
            if decision.verdict == "undecided":
                self.decisions[metric] = decide(self.logs(metric), margin, tail)


def cases_of(
    benchmark: Benchmark, side: Side, selection: Selection, runtime: str, until: float, clock: Clock = time.monotonic
) -> Generator[Record, None, list[Case]]:
    """The points of a benchmark, in the shapes that A's stored ones or a search on A's side give; every trial of the search is
    yielded, of which none begins after `until`. Raises ValueError for an axis that grows: a curve is no point."""
    growing = [name for name, axis in benchmark.axes.items() if axis.per_octave and name not in selection.axes]
    if growing:
        raise ValueError(f"{benchmark.name} grows along {growing[0]}: name its values, as in -a {growing[0]}=1MiB")
    wanted = set(selection.places(side.info))
    plan, answers, points = explore(benchmark, side.info, selection), None, list[Point]()
    process = _Process(_job(benchmark, side, selection, runtime, Place(), 0), side, selection.timeout_s)
    try:
        while True:
            try:
                asked = next(plan) if answers is None else plan.send(answers)
            except StopIteration:
                break
            answers = []
            for point in asked:
                if point.role == "measure":
                    points += [point] if point.place in wanted else []
                elif clock() < until:
                    answers.append(process.measure(benchmark, point.params, point.place, "tune"))
                    yield answers[-1]
    finally:
        process.end()
    return [_case(benchmark, point, index) for index, point in enumerate(points)]


def _case(benchmark: Benchmark, point: Point, index: int) -> Case:
    metrics = {m.name: m for m in benchmark.metrics if m.applies(point.params)}
    decisions = {name: Decision("undecided", None, 0) for name in metrics}
    return Case(benchmark, point.params, point.place, index, metrics, decisions=decisions, failed=point.reason)


def measured(
    cases: Sequence[Case],
    sides: tuple[Side, Side],
    selection: Selection,
    runtime: str,
    margin: float,
    until: float,
    clock: Clock = time.monotonic,
) -> Iterator[tuple[int, Record]]:
    """Rounds of all cases that are open, each record with the number of its side; `process` is the round. No round begins that
    would end after `until` if it took as long as the last one. What is undecided then is looked at by `concluded`."""
    plan, last = planned(cases), 0.0
    for number in range(plan.most):
        begun = clock()
        if begun + last > until or not any(case.open for case in cases):
            return
        for group in _groups(cases):
            yield from _round(group, sides, selection, runtime, number)
        if number + 1 in plan.rounds:
            for case in cases:
                case.look(margin, plan.tail)
        last = clock() - begun


def planned(cases: Sequence[Case]) -> Looks:
    """When these cases are looked at."""
    return looks(sum(len(case.metrics) for case in cases))


def concluded(cases: Sequence[Case], margin: float) -> None:
    """The last look, after what has ended the rounds."""
    for case in cases:
        case.look(margin, planned(cases).tail)


def _groups(cases: Sequence[Case]) -> list[list[Case]]:
    """The open cases, those of one benchmark at one Place together: they share a worker process."""
    groups: dict[tuple[str, Place], list[Case]] = {}
    for case in cases:
        if case.open:
            groups.setdefault((case.benchmark.name, case.place), []).append(case)
    return list(groups.values())


def _round(
    group: Sequence[Case], sides: tuple[Side, Side], selection: Selection, runtime: str, number: int
) -> Iterator[tuple[int, Record]]:
    """Both sides of these cases, one right after the other; which is first, a fair coin says: on that the test rests."""
    benchmark, place = group[0].benchmark, group[0].place
    draw = random.Random(f"{selection.seed} {number} {benchmark.name} {place}")  # noqa: S311 - of results, not of secrets
    order = draw.choice(((0, 1), (1, 0)))
    shuffled = draw.sample(group, len(group))
    found: dict[int, dict[int, Record]] = {0: {}, 1: {}}
    for which in order:
        side = sides[which]
        process = _Process(_job(benchmark, side, selection, runtime, place, number), side, selection.timeout_s)
        try:
            for case in shuffled:
                other = found[1 - which].get(case.index)
                if other is not None and other.status in BAD:
                    continue
                record = process.measure(benchmark, {**case.params, **side.changes}, place, "measure")
                found[which][case.index] = replace(record, index=case.index)
                yield which, found[which][case.index]
        finally:
            process.end()
    for case in group:
        absorb(case, found[0].get(case.index), found[1].get(case.index), bool(sides[1].changes), card(benchmark))


def absorb(case: Case, a: Record | None, b: Record | None, other_shape: bool, known: Card) -> None:
    """Take one round's records into a case; a side that has none was not measured, since the other one had failed."""
    for name, record in (("A", a), ("B", b)):
        if record is not None and record.status in BAD:
            case.failed = f"{record.status} in {name}: {record.reason}"
            return
    if a is None or b is None:
        return
    if a.version != b.version:
        case.failed = f"{a.benchmark} is of version {a.version} in A and {b.version} in B: they measure different things"
        return
    case.failed = different_work(a, b, WORK if other_shape else 0.0)
    case.same_kernels = a.sources.partition("-")[0] == b.sources.partition("-")[0]
    values = [{value.metric: value for value in derive_point([record], known)} for record in (a, b)]
    for metric in case.metrics:
        found = [of.get(metric) for of in values]
        bad = next(((n, v) for n, v in zip("AB", found, strict=True) if v is None or not is_value(v)), None)
        if bad is None:
            first, second = (v.median for v in found if v is not None)
            assert first is not None and second is not None
            case.pairs.setdefault(metric, []).append((first, second))
        else:
            name, value = bad
            said = f"{value.status} in {name}: {value.reason}" if value is not None else f"no value in {name}"
            case.lost.setdefault(metric, []).append(said)


def is_value(value: Derived) -> bool:
    """Whether a value may be half of a pair: it is good, or the host was disturbed."""
    return (value.status == "ok" or value.gate in DISTURBED) and value.median is not None and value.median > 0


def different_work(a: Record, b: Record, tolerance: float) -> str:
    """Why two records are not of the same work; empty where they are. The ends of a slope are as long as its process needs: of
    them all amounts must be in one proportion. Of an overlap one Work is, so of three series only the number is compared."""
    if len(a.series) != len(b.series):
        return f"not the same work: {len(a.series)} series in A and {len(b.series)} in B"
    for one, other in zip(a.series, b.series, strict=True) if len(a.series) < 3 else ():
        amounts = [(what, getattr(one, what), getattr(other, what)) for what in ("nbytes", "flops", "ops")]
        known = [in_b / in_a for _, in_a, in_b in amounts if in_a and in_b]
        scale = known[0] if len(a.series) == 2 and known else 1.0
        allowed = max(tolerance, WORK if len(a.series) == 2 else 0.0)
        for what, in_a, in_b in amounts:
            if abs(in_a * scale - in_b) > allowed * max(in_a * scale, in_b):
                return f"not the same work: {what} of a pass are {in_a} in A and {in_b} in B"
    return ""


def medians(case: Case, metric: str) -> tuple[float | None, float | None]:
    """Of both sides the median of the rounds' values."""
    pairs = case.pairs.get(metric, [])
    return (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)) if pairs else (None, None)


def _job(benchmark: Benchmark, side: Side, selection: Selection, runtime: str, place: Place, process: int) -> Job:
    return Job(
        runtime,
        side.info,
        benchmark.name,
        place=place,
        process=process,
        seed=selection.seed,
        budget=selection.budget_in(benchmark, 1),  # as a further process of a run has: many short rounds tell more
        features=side.found.features,
        cycles_per_op=side.found.cycles_per_op,
        origin=side.found.origin,
        quantum_ns=side.found.quantum_ns,
    )


class _Process:
    """A worker process of one side, started when the first point asks for it, and again after it died."""

    def __init__(self, job: Job, side: Side, timeout_s: float) -> None:
        self._job, self._side, self._timeout_s = job, side, timeout_s
        self._child: Child | None = None

    def measure(self, benchmark: Benchmark, params: Mapping[str, Value], place: Place, role: Role) -> Record:
        """The record of a point; a process that dies, or a feature that is missing, is its status and reason."""
        plain = Record(benchmark.name, benchmark.version, params, place, self._job.process, "failed", role=role)
        lacking = missing(benchmark, params, self._job.features)
        if lacking:
            return replace(plain, status="skipped", reason=f"device has no {', '.join(lacking)}")
        if self._job.place != place:
            self.end()
            self._job = replace(self._job, place=place)
        try:
            self._child = self._child or Child(self._job, self._side.start)
            return self._child.measure(Point(benchmark.name, params, place, role=role), self._timeout_s)
        except ChildError as error:
            self.end()
            said = f"; it last said: {error.log.strip().splitlines()[-1]}" if error.log.strip() else ""
            return replace(plain, status="timeout" if error.timed_out else "failed", reason=f"{error}{said}", log=error.log)

    def end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()
