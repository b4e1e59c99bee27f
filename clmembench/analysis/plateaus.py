"""Levels of a latency curve: plateaus, the knees between them, and whether the curve has settled. Pure.

Two detectors exist because two kinds of curves exist:

- `find_plateaus` reads stored points that nobody can measure again. Disturbed points are in them for good, so it
  looks for the long flat stretches and lets a few slow points lie among them.
- `hierarchy.curve_steps.find_steps` reads a curve whose disturbed points the experiment has measured again. It looks for the
  rises, since under random replacement or with pages in random frames a level ends in a soft rise, on which short flat
  stretches mean nothing. A step also states where a level is left and where most of its accesses miss, and bounds a level
  without a plateau.

Levels of simulated curves (three machines, 4 points an octave, noise of 0.5%, 440 levels of 120 curves; right: latency within
5% and capacity bracketed):

| curves | detector | right | capacity wrong | latency of no level |
|---|---|--:|--:|--:|
| a point in eight 5 to 40% slower | plateaus | 440 | 0 | 0 |
| | steps | 323 | 68 | 8 |
| random replacement, undisturbed | plateaus | 348 | 12 | 22 |
| | steps | 339 | 3 | 41 |

`tests/analysis/test_curve_noise.py` keeps both halves of that comparison.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from clmembench.analysis import derive
from clmembench.analysis.stats import noise_of_deviations, undisturbed_values
from clmembench.model import DeviceInfo, Finding, Metric, Record, Value
from clmembench.model.findings import measured_finding, undetermined_finding

MIB = 1 << 20
# Thresholds and limits, each with its reason
MAX_PLATEAU_RELATIVE_SPREAD = 0.10  # a plateau's values lie within this fraction of its own median
MIN_PLATEAU_OCTAVES = 1.0  # a plateau is at least this long
PLATEAU_NOISE_SIGMAS = 4.0  # of the curve's own noise: a point further off a plateau's median at its ends is not on it
MIN_PLATEAU_RELATIVE_TOLERANCE = 0.02  # below this, drift within a level is no knee
CLAIMED_CACHES_RATIO = 4  # times the caches that a device claims: sets beyond which a plateau may be called memory
MIN_SETTLED_OCTAVES = 2.0  # of constant latency up to the largest working set, before it is called memory
MIN_SETTLED_KNEE_RATIO = 4.0  # times the last size on the level before, which the largest working set must reach
MAX_DISTURBANCE_RELATIVE_EXCESS = 0.5  # relative: disturbances made no point slower by more
PLAUSIBLE_LINE_BYTES = (16, 1024)  # bytes: what a device may believably report as its line, a power of two
SURELY_NEAREST_BYTES = 8 << 10  # no larger than any first data cache known
MIN_NEAREST_POINTS, MAX_NEAREST_RATIO = 3, 1.25  # of such sets, and of their latencies; the next level is twice as slow or more
NO_LATENCY = "this run has no latency: measure it by run -b pchase"
POINTS_OF_NOISE = 16  # around a stretch, which tell the noise there: of fewer, more agree by chance
MAX_CYCLES_NOISE_RATIO = 1.5  # times the noise of the curve in ns, which the curve in cycles may have to be preferred


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of a curve: the array's extent in bytes, latency with its 95% interval in ns, and in cycles where known;
    `evidence` are ids of its records."""

    array_bytes: int
    ns: float
    low: float
    high: float
    cycles: float | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plateau:
    """A stretch of constant latency: medians over its points, least and greatest array on it, and where it ends.

    The level ends between `last_bytes` (still on the plateau) and `next_bytes` (clearly off it; None: never clearly left). Both
    are extents of the array; `extent_per_line_byte` says how many bytes of lines lie in them. `evidence` are ids of its points'
    records.
    """

    ns: float
    low: float
    high: float
    cycles: float | None
    first_bytes: int
    last_bytes: int
    next_bytes: int | None
    evidence: tuple[str, ...] = ()


