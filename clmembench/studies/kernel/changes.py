"""Changes of a traced launch by guidelines: each as the sample that the changed kernel would give, so that it can be costed.

A change is only named where the kernel would compute the same by it, as far as the sample shows. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.studies.kernel.demand import MOST_KEPT, Demand, atomic_passes, local_atomic_passes
from clmembench.studies.kernel.facts import KernelFacts, MemoryInstruction
from clmembench.studies.kernel.program import called, makes, reads
from clmembench.studies.kernel.requests import BUFFER_SHIFT, GLOBAL, LOCAL, Integers, Sample, joined, requests
from clmembench.studies.kernel.trace import ATOMIC, LOAD, STORE

ORDER, VECTORS, PRIVATISE, PRIVATE, GROUP_SIZE = "G3", "X2", "X6", "L1", "S4"  # ids of guidelines, as `advise` has them
WIDTH, LINE_BYTES = "32", 128  # of the requests that are judged
MIN_REPEATED = 0.05  # of accesses: fewer make no difference
MIN_SHARE = 0.99  # of accesses, or of work-items, that do what a change needs
MAX_STRUCT_BYTES = 4096  # apart at most are the structures of an array; more are rows of a matrix
MAX_TILE_BYTES = 16 << 10  # so that several work-groups fit in a compute unit
VECTOR_BYTES = 16  # that a work-item loads at once at most
GROUP_SIZES = (64, 128, 256, 512)  # that every device can launch
ATOMICS_MARGIN = 2.0  # rates of atomics depend on who else adds when, which a benchmark does as no kernel does
FEW_GROUPS = 1024  # work-groups, fewer of which may leave compute units idle
COMMUTATIVE = ("atomic_add", "atomic_sub", "atomic_inc", "atomic_dec", "atomic_min", "atomic_max", "atomic_and", "atomic_or",
               "atomic_xor", "atom_add", "atom_sub", "atom_inc", "atom_dec", "atom_min", "atom_max", "atom_and", "atom_or",
               "atom_xor")  # fmt: skip
FLUSH_RATIO, MAX_MERGED_GROUPS = 8, 64  # operations in a copy for each that adds it up; work-groups that one takes the place of
KNOW_THEIR_GROUP = {"get_local_id", "get_local_size", "get_enqueued_local_size", "get_local_linear_id", "get_group_id",
                    "get_num_groups"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """What to change in a line, why, by which guideline, and the sample of the changed kernel; `added` to the amounts of its
    demand, by their names, is what the sample does not show. The gain may be `margin` times more or less than is computed."""

    guideline: str
    line: int
    finding: str
    change: str
    sample: Sample
    added: Mapping[str, float] = field(default_factory=dict)
    margin: float = 1.0


def changes(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """All but those of local memory that the sample supports, before it is known what any of them saves."""
    yield from layouts(sample, facts, need)
    yield from vectors(sample, facts, need)
    yield from accumulators(sample, facts)
    yield from private_copies(sample, facts, need)
    yield from group_sizes(sample, facts, need)


def without_repeated_loads(sample: Sample) -> Sample:
    """The sample without loads of what a work-item has loaded and nobody stores, if its load is of few words: compilers keep
    them in registers."""
    accesses = sample.accesses
    buffer = accesses.address >> BUFFER_SHIFT
    stored = np.unique(buffer[accesses.operation != LOAD])
    loads = np.flatnonzero((accesses.space != LOCAL) & (accesses.operation == LOAD) & ~np.isin(buffer, stored))
    mine = accesses[loads]
    word = np.unique(mine.address, return_inverse=True)[1]
    key = joined(word, np.unique(mine.group * sample.group_items + mine.item, return_inverse=True)[1])
    first = np.unique(key, return_index=True)[1]
    kept = np.ones(len(accesses), bool)
    kept[loads] = False
    kept[loads[first]] = True
    own = joined(joined(mine.group, mine.item), mine.instruction)
    owners, number = np.unique(own, return_inverse=True)
    kept[loads[np.bincount(number[first], minlength=len(owners))[number] > MOST_KEPT]] = True
    if kept.sum() >= (1 - MIN_REPEATED) * len(kept):
        return sample
    left = {number: sample.executed[number] * float(kept[accesses.instruction == number].mean())
            for number in np.unique(mine.instruction).tolist()}  # fmt: skip
    return replace(sample, accesses=accesses[kept], executed={**sample.executed, **left})


def accesses_of_buffers(sample: Sample) -> Iterator[tuple[int, Integers]]:
    """The number of each buffer in global memory and the places of its accesses."""
    places = np.flatnonzero(sample.accesses.space == GLOBAL)
    buffer = sample.accesses.address[places] >> BUFFER_SHIFT
    for number in np.unique(buffer).tolist():
        yield number, places[buffer == number]


def shown_instructions(facts: KernelFacts, numbers: Integers) -> list[MemoryInstruction]:
    """The instructions of accesses outside private memory, the one that touches most lines first."""
    wanted = set(np.unique(numbers).tolist())
    chosen = [one for one in facts.memory if one.instruction in wanted and one.space != "private"]
    return sorted(chosen, key=lambda one: -one.lines_per_request.get(WIDTH, {}).get(str(LINE_BYTES), 1) * one.accesses)


def layouts(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """All arrays of structures, of which every work-item uses the same fields, as an array for each field."""
    accesses, items = sample.accesses, sample.group_items
    address, lines, findings, used = accesses.address.copy(), set[int](), set[str](), 0
    for number, places in accesses_of_buffers(sample):
        mine = accesses[places]
        shown = shown_instructions(facts, mine.instruction)
        strides = {one.stride_bytes for one in shown if one.stride_bytes}
        size, offset = int(mine.size[0]), mine.address & ((1 << BUFFER_SHIFT) - 1)
        struct = min(strides, default=0)
        if (
            len(strides) != 1
            or struct > MAX_STRUCT_BYTES
            or struct % size
            or (mine.size != size).any()
            or (offset % size).any()
        ):
            continue
        element, at = np.divmod(offset, struct)
        owner, used_by = np.unique(mine.group * items + mine.item, return_inverse=True)
        fields_used = len(np.unique(at))
        if struct < 2 * size or len(np.unique(joined(used_by, at))) < MIN_SHARE * len(owner) * fields_used:
            continue  # work-items use different fields, as of a row of a matrix
        count = max(int(element.max()) + 1, sample.buffer_bytes.get(number, 0) // struct)
        address[places] = (number << BUFFER_SHIFT) + (at // size * count + element) * size
        used = max(used, fields_used)
        lines.add(shown[0].line)
        findings.add(f"neighbours are {struct} B apart and use {fields_used * size} each")
    if lines:
        change = f"an array for each of the {used} fields" if used > 1 else "put the words that are used next to each other"
        changed = replace(sample, accesses=replace(accesses, address=address))
        yield Change(ORDER if need.in_lockstep else "", min(lines), "; ".join(sorted(findings)), change, changed)


def vectors(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """Words of a buffer that nobody stores, which a work-item loads one after another from aligned 16 B. On CPUs the nearest
    cache has their line after the first."""
    accesses = sample.accesses
    for _, places in accesses_of_buffers(sample) if need.in_lockstep else ():
        mine = accesses[places]
        size = int(mine.size[0])
        words = VECTOR_BYTES // size
        if (mine.operation != LOAD).any() or (mine.size != size).any() or words < 2:
            continue
        owner = np.unique(mine.group * sample.group_items + mine.item, return_inverse=True)[1]
        order = np.argsort(owner, kind="stable")  # by work-item, in the order of its loads
        vector = mine.address[order] // VECTOR_BYTES
        new = (np.diff(vector, prepend=-1) != 0) | (np.diff(owner[order], prepend=-1) != 0)
        starts = np.flatnonzero(new)
        counts = np.diff(np.append(starts, len(order)))
        different = np.diff(mine.address[order], prepend=-1) == size
        if (counts != words).mean() > 1 - MIN_SHARE or (different | new).mean() < MIN_SHARE:
            continue
        first = np.sort(order[starts])
        kept, sizes, address = np.ones(len(accesses), bool), accesses.size.copy(), accesses.address.copy()
        kept[places] = False
        kept[places[first]] = True
        sizes[places[first]], address[places[first]] = VECTOR_BYTES, mine.address[first] // VECTOR_BYTES * VECTOR_BYTES
        left = {number: sample.executed[number] * float(kept[accesses.instruction == number].mean())
                for number in np.unique(mine.instruction).tolist()}  # fmt: skip
        changed = replace(accesses, size=sizes, address=address)[kept]
        finding = f"a work-item loads {words} neighbouring words of {size} B one after another"
        line = shown_instructions(facts, mine.instruction)[0].line
        executed = {**sample.executed, **left}
        yield Change(
            VECTORS,
            line,
            finding,
            f"load {VECTOR_BYTES} B at once, as a vector",
            replace(sample, accesses=changed, executed=executed),
        )


def accumulators(sample: Sample, facts: KernelFacts) -> Iterator[Change]:
    """Words of global memory that one work-item stores again and again, and nobody else touches."""
    accesses = sample.accesses
    for _, places in accesses_of_buffers(sample):
        mine = accesses[places]
        word = np.unique(mine.address, return_inverse=True)[1]
        owner = mine.group * sample.group_items + mine.item
        key = joined(word, owner)
        if (
            (mine.operation == ATOMIC).any()
            or len(np.unique(word)) < len(np.unique(key))
            or (mine.epoch != mine.epoch[0]).any()
        ):
            continue
        stores = mine.operation == STORE
        last, first = np.zeros(len(mine), bool), np.zeros(len(mine), bool)
        at = np.flatnonzero(stores)
        last[at[len(at) - 1 - np.unique(key[at][::-1], return_index=True)[1]]] = True
        first[np.unique(key, return_index=True)[1]] = True
        kept = last | (first & ~stores) | ~np.isin(key, key[at])
        if stores.sum() < 2 * last.sum() or not len(at):
            continue
        numbers = mine.instruction
        left = {
            number: sample.executed[number] * float(kept[numbers == number].mean()) for number in np.unique(numbers).tolist()
        }
        chosen = np.ones(len(accesses), bool)
        chosen[places[~kept]] = False
        changed = replace(sample, accesses=accesses[chosen], executed={**sample.executed, **left})
        shown = shown_instructions(facts, numbers[stores])[0]
        times = stores.sum() / last.sum()
        finding = f"a work-item stores the same word {times:.3g} times"
        yield Change(PRIVATE, shown.line, finding, "keep it in a private variable and store it once", changed)


def private_copies(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """Atomics on a few words of global memory, whose results nobody reads, which each work-group could do in a copy."""
    texts, accesses = sample.texts, sample.accesses
    read = frozenset[str]().union(*map(reads, texts.values()))
    for _, places in accesses_of_buffers(sample):
        mine = accesses[places]
        numbers = np.unique(mine.instruction).tolist()
        if not all(called(texts[n]).startswith(COMMUTATIVE) and makes(texts[n]) not in read for n in numbers):
            continue
        words, done = len(np.unique(mine.address)), len(mine) * sample.scale
        together = max(1, math.ceil(FLUSH_RATIO * words * sample.groups / done))  # work-groups whose work one takes
        if together > MAX_MERGED_GROUPS or int(mine.size[0]) * words > MAX_TILE_BYTES:
            continue
        hottest = float(np.unique(mine.address, return_counts=True)[1].max()) * sample.scale
        copies, flushed = sample.groups / together, words
        if need.in_lockstep:  # neighbours add up words of the same block in one pass
            flushed = len(np.unique(mine.address // need.block_bytes))
        request = requests(mine, sample.group_items, need.width, need.in_lockstep).of
        added = {
            "atomics": flushed * copies - float(atomic_passes(mine, request, need.block_bytes, need.in_lockstep)[0].sum())
            * sample.scale,
            "hottest": min(0.0, copies - need.hottest),
            "local_atomics": local_atomic_passes(mine, request, need.in_lockstep) * sample.scale,
        }  # fmt: skip
        finding = f"{done:.3g} atomics on {words} words, {hottest:.3g} on one"
        change = "add up in a copy for each work-group, in local memory, first" + (
            f"; let a work-group take the work of {together}" if together > 1 else ""
        )
        yield Change(
            PRIVATISE, shown_instructions(facts, np.array(numbers))[0].line, finding, change, sample, added, ATOMICS_MARGIN
        )


def group_sizes(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[Change]:
    """Other sizes of work-groups, where work-items know nothing of theirs."""
    items, accesses = sample.group_items, sample.accesses
    names = {called(text) for text in sample.texts.values()}
    if (
        len(facts.launch.global_size) > 1
        or sample.barriers
        or sample.local_bytes
        or not len(accesses)
        or names & KNOW_THEIR_GROUP
    ):
        return
    few = sample.groups < FEW_GROUPS and items > GROUP_SIZES[0]
    if items % need.width == 0 and items >= GROUP_SIZES[0] and not few:
        return
    every = accesses.group * items + accesses.item
    for size in GROUP_SIZES:
        if size == items or sample.groups * items < size:
            continue
        changed = replace(
            sample, groups=math.ceil(sample.groups * items / size), group_items=size,
            traced_groups=sample.traced_groups * items / size,
            accesses=replace(accesses, group=every // size, item=every % size),
        )  # fmt: skip
        finding = f"{sample.groups:,} work-groups of {items} work-items"
        yield Change(GROUP_SIZE if size > items else "", 0, finding, f"launch work-groups of {size}", changed)
