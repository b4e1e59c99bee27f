"""Which level served each access and whether its translation was at hand: modes of latencies told apart. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.infer.modes import Mode, assign, modes
from clmembench.model import Accesses, Array

SMALLEST_PAGE = 4096  # within it two accesses in a row have the same translation
FEW = 5
ABOVE = 4.0  # times as many as outliers are expected to be there
RECENT = 0.02  # of a mode's accesses, to a page that was left just before: of translations that are missing there are none
MOST_PENALTIES = 3


@dataclass(frozen=True, slots=True)
class Stages:
    """What each access met. `levels` are the modes without a TLB's penalty; `penalties` are added by what missed in TLBs, of
    the first, the second and so on. Of each trace `served` has the level's number (-1 unknown) and `translated` that of TLB
    levels missed (-1 unknown). `paged`: whether accesses within a page were seen, without which the two cannot be told."""

    levels: tuple[Mode, ...]
    penalties: tuple[float, ...]
    penalty_errors: tuple[float, ...]
    served: tuple[Array, ...]
    translated: tuple[Array, ...]
    paged: bool
    clear: bool  # no mode hides another


def stages(traces: Sequence[Accesses]) -> Stages:
    """Modes that are seen within a page are levels of caches and memory: the access before has just had the same translation.

    All others are a level and a penalty of translation: the fewest penalties that explain them all. Where they cannot be
    explained so (penalties that depend on the level), that translation missed is all that is said of them.
    """
    found = modes(traces)
    numbers = [assign(t.latencies, found) for t in traces]
    within = np.zeros(len(found) + 1, dtype=np.int64)
    everywhere = np.zeros(len(found) + 1, dtype=np.int64)
    recent = np.zeros(len(found) + 1, dtype=np.int64)
    for trace, number in zip(traces, numbers, strict=True):
        page = trace.offsets // SMALLEST_PAGE
        same = np.r_[False, page[1:] == page[:-1]]
        recent += np.bincount(number[same | _last_but_one(page)] + 1, minlength=len(found) + 1)
        within += np.bincount(number[same] + 1, minlength=len(found) + 1)
        everywhere += np.bincount(number + 1, minlength=len(found) + 1)
    paged = int(within.sum()) >= 50
    pure = [
        not paged
        or (within[i + 1] >= FEW and within[i + 1] > FEW + ABOVE * _chance(m, found, within))
        or (recent[i + 1] >= 2 * FEW and recent[i + 1] > RECENT * everywhere[i + 1])
        for i, m in enumerate(found)
    ]
    levels = tuple(m for m, is_pure in zip(found, pure, strict=True) if is_pure)
    others = [m for m, is_pure in zip(found, pure, strict=True) if not is_pure]
    first = [int(n[0]) for t, n in zip(traces, numbers, strict=True) if t.first_step == 0 and n.size and n[0] >= 0]
    coldest = found[int(np.median(first))] if first else None
    penalties, meanings = explained(levels, others, coldest)
    served_of, translated_of = np.full(len(found) + 1, -1, np.int8), np.full(len(found) + 1, -1, np.int8)
    for i, m in enumerate(found):
        if pure[i]:
            served_of[i + 1], translated_of[i + 1] = levels.index(m), 0
        else:
            served_of[i + 1], translated_of[i + 1] = meanings[others.index(m)]
    errors = tuple(max((m.error for m in others), default=0.0) * 2 for _ in penalties)
    return Stages(
        levels, penalties, errors, tuple(served_of[n + 1] for n in numbers), tuple(translated_of[n + 1] for n in numbers),
        paged, not any(m.mixed for m in found),
    )  # fmt: skip


def _chance(mode: Mode, found: Sequence[Mode], within: Array) -> float:
    """Outliers to be expected within a mode, of accesses within a page: as many for its width as are beside all modes."""
    width = found[-1].high - found[0].low
    beside = max(width - sum(m.high - m.low for m in found), 0.1 * width)
    return float(within[0]) * (mode.high - mode.low) / beside


def _last_but_one(page: Array) -> Array:
    """Which accesses go back to the page before the one before, which two ways still hold."""
    starts = np.flatnonzero(np.r_[True, page[1:] != page[:-1]][: page.size])
    run = page[starts]
    back = np.zeros(page.size, dtype=bool)
    if run.size > 2:
        back[starts[2:][run[2:] == run[:-2]]] = True
    return back


def explained(
    levels: Sequence[Mode], others: Sequence[Mode], coldest: Mode | None
) -> tuple[tuple[float, ...], list[tuple[int, int]]]:
    """Penalties, and of each mode the level and the number of the penalty; level -1 where several are possible."""
    if not others or not levels:
        return (), [(-1, 1)] * len(others)
    options = sorted({m.centre - level.centre for m in others for level in levels if m.centre > level.centre})
    for count in range(1, min(MOST_PENALTIES, len(others)) + 1):
        fits = []
        for chosen in itertools.combinations(options, count):
            meanings = [_meanings(m, levels, chosen) for m in others]
            walk = coldest is None or coldest not in others or (len(levels) - 1, count) in _meanings(coldest, levels, chosen)
            if all(meanings) and walk and {n for several in meanings for _, n in several} == set(range(1, count + 1)):
                fits.append((chosen, meanings))
        if fits:
            return _agreed(fits, count)
        if len(options) > 40:
            break
    return (), [(-1, -1 if len(others) > 1 else 1)] * len(others)


def _tolerance(m: Mode, level: Mode) -> float:
    return max(0.5 * (m.deviation + level.deviation), 0.004 * m.centre, 6 * (m.error + level.error))


def _meanings(m: Mode, levels: Sequence[Mode], penalties: Sequence[float]) -> list[tuple[int, int]]:
    return [
        (i, n + 1)
        for i, level in enumerate(levels)
        for n, penalty in enumerate(penalties)
        if abs(level.centre + penalty - m.centre) <= _tolerance(m, level)
    ]


def _agreed(
    fits: Sequence[tuple[tuple[float, ...], list[list[tuple[int, int]]]]], count: int
) -> tuple[tuple[float, ...], list[tuple[int, int]]]:
    """What all explanations with as few penalties say: penalties that differ are none, levels that differ unknown."""
    penalties = np.array([chosen for chosen, _ in fits])
    alike = bool((np.ptp(penalties, axis=0) <= 0.02 * penalties.mean(axis=0)).all())
    meanings = []
    for number in range(len(fits[0][1])):
        served = {level for _, m in fits for level, _ in m[number]}
        missed = {n for _, m in fits for _, n in m[number]}
        meanings.append((served.pop() if len(served) == 1 else -1, missed.pop() if len(missed) == 1 else -1))
    if alike:
        return tuple(float(p) for p in penalties.mean(axis=0)), meanings
    return (), [(level, 1 if count == 1 else n) for level, n in meanings]
