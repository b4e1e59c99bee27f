"""Likelihood of hits and misses where a set's victim is drawn: a forward filter over what the set may hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.studies.hierarchy.replacement.victim_states import WRONG_FLAG_PROBABILITY, StateFilter, VictimStates

# Thresholds and limits, each with its reason

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


def fit_victims(
    weights: Sequence[float], observations: Sequence[SetObservation], count: bool = False, known: VictimStates | None = None
) -> VictimFit:
    """Victims drawn with probabilities `weights` (of each way; filled from the first on), over sets that start empty.

    Where all weights are equal the ways are not distinguishable and the state is the set of lines; else which line is in which
    way. With `count`, `victims` are the expected numbers of replacements of each way given all flags up to the last (carried
    forward with each state, as in Del Moral, Doucet & Singh 2010), which maximises the likelihood when iterated. `known` are
    the states of fits before, which make the same fit in less time.
    """
    ways = len(weights)
    loglik = above = variance = 0.0
    certain = odd = 0
    victims = np.zeros(ways)
    known = VictimStates() if known is None else known
    for lines, flags in observations:
        one = StateFilter(np.asarray(weights, dtype=float), lines, count, known)
        chances: list[float] = []
        seen: list[bool] = []
        for line, hit in zip(one.lines.tolist(), flags, strict=True):
            if hit is not None:
                chances.append(min(max(one.chance(line), WRONG_FLAG_PROBABILITY), 1 - WRONG_FLAG_PROBABILITY))
                seen.append(hit)
            one.step(line, hit)
        p = np.array(chances)
        terms = (np.log(p), np.log(1 - p), np.log(p / (1 - p)))
        for chance, hit, of_hit, of_miss, contrast in zip(chances, seen, *(t.tolist() for t in terms), strict=True):
            loglik += of_hit if hit else of_miss
            if WRONG_FLAG_PROBABILITY < chance < 1 - WRONG_FLAG_PROBABILITY:
                above += (of_hit if hit else of_miss) - chance * of_hit - (1 - chance) * of_miss
                variance += chance * (1 - chance) * contrast**2
            else:
                certain += 1
                odd += hit != (chance > 0.5)
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
