"""Memory inputs of the model from measurements: bandwidths and latencies of last-level cache and DRAM. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clmembench.analysis.derive import Derived
from clmembench.model import DeviceInfo, Finding, Hierarchy
from clmembench.specs.sheets import SpecSheet
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, InputQuantity

MIB = 1 << 20
MIN_SHARED_SET_BYTES = 8 * MIB  # of cache_read: loads of smaller sets by several compute units are merged before the L2
MAX_SHARED_SET_SHARE = 0.7  # of the last-level cache: larger sets miss it
MIN_MEMORY_TO_CACHE_RATIO = (
    8  # times the last-level cache: such a set lies in memory, except for at most an eighth of random accesses
)
MAX_MEMORY_SET_BYTES = 1024 * MIB  # bytes of a set that lies in memory even if the cache size is unknown
MIN_LLC_SET_BYTES, LLC_SET_SHARE = 1 * MIB, 0.45  # of pchase: larger than any first cache, and within one of two partitions
MAX_PLATEAU_RATIO, MIN_MEMORY_RATIO, MIN_CURVE_POINTS = 1.05, 1.5, 6  # of latencies of pchase on one plateau, and of memory


@dataclass(frozen=True, slots=True)
class Evidence:
    """Data of the runs of one device: all judged values, the inferred hierarchies, the device, its sheet, and the latency of a
    dependent operation from its clock reading."""

    info: DeviceInfo
    values: Sequence[Derived]
    hierarchies: Sequence[Hierarchy]
    sheet: SpecSheet | None
    origin: str
    dependent_cycles: InputQuantity | None = None


def value_range(name: str, ranges: Iterable[tuple[float, float, float]], source: str) -> InputQuantity | None:
    """The middle of several values, with an interval that covers all of theirs."""
    found = sorted(ranges)
    if not found:
        return None
    value = found[len(found) // 2][0]
    low, high = min(one[1] for one in found), max(one[2] for one in found)
    return InputQuantity(value, UNITS[name], source, min(low, value), max(high, value))


def usable_values(values: Sequence[Derived], benchmark: str, unit: str = "") -> list[Derived]:
    """Values of a benchmark on the whole device that are ok."""
    return [
        v
        for v in values
        if v.benchmark == benchmark and v.status == "ok" and v.median and v.unit in ("", unit or v.unit)
        and v.place.compute_units is None
    ]  # fmt: skip


def llc_bytes(evidence: Evidence) -> InputQuantity | None:
    """Capacity of the last-level cache in bytes: bounds by chases, else by pchase, with the sheet's figure as the value if it
    lies within; else the sheet's figure. A driver's claim is not used: drivers of GPUs understate it up to twelve times."""
    sheet = evidence.sheet
    figure = next((sheet.figures[n] for n in ("l3_bytes", "l2_bytes") if n in sheet.figures), None) if sheet else None
    levels = [level.findings.get("size_bytes") for h in evidence.hierarchies for level in h.levels if level.name == "L2"]
    ends = [(f.low, f.high) for f in levels if f is not None and f.low and f.high]
    source = "size of the L2 by chase"
    if not ends:
        ends, source = (
            _pchase_bounds(evidence.values),
            ("from the last size on pchase's plateau before memory to the first with memory's latency"),
        )
    if ends:
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        value = figure.value if figure is not None and low <= figure.value <= high else (low * high) ** 0.5
        return InputQuantity(value, "B", source, low, high)
    return InputQuantity(figure.value, "B", f"sheet: {figure.source}") if figure is not None else None


def _pchase_bounds(values: Sequence[Derived]) -> list[tuple[float, float]]:
    """The largest working set on the last plateau before memory, and the smallest beyond which all have memory's latency."""
    curve = sorted((v.params["array_bytes"], v.cycles) for v in _chased_values(values, MIN_LLC_SET_BYTES, math.inf))
    if len(curve) < MIN_CURVE_POINTS:
        return []
    near, far = curve[0][1], curve[-1][1]
    cached = [size for size, cycles in curve if cycles <= MAX_PLATEAU_RATIO * near]
    memory = [size for size, cycles in curve if cycles < far / MAX_PLATEAU_RATIO]
    if far < MIN_MEMORY_RATIO * near or not memory or memory[-1] == curve[-1][0]:
        return []  # no step between them
    first = next(size for size, _ in curve if size > memory[-1])
    return [(float(max(cached)), float(first))]


def _cache_read(values: Sequence[Derived], holds: tuple[float, float]) -> list[Derived]:
    """Read bandwidths of shared sets of that many bytes; of each set and path the best number of work-items."""
    best: dict[object, Derived] = {}
    for v in usable_values(values, "cache_read", "GB/s"):
        size = v.params.get("set_bytes")
        if v.params.get("set") != "shared" or not isinstance(size, int) or not holds[0] <= size <= holds[1]:
            continue
        key = (size, v.params.get("path"))
        if key not in best or (best[key].median or 0) < (v.median or 0):
            best[key] = v
    return list(best.values())


def _ends(v: Derived) -> tuple[float, float, float]:
    assert v.median is not None
    return v.median, v.ci_low or v.median, v.ci_high or v.median


