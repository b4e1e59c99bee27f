"""Sets of a TLB, from which bits of a page's number, or its remainder, choose among them. Pure.

A nearer TLB answers for the few pages of one set itself, so that no stride leaves one set to be counted. But pages whose
numbers all have one bit at 0 use half of the sets where that bit chooses among them, and all sets otherwise: three quarters of
the pages that fit then miss mostly, or all hit, and they are more than the nearer TLB holds. So each bit is asked alone.

Of a known number of entries any number of sets is found so, whatever the policy: as many pages, of a part of the remainders
modulo a multiple of the sets, fit as long as the sets divide that part too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.page_probe import PageCost, PageProbe, cost_of_pages
from clmembench.studies.hierarchy.probes.probing import CapacityBound
from clmembench.studies.hierarchy.tlb.tlb_ramp import MIN_WAYS, SetWays

# Thresholds, each with its reason
ASKED_SHARE = 0.75  # of the pages that fit: half of the sets have room for two thirds of them, all have for all
MIN_ASKED_SHARE = 0.62  # of them, where memory has no room for twice as many: half of the sets surely overflow
MIN_MISSING_NEARER_SHARE = 0.9  # of what a miss of the nearer TLB costs: such laps miss it whatever the pages' numbers are
MIN_MISS_SHARE, MAX_MISS_SHARE = 0.3, 0.08  # of accesses: where a bit is one of the sets', and where it is none
MAX_ROWS_SHARE = 0.2  # of accesses to rows of pages, whose lines lie less evenly in caches: of uneven sets half miss
MIN_OVER_SHARE = 0.2  # of accesses, where each set has a page more than ways
MAX_NOISE, FIT_SIGMAS = 0.1, 2.0  # of a share by one order; of that noise, by which it may be less
ORDERS, MAX_ORDERS = 2, 5  # of laps, which have to agree on that; tried at most
MIN_BITS = 2  # of which a single one may be chance
ROWS_SEEDS = 8  # random choices of rows of pages, one of each set, that have to fit
HALVES_SEEDS, MIN_HALVES_SHARE = 4, 0.7  # choices of half of the sets that have to overflow; of twice the ways 80% miss
MAX_ENTRIES = 256  # whose number is known: one miss of more is within the noise
MIN_ROOM_RATIO = 4 / 3  # times those rows, among which is chosen


def sets_by_bits(pages: PageProbe, cost: PageCost, page_bytes: int, held: CapacityBound) -> Experiment[SetWays | None]:
    """The sets and ways of a level whose sets the low bits of a page's number choose; None where these leave several numbers of
    entries between what surely fits and what does not. `cost`: of a hit, which the nearer TLB misses, and of a miss; `held`:
    how many pages in a row fit."""
    if cost.miss <= cost.hit:
        return None
    probe = _BitProbe(pages, cost, page_bytes)
    count = min(int(ASKED_SHARE * held.fits), probe.room // 2)
    if count < max(1 << MIN_BITS, MIN_ASKED_SHARE * held.fits) or not pages.chase.has_enough_lines(count, page_bytes):
        return None
    base = yield from probe.share(range(count))
    noise = pages.noise(held.over or held.fits, page_bytes) / (cost.miss - cost.hit)
    if base is None or noise > MAX_NOISE or not probe.held_nearer - FIT_SIGMAS * noise <= base <= MAX_MISS_SHARE:
        return None
    bits = 0
    while 1 << bits < count:
        low = (1 << bits) - 1
        halves = yield from probe.share([(n & ~low) * 2 + (n & low) for n in range(count)])
        if halves is None or MAX_MISS_SHARE < halves < MIN_MISS_SHARE:
            return None
        if halves <= MAX_MISS_SHARE:
            break
        bits += 1
    if bits < MIN_BITS:
        return None
    ways = yield from _ways_of_sets(probe, 1 << bits, held)
    found = SetWays(1 << bits, ways, ways)
    return found if ways and (yield from _rows_fit(probe, found)) else None


def sets_by_remainders(pages: PageProbe, cost: PageCost, page_bytes: int, entries: int) -> Experiment[SetWays | None]:
    """The several equal sets of a level of so many entries that the remainder of a page's number chooses, whatever the policy;
    None where something else does, or noise hides it."""
    if cost.miss <= cost.hit or entries > MAX_ENTRIES or not pages.chase.has_enough_lines(entries, page_bytes):
        return None
    if pages.noise(entries, page_bytes) > math.sqrt(ORDERS * ROWS_SEEDS) * (cost.miss - cost.hit) / entries:
        return None  # it would hide half of the misses of a set that has one way less than the others
    probe = _BitProbe(pages, cost, page_bytes)
    for largest_first in (False, True):  # a multiple of the sets by an odd number may seem to be divided by 2
        sets = yield from _least_multiple(probe, entries, largest_first)
        found = SetWays(sets, entries // sets, entries // sets)
        if sets == 1 or found.ways < MIN_WAYS or entries + sets > probe.room:
            continue
        over = yield from probe.share(range(entries + sets))
        if over is None or over < 1 / (found.ways + 1):  # half of what drawn victims of a row too many let miss
            continue
        if (yield from _halves_overflow(probe, found)) and (yield from _rows_fit(probe, found, 1 / entries)):
            return found
    return None


def _least_multiple(probe: _BitProbe, entries: int, largest_first: bool) -> Experiment[int]:
    """The least number of which pages of some remainders alone miss mostly, by all its primes, or 1 where it is not known: the
    sets, or a multiple of these by chance."""
    sets, is_smaller = entries, True
    while is_smaller:
        is_smaller, least = False, 1.0
        for prime in sorted(_primes_of(sets), reverse=largest_first):
            numbers = _some_remainders(entries, sets, prime)
            share = (yield from probe.share(numbers)) if numbers[-1] < probe.room else None
            if share is None:
                return 1
            least = min(least, share)
            if share <= MAX_MISS_SHARE:
                sets, is_smaller = sets // prime, True
                break
    return sets if least >= MIN_MISS_SHARE else 1


def _primes_of(number: int) -> list[int]:
    """The prime factors of a number, each once."""
    return [n for n in range(2, number + 1) if number % n == 0 and all(n % m for m in range(2, n))]


def _some_remainders(count: int, modulus: int, prime: int) -> list[int]:
    """So many numbers, of a half of the remainders, or nearly, that is a multiple of this prime part."""
    row = modulus // prime * (prime // 2)
    return [n // row * modulus + n % row for n in range(count)]


@dataclass(frozen=True, slots=True)
class _BitProbe:
    """How misses of pages by their numbers are counted: the costs of a hit and of a miss, and a page's bytes."""

    pages: PageProbe
    cost: PageCost
    page_bytes: int

    @property
    def room(self) -> int:
        """How many pages memory has."""
        return self.pages.field.most_bytes // self.page_bytes

    @property
    def held_nearer(self) -> float:
        """The share of misses, below 0, of laps of which the nearer TLB answers the most that may be."""
        return (MIN_MISSING_NEARER_SHARE - 1) * self.cost.hit / (self.cost.miss - self.cost.hit)

    def share(self, numbers: Sequence[int]) -> Experiment[float | None]:
        """The share of accesses that miss in laps over these pages, by orders that agree, or their middle; None without
        answers."""
        found: list[float] = []
        for seed in range(MAX_ORDERS):
            value = yield from cost_of_pages(self.pages, self.page_bytes, len(numbers), lambda _: numbers, seed)
            if value is not None:
                found.append((value - self.cost.hit) / (self.cost.miss - self.cost.hit))
            if len(found) >= ORDERS and (min(found) >= MIN_MISS_SHARE or max(found) <= MAX_MISS_SHARE):
                break
        return statistics.median(found) if len(found) >= ORDERS else None


