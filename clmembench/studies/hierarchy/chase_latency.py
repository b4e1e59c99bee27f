"""Answers from records of `chase`: the latency of an access with its interval, and those of single accesses. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from clmembench.analysis import derive, quiet_windows, stats
from clmembench.analysis.stats import Summary
from clmembench.model import Answer, Array, ClockReading, Metric, Probe, Record, Series

LATENCY = Metric("latency", "ns", "ops", "slope", "lower")
MAX_BRACKET_RATIO = 3.0  # an empty bracket longer than this many medians was interrupted

QUARTERS = 4  # parts of the samples, each evaluated by itself
MAX_UNDISTURBED_SPREAD = 0.005  # relative: variation of undisturbed samples
FEW, LEAST_FEW = 10, 3  # samples are undisturbed if one in FEW of them, and at least LEAST_FEW, agree
MAX_CLOCK_CHANGE = 0.03  # relative
DISTURBED_GATES = ("drift", "cores")  # gates that do not invalidate undisturbed samples
SLOPE_ONLY_GATES = (*DISTURBED_GATES, "grows")  # gates that do not invalidate windows


def answer(record: Record, probe: Probe) -> Answer:
    """Answer of a record of `chase` to a probe: in cycles where the core's clock is known, else in ns.

    The interval is the 95% interval of the samples, widened by half of the drift of the core clock. For a trace, the value is
    the median of the samples' means over its accesses, and `latencies` are ticks less the cost of a bracket without an access;
    with a coarse counter, one may be below 0. A mean that is not distinguishable from 0 is no latency. The answer of a record
    that is not ok has no value, and the record's reason."""
    evidence = f"{record.benchmark}:{record.index}" + (f"/{record.process}" if record.process else "")
    clock = record.core_clock
    nothing = Answer(probe, unit="cycles" if clock is not None and clock.ghz else "ns", evidence=(evidence,))
    if record.status != "ok":
        return replace(nothing, reason=record.reason or record.status)
    if probe.mode != "lap":
        return _trace(record, nothing)
    summary = derive.summarise([record], LATENCY)
    return replace(nothing, reason="no samples were kept") if summary is None else _answered(nothing, clock, summary)


def _trace(record: Record, nothing: Answer) -> Answer:
    clock = record.core_clock
    if len(record.series) != 1 or not {"ticks", "cost", "chain"} <= record.series[0].reads.keys():
        return replace(nothing, reason="no trace was kept")
    if clock is None or min(clock.before_ns, clock.after_ns) <= 0:
        return replace(nothing, reason="the duration of a tick is unknown: no reading of the core's clock")
    ns = _latencies_ns(record.series[0], clock)
    summary = _answered(nothing, clock, stats.summarise(ns.mean(axis=1).tolist()))
    return replace(summary, latencies=(clock.ghz or 1.0) * ns)


def _latencies_ns(series: Series, clock: ClockReading) -> Array:
    """Latencies of each access of each sample, shape (samples, record), in ns. The length of a tick follows from the chain of
    operations that the trace timed by its counter, since the clock reading gives the time of an operation."""
    costs = series.reads["cost"].unpack().astype(np.float64)
    cost = float(costs[costs <= MAX_BRACKET_RATIO * np.median(costs)].mean())
    chain = series.reads["chain"].unpack().astype(np.float64)
    ns_an_op = (clock.before_ns + clock.after_ns) / 2 / clock.ops
    ns_a_tick = ns_an_op * float(np.median(chain[:, 0] / np.maximum(chain[:, 1] - cost, 1.0)))
    latencies: Array = (series.reads["ticks"].unpack().astype(np.float64) - cost) * ns_a_tick
    return latencies


