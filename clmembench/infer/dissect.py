"""The whole of a memory hierarchy, asked for probe by probe: coarse curve, TLBs, then geometry and policy of each level.
Pure."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.infer import geometry, steps, tlb
from clmembench.infer.asking import LEAST_NOISE, Asked, Chase
from clmembench.infer.level import Around, cache_level
from clmembench.infer.translation import tlb_level
from clmembench.model import Hierarchy, Inquiry, Space

KIB = 1 << 10
BLOCK = 128 * KIB  # visited as a whole, so that translation is paid once for many lines; beyond what prefetchers look at


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be asked: the largest working set, that beyond which a flat end is memory, and the spaces there are."""

    most_bytes: int
    floor_bytes: int
    spaces: frozenset[Space] = frozenset({"global"})
    line_bytes: int = 64  # as the device claims


def dissect(limits: Limits) -> Inquiry[Hierarchy]:
    """Global memory through all its levels and its translation. What cannot be found is `undetermined` and says why."""
    asked = Asked()
    chase = Chase(block_bytes=BLOCK)
    node = yield from geometry.longest_unit(asked, "global", limits.floor_bytes, limits.line_bytes)
    curve = yield from steps.curve(asked, chase, node, 16 * node, limits.most_bytes, limits.floor_bytes)
    if curve is None:
        return Hierarchy(notes=("no chase through global memory gave an answer",))
    noise = max(LEAST_NOISE, curve.noise)
    through: Space = "global_cg" if "global_cg" in limits.spaces else "global"
    translating = Chase(through, shift_bytes=node, control_bytes=node)
    found = yield from tlb.levels(asked, translating, noise * curve.values[0], limits.most_bytes)
    reach = found[0].pages.fits * found[0].stride_bytes if found else limits.most_bytes
    entries = found[0].tags.fits if found and found[0].tags else limits.most_bytes
    levels = []
    for number, step in enumerate(curve.steps):
        around = Around(number, noise, reach, entries, limits.most_bytes)
        levels.append((yield from cache_level(asked, Chase("global", block_bytes=BLOCK), step, around)))
    translations = []
    for number, one in enumerate(found):
        translations.append((yield from tlb_level(asked, translating, number, one)))
    return Hierarchy(levels=(*levels, *steps.memory(curve)), tlb=tuple(translations))
