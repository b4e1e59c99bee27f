"""Likelihood of hits and misses where a set's victim is drawn: a forward filter over what the set may hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array

# Thresholds and limits, each with its reason
WRONG_FLAG_PROBABILITY = 0.003  # of accesses: share of wrong flags, outliers that look like misses
MAX_STATES = 256  # the likeliest states are kept: the result is a lower bound, and close
MIN_STATE_PROBABILITY = 1e-9  # of the likeliest state: rarer states are dropped

SetObservation = tuple[Sequence[int], Sequence[bool | None]]  # lines, and whether each hit; None: not seen


@dataclass(frozen=True, slots=True)
class VictimFit:
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


def fit_victims(weights: Sequence[float], observations: Sequence[SetObservation], count: bool = False) -> VictimFit:
    """Victims drawn with probabilities `weights` (of each way; filled from the first on), over sets that start empty.

    Where all weights are equal the ways are not distinguishable and the state is the set of lines; else which line is in which
    way. With `count`, `victims` are the expected numbers of replacements of each way given all flags up to the last (carried
    forward with each state, as in Del Moral, Doucet & Singh 2010), which maximises the likelihood when iterated.
    """
    ways = len(weights)
    loglik = above = variance = 0.0
    certain = odd = 0
    victims = np.zeros(ways)
    for lines, flags in observations:
        one = _StateFilter(np.asarray(weights, dtype=float), lines, count)
        for line, hit in zip(one.lines.tolist(), flags, strict=True):
            p = min(max(one.chance(line), WRONG_FLAG_PROBABILITY), 1 - WRONG_FLAG_PROBABILITY)
            if hit is None:
                one.step(line, None)
                continue
            loglik += float(np.log(p if hit else 1 - p))
            if WRONG_FLAG_PROBABILITY < p < 1 - WRONG_FLAG_PROBABILITY:
                above += float(np.log(p if hit else 1 - p) - p * np.log(p) - (1 - p) * np.log(1 - p))
                variance += p * (1 - p) * float(np.log(p / (1 - p))) ** 2
            else:
                certain += 1
                odd += hit != (p > 0.5)
            one.step(line, hit)
        victims += one.victims()
    return VictimFit(loglik, above, variance, certain, odd, tuple(victims.tolist()))


def distinct_observations(observations: Sequence[SetObservation], known: set[bytes]) -> list[SetObservation]:
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


@dataclass(frozen=True, slots=True)
class _Entries:
    """States that follow on an access: the first `kept` ones are as their parents, in each other one `line` is in a way."""

    parents: Array
    kept: int
    way: Array  # of each state that is not kept
    line: int
    free: bool  # nothing was replaced

    def held(self, held: Array, chosen: Array) -> Array:
        """What some of these states hold, of what their parents do; shape (chosen, ways)."""
        found = held[self.parents[chosen]]
        new = np.flatnonzero(chosen >= self.kept)
        found[new, self.way[chosen[new] - self.kept]] = self.line
        return found


class _StateFilter:
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
        share = (
            self.share
            if hit is None
            else self.share * np.where(self.hit == hit, 1 - WRONG_FLAG_PROBABILITY, WRONG_FLAG_PROBABILITY)
        )
        missed = np.flatnonzero(~self.hit)
        if missed.size == 0:
            self.share = share / share.sum()
            return
        kept = np.flatnonzero(self.hit)
        full = self.held[missed]
        free = bool((full[0] < 0).any())
        ways = full[0].argmin(keepdims=True) if free else np.arange(self.ways)  # -1 is the least
        parents = np.concatenate((kept, np.repeat(missed, ways.size)))
        way = np.tile(ways, missed.size)
        old = full[:, ways].ravel()
        column = np.zeros_like(way) if self.alike else way
        code, odds = self.code[parents], share[parents]
        code[kept.size :] += self.keys[line, column] - np.where(old >= 0, self.keys[old, column], 0)
        if not free:
            odds[kept.size :] *= self.weights[way]
        self._merge(_Entries(parents, kept.size, way, line, free), code, odds)

    def _merge(self, entries: _Entries, code: Array, odds: Array) -> None:
        """One state for each code, with all that leads to it; the unlikely ones go."""
        order = code.argsort(kind="stable")
        ordered = code[order]
        begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        inverse = np.empty(code.size, dtype=np.intp)
        inverse[order] = begins.cumsum() - 1
        first = order[begins]
        total = np.bincount(inverse, odds, first.size)
        best = np.flatnonzero(total > MIN_STATE_PROBABILITY * total.max())
        if best.size > MAX_STATES:
            best = np.argpartition(total, -MAX_STATES)[-MAX_STATES:]
        if self.counts is not None:
            self.counts = self._merged(entries, self.counts, inverse, odds, total, best)
        self.held, self.code = entries.held(self.held, first[best]), ordered[begins][best]
        self.share = total[best] / total[best].sum()

    def _merged(self, entries: _Entries, counts: Array, inverse: Array, odds: Array, total: Array, best: Array) -> Array:
        """The expected replacements of each way in the states that stay."""
        place = np.full(total.size, -1, dtype=np.intp)
        place[best] = np.arange(best.size)
        stays = np.flatnonzero(place[inverse] >= 0)
        counted = counts[entries.parents[stays]]
        new = np.flatnonzero(stays >= entries.kept)
        if not entries.free:
            counted[new, entries.way[stays[new] - entries.kept]] += 1
        counted *= odds[stays, None]
        into = place[inverse[stays]]
        sums = np.stack([np.bincount(into, c, best.size) for c in counted.T], axis=1)
        merged: Array = sums / np.maximum(total[best], 1e-300)[:, None]
        return merged

    def victims(self) -> Array:
        return np.zeros(self.ways) if self.counts is None else self.share @ self.counts