def curve_points(records: Iterable[Record], metric: Metric, x: str) -> list[CurvePoint]:
    """The measured points of one curve in order of working set; points without a usable value are left out."""
    grouped: dict[int, list[Record]] = {}
    for record in records:
        size = record.params.get(x)
        if record.status == "ok" and record.role == "measure" and isinstance(size, int) and size > 0:
            grouped.setdefault(size, []).append(record)
    samples = []
    for size, group in sorted(grouped.items()):
        summary = derive.summarise(group, metric)
        if summary is not None and summary.low > 0 and math.isfinite(summary.high):
            cycles = derive.summarise(group, metric, in_cycles=True)
            ids = tuple(map(derive.id_of, group))
            samples.append(CurvePoint(size, summary.median, summary.low, summary.high, cycles.median if cycles else None, ids))
    return samples


def extent_per_line_byte(params: Mapping[str, Value], line_bytes: int) -> float | None:
    """Bytes of the array for each byte of the lines that a chase touches: 1 where nodes lie no further apart than a line.

    `params` are a point's, whose spacing_bytes is a number of bytes or "line"; `line_bytes` is what the device reports. None
    where nodes lie further apart than it may mean, and it reports no believable line.
    """
    spacing = params.get("spacing_bytes")
    if not isinstance(spacing, int) or spacing <= PLAUSIBLE_LINE_BYTES[0]:
        return 1.0
    if not PLAUSIBLE_LINE_BYTES[0] <= line_bytes <= PLAUSIBLE_LINE_BYTES[1] or line_bytes & (line_bytes - 1):
        return None
    return max(1.0, spacing / line_bytes)


def find_plateaus(samples: Sequence[CurvePoint]) -> list[Plateau]:
    """Plateaus from the smallest working set up: stretches of at least an octave on which nothing but noise moves the latency.

    A point far slower than a larger one was disturbed; in such a curve each counts as no slower than any larger one.
    The longest stretch within 10% of its own median is taken first, then the longest on either side of it, and so on, so that
    a ramp's end cannot claim the level it leads to. Each is then trimmed at both ends to what the curve's own noise explains.
    A stretch counts where the noise of the curve, or of the points around it, is less than those 10%: in more noise a few
    neighbours that agree by chance are no level, and memory in scattered pages says nothing of the nearest cache.
    Where the clock's cycles are known they are compared instead of ns, so that a change of frequency makes no knee; unless the
    readings of the clock are what makes them noisy, as on a busy host.
    """
    values = [s.ns for s in samples]
    noise = _noise(values)
    cycles = [s.cycles for s in samples if s.cycles]
    if len(cycles) == len(values) and _noise(cycles) <= max(
        MAX_CYCLES_NOISE_RATIO * noise, MIN_PLATEAU_RELATIVE_TOLERANCE / PLATEAU_NOISE_SIGMAS
    ):
        values, noise = cycles, _noise(cycles)
    tolerance = min(MAX_PLATEAU_RELATIVE_SPREAD, max(MIN_PLATEAU_RELATIVE_TOLERANCE, PLATEAU_NOISE_SIGMAS * noise))
    least = undisturbed_values(values)
    # where some points were seen to be disturbed, so may the one be that seems to end a level
    disturbed = (
        max((value / low for value, low in zip(values, least, strict=True)), default=1.0) > 1 + MAX_PLATEAU_RELATIVE_SPREAD
    )
    used, off = (least, 1 + MAX_DISTURBANCE_RELATIVE_EXCESS) if disturbed else (values, 0.0)  # 0: the next point is off it
    return [
        _plateau_of_range(samples, used, off, start, end)
        for start, end in _flat_ranges(samples, used, tolerance, 0, len(samples))
        if min(noise, _noise_around(values, start, end)) <= MAX_PLATEAU_RELATIVE_SPREAD
    ]


