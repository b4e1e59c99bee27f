"""The time of a kernel by the memory divergence model, from its trace and a device's measured inputs. Pure."""

from __future__ import annotations

from collections import Counter

import numpy as np

from clmembench.analysis.kernel_time import latency
from clmembench.analysis.little import Estimate
from clmembench.studies.kernel.demand import Demand
from clmembench.studies.kernel.rates import KernelRates
from clmembench.studies.kernel.trace import LOAD, STORE
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, Profile, ProfileInterval, check_profile
from clmembench.studies.memory_divergence.model.equations import ModelOptions
from clmembench.studies.memory_divergence.model.predict import predictions

OPTIONS = ModelOptions(latency="mixed", request="sector")  # what our GPUs' caches fill


def divergence_model_ns(
    demand: Demand, rates: KernelRates, sheet: HardwareSheet, groups: int, memory_share: float
) -> Estimate | None:
    """The time of a launch by MDM, with `groups` work-groups resident on a compute unit, of whose misses that share comes from
    memory; None for a kernel without instructions, or a run without latencies."""
    if rates.launch_ns is None or not rates.device.latencies:
        return None
    warps = groups * -(-demand.sample.group_items // demand.width)
    profile = Profile(warps, _profile(demand, rates, sheet.quantities.clock_ghz.value, groups, memory_share))
    try:
        check_profile(profile)
    except ValueError:
        return None
    (found,) = predictions(sheet, profile, OPTIONS, ("MDM",))
    rounds = max(1.0, demand.sample.groups / (groups * rates.info.compute_units))
    ns = [rounds * cycles / sheet.quantities.clock_ghz.value for cycles in (found.cycles, found.cycles_low, found.cycles_high)]
    value, low, high = (rates.launch_ns.value + one for one in ns)
    return Estimate(value, min(low, value), max(high, value))


def _profile(
    demand: Demand, rates: KernelRates, clock_ghz: float, groups: int, memory_share: float
) -> tuple[ProfileInterval, ...]:
    """The intervals of the representative sub-group, equal ones together."""
    levels, first = rates.device.latencies, rates.first_cache
    near, _ = latency(levels, 1)
    inner = rates.device.bandwidths[:-1]
    shared, _ = latency(levels, inner[0].nbytes / 2 if inner else levels[-1].last_bytes)
    beyond = shared.value + memory_share * (levels[-1].ns.value - shared.value)
    blocks = np.bincount(demand.block_request, minlength=demand.served.count)
    missed = demand.miss_share(first.nbytes if first is not None else 0, groups) * blocks
    sectors_a_line = demand.line_bytes // demand.block_bytes
    pairs = np.unique(demand.block_request * (1 << 40) + np.unique(demand.block // sectors_a_line, return_inverse=True)[1])
    lines = np.bincount(pairs >> 40, minlength=demand.served.count) * missed / np.maximum(blocks, 1)
    items = demand.sample.groups * demand.sample.group_items / demand.width
    instructions = max(1.0, demand.instructions[1] / items / len(demand.intervals.requests))
    found = Counter[tuple[float, float, float, float]]()
    for numbers in demand.intervals.requests:
        chosen = np.array(numbers, np.int64)
        operation = demand.served.operation[chosen]
        reads, writes = (float(lines[chosen[mask]].sum()) for mask in (operation != STORE, operation == STORE))
        sectors = float(missed[chosen].sum())
        stall = (beyond if reads else near.value if (operation == LOAD).any() else 0.0) * clock_ghz
        size = demand.block_bytes * sectors / (reads + writes) if reads + writes else float(demand.block_bytes)
        found[round(reads, 3), round(writes, 3), round(stall, 1), round(size, 1)] += 1
    return tuple(
        ProfileInterval(
            instructions, stall_cycles=stall, read_misses=reads, write_misses=writes,
            llc_miss_ratio=memory_share, repeats=times, request_bytes=size,
        )
        for (reads, writes, stall, size), times in found.items()
    )  # fmt: skip
