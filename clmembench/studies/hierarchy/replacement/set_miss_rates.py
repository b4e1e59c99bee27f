"""Miss rates of one cache set under a lap that is repeated, exactly by a policy or by drawn victims."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np

from clmembench.model import Array
from clmembench.studies.hierarchy.replacement.cache_set import SetMaker, policy_forms
from clmembench.studies.hierarchy.replacement.policies import simulation_generator

SIMULATED_LAPS = 48  # of which the first half is warm-up
SIMULATED_SETS = 256  # sets of drawn victims, whose mean is taken
CACHED = 1 << 14  # numbers of ways and lines
MIN_SOLVED_WAYS = 8  # from there on the equation of drawn victims is within 0.2% of the accesses of what simulations give
SELF_SHARE, SELF_SHARE_OF_SQUARE = 0.5, 0.3  # of a visit's own misses, that none of its line's neighbours sees: fitted to those
BISECTIONS = 40
CYCLIC_POLICIES = ("LRU or FIFO", "random", "tree-PLRU", "NRU")  # that differ where lines are visited in turns


def steady_miss_rate(maker: SetMaker, ways: int, lap: Sequence[int], laps: int) -> float:
    """The share of a lap's accesses that miss when it is repeated: over the second half of `laps`."""
    one = maker(ways)
    misses: list[int] = []
    begun: dict[Hashable, int] = {}
    # from a state that was there before, the same laps follow again
    while len(misses) < laps and (state := one.state()) not in begun:
        begun[state] = len(misses)
        misses.append(len(lap) - sum(map(one.access, lap)))
    if len(misses) < laps:
        first = begun[state]
        again = misses[first:]
        misses += [again[n % len(again)] for n in range(laps - len(misses))]
    return sum(misses[laps // 2 :]) / (len(lap) * (laps - laps // 2))


def sampled_miss_rates(weights: Array, lap: Sequence[int], laps: int, random: np.random.Generator) -> Array:
    """As `steady_miss_rate` where the victim is drawn: `weights` of shape (sets, ways), one set a row; shape (sets,)."""
    sets, ways = weights.shape
    victims = _Victims(weights)
    names, lines = np.unique(np.asarray(lap), return_inverse=True)
    absent = np.ones((names.size, sets), dtype=bool)
    rows, flat = list(absent), absent.reshape(-1)
    held = np.empty(ways * sets, dtype=np.int64)  # by ways: where the row of the line begins that is in it
    filled = 0  # every set has missed the same lines until all its ways are full
    misses = np.zeros(sets)
    for number in range(laps):
        for line in lines.tolist():
            missed = rows[line].nonzero()[0]
            if missed.size == 0:
                continue
            draws = random.random(missed.size)
            if filled < ways:
                held[filled * sets : (filled + 1) * sets] = line * sets
                filled += 1
            else:
                place = victims.drawn(missed, draws)
                place *= sets
                place += missed
                gone = held[place]
                gone += missed
                flat[gone] = True
                held[place] = line * sets
            if number >= laps // 2:
                misses += rows[line]
            rows[line].fill(False)
    return misses / (len(lap) * (laps - laps // 2))


class _Victims:
    """Ways drawn with the probabilities of each set, shape (sets, ways), by a table of where to begin looking."""

    def __init__(self, weights: Array) -> None:
        sets, self.ways = weights.shape
        limits = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        limits[:, -1] = np.inf  # a draw above all of them is the last way's
        different, row = np.unique(limits, axis=0, return_inverse=True)
        self.cells = 1 << (16 * self.ways).bit_length()  # a power of two: a draw times it is exact
        edges = np.arange(self.cells + 1) / self.cells
        first = np.stack([np.searchsorted(one, edges) for one in different])
        self.first = first[:, :-1].ravel()
        self.next = np.take_along_axis(different, first[:, :-1], axis=1).ravel()  # the limit from which on it is another way
        self.close = bool((np.diff(first, axis=1) > 1).any())  # some cells have more than one limit
        self.limits = different.ravel()
        self.begin = row.reshape(sets) * self.cells
        self.limit = row.reshape(sets) * self.ways

    def drawn(self, sets: Array, draws: Array) -> Array:
        """The way of each of some sets: how many of the set's cumulated probabilities are below the draw, the last at most."""
        cell = (draws * self.cells).astype(np.int64)
        cell += self.begin[sets]
        below = self.next.take(cell) < draws
        way: Array = self.first.take(cell)
        way += below
        if self.close:
            limit = self.limit.take(sets)
            while np.count_nonzero(below := self.limits.take(limit + way) < draws):
                way += below
        return way


@lru_cache(maxsize=CACHED)
def cyclic_misses(policy: str, form: int, ways: int, lines: int) -> float:
    """Misses of a lap over so many lines of a set of so many ways: all under LRU and FIFO, and of twice as many lines as ways
    under tree-PLRU and NRU; of one line more than ways drawn victims let two in ways + 1 miss on average. `form`: of a policy
    with several, see `forms_of`."""
    if lines <= ways:
        return 0.0
    # where all miss, each used way of NRU goes within two rounds of clearing, and each leaf of a tree within 2 ** its depth
    if policy == "LRU or FIFO" or (policy != "random" and lines >= 2 * ways):
        return float(lines)
    if policy == "random":
        if lines == ways + 1:
            return 2.0 * lines / (ways + 1)
        if ways >= MIN_SOLVED_WAYS:
            return lines * _drawn_miss_share(ways, lines)
        weights = np.full((SIMULATED_SETS, ways), 1 / ways)
        rates = sampled_miss_rates(weights, range(lines), SIMULATED_LAPS, simulation_generator(ways))
        return float(lines * rates.mean())
    return lines * steady_miss_rate(policy_forms(policy, ways)[form], ways, range(lines), SIMULATED_LAPS)


def _drawn_miss_share(ways: int, lines: int) -> float:
    """The share m of accesses that miss where victims are drawn evenly: a line is lost to one of the (lines - c) m misses
    between two of its visits, each of which spares it with probability 1 - 1 / ways."""
    low, high = 1e-9, 1.0  # 0 solves it too: nothing is lost where nothing misses
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        between = (lines - SELF_SHARE - SELF_SHARE_OF_SQUARE * share * share) * share
        low, high = (share, high) if 1 - (1 - 1 / ways) ** between > share else (low, share)
    return low


def forms_of(policy: str, ways: int) -> int:
    """In how many forms a policy exists for so many ways."""
    if policy in ("LRU or FIFO", "random"):
        return 1
    return len(policy_forms(policy, ways)) if ways > 2 else 0  # of two ways they are LRU
