"""How many lines of one set miss where more lines than it has ways are visited in turns for ever, by policy. Pure."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clmembench.studies.hierarchy.replacement.cache_set import policy_forms
from clmembench.studies.hierarchy.replacement.policies import simulation_generator
from clmembench.studies.hierarchy.replacement.set_miss_rates import sampled_miss_rates, steady_miss_rate

SIMULATED_LAPS = 48  # of which the first half is warm-up
SIMULATED_SETS = 256  # sets of drawn victims, whose mean is taken
CACHED = 1 << 14  # numbers of ways and lines
MIN_SOLVED_WAYS = 8  # from there on the equation of drawn victims is within 0.2% of the accesses of what simulations give
SELF_SHARE, SELF_SHARE_OF_SQUARE = 0.5, 0.3  # of a visit's own misses, that none of its line's neighbours sees: fitted to those
BISECTIONS = 40
CYCLIC_POLICIES = ("LRU or FIFO", "random", "tree-PLRU", "NRU")  # that differ where lines are visited in turns


@lru_cache(maxsize=CACHED)
def cyclic_misses(policy: str, form: int, ways: int, lines: int) -> float:
    """Misses of a lap over so many lines of a set of so many ways: all under LRU and FIFO; of one line more than ways drawn
    victims let two in ways + 1 miss on average. `form`: of a policy with several, see `forms_of`."""
    if lines <= ways:
        return 0.0
    if policy == "LRU or FIFO":
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
