"""Facts of a kernel for people: the source with what each line does, totals, memory instructions, branches and reuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clmembench.report.table import Column, Document, Entry, Table, columns
from clmembench.studies.kernel.facts import KernelFacts, MemoryInstruction
from clmembench.units import format_bytes, format_value

WIDTH, LINE, SECTOR, BANKS = "32", "128", "32", "32"  # of the tables; --json has all
MOST_SIZES = 12  # columns of the reuse curve
SOURCE_CELL = 100
SOURCE_TITLE = "What each line does."
REUSE_TITLE = "Requested lines that a cache of each size misses."
FAULTS_TITLE = "Faults of the kernel, which make every other figure doubtful."


def document(facts: KernelFacts) -> Document:
    """The output of `kernel`."""
    parts = [_faults(facts), _source(facts), _totals(facts), _memory(facts), _branches(facts), _reuse(facts)]
    return Document(tuple(part for part in parts if part is not None), heading(facts))


def heading(facts: KernelFacts) -> str:
    """The kernel, the launch, and how much of it was traced."""
    launch, sampled = facts.launch, facts.sampled
    sizes = " x ".join(f"{size:,}" for size in launch.global_size)
    groups = " x ".join(map(str, launch.local_size))
    traced = "all of them traced"
    if sampled.groups < sampled.all_groups:
        traced = f"{sampled.groups:,} of {sampled.all_groups:,} work-groups traced, and amounts scaled to all"
        if not sampled.groups:
            traced = f"{sampled.work_items:,} work-items of one work-group traced, and amounts scaled to all"
    where = f" of {launch.source}" if launch.source else ""
    what = f"Kernel {facts.kernel}{where}: {sizes} work-items in work-groups of {groups}; {traced}."
    if not facts.races_checked:
        what += " Races were not looked for in buffers of over 64 MiB."
    return what


def _faults(facts: KernelFacts) -> Table | None:
    if not facts.faults:
        return None
    return Table(
        FAULTS_TITLE,
        columns(("fault",)),
        tuple((one,) for one in facts.faults),
    )


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the source: instructions of the launch, and what it does to memory and at branches, a text each."""

    number: int
    text: str
    instructions: float
    notes: tuple[str, ...]


def source_lines(facts: KernelFacts) -> list[SourceLine]:
    """Every line of the source."""
    memory: Mapping[int, list[MemoryInstruction]] = defaultdict(list)
    for one in facts.memory:
        memory[one.line].append(one)
    divergent = {one.line: one.divergent[WIDTH] for one in facts.branches}
    found = []
    for number, text in enumerate(facts.text.splitlines(), 1):
        notes = list(dict.fromkeys(_short(one) for one in memory.get(number, ())))
        if divergent.get(number):
            notes.append(f"diverges {divergent[number]:.0%}")
        found.append(SourceLine(number, text, facts.instructions_by_line.get(str(number), 0.0), tuple(notes)))
    return found


def line_shares(facts: KernelFacts) -> tuple[str, dict[int, float]]:
    """What bounds the launch where it is fastest, and the share of each line in it; without devices it is instructions."""
    first = next((one for one in facts.devices if one.ns is not None), None)
    bound, found = first.bound if first is not None else "", dict[int, float]()
    for one in facts.memory:
        if bound == "local memory":
            amount = one.bank_conflict_ways.get(WIDTH, {}).get(BANKS, 0.0)
        elif bound == "atomics":
            amount = float(one.op == "atomic")
        else:
            amount = one.lines_per_request.get(WIDTH, {}).get(SECTOR, 0.0)
        if amount and bound not in ("", "issue", "work-groups", "launch"):
            found[one.line] = found.get(one.line, 0.0) + amount * one.requests[WIDTH]
    name = f"{bound} of {first.device}" if first is not None and found else "instructions"
    found = found or {int(line): count for line, count in facts.instructions_by_line.items()}
    return name, {line: amount / sum(found.values()) for line, amount in found.items()}


def _source(facts: KernelFacts) -> Table | None:
    """Each line with its share of instructions, what it does to memory, and its branches."""
    rows = tuple(
        (
            line.number, f"{line.instructions / facts.totals.instructions:.0%}" if line.instructions else "",
            "; ".join(line.notes), line.text,
        )
        for line in source_lines(facts) if line.text.strip()
    )  # fmt: skip
    header = (
        Column("line", is_number=True), Column("instructions", is_number=True),
        Column("memory, by sub-groups of 32", max_cell=SOURCE_CELL), Column("source", max_cell=SOURCE_CELL),
    )  # fmt: skip
    return Table(SOURCE_TITLE, columns(header), rows) if rows else None


def _short(one: MemoryInstruction) -> str:
    pattern = f"stride {one.stride_bytes} B" if one.stride_bytes is not None else one.pattern
    if one.space == "private":
        return f"private {one.op}"
    cost = ""
    if one.space == "local":
        ways = one.bank_conflict_ways[WIDTH][BANKS]
        cost = f", {format_value(ways, 2)}-way conflict" if ways > 1 else ""
    elif one.lines_per_request:
        cost = f", {format_value(one.lines_per_request[WIDTH][LINE], 2)} lines"
    return f"{one.space} {one.op}: {pattern}{cost}"


