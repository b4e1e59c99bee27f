"""Where growing numbers of pages begin to overflow a level of address translation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.model import Experiment
from clmembench.studies.hierarchy.geometry.strides import geometric_counts
from clmembench.studies.hierarchy.probes.page_probe import PageProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout

# Thresholds and limits, each with its reason
SCAN_PER_OCTAVE = 1  # numbers of pages that are tried, until they overflow
MAX_SEEDS_OF_SCAN = 6  # orders of one of these where a rise is near the noise
MIN_SCAN_SIGMAS = 2.0  # of the noise: a mean below is no rise
MIN_SECOND_PENALTY_RATIO = 1.3  # times the penalty of the first level, which a second level must exceed
MAX_PAGES = 1 << 13  # looked for: a lap over more pages takes long


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
