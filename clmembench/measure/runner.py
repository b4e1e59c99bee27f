"""Runs plans: gives their points to worker processes, collects records, and gets the next points from each plan."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, replace

from clmembench.benchmarks import named
from clmembench.benchmarks.plugins.foreign_code import ExternalError
from clmembench.measure.build_ahead import Facts, build_programs
from clmembench.measure.job import Job, ProbeResult
from clmembench.measure.quiet import Repeats
from clmembench.measure.worker_process import InProcessWorker, Worker, WorkerError, WorkerProcess
from clmembench.model import Benchmark, Cause, DeviceInfo, Placement, Plan, Point, Record, Status, Value
from clmembench.model.record import TIME_SPENT_CAUSES
from clmembench.plan.budget import NEVER, Deadline
from clmembench.plan.configurations import missing_features
from clmembench.plan.interleave import available_peers, interleave_peers
from clmembench.plan.measurements import can_share_process, has_peers_process, measuring_steps
from clmembench.plan.selection import Selection, measuring_order
from clmembench.plan.sweep import FAILED_STATUSES, explore
from clmembench.results.tuned import UNFINISHED

# a point with one of these has ended its worker process
PROCESS_ENDING_CAUSES = frozenset({Cause.PROCESS_DIED, Cause.INVALID_ANSWER, Cause.DEVICE_LOST, Cause.TIMEOUT})
HEADLINE_WEIGHT = 3  # shares of a budget for a benchmark of suite quick, whose headlines a summary shows, to one for others
TRIALS_TIME_FRACTION = 0.8  # of the time left: the best configuration so far is then measured in the rest
MAX_PROCESS_DEATHS = 2  # a benchmark that ends its process this often is not tried again
BUDGET_SPENT = "the run's --budget was spent"
BENCHMARK_BUDGET_SPENT = "the time that --benchmark-timeout gives one benchmark was spent"


def run_selection(
    runtime: str,
    info: DeviceInfo,
    found: ProbeResult,
    selection: Selection,
    known: Sequence[Record] = (),
    deadline: Deadline | None = None,
) -> Iterator[Record]:
    """Every record of a selection, as it is measured, until `deadline` (None: as long as its budget). `info` holds the probed
    features. `known` are the records of an interrupted run: the plan gets them for their points, which are neither measured
    again nor yielded, but for a note that has become another one."""
    deadline = Deadline.after(selection.budget_s) if deadline is None else deadline
    yield from _run_until(deadline, runtime, info, found, [selection], known)


def _run_until(
    deadline: Deadline,
    runtime: str,
    info: DeviceInfo,
    found: ProbeResult,
    selections: Sequence[Selection],
    known: Sequence[Record] = (),
) -> Iterator[Record]:
    """The records of all benchmarks of the selections, which share the time until the deadline."""
    repeats = Repeats(info, deadline)
    waiting: list[tuple[_Turn, Generator[Record | None]]] = []
    is_isolated = all(selection.isolated for selection in selections)
    slot, chosen = WorkerSlot(is_isolated), measuring_order(selections, math.isfinite(deadline.at_s))
    facts: Facts = {}
    if is_isolated and chosen and not known:
        facts = build_programs(_first_job(runtime, info, found, *chosen[0]), chosen, deadline.left_s())
    for selection, benchmark in chosen:
        plan = explore(benchmark, info, selection)
        others = available_peers(benchmark, info) if selection.reference else ()
        if others:
            plan = interleave_peers(plan, benchmark, others, info, selection)
        turn = _Turn(weight=HEADLINE_WEIGHT if benchmark.quick is not None else 1)
        job = replace(_first_job(runtime, info, found, selection, benchmark), facts=facts)
        steps = _run_in_turns(plan, benchmark, job, selection, known, deadline, others, repeats, turn, slot)
        waiting.append((turn, steps))
    with ExitStack() as stack, slot:  # a run that is left early leaves no worker process behind
        for _, steps in waiting:
            stack.callback(steps.close)
        while waiting:
            paused = []
            for n, (turn, steps) in enumerate(waiting):
                turn.end = deadline.share(turn.weight / sum(other.weight for other, _ in waiting[n:]))
                for record in steps:
                    if record is None:
                        paused.append((turn, steps))
                        break
                    yield record
            waiting = paused


@dataclass(slots=True)
class _Turn:
    """A benchmark's share of a run's budget, and the moment at which it lets the next one measure."""

    weight: int = 1
    end: Deadline = NEVER


def run_selections(
    runtime: str, info: DeviceInfo, found: ProbeResult, selections: Sequence[Selection], budget_s: float | None
) -> Iterator[Record]:
    """Every record of several selections, as it is measured. `budget_s` is the time for all of them, which they share."""
    yield from _run_until(Deadline.after(budget_s), runtime, info, found, selections)


def run_plan(
    plan: Plan,
    benchmark: Benchmark,
    runtime: str,
    info: DeviceInfo,
    found: ProbeResult,
    selection: Selection,
    known: Sequence[Record] = (),
    deadline: Deadline = NEVER,
    others: Sequence[Benchmark] = (),
    repeats: Repeats | None = None,
    slot: WorkerSlot | None = None,
) -> Iterator[Record]:
    """Every record of one benchmark's plan. Points after `deadline` are skipped; `others` are the peers whose points the plan
    contains too; `repeats` decides which are measured again, over all plans of a run, whose worker process is in `slot`."""
    job = _first_job(runtime, info, found, selection, benchmark)
    with (
        nullcontext(slot) if slot else WorkerSlot(selection.isolated) as used,
        closing(_run_in_turns(plan, benchmark, job, selection, known, deadline, others, repeats, _Turn(), used)) as steps,
    ):
        yield from (record for record in steps if record is not None)


def _first_job(runtime: str, info: DeviceInfo, found: ProbeResult, selection: Selection, benchmark: Benchmark) -> Job:
    """The job of a benchmark's first process on the whole device."""
    return Job(
        runtime,
        info,
        benchmark.name,
        seed=selection.seed,
        features=found.features,
        cycles_per_op=found.cycles_per_op,
        origin=found.origin,
        quantum_ns=found.quantum_ns,
    )