def _totals(facts: KernelFacts) -> Table:
    totals = facts.totals
    rows: list[tuple[str, str]] = [
        ("instructions", _number(totals.instructions)),
        *(
            (f"  {kind}", f"{_number(amount)} ({amount / totals.instructions:.0%})")
            for kind, amount in _largest(totals.instructions_by_kind)
        ),
        ("FLOP", _number(totals.flops)),
        ("global memory, loaded", format_bytes(totals.global_bytes_loaded)),
        ("global memory, stored", format_bytes(totals.global_bytes_stored)),
    ]
    unique = format_bytes(totals.global_unique_bytes)
    if totals.global_unique_bytes_high > totals.global_unique_bytes:
        unique += f" of what was traced; at most {format_bytes(totals.global_unique_bytes_high)}"
    rows.append(("global memory, different bytes", unique))
    optional = (
        ("global memory, by atomics", totals.global_bytes_atomic), ("constant memory", totals.constant_bytes),
        ("local memory", totals.local_bytes), ("private memory, not in registers", totals.private_bytes),
    )  # fmt: skip
    rows += [(name, format_bytes(amount)) for name, amount in optional if amount]
    if totals.flops_per_byte is not None:
        rows.append(("FLOP a byte of global memory", format_value(totals.flops_per_byte)))
    if totals.barriers:
        between = format_value(totals.instructions_between_barriers)
        rows.append(("barriers", f"{_number(totals.barriers)}, with {between} instructions of a work-item between two"))
    if totals.atomics:
        rows.append(("atomics", f"{_number(totals.atomics)}, at most {_number(totals.atomics_at_one_address)} at one address"))
    return Table("The whole launch.", columns(("amount", "value")), tuple(rows))


def _largest(kinds: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    return sorted(kinds.items(), key=lambda item: -item[1])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < 1e7 else format_value(value, 4)


def _memory(facts: KernelFacts) -> Table | None:
    rows = []
    for one in sorted(facts.memory, key=lambda one: (one.line, one.instruction)):
        lines = one.lines_per_request.get(WIDTH, {})
        ways = one.bank_conflict_ways.get(WIDTH, {})
        pattern = f"stride {one.stride_bytes} B" if one.stride_bytes is not None else one.pattern
        rows.append(
            (
                one.line, f"{one.space} {one.op}", _number(one.accesses), format_bytes(one.bytes), one.access_bytes, pattern,
                format_value(one.active_items) if one.active_items else "–",
                format_value(lines[SECTOR]) if lines else "–", format_value(lines[LINE]) if lines else "–",
                format_value(ways[BANKS]) if ways else "–",
                f"{one.misaligned:.0%}" if one.misaligned else "–",
            )
        )  # fmt: skip
    header = (
        Column("line", is_number=True), Column("access"), Column("accesses", is_number=True), Column("bytes", is_number=True),
        Column("B each", is_number=True), Column("pattern"), Column("items at work", is_number=True),
        Column("32 B", is_number=True), Column("128 B", is_number=True), Column("bank ways", is_number=True),
        Column("misaligned", is_number=True),
    )  # fmt: skip
    notes = ("items at work, lines of 32 and 128 B, bank ways: mean of a request (one execution by a sub-group of 32)",)
    return Table("Loads, stores and atomics.", columns(header), tuple(rows), notes) if rows else None


def _branches(facts: KernelFacts) -> Table | None:
    if not facts.branches:
        return None
    rows: list[tuple[Entry, ...]] = [
        (one.line, _number(one.executions), *(f"{share:.0%}" for share in one.divergent.values())) for one in facts.branches
    ]
    widths = (Column(f"sub-groups of {width}", is_number=True) for width in facts.branches[0].divergent)
    header = (Column("line", is_number=True), Column("executions", is_number=True), *widths)
    return Table("Branches: how often the work-items of a sub-group go different ways.", columns(header), tuple(rows))


def _reuse(facts: KernelFacts) -> Table | None:
    if not facts.reuse:
        return None
    longest = max((curve.sizes_bytes for curve in facts.reuse), key=len)
    step = -(-len(longest) // MOST_SIZES)
    sizes = longest[::-1][::step][::-1]
    header = (Column("line", is_number=True), *(Column(format_bytes(size), is_number=True) for size in sizes))
    rows = tuple(
        (format_bytes(curve.line_bytes), *_misses(curve.sizes_bytes, curve.miss_ratio, sizes)) for curve in facts.reuse
    )
    notes = ("an LRU cache; requests of sub-groups of 32; first touches count as misses",)
    return Table(REUSE_TITLE, columns(header), rows, notes)


def _misses(sizes: Sequence[int], ratios: Sequence[float], wanted: Sequence[int]) -> Iterator[str]:
    found = dict(zip(sizes, ratios, strict=True))
    for size in wanted:
        yield f"{found.get(size, ratios[-1]):.1%}"
