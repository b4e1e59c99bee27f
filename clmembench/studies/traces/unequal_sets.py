"""Sets of unequal ways, from the misses when a cache overflows by one unit after another. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.studies.traces.footprints import StreamFootprint
from clmembench.studies.traces.streams import AccessStream


@dataclass(frozen=True, slots=True)
class UnequalSets:
    """Ways of each set, in the order in which they overflow, and the traces with the evidence."""

    ways: tuple[int, ...]
    evidence: tuple[str, ...]

    @property
    def text(self) -> str:
        """As 17+6x8."""
        counts = sorted(Counter(self.ways).items(), key=lambda c: -c[0])
        if len(counts) == 1:
            return str(counts[0][0])
        return "+".join(str(ways) if n == 1 else f"{n}x{ways}" for ways, n in counts)


def find_unequal_sets(
    visits: Sequence[AccessStream], footprints: Sequence[StreamFootprint], unit_bytes: int
) -> UnequalSets | None:
    """The sets, where laps of one more unit each make one set after the other overflow, until all have.

    Every unit of an over-full set misses each time (as under LRU), so that a set with one unit too many shows ways + 1 of them.
    None unless the ways of all observed sets add up to the units that fit: otherwise sets are missing (Mei & Chu 2015, section
    4.4, read 17 and 8 as ways where by this they are ways + 1)."""
    laps: dict[int, tuple[frozenset[int], str]] = {}
    fitting = 0
    for stream, foot in zip(visits, footprints, strict=True):
        units = np.unique(foot.units // unit_bytes)
        if stream.addresses.size == 0 or units[0] != 0 or units[-1] != units.size - 1 or foot.visited.sum() < units.size:
            continue
        missing = foot.missed > 0.5 * np.maximum(foot.visited, 1)
        if foot.fits:
            fitting = max(fitting, units.size)
        elif (foot.missed[missing] >= 0.9 * foot.visited[missing]).all() and foot.missed[~missing].sum() <= 2:
            laps[units.size] = (frozenset((foot.units[missing] // unit_bytes).tolist()), stream.id)
    ways: list[int] = []
    evidence: list[str] = []
    seen: frozenset[int] = frozenset()
    count = fitting
    while count + 1 in laps and sum(ways) < fitting:
        count += 1
        now, name = laps[count]
        if not seen <= now or len(now - seen) < 2:
            return None
        ways.append(len(now - seen) - 1)
        evidence.append(name)
        seen = now
    return UnequalSets(tuple(ways), tuple(evidence[:5])) if fitting and sum(ways) == fitting else None
