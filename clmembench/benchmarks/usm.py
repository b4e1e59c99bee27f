"""Allocations by pointers (USM): bandwidth by kind and by who touched them last, and the cost of their first touch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clmembench.benchmarks import MIB, axis, axis_of, benchmark, headline_bytes
from clmembench.model import Call, Device, DeviceInfo, Fill, Launch, MemoryKind, Metric, Work
from clmembench.resources import kernel_source

USM_BANDWIDTH = Metric("usm_bandwidth", "GB/s", "nbytes", "rate", "higher")
FIRST_TOUCH = Metric("first_touch", "ns", "ops", "cost", "lower")
KINDS: Sequence[MemoryKind] = ("device", "shared", "host")
FACTOR = 2654435761
WORK_GROUP = 64
ITEMS_PER_UNIT = 2048  # enough neighbours to fill a GPU
PAGE_BYTES = 4096
SOURCE = "SYCL 2020 specification, section 4.8: unified shared memory"


def has_usm(info: DeviceInfo) -> bool:
    """Whether a device has allocations that the host and kernels both see by one pointer."""
    return bool({"usm_shared", "usm_host"} & info.features)


def _kinds(info: DeviceInfo) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind == "device" or f"usm_{kind}" in info.features)


def _touched_by(info: DeviceInfo) -> tuple[str, ...]:
    """Who can touch an allocation: a plain buffer of OpenCL is the device's alone."""
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
    memory=axis_of(_kinds),
    op=axis("read", "write"),
    last_touch=axis_of(_touched_by),
    array_bytes=axis_of(_array_bytes),
)
def usm_bandwidth(device: Device, memory: MemoryKind, op: str, last_touch: str, array_bytes: int) -> Work:
    """Bandwidth of a kernel that reads or writes an allocation, by its kind and by who touched it last, by the host's clock.

    Shared and host allocations are SYCL's (USM); device is device memory, which through OpenCL is a buffer. last_touch host:
    before every pass the host writes a word of each page, so that a shared allocation has to move to the device within the
    pass, where the two have memories of their own; its difference from last_touch device is the migration. Whole words of 4 B;
    each is read or written once.
    """
    kernels = device.build(kernel_source("usm"))
    words = array_bytes // 4
    group = min(WORK_GROUP, device.info.max_work_group)
    items = max(group, min(device.info.compute_units * ITEMS_PER_UNIT, words) // group * group)
    buffer, sums = device.alloc(4 * words, memory), device.alloc(4 * items)
    write = Launch(kernels["write_words"], (buffer, np.uint32(FACTOR), np.uint64(words)), (items,), (group,))
    read = Launch(kernels["read_words"], (buffer, sums, np.uint64(words)), (items,), (group,))
    device.run([write])
    whole = (np.arange(words, dtype=np.uint32) * np.uint32(FACTOR)).sum(dtype=np.uint64) if op == "read" else None

    def touch() -> None:
        with device.mapped(buffer, 4 * words, "write") as array:
            array.view(np.uint32)[:: PAGE_BYTES // 4] += np.uint32(0)

    def check() -> None:
        if op == "read":
            found = device.download(sums, np.uint32, items).sum(dtype=np.uint64)
            assert (int(found) - int(whole or 0)) % 2**32 == 0, "the sum of what was read is wrong"
        else:
            found = device.download(buffer, np.uint32, words)
            assert np.array_equal(found, np.arange(words, dtype=np.uint32) * np.uint32(FACTOR)), "what was written is wrong"

    return Work(
        commands=(read if op == "read" else write,),
        nbytes=4 * words,
        before=(Call(touch),) if last_touch == "host" else (),
        outputs=((sums, 4 * items),) if op == "read" else ((buffer, 4 * words),),
        check=check,
        clock="host",
        expected_units=device.info.compute_units if device.info.kind == "cpu" else 0,
    )


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
    byte of each page is written. A driver that keeps freed memory for the next allocation makes it cheap, which is part of what
    is measured.
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
        if not left:  # in the first pass, which is none of the samples
            left.append(_touched_pages(device, buffer, pages))

    return Work(commands=(Call(once),), ops=pages, check=_all_touched(left, pages), clock="host")


def _touched_pages(device: Device, buffer: object, pages: int) -> int:
    return int((device.download(buffer, np.uint8, pages * PAGE_BYTES)[::PAGE_BYTES] == 1).sum())


def _all_touched(left: list[int], pages: int) -> Callable[[], None]:
    def check() -> None:
        assert left == [pages], f"{left} pages of {pages} hold what was written to them"

    return check
