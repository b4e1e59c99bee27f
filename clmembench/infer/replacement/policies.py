"""Which replacement policy explains what hit and what missed in the sets of a cache: by likelihood, or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clmembench.infer.replacement.cache_set import DETERMINISTIC, hits, makers
from clmembench.infer.replacement.random_victims import ERROR, Observation, different, fit
from clmembench.model import Finding

# Thresholds and limits, each with its reason
MARGIN = 10.0  # of log-likelihood over any other policy: odds of 22,000
MOST_EXACT = 40_000  # accesses simulated for each policy, for time
MOST_DRAWN = 2_400  # accesses filtered over what a set may hold, which is slower
WRONG_FLAGS = 0.01  # of accesses: a policy that calls more flags wrong does not explain them
MOST_SURPRISE = 4.0  # standard deviations of the log-likelihood from its expectation: beyond, a model is rejected
ROUNDS = 8  # of expectation maximisation of the victims' probabilities
UNEVEN = 2.0  # victims drawn this unevenly are what an answer of "random" has to exclude
MOST_WEIGHTED_WAYS = 16  # with more the probabilities of single ways cannot be estimated

Victims = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The policy as a finding; if it is way-weighted, each way's probability of being the victim; and whether any known policy
    explains the flags, which an undetermined finding does not tell."""

    finding: Finding
    victims: Victims = ()
    explained: bool = True


@dataclass(frozen=True, slots=True)
class _Choice:
    """A policy's name, None for that reason; the method, the victims' probabilities, whether any known policy explains it."""

    name: str | None
    method: str
    reason: str = ""
    victims: Victims = ()
    explained: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy with the log-likelihood of all flags under it, and whether it explains them at all."""

    name: str
    loglik: float
    explains: bool
    victims: Victims = ()


def policy(ways: int, observations: Sequence[Observation], evidence: Sequence[str]) -> Finding:
    """The policy of sets of `ways` ways. Each observation is one set from empty on: the lines accessed, and which of them hit;
    `evidence` are ids of the records that they are from.

    One of LRU, FIFO, tree-PLRU, NRU, random, way-weighted, where all others are less likely by a factor of exp(10) and it
    explains the flags; `undetermined` with the evidence that is missing otherwise. Mei & Chu 2015, section 4.5, are who found
    victims drawn unevenly; likelihoods instead of a reading by eye, because a lap cannot tell LRU from FIFO.
    """
    return decide_policy(ways, observations, evidence).finding


def policy_and_victims(ways: int, observations: Sequence[Observation], evidence: Sequence[str]) -> tuple[Finding, Victims]:
    """As `infer_policy`, and if way-weighted each way's probability to be the victim, in the order in which they are filled."""
    decision = decide_policy(ways, observations, evidence)
    return decision.finding, decision.victims


def decide_policy(ways: int, observations: Sequence[Observation], evidence: Sequence[str]) -> PolicyDecision:
    """As `infer_policy`, with the victims' probabilities, and whether any known policy explains the flags."""
    choice = _choose(ways, observations)
    finding = policy_finding(choice.name, choice.method, choice.reason, evidence)
    return PolicyDecision(finding, choice.victims, choice.explained)


def policy_finding(name: str | None, method: str, reason: str, evidence: Sequence[str]) -> Finding:
    """A policy by its name; None: undetermined for that reason."""
    status: Literal["ok", "undetermined"] = "undetermined" if name is None else "ok"
    return Finding("policy", name, None, None, "", status, method, tuple(dict.fromkeys(evidence)), reason)