def nearest_cache(samples: Sequence[CurvePoint]) -> Plateau | None:
    """The plateau of the nearest cache: the first one, where it begins at sets that every first cache holds. In a curve that is
    too noisy for plateaus it is these sets themselves, where their latencies agree; None where they do not."""
    found = next(iter(find_plateaus(samples)), None)
    if found is not None and found.first_bytes <= SURELY_NEAREST_BYTES:
        return found
    small = [s for s in samples if s.array_bytes <= SURELY_NEAREST_BYTES]
    values = [s.ns for s in small]
    if len(small) < MIN_NEAREST_POINTS or max(values) > MAX_NEAREST_RATIO * min(values):
        return None
    return _plateau_of_range(samples, [s.ns for s in samples], 0.0, 0, len(small) - 1)


def has_settled(samples: Sequence[CurvePoint], floor_bytes: int) -> bool:
    """True if the last plateau is memory, by `why_not_memory`: it reaches to the largest set, and a knee lies before it. A
    curve without a knee has not settled: every memory has at least one cache before it, or the sweep has not left it yet."""
    found = find_plateaus(samples)
    if len(found) < 2 or found[-1].last_bytes != samples[-1].array_bytes:
        return False
    last = found[-1]
    return not why_not_memory(found[-2].last_bytes, last.first_bytes, last.last_bytes, floor_bytes)


def why_not_memory(knee_bytes: float, first_bytes: float, last_bytes: float, floor_bytes: int) -> str:
    """Why the level at the end of a latency curve may not be called memory, "" where it may: the one rule for every command.

    It is flat from `first_bytes` to `last_bytes`, the largest working set there is, for two octaves; that is four times the
    last size on the level before, `knee_bytes`; and `floor_bytes`, since a large last cache is a long plateau too: the sets
    must exceed what such a cache can hold.
    """
    if last_bytes < floor_bytes:
        return (
            f"the largest working set is {last_bytes / MIB:.4g} MiB, which the caches that the device claims or may have could "
            f"hold: {floor_bytes / MIB:.4g} MiB would show memory"
        )
    if math.log2(last_bytes / first_bytes) < MIN_SETTLED_OCTAVES - 0.01:
        return f"its latency is the same for less than {MIN_SETTLED_OCTAVES:.0f} octaves of working sets"
    if last_bytes < MIN_SETTLED_KNEE_RATIO * knee_bytes:
        return f"the largest working set is less than {MIN_SETTLED_KNEE_RATIO:.0f} times what the level before holds"
    return ""


def memory_floor_bytes(info: DeviceInfo) -> int:
    """The working set in bytes that a latency sweep must exceed before a plateau may be called memory: four times the cache
    that the driver claims.

    Claims can be far too small (GPUs' leave out their last level), so it is also at least 512 MiB on GPUs, twice the largest
    last level there is (256 MiB), and 128 MiB on CPUs, whose claims come from the operating system.
    """
    return max(CLAIMED_CACHES_RATIO * info.cache_bytes, (128 if info.kind == "cpu" else 512) * MIB)


def _noise(values: Sequence[float]) -> float:
    """The relative noise of a curve that is mostly flat: from how far points lie from the middle of their neighbours."""
    if any(value <= 0 for value in values):
        return math.inf
    triples = zip(values, values[1:], values[2:], strict=False)
    return noise_of_deviations((abs(math.log(b) - (math.log(a) + math.log(c)) / 2) for a, b, c in triples), 0.0)


