"""The search for how many places a level holds, on hosts that disturb it too. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.probing import (
    MAX_CHANCE_PROBABILITY,
    MAX_COMPARISONS,
    MAX_COMPARISONS_WITHOUT_PATIENCE,
    MAX_ORDERS,
    CapacityBound,
    LevelProbe,
    all_hit,
)


def find_capacity(
    probe: LevelProbe, stride_bytes: int, most: int, guesses: Sequence[int] = (), apart: float = 0.0
) -> Experiment[CapacityBound]:
    """The largest number of places that fit, between 0 and `most`.

    Each of `guesses`, and what is just beyond it, is tried first; then the number is doubled until it does not fit, and the gap
    halved until its ends are one place or, relative to them, `apart` from each other. On a host that disturbs, both ends are
    then compared side by side.
    """
    if probe.counting is not None:
        return (yield from probe.counting(stride_bytes, most, guesses))
    asked, contrast = probe.asked, probe.contrast
    low, over, seen, side, calm = 0, most + 1, False, MAX_ORDERS, True
    mean: float | None = None
    tries = [count for guess in guesses for count in (guess, guess + max(1, int(apart * guess)))]
    while True:
        tries = [count for count in tries if low < count < over]
        if tries:
            count = tries.pop(0)
        elif not seen and low < most:
            count = min(most, max(2, 2 * low), over - 1)
        elif over - low > max(1, apart * low):
            count = (low + over) // 2
        elif not seen:
            return CapacityBound(low, None)
        elif not asked.restless:
            break
        else:
            # a disturbance may last for all orders of one number: it counts only where fewer places are fast at the same time
            mean, side, calm = yield from _side_by_side(probe, stride_bytes, low, over, side)
            more = over if mean is not None and mean <= contrast.limit(over) else None
            if more is None and asked.patience > 0:
                # a likely number deserves another look
                more = yield from _first_count_that_fits(probe, stride_bytes, [g for g in guesses if low < g <= most], side)
            if more is None:
                break
            low, over, seen, mean = more, most + 1, False, None
            continue
        found = yield from all_hit(probe, count, stride_bytes)
        if found is None:
            return CapacityBound(low, None)
        if found:
            low = count
        else:
            over, seen = count, True
    if mean is None:
        mean = yield from probe.mean(over, stride_bytes)
    misses = contrast.misses(mean, over) if mean is not None else 0.0
    hidden = contrast.misses(contrast.limit(low), low) if low and not contrast.sharp(low) else 0.0
    return CapacityBound(low, over, misses, hidden, calm)


def _first_count_that_fits(probe: LevelProbe, stride_bytes: int, guesses: Sequence[int], first: int) -> Experiment[int | None]:
    """The first of these numbers of places that fits now, in orders from `first` on."""
    for guess in guesses:
        if (yield from all_hit(probe, guess, stride_bytes, first + MAX_COMPARISONS)):
            return guess
    return None


def _side_by_side(
    probe: LevelProbe, stride_bytes: int, low: int, over: int, first: int
) -> Experiment[tuple[float | None, int, bool]]:
    """The least mean of a lap of `over` places, taken where a lap of `low` places just before is all hits; or one that is all
    hits itself; or, where the host never leaves them alone, of all laps. With it the next order not yet used, and whether the
    laps were calm: where not, many are compared.

    Where there is no answer, as from a run that was stored before these laps existed, earlier answers count.
    """
    asked, chase, contrast = probe.asked, probe.chase, probe.contrast
    slow: list[float] = []
    other: list[float] = []
    most = MAX_COMPARISONS if asked.patience > 0 else MAX_COMPARISONS_WITHOUT_PATIENCE
    for tries in range(1, most + 1):
        asked.patience -= tries > 1
        seed = first + tries - 1
        near = (yield from chase.mean(asked, low, stride_bytes, seed)) if low else 0.0
        far, calm = yield from chase.look(asked, over, stride_bytes, seed)
        calm = calm and not asked.restless
        if near is None or far is None:
            return (yield from chase.mean(asked, over, stride_bytes)), seed + 1, calm
        if far <= contrast.limit(over):
            return far, seed + 1, calm
        (slow if near <= contrast.limit(low) else other).append(far)
        # by how often fewer places were slow too, so many would hardly all have been if they fitted
        chance = ((len(other) + 1) / (tries + 2)) ** tries
        if slow and (calm or chance < MAX_CHANCE_PROBABILITY):
            return min(slow), seed + 1, calm
    return min(slow or other), first + most, False
