"""Misses that a compute unit has in flight at once, from the time of a round of independent loads over their lines."""

from __future__ import annotations

from clmembench.benchmarks import axis, axis_of, benchmark
from clmembench.benchmarks.subgroup import sub_group_width
from clmembench.model import Device, DeviceInfo, Metric, Skip, Slope
from clmembench.studies.memory_divergence.benchmarks.memory_divergence import (
    LINE_BYTES,
    NO_SUB_GROUPS,
    WORD_BYTES,
    DivergenceShape,
    near_bytes,
    prepare_intervals,
)

SECTOR_WORDS = 8  # 32 B, what NVIDIA's caches fill
MAX_LOADS = 4  # independent loads of a work-item, if work-items alone are too few
ROUND = Metric("round", "ns", "ops", "slope", "lower", cycles=True)
LINE_RATE = Metric("sector_bandwidth", "GB/s", "nbytes", "slope_rate", "higher")


def line_counts(info: DeviceInfo) -> tuple[int, ...]:
    """Powers of two, and three between each two of them from 32 on, as far as one work-group's loads reach."""
    most = MAX_LOADS * info.max_work_group
    counts = [1, 2, 4, 8, 16] + [n * (1 << k) for k in range(3, 11) for n in (4, 5, 6, 7)]
    return tuple(n for n in counts if n <= most)


@benchmark(
    ROUND,
    LINE_RATE,
    suite="memory",
    source="this project; the memory-level parallelism that Wang et al. 2019 call the number of MSHRs (table 1)",
    adaptive=True,  # `model measure` and `model validate` plan its points
    figure_axis="lines",
    lines=axis_of(line_counts),
    sectors=axis(1, 4),
    footprint_bytes=axis_of(lambda info: (near_bytes(info),)),
)
def mlp(device: Device, lines: int, sectors: int, footprint_bytes: int) -> Slope:
    """Time of a round of loads from distinct lines by one compute unit, over the number of lines.

    One work-group reads `lines` lines of 128 B at random places, `sectors` words of each that lie 32 B apart; the next round
    waits for all of them. While all are in flight at once, a round takes the latency of one load; beyond the knee, further
    lines wait. If 4 sectors per line reach no more bytes per time than 1 sector, a bandwidth is the limit, and the knee is a
    lower bound. The metrics count rounds, and sectors of 32 B. Raises Skip on devices without sub-groups in lockstep."""
    info = device.info
    if info.has_cpu_cores:
        raise Skip(NO_SUB_GROUPS)
    width = sub_group_width(info)
    items, loads = lines * sectors, 1
    while items > info.max_work_group and items % 2 == 0 and loads < MAX_LOADS:
        items, loads = items // 2, 2 * loads
    if items > info.max_work_group or sectors not in (1, 2, 4):
        raise Skip(f"{lines} lines of {sectors} sectors are over {MAX_LOADS} loads of {info.max_work_group} work-items")
    region_lines = footprint_bytes // LINE_BYTES // (width // sectors)
    if region_lines < 2 or region_lines & (region_lines - 1):
        raise Skip(f"a footprint of {footprint_bytes} B is no power of two with lines for a sub-group: choose another")
    shape = DivergenceShape(1, items, width, sectors, SECTOR_WORDS, region_lines)
    return prepare_intervals(device, shape, 0, loads, 0, lines * sectors * SECTOR_WORDS * WORD_BYTES)
