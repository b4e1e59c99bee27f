"""Resolution (step) of the clock behind a trace, and which latencies it can have produced. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Accesses, Array

# Thresholds and limits, each with its reason
LEADING_LATENCIES = 2_000  # of each trace: common divisors are the clock's
MAX_LATENCY_RATIO = (
    10_000.0  # times the median: memory is at most some 500 times slower than a first cache; a wrapped difference is larger
)
MAX_DISTINCT_VALUES = 20_000  # more are not steps of a clock
COMMON_VALUES_SHARE = 0.98  # share of accesses: rarer values may be outliers off any step
MAX_CLOCK_PHASE_SHARE = 0.02  # of the clock's step: latencies further from its multiples are not from such a clock
MAX_ROUNDING_SHARE = 0.35  # of the step: values rounded more coarsely show only the rounding
MAX_DECIMALS = 6  # of values that were rounded
MAX_ALIKE_GAP_RATIO = 1.6  # times the least gap: larger gaps span two steps
MAX_COMPARED_STEPS = 6  # in larger gaps the error of the step adds up
MIN_ON_STEP_SHARE = 0.98  # of the gaps that are compared
MIN_NEAR_GAP_SHARE = 0.2  # share of gaps: if fewer span few steps, the least gap is accidental
MAX_EXACT_VALUES = 24  # an exact clock shows one latency for each level and translation
MIN_EXACT_RUN = 40  # consecutive accesses of one value: a latency a fifth of a step off a multiple has so many once in 7500


def possible_latencies(traces: Sequence[Accesses]) -> list[Array]:
    """Which latencies of each trace are possible; the others are wrapped differences, negative or huge."""
    positive = np.concatenate([t.latencies[:LEADING_LATENCIES] for t in traces])
    positive = positive[positive > 0]
    most = MAX_LATENCY_RATIO * float(np.median(positive)) if positive.size else 0.0
    return [(t.latencies >= 0) & (t.latencies <= most) for t in traces]


def clock_quantum(traces: Sequence[Accesses]) -> float:
    """The step of the clock: nearly all latencies differ by multiples of it, within their rounding; 0 for none.

    A clock's step spreads one latency over two neighbouring multiples. If values one step apart all occur in long runs, as from
    a simulator, they are distinct latencies and the clock is exact."""
    possible = possible_latencies(traces)
    kept = [t.latencies[:LEADING_LATENCIES][p[:LEADING_LATENCIES]] for t, p in zip(traces, possible, strict=True)]
    values, counts = np.unique(np.concatenate(kept), return_counts=True)
    if values.size < 2 or values.size > MAX_DISTINCT_VALUES:
        return 0.0
    common = _common_values(values, counts)
    step = _step_between(common)
    return 0.0 if step and values.size <= MAX_EXACT_VALUES and _are_latencies(traces, common, step) else step


def _common_values(values: Array, counts: Array) -> Array:
    """The most frequent values that make up nearly all accesses, in order."""
    order = np.argsort(-counts, kind="stable")
    enough = int(np.searchsorted(np.cumsum(counts[order]), COMMON_VALUES_SHARE * counts.sum())) + 1
    common: Array = np.sort(values[order[:enough]])
    return common


def _step_between(values: Array) -> float:
    """The step that gaps between neighbouring values are multiples of; 0 for none.

    With rounded ticks a gap may be off by one unit of the rounding. Gaps of many steps are not compared: an error of the step
    would add up."""
    gaps = np.diff(values)
    gaps = gaps[gaps > 1e-9 * values[1:]]
    if not gaps.size:
        return 0.0
    step = float(np.mean(gaps[gaps <= MAX_ALIKE_GAP_RATIO * gaps.min()]))
    unit, least = _rounding_unit(values), float(gaps.min())
    rounding = unit
    if unit > MAX_ROUNDING_SHARE * step or np.allclose(gaps / least, np.round(gaps / least), atol=MAX_CLOCK_PHASE_SHARE):
        step, rounding = least, 0.0
    near = gaps[gaps <= (MAX_COMPARED_STEPS + 0.5) * step] / step
    off = np.abs(near - np.round(near)) > max(MAX_CLOCK_PHASE_SHARE, 1.01 * rounding / step)
    on_step = near.size >= MIN_NEAR_GAP_SHARE * gaps.size and float(off.mean()) <= 1 - MIN_ON_STEP_SHARE
    return step if on_step else unit


def _rounding_unit(values: Array) -> float:
    """The power of ten that all values are multiples of, 1 at most; 0 if they have more decimals than any rounding."""
    for decimals in range(MAX_DECIMALS + 1):
        if np.allclose(values, np.round(values, decimals), rtol=1e-12, atol=1e-3 * 10.0**-decimals):
            return float(10.0**-decimals)
    return 0.0


def _are_latencies(traces: Sequence[Accesses], values: Array, step: float) -> bool:
    """True if for every two values one step apart both occur in long runs, so that neither is the other's neighbour on a coarse
    clock. If no value is a multiple of the step, only the faster of them needs long runs."""
    near = np.flatnonzero(np.diff(values) <= 1.5 * step)
    whole = abs(values[0] / step - round(values[0] / step)) < MAX_CLOCK_PHASE_SHARE
    lasting = {*near.tolist(), *((near + 1).tolist() if whole else ())}
    return all(_longest_run(traces, float(values[n])) >= MIN_EXACT_RUN for n in lasting)


def _longest_run(traces: Sequence[Accesses], value: float) -> int:
    """The most consecutive accesses of one trace that have this latency."""
    longest = 0
    for trace in traces:
        other = np.flatnonzero(np.r_[True, trace.latencies != value, True])
        longest = max(longest, int(np.max(np.diff(other))) - 1)
    return longest
