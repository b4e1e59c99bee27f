"""Inputs of the memory divergence model from measurements: each with its interval, its source, or why it is not known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.model import DeviceInfo, Finding, Hierarchy
from clmembench.perfmodel.mdm.knee import Knee, knee
from clmembench.specs.mdm_inputs import UNITS, HardwareQuantities, HardwareSheet, Quantity
from clmembench.specs.sheets import SpecSheet

MIB = 1 << 20
MIN_SHARED_SET_BYTES = 8 * MIB  # of cache_read: loads of smaller sets by several compute units are merged before the L2
MAX_SHARED_SET_SHARE = 0.7  # of the last-level cache: larger sets miss it
MIN_MEMORY_TO_CACHE_RATIO = 8  # times the last-level cache: what lies in memory, but for an eighth of random accesses at most
MIN_LLC_SET_BYTES, LLC_SET_SHARE = 1 * MIB, 0.45  # of pchase: past any first cache, and within one of two partitions
SUB_GROUP_ITEMS = 32
NVIDIA_MAX_SUB_GROUPS = 64  # CUDA C Programming Guide, technical specifications: 64 warps of 32 an SM, CC 8.0 and 9.0
TURING_SCHEDULERS = 4  # same guide, architecture: 4 warp schedulers an SM, each issues one instruction a cycle, CC 7.x to 9.0
BLOCK_BYTES, SECTOR_BYTES = 128, 32


@dataclass(frozen=True, slots=True)
class MeasuredInputs:
    """The inputs that runs of one device give, by name; `missing` says of each other one why it is not known, and how to
    measure it. `llc_bytes` is how much the last-level cache holds, for miss ratios of random accesses."""

    name: str
    origin: str
    found: Mapping[str, Quantity]
    missing: Mapping[str, str]
    llc_bytes: Quantity | None

    def sheet(self) -> HardwareSheet:
        """The hardware. Raises ValueError naming what is missing."""
        if self.missing:
            raise ValueError("; ".join(f"{name}: {why}" for name, why in self.missing.items()))
        return HardwareSheet(self.name, self.origin, HardwareQuantities(**self.found))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runs of one device hold: judged values of all, hierarchies of those that have one, the device and its sheet."""

    info: DeviceInfo
    values: Sequence[Derived]
    hierarchies: Sequence[Hierarchy]
    sheet: SpecSheet | None
    origin: str


def measured_inputs(evidence: Evidence) -> MeasuredInputs:
    """Every input, or why it is missing."""
    llc = _llc_bytes(evidence)
    clock = _clock(evidence.values)
    latency = _llc_latency(evidence)
    noc = _noc(evidence.values, llc)
    made: dict[str, Quantity | str] = {
        "compute_units": Quantity(evidence.info.compute_units, UNITS["compute_units"], "the driver"),
        "clock_ghz": clock,
        "noc_gb_s": noc,
        "dram_gb_s": _dram(evidence.values, llc),
        "llc_latency_cycles": latency,
        "dram_latency_cycles": _dram_latency(evidence, latency, llc),
        "mshrs": _mshrs(evidence, noc, latency, clock),
        **_issue(evidence, clock),
        "block_bytes": _line(evidence, "line_bytes", BLOCK_BYTES, "the model's block"),
        "sector_bytes": _line(evidence, "sector_bytes", SECTOR_BYTES, "NVIDIA's GPUs since Maxwell fill sectors of 32 B"),
    }
    found = {name: one for name, one in made.items() if isinstance(one, Quantity)}
    missing = {name: one for name, one in made.items() if isinstance(one, str)}
    return MeasuredInputs(evidence.info.name, evidence.origin, found, missing, llc)


