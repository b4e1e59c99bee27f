"""Where a kernel's rate stops growing with its arithmetic intensity, and what lies below its own roof. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate
from clmembench.model import Finding
from clmembench.model.findings import measured_finding, undetermined_finding

PLATEAU_SHARE = 0.9  # of the best rate, from which on the rate no longer grows: the rest comes slowly, by ever fewer loads
MAX_LAST_GROWTH = 1.05  # of the last point over the one at half its intensity: with more the rate still grows
MIN_POINTS = 4
METHOD = f"the intensity at which the rate is {PLATEAU_SHARE:.0%} of the best, between the points about it, on logarithms"


@dataclass(frozen=True, slots=True)
class IntensityCurve:
    """Rates in GFLOP/s (of int Gop/s) by intensity in FLOP/B, in rising order, of one type and level."""

    dtype: str
    level: str
    points: tuple[tuple[float, Estimate], ...]
    evidence: tuple[str, ...]

    @property
    def best(self) -> Estimate:
        """The best rate."""
        return max((rate for _, rate in self.points), key=lambda rate: rate.value)

    @property
    def bandwidth(self) -> Estimate:
        """The best bandwidth in GB/s."""
        rates = [rate.times(Estimate.exact(1 / intensity)) for intensity, rate in self.points]
        return max(rates, key=lambda rate: rate.value)

    @property
    def ridge(self) -> Estimate:
        """Where the roofs of the best bandwidth and the best rate meet, in FLOP/B."""
        return self.best.times(self.bandwidth.inverse())

    def least_share(self) -> tuple[float, float]:
        """The least share of its own roof that a point reaches, and that point's intensity."""
        top, slope = self.best.value, self.bandwidth.value
        return min((rate.value / min(top, slope * intensity), intensity) for intensity, rate in self.points)


def intensity_curves(values: Sequence[Derived]) -> list[IntensityCurve]:
    """The curves of the good points of intensity that have intervals, in the order of their first points."""
    found: dict[tuple[str, str], list[tuple[float, Estimate, tuple[str, ...]]]] = {}
    for v in values:
        if v.benchmark != "intensity" or v.status != "ok" or not v.median or not v.ci_low or not v.ci_high:
            continue
        rate = Estimate(v.median, min(v.ci_low, v.median), max(v.ci_high, v.median))
        key = (str(v.params["dtype"]), str(v.params["level"]))
        found.setdefault(key, []).append((float(v.params["intensity"]), rate, v.evidence))
    curves = []
    for (dtype, level), points in found.items():
        points.sort(key=lambda point: point[0])
        evidence = tuple(dict.fromkeys(name for *_, names in points for name in names))
        curves.append(IntensityCurve(dtype, level, tuple((x, rate) for x, rate, _ in points), evidence))
    return curves


def knee(curve: IntensityCurve) -> Finding:
    """The intensity from which on the rate does not grow: between the last point surely below 90% of the best and the first
    surely above. Undetermined where it grows at the highest intensity, or not even at the lowest."""
    name, points = "knee_flop_per_byte", curve.points
    if len(points) < MIN_POINTS:
        return undetermined_finding(name, f"{len(points)} points have a value: at least {MIN_POINTS} are needed", METHOD)
    last, before = points[-1], points[-2]
    if last[1].low > MAX_LAST_GROWTH * before[1].high:
        reason = f"the rate still grows at {last[0]:g} FLOP/B"
        return undetermined_finding(name, reason, METHOD, curve.evidence, low=before[0])
    least, most = PLATEAU_SHARE * curve.best.low, PLATEAU_SHARE * curve.best.high
    above = next(n for n, (_, rate) in enumerate(points) if rate.value >= PLATEAU_SHARE * curve.best.value)
    if above == 0:
        reason = f"the rate is that of the plateau from {points[0][0]:g} FLOP/B on"
        return undetermined_finding(name, reason, METHOD, curve.evidence, high=points[0][0])
    low = max((x for x, rate in points if rate.high < least and x <= points[above - 1][0]), default=points[0][0])
    high = min((x for x, rate in points if rate.low >= most and x >= points[above][0]), default=last[0])
    (x, a), (y, b) = points[above - 1], points[above]
    share = math.log(PLATEAU_SHARE * curve.best.value / a.value) / math.log(b.value / a.value)
    value = x * (y / x) ** min(1.0, max(0.0, share))
    return measured_finding(name, value, METHOD, curve.evidence, low, high, "FLOP/B")
