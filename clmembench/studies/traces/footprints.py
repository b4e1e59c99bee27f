"""Units that each trace visited and missed, and the cost of these misses under a line size or a mapping. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array
from clmembench.studies.traces.set_mappings import SetMapping
from clmembench.studies.traces.streams import AccessStream

# Thresholds and limits, each with its reason
WRONG_FLAG_COST = 6.0  # cost of a flag that contradicts a hypothesis: -log of the share of wrong flags
MISS_COUNT_DISPERSION = 3.0  # times the variance by chance: variation of misses between lines if victims are unequally likely
MAX_FAR_FITTING_SHARE = 0.5  # of the largest array that fits: in smaller ones only outliers miss again
MAX_EXCUSED_SIGMAS = 3.0  # standard deviations of the number of outliers that look like misses
MIN_LASTING_UNIT_SHARE = 0.9  # share of the units visited in the last third too: then a set that overflows has to miss


@dataclass(frozen=True, slots=True)
class StreamFootprint:
    """Summary of one trace: its units, and how often each was visited and missed after its first visit.

    `lasting`: whether the units were visited throughout, so that overflowing ones have to miss."""

    units: Array  # addresses
    visited: Array
    missed: Array
    lasting: bool
    sequential: bool = False  # visited repeatedly from low to high addresses

    @property
    def fits(self) -> bool:
        return bool(self.missed.sum() <= 0.004 * self.visited.sum() + 1)


def stream_footprint(stream: AccessStream) -> StreamFootprint:
    """The footprint of a stream of visits (no unit twice in a row)."""
    units, first, inverse = np.unique(stream.addresses, return_index=True, return_inverse=True)
    again = np.ones(inverse.size, dtype=bool)
    again[first] = False
    visited = np.bincount(inverse[again & (stream.missed >= 0)], minlength=units.size)
    missed = np.bincount(inverse[again & (stream.missed == 1)], minlength=units.size)
    last = inverse[inverse.size * 2 // 3 :]
    lasting = stream.lap > 0 or np.unique(last).size >= MIN_LASTING_UNIT_SHARE * units.size
    sequential = stream.addresses.size > 20 and float((np.diff(stream.addresses) > 0).mean()) > 0.9
    return StreamFootprint(units, visited, missed, lasting, sequential)


def excused_misses(footprints: Sequence[StreamFootprint]) -> float:
    """Apparent misses that slow accesses alone can cause: their share in arrays that clearly fit, times all visits, plus three
    standard deviations of such a count."""
    fitting = [foot.units.size for foot in footprints if foot.fits]
    by_far = [foot for foot in footprints if foot.fits and foot.units.size <= MAX_FAR_FITTING_SHARE * max(fitting)]
    visited = sum(float(foot.visited.sum()) for foot in by_far)
    feigned = sum(float(foot.missed.sum()) for foot in by_far)
    expected = feigned / max(visited, 1.0) * sum(float(foot.visited.sum()) for foot in footprints)
    return float(expected + MAX_EXCUSED_SIGMAS * np.sqrt(expected))


def line_cost(line_bytes: int, sector_bytes: int, footprints: Sequence[StreamFootprint]) -> float:
    """Cost of the hypothesis that a line has this many bytes: when a line is evicted, all its sectors miss at their next read.

    Uses laps from low to high addresses, in which a line's sectors are read consecutively; `sector_bytes`: the most that a miss
    fills."""
    cost = 0.0
    if line_bytes <= sector_bytes:
        return cost
    for foot in footprints:
        if not foot.sequential:
            continue
        starts = np.flatnonzero(np.r_[True, np.diff(foot.units // sector_bytes) != 0])
        missed, visited = np.add.reduceat(foot.missed, starts), np.maximum.reduceat(foot.visited, starts)
        line = foot.units[starts] // line_bytes
        together = np.flatnonzero((line[1:] == line[:-1]) & (visited[1:] == visited[:-1]) & (visited[1:] > 0))
        cost += WRONG_FLAG_COST / 2 * float(np.minimum(np.abs(missed[together + 1] - missed[together]), 10).sum())
    return cost


def uneven_miss_cost(mapping: SetMapping, ways: int, footprints: Sequence[StreamFootprint]) -> float:
    """Cost, under random victims, of lines in over-full sets that never miss while others do: in the long run all lines miss.

    The log-likelihood ratio of misses by line against equal shares, less that expected of non-uniform random victims."""
    cost = 0.0
    for foot in footprints:
        if not foot.lasting:
            continue
        lines, inverse = np.unique(foot.units // mapping.line_bytes, return_inverse=True)
        missed, visited = np.bincount(inverse, foot.missed), np.bincount(inverse, foot.visited)
        _, sets = np.unique(mapping.of(lines * mapping.line_bytes), return_inverse=True)
        held = np.bincount(sets)
        over = (held > ways) & (np.bincount(sets, missed) > 0)
        if not over.any():
            continue
        rate = np.bincount(sets, missed) / np.maximum(np.bincount(sets, visited), 1)
        expected = visited * rate[sets]
        ratio = np.bincount(sets, missed * np.log(np.maximum(missed, 0.5) / np.maximum(expected, 1e-9)) * (missed > 0))
        beyond = (ratio[over] - MISS_COUNT_DISPERSION * (held[over] - 1) / 2 - WRONG_FLAG_COST) / MISS_COUNT_DISPERSION
        # few misses of many lines: how often the same line misses again
        again = np.bincount(sets, missed * (missed - 1) / 2)[over]
        chance = MISS_COUNT_DISPERSION * np.maximum(np.bincount(sets, expected**2 / 2)[over], 1e-9)
        often = (
            np.where(again > chance, again * np.log(np.maximum(again, 1e-9) / chance) - again + chance, 0.0) - WRONG_FLAG_COST
        )
        cost += float(np.maximum(0.0, np.maximum(beyond, often)).sum())
    return cost
