"""The search of one point: its candidate configurations, their values, the candidates near the best, and the outcome. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clmembench.analysis import stats
from clmembench.model import Benchmark, DeviceInfo, Point, Role, Value
from clmembench.plan.configurations import BenchmarkContext, missing_features
from clmembench.plan.selection import Selection

MAX_PROCESS_RELATIVE_DIFFERENCE = 0.03  # difference between processes, where the noise within each is smaller
MAX_FIRST_ROUND_CANDIDATES = 8  # candidates of a point in its first round
MIN_COMPARED_PROCESSES = 3  # fewer give no ratio of the winner to the first candidate
MAX_NEGLIGIBLE_RELATIVE_GAIN = 0.05  # a winner with a smaller gain does not replace the first candidate
EXPECTED_LOG_RATIO_SD = 0.02  # of the logarithm of the ratio of two configurations in one process

Configuration = Mapping[str, Value]
ConfigurationKey = frozenset[tuple[str, Value]]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of tuning the point with these plain parameters.

    `first` is the configuration that a search begins with, `winner` the best one measured, and `ratio` the winner's value over
    that of the first, above 1 if it is better. `best` is the configuration to store: the winner if the whole interval of the
    ratio says that it is better; the first if there is no winner or its gain is negligible; None if this is undetermined,
    because of `reason`. `tried` of `shapes` candidates were measured.
    """

    params: Configuration
    first: Configuration
    winner: Configuration
    best: Configuration | None
    ratio: stats.Ratio | None
    tried: int
    shapes: int
    reason: str = ""


@dataclass(slots=True)
class TuningCase:
    """A point and its candidate configurations, the likeliest first, with the values of each by its index. More is better."""

    params: Configuration
    shapes: list[dict[str, Value]]
    start: int = 0  # where the second climb begins
    trials: dict[int, stats.Summary | None] = field(default_factory=dict)
    rounds: dict[int, list[float]] = field(default_factory=dict)  # one value per process
    pairs: list[tuple[float, float]] = field(default_factory=list)  # (first candidate, winner) in each process
    climbed: bool = False  # the climb from the first candidate reached one that no single step improves
    reason: str = ""
    give_up_ns: float = 0.0  # per unit, after which a trial ends with its first pass (Point.give_up_ns)

    @property
    def winner(self) -> int:
        """The best of the last round, which used the most processes; without a round, the best of the trials."""
        most = max(map(len, self.rounds.values()), default=0)
        rivals = [n for n, values in self.rounds.items() if values and len(values) == most] or list(self.trials)
        return max(rivals, key=self.score, default=0)

    def score(self, number: int) -> float:
        """The median over its rounds; without a round, the value of its trial; 0 without a value."""
        if self.rounds.get(number):
            return statistics.median(self.rounds[number])
        trial = self.trials.get(number)
        return trial.median if trial is not None else 0.0

    def near(self) -> list[int]:
        """The candidates whose trials do not distinguish them from the best, best first."""
        known = {n: trial for n, trial in self.trials.items() if trial is not None}
        least = max(known.values(), key=lambda trial: trial.median).low if known else 0.0
        return sorted(
            (n for n, t in known.items() if t.high * (1 + MAX_PROCESS_RELATIVE_DIFFERENCE) >= least),
            key=self.score,
            reverse=True,
        )[:MAX_FIRST_ROUND_CANDIDATES]

    def point(self, benchmark: Benchmark, number: int, process: int = 0, role: Role = "tune") -> Point:
        return Point(benchmark.name, {**self.params, **self.shapes[number]}, first=process, processes=process + 1, role=role)

    def key(self, number: int) -> ConfigurationKey:
        return frozenset({**self.params, **self.shapes[number]}.items())

    def differ(self, one: int, other: int) -> set[str]:
        """The parameters in which two candidates differ."""
        return {name for name, value in self.shapes[one].items() if value != self.shapes[other][name]}

    def outcome(self) -> SearchOutcome:
        first, winner = self.shapes[0], self.shapes[self.winner]
        ratio = None
        if len(self.pairs) >= MIN_COMPARED_PROCESSES:
            ratio = stats.paired_ratio([a for a, _ in self.pairs], [b for _, b in self.pairs], EXPECTED_LOG_RATIO_SD)
        best: Configuration | None = first
        reason = self.reason
        if not self.score(self.winner):
            best, reason = None, reason or "the search did not begin: raise --budget"
        elif not self.climbed:
            best, reason = None, "the search did not get far enough: raise --budget"
        elif winner is not first:
            if ratio is not None and (ratio.low > 1 or ratio.high > 1 + MAX_NEGLIGIBLE_RELATIVE_GAIN):
                best = winner if ratio.low > 1 else None
                reason = f"the best of the trials is {ratio.low:.3f} to {ratio.high:.3f} times as good as the first candidate: "
                reason += "quieten the host, or raise --budget"
            elif ratio is None and self.score(0):
                best, reason = None, f"only {len(self.pairs)} processes measured both candidates: raise --budget"
            elif ratio is None:
                best = winner  # the first candidate does not run
        return SearchOutcome(
            self.params, first, winner, best, ratio, len(self.trials), len(self.shapes), reason if best is None else ""
        )


def tuning_cases(
    benchmark: Benchmark, info: DeviceInfo, selection: Selection, among: Mapping[str, Sequence[Value]]
) -> list[TuningCase]:
    """Every point of a benchmark that has several candidate configurations on this device.

    Where `among` names a tuning axis, candidates have only its values there. Candidates include configurations that a search
    within `run` leaves out to save time (Benchmark.default_subset).
    """
    cases = []
    context = BenchmarkContext(benchmark, info, selection)
    for params in context.bases():
        configurations = context.configurations(params)
        usable = configurations.usable
        others = [c for c in configurations.possible if c not in usable] if usable else []
        more = [c for c in others if not missing_features(benchmark, {**params, **c}, info.features)]
        wanted = [c for c in [*usable, *more] if all(v in among.get(name, (v,)) for name, v in c.items())]
        if len(wanted) > 1:
            near = context.stored(params)[1]
            cases.append(TuningCase(params, wanted, next((n for n, c in enumerate(wanted) if near and c == near.tuning), 0)))
    return cases
