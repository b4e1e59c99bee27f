"""Walks over pages of one set of a second TLB, with others of the nearer TLB's set, so that it does not hold them all. Pure."""

from __future__ import annotations

from clmembench.model import TlbLevel
from clmembench.studies.hierarchy.probes.line_probe import MIN_PAGE_BYTES
from clmembench.studies.hierarchy.probes.probing import ChaseLayout
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, NearerSet, SetLines, SetOfLevel
from clmembench.studies.hierarchy.tlb.tlb_ramp import SetWays

# Thresholds and limits, each with its reason
NEARER_RATIO = 1.5  # times the nearer set's ways: walks over so many pages miss it mostly
MAX_PAGES = 160  # of a walk: the first cache holds a line of each
MAX_CACHE_SHARE = 0.5  # of the first cache, that their lines may take
SLIGHT = 1e-6  # what an access costs that the nearer TLB serves, which is nothing: 0 would say that there is none


def set_behind(before: TlbLevel, sets: SetWays, page_bytes: int, chase: ChaseLayout) -> SetOfLevel | None:
    """The set that is walked over, behind the set of the nearer level that all its pages pass; None where that one's sets or
    policy are not known, or where too many pages would be needed."""
    ways, count, policy = (before.findings[name].value for name in ("ways", "sets", "policy"))
    if not isinstance(ways, int) or not isinstance(count, int) or policy is None or sets.large != sets.ways:
        return None
    nearer = NearerSet.of(ways, str(policy))
    others = sets.sets // count - 1  # sets whose pages are of the same set of the nearer level
    if nearer is None or sets.sets % count or others < 1 or sets.ways < 2 or chase.lap_lines:
        return None  # with `lap_lines` the first cache asks no TLB for few lines
    own = sets.ways + EXTRA_LINES
    filler = max(0, int(NEARER_RATIO * ways) + EXTRA_LINES - own)
    held = chase.near_lines[0] if chase.near_lines else MAX_PAGES
    if filler > others * (sets.ways - 1) or own + filler > min(MAX_PAGES, MAX_CACHE_SHARE * held):
        return None
    numbers = [row * sets.sets for row in range(own)]
    numbers += [row // others * sets.sets + (1 + row % others) * count for row in range(filler)]
    apart = max(chase.control_bytes, chase.shift_bytes if chase.page_lines == 1 else 0)
    slots = MIN_PAGE_BYTES // apart
    places = [number * page_bytes + index % slots * apart for index, number in enumerate(numbers)]
    lines = SetLines(own, own=tuple(places[:own]), filler=tuple(places[own:]))
    return SetOfLevel(sets.ways, lines, apart, SLIGHT, nearer)