def _range(name: str, ranges: Iterable[tuple[float, float, float]], source: str) -> Quantity | None:
    """The middle of several values, from the lowest to the highest end of their intervals."""
    found = sorted(ranges)
    if not found:
        return None
    value = found[len(found) // 2][0]
    low, high = min(one[1] for one in found), max(one[2] for one in found)
    return Quantity(value, UNITS[name], source, min(low, value), max(high, value))


def _good(values: Sequence[Derived], benchmark: str, unit: str = "") -> list[Derived]:
    return [
        v
        for v in values
        if v.benchmark == benchmark and v.status == "ok" and v.median and v.unit in ("", unit or v.unit)
        and v.place.compute_units is None
    ]  # fmt: skip


def _clock(values: Sequence[Derived]) -> Quantity | str:
    clocks = sorted(v.ghz for v in values if v.ghz and v.status == "ok")
    if not clocks:
        return "no point has the core's clock: measure on a device whose in-kernel cycle counter works"
    spread = [(clock, clock, clock) for clock in clocks[len(clocks) // 20 : len(clocks) - len(clocks) // 20] or clocks]
    found = _range("clock_ghz", spread, f"dependent-ALU chain beside {len(clocks)} points; the middle 90% of them")
    assert found is not None
    return found


def _llc_bytes(evidence: Evidence) -> Quantity | None:
    """Bytes that the last-level cache holds: by the chases where they bound it, with the sheet's figure as the value if it
    lies within; else by the sheet; else by the driver, which on NVIDIA understates it."""
    bounds = [level.findings.get("size_bytes") for h in evidence.hierarchies for level in h.levels if level.name == "L2"]
    ends = [(f.low, f.high) for f in bounds if f is not None and f.low and f.high]
    figure = next((evidence.sheet.figures[n] for n in ("l3_bytes", "l2_bytes") if n in evidence.sheet.figures), None) if (
        evidence.sheet is not None
    ) else None  # fmt: skip
    if ends:
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        value = figure.value if figure is not None and low <= figure.value <= high else (low * high) ** 0.5
        return Quantity(value, "B", "size of the L2 by chase", low, high)
    if figure is not None:
        return Quantity(figure.value, "B", f"sheet: {figure.source}")
    claimed = evidence.info.cache_bytes
    return Quantity(claimed, "B", "the driver's claim") if claimed > 4 * MIB else None


def _cache_read(values: Sequence[Derived], holds: tuple[float, float]) -> list[Derived]:
    """Read bandwidths of shared sets of that many bytes; of each set and path the best number of work-items."""
    best: dict[object, Derived] = {}
    for v in _good(values, "cache_read", "GB/s"):
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


def _noc(values: Sequence[Derived], llc: Quantity | None) -> Quantity | str:
    most = MAX_SHARED_SET_SHARE * (llc.value if llc is not None else 2 * MIN_SHARED_SET_BYTES / MAX_SHARED_SET_SHARE)
    read = _cache_read(values, (MIN_SHARED_SET_BYTES, most))
    source = f"cache_read, {len(read)} shared sets of 8 MiB to {most / MIB:.0f} MiB: from the L2 past L1"
    return _range("noc_gb_s", map(_ends, read), source) or (
        "no read bandwidth of a shared set of 8 MiB or more that the last-level cache holds: run -b cache_read"
    )


def _dram(values: Sequence[Derived], llc: Quantity | None) -> Quantity | str:
    least = MIN_MEMORY_TO_CACHE_RATIO * (llc.ends[1] if llc is not None else 64 * MIB)
    read = _cache_read(values, (least, float("inf")))
    source = f"cache_read, {len(read)} shared sets of {least / MIB:.0f} MiB and more"
    return _range("dram_gb_s", map(_ends, read), source) or (
        f"no read bandwidth of a shared set of {least / MIB:.0f} MiB or more: run -b cache_read"
    )


def _of_level(evidence: Evidence, name: str, finding: str) -> list[Finding]:
    levels = [level for h in evidence.hierarchies for level in h.levels if level.name == name]
    found = [level.findings.get(finding) for level in levels if level.space in ("global", "global_cg")]
    return [one for one in found if one is not None and one.status == "ok" and one.low is not None and one.high is not None]


def _chased(values: Sequence[Derived], least: float, most: float) -> list[tuple[float, float, float]]:
    found = []
    for v in _good(values, "pchase"):
        size = v.params.get("array_bytes")
        if v.cycles and isinstance(size, int) and least <= size <= most and v.params.get("spacing_bytes") == "line":
            found.append((v.cycles, v.cycles_low or v.cycles, v.cycles_high or v.cycles))
    return found


def _llc_latency(evidence: Evidence) -> Quantity | str:
    name = "llc_latency_cycles"
    level, far = _of_level(evidence, "L2", "latency_cycles"), _of_level(evidence, "L2", "far_cycles")
    near = _of_level(evidence, "L2", "near_cycles")
    if level:
        ranges = [(float(one.value or 0), float(one.low or 0), float(one.high or 0)) for one in level]
        source = "chase past L1"
        if near and far:
            value = ranges[len(ranges) // 2][0]
            low = min(float(one.low or 0) for one in near)
            ranges = [(value, min(low, value), max(float(one.high or 0) for one in far))]
            source += "; from the near partition's to the far one's (l2_map)"
        found = _range(name, ranges, source)
    else:
        llc = _llc_bytes(evidence)
        most = LLC_SET_SHARE * (llc.ends[0] if llc is not None else 16 * MIB / LLC_SET_SHARE)
        found = _range(name, _chased(evidence.values, MIN_LLC_SET_BYTES, most), "pchase over sets that the L2 holds")
    return found or "no latency of the last-level cache: measure it with clmembench topology, or run -b pchase"


def _dram_latency(evidence: Evidence, llc_latency: Quantity | str, llc: Quantity | None) -> Quantity | str:
    """What memory takes beyond a hit: the difference of two latencies, each within its interval."""
    level = _of_level(evidence, "DRAM", "latency_cycles")
    ranges = [(float(one.value or 0), float(one.low or 0), float(one.high or 0)) for one in level]
    source = "chase of DRAM less that of the L2"
    if not ranges:
        least = 2 * (llc.ends[1] if llc is not None else 64 * MIB)
        ranges, source = _chased(evidence.values, least, float("inf")), "pchase of memory less that of the L2"
    whole = _range("dram_latency_cycles", ranges, source)
    if whole is None or isinstance(llc_latency, str):
        return "no latency of memory, or none of the last-level cache: measure them with clmembench topology"
    low, high = whole.ends
    # a miss passes the same partition as a hit, so the far one's latency is in both and not in the difference
    least = max(0.0, low - min(llc_latency.ends[1], llc_latency.value + (llc_latency.value - llc_latency.ends[0])))
    value = max(0.0, whole.value - llc_latency.value)
    return Quantity(value, whole.unit, source, min(least, value), max(high - llc_latency.ends[0], value))


def _mshrs(evidence: Evidence, noc: Quantity | str, latency: Quantity | str, clock: Quantity | str) -> Quantity | str:
    found = knee(evidence.values)
    if found.lines is not None:
        high = found.lines.high if not found.bound else max(found.lines.high, _most_lines(evidence))
        source = f"mlp: {found.reason}" if found.reason else "mlp: knee of the time of a round over its lines"
        bound = "lower" if found.bound else ""
        return Quantity(found.lines.value, UNITS["mshrs"], source, found.lines.low, high, bound)  # type: ignore[arg-type]
    return _mshrs_by_little(evidence, found, noc, latency, clock)


def _mshrs_by_little(
    evidence: Evidence, found: Knee, noc: Quantity | str, latency: Quantity | str, clock: Quantity | str
) -> Quantity | str:
    """A lower bound: what must be in flight at the bandwidth that was reached, at a latency that load only makes longer."""
    if isinstance(noc, str) or isinstance(latency, str) or isinstance(clock, str):
        return f"{found.reason}; and no bandwidth or latency gives a bound: clmembench model measure -d DEVICE"
    a_line = BLOCK_BYTES * evidence.info.compute_units * clock.value
    lines = noc.value * latency.value / a_line
    source = "a lower bound by Little's law: bandwidth from the L2 x its latency; mlp was not measured, which finds the knee"
    return Quantity(lines, UNITS["mshrs"], source, noc.ends[0] * latency.ends[0] / a_line, _most_lines(evidence), "lower")


def _most_lines(evidence: Evidence) -> float:
    """Lines that the first cache has room for: no more can be on their way into it."""
    sizes = [float(one.high or 0) for one in _of_level(evidence, "L1", "size_bytes")]
    figure = evidence.sheet.figures.get("l1_bytes") if evidence.sheet is not None else None
    return (max(sizes) if sizes else figure.value if figure is not None else 256 << 10) / BLOCK_BYTES


def _issue(evidence: Evidence, clock: Quantity | str) -> dict[str, Quantity | str]:
    """Schedulers and residency. Measured multiply-adds a cycle give what the schedulers issue at least, where they are known."""
    per = Quantity(1, UNITS["issue_per_scheduler"], "counted with the schedulers")
    info = evidence.info
    most: Quantity | str = "the driver does not say how many sub-groups a compute unit can hold"
    issue: Quantity | str = "no rate of multiply-adds in float: run -b arithmetic -a dtype=float"
    if "nvidia" in info.features:
        guide = "CUDA C Programming Guide, technical specifications (compute capability 7.0 and later)"
        most = Quantity(NVIDIA_MAX_SUB_GROUPS, UNITS["max_sub_groups"], f"{guide}: at most 64 warps an SM; 32 to 48 on some")
        issue = Quantity(TURING_SCHEDULERS, UNITS["schedulers"], f"{guide}: 4 schedulers an SM, one instruction a cycle each")
    rates = [v for v in _good(evidence.values, "arithmetic", "GFLOP/s") if v.params.get("dtype") == "float"]
    if rates and isinstance(clock, Quantity):
        best = max(rates, key=lambda v: v.median or 0)
        width = (best.median or 0) / (2 * SUB_GROUP_ITEMS * info.compute_units * (best.ghz or clock.value))
        issue = Quantity(
            round(width, 3), UNITS["schedulers"], "arithmetic, multiply-adds in float: instructions a cycle and compute unit",
            round(width, 3), max(round(width, 3), issue.value if isinstance(issue, Quantity) else 0.0),
        )  # fmt: skip
    return {"schedulers": issue, "issue_per_scheduler": per, "max_sub_groups": most}


def _line(evidence: Evidence, finding: str, default: int, why: str) -> Quantity:
    name = "block_bytes" if finding == "line_bytes" else "sector_bytes"
    found = _of_level(evidence, "L1", finding)
    if found:
        return Quantity(float(found[0].value or default), UNITS[name], f"L1 by chase: {found[0].method}")
    return Quantity(default, UNITS[name], why)


def miss_ratio(footprint_bytes: int, llc: Quantity | None) -> tuple[float, float, float]:
    """The share of uniformly random accesses to a footprint that miss a cache of that size: lowest, middle and highest."""
    if llc is None:
        return 0.0, 0.5, 1.0
    low, high = llc.ends
    lowest, middle, highest = (max(0.0, 1 - size / footprint_bytes) for size in (high, llc.value, low))
    return lowest, middle, highest
