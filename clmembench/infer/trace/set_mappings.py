"""Which set an address belongs to: mappings that are tried, and how many ways what misses leaves possible for each. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.infer.trace.streams import Stream
from clmembench.model import Array

ODD = 6.0  # what a flag costs that a hypothesis has to call an error: -log of how often flags are wrong
SHIFTS = 8  # bits between those of the offset in a line and the first that chooses the set
MOST_BITS = 14
ODD_SETS = tuple(n for n in range(3, 33) if n & (n - 1)) + tuple(m << k for k in range(3, 12) for m in (3, 5, 7, 9, 11, 13, 15))
FIRST_UNITS = 6_000  # of the smallest footprints, on which all mappings are tried
MOST_SECOND = 300  # mappings that are tried on all of them
DISPERSION = 3.0  # how much more misses of lines differ than by chance alone, where victims are drawn unevenly
NEAR = 40.0  # of cost above the least, what is still looked at
SETTLED = 0.9


@dataclass(frozen=True, slots=True)
class Mapping:
    """Lines of `line_bytes`; the set is `address // grain_bytes` modulo `sets` (plain bits where both are powers of two)."""

    line_bytes: int
    grain_bytes: int
    sets: int
    folded: tuple[int, int] = (0, 0)  # how many bits from which on, above the grain, are XORed into the set's lowest ones

    def of(self, addresses: Array) -> Array:
        """The set of each address."""
        index = addresses // self.grain_bytes
        count, first = self.folded
        if count:
            index = index ^ (index >> first) & ((1 << count) - 1)
        found: Array = index % self.sets
        return found

    @property
    def bits(self) -> str:
        """Address bits of the set index, "7-11", where the set is chosen by plain bits; else nothing."""
        if self.sets & (self.sets - 1) or self.sets == 1 or self.folded[0]:
            return ""
        low = self.grain_bytes.bit_length() - 1
        high = low + self.sets.bit_length() - 2
        return f"{low}-{high}" if high > low else str(low)

    @property
    def hash(self) -> str:
        """What is XORed into the lowest bits of the set index, "13-14 into 7-8"; nothing where nothing is."""
        count, first = self.folded
        low = self.grain_bytes.bit_length() - 1
        return f"{low + first}-{low + first + count - 1} into {low}-{low + count - 1}" if count else ""


@dataclass(frozen=True, slots=True)
class Footprint:
    """One trace seen from its end: its units, and how often each was visited and missed after its first visit.

    `lasting`: whether the units were visited all along, so that what overflows has to miss.
    """

    units: Array  # addresses
    visited: Array
    missed: Array
    lasting: bool
    sequential: bool = False  # visited from low to high addresses, again and again

    @property
    def fits(self) -> bool:
        return bool(self.missed.sum() <= 0.004 * self.visited.sum() + 1)


def footprint(stream: Stream) -> Footprint:
    """Of a stream of visits (no unit twice in a row)."""
    units, first, inverse = np.unique(stream.addresses, return_index=True, return_inverse=True)
    again = np.ones(inverse.size, dtype=bool)
    again[first] = False
    visited = np.bincount(inverse[again & (stream.missed >= 0)], minlength=units.size)
    missed = np.bincount(inverse[again & (stream.missed == 1)], minlength=units.size)
    last = inverse[inverse.size * 2 // 3 :]
    lasting = stream.lap > 0 or np.unique(last).size >= SETTLED * units.size
    sequential = stream.addresses.size > 20 and float((np.diff(stream.addresses) > 0).mean()) > 0.9
    return Footprint(units, visited, missed, lasting, sequential)


def line_cost(line_bytes: int, sector_bytes: int, footprints: Sequence[Footprint]) -> float:
    """What it costs to call so many bytes a line: when a line goes all of its sectors go, and all miss when they are next read.

    Of laps from low to high addresses, in which nothing comes between the sectors of a line; `sector_bytes`: the most that a
    miss brings in.
    """
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
        cost += ODD / 2 * float(np.minimum(np.abs(missed[together + 1] - missed[together]), 10).sum())
    return cost


def uneven_misses(mapping: Mapping, ways: int, footprints: Sequence[Footprint]) -> float:
    """What it costs that some lines of over-full sets miss and others never do, where victims are drawn: at last all do.

    The log-likelihood ratio of misses by line against equal shares, less what is expected of victims drawn unevenly.
    """
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
        beyond = (ratio[over] - DISPERSION * (held[over] - 1) / 2 - ODD) / DISPERSION
        # of many lines few misses: how often the same line is met again
        again = np.bincount(sets, missed * (missed - 1) / 2)[over]
        chance = DISPERSION * np.maximum(np.bincount(sets, expected**2 / 2)[over], 1e-9)
        often = np.where(again > chance, again * np.log(np.maximum(again, 1e-9) / chance) - again + chance, 0.0) - ODD
        cost += float(np.maximum(0.0, np.maximum(beyond, often)).sum())
    return cost


def mappings(lines: Sequence[int], span: int, paged: bool) -> Iterator[Mapping]:
    """The mappings that are tried: plain bits at any position, numbers of sets that are no power of two, one set."""
    for line in lines:
        yield Mapping(line, line, 1)
        for shift in range(1 if paged else SHIFTS):
            for bits in range(1, MOST_BITS):
                if line << shift << bits <= 2 * span:
                    yield Mapping(line, line << shift, 1 << bits)
        for sets in ODD_SETS:
            if line * sets <= 2 * span:
                yield Mapping(line, line, sets)


def hashed(lines: Sequence[int], span: int) -> Iterator[Mapping]:
    """Plain bits with further ones, in a row, XORed into the lowest: the simplest hashes, where nothing plainer explains."""
    for line in lines:
        for bits in range(1, MOST_BITS):
            for first in range(bits, bits + 4):
                for count in range(1, bits + 1):
                    if line << first < span:
                        yield Mapping(line, line, 1 << bits, (count, first))


@dataclass(frozen=True, slots=True)
class Possible:
    """Mappings that put what was accessed into the same sets, with the least and greatest ways that what misses allows."""

    mappings: tuple[Mapping, ...]
    least_ways: int
    most_ways: int
    cost: float


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Footprints side by side, one entry a unit; `owner` is the number of the footprint."""

    units: Array
    visited: Array
    missed: Array
    owner: Array
    lasting: Array  # of each footprint
    largest: int  # units of a footprint

    @classmethod
    def of(cls, footprints: Sequence[Footprint]) -> _Pooled:
        sizes = [foot.units.size for foot in footprints]
        units, visited, missed = (
            np.concatenate([getattr(foot, name) for foot in footprints]) for name in ("units", "visited", "missed")
        )
        owner = np.repeat(np.arange(len(footprints)), sizes)
        return cls(units, visited, missed, owner, np.array([foot.lasting for foot in footprints]), max(sizes))


