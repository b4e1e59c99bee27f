"""Concurrency required by Little's law, against the concurrency that saturates a device. Pure."""

from __future__ import annotations

from clmembench.analysis.little import Estimate, needed_bytes
from clmembench.model import Finding

METHOD = "Little's law: unloaded latency x bandwidth; loaded latency is longer, so this is a lower bound"
SLACK = 0.9  # saturation means 95% of the best rate, which takes 95% of the bytes


def needed(latency_ns: Finding, bandwidth_gb_s: Finding, share: float = 1.0) -> Finding:
    """Bytes that must be in flight over the whole device. `share` is the part of the bandwidth that waits for loads: half of a
    copy's. Undetermined if the latency or the bandwidth is. Source: Little 1961; Mei & Chu 2015, section 6.1."""
    evidence = (*latency_ns.evidence, *bandwidth_gb_s.evidence)
    for finding in (latency_ns, bandwidth_gb_s):
        estimate = _estimate(finding)
        if estimate is None:
            why = finding.reason or f"{finding.name} has no interval above 0"
            return Finding("needed_bytes", None, None, None, "B", "undetermined", METHOD, evidence, why)
    latency, rate = _estimate(latency_ns), _estimate(bandwidth_gb_s)
    assert latency is not None and rate is not None
    least = needed_bytes(latency, rate.times(Estimate.exact(share)))
    return Finding("needed_bytes", least.value, least.low, least.high, "B", "ok", METHOD, evidence)


def against(need: Finding, saturating: Finding) -> Finding:
    """Bytes in flight at saturation over those required by Little's law: about 1 if latency hardly grows under load, more if it
    does. Below 1 by more than noise the two are inconsistent, since the law is a lower bound."""
    name, method = "found_over_needed", "bytes in flight at saturation / bytes required by Little's law"
    evidence = (*need.evidence, *saturating.evidence)
    for finding in (need, saturating):
        if finding.value is None or finding.low is None or finding.high is None or isinstance(finding.value, str):
            return Finding(name, None, None, None, "", "undetermined", method, evidence, finding.reason)
    assert need.low and need.high and saturating.high is not None and saturating.low is not None
    assert isinstance(saturating.value, float | int) and isinstance(need.value, float | int)
    value, low, high = saturating.value / need.value, saturating.low / need.high, saturating.high / need.low
    if high < SLACK:
        why = f"{saturating.name} is {high:.2g} times the requirement of Little's law at most: a latency or a count is wrong"
        return Finding(name, None, low, high, "", "inconsistent", method, evidence, why)
    return Finding(name, value, low, high, "", "ok", method, evidence)


def _estimate(finding: Finding) -> Estimate | None:
    if not isinstance(finding.value, int | float) or finding.low is None or finding.high is None:
        return None
    try:
        return Estimate(float(finding.value), finding.low, finding.high)
    except ValueError:
        return None
