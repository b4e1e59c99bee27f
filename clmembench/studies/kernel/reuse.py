"""Reuse distances of lines, and the miss ratio of an LRU cache of any size (Mattson et al. 1970; SHARDS, 2015). Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
COLD = -1  # the distance of a first touch
MOST_TOUCHES = 1 << 20  # of sampled lines: more are sampled more thinly
HASH_FACTOR, HASH_BITS = np.uint64(0x9E3779B97F4A7C15), np.uint64(40)
HASH_RANGE = 1 << 24


def stack_distances(lines: Numbers) -> Numbers:
    """For each touch of a line the number of other lines touched since its last touch; COLD for the first touch.

    Of touch i whose line was last touched at p, that is the number of touches j < i whose own last touch is at p or before,
    less those up to p (each of which has such a last touch). One pass for each bit of the number of touches counts them.
    """
    count = len(lines)
    order = np.argsort(lines, kind="stable")
    previous = np.full(count, -1, np.int64)
    same = np.diff(lines[order]) == 0
    previous[order[1:][same]] = order[:-1][same]
    distances = _earlier_not_above(previous) - (previous + 1)
    distances[previous < 0] = COLD
    return distances


def _earlier_not_above(values: Numbers) -> Numbers:
    """For each value the number of earlier ones that are not above it."""
    count = len(values)
    found = np.zeros(count, np.int64)
    if count < 2:
        return found
    order = np.argsort(values, kind="stable")  # by value; equal ones by place
    for bit in range((count - 1).bit_length()):
        block = order >> (bit + 1)
        ordered = order[np.argsort(block, kind="stable")]  # by block, in each by value
        in_left = (ordered >> bit & 1) == 0
        left = np.cumsum(in_left)
        block = ordered >> (bit + 1)
        first = np.ones(count, bool)
        first[1:] = block[1:] != block[:-1]
        before = (left - in_left)[first]  # of earlier blocks
        found[ordered[~in_left]] += (left - np.repeat(before, np.diff(np.append(np.flatnonzero(first), count))))[~in_left]
    return found


def sampled_distances(lines: Numbers) -> tuple[Numbers, float]:
    """Distances of the touches of some lines, chosen by their hash, scaled to all lines; and the share of lines chosen."""
    if len(lines) <= MOST_TOUCHES:
        return stack_distances(lines), 1.0
    share = MOST_TOUCHES / len(lines)
    with np.errstate(over="ignore"):
        hashed = (lines.astype(np.uint64) * HASH_FACTOR) >> HASH_BITS
    distances = stack_distances(lines[hashed < np.uint64(share * HASH_RANGE)])
    return np.where(distances == COLD, COLD, (distances / share).astype(np.int64)), share


def miss_ratios(lines: Numbers, capacities: Numbers) -> tuple[npt.NDArray[np.float64], float]:
    """The miss ratio of LRU caches of so many lines, first touches included; and the share of first touches."""
    distances, _ = sampled_distances(lines)
    if not len(distances):
        return np.ones(len(capacities)), 1.0
    cold = float((distances == COLD).mean())
    warm = np.sort(distances[distances != COLD])
    missed = len(warm) - np.searchsorted(warm, capacities, side="left")
    return cold + missed / len(distances), cold
