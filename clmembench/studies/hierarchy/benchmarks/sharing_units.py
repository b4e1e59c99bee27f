"""Units that share the second-level constant cache: the array of slices, and which of them a unit still finds."""

from __future__ import annotations

import numpy as np

from clmembench.model import Array, Command, Device, DeviceInfo, Fill, Launch, Read, Skip, Work
from clmembench.resources import kernel_source
from clmembench.studies.hierarchy.benchmarks.l2_map import GROUPS_PER_UNIT, MAX_POLLS, units_of_groups

SEED = 20260101
SLICE_BYTES = 1 << 10  # a multiple of any line of a constant cache
SLICE_NODES = 16  # 64 B apart: the smallest line of a constant cache
MIN_SLICES = 4  # one to keep, and more to evict it
MAX_CONSTANT_BYTES = 56 << 10  # drivers refuse part of the 64 KiB that they report


def prepare_units(device: Device, ptx: int = 1) -> Work:
    """A pass over all compute units as sources, after a control without a source; with `ptx` 0, in tests, work-groups stand for
    units.

    Stored are the numbers of the units (`units`), by rows of (control, source 0, 1, ...) the ticks of each unit's walk through
    a slice (`ticks`; 0: the source itself, or not in time), and the ticks of the source's two laps over all slices
    (`source_ticks`); `steps` has the loads of a slice and of a lap. Slices are visited for the first time in a launch, which
    starts with empty constant caches; the control verifies this. Raises Skip for devices without readable unit numbers."""
    info = device.info
    if info.has_cpu_cores:
        raise Skip("on CPUs the system reports which cores share a cache (sysfs); a kernel cannot choose two cores")
    if ptx and "ptx" not in info.features:
        raise Skip("no inline PTX: OpenCL C has no builtin for the compute unit of a work-item")
    return units_work(device, ptx)


def units_work(device: Device, ptx: int = 1) -> Work:
    """The pass of `prepare_units` on any device."""
    chain = constant_chain(device.info, SEED + device.seed)
    slices = chain.nbytes // SLICE_BYTES
    kernels = device.build(
        constant_text(chain) + kernel_source("cache_sharing"),
        PTX=ptx,
        IMAGES=0,
        ARRAY=1,
        UNITS=1,
        TICKS=ptx,
        FENCE=0,
        PATIENCE=MAX_POLLS,
        SLICES=slices,
        SLICE_BYTES=SLICE_BYTES,
        SLICE_NODES=SLICE_NODES,
    )
    groups = GROUPS_PER_UNIT * device.info.compute_units
    numbers = units_of_groups(device, groups, kernels["units"])
    count, limit = numbers.size, int(numbers.max()) + 1
    batches = -(-count // slices)
    launches = (count + 1) * batches
    place = device.alloc(4 * limit)
    places = np.full(limit, count, np.uint32)
    places[numbers] = np.arange(count)
    device.upload(place, places)
    arrived, claimed, walked = device.alloc(4 * launches), device.alloc(4 * launches * limit), device.alloc(4 * launches)
    cells = (count + 1) * count
    ticks, reached, laps = device.alloc(4 * cells), device.alloc(4 * cells), device.alloc(8 * (count + 1))
    names, steps = device.alloc(4 * count), device.alloc(8)
    device.upload(names, numbers)
    device.upload(steps, np.array([SLICE_NODES, SLICE_NODES * slices], np.uint32))
    reset: tuple[Command, ...] = (
        Fill(arrived, 4 * launches), Fill(claimed, 4 * launches * limit), Fill(walked, 4 * launches),
        Fill(ticks, 4 * cells), Fill(reached, 4 * cells), Fill(laps, 8 * (count + 1)),
    )  # fmt: skip
    commands = []
    for row, source in enumerate([limit, *numbers.tolist()]):
        for batch in range(batches):
            values = map(np.uint32, (count, source, row, batch * slices, row * batches + batch))
            args = (place, *values, arrived, claimed, walked, ticks, laps, reached, np.uint32(limit))
            commands.append(Launch(kernels["shared_units"], args, (groups,), (1,)))

    def check() -> None:
        """Verifies the end of every walk; walks of units without a work-group may be missing, but not most of them."""
        right = device.download(reached, np.uint32, cells).reshape(count + 1, count)
        share = right.sum() / (count * count)
        assert share > 0.5, f"only {share:.0%} of the walks of compute units ended at the expected node"

    return Work(
        commands=tuple(commands),
        ops=SLICE_NODES * count * (count + 1) + 2 * count * SLICE_NODES * slices,
        before=reset,
        reads={
            "ticks": Read(ticks, "uint32", cells, "ticks"),
            "source_ticks": Read(laps, "uint32", 2 * (count + 1), "ticks"),
            "units": Read(names, "uint32", count, ""),
            "steps": Read(steps, "uint32", 2, ""),
        },
        check=check,
    )


def constant_room(info: DeviceInfo) -> int:
    """Bytes of the array. Raises Skip where the device has too little constant memory."""
    slices = min(MAX_CONSTANT_BYTES, info.constant_bytes) // SLICE_BYTES
    if slices < MIN_SLICES:
        raise Skip(f"{info.constant_bytes} B of constant memory are too few")
    return slices * SLICE_BYTES


def constant_chain(info: DeviceInfo, seed: int) -> Array:
    """The words of the array, uint32: a node holds the offset in bytes of the next. Each slice is entered at its first word and
    left for the next slice's, and the last leads to the first. Raises Skip where the device has too little constant memory."""
    slices = constant_room(info) // SLICE_BYTES
    rng, spacing = np.random.default_rng(seed), SLICE_BYTES // SLICE_NODES
    cells = np.zeros(slices * SLICE_BYTES // 4, np.uint32)
    for number in range(slices):
        order = np.concatenate([[0], 1 + rng.permutation(SLICE_NODES - 1)])
        places = number * SLICE_BYTES + spacing * order
        cells[places // 4] = np.append(places[1:], (number + 1) % slices * SLICE_BYTES)
    return cells


def constant_text(cells: Array) -> str:
    """The array as OpenCL C of program scope."""
    return f"constant uint chain_array[{cells.size}] = {{{','.join(map(str, cells.tolist()))}}};\n"
