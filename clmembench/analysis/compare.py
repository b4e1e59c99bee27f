"""Comparison of two runs point by point: ratios with intervals, and verdicts. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from clmembench.analysis import distributions, matching, noise, stats
from clmembench.analysis.derive import Derived
from clmembench.model import Card, Run, Value
from clmembench.model.direction import gain, more_is_better, sign

Verdict = Literal["faster", "slower", "same", "undecided"]

DEFAULT_MARGIN = 0.05  # what a user would not care about, and hosts do by themselves
FALSE_DISCOVERY_RATE = 0.01  # of what is called faster or slower: so much of it is expected to be false
MAX_WORK_DIFFERENCE = 0.01  # of what a pass moves: tuned configurations round sizes by less
CONTENTION_EXPONENT = 2.0  # a pass that should have all CPUs may lose the square of the share that other programs left it
MIN_OTHERS = 0.05  # of the CPUs, that other programs used: less is the accounting's own grain
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


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one run, the kind of device they are of (noise.kind_of), what identifies the device, and its model."""

    values: Sequence[Derived]
    kind: str
    device: str
    on_cpu: bool = False
    model: str = ""


def compare(
    first: Run, second: Run, margin: float = DEFAULT_MARGIN, force: bool = False, table: noise.NoiseTable | None = None
) -> Comparison:
    """Both runs' values, judged before (gates). What one of them lacks is listed, not compared, and so are benchmarks whose
    version or kernels changed, unless `force`."""
    left_out = {} if force else matching.incomparable(first, second)
    sides = []
    measured = [matching.own_values(run) for run in (first, second)]
    for run, own in zip((first, second), measured, strict=True):
        device = run.header.device
        values = [v for v in own if v.benchmark not in left_out]
        identity = f"{device.name} {device.uuid or device.pci}"
        model = f"{device.name}, {device.compute_units}"  # CPUs of any number of cores go by one name
        sides.append(Side(values, noise.kind_of(device, run.header.host), identity, device.kind == "cpu", model))
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


def compare_sides(first: Side, second: Side, cards: Mapping[str, Card], margin: float, table: noise.NoiseTable) -> Comparison:
    """As `compare`, of values without their runs; `cards` say which suite and headline they belong to."""
    told_apart = frozenset().union(*(matching.several_configurations(side.values) for side in (first, second)))
    of = [matching.by_point(side.values, told_apart) for side in (first, second)]
    own = [noise.host_factor(table, side.kind, side.values) for side in (first, second)]
    if first.kind == second.kind:  # what one host is seen to do is the best guess for another of its kind
        own = [factor or other for factor, other in zip(own, reversed(own), strict=True)]
    factors = own[0] or 1.0, own[1] or 1.0
    pairs = [(a, of[1][key]) for key, a in of[0].items() if key in of[1] and a.benchmark in cards]
    pairs = [(a, b) for a, b in pairs if a.status != "skipped" or b.status != "skipped"]  # what neither can run is no value
    plain = [_plain(a, b, cards[b.benchmark]) for a, b in pairs]
    gains = [_gain(a, b, (first, second), factors, table) for a, b in pairs]
    changes = _decided(plain, gains, [more_is_better(a.better) for a, _ in pairs], margin)
    only = [tuple(dict.fromkeys(_label(v) for k, v in of[i].items() if k not in of[1 - i])) for i in (0, 1)]
    return Comparison(tuple(changes), only[0], only[1], _means(changes))


def _plain(a: Derived, b: Derived, card: Card) -> Change:
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
    if abs(a.nbytes - b.nbytes) > MAX_WORK_DIFFERENCE * max(a.nbytes, b.nbytes) and min(a.pass_ns, b.pass_ns) > 0:
        why = f"not the same work: a pass moves {a.nbytes} B in the first and {b.nbytes} B in the second"
        return replace(plain, reason=why, estimate=None, left_out=True)
    return plain


def _gain(
    a: Derived, b: Derived, sides: tuple[Side, Side], factors: tuple[float, float], table: noise.NoiseTable
) -> noise.LogRatio | None:
    """The second over the first, turned so that more is better; None where either has no value that counts."""
    if any(v.status != "ok" or not v.medians or min(v.medians) <= 0 for v in (a, b)):
        return None
    typical = table.of(sides[0].kind, a), table.of(sides[1].kind, b)
    two_of_a_model = sides[0].device != sides[1].device and sides[0].model == sides[1].model
    found = noise.log_ratio(a.medians, b.medians, typical, table, two_of_a_model, factors)
    # other programs on its CPU only slow a run down: undisturbed it may have been faster
    slack = [_contention(v.others) if side.on_cpu else 0.0 for v, side in zip((a, b), sides, strict=True)]
    return replace(found, log=sign(a.better) * found.log, low_slack=slack[0], high_slack=slack[1])


def _contention(others: float) -> float:
    """By how much, as a logarithm, other programs that used this share of the CPUs may have slowed a value down."""
    return CONTENTION_EXPONENT * -math.log(1 - min(0.9, others)) if others > MIN_OTHERS else 0.0


def _decided(
    plain: Sequence[Change], gains: Sequence[noise.LogRatio | None], higher: Sequence[bool], margin: float
) -> list[Change]:
    """Every change with its verdict. Faster and slower are called of all values together, so that at most FALSE_SHARE of the
    calls is expected to be false however many values there are (Benjamini & Hochberg 1995); `same` is what has its interval
    within the margin."""
    usable = {i: gain for i, gain in enumerate(gains) if gain is not None and not plain[i].reason}
    chances = {i: gain.chance(margin) for i, gain in usable.items()}
    level = distributions.benjamini_hochberg([min(1.0, 2 * min(pair)) for pair in chances.values()], FALSE_DISCOVERY_RATE)
    changes = list(plain)
    for i, found in usable.items():
        gain = found.ratio()
        slower, faster = (2 * chance <= level for chance in chances[i])
        said = gain.verdict(margin)
        verdict: Verdict = "slower" if slower else "faster" if faster else "same" if said == "same" else "undecided"
        reason = ""
        if verdict == "undecided":
            chance = f"one of {len(usable)} values may look so by chance: measure again"
            reason = (
                CONTENTION_REASON if found.low_slack or found.high_slack else NOISE_REASON if said == "undecided" else chance
            )
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
