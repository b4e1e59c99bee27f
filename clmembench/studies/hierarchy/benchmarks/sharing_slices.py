"""The array of constants that cache_sharing walks: slices, in each a chain in random order that leads into the next one."""

from __future__ import annotations

import numpy as np

from clmembench.model import Array, DeviceInfo, Skip

SLICE_BYTES = 1 << 10  # a multiple of any line of a constant cache
SLICE_NODES = 16  # 64 B apart: the smallest line of a constant cache
MIN_SLICES = 4  # one to keep, and more to evict it
MAX_CONSTANT_BYTES = 56 << 10  # drivers refuse part of the 64 KiB that they report


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
