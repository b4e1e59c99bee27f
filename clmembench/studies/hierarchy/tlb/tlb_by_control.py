"""Address translation in runs stored before lines of pages were visited in two orders: one line a page, less a control. Pure.

The control visits as many neighbouring lines, which a page or two hold; near a cache's capacity the two differ in hits too, and
those numbers of pages are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from clmembench.model import Experiment, Pattern, Probe
from clmembench.studies.hierarchy.geometry.strides import geometric_counts
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.fill_unit import MAX_END_SHARE, UnitSize
from clmembench.studies.hierarchy.probes.probing import (
    LAP_NOISE_SIGMAS,
    MIN_RELATIVE_LAP_NOISE,
    ChaseLayout,
    HitMissModel,
    LevelProbe,
    ProbeSession,
)
from clmembench.studies.hierarchy.tlb.page_size import MAX_FIRST_LEVEL_ENTRIES, SAME_PAGE_BYTES
from clmembench.studies.hierarchy.tlb.tlb import KIB, PAGE_STRIDES_BYTES
from clmembench.studies.hierarchy.tlb.tlb_confirmation import (
    PageCounting,
    count_is_confirmed,
    entries_and_sets,
    page_is_confirmed,
    with_second_level,
)
from clmembench.studies.hierarchy.tlb.tlb_geometry import MAX_PAGES, MIN_SECOND_PENALTY_RATIO, TlbEvidence, TlbGeometry

BASE_LINES = 64  # lines, whose latency is what an access costs where nothing overflows


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """Where pages may be counted: the largest working set, and numbers of lines, first to last, at which the caches
    themselves go from hits to misses, so that the control and what it controls may differ in that."""

    most_bytes: int
    noise: float
    hazy: tuple[tuple[int, int], ...] = ()
    spread: float = 0.0  # between single lines

    def of(self, count: int) -> float:
        """The noise of the difference between laps over `count` pages and over as many neighbouring lines."""
        return math.hypot(self.noise, math.sqrt(2 / count) * self.spread)

    def clear(self, count: int) -> bool:
        """True if `count` lines are far from any cache's capacity."""
        return not any(first <= count <= last for first, last in self.hazy)


@dataclass(frozen=True, slots=True)
class ControlledProbe:
    """How pages are counted: the answers so far, the chase over one line a page, and where pages may be counted."""

    asked: ProbeSession
    chase: ChaseLayout
    field: ControlLimits

    def mean(self, count: int, stride_bytes: int) -> Experiment[float | None]:
        """The mean latency of `count` pages `stride_bytes` apart, less that of as many neighbouring lines."""
        return (yield from self.chase.mean(self.asked, count, stride_bytes))

    def level(self, hit: float, miss: float, count: int) -> LevelProbe:
        """The probe of a TLB with these costs of a hit and a miss, at the noise of `count` pages."""
        return LevelProbe(self.asked, self.chase, HitMissModel(hit, miss, self.field.of(count)))


def measure_tlbs_by_control(asked: ProbeSession, chase: ChaseLayout, field: ControlLimits) -> Experiment[list[TlbGeometry]]:
    """The levels found, at most two. The field's noise is relative, of one lap."""
    few = [BASE_LINES >> k for k in range(5)]
    bases = yield from asked.all([Probe(Pattern("random", n, chase.control_bytes), chase.space) for n in few])
    values = [base.value for base in bases if base.value is not None]
    if len(values) < len(few):
        return []
    # where lines differ among themselves, as in an L2 that is nearer to some, means over few of them differ too
    spread = math.sqrt(sum((v - values[0]) ** 2 * n for v, n in zip(values[1:], few[1:], strict=True)) / (len(few) - 1))
    own = field.noise * values[0]  # of the difference of two laps
    field = replace(field, noise=math.sqrt(2) * own, spread=spread if spread > 2 * LAP_NOISE_SIGMAS * own else 0.0)
    pages = ControlledProbe(asked, chase, field)
    for stride in PAGE_STRIDES_BYTES:
        if 64 * stride > field.most_bytes:
            return []
        seen = yield from _first_overflow(pages, stride, 4, 0.0)
        if seen is None:
            continue
        first = yield from _tlb_at_overflow(pages, stride, seen, 0.0)
        if first is None or not count_is_confirmed(first) or not (yield from page_is_confirmed(asked, chase, first)):
            continue  # something else rose there
        counting = PageCounting(pages.mean, partial(_first_overflow, pages), partial(_tlb_at_overflow, pages))
        return (yield from with_second_level(asked, chase, first, stride, counting))
    return []