def _ways_of_sets(probe: _BitProbe, sets: int, held: CapacityBound) -> Experiment[int]:
    """The ways of so many sets: the only number between what surely fits and what does not, or the largest at which all hit;
    where more do not miss with one way more, what did not fit was a disturbance, and the next one is tried. 0: not known."""
    least, most = max(1, math.floor(held.fits - held.hidden)), (held.over or 1) - 1
    tried = range(-(-least // sets), most // sets + 1)
    if not tried:
        return 0
    ways = tried[0] if len(tried) == 1 else 0
    for fewer in reversed(tried if not ways else ()):
        share = yield from probe.share(range(fewer * sets))
        if share is not None and share <= MAX_MISS_SHARE:
            ways = fewer
            break
    if ways and (ways + 1) * sets > probe.room:
        return ways if len(tried) == 1 else 0
    for more in range(ways + 1, 2 * ways + 1):
        share = (yield from probe.share(range(more * sets))) if more * sets <= probe.room else None
        if share is None or share > MAX_MISS_SHARE:
            return more - 1 if share is not None and share >= MIN_OVER_SHARE else 0
    return 0


def _halves_overflow(probe: _BitProbe, sets: SetWays) -> Experiment[bool]:
    """True if random pages of half of the remainders, twice as many of each as there are ways, miss mostly, whichever these
    remainders are: no two are of one set with twice the ways, and no hash spreads pages of one remainder over several sets."""
    room, count = probe.room // sets.sets, 2 * sets.ways
    if room < MIN_ROOM_RATIO * count:
        return False
    for seed in range(HALVES_SEEDS):
        random = np.random.default_rng([seed, sets.sets, sets.ways])
        some = random.choice(sets.sets, sets.sets // 2, replace=False)
        rows = random.choice(room, count, replace=False)
        share = yield from probe.share((rows[:, None] * sets.sets + some[None, :]).reshape(-1).tolist())
        if share is None or share < MIN_HALVES_SHARE:
            return False
    return True


def _rows_fit(probe: _BitProbe, sets: SetWays, most: float = MAX_ROWS_SHARE) -> Experiment[bool]:
    """True if as many random rows of pages, one of each set, fit as there are ways, but for a share of accesses on average: no
    other bits, and no other modulus, choose sets too, which would spread such rows unevenly."""
    room = probe.room // sets.sets
    if room < MIN_ROOM_RATIO * sets.ways or not probe.pages.chase.has_enough_lines(sets.entries, probe.page_bytes):
        return False
    shares: list[float] = []
    for seed in range(ROWS_SEEDS):
        rows = np.random.default_rng([seed, sets.ways]).choice(room, sets.ways, replace=False)
        share = yield from probe.share((rows[:, None] * sets.sets + np.arange(sets.sets)[None, :]).reshape(-1).tolist())
        if share is None or share > MAX_ROWS_SHARE:
            return False
        shares.append(share)
    return statistics.mean(shares) <= most
