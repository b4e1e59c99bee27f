"""Random memory hierarchies, each with its truth, and traces of them; written apart from the inference.

Two kinds are drawn: as of GPUs (virtual or large pages, sectors, a launch that empties L1, latencies of tens to hundreds of
cycles) and as of CPUs (4 KiB pages in random frames, prefetch, clocks that step coarsely). About 40% have no clock in a kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tests.hierarchy import PairPrefetch
from tests.recordings import recordings
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain, trace_rows

SMALLEST, LARGEST_FIRST, LARGEST = 4 * KIB, 256 * KIB, 16 * MIB  # of first caches, and of the last
SLOWEST = 2500  # cycles of memory, where it is not twice the last cache's
POLICIES = {"LRU": 0.35, "FIFO": 0.12, "tree-PLRU": 0.2, "NRU": 0.12, "random": 0.13, "way-weighted": 0.08}
TLB_POLICIES = {"LRU": 0.6, "FIFO": 0.12, "tree-PLRU": 0.1, "NRU": 0.08, "random": 0.1}
WAYS = {2: 0.06, 4: 0.2, 6: 0.07, 8: 0.3, 12: 0.12, 16: 0.18, 24: 0.07}
LONGEST_TREE = 16  # ways


class Dice:
    """What is drawn, by a seed."""

    def __init__(self, *seed: int):
        self.rng = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def of(self, *values):
        """One of these, all alike."""
        return values[int(self.rng.integers(len(values)))]

    def weighted(self, weights: dict):
        values = list(weights)
        chances = np.array(list(weights.values()))
        return values[int(self.rng.choice(len(values), p=chances / chances.sum()))]

    def between(self, low: float, high: float) -> float:
        """Uniform in the logarithm."""
        return float(math.exp(self.rng.uniform(math.log(low), math.log(high))))


def random_hierarchy(seed: int, *, clock: bool | None = None) -> Machine:
    """A machine of 1 to 3 caches and 0 to 2 TLBs, the same for the same seed; `clock`: with or without one, None: drawn."""
    dice = Dice(5, seed)
    gpu = dice.chance(0.5)
    tlbs = _with_larger_page(Dice(7, seed), gpu, _tlbs(dice, gpu))
    caches, memory_cycles = _caches(dice, gpu, tlbs)
    levels = len(caches)
    ahead = 0
    if levels > 1 and dice.chance(0.2 if gpu else 0.5):
        ahead = 2 * caches[1].size_bytes // 3 if gpu else dice.of(512, 1024, 2048, 4096)
    path = Path(
        caches, memory_cycles, tlbs, l1_virtual=gpu and levels > 1 and dice.chance(0.25), prefetch_bytes=ahead,
        launch_empties=(0,) if gpu else None, pairs=None if gpu else _pairs(Dice(9, seed), levels),
    )  # fmt: skip
    paths = {"global": path}
    if gpu and levels > 1 and dice.chance(0.4):
        paths["global_cg"] = replace(
            path, caches=caches[1:], l1_virtual=False, launch_empties=(), first_level=2, prefetch_level=0
        )
    if gpu and dice.chance(0.7):
        paths["local"] = Path((), round(dice.between(20, 60)), memory="local")
    has_clock = dice.chance(0.6)
    return Machine(
        f"random-{seed}", paths, _noise(dice, gpu, caches[0].hit_cycles), seed,
        ghz=round(dice.between(0.8, 2.0) if gpu else dice.between(1.8, 4.5), 3),
        no_clock="" if (has_clock if clock is None else clock) else "no clock can be read inside a kernel",
        in_ns=dice.chance(0.1), base_align=_alignment(Dice(8, seed), tlbs), one_arena=True,
        source=f"drawn from seed {seed}",
    )  # fmt: skip


def _pairs(dice: Dice, levels: int) -> PairPrefetch | None:
    """What a CPU's miss brings besides, with every second one: the other line of a pair, or those behind it, mostly into L2."""
    if dice.chance(0.5):
        return None
    level = 1 if levels > 1 and dice.chance(0.75) else 0
    return PairPrefetch(level, dice.of(1.0, 0.5), dice.of(0, 0, 0, 0, 0, 1, 2, 4))


def _alignment(dice: Dice, tlbs: tuple[Tlb, ...]) -> int:
    """Arrays begin on 2 MiB, as the benchmark's do, or at any page: wherever that is among the sets that are listed."""
    return dice.of(2 * MIB, min(2 * MIB, tlbs[0].page_bytes if tlbs else 4 * KIB))


def _with_larger_page(dice: Dice, gpu: bool, tlbs: tuple[Tlb, ...]) -> tuple[Tlb, ...]:
    """The TLBs; of some devices the second one translates larger pages than the first."""
    if len(tlbs) < 2 or not dice.chance(0.2):
        return tlbs
    first, second = tlbs
    page = max(2 * first.page_bytes, dice.of(64 * KIB, 2 * MIB, 2 * MIB, 32 * MIB if gpu else 1 * MIB))
    least, most = 3 * first.entries * first.page_bytes, (1 << 29) // page
    ways = max(2, min(second.sets.ways))
    sets = 1 << max(1, round(math.log2(max(1, min(second.entries, most) / ways))))
    if sets * ways * page < least:
        return tlbs
    return first, replace(second, sets=plain(sets, ways, page), page_bytes=page)