def noc_bandwidth(values: Sequence[Derived], llc: InputQuantity | None) -> InputQuantity | str:
    """Read bandwidth from the last-level cache, bypassing the first; or why it is unknown."""
    most = MAX_SHARED_SET_SHARE * (llc.value if llc is not None else 2 * MIN_SHARED_SET_BYTES / MAX_SHARED_SET_SHARE)
    read = _cache_read(values, (MIN_SHARED_SET_BYTES, most))
    source = f"cache_read, {len(read)} shared sets of 8 MiB to {most / MIB:.0f} MiB: from the L2 past L1"
    return value_range("noc_gb_s", map(_ends, read), source) or (
        "no read bandwidth of a shared set of 8 MiB or more that the last-level cache holds: run -b cache_read"
    )


def dram_bandwidth(values: Sequence[Derived], llc: InputQuantity | None) -> InputQuantity | str:
    """Read bandwidth of memory; or why it is unknown."""
    least = min(MIN_MEMORY_TO_CACHE_RATIO * (llc.ends[1] if llc is not None else 64 * MIB), MAX_MEMORY_SET_BYTES)
    read = _cache_read(values, (least, float("inf")))
    source = f"cache_read, {len(read)} shared sets of {least / MIB:.0f} MiB and more"
    return value_range("dram_gb_s", map(_ends, read), source) or (
        f"no read bandwidth of a shared set of {least / MIB:.0f} MiB or more: run -b cache_read"
    )


def level_findings(evidence: Evidence, name: str, finding: str) -> list[Finding]:
    """A finding of that name of each hierarchy's level of global memory, where it is ok and has an interval."""
    levels = [level for h in evidence.hierarchies for level in h.levels if level.name == name]
    findings = [level.findings.get(finding) for level in levels if level.space in ("global", "global_cg")]
    return [one for one in findings if one is not None and one.status == "ok" and one.low is not None and one.high is not None]


def _chased(values: Sequence[Derived], least: float, most: float) -> list[tuple[float, float, float]]:
    found = _chased_values(values, least, most)
    return [(v.cycles, v.cycles_low or v.cycles, v.cycles_high or v.cycles) for v in found if v.cycles]


def _chased_values(values: Sequence[Derived], least: float, most: float) -> list[Any]:
    """Latencies of pchase over arrays within these sizes, each line once, in cycles."""
    chased = [v for v in usable_values(values, "pchase") if v.cycles and v.params.get("spacing_bytes") == "line"]
    sizes = [v.params.get("array_bytes") for v in chased]
    return [v for v, size in zip(chased, sizes, strict=True) if isinstance(size, int) and least <= size <= most]


def llc_latency(evidence: Evidence) -> InputQuantity | str:
    """Latency of a hit in the last-level cache without contention; or why it is unknown."""
    name = "llc_latency_cycles"
    level, far = level_findings(evidence, "L2", "latency_cycles"), level_findings(evidence, "L2", "far_cycles")
    near = level_findings(evidence, "L2", "near_cycles")
    if level:
        ranges = [(float(one.value or 0), float(one.low or 0), float(one.high or 0)) for one in level]
        source = "chase past L1"
        if near and far:
            value = ranges[len(ranges) // 2][0]
            low = min(float(one.low or 0) for one in near)
            ranges = [(value, min(low, value), max(float(one.high or 0) for one in far))]
            source += "; from the near partition's to the far one's (l2_map)"
        found = value_range(name, ranges, source)
    else:
        llc = llc_bytes(evidence)
        most = LLC_SET_SHARE * (llc.ends[0] if llc is not None else 16 * MIB / LLC_SET_SHARE)
        found = value_range(name, _chased(evidence.values, MIN_LLC_SET_BYTES, most), "pchase over sets that the L2 holds")
    return found or "no latency of the last-level cache: measure it with clmembench topology, or run -b pchase"


def dram_latency(evidence: Evidence, llc_latency: InputQuantity | str, llc: InputQuantity | None) -> InputQuantity | str:
    """Latency of memory beyond that of a hit: the difference of two latencies with intervals."""
    level = level_findings(evidence, "DRAM", "latency_cycles")
    ranges = [(float(one.value or 0), float(one.low or 0), float(one.high or 0)) for one in level]
    source = "chase of DRAM less that of the L2"
    if not ranges:
        least = 2 * (llc.ends[1] if llc is not None else 64 * MIB)
        ranges, source = _chased(evidence.values, least, float("inf")), "pchase of memory less that of the L2"
    whole = value_range("dram_latency_cycles", ranges, source)
    if whole is None or isinstance(llc_latency, str):
        return "no latency of memory, or none of the last-level cache: measure them with clmembench topology"
    low, high = whole.ends
    # a miss crosses the same partition as a hit, so the far one's latency cancels in the difference
    least = max(0.0, low - min(llc_latency.ends[1], llc_latency.value + (llc_latency.value - llc_latency.ends[0])))
    value = max(0.0, whole.value - llc_latency.value)
    return InputQuantity(value, whole.unit, source, min(least, value), max(high - llc_latency.ends[0], value))


def miss_ratio(footprint_bytes: int, llc: InputQuantity | None) -> tuple[float, float, float]:
    """The share of uniformly random accesses to a footprint that miss a cache of that size: lowest, middle and highest."""
    if llc is None:
        return 0.0, 0.5, 1.0
    low, high = llc.ends
    lowest, middle, highest = (max(0.0, 1 - size / footprint_bytes) for size in (high, llc.value, low))
    return lowest, middle, highest
