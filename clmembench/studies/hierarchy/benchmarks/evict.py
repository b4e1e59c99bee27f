"""Eviction probes as one Work: one line after a growing number of others, or lines of a scan after later ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clmembench.benchmarks.spaces import BASE_ALIGNMENT_BYTES, Chain, build_chain
from clmembench.model import Array, Device, Fill, Launch, Local, Probe, Read, Skip, Value, Work
from clmembench.model.address_patterns import (
    MIN_PAGE_BYTES,
    NODE_BYTES,
    crowd_counts,
    probe_bytes,
    scan_offsets,
    scan_span,
    timed_numbers,
)

MAX_RECORDED = 256  # numbers of lines in one probe
MAX_LOOKS = 1 << 14  # lines of a scan that are timed
ITEMS = 1024  # of the work-group that loads the lines, on GPUs
MAX_CROWD_BYTES = 1 << 33  # words have 32-bit numbers; a quarter of their range


def prepare_evict(device: Device, probe: Probe, empty_brackets: int, chain_ops: int, **defines: Value) -> Work:
    """The Work of a probe in mode evict. Raises Skip if there is no counter, and for an invalid probe."""
    _require_counter(probe, defines)
    record, crowd, apart = probe.record, probe.crowd, probe.crowd_bytes
    if not 0 < record <= MAX_RECORDED or not 0 <= probe.skip <= probe.until <= crowd or crowd & (crowd - 1) or probe.rounds < 1:
        raise Skip(f"an eviction probe records up to {MAX_RECORDED} numbers of lines, from a power of two of lines")
    chain = _chain_in_filled_arena(device, probe, defines)
    numbers = (
        *(probe.skip, probe.until, record, crowd, apart // NODE_BYTES),
        *(probe.also_from, probe.also_until, probe.rounds),
    )
    ops = probe.rounds * (sum(crowd_counts(probe)) + record * max(0, probe.also_until - probe.also_from)) + record
    reached = np.full(record, NODE_BYTES * int(chain.lap[1]))
    args = tuple(np.uint32(n) for n in numbers)
    return _crowd_work(device, chain, "evict", args, lambda: reached, ops, (empty_brackets, chain_ops))


def prepare_residence(device: Device, probe: Probe, empty_brackets: int, chain_ops: int, **defines: Value) -> Work:
    """The Work of a probe in mode residence. Raises Skip if there is no counter, and for an invalid probe."""
    _require_counter(probe, defines)
    record, window, apart = probe.record, probe.crowd, probe.crowd_bytes
    first = probe.skip + probe.also_until + 1
    if not 0 < record <= MAX_LOOKS or probe.also_from > probe.also_until or first > probe.until or probe.rounds < 1:
        raise Skip(f"a scan times up to {MAX_LOOKS} lines, each loaded before")
    if window < 1 or window & (window - 1) or window * apart % MIN_PAGE_BYTES or probe.turns < 1:
        raise Skip(f"a window of {window} lines {apart} B apart is no power of two of lines, or no whole pages")
    chain = _chain_in_filled_arena(device, probe, defines)
    numbers = (
        *(probe.skip, first, probe.until, record, window, apart // NODE_BYTES),
        *(probe.rounds, probe.also_from, probe.also_until),
    )
    timed = timed_numbers(probe)[1]
    turn, span = device.kept("chase turn", 4), scan_span(probe)
    device.upload(turn, np.array([probe.skip % probe.turns], np.uint32))

    def reached() -> Array:
        """Nodes that the last launch's timed loads led to."""
        last = int(device.download(turn, np.uint32, 1)[0]) - 1
        return scan_offsets(probe, timed + last % probe.turns * span)

    ops = probe.until - probe.skip + 2 * record
    args = (*(np.uint32(n) for n in (*numbers, probe.turns, span)), turn)
    return _crowd_work(device, chain, "residence", args, reached, ops, (empty_brackets, chain_ops))


PREPARE_CROWD: dict[str, Callable[..., Work]] = {"evict": prepare_evict, "residence": prepare_residence}


def _require_counter(probe: Probe, defines: dict[str, Value]) -> None:
    if not defines["TICKS"]:
        raise Skip("no in-kernel counter works here: no single access can be timed")
    if probe.space not in ("global", "global_cg"):
        raise Skip("eviction probes exist for global memory only")


def _chain_in_filled_arena(device: Device, probe: Probe, defines: dict[str, Value]) -> Chain:
    """The chain of the pattern, in a buffer that holds all lines, each of which was written once."""
    nbytes = probe_bytes(probe)
    if probe.crowd_bytes < NODE_BYTES or probe.crowd_bytes % NODE_BYTES or nbytes > MAX_CROWD_BYTES:
        raise Skip(f"lines {probe.crowd_bytes} B apart, {nbytes} B in all, are not possible")
    if nbytes + BASE_ALIGNMENT_BYTES > device.info.max_alloc_bytes:
        raise Skip(f"{nbytes} B do not fit into one buffer")
    arena = device.kept("chase arena", nbytes + BASE_ALIGNMENT_BYTES)
    device.run([Fill(arena, nbytes + BASE_ALIGNMENT_BYTES, 0)])
    return build_chain(device, probe, **defines)


def _crowd_work(
    device: Device,
    chain: Chain,
    kernel: str,
    own: Sequence[Any],
    reached: Callable[[], Array],
    ops: int,
    costs_and_chain: tuple[int, int],
) -> Work:
    """The Work of a kernel that times lines after others: its own arguments, the offsets that the last launch's timed loads led
    to, the number of its loads, and the empty brackets and dependent operations that calibrate its clock."""
    (empty_brackets, chain_ops), record = costs_and_chain, len(reached())
    items = min(device.info.max_work_group, ITEMS) if device.info.kind == "gpu" else 1
    ticks, visited = device.kept("chase ticks", 4 * record), device.kept("chase visited", 4 * record)
    costs, steps = device.kept("chase costs", 4 * empty_brackets), device.kept("chase chain", 16)
    sink = device.kept("chase sink", 8 * ITEMS)
    device.upload(steps, np.array([chain_ops, 0], np.uint64))
    kept = max(min(record, MAX_RECORDED), empty_brackets)
    args = (
        *(*chain.args, Local(4 * kept), Local(4 * kept), ticks, visited, costs, steps),
        *(np.uint32(0x9E3779B9), np.uint32(1), *own, sink),
    )

    def check() -> None:
        """Verifies that every timed access led to the expected node."""
        reached_offsets = device.download(visited, np.uint32, record)
        wrong = reached_offsets != reached().astype(np.uint32)
        assert not wrong.any(), f"{int(wrong.sum())} of {record} accesses did not lead to the node that follows"

    return Work(
        commands=(Launch(chain.kernels[kernel], args, (items,), (items,)),),
        ops=ops,
        reads={
            "ticks": Read(ticks, "uint32", record, "ticks"),
            "visited": Read(visited, "uint32", record, "bytes"),
            "cost": Read(costs, "uint32", empty_brackets, "ticks"),
            "chain": Read(steps, "uint64", 2, "operations, ticks"),
        },
        outputs=((ticks, 4 * record), (visited, 4 * record), (costs, 4 * empty_brackets)),
        check=check,
        notes=chain.notes,
    )
