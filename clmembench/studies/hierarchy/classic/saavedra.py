"""Saavedra 1992: a pointer chase over strides, one curve per array size, and the method's conclusions. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmembench.model import Answer, Experiment, Finding, Pattern, Probe, Space
from clmembench.studies.hierarchy.classic.chase_answers import (
    MAX_HIT_RELATIVE_EXCESS,
    MAX_ZERO_MISS_RATE,
    MIN_FULL_MISS_RATE,
    MIN_STRIDE_BYTES,
    array_bytes,
    conclusion,
    fitting_bytes,
    hit_latency,
    knee_bytes,
    no_conclusions,
    why_no_knee,
)

SAAVEDRA = "Saavedra 1992"
# times the capacity: sizes at which Saavedra's figure is read, the first as in Mei & Chu, the other as a check
READ_AT_CAPACITIES = (4, 8)


def saavedra_chases(
    space: Space = "global", first_bytes: int = 1024, most_bytes: int = 1 << 21
) -> Experiment[tuple[Answer, ...]]:
    """Requests the latency of arrays of 2^k and 3 * 2^k bytes over strides, powers of two from 8 B to half the array.

    Sizes grow to eight times the first one that misses, or `most_bytes`. Returns every answer. Saavedra 1992, as in Mei & Chu
    2015, section 4.1.
    """
    answers: list[Answer] = []
    size = first_bytes
    while size <= (8 * knee_bytes(answers) or most_bytes):
        answers += yield [Probe(Pattern("sequential", size // stride, stride), space) for stride in _strides(size)]
        size = size * 3 // 2 if size & (size - 1) == 0 else size // 3 * 4
    return tuple(answers)


def read_saavedra(answers: Sequence[Answer], at_bytes: int | None = None) -> Mapping[str, Finding]:
    """Conclusions of Saavedra's method about size_bytes, line_bytes, sets and ways, by equation (1) of Mei & Chu 2015.

    The capacity C is the largest array that never misses. On the figure's curve of an array of N > C bytes the miss rate at
    stride s is s / b up to the line size b, then 1 up to the stride N / ways, then 0. It is read at `at_bytes`; without it at 4
    C and at 8 C, and two curves with different results are `inconsistent`."""
    size = _capacity_finding(answers)
    if size.value is None or isinstance(size.value, str):
        return {"size_bytes": size, **no_conclusions(SAAVEDRA, "the capacity is unknown", answers)}
    wanted = (at_bytes,) if at_bytes else tuple(times * int(size.value) for times in READ_AT_CAPACITIES)
    known = [n for n in wanted if any(array_bytes(a) == n for a in answers)]
    lines = {n: _properties_of_line(answers, n, int(size.value), int(size.high or size.value)) for n in known}
    if not lines:
        return {"size_bytes": size, **no_conclusions(SAAVEDRA, f"no array of {wanted[0]} B was measured", answers)}
    first = next(iter(lines.values()))
    return {"size_bytes": size, **{name: _property_over_lines(name, lines) for name in first}}


def _strides(size: int) -> list[int]:
    """The strides of the figure's curve of an array: powers of two up to half of it."""
    return [MIN_STRIDE_BYTES << k for k in range(64) if MIN_STRIDE_BYTES << k <= size // 2]


def _properties_of_line(answers: Sequence[Answer], size: int, capacity: int, beyond: int) -> dict[str, Finding]:
    """Line, sets and ways from one curve of Saavedra's figure.

    The capacity is at least `capacity` and below `beyond`. Strides are powers of two, so ways are known to within a factor of
    two, and sets with them.
    """
    hit = hit_latency(answers) or math.nan
    curve = {a.probe.pattern.stride_bytes: a.value for a in answers if array_bytes(a) == size and a.value is not None}
    gone = [stride for stride in _strides(size) if stride not in curve]
    if gone:
        return no_conclusions(SAAVEDRA, f"an array of {size} B has no answer at a stride of {gone[0]} B", answers)
    top = max(curve.values(), default=hit)
    if not top > hit * (1 + MAX_HIT_RELATIVE_EXCESS):
        return no_conclusions(SAAVEDRA, f"an array of {size} B does not miss", answers)
    rate = {s: (t - hit) / (top - hit) for s, t in sorted(curve.items())}
    line = next(s for s, r in rate.items() if r >= MIN_FULL_MISS_RATE)
    fits = next((s for s in rate if s > line and all(r <= MAX_ZERO_MISS_RATE for t, r in rate.items() if t >= s)), size)
    expected = {s: min(1.0, s / line) if s < fits else 0.0 for s in rate}
    odd = [s for s in rate if abs(rate[s] - expected[s]) > MAX_ZERO_MISS_RATE]
    if odd:
        why = f"at {size} B the miss rate at a stride of {odd[0]} B is {rate[odd[0]]:.2f}, which contradicts equation (1)"
        return no_conclusions(SAAVEDRA, why, answers)
    if line == min(rate):
        return no_conclusions(
            SAAVEDRA, f"every access misses from the smallest stride on: the line has at most {line} B", answers
        )
    ways = size // fits  # lines that fit; twice as many do not
    fewest, most = -(-capacity // ((2 * ways - 1) * line)), max(1, (beyond - 1) // (ways * line))
    sets = capacity // (ways * line)
    why = f"{ways} ways of {line} B are more than {capacity} B"
    return {
        "line_bytes": conclusion("line_bytes", line, SAAVEDRA, "", answers),
        "sets": conclusion("sets", sets or None, SAAVEDRA, why, answers, fewest, max(most, sets)),
        "ways": conclusion("ways", ways, SAAVEDRA, "", answers, ways, 2 * ways - 1),
    }


def _property_over_lines(name: str, lines: Mapping[int, Mapping[str, Finding]]) -> Finding:
    """One property from all curves of the figure: the values that all of them allow, or `inconsistent` if there are none."""
    by_size = {size: found[name] for size, found in lines.items()}
    first = next(iter(by_size.values()))
    if any(f.value is None for f in by_size.values()):
        return next(f for f in by_size.values() if f.value is None)
    low, high = max(f.low or 0 for f in by_size.values()), min(f.high or 0 for f in by_size.values())
    if low <= high:
        return replace(first, value=min(max(float(first.value or 0), low), high), low=low, high=high)
    values_text = " but ".join(f"{f.value} at {size} B" for size, f in by_size.items())
    ends = min(f.low or 0 for f in by_size.values()), max(f.high or 0 for f in by_size.values())
    return replace(
        first, value=None, low=ends[0], high=ends[1], status="inconsistent", reason=f"its figure gives {values_text}"
    )


def _capacity_finding(answers: Sequence[Answer]) -> Finding:
    """The largest array of the sweep that is smaller than all that miss."""
    fits, slow_from = fitting_bytes(answers), knee_bytes(answers)
    if fits is not None and fits < slow_from:
        return conclusion("size_bytes", fits, SAAVEDRA, "", answers, fits, slow_from)
    return conclusion("size_bytes", None, SAAVEDRA, why_no_knee(answers), answers, fits)
