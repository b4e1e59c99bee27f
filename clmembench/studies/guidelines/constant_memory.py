"""C1 to C5: whether this device has a constant memory of its own, and how to use it."""

from __future__ import annotations

from collections.abc import Iterator

from clmembench.analysis.derive import Derived
from clmembench.studies.access.effect import BoundedRatio, bounded_ratio
from clmembench.studies.access.subgroup import cycles_per_further_word
from clmembench.studies.guidelines.advice import (
    MIN_WORTHWHILE_RATIO,
    RUN_ACCESS,
    Advice,
    RunKnowledge,
    advice_by_findings,
    advice_by_ratio,
    advice_of_no_effect,
    advice_without_simultaneity,
    format_latency,
    format_ratio,
    format_upper_bound,
    only_if_complete,
    undetermined_advice,
)

MIN_LINE_BYTES = 64  # steps within a line say nothing of those beyond
CONSTANT_KIND_NAMES = {
    "constant_array": "an array of the program in constant memory",
    "constant": "a buffer in constant memory",
}


def guidelines(known: RunKnowledge) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.3)."""
    memory = known.constant()
    yield consecutive_access(known, memory)
    yield broadcast(known, memory)
    yield serial_access(known, memory)
    yield constant_work_group_size(known, memory)
    yield work_group_count(known, memory)


def consecutive_access(known: RunKnowledge, memory: str) -> Advice:
    """C1, by one work-item's steps through a table: the worst against that of one word."""
    steps = {int(v.params["step"]): v for v in known.values if v.benchmark == "step_latency" and v.params["memory"] == memory}
    ratios = {step: r for step, v in steps.items() if (r := bounded_ratio(v, steps.get(1))) is not None and step > 1}
    claim = "lay out data in constant memory so that they are read consecutively"
    if not ratios:
        return undetermined_advice("C1", claim, f"the run has no steps through constant memory: {RUN_ACCESS}")
    worst = max(ratios, key=lambda step: ratios[step].value)
    first = min((step for step in ratios if ratios[step].low * MIN_WORTHWHILE_RATIO >= ratios[worst].value), default=worst)
    advice = advice_by_ratio(
        "C1",
        claim,
        ratios[worst],
        f"lay out {CONSTANT_KIND_NAMES[memory]} in the order it is read: a step of {first} words ({4 * first} B) costs "
        f"{format_ratio(ratios[worst])} that of one ({format_latency(steps[worst])}, not {format_latency(steps.get(1))})",
        f"lay out constants as you like: no step up to {max(ratios)} words costs more than {format_upper_bound(ratios[worst])}",
        "",
    )
    gone = len(steps) - len(ratios) - 1  # the step of one word is the reference for others
    return only_if_complete(advice, gone or int(4 * max(ratios) < MIN_LINE_BYTES), "steps through constant memory")


def broadcast(known: RunKnowledge, memory: str) -> Advice:
    """C2, and whether it is worth it: global memory may serve one word as fast."""
    here, there = _broadcast_load(known, memory), _broadcast_load(known, "global")
    ratio = bounded_ratio(there, here)
    beside = f"; a buffer takes {format_latency(_broadcast_load(known, 'constant'))}" if _has_array_and_buffer(known) else ""
    if ratio is None:
        use = (
            f"let all work-items read one word of {CONSTANT_KIND_NAMES[memory]} at the same time: "
            f"{format_latency(here)}{beside}"
        )
    elif ratio.low >= MIN_WORTHWHILE_RATIO:
        slower = f"where global memory takes {format_latency(there)}{beside}"
        use = f"keep in {CONSTANT_KIND_NAMES[memory]} what all read at the same time: {format_latency(here)}, {slower}"
    else:
        as_fast = f"{format_latency(here)} and {format_latency(there)}{beside}"
        use = f"use {CONSTANT_KIND_NAMES[memory]} or global memory for what all read at the same time: {as_fast}"
    return advice_by_findings(
        known,
        "C2",
        "constant memory serves all work-items of a sub-group that read one word at once",
        memory,
        {"broadcast": ("supported",)},
        use,
        f"{CONSTANT_KIND_NAMES[memory]} does not help work-items that read the same word",
    )


def _has_array_and_buffer(known: RunKnowledge) -> bool:
    """True if buffers in constant memory were measured besides arrays of the program, which the guidelines are about."""
    return known.constant() == "constant_array" and "constant" in known.memories


