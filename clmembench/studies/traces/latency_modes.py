"""Modes of latencies: values around which many accesses cluster, even if noisy or quantised. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Accesses, Array
from clmembench.studies.traces.clock_step import clock_quantum, possible_latencies

# Thresholds and limits, each with its reason
LEADING_ACCESSES = 4_000  # accesses from a trace's start that are all sampled: cold misses are rare elsewhere
SAMPLED_REMAINING_ACCESSES = 16_000  # and from the rest of it, evenly
MAX_EDGE_DENSITY_SHARE = 0.12  # of a mode's density: the mode ends where the density falls below
MIN_MODE_SHARE = 0.005  # share of a trace's accesses: values rarer in every trace are outliers
MIN_MODE_ACCESSES = 5  # accesses: fewer do not form a mode
MAX_MODES = 24  # maximum number of modes: levels and translations of a memory are fewer
MAX_MODE_CLOCK_STEP_SHARE = 0.4  # of a latency: a larger step of the clock hides other latencies
MAX_UNASSIGNED_SHARE = 0.03  # share of all latencies in no mode: with more, the noise is not understood
MAX_TRACE_MEAN_SIGMAS = 6.0  # standard deviations: if means of two traces differ by more, there are two latencies
MAX_EDGE_WIDTH_RATIO = 1.6  # times the half width of a mode: range searched for its edge
MIN_SECTOR_BYTES = 16  # the least that a miss brings in
MIN_VARIANT_SHARE = 0.05  # share of accesses that must hit the previous access's fill: rarer modes among them are outliers
MAX_VARIANT_RATIO = (
    1.1  # ratio of two latencies of one level, from the phase of the clock or a partition; levels differ by more
)


@dataclass(frozen=True, slots=True)
class LatencyMode:
    """Latencies around `centre`, from `low` to `high`, with their standard deviation; `error` is the centre's own."""

    centre: float
    low: float
    high: float
    deviation: float
    error: float
    count: int
    mixed: bool = False  # whether traces differ within it, or the clock's step is as large as it


def find_modes(traces: Sequence[Accesses]) -> list[LatencyMode]:
    """The modes of all traces' latencies, from the fastest on.

    Starts with the densest value and its surroundings, up to where the density has fallen to a small part; then the densest of
    the remaining values, and so on. A mode that is as rare as outliers in every trace is dropped."""
    step = clock_quantum(traces)
    values, owner = _sampled_latencies(traces, step)
    sizes = np.bincount(owner, minlength=len(traces))
    order = np.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    left = np.ones(values.size, dtype=bool)
    ranges: list[tuple[float, float, bool]] = []
    for _ in range(3 * MAX_MODES):
        rest = values[left]
        if rest.size < MIN_MODE_ACCESSES:
            break
        low, high, alone = _mode_range(rest, _half_sample_mode(rest), step)
        inside = left & (values >= low) & (values <= high)
        if not inside.any():
            break
        left &= ~inside
        if _is_common_in_a_trace(owner[inside], sizes):
            ranges.append((low, high, alone))
        if len(ranges) == MAX_MODES:
            break
    merged = _merged_modes([_mode_of_range(values, *one) for one in _disjoint_ranges(sorted(ranges), values)], values, step)
    beside = 1 - sum(m.count for m in merged) / values.size
    return [
        replace(m, mixed=m.mixed or beside > MAX_UNASSIGNED_SHARE or _hides_several(m, values, owner, step)) for m in merged
    ]


def _disjoint_ranges(found: Sequence[tuple[float, float, bool]], values: Array) -> list[tuple[float, float, bool]]:
    """Ranges in order; overlapping ones are cut where values are sparsest."""
    cut = list(found)
    for n in range(len(cut) - 1):
        if cut[n][1] > cut[n + 1][0]:
            places = np.linspace(sum(cut[n][:2]) / 2, sum(cut[n + 1][:2]) / 2, 22)[1:-1]
            half = (places[1] - places[0]) / 2
            counts = [_count_between(values, place - half, place + half) for place in places]
            edge = float(places[int(np.argmin(counts))])
            cut[n] = (cut[n][0], max(edge, cut[n][0]), cut[n][2])
            cut[n + 1] = (cut[n][1], max(cut[n + 1][1], cut[n][1]), cut[n + 1][2])
    return cut


