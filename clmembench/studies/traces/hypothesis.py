"""One cache hypothesis: its behaviour on all streams, and the likelihood of the observed hits and misses. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Array
from clmembench.studies.hierarchy.replacement.cache_set import DETERMINISTIC_POLICIES, SetMaker, policy_forms
from clmembench.studies.hierarchy.replacement.policies import MAX_WRONG_FLAG_SHARE, MIN_LOG_LIKELIHOOD_MARGIN
from clmembench.studies.hierarchy.replacement.random_victims import SetObservation, distinct_observations, fit_victims
from clmembench.studies.hierarchy.replacement.victim_states import WRONG_FLAG_PROBABILITY
from clmembench.studies.traces.set_mappings import SetMapping
from clmembench.studies.traces.streams import AccessStream

# Thresholds and limits, each with its reason
MAX_CACHE_SURPRISE_SIGMAS = 8.0  # standard deviations of a count under uniformly random victims, which may be non-uniform
MAX_WRONG_FLAG_SHARE_IN_FITTING_SETS = 0.004  # share of flags in sets that are not over-full, in which only outliers are wrong
WRONG_FLAG_LOG_LIKELIHOOD = math.log(WRONG_FLAG_PROBABILITY)
RIGHT_FLAG_LOG_LIKELIHOOD = math.log(
    1 - WRONG_FLAG_PROBABILITY
)  # log-likelihood of a right flag; the one above is of a wrong one


@dataclass(frozen=True, slots=True)
class CacheHypothesis:
    """A cache: sectors of `unit_bytes` in lines, mapped to sets of `ways` ways, with a policy; and the likelihood of all
    flags."""

    unit_bytes: int
    mapping: SetMapping
    ways: int
    policy: str
    loglik: float
    explains: bool

    @property
    def size_bytes(self) -> int:
        return self.mapping.line_bytes * self.mapping.sets * self.ways

    @property
    def shape(self) -> CacheShape:
        """The cache without its policy."""
        return CacheShape(self.unit_bytes, self.mapping, self.ways)


@dataclass(frozen=True, slots=True)
class CacheShape:
    """A cache without its policy: sectors of `unit_bytes` in lines, mapped to sets of `ways` ways."""

    unit_bytes: int
    mapping: SetMapping
    ways: int

    def with_policy(self, policy: str, loglik: float, explains: bool) -> CacheHypothesis:
        """The hypothesis of this cache with a policy, and the likelihood of all flags under it."""
        return CacheHypothesis(self.unit_bytes, self.mapping, self.ways, policy, loglik, explains)


@dataclass(slots=True)
class SimulationBudget:
    """Visits that may still be simulated."""

    left: int


def overfull_visits(shape: CacheShape, stream: AccessStream) -> tuple[Array, Array, int, int]:
    """Visits to over-full sets in order of set and time, and their sets; for all others the number of flags, and of wrong
    ones."""
    mapping = shape.mapping
    sets = mapping.of(stream.addresses)
    lines = stream.addresses // mapping.line_bytes
    _, first = np.unique(lines, return_index=True)  # all of a line is in one set
    held = np.bincount(sets[first], minlength=mapping.sets)
    over = held[sets] > shape.ways
    unit = stream.addresses // shape.unit_bytes
    cold = np.zeros(unit.size, dtype=bool)
    cold[np.unique(unit, return_index=True)[1]] = True
    plain = ~over & (stream.missed >= 0)
    wrong = int((cold[plain] != (stream.missed[plain] == 1)).sum())
    at = np.flatnonzero(over)
    return at[np.argsort(sets[at], kind="stable")], sets, int(plain.sum()), wrong


def deterministic_hypotheses(
    shape: CacheShape, cut: Sequence[AccessStream], least: float, spent: SimulationBudget
) -> list[CacheHypothesis]:
    """Hypotheses with each deterministic policy that explains the flags and is at least as likely as `least`."""
    split = [overfull_visits(shape, s) for s in cut]
    total = sum(int((s.missed >= 0).sum()) for s in cut)
    start = sum(wrong for *_, wrong in split)
    plain = sum(seen for *_, seen, _ in split)
    if start > max(3.0, MAX_WRONG_FLAG_SHARE_IN_FITTING_SETS * plain):
        return []
    most = start + 3.0 + MAX_WRONG_FLAG_SHARE * (total - plain)
    if math.isfinite(least):
        most = min(most, (total * RIGHT_FLAG_LOG_LIKELIHOOD - least) / (RIGHT_FLAG_LOG_LIKELIHOOD - WRONG_FLAG_LOG_LIKELIHOOD))
    hypotheses = []
    for name in DETERMINISTIC_POLICIES:
        for maker in policy_forms(name, shape.ways):
            wrong = start
            for stream, (at, sets, _, _) in zip(cut, split, strict=True):
                if wrong > most:
                    break
                wrong += _wrong_flags(shape, maker, stream, at, sets)
                spent.left -= at.size
            if wrong <= most:
                loglik = (total - wrong) * RIGHT_FLAG_LOG_LIKELIHOOD + wrong * WRONG_FLAG_LOG_LIKELIHOOD
                hypotheses.append(shape.with_policy(name, loglik, True))
                most = min(most, wrong + MIN_LOG_LIKELIHOOD_MARGIN / (RIGHT_FLAG_LOG_LIKELIHOOD - WRONG_FLAG_LOG_LIKELIHOOD))
    return hypotheses


def _wrong_flags(shape: CacheShape, maker: SetMaker, stream: AccessStream, at: Array, sets: Array) -> int:
    """Number of flags of visits to over-full sets that contradict the policy."""
    wrong = 0
    last = -1
    one = maker(shape.ways)
    unit_bytes, line_bytes = shape.unit_bytes, shape.mapping.line_bytes
    sectors: dict[int, set[int]] = {}
    a = stream.addresses[at]
    for address, number, flag in zip(a.tolist(), sets[at].tolist(), stream.missed[at].tolist(), strict=True):
        if number != last:
            one, last, sectors = maker(shape.ways), number, {}
        line, unit = address // line_bytes, address // unit_bytes
        if one.access(line):
            hit = unit in sectors[line]
            sectors[line].add(unit)
        else:
            hit = False
            sectors[line] = {unit}
        wrong += flag >= 0 and hit == (flag == 1)
    return wrong


def overfull_set_observations(shape: CacheShape, stream: AccessStream) -> tuple[list[SetObservation], int, int]:
    """Accesses to each over-full set, line by line without repeats, and which of them hit; then the number of flags of the
    other sectors of a visited line, which behave like the first one unless never filled, and of flags that contradict that."""
    mapping = shape.mapping
    at, sets, _, _ = overfull_visits(replace(shape, unit_bytes=mapping.line_bytes), stream)
    lines = stream.addresses // mapping.line_bytes
    sectors = stream.addresses // shape.unit_bytes
    cold = np.zeros(lines.size, dtype=bool)
    cold[np.unique(sectors, return_index=True)[1]] = True
    missed = stream.missed
    observations: list[SetObservation] = []
    rest = wrong = 0
    starts = np.unique(np.r_[0, np.flatnonzero(np.diff(sets[at])) + 1, at.size])
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        own = at[begin:end]
        run = np.r_[True, lines[own][1:] != lines[own][:-1]]
        flags = missed[own][run]
        observations.append((lines[own][run].tolist(), [None if flag < 0 else flag == 0 for flag in flags.tolist()]))
        same = np.r_[False, sectors[own][1:] == sectors[own][:-1]]
        other = ~run & (missed[own] >= 0)
        expected = ~same & (cold[own] | (flags[np.cumsum(run) - 1] == 1))
        rest += int(other.sum())
        wrong += int(((missed[own] == 1) != expected)[other].sum())
    return observations, rest, wrong


def stochastic_hypothesis(
    shape: CacheShape, cut: Sequence[AccessStream], least: float, spent: SimulationBudget, loglik: float
) -> CacheHypothesis | None:
    """The hypothesis with uniformly random victims, on fewer accesses; None as soon as it is less likely than `least`.
    `loglik`: its value from earlier accesses."""
    explains = loglik > -MIN_LOG_LIKELIHOOD_MARGIN
    above = variance = 0.0
    wrong_all = total = 0
    known: set[bytes] = set()
    for stream in cut:
        _, _, seen, wrong = overfull_visits(shape, stream)
        observations, rest, others = overfull_set_observations(shape, stream)
        wrong_all += wrong + others
        total += seen + rest
        loglik += (wrong + others) * WRONG_FLAG_LOG_LIKELIHOOD + (seen + rest - wrong - others) * RIGHT_FLAG_LOG_LIKELIHOOD
        if loglik < least:
            return None
        observations = distinct_observations(observations, known)
        if observations:
            spent.left -= sum(len(lines) for lines, _ in observations)
            if spent.left < 0:
                return None
            found = fit_victims([1 / shape.ways] * shape.ways, observations)
            loglik += found.loglik
            above, variance = above + found.above, variance + found.variance
            wrong_all, total = wrong_all + found.odd, total + found.certain
    if loglik < least:
        return None
    explains &= wrong_all <= max(3.0, MAX_WRONG_FLAG_SHARE * total) and abs(above) <= MAX_CACHE_SURPRISE_SIGMAS * math.sqrt(
        max(variance, 1.0)
    )
    return shape.with_policy("random", loglik, explains)
