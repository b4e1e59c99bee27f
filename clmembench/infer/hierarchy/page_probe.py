"""How pages are counted: the two orders in which their lines are visited, and the noise of the difference. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clmembench.infer.hierarchy.probing import LAP_NOISE_SIGMAS, ChaseLayout, HitMissModel, LevelProbe, ProbeCache
from clmembench.model import Inquiry

MAX_SEEDS = 8  # orders of one lap whose mean is taken where the noise of one is too large


@dataclass(frozen=True, slots=True)
class PageCountLimits:
    """Where pages may be counted: the largest working set, and the relative noise of a lap."""

    most_bytes: int
    noise: float


@dataclass(frozen=True, slots=True)
class PageProbe:
    """How pages are counted: the answers so far, the chase over lines of pages, and where pages may be counted."""

    asked: ProbeCache
    chase: ChaseLayout
    field: PageCountLimits

    def mean(self, count: int, stride_bytes: int) -> Inquiry[float | None]:
        """What an access to another of `count` pages `stride_bytes` apart costs more than one to the same page."""
        return (yield from self.chase.mean(self.asked, count, stride_bytes))

    def precise(self, count: int, stride_bytes: int, wanted: float) -> Inquiry[tuple[float | None, float]]:
        """As `mean`, over as many orders as bring its noise to `wanted`, eight at most; with its noise."""
        first = yield from self.mean(count, stride_bytes)
        if first is None:
            return None, math.inf
        noise, values = self.noise(count, stride_bytes), [first]
        while noise / math.sqrt(len(values)) > wanted and len(values) < MAX_SEEDS:
            value = yield from self.chase.mean(self.asked, count, stride_bytes, len(values))
            if value is None:
                break
            values.append(value)
        if len(values) > 2:  # laps that were disturbed, in either order
            values = sorted(values)[1:-1]
        return sum(values) / len(values), noise / math.sqrt(len(values))

    def noise(self, count: int, stride_bytes: int) -> float:
        """The noise of the difference between laps in the two orders, which were asked before."""
        answers = [self.asked.answers.get(probe) for probe in self.chase.orders(count, stride_bytes)]
        latency = max((a.value for a in answers if a is not None and a.value is not None), default=0.0)
        lines = self.chase.lines_of_page(count, stride_bytes)
        return math.sqrt(2) * self.field.noise * latency * lines / (lines - 1)

    def level(self, hit: float, miss: float, count: int, stride_bytes: int) -> LevelProbe:
        """The probe of a TLB with these costs of a hit and a miss, at the noise of `count` pages."""
        return LevelProbe(self.asked, self.chase, HitMissModel(hit, miss, self.noise(count, stride_bytes)))


def is_clear(rise: float, noise: float) -> bool:
    """True if a rise of a mean is no noise."""
    return rise > LAP_NOISE_SIGMAS * noise
