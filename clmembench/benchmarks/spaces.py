"""Memory spaces in which a lap can be stored: construction of its chain, and the arguments and definitions of chase.cl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clmembench.benchmarks import MIB
from clmembench.model import Array, Device, Kernel, Launch, Local, Probe, Skip, Space, Value
from clmembench.model.address_patterns import NODE_BYTES, pattern_bytes, pattern_offsets
from clmembench.resources import kernel_source

MAX_WALKERS = 1024  # work-items that follow a lap together
MIN_NODES_PER_WALKER = 16
BASE_ALIGNMENT_BYTES = 2 * MIB  # offsets then determine the set in any cache, and in TLBs with pages up to this size
MIN_ARENA_BYTES = 32 * MIB  # so that small sets are always in the same pages
MAX_WORDS = 1 << 32
RESERVED_LOCAL_BYTES = 1 << 10  # drivers use some local memory, and refuse the claimed size
MAX_PRIVATE_BYTES = 16 << 10  # some drivers reserve this for every work-item that may run
TEXEL_WORDS = 2  # in a two-dimensional image

SPACES_COPIED_BY_LAUNCH = ("local", "private")  # these spaces are not shared between work-groups or work-items
SPACES_OF_NUMBERS = ("readonly", "constant", "constant_array", "image1d_buffer", "image1d", "image2d", "private")


@dataclass(frozen=True, slots=True)
class Chain:
    """A lap stored in a memory space: its words in order, the kernels and their first arguments, and notes.

    It occupies `local_bytes` of local memory.
    """

    device: Device
    kernels: Mapping[str, Kernel]
    args: tuple[Any, ...]
    lap: Array
    notes: tuple[str, ...] = ()
    local_bytes: int = 0
    shared: bool = True

    def launch(self, kernel: str, *args: Any, items: int = 1, idle: int = 0) -> Launch:
        """A launch of one of the kernels that follow the lap, by work-groups of one work-item, with `idle` further ones in
        each."""
        return Launch(self.kernels[kernel], (*self.args, *args), (items * (1 + idle),), (1 + idle,))

    def follow(self) -> None:
        """Raises AssertionError if a node of the lap does not lead to the next one."""
        walkers = min(MAX_WALKERS, max(1, self.lap.size // MIN_NODES_PER_WALKER)) if self.shared else 1
        corners = np.linspace(0, self.lap.size, walkers + 1).astype(np.uint32)
        starts, wrong = self.device.kept("chase corners", corners.nbytes), self.device.kept("chase wrong", 4 * walkers)
        self.device.upload(starts, corners)
        self.device.run([self.launch("follow", starts, wrong, items=walkers)])
        astray = int(self.device.download(wrong, np.uint32, walkers).sum())
        assert astray == 0, f"the chain is damaged: {astray} of {self.lap.size} nodes do not lead to the next"


def build_chain(device: Device, probe: Probe, **defines: Value) -> Chain:
    """Builds the chain of a probe, with kernels for these definitions, and follows it once.

    Raises Skip if the probe's pattern is invalid, the device lacks the space, or the lap does not fit.
    """
    try:
        lap = pattern_offsets(probe.pattern) // NODE_BYTES
    except ValueError as error:
        raise Skip(str(error)) from error
    if lap.max() >= MAX_WORDS:
        raise Skip(f"a chase can use at most {MAX_WORDS * NODE_BYTES} B, and this one needs more")
    number, space = lap.astype(np.uint32), probe.space
    words = device.kept("chase lap", number.nbytes)
    device.upload(words, number)
    held = (int(lap.max()) + 1) * NODE_BYTES
    source = kernel_source("chase")
    if space == "constant_array":
        source = _constant_array_text(device, number, held) + source
        defines["ONLY_LAPS"] = probe.mode == "lap"  # each lap needs its own program, half of which would be kernels for traces
    elif space == "private":
        _require_room(held, MAX_PRIVATE_BYTES, "a private array")
        defines["WORDS"] = max(64, 1 << (held // NODE_BYTES - 1).bit_length())
    ptx = "ptx" in device.info.features
    if space == "global_cg" and not ptx:
        raise Skip("device has no ptx, which the loads that bypass the first cache need")
    kernels = device.build(source, **{f"SPACE_{space}": 1, "PTX": ptx, "ALIGNMENT": BASE_ALIGNMENT_BYTES, **defines})
    place, local_bytes = _place_chain(device, probe, number, held, words, kernels)
    by_number = space in SPACES_OF_NUMBERS and not (space == "readonly" and ptx)
    notes = ["nodes hold indices: the latency includes the conversion of an index to an address"] * by_number
    if space == "readonly" and not ptx:
        notes.append("loads use a const restrict pointer: the compiler chooses the path")
    chain = Chain(
        device,
        kernels,
        (place, words, np.uint32(lap.size)),
        lap,
        tuple(notes),
        local_bytes,
        space not in SPACES_COPIED_BY_LAUNCH,
    )
    chain.follow()
    return chain


def _place_chain(
    device: Device, probe: Probe, lap: Array, held: int, words: Any, kernels: Mapping[str, Kernel]
) -> tuple[Any, int]:
    """The first argument of the kernels, which is the chain in its space, and the chain's bytes of local memory."""
    info, space = device.info, probe.space
    if space in IMAGE_BUILDERS:
        return IMAGE_BUILDERS[space](device, lap), 0
    if space == "local":
        _require_room(held, info.local_mem_bytes - RESERVED_LOCAL_BYTES, "local memory")
        return Local(held), held
    if space in ("private", "constant_array"):
        return words, 0
    if space == "constant":
        _require_room(held, info.constant_bytes, "a constant buffer")
        place = device.kept("chase constant", held)
    else:
        needed = max(MIN_ARENA_BYTES, pattern_bytes(probe.pattern)) + BASE_ALIGNMENT_BYTES
        _require_room(needed, info.max_alloc_bytes, "one buffer")
        place = device.kept("chase arena", needed)
    device.run([Launch(kernels["build"], (place, words, np.uint32(lap.size)), (lap.size,))])
    return place, 0


