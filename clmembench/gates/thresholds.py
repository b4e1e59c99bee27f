"""Thresholds of the gates, each with its reason: those on one record, those on a run, those between commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PointThresholds:
    """Thresholds on the samples of one record."""

    max_event_share: float = 1.05  # event time over host time: more is no rounding
    min_event_share: float = 0.5  # of the host time that launching does not explain: less is a clock of another unit
    wait_ns: float = 1e6  # host time of a sample that waiting may take besides its kernels
    launch_ns: float = 1e5  # host time of a pass that launching may take
    max_drift: float = 0.20  # relative drift of the core clock: no wider interval covers more
    max_fall: float = 0.05  # share of the time by which more work may be faster: removed work takes the same at both ends
    max_curvature: float = 0.10  # relative growth of time beyond proportion: both ends met the same caches and clock
    min_cycles: float = 1.0  # of an operation that no core overlaps with the next
    min_chain_cycles: float = (
        0.9  # of an instruction in a chain: those of one cycle are measured as 1, give or take the clock's
    )


@dataclass(frozen=True, slots=True)
class RunThresholds:
    """Thresholds on the values of one run, against what is known of the device and against each other."""

    min_units_used: float = 0.75  # share of the compute units asked for: uneven work and a launch's idle ends explain it
    wake_ns: float = 25_000  # for each unit of a pass that waking its thread may take: short passes end before all are at work
    max_wait_share: float = 0.13  # of its time without a CPU: work that waited less takes 15% longer at most
    max_others_share: float = 0.2  # of all CPUs: more is no service of the host, and shares caches, memory and the clock
    min_blamed_share: float = 0.5  # of a wait: others ran for so long, unless it is waking or a thread of one's own
    max_units_used: float = 1.15  # beyond it other threads ran
    max_peak_share: float = 1.02  # of a theoretical peak: more than rounding of the sheet's figures explains
    min_clock_ratio: float = 0.1  # of the clock that the driver claims: an idle or capped clock stays above it
    max_clock_ratio: float = 2.0  # boost goes beyond the claim, which is often of the base clock
    max_smaller_over_larger: float = 1.25  # latency of a smaller working set over that of a larger one, noise included
    min_time_ratio: float = 0.7  # time of work over that of at most half as much
    min_bandwidth_fall: float = 1.5  # between two footprints: a fall that a rise of latency must explain
    min_latency_rise: float = 1.15  # the least rise that explains it


@dataclass(frozen=True, slots=True)
class ImpossibleThresholds:
    """Bounds that no hardware reaches, each several times what any does: they need no sheet, and catch amounts of work that
    were never done. Those a cycle are of a compute unit as OpenCL counts them, at twice the clock that was measured or is
    claimed."""

    max_a_cycle: Mapping[str, int] = field(
        default_factory=lambda: {
            "nbytes": 1024,  # L1 and local memory: 128 on NVIDIA and AMD, 512 on Intel's Xe cores, 192 of a CPU's core
            "flops": 16384,  # vectors 256, matrix instructions of FP8 8,192 on Hopper and 16,384 on Blackwell
            "ops": 8192,  # of any kind; atomics 32 to 64
        }
    )
    max_a_ns: Mapping[str, float] = field(
        default_factory=lambda: {
            "nbytes": 1e6,  # 1 PB/s: all L1 of the largest GPUs give 0.08
            "flops": 1e8,  # 100 PFLOP/s: the largest GPUs give 0.1 in these types
            "ops": 1e8,
        }
    )
    max_clock_ghz: float = 7.0  # where no clock is known: processors reach 6.2
    min_claimed_ghz: float = 0.1  # a claim of 0 or 1 MHz means that the driver has no clock rate
    min_cycles: float = 1.0  # of a step that waits for the one before
    min_call_ns: float = 5.0  # of a driver's or a library's function: the shortest do nothing and take 30
    max_link_gb_s: float = 10_000.0  # NVLink carries 1,800, and memory that host and device share 5,300


@dataclass(frozen=True, slots=True)
class CommandThresholds:
    """Thresholds between what several commands say of one device."""

    max_held_share: float = 0.5  # of a level's least size: a smaller set is held by it, wherever its lines fall
    untranslated_bytes: int = 64 << 10  # 16 of the smallest pages, which every TLB holds
    max_walks: float = 2.0  # times memory and all TLB penalties found: page walks that miss caches cost no more


@dataclass(frozen=True, slots=True)
class AgreementThresholds:
    """Thresholds between values of one run that measure one quantity."""

    min_share: float = 0.9  # of the better value: moments and orders of access of one run differ by as much
    min_roof_share: float = 0.98  # of a kernel that only has to stay below: it exceeds no roof
    same_units_share: float = 0.9  # of compute units at work: fewer are a reason
    launch_ends_ns: float = 5e3  # of a pass, by the device's clock: its first and last work-groups run alone
    host_launch_ns: float = 3e4  # of a pass, by the host's clock: the launch and the wait for it
    min_after_launch: float = 0.5  # of the better value: one that is mostly launching is no bandwidth
    min_host_share: float = 0.8  # between processes by the host's clock: launches took 10.7 and 12.3 us beside an H100
    min_launch_share: float = 0.005  # of a pass: less explains nothing
    min_memory_to_cache_ratio: float = 4  # times the cache as stated: what lies in memory, by STREAM's rule
    min_data_share: float = 0.9  # of another's data: what is over less may be faster by caches
    min_memory_bytes: float = 256 << 20  # of such data at least: drivers claim a core's cache for a socket's of 100 MB and more


POINT, RUN, COMMANDS = PointThresholds(), RunThresholds(), CommandThresholds()
IMPOSSIBLE, AGREEMENT = ImpossibleThresholds(), AgreementThresholds()
