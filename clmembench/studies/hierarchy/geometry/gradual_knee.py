"""The size of a level whose misses begin early and grow slowly, as pages in random frames make them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.model import Finding
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.geometry.level_geometry import CLOSE_RELATIVE_BOUNDS

RAMP_METHOD = "share of misses over growing working sets, as of pages in random frames"
MAX_RAMP_SHARE = 0.95  # of the way to a miss: points beyond carry no information on a ramp
MAX_MISS_TO_HIT_RATIO = 10  # a level behind which a miss costs more may hide another one
# Thresholds and limits, each with its reason
TRIED_WAYS = (*range(4, 13), 14, 15, 16, 18, 20, 24)  # of the caches that are tried
ALLOCATION_SHARE_DEVIATION = 0.04  # of a share of misses: standard deviation of one allocation's from the mean of many
MAX_CHI_SQUARED_EXCESS = 10.0  # of chi squared above the best fit: sizes that fit worse are excluded
SIZES_PER_OCTAVE = 48  # sizes tried an octave


def soft_end(curve: LatencyCurve, step: CurveStep, page_bytes: int, first: int) -> dict[str, Finding]:
    """A level whose misses begin early, at `first` bytes, and grow slowly: pages fall into it by chance, or a hash decides."""
    why = "lines fall into random sets, as under physical pages or a hash: no stride stays in one set"
    ramp, evidence = None, curve.cited(step.fits_bytes, step.gone_bytes)
    if page_bytes and step.miss < MAX_MISS_TO_HIT_RATIO * step.hit:
        points = [
            (size, (value - step.hit) / (step.miss - step.hit))
            for size, value in zip(curve.sizes, curve.values, strict=True)
            if step.fits_bytes <= size and value < step.hit + MAX_RAMP_SHARE * (step.miss - step.hit)
        ]
        ramp = fit_ramp(points, page_bytes, first, 8 * first)
    if ramp is None:
        reason = "misses begin there and grow slowly, not as they do of pages in random frames alone"
        size = undetermined_finding("size_bytes", reason, RAMP_METHOD, evidence, first)
    elif ramp.high - ramp.low > CLOSE_RELATIVE_BOUNDS * ramp.high:
        reason = f"misses suit sizes from {ramp.low:.0f} to {ramp.high:.0f} B under LRU, and others under other policies"
        size = undetermined_finding("size_bytes", reason, RAMP_METHOD, evidence, first)
    else:
        size = measured_finding("size_bytes", ramp.best, RAMP_METHOD, evidence, ramp.low, ramp.high)
    return {"size_bytes": size, **{name: undetermined_finding(name, why) for name in ("line_bytes", "ways", "sets", "policy")}}


@dataclass(frozen=True, slots=True)
class RandomRampFit:
    """Bounds of a size in bytes, the likeliest, and how many standard deviations the best fit is off on average."""

    best: float
    low: float
    high: float
    off: float


def expected_miss_share(size_bytes: float, ways: int, page_bytes: int, array_bytes: float) -> float:
    """The share of accesses that miss in laps over an array whose pages lie in random frames: a line misses where its page
    shares its place in the cache with more others than there are ways, under LRU.

    A place takes `ways` pages, and there are size / (ways x page) of them; the others of a page's are binomial.
    """
    pages, chance = max(1, round(array_bytes / page_bytes)), min(1.0, ways * page_bytes / size_bytes)
    if chance >= 1.0:
        return 1.0 if pages > ways else 0.0
    others = pages - 1
    term, fits = (1 - chance) ** others, 0.0
    for k in range(min(ways, others + 1)):
        fits += term
        term *= (others - k) / (k + 1) * chance / (1 - chance)
    return max(0.0, 1 - fits)


def fit_ramp(points: Sequence[tuple[int, float]], page_bytes: int, low: float, high: float) -> RandomRampFit | None:
    """The sizes between `low` and `high` that explain shares of misses over array sizes; None where none does, within twice the
    spread of single allocations."""
    if len(points) < 3:
        return None
    tried: list[tuple[float, float]] = []
    for i in range(max(1, int(SIZES_PER_OCTAVE * math.log2(high / low))) + 1):
        size = low * 2 ** (i / SIZES_PER_OCTAVE)
        best = min(_chi2(points, page_bytes, size, ways) for ways in TRIED_WAYS)
        tried.append((best, size))
    least, size = min(tried)
    off = math.sqrt(least / len(points))
    if off > 2:
        return None
    within = [s for chi2, s in tried if chi2 <= least + MAX_CHI_SQUARED_EXCESS]
    return RandomRampFit(size, min(within), max(within), off)


def _chi2(points: Sequence[tuple[int, float]], page_bytes: int, size: float, ways: int) -> float:
    return sum(
        ((share - expected_miss_share(size, ways, page_bytes, array)) / ALLOCATION_SHARE_DEVIATION) ** 2
        for array, share in points
    )
