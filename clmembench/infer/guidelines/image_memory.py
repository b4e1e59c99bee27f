"""T1 to T4: whether images, the texture path of a GPU, serve kernels of this device better than buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clmembench.infer.effect import Ratio, ratio
from clmembench.infer.guidelines.advice import MATTERS, Advice, Known, by_findings, cycles, inapplicable, judged, times, unknown

RUN = "run suite access"


def guidelines(known: Known) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.5)."""
    memory = known.memories.get("image")
    yield by_findings(
        "T1",
        "images serve a sub-group's work-items at once, on one texel and on many",
        {"broadcast": ("supported",), "parallel": ("supported",)},
        memory,
        f"let neighbouring work-items read neighbouring texels: a sub-group waits {cycles(known.load('image', known.wide))}",
        "have fewer work-items read texels at a time",
    )
    yield by_findings(
        "T2",
        "accesses to images need not be aligned",
        dict.fromkeys(("aligned", "aligned_loaded"), ("none", "gain", "at most small")),
        memory,
        "do not align accesses to images for speed",
        "align accesses to images as well",
    )
    yield invariant(known)
    yield instead_of_global(known)


def invariant(known: Known) -> Advice:
    """T3: consecutive accesses pay, and their latency hardly changes with work-items and groups."""
    claim = "consecutive accesses to images pay a little, and take as long whatever the number of work-items and groups"
    memory = known.memories.get("image")
    sizes = known.sizes("image", "groups", pattern="consecutive", degree=1)
    if memory is None or len(sizes) < 2:
        return unknown("T3", claim, f"the run has no loads from images over work-items and groups: {RUN}")
    if known.taking_turns():
        return inapplicable("T3", claim, known.taking_turns(), memory.verdicts["parallel"].evidence)
    items = known.sizes("image", "items", groups=sizes[-1], pattern="consecutive", degree=1)[-1]
    found = ratio(known.load("image", items, groups=sizes[-1]), known.load("image", known.wide))
    pays = memory.verdicts["consecutive"]
    advice = judged(
        "T3",
        claim,
        found,
        f"expect {times(found)} the latency with {sizes[-1]} groups of {items}: the texture path fills up",
        f"rely on it: {sizes[-1]} groups of {items} wait {times(found)} as long as one sub-group",
        f"no loads from images over groups: {RUN}",
    )
    if advice.verdict == "holds":
        return replace(advice, verdict="does not hold")
    if advice.verdict == "does not hold":
        return replace(advice, verdict="holds" if pays.value in ("small", "large") else "does not hold")
    return advice


def instead_of_global(known: Known) -> Advice:
    """T4, by scattered loads of one sub-group, and of as many groups as were measured."""
    few = _compared(known, known.wide, 1)
    sizes = known.sizes("image", "groups", pattern="scattered")
    items = known.sizes("image", "items", pattern="scattered", groups=sizes[-1]) if sizes else []
    many = _compared(known, items[-1], sizes[-1]) if items else None
    usual = many if few is not None and many is not None and many.low > few.low else few
    here, there = (cycles(known.load(memory, known.wide, pattern="scattered")) for memory in ("image", "global"))
    return judged(
        "T4",
        "accesses that are not consecutive are faster through images than through global memory",
        usual,
        f"read scattered data through images: global memory takes {times(usual)} as long",
        f"leave scattered data in buffers: a sub-group's scattered texels take {here}, its words of global memory {there}",
        f"the run has no scattered loads from both: {RUN}",
        least=MATTERS,
    )


def _compared(known: Known, items: int, groups: int) -> Ratio | None:
    """Global memory's time over an image's for scattered loads of so many."""
    loads = [known.load(memory, items, pattern="scattered", groups=groups) for memory in ("global", "image")]
    return ratio(loads[0], loads[1])
