"""Concurrency required by Little's law, against the concurrency that saturates a device. Pure."""

from __future__ import annotations

from clmembench.analysis.little import Estimate, needed_bytes
from clmembench.model import Finding

METHOD = "Little's law: latency of one access alone x bandwidth; under load it is longer, so this is the least"
SLACK = 0.9  # what saturates is what reaches 95% of the best rate, and so takes 95% of the bytes


def needed(latency_ns: Finding, bandwidth_gb_s: Finding, share: float = 1.0) -> Finding:
    """Bytes that must be in flight over the whole device; `share` of the bandwidth is what the latency speaks of, a half of a
    copy's. Undetermined where either is, for its reason. Source: Little 1961; Mei & Chu 2015, section 6.1."""
    evidence = (*latency_ns.evidence, *bandwidth_gb_s.evidence)
    for finding in (latency_ns, bandwidth_gb_s):
        estimate = _estimate(finding)
        if estimate is None:
            why = finding.reason or f"{finding.name} has no interval above 0"
            return Finding("needed_bytes", None, None, None, "B", "undetermined", METHOD, evidence, why)
    latency, rate = _estimate(latency_ns), _estimate(bandwidth_gb_s)
    assert latency is not None and rate is not None
    found = needed_bytes(latency, rate.times(Estimate.exact(share)))
    return Finding("needed_bytes", found.value, found.low, found.high, "B", "ok", METHOD, evidence)


def against(need: Finding, saturating: Finding) -> Finding:
    """How many times the bytes that Little's law asks for saturate the device: about 1 where latency hardly grows under load,
    more where it does; under 1 by more than noise the two are inconsistent, since the law cannot be undercut."""
    name, method = "found_over_needed", "bytes in flight that saturate / bytes that Little's law asks for"
    evidence = (*need.evidence, *saturating.evidence)
    for finding in (need, saturating):
        if finding.value is None or finding.low is None or finding.high is None or isinstance(finding.value, str):
            return Finding(name, None, None, None, "", "undetermined", method, evidence, finding.reason)
    assert need.low and need.high and saturating.high is not None and saturating.low is not None
    assert isinstance(saturating.value, float | int) and isinstance(need.value, float | int)
    value, low, high = saturating.value / need.value, saturating.low / need.high, saturating.high / need.low
    if high < SLACK:
        why = f"{saturating.name} is {high:.2g} times what Little's law asks for at most: a latency or a count is wrong"
        return Finding(name, None, low, high, "", "inconsistent", method, evidence, why)
    return Finding(name, value, low, high, "", "ok", method, evidence)


def _estimate(finding: Finding) -> Estimate | None:
    if not isinstance(finding.value, int | float) or finding.low is None or finding.high is None:
        return None
    try:
        return Estimate(float(finding.value), finding.low, finding.high)
    except ValueError:
        return None
