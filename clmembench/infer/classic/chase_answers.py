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
    """The least array that is slower than a hit, as all larger ones are, of which there must be one; else 0. Slower is what is
    so at two strides, where there are several: one may have been disturbed."""
    hit = hit_latency(answers)
    if hit is None:
        return 0
    by_size: dict[int, list[float]] = {}
    for a in answers:
        if a.value is not None:
            by_size.setdefault(array_bytes(a), []).append(a.value)
    knee, slow = 0, 0
    for size, values in sorted(by_size.items(), reverse=True):
        if sorted(values)[-2:][0] <= hit * (1 + MAX_HIT_RELATIVE_EXCESS):
            break
        knee, slow = size, slow + 1
    return knee if slow > 1 else 0


def hit_latency(answers: Sequence[Answer]) -> float | None:
    """Latency of a hit: of the smallest array."""
    smallest = min((array_bytes(a) for a in answers if a.value is not None), default=0)
    values = [a.value for a in answers if array_bytes(a) == smallest and a.value is not None]
    return float(np.median(values)) if values else None


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
    evidence = tuple(dict.fromkeys(e for a in answers for e in a.evidence))
    if value is None:
        reasons = [a.reason for a in answers if a.reason]
        said = why if len(reasons) < len(answers) or not reasons else reasons[0]
        return Finding(name, None, low, high, CLASSIC_UNITS.get(name, ""), "undetermined", method, evidence, said)
    ends = (value if low is None else low, value if high is None else high)
    return Finding(name, value, *ends, CLASSIC_UNITS.get(name, ""), "ok", method, evidence, CLASSIC_ASSUMPTIONS)
