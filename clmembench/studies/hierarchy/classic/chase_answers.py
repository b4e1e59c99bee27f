"""Quantities that both classic methods read from their chases: hit latency, knee, curve over sizes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Answer, Finding

PROPERTY_NAMES = ("size_bytes", "line_bytes", "sets", "ways")
CLASSIC_UNITS = {"size_bytes": "B", "line_bytes": "B"}
CLASSIC_ASSUMPTIONS = "assuming equal sets, chosen by the address bits next to the line's, with LRU"
# Thresholds and limits, each with its reason
MIN_STRIDE_BYTES = 8  # a node's own size
MAX_HIT_RELATIVE_EXCESS = 0.10  # of a hit's latency: a mean slower by more contains misses
MAX_ZERO_MISS_RATE, MIN_FULL_MISS_RATE = 0.10, 0.90  # miss rates that count as 0 and as 1


def knee_bytes(answers: Sequence[Answer]) -> int:
    """The smallest array that is slower than a hit, like all larger ones, of which there must be one; else 0."""
    knee, slow = 0, 0
    for size, is_slow in reversed(_slow_by_size(answers)):
        if not is_slow:
            break
        knee, slow = size, slow + 1
    return knee if slow > 1 else 0


def fitting_bytes(answers: Sequence[Answer]) -> int | None:
    """The largest array that is as fast as a hit, like all smaller ones; None if there is none."""
    sizes = _slow_by_size(answers)
    first_slow = next((n for n, (_, is_slow) in enumerate(sizes) if is_slow), len(sizes))
    return sizes[first_slow - 1][0] if first_slow else None


def _slow_by_size(answers: Sequence[Answer]) -> list[tuple[int, bool]]:
    """Whether each array is slower than a hit, in order of size. If there are several strides, it must be slower at two: one
    may have been disturbed. An array without an answer at more than one stride is left out."""
    hit = hit_latency(answers)
    by_size: dict[int, list[float | None]] = {}
    for a in answers:
        by_size.setdefault(array_bytes(a), []).append(a.value)
    slow = []
    for size, values in sorted(by_size.items()):
        latencies = sorted(v for v in values if v is not None)
        if hit is not None and latencies and len(values) - len(latencies) <= 1:
            slow.append((size, latencies[-2:][0] > hit * (1 + MAX_HIT_RELATIVE_EXCESS)))
    return slow


def hit_latency(answers: Sequence[Answer]) -> float | None:
    """Latency of a hit: that of the smallest array. None if this has no answer, since a larger one may already miss."""
    smallest = min((array_bytes(a) for a in answers), default=0)
    values = [a.value for a in answers if array_bytes(a) == smallest and a.value is not None]
    return float(np.median(values)) if values else None


def unanswered_sizes(answers: Sequence[Answer]) -> list[int]:
    """Sizes of arrays without an answer, in order."""
    return sorted({array_bytes(a) for a in answers if a.value is None})


def latency_by_size(answers: Sequence[Answer]) -> dict[int, tuple[float, float]]:
    """Latency and its standard error by array size, in order of size."""
    curve = {}
    for a in sorted(answers, key=array_bytes):
        if a.value is not None:
            wide = a.high - a.low if a.high is not None and a.low is not None else 0.0
            curve[array_bytes(a)] = (a.value, wide / 2 / 1.96)
    return curve


def array_bytes(answer: Answer) -> int:
    """The size of the array of an answer."""
    return answer.probe.pattern.count * answer.probe.pattern.stride_bytes


def why_no_knee(answers: Sequence[Answer]) -> str:
    """Why these answers give no capacity."""
    slow_by_size, fits = sorted(_slow_by_size(answers)), fitting_bytes(answers)
    if not slow_by_size:
        return "no array was measured" if not any(a.value for a in answers) else "the smallest array has no answer"
    if fits is None:
        return "even the smallest array misses"
    if fits == slow_by_size[-1][0]:
        return f"no array up to {fits} B was slower than the smallest"
    return f"too few arrays larger than {fits} B were slower than the smallest one"


def no_conclusions(method: str, why: str, answers: Sequence[Answer]) -> dict[str, Finding]:
    """Undetermined line, sets and ways by a method, for one reason."""
    return {name: conclusion(name, None, method, why, answers) for name in PROPERTY_NAMES[1:]}


def conclusion(
    name: str,
    value: int | None,
    method: str,
    why: str,
    answers: Sequence[Answer],
    low: int | None = None,
    high: int | None = None,
) -> Finding:
    """A conclusion under the method's assumptions, which its reason names; undetermined with reason `why` without a value."""
    evidence = tuple(dict.fromkeys(e for a in answers if a.value is not None for e in a.evidence))
    if value is None:
        reasons = [a.reason for a in answers if a.reason]
        reason = why if len(reasons) < len(answers) or not reasons else reasons[0]
        return Finding(name, None, low, high, CLASSIC_UNITS.get(name, ""), "undetermined", method, evidence, reason)
    ends = (value if low is None else low, value if high is None else high)
    return Finding(name, value, *ends, CLASSIC_UNITS.get(name, ""), "ok", method, evidence, CLASSIC_ASSUMPTIONS)
