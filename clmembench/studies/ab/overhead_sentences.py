"""Sentences on the overhead of a layer above a driver, from an interleaved run of two runtimes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.studies.ab.ab_decision import Outcome
from clmembench.units import count, format_in, format_params

HOST_COSTS = {  # metrics that include the layer's own work, and what they time
    "round_trip": "a launch and the wait for it",
    "dispatch": "a back-to-back launch",
    "queued_to_start": "the queue-to-start delay of a launch",
    "transfer_latency": "one small copy",
    "host_call": "the host-side overhead of this program",
}


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
