"""Likelihood of hits and misses where a set's victim is drawn: a forward filter over what the set may hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array

# Thresholds and limits, each with its reason
ERROR = 0.003  # of accesses: share of wrong flags, outliers that look like misses
MOST_STATES = 256  # the likeliest states are kept: the result is a lower bound, and close
LEAST_SHARE = 1e-9  # of the likeliest state: rarer states are dropped

Observation = tuple[Sequence[int], Sequence[bool | None]]  # lines, and whether each hit; None: not seen


@dataclass(frozen=True, slots=True)
class Fit:
    """Log-likelihood of the flags, and the victims of each way.

    Of accesses of which it was open whether they hit: how much their log-likelihood is above the expected, and its variance. Of
    the others: how many there were, and how many did otherwise.
    """

    loglik: float
    above: float
    variance: float
    certain: int
    odd: int
    victims: tuple[float, ...]

    @property
    def surprise(self) -> float:
        """Standard deviations from what is expected where the model is true."""
        return self.above / math.sqrt(max(self.variance, 1.0))


def fit(weights: Sequence[float], observations: Sequence[Observation], count: bool = False) -> Fit:
    """Victims drawn with probabilities `weights` (of each way; filled from the first on), over sets that start empty.

    Where all weights are equal the ways cannot be told apart and the state is the set of lines; else which line is in which
    way. With `count`, `victims` are the expected numbers of replacements of each way given all flags up to the last (carried
    forward with each state, as in Del Moral, Doucet & Singh 2010), which maximises the likelihood when iterated.
    """
    ways = len(weights)
    loglik = above = variance = 0.0
    certain = odd = 0
    victims = np.zeros(ways)
    for lines, flags in observations:
        one = _Filter(np.asarray(weights, dtype=float), lines, count)
        for line, hit in zip(one.lines.tolist(), flags, strict=True):
            p = min(max(one.chance(line), ERROR), 1 - ERROR)
            if hit is None:
                one.step(line, None)
                continue
            loglik += float(np.log(p if hit else 1 - p))
            if ERROR < p < 1 - ERROR:
                above += float(np.log(p if hit else 1 - p) - p * np.log(p) - (1 - p) * np.log(1 - p))
                variance += p * (1 - p) * float(np.log(p / (1 - p))) ** 2
            else:
                certain += 1
                odd += hit != (p > 0.5)
            one.step(line, hit)
        victims += one.victims()
    return Fit(loglik, above, variance, certain, odd, tuple(victims.tolist()))


def different(observations: Sequence[Observation], known: set[bytes]) -> list[Observation]:
    """Those that are not the same as another but for the lines' names; `known` grows by them.

    A simulation may draw the same victims in every trace: the same draw seen often is no more evidence than seen once.
    """
    found = []
    for lines, flags in observations:
        _, first, inverse = np.unique(np.asarray(lines), return_index=True, return_inverse=True)
        key = first[inverse].tobytes() + bytes(2 if flag is None else int(flag) for flag in flags)
        if key not in known:
            known.add(key)
            found.append((lines, flags))
    return found


class _Filter:
    """States with their probabilities: `held` of shape (states, ways), -1 where a way is free."""

    def __init__(self, weights: Array, lines: Sequence[int], count: bool) -> None:
        self.weights = weights / weights.sum()
        self.ways = weights.size
        self.alike = bool(np.ptp(self.weights) < 1e-12)
        _, self.lines = np.unique(np.asarray(lines), return_inverse=True)
        random = np.random.default_rng(1)
        shape = (int(self.lines.max(initial=0)) + 2, 1 if self.alike else self.ways)
        self.keys = random.integers(1, 1 << 62, shape, dtype=np.int64)
        self.held = np.full((1, self.ways), -1, dtype=np.int64)
        self.code = np.zeros(1, dtype=np.int64)  # a hash of what is held: equal states have equal ones
        self.share = np.ones(1)
        self.filled = 0
        self.counts: Array | None = np.zeros((1, self.ways)) if count else None

    def chance(self, line: int) -> float:
        """The probability that the access hits."""
        self.hit = (self.held == line).any(axis=1)
        return float(self.share[self.hit].sum())

    def step(self, line: int, hit: bool | None) -> None:
        """Weigh the states with a flag, where it was seen, and let those that missed replace."""
        share = self.share if hit is None else self.share * np.where(self.hit == hit, 1 - ERROR, ERROR)
        missed = np.flatnonzero(~self.hit)
        if missed.size == 0:
            self.share = share / share.sum()
            return
        kept = np.flatnonzero(self.hit)
        free = missed.size and (self.held[missed[0]] < 0).any()
        ways = np.array([int(np.argmax(self.held[missed[0]] < 0))]) if free else np.arange(self.ways)
        parents = np.r_[kept, np.repeat(missed, ways.size)]
        way = np.tile(ways, missed.size)
        new = np.arange(kept.size, parents.size)
        held = self.held[parents]
        code = self.code[parents]
        old = held[new, way]
        column = np.zeros_like(way) if self.alike else way
        code[new] += self.keys[line, column] - np.where(old >= 0, self.keys[old, column], 0)
        held[new, way] = line
        odds = share[parents]
        odds[new] *= np.ones(1) if free else self.weights[way]
        counts = None
        if self.counts is not None:
            counts = self.counts[parents]
            if not free:
                counts[new, way] += 1
        self._merge(held, code, odds, counts)

    def _merge(self, held: Array, code: Array, odds: Array, counts: Array | None) -> None:
        unique, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        total = np.bincount(inverse, odds, unique.size)
        merged = None
        if counts is not None:
            sums = [np.bincount(inverse, odds * c, unique.size) for c in counts.T]
            merged = np.stack(sums, axis=1) / np.maximum(total, 1e-300)[:, None]
        best = np.flatnonzero(total > LEAST_SHARE * total.max())
        if best.size > MOST_STATES:
            best = np.argpartition(total, -MOST_STATES)[-MOST_STATES:]
        self.held, self.code = held[first[best]], unique[best]
        self.share = total[best] / total[best].sum()
        self.counts = None if merged is None else merged[best]

    def victims(self) -> Array:
        return np.zeros(self.ways) if self.counts is None else self.share @ self.counts
