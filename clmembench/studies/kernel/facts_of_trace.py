"""Facts of a kernel from the trace of some of its work-groups. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from clmembench.studies.kernel import patterns, program, reuse
from clmembench.studies.kernel.facts import (
    LINE_BYTES,
    WIDTHS,
    Branch,
    KernelFacts,
    MemoryInstruction,
    Operation,
    ReuseCurve,
    Sample,
    Space,
    Totals,
    TracedLaunch,
)
from clmembench.studies.kernel.launch import KernelLaunch
from clmembench.studies.kernel.trace import ATOMIC, BRANCH, LOAD, STORE, Trace

SPACES: Mapping[int, Space] = {1: "global", 2: "constant", 3: "local"}
OPERATIONS: Mapping[int, Operation] = {LOAD: "load", STORE: "store", ATOMIC: "atomic"}
GLOBAL, CONSTANT, LOCAL = 1, 2, 3
SMALLEST_CACHE = 1 << 10
LOCAL_BITS = 32  # of an address of local memory, whose buffer stands above
LOCAL_MASK = (1 << LOCAL_BITS) - 1
Events = npt.NDArray[np.void]


def facts_of(trace: Trace, launch: KernelLaunch | None, buffer_bytes: int | None) -> KernelFacts:
    """The facts of a traced launch: `launch` as it was asked for (None: by a program), and the bytes of all its buffers, where
    they are known."""
    factor = prod(trace.global_size) / max(1, trace.items)
    branches = trace.events[trace.events["operation"] == BRANCH]
    accesses = trace.events[trace.events["operation"] != BRANCH]
    return KernelFacts(
        kernel=trace.kernel,
        launch=TracedLaunch(
            str(launch.source) if launch is not None else "",
            trace.global_size,
            trace.local_size,
            launch.arguments if launch is not None else (),
            launch.defines if launch is not None else {},
        ),
        sampled=Sample(trace.items, trace.groups, trace.all_groups, len(accesses), factor),
        totals=_totals(trace, accesses, factor, buffer_bytes),
        memory=tuple(_memory(trace, accesses, factor)),
        branches=tuple(_branches(trace, branches, factor)),
        reuse=tuple(_curves(accesses, factor)),
        faults=trace.faults,
        races_checked=trace.checked,
        instructions_by_line=_by_line(trace, factor),
        text=trace.source,
    )


def _totals(trace: Trace, accesses: Events, factor: float, buffer_bytes: int | None) -> Totals:
    by_kind = Counter[str]()
    flops = double_flops = 0
    for one in trace.instructions.values():
        by_kind[program.kind(one.text)] += one.executed
        flops += one.executed * program.flops(one.text)
        double_flops += one.executed * program.flops(one.text) * ("double" in one.text)
    items = prod(trace.global_size)
    executed = sum(one.executed for one in trace.instructions.values())
    bytes_of = {
        (space, operation): float(accesses["size"][(accesses["space"] == space) & (accesses["operation"] == operation)].sum())
        for space in SPACES
        for operation in OPERATIONS
    }
    atomics = accesses[accesses["operation"] == ATOMIC]
    by_space: dict[str, int] = {name: _unique_bytes(accesses, space) for space, name in SPACES.items()}
    unique = by_space["global"]
    moved = factor * sum(bytes_of[GLOBAL, operation] for operation in OPERATIONS)
    whole = factor * unique if buffer_bytes is None else max(unique, min(factor * unique, buffer_bytes))
    barriers = trace.barriers * factor
    phases = barriers / trace.all_groups + 1
    return Totals(
        work_items=items,
        work_groups=trace.all_groups,
        instructions=executed * factor,
        instructions_by_kind={kind: count * factor for kind, count in sorted(by_kind.items())},
        flops=flops * factor,
        double_flops=double_flops * factor,
        global_bytes_loaded=bytes_of[GLOBAL, LOAD] * factor,
        global_bytes_stored=bytes_of[GLOBAL, STORE] * factor,
        global_bytes_atomic=bytes_of[GLOBAL, ATOMIC] * factor,
        unique_bytes=by_space,
        global_unique_bytes=float(unique),
        global_unique_bytes_high=float(whole),
        constant_bytes=bytes_of[CONSTANT, LOAD] * factor,
        local_bytes=sum(bytes_of[LOCAL, operation] for operation in OPERATIONS) * factor,
        private_bytes=sum(one.private_bytes for one in trace.instructions.values()) * factor,
        barriers=barriers,
        instructions_between_barriers=executed * factor / items / phases,
        atomics=len(atomics) * factor,
        atomics_at_one_address=_most_at_one_address(atomics, factor),
        flops_per_byte=flops * factor / moved if moved else None,
    )


def _unique_bytes(events: Events, space: int) -> int:
    """Different bytes of a space; local memory is that of each work-group."""
    chosen = events[events["space"] == space]
    address = chosen["address"].astype(np.int64)
    if space == LOCAL:
        address = (address & LOCAL_MASK) + (chosen["group"].astype(np.int64) << LOCAL_BITS)
    return patterns.unique_bytes(address, chosen["size"].astype(np.int64))


def _most_at_one_address(atomics: Events, factor: float) -> float:
    """The most operations on one address; those of several work-groups are scaled to the launch."""
    if not len(atomics):
        return 0.0
    place = atomics["address"].astype(np.int64) + np.where(
        atomics["space"] == LOCAL, atomics["group"].astype(np.int64) << 40, 0
    )
    _, number, count = np.unique(place, return_inverse=True, return_counts=True)
    busiest = count.argmax()
    several = len(np.unique(atomics["group"][number == busiest])) > 1
    return float(count[busiest]) * (factor if several else 1.0)


def _memory(trace: Trace, accesses: Events, factor: float) -> Iterator[MemoryInstruction]:
    for number in np.unique(accesses["instruction"]).tolist():
        of_number = accesses[accesses["instruction"] == number]
        for space, operation in sorted(
            {(int(s), int(o)) for s, o in zip(of_number["space"], of_number["operation"], strict=True)}
        ):
            events = of_number[(of_number["space"] == space) & (of_number["operation"] == operation)]
            yield _memory_instruction(number, trace.instructions[number].line, events, factor)
    for one in trace.instructions.values():
        private: tuple[tuple[int, Operation], ...] = ((one.private_loads, "load"), (one.private_stores, "store"))
        for count, op in private:
            if count:
                each = one.private_bytes / (one.private_loads + one.private_stores)
                yield MemoryInstruction(
                    one.number, one.line, "private", op, count * factor, count * each * factor,
                    round(each), 0, "none", None, {}, 0.0, 0.0, {}, {}, {},
                )  # fmt: skip


def _memory_instruction(number: int, line: int, events: Events, factor: float) -> MemoryInstruction:
    requests = patterns.Requests.of(events)
    pattern, stride = requests.pattern()
    sizes = requests.sizes
    natural = np.maximum(1, sizes & -sizes)
    space = SPACES[int(events["space"][0])]
    return MemoryInstruction(
        instruction=number,
        line=line,
        space=space,
        op=OPERATIONS[int(events["operation"][0])],
        accesses=len(events) * factor,
        bytes=float(sizes.sum()) * factor,
        access_bytes=int(np.bincount(sizes).argmax()),
        unique_bytes=patterns.unique_bytes(requests.addresses, sizes),
        pattern=pattern,
        stride_bytes=stride,
        pattern_by_width={str(width): requests.pattern(width)[0] for width in WIDTHS},
        active_items=len(events) / len(requests.starts[patterns.USUAL_WIDTH]),
        misaligned=float((requests.addresses % natural != 0).mean()),
        requests={str(width): len(requests.starts[width]) * factor for width in WIDTHS},
        lines_per_request=patterns.lines_by_width(requests) if space != "local" else {},
        bank_conflict_ways=patterns.ways_by_width(requests) if space == "local" else {},
    )


def _branches(trace: Trace, events: Events, factor: float) -> Iterator[Branch]:
    for number in np.unique(events["instruction"]).tolist():
        of_number = events[events["instruction"] == number]
        divergent = {str(width): patterns.divergent_share(of_number, width) for width in WIDTHS}
        yield Branch(trace.instructions[number].line, len(of_number) * factor, divergent)


def _curves(accesses: Events, factor: float) -> Iterator[ReuseCurve]:
    cached = accesses[(accesses["space"] == GLOBAL) | (accesses["space"] == CONSTANT)]
    if not len(cached):
        return
    unit = cached["item"] // patterns.USUAL_WIDTH
    order = np.lexsort((cached["instruction"], unit, cached["nth"], cached["step"], cached["epoch"], cached["group"]))
    cached, unit = cached[order], unit[order]
    request = np.zeros(len(cached), np.int64)
    new = (np.diff(unit.astype(np.int64)) != 0) | (np.diff(cached["instruction"].astype(np.int64)) != 0)
    new |= (np.diff(cached["step"].astype(np.int64)) != 0) | (np.diff(cached["group"].astype(np.int64)) != 0)
    new |= np.diff(cached["epoch"].astype(np.int64)) != 0
    request[1:] = np.cumsum(new)
    for line_bytes in LINE_BYTES:
        address, size = cached["address"].astype(np.int64), cached["size"].astype(np.int64)
        _, lines = patterns.touched_lines(request, address, size, line_bytes)
        footprint = len(np.unique(lines)) * line_bytes
        sizes = [SMALLEST_CACHE]
        while sizes[-1] < footprint:
            sizes.append(2 * sizes[-1])
        ratios, cold = reuse.miss_ratios(lines, np.array(sizes) // line_bytes)
        yield ReuseCurve(line_bytes, len(lines) * factor, cold, tuple(sizes), tuple(float(ratio) for ratio in ratios))


def _by_line(trace: Trace, factor: float) -> dict[str, float]:
    found = Counter[int]()
    for one in trace.instructions.values():
        found[one.line] += one.executed
    return {str(line): count * factor for line, count in sorted(found.items()) if line}
