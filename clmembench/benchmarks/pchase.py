"""B1: load-to-use latency of global memory by pointer chase, over working sets from 4 KiB up."""

from __future__ import annotations

import math
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
MAX_FULL_LAP_NODES = 1 << 13  # up to here both ends of the slope are whole laps, so that the first misses in L1 cancel
PARTIAL_LAP_STEPS = 1 << 11  # steps of the near end for sets larger than any L1
WARMING_ITEMS = 1024  # they share the warm-up lap of a large set, for which one work-item needs 8 s per 2 GiB
MAX_SINGLE_ITEM_LAP_BYTES = 128 * MIB  # or twice the claimed cache: warmed up by one work-item
SEED = 20160131
ONE_UNIT = (
    "the end of a sweep by one compute unit: other units may be nearer to the memory. The row "
    "'load from DRAM, by topology' excludes translation and prefetched lines, and on GPUs covers all units"
)


def random_cycle(nodes: int, seed: int) -> tuple[Array, Array]:
    """One cycle through all nodes in random order.

    Returns the nodes in the cycle's order and each node's successor, both (nodes,), uint32. Prefetchers cannot predict the next
    address of a random order.
    """
    # keys above numbers, sorted: a third of the time of a shuffle, whose accesses are all over memory
    keys = np.random.default_rng(seed).integers(0, 1 << 32, nodes, dtype=np.uint64) << np.uint64(32)
    keys |= np.arange(nodes, dtype=np.uint64)
    keys.sort()
    order = keys.astype(np.uint32)
    successor = np.empty(nodes, dtype=np.uint32)
    successor[order] = np.roll(order, -1)
    return order, successor


@dataclass(frozen=True, slots=True)
class Chase:
    """A random cycle of absolute addresses in device memory, and the position of the one work-item that follows it."""

    device: Device
    kernels: Mapping[str, Kernel]
    chain: Buffer
    cursor: Buffer
    successor: Buffer
    order: Array  # the nodes in the cycle's order
    spacing: int
    first: int  # index in that order of the first node

    @classmethod
    def built(cls, device: Device, nodes: int, spacing: int, seed: int, chain: Buffer | None = None) -> Chase:
        """A cycle through this many nodes, `spacing` bytes apart, in a new buffer unless there is one for it."""
        kernels = device.build(kernel_source("pchase"))
        chain = device.alloc(nodes * spacing) if chain is None else chain
        cursor, successor = device.alloc(32), device.alloc(4 * nodes)
        order, successors = random_cycle(nodes, seed)
        device.upload(successor, successors)
        device.run([Launch(kernels["build_chain"], (chain, successor, cursor, np.uint64(spacing)), (nodes,))])
        return cls(device, kernels, chain, cursor, successor, order, spacing, int(np.argmin(order)))

    def launch(self, blocks: int) -> Launch:
        """Follow the cycle for this many further blocks of steps."""
        return Launch(self.kernels["chase"], (self.cursor, np.uint32(blocks)), (1,), (1,))

    def verify(self, steps: int) -> None:
        """Raises AssertionError if the last launch made another number of steps, or if the chase is at a wrong node."""
        reached, total, made, base = (int(n) for n in self.device.download(self.cursor, np.uint64, 4))
        assert made == steps, f"{made} steps were made, not {steps}"
        wanted = int(self.order[(self.first + total) % self.order.size])
        assert reached == base + wanted * self.spacing, f"after {total} steps the chase is not at node {wanted}"

    def verify_chain(self) -> None:
        """Raises AssertionError if a node does not hold its initial value."""
        wrong, nodes = self.device.alloc(4), self.order.size
        self.device.upload(wrong, np.zeros(1, np.uint32))
        args = (self.chain, self.successor, wrong, np.uint64(self.spacing))
        self.device.run([Launch(self.kernels["compare"], args, (nodes,))])
        damaged = int(self.device.download(wrong, np.uint32, 1)[0])
        assert damaged == 0, f"{damaged} of {nodes} nodes of the chain are damaged"


