"""Levels of a latency curve: plateaus, the knees between them, and whether the curve has settled. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clmembench import derive
from clmembench.model import DeviceInfo, Metric, Record

FLAT = 0.10  # a plateau's values lie within this fraction of its own median
OCTAVES = 1.0  # a plateau is at least this long
SETTLED_OCTAVES = 2.0
BEYOND_KNEE = 4.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of a curve: working set in bytes, latency with its 95% interval in ns, and in cycles where known."""

    array_bytes: int
    ns: float
    low: float
    high: float
    cycles: float | None = None


@dataclass(frozen=True, slots=True)
class Plateau:
    """A stretch of constant latency: medians over its points, least and greatest working set on it, and where it ends.

    The level below ends between `last_bytes` (still on the plateau) and `next_bytes` (clearly off it; None: it was not left).
    """

    ns: float
    low: float
    high: float
    cycles: float | None
    first_bytes: int
    last_bytes: int
    next_bytes: int | None


def curve(records: Iterable[Record], metric: Metric, x: str) -> list[Sample]:
    """The measured points of one curve in order of working set; points without a usable value are left out."""
    grouped: dict[int, list[Record]] = {}
    for record in records:
        if record.status == "ok" and record.role == "measure":
            grouped.setdefault(int(record.params[x]), []).append(record)
    samples = []
    for size, group in sorted(grouped.items()):
        summary = derive.summarise(group, metric)
        if summary is not None and summary.low > 0 and math.isfinite(summary.high):
            cycles = derive.summarise(group, metric, in_cycles=True)
            samples.append(Sample(size, summary.median, summary.low, summary.high, cycles.median if cycles else None))
    return samples


def plateaus(samples: Sequence[Sample]) -> list[Plateau]:
    """Plateaus from the smallest working set up: longest stretches of at least an octave whose values lie within FLAT of their
    median. Where the clock's cycles are known they are compared instead of ns, so that a change of frequency makes no knee."""
    use_cycles = bool(samples) and all(s.cycles for s in samples)
    values = [float(s.cycles if use_cycles and s.cycles else s.ns) for s in samples]
    found: list[Plateau] = []
    start = 0
    while start < len(samples):
        end = _stretch(values, start)
        long_enough = math.log2(samples[end].array_bytes / samples[start].array_bytes) >= OCTAVES - 0.01
        if end > start and long_enough:
            found.append(_plateau(samples, start, end))
            start = end + 1
        else:
            start += 1
    return found


def settled(samples: Sequence[Sample], floor_bytes: int) -> bool:
    """Whether the last plateau is two octaves long, and the working set exceeds four times the last knee and `floor_bytes`.

    The floor is there because a large last-level cache is a long plateau too: it must exceed what such a cache can hold. A
    curve without a knee has not settled: every memory has at least one cache before it, or the sweep has not left it yet.
    """
    found = plateaus(samples)
    if len(found) < 2 or found[-1].next_bytes is not None:
        return False
    last = found[-1]
    return (
        math.log2(last.last_bytes / last.first_bytes) >= SETTLED_OCTAVES - 0.01
        and last.last_bytes >= BEYOND_KNEE * found[-2].last_bytes
        and last.last_bytes >= floor_bytes
    )


def floor_bytes(info: DeviceInfo) -> int:
    """What a latency sweep must exceed before a plateau may be called memory: four times the cache that the driver claims.

    Claims can be far too small (GPUs' leave out their last level), so it is also at least 512 MiB on GPUs, twice the largest
    last level there is (256 MiB), and 128 MiB on CPUs, whose claims come from the operating system.
    """
    return max(4 * info.cache_bytes, (128 if info.kind == "cpu" else 512) << 20)


def _stretch(values: Sequence[float], start: int) -> int:
    """The last index of the longest stretch from `start` that stays within FLAT of its own median."""
    end = start
    for stop in range(start + 1, len(values)):
        part = sorted(values[start : stop + 1])
        median = part[len(part) // 2]
        if part[0] < median * (1 - FLAT) or part[-1] > median * (1 + FLAT):
            break
        end = stop
    return end


def _plateau(samples: Sequence[Sample], start: int, end: int) -> Plateau:
    part = samples[start : end + 1]
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
        next_bytes=samples[end + 1].array_bytes if end + 1 < len(samples) else None,
    )
