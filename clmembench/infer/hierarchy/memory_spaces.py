"""The memory spaces beside global memory: local and private memory, the constant, read-only and image paths. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from clmembench.infer.findings import NO_CYCLES, measured, undetermined
from clmembench.infer.hierarchy.capacity_search import find_capacity
from clmembench.infer.hierarchy.fill_unit import fill_unit
from clmembench.infer.hierarchy.latency_curve import WorkingSets, measure_curve
from clmembench.infer.hierarchy.probing import LEAST_NOISE, SIGMAS, Asked, Bound, Chase, Contrast, LevelProbe
from clmembench.model import CacheLevel, Finding, Inquiry, Pattern, Probe, Space

KIB, MIB = 1 << 10, 1 << 20
# Thresholds and limits, each with its reason
FIRST = 512  # bytes of the smallest working set
SMALL = (256, 512, 1024)  # bytes of working sets of memory that is its own: local, private
LASTS: dict[Space, int] = {  # bytes of the largest working set worth asking for; a space ends earlier where the device says so
    "readonly": 2 * MIB,
    "constant": 2 * MIB,
    "constant_array": 64 * KIB,
    "image1d_buffer": 4 * MIB,
    "image1d": 64 * KIB,
    "image2d": 4 * MIB,
}
FINE = 0.02  # relative: the end of the first level is located that closely
NODES: dict[Space, int] = {"image2d": 64}  # bytes between nodes, where not as in global memory


def own(asked: Asked, space: Space) -> Inquiry[CacheLevel | None]:
    """Latency of local or private memory; None where there is no answer."""
    answers = yield from asked.all([Probe(Pattern("random", n // 8, 8), space) for n in SMALL])
    told = sorted((a for a in answers if a.value is not None), key=lambda a: a.value or 0.0)
    if not told:
        return None
    middle = told[len(told) // 2]
    low, high = min(a.low or 0.0 for a in told), max(a.high or 0.0 for a in told)
    evidence = tuple(name for a in told for name in a.evidence)
    return CacheLevel(space, space, _latency(middle.value, middle.ns, low, high, middle.unit, evidence))


def along(asked: Asked, space: Space, node: int, longest: int) -> Inquiry[tuple[CacheLevel, ...]]:
    """The levels that a path leads through, as far as `longest` bytes or the device's own limit: where each ends and what
    it costs; of the first also its size and the unit that a miss brings in."""
    spacing, last = NODES.get(space, node), min(LASTS[space], longest)
    chase = Chase(space)
    curve = yield from measure_curve(asked, chase, WorkingSets(spacing, max(FIRST, 4 * spacing), last, last, per_octave=2))
    asked.cited()
    if curve is None:
        return ()
    levels = []
    noise = max(LEAST_NOISE, curve.steps[0].noise if curve.steps else curve.noise)
    for number, step in enumerate(curve.steps):
        findings: dict[str, Finding] = {}
        probe = LevelProbe(asked, chase, Contrast(step.hit, step.miss, noise * step.hit))
        if number == 0:
            low, over = step.fits_bytes // spacing, -(-step.over_bytes // spacing)
            found = yield from find_capacity(probe, spacing, 2 * over, (low, over), FINE)
            findings["size_bytes"] = _size(found, spacing, step.gone_bytes, asked.cited())
            unit = yield from fill_unit(probe, step.gone_bytes, spacing)
            name, method = "sector_bytes", "pairs of accesses"
            findings[name] = (
                measured(name, unit.nbytes, method, asked.cited())
                if unit.nbytes
                else undetermined(name, unit.reason, method, asked.cited())
            )
        else:
            # no upper bound: what disturbs a lap ends a plateau early, and a coarse curve is measured once
            reason = "seen on the curve only"
            findings["size_bytes"] = undetermined("size_bytes", reason, "curve", curve.plateau(number), step.fits_bytes)
        spread = SIGMAS * noise * step.hit
        ends = step.hit - spread, step.hit + spread
        findings |= _latency(step.hit, step.hit_ns, *ends, curve.unit, curve.plateau(number))
        levels.append(CacheLevel(f"L{number + 1}", space, findings))
    tail = curve.values[-3:]
    if max(tail) - min(tail) <= 2 * SIGMAS * noise * tail[-1]:
        # the latency at the largest measured set is that of the next level, whichever it is
        evidence, reason = curve.cited(curve.sizes[-3], curve.sizes[-1]), "no larger working set is possible"
        end = _latency(tail[-1], curve.ns[-1], min(tail), max(tail), curve.unit, evidence)
        end["size_bytes"] = undetermined("size_bytes", reason, "curve", evidence, curve.sizes[-1], None)
        levels.append(CacheLevel(f"L{len(levels) + 1}", space, end))
    return tuple(levels)


def _size(found: Bound, spacing: int, gone: int, evidence: tuple[str, ...]) -> Finding:
    """Bounds of a size: where misses begin, and where most accesses miss."""
    method, reason = "largest working set without misses", "misses begin and are frequent there; its sets were not probed"
    return undetermined("size_bytes", reason, method, evidence, found.fits * spacing, gone)


def _latency(
    value: float | None, ns: float | None, low: float, high: float, unit: str, evidence: tuple[str, ...]
) -> dict[str, Finding]:
    """latency_cycles and latency_ns; no cycles where the core's clock is not known."""
    found: dict[str, Finding] = {}
    method = "whole laps"
    if value is None:
        return found
    if unit == "cycles":
        found["latency_cycles"] = measured("latency_cycles", value, method, evidence, low, high)
    else:
        found["latency_cycles"] = undetermined("latency_cycles", NO_CYCLES, method, evidence)
    if ns is not None:
        found["latency_ns"] = measured("latency_ns", ns, method, evidence, low * ns / value, high * ns / value)
    return found


def named(levels: Mapping[Space, tuple[CacheLevel, ...]], *spaces: Space) -> tuple[CacheLevel, ...]:
    """The levels of these spaces, one after the other."""
    return tuple(level for space in spaces for level in levels.get(space, ()))