def assign_modes(latencies: Array, found: Sequence[LatencyMode]) -> Array:
    """The number of the mode that each latency is in, -1 where in none; int8, shape (accesses,)."""
    edges = np.array([edge for m in found for edge in (m.low, m.high)])
    place = np.searchsorted(edges, latencies, side="left")
    numbers: Array = np.where(place % 2 == 1, place // 2, -1).astype(np.int8)
    return numbers


def _sampled_latencies(traces: Sequence[Accesses], step: float) -> tuple[Array, Array]:
    """Latencies of each trace, a limited number of each, spread over the clock's step; and the trace that each is from."""
    random = np.random.default_rng(0)
    values, owner = [], []
    for number, (trace, possible) in enumerate(zip(traces, possible_latencies(traces), strict=True)):
        latencies = trace.latencies[possible]
        taken, rest = latencies[:LEADING_ACCESSES], latencies[LEADING_ACCESSES:]
        if rest.size:
            taken = np.r_[taken, rest[:: -(-rest.size // SAMPLED_REMAINING_ACCESSES)]]
        values.append(taken)
        owner.append(np.full(taken.size, number))
    whole = np.concatenate(values).astype(float)
    return whole + (random.random(whole.size) - 0.5) * step, np.concatenate(owner)


def _half_sample_mode(values: Array) -> float:
    """The half-sample mode of sorted values (Bickel & Fruehwirth 2006)."""
    low, high = 0, values.size
    while high - low > 3:
        half = (high - low + 1) // 2
        widths = values[low + half - 1 : high] - values[low : high - half + 1]
        low += int(np.argmin(widths))
        high = low + half
    return float(np.median(values[low:high]))


def _mode_range(values: Array, centre: float, step: float) -> tuple[float, float, bool]:
    """The range of values that belong to a centre: the least width at whose edges they are sparse; and whether there is one."""
    least = max(step / 2, 1e-4 * abs(centre), 1e-9)
    most = abs(centre) + 6 * step
    for width in least * 1.15 ** np.arange(120):
        if width > most:
            break
        inner = _count_between(values, centre - width / 2, centre + width / 2)
        outer = _count_between(values, centre - width, centre + width) - inner
        if inner >= MIN_MODE_ACCESSES and outer <= MAX_EDGE_DENSITY_SHARE * inner:
            return *_sparsest_edges(values, centre, float(width)), True
    return centre - most / 2, centre + most / 2, False


def _sparsest_edges(values: Array, centre: float, width: float) -> tuple[float, float]:
    """A range a little wider than the width, but on each side no further than where values are sparsest."""
    edges = []
    for side in (-1, 1):
        tries = centre + side * width * np.linspace(0.8, MAX_EDGE_WIDTH_RATIO, 9)
        counts = [_count_between(values, t - width / 10, t + width / 10) for t in tries]
        edges.append(float(tries[int(len(counts) - 1 - np.argmin(counts[::-1]))]))
    return edges[0], edges[1]


def _count_between(values: Array, low: float, high: float) -> int:
    return int(np.searchsorted(values, high, side="right") - np.searchsorted(values, low, side="left"))


def _is_common_in_a_trace(owner: Array, sizes: Array) -> bool:
    counts = np.bincount(owner, minlength=sizes.size)
    return bool(((counts >= MIN_MODE_ACCESSES) & (counts >= MIN_MODE_SHARE * sizes)).any())


def _mode_of_range(values: Array, low: float, high: float, alone: bool) -> LatencyMode:
    values = values[(values >= low) & (values <= high)]
    if values.size == 0:
        return LatencyMode((low + high) / 2, low, high, 0.0, 0.0, 0, True)
    centre = float(np.mean(values))
    deviation = float(np.std(values))
    return LatencyMode(centre, low, high, deviation, deviation / values.size**0.5, int(values.size), not alone)


def _hides_several(mode: LatencyMode, values: Array, owner: Array, step: float) -> bool:
    """True if a mode hides several: means of traces that differ by more than chance, or a coarse step of the clock."""
    if step > MAX_MODE_CLOCK_STEP_SHARE * abs(mode.centre):
        return True
    inside = (values >= mode.low) & (values <= mode.high)
    counts = np.bincount(owner[inside])
    means = np.bincount(owner[inside], values[inside])[counts >= 30] / counts[counts >= 30]
    if means.size < 2:
        return False
    off = np.abs(means - np.median(means))
    beyond = off > MAX_TRACE_MEAN_SIGMAS * mode.deviation / np.sqrt(counts[counts >= 30])
    return bool((beyond & (off > 0.03 * abs(mode.centre))).any())


def _merged_modes(found: list[LatencyMode], values: Array, step: float) -> list[LatencyMode]:
    """Merges tails into their modes: a mode that begins where a far larger one ends, and is close to it, belongs to it. So does
    one within a step of the clock, since one latency falls on the two nearest values."""
    kept: list[LatencyMode] = []
    for mode in found:
        if kept:
            last = kept[-1]
            big, small = (last, mode) if last.count > mode.count else (mode, last)
            gap = abs(small.centre - big.centre)
            touching = mode.low - last.high < 0.5 * big.deviation
            tail = touching and gap < 6 * big.deviation and small.count < 0.05 * big.count
            if tail or gap < max(2 * big.deviation, 1.5 * step):
                # a tail moves no centre
                kept[-1] = (
                    replace(big, low=last.low, high=mode.high)
                    if tail
                    else _mode_of_range(values, last.low, mode.high, not (last.mixed or mode.mixed))
                )
                continue
        kept.append(mode)
    return kept


def merged_levels(found: Sequence[LatencyMode], traces: Sequence[Accesses], page_bytes: int) -> list[LatencyMode]:
    """The modes, with those of one level merged: the first with all that are not misses; and two neighbouring ones that hardly
    differ and both occur within pages, so that they contain no translation."""
    within, following, slow_again = (np.zeros(len(found), dtype=np.int64) for _ in range(3))
    for trace in traces:
        number, page = assign_modes(trace.latencies, found), trace.offsets // page_bytes
        same = np.r_[False, page[1:] == page[:-1]][: page.size]
        within += np.bincount(number[same & (number >= 0)], minlength=len(found))
        before, after = _numbers_within_a_sector(trace.offsets, number)
        for n in range(1, len(found)):
            following[n] += int((before >= n).sum())
            slow_again[n] += int(((before >= n) & (after >= n)).sum())
    variants = np.flatnonzero(slow_again >= np.maximum(MIN_MODE_ACCESSES, MIN_VARIANT_SHARE * following))
    merged: list[LatencyMode] = []
    for n, mode in enumerate(found):
        alike = (
            n and mode.centre <= MAX_VARIANT_RATIO * found[n - 1].centre and within[n - 1 : n + 1].min() >= MIN_MODE_ACCESSES
        )
        if merged and (alike or (variants.size and n <= variants[-1])):
            merged[-1] = _one_level(merged[-1], mode)
        else:
            merged.append(mode)
    return merged


def _numbers_within_a_sector(offsets: Array, number: Array) -> tuple[Array, Array]:
    """Modes of pairs of accesses a small stride apart, in which a miss of the first fills the second.

    The first access to a sector is less than a stride from its start."""
    steps = np.diff(offsets)
    even = np.flatnonzero((steps[1:] == steps[:-1]) & (2 * np.abs(steps[1:]) <= MIN_SECTOR_BYTES)) + 1
    return number[even], number[even + 1]


def _one_level(fast: LatencyMode, slow: LatencyMode) -> LatencyMode:
    """Both modes merged, with an error that covers both centres."""
    count = fast.count + slow.count
    share = slow.count / max(count, 1)
    centre = (1 - share) * fast.centre + share * slow.centre
    variance = (1 - share) * fast.deviation**2 + share * slow.deviation**2
    deviation = float((variance + share * (1 - share) * (slow.centre - fast.centre) ** 2) ** 0.5)
    error = max(centre - fast.centre + 2 * fast.error, slow.centre - centre + 2 * slow.error) / 2
    return LatencyMode(centre, fast.low, slow.high, deviation, error, count, fast.mixed or slow.mixed)
