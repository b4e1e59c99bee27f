"""The latency curve of one path to memory: laps over growing working sets until the latency stays flat. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clmembench.infer.curve_noise import undisturbed_values
from clmembench.infer.hierarchy.curve_steps import (
    MAX_PLATEAU_RELATIVE_DRIFT,
    MIN_RELATIVE_STEP,
    SHORT_PLATEAU_POINTS,
    CurveStep,
    find_steps,
    pooled_rising,
    relative_noise,
    same_latency,
)
from clmembench.infer.hierarchy.page_frames import averaged_over_frames
from clmembench.infer.hierarchy.probing import ChaseLayout, ProbeCache
from clmembench.infer.plateaus import MIN_SETTLED_OCTAVES
from clmembench.model import Answer, Inquiry

# Thresholds of the measurement
LARGE_SET_BYTES = 24 << 20  # laps from there on are slow: half as many points an octave, and one more measurement at most
REMEASURE_RELATIVE_EXCESS = 0.02  # a point this much slower than a larger working set is measured again
LARGE_SET_REMEASURE_RELATIVE_EXCESS = 0.1  # the same for large sets
MAX_REMEASUREMENTS = 3  # of one point, each in another order
MAX_TAIL_RELATIVE_RISE = 0.06  # of the octaves that end a curve, which still count as flat
NOISE_TAIL_OCTAVES = 3.0  # at the end of a curve, whose noise is that of memory
POINTS_BETWEEN = 3  # more working sets between two of a short plateau: so many that a plateau is told from a chance
MAX_CITED_RECORDS = 8  # that a finding names: the largest working sets tell most


@dataclass(frozen=True, slots=True)
class WorkingSets:
    """Which working sets a curve has: nodes `stride_bytes` apart, sizes from `first_bytes` on, `per_octave` an octave, until
    the latency has been flat for two octaves beyond `flat_from_bytes`, or to `last_bytes`."""

    stride_bytes: int
    first_bytes: int
    last_bytes: int
    flat_from_bytes: int
    per_octave: int = 4


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """Latency over the working set with its steps; disturbed points were measured again. `memory` is the latency beyond the
    last step, None where the curve does not end flat. `values` are in `unit`, `ns` in ns."""

    sizes: tuple[int, ...]
    values: tuple[float, ...]
    ns: tuple[float, ...]
    steps: tuple[CurveStep, ...]
    memory: float | None
    memory_ns: float | None
    noise: float  # relative, of one lap
    unit: str = "cycles"
    memory_noise: float = 0.0  # relative, of one lap beyond the last cache
    records: tuple[tuple[str, ...], ...] = ()  # ids of those that each value is from

    @property
    def ghz(self) -> float | None:
        """Cycles a ns, where latencies are in cycles."""
        if self.unit != "cycles" or not self.ns or not self.ns[0]:
            return None
        ratios = sorted(v / n for v, n in zip(self.values, self.ns, strict=True) if n)
        return ratios[len(ratios) // 2]

    def size_below(self, size: float) -> int:
        """The largest measured working set of at most `size` bytes; the smallest where none is."""
        return max(own for own in self.sizes if own <= max(size, self.sizes[0]))

    def cited(self, first_bytes: float, last_bytes: float) -> tuple[str, ...]:
        """Ids of the records of working sets between two sizes, both inclusive: those of the largest sets, eight at most."""
        inside = [of for size, of in zip(self.sizes, self.records, strict=False) if first_bytes <= size <= last_bytes]
        return tuple(dict.fromkeys(name for of in inside for name in of))[-MAX_CITED_RECORDS:]

    def plateau(self, number: int) -> tuple[str, ...]:
        """Ids of the records of a step's plateau: from where most accesses miss the level before it, to the step."""
        step = self.steps[number]
        first = min(self.steps[number - 1].gone_bytes, step.fits_bytes) if number else 0
        return self.cited(first, step.fits_bytes)

    def tail(self) -> tuple[str, ...]:
        """Ids of the records of the octaves whose flatness ends the curve."""
        return self.cited(tail_bytes(self.sizes), self.sizes[-1])


