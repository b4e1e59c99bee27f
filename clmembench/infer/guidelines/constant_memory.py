"""C1 to C5: whether the constant memory of this device is one, and what it asks of its users."""

from __future__ import annotations

from collections.abc import Iterator

from clmembench.analysis.derive import Derived
from clmembench.infer.access.subgroup import each_more
from clmembench.infer.effect import Ratio, ratio
from clmembench.infer.guidelines.advice import (
    MATTERS,
    RUN_ACCESS,
    Advice,
    Known,
    at_most,
    by_findings,
    cycles,
    denied,
    inapplicable,
    judged,
    times,
    unknown,
)

KINDS = {"constant_array": "an array of the program in constant memory", "constant": "a buffer in constant memory"}


def guidelines(known: Known) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.3)."""
    memory = known.constant()
    yield consecutive(known, memory)
    yield broadcast(known, memory)
    yield in_turn(known, memory)
    yield configuration(known, memory)
    yield groups(known, memory)


def consecutive(known: Known, memory: str) -> Advice:
    """C1, by one work-item's steps through a table: the worst against that of one word."""
    steps = {int(v.params["step"]): v for v in known.values if v.benchmark == "step_latency" and v.params["memory"] == memory}
    found = {step: r for step, v in steps.items() if (r := ratio(v, steps.get(1))) is not None and step > 1}
    claim = "data in constant memory should lie so that they are read consecutively"
    if not found:
        return unknown("C1", claim, f"the run has no steps through constant memory: {RUN_ACCESS}")
    worst = max(found, key=lambda step: found[step].value)
    first = min((step for step in found if found[step].low * MATTERS >= found[worst].value), default=worst)
    return judged(
        "C1",
        claim,
        found[worst],
        f"lay out {KINDS[memory]} in the order it is read: a step of {first} words ({4 * first} B) costs "
        f"{times(found[worst])} that of one ({cycles(steps[worst])}, not {cycles(steps.get(1))})",
        f"lay out constants as you like: no step up to {max(steps)} words costs more than {at_most(found[worst])}",
        "",
    )


def broadcast(known: Known, memory: str) -> Advice:
    """C2, and whether it is worth it: global memory may serve one word as fast."""
    here, there = _same(known, memory), _same(known, "global")
    found = ratio(there, here)
    beside = f"; a buffer takes {cycles(_same(known, 'constant'))}" if _both(known) else ""
    if found is None:
        use = f"let all work-items read one word of {KINDS[memory]} at the same time: {cycles(here)}{beside}"
    elif found.low >= MATTERS:
        slower = f"where global memory takes {cycles(there)}{beside}"
        use = f"keep in {KINDS[memory]} what all read at the same time: {cycles(here)}, {slower}"
    else:
        as_fast = f"{cycles(here)} and {cycles(there)}{beside}"
        use = f"use {KINDS[memory]} or global memory for what all read at the same time: {as_fast}"
    return by_findings(
        known,
        "C2",
        "constant memory serves all work-items of a sub-group that read one word at once",
        memory,
        {"broadcast": ("supported",)},
        use,
        f"{KINDS[memory]} does not help work-items that read the same word",
    )


def _both(known: Known) -> bool:
    """True if there are buffers in constant memory besides arrays of the program, of which the guidelines are."""
    return known.constant() == "constant_array" and "constant" in known.memories


def in_turn(known: Known, memory: str) -> Advice:
    """C3: what the paper says constant memory lacks."""
    more = each_more(known.values, memory)
    parallel = ratio(known.load(memory, known.wide), known.load(memory, 1))
    added = f": each further word adds {more.value:.3g} cycles" if more is not None else ""
    buffer = known.memories["constant"].verdicts.get("parallel") if _both(known) else None
    beside = "; a buffer in constant memory serves them at once" if buffer is not None and buffer.value == "supported" else ""
    said = f"{known.wide} different words take {times(parallel)} as long as one" if parallel is not None else "see its verdicts"
    return by_findings(
        known,
        "C3",
        "constant memory serves different words of a sub-group one after the other",
        memory,
        {"parallel": ("not supported",)},
        f"do not index {KINDS[memory]} by work-item: {said}{added}{beside}",
        f"{KINDS[memory]} may be indexed by work-item: {said}",
    )


def configuration(known: Known, memory: str) -> Advice:
    """C4, by one group whose sub-groups each read a word of their own: the largest against one sub-group."""
    claim = "the size of work-groups matters to constant memory"
    if known.taking_turns():
        return inapplicable("C4", claim, known.taking_turns())
    if not known.side_by_side():
        return unknown(
            "C4", claim, f"it is unknown whether work-items take turns, which takes longer the more there are: {RUN_ACCESS}"
        )
    found = _grown(known, memory, "items", groups=1)
    if not found:
        return unknown("C4", claim, f"the run has no loads of several work-group sizes from constant memory: {RUN_ACCESS}")
    worst = max(found, key=lambda n: found[n].value)
    fine = max((n for n in found if found[n].high < MATTERS), default=known.wide)
    words = f"{worst // max(1, known.wide)} words, one a sub-group and each in a line of its own"
    return judged(
        "C4",
        claim,
        found[worst],
        f"let a group's sub-groups read the same constants, or use groups of up to {fine}: {worst} work-items on {words}, wait "
        f"{times(found[worst])} as long as {known.wide} on one",
        f"any size of work-group does: {worst} work-items wait at most {at_most(found[worst])} as long as {known.wide}",
        "",
    )


def groups(known: Known, memory: str) -> Advice:
    """C5, which claims that there is next to no effect: it holds where the effect is small."""
    claim = "the number of work-groups hardly matters to constant memory"
    sizes = known.sizes(memory, "groups", degree=known.wide)
    items = known.sizes(memory, "items", groups=max(sizes, default=1), degree=known.wide)
    many, most = items[-1] if items else known.wide, max(sizes, default=1)
    found = ratio(known.load(memory, many, degree=known.wide, groups=most), known.load(memory, many, degree=known.wide))
    number = f"{most} groups of {many}"
    if found is None or len(sizes) < 2:
        return unknown("C5", claim, f"the run has no loads of several work-groups from constant memory: {RUN_ACCESS}")
    return denied(
        judged(
            "C5",
            claim,
            found,
            f"count on up to {at_most(found)} the time for a load with {number}: they share each unit's constant cache",
            f"launch as many groups as the work wants: {number} wait at most {at_most(found)} as long as one",
            "",
        )
    )


def _same(known: Known, memory: str) -> Derived | None:
    """A sub-group's loads of one word."""
    return known.load(memory, known.wide, degree=known.wide)


def _grown(known: Known, memory: str, name: str, groups: int) -> dict[int, Ratio]:
    """Broadcasts by more work-items over those by one sub-group."""
    sizes = [n for n in known.sizes(memory, name, degree=known.wide, groups=groups) if n >= known.wide]
    loads = {n: known.load(memory, n, degree=known.wide) for n in sizes[1:]}
    return {n: r for n, v in loads.items() if (r := ratio(v, _same(known, memory))) is not None}
