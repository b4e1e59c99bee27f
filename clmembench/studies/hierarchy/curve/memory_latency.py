"""Latency of memory and far caches where prefetchers bring neighbouring lines: laps over every second line and fewer. Pure.

CPUs fetch the other line of each pair of 128 B, or more, with a miss. Laps over all lines then find some of them in a cache: on
a Zen 4 core they took 100 ns an access, and 143 to 151 ns over every second line, in blocks of 128 KiB to 1 MiB.

In a cache every second line, or fourth, is of every second set, or fourth, where address bits choose these: as many lines as
the whole cache holds would be twice as many as those sets hold, or four times. So lines of a cache lie odd numbers of lines
apart, which use all sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clmembench.model import Answer, Experiment
from clmembench.studies.hierarchy.curve.curve_findings import LevelLatency
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.probes.prefetch_control import MAX_BLOCK_RELATIVE_DIFFERENCE, MIN_PAGE_BYTES
from clmembench.studies.hierarchy.probes.probing import MIN_RELATIVE_LAP_NOISE, ChaseLayout, ProbeSession, without_answer

METHOD = "laps beyond all caches over every second line and fewer, less what their pages' translation adds"
PLATEAU_METHOD = "laps over as many lines as on the plateau, every third one and fewer, less what their pages' translation adds"
APART_METHOD = f"{METHOD}: they take longer than laps over all lines"
MEMORY_OVERFLOW = 4  # times the working set of which three quarters miss: so many lines miss in laps over lines far apart
LINES_APART, LINES_APART_IN_CACHE = (2, 4, 8), (3, 5, 9)
LINES_FAR_APART = (*LINES_APART, 16)  # where caches of the claimed size, whose parts such laps use, play no role
MAX_PREFETCHED_SHARE = 0.6  # of a plateau's lines, that a prefetcher of pairs had brought into the level before
ORDERS = 2  # of each lap
SET_TO_CACHES_RATIO = 16  # times the claimed caches: the largest set, of which at most an eighth of the lines can be held
MAX_HELD_SHARE = 0.3  # of a lap's lines, which the caches that the device claims could hold
MAX_TRANSLATION_SHARE = 0.07  # of a lap's latency, added by twice as many pages: what adds more is a prefetcher that fails
MAX_ORDER_SPREAD = 0.15  # of the two orders: where they differ more, others use the level


@dataclass(frozen=True, slots=True)
class MemoryLaps:
    """Two orders of a lap over lines so far apart, the faster first, and the share of its lines that caches could hold."""

    lines_apart: int
    first: Answer
    second: Answer
    held_share: float

    @property
    def value(self) -> float:
        """The latency of the faster order."""
        return self.first.value or math.inf

    @property
    def spread(self) -> float:
        """By how much the orders differ, relative."""
        return (self.second.value or math.inf) / self.value - 1


def measure_memory(
    asked: ProbeSession, chase: ChaseLayout, node_bytes: int, last: CurveStep, most_bytes: int, claimed_bytes: int
) -> Experiment[LevelLatency]:
    """Latency of memory behind the level `last`, from the first two laps of which one is over lines twice as far apart, and
    takes as long but for translation. `node_bytes`: of a line. `most_bytes`: the largest set; `claimed_bytes`: what the caches
    may hold that the device claims. That share of a lap might be hits, which the interval has in it."""
    size = min(most_bytes, SET_TO_CACHES_RATIO * claimed_bytes)
    sets = [(apart, size // (apart * node_bytes), claimed_bytes * apart / size) for apart in LINES_APART]
    found = yield from _measure(asked, chase, node_bytes, sets, last.hit, METHOD)
    return found if isinstance(found, LevelLatency) else _without_pages(*found, last.hit, METHOD)


def measure_memory_apart(
    asked: ProbeSession, chase: ChaseLayout, node_bytes: int, curve: LatencyCurve, most_bytes: int, translated: float
) -> Experiment[LevelLatency | bool | None]:
    """Latency of memory from laps over lines far apart, in cycles, where these laps take longer than the curve over all lines:
    a prefetcher brings in lines of the curve's laps, or each access misses the TLB. True where both take the same time, so that
    neither affects the curve; None where this is unknown. `translated`: the largest cost of a TLB miss, paid once per page."""
    memory, gone = curve.memory or 0.0, curve.steps[-1].gone_bytes
    apart = LINES_APART[-1]
    lines = min(curve.sizes[-1], MEMORY_OVERFLOW * gone, most_bytes // LINES_FAR_APART[-1]) // node_bytes
    if lines * node_bytes < gone:
        return None
    answers = yield from asked.all([chase.lap(lines, apart * node_bytes, seed) for seed in range(ORDERS)])
    values = [answer.value for answer in answers if answer.value is not None]
    if len(values) < ORDERS:
        return None
    more, same = min(values) - memory, MAX_BLOCK_RELATIVE_DIFFERENCE * memory
    if more <= max(same + translated * apart * node_bytes / MIN_PAGE_BYTES, 2 * curve.memory_noise * memory):
        return True if abs(more) <= same else None
    sets = [(far, lines, 0.0) for far in LINES_FAR_APART]
    found = yield from _measure(asked, chase, node_bytes, sets, curve.steps[-1].hit, APART_METHOD)
    return found if isinstance(found, LevelLatency) else _without_pages(*found, curve.steps[-1].hit, APART_METHOD)


def measure_plateau(
    asked: ProbeSession, chase: ChaseLayout, node_bytes: int, before: CurveStep, step: CurveStep
) -> Experiment[LevelLatency]:
    """Latency of a cache behind the level `before`, in the same way, over as many lines as miss all of that level. They are
    half of what fits at most, since a prefetcher may bring as many more. What takes much longer than the plateau was not served
    by this cache."""
    lines = max(before.gone_bytes, min(int(math.sqrt(before.gone_bytes * step.fits_bytes)), step.fits_bytes // 2)) // node_bytes
    sets = [(apart, lines, 0.0) for apart in LINES_APART_IN_CACHE]
    found = yield from _measure(asked, chase, node_bytes, sets, before.hit, PLATEAU_METHOD)
    if isinstance(found, LevelLatency):
        return found
    latency = _without_pages(*found, before.hit, PLATEAU_METHOD)
    most = before.hit + (step.hit - before.hit) / (1 - MAX_PREFETCHED_SHARE)
    if latency.value is None or latency.value <= most:
        return latency
    why = f"laps over every third line take {latency.value:.4g}, those over all lines {step.hit:.4g}: other levels serve some"
    return LevelLatency(PLATEAU_METHOD, latency.evidence, why=why, least=step.hit, least_ns=step.hit_ns)


def _measure(
    asked: ProbeSession, chase: ChaseLayout, node_bytes: int, sets: Sequence[tuple[int, int, float]], hit: float, method: str
) -> Experiment[tuple[MemoryLaps, MemoryLaps] | LevelLatency]:
    """The first two laps, over lines so far apart, so many of them, and of which such a share could be hits of `hit`, that show
    the latency; or why none do."""
    laps: list[MemoryLaps] = []
    answers: list[Answer] = []
    for apart, count, held_share in sets:
        answers = yield from asked.all([chase.lap(count, apart * node_bytes, seed) for seed in range(ORDERS)])
        fastest = sorted((a for a in answers if a.value is not None), key=lambda answer: answer.value or math.inf)
        if len(fastest) < ORDERS:
            continue
        laps.append(MemoryLaps(apart, fastest[0], fastest[1], held_share))
        if len(laps) > 1 and not _doubt(laps[-2], laps[-1]):
            return laps[-2], laps[-1]
    if not laps:
        return LevelLatency(method, (), why=without_answer("laps over every second line", answers))
    why = next((_doubt(near, far) for near, far in pairwise(laps)), "laps over lines twice as far apart got no answer")
    if len(laps) == 1:
        return LevelLatency(method, laps[0].first.evidence, why=why)
    near, far = laps[:2]
    least = max(0.0, min(near.value, far.value, near.value - _added(near, far)))
    return LevelLatency(
        method, near.first.evidence, why=why, least=least or None, least_ns=least * (near.first.ns or 0.0) / near.value or None
    )


def _doubt(near: MemoryLaps, far: MemoryLaps) -> str:
    """Why two laps, one over lines twice as far apart, do not show what memory takes; "" where they do."""
    spread, added = max(near.spread, far.spread), far.value / near.value - 1
    if far.lines_apart > 2 * near.lines_apart:
        return "laps over lines twice as far apart got no answer"
    if near.held_share > MAX_HELD_SHARE:
        return f"the caches that the device claims could hold {near.held_share:.0%} of the lines of the largest laps"
    if spread > MAX_ORDER_SPREAD:
        return f"laps over the same lines in two orders differ by {spread:.0%}: others use the level too"
    if abs(added) > MAX_TRANSLATION_SHARE:
        further = "twice as far" if far.lines_apart == 2 * near.lines_apart else "further"
        return f"laps over lines {further} apart take {added:+.0%} of the time: prefetchers, or others, change it"
    return ""


def _added(near: MemoryLaps, far: MemoryLaps) -> float:
    """What translation adds to the nearer lines, if all that the others take more is translation's."""
    return (far.value - near.value) / (far.lines_apart / near.lines_apart - 1)


def _without_pages(near: MemoryLaps, far: MemoryLaps, hit: float, method: str) -> LevelLatency:
    """The latency less what translation adds: half of the lines of each page pay as much again, if the nearer ones paid it, and
    all of it, where a TLB holds their pages but not twice as many. The value is in the middle, the interval holds both."""
    added = max(0.0, _added(near, far))
    value = near.value - added / 2
    noise = 1 + max(near.spread, far.spread, MIN_RELATIVE_LAP_NOISE)
    high = max(near.value, far.value) * noise
    high = (high - near.held_share * hit) / (1 - near.held_share)
    low = min(near.value - added, far.value) / noise
    ns = value * (near.first.ns or 0.0) / near.value
    evidence = tuple(name for lap in (near, far) for answer in (lap.first, lap.second) for name in answer.evidence)
    return LevelLatency(method, evidence, value, ns, ends=(low / value, high / value))