def _processes(info: DeviceInfo, array_bytes: int, spacing_bytes: int | str) -> int:
    """Processes of a point.

    The physical pages of a process decide which lines fit in a physically indexed cache. Therefore lines are chased in several
    processes at one size per octave, in its middle, since most caches end at a power of two.
    """
    return MIN_PROCESSES_FOR_INTERVAL if spacing_bytes == "line" and _quarter_octave(array_bytes) == 2 else 1


def _in_default_subset(info: DeviceInfo, array_bytes: int, spacing_bytes: int | str) -> bool:
    """Points of the default subset: of the second spacing, which shows lines and sectors, two sizes per octave."""
    return spacing_bytes == "line" or _quarter_octave(array_bytes) % 2 == 0


def _quarter_octave(array_bytes: int) -> int:
    return round(4 * math.log2(array_bytes / (4 * KIB))) % 4


@benchmark(
    LATENCY,
    suite="memory",
    source="Razzaq et al. 2016, section IV-A1 (B1); Mei & Chu 2015, section 4",
    quick={
        "array_bytes": growing(4 * KIB, lambda info: min(headline_bytes(info), 512 * MIB), per_octave=2),
        "spacing_bytes": axis("line"),
    },
    headlines=(
        Headline(
            "latency",
            "nearest cache",
            "latency",
            {"spacing_bytes": "line"},
            {"array_bytes": "smallest"},
            same_as="load from L1, by topology",
        ),
        Headline("latency", "memory", "latency", {"spacing_bytes": "line"}, {"array_bytes": "largest"}, note=ONE_UNIT),
    ),
    quantities=[Quantity(NEAREST_LATENCY, "latency", {"spacing_bytes": ("line",)})],
    figure_axis="array_bytes",
    processes=_processes,
    default_subset=_in_default_subset,
    array_bytes=growing(4 * KIB, headline_bytes, per_octave=4),
    spacing_bytes=axis_of(lambda info: ("line", 256)),
)
def pchase(device: Device, array_bytes: int, spacing_bytes: int | str) -> Slope:
    """Load-to-use latency of global memory as the working set outgrows each cache.

    One work-item follows a random cycle of absolute addresses, with one node per `spacing_bytes`. The metric is the slope of
    time over steps. Latency includes address translation. Each launch continues where the last one ended, and its final
    position verifies the number of steps. Raises Skip if the set has too few nodes, or if nodes would overlap.
    """
    spacing = line_bytes(device.info) if spacing_bytes == "line" else int(spacing_bytes)
    if spacing < 8 or spacing % 8:
        raise Skip(f"nodes {spacing} B apart cannot hold addresses of 8 B: choose a multiple of 8")
    nodes = array_bytes // spacing
    if nodes < STEPS_PER_BLOCK:
        raise Skip(f"{array_bytes} B hold only {nodes} nodes at a spacing of {spacing} B")
    chase = Chase.built(device, nodes, spacing, SEED + device.seed)
    alone = array_bytes <= max(MAX_SINGLE_ITEM_LAP_BYTES, 2 * device.info.cache_bytes)
    # the first and last node of each work-item of a lap
    corners = np.linspace(0, nodes, (1 if alone else WARMING_ITEMS) + 1).astype(np.int64)
    starts, walked = device.alloc(4 * corners.size), device.alloc(8 * (corners.size - 1))
    device.upload(starts, chase.order[corners % nodes])
    segments = np.diff(corners)

    lapped: list[bool] = []

    def warm() -> None:
        """Verify by one whole lap that it visits every node once; it also warms the caches. Only the first call does this."""
        if not lapped:
            args = (chase.chain, starts, walked, np.uint64(spacing), np.uint64(nodes + 1))
            device.run([Launch(chase.kernels["lap"], args, (segments.size,), (1,))])
            steps = device.download(walked, np.uint64, segments.size)
            assert np.array_equal(steps, segments), f"a lap takes {steps.sum()} steps, not {nodes}, or has another order"
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
