"""Mappings, and numbers of ways for each, that are compatible with the observed misses. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array
from clmembench.studies.traces.footprints import WRONG_FLAG_COST, StreamFootprint, excused_misses, line_cost
from clmembench.studies.traces.set_mappings import SetMapping

# Thresholds and limits, each with its reason
MAX_FIRST_PASS_UNITS = 6_000  # number of the smallest footprints, on which all mappings are tried
MAX_SECOND_PASS_MAPPINGS = 300  # mappings that are tried on all footprints
MAX_COST_ABOVE_LEAST = 40.0  # cost above the least: more expensive mappings are dropped


@dataclass(frozen=True, slots=True)
class PossibleMappings:
    """Mappings that put the accessed lines into the same sets, with the least and greatest ways that the misses allow."""

    mappings: tuple[SetMapping, ...]
    least_ways: int
    most_ways: int
    cost: float


@dataclass(frozen=True, slots=True)
class _PooledFootprints:
    """Footprints side by side, one entry a unit; `owner` is the number of the footprint."""

    units: Array
    visited: Array
    missed: Array
    owner: Array
    lasting: Array  # of each footprint
    largest: int  # units of a footprint
    excused: float  # apparent misses from outliers

    @classmethod
    def of(cls, footprints: Sequence[StreamFootprint]) -> _PooledFootprints:
        sizes = [foot.units.size for foot in footprints]
        units, visited, missed = (
            np.concatenate([getattr(foot, name) for foot in footprints]) for name in ("units", "visited", "missed")
        )
        owner = np.repeat(np.arange(len(footprints)), sizes)
        return cls(
            units,
            visited,
            missed,
            owner,
            np.array([foot.lasting for foot in footprints]),
            max(sizes),
            excused_misses(footprints),
        )


def ways_cost(mapping: SetMapping, pooled: _PooledFootprints) -> tuple[Array, Array]:
    """Cost of each number of ways, shape (ways + 1,): for misses in sets that fit, and for rounds without a miss in over-full
    sets; and the number of hits in over-full sets.

    Under any policy, lines of a set that holds them all miss once, and a round over all lines of an over-full set has at least
    one miss. As many unexpected misses as outliers can cause are free, so the cost of the true mapping does not grow with the
    data."""
    size = pooled.largest + 2
    key = mapping.of(pooled.units) + pooled.owner * mapping.sets  # number of a set in a footprint
    count = int(pooled.owner[-1] + 1) * mapping.sets
    if count > 4 * key.size:  # few of them are used
        used, key = np.unique(key, return_inverse=True)
        owner, count = used // mapping.sets, used.size
    else:
        owner = np.arange(count) // mapping.sets
    lines = pooled.units // mapping.line_bytes
    new = np.ones(lines.size, dtype=bool)  # units are in order of address, and a line lies in one set
    new[1:] = (lines[1:] != lines[:-1]) | (pooled.owner[1:] != pooled.owner[:-1])
    held = np.bincount(key[new], minlength=count)
    units = np.bincount(key, minlength=count)
    visited = np.bincount(key, pooled.visited, count)
    missed = np.bincount(key, pooled.missed, count)
    rounds = np.minimum(visited // np.maximum(units, 1), 20) * pooled.lasting[owner]
    # ways >= held: every miss is unexpected; ways < held: every round without one is
    odd = np.bincount(held, np.minimum(missed, 50), size)
    absent = np.bincount(held, np.maximum(0.0, rounds - missed), size)
    loose = np.bincount(held, visited - missed, size)
    wrong = np.maximum(0.0, np.cumsum(odd) - pooled.excused)
    return WRONG_FLAG_COST * (wrong + _sums_above(absent)), _sums_above(loose)


def _sums_above(at: Array) -> Array:
    """Sums of all elements above each index."""
    sums: Array = at.sum() - np.cumsum(at)
    return sums


def rank_mappings(
    candidates: Sequence[SetMapping], footprints: Sequence[StreamFootprint], sector_bytes: int, most: int
) -> list[PossibleMappings]:
    """Mappings compatible with the misses: the cheapest first, and among equals those whose over-full sets hit least.

    `sector_bytes`: the most that a miss brings in.
    """
    lines = {line: line_cost(line, sector_bytes, footprints) for line in {m.line_bytes for m in candidates}}
    least = min(lines.values(), default=0.0)
    candidates = [m for m in candidates if lines[m.line_bytes] <= least + MAX_COST_ABOVE_LEAST]
    small: list[StreamFootprint] = []
    total = 0
    for foot in footprints:  # from the smallest on
        total += foot.units.size
        if total <= MAX_FIRST_PASS_UNITS or len(small) < 2:
            small.append(foot)
    left = _mapping_costs(candidates, small)
    if len(small) < len(footprints):
        left = _mapping_costs([one[4] for one in left[:MAX_SECOND_PASS_MAPPINGS]], footprints)
    classes: dict[bytes, list[_Cost]] = {}
    for one in left[:MAX_SECOND_PASS_MAPPINGS]:
        classes.setdefault(_signature(one[4], footprints), []).append(one)
    ranked = sorted(classes.values(), key=lambda c: (c[0][0] // WRONG_FLAG_COST, c[0][1], c[0][4].sets))
    return [PossibleMappings(tuple(one[4] for one in c), c[0][2], c[0][3], c[0][0]) for c in ranked[:most]]


_Cost = tuple[float, float, int, int, SetMapping]  # the least cost, visits that hit in over-full sets, least and greatest ways


def _mapping_costs(candidates: Sequence[SetMapping], footprints: Sequence[StreamFootprint]) -> list[_Cost]:
    """Mappings that cost little more than the cheapest one, in order."""
    if not candidates:
        return []
    pooled = _PooledFootprints.of(footprints)
    costs: list[_Cost] = []
    for mapping in candidates:
        cost, loose = ways_cost(mapping, pooled)
        cost[0] = np.inf
        least = float(cost.min())
        near = np.flatnonzero(cost <= least + WRONG_FLAG_COST / 2)
        costs.append((least, float(loose[near].min()), int(near[0]), int(near[-1]), mapping))
    best = min((one[0] for one in costs), default=0.0)
    return sorted(
        (one for one in costs if one[0] <= best + MAX_COST_ABOVE_LEAST), key=lambda one: (one[0] // WRONG_FLAG_COST, one[1])
    )


def _signature(mapping: SetMapping, footprints: Sequence[StreamFootprint]) -> bytes:
    """Equal where two mappings put the same units into common lines and sets."""
    digest = hashlib.blake2b(digest_size=16)
    for foot in footprints:
        for labels in (mapping.of(foot.units), foot.units // mapping.line_bytes):
            _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
            digest.update(first[inverse].tobytes())  # the first unit with the same label
    return digest.digest()
