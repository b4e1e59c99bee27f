"""Lines of values that differ in the number on one axis alone, and the values on them that do not fit their order. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from clmembench.analysis.derive import Derived

MAX_LINE_POINTS = 300  # finding what does not fit is cubic in them, and no run has so many

Key = tuple[object, ...]


def inversions(intervals: Sequence[tuple[float, float]], factor: float, amounts: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Indices of what does not fit an order of values that never fall, each with one that it contradicts.

    Two contradict each other where the earlier one's interval lies over `factor` times the later one's and, given `amounts`,
    the later one's amount is at least twice the earlier one's. What contradicts most others is taken out until nothing does, so
    that one that is far too fast does not condemn all that are right. Lines of more than MAX_LINE_POINTS, which no run has, are
    passed over: what follows is cubic in them.
    """
    if len(intervals) > MAX_LINE_POINTS:
        return []
    pairs = [
        (i, j)
        for i in range(len(intervals))
        for j in range(i + 1, len(intervals))
        if intervals[i][0] > factor * intervals[j][1] and (not amounts or amounts[j] >= 2 * amounts[i])
    ]
    found = []
    while pairs:
        counts: dict[int, int] = defaultdict(int)
        for i, j in pairs:
            counts[i] += 1
            counts[j] += 1
        worst = max(counts, key=lambda index: (counts[index], -index))  # of two, the smaller set: disturbances only add
        found.append((worst, next(i + j - worst for i, j in pairs if worst in (i, j))))
        pairs = [pair for pair in pairs if worst not in pair]
    return found


def by_size(values: Sequence[Derived], axis: Callable[[Derived], str]) -> list[tuple[str, list[Derived]]]:
    """The axis and the values of each line of good values that differ only in the number on it, by rising number."""
    lines: dict[Key, list[Derived]] = defaultdict(list)
    for value in with_value(values):
        name = axis(value)
        if name and isinstance(value.params.get(name), int) and value.ci_low is not None and value.ci_high is not None:
            others = tuple(sorted((k, str(v)) for k, v in value.params.items() if k != name))
            lines[(value.benchmark, value.metric, name, others)].append(value)
    return [(str(key[2]), sorted(line, key=lambda v: size_on(v, str(key[2])))) for key, line in lines.items() if len(line) > 1]


def with_value(values: Sequence[Derived]) -> list[Derived]:
    """The values that are `ok` and have a number."""
    return [v for v in values if v.status == "ok" and v.median is not None]


def interval(value: Derived) -> tuple[float, float]:
    """The 95% interval of a value, 0 for an end that is not known."""
    return value.ci_low or 0.0, value.ci_high or 0.0


def relative_half_width(value: Derived) -> float:
    """Half the interval's width over the median."""
    low, high = interval(value)
    return (high - low) / 2 / value.median if value.median else 0.0


def size_on(value: Derived, name: str) -> int:
    """The number of a value on an axis."""
    return int(value.params[name])


def at_size(value: Derived, name: str) -> str:
    """Where a value lies on an axis, in words."""
    return f"at {name} {size_on(value, name)}"
