"""Interleaved A/B measurement: the outcome of its cases, with both files judged as any reader would judge them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmembench.analysis.derive import Derived, derive
from clmembench.model import Run, Value
from clmembench.studies.ab.ab_case import DISTURBANCE_GATES, Case, medians
from clmembench.studies.ab.ab_decision import Outcome

MAX_LOST_ROUNDS_SHARE = 0.5  # of the rounds, that give no pair: what is left of fewer is a choice of rounds


def outcomes(cases: Sequence[Case], runs: tuple[Run, Run], changes: Mapping[str, Value], overlaid: bool) -> list[Outcome]:
    """Every value of the cases. `runs` are both files, judged (gates): what is suspect there has no verdict. `changes` are B's
    parameters that are not A's; `overlaid` says that a side has kernels of its own."""
    judged = [{(value.key, value.metric): value for value in derive(run)} for run in runs]
    found = []
    for case in cases:
        for name in case.metrics:
            measured = {*case.pairs, *case.lost}  # a metric that its Works do not speak of is none of the point's
            if name in measured or not measured:
                params = (case.params, {**case.params, **changes})
                keys = [(case.benchmark.name, tuple(sorted(of.items())), case.place) for of in params]
                values = [of.get((key, name)) for of, key in zip(judged, keys, strict=True)]
                found.append(_outcome(case, name, values, overlaid))
    return found


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
        said = f"{len(lost)} of {len(lost) + len(pairs)} rounds gave no pair of values, as: {often}"
        notes.append(said)
        if len(lost) > MAX_LOST_ROUNDS_SHARE * (len(lost) + len(pairs)) and decision.verdict != "undecided":
            decision = replace(decision, verdict="undecided", reason=said)
    if overlaid and case.same_kernels and not case.failed:
        notes.append("the kernels of this point are the same text in A and B")
    placed: dict[str, Value] = {}
    if case.place.compute_units is not None:
        placed["compute_units"] = case.place.compute_units
    if case.place.placement:
        placed["placement"] = case.place.placement
    return Outcome(
        benchmark=case.benchmark.name,
        params={**case.params, **placed},
        metric=name,
        unit=metric.unit,
        better=metric.better,
        a=a_b[0],
        b=a_b[1],
        decision=decision,
        failed=case.failed,
        notes=tuple(notes),
    )