def measure_curve(asked: ProbeCache, chase: ChaseLayout, sets: WorkingSets) -> Inquiry[LatencyCurve | None]:
    """Laps over growing working sets, an octave at a time; points that seem disturbed are measured again. None where too few
    laps were answered."""
    sizes: list[int] = []
    best: dict[int, Answer] = {}
    while not sizes or (
        sizes[-1] < sets.last_bytes
        and not ends_flat(sizes, [_latency_or_infinity(best[s]) for s in sizes], sets.flat_from_bytes)
    ):
        more = _next_octave(sizes, sets)
        if not more:
            break
        answers = yield from asked.all([chase.lap(size // sets.stride_bytes, sets.stride_bytes) for size in more])
        kept = [(size, a) for size, a in zip(more, answers, strict=True) if a.value is not None]
        if not kept:
            break
        best.update(kept)
        sizes += [size for size, _ in kept]
        yield from _remeasure_disturbed(asked, chase, sets.stride_bytes, sizes, best)
    if len(sizes) < 2 * sets.per_octave:
        return None
    spreads = yield from _average_over_frames(asked, chase, sets, sizes, best)
    return _analysed_curve(sizes, best, sets, spreads)


def _average_over_frames(
    asked: ProbeCache, chase: ChaseLayout, sets: WorkingSets, sizes: list[int], best: dict[int, Answer]
) -> Inquiry[Mapping[int, float]]:
    """Average the curve's rises over places of the buffer, and measure more of short plateaus between them. Returns by how much
    places differ, relative, by size in bytes."""
    stride, noise = sets.stride_bytes, _curve_noise(sizes, best)
    soft = _rising_sizes(sizes, best)
    found = yield from averaged_over_frames(asked, chase, stride, {s: best[s] for s in soft}, noise)
    best.update(found.answers)
    more = _between_short_plateaus([s for s in soft if s not in found.spreads], sizes, best, stride)
    answers = yield from asked.all([chase.lap(size // stride, stride) for size in more])
    first = {size: answer for size, answer in zip(more, answers, strict=True) if answer.value is not None}
    if not first:
        return found.spreads
    if not found.compared:
        best.update(first)
        sizes[:] = sorted(best)
        yield from _remeasure_disturbed(asked, chase, stride, sizes, best)
        return found.spreads
    finer = yield from averaged_over_frames(asked, chase, stride, first, noise, is_soft=True)
    best.update(finer.answers)
    sizes[:] = sorted(best)
    return {**found.spreads, **finer.spreads}


def _between_short_plateaus(steady: Sequence[int], sizes: Sequence[int], best: Mapping[int, Answer], stride: int) -> list[int]:
    """Working sets between those of plateaus of few points."""
    runs: list[list[int]] = []
    for size, after in pairwise(sizes):
        if size not in steady or after not in steady:
            continue
        if abs(_latency_or_infinity(best[after]) / _latency_or_infinity(best[size]) - 1) > MAX_PLATEAU_RELATIVE_DRIFT:
            continue
        if runs and runs[-1][-1] == size:
            runs[-1].append(after)
        else:
            runs.append([size, after])
    more = []
    for run in runs:
        if len(run) < SHORT_PLATEAU_POINTS:
            for size, after in pairwise(run):
                step = (after - size) / (1 + POINTS_BETWEEN)
                more += [int(size + i * step) // stride * stride for i in range(1, 1 + POINTS_BETWEEN)]
    return [size for size in dict.fromkeys(more) if size not in best]


def _rising_sizes(sizes: Sequence[int], best: Mapping[int, Answer]) -> list[int]:
    """Working sets beyond the first level, up to where nearly all accesses are of memory, as far as their laps take little."""
    smooth = pooled_rising([_latency_or_infinity(best[s]) for s in sizes])
    first, last = smooth[0] * (1 + MIN_RELATIVE_STEP), smooth[-1] / (1 + MAX_TAIL_RELATIVE_RISE / 2)
    return [s for s, v in zip(sizes, smooth, strict=True) if first < v < last and s < LARGE_SET_BYTES]


def _curve_noise(sizes: Sequence[int], best: Mapping[int, Answer]) -> float:
    """The relative noise of one lap."""
    values = [_latency_or_infinity(best[s]) for s in sizes]
    return min(sorted(_lap_noise(best[s]) for s in sizes)[len(sizes) // 2], relative_noise(values))


def _next_octave(sizes: Sequence[int], sets: WorkingSets) -> list[int]:
    """The next sizes to measure, fewer of them where laps are slow."""
    points = sets.per_octave if not sizes or sizes[-1] < LARGE_SET_BYTES else max(1, sets.per_octave // 2)
    start = sets.first_bytes if not sizes else 2 ** (1 / points) * sizes[-1]
    more = [int(start * 2 ** (i / points)) // sets.stride_bytes * sets.stride_bytes for i in range(points)]
    return [size for size in dict.fromkeys(more) if size <= sets.last_bytes]


def _analysed_curve(
    sizes: Sequence[int], best: Mapping[int, Answer], sets: WorkingSets, spreads: Mapping[int, float]
) -> LatencyCurve:
    """The curve with its noise, its steps and the latency it ends at."""
    values, ns = [_latency_or_infinity(best[s]) for s in sizes], [best[s].ns or 0.0 for s in sizes]
    noise = _curve_noise(sizes, best)
    beyond = [v for s, v in zip(sizes, values, strict=True) if s >= sizes[-1] / 2**NOISE_TAIL_OCTAVES]
    tail = max(noise, relative_noise(beyond)) if len(beyond) > sets.per_octave else noise
    smooth, slack = pooled_rising(values), max(MAX_PLATEAU_RELATIVE_DRIFT, 2 * tail)
    ended = ends_flat(sizes, values, sets.flat_from_bytes) and same_latency(
        smooth[-sets.per_octave // 2 - 1 :], smooth[-sets.per_octave - 1 :], slack
    )
    end = smooth[-1] if ended else None
    return LatencyCurve(
        tuple(sizes),
        tuple(values),
        tuple(ns),
        find_steps(sizes, values, ns, noise, [spreads.get(size, 0.0) for size in sizes]),
        end,
        None if end is None else end * ns[-1] / values[-1],
        noise,
        best[sizes[0]].unit,
        tail,
        tuple(best[s].evidence for s in sizes),
    )


def _remeasure_disturbed(
    asked: ProbeCache, chase: ChaseLayout, stride: int, sizes: Sequence[int], best: dict[int, Answer]
) -> Inquiry[None]:
    """Measure again, in another order, each point that is slower than a larger working set, which only a disturbance explains;
    the fastest answer counts."""
    for seed in range(1, 1 + MAX_REMEASUREMENTS):
        values = [_latency_or_infinity(best[s]) for s in sizes]
        least = undisturbed_values(values)
        large = LARGE_SET_REMEASURE_RELATIVE_EXCESS if seed == 1 else math.inf
        slack = [REMEASURE_RELATIVE_EXCESS if size < LARGE_SET_BYTES else large for size in sizes]
        bent = [s for s, v, low, more in zip(sizes, values, least, slack, strict=True) if v > low * (1 + more)]
        if not bent:
            return
        answers = yield from asked.all([chase.lap(s // stride, stride, seed) for s in bent])
        for size, answer in zip(bent, answers, strict=True):
            if answer.value is not None and answer.value < _latency_or_infinity(best[size]):
                best[size] = answer


def ends_flat(sizes: Sequence[int], values: Sequence[float], floor: int) -> bool:
    """True if the last two octaves are flat, and lie beyond `floor` bytes and well beyond the last rise."""
    if sizes[-1] < floor:
        return False
    smooth = pooled_rising(values)
    tail = [v for s, v in zip(sizes, smooth, strict=True) if s >= tail_bytes(sizes)]
    return tail[-1] / tail[0] - 1 < MAX_TAIL_RELATIVE_RISE and smooth[0] < tail[0] / (1 + MIN_RELATIVE_STEP)


def tail_bytes(sizes: Sequence[int]) -> float:
    """Where the octaves begin whose flatness ends a curve; a little before, since sizes are whole numbers of nodes."""
    return sizes[-1] / 2**MIN_SETTLED_OCTAVES * 0.99


def _latency_or_infinity(answer: Answer) -> float:
    return answer.value if answer.value is not None else math.inf


def _lap_noise(answer: Answer) -> float:
    if not answer.value or answer.low is None or answer.high is None:
        return 0.0
    return (answer.high - answer.low) / 2 / 1.96 / answer.value
