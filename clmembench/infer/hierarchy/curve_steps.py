"""Steps of a latency curve: where a growing working set leaves one level for the next, and what each level costs. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from clmembench.infer.findings import NO_CYCLES, measured, undetermined
from clmembench.infer.hierarchy.probing import LEAST_NOISE, SIGMAS, Asked, Chase
from clmembench.infer.plateaus import SETTLED_OCTAVES, not_memory
from clmembench.model import Answer, CacheLevel, Finding, Inquiry

VALLEY = 0.3  # of the lower of two rises: what rises less between them parts two levels
FLOOR = 2  # slopes in a row that are a valley: one alone may be chance
LEAST_STEP = 0.2  # relative: two levels differ by more
PLAIN = 6  # times the noise around a step
WIDER = 4  # times the blocks of the curve
LEAST_BLOCK = 16 << 10  # bytes: in smaller ones prefetchers of single lines begin to guess
HELPED = 0.035  # relative: what may differ between laps in blocks of two sizes
MOSTLY = 0.75  # of accesses miss, lap after lap: no level that could hold the set lets that happen
EVEN = 0.025  # relative: two parts of one plateau differ by no more
LEAST_HIDDEN = 0.6  # relative: by how much the next differs from a level that no plateau shows
FLAT = 0.06  # relative: what a flat end may rise by
BENT = 0.02  # how much slower than a larger working set a point must be to be measured again
DEAR = 24 << 20  # bytes: beyond it half as many points an octave, and measured again but once, and only where far off
MORE_BENT = 0.1
AGAIN = 3  # times, each in another order
TAIL_OCTAVES = 3.0  # of a curve, whose noise is that of memory
MOST_CITED = 8  # records that are named of a plateau


@dataclass(frozen=True, slots=True)
class Step:
    """One level: `hit` and `hit_ns` while the working set fits, `miss` once it does not; the set is between `fits_bytes`,
    the last size on the level, and `over_bytes`, where it has surely left it; three quarters miss at
    `gone_bytes`, which is more than the level holds. `flat`: whether its latency is the same at
    its middle and its end, so that it is surely the level's own; `noise`, relative, that of a lap on it."""

    hit: float
    hit_ns: float
    miss: float
    fits_bytes: int
    over_bytes: int
    gone_bytes: int
    flat: bool = True
    noise: float = 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Latency over the working set, disturbances mended, its steps, and what lies beyond the last: None where the curve
    does not end flat."""

    sizes: tuple[int, ...]
    values: tuple[float, ...]
    ns: tuple[float, ...]
    steps: tuple[Step, ...]
    memory: float | None
    memory_ns: float | None
    noise: float  # relative, of one lap
    unit: str = "cycles"
    memory_noise: float = 0.0  # the same, beyond the last cache
    records: tuple[tuple[str, ...], ...] = ()  # ids of those that each value is from

    @property
    def ghz(self) -> float | None:
        """Cycles a ns, where latencies are in cycles."""
        if self.unit != "cycles" or not self.ns or not self.ns[0]:
            return None
        ratios = sorted(v / n for v, n in zip(self.values, self.ns, strict=True) if n)
        return ratios[len(ratios) // 2]

    def cited(self, first_bytes: float, last_bytes: float) -> tuple[str, ...]:
        """Ids of the records of working sets between two sizes, both inclusive: those of the largest, MOST_CITED at most."""
        inside = [of for size, of in zip(self.sizes, self.records, strict=False) if first_bytes <= size <= last_bytes]
        return tuple(dict.fromkeys(name for of in inside for name in of))[-MOST_CITED:]

    def plateau(self, number: int) -> tuple[str, ...]:
        """Ids of the records of a step's plateau: from where most accesses miss the level before it, to the step."""
        step = self.steps[number]
        first = min(self.steps[number - 1].gone_bytes, step.fits_bytes) if number else 0
        return self.cited(first, step.fits_bytes)

    def tail(self) -> tuple[str, ...]:
        """Ids of the records of the octaves whose flatness ends the curve."""
        return self.cited(_tail(self.sizes), self.sizes[-1])


