"""Simulated memories of which everything is known: caches, TLBs, noise; a Machine answers probes as a device would.

What is not simulated: writes, more than one work-item, exclusive or back-invalidating levels, pollution by anything else. A cache
line that is fetched is kept at every level that missed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from clmembench.model import Answer, Probe
from clmembench.patterns import offsets
from tests import cachesim as sim

MIB = 1 << 20
POLICIES = {
    "LRU": sim.LRU, "FIFO": sim.FIFO, "tree-PLRU": sim.TREE, "NRU": sim.NRU_AT_USE, "random": sim.RANDOM,
    "way-weighted": sim.WEIGHTED,
}  # fmt: skip
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 10: 2.262}  # Student's t for a 95% interval of the mean of n


@dataclass(frozen=True, slots=True)
class Sets:
    """How many ways each set has and which set an address belongs to: of `bits` of the address (lowest first), of parities of
    the address under `masks`, else of the unit's number modulo the length of `listed`, or modulo the number of sets."""

    ways: tuple[int, ...]
    bits: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()
    listed: tuple[int, ...] = ()

    @classmethod
    def of(cls, ways: Sequence[int], set_of: Callable[[int], int], period: int) -> Sets:
        """By a function of the unit's number that repeats every `period` units."""
        return cls(tuple(ways), listed=tuple(set_of(unit) for unit in range(period)))


def plain(sets: int, ways: int, unit_bytes: int) -> Sets:
    """Equal sets, chosen by the bits above the offset in a unit."""
    low = unit_bytes.bit_length() - 1
    if sets & (sets - 1):
        return Sets((ways,) * sets)
    return Sets((ways,) * sets, bits=tuple(range(low, low + sets.bit_length() - 1)))


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache level. `hit_cycles`: latency of a hit in it. `frame_bytes`: size of the pages whose frames index it; 0: virtual addresses do.
    `victims`: the ways' probabilities. `nru_at_miss`: marks are cleared when a victim is wanted, not at once."""

    sets: Sets
    line_bytes: int
    hit_cycles: float
    policy: str = "LRU"
    sector_bytes: int = 0  # 0: the line
    frame_bytes: int = 0
    victims: tuple[float, ...] = ()
    nru_at_miss: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(self.sets.ways) * self.line_bytes


@dataclass(frozen=True, slots=True)
class Tlb:
    """A TLB level. `penalty_cycles`: what a miss in it adds, one number, or one for each level that serves the data, memory last."""

    sets: Sets
    page_bytes: int
    penalty_cycles: float | tuple[float, ...]
    policy: str = "LRU"
    victims: tuple[float, ...] = ()
    nru_at_miss: bool = False

    @property
    def entries(self) -> int:
        return sum(self.sets.ways)


@dataclass(frozen=True, slots=True)
class Path:
    """A memory space: its levels from the nearest on. `l1_virtual`: TLBs are asked only where the first cache misses. `prefetch_bytes`:
    how far ahead of accesses in sequence data is brought into level `prefetch_level`."""

    caches: tuple[Cache, ...]
    memory_cycles: float
    tlbs: tuple[Tlb, ...] = ()
    l1_virtual: bool = False
    prefetch_bytes: int = 0
    prefetch_level: int = 1


@dataclass(frozen=True, slots=True)
class Noise:
    """What measuring adds. Traces: `jitter_cycles` (standard deviation) and `bias_cycles` on each access, a clock that steps by
    `quantum_cycles`, `outliers` of all accesses by 100 to `outlier_cycles` more. Laps: means spread by `lap_relative`
    (standard deviation of a process), `disturbed` of all processes slower by 5 to 50%."""

    jitter_cycles: float = 0.0
    bias_cycles: float = 0.0
    quantum_cycles: float = 0.0
    outliers: float = 0.0
    outlier_cycles: float = 900.0
    lap_relative: float = 0.0
    disturbed: float = 0.0


