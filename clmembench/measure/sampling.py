"""Warm-up, sampling and the stopping rule for one prepared point, inside one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clmembench.analysis import stats
from clmembench.host.cpu_load import CpuUse, Watch
from clmembench.host.point_sensors import PointSensors
from clmembench.measure.point_context import ContextRecorder
from clmembench.measure.timed_work import TimedWork, overlap_works, rate_work, slope_works
from clmembench.model import (
    Context,
    Device,
    Fill,
    Overlap,
    Prepared,
    Reported,
    Series,
    Slope,
    Value,
    Work,
)
from clmembench.plan.budget import Budget

STOPPING_RULE_SAMPLES = (
    16,
    32,
    64,
    128,
    256,
    512,
    1024,
)  # evaluating the rule after every sample would cut coverage from 95% to 92%
MAX_BETWEEN_SHARE = 0.1  # of the sampling time, between samples
MIN_BETWEEN_S = 0.01  # from one time to the next
MAX_WARM_UP_S = 0.2  # at most before sampling, or half the budget where that is more; of budgets below it a quarter
NOTE_UNVERIFIED = "not verified: this benchmark has no check of its results"
MIN_COMPLETED_SAMPLES = (
    stats.MIN_SAMPLES // 2
)  # from which on the rest costs no more than was spent, which without it is wasted
POISON_BYTE = 0xFF  # NaN as a float, -1 as an integer: no benchmark's right answer


MAX_COMPILATION_NS = 2e9  # of one kernel, within its first pass


class SlowConfiguration(Exception):
    """A tuning trial took longer than its limit; the message has the time of its one pass."""


@dataclass(frozen=True, slots=True)
class SampledPoint:
    """The samples of one point: a series for each Work, why sampling stopped, whether results were checked, whether the Work
    reads its own clock so that a drift of the core clock does no harm, facts that the compiler reported, and what sensors and
    the system's accounting of CPU time said beside the samples."""

    series: tuple[Series, ...]
    stopped: str
    checked: bool
    notes: tuple[str, ...]
    wrong: str = ""
    own_clock: bool = False
    facts: Mapping[str, Value] = field(default_factory=dict)
    context: Context | None = None
    cpu: CpuUse = field(default_factory=CpuUse)
    parts_s: Mapping[str, float] = field(default_factory=dict)


def sample_point(
    device: Device,
    prepared: Prepared,
    budget: Budget,
    quantum_ns: float,
    sensors: PointSensors | None = None,
    between: Callable[[], object] | None = None,
) -> SampledPoint:
    """Check the outputs, warm up, sample until the stopping rule ends it, and check again.

    `quantum_ns` is the measured step of the clocks; `sensors` are read before and after the samples; `between` is called
    between samples, for a small share of the time, unless a Work reads its own clock. A failed check gives `wrong` and no
    samples. Raises SlowConfiguration where the first pass takes longer than `budget.give_up_ns`.
    """
    if isinstance(prepared, Reported):
        return _reported_series(prepared)
    slope = isinstance(prepared, Slope)
    first = _first_checked_work(prepared)
    budget = _own_clock_budget(budget) if first.own_clock else budget
    begun_s = time.monotonic()
    wrong = check_outputs(device, first, budget.give_up_ns if prepared is first else 0)
    checked_s = time.monotonic()
    if wrong:
        return SampledPoint((), "check failed before sampling", True, first.notes, wrong, facts=first.facts)
    if isinstance(prepared, Slope):
        ends = slope_works(device, prepared, budget, quantum_ns)
    elif isinstance(prepared, Overlap):
        ends = overlap_works(device, prepared)
    else:
        ends = [rate_work(device, prepared, budget, quantum_ns)]
    for end in ends:
        end.warm(device, _warm_up_limit_s(budget))
    beside = ContextRecorder(None if budget.trial else sensors)
    beside.begin(ends, budget)
    watch = Watch()
    stopped = _sample_until_stopped(device, ends, budget, slope, None if first.own_clock else between)
    cpu = watch.use()
    context = beside.end(device, ends, budget)
    sampled_s = time.monotonic()
    last = ends[-1].work
    if last.check is not None and not budget.trial:  # a trial's winner is measured and checked again
        try:
            last.verify()
        except AssertionError as error:
            return SampledPoint(
                (), "check failed after sampling", True, last.notes, f"after sampling: {error}", facts=last.facts
            )
    unverified = () if last.check is not None else (NOTE_UNVERIFIED,)
    ended_s = time.monotonic()
    notes = tuple(dict.fromkeys((*(note for end in ends for note in end.work.notes), *unverified)))
    clocked = any(end.work.own_clock for end in ends)
    return SampledPoint(
        tuple(end.series(device.info) for end in ends),
        stopped,
        last.check is not None,
        notes,
        own_clock=clocked,
        facts=last.facts,
        context=context,
        cpu=cpu,
        parts_s={"check": ended_s - sampled_s + checked_s - begun_s, "sample": sampled_s - checked_s},
    )


