"""Three hierarchies as an inference may return them: of a GPU, of a CPU, and of traces without a clock that is known."""

from __future__ import annotations

from dataclasses import replace

from clmembench.model import CacheLevel, DeviceInfo, Finding, Hierarchy, TlbLevel
from tests.builders import device

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HASHED = "the conflict sets grow with every stride: address bits are hashed, and no stride keeps to one set"
NO_CLOCK = "no clock serves inside a kernel, and single accesses are needed to tell policies apart"
UNITS = {"bytes": "B", "cycles": "cycles", "ns": "ns", "s": "GB/s"}


def known(name: str, value: float | str, low: float | None = None, high: float | None = None, **more: str) -> Finding:
    """A finding that is sure; its interval is the value itself where none is given."""
    number = None if isinstance(value, str) else value
    unit = more.pop("unit", UNITS.get(name.rsplit("_", 1)[-1], ""))
    ends = (number if low is None else low, number if high is None else high)
    return Finding(name, value, *ends, unit, "ok", more.pop("method", "whole laps"), ("chase-17", "chase-21"))


def unknown(name: str, reason: str, low: float | None = None, high: float | None = None) -> Finding:
    unit = UNITS.get(name.rsplit("_", 1)[-1], "")
    return Finding(name, None, low, high, unit, "undetermined", "whole laps", ("chase-3",), reason)


def level(name: str, space: str, *findings: Finding) -> CacheLevel:
    return CacheLevel(name, space, {f.name: f for f in findings})


def gpu() -> Hierarchy:
    l1 = level(
        "L1", "global", known("size_bytes", 233 * KIB, 205 * KIB, 256 * KIB), known("line_bytes", 128),
        known("sector_bytes", 32),
        unknown("ways", HASHED), unknown("sets", HASHED), unknown("policy", HASHED),
        known("latency_cycles", 32.2, 32.0, 32.4), known("latency_ns", 16.2, 16.1, 16.4),
    )  # fmt: skip
    near = level(
        "L2 near", "global", known("size_bytes", 22.5 * MIB, 19 * MIB, 25 * MIB), known("line_bytes", 128),
        known("sector_bytes", 32), unknown("ways", HASHED), unknown("sets", HASHED), unknown("policy", HASHED),
        known("latency_cycles", 273, 258, 290), known("latency_ns", 138, 131, 146), known("partitions", 2),
    )  # fmt: skip
    far = level(
        "L2 far", "global", known("size_bytes", 48.5 * MIB, 44 * MIB, 52 * MIB), known("latency_cycles", 492, 410, 575),
        known("latency_ns", 248, 207, 290), known("prefetch_bytes", 64),
    )  # fmt: skip
    dram = level(
        "DRAM", "global", known("latency_cycles", 690, 683, 702), known("latency_ns", 347, 344, 352),
        known("bandwidth_gb_s", 3070, 3062, 3079),
    )  # fmt: skip
    tlb = (
        TlbLevel("L1 TLB", {f.name: f for f in (
            known("reach_bytes", 32 * MIB, 28 * MIB, 34 * MIB), known("page_bytes", 2 * MIB), known("entries", 16, 14, 17),
            unknown("policy", "the penalty is smaller than the spread between the halves of the L2"),
            known("penalty_cycles", 27, 20, 35),
        )}),
        TlbLevel("L2 TLB", {f.name: f for f in (
            unknown("reach_bytes", "no knee up to 64 GiB, the largest allocation", 64 * GIB),
            unknown("entries", "no knee up to 64 GiB, the largest allocation", 32768),
        )}),
    )  # fmt: skip
    constant = (
        level("L1", "constant", known("size_bytes", 2 * KIB), known("line_bytes", 64), known("ways", 4), known("sets", 8),
              known("policy", "LRU"), known("latency_cycles", 27.0, 26.9, 27.2), known("latency_ns", 13.6, 13.5, 13.8)),
        level("L1.5", "constant", known("size_bytes", 64 * KIB, 62 * KIB, 64 * KIB), known("line_bytes", 256),
              known("latency_cycles", 86.1, 85.0, 88.0), known("latency_ns", 43.4, 43.0, 44.2)),
    )  # fmt: skip
    image = (
        level("L1", "image1d_buffer", known("size_bytes", 220 * KIB, 200 * KIB, 256 * KIB), known("line_bytes", 128),
              known("latency_cycles", 44.0, 43.5, 45.0), known("latency_ns", 22.2, 22.0, 22.8)),
    )  # fmt: skip
    local = level("local", "local", known("latency_cycles", 29.0, 28.9, 29.1), known("latency_ns", 14.6, 14.5, 14.8))
    cycles = {"P1": 32.2, "P2": 60.0, "P4": 492.0, "P5": 890.0}
    patterns = {
        name: known(f"latency_{name}", value, 0.97 * value, 1.04 * value, unit="cycles") for name, value in cycles.items()
    }
    patterns["P3"] = unknown("latency_P3", "the second TLB is never missed while the cache still hits")
    patterns["P6"] = unknown("latency_P6", "no page-table context is ever switched on this device")
    notes = ("private: the compiler keeps private arrays in registers, so nothing was chased there",)
    return Hierarchy((l1, near, far, dram), tlb, local, constant, image, dict(sorted(patterns.items())), notes)


