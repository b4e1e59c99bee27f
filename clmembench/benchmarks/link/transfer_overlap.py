"""Overlap of a copy between host and device with a kernel, or with a copy in the other direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from clmembench.benchmarks import MIB, axis_of, benchmark, headline_bytes, iterate_multiply_add
from clmembench.benchmarks.link.transfer import SEED, buffer_is_pattern, prepare_copy
from clmembench.model import Device, DeviceInfo, Launch, Metric, Overlap, Work
from clmembench.resources import kernel_source

HIDDEN_SHARE = Metric("hidden", "%", "nbytes", "overlap", "higher", scale=100)
FACTOR, ADDEND = 1664525, 1013904223
CHAIN_OPS = 1 << 6  # dependent operations per work-item; the runner scales them
GROUP_SIZE = 256
GROUPS_PER_UNIT = 8  # per compute unit
PARTNERS = ("arithmetic", "streaming", "copy_back")
NOTE_SHARED_CORES = (
    "host and device share memory: the same cores copy and compute, so the overlap depends on the scheduling of their threads, "
    "which differs between processes by more than the interval within one process"
)


def _copy_bytes(info: DeviceInfo) -> int:
    return min((64 if info.shares_host_memory else 256) * MIB, headline_bytes(info))


@benchmark(
    HIDDEN_SHARE,
    suite="link",
    source="Gomez-Luna et al. 2012, transfers hidden behind kernels",
    direction=axis_of(lambda info: ("to_device",) if info.shares_host_memory else ("to_device", "from_device")),
    behind=axis_of(lambda info: PARTNERS[:1] if info.shares_host_memory else PARTNERS),
    array_bytes=axis_of(lambda info: (_copy_bytes(info),)),
)
def transfer_overlap(device: Device, direction: str, behind: str, array_bytes: int) -> Overlap:
    """Share of a pinned copy's time that overlaps with other work: each alone and both concurrently, interleaved.

    It is the time that concurrency saves over the time of the shorter of the two, by the host's clock: 100% if the shorter one
    costs nothing, 0% if they run one after the other. arithmetic: a kernel of dependent operations on all compute units.
    streaming: kernels that copy device memory. copy_back: copies in the other direction. The other work is scaled to last about
    as long as the copy. The copy has its own queue and is enqueued first.
    """
    array_bytes = array_bytes // 16 * 16
    copy = prepare_copy(device, direction, True, array_bytes, 0, blocking=False)
    if device.info.shares_host_memory:
        copy = replace(copy, notes=(*copy.notes, NOTE_SHARED_CORES))
    if behind == "copy_back":
        back = prepare_copy(
            device, "from_device" if direction == "to_device" else "to_device", True, array_bytes, 1, blocking=False
        )
        return Overlap(copy, lambda n: replace(back, commands=back.commands * n, nbytes=n * back.nbytes))
    if behind == "arithmetic":
        return Overlap(copy, _prepare_arithmetic(device))
    kernel = _prepare_streaming(device, array_bytes)
    return Overlap(copy, lambda n: replace(kernel, commands=kernel.commands * n, nbytes=n * kernel.nbytes))


def _prepare_arithmetic(device: Device) -> Callable[[int], Work]:
    group = min(GROUP_SIZE, device.info.max_work_group)
    items = group * GROUPS_PER_UNIT * device.info.compute_units
    kernel, out = device.build(kernel_source("transfer"))["chain"], device.alloc(4 * items)

    def work(n: int) -> Work:
        steps = n * CHAIN_OPS + device.seed % 7
        numbers = (np.uint32(steps), np.uint32(FACTOR), np.uint32(ADDEND))

        def check() -> None:
            expected = iterate_multiply_add(np.arange(items), FACTOR, ADDEND, steps)
            assert np.array_equal(device.download(out, np.uint32, items), expected), "a chain of operations is wrong"

        launch = Launch(kernel, (out, *numbers), (items,), (group,), queue=1)
        return Work((launch,), ops=items * steps, outputs=((out, 4 * items),), check=check, clock="host")

    return work


def _prepare_streaming(device: Device, nbytes: int) -> Work:
    kernels = device.build(kernel_source("transfer"))
    source, target, seed = device.alloc(nbytes), device.alloc(nbytes), SEED + device.seed + 2
    device.run([Launch(kernels["pattern"], (source, np.uint32(seed)), (nbytes // 4,))])
    launch = Launch(kernels["stream"], (source, target), (nbytes // 16,), queue=1)

    def check() -> None:
        assert buffer_is_pattern(device, kernels, target, nbytes // 4, seed), "the copy on the device is wrong"

    return Work((launch,), nbytes=2 * nbytes, outputs=((target, nbytes),), check=check, clock="host")