def _choose(ways: int, observations: Sequence[Observation]) -> _Choice:
    """The policy's name or why there is none, and its victims' probabilities."""
    telling = different([o for o in observations if len(set(o[0])) > ways], set())
    count = sum(len(lines) for lines, _ in telling)
    if ways < 2:
        return _unnamed("a set of one way has no choice of a victim", count)
    if not telling:
        return _unnamed("no set was given more lines than it has ways: access random sequences over ways + 2 lines", 0)
    exact = [_exact(name, ways, telling) for name in DETERMINISTIC if makers(name, ways)]
    best = max(exact, key=lambda c: c.loglik)
    for most in (MOST_DRAWN // 8, MOST_DRAWN // 2, MOST_DRAWN):
        few = _first(telling, most)
        drawn = _drawn(ways, few, rounds=ROUNDS if most == MOST_DRAWN else ROUNDS // 2)
        # more accesses can only make drawn victims less likely than they are of a few
        if best.explains and best.loglik >= max(c.loglik for c in drawn) + MARGIN:
            return _decided([*exact, *drawn], count)
        if sum(len(lines) for lines, _ in few) == count:
            break
    if few != telling:  # all on the same accesses
        exact = [_exact(name, ways, few) for name in DETERMINISTIC if makers(name, ways)]
    return _decided([*exact, *drawn], sum(len(lines) for lines, _ in few))


def _first(observations: Sequence[Observation], most: int) -> list[Observation]:
    """The starts of observations, at most `most` accesses in all, an equal share of each."""
    share = max(most // len(observations), 200)
    taken = [(lines[:share], flags[:share]) for lines, flags in observations[: max(1, most // share)]]
    return list(observations) if sum(len(o[0]) for o in taken) == sum(len(o[0]) for o in observations) else taken


def _exact(name: str, ways: int, observations: Sequence[Observation]) -> Candidate:
    """The likelier form of a deterministic policy."""
    found = []
    left = MOST_EXACT
    for maker in makers(name, ways):
        wrong = total = 0
        for lines, flags in observations:
            said = hits(maker, ways, lines[:left])
            wrong += sum(b is not None and a != b for a, b in zip(said, flags, strict=False))
            total += sum(b is not None for b in flags[: len(said)])
            if total >= MOST_EXACT:
                break
        loglik = (total - wrong) * math.log(1 - ERROR) + wrong * math.log(ERROR)
        found.append(Candidate(name, loglik, wrong <= max(2.0, WRONG_FLAGS * total)))
    return max(found, key=lambda c: c.loglik)


def _drawn(ways: int, observations: Sequence[Observation], rounds: int) -> list[Candidate]:
    """Random and way-weighted victims; the latter only where there are few enough ways to tell them apart."""
    even = fit([1 / ways] * ways, observations)
    found = [Candidate("random", even.loglik, abs(even.surprise) <= MOST_SURPRISE)]
    if ways > MOST_WEIGHTED_WAYS:
        return found
    weights = [1 / ways + 1e-6 * way for way in range(ways)]  # slightly unequal, so that the filter distinguishes ways
    for _ in range(rounds):
        uneven = fit(weights, observations, count=True)
        total = sum(uneven.victims) + 0.5 * ways
        weights = [(v + 0.5) / total for v in uneven.victims]
    weights = _turned(weights, observations)
    uneven = fit(weights, observations)
    found.append(Candidate("way-weighted", uneven.loglik, abs(uneven.surprise) <= MOST_SURPRISE, tuple(weights)))
    if found[0].explains and uneven.loglik < even.loglik + MARGIN:
        found.append(_least_uneven(ways, observations))
    return found


def _turned(weights: list[float], observations: Sequence[Observation]) -> list[float]:
    """With the greatest probability at the likeliest way: only the first laps tell which that is."""
    top = int(np.argmax(weights))
    if len(weights) > 8 or weights[top] < UNEVEN / (len(weights) + UNEVEN - 1):
        return weights
    tries = []
    for way in range(len(weights)):
        turned = list(weights)
        turned[top], turned[way] = turned[way], turned[top]
        tries.append((fit(turned, observations).loglik, turned))
    return max(tries)[1]


def _least_uneven(ways: int, observations: Sequence[Observation]) -> Candidate:
    """The likeliest of the alternatives that "random" has to exclude: one way twice as often the victim as the others."""
    tries = []
    for way in range(ways):
        weights = [UNEVEN if w == way else 1.0 for w in range(ways)]
        tries.append(fit([w / sum(weights) for w in weights], observations).loglik)
    return Candidate("way-weighted", max(tries), False)


def _decided(candidates: Sequence[Candidate], count: int) -> _Choice:
    """The candidate that explains the flags by a margin over every other; drawn evenly is preferred to unevenly."""
    likeliest: dict[str, Candidate] = {}
    for c in candidates:
        if c.name not in likeliest or c.loglik > likeliest[c.name].loglik:
            likeliest[c.name] = c
    ranked = sorted(likeliest.values(), key=lambda c: -c.loglik)
    best = ranked[0]
    even = likeliest.get("random")
    if best.name == "way-weighted" and even is not None and even.explains and best.loglik < even.loglik + MARGIN:
        best = even
        rivals = [c for c in candidates if c.name != "random" and not c.victims]
    else:
        rivals = [c for c in ranked if c is not best]
    if not best.explains:
        return replace(_unnamed("no known policy explains which accesses hit and which missed", count), explained=False)
    close = sorted({c.name for c in rivals if c.loglik > best.loglik - MARGIN})
    if close:
        names = " or ".join([best.name, *close])
        return _unnamed(f"{names} explain what was seen equally well; {_missing(best.name, close)}", count)
    margin = best.loglik - max((c.loglik for c in rivals), default=-math.inf)
    method = f"likelihood of {count} accesses under six policies, ahead by {min(margin, 1e6):.0f}"
    return _Choice(best.name, method, victims=best.victims)


def _missing(best: str, close: Sequence[str]) -> str:
    if {best, *close} == {"random", "way-weighted"}:
        return "missing are more laps over ways + 1 lines of a set, from an empty cache on"
    return "missing are random sequences over ways + 2 lines of one set"


def _unnamed(reason: str, count: int) -> _Choice:
    return _Choice(None, f"likelihood of {count} accesses under six policies", reason)


def seeded(ways: int) -> np.random.Generator:
    """The random generator for simulations of `ways` ways: fixed, so that the same data always give the same result."""
    return np.random.default_rng(ways)
