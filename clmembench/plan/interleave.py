"""Peers of our points: which libraries and programs of the host measure the same problems, and in which order."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from clmembench.analysis import derive
from clmembench.benchmarks import discovered
from clmembench.model import PORTABLE_KERNEL_VALUES, Benchmark, DeviceInfo, Placement, Plan, Point, Record, Value
from clmembench.model.metrics import score
from clmembench.plan.selection import Selection, accepts_value, selected_benchmarks

MIN_LEADER_SCORE_RATIO = 0.85  # of the best score: a point below it is not the best in another process either
MIN_INTERLEAVED_PROCESSES = 3  # fresh processes of each, interleaved: fewer do not show how much processes differ


def available_peers(benchmark: Benchmark, info: DeviceInfo) -> tuple[Benchmark, ...]:
    """The peers of a benchmark that this host seems to have for that device; only running them shows whether they work."""
    return tuple(
        b for b in discovered().values() if b.peer_of == benchmark.name and (b.is_available is None or b.is_available(info))
    )


def peer_names(selection: Selection, info: DeviceInfo) -> tuple[str, ...]:
    """The peers of all benchmarks of a selection; none where it does not ask for them."""
    if not selection.reference:
        return ()
    return tuple(other.name for benchmark in selected_benchmarks(selection) for other in available_peers(benchmark, info))


def interleave_peers(
    plan: Plan, benchmark: Benchmark, others: Sequence[Benchmark], info: DeviceInfo, selection: Selection
) -> Plan:
    """The plan with the points of every peer after ours, process by process, so that a ratio compares neighbouring
    measurements: ours, peers, ours, peers ...

    Points that have a peer are measured in ROUNDS processes at least, or as many as the user said. The tuned configuration is
    found before. A peer that is skipped in the first process is not measured again; with `Selection.leaders`, neither is a
    point of ours that another of ours beats clearly in the first process.
    """
    asked: set[tuple[object, ...]] = set()
    answers: list[Record] | None = None
    while True:
        try:
            points = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            return
        theirs: list[Point] = []
        for point in points:
            for peer in _peers(point, others, info):
                if _key(peer) not in asked:
                    asked.add(_key(peer))
                    theirs.append(peer)
        if not theirs:
            answers = yield points
            continue
        found = yield [*(replace(p, processes=min(p.processes, 1)) for p in points), *theirs]
        here = {_key(r) for r in found if r.status != "skipped"}
        again = [replace(p, processes=_processes_of(p, selection)) for p in theirs if _key(p) in here]
        kept = _leaders(points, found, benchmark, others, info) if selection.leaders else points
        mine = [
            replace(p, processes=_processes_of(p, selection))
            if any(_key(peer) in here for peer in _peers(p, others, info))
            else p
            for p in kept
        ]
        later = [replace(p, first=max(p.first, 1)) for p in (*mine, *again) if p.processes > 1]
        rest = (yield later) if later else []
        answers = [r for r in (*found, *rest) if r.benchmark == benchmark.name]


def _processes_of(point: Point, selection: Selection) -> int:
    wanted = selection.processes or (MIN_INTERLEAVED_PROCESSES if selection.isolated else 1)
    return max(point.processes, wanted)


def _leaders(
    points: Sequence[Point], found: Sequence[Record], benchmark: Benchmark, others: Sequence[Benchmark], info: DeviceInfo
) -> list[Point]:
    """Among our points that have the same peers: those within LEADS of the best, the best portable one, and the best in a
    peer's own format; and all points without a peer, or without a value, for which one process is enough."""
    formats = {(name, value) for r in found if r.benchmark != benchmark.name for name, value in r.facts.items()}
    scores = {_key(r): _score(r, benchmark) for r in found if r.benchmark == benchmark.name}
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
    """The headline metric's median, turned so that more is better; 0 where there is none."""
    metric = next((m for m in benchmark.metrics if m.applies(record.params)), None)
    values = derive.values_of(record, metric) if record.status == "ok" and metric is not None else []
    median = statistics.median(values) if values else 0.0
    return median if median <= 0 or metric is None else score(median, metric.better)


def _peers(point: Point, others: Sequence[Benchmark], info: DeviceInfo) -> list[Point]:
    """The points of peers that measure the same problem as this point of ours: on the whole device, with those of its
    parameters that the peer has."""
    if point.role != "measure" or point.place != Placement() or point.reason:
        return []
    found = []
    for other in others:
        if all(name in point.params for name in other.axes):
            params = {name: point.params[name] for name in other.axes}
            if _is_peer_point(other, info, params):
                found.append(Point(other.name, params))
    return found


def _is_peer_point(other: Benchmark, info: DeviceInfo, params: dict[str, Value]) -> bool:
    known = all(accepts_value(axis, info, params[name]) for name, axis in other.axes.items())
    return known and (other.where is None or other.where(info, **params))


def _key(of: Point | Record) -> tuple[object, ...]:
    return of.benchmark, tuple(sorted(of.params.items()))
