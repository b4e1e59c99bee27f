"""Plans: which points of a benchmark are measured, in which order, and what is asked next after what was found."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from clmembench.analysis import derive
from clmembench.infer import plateaus
from clmembench.model import Axis, Benchmark, Card, DeviceInfo, Place, Plan, Point, Record, Value
from clmembench.model.direction import score
from clmembench.plan.configurations import bases, chosen_axes, shapes, stored
from clmembench.plan.selection import PLACE, Selection, placeable
from clmembench.results import tuned as tuning
from clmembench.units import format_param, format_params

BETTER = 0.01  # a tuning trial must win by more than this to replace the default
FAILED = ("failed", "timeout", "wrong")


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
        peer_of=benchmark.peer_of or "",
    )


def explore(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> Plan:
    """The points of a benchmark: the grid, tuned where it has tuning axes, grown along an axis that grows; then, unless the
    user named values, one of its points over compute units, in the shape found best for it on all of them."""
    if benchmark.planned:
        return
    winners: dict[frozenset[tuple[str, Value]], dict[str, Value]] = {}
    for place in selection.places(info) if placeable(benchmark, info) else [Place()]:
        yield from _grid(benchmark, info, selection, place, winners)
    base = _study(benchmark, info, selection)
    tuned = winners.get(frozenset(base.items()))
    if base and tuned is not None:
        # what depends on the number of compute units, such as of competing work-groups, goes with it
        points = [({**tuned, **_study(benchmark, place.seen(info), selection)}, place) for place in selection.sweep(info)]
        yield [_point(benchmark, info, selection, params, place) for params, place in points]


def _study(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> Mapping[str, Value]:
    """The point that is measured over compute units; empty where the benchmark has none, or the user wants something else."""
    if (
        benchmark.scaling is None
        or selection.suite == "quick"
        or not selection.isolated
        or set(selection.axes) & {*benchmark.axes, *PLACE}
    ):
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
    axes = chosen_axes(benchmark, info, selection)
    searched = {n: a.values(info) for n, a in axes.items() if a.tuning}
    growing = next(((n, a) for n, a in axes.items() if a.per_octave), None)
    batch: list[Point] = []
    taken: list[tuple[Point, dict[str, Value], list[dict[str, Value]]]] = []
    for base in bases(info, axes):
        if growing is not None:
            yield from _grow(benchmark, info, selection, base, *growing, place)
            continue
        possible, allowed, usable = shapes(benchmark, info, selection, base)
        if searched and not possible:
            reason = f"no {'/'.join(searched)} that is tried suits this device" + (
                " or the values named" if selection.axes else ""
            )
            first = {n: values[0] for n, values in searched.items()}
            batch.append(Point(benchmark.name, {**base, **first}, place, reason=reason))
            continue
        if not allowed:
            continue
        known, near = stored(benchmark, info, selection, base)
        if known is not None:
            best: dict[str, Value] = dict(known.tuning)
        elif len(usable) < 2:
            best = (usable or allowed)[0]
        else:
            # what is best for a point like this one is a better first choice than what is likely on any device
            usable.sort(key=lambda shape: near is None or shape != near.tuning)
            best = yield from _tune(benchmark, base, usable, searched, place)
        point = _point(benchmark, info, selection, {**base, **best}, place)
        if known is not None:
            point = replace(point, note=tuning.said(known, info))
            taken.append((point, base, [shape for shape in usable if shape != best]))
        batch.append(point)
        winners[frozenset(base.items())] = best
    records = (yield batch) if batch else []
    for point, base, others in taken:
        mine = [record.status for record in records if record.params == point.params]
        if others and mine and all(status in FAILED for status in mine):  # as after a new driver: its record stays
            best = winners[frozenset(base.items())] = yield from _tune(benchmark, base, others, searched, place)
            yield [_point(benchmark, info, selection, {**base, **best}, place)]


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
    return score(median, metric.better)


def _point(benchmark: Benchmark, info: DeviceInfo, selection: Selection, params: Mapping[str, Value], place: Place) -> Point:
    return Point(benchmark.name, params, place, selection.processes_of(benchmark, info, params))


def _grow(
    benchmark: Benchmark,
    info: DeviceInfo,
    selection: Selection,
    base: dict[str, Value],
    name: str,
    axis: Axis,
    place: Place,
) -> Plan:
    """An octave at a time, until the metric has settled or the axis ends; then again in further processes."""
    first, last = (int(v) for v in axis.values(info))
    seen: list[Record] = []
    asked: list[Point] = []
    sizes = octaves(first, last, axis.per_octave)
    for start in range(0, len(sizes), axis.per_octave):
        params = [{**base, name: size} for size in sizes[start : start + axis.per_octave]]
        points = [
            _point(benchmark, info, selection, p, place)
            for p in params
            if benchmark.where is None or benchmark.where(info, **p)
        ]
        seen += yield [replace(point, processes=1) for point in points]
        asked += points
        if plateaus.settled(plateaus.curve(seen, benchmark.metrics[0], name), plateaus.floor_bytes(info)):
            break
    further = [replace(point, first=1) for point in asked if point.processes > 1]
    if further:
        yield further


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


def outlook(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> str:
    """What `explore` will do, in words; how far a growing axis goes and which trials tuning takes is known only then."""
    axes = chosen_axes(benchmark, info, selection)
    parts = []
    for name, axis in axes.items():
        values = [format_param(name, value) for value in axis.values(info)]
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
    parts += _taken(benchmark, info, selection, axes)
    return "; ".join(parts) or "one point"


def _taken(benchmark: Benchmark, info: DeviceInfo, selection: Selection, axes: Mapping[str, Axis]) -> list[str]:
    """How many points are measured in a stored shape, without a search, in words; nothing where none is."""
    if not selection.tuning:
        return []
    points = [base for base in bases(info, axes) if shapes(benchmark, info, selection, base)[1]]
    known = [tuned for base in points if (tuned := stored(benchmark, info, selection, base)[0]) is not None]
    dates = ", ".join(dict.fromkeys(tuning.provenance(tuned, info) for tuned in known))
    return [f"{len(known)} of {len(points)} points in a stored shape ({dates})"] if known else []