def _run_in_turns(
    plan: Plan,
    benchmark: Benchmark,
    job: Job,
    selection: Selection,
    known: Sequence[Record],
    deadline: Deadline,
    others: Sequence[Benchmark],
    repeats: Repeats | None,
    turn: _Turn,
    slot: WorkerSlot,
) -> Generator[Record | None]:
    """The records of `run_plan`; None when its turn is over, after at least one measured point, and where the process of its
    points changes."""
    names = {b.name for b in (benchmark, *others)}
    mine = [r for r in known if r.benchmark in names]
    done = [r for r in mine if r.cause not in TIME_SPENT_CAUSES]
    repeats = repeats or Repeats(job.device, deadline)
    answered = {_identity(r.benchmark, r.params, r.place, r.role, r.process): r for r in done}
    attempts = {b.name: _attempts(b, job, selection, deadline, mine, repeats, slot) for b in (benchmark, *others)}
    steps = measuring_steps(plan, selection.seed)
    record: Record | None = None
    count, had_turn = 0, False
    while True:
        try:
            step = steps.send(record)
        except StopIteration:
            break
        except ExternalError as error:  # of code that is none of ours; what it has measured is kept
            yield replace(_unplanned_record(benchmark), index=count, reason=str(error))
            break
        if step is None:
            yield None
            record, had_turn = None, False
            continue
        index, point, process = step
        count = max(count, index + 1)
        record = answered.get(_identity(point.benchmark, point.params, point.place, point.role, process))
        if record is None:
            is_over = turn.end.is_over() and not deadline.is_over()
            if is_over and had_turn:
                yield None
                is_over = had_turn = False
            had_turn = had_turn or point.role == "measure"
            # a search that outlasts its turn ends there: its best configuration so far is measured next
            cut, mine_now = is_over and point.role == "tune", attempts[point.benchmark]
            record = mine_now.spent(point, process) if cut else mine_now.record(point, process)
            record = replace(record, index=index)
            record = replace(record, notes=(*record.notes, point.note)) if point.note else record
            yield record
        elif (noted := _with_note_of_search(record, point.note)) is not record:
            yield (record := noted)


