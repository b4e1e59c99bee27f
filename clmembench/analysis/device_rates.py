"""The rates of a device that predictions of kernels are made from, as a run measured them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from clmembench.analysis.derive import Derived
from clmembench.analysis.kernel_time import LARGEST, MEMORY, BandwidthLevel, DeviceRates, LatencyLevel, scaled
from clmembench.analysis.little import Estimate
from clmembench.analysis.plateaus import CurvePoint, Plateau, find_plateaus, has_settled, memory_floor_bytes
from clmembench.analysis.roofs import BYTES_IN_FLIGHT_PER_ITEM
from clmembench.model import DeviceInfo

# shares and ratios of rates, each with its reason
MIN_LEVEL_SHARE = 0.9  # of the best rate of a cache: a set that is read slower is no longer held by it
MIN_CACHE_TO_MEMORY_RATIO = 1.25  # times memory's rate: what is nearer to it may be noise
MAX_OVERHEAD_SHARE = 0.5  # of a kernel's time that the empty kernel takes: above, what is left says nothing of a rate
MIN_FAR_SHARE = 0.5  # of the latency of the largest sets: a plateau with less is a cache's
MAX_VALUE = 1e15  # ns, GB/s or GFLOP/s: more is an error, or a file that means harm
WRITES = "write"  # the operation of stream that reads nothing
ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 1, "dot": 2}  # of an operation of stream, in its working set


def device_rates(values: Iterable[Derived], curve: Sequence[CurvePoint], info: DeviceInfo) -> DeviceRates:
    """What a run's good values on the whole device say for predictions; `curve` is its pointer chase over working sets."""
    good = [v for v in values if is_usable(v)]
    empty = _pick(good, "launch_wait", "start_to_end", groups=1)
    empty_ns = empty.median if empty is not None else None
    trip, more = _pick(good, "launch", "round_trip", groups=1), _pick(good, "launch_dispatch", "dispatch", groups=1)
    pinned = [v for v in good if v.params.get("direction") == "to_device" and v.params.get("memory") == "pinned"]
    copy = max((v for v in pinned if v.benchmark == "transfer"), key=lambda v: (_size(v), _median(v)), default=None)
    start = min((v for v in pinned if v.benchmark == "transfer_latency"), key=_size, default=None)
    products = [v for v in good if v.benchmark == "dgemm" and v.params.get("dtype") == "double"]
    portable = [v for v in products if v.params.get("variant") in (None, "portable")]
    vector = _pick(good, "arithmetic", "flop_rate", dtype="double") or max(portable, key=_median, default=None)
    product = max(products, key=_median, default=None)
    memory, of_memory = _memory(good)
    caches = _shared_cache(good, memory, info, empty_ns or 0.0) if memory is not None else []
    latencies = _latency_levels(curve, info)
    used = [trip, more, empty, copy, start, vector, product, *of_memory, *(v for _, v in caches)]
    return DeviceRates(
        round_trip_ns=_estimate(trip),
        dispatch_ns=_estimate(more),
        empty_ns=empty_ns,
        has_link=not info.shares_host_memory,
        link_ns=_estimate(start, 1e3),  # microseconds
        link_gb_s=_estimate(copy),
        vector_gflop_s=_estimate(vector),
        product_gflop_s=_estimate(product),
        bandwidths=(*(level for level, _ in caches), *([memory] if memory is not None else [])),
        latencies=latencies,
        memory_from=next((one.first_bytes for one in latencies if one.ns.value >= MIN_FAR_SHARE * latencies[-1].ns.value), 0.0),
        sources={name: _source(v) for name, v in (("vector", vector), ("product", product)) if v is not None},
        inputs=frozenset(v.key for v in used if v is not None),
    )


def is_usable(v: Derived) -> bool:
    """Whether a value is a good one on the whole device, of a size that time and rates can have."""
    return v.status == "ok" and v.place.compute_units is None and v.median is not None and 1e-6 < v.median < MAX_VALUE


def _pick(good: Sequence[Derived], benchmark: str, metric: str, **params: object) -> Derived | None:
    found = (v for v in good if v.benchmark == benchmark and v.metric == metric)
    return next((v for v in found if all(v.params.get(name) == value for name, value in params.items())), None)


def _median(v: Derived) -> float:
    return v.median or 0.0


def _size(v: Derived) -> int:
    found = v.params.get("array_bytes")
    return found if type(found) is int else 0


def _source(v: Derived) -> str:
    return v.benchmark if v.benchmark == "arithmetic" else f"dgemm, n={v.params.get('n')}"


