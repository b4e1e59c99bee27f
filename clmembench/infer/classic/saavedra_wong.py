"""The two classic methods of reading a pointer chase, by name: Saavedra 1992 (over strides) and Wong 2010 (over sizes)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from clmembench.model import Answer, Array, Finding, Inquiry, Pattern, Probe, Space

SAAVEDRA, WONG = "Saavedra 1992", "Wong 2010"
PROPERTIES = ("size_bytes", "line_bytes", "sets", "ways")
UNITS = {"size_bytes": "B", "line_bytes": "B"}
ASSUMED = "if sets are equal, chosen by the address bits next to the line's, and replaced by LRU"
LEAST_STRIDE = 8  # a node's own size
SLOWER = 0.10  # of a hit: what is slower by more has misses
NEVER, ALWAYS = 0.10, 0.90  # miss rates that count as 0 and as 1
READ_AT = (4, 8)  # the sizes, in capacities, at which Saavedra's figure is read: the first as Mei & Chu did, the other to check
SMOOTH = 5  # sizes of which the median is looked at: misses only grow with size, so that nothing but disturbances are lost
SIGMAS = 6.0  # of the measurement's noise that a step must stand out by
WAYS_APART = 0.25  # how far from a whole number a step may tell the ways


def saavedra(space: Space = "global", first_bytes: int = 1024, most_bytes: int = 1 << 21) -> Inquiry[tuple[Answer, ...]]:
    """Asks for the latency over strides, powers of two from 8 B to half the array, of arrays of 2^k and 3 * 2^k bytes.

    Sizes grow to eight times the first one that misses, or `most_bytes`. Returns every answer. Saavedra 1992, as in Mei & Chu
    2015, section 4.1.
    """
    answers: list[Answer] = []
    size = first_bytes
    while size <= (8 * _knee(answers) or most_bytes):
        strides = [LEAST_STRIDE << k for k in range(64) if LEAST_STRIDE << k <= size // 2]
        answers += yield [Probe(Pattern("sequential", size // stride, stride), space) for stride in strides]
        size = size * 3 // 2 if size & (size - 1) == 0 else size // 3 * 4
    return tuple(answers)


def wong(
    stride_bytes: int = 32,
    space: Space = "global",
    first_bytes: int = 1024,
    most_bytes: int = 1 << 21,
    most_sizes: int = 1024,
) -> Inquiry[tuple[Answer, ...]]:
    """Asks for the latency over array sizes at one stride: octaves up to four times the first that misses, then every
    `stride_bytes` (or as many of them as `most_sizes` allows) from the last that fits to where all accesses miss.

    Returns every answer. Wong et al. 2010, as in Mei & Chu 2015, section 4.1.
    """

    def probes(sizes: Sequence[int]) -> list[Probe]:
        return [Probe(Pattern("sequential", size // stride_bytes, stride_bytes), space) for size in sizes]

    answers: list[Answer] = []
    size = first_bytes
    while size <= (4 * _knee(answers) or most_bytes):
        answers += yield probes([size, size * 3 // 2])
        size *= 2
    curve, slow_from = _curve(answers), _knee(answers)
    fits = [n for n in curve if n < slow_from]
    if slow_from and fits:
        full = [n for n in curve if n >= slow_from and curve[n][0] >= ALWAYS * max(t for t, _ in curve.values())]
        last = min(full, default=2 * slow_from)
        step = stride_bytes * max(1, -(-(last - fits[-1]) // (stride_bytes * most_sizes)))
        answers += yield probes(range(fits[-1] + step, last + step, step))
    return tuple(answers)


def read_saavedra(answers: Sequence[Answer], at_bytes: int | None = None) -> Mapping[str, Finding]:
    """What Saavedra's method concludes of size_bytes, line_bytes, sets and ways, by equation (1) of Mei & Chu 2015.

    The capacity C is the largest array that never misses. In the figure's line of an array of N > C bytes the miss rate is
    s / b up to the line's size b, then 1 up to the stride N / ways, then 0. It is read at `at_bytes`; without it at 4 C and
    at 8 C, and two lines that tell different numbers are `inconsistent`.
    """
    size = _capacity(answers)
    if size.value is None or isinstance(size.value, str):
        return {"size_bytes": size, **_none(SAAVEDRA, "the capacity is not known", answers)}
    wanted = (at_bytes,) if at_bytes else tuple(times * int(size.value) for times in READ_AT)
    known = [n for n in wanted if any(_bytes(a) == n for a in answers)]
    lines = {n: _line_of(answers, n, int(size.value), int(size.high or size.value)) for n in known}
    if not lines:
        return {"size_bytes": size, **_none(SAAVEDRA, f"no array of {wanted[0]} B was measured", answers)}
    first = next(iter(lines.values()))
    return {"size_bytes": size, **{name: _agreed(name, lines) for name in first}}


def read_wong(answers: Sequence[Answer]) -> Mapping[str, Finding]:
    """What Wong's method concludes of size_bytes, line_bytes, sets and ways, by equation (2) of Mei & Chu 2015.

    From C on each further line overflows one set more, so that latency rises in steps: as wide as a line, as many as there are
    sets, until every access misses. Ways are what is left of the capacity; where a step is no wider than the stride the line
    cannot be seen, and ways are the accesses that start to miss in a step, less 1.
    """
    curve = _curve(answers)
    stride = answers[0].probe.pattern.stride_bytes if answers else 0
    hit = _hit(answers)
    slow = [n for n in curve if n >= _knee(answers) > 0]
    if hit is None or not slow or len(curve) < 8:
        largest = max(curve, default=0)
        return {p: _finding(p, None, WONG, f"no array up to {largest} B was slower than the smallest", answers, largest)
                for p in PROPERTIES}  # fmt: skip
    top = curve[max(curve)][0]
    sizes = np.array(sorted(curve))
    step = int(np.diff(sizes).min())
    near = np.diff(sizes) == step
    dense = sizes[np.r_[near, False] | np.r_[False, near]]
    times, noise = (np.array([curve[int(n)][k] for n in dense]) for k in (0, 1))
    scale = dense / stride / (top - hit)
    missing, sigma = _smooth((times - hit) * scale), float(np.median(noise * scale)) * math.sqrt(2)
    rises = np.diff(missing)
    jumps = np.flatnonzero(rises > max(rises.max() / 2, SIGMAS * sigma))
    if jumps.size == 0 or step > stride:
        why = "steps of latency do not stand out of the noise" if step == stride else "the sweep was too coarse for steps"
    elif rises.min() < -max(rises.max() / 2, SIGMAS * sigma):
        why = "latency falls again as arrays grow: the sweep was disturbed"
    elif np.unique(np.diff(jumps)).size > 1:
        widths = stride * np.diff(jumps)
        why = f"the steps are {widths.min()} to {widths.max()} B wide, not of one width"
    else:
        return _stepped(answers, int(dense[jumps[0]]), jumps, rises, stride)
    size = _finding("size_bytes", None, WONG, why, answers, int(dense[0]), min(slow))
    return {"size_bytes": size, **_none(WONG, why, answers)}


def _stepped(answers: Sequence[Answer], capacity: int, jumps: Array, rises: Array, stride: int) -> Mapping[str, Finding]:
    """Findings from where the steps begin (in strides) and how high they are (in accesses that start to miss)."""
    size = _finding("size_bytes", capacity, WONG, "", answers)
    sets = int(jumps.size)
    width = int(jumps[1] - jumps[0]) if sets > 1 else 0
    line = stride * width if width > 1 else None
    ways = capacity / (sets * line) if line else float(np.median(rises[jumps])) - 1
    if abs(ways - round(ways)) > WAYS_APART or ways < WAYS_APART:
        why = f"{sets} steps would mean {ways:.2f} ways"
        return {"size_bytes": size, **_none(WONG, why, answers)}
    if line is None:  # no wider than the stride, or the only step
        line = capacity // (sets * round(ways)) if capacity % (sets * round(ways)) == 0 else None
        line = line if line is not None and line <= stride and line & (line - 1) == 0 else None
    unseen = "steps are no wider than the stride"
    return {
        "size_bytes": size,
        "line_bytes": _finding("line_bytes", line, WONG, unseen, answers, None, None if line else stride),
        "sets": _finding("sets", sets, WONG, "", answers),
        "ways": _finding("ways", round(ways), WONG, "", answers),
    }


def _line_of(answers: Sequence[Answer], size: int, capacity: int, beyond: int) -> dict[str, Finding]:
    """Line, sets and ways from one line of Saavedra's figure.

    The capacity is at least `capacity` and below `beyond`. Strides are powers of two, so ways are known to within a factor of
    two, and sets with them.
    """
    hit = _hit(answers) or math.nan
    curve = {a.probe.pattern.stride_bytes: a.value for a in answers if _bytes(a) == size and a.value is not None}
    top = max(curve.values(), default=hit)
    if not top > hit * (1 + SLOWER):
        return _none(SAAVEDRA, f"an array of {size} B does not miss", answers)
    rate = {s: (t - hit) / (top - hit) for s, t in sorted(curve.items())}
    line = next(s for s, r in rate.items() if r >= ALWAYS)
    fits = next((s for s in rate if s > line and all(r <= NEVER for t, r in rate.items() if t >= s)), size)
    expected = {s: min(1.0, s / line) if s < fits else 0.0 for s in rate}
    odd = [s for s in rate if abs(rate[s] - expected[s]) > NEVER]
    if odd:
        why = f"at {size} B the miss rate at a stride of {odd[0]} B is {rate[odd[0]]:.2f}, which equation (1) does not have"
        return _none(SAAVEDRA, why, answers)
    if line == min(rate):
        return _none(SAAVEDRA, f"every access misses from the least stride on: the line is at most {line} B", answers)
    ways = size // fits  # lines that fit; twice as many do not
    fewest, most = -(-capacity // ((2 * ways - 1) * line)), max(1, (beyond - 1) // (ways * line))
    sets = capacity // (ways * line)
    why = f"{ways} ways of {line} B are more than {capacity} B"
    return {
        "line_bytes": _finding("line_bytes", line, SAAVEDRA, "", answers),
        "sets": _finding("sets", sets or None, SAAVEDRA, why, answers, fewest, max(most, sets)),
        "ways": _finding("ways", ways, SAAVEDRA, "", answers, ways, 2 * ways - 1),
    }


def _agreed(name: str, lines: Mapping[int, Mapping[str, Finding]]) -> Finding:
    """One property over the figure's lines: what all of them allow, or `inconsistent` where that is nothing."""
    said = {size: found[name] for size, found in lines.items()}
    first = next(iter(said.values()))
    if any(f.value is None for f in said.values()):
        return next(f for f in said.values() if f.value is None)
    low, high = max(f.low or 0 for f in said.values()), min(f.high or 0 for f in said.values())
    if low <= high:
        return replace(first, value=min(max(float(first.value or 0), low), high), low=low, high=high)
    told = " but ".join(f"{f.value} at {size} B" for size, f in said.items())
    ends = min(f.low or 0 for f in said.values()), max(f.high or 0 for f in said.values())
    return replace(first, value=None, low=ends[0], high=ends[1], status="inconsistent", reason=f"its figure tells {told}")


