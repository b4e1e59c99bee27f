"""Windows of a chase's launches that nothing disturbed: the cycles of a step in them. Pure.

On a busy host a CPU's private caches are shared with whoever runs on its other threads, its clock moves, and a hypervisor takes
it away: most of the time, but seldom all of it. A window is a lap or a few, some 10 us, timed by the counter between fences. Of
more lines than a cache holds at least one misses in every lap, so that windows without misses, however few, say that all fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array, Record, Series

HEADER_NUMBERS = 3  # numbers before all others
CHAINS_PER_LAUNCH = 8  # of operations beside the windows of a launch, half of them before


@dataclass(frozen=True, slots=True)
class WindowThresholds:
    """Thresholds on windows and launches, each with its reason; shares and spreads are relative."""

    ratio_quantile: float = 0.75  # over launches, of the cycles of a product: additions are slowed more often than products
    max_fraction: float = 0.1  # distance from a whole number of cycles that a product may seem to take
    max_undisturbed_spread: float = 0.005  # windows that nothing disturbed differ by no more
    windows_per_agreeing: int = 100  # one of so many windows must agree to be undisturbed,
    min_agreeing: int = 3  # and no fewer than so many
    max_clock_change: float = 0.01  # of the clock, before and after the windows of a launch
    max_slowdown: float = 0.04  # of a chain against the fastest ones: beyond it the core was shared
    fastest_share: float = 0.1  # of the chains, that count as the fastest
    min_disturbance: float = 0.02  # nothing that disturbs a window adds less
    min_launches: int = 3  # that must agree,
    launches_per_agreeing: int = 10  # and one of so many: the clock may move within one
    max_disagreement: float = 0.25  # between windows and the launches that they fill
    parts: int = 4  # of the launches, each evaluated alone for the interval


LIMITS = WindowThresholds()


def undisturbed(record: Record, mean: float) -> tuple[float, float, float, float] | None:
    """(cycles of a step, low, high, share of windows that agree); the interval is by what parts of the launches say alone.

    Where no windows agree, the median with the quartiles, and a share of 0. `mean` is the mean of whole launches, disturbed as
    they are: windows count only where their launches agree with it within `max_disagreement`. None where they do not, where
    there are no windows, or too few launches in which the clock stood still."""
    clock = record.core_clock
    series = [one for one in record.series if "windows" in one.reads]
    if clock is None or not clock.cycles_per_op or not series:
        return None
    launches = [cycles for one in series for cycles in _cycles(one, clock.cycles_per_op)]
    if (
        len(launches) < LIMITS.min_launches
        or abs(float(np.median([row.mean() for row in launches])) / mean - 1) > LIMITS.max_disagreement
    ):
        return None
    every = np.concatenate(launches)
    value = _agreed(launches, max(LIMITS.min_launches, len(launches) // LIMITS.launches_per_agreeing))
    if value is None:
        low, middle, high = (float(q) for q in np.quantile(every, (0.25, 0.5, 0.75)))
        return middle, low, high, 0.0
    parts = sorted(part for k in range(LIMITS.parts) if (part := _agreed(launches[k :: LIMITS.parts], 1)) is not None)
    # a quarter that was never left alone says nothing of those that were
    spread = max([LIMITS.max_undisturbed_spread * value / 2, *(abs(part - value) for part in parts[:2])])
    share = float(np.mean(np.abs(every / value - 1) <= LIMITS.min_disturbance))
    return value, max(0.0, value - spread), value + spread, share


def _cycles(series: Series, cycles_per_op: float) -> list[Array]:
    """Of a step in each window, a row a launch in which chains of products before and after took the same time, and no more
    than in others. What runs on the core's other thread slows a chain of additions, whose cycles are known, more than it slows
    a chase; it seldom slows products. A product takes a whole number of cycles: as many as the two chains tell. Each is a
    long and a short one: by how much they differ has nothing of what the counter's reading takes."""
    read = series.reads["windows"].unpack().astype(np.float64)
    steps, additions, products = read[0, :HEADER_NUMBERS]
    chains, ticks = read[:, HEADER_NUMBERS : HEADER_NUMBERS + CHAINS_PER_LAUNCH], read[:, HEADER_NUMBERS + CHAINS_PER_LAUNCH :]
    differences = chains[:, 1::2] - chains[:, ::2]
    added, before, after = (
        differences[:, ::2].mean(axis=1) / additions,
        differences[:, 1] / products,
        differences[:, 3] / products,
    )
    both = (before + after) / 2
    steady = (np.minimum(added, both) > 0) & (np.abs(after - before) <= LIMITS.max_clock_change * both)
    if not steady.any():
        return []
    ratio = float(np.quantile(both[steady] / added[steady], LIMITS.ratio_quantile))
    if abs(ratio - round(ratio)) > LIMITS.max_fraction:
        return []
    steady &= both <= (1 + LIMITS.max_slowdown) * np.quantile(both[steady], LIMITS.fastest_share)
    rates = both / (round(ratio) * cycles_per_op)
    return [row / steps / rate for row, rate in zip(ticks[steady], rates[steady], strict=True)]


def _agreed(launches: Sequence[Array], least: int) -> float | None:
    """The least that others confirm, of at least so many launches, as the middle of where they lie most closely there; None
    where none do."""
    cycles = np.concatenate(launches) if launches else np.empty(0)
    order = np.argsort(cycles)
    ordered, launch = cycles[order], np.repeat(np.arange(len(launches)), [row.size for row in launches])[order]
    few = max(LIMITS.min_agreeing, cycles.size // LIMITS.windows_per_agreeing)
    ends = np.searchsorted(ordered, ordered * (1 + LIMITS.max_undisturbed_spread), "right")
    for first in np.flatnonzero(ends - np.arange(cycles.size) >= few):
        if np.unique(launch[first : ends[first]]).size >= least:
            near = np.arange(
                first, int(np.searchsorted(ordered, ordered[first] * (1 + 2 * LIMITS.max_undisturbed_spread), "right"))
            )
            densest = int(near[np.argmax(ends[near] - near)])
            return float(np.median(ordered[densest : ends[densest]]))
    return None
