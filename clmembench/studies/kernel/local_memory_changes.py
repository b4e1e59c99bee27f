"""Changes of a traced launch in local memory: tiles, by which work-groups access global memory in order, and padding. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from clmembench.studies.kernel import patterns
from clmembench.studies.kernel.changes import (
    LINE_BYTES,
    MAX_TILE_BYTES,
    MIN_SHARE,
    ORDER,
    WIDTH,
    Change,
    accesses_of_buffers,
    shown_instructions,
)
from clmembench.studies.kernel.demand import Demand
from clmembench.studies.kernel.facts import KernelFacts, MemoryInstruction
from clmembench.studies.kernel.requests import BUFFER_SHIFT, LOCAL, Accesses, Integers, Sample, joined
from clmembench.studies.kernel.trace import LOAD, STORE
from clmembench.units import format_bytes

BANKS, BANK_COUNT = "S1", "32"  # id of the guideline; banks that are judged
MIN_WASTE_RATIO = 1.5  # times the fewest lines or passes: less is alignment
LOAD_OF_TILE = "%tile = load i32, i32 addrspace(1)* %from, align 4"
STORE_TO_TILE = "store i32 %tile, i32 addrspace(3)* %to, align 4"
ADDRESS_OF_TILE = "%at = getelementptr i32, i32 addrspace(1)* %from, i64 %i"


def local_memory_changes(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """Those that the sample supports, on devices whose local memory is no part of a cache."""
    if need.in_lockstep:
        yield from tiles(sample, facts)
        yield from paddings(sample, facts, need)


def tiles(sample: Sample, facts: KernelFacts) -> Iterator[Change]:
    """Accesses whose words the work-items of a group could exchange through local memory, and access in order: loads of what
    the launch does not write, and stores of different words."""
    accesses, items = sample.accesses, sample.group_items
    for _, places in accesses_of_buffers(sample):
        operations = set(accesses.operation[places].tolist())
        for number in np.unique(accesses.instruction[places]).tolist():
            if operations != {LOAD} and operations != {STORE}:
                continue
            at = places[accesses.instruction[places] == number]
            mine = accesses[at]
            if operations == {STORE} and len(np.unique(mine.address)) < len(mine):
                continue
            change = _tile(sample, facts, at, items)
            if change is not None:
                yield change


def _tile(sample: Sample, facts: KernelFacts, at: Integers, items: int) -> Change | None:
    """The change of one instruction, whose accesses are `at`; None where a tile is no use, or has no room."""
    mine = sample.accesses[at]
    size = int(mine.size[0])
    group, executions = np.unique(mine.group, return_inverse=True)[1], int(mine.nth.max()) + 1
    if (mine.size != size).any() or len(mine) < MIN_SHARE * (group.max() + 1) * items * executions:
        return None  # work-items that go different ways cannot meet at a barrier
    parts = 1
    while True:  # the fewest parts of a loop whose words fit
        part = mine.nth * parts // executions
        chunk = joined(group, part)
        words, first = np.unique(joined(chunk, mine.address - mine.address.min()), return_index=True)
        owner = chunk[first]
        most = int(np.unique(owner, return_counts=True)[1].max()) * size
        if most <= MAX_TILE_BYTES:
            break
        if parts == executions:
            return None
        parts = min(executions, 2 * parts)
    address = mine.address[first]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    rank = np.arange(len(words)) - np.repeat(starts, np.diff(np.append(starts, len(words))))
    request = joined(joined(owner, rank // items), rank % items // int(WIDTH))
    lines = len(patterns.touched_lines(request, address, mine.size[first], LINE_BYTES)[0])
    before = _lines(mine)
    if before < MIN_WASTE_RATIO * lines:
        return None
    shown = shown_instructions(facts, mine.instruction[:1])[0]
    tile = replace(mine[first], item=rank % items, nth=executions * (1 + part[first]) + rank // items)
    position = np.full((int(chunk.max()) + 1, items), -1)
    position[chunk[::-1], mine.item[::-1]] = at[::-1]  # of the first access of each work-item in each part
    where = position[owner, rank % items]
    if (where < 0).any():
        return None
    inside = replace(mine, space=np.full_like(mine.space, LOCAL))
    accesses = sample.accesses
    rest = np.ones(len(accesses), bool)
    rest[at] = False
    pieces = (accesses[rest], inside, tile)
    order = np.argsort(np.concatenate([np.flatnonzero(rest), at, where - 0.5]), kind="stable")
    together = Accesses(
        **{one.name: np.concatenate([getattr(piece, one.name) for piece in pieces])[order] for one in fields(Accesses)}
    )
    extra, wide = max(sample.texts) + 1, max(1, size // patterns.WORD_BYTES)
    copied = len(words) * sample.scale
    changed = replace(
        sample, accesses=together, local_bytes=sample.local_bytes + most,
        barriers=sample.barriers + 2 * parts * sample.groups,
        texts={**sample.texts, extra: LOAD_OF_TILE, extra + 1: STORE_TO_TILE, extra + 2: ADDRESS_OF_TILE},
        executed={**sample.executed, extra: copied, extra + 1: copied, extra + 2: 2 * copied},
    )  # fmt: skip
    passes = (shown.requests[WIDTH] + len(np.unique(request)) * sample.scale) * wide
    found = f"{shown.lines_per_request[WIDTH][str(LINE_BYTES)]:.3g} lines of {LINE_BYTES} B a request"
    if len(mine) > len(words):
        found += f"; a work-group uses each word {len(mine) / len(words):.3g} times"
    verb = "load" if int(mine.operation[0]) == LOAD else "collect"
    change = f"{verb} {format_bytes(most)} of it in local memory by work-group, and access global memory in order"
    return Change(ORDER, shown.line, found, change, changed, {"local_passes": passes})


def _lines(mine: Accesses) -> int:
    """Lines that requests of one instruction touch, in all."""
    request = joined(joined(mine.group, mine.nth), mine.item // int(WIDTH))
    return len(patterns.touched_lines(request, mine.address, mine.size, LINE_BYTES)[0])


def paddings(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """A word after each row of an array in local memory, the rows as long as neighbours are apart."""
    places = np.flatnonzero(sample.accesses.space == LOCAL)
    mine = sample.accesses[places]
    shown = [one for one in facts.memory if one.bank_conflict_ways]
    if all(one.bank_conflict_ways[WIDTH][BANK_COUNT] < MIN_WASTE_RATIO for one in shown):
        return
    before = _passes(mine, shown)
    worst = max(shown, key=lambda one: one.requests[WIDTH] * one.bank_conflict_ways[WIDTH][BANK_COUNT])
    pad, found = max(patterns.WORD_BYTES, worst.access_bytes), []
    for row in {LINE_BYTES, *(one.stride_bytes for one in shown if one.stride_bytes and one.stride_bytes >= LINE_BYTES)}:
        offset = mine.address & ((1 << BUFFER_SHIFT) - 1)
        found.append((_passes(replace(mine, address=mine.address + offset // row * pad), shown), row))
    after, row = min(found)
    if before >= MIN_WASTE_RATIO * after:
        grown = replace(sample, local_bytes=sample.local_bytes * (row + pad) // row)
        ways = worst.bank_conflict_ways[WIDTH][BANK_COUNT]
        finding = f"local {worst.op}s take {ways:.3g} passes over {BANK_COUNT} banks"
        added = {"local_passes": need.local_passes * (after / before - 1)}
        yield Change(BANKS, worst.line, finding, f"pad rows of {row} B by {pad} B", grown, added)


def _passes(mine: Accesses, local: Sequence[MemoryInstruction]) -> float:
    """Passes over the banks that accesses of local memory take, in all."""
    width, total = int(WIDTH), 0.0
    for one in local:
        chosen = mine[mine.instruction == one.instruction]
        request = np.unique(joined(joined(chosen.group, chosen.nth), chosen.item // width), return_inverse=True)[1]
        ways = patterns.bank_ways(request, chosen.item, chosen.address, chosen.size, width)[int(BANK_COUNT)]
        total += (int(request.max(initial=-1)) + 1) * ways * max(1, one.access_bytes // patterns.WORD_BYTES)
    return total
