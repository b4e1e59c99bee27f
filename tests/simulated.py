"""Simulated memories of which everything is known: caches, TLBs, noise; a Machine answers probes as a device would.

Not simulated: writes, several work-items, exclusive levels, lines that one level takes from another, anything else's use of the
caches. What is fetched is kept at every level that missed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import numpy as np

from clmembench.model import Answer, Pattern, Probe, Space
from clmembench.model.address_patterns import (
    MIN_PAGE_BYTES,
    crowd_counts,
    crowd_offsets,
    pattern_bytes,
    pattern_offsets,
    probe_bytes,
    scan_offsets,
    scan_span,
    timed_numbers,
)
from tests.hierarchy import KIB, MIB, Cache, Path, Sets, Simulation, Tlb, latencies_of, plain, set_bits

__all__ = ["KIB", "MIB", "Cache", "Machine", "Noise", "Path", "Sets", "Simulation", "Tlb", "plain", "trace_rows", "write_csv"]

MIN_ARENA_BYTES = 32 * MIB  # as of the benchmark
SAMPLES = 10  # of each lap's time in a process
RESIDENCES = 2  # repeats of a probe in mode residence
EVICTIONS = 5  # repeats of a probe in mode evict, one of which an outlier may spoil
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 10: 2.262}  # Student's t for a 95% interval of the mean of n
COLUMNS = ("trace_id", "array_bytes", "stride_bytes", "step", "offset_bytes", "latency")


@dataclass(frozen=True, slots=True)
class Noise:
    """What measuring adds. Traces: `jitter_cycles` (standard deviation) and `bias_cycles` to each access, a clock that steps by
    `quantum_cycles`, and to the share `outliers` of accesses 100 to `outlier_cycles` more. Laps: means spread by
    `lap_relative` (standard deviation of a process), and the share `disturbed` of processes is slower by 5 to 50%."""

    jitter_cycles: float = 0.0
    bias_cycles: float = 0.0
    quantum_cycles: float = 0.0
    outliers: float = 0.0
    outlier_cycles: float = 900.0
    lap_relative: float = 0.0
    disturbed: float = 0.0

    def seen(self, cycles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Latencies of single accesses as a clock inside a kernel shows them."""
        late = rng.random(cycles.size) < self.outliers
        found = cycles + self.bias_cycles + rng.normal(0, self.jitter_cycles, cycles.size)
        found = np.maximum(found + late * rng.uniform(min(100, self.outlier_cycles), self.outlier_cycles, cycles.size), 0)
        if not self.quantum_cycles:
            return found
        phase = rng.random(cycles.size)  # both readings of the clock are whole steps
        return self.quantum_cycles * np.floor(found / self.quantum_cycles + phase)


