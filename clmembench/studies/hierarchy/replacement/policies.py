"""Which replacement policy explains what hit and what missed in the sets of a cache: by likelihood, or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clmembench.model import Finding
from clmembench.studies.hierarchy.replacement.cache_set import DETERMINISTIC_POLICIES, hits_of_accesses, policy_forms
from clmembench.studies.hierarchy.replacement.random_victims import SetObservation, distinct_observations, fit_victims
from clmembench.studies.hierarchy.replacement.victim_states import WRONG_FLAG_PROBABILITY, VictimStates

# Thresholds and limits, each with its reason
MIN_LOG_LIKELIHOOD_MARGIN = 10.0  # of log-likelihood over any other policy: odds of 22,000
MAX_SIMULATED_ACCESSES = 40_000  # accesses simulated for each policy, for time
MAX_FILTERED_ACCESSES = 2_400  # accesses filtered over what a set may hold, which is slower
MIN_ACCESSES_SHARE = 200  # accesses at least of each set that is filtered
MAX_WRONG_FLAG_SHARE = 0.01  # of accesses: a policy that calls more flags wrong does not explain them
MAX_SURPRISE_SIGMAS = 4.0  # standard deviations of the log-likelihood from its expectation: beyond, a model is rejected
ESTIMATION_ROUNDS = 8  # of expectation maximisation of the victims' probabilities
MIN_UNEVEN_VICTIM_RATIO = 2.0  # victims drawn this unevenly are what an answer of "random" has to exclude
MAX_WEIGHTED_WAYS = 16  # with more the probabilities of single ways cannot be estimated

VictimProbabilities = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The policy as a finding; if it is way-weighted, each way's probability of being the victim; and whether any known policy
    explains the flags, which an undetermined finding does not tell."""

    finding: Finding
    victims: VictimProbabilities = ()
    explained: bool = True


@dataclass(frozen=True, slots=True)
class _Choice:
    """A policy's name, None for that reason; the method, the victims' probabilities, whether any known policy explains it."""

    name: str | None
    method: str
    reason: str = ""
    victims: VictimProbabilities = ()
    explained: bool = True


@dataclass(frozen=True, slots=True)
class PolicyCandidate:
    """A policy with the log-likelihood of all flags under it, and whether it explains them at all."""

    name: str
    loglik: float
    explains: bool
    victims: VictimProbabilities = ()


def decide_policy(
    ways: int, observations: Sequence[SetObservation], evidence: Sequence[str], uneven: bool = True
) -> PolicyDecision:
    """The policy of sets of `ways` ways. Each observation is one set from empty on: the lines accessed, and which of them hit;
    `evidence` are ids of the records that they are from.

    One of LRU, FIFO, tree-PLRU, NRU, random, way-weighted, where all others are less likely by a factor of exp(10) and it
    explains the flags; `undetermined` with the evidence that is missing otherwise. Mei & Chu 2015, section 4.5, are who found
    victims drawn unevenly; likelihoods instead of a reading by eye, because a lap cannot tell LRU from FIFO. If way-weighted,
    `victims` has each way's probability to be the victim, in the order in which ways are filled. Without `uneven` victims are
    taken to be drawn evenly, if they are drawn: `preferred_way` tells that in less time.
    """
    choice = _choose(ways, observations, uneven)
    finding = policy_finding(choice.name, choice.method, choice.reason, evidence)
    return PolicyDecision(finding, choice.victims, choice.explained)


def policy_finding(name: str | None, method: str, reason: str, evidence: Sequence[str]) -> Finding:
    """A policy by its name; None: undetermined for that reason."""
    status: Literal["ok", "undetermined"] = "undetermined" if name is None else "ok"
    return Finding("policy", name, None, None, "", status, method, tuple(dict.fromkeys(evidence)), reason)


