"""Interleaved A/B measurement: the outcome of its cases, from both files as the gates judge them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived, derive
from clmembench.model import Run, Value
from clmembench.model.metrics import more_is_better
from clmembench.studies.ab.ab_case import DISTURBANCE_GATES, Case, medians
from clmembench.studies.ab.ab_decision import Outcome

MAX_LOST_ROUNDS_SHARE = 0.5  # share of rounds without a pair: with more, the remaining rounds are a biased choice


def outcomes(cases: Sequence[Case], runs: tuple[Run, Run], changes: Mapping[str, Value], overlaid: bool) -> list[Outcome]:
    """The outcome of every value of the cases. `runs` are both files after the gates: a suspect value has no verdict. `changes`
    are the parameters in which B differs from A; `overlaid` is true if a side replaces kernels."""
    judged = [{(value.key, value.metric): value for value in derive(run)} for run in runs]
    decided = []
    for case in cases:
        for name in case.metrics:
            measured = {*case.pairs, *case.lost}  # the point's Works do not declare what this metric needs
            if name in measured or not measured:
                params = (case.params, {**case.params, **changes})
                keys = [(case.benchmark.name, tuple(sorted(of.items())), case.place) for of in params]
                values = [of.get((key, name)) for of, key in zip(judged, keys, strict=True)]
                decided.append(_outcome(case, name, values, overlaid))
    return decided


def _outcome(case: Case, name: str, values: Sequence[Derived | None], overlaid: bool) -> Outcome:
    metric, lost, pairs = case.metrics[name], case.lost.get(name, []), case.pairs.get(name, [])
    decision, notes, a_b = case.decisions[name], list[str](), medians(case, name)
    doubts = [(side, value) for side, value in zip("AB", values, strict=True) if value is not None and value.status != "ok"]
    notes += [f"{v.status} in {side}: {v.reason}" for side, v in doubts if v.gate in DISTURBANCE_GATES]
    suspect = next((f"{v.status} in {side}: {v.reason}" for side, v in doubts if v.gate not in DISTURBANCE_GATES), "")
    if suspect and decision.verdict != "undecided":
        decision = replace(decision, verdict="undecided", reason=suspect)
    if lost:
        often, _ = Counter(lost).most_common(1)[0]
        note = f"{len(lost)} of {len(lost) + len(pairs)} rounds gave no pair of values, most often because: {often}"
        notes.append(note)
        if len(lost) > MAX_LOST_ROUNDS_SHARE * (len(lost) + len(pairs)) and decision.verdict != "undecided":
            decision = replace(decision, verdict="undecided", reason=note)
    if overlaid and case.same_kernels and not case.failed:
        notes.append("A and B use identical kernel sources for this point")
    placed: dict[str, Value] = {}
    if case.place.compute_units is not None:
        placed["compute_units"] = case.place.compute_units
    if case.place.placement:
        placed["placement"] = case.place.placement
    gain = ratio = decision.gain
    if gain is not None and not more_is_better(metric.better):
        ratio = stats.Ratio(1 / gain.value, 1 / gain.high, 1 / gain.low)
    return Outcome(
        benchmark=case.benchmark.name,
        params={**case.params, **placed},
        metric=name,
        unit=metric.unit,
        better=metric.better,
        verdict="failed" if case.failed else decision.verdict,
        a=a_b[0],
        b=a_b[1],
        ratio=ratio,
        gain=gain,
        rounds=decision.rounds,
        smallest_slowdown=decision.smallest,
        reason=case.failed or decision.reason,
        notes=notes,
    )
