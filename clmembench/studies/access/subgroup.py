"""Verdicts on each memory under simultaneous work-items: broadcast, parallel access, alignment, consecutive access. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.model import Finding, Value
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.access.effect import (
    BoundedRatio,
    bounded_ratio,
    first_value,
    impact_verdict,
    support_verdict,
    values_with,
)

SUBGROUP_BENCHMARK = "subgroup"
# Thresholds and limits, each with its reason
MIN_SERIAL_TIME_SHARE = (
    0.8  # of the time of work-items run one after another: from there on they count as run one after another
)
SINGLE_LOAD_PARAMETERS: Mapping[str, Value] = {"pattern": "consecutive", "degree": 1, "shift_bytes": 0, "items": 1, "groups": 1}
MIN_SECOND_PASS_RATIO = 2.0  # times as long as one word: below, one pass serves a sub-group
WORK_ITEMS_ARE_SERIAL = "the work-items of a sub-group run one after another here"
MEMORY_ORDER = ("register", "private", "local", "constant", "constant_array", "global", "global_cg", "image")


@dataclass(frozen=True, slots=True)
class MemoryVerdicts:
    """Verdicts on one memory. `one`, `many` and `all_same` are load latencies of one work-item, of a sub-group on distinct
    words, and of a sub-group on one word. `verdicts` are findings by name: broadcast, parallel, and the cost of unaligned and
    of non-consecutive words, in one group and, as aligned_loaded and consecutive_loaded, in several at the same time."""

    name: str
    one: Derived | None
    many: Derived | None
    all_same: Derived | None
    verdicts: Mapping[str, Finding]


def sub_group_width_of(values: Sequence[Derived]) -> int:
    """Work-items that a run measured as a sub-group; 0 where it holds no such points."""
    return max((int(v.params["degree"]) for v in values if v.benchmark == SUBGROUP_BENCHMARK), default=0)


def memory_verdicts(values: Sequence[Derived]) -> list[MemoryVerdicts]:
    """Fang's table 2 for the device of these values: one entry per memory, nearest first, without memories that have no value.

    If an operation on registers takes a sub-group as many times longer as it has work-items, these run one after another, and
    simultaneous access has no meaning: broadcast and parallel access are then `not applicable`."""
    wide = sub_group_width_of(values)
    if wide < 2:
        return []
    taking = work_items_are_serial(values, wide)
    return [found for name in MEMORY_ORDER if (found := _verdicts_of_memory(values, name, wide, taking)) is not None]


def serial_ratio(values: Sequence[Derived]) -> BoundedRatio | None:
    """Time of an operation on registers by a whole sub-group over that by one work-item; None if unknown."""
    wide = sub_group_width_of(values)
    return bounded_ratio(_load_value(values, "register", wide), _load_value(values, "register", 1))


def work_items_are_serial(values: Sequence[Derived], wide: int) -> tuple[bool | None, BoundedRatio | None]:
    """True if a sub-group's work-items run one after another, None where that is unknown, and the ratio it rests on."""
    serial = serial_ratio(values)
    if serial is None:
        return None, None
    if serial.low >= MIN_SERIAL_TIME_SHARE * wide:
        return True, serial
    return (False if serial.high < MIN_SECOND_PASS_RATIO else None), serial


def _load_value(values: Sequence[Derived], memory: str, items: int, **changes: Value) -> Derived | None:
    return first_value(values, SUBGROUP_BENCHMARK, memory=memory, **{**SINGLE_LOAD_PARAMETERS, "items": items, **changes})


def _verdicts_of_memory(
    values: Sequence[Derived], name: str, wide: int, taking: tuple[bool | None, BoundedRatio | None]
) -> MemoryVerdicts | None:
    one, many = _load_value(values, name, 1), _load_value(values, name, wide)
    if not values_with(values, SUBGROUP_BENCHMARK, memory=name):
        return None
    same = _load_value(values, name, wide, degree=wide)
    verdicts = {}
    if name != "register":
        # the work-items' copies of a private array lie side by side at the same index
        own = same if name == "private" else many
        verdicts["parallel"] = _served_at_once_finding("parallel", bounded_ratio(own, one), taking)
        if name != "private":
            verdicts["broadcast"] = _served_at_once_finding("broadcast", bounded_ratio(same, one), taking)
            for kept, patterns in (("aligned", ("shifted", "permuted")), ("consecutive", ("scattered",))):
                pairs = list(_pattern_ratios(values, name, wide, patterns))
                verdicts[kept] = _pattern_cost_finding(kept, [pair[1:] for pair in pairs if pair[0] == 1])
                verdicts[f"{kept}_loaded"] = _pattern_cost_finding(
                    f"{kept}_loaded", [pair[1:] for pair in pairs if pair[0] > 1]
                )
    return MemoryVerdicts(name, one, many, same, verdicts)