@dataclass(slots=True)
class Simulation:
    """One process's caches of a path: empty at first, with page frames of its own."""

    path: Path
    seed: int
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        self.tables = laid_out(self.path, self.seed)

    def empty(self, levels: Sequence[int] | None = None) -> None:
        """Nothing is cached any more; `levels`: in these (caches first, then TLBs)."""
        t = self.tables
        for level in range(len(t.geometry)) if levels is None else levels:
            first = t.geometry[level, sim.SETS]
            for start, ways in zip(t.starts[first:], _levels(self.path)[level].sets.ways, strict=False):
                t.sets[start + sim.USED : start + sim.UNITS + 3 * ways] = 0
        t.memory[sim.STREAM] = t.memory[sim.HEAD] = -1

    def run(
        self, lap: np.ndarray, accesses: int, base: int = 0, start: int = 0, record: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Accesses of a chase from number `start` on: how many of each code, and the codes of the last `record` of them."""
        path, caches = self.path, len(self.path.caches)
        counts = np.zeros((caches + 1) * (len(path.tlbs) + 1), np.int64)
        codes = np.zeros(record, np.int64)
        form = (caches, int(path.l1_virtual), min(path.prefetch_level, caches - 1), path.prefetch_bytes if caches else 0)
        sim.chase(lap, start, accesses, base, self.seed & ((1 << 43) - 1), form, *self.tables, counts, codes)
        return counts, codes


class Tables(NamedTuple):
    """The levels of a path as flat arrays, in the order in which `cachesim.chase` takes them."""

    geometry: np.ndarray  # int64 (levels, COLUMNS)
    tables: np.ndarray  # listed sets and hashes
    chances: np.ndarray  # cumulated probabilities of victims
    starts: np.ndarray  # where each set's block begins
    sets: np.ndarray  # the blocks, int32
    memory: np.ndarray


def _levels(path: Path) -> list[Cache | Tlb]:
    return [*path.caches, *path.tlbs]


def laid_out(path: Path, seed: int) -> Tables:
    """The levels of a path, empty."""
    levels = _levels(path)
    geometry = np.zeros((len(levels), sim.COLUMNS), np.int64)
    tables, chances, ways = [0], [0.0], [0]
    for row, level in zip(geometry, levels, strict=True):
        unit = level.line_bytes if isinstance(level, Cache) else level.page_bytes
        sector = level.sector_bytes or unit if isinstance(level, Cache) else unit
        row[sim.SHIFT], row[sim.SECTOR_SHIFT], row[sim.SECTOR_MASK] = _log2(unit), _log2(sector), unit // sector - 1
        row[sim.SETS], row[sim.TABLE], row[sim.CHANCES] = len(ways) - 1, len(tables), len(chances)
        row[sim.KIND], row[sim.LOW], row[sim.MASK], more = _mapping(level.sets)
        row[sim.POLICY] = sim.NRU_AT_MISS if level.policy == "NRU" and level.nru_at_miss else POLICIES[level.policy]
        row[sim.TREE_WAYS] = 1 << (max(level.sets.ways) - 1).bit_length()
        row[sim.PHYSICAL] = _log2(level.frame_bytes) if isinstance(level, Cache) and level.frame_bytes else 0
        if level.policy == "tree-PLRU" and max(level.sets.ways) > 16:
            raise ValueError("a tree of more than 16 ways is not simulated")
        if level.policy == "way-weighted":
            chances += list(np.cumsum(level.victims) / sum(level.victims))
        tables += more
        ways += level.sets.ways
    blocks = np.array(ways) * 3 + sim.UNITS
    starts = np.cumsum(blocks) - blocks
    sets = np.zeros(blocks.sum(), np.int32)
    sets[starts + sim.WAYS] = ways
    chance = (seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) & ((1 << 63) - 1) | 1
    memory = np.array([0, chance, -1, -1], np.int64)
    return Tables(geometry, np.array(tables, np.int64), np.array(chances), starts[1:], sets, memory)


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
        parity = lambda address: sum(((address & mask).bit_count() & 1) << i for i, mask in enumerate(masks))  # noqa: E731
        return sim.HASHED, 0, 0, [parity(value << (8 * byte)) for byte in range(5) for value in range(256)]
    if sets.listed:
        return sim.LISTED, 0, len(sets.listed), list(sets.listed)
    return sim.MODULO, 0, len(sets.ways), []


def latencies_of(path: Path) -> np.ndarray:
    """Cycles of an access by its code."""
    served = np.array([*(cache.hit_cycles for cache in path.caches), path.memory_cycles], dtype=float)
    rows = [served]
    for tlb in path.tlbs:
        rows.append(rows[-1] + np.broadcast_to(np.asarray(tlb.penalty_cycles, dtype=float), served.shape))
    return np.concatenate(rows)


@dataclass
class Machine:
    """A simulated device. `launch_empties`: what is empty when a launch begins, "all", or "L1" as on GPUs; a cold probe finds
    all empty. `no_clock`: why there is none inside a kernel. `processes`: from how many fresh processes a lap's answer is.
    `in_ns`: latencies are told in ns. Answers depend on the machine's seed, the probe, and how often it was asked."""

    name: str
    paths: Mapping[str, Path]
    noise: Noise = Noise()
    seed: int = 0
    ghz: float = 1.5
    launch_empties: str = "all"
    no_clock: str = ""
    processes: int = 1
    in_ns: bool = False
    repeats: int = 3
    base_align: int = 2 * MIB
    source: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    asked: Counter[Probe] = field(default_factory=Counter, repr=False)

    @property
    def path(self) -> Path:
        return self.paths["global"]

    def answer(self, probe: Probe) -> Answer:
        """What this machine answers; a reason and no value where it cannot."""
        unit = "ns" if self.in_ns else "cycles"
        if probe.space not in self.paths:
            return Answer(probe, unit=unit, reason=f"this device has no memory space {probe.space}")
        if probe.mode == "trace" and self.no_clock:
            return Answer(probe, unit=unit, reason=self.no_clock)
        try:
            lap = offsets(probe.pattern)
        except ValueError as error:
            return Answer(probe, unit=unit, reason=str(error))
        self.asked[probe] += 1
        rng = np.random.default_rng([self.seed, self.asked[probe], *repr(sorted(probe.params().items())).encode()])
        name = f"{self.name}:{sum(self.asked.values())}"
        if probe.mode == "lap":
            return self._lap(probe, lap, rng, unit, name)
        return self._trace(probe, lap, rng, unit, name)

    def _fresh(self, space: str, rng: np.random.Generator) -> tuple[Simulation, int]:
        """A process: empty caches, page frames, and where its array begins."""
        process = Simulation(self.paths[space], int(rng.integers(1, 1 << 43)))
        return process, int(rng.integers(1, max(2, (1 << 35) // self.base_align))) * self.base_align

    def _lap(self, probe: Probe, lap: np.ndarray, rng: np.random.Generator, unit: str, name: str) -> Answer:
        cycles = latencies_of(self.paths[probe.space])
        samples = 10
        means = []
        for _ in range(self.processes):
            process, base = self._fresh(probe.space, rng)
            warm, steady = _laps(lap.size, process.path)
            process.run(lap, warm * lap.size, base)
            counts, _ = process.run(lap, steady * lap.size, base)
            slower = 1 + (rng.uniform(0.05, 0.5) if rng.random() < self.noise.disturbed else 0.0)
            spread = rng.normal(1, self.noise.lap_relative * math.sqrt(samples), samples)
            means.append(counts @ cycles / counts.sum() * slower * spread)
        values = means[0] if self.processes == 1 else np.mean(means, axis=1)
        value = float(np.mean(values))
        half = T_95[len(values)] * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        scale = 1 / self.ghz if self.in_ns else 1.0
        return Answer(
            probe, value * scale, (value - half) * scale, (value + half) * scale, unit, value / self.ghz, None, (name,)
        )

    def _trace(self, probe: Probe, lap: np.ndarray, rng: np.random.Generator, unit: str, name: str) -> Answer:
        if probe.record <= 0:
            return Answer(probe, unit=unit, reason="a trace that records nothing was asked for")
        process, base = self._fresh(probe.space, rng)
        if self.launch_empties == "L1" and not probe.cold:  # the chain was just written
            process.run(np.sort(lap), lap.size, base)
        rows = []
        for _ in range(self.repeats):
            process.empty(None if self.launch_empties == "all" or probe.cold else [0] if process.path.caches else [])
            _, codes = process.run(lap, probe.skip + probe.record, base, 0, probe.record)
            rows.append(self.measured(latencies_of(process.path)[codes], rng))
        latencies = np.stack(rows) / (self.ghz if self.in_ns else 1.0)
        means = latencies.mean(axis=1)
        half = T_95[len(means)] * float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else 0.0
        value = float(means.mean())
        ns = value if self.in_ns else value / self.ghz
        return Answer(probe, value, value - half, value + half, unit, ns, latencies, (name,))

    def measured(self, cycles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Latencies as the clock inside a kernel shows them."""
        noise = self.noise
        seen = cycles + noise.bias_cycles + rng.normal(0, noise.jitter_cycles, cycles.size)
        late = rng.random(cycles.size) < noise.outliers
        seen = np.maximum(seen + late * rng.uniform(min(100, noise.outlier_cycles), noise.outlier_cycles, cycles.size), 0)
        if noise.quantum_cycles:  # both readings are at whole steps
            seen = noise.quantum_cycles * np.floor(seen / noise.quantum_cycles + rng.random(cycles.size))
        return seen


def _laps(accesses: int, path: Path) -> tuple[int, int]:
    """How many laps to warm up and to count. Small laps more: what a policy does may repeat over several laps only."""
    chancy = any(level.policy in ("random", "way-weighted") for level in _levels(path))
    if accesses > MIB:
        return 1, 1
    wanted = 200_000 if chancy else 20_000
    return max(2, -(-20_000 // accesses)), max(1, -(-wanted // accesses))
