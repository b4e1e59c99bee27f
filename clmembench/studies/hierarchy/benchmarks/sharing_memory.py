"""Memory and kernels of cache_sharing: chains in regions of one buffer, of an image of it and of constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clmembench.benchmarks import line_bytes
from clmembench.benchmarks.pchase import random_cycle
from clmembench.model import Array, Buffer, Device, DeviceInfo, Kernel, Launch, Local, Skip
from clmembench.resources import kernel_source
from clmembench.studies.hierarchy.benchmarks.chase import COUNTER_CODES
from clmembench.studies.hierarchy.benchmarks.sharing_units import SLICE_BYTES, SLICE_NODES, constant_chain, constant_text

KIB = 1 << 10
CONSTANT_PATHS = ("constant", "constant_array")  # paths with little memory: sets are parts of one array
REGION_ALIGNMENT_BYTES = 64 * KIB  # all sets start at the same index of any first cache that is indexed by address
KEPT_BYTES = 8  # local memory that the kernel itself needs
SEED = 20260101


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes that walks visit: first node, bytes, steps of a lap, and the node at its end."""

    first: int
    nbytes: int
    steps: int
    end: int


@dataclass(frozen=True, slots=True)
class PathMemory:
    """The kernel, its first arguments, and the location of sets on paths to global memory and images: offset, bytes and second
    node of each."""

    kernel: Kernel
    args: tuple[Any, ...]
    regions: tuple[tuple[int, int, int], ...]
    stride_bytes: int
    constant_bytes: int

    def region(self, number: int) -> NodeSet:
        """The set of a region, on paths to global memory and images: a lap plus one step, since a lap ends where it begins and
        would verify nothing."""
        first, nbytes, second = self.regions[number]
        return NodeSet(first, nbytes, nbytes // self.stride_bytes + 1, second)

    def constants(self, first: int, nbytes: int) -> NodeSet:
        """A set of constants: whole slices where it does not begin at 0, else also a part of one."""
        return NodeSet(first, nbytes, nbytes // (SLICE_BYTES // SLICE_NODES), (first + nbytes) % self.constant_bytes)

    def launch(self, schedule: Buffer, count: int, local_bytes: int, ticks: Buffer, reached: Buffer) -> Launch:
        """The launch that makes `count` walks, while its work-group takes so much local memory."""
        kept = Local(max(KEPT_BYTES, local_bytes))
        return Launch(self.kernel, (*self.args, schedule, np.uint32(count), kept, ticks, reached), (1,), (1,))


def counter_code(info: DeviceInfo) -> int:
    """The counter that kernels read here, as TICKS; 0 where there is none."""
    return next((number for name, number in COUNTER_CODES.items() if name in info.features), 0)


def path_memory(device: Device, paths: Sequence[str], sizes: Sequence[int]) -> PathMemory:
    """The kernel and memory for these paths, with a random cycle in a separate region for each size. Raises Skip if the device
    lacks a path, or if one program cannot use both."""
    info = device.info
    ptx, images, array = "ptx" in info.features, "image1d_buffer" in paths, "constant_array" in paths
    if images and ("images" not in info.features or not info.image_buffer_texels):
        raise Skip("device has no images of a buffer")
    if "readonly" in paths and not ptx:
        raise Skip("without PTX the compiler chooses whether a load takes the read-only path")
    if array and "constant" in paths:
        raise Skip("a compiler that sees a pointer to constants beside an array of them may load both as global memory")
    stride = line_bytes(info)
    starts, cells = region_cells(sizes, stride, SEED + device.seed)
    if images and cells.size > info.image_buffer_texels:
        raise Skip(f"{cells.nbytes} B do not fit into one such image")
    held = constant_chain(info, SEED + device.seed)
    kernels = device.build(
        (constant_text(held) if array else "") + kernel_source("cache_sharing"),
        PTX=int(ptx),
        IMAGES=int(images),
        ARRAY=int(array),
        UNITS=0,
        TICKS=counter_code(info),
        FENCE="fence" in info.features,
    )
    arena = device.alloc(cells.nbytes)
    device.upload(arena, cells)
    args: list[Any] = [arena] + [device.image(cells, "1d_buffer")] * images
    if not array:
        constants = device.alloc(held.nbytes)
        device.upload(constants, held)
        args.append(constants)
    return PathMemory(kernels["walks"], tuple(args), starts, stride, held.nbytes)


def schedule_words(walks: Sequence[tuple[int, int, int]]) -> Array:
    """The kernel's schedule: (path, first node, steps) of each walk, in words of four."""
    words = np.zeros((len(walks), 4), np.uint32)
    words[:, :3] = walks
    return words


def region_cells(sizes: Sequence[int], stride_bytes: int, seed: int) -> tuple[tuple[tuple[int, int, int], ...], Array]:
    """Offset, bytes and second node of a region for each size, and the words of all: in each a random cycle over its lines, a
    line holding the offset of the next. The bytes are whole lines."""
    regions, at = [], 0
    for nbytes in sizes:
        lines = max(1, nbytes // stride_bytes)
        regions.append((at, lines * stride_bytes))
        at += -(-lines * stride_bytes // REGION_ALIGNMENT_BYTES) * REGION_ALIGNMENT_BYTES
    cells = np.zeros(max(at, REGION_ALIGNMENT_BYTES) // 4, np.uint32)
    for number, (first, nbytes) in enumerate(regions):
        following = random_cycle(nbytes // stride_bytes, seed + number)[1].astype(np.uint32)
        cells[(first + stride_bytes * np.arange(following.size)) // 4] = first + stride_bytes * following
    return tuple((first, nbytes, int(cells[first // 4])) for first, nbytes in regions), cells


def require_nodes(reached: Array, wanted: Sequence[int]) -> None:
    """Raises AssertionError if a walk did not end at the expected node."""
    wrong = int((reached != np.array(wanted, np.uint32)).sum())
    assert wrong == 0, f"{wrong} of {len(wanted)} walks did not end at the expected node"
