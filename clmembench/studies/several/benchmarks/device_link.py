"""Data from one device's memory to another's: by the driver's copies and migrations, and through pinned host memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, zip_longest

import numpy as np

from clmembench.benchmarks import MIB, axis_of, benchmark, headline_bytes
from clmembench.benchmarks.link.transfer import pattern
from clmembench.model import (
    Array,
    Buffer,
    Command,
    Copy,
    Device,
    DeviceInfo,
    Headline,
    Kernel,
    Launch,
    Metric,
    Migrate,
    Skip,
    Work,
)
from clmembench.resources import kernel_source

KIB = 1024
LINK_BANDWIDTH = Metric("device_link_bandwidth", "GB/s", "nbytes", "rate", "higher")
LINK_TIME = Metric("device_link_time", "us", "ops", "cost", "lower", scale=1e-3)
WAYS = ("copy", "migrate", "pinned")
TRAFFIC = ("one", "both", "all")
SIZES = (4, 64 * KIB, MIB, 8 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
MATRIX_BYTES = 64 * MIB  # of every pair: beyond it rates hardly grow, and drivers that copy by pages take seconds
MAX_DRIVER_BYTES = 256 * MIB  # of copies and migrations unless named: 0.9 GB/s was seen
MAX_SHARED_BYTES = 16 * MIB  # on devices that share the host's memory, where a copy has no link
MAX_DEVICES = 8  # of all pairs unless named
PIECE_BYTES, MIN_PIECE_BYTES, PIECES = 4 * MIB, 256 * KIB, 4  # in flight through pinned memory; the fastest of those tried
SEED = 0x51ED270B


def _sizes(info: DeviceInfo) -> tuple[int, ...]:
    if not info.peers:
        return (MIB,)
    largest = info.array_bytes or min(SIZES[-1], MAX_SHARED_BYTES if info.shares_host_memory else headline_bytes(info))
    return (*(n for n in SIZES if n < largest), largest)


def _matrix_bytes(info: DeviceInfo) -> int:
    return max(n for n in _sizes(info) if n <= max(MATRIX_BYTES, _sizes(info)[0]))


def _where(info: DeviceInfo, by: str, traffic: str, sender: int, receiver: int, array_bytes: int) -> bool:
    """Both directions of a pair are one point, and so are all pairs at once."""
    return {"one": sender != receiver, "both": sender < receiver, "all": (sender, receiver) == (0, 1)}[traffic]


def _in_default_subset(info: DeviceInfo, by: str, traffic: str, sender: int, receiver: int, array_bytes: int) -> bool:
    """All sizes from the first device to the second one; both directions and all pairs at the size of the matrix."""
    if (sender, receiver, traffic) != (0, 1, "one"):
        return array_bytes == _matrix_bytes(info) and max(sender, receiver) < MAX_DEVICES
    return by == "pinned" or array_bytes <= MAX_DRIVER_BYTES


@dataclass(frozen=True, slots=True)
class Route:
    """A source and a target device by their numbers, the buffers there, and what the target read at the end."""

    sender: int
    receiver: int
    sent: Buffer
    received: Buffer
    last: Buffer

    @property
    def reading(self) -> int:
        """The queue of the source."""
        return 2 * self.sender

    @property
    def writing(self) -> int:
        """The queue of the target."""
        return 2 * self.receiver + 1


@benchmark(
    LINK_BANDWIDTH,
    LINK_TIME,
    suite="several",
    source="NVIDIA nvbandwidth, device to device; OpenCL 3.0, sections 5.2 (copies) and 5.5.4 (migration)",
    needs=("peers",),
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="array_bytes",
    max_time_s=10.0,
    headlines=[
        Headline(
            "host link",
            "device to device",
            "device_link_bandwidth",
            {"traffic": "one"},
            {"array_bytes": "largest"},
            in_host_memory="a copy within the host's memory, over no link",
        ),
    ],
    by=axis_of(lambda info: WAYS if info.peers else WAYS[:1]),
    traffic=axis_of(lambda info: TRAFFIC[: 1 + min(2, info.peers)] if info.peers else TRAFFIC[:1]),
    sender=axis_of(lambda info: tuple(range(info.peers + 1)) if info.peers else (0,)),
    receiver=axis_of(lambda info: tuple(range(info.peers + 1)) if info.peers else (1,)),
    array_bytes=axis_of(_sizes),
)
def device_link(device: Device, by: str, traffic: str, sender: int, receiver: int, array_bytes: int) -> Work:
    """Bandwidth and time from one device's memory to another's, until a kernel on the target has read the last word.

    Device 0 is the one of the run; the others of its platform follow as `clmembench devices` lists them. copy: one copy between
    buffers of one context. migrate: the buffer itself is migrated. pinned: pieces through pinned host memory, four in flight.
    Before every pass the source and the target write all of their buffers, so that each is in its device's memory. both: the
    two directions at once; all: every ordered pair at once; the bytes of all count. Host's clock.
    """
    devices = device.info.peers + 1
    if devices < 2:
        raise Skip("the platform of this device has no other device")
    if max(sender, receiver) >= devices:
        raise Skip(f"devices are numbered 0 to {devices - 1}")
    one, back = (sender, receiver), (receiver, sender)
    pairs = {"one": [one], "both": [one, back], "all": [*permutations(range(devices), 2)]}
    words = array_bytes // 4
    if not words:
        raise Skip(f"{array_bytes} B hold no word of 4 B")
    kernels, seed = device.build(kernel_source("device_link")), SEED + device.seed
    routes = [_route(device, pair, 4 * words, by == "migrate") for pair in pairs[traffic]]
    moved = [_commands(device, by, route, 4 * words) for route in routes]
    uses = [
        Launch(kernels["read_last"], (route.received, np.uint32(words - 1), route.last), (1,), (1,), route.writing)
        for route in routes
    ]
    return Work(
        commands=(*_in_turn(moved), *uses),
        nbytes=4 * words * len(routes),
        ops=1,
        before=_written_before(kernels, routes, words, seed),
        outputs=tuple((route.last, 4) for route in routes),
        check=lambda: _check(device, kernels, routes, words, seed),
        clock="host",
    )


def _route(device: Device, pair: tuple[int, int], nbytes: int, in_place: bool) -> Route:
    sent = device.alloc(nbytes)
    return Route(*pair, sent, sent if in_place else device.alloc(nbytes), device.alloc(4))


def _commands(device: Device, by: str, route: Route, nbytes: int) -> list[Command]:
    """The commands that move one buffer; `after` counts from the first of them."""
    if by == "copy":
        return [Copy(route.received, route.sent, nbytes, route.writing)]
    if by == "migrate":
        return [Migrate(route.sent, route.writing)]
    piece = min(nbytes, max(MIN_PIECE_BYTES, min(PIECE_BYTES, nbytes // (2 * PIECES) // 4 * 4)))
    places = device.host_array(PIECES * piece, pinned=True)
    commands: list[Command] = []
    for number, first in enumerate(range(0, nbytes, piece)):
        size, place = min(piece, nbytes - first), _place(places, number % PIECES, piece)
        free = len(commands) - 2 * PIECES + 1 if number >= PIECES else None  # the write from that place
        commands.append(Copy(place, route.sent, size, route.reading, src_offset=first, after=free))
        commands.append(Copy(route.received, place, size, route.writing, dst_offset=first, after=len(commands) - 1))
    return commands


def _place(places: Array, number: int, piece: int) -> Array:
    return places[number * piece : (number + 1) * piece]


def _in_turn(moved: Sequence[Sequence[Command]]) -> list[Command]:
    """The commands of all routes, one of each in turn, so that no route begins after another has been enqueued whole."""
    every, numbers = list[Command](), [list[int]() for _ in moved]
    for turn in zip_longest(*moved):
        for route, command in enumerate(turn):
            if command is None:
                continue
            after = getattr(command, "after", None)
            numbers[route].append(len(every))
            every.append(command if after is None else replace(command, after=numbers[route][after]))
    return every


def _written_before(kernels: Mapping[str, Kernel], routes: Sequence[Route], words: int, seed: int) -> tuple[Command, ...]:
    """The pattern written by the source, another one by the target: a buffer is where it was written last."""
    commands: list[Command] = []
    for number, route in enumerate(routes):
        other = np.uint32((seed + number) ^ 0xFFFFFFFF)
        commands.append(Migrate(route.received, route.writing, discard=True))
        commands.append(Launch(kernels["write_pattern"], (route.received, other), (words,), None, route.writing))
        written = len(commands) - 1
        commands.append(Migrate(route.sent, route.reading, discard=True, after=written))
        own = (route.sent, np.uint32(seed + number))
        commands.append(Launch(kernels["write_pattern"], own, (words,), None, route.reading))
    return tuple(commands)


def _check(device: Device, kernels: Mapping[str, Kernel], routes: Sequence[Route], words: int, seed: int) -> None:
    """Raises AssertionError if a target sees anything but what its source wrote."""
    for number, route in enumerate(routes):
        own, pair = np.uint32(seed + number), f"from device {route.sender} to {route.receiver}"
        assert device.download(route.last, np.uint32, 1)[0] == pattern(1, seed + number, words - 1)[0], (
            f"the target read a wrong last word {pair}"
        )
        wrong = device.alloc(4)
        device.upload(wrong, np.zeros(1, np.uint32))
        device.run([Launch(kernels["count_wrong"], (route.received, own, wrong), (words,), None, route.writing)])
        count = int(device.download(wrong, np.uint32, 1)[0])
        assert count == 0, f"{count} of {words} words are wrong {pair}"
