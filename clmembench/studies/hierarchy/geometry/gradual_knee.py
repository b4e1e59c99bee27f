"""The size of a level whose misses begin early and grow slowly, as far as the latency curve tells it. Pure."""

from __future__ import annotations

from clmembench.model import Finding
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.geometry.level_geometry import CLOSE_RELATIVE_BOUNDS
from clmembench.studies.hierarchy.probes import random_pages

RAMP_METHOD = "share of misses over growing working sets, as of pages in random frames"
MAX_RAMP_SHARE = 0.95  # of the way to a miss: points beyond carry no information on a ramp
MAX_MISS_TO_HIT_RATIO = 10  # a level behind which a miss costs more may hide another one


def soft_end(curve: LatencyCurve, step: CurveStep, page_bytes: int, first: int) -> dict[str, Finding]:
    """A level whose misses begin early, at `first` bytes, and grow slowly: pages fall into it by chance, or a hash decides."""
    why = "lines fall into random sets, as under physical pages or a hash: no stride stays in one set"
    ramp, evidence = None, curve.cited(step.fits_bytes, step.gone_bytes)
    if page_bytes and step.miss < MAX_MISS_TO_HIT_RATIO * step.hit:
        points = [
            (size, (value - step.hit) / (step.miss - step.hit))
            for size, value in zip(curve.sizes, curve.values, strict=True)
            if step.fits_bytes <= size and value < step.hit + MAX_RAMP_SHARE * (step.miss - step.hit)
        ]
        ramp = random_pages.fit_ramp(points, page_bytes, first, 8 * first)
    if ramp is None:
        reason = "misses begin there and grow slowly, not as they do of pages in random frames alone"
        size = undetermined_finding("size_bytes", reason, RAMP_METHOD, evidence, first)
    elif ramp.high - ramp.low > CLOSE_RELATIVE_BOUNDS * ramp.high:
        reason = f"misses suit sizes from {ramp.low:.0f} to {ramp.high:.0f} B under LRU, and others under other policies"
        size = undetermined_finding("size_bytes", reason, RAMP_METHOD, evidence, first)
    else:
        size = measured_finding("size_bytes", ramp.best, RAMP_METHOD, evidence, ramp.low, ramp.high)
    return {"size_bytes": size, **{name: undetermined_finding(name, why) for name in ("line_bytes", "ways", "sets", "policy")}}
