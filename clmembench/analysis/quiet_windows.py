"""Windows of a chase's launches that nothing disturbed: the cycles of a step in them. Pure.

On a busy host a CPU's private caches are shared with whoever runs on its other threads, its clock moves, and a hypervisor takes
it away: most of the time, but seldom all of it. A window is a lap or a few, some 10 us, timed by the counter between fences. Of
more lines than a cache holds at least one misses in every lap, so that windows without misses, however few, say that all fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Array, Record, Series

NOTED = 3  # numbers before all others
CHAINS = 8  # of operations beside the windows of a launch, half of them before
MOSTLY, WHOLE = 0.75, 0.1  # of launches: what two chains tell of each other there is whole, or that near
ALIKE = 0.005  # relative: what windows that nothing disturbed differ by
FEW, LEAST_FEW = 100, 3  # one of so many windows, and no fewer than so many, that agree are undisturbed
SAME_CLOCK = 0.01  # relative, before and after a launch's windows
SLOWER, FASTEST = 0.04, 0.1  # relative: a chain that takes so much longer than the fastest tenth shared its core
NEAR = 0.02  # relative: nothing that disturbs adds so little
LAUNCHES, TENTH = 3, 10  # at least so many, and one of so many, must agree: the clock may move within one
TRUSTED = 0.25  # relative
QUARTERS = 4  # of the launches, each looked at by itself


def undisturbed(record: Record, mean: float) -> tuple[float, float, float, float] | None:
    """Cycles of a step, their interval from what quarters of the launches say by themselves, and the share of windows that
    agree. Where none do, the median with the middle half of them, and a share of 0. `mean` is what whole launches
    say of one, disturbed as they are: windows are trusted only where the launches that they fill agree with it within TRUSTED.
    None where they do not, where there are no windows, or too few launches in which the clock stood still."""
    clock = record.core_clock
    series = [one for one in record.series if "windows" in one.reads]
    if clock is None or not clock.cycles_per_op or not series:
        return None
    launches = [cycles for one in series for cycles in _cycles(one, clock.cycles_per_op)]
    if len(launches) < LAUNCHES or abs(float(np.median([row.mean() for row in launches])) / mean - 1) > TRUSTED:
        return None
    every = np.concatenate(launches)
    value = _agreed(launches, max(LAUNCHES, len(launches) // TENTH))
    if value is None:
        low, middle, high = (float(q) for q in np.quantile(every, (0.25, 0.5, 0.75)))
        return middle, low, high, 0.0
    parts = sorted(part for k in range(QUARTERS) if (part := _agreed(launches[k::QUARTERS], 1)) is not None)
    # a quarter that was never left alone says nothing of those that were
    spread = max([ALIKE * value / 2, *(abs(part - value) for part in parts[:2])])
    share = float(np.mean(np.abs(every / value - 1) <= NEAR))
    return value, max(0.0, value - spread), value + spread, share


def _cycles(series: Series, cycles_per_op: float) -> list[Array]:
    """Of a step in each window, a row a launch in which chains of products before and after took the same time, and no more
    than in others. What runs on the core's other thread slows a chain of additions, whose cycles are known, more than it slows
    a chase; it seldom slows products. A product takes a whole number of cycles: as many as the two chains tell. Each is a
    long and a short one: by how much they differ has nothing of what the counter's reading takes."""
    read = series.reads["windows"].unpack().astype(np.float64)
    steps, additions, products = read[0, :NOTED]
    chains, ticks = read[:, NOTED : NOTED + CHAINS], read[:, NOTED + CHAINS :]
    differences = chains[:, 1::2] - chains[:, ::2]
    added, before, after = (
        differences[:, ::2].mean(axis=1) / additions,
        differences[:, 1] / products,
        differences[:, 3] / products,
    )
    both = (before + after) / 2
    steady = (np.minimum(added, both) > 0) & (np.abs(after - before) <= SAME_CLOCK * both)
    if not steady.any():
        return []
    ratio = float(np.quantile(both[steady] / added[steady], MOSTLY))
    if abs(ratio - round(ratio)) > WHOLE:
        return []
    steady &= both <= (1 + SLOWER) * np.quantile(both[steady], FASTEST)
    rates = both / (round(ratio) * cycles_per_op)
    return [row / steps / rate for row, rate in zip(ticks[steady], rates[steady], strict=True)]


def _agreed(launches: Sequence[Array], least: int) -> float | None:
    """The least that others confirm, of at least so many launches, as the middle of where they lie most closely there; None
    where none do."""
    cycles = np.concatenate(launches) if launches else np.empty(0)
    order = np.argsort(cycles)
    ordered, launch = cycles[order], np.repeat(np.arange(len(launches)), [row.size for row in launches])[order]
    few = max(LEAST_FEW, cycles.size // FEW)
    ends = np.searchsorted(ordered, ordered * (1 + ALIKE), "right")
    for first in np.flatnonzero(ends - np.arange(cycles.size) >= few):
        if np.unique(launch[first : ends[first]]).size >= least:
            near = np.arange(first, int(np.searchsorted(ordered, ordered[first] * (1 + 2 * ALIKE), "right")))
            densest = int(near[np.argmax(ends[near] - near)])
            return float(np.median(ordered[densest : ends[densest]]))
    return None
