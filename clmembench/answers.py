"""From records of `chase` to answers: the latency of an access with its interval. Pure."""

from __future__ import annotations

from dataclasses import replace

from clmembench import derive
from clmembench.model import Answer, Metric, Probe, Record
from clmembench.stats import Summary

LATENCY = Metric("latency", "ns", "ops", "slope", "lower")


def answer(record: Record, probe: Probe) -> Answer:
    """What a record of `chase` says of a probe: in cycles where the core's clock is known, else in ns.

    The interval is the 95% one of the samples, widened by half of what the core's clock moved by. A slope that cannot be told
    from 0 is no latency. A record that is not ok has no value, and its reason.
    """
    evidence = f"{record.benchmark}:{record.index}" + (f"/{record.process}" if record.process else "")
    nothing = Answer(probe, unit="cycles" if _ghz(record) else "ns", evidence=(evidence,))
    if record.status != "ok":
        return replace(nothing, reason=record.reason or record.status)
    summary = derive.summarise([record], LATENCY)
    if summary is None:
        return replace(nothing, reason="no samples were kept")
    if summary.low <= 0:
        span = f"{summary.low:.2g} and {summary.high:.2g} ns"
        return replace(nothing, reason=f"cannot be told from 0: the slope lies between {span}")
    return _answered(nothing, record, summary)


def _answered(nothing: Answer, record: Record, ns: Summary) -> Answer:
    """The summary, in ns, in the answer's unit."""
    factor = _ghz(record) or 1.0
    moved = record.core_clock.moved / 2 if record.core_clock is not None else 0.0
    return replace(
        nothing,
        value=factor * ns.median,
        low=factor * ns.low * max(0.0, 1 - moved),
        high=factor * ns.high * (1 + moved),
        ns=ns.median,
    )


def _ghz(record: Record) -> float | None:
    return record.core_clock.ghz if record.core_clock is not None else None
