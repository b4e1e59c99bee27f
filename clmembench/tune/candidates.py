"""The search of one point: its candidate configurations, their values, which are near the best, and the outcome. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clmembench.analysis import stats
from clmembench.model import Benchmark, DeviceInfo, Point, Role, Value
from clmembench.plan.configurations import BenchmarkContext, missing_features
from clmembench.plan.selection import Selection

MAX_PROCESS_RELATIVE_DIFFERENCE = 0.03  # relative: how much processes differ, where the samples of each have less noise
MAX_FIRST_ROUND_CANDIDATES = 8  # candidates of a point in its first round
MIN_COMPARED_PROCESSES = 3  # processes from which the ratio of the winner to the first candidate is known
MAX_NEGLIGIBLE_RELATIVE_GAIN = 0.05  # relative: a winner that is better by no more leaves the first candidate the best
EXPECTED_LOG_RATIO_SD = (
    0.02  # standard deviation that the logarithm of the ratio of two shapes in one process is expected to have
)

Configuration = Mapping[str, Value]
ConfigurationKey = frozenset[tuple[str, Value]]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of tuning the point with these plain parameters.

    `first` is the configuration that a search begins with, `winner` the best one found, and `ratio` how many times as good that
    is; `best` is the one to be stored: the winner where the whole interval says that it is better, the first where there is no
    winner or it is hardly better; None where that is undetermined, for that `reason`. `tried` of `shapes` candidates were
    tried.
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
    """A point and its candidate configurations, the likeliest first, with the values of each by its number. More is better."""

    params: Configuration
    shapes: list[dict[str, Value]]
    start: int = 0  # where the second climb begins
    trials: dict[int, stats.Summary | None] = field(default_factory=dict)
    rounds: dict[int, list[float]] = field(default_factory=dict)  # one value a process
    pairs: list[tuple[float, float]] = field(
        default_factory=list
    )  # values of the first candidate and the winner in each process
    climbed: bool = False  # from the first candidate to where no single step is better
    reason: str = ""

    @property
    def winner(self) -> int:
        """The best of the last round, which took the most processes; without a round, the best of the trials."""
        most = max(map(len, self.rounds.values()), default=0)
        rivals = [n for n, values in self.rounds.items() if values and len(values) == most] or list(self.trials)
        return max(rivals, key=self.score, default=0)

    def score(self, number: int) -> float:
        """The median over its rounds, where it was in one, else of its trial; 0 where it has no value."""
        if self.rounds.get(number):
            return statistics.median(self.rounds[number])
        trial = self.trials.get(number)
        return trial.median if trial is not None else 0.0

    def near(self) -> list[int]:
        """The candidates that their trials do not distinguish from the best, best first."""
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
            best, reason = None, reason or "it was not begun: raise --budget"
        elif not self.climbed:
            best, reason = None, "the search did not get far enough: raise --budget"
        elif winner is not first:
            if ratio is not None and (ratio.low > 1 or ratio.high > 1 + MAX_NEGLIGIBLE_RELATIVE_GAIN):
                best = winner if ratio.low > 1 else None
                reason = f"the best of the trials is {ratio.low:.3f} to {ratio.high:.3f} times as good as the first candidate: "
                reason += "quieten the host, or raise --budget"
            elif ratio is None and self.score(0):
                best, reason = (
                    None,
                    f"only {len(self.pairs)} processes measured both it and the first candidate: raise --budget",
                )
            elif ratio is None:
                best = winner  # the first configuration does not even run
        return SearchOutcome(
            self.params, first, winner, best, ratio, len(self.trials), len(self.shapes), reason if best is None else ""
        )


def tuning_cases(
    benchmark: Benchmark, info: DeviceInfo, selection: Selection, among: Mapping[str, Sequence[Value]]
) -> list[TuningCase]:
    """Every point of a benchmark that has several candidate configurations here, of those with values of `among` where it names
    an axis. Configurations that a search in `run` leaves out to save time (Benchmark.default_subset) are among them."""
    found = []
    context = BenchmarkContext(benchmark, info, selection)
    for params in context.bases():
        configurations = context.configurations(params)
        usable = configurations.usable
        others = [c for c in configurations.possible if c not in usable] if usable else []
        more = [c for c in others if not missing_features(benchmark, {**params, **c}, info.features)]
        wanted = [c for c in [*usable, *more] if all(v in among.get(name, (v,)) for name, v in c.items())]
        if len(wanted) > 1:
            near = context.stored(params)[1]
            found.append(TuningCase(params, wanted, next((n for n, c in enumerate(wanted) if near and c == near.tuning), 0)))
    return found
