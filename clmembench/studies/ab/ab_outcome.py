"""Interleaved A/B measurement: the outcome of its cases as the gates judge both files, as text, JSON and sentences. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived, derive
from clmembench.model import Run, Value
from clmembench.model.metrics import more_is_better
from clmembench.report import render
from clmembench.report.table import Column, Table
from clmembench.sanitize import MAX_LINE_CHARACTERS, printable
from clmembench.studies.ab.ab_case import DISTURBANCE_GATES, Case, medians
from clmembench.studies.ab.ab_decision import Outcome
from clmembench.units import count, format_in, format_params

MAX_LOST_ROUNDS_SHARE = 0.5  # share of rounds without a pair: with more, the remaining rounds are a biased choice
COLUMNS = tuple(Column(name, max_cell=MAX_LINE_CHARACTERS) for name in ("", "value", "A", "B", "B / A", "rounds", "could see"))
ORDER = ("failed", "slower", "faster", "undecided", "same")
HOST_COSTS = {  # metrics that include the layer's own work, and what they time
    "round_trip": "a launch and the wait for it",
    "dispatch": "a back-to-back launch",
    "queued_to_start": "the queue-to-start delay of a launch",
    "transfer_latency": "one small copy",
    "host_call": "the host-side overhead of this program",
}


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


@dataclass(frozen=True, slots=True)
class LiveComparison:
    """An interleaved A/B run: its settings and values."""

    sides: Sequence[str]
    margin: float
    error: float
    seed: int
    files: Sequence[str]
    rounds: int
    seconds: float
    values: Sequence[Outcome]


@dataclass(frozen=True, slots=True)
class LayerComparison(LiveComparison):
    """An interleaved A/B run: its settings and values; `layer`, of run --runtime opencl,sycl: sentences on what the layer
    costs."""

    layer: Sequence[str] = field(default_factory=list)


def comparison_text(found: LiveComparison, width: int | None = None) -> str:
    """Verdicts, the most urgent first, then the settings of the run; no wider than `width` columns."""
    rows: list[tuple[str, ...]] = []
    shown = [o for verdict in ORDER for o in found.values if o.verdict == verdict]
    for o in shown:
        name = printable(f"{o.benchmark} {format_params(dict(o.params))}".strip())
        text = f"{o.ratio.value:.3f} ({o.ratio.low:.3f} to {o.ratio.high:.3f})" if o.ratio else "–"
        sees = f"{o.smallest_slowdown:.1%} slower" if o.smallest_slowdown is not None else "–"
        values = [format_in(v, o.unit, 4) if v is not None else "–" for v in (o.a, o.b)]
        rows.append((o.verdict, f"{name}: {o.metric}", *values, text, str(o.rounds), sees))
    lines = render.aligned(Table("", COLUMNS, tuple(rows)), indent="", width=width)
    notes = [f"note: {o.benchmark} {o.metric}: {text}" for o in shown for text in (o.reason, *o.notes) if text]
    said_below = [
        *dict.fromkeys(notes),
        "",
        *(f"{name}: {text}" for name, text in zip("AB", found.sides, strict=True)),
        f"{found.rounds} rounds in {found.seconds:.0f} s, margin {found.margin:.1%}, "
        f"probability of a false verdict at most {found.error:.0%}",
        f"Results: {found.files[0]} {found.files[1]}",
    ]
    return "\n".join([*lines, *render.wrapped(said_below, width)])


def layer_sentences(outcomes: Sequence[Outcome], first: str, second: str) -> list[str]:
    """Sentences on the extra cost of each call through the second runtime, on whether kernels take the same time under both,
    and on what is undecided."""
    known = [o for o in outcomes if o.verdict != "failed" and o.ratio is not None]
    undecided = [_name(o) for o in known if o.verdict == "undecided"]
    sentences = [*_call_sentences(known, second), *_kernel_sentences(known, first, second)]
    return [*sentences, f"Undecided: {'; '.join(undecided)}."] if undecided else sentences


def _name(o: Outcome) -> str:
    if o.metric not in HOST_COSTS:
        return f"{o.benchmark} {format_params(dict(o.params))}".strip() + f", {o.metric}"
    where = format_params({name: value for name, value in o.params.items() if name in ("direction", "groups")})
    return f"{HOST_COSTS[o.metric]}{f' ({where})' if where else ''}"


def _call_sentences(known: Sequence[Outcome], second: str) -> Iterator[str]:
    for o in known:
        ratio = o.ratio
        if o.verdict == "undecided" or o.metric not in HOST_COSTS or o.a is None or o.b is None or ratio is None:
            continue
        start = f"Through {second} {_name(o)} takes"
        times, interval = f"{ratio.value:.2f} times", f"({ratio.low:.2f} to {ratio.high:.2f})"
        if o.verdict == "same":
            yield f"{start} as long within the margin: {times} {interval}."
        else:
            extra = f"{format_in(abs(o.b - o.a), o.unit, 2)} {'more' if o.b > o.a else 'less'}"
            yield f"{start} {times} as long {interval}, {extra}."


def _kernel_sentences(known: Sequence[Outcome], first: str, second: str) -> Iterator[str]:
    kernels = [o for o in known if o.metric not in HOST_COSTS]
    same = sum(o.verdict == "same" for o in kernels)
    if same:
        agree = f"Kernels and large copies take the same time under {first} and {second} within the margin"
        yield f"{agree}, in {count(same, 'value')}."
    for o in kernels:
        if o.verdict in ("faster", "slower") and o.ratio is not None:
            yield (
                f"{_name(o)}: {second} gives {o.ratio.value:.3f} times {first}'s value ({o.ratio.low:.3f} to "
                f"{o.ratio.high:.3f}), which a layer that only forwards kernels does not explain."
            )
