"""LRU whose ages advance on hits alone, with an insertion age: the policy that traces of NVIDIA Hopper's L1 show.

A hit promotes its line to age 0 and makes every other line one older; a miss ages no line. A miss inserts its line at age
`insertion_age`; the victim is the oldest line, among equals the least recently used one. LRU_M2 inserts at age 2, as M2 does in
the names of nanoBench (Abel & Reineke 2020, section VI.B); an insertion age of 0 gives LRU."""

from __future__ import annotations

from collections.abc import Hashable

INSERTION_AGES = {"LRU_M1": 1, "LRU_M2": 2, "LRU_M3": 3, "LRU_M4": 4}


class HitAgedLruSet:
    """A set of `ways` ways, empty at first."""

    def __init__(self, ways: int, insertion_age: int) -> None:
        self.ways, self.insertion_age = ways, insertion_age
        self.hits = 0
        self.used: dict[int, int] = {}  # line to hit count at age 0; the most recently used line is last

    def access(self, line: int) -> bool:
        hit = line in self.used
        if hit:
            self.hits += 1
            del self.used[line]
        elif len(self.used) == self.ways:
            del self.used[min(self.used, key=self.used.__getitem__)]  # the first of the oldest
        self.used[line] = self.hits - (0 if hit else self.insertion_age)
        return hit

    def state(self) -> Hashable:
        return tuple((line, self.hits - then) for line, then in self.used.items())
