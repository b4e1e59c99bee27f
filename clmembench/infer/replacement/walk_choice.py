"""Which laps to ask next: those in which the policies that are still possible differ most. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Array

# Thresholds and limits, each with its reason
ENOUGH_DISTANCE = 30.0  # of log-likelihood between two candidates: three times the margin, since costs are not known exactly
MOST_OF_ONE_LAP = 8.0  # of that distance, that one lap counts for: it may be disturbed, so that others have to agree
MIN_DISTANCE = 0.5  # of log-likelihood that a lap adds between two policies: with less it is not worth a probe


def choose_laps(names: Sequence[str], latencies: Array, spread: Array, sigma: float, most: int) -> list[int]:
    """Up to `most` laps in which candidates of different names differ most, by number; the best first.

    `latencies` of shape (candidates, laps) are those expected, `spread` is how much they depend on what the set held before,
    and `sigma` the standard deviation of one lap's besides. Where no latencies differ by more than they depend on that, laps
    count in which they depend on it under one candidate and not under the other: the one that says them exactly is the likelier
    each time that it is right."""
    label = np.unique(np.asarray(names), return_inverse=True)[1]
    first, second = np.nonzero(np.triu(label[:, None] != label[None, :]))
    if first.size == 0 or latencies.shape[1] == 0:
        return []
    variances = sigma**2 + spread[first] ** 2, sigma**2 + spread[second] ** 2
    squares = (latencies[first] - latencies[second]) ** 2
    chosen = _most_telling(0.5 * squares / (variances[0] + variances[1] - sigma**2), most)
    if chosen:
        return chosen
    ways = (_divergence(squares, *pair) for pair in (variances, variances[::-1]))
    return _most_telling(np.minimum(*ways), most)


def _divergence(squares: Array, own: Array, other: Array) -> Array:
    """The log-likelihood that a lap adds to a candidate that is right, over another one: the divergence (Kullback & Leibler
    1951) of normal distributions with such squared differences of their means, and variances of the right and the other one."""
    found: Array = 0.5 * (np.log(other / own) + (own + squares) / other - 1)
    return found


def _most_telling(distances: Array, most: int) -> list[int]:
    """Up to `most` laps, the best first, that tell most pairs of candidates apart; `distances` of shape (pairs, laps)."""
    apart = np.minimum(distances, MOST_OF_ONE_LAP)
    reached = np.zeros(len(apart))
    chosen: list[int] = []
    while len(chosen) < most:
        gain = np.minimum(reached[:, None] + apart, ENOUGH_DISTANCE) - np.minimum(reached, ENOUGH_DISTANCE)[:, None]
        gain[:, chosen] = 0.0
        worth = np.log1p(gain).sum(axis=0)  # some for every pair rather than much for a few
        best = int(np.argmax(worth))
        if gain[:, best].max() < MIN_DISTANCE:
            break
        chosen.append(best)
        reached += apart[:, best]
    return chosen
