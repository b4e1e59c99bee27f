"""The latency curve of one path to memory: laps over growing working sets until the latency stays flat. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.infer.curve_noise import undisturbed_values
from clmembench.infer.hierarchy.curve_steps import (
    MAX_PLATEAU_RELATIVE_DRIFT,
    MIN_RELATIVE_STEP,
    CurveStep,
    find_steps,
    pooled_rising,
    relative_noise,
    same_latency,
)
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
MAX_CITED_RECORDS = 8  # that a finding names: the largest working sets tell most
BLOCK_SIZE_FACTOR = 4  # between the two block sizes of which laps are compared
MIN_BLOCK_BYTES = 16 << 10  # in smaller blocks prefetchers of single lines begin to guess right
MAX_BLOCK_RELATIVE_DIFFERENCE = 0.035  # between laps in blocks of two sizes where no prefetcher helps


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
    return None if len(sizes) < 2 * sets.per_octave else _analysed_curve(sizes, best, sets)


def _next_octave(sizes: Sequence[int], sets: WorkingSets) -> list[int]:
    """The next sizes to measure, fewer of them where laps are slow."""
    points = sets.per_octave if not sizes or sizes[-1] < LARGE_SET_BYTES else max(1, sets.per_octave // 2)
    start = sets.first_bytes if not sizes else 2 ** (1 / points) * sizes[-1]
    more = [int(start * 2 ** (i / points)) // sets.stride_bytes * sets.stride_bytes for i in range(points)]
    return [size for size in dict.fromkeys(more) if size <= sets.last_bytes]


def _analysed_curve(sizes: Sequence[int], best: dict[int, Answer], sets: WorkingSets) -> LatencyCurve:
    """The curve with its noise, its steps and the latency it ends at."""
    values, ns = [_latency_or_infinity(best[s]) for s in sizes], [best[s].ns or 0.0 for s in sizes]
    noise = min(sorted(_lap_noise(a) for a in best.values())[len(best) // 2], relative_noise(values))
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
        find_steps(sizes, values, ns, noise),
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


@dataclass(frozen=True, slots=True)
class PlateauPoint:
    """A working set on a plateau, its nodes `stride_bytes` apart, and the plateau's latency with its relative noise."""

    array_bytes: int
    stride_bytes: int
    latency: float
    noise: float = 0.0


def free_of_prefetching(
    asked: ProbeCache, chase: ChaseLayout, point: PlateauPoint, reach_bytes: int = 0
) -> Inquiry[bool | None]:
    """True if laps in blocks of another size take as long; None: no answer.

    In larger blocks, or in none at all where a TLB's reach (`reach_bytes`) allows it, a prefetcher that looks at neighbours
    finds fewer lines to fetch; in smaller blocks, where there are no larger ones, it finds more.
    """
    size = point.array_bytes
    if not chase.block_bytes:
        return True
    others = [0] if chase.block_bytes < size <= reach_bytes else []
    if size >= 2 * BLOCK_SIZE_FACTOR * chase.block_bytes:
        others.append(BLOCK_SIZE_FACTOR * chase.block_bytes)
    smaller = max(MIN_BLOCK_BYTES, 1 << (min(chase.block_bytes, size) // BLOCK_SIZE_FACTOR).bit_length() - 1)
    if not others and size >= BLOCK_SIZE_FACTOR * smaller:
        others.append(smaller)
    for other in others:
        probe = replace(chase, block_bytes=other).lap(size // point.stride_bytes, point.stride_bytes)
        answer = yield from asked.one(probe)
        if answer.value is None:
            return None
        own = (answer.high - answer.low) / 2 if answer.high is not None and answer.low is not None else 0.0
        allowed = max(MAX_BLOCK_RELATIVE_DIFFERENCE * point.latency, 2 * point.noise * point.latency, own)
        if abs(answer.value - point.latency) > allowed:
            return False
    return True
