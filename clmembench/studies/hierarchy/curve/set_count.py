"""The number of sets of a level from its ways, its line and the bounds of its size, or where its misses begin. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clmembench.model import Finding
from clmembench.model.findings import measured_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.reversed_laps import MAX_RELATIVE_DIFFERENCE, number_of_sets
from clmembench.studies.hierarchy.replacement.policy_rates import DRAWN

BOUNDS_METHOD = "the only number of sets, times ways and line, between where misses begin and where nearly all miss"
PRODUCT_METHOD = "size, over ways times line"
MAX_PRODUCT_DIFFERENCE = 0.006  # between a size and sets times ways times line
MAX_STEEP_DIFFERENCE = 0.015  # between where misses begin and sets times ways times line
MAX_STEEP_GONE_RATIO = 1.5  # times that product: by then three quarters miss; pages in random frames spread the end over more
MAX_DRAWN_STEEP_DIFFERENCE = 0.006  # the same where victims are drawn,
MAX_DRAWN_GONE_RATIO = 2.5  # of which a fifth hits at twice the size
MAX_WEIGHTED_GONE_RATIO = 4.5  # the same where one way is drawn so often that most others keep their lines
MIN_SLICED_BYTES = 4 << 20  # caches from there on are built of slices, whose number may be odd: 15 of 2 MiB, as well as 16
SLICES = 16  # that a number of sets has to be told from one more and one less of
MIN_EARLY_MISS_SHARE = 0.05  # of accesses, in sets of half the capacity: fewer may be something else
MAX_EARLY_MISS_RATIO = 5  # times as many as random sets would miss: pages are few, and their frames unevenly spread


def suits_bounds(size: Finding, product: int) -> bool:
    """True if a product of sets, ways and line is no less than what surely fits, and of a known size no more than that."""
    low, high = size.low or 0.0, size.high or math.inf
    if size.status != "ok":
        high = math.inf
    return low * (1 - MAX_RELATIVE_DIFFERENCE / 3) <= product <= high * (1 + MAX_RELATIVE_DIFFERENCE / 3)


def number_of_steep_end(step: CurveStep, size: Finding, way_bytes: int, possible: frozenset[str] = frozenset()) -> int | None:
    """The number of sets of a level whose misses begin just where one number of sets is full, and where most accesses miss soon
    after; None where they do not. A larger cache would have to begin there by chance, and lines that fall into sets at random
    begin to miss at less than half of what it holds. `possible`: policies; where all draw victims more accesses hit beyond, and
    misses have to begin the closer to that number."""
    if size.status == "ok" or not size.low:
        return None
    drawn = bool(possible) and possible <= DRAWN
    slack = MAX_DRAWN_STEEP_DIFFERENCE if drawn else MAX_STEEP_DIFFERENCE
    low = size.low * (1 - slack / 2)
    count = number_of_sets(low, way_bytes, 0.0, size.low * (1 + slack))
    if count and count & (count - 1):
        return None  # pages in random frames begin to miss anywhere: only what address bits can select is no chance
    most = MAX_DRAWN_GONE_RATIO if drawn else MAX_STEEP_GONE_RATIO
    if possible == {"way-weighted"}:
        most = MAX_WEIGHTED_GONE_RATIO
    return count if count and step.gone_bytes <= most * count * way_bytes else None


def with_sets_between_bounds(findings: dict[str, Finding]) -> dict[str, Finding]:
    """The findings of a level whose ways and line are known, with its sets and size where one number of sets alone lies between
    the bounds of its size."""
    size, ways, line = (findings[name] for name in ("size_bytes", "ways", "line_bytes"))
    if size.status != "undetermined" or not size.low or not size.high or findings["sets"].status != "undetermined":
        return findings
    if not isinstance(ways.value, int | float) or not isinstance(line.value, int | float):
        return findings
    way_bytes = int(ways.value * line.value)
    count = number_of_sets(size.low, way_bytes, MAX_STEEP_DIFFERENCE / 2, size.high)
    if count is None or count & (count - 1) or _other_slices(count * way_bytes, size.low, size.high):
        return findings
    evidence = tuple(dict.fromkeys((*size.evidence, *ways.evidence)))
    return {
        **findings,
        "sets": measured_finding("sets", count, BOUNDS_METHOD, evidence),
        "size_bytes": measured_finding("size_bytes", count * way_bytes, BOUNDS_METHOD, evidence, size.low, size.high),
    }


def _other_slices(product: int, low: float, high: float) -> bool:
    """True if a cache of one slice more or less lies between the bounds too."""
    slice_bytes = product // SLICES
    return product >= MIN_SLICED_BYTES and (low <= product - slice_bytes or product + slice_bytes <= high)


def with_sets_of_size(findings: dict[str, Finding]) -> dict[str, Finding]:
    """The findings of a level behind the first whose size, ways and line are known, with the sets that these tell: a power of
    two, or three or five times one."""
    size, ways, line = (findings[name] for name in ("size_bytes", "ways", "line_bytes"))
    if findings["sets"].status != "undetermined" or any(one.status != "ok" for one in (size, ways, line)):
        return findings
    if not all(isinstance(one.value, int | float) for one in (size, ways, line)):
        return findings
    count = number_of_sets(float(size.value or 0), int(ways.value or 0) * int(line.value or 0), MAX_PRODUCT_DIFFERENCE)
    if count is None:
        return findings
    evidence = tuple(dict.fromkeys((*size.evidence, *ways.evidence)))
    return {**findings, "sets": measured_finding("sets", count, PRODUCT_METHOD, evidence)}


def hides_another_level(misses: Sequence[tuple[int, float]], ways: int, capacity: int) -> bool:
    """True if many more accesses miss than sets of so many ways let miss where lines fall into them at random: then the
    capacity is that of a level behind, which the curve does not tell from this one. `misses`: shares at sizes in bytes."""
    return any(
        share > max(MIN_EARLY_MISS_SHARE, MAX_EARLY_MISS_RATIO * _overflow_share(ways, ways * size / capacity))
        for size, share in misses
        if 2 * size <= capacity
    )


def _overflow_share(ways: int, load: float) -> float:
    """The share of lines whose set holds more lines than `ways`, `load` on average, where sets are chosen at random."""
    return 1 - math.fsum(math.exp(-load) * load**k / math.factorial(k) for k in range(ways))
