"""Sets and ways of a TLB from how its misses grow beyond the pages that fit: likelihood over numbers of sets and ways. Pure.

Pages in a row fill sets by turns, so that each page more than fit overflows one set more, and under LRU and FIFO all pages of
such a set miss: ways + 1 more with each page, until all sets overflow. One set larger than the others is what Mei & Chu 2015,
section 5.1, conclude from such a growth (17 entries and then 8 more each time). Other policies leave hits: they fit no such
growth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Thresholds and limits, each with its reason
MAX_WAYS, MAX_LARGE_WAYS = 32, 48  # of sets that are tried, and of a larger one
MIN_SMALL_SETS = 2  # sets of equal ways beside a larger one
MIN_PLAIN_BITS = 2  # doubled strides at which half as many pages fit: an odd number of sets does not
COST_SIGMA = 0.012  # relative: standard deviation of the cost of a miss
HIT_SIGMA = 0.006  # of the cost of a hit, which may change with the number of pages
MAX_CHI_SQUARED_EXCESS = 14.0  # of chi squared above the best fit's: odds of exp(7) against what fits worse
ODD_SETS_CHI_SQUARED = 8.0  # for each of the many numbers of sets that are no power of two: each is rarer by exp(4) at least
MAX_MEAN_CHI_SQUARED = 2.5  # of a fit that explains the points


@dataclass(frozen=True, slots=True)
class RampPoint:
    """The mean cost of an access to one of so many pages, and its standard deviation."""

    count: int
    value: float
    noise: float


@dataclass(frozen=True, slots=True)
class SetWays:
    """Sets of a TLB: how many, their ways, and the ways of the larger one among them, if there is one (else as many)."""

    sets: int
    ways: int
    large: int

    @property
    def entries(self) -> int:
        return (self.sets - 1) * self.ways + self.large

    @property
    def text(self) -> int | str:
        """The ways of equal sets as a number, of unequal ones as 17+6x8."""
        return self.ways if self.large == self.ways else f"{self.large}+{self.sets - 1}x{self.ways}"

    @property
    def oddity(self) -> float:
        """What is added to chi squared for sets that few devices have, of which many numbers are tried."""
        return 0.0 if self.large == self.ways and not self.sets & (self.sets - 1) else ODD_SETS_CHI_SQUARED

    @property
    def period(self) -> int:
        """Pages in a row from which on each set has one more than it has ways."""
        return self.entries + self.sets

    def misses(self, count: int) -> int:
        """How many of so many pages in a row miss; the larger set is the first to overflow."""
        more = count - self.entries
        if more <= 0:
            return 0
        return count if more >= self.sets else more * (self.ways + 1) + self.large - self.ways


@dataclass(frozen=True, slots=True)
class RampFit:
    """The sets that explain the points, the likeliest first, with the chi squared of the best."""

    likely: tuple[SetWays, ...]
    chi_squared: float

    @property
    def entries(self) -> int | None:
        """The number of entries on which all agree."""
        found = {one.entries for one in self.likely}
        return found.pop() if len(found) == 1 else None

    @property
    def sets(self) -> SetWays | None:
        """The sets if no others explain the points as well."""
        return self.likely[0] if len(self.likely) == 1 else None


def fit_ramp_of_sets(points: Sequence[RampPoint], hit: float, cost: float, least: int, most: int) -> RampFit | None:
    """The numbers of sets and ways, of `least` to `most` entries in all, that explain the cost of accesses; None where none
    does. `cost`: of a miss, beyond `hit`."""
    tried = [(_chi_squared(points, sets, hit, cost) + sets.oddity, sets) for sets in _possible_sets(least, most)]
    if not tried or len(points) < 3:
        return None
    best = min(value for value, _ in tried)
    if best > MAX_MEAN_CHI_SQUARED * len(points):
        return None
    near = sorted((value, one.sets, one) for value, one in tried if value <= best + MAX_CHI_SQUARED_EXCESS)
    return RampFit(tuple(one for _, _, one in near), best)


def _possible_sets(least: int, most: int) -> Sequence[SetWays]:
    """All sets of so many entries: equal ones, and one larger than the others."""
    found = []
    for entries in range(max(1, least), most + 1):
        found.append(SetWays(1, entries, entries))
        for ways in range(1, min(MAX_WAYS, entries // 2) + 1):
            if entries % ways == 0:
                found.append(SetWays(entries // ways, ways, ways))
            for large in range(ways + 1, MAX_LARGE_WAYS + 1):
                others, rest = divmod(entries - large, ways)
                if ways > 1 and not rest and others >= MIN_SMALL_SETS:
                    found.append(SetWays(others + 1, ways, large))
    return found


def _chi_squared(points: Sequence[RampPoint], sets: SetWays, hit: float, cost: float) -> float:
    total = 0.0
    for point in points:
        share = sets.misses(point.count) / point.count
        sigma = math.hypot(point.noise, COST_SIGMA * share * cost, HIT_SIGMA * hit)
        total += ((point.value - hit - share * cost) / sigma) ** 2
    return total


def with_plain_bits(fit: RampFit, bits: int) -> RampFit:
    """The fit of sets that so many address bits choose from: of equal sets, whose number these bits divide, if it is one."""
    equal = tuple(one for one in fit.likely if one.large == one.ways and one.sets % (1 << bits) == 0 and one.sets > 1)
    return RampFit(equal, fit.chi_squared) if bits >= MIN_PLAIN_BITS and len(equal) == 1 else fit