def _own_clock_budget(budget: Budget) -> Budget:
    """Half the time, of half as long launches: the windows within each count, not the launch with its jitter."""
    return replace(budget, max_time_s=budget.max_time_s / 2, slope_ns=budget.slope_ns / 2, patience=2 * budget.patience)


def _reported_series(told: Reported) -> SampledPoint:
    """A series of times that another program reports."""
    times = told.samples_ns
    series = Series(
        nbytes=told.nbytes,
        flops=told.flops,
        ops=told.ops,
        clock="host",
        passes=1,
        warmups_ns=(),
        host_ns=times,
        device_ns=None,
        queue_ns=None,
        cpu_ns=(0,) * len(times),
        averaged=told.averaged,
    )
    stopped = f"as the program reports it: the mean of {told.averaged or 'several'}"
    return SampledPoint((series,), stopped, told.checked, told.notes, facts=told.facts)


def _first_checked_work(prepared: Work | Slope | Overlap) -> Work:
    """The Work that is checked before anything is timed."""
    if isinstance(prepared, Slope):
        return prepared.at(prepared.start)
    return prepared.works(1)[-1] if isinstance(prepared, Overlap) else prepared


def _warm_up_limit_s(budget: Budget) -> float:
    if budget.trial:
        return 0.0
    return max(MAX_WARM_UP_S, budget.max_time_s / 2) if budget.max_time_s >= MAX_WARM_UP_S else budget.max_time_s / 4


def check_outputs(device: Device, work: Work, give_up_ns: float = 0) -> str:
    """Poison the outputs, run one pass and check it: "" when right (or nothing to check), else the error. Raises
    SlowConfiguration where the pass takes longer than `give_up_ns` (0: any time), and a second one does, too, unless the first
    took longer than any compilation."""
    if work.check is None:
        return ""
    is_limited = give_up_ns > 0 and work.clock == "device"
    took_ns = _fresh_pass(device, work, is_limited)
    if is_limited and took_ns > give_up_ns:
        if took_ns < MAX_COMPILATION_NS:
            took_ns = _fresh_pass(device, work, is_limited)
        if took_ns > give_up_ns:
            raise SlowConfiguration(f"given up after a pass of {took_ns / 1e6:.3g} ms: others take a fraction of that")
    try:
        work.verify()
    except AssertionError as error:
        return str(error) or "the check failed without a message"
    return ""


def _fresh_pass(device: Device, work: Work, is_timed: bool) -> float:
    """Run one pass over poisoned outputs; its time in ns by event stamps (0 if it is not timed). They hold the compilation of a
    kernel in drivers that put it off until then, as PoCL does."""
    for buffer, nbytes in work.outputs:
        device.run([Fill(buffer, nbytes, POISON_BYTE)])
    if work.before:  # apart from the commands: it may be the host's own work
        device.run(work.before)
    if not is_timed:
        device.run(work.commands)
        return 0.0
    timing = device.time(work.commands, 1, "device")
    return timing.device_ns or timing.host_ns


def _sample_until_stopped(
    device: Device, ends: Sequence[TimedWork], budget: Budget, slope: bool, between: Callable[[], object] | None
) -> str:
    """Sample all ends in turn; evaluate the noise only at doublings of the samples; return the rule that stopped it."""
    started = time.monotonic()
    due = started
    while True:
        for end in ends:
            end.keep(device)
        now = time.monotonic()
        if between is not None and now >= due:
            between()
            due = time.monotonic() + max(MIN_BETWEEN_S, (time.monotonic() - now) / MAX_BETWEEN_SHARE)
        taken, elapsed = len(ends[0].timings), time.monotonic() - started
        if budget.trial and (taken >= stats.MIN_SAMPLES or elapsed >= budget.max_time_s):
            return "tuning trial"
        if elapsed >= budget.max_time_s and taken >= stats.MIN_SAMPLES:
            return f"budget of {budget.max_time_s:g} s spent"
        if elapsed >= budget.patience * budget.max_time_s and taken < MIN_COMPLETED_SAMPLES:
            return f"budget of {budget.max_time_s:g} s spent {budget.patience:g} times over with {taken} samples"
        if taken in STOPPING_RULE_SAMPLES and elapsed >= budget.min_time_s:
            noise = _relative_noise(ends, slope)
            if noise <= budget.max_noise:
                return f"noise {noise:.2%} within {budget.max_noise:.2%}"
        if taken >= STOPPING_RULE_SAMPLES[-1]:
            return f"{taken} samples"


def _relative_noise(ends: Sequence[TimedWork], slope: bool) -> float:
    """Relative noise of the samples (in an overlap, those of both Works at once), or in a slope of the difference of its
    ends."""
    samples = [[float(end.ns(t)) for t in end.timings] for end in ends]
    return stats.difference(samples[0], samples[1]).noise if slope else stats.summarise(samples[-1]).noise
