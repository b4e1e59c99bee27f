"""How far a run is and how long it will take: the estimate from before the run, corrected by what its measurements took. Pure.

The seconds of a benchmark are its estimate times a ratio, of which the logarithm is normal: a part that all benchmarks of the
run share, as a slow device has, and one of its own. What is measured of both tells them, and the rest is their spread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clmembench.model import Record
    from clmembench.plan.estimate import BenchmarkEstimate, Kind

# standard deviations of natural logarithms, of the time that was taken over that estimated, in the runs of reports/
RUN_SD = 0.6  # between runs
BENCHMARK_SD = 0.5  # between benchmarks of a run
RECORD_SD = 1.3  # between measurements of a benchmark
SETTLING_S = 1.0  # added to both sides of a ratio: what is measured in less tells little
RANGE_SD = 1.28  # of the logarithm of the time left: eight runs in ten end within the range
OPEN_LEAST_SHARE = 0.5  # of its estimate that an open plan measures at least


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far the run is: measurements so far and in all, None where nobody knows; seconds so far, those still to go, and the
    range in which these are in eight cases of ten. `bound` stands before the number in all."""

    done: int
    total: int | None
    elapsed_s: float
    left_s: float | None
    range_s: tuple[float, float] | None = None
    bound: str = ""

    @property
    def share(self) -> float | None:
        """The part of the measurements that is done, below 1 until the end is known."""
        return None if self.total is None else self.done / max(1, self.total)


@dataclass(slots=True)
class Tally:
    """Measurements of a benchmark with its peers: how many of which kind, how many of them a time limit left out, and the
    distinct points of the others."""

    name: str
    counts: Counter[Kind] = field(default_factory=Counter)
    left_out: Counter[Kind] = field(default_factory=Counter)
    points: set[object] = field(default_factory=set)

    def add(self, record: Record) -> None:
        from clmembench.model.record import TIME_SPENT_CAUSES
        from clmembench.plan.estimate import kind_of

        kind = kind_of(record, record.process, self.name)
        self.counts[kind] += 1
        if record.cause in TIME_SPENT_CAUSES:
            self.left_out[kind] += 1
        elif record.role == "measure" and record.process == 0:
            self.points.add((record.benchmark, tuple(sorted(record.params.items())), record.place))

    @property
    def done(self) -> int:
        return self.counts.total()

    @property
    def measured(self) -> int:
        return self.done - self.left_out.total()

    @property
    def trials(self) -> int:
        return self.counts["trial"] - self.left_out["trial"]

    @property
    def repeats(self) -> int:
        """Measurements of points in further processes."""
        return self.measured - self.trials - len(self.points)


@dataclass(slots=True)
class EstimatedPart:
    """A benchmark of the run, with its peers: its estimate, its measurements, of which an interrupted run had those `before`,
    and the seconds that the others took."""

    expected: BenchmarkEstimate
    tally: Tally
    before: Counter[Kind] = field(default_factory=Counter)
    seconds: float = 0.0

    def expected_done_s(self) -> float:
        """Seconds that were expected of what this run measured of it."""
        return sum(self._each_s(kind) * (n - self.before[kind]) for kind, n in self.tally.counts.items())

    def left_range_s(self) -> tuple[float, float]:
        """The least and the most seconds that are expected of the rest."""
        most = {k: max(0, a.count - self.tally.counts[k]) * self._each_s(k) for k, a in self.expected.amounts.items()}
        share = OPEN_LEAST_SHARE if self.expected.is_open else self.expected.least_share
        left = {k: max(0.0, share * a.count - self.tally.counts[k]) * self._each_s(k) for k, a in self.expected.amounts.items()}
        return sum(left.values()), sum(most.values())

    def _each_s(self, kind: Kind) -> float:
        known = self.expected.amounts.get(kind)
        return known.seconds / known.count if known is not None and known.count else 0.0


