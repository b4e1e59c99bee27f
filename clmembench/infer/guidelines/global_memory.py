"""G1 to G4: what patterns, data types and work-items matter to global memory of this device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clmembench.infer.effect import NONE, Ratio, pick, picked, ratio
from clmembench.infer.guidelines.advice import MATTERS, Advice, Known, by_findings, cycles, judged, times, unknown
from clmembench.infer.subgroup import Memory

RUN = "run suite access"
NARROW, PACKED = "char", "char4"
WIDE_TYPES = ("int", "float", "char4", "double")  # of 4 and 8 bytes
COPY = "device_copy"
LITTLE = ("none", "gain", "at most small", "small")


def guidelines(known: Known) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.4)."""
    memory = known.memories.get("global")
    yield by_findings(
        "G1",
        "global memory serves a sub-group's work-items at once, on one word and on many",
        {"broadcast": ("supported",), "parallel": ("supported",)},
        memory,
        f"read neighbouring words by neighbouring work-items: a sub-group waits {cycles(known.load('global', known.wide))}, "
        f"as one work-item does ({cycles(known.load('global', 1))})",
        "have fewer work-items read from global memory at a time",
    )
    yield types(known)
    yield patterns(known)
    yield scattered(known)


def types(known: Known) -> Advice:
    """G2, by copies of one element a work-item: of single bytes, and of four of them packed."""
    claim = "types of 4 and 8 bytes reach the bandwidth of global memory, and char does not: pack it into char4"
    by = {str(v.params["dtype"]): v for v in picked(known.values, "datatypes")}
    found = ratio(by.get(PACKED), by.get(NARROW))
    best = {t: r for t in WIDE_TYPES if (r := ratio(by.get(t), by.get(COPY))) is not None}
    near = f"; of the device's own copy {', '.join(f'{t} reaches {r.value:.0%}' for t, r in best.items())}" if best else ""
    advice = judged(
        "G2",
        claim,
        found,
        f"move bytes as {PACKED} or wider: {times(found)} the bandwidth of {NARROW}{near}",
        f"leave bytes as they are: {PACKED} moves {times(found)} what {NARROW} does{near}",
        "the run has no copies by data type: run benchmark datatypes",
    )
    short = [t for t, r in best.items() if r.high < 1 / MATTERS]
    if advice.verdict == "holds" and short:
        return replace(advice, verdict="does not hold", reason=f"{', '.join(short)}: well below the device's own copy")
    return advice


def patterns(known: Known) -> Advice:
    """G3, which claims two things: both must be so, in global memory as kernels read it."""
    memory = known.memories.get("global")
    if memory is None or not {"consecutive", "aligned"} <= memory.verdicts.keys():
        return unknown("G3", "accesses should be consecutive and need not be aligned", f"no loads of global memory: {RUN}")
    apart = _worst(memory, ("consecutive", "consecutive_loaded"))
    askew = _worst(memory, ("aligned", "aligned_loaded"))
    past = known.memories.get("global_cg")
    beyond = f", {_worst(past, ('consecutive', 'consecutive_loaded'))} past L1" if past is not None else ""
    order = memory.verdicts["consecutive"].value == "large"
    return by_findings(
        "G3",
        "global memory wants consecutive accesses, which need not be aligned",
        {"consecutive": ("large",), "aligned": LITTLE, "aligned_loaded": LITTLE},
        memory,
        f"let neighbouring work-items read neighbouring words: scattered ones take up to {apart} as long{beyond}; do not "
        "align them for speed",
        f"{'align accesses too' if order else 'the order of accesses hardly matters here'}: scattered ones take at most "
        f"{apart} as long, shifted or permuted ones {askew}",
    )


def _worst(memory: Memory, names: Sequence[str]) -> str:
    """The largest of the times that these verdicts allow, in a sentence."""
    ends = [memory.verdicts[name].high for name in names if name in memory.verdicts]
    known = [end for end in ends if end is not None]
    return f"{max(known):.3g} times" if known else "? times"


def scattered(known: Known) -> Advice:
    """G4: scattered loads over work-items of one group, and over groups."""
    claim = "where accesses are not consecutive, latency grows with a group's work-items and not with the number of groups"
    items, groups = _grown(known, "items"), _grown(known, "groups")
    if items is None or groups is None:
        return unknown("G4", claim, f"the run has no scattered loads over work-items and groups: {RUN}")
    evidence = tuple(dict.fromkeys((*items[1].evidence, *groups[1].evidence)))
    told = (items[1].value, items[1].low, items[1].high, "times", evidence)
    over = f"{times(items[1])} with {items[0]} work-items in a group, {times(groups[1])} with {groups[0]} groups"
    if items[1].low >= MATTERS and groups[1].high < MATTERS:
        return Advice("G4", claim, "holds", *told, f"choose the work-group size for scattered accesses: {over}")
    if items[1].high < MATTERS and groups[1].high < 1 + NONE:
        return Advice("G4", claim, "does not hold", *told, f"neither matters here: {over}")
    if groups[1].low >= MATTERS or items[1].high < MATTERS:
        return Advice("G4", claim, "does not hold", *told, f"keep scattered accesses few however they are launched: {over}")
    return Advice("G4", claim, "undetermined", *told, "measure again on a quieter host", f"{over}, within the noise")


def _grown(known: Known, name: str) -> tuple[int, Ratio] | None:
    """Scattered loads by the most work-items of a group over one sub-group's, or in the most groups over one, for each
    work-item of a device whose work-items take turns: what they add by their number alone is none of the memory's."""
    if name == "items":
        sizes = [n for n in known.sizes("global", "items", pattern="scattered", groups=1) if n >= known.wide]
        if len(sizes) < 2:
            return None
        many, few = (known.load("global", n, pattern="scattered") for n in (sizes[-1], sizes[0]))
        plain = [known.load("global", n) for n in (sizes[-1], sizes[0])]
        found, anyway = ratio(many, few), ratio(plain[0], plain[1])
        if found is None or anyway is None:
            return None
        if known.taking_turns():
            found = Ratio(found.value / anyway.value, found.low / anyway.high, found.high / anyway.low, found.evidence)
        return sizes[-1], found
    sizes = known.sizes("global", "groups", pattern="scattered")
    if len(sizes) < 2:
        return None
    items = known.sizes("global", "items", pattern="scattered", groups=sizes[-1])[0]
    point = [pick(known.values, "subgroup", memory="global", pattern="scattered", items=items, groups=n) for n in sizes]
    over = ratio(point[-1], point[0])
    return None if over is None else (sizes[-1], over)