def gpu_with_other_spaces() -> Hierarchy:
    """The same as `inferred` makes it of an H100: what was reached through other spaces stands among the levels, last."""
    known_gpu = gpu()
    others = (
        level("L1", "readonly", known("latency_cycles", 34.1, 34.0, 34.2)),
        level("L2", "readonly", known("latency_cycles", 273.0, 260, 290)),
        level("private", "private", known("latency_cycles", 36.2, 36.1, 36.3)),
    )
    arrays = (level("L1", "constant_array", known("latency_cycles", 27.0)),)
    return replace(known_gpu, levels=(*known_gpu.levels, *others), constant=(*arrays, *known_gpu.constant))


def gpu_device() -> DeviceInfo:
    return device(
        "NVIDIA H100 80GB HBM3", platform="NVIDIA CUDA", driver="580.159.04", compute_units=132, line_bytes=128,
        global_mem_bytes=int(79.2 * GIB), cache_bytes=132 * 32 * KIB, local_mem_bytes=48 * KIB,
    )  # fmt: skip


def cpu() -> Hierarchy:
    l1 = level(
        "L1", "global", known("size_bytes", 32 * KIB), known("line_bytes", 64), known("sector_bytes", 64), known("ways", 8),
        known("sets", 64), known("set_bits", "6-11"), known("policy", "tree-PLRU", method="random sequences"),
        known("latency_cycles", 4.08, 4.02, 4.15), known("latency_ns", 1.11, 1.09, 1.13),
        known("bandwidth_gb_s", 112.0, 109, 114),
    )  # fmt: skip
    l2 = level(
        "L2", "global", known("size_bytes", MIB, 0.97 * MIB, 1.02 * MIB), known("line_bytes", 64), known("ways", 8),
        known("sets", 2048), unknown("policy", NO_CLOCK), known("latency_cycles", 14.4, 14.1, 14.8),
        known("latency_ns", 3.91, 3.77, 4.08),
    )  # fmt: skip
    why = "knee at 8 MiB by whole laps, 11 MiB by the share of misses: neighbours use the same cache"
    size = Finding("size_bytes", 8 * MIB, 6.7 * MIB, 11 * MIB, "B", "inconsistent", "whole laps; misses", ("chase-40",), why)
    l3 = level(
        "L3", "global", size, unknown("ways", "neighbours evict lines while its sets are probed"),
        known("latency_cycles", 56.3, 50.7, 64.9), known("latency_ns", 15.3, 14.0, 17.7),
    )  # fmt: skip
    dram = level("DRAM", "global", known("latency_cycles", 653, 581, 691), known("latency_ns", 177, 158, 188))
    tlb = (
        TlbLevel("L1 TLB", {f.name: f for f in (
            known("entries", 72), known("page_bytes", 4 * KIB), known("reach_bytes", 288 * KIB), known("ways", 72),
            known("sets", 1), unknown("policy", NO_CLOCK), known("penalty_cycles", 7.1, 6.8, 7.4),
            known("penalty_ns", 1.9, 1.8, 2.1),
        )}),
    )  # fmt: skip
    return Hierarchy((l1, l2, l3, dram), tlb, notes=("image: the device has no images",))


def cpu_device() -> DeviceInfo:
    return device(
        "cpu-znver4-AMD EPYC 9R14", kind="cpu", platform="Portable Computing Language", driver="3.0-rc2", compute_units=2,
        line_bytes=64, cache_bytes=32 * MIB, local_mem_bytes=512 * KIB, global_mem_bytes=int(7.6 * GIB),
    )  # fmt: skip


def traces() -> Hierarchy:
    """Of somebody's traces: latencies in whatever unit they were recorded in."""
    few = "the traces hold one lap a size: too few misses"

    def recorded(value: float, low: float, high: float) -> Finding:
        return known("latency_cycles", value, low, high, unit="as recorded", method="per-access latencies")

    def not_ns() -> Finding:
        return unknown("latency_ns", "latencies are in the unit they were recorded in")

    l1 = level(
        "L1", "global", known("size_bytes", 16 * KIB, 16 * KIB, 16 * KIB + 128), known("line_bytes", 128),
        unknown("sector_bytes", few), unknown("ways", few, 2, 8), unknown("sets", few), unknown("policy", few),
        recorded(88, 86, 91), not_ns(),
    )  # fmt: skip
    beyond = level("DRAM", "global", recorded(512, 440, 690), not_ns())
    return Hierarchy((l1, beyond), notes=("global: no trace is longer than 1 MiB, so no TLB was looked for",))
