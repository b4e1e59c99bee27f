"""C1 to C5: whether the constant memory of this device is one, and what it asks of its users."""

from __future__ import annotations

from collections.abc import Iterator

from clmembench.derive import Derived
from clmembench.infer.effect import Ratio, ratio
from clmembench.infer.guidelines.advice import MATTERS, Advice, Known, by_findings, cycles, denied, inapplicable, judged, times
from clmembench.infer.subgroup import each_more

RUN = "run suite access"


def guidelines(known: Known) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.3)."""
    memory = known.constant()
    yield consecutive(known, memory)
    yield by_findings(
        "C2",
        "constant memory serves all work-items of a sub-group that read one word at once",
        {"broadcast": ("supported",)},
        known.memories.get(memory),
        f"keep in constant memory what all work-items read at the same time: {_same(known, memory)}, "
        f"where global memory takes {_same(known, 'global')}",
        "constant memory does not help work-items that read the same word",
    )
    yield in_turn(known, memory)
    yield configuration(known, memory)
    yield groups(known, memory)


def consecutive(known: Known, memory: str) -> Advice:
    """C1, by one work-item's steps through a table: the worst against that of one word."""
    steps = {int(v.params["step"]): v for v in known.values if v.benchmark == "step_latency" and v.params["memory"] == memory}
    found = {step: r for step, v in steps.items() if (r := ratio(v, steps.get(1))) is not None and step > 1}
    worst = max(found, key=lambda step: found[step].value, default=0)
    first = min((step for step in found if found[step].low * MATTERS >= found[worst].value), default=worst)
    return judged(
        "C1",
        "data in constant memory should lie so that they are read consecutively",
        found.get(worst),
        f"lay out constants in the order they are read: a step of {first} words ({4 * first} B) costs "
        f"{times(found.get(worst))} that of one ({cycles(steps.get(worst))}, not {cycles(steps.get(1))})",
        f"lay out constants as you like: no step up to {max(steps, default=0)} words costs more than {times(found.get(worst))}",
        f"the run has no steps through constant memory: {RUN}",
    )


def in_turn(known: Known, memory: str) -> Advice:
    """C3: what the paper says constant memory lacks."""
    more = each_more(known.values, memory)
    parallel = ratio(known.load(memory, known.wide), known.load(memory, 1))
    added = f": each further word adds {more.value:.3g} cycles" if more is not None else ""
    return by_findings(
        "C3",
        "constant memory serves different words of a sub-group one after the other",
        {"parallel": ("not supported",)},
        known.memories.get(memory),
        f"do not index constant memory by work-item: {known.wide} different words take {times(parallel)} as long as one{added}",
        f"constant memory may be indexed by work-item: {known.wide} different words take {times(parallel)} as long as one",
    )


def configuration(known: Known, memory: str) -> Advice:
    """C4, by broadcasts of one group: the largest against one sub-group."""
    claim = "the size of work-groups matters to constant memory"
    if known.taking_turns():
        return inapplicable("C4", claim, known.taking_turns())
    found = _grown(known, memory, "items", groups=1)
    worst = max(found, key=lambda n: found[n].value, default=0)
    fine = max((n for n in found if found[n].high < MATTERS), default=known.wide)
    return judged(
        "C4",
        claim,
        found.get(worst),
        f"use work-groups of up to {fine}: with {worst} a load takes {times(found.get(worst))} as long as with {known.wide}",
        f"any size of work-group does: {worst} work-items wait {times(found.get(worst))} as long as {known.wide}",
        f"the run has no loads of several work-group sizes from constant memory: {RUN}",
    )


def groups(known: Known, memory: str) -> Advice:
    """C5, which claims that there is next to no effect: it holds where the effect is small."""
    claim = "the number of work-groups hardly matters to constant memory"
    sizes = known.sizes(memory, "groups", degree=known.wide)
    items = known.sizes(memory, "items", groups=max(sizes, default=1), degree=known.wide)
    many = items[-1] if items else known.wide
    found = ratio(
        known.load(memory, many, degree=known.wide, groups=max(sizes, default=1)), known.load(memory, many, degree=known.wide)
    )
    number = f"{max(sizes, default=1)} groups of {many}"
    return denied(
        judged(
            "C5",
            claim,
            found if len(sizes) > 1 else None,
            f"count on up to {times(found)} the time for a load with {number}: they share each unit's constant cache",
            f"launch as many groups as the work wants: {number} wait {times(found)} as long as one",
            f"the run has no loads of several work-groups from constant memory: {RUN}",
        )
    )


def _same(known: Known, memory: str) -> str:
    """How long a sub-group waits for one word."""
    return cycles(known.load(memory, known.wide, degree=known.wide))


def _grown(known: Known, memory: str, name: str, groups: int) -> dict[int, Ratio]:
    """Broadcasts by more work-items over those by one sub-group."""
    sizes = [n for n in known.sizes(memory, name, degree=known.wide, groups=groups) if n >= known.wide]
    first: Derived | None = known.load(memory, known.wide, degree=known.wide)
    loads = {n: known.load(memory, n, degree=known.wide) for n in sizes[1:]}
    return {n: r for n, v in loads.items() if (r := ratio(v, first)) is not None}