def serial_access(known: RunKnowledge, memory: str) -> Advice:
    """C3: whether constant memory serves different words one after another."""
    more = cycles_per_further_word(known.values, memory)
    parallel = bounded_ratio(known.load(memory, known.wide), known.load(memory, 1))
    added = f": each further word adds {more.value:.3g} cycles" if more is not None else ""
    buffer = known.memories["constant"].verdicts.get("parallel") if _has_array_and_buffer(known) else None
    beside = "; a buffer in constant memory serves them at once" if buffer is not None and buffer.value == "supported" else ""
    ratio_text = (
        f"{known.wide} different words take {format_ratio(parallel)} as long as one"
        if parallel is not None
        else "see its verdicts"
    )
    return advice_by_findings(
        known,
        "C3",
        "constant memory serves different words of a sub-group one after the other",
        memory,
        {"parallel": ("not supported",)},
        f"do not index {CONSTANT_KIND_NAMES[memory]} by work-item: {ratio_text}{added}{beside}",
        f"{CONSTANT_KIND_NAMES[memory]} may be indexed by work-item: {ratio_text}",
    )


def constant_work_group_size(known: RunKnowledge, memory: str) -> Advice:
    """C4, by one group in which each sub-group reads its own word: the largest group against one sub-group."""
    claim = "the size of work-groups matters to constant memory"
    if serial := advice_without_simultaneity(known, "C4", claim):
        return serial
    growth = _growth_by_items(known, memory, "items", groups=1)
    if not growth:
        return undetermined_advice(
            "C4", claim, f"the run has no loads of several work-group sizes from constant memory: {RUN_ACCESS}"
        )
    worst = max(growth, key=lambda n: growth[n].value)
    fine = max((n for n in growth if growth[n].high < MIN_WORTHWHILE_RATIO), default=known.wide)
    words = f"{worst // max(1, known.wide)} words, one per sub-group and each in its own line"
    advice = advice_by_ratio(
        "C4",
        claim,
        growth[worst],
        f"let a group's sub-groups read the same constants, or use groups of up to {fine}: {worst} work-items on {words}, wait "
        f"{format_ratio(growth[worst])} as long as {known.wide} on one",
        f"use any work-group size: {worst} work-items wait at most {format_upper_bound(growth[worst])} as long as {known.wide}",
        "",
    )
    return only_if_complete(
        advice, known.without_value("subgroup", memory=memory, degree=known.wide, groups=1), "work-group sizes"
    )


def work_group_count(known: RunKnowledge, memory: str) -> Advice:
    """C5, which claims that there is next to no effect: it holds where the effect is small."""
    claim = "the number of work-groups hardly matters to constant memory"
    sizes = known.side_by_side_groups(known.sizes(memory, "groups", degree=known.wide))
    items = known.sizes(memory, "items", groups=max(sizes, default=1), degree=known.wide)
    many, most = items[-1] if items else known.wide, max(sizes, default=1)
    ratio = bounded_ratio(known.load(memory, many, degree=known.wide, groups=most), known.load(memory, many, degree=known.wide))
    number = f"{most} groups of {many}"
    if ratio is None or len(sizes) < 2:
        return undetermined_advice(
            "C5", claim, f"the run has no loads of several work-groups at the same time from constant memory: {RUN_ACCESS}"
        )
    advice = advice_by_ratio(
        "C5",
        claim,
        ratio,
        f"expect up to {format_upper_bound(ratio)} the time for a load with {number}: they share each unit's constant cache",
        f"launch as many groups as the work needs: {number} wait at most {format_upper_bound(ratio)} as long as one",
        "",
    )
    gone = known.without_value("subgroup", memory=memory, degree=known.wide)
    return advice_of_no_effect(only_if_complete(advice, gone, "loads by several work-groups"))


def _broadcast_load(known: RunKnowledge, memory: str) -> Derived | None:
    """A sub-group's loads of one word."""
    return known.load(memory, known.wide, degree=known.wide)


def _growth_by_items(known: RunKnowledge, memory: str, name: str, groups: int) -> dict[int, BoundedRatio]:
    """Broadcasts by more work-items over those by one sub-group."""
    sizes = [n for n in known.sizes(memory, name, degree=known.wide, groups=groups) if n >= known.wide]
    loads = {n: known.load(memory, n, degree=known.wide) for n in sizes[1:]}
    return {n: r for n, v in loads.items() if (r := bounded_ratio(v, _broadcast_load(known, memory))) is not None}
