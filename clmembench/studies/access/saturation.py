"""Bytes in flight that saturate memory, from copies over a grid of launches, and what Little's law needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate, needed_bytes
from clmembench.model import DeviceInfo, Finding
from clmembench.model.findings import measured_finding, undetermined_finding

# Thresholds and limits, each with its reason
MIN_SATURATED_RATE_SHARE = 0.95  # of the best rate: counts as reaching it
MIN_PLATEAU_IN_FLIGHT_RATIO = (
    1.5  # times the bytes in flight that seem to saturate: without points beyond, the rate may still grow
)
MIN_SHAPES = 8  # shapes: fewer do not cover groups, sizes and ILP
COPIED_WORD_BYTES = 4  # words that a work-item copies at once if its configuration has no `width`
SATURATION_METHOD = (
    f"copies over work-groups, their size and ILP: the least with {MIN_SATURATED_RATE_SHARE:.0%} of the best rate"
)
MAX_OTHER_CPU_SHARE = (
    0.1  # share of the host's CPUs used by other programs: above it a CPU's points depend on when they were measured
)
NOT_SATURATED = "not saturated: see saturating_bytes"
CPU_WORK_ITEMS_ARE_LOOPS = "on CPUs a work-group is a loop on a core: its work-items are not in flight at the same time"
LITTLE_METHOD = "Little's law: unloaded latency x bandwidth; loaded latency is longer, so this is a lower bound"
SLACK = 0.9  # saturation means 95% of the best rate, which takes 95% of the bytes


@dataclass(frozen=True, slots=True)
class SaturatingValue(Finding):
    """A finding on the smallest value that saturates: the configuration that reached it ("work-group x ILP x groups", "" where
    copies have none), and whether it is the smallest that was tried, so that a smaller one may suffice."""

    shape: str = ""
    is_smallest_tried: bool = False


@dataclass(frozen=True, slots=True)
class CopyShape:
    """One copy: its launch configuration, its rate in GB/s with interval, and an upper and a lower bound of the bytes in flight
    over the whole device, since the number of resident work-groups is unknown."""

    groups: int
    work_group: int
    ilp: int
    rate: float
    low: float
    high: float
    most_bytes: int
    least_bytes: float
    evidence: tuple[str, ...]


def copy_shapes(values: Sequence[Derived], compute_units: int) -> list[CopyShape]:
    """The good points of copy_grid that have an interval.

    At least one work-group is in flight on every compute unit that has one. The rate may prove more: n times the rate, at the
    same or a longer latency, takes n times the bytes in flight (Little's law)."""
    shapes = []
    for v in values:
        if v.benchmark != "copy_grid" or v.status != "ok" or v.median is None or v.ci_low is None or v.ci_high is None:
            continue
        groups, size, ilp = (int(v.params[name]) for name in ("groups", "work_group", "ilp"))
        width = v.tuning.get("width", 1)
        loaded = size * ilp * COPIED_WORD_BYTES * (width if isinstance(width, int) else 1)  # by a work-group
        most, least = groups * loaded, min(groups, compute_units) * loaded
        shapes.append(CopyShape(groups, size, ilp, v.median, v.ci_low, v.ci_high, most, least, v.evidence))
    return [
        replace(s, least_bytes=min(s.most_bytes, s.least_bytes * _work_groups_in_flight(s, shapes, compute_units)))
        for s in shapes
    ]


def _work_groups_in_flight(shape: CopyShape, among: Sequence[CopyShape], compute_units: int) -> float:
    """Lower bound of such work-groups in flight on each compute unit: the speed-up of copies, of any ILP, by that many groups
    over one group per unit."""
    alone = {s.ilp: s for s in among if s.work_group == shape.work_group and s.groups == compute_units}
    several = [s for s in among if s.work_group == shape.work_group and compute_units < s.groups <= shape.groups]
    return max((s.low / alone[s.ilp].high for s in several if s.ilp in alone), default=1.0)


def saturation_findings(values: Sequence[Derived], info: DeviceInfo) -> dict[str, Finding]:
    """Findings by name on what reaches 95% of copy_grid's best rate.

    best_gb_s; saturating_bytes, the fewest bytes in flight over the whole device (loads; the stores follow), bracketed by the
    most that are clearly too few and the fewest that clearly suffice; saturating_work_group, _ilp and _groups_per_unit, each
    the smallest tried value that suffices with any values of the others; shown_bytes, a lower bound of the bytes that were in
    flight at once. If the rate still grows at the largest configuration, they are undetermined. Source: Mei & Chu 2015, section
    5.1."""
    tried = copy_shapes(values, info.compute_units)
    names = {"saturating_bytes": "B", "saturating_work_group": "work-items", "saturating_ilp": "words",
             "saturating_groups_per_unit": "work-groups"}  # fmt: skip
    if len(tried) < MIN_SHAPES:
        reason = f"{len(tried)} of copy_grid's points have a value: at least {MIN_SHAPES} are needed"
        return {name: replace(undetermined_finding(name, reason, SATURATION_METHOD), unit=unit) for name, unit in names.items()}
    cpu, best = info.has_cpu_cores, max(tried, key=lambda s: s.rate)
    text, ids = "the fastest copy of the grid, reads and writes", _evidence_of_shapes([best])
    findings = {"best_gb_s": measured_finding("best_gb_s", best.rate, text, ids, best.low, best.high, "GB/s")}
    why = "" if cpu else _why_no_plateau(tried, best)
    findings["saturating_bytes"] = _saturating_bytes_finding(tried, best, why, info)
    each: dict[str, Callable[[CopyShape], float]] = {
        "saturating_work_group": lambda s: s.work_group,
        "saturating_ilp": lambda s: s.ilp,
        "saturating_groups_per_unit": lambda s: s.groups / info.compute_units,
    }
    unsure = (NOT_SATURATED if why else "") or (_why_host_is_busy(values) if cpu else "")
    for name, of in each.items():
        findings[name] = _smallest_value_finding(name, of, tried, best, unsure)
    if not cpu:
        most = max(tried, key=lambda s: s.least_bytes)
        text, ids = (
            "bytes loaded at once by the work-groups that the rate proves to be in flight",
            _evidence_of_shapes([most]),
        )
        findings["shown_bytes"] = Finding("shown_bytes", most.least_bytes, most.least_bytes, None, "B", "ok", text, ids)
    return {name: replace(f, unit=names.get(name, f.unit)) for name, f in findings.items()}


def _why_host_is_busy(values: Sequence[Derived]) -> str:
    """Why a CPU's points are not comparable, "" where they are."""
    others = max((v.others for v in values if v.benchmark == "copy_grid"), default=0.0)
    return (
        f"other programs used up to {others:.0%} of the CPUs during the measurement: stop them"
        if others > MAX_OTHER_CPU_SHARE
        else ""
    )


def _why_no_plateau(tried: Sequence[CopyShape], best: CopyShape) -> str:
    """Why no plateau was seen, "" where one was."""
    enough, most = _fewest_bytes_that_saturate(tried, best).most_bytes, max(s.least_bytes for s in tried)
    if most >= MIN_PLATEAU_IN_FLIGHT_RATIO * enough:
        return ""
    return (
        f"not saturated: {MIN_SATURATED_RATE_SHARE:.0%} of the best rate takes up to {enough / 1e6:.3g} MB in "
        "flight, and no more than "
        f"{most / 1e6:.3g} MB were shown to be: the rate may still grow; name a larger ilp or work_group"
    )


def _fewest_bytes_that_saturate(tried: Sequence[CopyShape], best: CopyShape) -> CopyShape:
    """The shape with the fewest bytes in flight among those that reach that rate."""
    return min((s for s in tried if s.rate >= MIN_SATURATED_RATE_SHARE * best.rate), key=lambda s: s.most_bytes)


def _certainly_saturates(shape: CopyShape, best: CopyShape) -> bool:
    return shape is best or shape.low >= MIN_SATURATED_RATE_SHARE * best.high


def _may_saturate(shape: CopyShape, best: CopyShape) -> bool:
    return shape is best or shape.high >= MIN_SATURATED_RATE_SHARE * best.low


def _saturating_bytes_finding(tried: Sequence[CopyShape], best: CopyShape, why: str, info: DeviceInfo) -> Finding:
    """Bracketed by the most bytes in flight that are clearly too few and the fewest that clearly suffice. Only configurations
    that use every compute unit count as too few: with fewer units other limits apply."""
    name = "saturating_bytes"
    least = min(s.least_bytes for s in tried if _may_saturate(s, best))
    failed = [s for s in tried if not _may_saturate(s, best) and s.groups >= info.compute_units and s.least_bytes < least]
    low = max((s.least_bytes for s in failed), default=0.0)
    enough = _fewest_bytes_that_saturate(tried, best)
    sure = min((s for s in tried if _certainly_saturates(s, best)), key=lambda s: s.most_bytes)
    ids = _evidence_of_shapes([enough, sure, best, *(s for s in failed if s.least_bytes == low)])
    if info.has_cpu_cores:
        return undetermined_finding(name, CPU_WORK_ITEMS_ARE_LOOPS, SATURATION_METHOD, ids)
    if why:
        return undetermined_finding(name, why, SATURATION_METHOD, ids, low)
    return measured_finding(name, float(enough.most_bytes), SATURATION_METHOD, ids, low, float(sure.most_bytes), "B")


def _smallest_value_finding(
    name: str, of: Callable[[CopyShape], float], tried: Sequence[CopyShape], best: CopyShape, why: str
) -> Finding:
    """The smallest tried value with which a configuration saturates; the interval spans what noise leaves open."""
    reached = min((s for s in tried if s.rate >= MIN_SATURATED_RATE_SHARE * best.rate), key=of)
    sure, possible = (min((s for s in tried if test(s, best)), key=of) for test in (_certainly_saturates, _may_saturate))
    ids = _evidence_of_shapes([reached, sure, possible, best])
    if why:
        return undetermined_finding(name, why, SATURATION_METHOD, ids)
    first = of(reached) == min(map(of, tried))
    shape = f"{reached.work_group} x {reached.ilp} x {reached.groups}" if reached.groups else ""
    method = SATURATION_METHOD + "; the smallest that was tried" * first + (f"; with {shape}" if shape else "")
    found = measured_finding(name, of(reached), method, ids, of(possible), of(sure))
    own = {field.name: getattr(found, field.name) for field in fields(found)}
    return SaturatingValue(**own, shape=shape, is_smallest_tried=first)


def _evidence_of_shapes(points: Iterable[CopyShape]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for s in points for name in s.evidence))


