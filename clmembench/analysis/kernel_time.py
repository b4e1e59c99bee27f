"""How long a kernel takes by what was measured on a device: roofline, launches, host link and latency. Pure.

The time of a workload is the sum of its launches, of its bytes over the host link, and of the longest of its arithmetic, its
bytes of memory and its dependent loads:

    launches:   round trip of the first + (launches - 1) x cost of a back-to-back launch
    link:       latency of one copy + bytes / bandwidth of pinned copies; nothing where host and device share memory
    arithmetic: FLOP / rate
    memory:     bytes / bandwidth(working set)
    latency:    dependent loads x latency(working set)

Launches and copies are not hidden behind kernels. Up to the largest working set that the shared cache was seen to hold, bytes
come from there; of a larger one the share capacity / working set does, and the rest comes from memory. Caches of one compute
unit are left out, since no runtime promises that a unit gets the same data in the next launch. Latencies are those of the
plateaus of a pointer chase and of its points between them, and between two of these a power of the working set. Sources:
Williams, Waterman & Patterson 2009 for arithmetic and memory; Hockney 1994 for the link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clmembench.analysis.little import Estimate

LARGEST = "largest set"  # the end of a latency curve that has not settled
HINTS = {  # the suite and the benchmarks that measure an input
    "round_trip": ("sync", "launch"),
    "dispatch": ("sync", "launch_dispatch"),
    "link": ("link", "transfer and transfer_latency"),
    "vector": ("compute", "arithmetic"),
    "product": ("compute", "dgemm"),
    "memory": ("memory", "stream"),
    "cache": ("access", "cache_read"),
    "latency": ("memory", "pchase"),
}
LAUNCH, LINK, COMPUTE, MEMORY, LATENCY = "launch", "link", "compute", "memory", "latency"  # parts of a time
NO_CACHE, BEYOND = "no_cache", "beyond"
REMARKS = {
    NO_CACHE: "an upper bound: no bandwidth of a shared cache was measured (suite access, benchmark cache_read)",
    BEYOND: "a lower bound: the pointer chase had not settled, and its largest set is smaller than this one",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """What a kernel does, over all its launches: FLOP for each byte of memory, those bytes, the working set that they are of,
    bytes over the host link, loads of which each needs the one before it, and whether it is a product of matrices."""

    flop_per_byte: float = 0.0
    nbytes: float = 0.0
    set_bytes: float = 0.0
    launches: int = 1
    link_bytes: float = 0.0
    loads: float = 0.0
    product: bool = False


@dataclass(frozen=True, slots=True)
class BandwidthLevel:
    """A cache that all compute units share, with the largest set that it was seen to hold; for memory `nbytes` is infinite,
    and the interval spans STREAM's operations."""

    name: str
    nbytes: float
    gb_s: Estimate
    source: str


@dataclass(frozen=True, slots=True)
class LatencyLevel:
    """A plateau of a pointer chase, from its first to its last working set, or one point between two plateaus."""

    name: str
    first_bytes: float
    last_bytes: float
    ns: Estimate


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """What predictions for a device are made of; None and empty for what was not measured.

    `empty_ns` is how long an empty kernel takes by the device's clock, and `memory_from` the working set from which on
    latencies are like memory's. `sources` say by what the rates of arithmetic were measured, and `inputs` are the keys of the
    points that all this was read from.
    """

    round_trip_ns: Estimate | None = None
    dispatch_ns: Estimate | None = None
    empty_ns: float | None = None
    has_link: bool = True
    link_ns: Estimate | None = None
    link_gb_s: Estimate | None = None
    vector_gflop_s: Estimate | None = None
    product_gflop_s: Estimate | None = None
    bandwidths: tuple[BandwidthLevel, ...] = ()
    latencies: tuple[LatencyLevel, ...] = ()
    memory_from: float = 0.0
    sources: Mapping[str, str] = field(default_factory=dict)
    inputs: frozenset[tuple[object, ...]] = frozenset()


@dataclass(frozen=True, slots=True)
class Prediction:
    """Parts of a time in ns, each with its interval, and the largest of them.

    `by` is what bounds the kernel itself: the level of memory that its bytes or loads come from, or what measured the rate of
    arithmetic. `gflop_s` and `gb_s` are what it attains while it runs, `remark` is a key of REMARKS or "". With `missing`, keys
    of HINTS, there is no prediction.
    """

    parts: Mapping[str, Estimate]
    bound: str = ""
    by: str = ""
    gflop_s: float = 0.0
    gb_s: float = 0.0
    missing: tuple[str, ...] = ()
    remark: str = ""

    @property
    def ns(self) -> Estimate | None:
        """The time of all parts: ends of intervals are added, since one run's errors may have one cause."""
        if self.missing or not self.parts:
            return None
        ends = zip(*((one.value, one.low, one.high) for one in self.parts.values()), strict=True)
        return Estimate(*map(sum, ends))


