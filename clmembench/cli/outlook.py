"""How far a run is and how long it will take: estimates from before the run, corrected by what its points took. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PRIOR_S = 5.0  # of a run as estimated, against which what it took so far is weighed
PRIOR_RECORDS = 3  # of a benchmark as estimated, likewise


@dataclass(frozen=True, slots=True)
class Expected:
    """A benchmark of the run, with its peers: how many records are expected of it, and how many seconds."""

    name: str
    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far the run is: records so far and in all, None where nobody knows; seconds so far and still to go."""

    done: int
    total: int | None
    elapsed_s: float
    left_s: float | None

    @property
    def share(self) -> float | None:
        """The part of the records that is done, below 1 until the end is known."""
        return None if self.total is None else self.done / max(1, self.total)


class Outlook:
    """Counts the records of a run and says what is left. `groups` names the benchmark whose estimate a peer's records count
    for; `known` are how many records of each benchmark an interrupted run has already."""

    def __init__(
        self,
        expected: Sequence[Expected] = (),
        groups: Mapping[str, str] | None = None,
        budget_s: float | None = None,
        known: Mapping[str, int] | None = None,
    ) -> None:
        self._groups = groups or {}
        before: dict[str, int] = {}
        for name, count in (known or {}).items():
            group = self._groups.get(name, name)
            before[group] = before.get(group, 0) + count
        self._before = sum(before.values())
        self._expected = [_less(one, before.get(one.name, 0)) for one in expected]
        self._budget_s = budget_s
        self._counts = [0] * len(self._expected)
        self._seconds = [0.0] * len(self._expected)
        self._at = 0
        self._other = 0  # records of benchmarks that nobody expected
        self._last_s = 0.0

    def add(self, benchmark: str, elapsed_s: float) -> Snapshot:
        """Count a record that is there `elapsed_s` seconds after the run's start, and say how far it is."""
        name = self._groups.get(benchmark, benchmark)
        later = (at for at in range(self._at, len(self._expected)) if self._expected[at].name == name)
        at = next(later, None)
        if at is None:
            self._other += 1
        else:
            self._at = at
            self._counts[at] += 1
            self._seconds[at] += elapsed_s - self._last_s
        self._last_s = elapsed_s
        return self.at(elapsed_s)

    def at(self, elapsed_s: float) -> Snapshot:
        """How far the run is at a moment."""
        done = self._before + self._other + sum(self._counts)
        if not self._expected:
            return Snapshot(done, None, elapsed_s, None)
        later = self._expected[self._at + 1 :]
        here = max(0, self._expected[self._at].records - self._counts[self._at])
        left_s = self._factor() * sum(one.seconds for one in later) + here * self._record_s()
        left_s = max(0.0, left_s - (elapsed_s - self._last_s))
        if self._budget_s is not None:
            left_s = min(left_s, max(0.0, self._budget_s - elapsed_s))
        return Snapshot(done, done + here + sum(one.records for one in later), elapsed_s, left_s)

    def _factor(self) -> float:
        """By how much longer than estimated the run takes, by what is done of it."""
        done = [
            one.seconds * (1 if at < self._at else min(1.0, self._counts[at] / max(1, one.records)))
            for at, one in enumerate(self._expected[: self._at + 1])
        ]
        return (PRIOR_S + sum(self._seconds)) / (PRIOR_S + sum(done))

    def _record_s(self) -> float:
        """Seconds of a further record of the benchmark that is being measured."""
        one = self._expected[self._at]
        prior = self._factor() * one.seconds / max(1, one.records)
        return (self._seconds[self._at] + PRIOR_RECORDS * prior) / (self._counts[self._at] + PRIOR_RECORDS)


def _less(one: Expected, known: int) -> Expected:
    """What is expected of a benchmark beyond the records that are known."""
    left = max(0, one.records - known)
    return Expected(one.name, left, one.seconds * left / max(1, one.records))
