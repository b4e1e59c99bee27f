"""Whether misses begin at the same size at other places of the buffer: not where frames decide, nor in unequal sets. Pure."""

from __future__ import annotations

from clmembench.model import Experiment, Finding
from clmembench.model.findings import undetermined_finding
from clmembench.studies.hierarchy.geometry.level_geometry import ODD_METHOD, USUAL_METHOD
from clmembench.studies.hierarchy.probes.page_frames import at_place
from clmembench.studies.hierarchy.probes.probing import LevelProbe

# Thresholds and limits, each with its reason
PLACES, PLACES_OF_FIRST = (1, 2), (1, 2, 3, 4)  # of the buffer, besides the first; unequal sets overflow early at half of them
FITTING_SHARE, OVERFLOWING_SHARE = 0.985, 1.06  # of a size: working sets that surely fit it, and that surely do not
SHARES_OF_FIRST = (0.99, 1.015)  # the same of a first cache: one way more in every fourth of eight ways is 3% of its size
ORDERS = 3  # of a lap that should fit: a disturbance lengthens one
BEGINS_ELSEWHERE = "misses begin at a usual size, but not at other places of the buffer: page frames decide where"
UNEQUAL = "misses begin at other working sets at other places of the buffer, as in sets of unequal ways"


def with_size_elsewhere(probe: LevelProbe, unit: int, size: Finding, is_first: bool = False) -> Experiment[Finding]:
    """A size that rests on where misses begin, and on no sets, only where they do so at other places too: in other frames, or
    in sets of unequal ways, they would begin at another working set. Without an answer nothing speaks against it."""
    method = ODD_METHOD if is_first else USUAL_METHOD
    if size.method != method or not isinstance(size.value, int | float) or (is_first and probe.asked.shared):
        return size
    for number in PLACES_OF_FIRST if is_first else PLACES:
        for share in SHARES_OF_FIRST if is_first else (FITTING_SHARE, OVERFLOWING_SHARE):
            fits = yield from _fits(probe, unit, int(share * size.value) // unit, number)
            if fits is not None and fits != (share < 1):
                evidence = tuple(dict.fromkeys((*size.evidence, *probe.asked.cited())))
                why, least = UNEQUAL if is_first else BEGINS_ELSEWHERE, min(size.low or 0, size.value)
                return undetermined_finding("size_bytes", why, size.method, evidence, least)
    return size


def _fits(probe: LevelProbe, unit: int, count: int, number: int) -> Experiment[bool | None]:
    """True if so many neighbouring places all hit at another place of the buffer, in one order at least; None: no answer."""
    known = False
    for seed in range(ORDERS):
        answer = yield from probe.asked.one(at_place(probe.chase.lap(count, unit, seed), number))
        if answer.value is not None and answer.value <= probe.contrast.limit(count):
            return True
        known = known or answer.value is not None
    return False if known else None