def _first_overflow(pages: ControlledProbe, stride: int, first: int, floor: float) -> Experiment[tuple[int, int] | None]:
    """(count that fits, count that does not) where latency beyond the control first rises over `floor`, and stays there."""
    field = pages.field
    counts = [n for n in geometric_counts(first, min(MAX_PAGES, field.most_bytes // stride), 2) if field.clear(n)]
    last, risen = 0, 0
    while counts:
        count = counts.pop(0)
        value = yield from pages.mean(count, stride)
        if value is None:
            continue
        if value <= floor + max(2 * LAP_NOISE_SIGMAS * field.of(count), (MIN_SECOND_PENALTY_RATIO - 1) * floor):
            last, risen = count, 0
        elif risen:
            return last, risen
        else:
            risen, little = count, count * 6 // 5
            if (not counts or counts[0] > 2 * count) and field.clear(little):
                counts.insert(0, little)  # a cache's capacity is near
    return None


def _tlb_at_overflow(
    pages: ControlledProbe, stride: int, seen: tuple[int, int], floor: float
) -> Experiment[TlbGeometry | None]:
    """The TLB that overflows between two numbers of pages, `seen`; None where it may be a cache. `floor`:
    what an access costs before."""
    field, asked, (fit, over) = pages.field, pages.asked, seen
    rough = yield from pages.mean(over, stride)
    assert rough is not None
    held = yield from find_capacity(pages.level(floor, max(rough, floor), over), stride, over, (fit,))
    if held.fits < 1 or held.over is None or not field.clear(held.over):
        return None
    asked.cited()
    penalties, hazy = yield from _penalties(pages, stride, held.fits, floor)
    hazy.insert(0, rough - floor)
    cost_from = asked.cited()
    # too high a cost of a miss would hide single misses
    probe = pages.level(floor, floor + max(penalties, default=max(field.of(over), min(hazy))), over)
    held = yield from find_capacity(probe, stride, over, (held.fits,))
    if held.fits < 1 or held.over is None or not field.clear(held.over):
        return None
    held_from = asked.cited(4)
    page = yield from _page_size(probe, stride * held.fits, field)
    page_from = asked.cited()
    tags, sets, tags_from = yield from entries_and_sets(probe, page, held.fits, stride, field.most_bytes)
    dearest = floor + max(penalties, default=rough - floor)
    sources = TlbEvidence(cost_from, page_from, tuple(dict.fromkeys((*held_from, *tags_from))), asked.cited())
    return TlbGeometry(probe.contrast, held, stride, tuple(penalties), page, tags, sets, dearest, probe.contrast.noise, sources)


def _penalties(pages: ControlledProbe, stride: int, fitting: int, floor: float) -> Experiment[tuple[list[float], list[float]]]:
    """Costs of a miss at two to four times as many pages as fit, and apart those at which a cache may go from hits to misses
    too."""
    penalties: list[float] = []
    hazy: list[float] = []
    for count in (2 * fitting, fitting * 5 // 2, 3 * fitting, 4 * fitting):
        value = yield from pages.mean(count, stride)
        if value is not None:
            (penalties if pages.field.clear(count) else hazy).append(value - floor)
    return penalties, hazy


def _page_size(probe: LevelProbe, reach: int, field: ControlLimits) -> Experiment[UnitSize]:
    """The least power of two at which an access that far behind one that missed misses too. Places are twice that apart, so
    that each lies near the start of a page, and span twice the reach."""
    chase, contrast = probe.chase, probe.contrast
    distance = max(4 * KIB, 1 << (reach // MAX_FIRST_LEVEL_ENTRIES).bit_length())
    first = True
    while True:
        count, span = max(16, 2 * reach // (2 * distance) + 1), 2 * distance
        if count * span > field.most_bytes or distance > reach:
            return UnitSize(None, f"no page up to {distance // 2} B was found within the limit of memory")
        probes = [
            Probe(Pattern("pairs", count, span, chase.shift_bytes, d, seed=1), chase.space) for d in (SAME_PAGE_BYTES, distance)
        ]
        inside, across = yield from probe.asked.all(probes)
        if inside.value is None or across.value is None:
            return UnitSize(None, inside.reason or across.reason)
        gap = (contrast.miss - contrast.hit) / 2
        noise = max(MIN_RELATIVE_LAP_NOISE * inside.value, field.noise) + field.spread / math.sqrt(count)
        noise = max(noise, *((a.high - a.low) / 4 for a in (inside, across) if a.high is not None and a.low is not None))
        if 2 * LAP_NOISE_SIGMAS * noise > gap:
            return UnitSize(None, f"the cost of a miss is within the noise of pairs: {noise:.2g} of {inside.value:.4g}")
        rise = (across.value - inside.value) / gap
        if rise > 1 - MAX_END_SHARE:
            if first and distance > 4 * KIB:
                return UnitSize(None, f"pages are shorter than {distance} B: more than {MAX_FIRST_LEVEL_ENTRIES} of them fit")
            return UnitSize(distance)
        if abs(rise) > MAX_END_SHARE:
            return UnitSize(None, f"accesses {distance} B behind one that missed neither hit nor miss")
        distance, first = 2 * distance, False
