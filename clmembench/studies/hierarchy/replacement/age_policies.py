"""Age-based policies of one cache set: quad-age LRU and its variants, among them static re-reference interval prediction.

Every way has an age from 0 to 3; a line of age 3 goes. The variants are named as in nanoBench (Abel & Reineke 2020, section
VI.B): QLRU_Hxy_Mm_Rr_Uu[_UMO]. A hit turns age 3 into x, 2 into y, and 1 or 0 into 0; a line that comes has age m. R0, R1:
empty ways are filled from the first on, R2: from the last on; the first line of age 3 goes, and under R1 the first line where
none has that age. U0: all ages are raised alike until one is 3; U1: those of the other lines; U2, U3: all, or those of the
others, by one where none is 3. Ages are raised after each access, UMO: only before a line is replaced. SRRIP (Jaleel et al.
2010) is QLRU_H00_M2_R0_U0_UMO."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import product

OLDEST = 3  # the age of a line that goes
HIT_AGES = ("21", "20", "11", "10", "00")
VICTIMS_AND_UPDATES = ("R0_U0", "R0_U1", "R1_U2", "R1_U3", "R2_U0", "R2_U1")  # R1 is R0 where some age is always 3


@dataclass(frozen=True, slots=True)
class AgeRules:
    """One variant: ages after a hit by the age before, the age of a new line, whether empty ways are filled from the last on,
    how ages are raised (the `update` of the name), and whether only before a line is replaced."""

    hit_ages: tuple[int, int, int, int]
    new_age: int
    fills_last: bool
    update: int
    on_miss_only: bool

    @classmethod
    def of(cls, name: str) -> AgeRules:
        """By the variant's name."""
        _, hit, new, victim, update, *rest = name.split("_")
        return cls((0, 0, int(hit[2]), int(hit[1])), int(new[1]), victim == "R2", int(update[1]), bool(rest))


# those that some cache is known to have; sources: nanoBench's results, and Jaleel et al. 2010 for the last
ESTABLISHED_AGE_POLICIES = (
    "QLRU_H11_M1_R0_U0",  # last caches from Haswell on
    "QLRU_H11_M1_R1_U2",  # last caches of Ivy Bridge
    "QLRU_H00_M1_R2_U1",  # second caches from Skylake to Coffee Lake
    "QLRU_H00_M1_R0_U1",  # second caches from Cannon Lake on
    "QLRU_H21_M2_R0_U0_UMO",  # last caches of Skylake, as others read them
    "QLRU_H00_M2_R0_U0_UMO",  # SRRIP with priority to hits
)
AGE_POLICIES = tuple(
    f"QLRU_H{hit}_M{new}_{rule}{only}"
    for hit, new, rule, only in product(HIT_AGES, range(4), VICTIMS_AND_UPDATES, ("", "_UMO"))
)


_RAISED = tuple(bytes(min(age + more, OLDEST) for age in range(256)) for more in range(OLDEST + 1))  # each age, by how much


class AgedSet:
    """A set of `ways` ways, empty at first, under a variant."""

    def __init__(self, ways: int, rules: AgeRules) -> None:
        self.rules = rules
        self.lines: list[int | None] = [None] * ways
        self.ages = bytearray([OLDEST] * ways)
        self.where: dict[int, int] = {}
        self.free = list(range(ways)) if rules.fills_last else list(range(ways - 1, -1, -1))  # the last is filled next

    def access(self, line: int) -> bool:
        way = self.where.get(line)
        hit = way is not None
        if way is not None:
            self.ages[way] = self.rules.hit_ages[self.ages[way]]
        else:
            if self.rules.on_miss_only:
                self._raise_ages(None)
            way = self._replaced()
            old = self.lines[way]
            if old is not None:
                del self.where[old]
            self.lines[way], self.where[line], self.ages[way] = line, way, self.rules.new_age
        if not self.rules.on_miss_only:
            self._raise_ages(way)
        return hit

    def _replaced(self) -> int:
        if self.free:
            return self.free.pop()
        return self.ages.index(OLDEST) if OLDEST in self.ages else 0

    def _raise_ages(self, way: int | None) -> None:
        """Raise ages after an access to a way; None: before a line is replaced, when every way is another one."""
        update, ages = self.rules.update, self.ages
        kept = way if update in (1, 3) else None
        own = OLDEST if kept is None else ages[kept]
        if update > 1:
            more = 0 if OLDEST in ages else 1
        else:
            if kept is not None:
                ages[kept] = 0  # whose age does not count
            more = OLDEST - max(ages)
        if more:
            ages = self.ages = ages.translate(_RAISED[more])
        if kept is not None:
            ages[kept] = own

    def state(self) -> Hashable:
        return (*self.lines, *self.ages)
