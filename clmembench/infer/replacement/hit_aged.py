"""LRU that counts hits alone and lets lines in old: what the first cache of NVIDIA's Hopper does, after its traces.

Each hit makes every other line one older, and the line that was hit the youngest; misses age nothing. A line that comes in is
as old as `new_age` hits ago, so that it stands behind the lines of the last `new_age` hits; of the oldest, that which was used
longest ago goes. LRU_M2 has a `new_age` of 2, as M2 in the names of nanoBench (Abel & Reineke 2020, section VI.B); with 0 it is
LRU. A line that was hit outlives lines that were not, for as many hits."""

from __future__ import annotations

from collections.abc import Hashable

NEW_AGES = {"LRU_M1": 1, "LRU_M2": 2, "LRU_M3": 3, "LRU_M4": 4}


class HitAgedSet:
    """A set of `ways` ways, empty at first."""

    def __init__(self, ways: int, new_age: int) -> None:
        self.ways, self.new_age = ways, new_age
        self.hits = 0
        self.used: dict[int, int] = {}  # the hits up to a line's last use, less the age it came with; the last used one last

    def access(self, line: int) -> bool:
        hit = line in self.used
        if hit:
            self.hits += 1
            del self.used[line]
        elif len(self.used) == self.ways:
            del self.used[min(self.used, key=self.used.__getitem__)]  # the first of the oldest
        self.used[line] = self.hits - (0 if hit else self.new_age)
        return hit

    def state(self) -> Hashable:
        return tuple((line, self.hits - then) for line, then in self.used.items())
