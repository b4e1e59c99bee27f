"""The memory spaces beside global memory: local and private memory, the constant, read-only and image paths. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from clmembench.model import CacheLevel, Experiment, Finding, Pattern, Probe, Space
from clmembench.model.findings import UNKNOWN_CLOCK, measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve, WorkingSets, measure_curve
from clmembench.studies.hierarchy.levels.path_geometry import PathLevel, path_geometry
from clmembench.studies.hierarchy.probes.probing import (
    LAP_NOISE_SIGMAS,
    MIN_RELATIVE_LAP_NOISE,
    ChaseLayout,
    HitMissModel,
    LevelProbe,
    ProbeSession,
)

KIB, MIB = 1 << 10, 1 << 20
# Thresholds and limits, each with its reason
FIRST_SET_BYTES = 512  # bytes of the smallest working set
OWN_MEMORY_SET_BYTES = (256, 512, 1024)  # bytes of working sets of memory that is its own: local, private
MAX_SET_BYTES_OF_SPACE: dict[
    Space, int
] = {  # bytes of the largest working set worth asking for; a space ends earlier where the device says so
    "readonly": 2 * MIB,
    "constant": 2 * MIB,
    "constant_array": 64 * KIB,
    "image1d_buffer": 4 * MIB,
    "image1d": 64 * KIB,
    "image2d": 4 * MIB,
}
NODE_BYTES_OF_SPACE: dict[Space, int] = {"image2d": 64}  # bytes between nodes, where not as in global memory


def own_memory_level(asked: ProbeSession, space: Space) -> Experiment[CacheLevel | None]:
    """Latency of local or private memory; None where there is no answer."""
    answers = yield from asked.all([Probe(Pattern("random", n // 8, 8), space) for n in OWN_MEMORY_SET_BYTES])
    told = sorted((a for a in answers if a.value is not None), key=lambda a: a.value or 0.0)
    if not told:
        return None
    middle = told[len(told) // 2]
    low, high = min(a.low or 0.0 for a in told), max(a.high or 0.0 for a in told)
    evidence = tuple(name for a in told for name in a.evidence)
    return CacheLevel(space, space, _latency_findings(middle.value, middle.ns, low, high, middle.unit, evidence))


def path_levels(
    asked: ProbeSession, space: Space, node: int, longest: int, global_first: CacheLevel | None = None
) -> Experiment[tuple[CacheLevel, ...]]:
    """The levels that a path leads through, as far as `longest` bytes or the device's own limit: where each ends and what
    it costs; of the first also its geometry. `global_first`: global memory's first cache, which the path may share."""
    spacing, last = NODE_BYTES_OF_SPACE.get(space, node), min(MAX_SET_BYTES_OF_SPACE[space], longest)
    chase = ChaseLayout(space)
    curve = yield from measure_curve(
        asked, chase, WorkingSets(spacing, max(FIRST_SET_BYTES, 4 * spacing), last, last, per_octave=2)
    )
    asked.cited()
    if curve is None:
        return ()
    levels = []
    noise = max(MIN_RELATIVE_LAP_NOISE, curve.steps[0].noise if curve.steps else curve.noise)
    for number, step in enumerate(curve.steps):
        findings: dict[str, Finding] = {}
        probe = LevelProbe(asked, chase, HitMissModel(step.hit, step.miss, noise * step.hit))
        if number == 0:
            beyond = len(curve.steps) > 1 and curve.steps[1].flat
            level = PathLevel(probe, step, spacing, last, beyond or _ends_flat(curve, noise), global_first)
            findings |= yield from path_geometry(level)
        else:
            # no upper bound: what disturbs a lap ends a plateau early, and a coarse curve is measured once
            reason = "seen on the curve only"
            findings["size_bytes"] = undetermined_finding("size_bytes", reason, "curve", curve.plateau(number), step.fits_bytes)
        spread = LAP_NOISE_SIGMAS * noise * step.hit
        ends = step.hit - spread, step.hit + spread
        findings |= _latency_findings(step.hit, step.hit_ns, *ends, curve.unit, curve.plateau(number))
        levels.append(CacheLevel(f"L{number + 1}", space, findings))
    if _ends_flat(curve, noise):
        tail = curve.values[-3:]
        # the latency at the largest measured set is that of the next level, whichever it is
        evidence, reason = curve.cited(curve.sizes[-3], curve.sizes[-1]), "no larger working set is possible"
        end = _latency_findings(tail[-1], curve.ns[-1], min(tail), max(tail), curve.unit, evidence)
        end["size_bytes"] = undetermined_finding("size_bytes", reason, "curve", evidence, curve.sizes[-1], None)
        levels.append(CacheLevel(f"L{len(levels) + 1}", space, end))
    return tuple(levels)


def _ends_flat(curve: LatencyCurve, noise: float) -> bool:
    """True if the largest working sets take equally long: they are on the plateau of a level."""
    tail = curve.values[-3:]
    return max(tail) - min(tail) <= 2 * LAP_NOISE_SIGMAS * noise * tail[-1]


def _latency_findings(
    value: float | None, ns: float | None, low: float, high: float, unit: str, evidence: tuple[str, ...]
) -> dict[str, Finding]:
    """latency_cycles and latency_ns; no cycles where the core's clock is not known."""
    found: dict[str, Finding] = {}
    method = "whole laps"
    if value is None:
        return found
    if unit == "cycles":
        found["latency_cycles"] = measured_finding("latency_cycles", value, method, evidence, low, high)
    else:
        found["latency_cycles"] = undetermined_finding("latency_cycles", UNKNOWN_CLOCK, method, evidence)
    if ns is not None:
        found["latency_ns"] = measured_finding("latency_ns", ns, method, evidence, low * ns / value, high * ns / value)
    return found


def levels_of_spaces(levels: Mapping[Space, tuple[CacheLevel, ...]], *spaces: Space) -> tuple[CacheLevel, ...]:
    """The levels of these spaces, one after the other."""
    return tuple(level for space in spaces for level in levels.get(space, ()))
