"""The whole of a memory hierarchy, asked for probe by probe: curve, translation, then geometry and policy of each level."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clmembench.infer.hierarchy import latency_experiment, latency_patterns, memory_spaces, prefetch, strides, tlb
from clmembench.infer.hierarchy.cache_level import Around, cache_level
from clmembench.infer.hierarchy.curve_findings import memory_level
from clmembench.infer.hierarchy.latency_curve import PlateauPoint, WorkingSets, free_of_prefetching, measure_curve
from clmembench.infer.hierarchy.probing import LEAST_NOISE, Asked, Chase
from clmembench.infer.hierarchy.tlb_level import tlb_level
from clmembench.model import CacheLevel, Hierarchy, Inquiry, Space

KIB = 1 << 10
FARTHEST, LEAST_FARTHEST = 4, 2  # times the floor: where the curve ends, flat or not; the latter
LARGE = 256 << 20  # bytes: beyond this, where a lap takes seconds
FURTHER = 8  # times the first cache: how far other paths to memory are followed
LONGEST_LINE = 128  # bytes: of all GPUs' and most CPUs' caches; where a miss brings in more, that counts
BLOCK = 128 * KIB  # visited as a whole, so that translation is paid once for many lines; beyond what prefetchers look at


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be asked: the largest working set, that beyond which a flat end is memory, and the spaces there are. Where the
    former is less than the latter, memory is not seen."""

    most_bytes: int
    floor_bytes: int
    spaces: frozenset[Space] = frozenset({"global"})
    line_bytes: int = 64  # as the device claims

    @property
    def enough_bytes(self) -> int:
        """From where on a flat curve needs no larger sets: what shows memory, or where that cannot be asked for a quarter."""
        return self.floor_bytes if self.floor_bytes <= self.most_bytes else self.most_bytes // 4


def dissect(limits: Limits) -> Inquiry[Hierarchy]:
    """Global memory through all its levels and its translation. What cannot be found is `undetermined` and says why."""
    asked = Asked()
    chase = Chase(block_bytes=BLOCK)
    enough = limits.enough_bytes
    node = yield from strides.longest_unit(asked, "global", enough, limits.line_bytes)
    farthest = max(LEAST_FARTHEST * enough, min(FARTHEST * enough, LARGE))
    sets = WorkingSets(node, 16 * node, min(limits.most_bytes, farthest), enough)
    curve = yield from measure_curve(asked, chase, sets)
    if curve is None:
        return Hierarchy(notes=("no chase through global memory gave an answer",))
    noise = max(LEAST_NOISE, curve.steps[0].noise if curve.steps else curve.noise)
    through: Space = "global_cg" if "global_cg" in limits.spaces else "global"
    # a line of its own for each page and in the control, however long a line is: nodes are but as long as what a miss brings in
    apart = max(node, LONGEST_LINE)
    translating = Chase(through, shift_bytes=apart, control_bytes=apart)
    nearby = curve.steps if through == "global" else curve.steps[1:]
    hazy = tuple((step.fits_bytes // apart // 2, 2 * step.over_bytes // node) for step in nearby if step.flat)
    found = yield from tlb.levels(asked, translating, tlb.Field(limits.most_bytes, noise, hazy))
    around = Around(0, noise, limits.most_bytes, limits.most_bytes, limits.most_bytes, node)
    if found:
        first = found[0]
        reach = first.pages.fits * first.stride_bytes
        entries = first.tags.fits if first.tags else first.pages.fits
        around = replace(around, reach_bytes=reach, entries=entries, page_bytes=first.page.nbytes or 0)
        around = replace(around, penalty=max(t.dearest for t in found))
    levels = []
    for number in range(len(curve.steps)):
        here = replace(around, number=number, nearer=curve.steps[number - 1].hit if number else 0.0)
        # where the first level can be left out, nothing stands before the second
        space: Space = through if number else "global"
        levels.append((yield from cache_level(asked, Chase(space, block_bytes=BLOCK), curve, here)))
    sure = curve.memory is not None and (
        yield from free_of_prefetching(asked, chase, PlateauPoint(curve.sizes[-1], node, curve.memory, curve.memory_noise))
    )
    translations = []
    for number, one in enumerate(found):
        translations.append((yield from tlb_level(asked, translating, number, one, curve.ghz)))
    asked.patience = 0  # on CPUs the other spaces are the same memory again
    paths: dict[Space, tuple[CacheLevel, ...]] = {}
    longest = FURTHER * max((curve.steps[0].over_bytes if curve.steps else 0), 64 * KIB)
    for path in memory_spaces.LASTS:
        if path in limits.spaces:
            paths[path] = yield from memory_spaces.along(asked, path, node, longest)
    local = (yield from memory_spaces.own(asked, "local")) if "local" in limits.spaces else None
    private = (yield from memory_spaces.own(asked, "private")) if "private" in limits.spaces else None
    whole = Hierarchy(
        levels=(
            *levels,
            *memory_level(curve, bool(sure), limits.floor_bytes),
            *paths.get("readonly", ()),
            *((private,) if private else ()),
        ),
        tlb=tuple(translations),
        local=local,
        constant=memory_spaces.named(paths, "constant_array", "constant"),
        image=memory_spaces.named(paths, "image1d_buffer", "image1d", "image2d"),
    )
    geometry = latency_experiment.known(whole)
    if curve.sizes[-1] < limits.floor_bytes:
        geometry = replace(geometry, last_bytes=None)  # a larger cache may lie beyond all sets that were asked for
    met = yield from latency_patterns.inquire(geometry, curve.ghz, "global", limits.most_bytes)
    whole = replace(whole, patterns=latency_patterns.as_findings(met))
    if len(curve.steps) < 2:
        return whole
    held = FURTHER // 2 * curve.steps[0].over_bytes if through == "global" else 0
    ahead = yield from prefetch.prefetch(node, held, through)
    second = replace(whole.levels[1], findings={**whole.levels[1].findings, "prefetch_bytes": ahead})
    return replace(whole, levels=(whole.levels[0], second, *whole.levels[2:]))