def _capacity(answers: Sequence[Answer]) -> Finding:
    """The largest array of the sweep before those that all miss."""
    sizes, knee = sorted({_bytes(a) for a in answers}), _knee(answers)
    fits = [n for n in sizes if n < knee]
    if not fits:
        why = f"no array up to {sizes[-1]} B was slower" if sizes and not knee else "the smallest array misses already"
        return _finding("size_bytes", None, SAAVEDRA, why, answers, sizes[-1] if sizes and not knee else None)
    return _finding("size_bytes", fits[-1], SAAVEDRA, "", answers, fits[-1], knee)


def _knee(answers: Sequence[Answer]) -> int:
    """The least array that is slower than a hit, as all larger ones are, of which there must be one; else 0. Slower is what is
    so at two strides, where there are several: one may have been disturbed."""
    hit = _hit(answers)
    if hit is None:
        return 0
    by_size: dict[int, list[float]] = {}
    for a in answers:
        if a.value is not None:
            by_size.setdefault(_bytes(a), []).append(a.value)
    knee, slow = 0, 0
    for size, values in sorted(by_size.items(), reverse=True):
        if sorted(values)[-2:][0] <= hit * (1 + SLOWER):
            break
        knee, slow = size, slow + 1
    return knee if slow > 1 else 0


