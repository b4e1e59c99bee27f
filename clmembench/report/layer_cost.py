"""Sentences on what the layer between a program and one driver costs, from an interleaved run of two runtimes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.analysis.ab_decision import Outcome
from clmembench.units import count, format_in, format_params

HOST_COSTS = {  # metrics that the layer's own work is part of, and what they are the time of
    "round_trip": "a launch and the wait for it",
    "dispatch": "a back-to-back launch",
    "queued_to_start": "a launch's way to its start",
    "transfer_latency": "one small copy",
    "host_call": "the host-side overhead of this program",
}


def layer_sentences(outcomes: Sequence[Outcome], first: str, second: str) -> list[str]:
    """What each call costs more through the second runtime, and whether kernels themselves take as long under both."""
    return [*_call_sentences(outcomes, second), *_kernel_sentences(outcomes, first, second)]


def _call_sentences(outcomes: Sequence[Outcome], second: str) -> Iterator[str]:
    for o in outcomes:
        ratio = o.ratio
        if o.failed or o.metric not in HOST_COSTS or o.a is None or o.b is None or ratio is None:
            continue
        where = format_params({name: value for name, value in o.params.items() if name in ("direction", "groups")})
        what = f"{HOST_COSTS[o.metric]}{f' ({where})' if where else ''} takes"
        times = f"{ratio.value:.2f} times as long ({ratio.low:.2f} to {ratio.high:.2f})"
        extra = f", {format_in(abs(o.b - o.a), o.unit, 2)} {'more' if o.b > o.a else 'less'}"
        if ratio.low <= 1 <= ratio.high:
            yield f"Through {second} {what} as long within the interval: {times}."
        else:
            yield f"Through {second} {what} {times}{extra}."


def _kernel_sentences(outcomes: Sequence[Outcome], first: str, second: str) -> Iterator[str]:
    known = [o for o in outcomes if o.metric not in HOST_COSTS and not o.failed and o.ratio is not None]
    apart = [o for o in known if o.ratio is not None and not o.ratio.low <= 1 <= o.ratio.high]
    if known and not apart:
        values = count(len(known), "value")
        yield f"Kernels and large copies agree under {first} and {second}: in {values} the interval of the ratio contains 1."
    for o in apart:
        assert o.ratio is not None
        name = f"{o.benchmark} {format_params(dict(o.params))}".strip()
        yield (
            f"{name}, {o.metric}: {second} gives {o.ratio.value:.3f} times {first}'s value ({o.ratio.low:.3f} to "
            f"{o.ratio.high:.3f}), which a layer that only passes kernels on does not explain."
        )
