"""Quantities that both classic methods read from their chases: hits, the knee, the curve over sizes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Answer, Finding

PROPERTY_NAMES = ("size_bytes", "line_bytes", "sets", "ways")
CLASSIC_UNITS = {"size_bytes": "B", "line_bytes": "B"}
CLASSIC_ASSUMPTIONS = "if sets are equal, chosen by the address bits next to the line's, and replaced by LRU"
# Thresholds and limits, each with its reason
MIN_STRIDE_BYTES = 8  # a node's own size
MAX_HIT_RELATIVE_EXCESS = 0.10  # of a hit: a mean slower by more contains misses
MAX_ZERO_MISS_RATE, MIN_FULL_MISS_RATE = 0.10, 0.90  # miss rates that count as 0 and as 1


def knee_bytes(answers: Sequence[Answer]) -> int:
    """The least array that is slower than a hit, as all larger ones are, of which there must be one; else 0."""
    knee, slow = 0, 0
    for size, is_slow in reversed(_slow_by_size(answers)):
        if not is_slow:
            break
        knee, slow = size, slow + 1
    return knee if slow > 1 else 0


def fitting_bytes(answers: Sequence[Answer]) -> int | None:
    """The largest array that is as fast as a hit, as all smaller ones are; None where there is none."""
    sizes = _slow_by_size(answers)
    first_slow = next((n for n, (_, is_slow) in enumerate(sizes) if is_slow), len(sizes))
    return sizes[first_slow - 1][0] if first_slow else None


def _slow_by_size(answers: Sequence[Answer]) -> list[tuple[int, bool]]:
    """Whether each array is slower than a hit, in order of size. Slower is what is so at two strides, where there are several:
    one may have been disturbed. An array of which more than one stride has no answer is left out."""
    hit = hit_latency(answers)
    asked: dict[int, list[float | None]] = {}
    for a in answers:
        asked.setdefault(array_bytes(a), []).append(a.value)
    found = []
    for size, values in sorted(asked.items()):
        told = sorted(v for v in values if v is not None)
        if hit is not None and told and len(values) - len(told) <= 1:
            found.append((size, told[-2:][0] > hit * (1 + MAX_HIT_RELATIVE_EXCESS)))
    return found


def hit_latency(answers: Sequence[Answer]) -> float | None:
    """Latency of a hit: of the smallest array. None where that has no answer, since a larger one may miss already."""
    smallest = min((array_bytes(a) for a in answers), default=0)
    values = [a.value for a in answers if array_bytes(a) == smallest and a.value is not None]
    return float(np.median(values)) if values else None


def unanswered_sizes(answers: Sequence[Answer]) -> list[int]:
    """Sizes of arrays that were asked for without an answer, in order."""
    return sorted({array_bytes(a) for a in answers if a.value is None})


def latency_by_size(answers: Sequence[Answer]) -> dict[int, tuple[float, float]]:
    """Latency and its standard error by array size, in order of size."""
    found = {}
    for a in sorted(answers, key=array_bytes):
        if a.value is not None:
            wide = a.high - a.low if a.high is not None and a.low is not None else 0.0
            found[array_bytes(a)] = (a.value, wide / 2 / 1.96)
    return found


def array_bytes(answer: Answer) -> int:
    """The size of the array that an answer is about."""
    return answer.probe.pattern.count * answer.probe.pattern.stride_bytes


def why_no_knee(answers: Sequence[Answer]) -> str:
    """Why no capacity is read from these answers."""
    told, fits = sorted(_slow_by_size(answers)), fitting_bytes(answers)
    if not told:
        return "no array was measured" if not any(a.value for a in answers) else "the smallest array has no answer"
    if fits is None:
        return "the smallest array misses already"
    if fits == told[-1][0]:
        return f"no array up to {fits} B was slower than the smallest"
    return f"too few arrays of more than {fits} B were slower than the smallest one and all that are larger"


def no_conclusions(method: str, why: str, answers: Sequence[Answer]) -> dict[str, Finding]:
    """No line, sets or ways by a method, for one reason."""
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
    """A conclusion under the method's assumptions, which its reason names; `why` where there is none."""
    evidence = tuple(dict.fromkeys(e for a in answers if a.value is not None for e in a.evidence))
    if value is None:
        reasons = [a.reason for a in answers if a.reason]
        said = why if len(reasons) < len(answers) or not reasons else reasons[0]
        return Finding(name, None, low, high, CLASSIC_UNITS.get(name, ""), "undetermined", method, evidence, said)
    ends = (value if low is None else low, value if high is None else high)
    return Finding(name, value, *ends, CLASSIC_UNITS.get(name, ""), "ok", method, evidence, CLASSIC_ASSUMPTIONS)