@dataclass
class Machine:
    """A simulated device. `no_clock`: why there is no clock inside a kernel. `processes`: of how many fresh ones a lap's answer
    is the mean. `in_ns`: latencies are told in ns. What a machine answers depends on its seed, the probe, and how often that
    was asked before. `one_arena`: as on a device all probes of a space use one buffer, whose place and page frames change only
    when a probe needs a larger one; else every answer is from fresh ones. `is_cpu`: its first cache asks a
    TLB. `facts`: what else is true, and what of it is assumed."""

    name: str
    paths: Mapping[Space, Path]
    noise: Noise = Noise()
    seed: int = 0
    ghz: float = 1.5
    no_clock: str = ""
    processes: int = 1
    in_ns: bool = False
    repeats: int = 3
    base_align: int = 2 * MIB
    source: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    one_arena: bool = False
    is_cpu: bool = False
    arenas: dict[str, tuple[int, int, int]] = field(default_factory=dict, repr=False)  # by space: bytes, key of frames, base
    asked: Counter[Probe] = field(default_factory=Counter, repr=False)

    @property
    def truth(self) -> dict[str, Any]:
        """What is true of global memory's levels and TLBs, of each other space's levels, and the facts."""
        spaces = {space: levels_of(path, space, self.ghz) for space, path in self.paths.items()}
        levels, tlbs = spaces.pop("global", []), tlbs_of(self.paths["global"], self.ghz) if "global" in self.paths else []
        return {"levels": levels, "tlb": tlbs, "spaces": spaces, "clock": not self.no_clock, **self.facts}

    def answer(self, probe: Probe) -> Answer:
        """What this machine answers; a reason and no value where it cannot."""
        unit = "ns" if self.in_ns else "cycles"
        try:
            lap = pattern_offsets(probe.pattern)
        except ValueError as error:
            return Answer(probe, unit=unit, reason=str(error))
        reason = "" if probe.space in self.paths else f"this device has no memory space {probe.space}"
        if probe.mode != "lap":
            reason = reason or self.no_clock or ("" if probe.record > 0 else "a trace that records nothing was asked for")
        if reason:
            return Answer(probe, unit=unit, reason=reason)
        self.asked[probe] += 1
        rng = np.random.default_rng(seed_words(self.seed, self.asked[probe], repr(sorted(probe.params().items()))))
        answered = {"lap": self._laps, "trace": self._trace, "evict": self._evict, "residence": self._residence}[probe.mode]
        values, latencies = answered(probe, lap, rng)
        value, scale = float(np.mean(values)), 1 / self.ghz if self.in_ns else 1.0
        half = T_95[len(values)] * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        low, high = (value - half) * scale, (value + half) * scale
        evidence = (f"{self.name}:{sum(self.asked.values())}",)
        kept = None if latencies is None else latencies * scale
        return Answer(probe, value * scale, low, high, unit, value / self.ghz, kept, evidence)

    def process(self, space: str, rng: np.random.Generator) -> tuple[Simulation, int]:
        """A fresh process: empty caches, page frames of its own, and where its array begins."""
        simulation = Simulation(self.paths[space], int(rng.integers(1, 1 << 43)))
        return simulation, int(rng.integers(1, max(2, (1 << 35) // self.base_align))) * self.base_align

    def _process_of(self, probe: Probe, rng: np.random.Generator) -> tuple[Simulation, int]:
        """Empty caches for a probe, and where its array begins: in the arena, where there is one."""
        if not self.one_arena:
            return self.process(probe.space, rng)
        needed = probe_bytes(probe)
        arena = self.arenas.get(probe.space)
        if arena is None or needed > arena[0]:
            fresh, base = self.process(probe.space, np.random.default_rng([self.seed, needed, *probe.space.encode()]))
            arena = self.arenas[probe.space] = (max(MIN_ARENA_BYTES, needed), fresh.seed, base)
        return Simulation(self.paths[probe.space], arena[1] | int(rng.integers(1 << 18)) << 43), arena[2]

    def _evict(self, probe: Probe, lap: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Means of the repeats, and the latencies in cycles of the first place after each number of lines."""
        process, base = self._process_of(probe, rng)
        victim, beside, kept = lap[:1], lap[1:2], lap[2:]
        rows = []
        for _ in range(EVICTIONS):
            seen = []
            for count in crowd_counts(probe):
                process.run(victim, 1, base)
                also = crowd_offsets(probe, probe.also_until, probe.also_from)
                crowd = np.tile(np.concatenate([crowd_offsets(probe, count), also, kept]), probe.rounds)
                if crowd.size:
                    process.run(crowd, crowd.size, base)
                process.run(beside, 1, base)
                seen.append(int(process.run(victim, 1, base, record=1)[1][0]))
            rows.append(self.noise.seen(latencies_of(process.path)[np.array(seen)], rng))
        return np.mean(rows, axis=1), np.stack(rows)

    def _residence(self, probe: Probe, lap: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Means of the repeats, and the latencies in cycles of lines of a scan after those that follow them."""
        process, base = self._process_of(probe, rng)
        scan = scan_offsets(probe, np.arange(probe.skip, probe.until))
        loaded, timed = (numbers - probe.skip for numbers in timed_numbers(probe))
        looks = np.stack([scan[timed] ^ MIN_PAGE_BYTES // 2, scan[timed]], axis=1).reshape(-1)
        order = np.insert(scan, np.repeat(loaded, 2), looks)
        behind = np.arange(loaded[0], order.size)
        at = loaded + 2 * np.arange(probe.record) + 1  # of the timed loads in that order
        rows = []
        for turn in range(probe.skip, probe.skip + RESIDENCES):
            moved = order + turn % probe.turns * scan_span(probe) * probe.crowd_bytes
            codes = process.run(moved, moved.size, base, record=behind.size)[1]
            rows.append(self.noise.seen(latencies_of(process.path)[codes[at - loaded[0]]], rng))
        return np.mean(rows, axis=1), np.stack(rows)

    def _laps(self, probe: Probe, lap: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        """Mean latencies in cycles: of processes, or of the samples of the only one."""
        means = []
        for _ in range(self.processes):
            process, base = self._process_of(probe, rng)
            warm, steady = laps_needed(lap.size, process.path)
            process.run(lap, warm * lap.size, base)
            counts, _ = process.run(lap, steady * lap.size, base)
            slower = 1 + (rng.uniform(0.05, 0.5) if rng.random() < self.noise.disturbed else 0.0)
            spread = rng.normal(1, self.noise.lap_relative * math.sqrt(SAMPLES), SAMPLES)
            means.append(counts @ latencies_of(process.path) / counts.sum() * slower * spread)
        return means[0] if self.processes == 1 else np.mean(means, axis=1), None

    def _trace(self, probe: Probe, lap: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Means of the repeats, and the latencies in cycles, shape (repeats, record)."""
        process, base = self._process_of(probe, rng)
        emptied = None if probe.cold else process.path.launch_empties
        if emptied is not None:  # the rest holds what the writing of the chain left there
            process.run(np.sort(lap), lap.size, base)
        rows = []
        for _ in range(self.repeats):
            process.empty(emptied)
            _, codes = process.run(lap, probe.skip + probe.record, base, record=probe.record)
            rows.append(self.noise.seen(latencies_of(process.path)[codes], rng))
        return np.mean(rows, axis=1), np.stack(rows)


def seed_words(seed: int, asked: int, text: str) -> np.ndarray:
    """What a list of the numbers and of the text's bytes seeds, as words: of laps over thousands of listed lines NumPy takes
    longer to make words of such a list than the simulation takes."""
    numbers = [number >> shift & 0xFFFFFFFF for number in (seed, asked) for shift in range(0, max(1, number.bit_length()), 32)]
    return np.concatenate([np.array(numbers, np.uint32), np.frombuffer(text.encode(), np.uint8).astype(np.uint32)])


def laps_needed(accesses: int, path: Path) -> tuple[int, int]:
    """Laps to warm up and to count: more of small ones, as a policy's pattern may repeat only after several, and by chance."""
    policies = {level.policy for level in (*path.caches, *path.tlbs)}
    by_chance = bool(policies & {"random", "way-weighted"})
    if accesses > MIB or (accesses > 100_000 and policies <= {"LRU"}):
        return 1, 1
    return max(3 if by_chance else 2, -(-5_000 // accesses)), -(-(30_000 if by_chance else 6_000) // accesses)


def levels_of(path: Path, space: str, ghz: float) -> list[dict[str, Any]]:
    """What is true of a path's caches and of the memory behind them."""
    found: list[dict[str, Any]] = []
    for number, cache in enumerate(path.caches, path.first_level):
        level = {"name": f"L{number}", "space": space, "size_bytes": cache.size_bytes, "line_bytes": cache.line_bytes}
        level |= {"sector_bytes": cache.sector_bytes or cache.line_bytes, **_structure(cache)}
        level |= {"latency_cycles": cache.hit_cycles, "latency_ns": cache.hit_cycles / ghz, "physical": bool(cache.frame_bytes)}
        found.append(level)
    memory = {"name": path.memory, "space": space, "latency_cycles": path.memory_cycles}
    return [*found, memory | {"latency_ns": path.memory_cycles / ghz}]


def tlbs_of(path: Path, ghz: float) -> list[dict[str, Any]]:
    """What is true of a path's TLBs. The penalty is that of data in the first cache, or behind it where that hides TLBs."""
    found = []
    for number, tlb in enumerate(path.tlbs, 1):
        penalties = np.broadcast_to(np.asarray(tlb.penalty_cycles, float), (len(path.caches) + 1,))
        penalty = float(penalties[min(int(path.l1_virtual), len(path.caches))])
        level = {"name": tlb.name or f"L{number} TLB", "entries": tlb.entries, "page_bytes": tlb.page_bytes}
        level |= {"reach_bytes": tlb.entries * tlb.page_bytes, **_structure(tlb)}
        found.append(level | {"penalty_cycles": penalty, "penalty_ns": penalty / ghz, "penalties_cycles": penalties.tolist()})
    return found


def _structure(level: Cache | Tlb) -> dict[str, Any]:
    """Ways (one number where sets are equal, else one a set), sets, policy; the set's address bits where it is plain bits."""
    ways = level.sets.ways
    found: dict[str, Any] = {"ways": ways[0] if len(set(ways)) == 1 else list(ways), "sets": len(ways), "policy": level.policy}
    found["set_bits"] = set_bits(level)
    if level.policy == "way-weighted":
        found["victim_probabilities"] = [victim / sum(level.victims) for victim in level.victims]
    return found


def trace_rows(
    machine: Machine,
    what: Pattern | np.ndarray,
    accesses: int,
    warmup: int = 0,
    *,
    trace_id: int = 0,
    array_bytes: int | None = None,
    stride_bytes: int | None = None,
    space: str = "global",
    process: int = 0,
) -> dict[str, np.ndarray]:
    """A trace on empty caches as columns, one entry a recorded access: `accesses` of them after `warmup` unrecorded ones, laps
    of a pattern or of offsets following one another. Traces of the same `process` share its array and page frames."""
    lap = pattern_offsets(what) if isinstance(what, Pattern) else np.asarray(what, dtype=np.int64)
    if array_bytes is None:
        array_bytes = pattern_bytes(what) if isinstance(what, Pattern) else int(lap.max()) + 8
    if stride_bytes is None:
        stride_bytes = what.stride_bytes if isinstance(what, Pattern) else 0
    simulation, base = machine.process(space, np.random.default_rng([machine.seed, process]))
    _, codes = simulation.run(lap, warmup + accesses, base, record=accesses)
    seen = machine.noise.seen(latencies_of(simulation.path)[codes], np.random.default_rng([machine.seed, process, trace_id]))
    step = np.arange(warmup, warmup + accesses)
    whole = np.full(accesses, 1)
    values = (whole * trace_id, whole * array_bytes, whole * stride_bytes, step, lap[step % lap.size])
    return dict(zip(COLUMNS, (*values, seen / machine.ghz if machine.in_ns else seen), strict=True))


def write_csv(path: File, *traces: Mapping[str, np.ndarray]) -> None:
    """Traces one behind another, with a heading; latencies to a hundredth."""
    rows = np.column_stack([np.concatenate([trace[name] for trace in traces]) for name in COLUMNS])
    np.savetxt(path, rows, fmt=["%d"] * 5 + ["%.6g"], delimiter=",", header=",".join(COLUMNS), comments="")
