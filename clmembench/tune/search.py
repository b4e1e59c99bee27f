"""The plan of `tune`: climbs among the candidates of each point, rounds of the best ones, and the winner against the first."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from clmembench import __version__
from clmembench.analysis import derive, stats
from clmembench.analysis.record_values import give_up_ns, headline_metric
from clmembench.measure.job import ProbeResult
from clmembench.measure.runner import run_plan
from clmembench.model import Benchmark, DeviceInfo, Plan, Point, Record, Role, Tuned
from clmembench.model.metrics import more_is_better
from clmembench.plan.budget import Clock, Deadline
from clmembench.plan.selection import Selection
from clmembench.tune.candidates import MIN_COMPARED_PROCESSES, SearchOutcome, TuningCase

# fractions of a benchmark's time after which climbing ends, and after which no further round begins
CLIMBING_TIME_FRACTION, ROUNDS_TIME_FRACTION = 0.6, 0.75
# processes that measure the winner and the first candidate: twice as many if these do not decide, and only
# MIN_COMPARED_PROCESSES if the time is up
COMPARED_PROCESSES = 6

PlanStep = Generator[Sequence[Point], list[Record], None]


def search_plan(
    benchmark: Benchmark, cases: Sequence[TuningCase], seed: int, seconds: float, clock: Clock = time.monotonic
) -> Plan:
    """Tune the points of a benchmark in about `seconds`, by `clock`.

    First come climbs, each point in its share of the time. Then the candidates near the best are measured in rounds of new
    processes, twice as many per round; the better half goes on (successive halving, Karnin et al. 2013). Finally the winner and
    the first candidate are measured in full, interleaved in new processes, since the best of several trials is biased upwards.
    The decision is evaluated twice only: evaluating it after each process would find differences where there are none.
    """
    end = Deadline.after(seconds, clock)
    climbing_end, rounds_end = end.share(CLIMBING_TIME_FRACTION), end.share(ROUNDS_TIME_FRACTION)
    sizes = [len(contest.shapes) for contest in cases]
    for n, contest in enumerate(cases):
        if not climbing_end.is_over():
            yield from _climb_all(benchmark, contest, seed, climbing_end.share(sizes[n] / sum(sizes[n:])))
    yield from _halve_candidates(benchmark, cases, rounds_end)
    decided = [contest for contest in cases if contest.climbed and contest.winner]
    for process in range(2 * COMPARED_PROCESSES):
        if process == COMPARED_PROCESSES:
            decided = [contest for contest in decided if contest.outcome().best is None]
        if not decided or (process >= MIN_COMPARED_PROCESSES and end.is_over()):
            break
        for contest in decided:  # one point after the other: its two candidates are measured close together in time
            values = yield from _measure_interleaved(benchmark, contest, (0, contest.winner), process, "measure")
            if len(values) == 2:
                contest.pairs.append((values[0], values[contest.winner]))


def _climb_all(benchmark: Benchmark, contest: TuningCase, seed: int, deadline: Deadline) -> PlanStep:
    """Climb from the first candidate, then from a stored one, then from random untried ones, until all are tried or the time is
    over.

    A step changes one parameter; the best value along one axis is taken before the next axis is tried.
    """
    random_order = list(range(len(contest.shapes)))
    random.Random(f"{seed} {sorted(contest.params.items())}").shuffle(random_order)  # noqa: S311 - no cryptography
    for here in (0, contest.start, *random_order):
        if here not in contest.trials:
            if not (yield from _climb_once(benchmark, contest, here, deadline)):
                return
            contest.climbed = True


def _climb_once(
    benchmark: Benchmark, contest: TuningCase, here: int, deadline: Deadline
) -> Generator[Sequence[Point], list[Record], bool]:
    """One climb. True if it reached a candidate that no single step improves before the time was over."""
    yield from _measure_trial(benchmark, contest, here)
    moved = True
    while moved:
        moved = False
        for name in contest.shapes[0]:
            line = [n for n in range(len(contest.shapes)) if contest.differ(n, here) == {name}]
            for number in line:
                if number not in contest.trials:
                    if deadline.is_over():
                        return False
                    yield from _measure_trial(benchmark, contest, number)
            best = max([here, *line], key=contest.score)
            moved, here = moved or best != here, best
    return True


def _measure_trial(benchmark: Benchmark, contest: TuningCase, number: int) -> PlanStep:
    records = yield [replace(contest.point(benchmark, number), give_up_ns=contest.give_up_ns)]
    contest.trials[number] = _summary(benchmark, records[0])
    if contest.trials[number] is not None and contest.score(number) >= max(map(contest.score, contest.trials)):
        contest.give_up_ns = give_up_ns(records[0], headline_metric(benchmark, records[0].params))
    contest.reason = contest.reason or f"no configuration gave a value; the first one: {records[0].reason}"


def _halve_candidates(benchmark: Benchmark, cases: Sequence[TuningCase], deadline: Deadline) -> PlanStep:
    """Halve the candidates near the best of each point, in more and more processes."""
    rivals = {n: near for n, contest in enumerate(cases) if contest.climbed and len(near := contest.near()) > 1}
    process, times = 1, 1
    while rivals and not deadline.is_over():
        for at in range(process, process + times):
            for n, near in rivals.items():
                values = yield from _measure_interleaved(benchmark, cases[n], near, at, "tune")
                for number in near:
                    cases[n].rounds.setdefault(number, []).extend([values[number]] if number in values else [])
        better = {n: sorted(near, key=cases[n].score, reverse=True)[: -(-len(near) // 2)] for n, near in rivals.items()}
        rivals = {n: near for n, near in better.items() if len(near) > 1}
        process, times = process + times, 2 * times


def _measure_interleaved(
    benchmark: Benchmark, contest: TuningCase, numbers: Sequence[int], process: int, role: Role
) -> Generator[Sequence[Point], list[Record], dict[int, float]]:
    """The values of these candidates in one process, without those that failed; records may come in any order."""
    records = yield [contest.point(benchmark, number, process, role) for number in numbers]
    summaries = {frozenset(record.params.items()): _summary(benchmark, record) for record in records}
    values = {number: summaries[contest.key(number)] for number in numbers}
    return {number: value.median for number, value in values.items() if value is not None}


def _summary(benchmark: Benchmark, record: Record) -> stats.Summary | None:
    """The headline metric of a record, inverted where less is better; None where it has no value above 0."""
    metric = headline_metric(benchmark, record.params)
    value = derive.summarise([record], metric) if record.status == "ok" else None
    if value is None or not 0 < value.median < math.inf:
        return None
    if more_is_better(metric.better):
        return value
    return replace(value, median=1 / value.median, low=1 / value.high, high=1 / value.low if value.low > 0 else math.inf)


def run_searches(
    runtime: str,
    info: DeviceInfo,
    probed: ProbeResult,
    selection: Selection,
    wanted: Sequence[tuple[Benchmark, list[TuningCase]]],
    seconds: float,
    store: Callable[[Benchmark, Sequence[SearchOutcome]], None],
) -> Iterator[Record]:
    """Every record of tuning these benchmarks in about `seconds`, shared among them by their numbers of configurations.

    `store` receives the outcomes of a benchmark when its search is done.
    """
    end = Deadline.after(seconds)
    for n, (benchmark, points) in enumerate(wanted):
        sizes = [sum(len(contest.shapes) for contest in of) for _, of in wanted[n:]]
        share = end.left_s() * sizes[0] / sum(sizes)
        yield from run_plan(search_plan(benchmark, points, selection.seed, share), benchmark, runtime, info, probed, selection)
        store(benchmark, [contest.outcome() for contest in points])


def tuned_entry(outcome: SearchOutcome, benchmark: Benchmark, info: DeviceInfo, family: tuple[str, str]) -> Tuned | None:
    """The entry to store for an outcome; None where it is undetermined."""
    if outcome.best is None:
        return None
    ratio = outcome.ratio if outcome.best != outcome.first else None
    return Tuned(
        device=family[0],
        platform=family[1],
        compute_units=info.compute_units,
        benchmark=benchmark.name,
        version=benchmark.version,
        params=outcome.params,
        tuning=outcome.best,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        tool_version=__version__,
        driver=info.driver,
        gain=round(ratio.value, 4) if ratio else 1.0 if outcome.best == outcome.first else None,
        gain_low=round(ratio.low, 4) if ratio else None,
        gain_high=round(ratio.high, 4) if ratio else None,
    )
