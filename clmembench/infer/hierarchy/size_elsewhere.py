"""Whether misses begin at the same working set at other places of the buffer, as they do not where page frames decide. Pure."""

from __future__ import annotations

from clmembench.infer.findings import undetermined_finding
from clmembench.infer.hierarchy.level_geometry import USUAL_METHOD
from clmembench.infer.hierarchy.page_frames import at_place
from clmembench.infer.hierarchy.probing import LevelProbe
from clmembench.model import Finding, Inquiry

# Thresholds and limits, each with its reason
PLACES = (1, 2)  # of the buffer, besides the first
FITTING_SHARE, OVERFLOWING_SHARE = 0.985, 1.06  # of a size: working sets that surely fit it, and that surely do not
ORDERS = 3  # of a lap that should fit: a disturbance lengthens one
BEGINS_ELSEWHERE = "misses begin at a usual size, but not at other places of the buffer: page frames decide where"


def with_size_elsewhere(probe: LevelProbe, unit: int, size: Finding) -> Inquiry[Finding]:
    """A size that rests on misses that begin at a power of two, or three times one, only where they do so at other places too:
    in other frames they would begin at another working set. Without an answer nothing speaks against it."""
    if size.method != USUAL_METHOD or not isinstance(size.value, int | float):
        return size
    for number in PLACES:
        for share in (FITTING_SHARE, OVERFLOWING_SHARE):
            fits = yield from _fits(probe, unit, int(share * size.value) // unit, number)
            if fits is not None and fits != (share < 1):
                evidence = tuple(dict.fromkeys((*size.evidence, *probe.asked.cited())))
                return undetermined_finding(
                    "size_bytes", BEGINS_ELSEWHERE, size.method, evidence, min(size.low or 0, size.value)
                )
    return size


def _fits(probe: LevelProbe, unit: int, count: int, number: int) -> Inquiry[bool | None]:
    """True if so many neighbouring places all hit at another place of the buffer, in one order at least; None: no answer."""
    known = False
    for seed in range(ORDERS):
        answer = yield from probe.asked.one(at_place(probe.chase.lap(count, unit, seed), number))
        if answer.value is not None and answer.value <= probe.contrast.limit(count):
            return True
        known = known or answer.value is not None
    return False if known else None
