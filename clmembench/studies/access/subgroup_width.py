"""Sub-group width, from the number of neighbours that must take the same branch to avoid the cost of divergence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clmembench.analysis.derive import Derived
from clmembench.model import DeviceInfo, Finding

FINDING_NAME = "sub_group_items"
WIDTH_METHOD = "cost of two branches, by the number of neighbours that take the same one"
# Thresholds and limits, each with its reason
MIN_BOTH_BRANCHES_RATIO = 1.6  # times: a sub-group that runs both branches takes 2 times as long
MAX_ONE_BRANCH_RATIO = 1.25  # times: a sub-group that runs one branch takes as long as where all take it
NO_LOCKSTEP = "work-items of a work-group do not run in lockstep: two branches cost as much as one"


@dataclass(frozen=True, slots=True)
class SubGroupWidth:
    """The measured width as a Finding in work-items (1: no lockstep), the ratio of the cost at each span to that of the widest
    spans as (span, least, most), the width that the device claims (0: none), and their comparison in words."""

    finding: Finding
    ratios: tuple[tuple[int, float, float], ...]
    claimed: int
    verdict: str


def measure_sub_group_width(values: Sequence[Derived], info: DeviceInfo) -> SubGroupWidth | None:
    """The width from the values of `divergence`; None without values. The largest span is the whole group on one branch."""
    spans = {v.params["span"]: v for v in values if isinstance(v.params.get("span"), int)}
    if not spans:
        return None
    evidence = tuple(name for v in spans.values() for name in v.evidence)
    claimed = info.sub_group_items
    good = {int(span): v for span, v in sorted(spans.items()) if v.status == "ok"}
    in_cycles = all(v.cycles_low is not None for v in good.values())  # a clock may change between points
    costs = {span: bounds for span, v in good.items() if (bounds := _cost_interval(v, in_cycles)) is not None}
    if len(costs) < 3:
        return SubGroupWidth(_undetermined_width("fewer than three spans have a cost", evidence), (), claimed, "")
    whole = max(costs)
    split = [span for span in costs if span != whole]
    # at any span as many work-items take one branch as the other; where all take one, it may be the cheaper one
    base = costs[split[-1]]
    ratios = tuple((span, costs[span][0] / base[1], costs[span][1] / base[0]) for span in costs)
    finding = _width_finding(ratios, whole, costs[whole], base, evidence)
    if finding.value == 1 and claimed > 1:
        why = f"nothing shows that sub-groups exist, and the device claims {claimed} work-items"
        finding = _undetermined_width(why, evidence, 1, claimed)
    return SubGroupWidth(finding, ratios, claimed, _claim_verdict(finding, claimed))


def _width_finding(
    ratios: Sequence[tuple[int, float, float]],
    whole: int,
    control: tuple[float, float],
    base: tuple[float, float],
    evidence: tuple[str, ...],
) -> Finding:
    split = [ratio for ratio in ratios if ratio[0] != whole]
    if base[0] / control[1] > MAX_ONE_BRANCH_RATIO:
        why = f"two branches still take longer with {split[-1][0]} neighbours on the same one"
        return _undetermined_width(why, evidence, 2 * split[-1][0] if base[0] / control[1] >= MIN_BOTH_BRANCHES_RATIO else None)
    apart = [span for span, low, _ in split if low >= MIN_BOTH_BRANCHES_RATIO]
    together = [span for span, _, high in split if high <= MAX_ONE_BRANCH_RATIO]
    between = [span for span, _, _ in split if span not in apart and span not in together]
    if between:
        names = ", ".join(str(span) for span in between)
        low = max([2 * span for span in apart if span < between[0]], default=1)
        why = f"with {names} neighbours on the same branch the cost is neither that of one branch nor of two"
        return _undetermined_width(why, evidence, low, min((s for s in together if s > between[-1]), default=None))
    if apart and max(apart) > min(together):
        return _undetermined_width(f"twice as long with {max(apart)} neighbours, but not with {min(together)}", evidence)
    if split[0][0] != 1 or any(b != 2 * a for (a, *_), (b, *_) in pairwise(split)):
        return _undetermined_width("the deciding spans have no value", evidence)
    value = min(together)
    reason = NO_LOCKSTEP if value == 1 else ""
    return Finding(FINDING_NAME, value, value, value, "work-items", "ok", WIDTH_METHOD, evidence, reason)


def _cost_interval(value: Derived, in_cycles: bool) -> tuple[float, float] | None:
    low, high = (value.cycles_low, value.cycles_high) if in_cycles else (value.ci_low, value.ci_high)
    return (low, high) if low is not None and high is not None and low > 0 else None


def _undetermined_width(why: str, evidence: tuple[str, ...], low: float | None = None, high: float | None = None) -> Finding:
    return Finding(FINDING_NAME, None, low, high, "work-items", "undetermined", WIDTH_METHOD, evidence, why)


def _claim_verdict(finding: Finding, claimed: int) -> str:
    if not claimed:
        return "the device claims nothing"
    if finding.value is None:
        return f"the device claims {claimed}"
    return "as the device claims" if finding.value == claimed else f"differs: the device claims {claimed}"
