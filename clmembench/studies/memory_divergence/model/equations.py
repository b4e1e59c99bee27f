"""Equations 1 to 8 of the memory divergence model, its baselines, a plain bound and our variant, over arrays. Pure.

Source: Wang, Jahre, Adileh, Wang & Eeckhout 2019 (MDM); Huang, Lee, Kim & Lee 2014 (GPUMech). Our names for the paper's
symbols: `concurrent_misses` M, `noc_queue_cycles` S^NoC, `dram_queue_cycles` S^DRAM, `memory_cycles` S^Mem, `mshr_cycles`
S^MSHR, `contention_free_cycles` C. A sub-group is a warp, a compute unit an SM, the NoC the network between first and last
cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Numbers = float | npt.NDArray[np.float64]  # a number, or one for each configuration

Model = Literal["MDM", "MDM-Queue", "MDM-MSHR", "GPUMech+", "GPUMech", "MDM-overlap", "bound"]
MODELS: tuple[Model, ...] = get_args(Model)
OURS = ("MDM-overlap", "bound")  # not in the paper
_SATURATED = ("MDM", "MDM-Queue")  # equation 5 as printed: divergent intervals wait for all requests
_BATCHED = ("MDM", "MDM-MSHR")  # equation 8
_MISS_DIGITS = 9  # digits to which products such as 0.1 x 1280 are rounded: ceil() would round up a rounding error


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Choices where the paper's text and its authors' scripts differ; the defaults are those of the text.

    latency "printed": equation 6, L_LLC + m L_DRAM; "mixed": (1 - m) L_LLC + m L_DRAM. scheduling "lrr": loose round robin with
    the hardware's issue width (4 schedulers x 2 in table 1); "gto": greedy then oldest, which the scripts run with `issue` 1.
    request "block" moves a block for each miss, "sector" a sector. gpumech_dram "half": a request of GPUMech waits for half of
    all; "md1": for those of an M/D/1 queue, at most half of all. `issue` replaces the hardware's issue width.
    """

    latency: Literal["printed", "mixed"] = "printed"
    scheduling: Literal["lrr", "gto"] = "lrr"
    request: Literal["block", "sector"] = "block"
    gpumech_dram: Literal["half", "md1"] = "half"
    issue: float | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """The device's parameters in the equations; bandwidths in 10^9 B/s of the whole device, latencies in cycles without
    contention. `dram_latency_cycles` is added to `llc_latency_cycles`. Arrays broadcast against those of an Interval."""

    compute_units: Numbers
    clock_ghz: Numbers
    mshrs: Numbers
    noc_gb_s: Numbers
    dram_gb_s: Numbers
    llc_latency_cycles: Numbers
    dram_latency_cycles: Numbers
    issue_width: Numbers  # instructions per cycle and compute unit
    request_bytes: Numbers = 128.0


@dataclass(frozen=True, slots=True)
class Interval:
    """Intervals of the representative sub-group: shape (..., intervals), or numbers. `contention_free_cycles` is C_i; misses
    are those of one sub-group; `warps` is how many sub-groups are resident on a compute unit."""

    instructions: Numbers
    contention_free_cycles: Numbers
    read_misses: Numbers
    write_misses: Numbers
    llc_miss_ratio: Numbers
    warps: Numbers


@dataclass(frozen=True, slots=True)
class Terms:
    """All intermediate results of the equations for an interval, in the order of the paper, with its shape."""

    divergent: npt.NDArray[np.bool_]
    concurrent_misses: Numbers
    latency_cycles: Numbers  # L^NoContention
    noc_service_cycles: Numbers
    dram_service_cycles: Numbers
    noc_queue_cycles: Numbers
    dram_queue_cycles: Numbers
    memory_cycles: Numbers
    mshr_cycles: Numbers
    contention_free_cycles: Numbers
    cycles: Numbers


