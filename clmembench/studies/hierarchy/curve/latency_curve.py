"""The latency curve of one path to memory: laps over growing working sets until the latency stays flat. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.plateaus import MIN_SETTLED_OCTAVES
from clmembench.model import Answer, Experiment
from clmembench.studies.hierarchy.curve import curve_points
from clmembench.studies.hierarchy.curve.curve_steps import (
    LARGE_SET_BYTES,
    MAX_PLATEAU_RELATIVE_DRIFT,
    MIN_RELATIVE_STEP,
    CurveStep,
    find_steps,
    pooled_rising,
    relative_noise,
    same_latency,
)
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession

# Thresholds of the measurement
NOISE_TAIL_OCTAVES = 3.0  # at the end of a curve, whose noise is that of memory
QUIET_MEMORY_NOISE = 0.02  # relative, of a lap beyond the last cache that nothing else slows down
MAX_CITED_RECORDS = 8  # that a finding names: the largest working sets tell most


@dataclass(frozen=True, slots=True)
class WorkingSets:
    """Which working sets a curve has: nodes `stride_bytes` apart, sizes from `first_bytes` on, `per_octave` an octave, until
    the latency has been flat for two octaves beyond `flat_from_bytes`, or to `last_bytes`. Of large ones there are half as many
    an octave, but twice as many up to `dense_to_bytes`, where far partitions of a last cache may end. `may_wander`: see
    `curve_steps.find_steps`."""

    stride_bytes: int
    first_bytes: int
    last_bytes: int
    flat_from_bytes: int
    per_octave: int = 4
    dense_to_bytes: int = 0
    may_wander: bool = False


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
    shared: bool = False  # others load the caches and memory too, as on CPUs

    @property
    def ghz(self) -> float | None:
        """Cycles a ns, where latencies are in cycles."""
        if self.unit != "cycles" or not self.ns or not self.ns[0]:
            return None
        ratios = sorted(v / n for v, n in zip(self.values, self.ns, strict=True) if n)
        return ratios[len(ratios) // 2]

    def noise_of_memory(self) -> float:
        """The relative noise of the latency beyond the last cache: where others load memory too, laps differ by what they do,
        and what many agree on is known better than one of them. Elsewhere they differ by where lines lie, as in partitions."""
        if not self.shared or not self.steps or self.memory_noise <= QUIET_MEMORY_NOISE:
            return self.memory_noise
        laps = sum(size > self.steps[-1].gone_bytes for size in self.sizes)
        return max(QUIET_MEMORY_NOISE, self.memory_noise / math.sqrt(max(1, laps)))

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


def measure_curve(asked: ProbeSession, chase: ChaseLayout, sets: WorkingSets) -> Experiment[LatencyCurve | None]:
    """Laps over growing working sets, an octave at a time; points that seem disturbed are measured again. None where too few
    laps were answered."""
    sizes: list[int] = []
    best: dict[int, Answer] = {}
    while not sizes or (
        sizes[-1] < sets.last_bytes
        and not ends_flat(sizes, [curve_points.latency_or_infinity(best[s]) for s in sizes], sets.flat_from_bytes)
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
        yield from curve_points.remeasure_disturbed(asked, chase, sets.stride_bytes, sizes, best)
    if len(sizes) < 2 * sets.per_octave:
        return None
    yield from curve_points.remeasure_last(asked, chase, sets.stride_bytes, sizes, best)
    spreads = yield from curve_points.average_over_frames(asked, chase, sets.stride_bytes, sizes, best)
    return _analysed_curve(sizes, best, sets, spreads)


def _next_octave(sizes: Sequence[int], sets: WorkingSets) -> list[int]:
    """The next sizes to measure, fewer of them where laps are slow."""
    points = sets.per_octave
    if sizes and sizes[-1] >= LARGE_SET_BYTES:
        points = 2 * points if sizes[-1] < sets.dense_to_bytes else max(1, points // 2)
    start = sets.first_bytes if not sizes else 2 ** (1 / points) * sizes[-1]
    more = [int(start * 2 ** (i / points)) // sets.stride_bytes * sets.stride_bytes for i in range(points)]
    return [size for size in dict.fromkeys(more) if size <= sets.last_bytes]


def _analysed_curve(
    sizes: Sequence[int], best: Mapping[int, Answer], sets: WorkingSets, spreads: Mapping[int, float]
) -> LatencyCurve:
    """The curve with its noise, its steps and the latency it ends at."""
    values, ns = [curve_points.latency_or_infinity(best[s]) for s in sizes], [best[s].ns or 0.0 for s in sizes]
    noise = curve_points.curve_noise(sizes, best)
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
        find_steps(
            sizes,
            values,
            ns,
            noise,
            [spreads.get(size, 0.0) for size in sizes],
            tail,
            sets.may_wander,
            curve_points.noises_around(sizes, best),
        ),
        end,
        None if end is None else end * ns[-1] / values[-1],
        noise,
        best[sizes[0]].unit,
        tail,
        tuple(best[s].evidence for s in sizes),
        sets.may_wander,
    )


def ends_flat(sizes: Sequence[int], values: Sequence[float], floor: int) -> bool:
    """True if the last two octaves are flat, and lie beyond `floor` bytes and well beyond the last rise."""
    if sizes[-1] < floor:
        return False
    smooth = pooled_rising(values)
    tail = [v for s, v in zip(sizes, smooth, strict=True) if s >= tail_bytes(sizes)]
    return tail[-1] / tail[0] - 1 < curve_points.MAX_TAIL_RELATIVE_RISE and smooth[0] < tail[0] / (1 + MIN_RELATIVE_STEP)


def tail_bytes(sizes: Sequence[int]) -> float:
    """Where the octaves begin whose flatness ends a curve; a little before, since sizes are whole numbers of nodes."""
    return sizes[-1] / 2**MIN_SETTLED_OCTAVES * 0.99