def _noise_around(values: Sequence[float], start: int, end: int) -> float:
    """The noise of the points on and around a stretch, as many before it as after it where the curve has them."""
    more = max(0, POINTS_OF_NOISE - (end - start + 1))
    before = min(start, max((more + 1) // 2, more - (len(values) - 1 - end)))
    return _noise(values[start - before : end + 1 + more - before])


def _flat_ranges(
    samples: Sequence[CurvePoint], values: Sequence[float], tolerance: float, first: int, stop: int
) -> list[tuple[int, int]]:
    """(start, end) of the plateaus among samples first..stop-1, both inclusive, in order."""
    found = [(start, _flat_range_end(values, start, stop)) for start in range(first, stop)]
    start, end = max(found, key=lambda s: _range_octaves(samples, *s), default=(first, first - 1))
    if end < start or _range_octaves(samples, start, end) < MIN_PLATEAU_OCTAVES - 0.01:
        return []
    left = _flat_ranges(samples, values, tolerance, first, start)
    right = _flat_ranges(samples, values, tolerance, end + 1, stop)
    inner = _trimmed_range(values, start, end, tolerance)
    own = [inner] if _range_octaves(samples, *inner) >= MIN_PLATEAU_OCTAVES - 0.01 else []
    return [*left, *own, *right]


def _flat_range_end(values: Sequence[float], start: int, stop: int) -> int:
    """The last index from `start` up to which all values stay within 10% of their own median."""
    part = [values[start]]  # in order
    for end in range(start + 1, stop):
        insort(part, values[end])
        median = part[len(part) // 2]
        if part[0] < median * (1 - MAX_PLATEAU_RELATIVE_SPREAD) or part[-1] > median * (1 + MAX_PLATEAU_RELATIVE_SPREAD):
            return end - 1
    return stop - 1


def _trimmed_range(values: Sequence[float], start: int, end: int, tolerance: float) -> tuple[int, int]:
    """The stretch without points at its ends that lie further from its median than noise explains: the furthest go first, so
    that a ramp which leads to a level does not move the median by which the other end is judged."""
    while start < end:
        median = sorted(values[start : end + 1])[(end - start + 1) // 2]
        first, last = (abs(math.log(values[place] / median)) for place in (start, end))
        if max(first, last) <= tolerance:
            break
        start, end = (start + 1, end) if first >= last else (start, end - 1)
    return start, end


def _range_octaves(samples: Sequence[CurvePoint], start: int, end: int) -> float:
    return math.log2(samples[end].array_bytes / samples[start].array_bytes)


def _plateau_of_range(samples: Sequence[CurvePoint], values: Sequence[float], off: float, start: int, end: int) -> Plateau:
    part = samples[start : end + 1]
    middle = sorted(values[start : end + 1])[(end - start) // 2]
    left = next((n for n in range(end + 1, len(samples)) if values[n] > off * middle), None)
    ns = sorted(s.ns for s in part)
    cycles = sorted(s.cycles for s in part if s.cycles)
    median = ns[len(ns) // 2]
    # the interval spans the plateau's own points, which differ by more than one point's repeats do
    low, high = min(s.low for s in part), max(s.high for s in part)
    return Plateau(
        ns=median,
        low=low,
        high=high,
        cycles=cycles[len(cycles) // 2] if cycles else None,
        first_bytes=part[0].array_bytes,
        last_bytes=part[-1].array_bytes,
        next_bytes=samples[left].array_bytes if left is not None else None,
        evidence=tuple(name for s in part for name in s.evidence),
    )


def memory_latency(curve: Sequence[CurvePoint], info: DeviceInfo, why_empty: str = NO_LATENCY) -> Finding:
    """Load-to-use latency of memory in ns, from a latency curve over working sets; undetermined where it has no point, which
    `why_empty` explains, or has not come to memory."""
    method = "pointer chase, the settled end of its curve"
    if not curve:
        return replace(undetermined_finding("latency_ns", why_empty, method), unit="ns")
    if not has_settled(curve, memory_floor_bytes(info)):
        return replace(undetermined_finding("latency_ns", "the latency curve has not settled at memory", method), unit="ns")
    last = find_plateaus(curve)[-1]
    return measured_finding("latency_ns", last.ns, method, last.evidence, last.low, last.high, "ns")
