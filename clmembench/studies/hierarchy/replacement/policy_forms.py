"""Forms of replacement policies as candidates, and the steady miss rate of a repeated lap under each. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from clmembench.studies.hierarchy.replacement.age_policies import AGE_POLICIES, ESTABLISHED_AGE_POLICIES, AgedSet, AgeRules
from clmembench.studies.hierarchy.replacement.cache_set import (
    DETERMINISTIC_POLICIES,
    STOCHASTIC_POLICIES,
    CacheSet,
    SetMaker,
    policy_forms,
)
from clmembench.studies.hierarchy.replacement.drawn_rates import MAX_ABSENT, drawn_miss_rates
from clmembench.studies.hierarchy.replacement.set_miss_rates import sampled_miss_rates, steady_miss_rate

# Thresholds and limits, each with its reason
BRIEF_LAPS = 24  # of the age-based policies, of which there are hundreds
SIMULATED_LAPS, MIN_SIMULATED_LAPS = 64, 12  # simulated, of which the first half is warm-up
SIMULATED_SETS = 64  # sets simulated where more lines are absent than can be followed
MAX_SIMULATED_STEPS = 6_000  # of that simulation, for each lap that was measured
MAX_WAYS_OF_STARTS = 32  # with more, other starts than from an empty set take too many laps to settle
MAX_PERIOD_LAPS = 16  # laps after which a nearer cache is taken to repeat what it lets through
CACHED_RATES = 16_384  # by policy and lap: levels and TLBs that have as many ways are asked the same laps
VICTIM_RATIOS = (1.0, 2.0, 3.0, 5.0)  # how much more often one way is the victim than each other: Fermi's is 3
MAX_UNEVEN_WAYS = 8  # the one cache known to draw unevenly has 4 (Fermi); with more than 8, no miss rate changes by 0.1%

Lap = tuple[int, ...]
INSERTION_AGES = {"LRU_M1": 1, "LRU_M2": 2, "LRU_M3": 3, "LRU_M4": 4}


class HitAgedLruSet:
    """A set of `ways` ways, empty at first."""

    def __init__(self, ways: int, insertion_age: int) -> None:
        self.ways, self.insertion_age = ways, insertion_age
        self.hits = 0
        self.used: dict[int, int] = {}  # line to hit count at age 0; the most recently used line is last

    def access(self, line: int) -> bool:
        hit = line in self.used
        if hit:
            self.hits += 1
            del self.used[line]
        elif len(self.used) == self.ways:
            del self.used[min(self.used, key=self.used.__getitem__)]  # the first of the oldest
        self.used[line] = self.hits - (0 if hit else self.insertion_age)
        return hit

    def state(self) -> Hashable:
        return tuple((line, self.hits - then) for line, then in self.used.items())


@dataclass(frozen=True, slots=True)
class PolicyForm:
    """A policy by its name: a deterministic one with how its sets are made, else how much more often one way is the victim."""

    name: str
    maker: SetMaker | None = None
    ratio: float = 1.0

    def miss_rates(self, ways: int, lap: Lap) -> tuple[float, ...]:
        """The shares of accesses that miss in a set of `ways` ways when the lap is repeated for ever, by what the set held
        before: under a deterministic policy a lap may end in several cycles."""
        if len(set(lap)) <= ways:
            return (0.0,)
        if self.maker is not None:
            return _rates_of_starts(self.maker, ways, lap, self.name in _AGE_FORMS)
        return (dict(zip(VICTIM_RATIOS, _drawn_miss_rates(ways, lap), strict=False))[self.ratio],)


def known_forms(ways: int) -> tuple[PolicyForm, ...]:
    """All forms of the six policies for that number of ways."""
    found = [PolicyForm(name, maker) for name in DETERMINISTIC_POLICIES for maker in policy_forms(name, ways)]
    even, uneven = STOCHASTIC_POLICIES
    return (*found, *(PolicyForm(uneven if ratio > 1 else even, None, ratio) for ratio in _ratios(ways)))


_AGE_FORMS = {name: PolicyForm(name, partial(AgedSet, rules=AgeRules.of(name))) for name in AGE_POLICIES}
_HIT_AGED_FORMS = tuple(PolicyForm(name, partial(HitAgedLruSet, insertion_age=age)) for name, age in INSERTION_AGES.items())


def age_forms(established: bool) -> tuple[PolicyForm, ...]:
    """The age-based policies: all variants, or those of quad-age LRU that some cache is known to have."""
    if established:
        return tuple(_AGE_FORMS[name] for name in ESTABLISHED_AGE_POLICIES)
    return (*_AGE_FORMS.values(), *_HIT_AGED_FORMS)


def is_age_based(name: str) -> bool:
    """True if a policy's name is that of an age-based one."""
    return name in _AGE_FORMS or name in INSERTION_AGES


