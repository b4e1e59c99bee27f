"""Interleaved A/B measurement: one point on both sides, and the pairs of values that its rounds gave. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.analysis.derive import Derived, derive_point
from clmembench.model import Benchmark, BenchmarkInfo, Metric, Placement, Record, Value
from clmembench.model.metrics import sign
from clmembench.studies.ab.ab_decision import ABDecision, decide

MAX_WORK_DIFFERENCE = (
    0.01  # relative difference in a pass's bytes or operations: configurations of one point round sizes differently
)
# Gates that report a disturbed host. Both sides are disturbed with equal probability, so the interval of a ratio covers it.
DISTURBANCE_GATES = ("drift", "cores", "levels", "sizes", "knee")
VALUELESS_STATUSES = ("failed", "wrong", "timeout", "skipped")


@dataclass(slots=True)
class Case:
    """One point on both sides: for each metric one pair of values per round, and the decision. `lost` has the reasons why
    rounds gave no pair; `failed` is the reason why the point has no verdict at all."""

    benchmark: Benchmark
    params: Mapping[str, Value]  # A's
    place: Placement
    index: int
    metrics: Mapping[str, Metric]
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    decisions: dict[str, ABDecision] = field(default_factory=dict)
    lost: dict[str, list[str]] = field(default_factory=dict)
    failed: str = ""
    same_kernels: bool = False

    @property
    def open(self) -> bool:
        """True while the point needs another round."""
        return not self.failed and any(d.verdict == "undecided" for d in self.decisions.values())

    def logs(self, metric: str) -> list[float]:
        """Logarithm of the gain of B over A for each round."""
        turn = sign(self.metrics[metric].better)
        return [turn * (math.log(b) - math.log(a)) for a, b in self.pairs.get(metric, [])]

    def look(self, margin: float, tail: float) -> None:
        """Evaluate each undecided metric on the rounds so far."""
        for metric, decision in self.decisions.items():
            if decision.verdict == "undecided":
                self.decisions[metric] = decide(self.logs(metric), margin, tail)


def absorb(case: Case, a: Record | None, b: Record | None, other_shape: bool, known: BenchmarkInfo) -> None:
    """Add one round's records to a case. None stands for a side that was not measured because the other one had failed."""
    for name, record in (("A", a), ("B", b)):
        if record is not None and record.status in VALUELESS_STATUSES:
            case.failed = f"{record.status} in {name}: {record.reason}"
            return
    if a is None or b is None:
        return
    if a.version != b.version:
        case.failed = f"{a.benchmark} is of version {a.version} in A and {b.version} in B: they measure different things"
        return
    case.failed = different_work(a, b, MAX_WORK_DIFFERENCE if other_shape else 0.0)
    case.same_kernels = a.sources.partition("-")[0] == b.sources.partition("-")[0]
    values = [{value.metric: value for value in derive_point([record], known)} for record in (a, b)]
    for metric in case.metrics:
        pair = [of.get(metric) for of in values]
        bad = next(((n, v) for n, v in zip("AB", pair, strict=True) if v is None or not is_value(v)), None)
        if bad is None:
            first, second = (v.median for v in pair if v is not None)
            assert first is not None and second is not None
            case.pairs.setdefault(metric, []).append((first, second))
        else:
            name, value = bad
            reason = f"{value.status} in {name}: {value.reason}" if value is not None else f"no value in {name}"
            case.lost.setdefault(metric, []).append(reason)


def is_value(value: Derived) -> bool:
    """True if a value can be half of a pair: it is ok, or suspect only because the host was disturbed."""
    return (value.status == "ok" or value.gate in DISTURBANCE_GATES) and value.median is not None and value.median > 0


def different_work(a: Record, b: Record, tolerance: float) -> str:
    """Why two records are of different work; empty if they are of the same. Each process chooses the lengths of a slope's two
    ends, so their amounts need only be in one proportion. In an overlap (three series) it chooses one length too, so only the
    number of series is compared."""
    if len(a.series) != len(b.series):
        return f"not the same work: {len(a.series)} series in A and {len(b.series)} in B"
    for one, other in zip(a.series, b.series, strict=True) if len(a.series) < 3 else ():
        amounts = [(what, getattr(one, what), getattr(other, what)) for what in ("nbytes", "flops", "ops")]
        known = [in_b / in_a for _, in_a, in_b in amounts if in_a and in_b]
        scale = known[0] if len(a.series) == 2 and known else 1.0
        allowed = max(tolerance, MAX_WORK_DIFFERENCE if len(a.series) == 2 else 0.0)
        for what, in_a, in_b in amounts:
            if abs(in_a * scale - in_b) > allowed * max(in_a * scale, in_b):
                return f"not the same work: {what} of a pass are {in_a} in A and {in_b} in B"
    return ""


def medians(case: Case, metric: str) -> tuple[float | None, float | None]:
    """Median over the rounds for each side."""
    pairs = case.pairs.get(metric, [])
    return (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)) if pairs else (None, None)
