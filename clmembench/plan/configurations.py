"""What a benchmark offers on a device: its points, the shapes of each, and which of those is stored as the best."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from clmembench.model import Axis, Benchmark, DeviceInfo, Tuned, Value
from clmembench.plan.selection import Selection, takes
from clmembench.results import tuned as tuning


def chosen_axes(benchmark: Benchmark, info: DeviceInfo, selection: Selection) -> dict[str, Axis]:
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


def bases(info: DeviceInfo, axes: Mapping[str, Axis]) -> list[dict[str, Value]]:
    """Every choice on the plain axes."""
    plain = {n: a.values(info) for n, a in axes.items() if not a.tuning and not a.per_octave}
    return [dict(zip(plain, values, strict=True)) for values in itertools.product(*plain.values())]


def shapes(
    benchmark: Benchmark, info: DeviceInfo, selection: Selection, base: Mapping[str, Value]
) -> tuple[list[dict[str, Value]], list[dict[str, Value]], list[dict[str, Value]]]:
    """The choices on the tuning axes that make a point with `base`; those of them that are worth their time; and of these those
    that the device can do."""
    axes = chosen_axes(benchmark, info, selection)
    tuned = {n: a.values(info) for n, a in axes.items() if a.tuning}
    choices = [dict(zip(tuned, values, strict=True)) for values in itertools.product(*tuned.values())]
    possible = [c for c in choices if benchmark.where is None or benchmark.where(info, **base, **c)]
    allowed = [c for c in possible if _worthwhile(benchmark, info, selection, {**base, **c})]
    return possible, allowed, [c for c in allowed if not missing(benchmark, {**base, **c}, info.features)]


def _worthwhile(benchmark: Benchmark, info: DeviceInfo, selection: Selection, params: Mapping[str, Value]) -> bool:
    """Whether a point is measured unasked; where the user named values, all are."""
    return benchmark.thin is None or bool(set(selection.axes) & set(benchmark.axes)) or benchmark.thin(info, **params)


def stored(
    benchmark: Benchmark, info: DeviceInfo, selection: Selection, base: Mapping[str, Value]
) -> tuple[Tuned | None, Tuned | None]:
    """The stored shape of a point, which is taken without a search, and that of one like it, with which a search begins; None
    where there is none, or the user named values of a tuning axis."""
    tuned = {n: a.values(info) for n, a in benchmark.axes.items() if a.tuning}
    if not selection.tuning or set(selection.axes) & set(tuned):
        return None, None

    def fits(shape: Mapping[str, Value]) -> bool:
        """Whether it is (still) a shape of this point here."""
        params = {**base, **shape}
        return (
            shape.keys() == tuned.keys()
            and all(shape[name] in values for name, values in tuned.items())
            and (benchmark.where is None or benchmark.where(info, **params))
            and not missing(benchmark, params, info.features)
        )

    known = tuning.stored(selection.tuning, info, benchmark.name, base, fits)
    return known, known or tuning.nearest(selection.tuning, benchmark.name, base, fits)


def missing(benchmark: Benchmark, params: Mapping[str, Value], features: frozenset[str]) -> list[str]:
    """The features that a point needs and the device lacks."""
    needed = set(benchmark.needs)
    for name, value in params.items():
        needed |= benchmark.axes[name].needs.get(value, frozenset())
    return sorted(needed - features)
