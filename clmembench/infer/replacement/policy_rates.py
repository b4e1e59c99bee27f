"""Which replacement policy explains the mean miss rates of laps repeated for ever, where single accesses were not seen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from clmembench.infer.replacement.cache_set import DETERMINISTIC_POLICIES, policy_forms
from clmembench.infer.replacement.policies import MIN_LOG_LIKELIHOOD_MARGIN, policy_finding, simulation_generator
from clmembench.infer.replacement.set_miss_rates import sampled_miss_rates, steady_miss_rate
from clmembench.model import Array, Finding

# Thresholds and limits, each with its reason
SYSTEMATIC_MISS_RATE_ERROR = (
    0.02  # of a miss rate from a mean latency: the latencies of hits and misses are known to about that
)
MAX_CHI_SQUARED_OF_LAP = 12.0  # of one lap: what lies further off was disturbed, and speaks no louder against a policy
SIMULATED_LAPS = 64  # simulated, of which the first half is warm-up
SIMULATED_SETS = 64  # sets simulated for each assignment of probabilities
MAX_SIMULATED_STEPS = 6_000  # of the simulation of drawn victims, for each lap that was measured
CACHED = 1024  # rates: levels and TLBs that have as many ways are asked the same laps
RATE_METHOD = "miss rates of {} laps against six policies simulated"
TRIED_VICTIM_RATIOS = (1.5, 2.0, 3.0, 5.0, 10.0)  # how much more often one way is the victim than each other

RateObservation = tuple[Sequence[int], float, float, float]


def policy_from_rates(
    ways: int, observations: Sequence[RateObservation], evidence: Sequence[str], possible: frozenset[str] = frozenset()
) -> Finding:
    """The policy of a set of `ways` ways from steady-state miss rates.

    Each observation is one lap of line numbers in one set, the rate at which its accesses miss when it is repeated for ever,
    and that rate's 95% interval. Answers only with a log-likelihood margin of 10 over every other policy, and where the best
    is within what noise explains; a lap over ways + 2 lines in random order, some visits each, distinguishes most policies.
    `evidence` are ids of the records of the laps. `possible`: policies that other evidence leaves (none: all)."""
    telling = [o for o in observations if len(set(o[0])) > ways]
    if ways < 2:
        return policy_finding(None, RATE_METHOD.format(0), "a set of one way has no choice of a victim", evidence)
    if not telling:
        why = "no lap had more lines of a set than it has ways: chase random laps over ways + 2 lines"
        return policy_finding(None, RATE_METHOD.format(0), why, evidence)
    logliks = _logliks_of_policies(ways, telling)
    logliks = {name: loglik for name, loglik in logliks.items() if not possible or name in possible}
    if not logliks:
        return policy_finding(None, RATE_METHOD.format(len(telling)), "other evidence excludes every policy", evidence)
    return policy_finding(*_likeliest_policy(logliks, len(telling)), evidence)


def likely_policies(ways: int, observations: Sequence[RateObservation]) -> frozenset[str]:
    """The policies that explain steady-state miss rates (see `policy_from_rates`) within the margin of the likeliest; none
    where no policy explains them."""
    telling = [o for o in observations if len(set(o[0])) > ways]
    if ways < 2 or not telling:
        return frozenset()
    logliks = _logliks_of_policies(ways, telling)
    best = max(logliks.values())
    if not _explains(best, len(telling)):
        return frozenset()
    return frozenset(name for name, loglik in logliks.items() if loglik > best - MIN_LOG_LIKELIHOOD_MARGIN)


def _logliks_of_policies(ways: int, telling: Sequence[RateObservation]) -> dict[str, float]:
    """Log-likelihood of miss rates under each policy."""
    seen = np.array([[rate, max((high - low) / 3.92, 0.0)] for _, rate, low, high in telling])
    sigma = np.hypot(seen[:, 1], SYSTEMATIC_MISS_RATE_ERROR)
    logliks: dict[str, float] = {}
    for name in DETERMINISTIC_POLICIES:
        if not policy_forms(name, ways):
            continue
        forms = np.array([_steady_rates(name, ways, tuple(lap)) for lap, *_ in telling]).T
        logliks[name] = max(_loglik(seen[:, 0], rates, sigma) for rates in forms)
    weights = _victim_assignments(ways)
    drawn = np.array([_stochastic_miss_rates(ways, tuple(lap)) for lap, *_ in telling])
    each = [_loglik(seen[:, 0], rates, sigma) for rates in drawn.T]
    logliks["random"] = each[0]
    clearly = [value for value, row in zip(each, weights, strict=True) if row.max() >= 2 * row.min()]
    logliks["way-weighted"] = max(clearly)
    return logliks


def _explains(loglik: float, count: int) -> bool:
    """True if so many rates are no less likely than noise makes them."""
    return bool(-2 * loglik <= count + 4 * np.sqrt(2 * count) + 4)


def _loglik(seen: Array, said: Array, sigma: Array) -> float:
    """Log-likelihood under Gaussian errors, up to a constant: 0 is a perfect fit."""
    return float(-0.5 * np.minimum(((seen - said) / sigma) ** 2, MAX_CHI_SQUARED_OF_LAP).sum())


def _victim_assignments(ways: int) -> Array:
    """Probabilities of victims that are tried, shape (tries, ways): all alike first, then some ways more often than others.
    In the steady state only how often matters, not which."""
    rows = [np.ones(ways)]
    for often in TRIED_VICTIM_RATIOS:
        for number in sorted({1, ways // 2} - {0}):
            rows.append(np.where(np.arange(ways) < number, often, 1.0))
    table = np.stack(rows)
    shares: Array = table / table.sum(axis=1, keepdims=True)
    return shares


@lru_cache(maxsize=CACHED)
def _steady_rates(name: str, ways: int, lap: tuple[int, ...]) -> tuple[float, ...]:
    """Steady-state miss rate under each form of a deterministic policy."""
    return tuple(steady_miss_rate(make, ways, lap, SIMULATED_LAPS) for make in policy_forms(name, ways))


@lru_cache(maxsize=CACHED)
def _stochastic_miss_rates(ways: int, lap: tuple[int, ...]) -> tuple[float, ...]:
    """Steady-state miss rate of each assignment of probabilities."""
    weights = _victim_assignments(ways)
    laps = max(8, min(SIMULATED_LAPS, MAX_SIMULATED_STEPS // len(lap)))
    rates = sampled_miss_rates(np.repeat(weights, SIMULATED_SETS, axis=0), lap, laps, simulation_generator(ways))
    return tuple(rates.reshape(len(weights), SIMULATED_SETS).mean(axis=1).tolist())


def _likeliest_policy(logliks: dict[str, float], count: int) -> tuple[str | None, str, str]:
    """The policy or None, the method, and why there is none."""
    ranked = sorted(logliks, key=lambda name: -logliks[name])
    best = ranked[0]
    close = [name for name in ranked[1:] if logliks[name] > logliks[best] - MIN_LOG_LIKELIHOOD_MARGIN]
    if not _explains(logliks[best], count):
        return None, RATE_METHOD.format(count), "no policy that is known explains the miss rates of these laps"
    if close:
        names = " or ".join([best, *close])
        missing = "missing are more laps in random order over ways + 2 lines of one set, or each access's latency"
        return None, RATE_METHOD.format(count), f"{names} explain the miss rates equally well; {missing}"
    ahead = f", ahead by {logliks[best] - logliks[ranked[1]]:.0f}" if len(ranked) > 1 else ""
    return best, RATE_METHOD.format(count) + ahead, ""