def curve(
    asked: Asked, chase: Chase, stride_bytes: int, first: int, last: int, floor: int, per_octave: int = 4
) -> Inquiry[Curve | None]:
    """Laps over growing working sets, an octave at a time, until the latency has been flat for two octaves beyond `floor`,
    or to `last`. None where nothing was answered."""
    sizes: list[int] = []
    best: dict[int, Answer] = {}
    while not sizes or (sizes[-1] < last and not _ended(sizes, [_value(best[s]) for s in sizes], floor)):
        steps_here = per_octave if not sizes or sizes[-1] < DEAR else max(1, per_octave // 2)
        start = first if not sizes else 2 ** (1 / steps_here) * sizes[-1]
        more = [int(start * 2 ** (i / steps_here)) // stride_bytes * stride_bytes for i in range(steps_here)]
        more = [size for size in dict.fromkeys(more) if size <= last]
        if not more:
            break
        answers = yield from asked.all([chase.lap(size // stride_bytes, stride_bytes) for size in more])
        kept = [(size, a) for size, a in zip(more, answers, strict=True) if a.value is not None]
        if not kept:
            break
        best.update(kept)
        sizes += [size for size, _ in kept]
        yield from _mended(asked, chase, stride_bytes, sizes, best)
    if len(sizes) < 2 * per_octave:
        return None
    values, ns = [_value(best[s]) for s in sizes], [best[s].ns or 0.0 for s in sizes]
    noise = min(sorted(_noise(a) for a in best.values())[len(best) // 2], _bends(values))
    found = steps(sizes, values, ns, noise)
    beyond = [v for s, v in zip(sizes, values, strict=True) if s >= sizes[-1] / 2**TAIL_OCTAVES]
    tail = max(noise, _bends(beyond)) if len(beyond) > per_octave else noise
    smooth, slack = _rising(values), max(EVEN, 2 * tail)
    ended = _ended(sizes, values, floor) and _even(smooth[-per_octave // 2 - 1 :], smooth[-per_octave - 1 :], slack)
    end = smooth[-1] if ended else None
    return Curve(
        tuple(sizes),
        tuple(values),
        tuple(ns),
        found,
        end,
        None if end is None else end * ns[-1] / values[-1],
        noise,
        best[sizes[0]].unit,
        tail,
        tuple(best[s].evidence for s in sizes),
    )


def steps(sizes: Sequence[int], values: Sequence[float], ns: Sequence[float], noise: float) -> tuple[Step, ...]:
    """The levels that a curve rises through. A curve rises from one level to the next in one hump of its slope, steeply or
    softly; where the slope falls to a fraction of two humps between them, there is a level."""
    least = _rising(values)
    rises = [math.log(b / a) for a, b in pairwise(least)]
    dim = max(4 * noise, 0.004)
    humps = _humps([r if r > dim else 0.0 for r in rises])
    found: list[Step] = []
    before, start = 0, None
    for number, (first, stop) in enumerate(humps):
        start = first if start is None else start
        after = humps[number + 1][0] if number + 1 < len(humps) else len(least) - 1
        hit, miss = _level(least, before, start), _level(least, stop, after)
        around = min(_bends(values[before : start + 1]), _bends(values[stop : after + 1]))
        if miss / hit - 1 < max(LEAST_STEP, PLAIN * (around if math.isfinite(around) else noise)):
            continue  # a part of what the next hump goes on with, or noise
        own = max(LEAST_NOISE, min(noise, _bends(values[before : start + 1])))
        even = max(EVEN, 2 * _bends(values[before : start + 1])) if start - before > FLOOR else EVEN
        third = (start - before) // 3
        # two or three even points may be a ramp's, where pages happen to lie well
        flat = before == 0 or (
            third > 0 and _even(least[start - third : start + 1], least[start - 2 * third : start - third + 1], even)
        )
        middle = start // 2 if before == 0 else start - third // 2
        if not flat and miss / hit - 1 < LEAST_HIDDEN:
            continue
        over = next(i for i in range(start + 1, len(least)) if least[i] > hit * (1 + max(dim, 0.02)))
        gone = next(i for i in range(over, len(least)) if least[i] >= hit + MOSTLY * (miss - hit))
        found.append(Step(hit, hit * ns[middle] / values[middle], miss, sizes[start], sizes[over], sizes[gone], flat, own))
        before, start = stop, None
    return tuple(found)


def _level(values: Sequence[float], first: int, last: int) -> float:
    """The latency of a level between two humps: of its last third, since what replaces at random approaches it slowly."""
    part = sorted(values[first + (last - first) * 2 // 3 : last + 1])
    return part[len(part) // 2]


def _even(values: Sequence[float], others: Sequence[float], slack: float = EVEN) -> bool:
    """Whether two stretches of a curve have one latency."""
    a, b = sorted(values)[len(values) // 2], sorted(others)[len(others) // 2]
    return abs(a - b) <= slack * max(a, b)


def _humps(rises: Sequence[float]) -> list[tuple[int, int]]:
    """(first, last) points of each rise: runs of slopes, which fewer than FLOOR flat ones in a row do not end, parted where
    they fall below VALLEY of the lower top of either side."""
    runs: list[list[int]] = []
    for i, rise in enumerate(rises):
        if rise <= 0:
            continue
        if runs and i - runs[-1][1] < FLOOR:
            runs[-1][1] = i + 1
        else:
            runs.append([i, i + 1])
    return [part for start, stop in runs for part in _parted(rises, start, stop)]


def _parted(rises: Sequence[float], start: int, stop: int) -> list[tuple[int, int]]:
    """A run of slopes, parted at its deepest valley, and each part again."""
    best: tuple[float, int] | None = None
    for i in range(start + 1, stop - FLOOR):
        lower = min(max(rises[start:i]), max(rises[i + FLOOR : stop]))
        depth = max(rises[i : i + FLOOR]) / lower if lower > 0 else 1.0
        if depth < VALLEY and (best is None or depth < best[0]):
            best = (depth, i)
    if best is None:
        return [(start, stop)]
    return [*_parted(rises, start, best[1]), *_parted(rises, best[1] + FLOOR, stop)]


def _mended(asked: Asked, chase: Chase, stride: int, sizes: Sequence[int], best: dict[int, Answer]) -> Inquiry[None]:
    """Measure again, in another order, what is slower than a larger working set: a disturbance; the fastest counts."""
    for seed in range(1, 1 + AGAIN):
        values = [_value(best[s]) for s in sizes]
        least = _least(values)
        slack = [BENT if size < DEAR else MORE_BENT if seed == 1 else math.inf for size in sizes]
        bent = [s for s, v, low, more in zip(sizes, values, least, slack, strict=True) if v > low * (1 + more)]
        if not bent:
            return
        for size, answer in zip(
            bent, (yield from asked.all([chase.lap(s // stride, stride, seed) for s in bent])), strict=True
        ):
            if answer.value is not None and answer.value < _value(best[size]):
                best[size] = answer


def _ended(sizes: Sequence[int], values: Sequence[float], floor: int) -> bool:
    """Whether the last two octaves are flat, and lie beyond `floor` and well beyond the last rise."""
    if sizes[-1] < floor:
        return False
    smooth = _rising(values)
    tail = [v for s, v in zip(sizes, smooth, strict=True) if s >= _tail(sizes)]
    return tail[-1] / tail[0] - 1 < FLAT and smooth[0] < tail[0] / (1 + LEAST_STEP)


def _tail(sizes: Sequence[int]) -> float:
    """Where the octaves begin whose flatness ends a curve; a little before, since sizes are whole numbers of nodes."""
    return sizes[-1] / 2**SETTLED_OCTAVES * 0.99


def _least(values: Sequence[float]) -> list[float]:
    """Of each point and all larger ones the least: a set that fits where a larger one does is as fast."""
    least, found = math.inf, []
    for value in reversed(values):
        least = min(least, value)
        found.append(least)
    return found[::-1]


def _rising(values: Sequence[float]) -> list[float]:
    """The nearest curve that never falls, by the sum of absolute differences: neighbours that fall are pooled at their median,
    since a larger working set is no faster. So neither a disturbed point counts nor one that is faster by chance, as where a
    working set just suits a replacement policy."""
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and statistics.median(pools[-2]) > statistics.median(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    return [statistics.median(pool) for pool in pools for _ in pool]


def _value(answer: Answer) -> float:
    return answer.value if answer.value is not None else math.inf


def _bends(values: Sequence[float]) -> float:
    """The relative noise of a curve that is flat at first: how far its first points lie from the middle of their neighbours."""
    bends = sorted(abs(b - (a + c) / 2) / b for a, b, c in zip(values, values[1:], values[2:], strict=False))
    # most points lie on plateaus; the median of |x| is 0.67 sigma, and this has 1.5 times one point's variance
    return bends[len(bends) // 2] / 0.6745 / math.sqrt(1.5) if bends else math.inf


def _noise(answer: Answer) -> float:
    if not answer.value or answer.low is None or answer.high is None:
        return 0.0
    return (answer.high - answer.low) / 2 / 1.96 / answer.value


def unhelped(
    asked: Asked,
    chase: Chase,
    array_bytes: int,
    stride_bytes: int,
    value: float,
    reach_bytes: int = 0,
    noise: float = 0.0,
) -> Inquiry[bool | None]:
    """Whether laps in blocks of another size take as long: in larger ones, or in none at all where a TLB's reach allows it, a
    prefetcher that looks at neighbours finds fewer lines to bring; in smaller ones, where there are no larger, more. None:
    no answer."""
    if not chase.block_bytes:
        return True
    others = [0] if chase.block_bytes < array_bytes <= reach_bytes else []
    if array_bytes >= 2 * WIDER * chase.block_bytes:
        others.append(WIDER * chase.block_bytes)
    smaller = max(LEAST_BLOCK, 1 << (min(chase.block_bytes, array_bytes) // WIDER).bit_length() - 1)
    if not others and array_bytes >= WIDER * smaller:
        others.append(smaller)
    for other in others:
        probe = replace(chase, block_bytes=other).lap(array_bytes // stride_bytes, stride_bytes)
        answer = yield from asked.one(probe)
        if answer.value is None:
            return None
        own = (answer.high - answer.low) / 2 if answer.high is not None and answer.low is not None else 0.0
        if abs(answer.value - value) > max(HELPED * value, 2 * noise * value, own):
            return False
    return True


def memory(found: Curve, sure: bool, floor_bytes: int) -> tuple[CacheLevel, ...]:
    """The level beyond all caches, as far as the curve shows it; `sure`: no prefetcher helped there. By the rule of
    `levels.not_memory` it must lie beyond `floor_bytes`; else its latency is at least that of the largest sets."""
    method = "whole laps far beyond the last cache, in blocks whose pages the TLB holds"
    if not found.steps:
        return ()
    value, ns, noise = found.memory, found.memory_ns, found.memory_noise
    least = least_ns = None
    why = "the latency still grows at the largest working set, or a prefetcher helps"
    if value is not None and ns is not None and sure:
        why = not_memory(found.steps[-1].fits_bytes, found.steps[-1].gone_bytes, found.sizes[-1], floor_bytes)
        below = 1 - SIGMAS * max(LEAST_NOISE, noise)
        least, least_ns = value * below, ns * below
    if why:
        value = ns = None
    findings = latency(value, ns, found, method, why, found.tail(), noise, least, least_ns)
    return (CacheLevel("DRAM", "global", findings),)


def latency(
    value: float | None,
    ns: float | None,
    curve: Curve,
    method: str,
    why: str,
    evidence: tuple[str, ...],
    noise: float = 0.0,
    low: float | None = None,
    low_ns: float | None = None,
) -> dict[str, Finding]:
    """latency_cycles and latency_ns as Findings from the records `evidence`: none where the curve has no such plateau, for
    the reason `why`, and no cycles where the core's clock is not known. `low`, `low_ns`: its bounds where there is none."""
    spread, found = SIGMAS * max(LEAST_NOISE, noise or curve.noise), {}
    for name, number in (("latency_cycles", value if curve.unit == "cycles" else None), ("latency_ns", ns)):
        if number is None:
            reason = NO_CYCLES if name == "latency_cycles" and curve.unit != "cycles" else why
            least = low_ns if name == "latency_ns" else low if curve.unit == "cycles" else None
            found[name] = undetermined(name, reason, method, evidence, least)
        else:
            found[name] = measured(name, number, method, evidence, number * (1 - spread), number * (1 + spread))
    return found