class ProgressEstimate:
    """Counts the measurements of a run and says what is left. `groups` names the benchmark whose estimate a peer's measurements
    count for; `known` are those that an interrupted run has already."""

    def __init__(
        self,
        expected: Sequence[BenchmarkEstimate] = (),
        groups: Mapping[str, str] | None = None,
        budget_s: float | None = None,
        known: Iterable[Record] = (),
    ) -> None:
        from clmembench.model.record import TIME_SPENT_CAUSES

        self._groups = groups or {}
        self.parts = [EstimatedPart(one, Tally(one.name)) for one in expected]
        self._budget_s = budget_s
        self._at = 0
        self.others: list[Record] = []  # measurements of benchmarks that nobody expected
        self._last_s = 0.0
        for record in known:
            if record.cause not in TIME_SPENT_CAUSES:  # what a time limit left out is measured now
                self._count(record, 0)
        for part in self.parts:
            part.before = part.tally.counts.copy()

    def add(self, record: Record, elapsed_s: float) -> Snapshot:
        """Count a measurement that is there `elapsed_s` seconds after the run's start, and say how far it is."""
        at = self._count(record, self._at)
        if at is not None:
            self._at = at
            self.parts[at].seconds += elapsed_s - self._last_s
        self._last_s = elapsed_s
        return self.at(elapsed_s)

    def group_of(self, record: Record) -> str:
        """The benchmark whose measurement it is, or whose peer's."""
        return self._groups.get(record.benchmark, record.benchmark)

    def _count(self, record: Record, first: int) -> int | None:
        """Count a measurement for its benchmark, the next one of that name from number `first` on: its number. Benchmarks take
        turns, under a budget point by point, else process by process."""
        name = self.group_of(record)
        turns = (*range(first, len(self.parts)), *range(first))
        at = next((at for at in turns if self.parts[at].expected.name == name), None)
        if at is None:
            self.others.append(record)
        else:
            self.parts[at].tally.add(record)
        return at

    def at(self, elapsed_s: float) -> Snapshot:
        """How far the run is at a moment."""
        from clmembench.plan.estimate import RunEstimate

        done = len(self.others) + sum(part.tally.done for part in self.parts)
        if not self.parts:
            return Snapshot(done, None, elapsed_s, None)
        open_parts = self.parts[self._at :]
        left = sum(max(0, part.expected.all_records - part.tally.done) for part in open_parts)
        bound = RunEstimate(tuple(part.expected for part in open_parts)).bound
        end = max(0.0, self._budget_s - elapsed_s) if self._budget_s is not None else None
        here = open_parts[0]
        if here.expected.is_open and here.tally.done >= here.expected.all_records:  # nobody knows how many more it needs
            return Snapshot(done, None, elapsed_s, None, (0.0, end) if end is not None else None)
        left_s, range_s = self._left(elapsed_s - self._last_s)
        if end is not None:
            left_s, range_s = min(left_s, end), (min(range_s[0], end), min(range_s[1], end))
        return Snapshot(done, done + left, elapsed_s, left_s, range_s, bound)

    def _left(self, since_s: float) -> tuple[float, tuple[float, float]]:
        """Seconds to go, and their range, `since_s` seconds after the last measurement."""
        here, later = self.parts[self._at], self.parts[self._at + 1 :]
        before, before_variance = self._shared_ratio(self.parts[: self._at])
        own = _combined((before, before_variance + BENCHMARK_SD**2), *_observed(here, 0.0))
        number = max(1, here.expected.all_records - here.tally.done)
        here_s, variance = _rest(here, own[0], own[1] + RECORD_SD**2 / number)
        shared, shared_variance = self._shared_ratio(self.parts[: self._at + 1])
        others = [_rest(part, shared, BENCHMARK_SD**2) for part in later]
        if (
            self._budget_s is not None
        ):  # what is left of those whose turn ended; how many points a curve still needs nobody knows
            others += [(part.left_range_s()[0] * math.exp(shared), 0.0) for part in self.parts[: self._at]]
        later_s = sum(seconds for seconds, _ in others)
        variance += sum(one for _, one in others) + later_s**2 * math.expm1(shared_variance)
        total = here_s + later_s
        sd = math.sqrt(math.log1p(variance / total**2)) if total else 0.0
        left_s = total - min(since_s, here_s / number)  # a point that hangs makes no other one shorter
        return left_s, (left_s * math.exp(-RANGE_SD * sd), left_s * math.exp(RANGE_SD * sd))

    @staticmethod
    def _shared_ratio(parts: Sequence[EstimatedPart]) -> tuple[float, float]:
        """The logarithm of the ratio that all benchmarks share, and its variance, by these parts of the run."""
        return _combined((0.0, RUN_SD**2), *(one for part in parts for one in _observed(part, BENCHMARK_SD**2)))


def _rest(part: EstimatedPart, mean: float, variance: float) -> tuple[float, float]:
    """Seconds of what is left of a benchmark, and their variance, by the logarithm of its ratio."""
    least, most = part.left_range_s()
    seconds = (least + most) / 2 * math.exp(mean)
    return seconds, seconds**2 * math.expm1(variance) + ((most - least) * math.exp(mean)) ** 2 / 12


def _observed(part: EstimatedPart, variance: float) -> list[tuple[float, float]]:
    """The logarithm of the time that was taken over that expected, and its variance, which has a part of that size besides what
    measurements differ by; nothing where none was measured."""
    if not part.seconds:
        return []
    ratio = (part.seconds + SETTLING_S) / (part.expected_done_s() + SETTLING_S)
    return [(math.log(ratio), variance + RECORD_SD**2 / part.tally.done)]


def _combined(*estimates: tuple[float, float]) -> tuple[float, float]:
    """Normal estimates of one value with their variances as one."""
    weights = [1 / variance for _, variance in estimates]
    return sum(w * mean for w, (mean, _) in zip(weights, estimates, strict=True)) / sum(weights), 1 / sum(weights)
