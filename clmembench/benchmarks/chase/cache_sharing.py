"""Sharing of caches: between the paths of one compute unit, with its local memory, and between compute units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clmembench.benchmarks import axis, benchmark, line_bytes
from clmembench.benchmarks.chase.chase import COUNTER_CODES
from clmembench.benchmarks.chase.pchase import random_cycle
from clmembench.benchmarks.chase.sharing_slices import SLICE_BYTES, SLICE_NODES, constant_chain, constant_text
from clmembench.benchmarks.chase.sharing_units import prepare_units
from clmembench.model import Array, Device, DeviceInfo, Launch, Metric, Read, Skip, Value, Work
from clmembench.resources import kernel_source

KIB = 1 << 10
PATHS = {"global": 0, "readonly": 1, "image1d_buffer": 2, "constant": 3, "constant_array": 4}  # codes of cache_sharing.cl
CONSTANT_PATHS = ("constant", "constant_array")  # of little memory: sets are parts of one array
REGION_ALIGNMENT_BYTES = 64 * KIB  # sets begin alike in any first cache that indexes by address
GPU_FIT_BYTES = tuple(n * KIB for n in (2, 4, 8, 12, *range(16, 289, 16)))  # past the largest first cache there is, 256 KiB
CPU_FIT_BYTES = tuple(n * KIB for n in (4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192))  # past any core's L1
CONSTANT_FIT_BYTES = tuple(n * KIB for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48))
LAPS = 11  # readings of kernel `paths`
MAX_POLLS = 20_000
SEED = 20260101

PASS_TIME = Metric("pass_time", "ns", "ops", "cost", "lower")


@dataclass(frozen=True, slots=True)
class PathMemory:
    """The kernels, their first arguments, and where sets lie: offset and bytes of each on paths to global memory and images."""

    kernels: Mapping[str, Any]
    args: tuple[Any, ...]
    regions: tuple[tuple[int, int], ...]
    stride_bytes: int
    constant_bytes: int


@benchmark(
    PASS_TIME,
    suite="memory",
    source="Mei & Chu 2015, section 4; Wong et al. 2010, section V (constant L2 and L3 shared by a cluster)",
    adaptive=True,
    question=axis("fit", "paths", "units"),
    owner=axis(*PATHS, needs={"readonly": ["ptx"], "image1d_buffer": ["images"]}),
    other=axis("", *PATHS, needs={"readonly": ["ptx"], "image1d_buffer": ["images"]}),
    local_bytes=axis(0),
    array_bytes=axis(0),
    other_bytes=axis(0),
)
def cache_sharing(
    device: Device,
    question: str,
    owner: str = "global",
    other: str = "",
    local_bytes: int = 0,
    array_bytes: int = 0,
    other_bytes: int = 0,
) -> Work:
    """What shares storage: the paths of a compute unit, its local memory and first cache, and compute units among each other.

    One work-item makes dependent loads and times whole laps by the in-kernel counter; all numbers are stored as ticks, and the
    metric is only the time of a pass. question fit: the third lap of each of several sets on the path `owner`, while the
    work-group takes `local_bytes` of local memory: `ticks` and `steps` of each set, of `bytes`. question paths: laps of a set
    of `array_bytes` on the path `owner`, after other addresses of about `other_bytes` were visited on the same path (which must
    evict) or on the path `other`, and after an idle wait of that length; `ticks` as kernel `paths` numbers them. question units
    (NVIDIA): see sharing_units. Raises Skip where no counter can be read, or where the device lacks a path.
    """
    info = device.info
    if not _counter(info):
        raise Skip("no counter that a kernel can read was seen to work here, so single laps have no time")
    if question == "units":
        return prepare_units(device)
    if question == "fit":
        return _prepare_fit(device, owner, local_bytes)
    return _prepare_paths(device, owner, other, array_bytes, other_bytes)


def fit_sizes(info: DeviceInfo, path: str) -> tuple[int, ...]:
    """Bytes of the sets that are tried on a path."""
    if path in CONSTANT_PATHS:
        return CONSTANT_FIT_BYTES
    return CPU_FIT_BYTES if info.has_cpu_cores else GPU_FIT_BYTES


def _counter(info: DeviceInfo) -> int:
    return next((number for name, number in COUNTER_CODES.items() if name in info.features), 0)


def _prepare_fit(device: Device, path: str, local_bytes: int) -> Work:
    info = device.info
    if local_bytes and info.has_cpu_cores:
        raise Skip("local memory is ordinary memory here, cached as any other: it takes from no cache in particular")
    if local_bytes > info.local_mem_bytes - KIB:
        raise Skip(f"{local_bytes} B of local memory, of which there are {info.local_mem_bytes} B and some are the driver's")
    sizes = fit_sizes(info, path)
    memory = _path_memory(device, path, (), () if path in CONSTANT_PATHS else sizes, local_bytes)
    stride = SLICE_BYTES // SLICE_NODES if path in CONSTANT_PATHS else memory.stride_bytes
    firsts = [0] * len(sizes) if path in CONSTANT_PATHS else [first for first, _ in memory.regions]
    ends = [n % memory.constant_bytes for n in sizes] if path in CONSTANT_PATHS else firsts
    steps = [n // stride for n in sizes]
    ticks, reached = device.alloc(4 * len(sizes)), device.alloc(4 * len(sizes))
    counts, nbytes = device.alloc(4 * len(sizes)), device.alloc(4 * len(sizes))
    device.upload(counts, np.array(steps, np.uint32))
    device.upload(nbytes, np.array(sizes, np.uint32))

    def check() -> None:
        _require_nodes(device.download(reached, np.uint32, len(sizes)), ends)

    return Work(
        commands=tuple(
            Launch(
                memory.kernels["fit"],
                (*memory.args, *(np.uint32(n) for n in (PATHS[path], first, n_steps, row)), ticks, reached),
                (1,),
                (1,),
            )
            for row, (first, n_steps) in enumerate(zip(firsts, steps, strict=True))
        ),
        ops=3 * sum(steps),
        reads={
            "ticks": Read(ticks, "uint32", len(sizes), "ticks"),
            "steps": Read(counts, "uint32", len(sizes), ""),
            "bytes": Read(nbytes, "uint32", len(sizes), "bytes"),
        },
        outputs=((ticks, 4 * len(sizes)), (reached, 4 * len(sizes))),
        check=check,
    )


def _prepare_paths(device: Device, owner: str, other: str, array_bytes: int, other_bytes: int) -> Work:
    if other not in PATHS or other == owner:
        raise Skip(f"the other path must be another one than {owner}")
    if min(array_bytes, other_bytes) < SLICE_BYTES:
        raise Skip(f"sets of at least {SLICE_BYTES} B are needed")
    memory = _path_memory(device, owner, (other,), (array_bytes, other_bytes, other_bytes))
    first, own, far = (_set_on(memory, path, role) for path, role in ((owner, 0), (owner, 1), (other, 2)))
    if owner in CONSTANT_PATHS:
        held = -(-array_bytes // SLICE_BYTES) * SLICE_BYTES
        if held >= memory.constant_bytes:
            raise Skip(f"{array_bytes} B leave nothing of the {memory.constant_bytes} B of constants to evict them with")
        first, own = (0, held), (held, min(memory.constant_bytes - held, _slices(other_bytes)))
    if other in CONSTANT_PATHS:
        far = (0, min(memory.constant_bytes, _slices(other_bytes)))
    same = owner not in CONSTANT_PATHS and other not in CONSTANT_PATHS and "image1d_buffer" not in (owner, other)
    sets = [(path, *found) for path, found in ((owner, first), (owner, own), (other, far))]
    steps = [nbytes // _stride(memory, path) for path, _, nbytes in sets]
    ends = [(at + n) % memory.constant_bytes if path in CONSTANT_PATHS else at for path, at, n in sets]
    ticks, reached, counts = device.alloc(4 * LAPS), device.alloc(4 * LAPS), device.alloc(4 * 3)
    device.upload(counts, np.array(steps, np.uint32))
    numbers = (PATHS[owner], sets[0][1], steps[0], sets[1][1], steps[1], PATHS[other], sets[2][1], steps[2], int(same))

    def check() -> None:
        _require_nodes(device.download(reached, np.uint32, LAPS), [*[ends[0]] * 9, ends[1], ends[2]])

    return Work(
        commands=(Launch(memory.kernels["paths"], (*memory.args, *map(np.uint32, numbers), ticks, reached), (1,), (1,)),),
        ops=14 * steps[0] + steps[1] + steps[2],
        reads={"ticks": Read(ticks, "uint32", LAPS, "ticks"), "steps": Read(counts, "uint32", 3, "")},
        outputs=((ticks, 4 * LAPS), (reached, 4 * LAPS)),
        check=check,
    )


def _slices(nbytes: int) -> int:
    return max(SLICE_BYTES, nbytes // SLICE_BYTES * SLICE_BYTES)


def _stride(memory: PathMemory, path: str) -> int:
    return SLICE_BYTES // SLICE_NODES if path in CONSTANT_PATHS else memory.stride_bytes


def _set_on(memory: PathMemory, path: str, role: int) -> tuple[int, int]:
    return (0, 0) if path in CONSTANT_PATHS else memory.regions[role]


def _path_memory(device: Device, path: str, others: Sequence[str], sizes: Sequence[int], local_bytes: int = 0) -> PathMemory:
    """Kernels and memory for these paths, with a random cycle in a region of its own for each size. Raises Skip where the
    device lacks a path."""
    info = device.info
    used = (path, *others)
    ptx, images = "ptx" in info.features, "image1d_buffer" in used
    if images and ("images" not in info.features or not info.image_buffer_texels):
        raise Skip("device has no images of a buffer")
    if "readonly" in used and not ptx:
        raise Skip("without PTX the compiler chooses whether a load takes the read-only path")
    stride = line_bytes(info)
    starts, cells = region_cells(sizes, stride, SEED + device.seed)
    if images and cells.size > info.image_buffer_texels:
        raise Skip(f"{cells.nbytes} B do not fit into one such image")
    held = constant_chain(info, SEED + device.seed)
    kernels = device.build(
        constant_text(held if "constant_array" in used else held[: SLICE_BYTES // 4]) + kernel_source("cache_sharing"),
        PTX=int(ptx),
        IMAGES=int(images),
        TICKS=_counter(info),
        FENCE="fence" in info.features,
        LOCAL_WORDS=max(2, local_bytes // 4),
        PATIENCE=MAX_POLLS,
        SLICES=held.nbytes // SLICE_BYTES,
        SLICE_BYTES=SLICE_BYTES,
        SLICE_NODES=SLICE_NODES,
    )
    arena, constants = device.alloc(cells.nbytes), device.alloc(held.nbytes)
    device.upload(arena, cells)
    device.upload(constants, held)
    image = (device.image(cells, "1d_buffer"),) if images else ()
    return PathMemory(kernels, (arena, *image, constants), starts, stride, held.nbytes)


def region_cells(sizes: Sequence[int], stride_bytes: int, seed: int) -> tuple[tuple[tuple[int, int], ...], Array]:
    """Offset and bytes of a region for each size, and the words of all: in each a random cycle over its lines, a line
    holding the offset of the next. The bytes are whole lines."""
    regions, at = [], 0
    for nbytes in sizes:
        lines = max(1, nbytes // stride_bytes)
        regions.append((at, lines * stride_bytes))
        at += -(-lines * stride_bytes // REGION_ALIGNMENT_BYTES) * REGION_ALIGNMENT_BYTES
    cells = np.zeros(max(at, REGION_ALIGNMENT_BYTES) // 4, np.uint32)
    for number, (first, nbytes) in enumerate(regions):
        following = random_cycle(nbytes // stride_bytes, seed + number)[1].astype(np.uint32)
        cells[(first + stride_bytes * np.arange(following.size)) // 4] = first + stride_bytes * following
    return tuple(regions), cells


def _require_nodes(reached: Array, wanted: Sequence[int]) -> None:
    wrong = int((reached != np.array(wanted, np.uint32)).sum())
    assert wrong == 0, f"{wrong} of {len(wanted)} walks did not end at the node that they should"


def defaults_left_out(**params: Value) -> dict[str, Value]:
    """The parameters of a point without those that say nothing."""
    return {name: value for name, value in params.items() if value not in ("", 0)}
