"""How published devices are simulated: caches and TLBs by their sizes, ways and lines; see `published` for what is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.hierarchy import PairPrefetch
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain
from tests.truths import hashed

CPU_NOISE = Noise(jitter_cycles=2.0, quantum_cycles=26.0, outliers=0.001, lap_relative=0.002, disturbed=0.01)
INTEL = "Intel 64 and IA-32 Architectures Optimization Reference Manual (248966)"  # and its prefetchers: of streams, of pairs
GPU_NOISE = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.0005, lap_relative=0.002)


@dataclass(frozen=True, slots=True)
class Level:
    """A cache: size in KiB, ways, line in bytes, cycles of a hit; `sector_bytes`, 0 the line; `sliced`: its sets are hashed."""

    kib: int
    ways: int
    line_bytes: int
    cycles: float
    sector_bytes: int = 0
    sliced: bool = False
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """A TLB: entries, ways (0: all), penalty of a miss in cycles."""

    entries: int
    ways: int
    cycles: float


def cache(level: Level, frame_bytes: int) -> Cache:
    """The cache as it is simulated."""
    sets = level.kib * KIB // level.line_bytes // level.ways
    mapping = hashed(sets, level.ways, level.line_bytes) if level.sliced else plain(sets, level.ways, level.line_bytes)
    if sets & (sets - 1):
        mapping = Sets((level.ways,) * sets)
    policy = level.policy or ("tree-PLRU" if level.ways in (4, 8, 16) else "LRU")
    return Cache(mapping, level.line_bytes, level.cycles, policy, level.sector_bytes, frame_bytes)


def tlb(translation: Translation, page_bytes: int) -> Tlb:
    """The TLB as it is simulated."""
    ways = translation.ways or translation.entries
    return Tlb(plain(translation.entries // ways, ways, page_bytes), page_bytes, translation.cycles)


def cpu(
    name: str, source: str, levels: Sequence[Level], memory: float, tlbs: Sequence[Translation], ghz: float,
    page: int = 4 * KIB, assumed: str = "policies, latency of memory, penalties",
) -> Machine:  # fmt: skip
    """A core: the first cache by virtual addresses, the others by frames of pages; a stream prefetcher, and Intel's of pairs of
    lines into L2."""
    caches = tuple(cache(level, 0 if number == 0 else page) for number, level in enumerate(levels))
    path = Path(caches, memory, tuple(tlb(one, page) for one in tlbs), prefetch_bytes=1024)
    if source.startswith(INTEL):
        path = replace(path, pairs=PairPrefetch(1))
    return Machine(
        name,
        {"global": path},
        CPU_NOISE,
        sum(name.encode()),
        ghz,
        one_arena=True,
        is_cpu=True,
        source=source,
        facts={"assumed": assumed},
    )


def gpu(
    name: str, source: str, levels: Sequence[Level], memory: float, tlbs: Sequence[Translation], ghz: float,
    assumed: str = "policies, ways where the source has none, penalties", past_first: bool = True,
) -> Machine:  # fmt: skip
    """A GPU with pages of 2 MiB; `past_first`: loads can pass by the first cache."""
    caches = tuple(cache(level, 0) for level in levels)
    translations = tuple(tlb(one, 2 * MIB) for one in tlbs)
    paths = {"global": Path(caches, memory, translations, l1_virtual=past_first, launch_empties=(0,))}
    if past_first:
        paths["global_cg"] = Path(caches[1:], memory, translations, launch_empties=(), first_level=2)
    return Machine(name, paths, GPU_NOISE, sum(name.encode()), ghz, one_arena=True, source=source, facts={"assumed": assumed})
