"""Peers of our points: the libraries and programs of this host that measure the same problems, and the measurement order."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Sequence
from dataclasses import replace

from clmembench.analysis import derive
from clmembench.benchmarks import discovered
from clmembench.model import PORTABLE_KERNEL_VALUES, Benchmark, DeviceInfo, Placement, Plan, Point, Record, Value
from clmembench.model.metrics import score
from clmembench.plan.selection import Selection, accepts_value, selected_benchmarks

MIN_LEADER_SCORE_RATIO = 0.85  # to the best score: a point below it is not the best in another process either
PEER_POINTS_AT_A_TIME = 6  # in a run with a budget, which loses no more of them where it ends between them and ours
MIN_INTERLEAVED_PROCESSES = 3  # fresh processes for each program: fewer do not show the variation between processes


def available_peers(benchmark: Benchmark, info: DeviceInfo) -> tuple[Benchmark, ...]:
    """The peers of a benchmark that this host seems to have for this device; only running them shows whether they work."""
    return tuple(
        b for b in discovered().values() if b.peer_of == benchmark.name and (b.is_available is None or b.is_available(info))
    )


def peer_names(selection: Selection, info: DeviceInfo) -> tuple[str, ...]:
    """The names of the peers of all benchmarks of a selection; none where it does not include peers."""
    if not selection.reference:
        return ()
    return tuple(other.name for benchmark in selected_benchmarks(selection) for other in available_peers(benchmark, info))


def interleave_peers(
    plan: Plan, benchmark: Benchmark, others: Sequence[Benchmark], info: DeviceInfo, selection: Selection
) -> Plan:
    """The plan with the points of every peer after ours, process by process: ours, peers, ours, peers ...

    A ratio then compares neighbouring measurements. Points that have a peer are measured in at least MIN_INTERLEAVED_PROCESSES
    processes, or in as many as the user demanded. Tuning comes before. A peer that is skipped in the first process is not
    measured again. With `Selection.leaders` the same holds for a point of ours that another of ours clearly beats in the first
    process.

    A run with a budget measures each point right after its search. Its peers' points are then measured several at a time, and
    further processes after all points: each change of the program costs a start of its process, a second or two.
    """
    planned: set[tuple[object, ...]] = set()
    answers: list[Record] | None = None
    points: list[Point] = []  # whose further processes are still to come, with those of their peers
    theirs: list[Point] = []
    waiting: list[Point] = []  # of peers
    measured: list[Record] = []
    is_hurried = selection.budget_s is not None
    while True:
        try:
            batch = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            break
        every = {_key(peer): peer for point in batch for peer in _peers(point, others, info)}
        new = [peer for key, peer in every.items() if key not in planned]
        if not (every or any(p.processes > 1 for p in batch) if is_hurried else new):
            answers = yield batch
            continue
        planned.update(every)
        waiting += new
        points += batch
        now = [] if is_hurried and len(waiting) < PEER_POINTS_AT_A_TIME else waiting
        first = yield [*(replace(p, processes=min(p.processes, 1)) for p in batch), *now]
        measured += first
        if now:
            theirs, waiting = theirs + now, []
        if not is_hurried:
            first += yield from _further_processes(points, theirs, measured, benchmark, others, info, selection)
            points, theirs, measured = [], [], []
        answers = [r for r in first if r.benchmark == benchmark.name]
    if waiting:
        measured += yield waiting
    yield from _further_processes(points, theirs + waiting, measured, benchmark, others, info, selection)


def _further_processes(
    points: Sequence[Point],
    theirs: Sequence[Point],
    measured: Sequence[Record],
    benchmark: Benchmark,
    others: Sequence[Benchmark],
    info: DeviceInfo,
    selection: Selection,
) -> Generator[Sequence[Point], list[Record], list[Record]]:
    """The points in every process but the first; returns their records."""
    here = {_key(r) for r in measured if r.status != "skipped"}
    again = [replace(p, processes=_processes_of(p, selection)) for p in theirs if _key(p) in here]
    kept = _leaders(points, measured, benchmark, others, info) if selection.leaders else points
    mine = [
        replace(p, processes=_processes_of(p, selection)) if any(_key(peer) in here for peer in _peers(p, others, info)) else p
        for p in kept
    ]
    most = {(_key(p), p.place): p for p in sorted((*mine, *again), key=lambda p: p.processes)}  # a plan may name one twice
    chosen = dict.fromkeys((_key(p), p.place) for p in (*mine, *again))
    later = [replace(p, first=max(p.first, 1)) for p in (most[key] for key in chosen) if p.processes > 1]
    return (yield later) if later else []


def _processes_of(point: Point, selection: Selection) -> int:
    wanted = selection.processes or (MIN_INTERLEAVED_PROCESSES if selection.isolated else 1)
    return max(point.processes, wanted)


def _leaders(
    points: Sequence[Point], records: Sequence[Record], benchmark: Benchmark, others: Sequence[Benchmark], info: DeviceInfo
) -> list[Point]:
    """The points of ours that are worth further processes.

    Among points with the same peers these are the ones near the best (MIN_LEADER_SCORE_RATIO), the best portable one, and the
    best in a peer's own format. Points without a peer or without a value are kept too; one process suffices for them.
    """
    formats = {(name, value) for r in records if r.benchmark != benchmark.name for name, value in r.facts.items()}
    scores = {_key(r): _score(r, benchmark) for r in records if r.benchmark == benchmark.name}
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(tuple(_key(peer) for peer in _peers(point, others, info)), []).append(point)
    kept: list[Point] = []
    for peers, mine in groups.items():
        mine = sorted(mine, key=lambda p: -scores.get(_key(p), 0.0))
        best = scores.get(_key(mine[0]), 0.0)
        portable = [p for p in mine if set(p.params.values()) & PORTABLE_KERNEL_VALUES][:1]
        like = [p for p in mine if any(str(p.params.get(n, "")).startswith(str(v)) for n, v in formats)][:1]
        near = [p for p in mine if scores.get(_key(p), 0.0) >= MIN_LEADER_SCORE_RATIO * best]
        kept += [p for p in mine if not peers or p in near or p in portable or p in like]
    return [p for p in points if p in kept]


def _score(record: Record, benchmark: Benchmark) -> float:
    """The median of the headline metric, inverted where less is better; 0 where there is none."""
    metric = next((m for m in benchmark.metrics if m.applies(record.params)), None)
    values = derive.values_of(record, metric) if record.status == "ok" and metric is not None else []
    median = statistics.median(values) if values else 0.0
    return median if median <= 0 or metric is None else score(median, metric.better)


def _peers(point: Point, others: Sequence[Benchmark], info: DeviceInfo) -> list[Point]:
    """The points of peers that measure the same problem as this point of ours, on the whole device, with the parameters that
    the peer has."""
    if point.role != "measure" or point.place != Placement() or point.reason:
        return []
    points = []
    for other in others:
        if all(name in point.params for name in other.axes):
            params = {name: point.params[name] for name in other.axes}
            if _is_peer_point(other, info, params):
                points.append(Point(other.name, params))
    return points


def _is_peer_point(other: Benchmark, info: DeviceInfo, params: dict[str, Value]) -> bool:
    known = all(accepts_value(axis, info, params[name]) for name, axis in other.axes.items())
    return known and (other.where is None or other.where(info, **params))


def _key(of: Point | Record) -> tuple[object, ...]:
    return of.benchmark, tuple(sorted(of.params.items()))
