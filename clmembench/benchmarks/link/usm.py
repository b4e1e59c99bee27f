"""Allocations by pointers (USM): bandwidth by kind and by the last access, and the cost of the first touch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clmembench.benchmarks import MEMORY_READS, MEMORY_WRITES, MIB, axis, axis_of, benchmark, headline_bytes
from clmembench.benchmarks.copy_check import copy_array_bytes
from clmembench.benchmarks.link.transfer import FACTOR, is_pattern
from clmembench.benchmarks.stream import OPERATION_CODES, sum_items
from clmembench.model import Buffer, Call, Device, DeviceInfo, Fill, Launch, MemoryKind, Metric, Quantity, Skip, Value, Work
from clmembench.resources import kernel_source

USM_BANDWIDTH = Metric("usm_bandwidth", "GB/s", "nbytes", "rate", "higher")
FIRST_TOUCH = Metric("first_touch", "ns", "ops", "cost", "lower")
KINDS: Sequence[MemoryKind] = ("device", "shared", "host")
CORE_LANES, CORE_GROUP = 16, 64  # words of a vector, a cache line; vectors that a work-group writes
GPU_LANES, GPU_GROUP, READING_GROUP = (
    4,
    256,
    1024,
)  # the widest load of a work-item; work-items of groups that write, and that read
CHECKED_WORDS = 1 << 22  # words that the host compares at a time
PAGE_BYTES = 4096
SOURCE = "SYCL 2020 specification, section 4.8: unified shared memory"


def has_usm(info: DeviceInfo) -> bool:
    """Whether a device has allocations that host and kernels access by the same pointer."""
    return bool({"usm_shared", "usm_host"} & info.features)


def _kinds(info: DeviceInfo) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind == "device" or f"usm_{kind}" in info.features)


def _touched_by(info: DeviceInfo) -> tuple[str, ...]:
    """Who can access an allocation: a plain OpenCL buffer is accessible to the device only."""
    return ("device", "host") if has_usm(info) else ("device",)


def _array_bytes(info: DeviceInfo) -> tuple[int, ...]:
    return (min(64 * MIB, headline_bytes(info)),)


def _where(info: DeviceInfo, memory: str, op: str, last_touch: str, array_bytes: int) -> bool:
    return not (memory == "device" and last_touch == "host")


@benchmark(
    USM_BANDWIDTH,
    suite="memory",
    source=SOURCE,
    where=_where,
    quantities=[
        Quantity(name, "usm_bandwidth", {"memory": ("device",), "op": (op,)}, largest="array_bytes", beyond_caches=True)
        for name, op in ((MEMORY_READS, "read"), (MEMORY_WRITES, "write"))
    ],
    memory=axis_of(_kinds),
    op=axis("read", "write"),
    last_touch=axis_of(_touched_by),
    array_bytes=axis_of(lambda info: (copy_array_bytes(info),)),
    version=2,
)
def usm_bandwidth(device: Device, memory: MemoryKind, op: str, last_touch: str, array_bytes: int) -> Work:
    """Bandwidth of a kernel that reads or writes an allocation, by its kind and by who touched it last.

    Shared and host allocations are SYCL's (USM); device is device memory, which through OpenCL is a buffer. last_touch host:
    before every pass the host writes a word of each page, so that a shared allocation has to migrate to the device within the
    pass if the two have separate memories; the difference from last_touch device is the migration. A driver may migrate it
    before the kernel starts, so these passes are timed by the host's clock and include the launch; others are timed by the
    device's clock. Reads are those of `stream` in the order that suits the device; vectors of words are each read or written
    once. Raises Skip if the array is smaller than one work-group of vectors.
    """
    info, blocked = device.info, device.info.has_cpu_cores
    lanes, group = (CORE_LANES, CORE_GROUP) if blocked else (GPU_LANES, GPU_GROUP)
    group = min(group, info.max_work_group)
    vectors = array_bytes // (4 * lanes) // group * group
    if not vectors:
        raise Skip(f"{array_bytes} B are fewer than one work-group of {group} vectors of {4 * lanes} B: raise --size")
    words, each = vectors * lanes, 1 if blocked else min(READING_GROUP, info.max_work_group)
    items = sum_items(info, blocked, each, vectors)
    buffer, sums = device.alloc(4 * words, memory), device.alloc(4 * lanes * items)
    defines: dict[str, Value] = {"V": f"uint{lanes}", "NONTEMPORAL": blocked and "nontemporal" in info.features}
    writing = device.build(kernel_source("usm"), LANES=lanes, **defines)["write_words"]
    defines |= {"T": "uint", "OP": OPERATION_CODES["read"], "BLOCKED": blocked, "LOOP": False}
    reading = device.build(kernel_source("stream"), **defines)
    write = Launch(writing, (buffer, FACTOR), (vectors,), (group,))
    read = Launch(reading["reduce"], (buffer, buffer, sums, np.uint64(vectors)), (items,), (each,))
    device.run([write])

    def touch() -> None:
        with device.mapped(buffer, 4 * words, "write") as array:
            array.view(np.uint32)[:: PAGE_BYTES // 4] += np.uint32(0)

    def check() -> None:
        if op == "read":
            assert_sums(device, sums, items, lanes, vectors)
            return
        for first in range(0, words, CHECKED_WORDS):
            count = min(CHECKED_WORDS, words - first)
            held = device.download(buffer, np.uint32, count, 4 * first)
            assert is_pattern(held, 0, first), "the words written are wrong"

    return Work(
        commands=(read if op == "read" else write,),
        nbytes=4 * words,
        before=(Call(touch),) if last_touch == "host" else (),
        outputs=((sums, 4 * lanes * items),) if op == "read" else ((buffer, 4 * words),),
        check=check,
        clock="host" if last_touch == "host" else "device",
    )


def assert_sums(device: Device, sums: Buffer, items: int, lanes: int, vectors: int) -> None:
    """Raises AssertionError unless the sums of each work-item and lane are those of all words written."""
    lane_sums = device.download(sums, np.uint32, lanes * items).reshape(items, lanes).sum(axis=0, dtype=np.uint64)
    wanted = [int(FACTOR) * (lanes * (vectors * (vectors - 1) // 2) + lane * vectors) for lane in range(lanes)]
    same = all((int(sum_) - of_lane) % 2**32 == 0 for sum_, of_lane in zip(lane_sums, wanted, strict=True))
    assert same, "the sum of the words read is wrong"


@benchmark(
    FIRST_TOUCH,
    suite="memory",
    source=SOURCE,
    where=lambda info, memory, by, array_bytes: not (memory == "device" and by == "host"),
    memory=axis_of(_kinds),
    by=axis_of(_touched_by),
    array_bytes=axis_of(_array_bytes),
)
def usm_first_touch(device: Device, memory: MemoryKind, by: str, array_bytes: int) -> Work:
    """Cost of a 4 KiB page of a new allocation: allocated, touched for the first time, and freed, by the host's clock.

    Shared and host allocations are SYCL's (USM). by device: a fill of the whole allocation and the wait for it. by host: one
    byte of each page is written. A driver that reuses freed memory for the next allocation makes it cheap, which is part of the
    measured cost.
    """
    pages = array_bytes // PAGE_BYTES
    left: list[int] = []

    def once() -> None:
        buffer = device.alloc(pages * PAGE_BYTES, memory)
        if by == "device":
            device.run([Fill(buffer, pages * PAGE_BYTES, 1)])
        else:
            with device.mapped(buffer, pages * PAGE_BYTES, "write") as array:
                array[::PAGE_BYTES] = 1
        if not left:  # in the first pass, which is not a sample
            left.append(_touched_pages(device, buffer, pages))

    return Work(commands=(Call(once),), ops=pages, check=_all_touched(left, pages), clock="host")


def _touched_pages(device: Device, buffer: object, pages: int) -> int:
    return int((device.download(buffer, np.uint8, pages * PAGE_BYTES)[::PAGE_BYTES] == 1).sum())


def _all_touched(left: list[int], pages: int) -> Callable[[], None]:
    def check() -> None:
        assert left == [pages], f"{left} of {pages} pages hold the written value"

    return check
