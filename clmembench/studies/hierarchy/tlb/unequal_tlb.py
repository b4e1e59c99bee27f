"""Sets of a TLB page by page, whatever chooses them: pages that fit beside others, then one page too many for each set. Pure.

A page that fits beside those that fit is of a set with room; one that does not overflows its set, of which under LRU and FIFO
all pages miss: one more than its ways. With one such page for each set every page misses, and the sets' ways add up to the
entries. As Mei & Chu 2015, section 5.1, but without their assumption that pages in a row overflow one set after the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.page_probe import PageCost, PageMean, PageProbe
from clmembench.studies.hierarchy.tlb.tlb_first_pages import with_numbers
from clmembench.studies.hierarchy.tlb.tlb_ramp import MIN_WAYS, SetWays

# Thresholds and limits, each with its reason
MAX_FITTING, MAX_SETS = 512, 64  # pages that fit, and sets: of more a single set's misses are within the noise of a lap
MAX_TESTED_RATIO = 2.2  # times the pages that fit, that are tested one by one
MIN_FULL_MISSES = 1.5  # of a page that does not fit: its set has one more than it has ways, of which two miss at least
FULL_SHARE = 0.4  # of the misses with a page too many of each of two sets, one of which is no odd one
MAX_LOOKS = 64  # at pages behind, about, whether one fits
MISS_SIGMAS = 3.5  # of the noise: by which misses are more or fewer than that
MAX_SEEDS_OF_TEST, MAX_SEEDS_OF_WAYS = 20, 24  # orders of a test's laps, and of those that tell the ways
MISSES_NOISE = 0.4  # of those, in misses
MAX_EXCESS_SHARE = 0.03  # of the pages that fit, by which more may seem to miss than there are
ODD_MISSES, MAX_OFF_MISSES = 1.5, 1.0  # misses of one set more or fewer than of the others; that a set's may be off by


@dataclass(slots=True)
class _Pages:
    """Pages by their numbers: those that fit together, and one page too many for each set so far, with its misses."""

    fitting: list[int]
    over: list[int] = field(default_factory=list)
    misses: list[float] = field(default_factory=list)

    @property
    def least_ways(self) -> float:
        """The ways of the smallest set so far, about."""
        return max(1.0, min(self.misses) - 1)

    @property
    def limit(self) -> float:
        """Misses with one page more, of which fewer say that it fits."""
        return max(MIN_FULL_MISSES, min(self.misses) * FULL_SHARE) if len(self.misses) > 1 else MIN_FULL_MISSES


def sets_page_by_page(pages: PageProbe, page_bytes: int, cost: PageCost, first: int, fits: int) -> Experiment[SetWays | None]:
    """The sets, one of which may have more or fewer ways than the others; None where they are not found, or other policies than
    LRU and FIFO let some pages of a set hit that overflows. So many pages
    from page `first` on fit."""
    test = _Test(pages, page_bytes, cost)
    room = pages.field.most_bytes // page_bytes
    if not 1 < fits <= MAX_FITTING:
        return None
    seen = _Pages(list(range(first, first + fits)))
    for page in range(first + fits, min(room, first + int(MAX_TESTED_RATIO * fits) + MAX_SETS)):
        alone = yield from test.more_misses(seen.fitting, [], page, seen.limit)
        if alone is None:
            return None
        if alone < seen.limit:
            seen.fitting.append(page)
            continue
        if alone < MIN_WAYS + 0.5:
            return None  # some pages of the set hit
        if seen.over:
            limit = (1 + alone) / 2
            beside = yield from test.more_misses(seen.fitting, seen.over, page, limit)
            if beside is None:
                return None
            if beside < limit:  # of a second page of a set that overflows it alone misses too
                continue
        seen.over.append(page)
        seen.misses.append(alone)
        if len(seen.over) > MAX_SETS:
            return None
        left = yield from test.hits([*seen.fitting, *seen.over], seen.least_ways / 2)
        if left is None or left > seen.least_ways / 2:
            continue
        if left < -max(seen.least_ways / 2, MAX_EXCESS_SHARE * len(seen.fitting)):
            return None  # more misses than pages: one costs more here, as while some are still hits in one of the orders
        if (yield from _all_sets_are_seen(test, seen, range(page + 1, room))):
            return (yield from _as_sets(test, seen))
    return None


def _all_sets_are_seen(test: _Test, seen: _Pages, further: range) -> Experiment[bool]:
    """True if none of the pages behind fits beside those that do, as of a set that these do not use at all, and none makes
    more miss than itself where each set has a page too many."""
    entries = len(seen.fitting)
    for page in further[: entries : max(1, entries // MAX_LOOKS) | 1]:
        alone = yield from test.more_misses(seen.fitting, [], page, seen.limit)
        if alone is None or alone < seen.limit:
            return False
        beside = yield from test.more_misses(seen.fitting, seen.over, page, (1 + alone) / 2)
        if beside is None or beside > (1 + alone) / 2:
            return False
    return True


def _as_sets(test: _Test, seen: _Pages) -> Experiment[SetWays | None]:
    """The sets of as many entries as pages fit, by how many miss with one page too many of each."""
    misses: list[float] = []
    for page in seen.over:
        found = yield from test.precisely([*seen.fitting, page])
        if found is None:
            return None
        misses.append(found)
    if len(misses) == 1:
        one = len(seen.fitting)
        return SetWays(1, one, one) if abs(misses[0] - one - 1) <= MAX_OFF_MISSES + MISS_SIGMAS * MISSES_NOISE else None
    ways, sets = round(statistics.median(misses)) - 1, len(misses)
    odd = len(seen.fitting) - (sets - 1) * ways
    others = [one for one in misses if abs(one - ways - 1) > ODD_MISSES]
    if ways < MIN_WAYS or odd < 1 or len(others) > 1:
        return None
    if abs(odd + 1 - (others[0] if others else ways + 1)) > MAX_OFF_MISSES:
        return None
    return SetWays(sets, ways, odd)


@dataclass(frozen=True, slots=True)
class _Test:
    """How misses of chosen pages are counted."""

    pages: PageProbe
    page_bytes: int
    cost: PageCost

    def more_misses(self, fitting: Sequence[int], over: Sequence[int], page: int, limit: float) -> Experiment[float | None]:
        """How many more miss with a page than without it, surely more or fewer than a limit; None where noise hides that.
        Without `over`, all hit."""
        before = 0.0
        if over:
            found = yield from self._misses([*fitting, *over], lambda _, noise: MISS_SIGMAS * noise < limit / 2)
            if found is None:
                return None
            before = found
        after = yield from self._misses(
            [*fitting, *over, page], lambda misses, noise: abs(misses - before - limit) > MISS_SIGMAS * noise
        )
        return None if after is None else after - before

    def precisely(self, numbers: Sequence[int]) -> Experiment[float | None]:
        """How many of these pages miss, with little noise."""
        return (yield from self._misses(numbers, lambda _, noise: noise <= MISSES_NOISE, MAX_SEEDS_OF_WAYS))

    def hits(self, numbers: Sequence[int], limit: float) -> Experiment[float | None]:
        """How many of these pages hit, surely more or fewer than a limit."""
        count = len(numbers)
        found = yield from self._misses(numbers, lambda misses, noise: abs(count - misses - limit) > MISS_SIGMAS * noise)
        return None if found is None else len(numbers) - found

    def _misses(
        self, numbers: Sequence[int], is_settled: Callable[[float, float], bool], most: int = MAX_SEEDS_OF_TEST
    ) -> Experiment[float | None]:
        """How many of these pages miss, by as many orders of laps as settle it; None where so many do not."""
        one = (self.cost.miss - self.cost.hit) / len(numbers)

        def settled(mean: PageMean) -> bool:
            return is_settled((mean.value - self.cost.hit) / one, mean.noise / one)

        probe = with_numbers(self.pages, sorted(numbers))
        found = yield from probe.until(len(numbers), self.page_bytes, settled, most, 2)
        return (found.value - self.cost.hit) / one if found is not None and settled(found) else None
