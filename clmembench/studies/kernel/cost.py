"""The time of a traced kernel on a measured device, by the bound of each resource, and two simple baselines. Pure.

Each resource alone gives a lower bound: issue of instructions, requests to the first cache, bytes of the shared cache and of
memory, passes over banks of local memory, atomics, and the latency of dependent loads at the occupancy. The prediction is the
time of an empty launch and the largest of them; its interval reaches from there, with the lowest of every input, to the sum of
all, as if nothing overlapped, with the highest. Sources: Williams, Waterman & Patterson 2009; Little 1961; Hong & Kim 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from clmembench.analysis import kernel_time
from clmembench.analysis.kernel_time import Workload
from clmembench.analysis.little import Estimate
from clmembench.studies.kernel.demand import Demand
from clmembench.studies.kernel.rates import MAX_UNIT_GROUPS, MAX_UNIT_ITEMS, NEEDED, KernelRates
from clmembench.studies.kernel.trace import LOAD
from clmembench.studies.kernel.traffic import Traffic, traffic

ISSUE, FUNCTIONS, FIRST, SHARED, STORES, MEMORY = "issue", "functions", "first cache", "shared cache", "stores", "memory"
LOCAL, ATOMICS, LATENCY, LAUNCH, GROUPS = "local memory", "atomics", "latency", "launch", "work-groups"
LOADED_LINES, STORED_LINES = "memory_divergence", "transpose"  # which measure lines that are touched in part
PASS_BYTES = 128  # that 32 banks of 4 B give in a pass
Triple = npt.NDArray[np.float64]  # the low end, the value and the high end of a time
CORE_WINDOW = 512  # instructions that an out-of-order core looks ahead: loads of so many are in flight together


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The predicted time of a launch in ns: `parts` by resource, the largest of which is `bound` unless an empty launch takes
    longer; None, with the names of the benchmarks in `missing`, where the run lacks a rate. `roofline` and `bytes_only` are
    the baselines: the larger of arithmetic and distinct bytes, and all bytes that work-items load and store over the bandwidth
    of memory. `unmeasured` are benchmarks that would make the interval narrower."""

    ns: Estimate | None
    parts: Mapping[str, Estimate]
    bound: str
    missing: tuple[str, ...]
    roofline: Estimate | None
    bytes_only: Estimate | None
    groups: int  # resident on a compute unit
    memory_share: float  # of the blocks that miss the first cache, those that come from memory
    unmeasured: tuple[str, ...] = ()