def interval_terms(model: Model, hardware: Hardware, interval: Interval, options: ModelOptions | None = None) -> Terms:
    """The cycles of intervals by one of the paper's models, or by MDM-overlap (ours), with every intermediate.

    MDM-overlap overlaps all memory activity that can overlap: batches of misses in flight, and requests of all compute units in
    both queues. Beyond one latency, which C_i contains, an interval takes the largest of three times: the further batches at
    the latency without contention, and the service of all requests by the NoC or by DRAM. Equation 7 adds all of these for
    every batch. By Little's law the maximum is the response time of a saturated closed queue. S^Mem is then the sum of latency
    and excess."""
    options = options or ModelOptions()
    saturated, batched = model in _SATURATED, model in _BATCHED
    reads = np.round(np.multiply(interval.read_misses, interval.warps), _MISS_DIGITS)
    divergent = reads > hardware.mshrs
    misses = np.minimum(reads, hardware.mshrs) + np.multiply(interval.write_misses, interval.warps)
    noc_service, dram_service = _service_cycles(hardware, interval)
    latency = _latency_cycles(hardware, interval, options)
    waiting = np.where(divergent & saturated, 1.0, 0.5) * hardware.compute_units * misses
    noc, dram = waiting * noc_service, waiting * dram_service
    if model == "MDM-overlap":
        return _overlapped(hardware, interval, (reads, divergent, latency, noc_service, dram_service))
    if model == "GPUMech":
        noc = np.zeros_like(noc)
        if options.gpumech_dram == "md1":
            dram = np.minimum(dram, _md1_wait(hardware, interval, misses))
        memory = latency + np.zeros_like(noc)
        batches = _mean_batches(reads, hardware.mshrs) - 1.0
    else:
        memory = latency + noc + dram
        batches = (np.ceil(reads / hardware.mshrs) if batched else _mean_batches(reads, hardware.mshrs)) - 1.0
    mshr = np.where(divergent, batches * memory, 0.0)
    cycles = interval.contention_free_cycles + mshr + noc + dram
    return Terms(
        divergent, misses, latency, noc_service, dram_service, noc, dram, memory, mshr, interval.contention_free_cycles, cycles
    )


def _overlapped(hardware: Hardware, interval: Interval, given: tuple[Any, Any, Any, Any, Any]) -> Terms:
    """MDM-overlap: the largest of further batches and both queues, attributed to its cause."""
    reads, divergent, latency, noc_service, dram_service = given
    misses = reads + np.multiply(interval.write_misses, interval.warps)
    every = hardware.compute_units * misses
    batches = np.maximum(reads / hardware.mshrs, 1.0) * latency
    needed = np.maximum(batches, np.maximum(every * noc_service, every * dram_service))
    excess = np.maximum(needed - latency, 0.0)
    by_batches, by_noc = batches >= needed, noc_service >= dram_service
    mshr = np.where(by_batches, excess, 0.0)
    noc = np.where(~by_batches & by_noc, excess, 0.0)
    dram = np.where(~by_batches & ~by_noc, excess, 0.0)
    cycles = interval.contention_free_cycles + excess
    memory = latency + excess
    return Terms(
        divergent, misses, latency, noc_service, dram_service, noc, dram, memory, mshr, interval.contention_free_cycles, cycles
    )


def bound_terms(
    hardware: Hardware, interval: Interval, alone_cycles: Numbers, options: ModelOptions | None = None
) -> dict[str, Any]:
    """Lower bounds of the cycles of intervals by each resource alone, as if all else overlapped perfectly (ours; roofline and
    Little's law), with the shape of the interval. `alone_cycles` is the time of one sub-group that runs alone."""
    options = options or ModelOptions()
    reads = np.multiply(interval.read_misses, interval.warps)
    requests = hardware.compute_units * (reads + np.multiply(interval.write_misses, interval.warps))
    noc_service, dram_service = _service_cycles(hardware, interval)
    return {
        "issue": np.multiply(interval.instructions, interval.warps) / hardware.issue_width,
        "latency": alone_cycles + np.zeros_like(reads),
        "mshr": reads / hardware.mshrs * _latency_cycles(hardware, interval, options),
        "noc": requests * noc_service,
        "dram": requests * dram_service,
    }