def _noise(dice: Dice, gpu: bool, first_cycles: float) -> Noise:
    quantum = dice.weighted({1.0: 0.8, 2.0: 0.15, 4.0: 0.05} if gpu else {1.0: 0.4, 2.0: 0.3, 26.0: 0.15, 36.0: 0.15})
    return Noise(
        jitter_cycles=dice.between(0.2, 3.0) if gpu else dice.between(0.2, max(0.5, first_cycles / 2)),
        bias_cycles=float(dice.rng.uniform(0, 16 if gpu else 12)) if dice.chance(0.5) else 0.0,
        quantum_cycles=quantum,
        outliers=dice.of(0.0, 0.0005, 0.001, 0.002),
        outlier_cycles=dice.between(300, 5000),
        lap_relative=dice.between(0.001, 0.005),
        disturbed=dice.of(0.0, 0.005, 0.01, 0.02),
    )  # fmt: skip


def _caches(dice: Dice, gpu: bool, tlbs: tuple[Tlb, ...]) -> tuple[tuple[Cache, ...], float]:
    """Caches from the nearest on, and memory's latency. Each is at least 4 times the one before it and slower by 2 to 8."""
    count = dice.weighted({1: 0.2, 2: 0.45, 3: 0.35})
    frames = tlbs[0].page_bytes if tlbs else 4 * KIB if not gpu else 64 * KIB
    reach = tlbs[0].entries * tlbs[0].page_bytes if tlbs else 1 << 40
    cycles = float(round(dice.between(20, 120) if gpu else dice.between(3, 6)))
    size = dice.between(4 * KIB, min(256 * KIB, reach / 2)) if gpu else dice.between(8 * KIB, min(128 * KIB, reach / 2))
    found: list[Cache] = []
    for level in range(count):
        line = dice.weighted({32: 0.25, 64: 0.25, 128: 0.5} if gpu else {32: 0.05, 64: 0.85, 128: 0.1})
        sector = line // dice.of(2, 4) if dice.chance(0.4 if gpu else 0.1) else line
        sector = max(32, sector)
        if found:  # nothing is fetched in larger pieces than the next level has
            sector = max(sector, found[-1].sector_bytes)
            line = max(line, sector)
        physical = frames if level > 0 and dice.chance(0.3 if gpu else 0.85) else 0
        cache = _cache(dice, gpu, level, size, line, physical)
        if found and cache.size_bytes < 4 * found[-1].size_bytes:
            cache = _larger(cache, 4 * found[-1].size_bytes)
        if cache.size_bytes > LARGEST:
            break
        found.append(replace(cache, sector_bytes=sector, hit_cycles=cycles))
        cycles = float(round(cycles * dice.between(2, max(2, min(8, SLOWEST / cycles)))))
        size = cache.size_bytes * dice.between(4, 48 if level == 0 else 16)
    return tuple(found), cycles


def _larger(cache: Cache, least: int) -> Cache:
    """With so many times its sets that it has `least` bytes; then by plain bits, or modulo."""
    ways = max(cache.sets.ways)
    sets = 1 << math.ceil(math.log2(least / (ways * cache.line_bytes)))
    return replace(cache, sets=plain(sets, ways, cache.line_bytes))


