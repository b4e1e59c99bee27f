"""Sharing of caches: between the paths of one compute unit, with its local memory, and between compute units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Device, DeviceInfo, Metric, Read, Skip, Work
from clmembench.studies.hierarchy.benchmarks.sharing_memory import (
    CONSTANT_PATHS,
    KIB,
    NodeSet,
    PathMemory,
    counter_code,
    path_memory,
    require_nodes,
    schedule_words,
)
from clmembench.studies.hierarchy.benchmarks.sharing_units import SLICE_BYTES, constant_room, prepare_units

PATH_CODES = {"global": 0, "readonly": 1, "image1d_buffer": 2, "constant": 3, "constant_array": 4}  # of cache_sharing.cl
IDLE_CODE = 5
SHARING_BENCHMARK = "cache_sharing"
FIT_LAPS = 6  # over each set of question fit; the last lap counts: with random victims it takes some until a set stays
BRACKETS = 2  # walks of no step at the beginning of a launch: what reading the counter costs
# question paths: laps over the owner's set ("first", "warm_...", "after_..."), and what is visited between them
LAPS = ("lap",) * 4  # until the set is back
OWN_WALK = ("bracket", "bracket_again", "first", *LAPS, "warm_own", "own", "after_own")
OTHER_WALK = (*LAPS, "warm_other", "other", "after_other")
IDLE_WALK = (*LAPS, "warm_idle", "idle", "after_idle")
WALKS = (*OWN_WALK, *OTHER_WALK, *IDLE_WALK)
# where both paths reach the owner's addresses: evicted on its own path, then loaded on the other one
SAME_WALKS = (*LAPS, "warm_same", "own", "same", "after_same")
GPU_FIT_BYTES = tuple(n * KIB for n in (2, 4, 8, 12, *range(16, 289, 16)))  # larger than any known first cache, 256 KiB
CPU_FIT_BYTES = tuple(n * KIB for n in (4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192))  # larger than any core's L1
CONSTANT_FIT_BYTES = tuple(n * KIB for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48))
RESERVED_LOCAL_BYTES = KIB  # of a work-group's local memory, used by drivers
MAX_IDLE_ROUNDS = 1 << 20  # of a wait: 32 operations each

PASS_TIME = Metric("pass_time", "ns", "ops", "cost", "lower")


@benchmark(
    PASS_TIME,
    suite="memory",
    source="Mei & Chu 2015, section 4; Wong et al. 2010, section V (constant L2 and L3 shared by a cluster)",
    adaptive=True,
    question=axis("fit", "paths", "units", needs={"units": ["ptx"]}),
    owner=axis(*PATH_CODES, needs={"readonly": ["ptx"], "image1d_buffer": ["images"]}),
    other=axis("", *PATH_CODES, needs={"readonly": ["ptx"], "image1d_buffer": ["images"]}),
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
    """Shared storage: between the paths of a compute unit, its local memory and first cache, and between compute units.

    One work-item makes dependent loads and times whole laps by the in-kernel counter; all numbers are stored as ticks, and the
    metric is only the time of a pass. question fit: laps over each of several sets, of `bytes`, on the path `owner`, while the
    work-group takes `local_bytes` of local memory. question paths: laps over a set of `array_bytes` on the path `owner`, after
    other addresses of about `other_bytes` were visited on the same path (the control), after as many bytes on the path `other`,
    and after an idle wait of that length. `ticks` and `steps` are of the walks listed above. question units
    (NVIDIA): see sharing_units. Raises Skip if no counter can be read, or if the device lacks a path."""
    if not counter_code(device.info):
        raise Skip("no in-kernel counter works here, so single laps cannot be timed")
    if question == "units":
        return prepare_units(device)
    if question == "fit":
        return _prepare_fit(device, owner, local_bytes)
    return _prepare_paths(device, owner, other, array_bytes, other_bytes)


def fit_sizes(info: DeviceInfo, path: str) -> tuple[int, ...]:
    """Sizes in bytes of the sets that are tried on a path."""
    if path in CONSTANT_PATHS:
        return CONSTANT_FIT_BYTES
    return CPU_FIT_BYTES if info.has_cpu_cores else GPU_FIT_BYTES


def _prepare_fit(device: Device, path: str, local_bytes: int) -> Work:
    info = device.info
    if local_bytes and info.has_cpu_cores:
        raise Skip("local memory is ordinary memory here: it takes its space from no particular cache")
    if local_bytes > info.local_mem_bytes - RESERVED_LOCAL_BYTES:
        raise Skip(f"{local_bytes} B of local memory, of which there are {info.local_mem_bytes} B and some are the driver's")
    sizes = fit_sizes(info, path)
    in_constants = path in CONSTANT_PATHS
    memory = path_memory(device, (path,), () if in_constants else sizes)
    sets = [memory.constants(0, n) for n in sizes] if in_constants else [memory.region(i) for i in range(len(sizes))]
    walks = [(path, NodeSet(sets[0].first, 0, 0, sets[0].first))] * BRACKETS + [
        (path, visited) for visited in sets for _ in range(FIT_LAPS)
    ]
    return _work(device, memory, walks, local_bytes, sizes)


def _prepare_paths(device: Device, owner: str, other: str, array_bytes: int, other_bytes: int) -> Work:
    if other not in PATH_CODES or other == owner:
        raise Skip(f"the other path must differ from {owner}")
    if min(array_bytes, other_bytes) < SLICE_BYTES:
        raise Skip(f"sets of at least {SLICE_BYTES} B are needed")
    room = constant_room(device.info)
    held = -(-array_bytes // SLICE_BYTES) * SLICE_BYTES
    if other in CONSTANT_PATHS:
        other_bytes = min(room, other_bytes // SLICE_BYTES * SLICE_BYTES)
    own_bytes = other_bytes  # the control visits as many bytes as the other path
    if owner in CONSTANT_PATHS:
        own_bytes = min(room - held, other_bytes) // SLICE_BYTES * SLICE_BYTES
        if own_bytes < SLICE_BYTES:
            raise Skip(f"{array_bytes} B leave nothing of the {room} B of constants for evicting them")
    memory = path_memory(device, (owner, other), (array_bytes, own_bytes, other_bytes))
    if owner in CONSTANT_PATHS:
        mine, own = memory.constants(0, held), memory.constants(held, own_bytes)
    else:
        mine, own = memory.region(0), memory.region(1)
    far = memory.constants(0, other_bytes) if other in CONSTANT_PATHS else memory.region(2)
    same = {owner, other} == {"global", "readonly"}  # an image is a copy
    names = (*WALKS, *(SAME_WALKS if same else ()))
    walks: list[tuple[str, NodeSet]] = []
    for name in names:
        if name.startswith("bracket"):
            walks.append((owner, NodeSet(mine.first, 0, 0, mine.first)))
        elif name == "idle":
            waited = WALKS.index("other")
            walks.append(("idle", NodeSet(waited, 0, MAX_IDLE_ROUNDS, waited)))
        else:
            walks.append({"own": (owner, own), "other": (other, far), "same": (other, mine)}.get(name, (owner, mine)))
    return _work(device, memory, walks, 0, (mine.nbytes, own.nbytes, far.nbytes))


def _work(
    device: Device, memory: PathMemory, walks: Sequence[tuple[str, NodeSet]], local_bytes: int, sizes: Sequence[int]
) -> Work:
    """The pass that makes these walks, and the data read from it."""
    count, codes = len(walks), {**PATH_CODES, "idle": IDLE_CODE}
    schedule = device.alloc(16 * count)
    device.upload(schedule, schedule_words([(codes[path], visited.first, visited.steps) for path, visited in walks]))
    ticks, reached, steps = (device.alloc(4 * count) for _ in range(3))
    device.upload(steps, np.array([visited.steps for _, visited in walks], np.uint32))
    nbytes = device.alloc(4 * len(sizes))
    device.upload(nbytes, np.array(sizes, np.uint32))

    def check() -> None:
        require_nodes(device.download(reached, np.uint32, count), [visited.end for _, visited in walks])

    return Work(
        commands=(memory.launch(schedule, count, local_bytes, ticks, reached),),
        ops=sum(visited.steps for path, visited in walks if path != "idle"),
        reads={
            "ticks": Read(ticks, "uint32", count, "ticks"),
            "steps": Read(steps, "uint32", count, ""),
            "bytes": Read(nbytes, "uint32", len(sizes), "bytes"),
        },
        outputs=((ticks, 4 * count), (reached, 4 * count)),
        check=check,
    )