def resident_groups(demand: Demand, rates: KernelRates) -> int:
    """Work-groups that are active on a compute unit at once; on a CPU one."""
    if not rates.is_parallel:
        return 1
    sample = demand.sample
    unit_local = max(rates.info.local_mem_bytes, rates.first_cache.nbytes if rates.first_cache is not None else 0)
    limits = [MAX_UNIT_ITEMS // sample.group_items, MAX_UNIT_GROUPS, -(-sample.groups // rates.info.compute_units)]
    if sample.local_bytes:
        limits.append(unit_local // sample.local_bytes)
    return max(1, min(limits))


def cost(demand: Demand, rates: KernelRates) -> KernelCost:
    """The time of a launch on the device of these rates."""
    groups = resident_groups(demand, rates)
    parts: dict[str, Estimate] = {}
    missing: list[str] = []

    def take(name: str, amount: tuple[float, float, float] | float, rate: Estimate | None, needed: str) -> None:
        low, value, high = amount if isinstance(amount, tuple) else (amount,) * 3
        if value <= 0:
            return
        if rate is None:
            missing.append(NEEDED[needed])
            return
        found = Estimate(value / rate.value, max(low, 1e-9) / rate.high, max(value, high) / rate.low)
        parts[name] = found if name not in parts or found.value > parts[name].value else parts[name]

    idle = max(1.0, rates.info.compute_units / demand.sample.groups)  # all units over those that have a work-group
    scalar = _scalar_factor(demand, rates)
    low, value, high = (one * demand.width * idle for one in demand.instructions)
    take(ISSUE, (low, value * scalar[1], high * scalar[2]), rates.issue_g_s, "issue_g_s")
    lines = (demand.requests, demand.requests, demand.most_requests)
    if not rates.is_parallel:
        lines = demand.requests, demand.item_requests if scalar[1] > 1 else demand.requests, demand.item_requests
    first = rates.first_cache
    if first is None:
        missing.append(NEEDED["first_cache"])
    else:
        take(FIRST, tuple(one * demand.line_bytes * idle for one in lines), first.gb_s, "first_cache")  # type: ignore[arg-type]
    capacity = first.nbytes if first is not None else 0
    found = traffic(demand, capacity, groups)
    unmeasured: list[str] = []
    far = _memory_share(parts, missing, unmeasured, demand, rates, found)
    take(LOCAL, demand.local_passes * PASS_BYTES * idle, rates.local_gb_s, "local_gb_s")
    take(ATOMICS, demand.atomics, _atomic_rate(demand.atomic_blocks, rates), "atomics")
    take(ATOMICS, demand.hottest, _atomic_rate(1.0, rates), "atomics")
    take(ATOMICS, demand.local_atomics * idle, rates.local_atomic, "local_atomic")
    if rates.function_g_s is not None:
        take(FUNCTIONS, demand.functions * idle, rates.function_g_s, "issue_g_s")
    chain = _latency(demand, rates, capacity, groups, far)
    if isinstance(chain, str):
        missing.append(chain)
    elif chain is not None:
        parts[LATENCY] = chain
    if rates.group_ns > 0:
        parts[GROUPS] = Estimate.exact(rates.group_ns * demand.sample.groups)
    if rates.launch_ns is None:
        missing.append(NEEDED["launch_ns"])
    bound = max(parts, key=lambda name: parts[name].value, default=LAUNCH)
    ns = total(rates.launch_ns, parts) if rates.launch_ns is not None and not missing else None
    if ns is not None and rates.launch_ns is not None and 2 * rates.launch_ns.value > ns.value:
        bound = LAUNCH
    if ns is not None:  # a part of the launch was traced
        ns = replace(ns, low=ns.low / (1 + demand.sample.error), high=ns.high * (1 + demand.sample.error))
    return KernelCost(ns, parts, bound, tuple(dict.fromkeys(missing)), *_baselines(demand, rates, found), groups, far,
                      tuple(dict.fromkeys(unmeasured)))  # fmt: skip


def total(launch: Estimate, parts: Mapping[str, Estimate]) -> Estimate:
    """The time of an empty launch and of the longest part; at most of all parts, one after the other. A load that waits in the
    queue of memory has its latency besides (Wang et al. 2019, equations 6 and 7), so that both are one part."""
    if not parts:
        return launch
    ends = [(one.low, one.value, one.high) for one in parts.values()]
    lows, values, highs = zip(*ends, strict=True)
    waited = sum(parts[name].value for name in (MEMORY, LATENCY) if name in parts)
    return Estimate(launch.value + max(*values, waited), launch.low + max(lows), launch.high + sum(highs))


def _atomic_rate(blocks: float, rates: KernelRates) -> Estimate | None:
    """Passes of atomics per ns over that many blocks: between two measured numbers of blocks by their logarithms."""
    if not rates.atomics:
        return None
    numbers = np.log([number for number, _ in rates.atomics])
    ends = [[math.log(getattr(rate, end)) for _, rate in rates.atomics] for end in ("value", "low", "high")]
    value, low, high = (math.exp(np.interp(math.log(max(1.0, blocks)), numbers, one)) for one in ends)
    return Estimate(value, min(low, value), max(high, value))


def _scalar_factor(demand: Demand, rates: KernelRates) -> tuple[float, float, float]:
    """How many times more instructions run than if all lanes of a vector were filled: on CPUs up to the lanes, where a compiler
    does not vectorise over work-items."""
    if rates.is_parallel or demand.width == 1:
        return 1.0, 1.0, 1.0
    return 1.0, 1.0 if _is_vectorised(demand, rates) else float(demand.width), float(demand.width)


def _is_vectorised(demand: Demand, rates: KernelRates) -> bool:
    """Whether a CPU's compiler fills vectors with work-items. Those that vectorise whole functions always do; others have a
    loop over work-items around the kernel, or around each part between barriers, and only vectorise an innermost loop."""
    program = demand.sample.dependences
    return rates.vectorises_functions or not (program.has_loop or program.has_short_index or demand.barriers)


def _memory_share(
    parts: dict[str, Estimate],
    missing: list[str],
    unmeasured: list[str],
    demand: Demand,
    rates: KernelRates,
    found: Traffic,
) -> float:
    """Add the times of shared cache and memory, and return the share of blocks beyond the first cache that come from memory.
    Lines that are touched in part take at least their bytes, and where no rate of theirs was measured at most whole lines."""
    levels = rates.device.bandwidths
    if not levels:
        missing.append("stream")
        return 0.0
    *inner, memory = levels
    beyond = found.loads.blocks + found.stores.blocks
    blocks = found.from_memory(inner[0].nbytes / demand.block_bytes if inner else 0.0)
    flows = [(MEMORY, blocks, memory, rates.lines_memory, LOADED_LINES)]
    if inner:
        flows += [
            (SHARED, found.loads, inner[0], rates.lines_shared, LOADED_LINES),
            (STORES, found.stores, inner[0], rates.stored_lines, STORED_LINES),
        ]
        if rates.is_parallel and demand.private_stores[0] > 0:
            parts[STORES] = _private_stores_ns(demand, inner[0].gb_s, rates.stored_lines)
    for name, flow, level, line_rate, benchmark in flows:
        ns = flow.ns(demand.block_bytes, level.gb_s, line_rate)
        if ns <= 0:
            continue
        part = kernel_time.scaled(level.gb_s.inverse(), ns * level.gb_s.value)
        if line_rate is None and flow.parts > 0:
            most = flow.most_ns(demand.block_bytes, demand.line_bytes, level.gb_s)
            part = replace(part, high=part.high * max(1.0, most / ns))
            unmeasured.append(benchmark)
        if name in parts:
            part = Estimate(*(getattr(parts[name], end) + getattr(part, end) for end in ("value", "low", "high")))
        parts[name] = part
    return min(1.0, blocks.blocks / beyond) if beyond else 0.0


def _private_stores_ns(demand: Demand, byte_rate: Estimate, line_rate: Estimate | None) -> Estimate:
    """The time of stores to private arrays in memory: first caches of devices in lockstep write all of them through to the
    shared one, which takes whole lines as fast as it can, and at worst each as one that is stored in part."""
    least, most = (lines * demand.line_bytes for lines in demand.private_stores)
    slowest = byte_rate.low if line_rate is None else min(byte_rate.low, line_rate.low * demand.line_bytes)
    return Estimate(least / byte_rate.value, least / byte_rate.high, most / slowest)


def _latency(demand: Demand, rates: KernelRates, capacity: float, groups: int, far: float) -> Estimate | str | None:
    """The time of the representative sub-group's dependent loads, over as many rounds of resident work-groups as there are; the
    name of the benchmark that the run lacks."""
    levels = rates.device.latencies
    if not levels:
        return "pchase"
    inner = rates.device.bandwidths[:-1]
    near, _ = kernel_time.latency(levels, 1)
    shared, _ = kernel_time.latency(levels, inner[0].nbytes / 2 if inner else levels[-1].last_bytes)
    memory = levels[-1].ns
    share = np.where(demand.prefetched, 0.0, demand.miss_share(capacity, groups))
    blocks = np.bincount(demand.block_request, minlength=demand.served.count)

    def loads_ns(intervals: Sequence[tuple[int, ...]]) -> Triple:
        found = np.zeros(3)
        for one in intervals:
            loads = np.array([n for n in one if demand.served.operation[n] == LOAD], np.int64)
            if not len(loads):
                continue
            missed = min(1.0, float(share[loads].max()))
            away = 1 - (1 - far) ** float((share[loads] * blocks[loads]).max()) if missed else 0.0
            found += (1 - missed) * _ends(near) + missed * ((1 - away) * _ends(shared) + away * _ends(memory))
        return found

    each = demand.chained / (demand.sample.groups * demand.sample.group_items)
    between = each * _operations_ns(rates, {"fma float": 1})
    if rates.is_parallel:
        chain, slow = loads_ns(demand.intervals.requests) + between, loads_ns(demand.slow_intervals.requests) + between
        chain[1] += _operations_ns(rates, demand.intervals.operations)[1]
        chain[2] = max(chain[1], slow[2] + _operations_ns(rates, demand.slow_intervals.operations)[2])
    else:
        chain = loads_ns(demand.intervals.requests[1:]) + between  # the first loads of work-items overlap on a core
    if not chain[1]:
        return None
    if rates.is_parallel:
        rounds = demand.sample.groups / (groups * rates.info.compute_units)
        factor = (max(1.0, rounds),) * 3
    else:
        sub_groups = demand.sample.groups * demand.sample.group_items / demand.width / rates.info.compute_units
        per_item = max(1.0, demand.instructions[1] * demand.width / (demand.sample.groups * demand.sample.group_items))
        ahead = max(1.0, CORE_WINDOW / per_item)
        least, most = sub_groups / ahead, sub_groups * demand.width / ahead
        factor = least, least if _is_vectorised(demand, rates) else most, most
    low, value, high = (float(a * b) for a, b in zip(chain, factor, strict=True))
    if rates.is_parallel and rates.barrier_ns is not None:
        wait = demand.barriers / demand.sample.groups * rates.barrier_ns.value * factor[1]
        low, value, high = low + wait, value + wait, high + wait
    return Estimate(value, min(low, value), max(high, value))


def _ends(one: Estimate) -> Triple:
    return np.array([one.low, one.value, one.high])


def _operations_ns(rates: KernelRates, operations: Mapping[str, int]) -> Triple:
    """The time of so many operations that wait for each other; those whose latency the run lacks take a multiply-add's."""
    usual = rates.operation_ns.get("fma float")
    known = [(rates.operation_ns.get(name, usual), times) for name, times in operations.items()]
    return sum((times * _ends(one) for one, times in known if one is not None), np.zeros(3))


def _baselines(demand: Demand, rates: KernelRates, found: Traffic) -> tuple[Estimate | None, Estimate | None]:
    """The roofline on distinct bytes, and all bytes over memory's bandwidth; each with the empty launch."""
    start = rates.launch_ns
    every = demand.loaded_bytes + demand.stored_bytes
    distinct = found.distinct * demand.block_bytes
    flops = demand.flops + demand.double_flops
    device = replace(rates.device, vector_gflop_s=rates.float_gflop_s) if demand.flops > demand.double_flops else rates.device
    work = Workload(flops / max(1.0, distinct), distinct, distinct, launches=0)
    roofline = kernel_time.predict(device, work).ns if distinct else None
    memory = device.bandwidths[-1].gb_s if device.bandwidths else None
    plain = kernel_time.scaled(memory.inverse(), every) if memory is not None and every else None

    def launched(one: Estimate | None) -> Estimate | None:
        if one is None or start is None:
            return None
        return Estimate(one.value + start.value, one.low + start.low, one.high + start.high)

    return launched(roofline), launched(plain)
