"""The number of sets of a level whose lines fall into sets by chance, from how misses grow beyond what fits. Pure.

Where a hash or page frames lay lines into sets, some sets are full long before the cache is. How many lines miss at each
working set then follows from the number of sets, the ways and what a full set gives up: of k lines of a set of w ways as many
miss in a lap as simulations of that policy say. Numbers of sets are powers of two, or three or five times one, so that they
differ by a fifth at least, which a whole curve tells although single allocations differ by chance.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from clmembench.model import Finding
from clmembench.model.findings import measured_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.curve.set_count import hides_another_level, suits_bounds
from clmembench.studies.hierarchy.replacement.set_miss_rates import CYCLIC_POLICIES, cyclic_misses, forms_of

RAMP_METHOD = "the only number of sets, times ways and line, that explains how misses grow over working sets"
# Thresholds and limits, each with its reason
ODD_FACTORS = (1, 3, 5)  # of numbers of sets, times a power of two
MAX_SIZE_RATIO = 12  # times what surely fits: from half of it on sizes are tried
MODEL_DEVIATION = 0.012  # of a share of misses, besides the chance of an allocation
FRAME_AVERAGING = 2.0  # places of a working set whose mean is taken, as far as they are independent
MIN_POINTS, MIN_TELLING_SHARE, MAX_TELLING_SHARE = 3, 0.06, 0.94  # of misses, at which a point tells something
MAX_DEVIATION = 2.0  # standard deviations that the best number is off on average
BEGIN_SHARE, END_SHARE = 0.5, 0.95  # of what fits, and of misses: from there on and up to there points are compared
MIN_LEAD = 16.0  # of chi squared, of the best number before all others
MIN_LEAD_RATIO = 2.0  # the same, times that of the best
MIN_RARE_LEAD = 6.0  # the same of a power of two, before numbers that few devices have and no part of which fills a page
MAX_LINES_OF_SET = 64  # of a set, beyond which all miss


@dataclass(frozen=True, slots=True)
class RampOfSets:
    """Shares of accesses that miss at working sets in bytes; ways and line of the level, the page whose frames are random (0:
    none is known), and the policies that are possible (none: all)."""

    points: tuple[tuple[int, float], ...]
    ways: int
    line_bytes: int
    page_bytes: int
    policies: frozenset[str] = frozenset()

    def forms(self) -> list[tuple[str, int]]:
        """The policies whose sets may be simulated, each in its forms."""
        names = {
            "LRU or FIFO" if name in ("LRU", "FIFO") else "random" if name == "way-weighted" else name for name in self.policies
        }
        wanted: Collection[str] = names & set(CYCLIC_POLICIES) or set(CYCLIC_POLICIES)
        return [(name, form) for name in CYCLIC_POLICIES if name in wanted for form in range(forms_of(name, self.ways))]


def number_by_ramp(ramp: RampOfSets, least_bytes: float) -> int | None:
    """The one number of sets that explains how misses grow; None where none or several do. `least_bytes`: what surely fits."""
    telling = [share for _, share in ramp.points if MIN_TELLING_SHARE <= share <= MAX_TELLING_SHARE]
    if len(telling) < MIN_POINTS or ramp.ways < 2:
        return None
    way_bytes = ramp.ways * ramp.line_bytes
    low, high = 0.9 * least_bytes / way_bytes, MAX_SIZE_RATIO * least_bytes / way_bytes
    tried = {odd << k for odd in ODD_FACTORS for k in range(28) if low <= odd << k <= high}
    ranked = sorted((best_fit(ramp, count), count) for count in tried)
    if len(ranked) < 2 or ranked[0][0] > MAX_DEVIATION**2 * len(ramp.points):
        return None
    least, best = ranked[0]
    if _pages_overlap(ramp, best):
        return None  # whether frames are random there is not known: such numbers only speak against others
    lead = max(MIN_LEAD, MIN_LEAD_RATIO * least)
    rare = min(lead, MIN_RARE_LEAD) if not best & (best - 1) else lead
    alike = [count for value, count in ranked[1:] if value < least + (rare if _pages_overlap(ramp, count) else lead)]
    return None if alike else best


def _pages_overlap(ramp: RampOfSets, count: int) -> bool:
    """True if pages in frames begin at several places within so many sets, as they do where a modulus chooses sets."""
    return bool(ramp.page_bytes) and count * ramp.line_bytes > ramp.page_bytes and count * ramp.line_bytes % ramp.page_bytes > 0


def best_fit(ramp: RampOfSets, count: int) -> float:
    """Chi squared of so many sets, under the policy and the way of laying lines into sets that suit best."""
    page = ramp.page_bytes
    colours = count * ramp.line_bytes / page if page else 0.0  # a page's lines are of one set in so many, whole or not
    found = []
    for policy, form in ramp.forms():
        found.append(_chi_squared(ramp, policy, form, count, ramp.line_bytes))
        if colours > 1:
            found.append(_chi_squared(ramp, policy, form, colours, page))
    return min(found, default=math.inf)


def _chi_squared(ramp: RampOfSets, policy: str, form: int, places: float, unit: int) -> float:
    total = 0.0
    for size, share in ramp.points:
        expected = _miss_share(policy, form, ramp.ways, places, max(1, round(size / unit)))
        chance = expected * (1 - expected) * unit / size / FRAME_AVERAGING
        total += (share - expected) ** 2 / (MODEL_DEVIATION**2 + chance)
    return total


def with_sets_by_ramp(
    findings: dict[str, Finding],
    curve: LatencyCurve,
    step: CurveStep,
    page_bytes: int,
    policies: frozenset[str] = frozenset(),
) -> dict[str, Finding]:
    """The findings of a level whose ways and line are known, with the number of sets that explains how misses grow and the size
    that it makes, where these are open. `page_bytes`: of pages in frames (0: not known); `policies`: possible ones (none:
    all)."""
    size, ways, line, policy = (findings[name] for name in ("size_bytes", "ways", "line_bytes", "policy"))
    if size.status != "undetermined" or findings["sets"].status != "undetermined" or not step.flat:
        return findings
    if not isinstance(ways.value, int | float) or not isinstance(line.value, int | float) or step.miss <= step.hit:
        return findings
    misses = [(s, (v - step.hit) / (step.miss - step.hit)) for s, v in zip(curve.sizes, curve.values, strict=True)]
    begun = [(s, min(1.0, max(0.0, share))) for s, share in misses if s >= BEGIN_SHARE * step.fits_bytes]
    end = next((i for i, (_, share) in enumerate(begun) if share > END_SHARE), len(begun))
    possible = frozenset({str(policy.value)}) if policy.status == "ok" else policies
    ramp = RampOfSets(tuple(begun[:end]), int(ways.value), int(line.value), page_bytes, possible)
    count = number_by_ramp(ramp, step.fits_bytes)
    held = (count or 0) * ramp.ways * ramp.line_bytes
    if count is None or not suits_bounds(size, held) or hides_another_level(misses, ramp.ways, held):
        return findings
    evidence = tuple(dict.fromkeys((*curve.cited(step.fits_bytes, step.gone_bytes), *ways.evidence)))
    return {
        **findings,
        "sets": measured_finding("sets", count, RAMP_METHOD, evidence),
        "size_bytes": measured_finding("size_bytes", held, RAMP_METHOD, evidence, size.low or None, None),
    }


@lru_cache(maxsize=1 << 16)
def _miss_share(policy: str, form: int, ways: int, places: float, units: int) -> float:
    """The share of accesses that miss where so many lines, or pages, fall at random into so many places of `ways` each. Pages
    of sets whose number is no multiple of a page's lines overlap: one in `places`, no whole number, is of a line's set."""
    load, share = (units - 1) / places, 0.0
    if load > 4 * ways:
        return 1.0
    chance = (1 - 1 / places) ** (units - 1) if places > 1 else 0.0
    left = 1.0
    for others in range(min(units - 1, MAX_LINES_OF_SET) + 1):
        share += chance * cyclic_misses(policy, form, ways, others + 1) / (others + 1)
        left -= chance
        chance *= (units - 1 - others) / (others + 1) / (places - 1) if places > 1 else 0.0
    return min(1.0, share + max(0.0, left))