def contention_free_cycles(
    instructions: Numbers, stall_cycles: Numbers, repeats: Numbers, warps: Numbers, issue: Numbers, scheduling: str = "lrr"
) -> Numbers:
    """C_i of each interval, by GPUMech's multithreading model: one sub-group's issue and stalls, plus the instructions of
    others that its stalls do not hide. Arrays have shape (..., intervals), `warps` and `issue` (..., 1) or none.

    Source: Huang et al. 2014, section 4, as the scripts of Wang et al. have it.
    """
    # the profile's sums are over its last axis
    total = np.sum(np.multiply(instructions, repeats), axis=-1, keepdims=True)
    stalls = np.sum(np.multiply(stall_cycles, repeats), axis=-1, keepdims=True)
    counts = np.sum(np.multiply(repeats, np.ones_like(instructions)), axis=-1, keepdims=True)
    chance = total / (total / issue + stalls)
    others = np.subtract(warps, 1.0)
    if scheduling == "gto":
        issued = np.where(np.equal(stall_cycles, 0.0), 1.0, np.minimum(1.0, chance * stall_cycles))
        extra = np.maximum(0.0, issued * others * (total / counts) - np.multiply(issue, stall_cycles))
    else:
        exposed = np.maximum(0.0, others / issue - stall_cycles)
        extra = chance * (others * np.maximum(0.0, np.subtract(instructions, 1.0)) + exposed)
    return np.asarray((instructions + extra) / issue + stall_cycles)


def _service_cycles(hardware: Hardware, interval: Interval) -> tuple[Any, Any]:
    """Equations 2 and 3: cycles that the whole device's NoC and DRAM are busy with a miss."""
    a_byte = np.multiply(hardware.clock_ghz, hardware.request_bytes)
    return a_byte / hardware.noc_gb_s, a_byte * interval.llc_miss_ratio / hardware.dram_gb_s


def _latency_cycles(hardware: Hardware, interval: Interval, options: ModelOptions) -> Any:
    """Equation 6, or the scripts' mean of both latencies."""
    near = hardware.llc_latency_cycles if options.latency == "printed" else (
        np.multiply(np.subtract(1.0, interval.llc_miss_ratio), hardware.llc_latency_cycles)
    )  # fmt: skip
    return near + np.multiply(interval.llc_miss_ratio, hardware.dram_latency_cycles)


def _mean_batches(reads: Any, mshrs: Numbers) -> Any:
    """The mean of ceil(j / MSHRs) over j = 1 to `reads`, in closed form; between whole numbers of reads it interpolates."""
    mshrs = np.minimum(mshrs, np.maximum(reads, 1.0))  # MSHRs beyond the reads are idle
    full = np.floor(reads / mshrs)
    total = mshrs * full * (full + 1) / 2 + (reads - full * mshrs) * (full + 1)
    return np.where(reads > 0, total / np.where(reads > 0, reads, 1.0), 1.0)


def _md1_wait(hardware: Hardware, interval: Interval, misses: Any) -> Any:
    """The mean wait of an M/D/1 queue that all compute units' misses of an interval reach within its contention-free cycles;
    infinite if they exceed its service rate. A miss of the last cache takes f B / BW, and a share m of all misses are such."""
    service = np.multiply(hardware.clock_ghz, hardware.request_bytes) / hardware.dram_gb_s
    arrivals = hardware.compute_units * misses * interval.llc_miss_ratio
    load = arrivals * service / interval.contention_free_cycles
    return np.where(load < 1, load * service / (2 * np.where(load < 1, 1 - load, 1.0)), np.inf)