def _with_note_of_search(known: Record, note: str) -> Record:
    """A record of an interrupted run whose search, ended by that run's time, went on since: with the search's note of today, as
    another record, which takes the place of that one and no time."""
    others = tuple(one for one in known.notes if not one.startswith(UNFINISHED))
    if len(others) == len(known.notes) or note in known.notes:
        return known
    return replace(known, notes=(*others, note) if note else others, seconds=0.0, parts_s={})


def _unplanned_record(benchmark: Benchmark) -> Record:
    """The record of a benchmark whose own code fails when it is asked for its points."""
    return Record(benchmark.name, benchmark.version, {}, Placement(), 0, "failed", cause=Cause.INTERNAL_ERROR)


def _attempts(
    benchmark: Benchmark,
    job: Job,
    selection: Selection,
    deadline: Deadline,
    known: Sequence[Record],
    repeats: Repeats,
    slot: WorkerSlot,
) -> _Attempts:
    mine = [record for record in known if record.benchmark == benchmark.name]
    return _Attempts(benchmark, replace(job, benchmark=benchmark.name), selection, deadline, slot, mine, repeats)


def _identity(benchmark: str, params: Mapping[str, Value], place: Placement, role: str, process: int) -> tuple[object, ...]:
    return (benchmark, tuple(sorted(params.items())), place, role, process)


class WorkerSlot:
    """The worker process of a run, and off CPUs another one for the peers, which take turns with our benchmarks: the one that
    does not measure has given its memory back. Each further process of a point is a new one, on CPUs each Place too, and so is
    the next after a death. Use it as a context manager."""

    def __init__(self, isolated: bool) -> None:
        self._isolated = isolated
        self._children: dict[bool, Worker] = {}  # by whether it measures the peers
        self._unsound: set[bool] = set()  # those in which a point failed
        self._now = False  # which of them measured last
        self._is_shared = True  # whether both may have a context of the device

    def __enter__(self) -> WorkerSlot:
        return self

    def __exit__(self, *_: object) -> None:
        for which in tuple(self._children):
            self._end(which)

    def measure(self, job: Job, point: Point, limit_s: float) -> Record:
        """The record of a point of this job. Raises WorkerError when there is none."""
        try:
            return self._measured(job, point, limit_s)
        except WorkerError as error:
            if error.cause is not Cause.DEVICE_UNAVAILABLE or (not self._now) not in self._children:
                raise
        # its memory may not do for two contexts, and a GPU can be set to let one process at a time use it
        self._is_shared = False
        self.end()
        return self._measured(job, point, limit_s)

    def _measured(self, job: Job, point: Point, limit_s: float) -> Record:
        which = self._isolated and has_peers_process(job.device, named(job.benchmark))
        if which != self._now or not self._is_shared:
            self._retire(not which)
        self._now = which
        child = self._children.get(which)
        if child is not None and child.job != job:
            if self._can_take(child.job, job, which not in self._unsound):
                child.move(job)
            else:
                self._end(which)
        if which not in self._children:
            self._children[which] = WorkerProcess(job) if self._isolated else InProcessWorker(job)
        record = self._children[which].measure(point, limit_s)
        if record.status in FAILED_STATUSES:
            self._unsound.add(which)
        return record

    def _retire(self, other: bool) -> None:
        """Have the process that does not measure next give back what it holds, or end it where it cannot or is in the way."""
        if other in self._children and self._is_shared:
            with suppress(WorkerError):
                self._children[other].rest()
                return
        self._end(other)

    def end(self) -> None:
        """End the process that measured last."""
        self._end(self._now)

    def _end(self, which: bool) -> None:
        self._unsound.discard(which)
        if child := self._children.pop(which, None):
            child.end()

    def _can_take(self, before: Job, job: Job, is_sound: bool) -> bool:
        """Whether the process of one job can do another; one in which a point failed takes no other benchmark."""
        if replace(before, benchmark=job.benchmark, place=job.place, process=job.process, budget=job.budget) != job:
            return False
        if before.benchmark != job.benchmark and not is_sound:
            return False
        uses = [(named(one.benchmark), one.place, one.process) for one in (before, job)]
        return can_share_process(job.device, *uses)


