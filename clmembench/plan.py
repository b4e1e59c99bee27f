"""Plans: which points of a benchmark are measured, in which order, and what is asked next after what was found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace

from clmembench import derive
from clmembench.infer import levels
from clmembench.model import Axis, Benchmark, Card, DeviceInfo, Place, Plan, Point, Record, Value
from clmembench.selection import PLACE, Selection, placeable, takes
from clmembench.units import format_bytes, format_params

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
    axes = _chosen_axes(benchmark, info, selection)
    plain = {n: a.values(info) for n, a in axes.items() if not a.tuning and not a.per_octave}
    tuning = {n: a.values(info) for n, a in axes.items() if a.tuning}
    growing = next(((n, a) for n, a in axes.items() if a.per_octave), None)
    bases = [dict(zip(plain, values, strict=True)) for values in itertools.product(*plain.values())]
    batch: list[Point] = []
    for base in bases:
        if growing is not None:
            yield from _grow(benchmark, info, selection, base, *growing, place)
            continue
        choices = [dict(zip(tuning, values, strict=True)) for values in itertools.product(*tuning.values())]
        allowed = [c for c in choices if benchmark.where is None or benchmark.where(info, **base, **c)]
        usable = [c for c in allowed if not missing(benchmark, {**base, **c}, info.features)]
        if tuning and not allowed:
            reason = f"no {'/'.join(tuning)} that is tried suits this device" + (
                " or the values named" if selection.axes else ""
            )
            batch.append(Point(benchmark.name, {**base, **choices[0]}, place, reason=reason))
            continue
        if benchmark.thin is not None and not set(selection.axes) & set(axes):
            allowed = [c for c in allowed if benchmark.thin(info, **base, **c)]
            usable = [c for c in usable if c in allowed]
        if not allowed:
            continue
        if len(usable) < 2:
            best = (usable or allowed)[0]
        else:
            best = yield from _tune(benchmark, base, usable, tuning, place)
        batch.append(_point(benchmark, info, selection, {**base, **best}, place))
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
        if levels.settled(levels.curve(seen, benchmark.metrics[0], name), levels.floor_bytes(info)):
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
    return "; ".join(parts) or "one point"