def _ratios(ways: int) -> tuple[float, ...]:
    return VICTIM_RATIOS if ways <= MAX_UNEVEN_WAYS else VICTIM_RATIOS[:1]


@lru_cache(maxsize=CACHED_RATES)
def _rates_of_starts(maker: SetMaker, ways: int, lap: Lap, briefly: bool) -> tuple[float, ...]:
    """From an empty set, and from sets that were given all lines in descending order, or half a lap. `briefly`: the former
    alone, for fewer laps."""
    starts: tuple[Sequence[int], ...] = ((), sorted(set(lap), reverse=True), lap[len(lap) // 2 :])
    if ways > MAX_WAYS_OF_STARTS or briefly:
        starts = starts[:1]

    def warmed(count: int, before: Sequence[int]) -> CacheSet:
        one = maker(count)
        for line in before:
            one.access(line)
        return one

    laps = min(_simulated_laps(lap), BRIEF_LAPS) if briefly else _simulated_laps(lap)
    return tuple(steady_miss_rate(partial(warmed, before=before), ways, lap, laps) for before in starts)


def _simulated_laps(lap: Lap) -> int:
    return max(MIN_SIMULATED_LAPS, min(SIMULATED_LAPS, MAX_SIMULATED_STEPS // len(lap)))


@lru_cache(maxsize=CACHED_RATES)
def _drawn_miss_rates(ways: int, lap: Lap) -> tuple[float, ...]:
    """Exactly where few lines are absent, else of simulated sets."""
    ratios = _ratios(ways)
    if len(set(lap)) - ways <= MAX_ABSENT:
        return drawn_miss_rates(ways, lap, ratios)
    weights = np.ones((len(ratios), ways))
    weights[:, 0] = ratios
    generator = np.random.default_rng(ways)
    rates = sampled_miss_rates(np.repeat(weights, SIMULATED_SETS, axis=0), lap, _simulated_laps(lap), generator)
    return tuple(rates.reshape(len(ratios), SIMULATED_SETS).mean(axis=1).tolist())


@lru_cache(maxsize=CACHED_RATES)
def accesses_let_through(maker: SetMaker, ways: int, lap: Lap) -> tuple[tuple[Lap, int], ...]:
    """The accesses that miss a nearer set of `ways` ways while a lap is repeated, until they repeat, and of how many accesses
    they are: from an empty set, and from one that was given all lines in descending order."""
    found = [_let_through(maker(ways), lap)]
    warmed = maker(ways)
    for line in sorted(set(lap), reverse=True):
        warmed.access(line)
    again = _let_through(warmed, lap)
    return tuple(found) if again == found[0] else (*found, again)


def _let_through(one: CacheSet, lap: Lap) -> tuple[Lap, int]:
    through, begun = list[Sequence[int]](), dict[Hashable, int]()
    while len(through) < SIMULATED_LAPS and (state := one.state()) not in begun:
        begun[state] = len(through)
        through.append([line for line in lap if not one.access(line)])
    first = begun[state] if len(through) < SIMULATED_LAPS else len(through) - MAX_PERIOD_LAPS
    period = through[first:]
    return tuple(line for part in period for line in part), len(period) * len(lap)