def _choose(ways: int, observations: Sequence[SetObservation], uneven: bool) -> _Choice:
    """The policy's name or why there is none, and its victims' probabilities."""
    telling = distinct_observations([o for o in observations if len(set(o[0])) > ways], set())
    count = sum(len(lines) for lines, _ in telling)
    if ways < 2:
        return _undetermined_policy("a set of one way has no choice of a victim", count)
    if not telling:
        return _undetermined_policy(
            "no set was given more lines than it has ways: access random sequences over ways + 2 lines", 0
        )
    exact = [_deterministic_candidate(name, ways, telling) for name in DETERMINISTIC_POLICIES if policy_forms(name, ways)]
    best = max(exact, key=lambda c: c.loglik)
    known = VictimStates()
    for most in (MAX_FILTERED_ACCESSES // 8, MAX_FILTERED_ACCESSES // 2, MAX_FILTERED_ACCESSES):
        few = _first_accesses(telling, most)
        drawn = _stochastic_candidates(
            ways, few, ESTIMATION_ROUNDS if most == MAX_FILTERED_ACCESSES else ESTIMATION_ROUNDS // 2, known, uneven
        )
        # more accesses can only make drawn victims less likely than they are of a few
        if best.explains and best.loglik >= max(c.loglik for c in drawn) + MIN_LOG_LIKELIHOOD_MARGIN:
            return _likeliest_policy([*exact, *drawn], count)
        if sum(len(lines) for lines, _ in few) == count:
            break
    if few != telling:  # all on the same accesses
        exact = [_deterministic_candidate(name, ways, few) for name in DETERMINISTIC_POLICIES if policy_forms(name, ways)]
    return _likeliest_policy([*exact, *drawn], sum(len(lines) for lines, _ in few))


def _first_accesses(observations: Sequence[SetObservation], most: int) -> list[SetObservation]:
    """The starts of observations, at most `most` accesses in all: an equal share of each, and what short ones leave to the
    longer ones."""
    some = observations[: max(1, most // MIN_ACCESSES_SHARE)]
    share, left = most, most
    for waiting, length in zip(range(len(some), 0, -1), sorted(len(lines) for lines, _ in some), strict=True):
        share = max(left // waiting, MIN_ACCESSES_SHARE)
        left -= min(length, share)
    taken = [(lines[:share], flags[:share]) for lines, flags in some]
    return list(observations) if sum(len(o[0]) for o in taken) == sum(len(o[0]) for o in observations) else taken


def _deterministic_candidate(name: str, ways: int, observations: Sequence[SetObservation]) -> PolicyCandidate:
    """The likelier form of a deterministic policy."""
    found = []
    left = MAX_SIMULATED_ACCESSES
    for maker in policy_forms(name, ways):
        wrong = total = 0
        for lines, flags in observations:
            said = hits_of_accesses(maker, ways, lines[:left])
            wrong += sum(b is not None and a != b for a, b in zip(said, flags, strict=False))
            total += sum(b is not None for b in flags[: len(said)])
            if total >= MAX_SIMULATED_ACCESSES:
                break
        loglik = (total - wrong) * math.log(1 - WRONG_FLAG_PROBABILITY) + wrong * math.log(WRONG_FLAG_PROBABILITY)
        found.append(PolicyCandidate(name, loglik, wrong <= max(2.0, MAX_WRONG_FLAG_SHARE * total)))
    return max(found, key=lambda c: c.loglik)


def _stochastic_candidates(
    ways: int, observations: Sequence[SetObservation], rounds: int, known: VictimStates, uneven_too: bool
) -> list[PolicyCandidate]:
    """Random and way-weighted victims; the latter only where there are few enough ways to tell them apart."""
    even = fit_victims([1 / ways] * ways, observations, known=known)
    found = [PolicyCandidate("random", even.loglik, abs(even.surprise) <= MAX_SURPRISE_SIGMAS)]
    if ways > MAX_WEIGHTED_WAYS or not uneven_too:
        return found
    weights = [1 / ways + 1e-6 * way for way in range(ways)]  # slightly unequal, so that the filter distinguishes ways
    for _ in range(rounds):
        uneven = fit_victims(weights, observations, count=True, known=known)
        total = sum(uneven.victims) + 0.5 * ways
        weights = [(v + 0.5) / total for v in uneven.victims]
    weights = _likeliest_rotation(weights, observations, known)
    uneven = fit_victims(weights, observations, known=known)
    found.append(PolicyCandidate("way-weighted", uneven.loglik, abs(uneven.surprise) <= MAX_SURPRISE_SIGMAS, tuple(weights)))
    if found[0].explains and uneven.loglik < even.loglik + _uneven_margin(ways):
        found.append(_least_uneven_candidate(ways, observations, known))
    return found


def _uneven_margin(ways: int) -> float:
    """Log-likelihood that uneven victims have to be ahead of even ones by: fitted probabilities of so many ways gain ways / 2
    by chance alone, and about ways + 10 once in 10,000 cases."""
    return MIN_LOG_LIKELIHOOD_MARGIN + ways - 1


def _likeliest_rotation(weights: list[float], observations: Sequence[SetObservation], known: VictimStates) -> list[float]:
    """With the greatest probability at the likeliest way: only the first laps tell which that is."""
    top = int(np.argmax(weights))
    if len(weights) > 8 or weights[top] < MIN_UNEVEN_VICTIM_RATIO / (len(weights) + MIN_UNEVEN_VICTIM_RATIO - 1):
        return weights
    tries = []
    for way in range(len(weights)):
        turned = list(weights)
        turned[top], turned[way] = turned[way], turned[top]
        tries.append((fit_victims(turned, observations, known=known).loglik, turned))
    return max(tries)[1]


def _least_uneven_candidate(ways: int, observations: Sequence[SetObservation], known: VictimStates) -> PolicyCandidate:
    """The likeliest of the alternatives that "random" has to exclude: one way twice as often the victim as the others."""
    tries = []
    for way in range(ways):
        weights = [MIN_UNEVEN_VICTIM_RATIO if w == way else 1.0 for w in range(ways)]
        tries.append(fit_victims([w / sum(weights) for w in weights], observations, known=known).loglik)
    return PolicyCandidate("way-weighted", max(tries), False)


def _likeliest_policy(candidates: Sequence[PolicyCandidate], count: int) -> _Choice:
    """The candidate that explains the flags by a margin over every other; drawn evenly is preferred to unevenly."""
    likeliest: dict[str, PolicyCandidate] = {}
    for c in candidates:
        if c.name not in likeliest or c.loglik > likeliest[c.name].loglik:
            likeliest[c.name] = c
    ranked = sorted(likeliest.values(), key=lambda c: -c.loglik)
    best = ranked[0]
    even = likeliest.get("random")
    if (
        best.name == "way-weighted"
        and even is not None
        and even.explains
        and best.loglik < even.loglik + _uneven_margin(len(best.victims))
    ):
        best = even
        rivals = [c for c in candidates if c.name != "random" and not c.victims]
    else:
        rivals = [c for c in ranked if c is not best]
    if not best.explains:
        return replace(
            _undetermined_policy("no known policy explains which accesses hit and which missed", count), explained=False
        )
    close = sorted({c.name for c in rivals if c.loglik > best.loglik - MIN_LOG_LIKELIHOOD_MARGIN})
    if close:
        names = " or ".join([best.name, *close])
        return _undetermined_policy(f"{names} explain what was seen equally well; {_missing_evidence(best.name, close)}", count)
    margin = best.loglik - max((c.loglik for c in rivals), default=-math.inf)
    method = f"likelihood of {count} accesses under six policies, ahead by {min(margin, 1e6):.0f}"
    return _Choice(best.name, method, victims=best.victims)


def _missing_evidence(best: str, close: Sequence[str]) -> str:
    if {best, *close} == {"random", "way-weighted"}:
        return "missing are more laps over ways + 1 lines of a set, from an empty cache on"
    return "missing are random sequences over ways + 2 lines of one set"


def _undetermined_policy(reason: str, count: int) -> _Choice:
    return _Choice(None, f"likelihood of {count} accesses under six policies", reason)


def simulation_generator(ways: int) -> np.random.Generator:
    """The random generator for simulations of `ways` ways: fixed, so that the same data always give the same result."""
    return np.random.default_rng(ways)
