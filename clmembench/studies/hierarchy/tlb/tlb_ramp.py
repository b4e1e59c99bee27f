"""Sets, ways and policies of a TLB from how its misses grow beyond the pages that fit: likelihood over their numbers. Pure.

Pages in a row fill sets by turns, so that each page more than fit overflows one set more, and under LRU and FIFO all pages of
such a set miss: ways + 1 more with each page, until all sets overflow. One set larger than the others is what Mei & Chu 2015,
section 5.1, conclude from such a growth (17 entries and then 8 more each time). Other policies leave hits, of which as many
whatever the order of the pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.studies.hierarchy.replacement.set_miss_rates import CYCLIC_POLICIES, cyclic_misses, forms_of

# Thresholds and limits, each with its reason
MAX_WAYS, MAX_LARGE_WAYS = 32, 48  # of sets that are tried, and of a larger one
MAX_ALONE_WAYS = 160  # of a single set
MIN_WAYS, MIN_SMALL_SETS = 2, 2  # of sets that are tried; sets of equal ways beside a larger one
SURE_PLAIN_BITS = 3  # that no other evidence outweighs
MIN_PLAIN_BITS = 2  # doubled strides at which half as many pages fit: an odd number of sets does not
MAX_SHARE = 1.1  # of the accesses miss: what costs more has missed a cache too in one of the orders
MIN_POINTS = 4
COST_SIGMA = 0.012  # relative: standard deviation of the cost of a miss
HIT_SIGMA = 0.006  # of the cost of a hit, which may change with the number of pages
MAX_CHI_SQUARED_EXCESS = 14.0  # of chi squared above the best fit's: odds of exp(7) against what fits worse
DRAWN_COST_SCALES = (1.0, 1.03, 1.06)
MAX_CHI_SQUARED_OF_POINT = 20.0  # one may be disturbed
ODD_SETS_CHI_SQUARED = 16.0  # for each of the hundreds of numbers of sets and ways that few TLBs have: rarer by exp(8) each
MAX_ANY_WAYS, USUAL_WAYS_MULTIPLE = 12, 4  # up to so many any number of ways is usual, beyond only multiples
RARE_POLICY_CHI_SQUARED = 4.0  # for policies that fewer TLBs have, by exp(2)
MAX_MEAN_CHI_SQUARED = 2.5  # of a fit that explains the points


@dataclass(frozen=True, slots=True)
class RampPoint:
    """The mean cost of an access to one of so many pages, and its standard deviation."""

    count: int
    value: float
    noise: float


@dataclass(frozen=True, slots=True)
class SetWays:
    """Sets of a TLB: how many, their ways, the ways of the one that has others, if there is one (else as many), and the policy,
    in one of its forms."""

    sets: int
    ways: int
    large: int
    policy: str = CYCLIC_POLICIES[0]
    form: int = 0

    @property
    def entries(self) -> int:
        return (self.sets - 1) * self.ways + self.large

    @property
    def text(self) -> int | str:
        """The ways of equal sets as a number, of unequal ones as 17+6x8 or 7x8+4."""
        if self.large == self.ways:
            return self.ways
        others = f"{self.sets - 1}x{self.ways}"
        return f"{self.large}+{others}" if self.large > self.ways else f"{others}+{self.large}"

    @property
    def is_usual(self) -> bool:
        """True of equal sets whose number is a power of two, of few ways or of a multiple of four."""
        is_plain = self.large == self.ways and not self.sets & (self.sets - 1)
        return is_plain and (self.sets == 1 or self.ways <= MAX_ANY_WAYS or self.ways % USUAL_WAYS_MULTIPLE == 0)

    @property
    def oddity(self) -> float:
        """What is added to chi squared for sets and policies that few devices have, of which many are tried."""
        return ODD_SETS_CHI_SQUARED * (not self.is_usual) + RARE_POLICY_CHI_SQUARED * (self.policy != CYCLIC_POLICIES[0])

    @property
    def misses_all(self) -> bool:
        """True if all pages of a set miss that gets more than it has ways."""
        return self.policy == CYCLIC_POLICIES[0]

    @property
    def cost_scales(self) -> Sequence[float]:
        """Times the cost of a miss as it was read: of drawn victims some still hit at several times as many pages."""
        return DRAWN_COST_SCALES if self.policy == "random" else (1.0,)

    @property
    def period(self) -> int:
        """Pages in a row from which on each set has one more than it has ways."""
        return self.entries + self.sets

    def misses(self, count: int) -> float:
        """How many of so many pages in a row miss; the larger set is the first to overflow."""
        if self.large > self.ways:
            more = count - self.entries
            if more <= 0:
                return 0.0
            return float(count) if more >= self.sets else float(more * (self.ways + 1) + self.large - self.ways)
        lines, further = divmod(count, self.sets)
        one, other = (cyclic_misses(self.policy, self.form, self.ways, n) if n else 0.0 for n in (lines, lines + 1))
        return (self.sets - further) * one + (further * other if further else 0.0)


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
        """The sets if no others explain the points as well, whatever the policy."""
        found = {(one.sets, one.ways, one.large) for one in self.likely}
        return self.likely[0] if len(found) == 1 else None

    @property
    def policies(self) -> frozenset[str]:
        """The policies that explain the points; none where not all were tried. Unevenly drawn victims leave more hits than
        evenly drawn ones."""
        if any(one.large > one.ways or one.sets & (one.sets - 1) or one.ways <= MIN_WAYS for one in self.likely):
            return frozenset()
        found = frozenset(name for one in self.likely for name in one.policy.split(" or "))
        return found | {"way-weighted"} if "random" in found else found


def fit_ramp_of_sets(points: Sequence[RampPoint], hit: float, cost: float, least: int, most: int) -> RampFit | None:
    """The numbers of sets and ways, of `least` to `most` entries in all, that explain the cost of accesses; None where none
    does. `cost`: of a miss, beyond `hit`."""
    points = [point for point in points if point.value - hit < MAX_SHARE * cost]
    if len(points) < MIN_POINTS:
        return None
    # ends first: they tell most, and most candidates need no other
    telling = [point for pair in zip(reversed(points), points, strict=True) for point in pair][: len(points)]
    ranked: list[tuple[float, int, SetWays]] = []
    least_sum = math.inf
    for number, one in enumerate(sorted(_possible_sets(least, most), key=lambda sets: CYCLIC_POLICIES.index(sets.policy))):
        most_of_one = least_sum + MAX_CHI_SQUARED_EXCESS - one.oddity
        value = one.oddity + min(_chi_squared(telling, one, hit, scale * cost, most_of_one) for scale in one.cost_scales)
        if value <= least_sum + MAX_CHI_SQUARED_EXCESS:
            ranked.append((value, number, one))
            least_sum = min(least_sum, value)
    ranked.sort()
    best = ranked[0][0] - ranked[0][2].oddity if ranked else math.inf
    if best > MAX_MEAN_CHI_SQUARED * len(points):
        return None
    return RampFit(tuple(one for value, _, one in ranked if value <= least_sum + MAX_CHI_SQUARED_EXCESS), best)


def _possible_sets(least: int, most: int) -> Sequence[SetWays]:
    """All sets of so many entries: equal ones, and one larger than the others; policies but LRU and FIFO only of usual
    ones."""
    found = []
    for entries in range(max(MIN_WAYS, least), most + 1):
        equal = [SetWays(1, entries, entries)] if entries <= MAX_ALONE_WAYS else []
        for ways in range(MIN_WAYS, min(MAX_WAYS, entries // 2) + 1):
            if entries % ways == 0:
                equal.append(SetWays(entries // ways, ways, ways))
            for large in range(ways + 1, MAX_LARGE_WAYS + 1):
                others, rest = divmod(entries - large, ways)
                if not rest and others >= MIN_SMALL_SETS:
                    found.append(SetWays(others + 1, ways, large))
        found += equal
        plain = [one for one in equal if not one.sets & (one.sets - 1) and one.is_usual]
        for policy in CYCLIC_POLICIES[1:]:
            found += [replace(one, policy=policy, form=form) for one in plain for form in range(forms_of(policy, one.ways))]
    return found


def _chi_squared(points: Sequence[RampPoint], sets: SetWays, hit: float, cost: float, most: float) -> float:
    """Chi squared of the points, or of as many of them as exceed `most`: misses of some policies are simulated."""
    total = 0.0
    for point in points:
        if total > most:
            break
        share = sets.misses(point.count) / point.count
        sigma = math.hypot(point.noise, COST_SIGMA * share * cost, HIT_SIGMA * hit)
        total += min(((point.value - hit - share * cost) / sigma) ** 2, MAX_CHI_SQUARED_OF_POINT)
    return total


def with_equal_sets(fit: RampFit) -> RampFit | None:
    """The fit of equal sets alone; None where unequal ones explain the points, or are likelier."""
    equal = tuple(one for one in fit.likely if one.large == one.ways)
    return RampFit(equal, fit.chi_squared) if equal and equal[0] == fit.likely[0] else None


def with_plain_bits(fit: RampFit, bits: int) -> RampFit | None:
    """The fit of sets that so many address bits choose from: of equal sets alone, whose number these bits divide, whatever the
    policy; None where bits contradict all of the fit."""
    if bits < MIN_PLAIN_BITS:
        return fit
    equal = tuple(one for one in fit.likely if one.large == one.ways and one.sets % (1 << bits) == 0 and one.sets > 1)
    if not equal:
        return None if bits >= SURE_PLAIN_BITS else fit
    return RampFit(equal, fit.chi_squared)


def with_sets(fit: RampFit, found: SetWays) -> RampFit | None:
    """The fit of these sets alone, by whatever policies; None where none of them explains the points."""
    likely = tuple(one for one in fit.likely if (one.sets, one.ways, one.large) == (found.sets, found.ways, found.large))
    return RampFit(likely, fit.chi_squared) if likely else None
