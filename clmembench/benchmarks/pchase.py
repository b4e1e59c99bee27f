"""B1: load-to-use latency of global memory by pointer chase, over working sets from 4 KiB up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks import (
    LATENCY,
    MIB,
    MIN_PROCESSES_FOR_INTERVAL,
    NEAREST_LATENCY,
    axis,
    axis_of,
    benchmark,
    growing,
    headline_bytes,
    line_bytes,
    telling_count,
)
from clmembench.model import Array, Buffer, Device, DeviceInfo, Headline, Kernel, Launch, Quantity, Skip, Slope, Work
from clmembench.resources import kernel_source

KIB = 1024
STEPS_PER_BLOCK = 16  # as unrolled in pchase.cl
MAX_FULL_LAP_NODES = 1 << 13  # up to here both ends are whole laps: misses of an empty L1 cancel
PARTIAL_LAP_STEPS = 1 << 11  # steps of the near end where the set exceeds any L1
WARMING_ITEMS = 1024  # they share a large set's warm lap, which takes one of them 8 s over 2 GiB
MAX_SINGLE_ITEM_LAP_BYTES = 128 * MIB  # or twice the claimed cache: warmed by one work-item
SEED = 20160131
ONE_UNIT = (
    "the end of a sweep by one compute unit, address translation included: others may be nearer to the memory. The row load "
    "from DRAM, by topology, is without translation and without lines that prefetchers bring, and on GPUs over all units"
)


def random_cycle(nodes: int, seed: int) -> tuple[Array, Array]:
    """One cycle through all nodes in random order (uniform over cycles, by Sattolo's algorithm).

    Returns the nodes in the cycle's order and each node's successor, both (nodes,), uint32. The random order keeps prefetchers
    from predicting the next address.
    """
    order = np.random.default_rng(seed).permutation(nodes).astype(np.uint32)
    successor = np.empty(nodes, dtype=np.uint32)
    successor[order] = np.roll(order, -1)
    return order, successor


@dataclass(frozen=True, slots=True)
class Chase:
    """A random cycle of absolute addresses in device memory, and the cursor of the one work-item that follows it."""

    device: Device
    kernels: Mapping[str, Kernel]
    chain: Buffer
    cursor: Buffer
    successor: Buffer
    order: Array  # of the nodes in the cycle
    spacing: int
    first: int  # place in that order of the node where the cursor begins

    @classmethod
    def built(cls, device: Device, nodes: int, spacing: int, seed: int) -> Chase:
        """A cycle through that many nodes, `spacing` bytes apart."""
        kernels = device.build(kernel_source("pchase"))
        chain, cursor, successor = device.alloc(nodes * spacing), device.alloc(32), device.alloc(4 * nodes)
        order, successors = random_cycle(nodes, seed)
        device.upload(successor, successors)
        device.run([Launch(kernels["build_chain"], (chain, successor, cursor, np.uint64(spacing)), (nodes,))])
        return cls(device, kernels, chain, cursor, successor, order, spacing, int(np.argmin(order)))

    def launch(self, blocks: int) -> Launch:
        """Follow the cycle on for so many blocks of steps."""
        return Launch(self.kernels["chase"], (self.cursor, np.uint32(blocks)), (1,), (1,))

    def verify(self, steps: int) -> None:
        """The last launch made so many steps, and all launches together have led to where they should."""
        reached, total, made, base = (int(n) for n in self.device.download(self.cursor, np.uint64, 4))
        assert made == steps, f"{made} steps were made, not {steps}"
        wanted = int(self.order[(self.first + total) % self.order.size])
        assert reached == base + wanted * self.spacing, f"after {total} steps the chase is not at node {wanted}"

    def verify_chain(self) -> None:
        """Every node holds what was written to it."""
        wrong, nodes = self.device.alloc(4), self.order.size
        self.device.upload(wrong, np.zeros(1, np.uint32))
        args = (self.chain, self.successor, wrong, np.uint64(self.spacing))
        self.device.run([Launch(self.kernels["compare"], args, (nodes,))])
        damaged = int(self.device.download(wrong, np.uint32, 1)[0])
        assert damaged == 0, f"{damaged} of {nodes} nodes of the chain are damaged"


def _processes(info: DeviceInfo, array_bytes: int, spacing_bytes: int | str) -> int:
    """Processes of a point. The physical pages of a process decide what fits into a physically indexed cache, so lines are
    chased in several processes at one size an octave: in its middle, since most caches end at a power of two."""
    steps = round(4 * np.log2(array_bytes / (4 * KIB)))
    return MIN_PROCESSES_FOR_INTERVAL if spacing_bytes == "line" and steps % 4 == 2 else 1


@benchmark(
    LATENCY,
    suite="memory",
    source="Razzaq et al. 2016, section IV-A1 (B1); Mei & Chu 2015, section 4",
    quick={
        "array_bytes": growing(4 * KIB, lambda info: min(headline_bytes(info), 512 * MIB), per_octave=2),
        "spacing_bytes": axis("line"),
    },
    headlines=(
        Headline("latency", "nearest cache", "latency", {"spacing_bytes": "line"}, {"array_bytes": "smallest"}),
        Headline("latency", "memory", "latency", {"spacing_bytes": "line"}, {"array_bytes": "largest"}, note=ONE_UNIT),
    ),
    quantities=[Quantity(NEAREST_LATENCY, "latency", {"spacing_bytes": ("line",)})],
    figure_axis="array_bytes",
    processes=_processes,
    array_bytes=growing(4 * KIB, headline_bytes, per_octave=4),
    spacing_bytes=axis_of(lambda info: ("line", 256)),
)
def pchase(device: Device, array_bytes: int, spacing_bytes: int | str) -> Slope:
    """Load-to-use latency of global memory as the working set outgrows each cache.

    One work-item follows a random cycle of absolute addresses, one node each `spacing_bytes`. The metric is the slope of time
    over steps. Latency includes address translation. Each launch resumes where the last one ended, and where it ends shows
    how many steps it made. Raises Skip where the set
    holds too few nodes, or they would overlap.
    """
    spacing = line_bytes(device.info) if spacing_bytes == "line" else int(spacing_bytes)
    if spacing < 8 or spacing % 8:
        raise Skip(f"nodes {spacing} B apart cannot hold addresses of 8 B: choose a multiple of 8")
    nodes = array_bytes // spacing
    if nodes < STEPS_PER_BLOCK:
        raise Skip(f"{array_bytes} B hold only {nodes} nodes at a spacing of {spacing} B")
    chase = Chase.built(device, nodes, spacing, SEED + device.seed)
    alone = array_bytes <= max(MAX_SINGLE_ITEM_LAP_BYTES, 2 * device.info.cache_bytes)
    # where each walker of a lap begins and ends
    corners = np.linspace(0, nodes, (1 if alone else WARMING_ITEMS) + 1).astype(np.int64)
    starts, walked = device.alloc(4 * corners.size), device.alloc(8 * (corners.size - 1))
    device.upload(starts, chase.order[corners % nodes])
    segments = np.diff(corners)

    lapped: list[bool] = []

    def warm() -> None:
        """A whole lap visits every node once, which warms the caches too; the first time only."""
        if not lapped:
            args = (chase.chain, starts, walked, np.uint64(spacing), np.uint64(nodes + 1))
            device.run([Launch(chase.kernels["lap"], args, (segments.size,), (1,))])
            steps = device.download(walked, np.uint64, segments.size)
            assert np.array_equal(steps, segments), f"a lap takes {steps.sum()} steps, not {nodes}, or not in the order built"
            lapped.append(True)

    def work(least: int) -> Work:
        blocks = telling_count(-(-least // STEPS_PER_BLOCK), nodes, STEPS_PER_BLOCK)
        steps = blocks * STEPS_PER_BLOCK

        def check() -> None:
            chase.verify(steps)
            warm()
            chase.verify_chain()

        notes = (f"near end {steps / nodes:.2g} of a lap, after a whole warm lap",) if least < nodes else ()
        return Work(commands=(chase.launch(blocks),), ops=steps, check=check, notes=notes)

    return Slope(work, start=nodes if nodes <= MAX_FULL_LAP_NODES else PARTIAL_LAP_STEPS, most=STEPS_PER_BLOCK << 31)
