"""Measurements of a run: their order, and the worker processes that they share."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress

from clmembench.model import Benchmark, DeviceInfo, Placement, Plan, Point, Record

Use = tuple[Benchmark, Placement, int]  # of a process: for a benchmark at a Place, as the n-th process of its points
Measurement = tuple[Point, int]  # a point in one of its processes
Step = tuple[int, Point, int]  # the same after the point's index in its plan


def ordered_measurements(points: Sequence[Point], count: int, seed: int) -> Iterator[Step]:
    """Each point in each of its processes, with its index in the plan. The order is process by process and benchmark by
    benchmark, so that a worker process measures all its points; at one Place it is random and differs between processes, so
    that drift over time does not follow an axis."""
    places = list(dict.fromkeys((point.benchmark, point.place) for point in points))
    for process in range(max((p.processes for p in points), default=0)):
        mine = [(count + i, point) for i, point in enumerate(points) if point.first <= process < point.processes]
        # an order, not a secret
        random.Random(f"{seed} {process} {count}").shuffle(mine)  # noqa: S311
        mine.sort(key=lambda pair: places.index((pair[1].benchmark, pair[1].place)))
        for index, point in mine:
            yield index, point, process


def measuring_steps(plan: Plan, seed: int) -> Generator[Step | None, Record | None]:
    """The measurements of a plan, which is sent the record of each. None where the other benchmarks of a run go on first: where
    the process changes, which they share."""
    answers: list[Record] | None = None
    count, last_process = 0, 0
    while True:
        try:
            points = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            return
        answers = []
        for step in ordered_measurements(points, count, seed):
            if step[2] != last_process:
                yield None
            last_process = step[2]
            record = yield step
            assert record is not None, "a step is answered by its record"
            answers.append(record)
        count += len(points)


def has_peers_process(info: DeviceInfo, benchmark: Benchmark) -> bool:
    """Whether a benchmark is measured in the process of the peers, which off CPUs lives beside that of our benchmarks. They
    take turns, and an idle process holds a context and no buffers."""
    return info.kind != "cpu" and bool(benchmark.peer_of)


def can_share_process(info: DeviceInfo, before: Use, after: Use) -> bool:
    """Whether a process can go on from one use to another: a benchmark of this package leaves nothing behind that another one
    would see. Off CPUs a number of work-groups is a property of launches; on CPUs a placement is one of the process, and so are
    the threads of a peer."""
    (old, there, number), (new, here, next_number) = before, after
    on_cpu = info.kind == "cpu"
    if number != next_number or (there != here if on_cpu else there.cpus != here.cpus):
        return False
    is_own = new.fresh or any(one.origin or "peers" in one.needs or (on_cpu and one.peer_of) for one in (old, new))
    return old.name == new.name or not is_own


def walk(
    plan: Plan, benchmark: Benchmark, info: DeviceInfo, others: Sequence[Benchmark] = (), seed: int = 0
) -> list[list[Measurement]]:
    """Every measurement of a plan, in order, if all points are measured, no trial beats the first configuration and no curve
    settles: a list for each of the benchmark's turns."""
    turns: list[list[Measurement]] = [[]]
    versions = {one.name: one.version for one in (benchmark, *others)}
    steps, record = measuring_steps(plan, seed), None
    with suppress(StopIteration):
        while True:
            step = steps.send(record)
            record = None
            if step is None:
                turns.append([])
                continue
            _, p, process = step
            turns[-1].append((p, process))
            record = Record(p.benchmark, versions[p.benchmark], p.params, p.place, process, "ok", role=p.role)
    return turns


def walked_points(plan: Plan, benchmark: Benchmark, info: DeviceInfo) -> list[Point]:
    """The points of such a walk, in the order of their first measurements."""
    return [point for turn in walk(plan, benchmark, info) for point, process in turn if process == point.first]