def _estimate(v: Derived | None, scale: float = 1.0) -> Estimate | None:
    """A value with its interval, whose ends may be missing."""
    if v is None or v.median is None:
        return None
    low, high = (v.median if end is None or not 0 < end < MAX_VALUE else end for end in (v.ci_low, v.ci_high))
    return Estimate(scale * v.median, scale * min(low, v.median), scale * max(high, v.median))


def _memory(good: Sequence[Derived]) -> tuple[BandwidthLevel | None, list[Derived]]:
    """Memory by STREAM's operations over the largest arrays: triad, between the slowest and the fastest of those that read."""
    streams = [
        v for v in good if v.benchmark == "stream" and v.params.get("dtype") == "double" and v.params.get("op") != WRITES
    ]
    largest = max(map(_size, streams), default=0)
    rates = {str(v.params.get("op")): (v, one) for v in streams if _size(v) == largest and (one := _estimate(v)) is not None}
    if not rates:
        return None, []
    every = [one for _, one in rates.values()]
    middle = rates["triad"][1].value if "triad" in rates else sorted(one.value for one in every)[len(every) // 2]
    whole = Estimate(middle, min(one.low for one in every), max(one.high for one in every))
    return BandwidthLevel(MEMORY, math.inf, whole, "stream"), [v for v, _ in rates.values()]


def _shared_cache(
    good: Sequence[Derived], memory: BandwidthLevel, info: DeviceInfo, empty_ns: float
) -> list[tuple[BandwidthLevel, Derived]]:
    """The cache that all compute units share, by the largest set that is read as fast as the best one; none where no set is
    clearly faster than memory. Sets smaller than what all work-items load at once are left out: requests for one line are
    answered together."""
    sets: list[tuple[float, Estimate, Derived]] = []
    for v in good:
        one = _estimate(v)
        if one is None:
            continue
        if v.benchmark == "cache_read" and (v.params.get("set"), v.params.get("path")) == ("shared", "plain"):
            size, items = v.params.get("set_bytes"), v.params.get("unit_items")
            at_once = 0 if info.has_cpu_cores or not isinstance(items, int) else items * BYTES_IN_FLIGHT_PER_ITEM
            if isinstance(size, int) and size >= at_once * info.compute_units:
                sets.append((size, one, v))
        elif v.benchmark == "stream" and v.params.get("dtype") == "double" and v.pass_ns * MAX_OVERHEAD_SHARE > empty_ns:
            scale = v.pass_ns / (v.pass_ns - empty_ns)
            arrays = ARRAYS.get(str(v.params.get("op")))
            if arrays is not None:
                sets.append((arrays * _size(v), scaled(one, scale), v))
    by_reads = [one for one in sets if one[2].benchmark == "cache_read"] or sets
    best = max((rate.value for _, rate, _ in by_reads), default=0.0)
    held = [
        one for one in by_reads if one[1].value >= max(MIN_LEVEL_SHARE * best, MIN_CACHE_TO_MEMORY_RATIO * memory.gb_s.value)
    ]
    if not held:
        return []
    size, rate, v = max(held, key=lambda one: (one[0], one[1].value))
    return [(BandwidthLevel("shared cache" if info.has_cpu_cores else "L2", size, rate, v.benchmark), v)]


def _latency_levels(curve: Sequence[CurvePoint], info: DeviceInfo) -> tuple[LatencyLevel, ...]:
    """The plateaus of a curve, and between them its points one by one under the name of the next plateau: just beyond a cache
    latencies rise faster than by the share that no longer fits. Where the curve has not settled, its end is the largest set."""
    points = [point for point in curve if point.high < MAX_VALUE]
    if not points:
        return ()
    found = find_plateaus(points)
    end = MEMORY if has_settled(points, memory_floor_bytes(info)) else LARGEST
    names = ["L1", *(f"level {number}" for number in range(2, len(found) + 1))][: len(found)]
    if found and found[-1].last_bytes == points[-1].array_bytes:
        names[-1] = end
    levels = [_level(name, one.first_bytes, one.last_bytes, one) for name, one in zip(names, found, strict=True)]
    for point in points:
        size = point.array_bytes
        if not any(one.first_bytes <= size <= one.last_bytes for one in found):
            name = next((name for name, one in zip(names, found, strict=True) if one.first_bytes > size), end)
            levels.append(_level(name, size, size, point))
    return tuple(sorted(levels, key=lambda level: level.first_bytes))


def _level(name: str, first_bytes: int, last_bytes: int, ns: CurvePoint | Plateau) -> LatencyLevel:
    return LatencyLevel(name, first_bytes, last_bytes, Estimate(ns.ns, min(ns.low, ns.ns), max(ns.high, ns.ns)))
