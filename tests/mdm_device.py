"""A GPU by simulated queues, whose every property is known, that answers the points of `model measure` and `model validate`.

Sub-groups of one compute unit issue instructions in turn, their misses take one of the MSHRs each, pass the NoC and, some of
them, DRAM, which serve one request after the other, and come back after the latency. Nothing of it is the model's equations.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from clmembench.benchmarks import discovered
from clmembench.model import DeviceInfo, Point, Record, Trace
from clmembench.studies.memory_divergence.benchmarks.memory_divergence import (
    DEPENDENT_PER_INTERVAL,
    INTERVAL_INSTRUCTIONS,
    LOAD_INSTRUCTIONS,
    STORE_INSTRUCTIONS,
)
from tests.builders import clock, device, record, series

SAMPLES = 12
NEAR, FAR = 6, 18  # intervals of a slope's ends
OVERHEAD_NS = 4000
NOISE = 0.003


@dataclass(frozen=True, slots=True)
class SimulatedGpu:
    """The truth. `port_bytes_per_cycle` bounds one compute unit's own traffic."""

    units: int = 16
    ghz: float = 1.5
    mshrs: int = 96
    noc_gb_s: float = 1500.0
    dram_gb_s: float = 600.0
    llc_cycles: float = 250.0
    dram_cycles: float = 350.0
    issue: float = 4.0
    alu_cycles: float = 4.0
    llc_bytes: int = 40 << 20
    port_bytes_per_cycle: float = 1e6
    has_counter: bool = True  # whether its core clock can be read

    @property
    def info(self) -> DeviceInfo:
        """Claims of its driver."""
        features = frozenset({"fp64", "ptx", "nvidia"})
        return device("Simulated GPU", compute_units=self.units, max_alloc_bytes=2 << 30, global_mem_bytes=16 << 30,
                      line_bytes=128, cache_bytes=2 << 20, features=features, local_mem_type="local")  # fmt: skip

    def cycles(self, point: Point, intervals: tuple[int, int] = (NEAR, FAR)) -> float:
        """Cycles of one more operation of a point of memory_divergence or mlp, between two numbers of them."""
        p: Any = point.params
        if point.benchmark == "mlp":
            port = 32 * p["sectors"] / self.port_bytes_per_cycle
            none = (0, 1, 0.0, 1.0)
            ends = [
                _simulate(n, 1, p["lines"], 0.0, 0.0, self.mshrs, port, 0.0, self.llc_cycles, 0.0, *none) for n in intervals
            ]
            return (ends[1] - ends[0]) / (intervals[1] - intervals[0])
        missing = max(0.0, 1 - self.llc_bytes / p["footprint_bytes"])
        instructions = LOAD_INSTRUCTIONS * p["loads"] + INTERVAL_INSTRUCTIONS + p["fmas"] + STORE_INSTRUCTIONS * p["stores"]
        chain = (self.alu_cycles - 1) * (DEPENDENT_PER_INTERVAL + p["loads"] - 1 + p["fmas"])
        service = [self.units * self.ghz * 128 / rate for rate in (self.noc_gb_s, self.dram_gb_s)]
        ends = [
            _simulate(n, p["sub_groups"], p["lines"] * p["loads"], missing, chain, self.mshrs, *service, self.llc_cycles,
                      self.dram_cycles, p["stores"], 1, instructions, self.issue)
            for n in intervals
        ]  # fmt: skip
        return (ends[1] - ends[0]) / (intervals[1] - intervals[0])

    def answer(self, point: Point) -> Record:
        """The record of any point that the model's commands ask for."""
        rng = np.random.default_rng(zlib.crc32(repr(sorted(point.params.items())).encode()))
        if point.benchmark == "pchase":
            size = int(point.params["array_bytes"])
            # a cycle through more lines than a cache holds misses nearly all of them
            cycles = self.llc_cycles + self.dram_cycles * min(1.0, max(0.0, 2 * (1 - self.llc_bytes / size)))
        elif point.benchmark in ("memory_divergence", "mlp"):
            cycles = self.cycles(point)
        elif point.benchmark == "cache_read":
            rate = self.noc_gb_s if int(point.params["set_bytes"]) <= self.llc_bytes else self.dram_gb_s
            return self._rate(point, rate, rng)
        else:  # arithmetic: GFLOP/s
            return self._rate(point, self.issue * 64 * self.units * self.ghz, rng)
        return self._slope(point, cycles, rng)

    def _slope(self, point: Point, cycles: float, rng: Any) -> Record:
        n = 1000
        ends = []
        for ops in (n, 3 * n):
            times = OVERHEAD_NS + ops * cycles / self.ghz * rng.normal(1, NOISE, SAMPLES)
            one = series([round(t) for t in times], ops=ops, nbytes=ops * 128)
            if point.benchmark == "memory_divergence":
                ticks = np.full(4, round(ops * cycles), np.uint64)
                one = replace(one, reads={"ticks": Trace.pack("cycles", [ticks] * SAMPLES)})
            ends.append(one)
        return self._record(point, *ends)

    def _rate(self, point: Point, per_ns: float, rng: Any) -> Record:
        ends = []
        for amount in (10**6, 3 * 10**6):
            times = [round(OVERHEAD_NS + amount / per_ns * f) for f in rng.normal(1, NOISE, SAMPLES)]
            ends.append(series(times, nbytes=amount, ops=amount, flops=amount))
        slope = discovered()[point.benchmark].metrics[0].form in ("slope", "slope_rate")
        return self._record(point, *(ends if slope else ends[1:]))

    def _record(self, point: Point, *works: Any) -> Record:
        notes = (point.note,) if point.note else ()
        version = discovered()[point.benchmark].version
        counted = clock(self.ghz, self.alu_cycles) if self.has_counter else None
        return record(point.benchmark, point.params, *works, core_clock=counted, notes=notes,
                      version=version, role=point.role)  # fmt: skip

    def run_plan(self, plan: Any, *_: Any, **__: Any) -> Iterator[Record]:
        """Every record of a plan, in the place of a runner that measures."""
        answers: list[Record] | None = None
        while True:
            try:
                points = next(plan) if answers is None else plan.send(answers)
            except StopIteration:
                return
            answers = [self.answer(point) for point in points]
            yield from answers


@njit(cache=True)
def _simulate(intervals, warps, reads, missing, chain, mshrs, noc, dram, llc, extra, writes, width, instructions, issue):
    """Cycles until all sub-groups have ended: each in turn of when it is ready issues, loads and waits for all its lines."""
    ready = np.zeros(warps)
    left = np.full(warps, intervals)
    free = np.zeros(mshrs)  # when the MSHR that is the next to be taken is free again
    place, count = 0, 0.0
    issued, noc_free, dram_free, end = 0.0, 0.0, 0.0, 0.0
    for _ in range(intervals * warps):
        warp = -1
        for w in range(warps):
            if left[w] > 0 and (warp < 0 or ready[w] < ready[warp]):
                warp = w
        start = max(ready[warp], issued)
        issued = start + instructions / issue
        now = issued + chain
        done = now
        for k in range(reads + int(writes)):
            begin = now
            if k < reads:
                begin = max(begin, free[place])
            noc_free = max(noc_free, begin) + noc
            at = noc_free
            count += missing
            back = llc
            if count >= 1.0:
                count -= 1.0
                dram_free = max(dram_free, at) + dram
                at = dram_free
                back += extra
            if k < reads:
                free[place] = at + back
                place = (place + 1) % mshrs
                done = max(done, at + back)
        ready[warp] = done
        left[warp] -= 1
        end = max(end, done)
    return end
