"""Interleaved A/B measurement: each point on both sides in fresh worker processes, in rounds, until every value is decided."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clmembench.measure.job import Job, ProbeResult
from clmembench.measure.worker_process import Start, WorkerError, WorkerProcess
from clmembench.model import Benchmark, Cause, DeviceInfo, Placement, Point, Record, Role, Value
from clmembench.plan.budget import Deadline
from clmembench.plan.configurations import missing_features
from clmembench.plan.selection import Selection
from clmembench.plan.sweep import benchmark_card, explore
from clmembench.studies.ab.ab_case import VALUELESS_STATUSES, Case, absorb
from clmembench.studies.ab.ab_decision import ABDecision, LookSchedule, schedule_looks

SEARCH_BUDGET_FRACTION = 0.3  # share of the budget that the search for A's configurations may take


@dataclass(frozen=True, slots=True)
class ABSide:
    """A or B: its device with the probed features, how its worker processes start, and the parameters that differ from A's."""

    name: str
    info: DeviceInfo
    found: ProbeResult
    start: Start = Start()
    changes: Mapping[str, Value] = field(default_factory=dict)


def find_cases(
    benchmark: Benchmark, side: ABSide, selection: Selection, deadline: Deadline
) -> Generator[Record, None, list[Case]]:
    """The points of a benchmark, in configurations that are stored for A or that a search on A's side finds. Yields every trial
    of the search; none starts after the deadline. Raises ValueError for a growing axis without named values."""
    check_growing_axes_named(benchmark, selection)
    wanted = set(selection.places(side.info))
    plan, answers, points = explore(benchmark, side.info, selection), None, list[Point]()
    process = _SideProcess(_job(benchmark, side, selection, Placement(), 0), side, selection.timeout_s)
    try:
        while True:
            try:
                requested = next(plan) if answers is None else plan.send(answers)
            except StopIteration:
                break
            answers = []
            for point in requested:
                if point.role == "measure":
                    points += [point] if point.place in wanted else []
                elif not deadline.is_over():
                    answers.append(process.measure(benchmark, point.params, point.place, "tune"))
                    yield answers[-1]
    finally:
        process.end()
    return [_case(benchmark, point, index) for index, point in enumerate(points)]


def check_growing_axes_named(benchmark: Benchmark, selection: Selection) -> None:
    """Raises ValueError for a growing axis without named values: a curve is not a point."""
    growing = [name for name, axis in benchmark.axes.items() if axis.per_octave and name not in selection.axes]
    if growing:
        raise ValueError(f"{benchmark.name} grows along {growing[0]}: name its values, as in -a {growing[0]}=1MiB")


def _case(benchmark: Benchmark, point: Point, index: int) -> Case:
    metrics = {m.name: m for m in benchmark.metrics if m.applies(point.params)}
    decisions = {name: ABDecision("undecided", None, 0) for name in metrics}
    return Case(benchmark, point.params, point.place, index, metrics, decisions=decisions, failed=point.reason)


def run_rounds(
    cases: Sequence[Case],
    sides: tuple[ABSide, ABSide],
    selection: Selection,
    margin: float,
    deadline: Deadline,
) -> Iterator[tuple[int, Record]]:
    """Measure rounds of all open cases, and yield each record with the number of its side; a record's `process` is the round.
    The first round is always measured, since it shows which points fail. A later one starts only if as much time is left as the
    previous one took. `conclude` evaluates what is undecided after the last one."""
    plan, last = plan_looks(cases), 0.0
    for number in range(plan.most):
        begun = deadline.clock()
        if (number and deadline.left_s() < last) or not any(case.open for case in cases):
            return
        for group in _open_groups(cases):
            yield from _round(group, sides, selection, number)
        if number + 1 in plan.rounds:
            for case in cases:
                case.look(margin, plan.tail)
        last = deadline.clock() - begun


def plan_looks(cases: Sequence[Case]) -> LookSchedule:
    """The rounds after which these cases are evaluated."""
    return schedule_looks(sum(len(case.metrics) for case in cases))


def conclude(cases: Sequence[Case], margin: float) -> None:
    """The last evaluation, after the rounds have ended."""
    for case in cases:
        case.look(margin, plan_looks(cases).tail)


def _open_groups(cases: Sequence[Case]) -> list[list[Case]]:
    """The open cases, those of one benchmark at one Place together: they share a worker process."""
    groups: dict[tuple[str, Placement], list[Case]] = {}
    for case in cases:
        if case.open:
            groups.setdefault((case.benchmark.name, case.place), []).append(case)
    return list(groups.values())


def _round(
    group: Sequence[Case], sides: tuple[ABSide, ABSide], selection: Selection, number: int
) -> Iterator[tuple[int, Record]]:
    """Both sides of these cases, one right after the other. A fair coin decides which is first, as the test assumes."""
    benchmark, place = group[0].benchmark, group[0].place
    draw = random.Random(f"{selection.seed} {number} {benchmark.name} {place.compute_units} {place.cpus}")  # noqa: S311 - an order, not a secret
    order = draw.choice(((0, 1), (1, 0)))
    shuffled = draw.sample(group, len(group))
    found: dict[int, dict[int, Record]] = {0: {}, 1: {}}
    for which in order:
        side = sides[which]
        process = _SideProcess(_job(benchmark, side, selection, place, number), side, selection.timeout_s)
        try:
            for case in shuffled:
                other = found[1 - which].get(case.index)
                if other is not None and other.status in VALUELESS_STATUSES:
                    continue
                record = process.measure(benchmark, {**case.params, **side.changes}, place, "measure")
                found[which][case.index] = replace(record, index=case.index)
                yield which, found[which][case.index]
        finally:
            process.end()
    for case in group:
        absorb(case, found[0].get(case.index), found[1].get(case.index), bool(sides[1].changes), benchmark_card(benchmark))


def _job(benchmark: Benchmark, side: ABSide, selection: Selection, place: Placement, process: int) -> Job:
    return Job(
        side.info.runtime,
        side.info,
        benchmark.name,
        place=place,
        process=process,
        seed=selection.seed,
        budget=selection.budget_in(
            benchmark, 1
        ),  # the budget of a further process of a run: many short rounds are more precise
        features=side.found.features,
        cycles_per_op=side.found.cycles_per_op,
        origin=side.found.origin,
        quantum_ns=side.found.quantum_ns,
    )


class _SideProcess:
    """A worker process of one side, started for the first point, and restarted after it dies."""

    def __init__(self, job: Job, side: ABSide, timeout_s: float) -> None:
        self._job, self._side, self._timeout_s = job, side, timeout_s
        self._child: WorkerProcess | None = None

    def measure(self, benchmark: Benchmark, params: Mapping[str, Value], place: Placement, role: Role) -> Record:
        """The record of a point; a process that dies, or a missing feature, becomes its status, cause and reason."""
        plain = Record(benchmark.name, benchmark.version, params, place, self._job.process, "failed", role=role)
        lacking = missing_features(benchmark, params, self._job.features)
        if lacking:
            reason = f"device has no {', '.join(lacking)}"
            return replace(plain, status="skipped", reason=reason, cause=Cause.MISSING_FEATURE)
        if self._job.place != place:
            self.end()
            self._job = replace(self._job, place=place)
        try:
            self._child = self._child or WorkerProcess(self._job, self._side.start)
            return self._child.measure(Point(benchmark.name, params, place, role=role), self._timeout_s)
        except WorkerError as error:
            self.end()
            reason = f"{error}{error.last_words()}"
            return replace(plain, status=error.status, reason=reason, cause=error.cause, log=error.log)

    def end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()