class _Attempts:
    """Measures points of a benchmark in the run's worker process, and decides which are not tried."""

    def __init__(
        self,
        benchmark: Benchmark,
        job: Job,
        selection: Selection,
        deadline: Deadline,
        slot: WorkerSlot,
        known: Sequence[Record] = (),
        repeats: Repeats | None = None,
    ) -> None:
        self._benchmark = benchmark
        self._job = job
        self._selection = selection
        self._deadline, self._trials_end = deadline, deadline.share(TRIALS_TIME_FRACTION)
        self._own_deadline = Deadline.after(selection.benchmark_s)
        self._repeats = repeats or Repeats(job.device, deadline)
        self._slot = slot
        dead = [r for r in known if r.cause in PROCESS_ENDING_CAUSES]
        self._deaths = sum(r.role == "measure" for r in dead)
        # configurations whose trial ended its process
        self._deadly: list[Mapping[str, Value]] = [self._shape(r.params) for r in dead if r.role == "tune"]

    def record(self, point: Point, process: int) -> Record:
        benchmark = self._benchmark
        if point.reason:
            return self._unmeasured(point, process, "skipped", Cause.UNSUPPORTED, point.reason)
        lacking = missing_features(benchmark, point.params, self._job.features)
        if lacking:
            return self._unmeasured(point, process, "skipped", Cause.MISSING_FEATURE, f"device has no {', '.join(lacking)}")
        shape = self._shape(point.params)
        if point.role == "tune" and shape in self._deadly:
            return self._unmeasured(
                point, process, "failed", Cause.QUARANTINE, "not tried: this configuration has ended its process"
            )
        if self._deaths >= MAX_PROCESS_DEATHS:
            reason = f"not tried: {benchmark.name} has ended its process {MAX_PROCESS_DEATHS} times"
            return self._unmeasured(point, process, "failed", Cause.QUARANTINE, reason)
        if (self._trials_end if point.role == "tune" else self._deadline).is_over():
            return self.spent(point, process)
        if self._own_deadline.is_over():
            return self._unmeasured(point, process, "skipped", Cause.BENCHMARK_BUDGET, BENCHMARK_BUDGET_SPENT)
        try:
            return self._repeats.measured(
                lambda: self._slot.measure(self._job_at(point.place, process), point, self._limit_s())
            )
        except WorkerError as error:
            if point.role == "tune":
                self._deadly.append(shape)
            else:
                self._deaths += 1
            self._slot.end()
            return replace(self._unmeasured(point, process, error.status, error.cause, str(error)), log=error.log)

    def spent(self, point: Point, process: int) -> Record:
        """The record of a point that the run's budget leaves no time for."""
        return self._unmeasured(point, process, "skipped", Cause.BUDGET, BUDGET_SPENT)

    def _shape(self, params: Mapping[str, Value]) -> Mapping[str, Value]:
        return {name: value for name, value in params.items() if self._benchmark.axes[name].tuning}

    def _limit_s(self) -> float:
        """The time limit of one point: its own, or the time that the benchmark has left."""
        return min(self._selection.timeout_s, self._own_deadline.left_s())

    def _job_at(self, place: Placement, process: int) -> Job:
        units = self._job.device.compute_units
        share = 1.0 if place.compute_units is None else place.compute_units / max(1, units)
        budget = self._selection.budget_in(self._benchmark, process, share, self._job.device.kind == "gpu")
        return replace(self._job, place=place, process=process, budget=budget)

    def _unmeasured(self, point: Point, process: int, status: Status, cause: Cause, reason: str) -> Record:
        return Record(
            benchmark=self._benchmark.name,
            version=self._benchmark.version,
            params=point.params,
            place=point.place,
            process=process,
            status=status,
            reason=reason,
            cause=cause,
            role=point.role,
        )
