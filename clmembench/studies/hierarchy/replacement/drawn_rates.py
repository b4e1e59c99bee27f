"""Miss rates of one cache set whose victims are drawn, exactly: probabilities of what it lacks, access by access. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from clmembench.model import Array

# Thresholds and limits, each with its reason
MAX_ABSENT = 2  # lines beyond the ways: there are as many sets of lines that may be absent as can be followed
MAX_FOLLOWED_ACCESSES = 800  # of a lap that is repeated until its miss rate is steady
SETTLED_RATE_DIFFERENCE = 5e-4  # between two laps: from there on the rate is steady
CACHED_RATES = 4096  # by lap: levels and TLBs that have as many ways are asked the same laps


@lru_cache(maxsize=CACHED_RATES)
def drawn_miss_rates(ways: int, lap: tuple[int, ...], ratios: tuple[float, ...]) -> tuple[float, ...]:
    """The shares of accesses that miss in the steady state of a repeated lap over at most `ways` + MAX_ABSENT lines, under
    victims drawn with probabilities of which one way's is so many times each other one's; a `ratio` of 1 is even.

    The state is the line in the preferred way and the lines that are absent. Raises ValueError for more lines.
    """
    names, lines = np.unique(np.asarray(lap), return_inverse=True)
    absent = names.size - ways
    if absent > MAX_ABSENT:
        raise ValueError(f"{names.size} lines in {ways} ways")
    if absent <= 0:
        return (0.0,) * len(ratios)
    even, uneven = [r for r in ratios if r == 1], [r for r in ratios if r != 1]
    rates = dict(zip(even, _steady(_EvenSets(ways, names.size, absent), lines.tolist()), strict=False))
    if uneven:
        rates |= zip(uneven, _steady(UnevenSets(ways, names.size, absent, uneven), lines.tolist()), strict=True)
    return tuple(float(rates[ratio]) for ratio in ratios)


def _steady(sets: _EvenSets | UnevenSets, lines: Sequence[int]) -> Array:
    """Miss rates of a lap that is repeated until they do not change."""
    before: Array = np.full(1, -1.0)
    for _ in range(max(2, MAX_FOLLOWED_ACCESSES // len(lines))):
        rates: Array = sum((sets.access(line) for line in lines), np.zeros(1)) / len(lines)
        if np.abs(rates - before).max() < SETTLED_RATE_DIFFERENCE:
            break
        before = rates
    return rates


class _EvenSets:
    """Probabilities of each pair of absent lines, shape (lines, lines), symmetric; of one absent line on the diagonal. All ways
    are alike."""

    def __init__(self, ways: int, lines: int, absent: int) -> None:
        self.ways, self.single = ways, absent == 1
        self.chances = np.zeros((lines, lines))
        self.chances[-1, -absent] = self.chances[-absent, -1] = 1.0

    def access(self, line: int) -> Array:
        """The probability, shape (1,), that the line is absent; it is present from then on."""
        chances = self.chances
        gone = chances[line].copy()  # by the other absent line
        missed = gone.sum()
        chances[line] = chances[:, line] = 0.0
        if self.single:
            spread = np.full(gone.size, missed / self.ways)
            spread[line] = 0.0
            chances[np.diag_indices(gone.size)] += spread
            return np.array([missed])
        spread = np.broadcast_to(gone / self.ways, chances.shape).copy()  # by the victim and the other absent line
        np.fill_diagonal(spread, 0.0)
        spread[line] = 0.0
        chances += spread + spread.T
        return np.array([missed])


class UnevenSets:
    """Probabilities of the line in the preferred way and the pair of absent lines, shape (ratios, lines, lines, lines),
    symmetric in the last two; one absent line is a pair of the same line twice. At first one of each is known, or none."""

    def __init__(self, ways: int, lines: int, absent: int, ratios: Sequence[float], known: bool = True) -> None:
        self.single = absent == 1
        weights = np.asarray(ratios, dtype=float)
        self.preferred = (weights / (weights + ways - 1))[:, None, None]
        self.other = (1 / (weights + ways - 1))[:, None, None, None]
        numbers = np.arange(lines)
        differ = numbers[:, None] != numbers[None, :]
        self.victims = differ  # no line but that in the preferred way, by line and victim
        self.chances = np.zeros((weights.size, lines, lines, lines))
        if known:
            self.chances[:, 0, -1, -absent] = self.chances[:, 0, -absent, -1] = 1.0
        else:
            pairs = ~differ if self.single else differ
            possible = pairs[None, :, :] & differ[:, :, None] & differ[:, None, :]
            self.chances[:] = possible / (possible.sum() / (1 if self.single else 2))

    def access(self, line: int, of_hit: float = 1.0, of_miss: float = 1.0) -> Array:
        """The probability for each ratio that the line is absent; it is present from then on. `of_hit`, `of_miss`: how likely
        it is to be seen as it was where it hit and where it missed, by which states are weighed."""
        chances = self.chances
        gone = chances[:, :, line].copy()  # by the line in the preferred way and the other absent line
        missed: Array = gone.sum(axis=(1, 2))
        chances[:, :, line] = 0.0
        chances[:, :, :, line] = 0.0
        if of_hit != of_miss:
            seen = missed * of_miss + (1 - missed) * of_hit
            chances *= (of_hit / seen)[:, None, None, None]
            gone *= (of_miss / seen)[:, None, None]
        first = self.preferred * gone
        if self.single:
            left = gone.sum(axis=2)
            numbers = np.arange(left.shape[1])
            chances[:, line, numbers, numbers] += first.sum(axis=2)
            others = self.other[..., 0] * left[:, :, None] * self.victims
            others[:, :, line] = 0.0
            chances[:, :, numbers, numbers] += others
            return missed
        chances[:, line] += first + first.swapaxes(1, 2)
        others = self.other * gone[:, :, None, :] * self.victims[None, :, :, None]  # by preferred, victim and other absent line
        others[:, :, line] = 0.0
        diagonal = np.arange(gone.shape[1])
        others[:, :, diagonal, diagonal] = 0.0
        chances += others + others.swapaxes(2, 3)
        return missed
