"""The plan of a benchmark: which points are measured, in which order, and which follow from the records so far."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from clmembench.analysis import derive, plateaus
from clmembench.analysis.record_values import give_up_ns, headline_metric
from clmembench.model import SIZE_AXES, Axis, Benchmark, BenchmarkInfo, DeviceInfo, Placement, Plan, Point, Record, Value
from clmembench.model.metrics import score
from clmembench.model.record import TIME_SPENT_CAUSES
from clmembench.plan.configurations import BenchmarkContext, Params
from clmembench.plan.selection import PLACE_AXES, Selection, is_placeable
from clmembench.results import tuned as tuning
from clmembench.units import format_param, format_params

Winners = dict[frozenset[tuple[str, Value]], Params]  # the best configuration of each point, by its plain parameters

MIN_TUNING_RELATIVE_GAIN = 0.01  # a trial must beat the best configuration so far by more than this
FAILED_STATUSES = ("failed", "timeout", "wrong")


def benchmark_card(benchmark: Benchmark) -> BenchmarkInfo:
    """Properties of a benchmark that a run file keeps."""
    return BenchmarkInfo(
        version=benchmark.version,
        suite=benchmark.suite,
        summary=benchmark.summary,
        source=benchmark.source,
        metrics=benchmark.metrics,
        tuning=tuple(name for name, axis in benchmark.axes.items() if axis.tuning),
        growing=next((name for name, axis in benchmark.axes.items() if axis.per_octave), ""),
        x=benchmark.figure_axis,
        peer_of=benchmark.peer_of or "",
        origin=benchmark.origin,
        quantities=benchmark.quantities,
    )


def explore(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> Plan:
    """The points of a benchmark: its grid, tuned over its tuning axes and extended along a growing axis; then a scaling study.

    The scaling study measures some of the points over numbers of compute units, each in its best configuration on the whole
    device. It is left out where the user named values.
    """
    if benchmark.adaptive:
        return
    context = BenchmarkContext(benchmark, info, selection)
    winners: Winners = {}
    for place in _places(benchmark, info, selection):
        yield from _grid(context, place, winners)
    placed = _placed_points(context, winners)
    if placed:
        yield placed


def _places(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> list[Placement]:
    """The placements of every point of a benchmark."""
    if benchmark.on_nodes:
        return selection.node_places(info)
    return selection.places(info) if is_placeable(benchmark, info) else [Placement()]


def _placed_points(context: BenchmarkContext, winners: Winners) -> list[Point]:
    """The points of the scaling study and those on a single compute unit, placement by placement.

    Each is in its best configuration on the whole device.
    """
    bases, placed = _scaling_points(context), []
    single = _single_unit_points(context)
    for place in context.selection.sweep(context.info) if bases or single else []:
        # parameters such as the number of competing work-groups scale with the compute units; the problem size is constant
        for base, here in zip(bases, _scaling_points(context.at(place)), strict=True):
            size = {name: base[name] for name in SIZE_AXES if name in base}
            tuned = winners.get(frozenset(base.items()))
            placed += [] if tuned is None else [context.point({**tuned, **here, **size}, place)]
        for base in single if place.compute_units == 1 else []:
            tuned = winners.get(frozenset(base.items()))
            placed += [] if tuned is None else [context.point({**tuned, **base}, place)]
    return placed


def _scaling_points(context: BenchmarkContext) -> list[Mapping[str, Value]]:
    """The points of the scaling study; none where the benchmark has none, or where the user restricted the run."""
    benchmark = context.benchmark
    if benchmark.scaling is None or not _studies_places(context):
        return []
    first = benchmark.scaling(context.info)
    also = benchmark.scaling_also(context.info) if benchmark.scaling_also is not None else ()
    return [first, *also] if first else []


def _single_unit_points(context: BenchmarkContext) -> Sequence[Mapping[str, Value]]:
    """The points that are also measured on one compute unit, on CPUs only: a single unit of another device is of no
    interest."""
    single = context.benchmark.single_unit
    return single(context.info) if single is not None and context.info.kind == "cpu" and _studies_places(context) else ()


def _studies_places(context: BenchmarkContext) -> bool:
    """Whether a run includes scaling studies: those of the full suites do, unless the user named values."""
    selection = context.selection
    named = set(selection.axes) & {*context.benchmark.axes, *PLACE_AXES}
    return selection.suite != "quick" and selection.isolated and not named


def _grid(context: BenchmarkContext, place: Placement, winners: Winners) -> Plan:
    """Every point at one placement in its best configuration; `winners` receives these configurations."""
    context = context.at(place)
    growing = next(((n, a) for n, a in context.axes().items() if a.per_octave), None)
    is_hurried = context.selection.budget_s is not None  # the time may end between any two points
    first: list[Point] = []  # those of headlines
    batch: list[Point] = []
    further: list[Point] = []  # those that are repeated in further processes
    from_store: list[tuple[Point, Params, list[Params]]] = []  # points in a stored configuration, with the other candidates
    for base in sorted(context.bases(), key=lambda base: is_hurried and not context.is_headline(base)):
        if growing is not None:
            further += yield from _grow(context, base, *growing, place)
            continue
        choices = context.configurations(base)
        if context.tuning_values() and not choices.possible:
            batch.append(_impossible_point(context, base, place))
            continue
        if not choices.worthwhile:
            continue
        known, _ = context.stored(base)
        note = ""
        if known is not None:
            best: Params = dict(known.tuning)
            note = tuning.provenance_note(known, context.info)
        elif len(choices.usable) < 2:
            best = (choices.usable or choices.worthwhile)[0]
        else:
            best, note = yield from _tune(context, base, context.search_order(base, choices.usable), place)
        point = replace(context.point({**base, **best}, place), note=note)
        if known is not None:
            from_store.append((point, base, [c for c in choices.usable if c != best]))
        winners[frozenset(base.items())] = best
        if is_hurried and known is None and len(choices.usable) > 1:  # a search is lost unless its winner is measured
            yield [replace(point, processes=1)]
            further += [replace(point, first=1)] if point.processes > 1 else []
        else:
            (first if is_hurried and context.is_headline(base) else batch).append(point)
    records: list[Record] = []
    for points in filter(None, (first, batch)):
        records += yield points
    if further:
        yield further
    for point, base, others in from_store:
        mine = [record.status for record in records if record.params == point.params]
        if (
            others and mine and all(status in FAILED_STATUSES for status in mine)
        ):  # as after a driver update; the failed record is kept
            best, note = yield from _tune(context, base, others, place)
            winners[frozenset(base.items())] = best
            yield [replace(context.point({**base, **best}, place), note=note)]


def _impossible_point(context: BenchmarkContext, base: Params, place: Placement) -> Point:
    """A point that has no configuration on this device, so that its record says so."""
    values = context.tuning_values()
    named = " or the values named" if context.selection.axes else ""
    reason = f"no {'/'.join(values)} among the candidates suits this device{named}"
    return Point(context.benchmark.name, {**base, **{n: v[0] for n, v in values.items()}}, place, reason=reason)


def _tune(
    context: BenchmarkContext, base: Params, usable: list[Params], place: Placement
) -> Generator[Sequence[Point], list[Record], tuple[Params, str]]:
    """Search one axis after the other from the first candidate, or of few all. Returns the best, and a note where the time of
    the run ended the search: others may be better.

    The caller measures the winner again, since the best of several trials is biased upwards.
    """
    benchmark = context.benchmark
    limit_ns, left_out = 0.0, 0

    def trial(choice: Params) -> Point:
        return Point(benchmark.name, {**base, **choice}, place, role="tune", give_up_ns=limit_ns)

    best = usable[0]
    records = yield [trial(best)]
    best_score, limit_ns = _score(benchmark, records)
    left_out += any(record.cause in TIME_SPENT_CAUSES for record in records)
    tried = [best]
    axes = context.tuning_values()
    for name in [""] if context.tries_all(usable) else axes:
        others = [{**best, name: value} for value in axes[name]] if name else usable
        for choice in [c for c in others if c in usable and c not in tried]:
            tried.append(choice)
            records = yield [trial(choice)]
            trial_score, own_limit_ns = _score(benchmark, records)
            left_out += any(record.cause in TIME_SPENT_CAUSES for record in records)
            if trial_score > best_score * (1 + MIN_TUNING_RELATIVE_GAIN):
                best, best_score, limit_ns = choice, trial_score, own_limit_ns
    return best, tuning.unfinished_note(left_out, len(tried))


def _score(benchmark: Benchmark, records: Sequence[Record]) -> tuple[float, float]:
    """The median of the headline metric, inverted where less is better, 0 where there is none; and the ns per unit after which
    other trials give up."""
    for record in records:
        metric = headline_metric(benchmark, record.params)
        values = derive.values_of(record, metric) if record.status == "ok" else []
        if values:
            return score(statistics.median(values), metric.better), give_up_ns(record, metric)
    return 0.0, 0.0


def _grow(
    context: BenchmarkContext, base: Params, name: str, axis: Axis, place: Placement
) -> Generator[Sequence[Point], list[Record], list[Point]]:
    """Measure one octave at a time until the metric has settled or the axis ends. In a run whose time is limited each octave
    has one point at first, so that the curve reaches memory, and the others follow between them. Returns the points that are to
    be repeated in further processes."""
    first, last = (int(v) for v in axis.values(context.info))
    floor_bytes = plateaus.memory_floor_bytes(context.info)
    sizes = octaves(first, last, axis.per_octave)
    batches = [sizes[start : start + axis.per_octave] for start in range(0, len(sizes), axis.per_octave)]
    is_hurried = context.selection.budget_s is not None
    if is_hurried:
        batches = [[size] for size in dict.fromkeys((*octaves(first, last, 1), *sizes[-1:]))]
    seen: list[Record] = []
    measured: dict[int, Point] = {}
    reached = first

    def points_of(some: Sequence[int]) -> list[Point]:
        params = {size: {**base, name: size} for size in some if size not in measured}
        found = {size: context.point(p, place) for size, p in params.items() if context.exists(p) and context.is_worthwhile(p)}
        measured.update(found)
        return [replace(point, processes=1) for point in found.values()]

    for batch in batches:
        reached = batch[-1]
        seen += yield points_of(batch)
        if plateaus.has_settled(plateaus.curve_points(seen, context.benchmark.metrics[0], name), floor_bytes):
            break
    for density in range(2, axis.per_octave + 1) if is_hurried else ():
        yield points_of([size for size in octaves(first, reached, density) if size in sizes])
    return [replace(point, first=1) for point in measured.values() if point.processes > 1]


def octaves(first: int, last: int, per_octave: int) -> list[int]:
    """Sizes from `first` to `last`, `per_octave` per octave, in whole KiB; powers of two times `first` are exact."""
    sizes: list[int] = []
    step = 0
    while True:
        size = int(first * 2 ** (step // per_octave) * 2 ** (step % per_octave / per_octave)) // 1024 * 1024
        if size > last:
            return sizes
        if size not in sizes:
            sizes.append(size)
        step += 1


def describe_plan(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> str:
    """A description of the plan that `explore` follows; the extent of a growing axis and the trials of tuning are known only
    later."""
    context = BenchmarkContext(benchmark, info, selection)
    parts = []
    for name, axis in context.axes().items():
        values = [format_param(name, value) for value in axis.values(info)]
        if axis.per_octave:
            parts.append(f"{name} {values[0]} to at most {values[-1]}, {axis.per_octave} per octave until the curve settles")
        else:
            parts.append(f"{'tuned ' if axis.tuning else ''}{name} {', '.join(values)}")
    places = [p for p in _places(benchmark, info, selection) if p != Placement()]
    bases = _scaling_points(context)
    if bases:
        places = selection.sweep(info)
        parts.append(f"{' and '.join(map(format_params, bases))} over compute units")
    if places:
        parts.append(", ".join(f"{p.compute_units} {p.placement}".strip() for p in places))
    single = _single_unit_points(context)
    if single:
        parts.append(f"{' and '.join(map(format_params, single))} on one compute unit")
    parts += _describe_stored(context)
    return "; ".join(parts) or "one point"


def _describe_stored(context: BenchmarkContext) -> list[str]:
    """The number of points that are measured in a stored configuration, without a search, in words; nothing where there are
    none."""
    if not context.selection.tuning:
        return []
    points = [base for base in context.bases() if context.configurations(base).worthwhile]
    known = [tuned for base in points if (tuned := context.stored(base)[0]) is not None]
    dates = ", ".join(dict.fromkeys(tuning.provenance(tuned, context.info) for tuned in known))
    return [f"{len(known)} of {len(points)} points in a stored configuration ({dates})"] if known else []
