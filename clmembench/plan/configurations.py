"""The points of a benchmark on a device, the configurations of each, and the stored configuration that is used for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from clmembench.model import Axis, Benchmark, DeviceInfo, Placement, Point, Tuned, Value, lacking
from clmembench.plan.selection import Selection, accepts_value, is_placeable
from clmembench.results import tuned as tuning

Params = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Configurations:
    """Values of the tuning axes for one point: the configurations that exist, those tried by default, and those among the
    latter whose features the device has."""

    possible: list[Params]
    worthwhile: list[Params]
    usable: list[Params]


@dataclass(frozen=True, slots=True)
class BenchmarkContext:
    """A benchmark on a device, with the choices of a selection."""

    benchmark: Benchmark
    info: DeviceInfo
    selection: Selection

    def at(self, place: Placement) -> BenchmarkContext:
        """The same benchmark on the part of the device that a Placement names."""
        return replace(self, info=place.seen(self.info))

    def axes(self) -> dict[str, Axis]:
        """The axes of the benchmark; suite quick replaces some of them, and so do the user's values.

        A user's value that this benchmark does not accept is ignored: benchmarks may have axes of the same name with other
        words.
        """
        benchmark, axes = self.benchmark, dict(self.benchmark.axes)
        if self.selection.suite == "quick" and benchmark.quick is not None:
            axes.update(benchmark.quick)
            axes = {n: replace(a, needs=benchmark.axes[n].needs, accepts=benchmark.axes[n].accepts) for n, a in axes.items()}
        for name, values in self.selection.axes.items():
            if name in axes:
                # a user who names values of a tuning axis wants to see the best of each of them
                own = tuple(value for value in values if accepts_value(benchmark.axes[name], self.info, value))
                axes[name] = Axis(_constant_values(own), axes[name].needs)
        return axes

    def tuning_values(self) -> dict[str, tuple[Value, ...]]:
        """The values of each tuning axis."""
        return {name: tuple(axis.values(self.info)) for name, axis in self.axes().items() if axis.tuning}

    def bases(self) -> list[Params]:
        """Every choice on the plain axes."""
        plain = {n: a.values(self.info) for n, a in self.axes().items() if not a.tuning and not a.per_octave}
        return [dict(zip(plain, values, strict=True)) for values in itertools.product(*plain.values())]

    def is_headline(self, base: Mapping[str, Value]) -> bool:
        """Whether a headline of the benchmark may be read at the point with these plain parameters."""
        axes = self.axes()

        def is_extreme(name: str, extreme: str) -> bool:
            numbers = [value for value in axes[name].values(self.info) if isinstance(value, int | float)]
            return name not in base or base[name] == (max if extreme == "largest" else min)(numbers, default=None)

        return any(
            all(base.get(name, value) == value for name, value in params.items())
            and all(is_extreme(name, extreme) for name, extreme in headline.extremes.items())
            for headline in self.benchmark.headlines
            for params in headline.params_on(self.info.has_cpu_cores)
        )

    def exists(self, params: Mapping[str, Value]) -> bool:
        """Whether these parameters make a point of the benchmark on this device."""
        return self.benchmark.where is None or self.benchmark.where(self.info, **params)

    def configurations(self, base: Mapping[str, Value]) -> Configurations:
        """The configurations of the point with these plain parameters."""
        tuned = self.tuning_values()
        every = [dict(zip(tuned, values, strict=True)) for values in itertools.product(*tuned.values())]
        possible = [c for c in every if self.exists({**base, **c})]
        worthwhile = [c for c in possible if self.is_worthwhile({**base, **c})]
        usable = [c for c in worthwhile if not missing_features(self.benchmark, {**base, **c}, self.info.features)]
        return Configurations(possible, worthwhile, usable)

    def is_worthwhile(self, params: Mapping[str, Value]) -> bool:
        """Whether a point is measured by default; where the user named values, every point is."""
        thin = self.benchmark.default_subset
        return thin is None or bool(set(self.selection.axes) & set(self.benchmark.axes)) or thin(self.info, **params)

    def stored(self, base: Mapping[str, Value]) -> tuple[Tuned | None, Tuned | None]:
        """The stored configuration of a point, used without a search, and that of a similar point, with which a search begins.

        None where nothing suitable is stored, or where the user named values of a tuning axis.
        """
        benchmark, info, selection = self.benchmark, self.info, self.selection
        tuned = {n: a.values(info) for n, a in benchmark.axes.items() if a.tuning}
        if not selection.tuning or set(selection.axes) & set(tuned):
            return None, None

        def fits(configuration: Mapping[str, Value]) -> bool:
            """Whether this (still) is a configuration of the point on this device."""
            params = {**base, **configuration}
            return (
                configuration.keys() == tuned.keys()
                and all(configuration[name] in values for name, values in tuned.items())
                and self.exists(params)
                and not missing_features(benchmark, params, info.features)
            )

        known = tuning.stored_for(selection.tuning, info, benchmark.name, base, fits)
        return known, known or tuning.nearest_stored(selection.tuning, benchmark.name, base, fits)

    def search_order(self, base: Mapping[str, Value], usable: Sequence[Params]) -> list[Params]:
        """Configurations of a point in the order of a search; the stored one of a similar point comes first.

        It is a better first choice than the one that is likely on any device.
        """
        near = self.stored(base)[1]
        return sorted(usable, key=lambda c: near is None or c != near.tuning)

    def tries_all(self, usable: Sequence[Params]) -> bool:
        """Whether a search tries every one of these: where they are no more than the values of the axes, it misses no pair of
        values that are good together alone."""
        return len(usable) <= 1 + sum(len({c[name] for c in usable}) - 1 for name in self.tuning_values())

    def point(self, params: Mapping[str, Value], place: Placement) -> Point:
        """A point, to be measured in as many processes as the selection demands."""
        processes = self.selection.processes_of(self.benchmark, self.info, params)
        return Point(self.benchmark.name, params, place, processes)


def most_trials(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> int:
    """The largest number of tuning trials that searches for all points may need, whichever configurations win."""
    if benchmark.adaptive or not any(axis.tuning for axis in benchmark.axes.values()):
        return 0
    context = BenchmarkContext(benchmark, info, selection)
    places = selection.places(info) if is_placeable(benchmark, info) else [Placement()]
    return sum(_most_trials_at(context.at(place)) for place in places)


def _most_trials_at(context: BenchmarkContext) -> int:
    """The largest number of trials at one placement; the context describes this part of the device."""
    if any(axis.per_octave for axis in context.axes().values()):
        return 0
    values = context.tuning_values()
    total = 0
    for base in context.bases():
        usable = context.search_order(base, context.configurations(base).usable)
        if len(usable) < 2 or context.stored(base)[0] is not None:
            continue
        if context.tries_all(usable):
            total += len(usable)
        else:
            total += 1 + _most_further_trials(usable[0], list(values.items()), {frozenset(c.items()) for c in usable})
    return total


def _most_further_trials(
    best: Params, axes: Sequence[tuple[str, Sequence[Value]]], usable: Set[frozenset[tuple[str, Value]]]
) -> int:
    """The largest number of trials of a search over these axes that starts from `best`, whichever configurations win."""
    if not axes:
        return 0
    (name, values), *later = axes
    others = [c for value in dict.fromkeys(values) if (c := {**best, name: value}) != best and frozenset(c.items()) in usable]
    return len(others) + max(_most_further_trials(choice, later, usable) for choice in (best, *others))


def _constant_values(values: tuple[Value, ...]) -> Callable[[DeviceInfo], tuple[Value, ...]]:
    return lambda info: values


def missing_features(benchmark: Benchmark, params: Mapping[str, Value], features: frozenset[str]) -> list[str]:
    """The features that a point needs and the device lacks."""
    needed = set(benchmark.needs)
    for name, value in params.items():
        needed |= benchmark.axes[name].needs.get(value, frozenset())
    return sorted(lacking(needed, features))
