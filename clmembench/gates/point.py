"""Gates on one record, from its samples alone: stamps, samples, passes waited for together, growth with work, cycles, drift."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clmembench.analysis import stats
from clmembench.analysis.derive import summarise
from clmembench.analysis.record_values import MOVED
from clmembench.gates.thresholds import POINT, RUN
from clmembench.model import SIZE_AXES, Cause, Metric, Record, Series
from clmembench.units import format_in

MIN_REPORTED_DRIFT = MOVED  # relative drift of the core clock from which on a run warns
NO_CYCLE_GATE = "cycle"
# metrics of operations that no core overlaps, and the least of each in cycles; of others several may end in one cycle
SERIAL_METRICS = {"barrier": POINT.min_cycles, "exchange": POINT.min_cycles, "instruction_latency": POINT.min_chain_cycles}


def judged(record: Record, metrics: Sequence[Metric]) -> Record:
    """The record, `suspect` where it fails a gate, with the gate's name. Only what is `ok` is judged."""
    if record.status != "ok":
        return record
    for gate, fails in GATES.items():
        reason = fails(record, metrics)
        if reason:
            return replace(record, status="suspect", gate=gate, reason=reason, cause=Cause.GATE)
    return record


def _stamps(record: Record, metrics: Sequence[Metric]) -> str:
    """Event time against the host's: kernels cannot take longer than the host waited, nor far less than it waited for them.

    Stamps that count a smaller unit than ns, which make all look slow, span more time than the host saw pass, however short a
    pass is. Those that count a larger one span too little, which shows where passes outlast what launching explains.
    """
    for series in record.series:
        if series.device_ns and min(series.device_ns) < 0:
            return "the driver's event stamps say that a kernel ended before it started"
        if series.clock == "queue" and min(series.times_ns(), default=1) <= 0:
            return "the driver's event stamps say that a kernel started before it was queued"
        if series.device_ns and sum(series.device_ns) > POINT.max_event_share * sum(series.host_ns):
            return "the driver's event stamps span more time than the host saw pass"
        if series.clock == "queue" and sum(series.times_ns()) > POINT.max_event_share * series.passes * sum(series.host_ns):
            return "the driver's event stamps say that a kernel was queued for more time than the host saw pass"
        if not series.device_ns:
            continue
        if series.submit_ns and series.queue_ns and not _in_order(series.submit_ns, series.queue_ns):
            return "the driver's event stamps say that a kernel was submitted before it was queued, or after it started"
        waited = statistics.median(series.host_ns) - POINT.wait_ns - POINT.launch_ns * series.passes
        stamped = statistics.median(series.device_ns)
        if stamped < POINT.min_event_share * waited:
            host = statistics.median(series.host_ns)
            return (
                f"the driver's event stamps span {stamped / 1e6:.3g} ms where the host waited {host / 1e6:.3g} ms: "
                "they may count another unit of time"
            )
    return ""


def _in_order(submit_ns: Sequence[int], queue_ns: Sequence[int]) -> bool:
    """True where every submission lies between the queueing and the start of its command."""
    return all(0 <= submitted <= started for submitted, started in zip(submit_ns, queue_ns, strict=True))


def _samples(record: Record, metrics: Sequence[Metric]) -> str:
    if record.role != "measure" or not record.series:
        return ""
    samples = min(s.averaged * len(s.host_ns) if s.averaged else stats.MIN_SAMPLES for s in record.series)
    few = f"only {samples} sample{'s' if samples != 1 else ''}"
    if samples >= stats.MIN_SAMPLES:
        return ""
    return f"{few}: {record.stopped}; {_remedy_of_few_samples(record)}"


def _remedy_of_few_samples(record: Record) -> str:
    """A smaller size where the point has one; a quiet host only where others used this one."""
    size = next((name for name in SIZE_AXES if isinstance(record.params.get(name), int)), "")
    if size:
        return f"choose a smaller {size} with -a"
    waited = max(record.cpu_waited or 0.0, record.cpu_stolen or 0.0)
    if waited > RUN.max_wait_share or (record.cpu_others or 0.0) > RUN.max_others_share:
        return "quieten the host"
    longest_ns = max((ns for series in record.series for ns in series.host_ns), default=0)
    return f"a sample takes {format_in(longest_ns, 'ns')}: choose less work with -a or --size"


def _together(record: Record, metrics: Sequence[Metric]) -> str:
    """A cost whose passes were waited for together is not what one of them takes."""
    together = any(s.passes > 1 and s.clock != "device" for s in record.series)
    if not together or not any(m.form == "cost" for m in metrics):
        return ""
    return f"{record.series[0].passes} passes were waited for at once, so it is less than one takes alone: measure it again"


def _grows(record: Record, metrics: Sequence[Metric]) -> str:
    """Time over the two ends of a slope: more work takes more time, and no more than in proportion."""
    if len(record.series) != 2:
        return ""
    near, far = sorted(record.series, key=_amount)
    if min(len(near.times_ns()), len(far.times_ns())) < stats.MIN_SAMPLES or not 0 < _amount(near) < _amount(far):
        return ""
    times = _amount(far) / _amount(near)
    # sorted once, so that no median below sorts them again
    first, last = (sorted(t / end.passes for t in end.times_ns()) for end in (near, far))
    if statistics.median(first) <= 0:
        return "the smaller amount of work took no time at all"
    took_last = stats.summarise(last)
    if stats.difference_interval(stats.summarise(first), took_last)[1] < -POINT.max_fall * statistics.median(first):
        return f"{times:.3g} times the work took less time: the slope cannot be below 0"
    excess = stats.difference_interval(stats.summarise([times * t for t in first]), took_last)[0]
    if excess > POINT.max_curvature * statistics.median(last):
        took = statistics.median(last) / statistics.median(first)
        return f"{times:.3g} times the work took {took:.3g} times the time: the ends did not meet the same caches or clock"
    return ""


def _drift(record: Record, metrics: Sequence[Metric]) -> str:
    moved = record.core_clock.moved if record.core_clock is not None else 0.0
    if moved <= POINT.max_drift or record.role != "measure":
        return ""
    return (
        f"the core clock drifted by {moved:.0%} during the measurement: fix the clock or quieten the host, and measure it again"
    )


def _cycle(record: Record, metrics: Sequence[Metric]) -> str:
    """Operations that wait for each other: each takes a core cycle at least, or it did not happen. A slope that may be 0 is
    undetermined anyway."""
    for metric in metrics:
        if metric.name not in SERIAL_METRICS or metric.form != "slope" or not metric.applies(record.params):
            continue
        cycles = summarise([record], metric, in_cycles=True)
        moved = record.core_clock.moved if record.core_clock is not None else 0.0
        if cycles is not None and cycles.low > 0 and (1 + moved) * cycles.high < SERIAL_METRICS[metric.name]:
            # without the number, which differs between points: one note is enough for all of them
            return (
                f"less than one core cycle each: a {metric.name} cannot have happened, a compiler removed some or all of them"
            )
    return ""


def _amount(series: Series) -> int:
    return max(series.ops, series.nbytes, series.flops)


GATES: Mapping[str, Callable[[Record, Sequence[Metric]], str]] = {
    "stamps": _stamps,
    "samples": _samples,
    "together": _together,
    "grows": _grows,
    NO_CYCLE_GATE: _cycle,
    "drift": _drift,
}