def _cache(dice: Dice, gpu: bool, level: int, size: float, line: int, frame_bytes: int) -> Cache:
    """About `size` bytes; latency and sector are set later."""
    policy = dice.weighted(POLICIES)
    if level == 0 and size < 12 * KIB and dice.chance(0.3):  # fully associative
        ways = max(SMALLEST // line, dice.of(32, 48, 64, 96, 128))
        policy = policy if policy in ("LRU", "FIFO", "random") else "LRU"
        return Cache(plain(1, ways, line), line, 0, policy)
    ways = dice.weighted(WAYS)
    if policy == "tree-PLRU" and (ways > LONGEST_TREE or ways & (ways - 1)):
        ways = dice.of(4, 8, 16)
    if policy == "way-weighted":
        ways = dice.of(4, 4, 6, 8)
    exponent = max(1, round(math.log2(size / (ways * line))))
    if level == 0:
        least, most = math.log2(SMALLEST / (ways * line)), math.log2(LARGEST_FIRST / (ways * line))
        exponent = max(math.ceil(least), min(math.floor(most), exponent), 1)
    sets = 1 << exponent
    cache = Cache(_sets(dice, gpu, level, sets, ways, line, policy), line, 0, policy, 0, frame_bytes)
    if policy == "way-weighted":
        cache = replace(cache, victims=_victims(dice, ways))
    return replace(cache, nru_at_miss=policy == "NRU" and dice.chance(0.4))


def _victims(dice: Dice, ways: int) -> tuple[float, ...]:
    """One way is preferred, by 2 to 5 times the others' chance; as on Fermi 3 times and the second of four."""
    preferred, favour = int(dice.rng.integers(ways)), dice.of(2, 3, 3, 4, 5)
    chances = [favour if way == preferred else 1 for way in range(ways)]
    return tuple(chance / sum(chances) for chance in chances)


def _sets(dice: Dice, gpu: bool, level: int, sets: int, ways: int, line: int, policy: str) -> Sets:
    """How addresses choose sets: plain bits mostly; bits further up; hashed, more often further out; modulo; uneven, rarely."""
    form = dice.weighted(
        {"plain": 0.7, "above": 0.1 if gpu else 0.0, "hashed": 0.1, "uneven": 0.05 if policy != "way-weighted" else 0.0}
        if level == 0
        else {"plain": 0.55, "hashed": 0.3 if level == 1 else 0.5, "modulo": 0.15 if gpu else 0.05}
    )
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    if form == "above":
        above = low + dice.of(1, 2)
        return Sets((ways,) * sets, bits=tuple(range(above, above + bits)))
    if form == "hashed":
        return _hashed(dice, sets, ways, low, bits)
    if form == "modulo":
        return Sets((ways,) * (sets // 4 * dice.of(3, 5)) if sets >= 4 else (ways,) * 3)
    if form == "uneven" and 2 <= ways <= LONGEST_TREE // 2 and policy != "tree-PLRU":
        return uneven([ways + 1 if number % 4 == 0 else ways for number in range(sets)])
    return plain(sets, ways, line)


def _hashed(dice: Dice, sets: int, ways: int, low: int, bits: int) -> Sets:
    """Every bit of the set's number is a plain one XORed with one to three above all of these."""
    masks = []
    for bit in range(bits):
        above = dice.rng.choice(np.arange(low + bits, 34), size=dice.of(1, 1, 2, 3), replace=False)
        masks.append(1 << (low + bit) | sum(1 << int(one) for one in above))
    return Sets((ways,) * sets, masks=tuple(masks))


def uneven(ways: list[int]) -> Sets:
    """Sets of unequal ways whose sum of consecutive units fits; the units after these overflow one set after the other."""
    fitting = [number for turn in range(max(ways)) for number, own in enumerate(ways) if turn < own]
    return Sets(tuple(ways), listed=(*fitting, *range(len(ways))))


def _tlbs(dice: Dice, gpu: bool) -> tuple[Tlb, ...]:
    """None to two levels; the second has at least 4 times the entries of the first, and at most reaches 1 GiB."""
    count = dice.weighted({0: 0.25, 1: 0.4, 2: 0.35})
    page = dice.weighted(
        {4 * KIB: 0.15, 64 * KIB: 0.35, 128 * KIB: 0.1, 2 * MIB: 0.4} if gpu else {4 * KIB: 0.8, 16 * KIB: 0.1, 64 * KIB: 0.1}
    )
    found: list[Tlb] = []
    entries = dice.between(16, 64) if gpu else dice.between(24, 100)
    penalty = dice.between(10, 200) if gpu else dice.between(5, 15)
    for level in range(count):
        tlb = _tlb(dice, level, entries, page)
        if tlb.entries * page > 1 << 30 or (found and tlb.entries < 3 * found[-1].entries):
            break
        found.append(replace(tlb, penalty_cycles=float(round(penalty))))
        entries, penalty = tlb.entries * dice.between(4, 24), penalty * dice.between(2, 6)
    return tuple(found)


def _tlb(dice: Dice, level: int, entries: float, page: int) -> Tlb:
    policy = dice.weighted(TLB_POLICIES)
    if level == 0 and dice.chance(0.5):  # fully associative
        many = policy if policy in ("LRU", "FIFO", "random") else "LRU"
        return Tlb(plain(1, max(8, round(entries / 4) * 4), page), page, 0, many)
    if policy != "tree-PLRU" and dice.chance(0.15):
        small, large = dice.of(4, 6, 8), dice.of(9, 12, 17)
        sets = max(2, round((entries - large) / small))
        return Tlb(uneven([large, *[small] * sets]), page, 0, policy)
    ways = dice.of(2, 4, 8, 16) if policy == "tree-PLRU" else dice.of(2, 4, 4, 6, 8, 8, 12)
    sets = 1 << max(1, round(math.log2(entries / ways)))
    return Tlb(plain(sets, ways, page), page, 0, policy, nru_at_miss=policy == "NRU" and dice.chance(0.4))


def random_trace_set(seed: int) -> tuple[Machine, list[dict[str, np.ndarray]]]:
    """A machine with a clock, and its traces: columns for `simulated.write_csv`, some 20,000 to a few 100,000 rows in all."""
    machine = random_hierarchy(seed, clock=True)
    plan = recordings(np.random.default_rng([6, seed]), machine.paths["global"])
    return machine, [
        trace_rows(machine, lap, accesses, warmup, trace_id=number, array_bytes=array_bytes, stride_bytes=stride)
        for number, (lap, accesses, warmup, array_bytes, stride) in enumerate(plan, 1)
    ]
