"""B6: bandwidth of the host link in each direction and in both, and latency of small copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from clmembench.benchmarks import MIB, axis, axis_of, benchmark, handover_processes, headline_bytes
from clmembench.model import Array, Buffer, Command, Copy, Device, DeviceInfo, Headline, Kernel, Launch, Map, Metric, Work
from clmembench.resources import kernel_source

KIB = 1024
LINK_BANDWIDTH = Metric(
    "link_bandwidth", "GB/s", "nbytes", "rate", "higher", peak="link_gb_s", only={"direction": ("to_device", "from_device")}
)
DUPLEX = Metric("duplex_bandwidth", "GB/s", "nbytes", "rate", "higher", peak="link_duplex_gb_s", only={"direction": ("both",)})
TRANSFER_LATENCY = Metric("transfer_latency", "us", "ops", "cost", "lower", scale=1e-3)
ZERO_COPY = Metric("zero_copy_map", "ns", "ops", "cost", "lower")
SEED = 0x2545F491
FACTOR = np.uint32(2654435761)  # of transfer.cl's pattern
BATCH_BYTES = 512 * MIB  # back-to-back copies: start and wait, some 10 us, are 0.1% of the time
MAX_COPIES = 256
BLOCK_WORDS = 1 << 16  # 256 KiB, which fit in a core's own cache with the block that they are compared with
NOTE_SHARED_COPY = "host and device share memory: this is a copy within it, not a link"
NOTE_ZERO_COPY = "zero-copy: host and device share this memory, so mapping moves nothing"
NOTE_SHARED = "host and device share memory at different addresses: mapping moves an unknown number of bytes"
DIRECTIONS = ("to_device", "from_device", "both")
MEMORIES = ("pinned", "pageable", "mapped")


def pattern(words: int, seed: int, first: int = 0) -> Array:
    """The words of transfer.cl's pattern from index `first` on, shape (words,), uint32."""
    return np.arange(first, first + words, dtype=np.uint32) * FACTOR ^ np.uint32(seed)


