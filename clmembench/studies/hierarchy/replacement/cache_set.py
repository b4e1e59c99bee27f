"""Replacement policies of one cache set: what each keeps, line by line, from an empty set on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

STOCHASTIC_POLICIES = ("random", "way-weighted")


class CacheSet(Protocol):
    """A set of some ways. An access says whether it hit, and keeps the line; all that follows depends on the state."""

    def access(self, line: int) -> bool: ...

    def state(self) -> Hashable: ...


SetMaker = Callable[[int], CacheSet]  # from a number of ways


class LruSet:
    """The line that was used longest ago goes."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self.lines: dict[int, None] = {}  # from the least to the most recently used

    def access(self, line: int) -> bool:
        hit = line in self.lines
        if hit:
            del self.lines[line]
        elif len(self.lines) == self.ways:
            del self.lines[next(iter(self.lines))]
        self.lines[line] = None
        return hit

    def state(self) -> Hashable:
        return tuple(self.lines)


class FifoSet:
    """The line that came first goes."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self.lines: dict[int, None] = {}

    def access(self, line: int) -> bool:
        if line in self.lines:
            return True
        if len(self.lines) == self.ways:
            del self.lines[next(iter(self.lines))]
        self.lines[line] = None
        return False

    def state(self) -> Hashable:
        return tuple(self.lines)


class VictimRule(Protocol):
    """Which way of a full set gives up its line, by which ways were used."""

    def victim(self) -> int: ...

    def touched(self, way: int) -> None: ...

    def marks(self) -> Sequence[int]:
        """What it knows of its ways besides their lines."""
        ...


class RankedWays:
    """Lines with a way each; a free way is taken before any line goes, and a rule chooses among full ways."""

    def __init__(self, ways: int, rule: VictimRule) -> None:
        self.ways = ways
        self.rule = rule
        self.where: dict[int, int] = {}
        self.lines: list[int | None] = [None] * ways

    def access(self, line: int) -> bool:
        way = self.where.get(line)
        hit = way is not None
        if way is None:
            way = len(self.where) if len(self.where) < self.ways else self.rule.victim()
            old = self.lines[way]
            if old is not None:
                del self.where[old]
            self.lines[way] = line
            self.where[line] = way
        self.rule.touched(way)
        return hit

    def state(self) -> Hashable:
        return (*self.lines, *self.rule.marks())


class TreeOfWays:
    """A binary tree over the ways; every node points to the half that was not used last, and the victim is where they lead.

    `split` gives the size of the lower half of n ways, which matters where they are no power of two.
    """

    def __init__(self, ways: int, split: Callable[[int], int]) -> None:
        self.ways = ways
        self.bits = 0  # of each node one: it points to the upper half
        self.others = [-1] * ways  # bits of the nodes that a way is not below
        self.points = [0] * ways  # how the others are when it was used last
        self.halves: dict[tuple[int, int], tuple[int, int]] = {}
        todo = [(0, ways)]
        while todo:
            low, high = todo.pop()
            if high - low < 2:
                continue
            bit, middle = 1 << len(self.halves), low + split(high - low)
            self.halves[low, high] = bit, middle
            for way in range(low, high):
                self.others[way] &= ~bit
                self.points[way] |= bit if way < middle else 0
            todo += [(low, middle), (middle, high)]

    def marks(self) -> Sequence[int]:
        return (self.bits,)

    def touched(self, way: int) -> None:
        self.bits = self.bits & self.others[way] | self.points[way]

    def victim(self) -> int:
        low, high = 0, self.ways
        while high - low > 1:
            bit, middle = self.halves[low, high]
            low, high = (middle, high) if self.bits & bit else (low, middle)
        return low


class UsedBits:
    """A bit a way says that it was used; a line without goes. When all are set, all but the last used are cleared.

    `late`: cleared only when a victim is looked for and none is without. `turning`: looked for from behind the last victim on.
    """

    def __init__(self, ways: int, late: bool, turning: bool) -> None:
        self.ways = ways
        self.used, self.all = 0, (1 << ways) - 1
        self.late, self.turning = late, turning
        self.start = 0

    def marks(self) -> Sequence[int]:
        return (self.used, self.start)

    def touched(self, way: int) -> None:
        self.used |= 1 << way
        if self.used == self.all and not self.late:
            self.used = 1 << way

    def victim(self) -> int:
        if self.used == self.all:
            self.used = 0
        free = self.all & ~self.used
        behind = free >> self.start << self.start
        lowest = (behind or free) & -(behind or free)
        way = lowest.bit_length() - 1
        if self.turning:
            self.start = (way + 1) % self.ways
        return way


def tree_plru(ways: int, split: Callable[[int], int] = lambda n: (n + 1) // 2) -> CacheSet:
    """An empty set under tree-PLRU."""
    return RankedWays(ways, TreeOfWays(ways, split))


def nru(ways: int, late: bool = False, turning: bool = False) -> CacheSet:
    """An empty set under NRU."""
    return RankedWays(ways, UsedBits(ways, late, turning))


def _half_of_next_power_of_two(n: int) -> int:
    """The lower half of the next power of two, as where a tree is built for that and some leaves are missing."""
    half = 1
    while half * 2 < n:
        half *= 2
    return half


DETERMINISTIC_POLICIES: Mapping[str, tuple[SetMaker, ...]] = {  # of some there are several in use that differ
    "LRU": (LruSet,),
    "FIFO": (FifoSet,),
    "tree-PLRU": (
        tree_plru,
        lambda ways: tree_plru(ways, _half_of_next_power_of_two),
        lambda ways: tree_plru(ways, lambda n: n // 2),
    ),
    "NRU": (
        nru,
        lambda ways: nru(ways, late=True),
        lambda ways: nru(ways, turning=True),
        lambda ways: nru(ways, late=True, turning=True),
    ),
}


MAX_WAYS_OF_POLICY = {"tree-PLRU": 128, "NRU": 128}  # each miss would look at all


def policy_forms(name: str, ways: int) -> tuple[SetMaker, ...]:
    """The forms of a deterministic policy that differ for that number of ways; none where it was never built with that many."""
    forms = DETERMINISTIC_POLICIES[name] if ways <= MAX_WAYS_OF_POLICY.get(name, ways) else ()
    return forms[:1] if name == "tree-PLRU" and ways & (ways - 1) == 0 else forms


def hits_of_accesses(maker: SetMaker, ways: int, lines: Sequence[int]) -> list[bool]:
    """Which accesses of one set hit, from an empty set on."""
    one = maker(ways)
    return [one.access(line) for line in lines]
