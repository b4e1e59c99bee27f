"""Comparison of two runs point by point: ratios with intervals, and verdicts. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from clmembench.analysis import decision, matching, noise, stats
from clmembench.analysis.decision import DEFAULT_MARGIN, FALSE_DISCOVERY_RATE, Side, Verdict
from clmembench.analysis.derive import Derived
from clmembench.model import BenchmarkInfo, Run, Value
from clmembench.model.metrics import gain, more_is_better

MAX_WORK_DIFFERENCE = 0.01  # of what a pass moves: tuned configurations round sizes by less
NOISE_REASON = "runs differ too much by themselves: use more --processes on a quiet host, or compare --live"
CONTENTION_REASON = "other programs used the CPU, which may explain it: measure again when they do not"
MIN_SPEED_TO_PASS = 0.5  # of the first run's speed: an undecided value that looks so slow is no ground to pass a check


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of one point in two runs. `ratio` is second over first, `gain` the same turned so that more is better; both
    are None where either has no value. `reason` says which has none, or why a ratio is not decided. `smallest` is the factor of
    the smallest slowdown that would have been called, alone among the others, in 80% of cases. `estimate` is the gain by the
    medians alone, of suspect values too."""

    benchmark: str
    suite: str
    params: Mapping[str, Value]
    metric: str
    unit: str
    headline: bool
    verdict: Verdict
    first: float | None
    second: float | None
    ratio: stats.Ratio | None = None
    gain: stats.Ratio | None = None
    reason: str = ""
    broken: bool = False  # the first run has a value, and the second failed or computed wrongly
    left_out: bool = False  # the first run measured it, and one of the two has no good value of the same work
    smallest: float | None = None
    estimate: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every common point of two runs, the points that only one has, the geometric means of the gains, the benchmarks that could
    not be compared, each with its reason, and the values of the first run that no change is of."""

    changes: tuple[Change, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    means: Mapping[str, stats.Ratio]
    left_out: Mapping[str, str] = field(default_factory=dict)
    uncompared: tuple[matching.Uncompared, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """Number of changes with that verdict."""
        return sum(change.verdict == verdict for change in self.changes)


def compare(
    first: Run, second: Run, margin: float = DEFAULT_MARGIN, force: bool = False, table: noise.NoiseTable | None = None
) -> Comparison:
    """Both runs' values, judged before (gates). What one of them lacks is listed, not compared, and so are benchmarks whose
    version or kernels changed, and all of one CPU with another number of compute units, unless `force`."""
    left_out = {} if force else matching.incomparable(first, second) | matching.on_other_units(first, second)
    sides = []
    measured = [matching.own_values(run) for run in (first, second)]
    for run, own in zip((first, second), measured, strict=True):
        values = [v for v in own if v.benchmark not in left_out]
        sides.append(decision.side_of(values, run.header.device, run.header.host))
    found = compare_sides(sides[0], sides[1], second.header.benchmarks, margin, table or noise.calibrated())
    if first.records and first.records == second.records:
        changes = tuple(map(_identical, found.changes))
        found = replace(found, changes=changes, means=_means(changes))
    return replace(found, left_out=left_out, uncompared=matching.uncompared(measured[0], measured[1], left_out))


def restricted(found: Comparison, names: Set[str], takes: Callable[[Mapping[str, Value]], bool]) -> Comparison:
    """The part of a comparison that is of these benchmarks and of parameters that `takes` is true of. Verdicts stay as they
    are among all values; geometric means are of those left."""

    def is_wanted(label: str) -> bool:
        name, *params = label.split(" ")
        return name in names and takes(dict(text.partition("=")[::2] for text in params))

    changes = tuple(change for change in found.changes if change.benchmark in names and takes(change.params))
    only = [tuple(filter(is_wanted, labels)) for labels in (found.only_first, found.only_second)]
    left_out = {name: why for name, why in found.left_out.items() if name in names}
    lost = tuple(one for one in found.uncompared if one.benchmark in names and takes(one.params))
    return Comparison(changes, only[0], only[1], _means(changes), left_out, lost)


def _identical(change: Change) -> Change:
    """A change between a run and itself: there is none, and no chance in it."""
    if change.ratio is None:
        return change
    one = stats.Ratio(1.0, 1.0, 1.0)
    return replace(change, verdict="same", ratio=one, gain=one, reason="")


def compare_sides(
    first: Side, second: Side, cards: Mapping[str, BenchmarkInfo], margin: float, table: noise.NoiseTable
) -> Comparison:
    """As `compare`, of values without their runs; `cards` say which suite and headline they belong to."""
    pair = decision.pair_of(first, second, table)
    of = _by_point(first, second)
    pairs = [(a, b) for a, b in _common(*of) if a.benchmark in cards]
    plain = [_plain(a, b, cards[b.benchmark]) for a, b in pairs]
    gains = [_gain(pair, a, b) for a, b in pairs]
    changes = _decided(plain, gains, [more_is_better(a.better) for a, _ in pairs], margin)
    only = [tuple(dict.fromkeys(_label(v) for k, v in of[i].items() if k not in of[1 - i])) for i in (0, 1)]
    return Comparison(tuple(changes), only[0], only[1], _means(changes))


def level_of(pair: decision.Pair, margin: float = DEFAULT_MARGIN) -> float:
    """The level at which `compare_sides` calls values of these sides faster or slower."""
    gains = [_gain(pair, a, b) for a, b in _common(*_by_point(pair.first, pair.second))]
    return decision.decision_level([gain for gain in gains if gain is not None], margin)


def _by_point(first: Side, second: Side) -> list[dict[matching.Key, Derived]]:
    told_apart = frozenset().union(*(matching.several_configurations(side.values) for side in (first, second)))
    return [matching.by_point(side.values, told_apart) for side in (first, second)]


def _common(first: Mapping[matching.Key, Derived], second: Mapping[matching.Key, Derived]) -> list[tuple[Derived, Derived]]:
    """The values of common points, without those that neither side can run."""
    pairs = [(a, second[key]) for key, a in first.items() if key in second]
    return [(a, b) for a, b in pairs if a.status != "skipped" or b.status != "skipped"]


def _gain(pair: decision.Pair, a: Derived, b: Derived) -> noise.LogRatio | None:
    """The second's value over the first's, turned so that more is better; None where one is not good, or of other work."""
    ours, theirs = pair.first.noisy(a, pair.table), pair.second.noisy(b, pair.table)
    return None if ours is None or theirs is None or _is_other_work(a, b) else pair.gain(ours, theirs, a.better)


def _is_other_work(a: Derived, b: Derived) -> bool:
    """Whether a pass of the one moves other amounts than one of the other."""
    return abs(a.nbytes - b.nbytes) > MAX_WORK_DIFFERENCE * max(a.nbytes, b.nbytes) and min(a.pass_ns, b.pass_ns) > 0


def _plain(a: Derived, b: Derived, card: BenchmarkInfo) -> Change:
    """The change without a ratio, and the reason where there can be none."""
    applying = [m.name for m in card.metrics if m.applies({**b.params, **b.tuning})]
    values = [v.median if v.status == "ok" else None for v in (a, b)]
    medians = [v.median or 0.0 for v in (a, b)]
    estimate = medians[1] / medians[0] if min(medians) > 0 else None
    estimate = gain(estimate, a.better) if estimate is not None else None
    headline = applying[:1] == [b.metric]
    plain = Change(
        a.benchmark, card.suite, a.params, a.metric, a.unit, headline, "undecided", values[0], values[1], estimate=estimate
    )
    for value, which in ((a, "first"), (b, "second")):
        if value.status != "ok" or not value.medians or min(value.medians) <= 0:
            reason = f"{value.status} in the {which}{': ' + value.reason if value.reason else ''}"
            broken = which == "second" and value.status in matching.BROKEN
            return replace(plain, reason=reason, broken=broken, left_out=a.status not in matching.NO_VALUE)
    if _is_other_work(a, b):
        why = f"not the same work: a pass moves {a.nbytes} B in the first and {b.nbytes} B in the second"
        return replace(plain, reason=why, estimate=None, left_out=True)
    return plain


def _decided(
    plain: Sequence[Change], gains: Sequence[noise.LogRatio | None], higher: Sequence[bool], margin: float
) -> list[Change]:
    """Every change with its verdict, which all values get together."""
    usable = {i: gain for i, gain in enumerate(gains) if gain is not None}
    level = decision.decision_level(list(usable.values()), margin)
    changes = list(plain)
    for i, found in usable.items():
        gain, verdict = found.ratio(), decision.decision(found, level, margin)
        reason = ""
        if verdict == "undecided":
            chance = f"one of {len(usable)} values may look so by chance: measure again"
            disturbed = found.low_slack or found.high_slack
            reason = CONTENTION_REASON if disturbed else NOISE_REASON if gain.verdict(margin) == "undecided" else chance
        changes[i] = replace(
            plain[i],
            verdict=verdict,
            ratio=gain if higher[i] else stats.Ratio(1 / gain.value, 1 / gain.high, 1 / gain.low),
            gain=gain,
            reason=reason,
            smallest=found.smallest_change(margin, FALSE_DISCOVERY_RATE / 2 / len(usable)),
        )
    return changes


def _means(changes: Sequence[Change]) -> dict[str, stats.Ratio]:
    """Geometric means of the headline gains by suite and kind of quantity; each benchmark has one weight, however many points.
    Points share what changed between runs, so intervals are taken to err together: no narrower for more points."""
    gains: dict[str, dict[str, list[stats.Ratio]]] = {}
    for change in changes:
        if change.gain is not None and change.headline:
            gains.setdefault(f"{change.suite}, {_quantity(change.unit)}", {}).setdefault(change.benchmark, []).append(
                change.gain
            )
    return {name: _mean([_mean(of_one) for of_one in benchmarks.values()]) for name, benchmarks in gains.items()}


def _mean(gains: Sequence[stats.Ratio]) -> stats.Ratio:
    return stats.Ratio(*(statistics.geometric_mean(getattr(g, end) for g in gains) for end in ("value", "low", "high")))


def _quantity(unit: str) -> str:
    """Quantity that a unit measures."""
    return "time" if unit in ("ns", "us", "ms", "s", "cycles") else "bandwidth" if unit.endswith("B/s") else "rate"


def _label(value: Derived) -> str:
    return " ".join([value.benchmark, *(f"{k}={v}" for k, v in value.params.items())])
