"""The level that served each access and whether its translation was cached, from the modes of latencies. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Accesses, Array
from clmembench.studies.traces.latency_modes import LatencyMode, assign_modes, find_modes, merged_levels

# Thresholds and limits, each with its reason
MIN_PAGE_BYTES = 4096  # two consecutive accesses within it have the same translation
MIN_LEVEL_ACCESSES = 5  # accesses within a page: fewer may be outliers
MODE_CORE_SIGMAS = 1.5  # standard deviations around a mode's centre: values beyond may be another mode's tail
MIN_OUTLIER_RATIO = 4.0  # times the number of outliers that chance predicts
MIN_RECENT_PAGE_SHARE = 0.02  # share of a mode's accesses that return to the page just left: missing translations have none
MIN_CHANGING_ACCESSES = 200  # accesses of a mode, all at page changes: a level with this many would occur within pages too,
MIN_REVISITS_BEYOND = 50  # if so many revisits within a page, at least, were served by a slower level
MAX_PENALTIES = 3  # and levels that occur only at page changes
MAX_PENALTY_CANDIDATES = 40  # candidates for a penalty: with more their combinations take too long
MAX_COLD_ACCESSES = 20_000  # of a trace
COLD_BLOCK_BYTES = 1024  # at least a line


@dataclass(frozen=True, slots=True)
class ServingLevels:
    """The level and the translation of each access. `levels` are the modes without a TLB's penalty; `penalties` are the added
    latencies of misses in the first TLB, the second and so on. For each trace `served` has the level's number (-1: unknown) and
    `translated` the number of TLB levels missed (-1: unknown). `paged`: whether there were accesses within a page, without
    which the two cannot be distinguished."""

    levels: tuple[LatencyMode, ...]
    penalties: tuple[float, ...]
    penalty_errors: tuple[float, ...]
    served: tuple[Array, ...]
    translated: tuple[Array, ...]
    paged: bool
    clear: bool  # no mode hides another
    levels_known: bool  # the modes that are levels are known: penalties explain all others


def serving_levels(traces: Sequence[Accesses]) -> ServingLevels:
    """Modes that occur within a page are levels of caches and memory: the previous access had the same translation.

    All others are a level plus a penalty of translation: the fewest penalties that explain them all. If none explain them
    (penalties may depend on the level), they only count as translation misses."""
    found = merged_levels(find_modes(traces), traces, MIN_PAGE_BYTES)
    if not found:
        return ServingLevels((), (), (), (), (), False, False, False)
    numbers = [assign_modes(t.latencies, found) for t in traces]
    within = np.zeros(len(found) + 1, dtype=np.int64)
    everywhere = np.zeros(len(found) + 1, dtype=np.int64)
    recent = np.zeros(len(found) + 1, dtype=np.int64)
    centres, deviations = (
        np.array([m.centre for m in found]),
        np.array([max(m.deviation, 1e-9 * m.centre, 1e-9) for m in found]),
    )
    cold = np.zeros(len(found) + 1, dtype=np.int64)
    outside = 0
    for trace, number in zip(traces, numbers, strict=True):
        page = trace.offsets // MIN_PAGE_BYTES
        same = np.r_[False, page[1:] == page[:-1]]
        core = np.where(np.abs(trace.latencies - centres[number]) <= MODE_CORE_SIGMAS * deviations[number], number, -1)
        core[number < 0] = -1
        recent += np.bincount(core[same | _returns_to_recent_page(page)] + 1, minlength=len(found) + 1)
        within += np.bincount(core[same] + 1, minlength=len(found) + 1)
        if trace.first_step == 0:
            fresh = core[:MAX_COLD_ACCESSES][_first_touch(trace.offsets[:MAX_COLD_ACCESSES]) & same[:MAX_COLD_ACCESSES]]
            cold += np.bincount(fresh + 1, minlength=len(found) + 1)
        outside += int((same & (number < 0)).sum())
        everywhere += np.bincount(number + 1, minlength=len(found) + 1)
    paged = int(within.sum()) >= 50
    pure = [
        not paged
        or (
            within[i + 1] >= MIN_LEVEL_ACCESSES
            and within[i + 1] > MIN_LEVEL_ACCESSES + MIN_OUTLIER_RATIO * _expected_outliers(m, found, outside)
        )
        or (recent[i + 1] >= 2 * MIN_LEVEL_ACCESSES and recent[i + 1] > MIN_RECENT_PAGE_SHARE * everywhere[i + 1])
        for i, m in enumerate(found)
    ]
    first = [int(n[0]) for t, n in zip(traces, numbers, strict=True) if t.first_step == 0 and n.size and n[0] >= 0]
    coldest = found[int(np.median(first))] if first else None
    slowest = max((i for i, is_pure in enumerate(pure) if is_pure), default=-1)
    # first accesses come from memory, which is the slowest
    most = slowest if slowest >= 0 and cold[slowest + 1] >= MIN_LEVEL_ACCESSES else len(found)
    revisits = np.maximum(within[1:] - cold[1:], 0)  # within a page
    beyond = revisits[::-1].cumsum()[::-1] - revisits  # by slower modes
    only_changing = (within[1:] + recent[1:] == 0) & (everywhere[1:] >= MIN_CHANGING_ACCESSES) & (beyond >= MIN_REVISITS_BEYOND)
    unsure = [i for i, is_pure in enumerate(pure) if not is_pure and i < most and not only_changing[i]]
    pure, penalties, meanings, levels_known = _levels_and_penalties(found, pure, coldest, unsure)
    levels = tuple(m for m, is_pure in zip(found, pure, strict=True) if is_pure)
    others = [m for m, is_pure in zip(found, pure, strict=True) if not is_pure]
    served_of, translated_of = np.full(len(found) + 1, -1, np.int8), np.full(len(found) + 1, -1, np.int8)
    for i, m in enumerate(found):
        if pure[i]:
            served_of[i + 1], translated_of[i + 1] = levels.index(m), 0
        else:
            served_of[i + 1], translated_of[i + 1] = meanings[others.index(m)]
    errors = tuple(max((m.error for m in others), default=0.0) * 2 for _ in penalties)
    return ServingLevels(
        levels, penalties, errors, tuple(served_of[n + 1] for n in numbers), tuple(translated_of[n + 1] for n in numbers),
        paged, not any(m.mixed for m in found), levels_known,
    )  # fmt: skip


def _expected_outliers(mode: LatencyMode, found: Sequence[LatencyMode], outside: int) -> float:
    """Outliers to be expected within a mode, of accesses within a page: their density is that outside of all modes."""
    width = found[-1].high - found[0].low
    beside = max(width - sum(m.high - m.low for m in found), 0.1 * width)
    return outside * (mode.high - mode.low) / beside


def _first_touch(offsets: Array) -> Array:
    """Which accesses are the first to their kilobyte."""
    block = offsets // COLD_BLOCK_BYTES
    new = np.zeros(block.size, dtype=bool)
    new[np.unique(block, return_index=True)[1]] = True
    return new


def _returns_to_recent_page(page: Array) -> Array:
    """Which accesses return to the page before the previous one, which a two-way TLB still holds."""
    starts = np.flatnonzero(np.r_[True, page[1:] != page[:-1]][: page.size])
    run = page[starts]
    back = np.zeros(page.size, dtype=bool)
    if run.size > 2:
        back[starts[2:][run[2:] == run[:-2]]] = True
    return back


def _levels_and_penalties(
    found: Sequence[LatencyMode], pure: Sequence[bool], coldest: LatencyMode | None, unsure: Sequence[int]
) -> tuple[list[bool], tuple[float, ...], list[tuple[int, int]], bool]:
    """The modes that are levels, the penalties that explain all others, the meaning of each of these, and whether all is known.

    A level may occur only at page changes, as one of the modes `unsure`. The number of such levels and of penalties together is
    minimal; if several such choices explain all modes, the result is unknown."""
    for total in range(MAX_PENALTIES + 1):
        fits = []
        for extra in range(total + 1):
            for more in itertools.combinations(unsure, extra):
                chosen = [is_pure or i in more for i, is_pure in enumerate(pure)]
                levels = [m for m, is_pure in zip(found, chosen, strict=True) if is_pure]
                others = [m for m, is_pure in zip(found, chosen, strict=True) if not is_pure]
                penalties, meanings = explain_by_penalties(levels, others, coldest, total - extra)
                if meanings or not others:
                    fits.append((chosen, penalties, meanings))
        if fits:
            chosen, penalties, meanings = fits[0]
            return chosen, penalties, meanings, len(fits) == 1
    levels = [m for m, is_pure in zip(found, pure, strict=True) if is_pure]
    others = [m for m, is_pure in zip(found, pure, strict=True) if not is_pure]
    return list(pure), (), [(-1, -1 if len(others) > 1 else 1)] * len(others), not others


def explain_by_penalties(
    levels: Sequence[LatencyMode], others: Sequence[LatencyMode], coldest: LatencyMode | None, count: int
) -> tuple[tuple[float, ...], list[tuple[int, int]]]:
    """This many penalties, and for each mode the level and the number of the penalty; level -1 if several are possible. None if
    they do not explain all modes."""
    if not others or not levels or count == 0:
        return (), []
    options = sorted({m.centre - level.centre for m in others for level in levels if m.centre > level.centre})
    if len(options) > MAX_PENALTY_CANDIDATES:
        return (), []
    fits = []
    for chosen in itertools.combinations(options, count):
        meanings = [_penalty_meanings(m, levels, chosen) for m in others]
        walk = (
            coldest is None or coldest not in others or (len(levels) - 1, count) in _penalty_meanings(coldest, levels, chosen)
        )
        if all(meanings) and walk and {n for several in meanings for _, n in several} == set(range(1, count + 1)):
            fits.append((chosen, meanings))
    return _common_explanation(fits, count) if fits else ((), [])


def _penalty_tolerance(m: LatencyMode, level: LatencyMode) -> float:
    return max(0.5 * (m.deviation + level.deviation), 0.004 * m.centre, 6 * (m.error + level.error))


def _penalty_meanings(m: LatencyMode, levels: Sequence[LatencyMode], penalties: Sequence[float]) -> list[tuple[int, int]]:
    return [
        (i, n + 1)
        for i, level in enumerate(levels)
        for n, penalty in enumerate(penalties)
        if abs(level.centre + penalty - m.centre) <= _penalty_tolerance(m, level)
    ]


def _common_explanation(
    fits: Sequence[tuple[tuple[float, ...], list[list[tuple[int, int]]]]], count: int
) -> tuple[tuple[float, ...], list[tuple[int, int]]]:
    """Common part of all explanations with this few penalties: differing penalties are left out, differing levels are
    unknown."""
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
