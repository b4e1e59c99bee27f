"""What is known of one level of address translation, and at which numbers of pages it begins to overflow. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from clmembench.model import Experiment
from clmembench.studies.hierarchy.geometry.strides import SetGeometry, geometric_counts, is_consistent
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_probe import PageProbe
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel
from clmembench.studies.hierarchy.tlb.tlb_ramp import RampFit, SetWays

# Thresholds and limits, each with its reason
MAX_HIDDEN_SHARE = 0.1  # of what a miss costs: a nearer level's misses cost as much at least, as a rule
SCAN_PER_OCTAVE = 1  # numbers of pages that are tried, until they overflow
MAX_SEEDS_OF_SCAN = 6  # orders of one of these where a rise is near the noise
MIN_SCAN_SIGMAS = 2.0  # of the noise: a mean below is no rise
MIN_SECOND_PENALTY_RATIO = 1.3  # times the penalty of the first level, which a second level must exceed
MIN_COST_SIGMAS = 3.0  # of the noise of one cost: a level whose page is not known is one if its misses cost more
MAX_FREE_SHARE = 0.05  # of the cost of the next level's miss: a level whose misses cost less is none
MAX_PAGES = 1 << 13  # looked for: a lap over more pages takes long


@dataclass(frozen=True, slots=True)
class TlbEvidence:
    """Ids of the records that tell a level's penalty, its page, how many pages fit, and its sets."""

    penalty: tuple[str, ...] = ()
    page: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TlbGeometry:
    """One level: how many pages fit, what a miss costs beyond a hit (and at several times as many pages, which tells whether it
    is the whole cost; `noise` is theirs), the page, its sets; None and why where that is not known. `ramp`: the sets by how
    misses grow; `by_rows`: by which bits of a page's number choose them; `by_pages`: page by page. `alike`: as many pages miss
    wherever the first one is, as of equal sets; None: not known. `first_page`: from which one most pages in a row fit.
    `hit_doubt`: by how much the costs differ that tell what a miss of the nearer level adds to a hit of this one."""

    contrast: HitMissModel
    pages: CapacityBound
    stride_bytes: int  # at which pages were counted
    penalties: tuple[float, ...]
    page: UnitSize
    tags: CapacityBound | None
    sets: SetGeometry | None
    dearest: float = 0.0  # what a miss costs at most
    noise: float = 0.0
    sources: TlbEvidence = field(default_factory=TlbEvidence)
    ramp: RampFit | None = None
    by_rows: SetWays | None = None
    by_pages: SetWays | None = None
    alike: bool | None = None
    first_page: int = 0
    hit_doubt: float = 0.0

    @property
    def decided(self) -> SetWays | None:
        """The sets, where how misses grow, bits or single pages tell them."""
        return self.by_pages or self.by_rows or (self.ramp.sets if self.ramp is not None else None)

    @property
    def may_follow_another(self) -> bool:
        """True if a nearer level may have overflowed before, unseen: so much of what a miss costs hid among pages that fit."""
        return self.pages.hidden > MAX_HIDDEN_SHARE * self.pages.fits


def sets_agree(tlb: TlbGeometry) -> bool:
    """True if sets times ways is the number of entries that odd strides found."""
    return tlb.sets is not None and tlb.tags is not None and is_consistent(tlb.sets, tlb.tags)


@dataclass(frozen=True, slots=True)
class Overflow:
    """Where pages at a stride begin to overflow a level: counts that fit and do not, what an access costs before and behind."""

    stride_bytes: int
    fits: int
    over: int
    floor: float
    behind: float


def first_overflow(
    pages: PageProbe, stride: int, first: int, floor: float, most_pages: int = MAX_PAGES
) -> Experiment[Overflow | None]:
    """Where the latency first rises over `floor`, and stays there, at up to `most_pages`."""
    most = min(most_pages, pages.field.most_bytes // stride)
    counts = [*(n for n in geometric_counts(first, most, SCAN_PER_OCTAVE) if n < 0.9 * most), most]
    counts = [n for n in counts if pages.chase.has_enough_lines(n, stride)]
    last, risen, before = 0, 0, floor
    for count in counts:
        slack = (MIN_SECOND_PENALTY_RATIO - 1) * floor
        mean = yield from pages.until(
            count,
            stride,
            lambda m: m.rises(floor, slack) or m.value - MIN_SCAN_SIGMAS * m.noise < floor + slack,  # noqa: B023
            MAX_SEEDS_OF_SCAN,
        )
        if mean is None:
            continue
        if not mean.rises(floor, slack):
            last, risen, before = count, 0, mean.value if floor else 0.0
        elif risen:
            return Overflow(stride, last, risen, before, mean.value)
        else:
            risen = count
            if count == most:
                again = yield from pages.precise(count, stride, 0.0, MAX_SEEDS_OF_SCAN)
                if again is not None and again.rises(floor, slack):
                    return Overflow(stride, last, count, before, again.value)
    return None


def may_be_of_nearest_cache(chase: ChaseLayout, seen: Overflow) -> bool:
    """True if the lines of the pages overflow the nearest cache too, behind which alone TLBs may be asked."""
    if chase.lap_lines or chase.space != "global" or not chase.near_lines or chase.page_lines == 1:
        return False
    return chase.lines_of_page(seen.over, seen.stride_bytes) * seen.over > chase.near_lines[0]


def costs_nothing(nearer: TlbGeometry, behind: TlbGeometry) -> bool:
    """True if no miss of the nearer level cost more than a small part of what those of the level behind it do."""
    least = min(behind.penalties, default=0.0)
    return bool(nearer.penalties) and max(map(abs, nearer.penalties)) < MAX_FREE_SHARE * least


def costs_surely(tlb: TlbGeometry) -> bool:
    """True if each cost of a miss is more than noise, as of something that no page explains it may not be."""
    return min(tlb.penalties, default=0.0) > MIN_COST_SIGMAS * tlb.noise * math.sqrt(len(tlb.penalties))