def _served_at_once_finding(name: str, found: BoundedRatio | None, both: tuple[bool | None, BoundedRatio | None]) -> Finding:
    """Verdict on whether many work-items are served like one."""
    taking, register = both
    method = f"{name}: a sub-group's time for a load over one work-item's"
    if taking:
        assert register is not None
        reason = f"{WORK_ITEMS_ARE_SERIAL}: an operation on registers takes them {register.value:.3g} times as long as one"
        return measured_finding(name, "not applicable", f"{method}; {reason}", register.evidence)
    if found is None:
        return undetermined_finding(name, "a point that it needs has no value in this run", method)
    verdict = support_verdict(found)
    reason = ""
    if taking is None and verdict != "supported":
        verdict, reason = "undetermined", "unknown whether work-items run one after another, which would take as long"
    elif verdict == "undetermined":
        reason = f"{found.low:.3g} to {found.high:.3g} times: a quieter run, or more samples, would decide"
    return _ratio_finding(name, verdict, found, method, reason)


def _pattern_ratios(
    values: Sequence[Derived], name: str, wide: int, patterns: Sequence[str]
) -> Iterator[tuple[int, str, BoundedRatio]]:
    """Ratios of these patterns to consecutive access by as many work-items: number of groups, name and ratio."""
    for point in values_with(values, SUBGROUP_BENCHMARK, memory=name):
        pattern, items, groups = (point.params[n] for n in ("pattern", "items", "groups"))
        if pattern in patterns and isinstance(items, int) and isinstance(groups, int) and items >= wide:
            plain = first_value(
                values, SUBGROUP_BENCHMARK, memory=name, **{**SINGLE_LOAD_PARAMETERS, "items": items, "groups": groups}
            )
            ratio = bounded_ratio(point, plain)
            if ratio is not None:
                yield groups, f"{pattern}, {items} work-items x {groups}", ratio


def _pattern_cost_finding(name: str, pairs: Sequence[tuple[str, BoundedRatio]]) -> Finding:
    """The worst of several comparisons: none only where all are."""
    method = f"{name}: time of a load over that of a consecutive, aligned one by as many work-items; the worst of {len(pairs)}"
    if not pairs:
        return undetermined_finding(name, "no pair of points that it needs has values in this run", method)
    verdicts = {label: impact_verdict(found) for label, found in pairs}
    label, worst = max(pairs, key=lambda pair: pair[1].low)
    method = f"{method}: {label}"
    if verdicts[label] == "large":
        return _ratio_finding(name, "large", worst, method)
    label, worst = max(pairs, key=lambda pair: pair[1].high)
    method = f"{method.rpartition(': ')[0]}: {label}"
    if "undetermined" in verdicts.values():
        return _ratio_finding(name, "undetermined", worst, method, f"{label}: {worst.low:.3g} to {worst.high:.3g} times")
    kind = next((kind for kind in ("small", "at most small") if kind in verdicts.values()), "none")
    return _ratio_finding(name, kind, worst, method)


def _ratio_finding(name: str, verdict: str, found: BoundedRatio, method: str, reason: str = "") -> Finding:
    """A verdict with the ratio it is from as its bounds."""
    method = f"{method}; {found.value:.3g} times"
    if verdict == "undetermined":
        return undetermined_finding(name, reason, method, found.evidence, found.low, found.high)
    return measured_finding(name, verdict, method, found.evidence, found.low, found.high)


def latency_exponent(values: Sequence[Derived], memory: str) -> BoundedRatio | None:
    """Slope of the logarithm of a sub-group's time on that of the distinct words it reads, over their last two doublings.

    0 if all are served at once, 1 if one after another; None for fewer than four work-items."""
    wide = sub_group_width_of(values)
    plain = values_with(values, SUBGROUP_BENCHMARK, memory=memory, items=wide, groups=1, pattern="consecutive")
    points = {wide // int(v.params["degree"]): v for v in plain}
    few, most = wide // 4, wide
    grown = bounded_ratio(points.get(most), points.get(few))
    if grown is None or few < 1:
        return None
    steps = math.log(most / few)
    ends = tuple(math.log(max(n, 1e-9)) / steps for n in (grown.value, grown.low, grown.high))
    return BoundedRatio(ends[0], ends[1], ends[2], grown.evidence)


def cycles_per_further_word(values: Sequence[Derived], memory: str) -> BoundedRatio | None:
    """Cycles that every further distinct word adds to a sub-group's time for a load; None where the clock is not known."""
    wide = sub_group_width_of(values)
    most, one = _load_value(values, memory, wide), _load_value(values, memory, wide, degree=wide)
    if most is None or one is None or not most.status == one.status == "ok":
        return None
    bounds = [most.cycles, one.cycles, most.cycles_low, one.cycles_high, most.cycles_high, one.cycles_low]
    if any(n is None for n in bounds):
        return None
    a = [float(n) for n in bounds if n is not None]
    n = wide - 1
    return BoundedRatio((a[0] - a[1]) / n, (a[2] - a[3]) / n, (a[4] - a[5]) / n, (*most.evidence, *one.evidence))
