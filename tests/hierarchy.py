"""How a simulated memory is built: sets, caches, TLBs, paths, and one process's caches with what is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tests import cachesim as sim

KIB, MIB = 1 << 10, 1 << 20
POLICIES = {
    "LRU": sim.LRU, "FIFO": sim.FIFO, "tree-PLRU": sim.TREE, "NRU": sim.NRU_AT_USE, "random": sim.RANDOM,
    "way-weighted": sim.WEIGHTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sets:
    """The ways of each set, and which set a unit (line, page) belongs to: that of `bits` of its address, lowest first; that of
    parities of the address under `masks`; the one `listed` at its number modulo the list's length; or its number modulo the
    sets."""

    ways: tuple[int, ...]
    bits: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()
    listed: tuple[int, ...] = ()

    @classmethod
    def of(cls, ways: Sequence[int], set_of: Callable[[int], int], period: int) -> Sets:
        """By a function of the unit's number that repeats every `period` units."""
        return cls(tuple(ways), listed=tuple(set_of(unit) for unit in range(period)))


def plain(sets: int, ways: int, unit_bytes: int) -> Sets:
    """Equal sets by the bits directly above the offset in a unit, or by its number modulo the sets where they are not 2^n."""
    low = _log2(unit_bytes)
    if sets & (sets - 1):
        return Sets((ways,) * sets)
    return Sets((ways,) * sets, bits=tuple(range(low, low + _log2(sets))))


@dataclass(frozen=True, slots=True)
class Cache:
    """A level of cache. `hit_cycles`: latency of a hit. `sector_bytes`: what is fetched, 0 the line. `frame_bytes`: size of the
    pages whose frames index it, 0 where virtual addresses do. `victims`: probabilities of ways. `nru_at_miss`: see cachesim."""

    sets: Sets
    line_bytes: int
    hit_cycles: float
    policy: str = "LRU"
    sector_bytes: int = 0
    frame_bytes: int = 0
    victims: tuple[float, ...] = ()
    nru_at_miss: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(self.sets.ways) * self.line_bytes


@dataclass(frozen=True, slots=True)
class Tlb:
    """A level of TLB. `penalty_cycles`: what a miss in it adds, to what the levels before it added; one number, or one for each
    level that may serve the data, memory last. `name`: of what is built as one but is not numbered among the TLBs."""

    sets: Sets
    page_bytes: int
    penalty_cycles: float | tuple[float, ...]
    policy: str = "LRU"
    victims: tuple[float, ...] = ()
    nru_at_miss: bool = False
    name: str = ""

    @property
    def entries(self) -> int:
        return sum(self.sets.ways)


@dataclass(frozen=True, slots=True)
class PairPrefetch:
    """A prefetcher that needs no stream: a miss of cache number `level` (from 0) brings further lines into it and those behind
    it, at the `share` of misses. `ahead`: so many that follow in the page; 0: the other one of a pair, as Intel's L2."""

    level: int
    share: float = 1.0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Path:
    """A memory space's levels from the nearest on; `first_level` is the first one's number. `l1_virtual`: TLBs are asked only
    where the first cache misses. `prefetch_bytes`: how far ahead of accesses in sequence cache number `prefetch_level` (from 0)
    is filled. `pairs`: what a miss brings besides. `launch_empties`: what is empty when a launch begins, caches first, then
    TLBs; None: all."""

    caches: tuple[Cache, ...]
    memory_cycles: float
    tlbs: tuple[Tlb, ...] = ()
    l1_virtual: bool = False
    prefetch_bytes: int = 0
    prefetch_level: int = 1
    pairs: PairPrefetch | None = None
    launch_empties: tuple[int, ...] | None = None
    first_level: int = 1
    memory: str = "DRAM"


class Tables(NamedTuple):
    """The levels of a path as flat arrays, in the order in which `cachesim.chase` takes them."""

    geometry: np.ndarray  # int64 (levels, COLUMNS)
    tables: np.ndarray  # listed sets and hashes
    chances: np.ndarray  # cumulated probabilities of victims
    starts: np.ndarray  # where each set's block begins
    sets: np.ndarray  # the blocks, int64
    memory: np.ndarray


