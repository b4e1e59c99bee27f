"""Ratio of two measured values with interval and evidence, and verdicts on it by fixed rules. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clmembench.analysis.derive import Derived
from clmembench.model import Value

# Thresholds and limits, each with its reason
# time of many over that of one: supported up to the first, not supported from the second on
MAX_SUPPORTED_RATIO, MIN_UNSUPPORTED_RATIO = 1.10, 1.25
MAX_NEGLIGIBLE_RELATIVE_EFFECT, MIN_LARGE_EFFECT_RATIO = (
    0.05,
    1.25,
)  # a relative effect up to the first is negligible, a ratio from the second on is large

Support = Literal["supported", "partial", "not supported", "undetermined"]
Impact = Literal["none", "small", "at most small", "large", "gain", "undetermined"]


@dataclass(frozen=True, slots=True)
class BoundedRatio:
    """A ratio, with an interval that covers everything that the intervals of both values allow, and the records it is from."""

    value: float
    low: float
    high: float
    evidence: tuple[str, ...] = ()


def bounded_ratio(over: Derived | None, under: Derived | None) -> BoundedRatio | None:
    """`over` / `under`; None if either has no value or interval, or is not above 0.

    If both are known in cycles too, the interval also covers the ratio in cycles: either the core clock drifted between the
    points or its readings were disturbed, and these cannot be distinguished."""
    if over is None or under is None:
        return None
    ratios = [
        r
        for r in (
            _quotient(latency_ns_interval(over), latency_ns_interval(under)),
            _quotient(latency_cycles_interval(over), latency_cycles_interval(under)),
        )
        if r is not None
    ]
    if not ratios or latency_ns_interval(over) is None or latency_ns_interval(under) is None:
        return None
    value = math.exp(sum(math.log(middle) for middle, _, _ in ratios) / len(ratios))
    evidence = tuple(dict.fromkeys((*over.evidence, *under.evidence)))
    return BoundedRatio(value, min(low for _, low, _ in ratios), max(high for _, _, high in ratios), evidence)


MedianAndInterval = tuple[float, float, float]  # median and interval, all above 0


def _quotient(a: MedianAndInterval | None, b: MedianAndInterval | None) -> MedianAndInterval | None:
    """A ratio with the widest interval that two intervals allow."""
    if a is None or b is None:
        return None
    value = a[0] / b[0]
    # the interval of a median of few, coarse samples need not contain it
    return value, min(value, a[1] / b[2]), max(value, a[2] / b[1])


def latency_ns_interval(point: Derived) -> MedianAndInterval | None:
    """Latency of a good point in ns with its interval; None where the point is not `ok` or a bound is not known."""
    return positive_interval(point.median, point.ci_low, point.ci_high) if point.status == "ok" else None


def latency_cycles_interval(point: Derived) -> MedianAndInterval | None:
    """Latency of a point in core cycles with its interval; None where the clock is not known."""
    return positive_interval(point.cycles, point.cycles_low, point.cycles_high)


def positive_interval(*numbers_or_none: float | None) -> MedianAndInterval | None:
    """The three numbers, if all of them are known, finite and positive."""
    numbers = [n for n in numbers_or_none if n is not None and math.isfinite(n) and n > 0]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def support_verdict(found: BoundedRatio) -> Support:
    """Verdict on whether many loads take as long as one: yes up to 1.10 times its time, no from 1.25 times on."""
    if found.high <= MAX_SUPPORTED_RATIO:
        return "supported"
    if found.low >= MIN_UNSUPPORTED_RATIO:
        return "not supported"
    return "partial" if found.low > MAX_SUPPORTED_RATIO and found.high < MIN_UNSUPPORTED_RATIO else "undetermined"


def impact_verdict(found: BoundedRatio) -> Impact:
    """none up to 5%, large above 25%, small in between; `at most small` if none is possible too, and a gain if the pattern is
    over 5% faster."""
    if found.high <= 1 + MAX_NEGLIGIBLE_RELATIVE_EFFECT:
        return "gain" if found.high < 1 - MAX_NEGLIGIBLE_RELATIVE_EFFECT else "none"
    if found.low > MIN_LARGE_EFFECT_RATIO:
        return "large"
    if found.high <= MIN_LARGE_EFFECT_RATIO:
        return "small" if found.low > 1 + MAX_NEGLIGIBLE_RELATIVE_EFFECT else "at most small"
    return "undetermined"


def first_value(values: Sequence[Derived], benchmark: str, **params: Value) -> Derived | None:
    """The first value of a benchmark whose parameters are these, tuned ones among them; None where there is none."""
    return next((v for v in values if v.benchmark == benchmark and has_parameters(v, params)), None)


def values_with(values: Sequence[Derived], benchmark: str, **params: Value) -> list[Derived]:
    """Every value of a benchmark whose parameters are these and that has a number."""
    return [
        v
        for v in values
        if v.benchmark == benchmark and v.median is not None and v.status == "ok" and has_parameters(v, params)
    ]


def has_parameters(value: Derived, params: Mapping[str, Value]) -> bool:
    """True if a value's parameters are these, whatever others it has."""
    own = {**value.params, **value.tuning}
    return all(name in own and own[name] == wanted for name, wanted in params.items())
