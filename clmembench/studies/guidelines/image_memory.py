"""T1 to T4: whether images, the texture path of a GPU, serve kernels of this device better than buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clmembench.studies.access.effect import BoundedRatio, bounded_ratio
from clmembench.studies.guidelines.advice import (
    ORDER_VERDICTS,
    RUN_ACCESS,
    Advice,
    RunKnowledge,
    advice_by_findings,
    advice_by_ratio,
    advice_by_simultaneity,
    advice_without_simultaneity,
    format_latency,
    format_ratio,
    format_upper_bound,
    only_if_complete,
    undetermined_advice,
)


def guidelines(known: RunKnowledge) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.5)."""
    yield advice_by_simultaneity(
        known,
        "T1",
        "image",
        "images serve a sub-group's work-items at once, on one texel and on many",
        "let neighbouring work-items read neighbouring texels: a sub-group waits "
        f"{format_latency(known.load('image', known.wide))}",
        "have fewer work-items read texels at a time",
    )
    yield advice_by_findings(
        known,
        "T2",
        "accesses to images need not be aligned",
        "image",
        dict.fromkeys(("aligned", "aligned_loaded"), ("none", "gain", "at most small")),
        "do not align accesses to images for speed",
        "align accesses to images as well",
    )
    yield constant_latency(known)
    yield images_instead_of_global(known)


def constant_latency(known: RunKnowledge) -> Advice:
    """T3: consecutive accesses pay, and their latency hardly changes with work-items and groups."""
    claim = (
        "consecutive accesses to images pay a little, and their latency hardly depends on the number of work-items and groups"
    )
    memory = known.memories.get("image")
    sizes = known.side_by_side_groups(known.sizes("image", "groups", pattern="consecutive", degree=1))
    if memory is None or len(sizes) < 2:
        return undetermined_advice("T3", claim, f"the run has no loads from images over work-items and groups: {RUN_ACCESS}")
    if serial := advice_without_simultaneity(known, "T3", claim, memory.verdicts["parallel"].evidence):
        return serial
    items = known.sizes("image", "items", groups=sizes[-1], pattern="consecutive", degree=1)[-1]
    ratio = bounded_ratio(known.load("image", items, groups=sizes[-1]), known.load("image", known.wide))
    if ratio is None:
        return undetermined_advice("T3", claim, f"no loads from images over groups: {RUN_ACCESS}")
    advice = advice_by_ratio(
        "T3",
        claim,
        ratio,
        f"expect {format_ratio(ratio)} the latency with {sizes[-1]} groups of {items}: the texture path fills up",
        f"expect the same latency: {sizes[-1]} groups of {items} wait at most {format_upper_bound(ratio)} as "
        "long as one sub-group",
        "",
    )
    advice = only_if_complete(advice, known.without_value("subgroup", memory="image", pattern="consecutive", degree=1), "loads")
    if advice.verdict == "holds":
        return replace(advice, verdict="does not hold")
    if advice.verdict == "undetermined":
        return advice
    pays = {memory.verdicts[name].value for name in ORDER_VERDICTS if name in memory.verdicts}
    if pays & {"small", "large"}:
        return replace(advice, verdict="holds")
    if None in pays or not pays:
        return replace(advice, verdict="undetermined", reason="the gain of consecutive accesses is within the noise")
    return replace(advice, advice=f"{advice.advice}, and in any order")


def images_instead_of_global(known: RunKnowledge) -> Advice:
    """T4, by scattered loads of one sub-group and of the most groups measured: the case that favours images more."""
    claim = "accesses that are not consecutive are faster through images than through global memory"
    sizes = known.side_by_side_groups(known.sizes("image", "groups", pattern="scattered"))
    items = known.sizes("image", "items", pattern="scattered", groups=sizes[-1]) if sizes else []
    shapes = [(known.wide, 1), *([(items[-1], sizes[-1])] if items else [])]
    ratios = {shape: r for shape in shapes if (r := _global_to_image_ratio(known, *shape)) is not None}
    if not ratios:
        return undetermined_advice("T4", claim, f"the run has no scattered loads from both: {RUN_ACCESS}")
    shape = max(ratios, key=lambda shape: ratios[shape].low)
    here, there = (format_latency(known.load(m, shape[0], pattern="scattered", groups=shape[1])) for m in ("image", "global"))
    who = f"of {shape[1]} groups of {shape[0]}" if shape[1] > 1 else f"of {shape[0]} work-items"
    advice = advice_by_ratio(
        "T4",
        claim,
        ratios[shape],
        f"read scattered data through images: {who}, global memory takes {there}, images {here}",
        f"leave scattered data in buffers: {who}, texels take {here}, words of global memory {there}",
        "",
    )
    gone = sum(known.without_value("subgroup", memory=m, pattern="scattered") for m in ("image", "global"))
    return only_if_complete(advice, gone, "scattered loads")


def _global_to_image_ratio(known: RunKnowledge, items: int, groups: int) -> BoundedRatio | None:
    """Global memory's time over an image's for scattered loads of that many work-items and groups."""
    loads = [known.load(memory, items, pattern="scattered", groups=groups) for memory in ("global", "image")]
    return bounded_ratio(loads[0], loads[1])