def _answered(nothing: Answer, clock: ClockReading | None, ns: Summary) -> Answer:
    """A summary in ns, in the answer's unit."""
    if ns.low <= 0:
        span = f"{ns.low:.2g} and {ns.high:.2g} ns"
        return replace(nothing, reason=f"not distinguishable from 0: between {span}")
    factor = clock.ghz or 1.0 if clock is not None else 1.0
    moved = clock.moved / 2 if clock is not None else 0.0
    low, high = factor * ns.low * max(0.0, 1 - moved), factor * ns.high * (1 + moved)
    return replace(nothing, value=factor * ns.median, low=low, high=high, ns=ns.median)


def usual(record: Record, probe: Probe, ghz: float | None) -> Answer:
    """As `answer`, but for a lap from the least times that several samples agree on, at both ends: used to infer structure.

    Interruptions and evictions by other programs lengthen some samples, even most; undisturbed ones agree closely, and only
    they count. Where none agree, as beyond the private caches of a busy host, some are faster than the rest because part of the
    lap was still in a shared cache: the median is used there. If launches were timed in windows of a lap or more, undisturbed
    windows are used: if lines overflow, at least one misses in every window, so a few fast windows suffice. In cycles of `ghz`,
    the clock of the whole run, unless the record's own readings agree on a clock that differs by over 3%: single readings are
    noisier than that of the run. The interval covers the values of each quarter of the samples. Suspect records are used if the
    reason is the clock's readings or a descheduled thread, and, for records with windows, if conditions differed between both
    ends."""
    plain = answer(record, probe)
    if probe.mode != "lap" or len(record.series) != 2 or not (record.status == "ok" or record.gate in SLOPE_ONLY_GATES):
        return plain
    near, far = sorted(record.series, key=lambda s: s.ops)
    steps = far.ops - near.ops
    ends = [[t / s.passes for t in s.times_ns()] for s in (near, far)]
    count = min(map(len, ends))
    if steps <= 0 or count < QUARTERS:
        return plain
    own = _ghz(record)
    clock = own if own and ghz and abs(own / ghz - 1) > MAX_CLOCK_CHANGE and _steady(record) else ghz or own
    if clock:
        alone = quiet_windows.undisturbed(record, clock * statistics.median(ends[1]) / far.ops)
        if alone is not None:
            value, low, high, share = alone
            return replace(plain, value=value, low=low, high=high, ns=value / clock, unit="cycles", reason="", alone=share)
    if record.status != "ok" and record.gate not in DISTURBED_GATES:
        return plain
    ns = (_agreed(ends[1]) - _agreed(ends[0])) / steps
    if ns <= 0:
        return replace(plain, value=None, low=None, high=None, reason="not distinguishable from 0")
    cuts = [count * k // QUARTERS for k in range(QUARTERS + 1)]
    parts = [(_agreed(ends[1][a:b]) - _agreed(ends[0][a:b])) / steps for a, b in pairwise(cuts)]
    spread = (max(parts) - min(parts)) / 2
    factor = clock or 1.0
    return replace(
        plain,
        value=factor * ns,
        low=factor * max(0.0, ns - spread),
        high=factor * (ns + spread),
        ns=ns,
        unit="cycles" if clock else "ns",
        reason="",
    )


def _agreed(times: Sequence[float]) -> float:
    """The least time that other samples confirm, else the median."""
    ordered = sorted(times)
    few = max(LEAST_FEW, len(ordered) // FEW)
    for first, last in zip(ordered, ordered[few - 1 :], strict=False):
        if last - first <= MAX_UNDISTURBED_SPREAD * first:
            return statistics.median([time for time in ordered if first <= time <= first * (1 + MAX_UNDISTURBED_SPREAD)])
    return statistics.median(ordered)


def clock_of(records: Sequence[Record]) -> float | None:
    """The core clock in cycles per ns, the median over the records that have it."""
    known = sorted(ghz for record in records if (ghz := _ghz(record)))
    return known[len(known) // 2] if known else None


def _ghz(record: Record) -> float | None:
    return record.core_clock.ghz if record.core_clock is not None else None


def _steady(record: Record) -> bool:
    return record.core_clock is not None and record.core_clock.moved <= MAX_CLOCK_CHANGE