def predict(rates: DeviceRates, work: Workload) -> Prediction:
    """The time of a workload on a device, by the formula above; which_device.js has the same one."""
    parts: dict[str, Estimate] = {}
    missing: list[str] = []
    first, more = rates.round_trip_ns, rates.dispatch_ns
    if work.launches > 0:
        missing += ["round_trip"] * (first is None) + ["dispatch"] * (more is None and work.launches > 1)
        if first is not None and not missing:
            parts[LAUNCH] = _sum(first, more, work.launches - 1)
    if work.link_bytes > 0 and rates.has_link:
        if rates.link_ns is None or rates.link_gb_s is None:
            missing.append("link")
        else:
            parts[LINK] = _sum(rates.link_ns, rates.link_gb_s.inverse(), work.link_bytes)
    kernel = _kernel_parts(rates, work, missing)
    longest = max(kernel, key=lambda name: kernel[name][0].value, default="")
    gb_s, by = 0.0, ""
    if longest:
        parts[longest], by = kernel[longest]
        gb_s = work.nbytes / parts[longest].value
    bound = max(parts, key=lambda name: parts[name].value, default="")
    return Prediction(parts, bound, by, work.flop_per_byte * gb_s, gb_s, tuple(missing), _remark(rates, work, longest))


def _remark(rates: DeviceRates, work: Workload, longest: str) -> str:
    """The key of what limits a prediction whose kernel is bound by that part; "" where nothing does."""
    if longest == MEMORY and len(rates.bandwidths) == 1:
        return NO_CACHE
    last = rates.latencies[-1] if longest == LATENCY else None
    return BEYOND if last is not None and last.name == LARGEST and work.set_bytes > last.last_bytes else ""


def _kernel_parts(rates: DeviceRates, work: Workload, missing: list[str]) -> dict[str, tuple[Estimate, str]]:
    """The times of arithmetic, memory and dependent loads, of which the longest counts, each with what bounds it; the keys of
    what was not measured are added to `missing`."""
    parts: dict[str, tuple[Estimate, str]] = {}
    flops = work.flop_per_byte * work.nbytes
    if flops > 0:
        kind = "product" if work.product else "vector"
        rate = rates.product_gflop_s if work.product else rates.vector_gflop_s
        if rate is None:
            missing.append(kind)
        else:
            parts[COMPUTE] = scaled(rate.inverse(), flops), rates.sources.get(kind, "")
    if work.nbytes > 0:
        found = bandwidth(rates, work.set_bytes)
        if isinstance(found, str):
            missing.append(found)
        else:
            parts[MEMORY] = scaled(found[0].inverse(), work.nbytes), found[1]
    if work.loads > 0:
        if not rates.latencies:
            missing.append("latency")
        else:
            ns, level = latency(rates.latencies, work.set_bytes)
            parts[LATENCY] = scaled(ns, work.loads), level
    return parts


def bandwidth(rates: DeviceRates, set_bytes: float) -> tuple[Estimate, str] | str:
    """The bandwidth of a working set in GB/s and its level, or the key of the hint on what would have measured it."""
    if not rates.bandwidths:
        return "memory"
    *inner, memory = rates.bandwidths
    if not inner:
        return (memory.gb_s, memory.name) if set_bytes >= rates.memory_from else "cache"
    cache = inner[0]
    if set_bytes <= cache.nbytes:
        return cache.gb_s, cache.name
    share = cache.nbytes / set_bytes
    mixed = [
        1 / (share / near + (1 - share) / far)
        for near, far in ((cache.gb_s.value, memory.gb_s.value), (cache.gb_s.high, memory.gb_s.high))
    ]
    # a pass in order over a set that a cache does not hold may find nothing of it there
    return Estimate(mixed[0], min(memory.gb_s.low, mixed[0]), max(mixed)), memory.name


def latency(levels: Sequence[LatencyLevel], set_bytes: float) -> tuple[Estimate, str]:
    """The latency of a dependent load in a working set in ns, and the level that it comes from: between two of them a power
    of the working set, beyond the last one its latency."""
    before = None
    for level in levels:
        if set_bytes < level.first_bytes and before is not None and set_bytes > before.last_bytes:
            at = math.log(set_bytes / before.last_bytes) / math.log(level.first_bytes / before.last_bytes)
            middle = before.ns.value ** (1 - at) * level.ns.value**at
            ends = (before.ns.low, before.ns.high, level.ns.low, level.ns.high)
            return Estimate(middle, min(*ends, middle), max(*ends, middle)), level.name
        if set_bytes <= level.last_bytes:
            return level.ns, level.name
        before = level
    return levels[-1].ns, levels[-1].name


def _sum(first: Estimate, each: Estimate | None, times: float) -> Estimate:
    if each is None:
        return first
    return Estimate(first.value + times * each.value, first.low + times * each.low, first.high + times * each.high)


def scaled(one: Estimate, times: float) -> Estimate:
    """An estimate times an exact number."""
    return Estimate(one.value * times, one.low * times, one.high * times)
