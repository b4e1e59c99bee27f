"""Budgets of time: how long a point may sample, and when the time of a run, a benchmark or a search is spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]  # seconds since an arbitrary moment


@dataclass(frozen=True, slots=True)
class Budget:
    """The sampling time of a point: at least `min_time_s`, at most `max_time_s`, in between until noise is below `max_noise`.

    Where `max_time_s` allows fewer than six samples, a point may take `patience` times that long, and longer only to complete
    six of which half were taken by then. The two ends of a slope are at least `slope_ns` apart. `trial` takes the few samples
    that a tuning trial needs, and even fewer of a slow configuration. With `energy`, untimed passes follow the samples until an
    energy counter has advanced far enough. A trial whose first pass takes longer than `give_up_ns` (0: never) ends with it.
    """

    min_time_s: float = 0.1
    max_time_s: float = 1.0
    max_noise: float = 0.01
    slope_ns: float = 1e6
    patience: float = 4.0
    trial: bool = False
    energy: bool = False
    give_up_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment `at_s`, by `clock`, at which a budget of time is spent; without a budget it never comes."""

    at_s: float = math.inf
    clock: Clock = time.monotonic

    @classmethod
    def after(cls, seconds: float | None, clock: Clock = time.monotonic) -> Deadline:
        """The moment in `seconds` from now; never for None."""
        return cls(math.inf if seconds is None else clock() + seconds, clock)

    def left_s(self) -> float:
        """Seconds until then, 0 afterwards."""
        return max(0.0, self.at_s - self.clock())

    def is_over(self) -> bool:
        return self.clock() >= self.at_s

    def share(self, fraction: float) -> Deadline:
        """The moment at which this fraction of the time left now is spent."""
        return Deadline.after(fraction * self.left_s(), self.clock)


NEVER = Deadline()
