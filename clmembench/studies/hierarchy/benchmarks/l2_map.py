"""Location of lines in the last-level cache: latency from each compute unit to each line; on CPUs from one core."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import LATENCY, MIB, axis_of, benchmark, line_bytes, telling_count
from clmembench.benchmarks.pchase import STEPS_PER_BLOCK, Chase
from clmembench.model import Array, Command, Device, DeviceInfo, Fill, Launch, Read, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

LINES = 256
SPREAD_BYTES = 16 * MIB  # eight pages of 2 MiB: within any TLB
NODE_SPACING_BYTES = 128  # no two nodes in one line
# Accesses to a line. On a ring of four nodes no single number of accesses reveals every kind of omission, but both ends of the
# slope together do: the near one reveals that every second to eighth is left out, the far one, 3 over a multiple of 32, that
# only these are made.
NEAR_END_STEPS = 21
FAR_MULTIPLE, FAR_REST = 32, 3
MAX_STEPS = 1 << 16  # a unit's row is one launch, which must not block the device for seconds
MAX_POLLS = 20_000
GROUPS_PER_UNIT = 8  # enough that each unit gets one, few enough that all run at once
UNMEASURED_UNIT = 0xFF  # marks a row that no work-group measured
MIN_CPU_CACHE_BYTES = 4 * MIB  # a smaller one may be a core's own cache
MAX_CPU_SET_BYTES = 16 * MIB  # beyond a core's own caches, without laps of seconds
SEED = 20170101
MAX_TIME_S = 6.0  # a pair of samples takes 0.43 s on 132 compute units, one after another


def random_line_offsets(seed: int, array_bytes: int = SPREAD_BYTES, lines: int = LINES) -> Array:
    """Sorted byte offsets of lines at random places, shape (lines,), uint32. No two lie in one line, and no stride prefers one
    slice of a hashed cache."""
    places = np.random.default_rng(seed).choice(array_bytes // NODE_SPACING_BYTES, lines, replace=False)
    return (np.sort(places) * NODE_SPACING_BYTES).astype(np.uint32)


def _accesses(info: DeviceInfo) -> tuple[str, ...]:
    return ("load",) if info.kind == "cpu" else ("load", "atomic")


def _defines(access: str, ptx: int = 1) -> dict[str, Value]:
    return {"LINES": LINES, "PATIENCE": MAX_POLLS, "PTX": ptx, "ATOMIC": int(access == "atomic")}


@benchmark(
    LATENCY,
    suite="memory",
    source="Mei & Chu 2015, section 4.6 (L2), seen from each compute unit by %smid of NVIDIA's PTX",
    max_time_s=MAX_TIME_S,
    access=axis_of(_accesses, needs={"atomic": ["ptx"]}),
)
def l2_map(device: Device, access: str) -> Slope:
    """Latency of last-level cache hits from every compute unit to each of 256 lines, which shows the slices near each unit.

    NVIDIA: one work-item at a time, on each compute unit in turn, accesses each line `ops / units / lines` times past L1;
    nothing else runs, so accesses do not queue. Stored are the ticks of each line (a row for each compute unit, whose number is
    in `unit`); the metric is the mean over all by the device's own clock. `atomic` accesses are performed in a line's home
    slice, while a load may find a nearer copy. CPUs: the metric is the latency of the core that the process is pinned to, over
    a set of half of the last cache, at most 16 MiB. Raises Skip for other devices.
    """
    if device.info.kind == "cpu":
        return _prepare_cpu_core(device)
    if "ptx" not in device.info.features:
        raise Skip("no inline PTX: OpenCL C has no builtin for the compute unit of a work-item, nor for its time")
    return prepare_gpu_map(device, access)


def prepare_gpu_map(device: Device, access: str, ptx: int = 1) -> Slope:
    """The map of a device with readable compute unit numbers; with `ptx` 0, in tests, work-groups stand for units."""
    kernels = device.build(kernel_source("l2_map"), **_defines(access, ptx))
    groups = GROUPS_PER_UNIT * device.info.compute_units
    targets = units_of_groups(device, groups, kernels["units"])
    rows = targets.size
    memory, offset = device.alloc(SPREAD_BYTES), device.alloc(4 * LINES)
    unit, wrong = device.alloc(4 * rows), device.alloc(4 * rows)
    arrived, claimed = device.alloc(4 * rows), device.alloc(4 * rows)
    ticks = device.alloc(4 * rows * LINES)
    device.upload(offset, random_line_offsets(SEED + device.seed))
    device.run([Launch(kernels["make_rings"], (memory, offset), (LINES,))])
    args = (memory, offset, unit, ticks, arrived, claimed, wrong)
    reset: tuple[Command, ...] = (Fill(unit, 4 * rows, UNMEASURED_UNIT), Fill(arrived, 4 * rows), Fill(claimed, 4 * rows))

    def check() -> None:
        """Verifies the loads; readers ignore rows that no work-group measured, but most must be there."""
        ran = device.download(unit, np.uint32, rows)
        lost = device.download(wrong, np.uint32, rows)
        measured = ran == targets
        assert measured.mean() > 0.5, f"only {measured.sum()} of {rows} compute units were measured"
        assert not lost[measured].any(), f"{lost[measured].sum()} lines had fewer accesses, or one that led elsewhere"

    def work(least: int) -> Work:
        steps = NEAR_END_STEPS if least <= NEAR_END_STEPS else least + (FAR_REST - least) % FAR_MULTIPLE
        launches = [
            Launch(kernels["l2_map"], (*args, np.uint32(row), np.uint32(target), np.uint32(steps)), (groups,), (1,))
            for row, target in enumerate(targets)
        ]
        return Work(
            commands=tuple(launches),
            ops=rows * LINES * steps,
            before=reset,
            reads={"ticks": Read(ticks, "uint32", rows * LINES, "cycles"), "unit": Read(unit, "uint32", rows, "")},
            check=check,
        )

    return Slope(work, start=NEAR_END_STEPS, most=MAX_STEPS)


def units_of_groups(device: Device, groups: int, kernel: object) -> Array:
    """The numbers of the compute units that `groups` work-groups ran on, uint32, each once and sorted."""
    unit, arrived = device.alloc(4 * groups), device.alloc(4)
    device.upload(arrived, np.zeros(1, np.uint32))
    device.run([Launch(kernel, (unit, arrived), (groups,), (1,))])  # type: ignore[arg-type]
    return np.unique(device.download(unit, np.uint32, groups))


def _prepare_cpu_core(device: Device) -> Slope:
    """The slope on the core that this process is pinned to, over a random cycle in half of the last cache or 16 MiB, more than
    the core's own caches hold."""
    info = device.info
    if info.array_bytes is None and info.cache_bytes < MIN_CPU_CACHE_BYTES:
        size = f"{info.cache_bytes} B"
        raise Skip(f"the reported last cache has {size}, which may be a core's own cache: run -b l2_map with --size half of it")
    spacing = line_bytes(info)
    nodes = max(STEPS_PER_BLOCK, (info.array_bytes or min(info.cache_bytes // 2, MAX_CPU_SET_BYTES)) // spacing)
    chase = Chase.built(device, nodes, spacing, SEED + device.seed)
    lap_blocks = -(-nodes // STEPS_PER_BLOCK)
    held = () if info.compute_units == 1 else ("not pinned to a core: the latency of whichever core it ran on",)
    notes = (f"over {nodes * spacing} B in lines of {spacing} B", *held)

    def work(laps: int) -> Work:
        blocks = telling_count(laps * lap_blocks, nodes, STEPS_PER_BLOCK)

        def check() -> None:
            chase.verify(blocks * STEPS_PER_BLOCK)
            chase.verify_chain()
            device.run([chase.launch(blocks)])  # so that the cache holds the set again

        return Work(commands=(chase.launch(blocks),), ops=blocks * STEPS_PER_BLOCK, check=check, notes=notes)

    return Slope(work, start=1, most=1 << 16)
