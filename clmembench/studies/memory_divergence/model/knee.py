"""Misses that a compute unit keeps in flight: the knee of a round's time over its number of lines, from `mlp`. Pure.

While all lines of a round are in flight at once, it takes the latency of one, t0. Beyond the knee N* each further line costs c
more cycles, and by Little's law N* = t0 / c: each of N* slots is busy for one latency, so a line is served every c cycles.
Rounds of few lines may take less than t0 if lines are at different distances from the compute unit, since a round ends with its
farthest line."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate

BENCHMARK = "mlp"
MAX_FLAT_RATIO = 1.05  # longest over shortest time of rounds on the plateau, on which lines do not wait for each other
MAX_LOOKUP_CYCLES = 1.1  # cycles per line beyond the knee: at one line per cycle, lookups in the first cache are the limit
MIN_POINTS = 3  # on the plateau, and beyond the knee
MIN_RISE = 1.5  # time of the largest round over the plateau: below it there is no knee
MIN_SPAN = 1.5  # ratio of the lines of two rounds that define a slope
MAX_BYTE_RATE_RATIO = (
    1.15  # bytes per time with 4 sectors per line over 1: if they are equal, the limit is a bandwidth, not a number of lines
)
SECTORS = (1, 4)


@dataclass(frozen=True, slots=True)
class Knee:
    """Lines in flight at the knee with interval. `bound` is "lower" if the device was never observed to wait for a free slot:
    the true number may be larger. `reason` says why, or why the knee is undetermined (`lines` is then None)."""

    lines: Estimate | None
    bound: str
    reason: str
    evidence: tuple[str, ...] = ()


def knee(values: Sequence[Derived]) -> Knee:
    """The knee of all `mlp` rounds of a run that are ok; time in cycles if all have them, else in ns."""
    curves = {sectors: _curve(values, sectors) for sectors in SECTORS}
    lines, limit = _fit(curves[1])
    evidence = tuple(name for n in SECTORS for v in curves[n] for name in v.evidence[:1])
    if lines is None:
        return Knee(None, "", limit, evidence)
    if limit:
        return Knee(lines, "lower", limit, evidence)
    if all(value.cycles for value in curves[1]) and _cycles_a_line(curves[1]) <= MAX_LOOKUP_CYCLES:
        return Knee(
            lines,
            "lower",
            "a line arrives in every cycle: lookups in the first cache are the limit before misses in flight are",
            evidence,
        )
    whole, reason = _fit(curves[4])
    if whole is None or reason:
        return Knee(
            lines,
            "lower",
            f"rounds of 4 sectors a line do not distinguish a bandwidth from a number of lines: {reason}",
            evidence,
        )
    rates = [_saturated_rate(curves[n]) * n for n in SECTORS]
    if rates[1] <= MAX_BYTE_RATE_RATIO * rates[0]:
        why = "4 sectors per line arrive at the same bytes per cycle as 1: a bandwidth is the limit, so more misses may fit"
        return Knee(lines, "lower", why, evidence)
    return Knee(lines, "", "", evidence)


def _curve(values: Sequence[Derived], sectors: int) -> list[Derived]:
    good = [
        v
        for v in values
        if v.benchmark == BENCHMARK and v.metric == "round" and v.status == "ok" and v.median and v.place.compute_units is None
    ]
    mine = [v for v in good if v.params.get("sectors") == sectors and isinstance(v.params.get("lines"), int)]
    return sorted(mine, key=_lines)


def _lines(value: Derived) -> int:
    lines = value.params["lines"]
    assert isinstance(lines, int)
    return lines


def _time(value: Derived) -> Estimate:
    """Cycles of a round, ns where they are unknown."""
    ends = (value.cycles, value.cycles_low, value.cycles_high) if value.cycles else (value.median, value.ci_low, value.ci_high)
    middle = ends[0]
    assert middle is not None
    low, high = (middle if end is None else end for end in ends[1:])
    return Estimate(middle, min(max(low, 1e-9), middle), max(high, middle))


def _fit(curve: Sequence[Derived]) -> tuple[Estimate | None, str]:
    """The knee of one curve, and why it is only a lower bound or undetermined."""
    if len(curve) < 2 * MIN_POINTS:
        return None, f"only {len(curve)} rounds were measured: fewer than {2 * MIN_POINTS}"
    times = [_time(value) for value in curve]
    flat = _plateau(curve, times)
    if len(flat) < MIN_POINTS:
        return None, "the time of a round grows from the first lines on: it has no plateau"
    plateau = _middle([one for _, one in flat])
    if times[-1].value < MIN_RISE * plateau.value:
        most = float(_lines(curve[-1]))
        return Estimate(most, most, most), f"all of {most:g} lines were in flight at once: larger rounds were not tried"
    beyond = [(_lines(v), one.value) for v, one in zip(curve, times, strict=True) if one.value > MIN_RISE * plateau.value]
    found = sorted(plateau.value / cost for cost in _line_costs(beyond))
    if len(found) < MIN_POINTS:
        return None, f"only {len(beyond)} rounds lie beyond the knee, or too close to each other"
    last = float(flat[-1][0])  # still on the plateau
    spread = (plateau.high - plateau.low) / plateau.value
    middle = max(float(statistics.median(found)), last)
    low, high = found[len(found) // 10] * (1 - spread), found[-1 - len(found) // 10] * (1 + spread)
    return Estimate(middle, min(max(low, last), middle), max(high, middle)), ""


def _plateau(curve: Sequence[Derived], times: Sequence[Estimate]) -> list[tuple[int, Estimate]]:
    """First and last round of the longest plateau, measured by the ratio of their lines."""
    best: list[tuple[int, Estimate]] = []
    for start in range(len(curve)):
        stop = start + 1
        while stop < len(curve) and _is_flat(times[start : stop + 1]):
            stop += 1
        points = [(_lines(v), one) for v, one in zip(curve[start:stop], times[start:stop], strict=True)]
        if len(points) >= MIN_POINTS and (not best or points[-1][0] / points[0][0] > best[-1][0] / best[0][0]):
            best = points
    return best


def _is_flat(times: Sequence[Estimate]) -> bool:
    return max(one.value for one in times) <= MAX_FLAT_RATIO * min(one.value for one in times)


def _cycles_a_line(curve: Sequence[Derived]) -> float:
    """Cycles of each further line beyond the knee."""
    plateau = _middle([one for _, one in _plateau(curve, [_time(value) for value in curve])])
    beyond = [(_lines(v), _time(v).value) for v in curve if _time(v).value > MIN_RISE * plateau.value]
    return float(statistics.median(_line_costs(beyond)))


def _line_costs(beyond: Sequence[tuple[int, float]]) -> list[float]:
    """The time of one more line, from each two rounds beyond the knee that are far enough apart."""
    return [
        (later - time) / (m - n)
        for k, (n, time) in enumerate(beyond)
        for m, later in beyond[k + 1 :]
        if m >= MIN_SPAN * n and later > time
    ]


def _saturated_rate(curve: Sequence[Derived]) -> float:
    """Lines a cycle over the last octave."""
    most = _lines(curve[-1])
    return float(statistics.median(_lines(v) / _time(v).value for v in curve if 2 * _lines(v) >= most))


def _middle(found: Sequence[Estimate]) -> Estimate:
    """The median of several values, with the range of their own intervals and of the values themselves."""
    value = statistics.median(one.value for one in found)
    return Estimate(value, min(one.low for one in found), max(one.high for one in found))