def _hit(answers: Sequence[Answer]) -> float | None:
    """Latency of a hit: of the smallest array."""
    smallest = min((_bytes(a) for a in answers if a.value is not None), default=0)
    values = [a.value for a in answers if _bytes(a) == smallest and a.value is not None]
    return float(np.median(values)) if values else None


def _curve(answers: Sequence[Answer]) -> dict[int, tuple[float, float]]:
    """Latency and its standard error by array size, in order of size."""
    found = {}
    for a in sorted(answers, key=_bytes):
        if a.value is not None:
            wide = a.high - a.low if a.high is not None and a.low is not None else 0.0
            found[_bytes(a)] = (a.value, wide / 2 / 1.96)
    return found


def _smooth(values: Array) -> Array:
    """Running median of SMOOTH values, of fewer near the ends. Shape of `values`."""
    reach = SMOOTH // 2
    ends = [(max(0, n - reach), min(len(values), n + reach + 1)) for n in range(len(values))]
    return np.array(
        [np.median(values[n - min(n - a, b - n - 1) : n + min(n - a, b - n - 1) + 1]) for n, (a, b) in enumerate(ends)]
    )


def _bytes(answer: Answer) -> int:
    return answer.probe.pattern.count * answer.probe.pattern.stride_bytes


def _none(method: str, why: str, answers: Sequence[Answer]) -> dict[str, Finding]:
    return {name: _finding(name, None, method, why, answers) for name in PROPERTIES[1:]}


def _finding(
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
        return Finding(name, None, low, high, UNITS.get(name, ""), "undetermined", method, evidence, said)
    ends = (value if low is None else low, value if high is None else high)
    return Finding(name, value, *ends, UNITS.get(name, ""), "ok", method, evidence, ASSUMED)
