"""Sentences on what the layer between a program and one driver costs, from an interleaved run of two runtimes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.studies.ab.ab_decision import Outcome
from clmembench.units import count, format_in, format_params

HOST_COSTS = {  # metrics that the layer's own work is part of, and what they are the time of
    "round_trip": "a launch and the wait for it",
    "dispatch": "a back-to-back launch",
    "queued_to_start": "a launch's way to its start",
    "transfer_latency": "one small copy",
    "host_call": "the host-side overhead of this program",
}


def layer_sentences(outcomes: Sequence[Outcome], first: str, second: str) -> list[str]:
    """What each call costs more through the second runtime, and whether kernels themselves take as long under both, where that
    is decided; and what is not."""
    known = [o for o in outcomes if not o.failed and o.ratio is not None]
    undecided = [_name(o) for o in known if o.verdict == "undecided"]
    said = [*_call_sentences(known, second), *_kernel_sentences(known, first, second)]
    return [*said, f"Undecided: {'; '.join(undecided)}."] if undecided else said


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
                f"{o.ratio.high:.3f}), which a layer that only passes kernels on does not explain."
            )