def ways_cost(mapping: Mapping, pooled: _Pooled) -> tuple[Array, Array]:
    """What each number of ways costs, shape (ways + 1,): misses in sets that are not over-full, and over-full ones without; and
    how many visits to over-full sets hit.

    Whatever the policy, lines of a set that holds them all miss once; and of a set that does not, going round all of its lines
    misses at least once a round.
    """
    size = pooled.largest + 2
    key = mapping.of(pooled.units) + pooled.owner * mapping.sets  # a set of a footprint
    count = int(pooled.owner[-1] + 1) * mapping.sets
    if count > 4 * key.size:  # few of them are used
        used, key = np.unique(key, return_inverse=True)
        owner, count = used // mapping.sets, used.size
    else:
        owner = np.arange(count) // mapping.sets
    lines = pooled.units // mapping.line_bytes
    new = np.ones(lines.size, dtype=bool)  # units are in order of address, and a line's set is one
    new[1:] = (lines[1:] != lines[:-1]) | (pooled.owner[1:] != pooled.owner[:-1])
    held = np.bincount(key[new], minlength=count)
    units = np.bincount(key, minlength=count)
    visited = np.bincount(key, pooled.visited, count)
    missed = np.bincount(key, pooled.missed, count)
    rounds = np.minimum(visited // np.maximum(units, 1), 20) * pooled.lasting[owner]
    # ways >= held: every miss is odd; ways < held: every round without one is
    odd = np.bincount(held, np.minimum(missed, 50), size)
    absent = np.bincount(held, np.maximum(0.0, rounds - missed), size)
    loose = np.bincount(held, visited - missed, size)
    return ODD * (np.cumsum(odd) + _above(absent)), _above(loose)


def _above(at: Array) -> Array:
    """Sums of what is above each place."""
    sums: Array = at.sum() - np.cumsum(at)
    return sums


def plausible(candidates: Sequence[Mapping], footprints: Sequence[Footprint], sector_bytes: int, most: int) -> list[Possible]:
    """Mappings that what misses leaves possible: the cheapest first, and of equal ones those whose over-full sets hit least.

    `sector_bytes`: the most that a miss brings in.
    """
    lines = {line: line_cost(line, sector_bytes, footprints) for line in {m.line_bytes for m in candidates}}
    least = min(lines.values(), default=0.0)
    candidates = [m for m in candidates if lines[m.line_bytes] <= least + NEAR]
    small: list[Footprint] = []
    total = 0
    for foot in footprints:  # from the smallest on
        total += foot.units.size
        if total <= FIRST_UNITS or len(small) < 2:
            small.append(foot)
    left = _costs(candidates, small)
    if len(small) < len(footprints):
        left = _costs([one[4] for one in left[:MOST_SECOND]], footprints)
    classes: dict[bytes, list[_Cost]] = {}
    for one in left[:MOST_SECOND]:
        classes.setdefault(_signature(one[4], footprints), []).append(one)
    ranked = sorted(classes.values(), key=lambda c: (c[0][0] // ODD, c[0][1], c[0][4].sets))
    return [Possible(tuple(one[4] for one in c), c[0][2], c[0][3], c[0][0]) for c in ranked[:most]]


_Cost = tuple[float, float, int, int, Mapping]  # the least cost, visits that hit in over-full sets, least and greatest ways


def _costs(candidates: Sequence[Mapping], footprints: Sequence[Footprint]) -> list[_Cost]:
    """Those that cost little more than the cheapest, in order."""
    if not candidates:
        return []
    pooled = _Pooled.of(footprints)
    found: list[_Cost] = []
    for mapping in candidates:
        cost, loose = ways_cost(mapping, pooled)
        cost[0] = np.inf
        least = float(cost.min())
        near = np.flatnonzero(cost <= least + ODD / 2)
        found.append((least, float(loose[near].min()), int(near[0]), int(near[-1]), mapping))
    best = min((one[0] for one in found), default=0.0)
    return sorted((one for one in found if one[0] <= best + NEAR), key=lambda one: (one[0] // ODD, one[1]))


def _signature(mapping: Mapping, footprints: Sequence[Footprint]) -> bytes:
    """Equal where two mappings put the same units into common lines and sets."""
    digest = hashlib.blake2b(digest_size=16)
    for foot in footprints:
        for labels in (mapping.of(foot.units), foot.units // mapping.line_bytes):
            _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
            digest.update(first[inverse].tobytes())  # the first unit with the same label
    return digest.digest()
