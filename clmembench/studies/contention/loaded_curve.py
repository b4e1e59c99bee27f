"""Latency over achieved bandwidth, from the points of loaded_latency, and the bandwidth at twice the unloaded latency. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived
from clmembench.model import Finding, Record
from clmembench.model.findings import measured_finding, undetermined_finding

UNLOADED = "none"  # the traffic of the point without any
LATENCY_RATIO = 2.0  # times the unloaded latency, at which bandwidths are compared
METHOD = (
    "interpolated between the two points of loaded_latency about twice the unloaded latency; up to the bandwidth of the "
    "farther one, since latency rises ever faster"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LoadedPoint:
    """Latency in ns at a traffic and its achieved bandwidth in GB/s, of which an idle device has none."""

    traffic: str
    spins: int
    latency: Interval
    bandwidth: Interval
    evidence: tuple[str, ...]


def loaded_points(values: Sequence[Derived]) -> list[LoadedPoint]:
    """The good points of loaded_latency that have intervals, by traffic, from idle to full rate."""
    points = []
    for v in values:
        if v.benchmark != "loaded_latency" or v.status != "ok" or v.median is None or v.ci_low is None or v.ci_high is None:
            continue
        traffic, spins = str(v.params["traffic"]), int(v.params["spins"])
        bandwidth = achieved_bandwidth(v.sampled[1] if v.sampled else ())
        if traffic == UNLOADED:
            bandwidth = Interval(0.0, 0.0, 0.0)
        if bandwidth is not None:
            points.append(LoadedPoint(traffic, spins, Interval(v.median, v.ci_low, v.ci_high), bandwidth, v.evidence))
    return sorted(points, key=lambda p: (p.traffic, -p.spins))


def achieved_bandwidth(records: Sequence[Record]) -> Interval | None:
    """GB/s of the streams: bytes of the slope's extra batches in its extra time; None without enough samples of both."""
    rates = []
    for record in records:
        if len(record.series) != 2 or any("streamed" not in series.reads for series in record.series):
            continue
        near, far = sorted(record.series, key=lambda series: series.ops)
        size = record.facts.get("batch_bytes")
        made = [series.reads["streamed"].unpack().sum(axis=1, dtype=np.int64) for series in (near, far)]
        extra = zip(*made, near.times_ns(), far.times_ns(), strict=False)
        rates.append([int(size) * float(b - a) / (u - t) for a, b, t, u in extra if u > t] if isinstance(size, int) else [])
    if not any(rates):
        return None
    found = stats.pool(rates)
    return Interval(found.median, max(0.0, found.low), found.high) if np.isfinite(found.low) else None


def bandwidth_at_twice(points: Sequence[LoadedPoint], traffic: str) -> Finding:
    """Bandwidth of a traffic at which latency is twice the unloaded one; undetermined where the curve does not reach it."""
    name = "gb_s_at_twice_the_latency"
    idle = next((p for p in points if p.traffic == UNLOADED), None)
    curve = [p for p in points if p.traffic == traffic]
    if idle is None or not curve:
        return undetermined_finding(name, "the unloaded latency or the points of this traffic are missing", METHOD)
    evidence = tuple(dict.fromkeys(e for p in (idle, *curve) for e in p.evidence))
    limit = LATENCY_RATIO * idle.latency.value
    path = [idle, *curve]
    crossing = next((n for n in range(1, len(path)) if path[n].latency.value >= limit), None)
    most = max(p.bandwidth.high for p in curve)
    if crossing is None or path[crossing].latency.low < LATENCY_RATIO * idle.latency.high:
        ratio = max(p.latency.high for p in curve) / idle.latency.value
        reason = f"latency does not surely reach {LATENCY_RATIO:g} times the unloaded one: {ratio:.2f} times at most"
        return undetermined_finding(name, reason, METHOD, evidence)
    before, after = path[crossing - 1], path[crossing]
    if after.bandwidth.value < before.bandwidth.low:
        reason = "bandwidth falls while latency passes twice the unloaded one: no bandwidth has that latency"
        return undetermined_finding(name, reason, METHOD, evidence, high=most)
    ends = [
        _interpolate(LATENCY_RATIO * base, a, b, x, y)
        for base, a, b, x, y in (
            (idle.latency.value, before.latency.value, after.latency.value, before.bandwidth.value, after.bandwidth.value),
            (idle.latency.low, before.latency.high, after.latency.high, before.bandwidth.low, after.bandwidth.low),
        )
    ]
    return measured_finding(name, ends[0], METHOD, evidence, min(ends), max(after.bandwidth.high, ends[0]), "GB/s")


def _interpolate(limit: float, a: float, b: float, x: float, y: float) -> float:
    """Bandwidth at a latency on the line from (a, x) to (b, y), within its ends."""
    share = (limit - a) / (b - a) if b > a else 1.0
    return x + min(1.0, max(0.0, share)) * (y - x)
