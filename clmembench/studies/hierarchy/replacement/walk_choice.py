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
    and `sigma` the standard deviation of one lap's besides."""
    label = np.unique(np.asarray(names), return_inverse=True)[1]
    first, second = np.nonzero(np.triu(label[:, None] != label[None, :]))
    if first.size == 0 or latencies.shape[1] == 0:
        return []
    variance = sigma**2 + spread[first] ** 2 + spread[second] ** 2
    apart = np.minimum(0.5 * (latencies[first] - latencies[second]) ** 2 / variance, MOST_OF_ONE_LAP)  # by pair and lap
    reached = np.zeros(first.size)
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