@dataclass(slots=True)
class Simulation:
    """One process's caches of a path: empty at first, with page frames that `seed` chooses."""

    path: Path
    seed: int
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        empty = laid_out(self.path)
        chance = (self.seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) & ((1 << 63) - 1) | 1
        memory = np.array([0, chance, -1, -1, 0], np.int64)
        self.tables = empty._replace(sets=empty.sets.copy(), memory=memory)

    def empty(self, levels: Sequence[int] | None = None) -> None:
        """Nothing is cached any more; `levels`: in these (caches first, then TLBs)."""
        geometry, _, _, starts, sets, memory = self.tables
        fresh = laid_out(self.path).sets
        ends = [*geometry[1:, sim.SETS], len(starts) - 1]
        for level in range(len(geometry)) if levels is None else levels:
            block = slice(starts[geometry[level, sim.SETS]], starts[ends[level]])
            sets[block] = fresh[block]
        memory[sim.STREAM] = memory[sim.HEAD] = -1
        memory[sim.STREAK] = 0

    def run(
        self, lap: np.ndarray, accesses: int, base: int = 0, *, start: int = 0, record: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Accesses of a chase from number `start` on: how many of each code, and the codes of the last `record` of them."""
        path, caches = self.path, len(self.path.caches)
        counts = np.zeros((caches + 1) * (len(path.tlbs) + 1), np.int64)
        codes = np.zeros(record, np.int64)
        form = (caches, int(path.l1_virtual), min(path.prefetch_level, caches - 1), path.prefetch_bytes if caches else 0)
        form = (*form, *_pair_form(path))
        end = base + int(lap.max()) + 8
        sim.chase(lap, start, accesses, base, end, self.seed & ((1 << 43) - 1), form, *self.tables, counts, codes)
        return counts, codes


def _pair_form(path: Path) -> tuple[int, int, int, int]:
    """The level whose misses bring further lines, of so many bytes (0: none), how many, and at how many misses of 2^20."""
    pairs = path.pairs
    if pairs is None or pairs.level >= len(path.caches):
        return 0, 0, 0, 0
    return pairs.level, path.caches[pairs.level].line_bytes, pairs.ahead, int(pairs.share * (1 << 20))


@lru_cache(maxsize=16)
def laid_out(path: Path) -> Tables:
    """The levels of a path, empty."""
    levels: list[Cache | Tlb] = [*path.caches, *path.tlbs]
    geometry = np.zeros((len(levels), sim.COLUMNS), np.int64)
    tables, chances, ways = [0], [0.0], []
    for row, level in zip(geometry, levels, strict=True):
        unit = level.line_bytes if isinstance(level, Cache) else level.page_bytes
        sector = level.sector_bytes or unit if isinstance(level, Cache) else unit
        row[sim.SHIFT], row[sim.SECTOR_SHIFT], row[sim.SECTOR_MASK] = _log2(unit), _log2(sector), unit // sector - 1
        row[sim.SETS], row[sim.TABLE], row[sim.CHANCES] = len(ways), len(tables), len(chances)
        row[sim.KIND], row[sim.LOW], row[sim.MASK], more = _mapping(level.sets)
        row[sim.POLICY] = sim.NRU_AT_MISS if level.policy == "NRU" and level.nru_at_miss else POLICIES[level.policy]
        row[sim.TREE_WAYS] = 1 << (max(level.sets.ways) - 1).bit_length()
        row[sim.PHYSICAL] = _log2(level.frame_bytes) if isinstance(level, Cache) and level.frame_bytes else 0
        if level.policy == "tree-PLRU" and max(level.sets.ways) > 16:
            raise ValueError("a tree of more than 16 ways is not simulated")
        if level.policy == "way-weighted":
            if {len(level.victims)} != set(level.sets.ways):
                raise ValueError("every way has a probability of being the victim")
            chances += list(np.cumsum(level.victims) / sum(level.victims))
        tables += more
        ways += level.sets.ways
    blocks = np.array([*ways, 0], np.int64) * 3 + sim.UNITS  # one more, for the end
    starts = np.cumsum(blocks) - blocks
    sets = np.zeros(blocks.sum(), np.int64)
    sets[starts + sim.WAYS] = [*ways, 0]
    return Tables(geometry, np.array(tables, np.int64), np.array(chances), starts, sets, np.zeros(4, np.int64))


def _log2(size: int) -> int:
    if size <= 0 or size & (size - 1):
        raise ValueError(f"{size} is no power of two")
    return size.bit_length() - 1


def _mapping(sets: Sets) -> tuple[int, int, int, list[int]]:
    """Kind, lowest bit, mask or modulus, and table of what chooses the set."""
    masks = sets.masks or tuple(1 << bit for bit in sets.bits)
    if masks and len(sets.ways) != 1 << len(masks):
        raise ValueError(f"{len(masks)} bits do not choose one of {len(sets.ways)} sets")
    if sets.bits and sets.bits == tuple(range(sets.bits[0], sets.bits[-1] + 1)):
        return sim.PLAIN, sets.bits[0], len(sets.ways) - 1, []
    if masks:
        shifted = [value << (8 * byte) for byte in range(5) for value in range(256)]
        return sim.HASHED, 0, 0, [sum(((a & mask).bit_count() & 1) << i for i, mask in enumerate(masks)) for a in shifted]
    if sets.listed:
        if not 0 <= min(sets.listed) <= max(sets.listed) < len(sets.ways):
            raise ValueError("a set is listed that is not there")
        return sim.LISTED, 0, len(sets.listed), list(sets.listed)
    return sim.MODULO, 0, len(sets.ways), []


def set_bits(level: Cache | Tlb) -> list[int] | None:
    """The address bits that are the set's number; none for one set, None where it is not plain bits."""
    return list(level.sets.bits) if level.sets.bits or len(level.sets.ways) == 1 else None


def latencies_of(path: Path) -> np.ndarray:
    """Cycles of an access by its code."""
    served = np.array([*(cache.hit_cycles for cache in path.caches), path.memory_cycles], dtype=float)
    rows = [served]
    for tlb in path.tlbs:
        rows.append(rows[-1] + np.broadcast_to(np.asarray(tlb.penalty_cycles, dtype=float), served.shape))
    return np.concatenate(rows)