def _pattern_blocks(words: int, seed: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
    """`words` words of the pattern from index `start` on, block by block: where it is, and its words, valid until the next."""
    ramp = np.arange(start, start + min(words, BLOCK_WORDS), dtype=np.uint32) * FACTOR
    block = np.empty_like(ramp)
    for first in range(0, words, BLOCK_WORDS):
        mine = block[: words - first]
        np.add(ramp[: len(mine)], np.uint32(first * int(FACTOR) % 2**32), out=mine)
        np.bitwise_xor(mine, np.uint32(seed), out=mine)
        yield slice(first, first + len(mine)), mine


def fill_pattern(view: Array, seed: int) -> None:
    """Fills an array of uint32 with the pattern."""
    for where, block in _pattern_blocks(len(view), seed):
        view[where] = block


def is_pattern(view: Array, seed: int, start: int = 0) -> bool:
    """Whether an array of uint32 equals the pattern from index `start` on."""
    return all(np.array_equal(view[where], block) for where, block in _pattern_blocks(len(view), seed, start))


def _copy_sizes(info: DeviceInfo) -> tuple[int, ...]:
    largest = min(256 * MIB, headline_bytes(info))
    smaller = (MIB,) if info.shares_host_memory else (64 * KIB, MIB, 16 * MIB)
    return (*(n for n in smaller if n < largest), largest)


def _where(info: DeviceInfo, direction: str, memory: str, array_bytes: int) -> bool:
    return not (direction == "both" and memory == "mapped")


def is_zero_copy(device: Device) -> bool:
    """Whether a kernel sees a mapped buffer at the host's own address, so that mapping moves no data."""
    buffer = device.alloc(64, "mapped")
    device.run([Launch(device.build(kernel_source("transfer"))["address"], (buffer,), (1,), (1,))])
    seen = int(device.download(buffer, np.uint64, 1)[0])
    with device.mapped(buffer, 64, "read") as array:
        return bool(seen == array.__array_interface__["data"][0])


@benchmark(
    LINK_BANDWIDTH,
    DUPLEX,
    ZERO_COPY,
    suite="link",
    source="Razzaq et al. 2016, section IV-C (B6)",
    quick={
        "array_bytes": axis_of(lambda info: (_copy_sizes(info)[-1],)),
        "direction": axis_of(lambda info: ("to_device", "from_device") if info.shares_host_memory else DIRECTIONS),
        "memory": axis_of(lambda info: ("pageable", "mapped") if info.shares_host_memory else MEMORIES),
    },
    headlines=[
        Headline(
            "host link",
            name,
            "link_bandwidth",
            {"direction": direction},
            {"array_bytes": "largest"},
            in_host_memory="a copy within the host's memory, over no link",
        )
        for name, direction in (("host to device", "to_device"), ("device to host", "from_device"))
    ],
    where=_where,
    figure_axis="array_bytes",
    version=3,  # versions 1 and 2 timed a single copy, including its start and the wait
    min_time_s=0.25,  # other devices may use the host's links for tenths of a second
    direction=axis(*DIRECTIONS),
    memory=axis(*MEMORIES),
    array_bytes=axis_of(_copy_sizes),
)
def transfer(device: Device, direction: str, memory: str, array_bytes: int) -> Work:
    """Bandwidth between host and device: bytes of one direction over the host's time until all have arrived.

    From pinned memory to a device with its own memory: as many back-to-back copies as make 512 MiB (at most 256), waited for
    once; transfer_latency measures a single one. Otherwise one copy. Both directions run on two queues, and the bytes of both
    count. Mapped memory is timed as map plus unmap; if host and device share memory, the result is the latency of this instead
    of a bandwidth. Whole words of 4 B are moved.
    """
    array_bytes = array_bytes // 4 * 4
    if memory == "mapped":
        return _prepare_map(device, direction, array_bytes)
    both = direction == "both"
    blocking = memory == "pageable" and not both  # two concurrent directions must not wait for each other
    ways = DIRECTIONS[:2] if both else (direction,)
    copies = [prepare_copy(device, way, memory == "pinned", array_bytes, queue, blocking) for queue, way in enumerate(ways)]
    batch = 1 if device.info.shares_host_memory or memory != "pinned" else BATCH_BYTES // array_bytes
    return interleave_copies(copies, max(1, min(MAX_COPIES, batch)))


@benchmark(
    TRANSFER_LATENCY,
    suite="link",
    source="Hockney 1994, the start-up time of his model, by one copy alone",
    quick={
        "array_bytes": axis(4),
        "direction": axis("to_device", "from_device"),
        "memory": axis_of(lambda info: _prepare_copies(info)[:1]),
    },
    figure_axis="array_bytes",
    processes=handover_processes,
    direction=axis("to_device", "from_device"),
    memory=axis_of(lambda info: _prepare_copies(info)),
    array_bytes=axis(4, 1 * KIB, 16 * KIB, 64 * KIB),
)
def transfer_latency(device: Device, direction: str, memory: str, array_bytes: int) -> Work:
    """Latency of one small copy between host and device, until the host may use its array again, by the host's clock.

    The single call returns when the copy is complete; its host-side overhead is that of one launch_call. Whole words of 4 B are
    moved.
    """
    array_bytes = array_bytes // 4 * 4
    work = prepare_copy(device, direction, memory == "pinned", array_bytes, 0, blocking=True)
    return replace(work, nbytes=0, ops=1)


def _prepare_copies(info: DeviceInfo) -> tuple[str, ...]:
    return ("pageable",) if info.shares_host_memory else ("pinned", "pageable")


def prepare_copy(device: Device, direction: str, pinned: bool, nbytes: int, queue: int, blocking: bool) -> Work:
    """One copy of whole words in one direction, and the check that all of them arrived."""
    kernels = device.build(kernel_source("transfer"))
    words, seed = nbytes // 4, SEED + device.seed
    buffer, array = device.alloc(nbytes), device.host_array(nbytes, pinned)
    view = array.view(np.uint32)
    if direction == "to_device":
        fill_pattern(view, seed)
        command = Copy(buffer, array, nbytes, queue, blocking)
    else:
        device.run([Launch(kernels["pattern"], (buffer, np.uint32(seed + 1)), (words,))])
        command = Copy(array, buffer, nbytes, queue, blocking)

    def check() -> None:
        if direction == "to_device":
            assert buffer_is_pattern(device, kernels, buffer, words, seed), "the device did not receive what the host sent"
            return
        assert is_pattern(view, seed + 1), "the host did not receive what the device sent"
        view[:] = 0  # poison for the next check

    return Work(
        commands=(command,),
        nbytes=nbytes,
        outputs=((buffer, nbytes),) if direction == "to_device" else (),
        check=_check_after_pass(device, (command,), check),
        clock="host",
        notes=(NOTE_SHARED_COPY,) if device.info.shares_host_memory else (),
    )


def interleave_copies(copies: Sequence[Work], times: int) -> Work:
    """`times` copies of each direction, interleaved one by one."""

    def check() -> None:
        for work in copies:
            work.verify()

    return replace(
        copies[0],
        commands=tuple(command for work in copies for command in work.commands) * times,
        nbytes=times * sum(work.nbytes for work in copies),
        outputs=tuple(output for work in copies for output in work.outputs),
        check=check,
    )


def _prepare_map(device: Device, direction: str, array_bytes: int) -> Work:
    kernels = device.build(kernel_source("transfer"))
    words, seed = array_bytes // 4, SEED + device.seed
    buffer = device.alloc(array_bytes, "mapped")
    shared = device.info.shares_host_memory
    in_place = shared and is_zero_copy(device)
    command = Map(buffer, array_bytes, "read" if direction == "from_device" else "write")

    def check() -> None:
        if direction == "to_device":
            with device.mapped(buffer, array_bytes, "write") as array:
                fill_pattern(array.view(np.uint32), seed)
            assert buffer_is_pattern(device, kernels, buffer, words, seed), "the device does not see what the host wrote"
        else:
            device.run([Launch(kernels["pattern"], (buffer, np.uint32(seed)), (words,))])
            with device.mapped(buffer, array_bytes, "read") as array:
                right = is_pattern(array.view(np.uint32), seed)
            assert right, "the host does not see what the device wrote"

    return Work(
        commands=(command,),
        nbytes=0 if shared else array_bytes,
        ops=1 if shared else 0,
        check=check,
        clock="host",
        notes=(NOTE_ZERO_COPY if in_place else NOTE_SHARED,) if shared else (),
    )


def _check_after_pass(device: Device, commands: tuple[Command, ...], check: Callable[[], None]) -> Callable[[], None]:
    """The check, preceded by a pass, since the check itself leaves poison behind.

    The first time the pass is left out, since the runner has just made one.
    """
    seen: list[bool] = []

    def again() -> None:
        if seen:
            device.run(commands)
        seen.append(True)
        check()

    return again


def buffer_is_pattern(device: Device, kernels: Mapping[str, Kernel], buffer: Buffer, words: int, seed: int) -> bool:
    """Whether a buffer holds the first `words` words of the pattern."""
    wrong = device.alloc(4)
    device.upload(wrong, np.zeros(1, np.uint32))
    device.run([Launch(kernels["compare"], (buffer, np.uint32(seed), wrong), (words,))])
    return int(device.download(wrong, np.uint32, 1)[0]) == 0
