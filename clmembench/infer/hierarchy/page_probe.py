"""How pages are counted: where it may be done, and the noise of the difference from as many neighbouring lines. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clmembench.infer.hierarchy.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeCache
from clmembench.model import Inquiry


@dataclass(frozen=True, slots=True)
class PageCountLimits:
    """Where pages may be counted: the largest working set, and numbers of lines, first to last, at which the caches
    themselves go from hits to misses, so that the control and what it controls may differ in that."""

    most_bytes: int
    noise: float
    hazy: tuple[tuple[int, int], ...] = ()
    spread: float = 0.0  # between single lines

    def of(self, count: int) -> float:
        """The noise of the difference between laps over `count` pages and over as many neighbouring lines."""
        return math.hypot(self.noise, math.sqrt(2 / count) * self.spread)

    def clear(self, count: int) -> bool:
        """True if `count` lines are far from any cache's capacity."""
        return not any(first <= count <= last for first, last in self.hazy)


@dataclass(frozen=True, slots=True)
class PageProbe:
    """How pages are counted: the answers so far, the chase over one line a page, and where pages may be counted."""

    asked: ProbeCache
    chase: ChaseLayout
    field: PageCountLimits

    def mean(self, count: int, stride_bytes: int) -> Inquiry[float | None]:
        """The mean latency of `count` pages `stride_bytes` apart, less that of as many neighbouring lines."""
        return (yield from self.chase.mean(self.asked, count, stride_bytes))

    def level(self, hit: float, miss: float, count: int) -> LevelProbe:
        """The probe of a TLB with these costs of a hit and a miss, at the noise of `count` pages."""
        return LevelProbe(self.asked, self.chase, HitMissModel(hit, miss, self.field.of(count)))
