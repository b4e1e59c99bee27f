"""Latency of simultaneous accesses by memory: tables 1 and 2 of Fang et al. 2017, figures 2 and 5 to 11 in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.analysis.derive import Derived
from clmembench.model import Finding, Run
from clmembench.report.frame import Row
from clmembench.report.table import Table, columns
from clmembench.studies.access import subgroup
from clmembench.studies.access.effect import BoundedRatio, values_with
from clmembench.units import format_value

NAMES = {
    "register": "register (an operation)",
    "private": "private array",
    "local": "local",
    "constant": "constant (a buffer)",
    "constant_array": "constant (an array of the program)",
    "global": "global",
    "global_cg": "global, past L1",
    "image": "image",
}
SHAPES = (("consecutive", 1), ("consecutive", 0), ("scattered", 1))  # pattern and degree, 0: of all work-items
INDEX_NOTE = "indices lie within 8 KiB, which the nearest cache holds; address computation is included, unlike in topology"


def sections(run: Run, table: Sequence[Row]) -> list[Table]:
    """Latency by memory, what each memory does for several work-items at once, and latency over more of them."""
    values = _usable(table)
    wide = subgroup.sub_group_width_of(values)
    verdicts_by_memory = subgroup.memory_verdicts(values)
    if not verdicts_by_memory:
        return [
            Table(run.header.benchmarks[subgroup.SUBGROUP_BENCHMARK].summary, columns(("subgroup", "status")), _without(table))
        ]
    who = "sub-group" if subgroup.serial_ratio(values) is None or _in_step(values, wide) else "work-group"
    return [
        _latencies(verdicts_by_memory, values, wide, who),
        _verdicts(verdicts_by_memory, wide, who),
        _over_items(values, wide),
        *_missing(table),
    ]


def step_sections(run: Run, table: Sequence[Row]) -> list[Table]:
    """Latency of one work-item by memory, over the step between its words: a line a memory."""
    values = _usable(table)
    steps = sorted({int(v.params["step"]) for v in values})
    rows = []
    for memory in dict.fromkeys(str(v.params["memory"]) for v in values):
        of = {int(v.params["step"]): v for v in values if v.params["memory"] == memory}
        rows.append((NAMES.get(memory, memory), *(_short(of.get(step)) for step in steps)))
    header = ("step_latency: words", *map(str, steps))
    unit = "cycles" if any(v.cycles for v in values) else "ns"
    title = f"Load-to-use latency of one work-item, in {unit}, over the step between its words (Fang, figure 2)."
    return [Table(title, columns(header), tuple(rows), _unusable(table))]


def _latencies(found: Sequence[subgroup.MemoryVerdicts], values: Sequence[Derived], wide: int, who: str) -> Table:
    rows = []
    for memory in found:
        each = subgroup.cycles_per_further_word(values, memory.name)
        steep = subgroup.latency_exponent(values, memory.name)
        more = memory.name not in ("register", "private")
        rows.append(
            (
                NAMES[memory.name],
                _both(memory.one),
                _both(memory.many),
                _both(memory.all_same) if memory.name != "register" else "–",
                _cycles_each(each) if more else "–",
                _interval(steep, 2) if more and who == "sub-group" else "–",
            )
        )
    header = ("subgroup: memory", "one work-item", f"{wide}, own words", f"{wide}, one word", "each further word", "exponent")
    title = f"Latency of a dependent load, by memory: one work-item, and the {wide} of a {who} (Fang, table 1)."
    notes = (
        INDEX_NOTE,
        "each further word: cycles per additional distinct word; exponent: 0 if all are served at once, 1 if one after another",
        "private array: own words have different indices; one word is the same index in the copy of every work-item",
    )
    return Table(title, columns(header), tuple(rows), notes)


def _verdicts(found: Sequence[subgroup.MemoryVerdicts], wide: int, who: str) -> Table:
    names = ("broadcast", "parallel", "aligned", "aligned_loaded", "consecutive", "consecutive_loaded")
    rows = [(NAMES[m.name], *(verdict(m.verdicts.get(n)) for n in names)) for m in found if m.verdicts]
    reasons = dict.fromkeys(f.reason for m in found for f in m.verdicts.values() if f.reason)
    notes = (
        f"in brackets, ratios of latency: {wide} work-items to one (broadcast, parallel); unaligned or not consecutive to "
        "consecutive and aligned by as many work-items, at worst: in one group, and in several at the same time",
        *(f"undetermined: {reason}" for reason in list(reasons)[:3]),
    )
    header = ("subgroup: memory", "broadcast", "parallel", "not aligned", "in groups", "not consecutive", "in groups")
    return Table(
        f"Service of simultaneous accesses by the work-items of a {who}, by memory (Fang, table 2).",
        columns(header),
        tuple(rows),
        notes,
    )


def verdict(finding: Finding | None) -> str:
    """A verdict in words, with its ratio if it has one."""
    if finding is None:
        return "–"
    word = str(finding.value) if finding.value is not None else finding.status
    if finding.low is None or finding.high is None:
        return word
    low, high = format_value(finding.low), format_value(finding.high)
    return f"{word} ({low})" if low == high else f"{word} ({low} to {high})"


def _over_items(values: Sequence[Derived], wide: int) -> Table:
    """A line for each memory and shape, a column for each number of work-items and groups."""
    shown = [
        v
        for v in values_with(values, subgroup.SUBGROUP_BENCHMARK)
        if int(v.params["items"]) >= wide and v.params["memory"] != "register"
    ]
    sizes = sorted({(int(v.params["groups"]), int(v.params["items"])) for v in shown})
    rows = []
    for name in subgroup.MEMORY_ORDER:
        for pattern, degree in SHAPES:
            of = {
                (int(v.params["groups"]), int(v.params["items"])): v
                for v in shown
                if (v.params["memory"], v.params["pattern"], v.params["degree"]) == (name, pattern, degree or wide)
            }
            if of:
                shape = "broadcast" if not degree else pattern
                rows.append((NAMES[name], shape, *(_short(of.get(size)) for size in sizes)))
    header = ("subgroup: memory", "pattern", *(f"{items} x {groups}" for groups, items in sizes))
    unit = "cycles" if any(v.cycles for v in shown) else "ns"
    title = f"Latency in {unit} over work-items per group x groups (Fang, figures 5 to 11)."
    return Table(title, columns(header, left=2), tuple(rows))


def _in_step(values: Sequence[Derived], wide: int) -> bool:
    serial = subgroup.serial_ratio(values)
    return serial is not None and serial.low < subgroup.MIN_SERIAL_TIME_SHARE * wide


def _usable(table: Sequence[Row]) -> list[Derived]:
    return [row.value for row in table if row.status == "ok"]


def _missing(table: Sequence[Row]) -> list[Table]:
    rows = tuple((note, "") for note in _unusable(table))
    return [Table("Points without a value.", columns(("subgroup", "points")), rows)] if rows else []


def _unusable(table: Sequence[Row]) -> tuple[str, ...]:
    """Reasons for missing values with their counts; features that the device lacks are left out."""
    reasons: dict[str, int] = {}
    for row in table:
        if row.status not in ("ok", "skipped"):
            reasons[f"{row.status}: {row.reason}"] = reasons.get(f"{row.status}: {row.reason}", 0) + 1
    return tuple(f"{count} of {len(table)} points {reason}" for reason, count in reasons.items())


def _without(table: Sequence[Row]) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{row.status}: {row.reason}", "") for row in table[:1])


def _both(value: Derived | None) -> str:
    if value is None or value.median is None:
        return "–"
    return (
        f"{format_value(value.cycles)} cycles, {format_value(value.median)} ns"
        if value.cycles
        else f"{format_value(value.median)} ns"
    )


def _short(value: Derived | None) -> str:
    return "–" if value is None else format_value(value.cycles if value.cycles else value.median)


def _cycles_each(found: BoundedRatio | None) -> str:
    if found is None:
        return "–"
    return "0" if found.low <= 0 <= found.high else _interval(found, 2)


def _interval(found: BoundedRatio | None, digits: int) -> str:
    if found is None:
        return "–"
    return f"{found.value:.{digits}g} ({found.low:.{digits}g} to {found.high:.{digits}g})"
