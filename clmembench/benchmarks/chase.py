"""One probe of a memory hierarchy: the latency of a lap of addresses, by a chase through any memory space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clmembench.benchmarks import LATENCY, MIB, axis, benchmark, line_bytes
from clmembench.data import kernel_source
from clmembench.model import Array, Device, Kernel, Launch, Prepared, Probe, Skip, Slope, Value, Work
from clmembench.patterns import NODE_BYTES, footprint, offsets

STEPS_A_BLOCK = 16  # as unrolled in chase.cl
FULL_LAPS_TO = 1 << 13  # nodes; up to here both ends are whole laps, so that an L1 that a launch finds empty cancels
PART_LAP = 1 << 11  # steps of the near end where the set is larger than any L1
WALKERS = 1024  # at most, that follow a lap together
A_WALKER = 16  # nodes that are worth one
ALONE_TO = 64 * MIB  # bytes of lines, or twice the cache that the device claims: one work-item warms what its core may keep
ALIGNMENT = 2 * MIB  # of the base: offsets are then what indexes any cache, and TLBs of pages up to there
ARENA_BYTES = 32 * MIB  # at least, so that small sets always lie in the same pages
MOST_WORDS = 1 << 32

MEAN = replace(LATENCY, only={"mode": ("lap",)})


@dataclass(frozen=True, slots=True)
class Chain:
    """A lap laid out in a memory space: its words in order, and what kernels are given of it."""

    device: Device
    kernels: dict[str, Kernel]
    args: tuple[Any, ...]
    lap: Array

    def launch(self, kernel: str, *args: Any, items: int = 1) -> Launch:
        """One of the kernels that follow the lap, by work-items that are each a work-group of their own."""
        return Launch(self.kernels[kernel], (*self.args, *args), (items,), (1,))

    def follow(self) -> None:
        """Raises AssertionError where a step of the lap does not reach the node that it should."""
        corners = np.linspace(0, self.lap.size, min(WALKERS, max(1, self.lap.size // A_WALKER)) + 1).astype(np.uint32)
        walkers = corners.size - 1
        starts, wrong = self.device.kept("chase corners", corners.nbytes), self.device.kept("chase wrong", 4 * walkers)
        self.device.upload(starts, corners)
        self.device.run([self.launch("follow", starts, wrong, items=walkers)])
        left = int(self.device.download(wrong, np.uint32, walkers).sum())
        assert left == 0, f"the chain is damaged: {left} of {self.lap.size} steps of a lap are not as built, or come after one"


def laid_out(device: Device, probe: Probe) -> Chain:
    """Build the chain of a probe, and follow it once. Raises Skip where it is none, or does not fit."""
    try:
        lap = offsets(probe.pattern) // NODE_BYTES
    except ValueError as error:
        raise Skip(str(error)) from error
    if lap.max() >= MOST_WORDS:
        raise Skip(f"a chase reaches {MOST_WORDS * NODE_BYTES} B, and this one is over that")
    words = device.kept("chase lap", 4 * lap.size)
    device.upload(words, lap.astype(np.uint32))
    nodes = np.uint32(lap.size)
    arena = device.kept("chase arena", max(ARENA_BYTES, footprint(probe.pattern)) + ALIGNMENT)
    kernels = dict(device.build(kernel_source("chase"), **defines(device, probe)))
    device.run([Launch(kernels["build"], (arena, words, nodes), (lap.size,))])
    chain = Chain(device, kernels, (arena, words, nodes), lap)
    chain.follow()
    return chain


def defines(device: Device, probe: Probe) -> dict[str, Value]:
    """What chase.cl is built with for a probe."""
    return {f"SPACE_{probe.space}": 1, "PTX": "ptx" in device.info.features, "ALIGNMENT": ALIGNMENT}


@benchmark(
    MEAN,
    suite="memory",
    source="Mei & Chu 2015, section 4; Razzaq et al. 2016, section IV-A1",
    planned=True,
    order=axis("random", "sequential", "blocks", "pairs", "walk", "segments"),
    count=axis(512),
    stride_bytes=axis(64),
    shift_bytes=axis(0),
    block_bytes=axis(0),
    visits=axis(1),
    segments=axis("", accepts=lambda value: isinstance(value, str)),
    seed=axis(0),
    space=axis("global", "global_cg", "readonly", needs={"global_cg": ["ptx"]}),
    mode=axis("lap"),
    skip=axis(0),
    record=axis(0),
    cold=axis(False, True),
)
def chase(device: Device, **params: Value) -> Prepared:
    """Latency of a memory space, where and in the order that a probe says: asked by plans, not by a grid.

    One work-item follows a lap, a chain in which each node holds where the next one is: absolute addresses from a base aligned
    to 2 MiB in global memory. mode lap: the slope of time over steps in the steady state; each launch resumes where the last
    one ended, after a whole warm lap. All probes of a process use one buffer, and so the same pages, until one needs a larger
    one. Raises Skip for a space that the device has not, or a lap that does not fit into it.
    """
    probe = Probe.of(params)
    return _lap(device, laid_out(device, probe))


def _lap(device: Device, chain: Chain) -> Slope:
    nodes = chain.lap.size
    state = device.kept("chase state", 16)
    device.upload(state, np.array([chain.lap[0], 0], np.uint64))
    alone = nodes * line_bytes(device.info) <= max(ALONE_TO, 2 * device.info.cache_bytes)
    warm = -(-nodes // STEPS_A_BLOCK)

    def work(steps: int) -> Work:
        laps = -(-steps // nodes)
        blocks = -(-(laps * nodes if nodes <= FULL_LAPS_TO else steps) // STEPS_A_BLOCK)
        notes = (f"near end {blocks * STEPS_A_BLOCK / nodes:.2g} of a lap, after a whole warm lap",) if steps < nodes else ()
        return Work(
            commands=(chain.launch("chase", state, np.uint32(blocks)),),
            ops=blocks * STEPS_A_BLOCK,
            check=check,
            notes=notes,
        )

    check = _checked(chain, lambda: device.download(state, np.uint64, 2))
    if alone:
        device.run([chain.launch("chase", state, np.uint32(warm))])
    return Slope(work, start=nodes if nodes <= FULL_LAPS_TO else PART_LAP, most=STEPS_A_BLOCK << 31)


def _checked(chain: Chain, state: Callable[[], Array]) -> Callable[[], None]:
    """A check of where the chase is after so many steps; and, but for the first time, when caches are to stay as they are,
    whether the chain is still whole."""
    before: list[bool] = []

    def check() -> None:
        word, steps = (int(n) for n in state())
        wanted = int(chain.lap[steps % chain.lap.size])
        assert word == wanted, f"after {steps} steps the chase is at word {word}, not at {wanted}"
        if before:
            chain.follow()
        before.append(True)

    return check
