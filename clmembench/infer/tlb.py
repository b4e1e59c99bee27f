"""Address translation from whole laps over one line a page: reach, page, entries, ways of each TLB level. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.infer.asking import SIGMAS, Asked, Bound, Chase, Contrast, bound
from clmembench.infer.geometry import CLEAR, Sets, Unit, consistent, growing, sets_and_ways
from clmembench.model import Inquiry, Pattern, Probe

KIB, MIB = 1 << 10, 1 << 20
STRIDES = (4 * KIB, 64 * KIB, 2 * MIB, 32 * MIB)  # places are looked at that far apart, until a TLB overflows
MOST_PAGES = 1 << 13
INSIDE = 256  # bytes: in the same page for all but a few of the places that are moved within it
LASTS = 0.5  # of a penalty that was seen must be there with twice as many pages, or it was none of a TLB
DEARER = 1.3  # times the penalty of the first level, before a second is looked for


@dataclass(frozen=True, slots=True)
class Tlb:
    """One level: how many pages fit, what a miss costs beyond a hit, the page, its sets; None and why where that is not
    known."""

    contrast: Contrast
    pages: Bound
    stride_bytes: int  # at which pages were counted
    page: Unit
    tags: Bound | None
    sets: Sets | None
    sharp: bool


def levels(asked: Asked, chase: Chase, noise: float, most_bytes: int) -> Inquiry[list[Tlb]]:
    """The levels found, at most two. `noise` is that of a lap's mean, in its unit; `most_bytes` what a working set may span."""
    for stride in STRIDES:
        if 64 * stride > most_bytes:
            return []
        most = min(MOST_PAGES, most_bytes // stride)
        seen = yield from _jump(asked, chase, stride, 4, most, 0.0, noise)
        if seen is None:
            continue
        first = yield from _level(asked, chase, stride, seen, 0.0, noise, most_bytes)
        page = first.page.nbytes or stride
        entries = first.tags.fits if first.tags else first.pages.fits
        step = max(stride, page)
        floor = first.contrast.miss
        begin = max(4, 3 * entries)
        further = yield from _jump(asked, chase, step, begin, min(MOST_PAGES, most_bytes // step), floor, noise)
        if further is None:
            return [first]
        return [first, (yield from _level(asked, chase, step, further, floor, noise, most_bytes))]
    return []


def _jump(
    asked: Asked, chase: Chase, stride: int, first: int, most: int, floor: float, noise: float
) -> Inquiry[tuple[int, int, float] | None]:
    """(count that fits, count that does not, penalty beyond `floor`) where latency beyond the control first rises and stays."""
    counts = growing(first, most, 2)
    over = max(2 * SIGMAS * noise, (DEARER - 1) * floor)
    last = counts[0] if counts else 0
    for i, count in enumerate(counts):
        value = yield from chase.mean(asked, count, stride)
        if value is None:
            return None
        if value > floor + over:
            known = []
            for more in counts[i + 1 : i + 4]:
                later = yield from chase.mean(asked, more, stride)
                known += [later] if later is not None else []
            if len(known) >= 2 and min(known) - floor > LASTS * (value - floor):
                return last, count, sorted(known)[len(known) // 2] - floor
        else:
            last = count
    return None


def _level(
    asked: Asked, chase: Chase, stride: int, seen: tuple[int, int, float], floor: float, noise: float, most_bytes: int
) -> Inquiry[Tlb]:
    fit, over, penalty = seen
    contrast = Contrast(floor, floor + penalty, noise)
    pages = yield from bound(asked, chase, contrast, stride, 2 * over, (fit,))
    page = yield from _page(asked, chase, contrast, stride, pages.fits, most_bytes)
    tags = sets = None
    if page.nbytes is not None:
        entries = max(1, pages.fits * stride // page.nbytes) if stride < page.nbytes else pages.fits
        # odd multiples of the page use all sets
        tags = yield from bound(asked, chase, contrast, 3 * page.nbytes, 2 * entries + 2, (entries,))
        sets = yield from sets_and_ways(
            asked, chase, contrast, page.nbytes, max(1, tags.fits), most_bytes, MOST_PAGES, most_bytes
        )
    count = tags.over or tags.fits if tags else pages.fits
    return Tlb(contrast, pages, stride, page, tags, sets, contrast.sharp(max(1, count)))


def _page(asked: Asked, chase: Chase, contrast: Contrast, stride: int, fitting: int, most_bytes: int) -> Inquiry[Unit]:
    """The least power of two at which an access that far behind one that missed misses too. Places are twice that apart, so
    that each lies near the start of a page, and twice as many as fit."""
    distance = 4 * KIB
    while True:
        count, span = 2 * max(8, fitting * max(1, stride // (2 * distance))), 2 * distance
        if count * span > most_bytes:
            return Unit(None, f"pages over {distance // 2} B would need more than the limit of memory")
        probes = [Probe(Pattern("pairs", count, span, chase.shift_bytes, d, seed=1), chase.space) for d in (INSIDE, distance)]
        inside, across = yield from asked.all(probes)
        if inside.value is None or across.value is None:
            return Unit(None, inside.reason or across.reason)
        rise = (across.value - inside.value) / (contrast.miss - contrast.hit) * 2
        if rise > 1 - CLEAR:
            return Unit(distance)
        if rise > CLEAR:
            return Unit(None, f"accesses {distance} B behind one that missed neither hit nor miss")
        distance *= 2


def agreed(tlb: Tlb) -> bool:
    """Whether sets times ways is the number of entries that odd strides found."""
    return tlb.sets is not None and tlb.tags is not None and consistent(tlb.sets, tlb.tags)