def saturating_element(values: Sequence[Derived], sizes: Mapping[str, int]) -> Finding:
    """The fewest bytes per work-item whose copy in benchmark datatypes reaches 95% of the best type's rate; `sizes` has the
    bytes of each type. Source: Fang et al. 2017, section 6.3."""
    name, method = "saturating_element_bytes", f"copies by data type: the least with {MIN_SATURATED_RATE_SHARE:.0%} of the best"
    good = [v for v in values if v.benchmark == "datatypes" and v.status == "ok" and v.params["dtype"] in sizes]
    tried = [v for v in good if v.median is not None and v.ci_low is not None and v.ci_high is not None]
    if len(tried) < 2:
        return replace(undetermined_finding(name, "fewer than two types have a value", method), unit="B")
    rows = [
        CopyShape(0, 0, 0, v.median or 0.0, v.ci_low or 0.0, v.ci_high or 0.0, _bytes_per_work_item(v, sizes), 0.0, v.evidence)
        for v in tried
    ]
    best = max(rows, key=lambda s: s.rate)
    return replace(_smallest_value_finding(name, lambda s: s.most_bytes, rows, best, ""), method=method, unit="B")


def _bytes_per_work_item(value: Derived, sizes: Mapping[str, int]) -> int:
    """Bytes that a work-item copies, with the best number of elements."""
    elements = value.tuning.get("elements", 1)
    return sizes[str(value.params["dtype"])] * (elements if isinstance(elements, int) else 1)


def needed(latency_ns: Finding, bandwidth_gb_s: Finding, share: float = 1.0) -> Finding:
    """Bytes that must be in flight over the whole device. `share` is the part of the bandwidth that waits for loads: half of a
    copy's. Undetermined if the latency or the bandwidth is. Source: Little 1961; Mei & Chu 2015, section 6.1."""
    evidence = (*latency_ns.evidence, *bandwidth_gb_s.evidence)
    for finding in (latency_ns, bandwidth_gb_s):
        estimate = _estimate(finding)
        if estimate is None:
            why = finding.reason or f"{finding.name} has no interval above 0"
            return Finding("needed_bytes", None, None, None, "B", "undetermined", LITTLE_METHOD, evidence, why)
    latency, rate = _estimate(latency_ns), _estimate(bandwidth_gb_s)
    assert latency is not None and rate is not None
    least = needed_bytes(latency, rate.times(Estimate.exact(share)))
    return Finding("needed_bytes", least.value, least.low, least.high, "B", "ok", LITTLE_METHOD, evidence)


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
