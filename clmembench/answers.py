"""From records of `chase` to answers: the latency of an access with its interval, and those of single accesses. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from clmembench import derive, stats
from clmembench.model import Answer, Array, ClockReading, Metric, Probe, Record, Series
from clmembench.stats import Summary

LATENCY = Metric("latency", "ns", "ops", "slope", "lower")
CLEAN = 3.0  # an empty bracket of over that many medians was interrupted


def answer(record: Record, probe: Probe) -> Answer:
    """What a record of `chase` says of a probe: in cycles where the core's clock is known, else in ns.

    The interval is the 95% one of the samples, widened by half of what the core's clock moved by. Of a trace the value is the
    median of the samples' means over its accesses, and `latencies` are ticks less what a bracket without an access takes; where
    the counter's steps are coarse, a single one may be below 0. A mean that cannot be told from 0 is no latency. A record that
    is not ok has no value, and its reason.
    """
    evidence = f"{record.benchmark}:{record.index}" + (f"/{record.process}" if record.process else "")
    clock = record.core_clock
    nothing = Answer(probe, unit="cycles" if clock is not None and clock.ghz else "ns", evidence=(evidence,))
    if record.status != "ok":
        return replace(nothing, reason=record.reason or record.status)
    if probe.mode == "trace":
        return _trace(record, nothing)
    summary = derive.summarise([record], LATENCY)
    return replace(nothing, reason="no samples were kept") if summary is None else _answered(nothing, clock, summary)


def quantum(record: Record) -> int:
    """The step of the counter in ticks: the greatest common divisor of all that a trace read. Raises ValueError where there is
    no trace."""
    reads = [trace for series in record.series for name, trace in series.reads.items() if name in ("ticks", "cost")]
    if not reads:
        raise ValueError("a record without a trace")
    return math.gcd(*(int(value) for trace in reads for value in np.unique(trace.unpack())))


def _trace(record: Record, nothing: Answer) -> Answer:
    clock = record.core_clock
    if len(record.series) != 1 or not {"ticks", "cost", "chain"} <= record.series[0].reads.keys():
        return replace(nothing, reason="no trace was kept")
    if clock is None or min(clock.before_ns, clock.after_ns) <= 0:
        return replace(nothing, reason="what a tick is cannot be told: no reading of the core's clock")
    ns = _latencies_ns(record.series[0], clock)
    found = _answered(nothing, clock, stats.summarise(ns.mean(axis=1).tolist()))
    return replace(found, latencies=(clock.ghz or 1.0) * ns)


def _latencies_ns(series: Series, clock: ClockReading) -> Array:
    """Of each access of each sample, (samples, record), in ns. The chain of operations that the trace timed by its counter says
    what a tick is, since the clock's reading beside it says what an operation takes."""
    costs = series.reads["cost"].unpack().astype(np.float64)
    cost = float(costs[costs <= CLEAN * np.median(costs)].mean())
    chain = series.reads["chain"].unpack().astype(np.float64)
    ns_an_op = (clock.before_ns + clock.after_ns) / 2 / clock.ops
    ns_a_tick = ns_an_op * float(np.median(chain[:, 0] / np.maximum(chain[:, 1] - cost, 1.0)))
    latencies: Array = (series.reads["ticks"].unpack().astype(np.float64) - cost) * ns_a_tick
    return latencies


def _answered(nothing: Answer, clock: ClockReading | None, ns: Summary) -> Answer:
    """A summary in ns, in the answer's unit."""
    if ns.low <= 0:
        span = f"{ns.low:.2g} and {ns.high:.2g} ns"
        return replace(nothing, reason=f"cannot be told from 0: it lies between {span}")
    factor = clock.ghz or 1.0 if clock is not None else 1.0
    moved = clock.moved / 2 if clock is not None else 0.0
    low, high = factor * ns.low * max(0.0, 1 - moved), factor * ns.high * (1 + moved)
    return replace(nothing, value=factor * ns.median, low=low, high=high, ns=ns.median)