def _require_room(wanted: int, most: int, where: str) -> None:
    if wanted > most:
        raise Skip(f"{wanted} B do not fit into {where}: it has {max(0, most)} B")


def _constant_array_text(device: Device, lap: Array, held: int) -> str:
    """The chain as the text of a constant array at program scope, which no kernel can write."""
    _require_room(held, min(64 << 10, device.info.constant_bytes), "the constant memory of a program")
    cells = np.zeros(held // 4, np.uint32)
    cells[2 * lap] = NODE_BYTES * np.roll(lap, -1)
    return f"constant uint chain_array[{cells.size}] = {{{','.join(map(str, cells.tolist()))}}};\n"


def _buffer_image(device: Device, lap: Array) -> Any:
    texels = _line_of_texels(lap, _image_texels(device, device.info.image_buffer_texels))
    return device.image(texels, "1d_buffer")


def _image1d(device: Device, lap: Array) -> Any:
    return device.image(_line_of_texels(lap, _image_texels(device, device.info.image_width)), "1d")


def _line_of_texels(lap: Array, most: int) -> Array:
    """Texels of 4 bytes; the first one of each node holds the index of the next node's."""
    count = 2 * (int(lap.max()) + 1)
    _require_room(4 * count, 4 * most, "one such image")
    texels = np.zeros(count, np.uint32)
    texels[2 * lap] = 2 * np.roll(lap, -1)
    return texels


def _image2d(device: Device, lap: Array) -> Any:
    """Texels of 16 bytes, in an image that is as square as a width that is a power of two allows."""
    if (lap % TEXEL_WORDS).any():
        raise Skip(f"places must be at multiples of {TEXEL_WORDS * NODE_BYTES} B, the size of a texel")
    numbers = lap // TEXEL_WORDS
    count = int(numbers.max()) + 1
    width = 1 << ((count - 1).bit_length() + 1) // 2
    height = -(-count // width)
    most = _image_texels(device, min(device.info.image_width, device.info.image_height))
    _require_room(16 * max(width, height) ** 2, 16 * most**2, "one such image")
    texels = np.zeros((height, width, 4), np.uint32)
    following = np.roll(numbers, -1)
    texels[numbers // width, numbers % width, 0] = following % width
    texels[numbers // width, numbers % width, 1] = following // width
    return device.image(texels, "2d")


def _image_texels(device: Device, most: int) -> int:
    if "images" not in device.info.features or not most:
        raise Skip("device has no images of this form")
    return most


IMAGE_BUILDERS: Mapping[Space, Callable[[Device, Array], Any]] = {
    "image1d_buffer": _buffer_image,
    "image1d": _image1d,
    "image2d": _image2d,
}
