"""Warm-up, sampling and the stopping rule for one prepared point, inside one process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clmembench.analysis import stats
from clmembench.model import (
    MOST_NS,
    Array,
    Batch,
    Device,
    Fill,
    Overlap,
    Prepared,
    Reported,
    Series,
    Slope,
    Timing,
    Trace,
    Value,
    Work,
)
from clmembench.plan.budget import Budget

CHECKPOINTS = (16, 32, 64, 128, 256, 512, 1024)  # looking after every sample would cover 92% where 95% is claimed
QUANTA = 100  # a sample lasts at least this many steps of its clock
AGREE = 0.05  # two warm-up blocks whose medians differ by no more are warm
WARM_S = 0.2  # at most before sampling, or half the budget where that is more; of budgets below it a quarter
BATCH_NS = 5e6  # of a library's passes back to back: the steps of its events are little beside it
SURELY = 500  # times what a sample is to last, 10 ms and more: no hiccup makes such a pass of one that must be repeated
ENOUGH = 4.0  # times what the ends of a slope are to lie apart
LONGER = 1.1  # times as long as the one Work of an overlap, which the other should outlast
POISON = 0xFF  # NaN as a float, -1 as an integer: no benchmark's right answer


@dataclass(frozen=True, slots=True)
class Measured:
    """What sampling one point gave: a series a Work, why it stopped, whether results were checked, whether a clock that moved
    meanwhile spoils nothing, and what the compiler said."""

    series: tuple[Series, ...]
    stopped: str
    checked: bool
    notes: tuple[str, ...]
    wrong: str = ""
    own_clock: bool = False
    facts: Mapping[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class _End:
    """One Work being sampled."""

    work: Work
    passes: int = 1
    warmups_ns: list[int] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    reads: dict[str, list[Array]] = field(default_factory=dict)

    def sample(self, device: Device) -> Timing:
        """One timed sample. A Work with `before` or `reads` is timed one pass at a time, so that each pass meets its state."""
        work = self.work
        if not work.before:
            return device.time(work.commands, self.passes, work.clock)
        total = Timing(0, 0, 0, 0, 0)
        for _ in range(self.passes):
            device.run(work.before)
            total = _add(total, device.time(work.commands, 1, work.clock))
        return total

    def ns(self, timing: Timing) -> int:
        chosen = {"host": timing.host_ns, "device": timing.device_ns, "queue": timing.queue_ns}[self.work.clock]
        return timing.host_ns if chosen is None else _storable(chosen)

    def warm(self, device: Device, limit_s: float) -> None:
        """Sample in blocks of three until two blocks' medians agree or the limit has passed; the samples are kept, marked."""
        started, block = time.monotonic(), [self.ns(self.sample(device))]
        self.warmups_ns += block
        while time.monotonic() - started < limit_s:
            last, block = block, [self.ns(self.sample(device)) for _ in range(3)]
            self.warmups_ns += block
            if len(last) > 1 and stats.agree(last, block, AGREE):
                return

    def keep(self, device: Device) -> None:
        self.timings.append(self.sample(device))
        for name, read in self.work.reads.items():
            self.reads.setdefault(name, []).append(device.download(read.buffer, read.dtype, read.count))

    def series(self) -> Series:
        work, timings = self.work, self.timings
        stamped = all(t.device_ns is not None for t in timings)
        queued = all(t.queue_ns is not None for t in timings)
        submitted = all(t.submit_ns is not None for t in timings)
        return Series(
            nbytes=work.nbytes,
            flops=work.flops,
            ops=work.ops,
            clock=work.clock if stamped or work.clock == "host" else "host",
            passes=self.passes,
            warmups_ns=tuple(self.warmups_ns),
            host_ns=tuple(t.host_ns for t in timings),
            device_ns=tuple(_storable(t.device_ns or 0) for t in timings) if stamped else None,
            queue_ns=tuple(_storable(t.queue_ns or 0) for t in timings) if queued else None,
            cpu_ns=tuple(t.cpu_ns for t in timings),
            busy=work.busy,
            together=work.together,
            reads={name: Trace.pack(work.reads[name].unit, rows) for name, rows in self.reads.items()},
            submit_ns=tuple(_storable(t.submit_ns or 0) for t in timings) if submitted else None,
        )


def measure(device: Device, prepared: Prepared, budget: Budget, quantum_ns: float) -> Measured:
    """Check the outputs, warm up, sample until the rule says stop, and check again.

    `quantum_ns` is the measured step of the clocks. A failed check gives `wrong` and no samples.
    """
    if isinstance(prepared, Reported):
        return _reported(prepared)
    slope = isinstance(prepared, Slope)
    first = _smallest(prepared)
    wrong = verify(device, first)
    if wrong:
        return Measured((), "check failed before sampling", True, first.notes, wrong, facts=first.facts)
    if isinstance(prepared, Slope):
        ends = _slope_ends(device, prepared, budget, quantum_ns)
    elif isinstance(prepared, Overlap):
        ends = _overlap_ends(device, prepared)
    else:
        ends = [_rate_end(device, prepared, budget, quantum_ns)]
    for end in ends:
        end.warm(device, _warm_s(budget))
    stopped = _sample(device, ends, budget, slope)
    last = ends[-1].work
    if last.check is not None and not budget.trial:  # a trial's winner is measured and checked again
        try:
            last.check()
        except AssertionError as error:
            return Measured((), "check failed after sampling", True, last.notes, f"after sampling: {error}", facts=last.facts)
    notes = tuple(dict.fromkeys(note for end in ends for note in end.work.notes))
    clocked = any(end.work.own_clock for end in ends)
    return Measured(
        tuple(end.series() for end in ends), stopped, last.check is not None, notes, own_clock=clocked, facts=last.facts
    )


def _reported(told: Reported) -> Measured:
    """Another program's times: nothing is left to be sampled."""
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
    return Measured((series,), stopped, told.checked, told.notes, facts=told.facts)


def _smallest(prepared: Work | Slope | Overlap) -> Work:
    """What is checked before anything is timed."""
    if isinstance(prepared, Slope):
        return prepared.work(prepared.start)
    return prepared.works(1)[-1] if isinstance(prepared, Overlap) else prepared


def _warm_s(budget: Budget) -> float:
    if budget.trial:
        return 0.0
    return max(WARM_S, budget.most_s / 2) if budget.most_s >= WARM_S else budget.most_s / 4


def verify(device: Device, work: Work) -> str:
    """Poison the outputs, run one pass and check it: "" when right (or nothing to check), else what was wrong."""
    if work.check is None:
        return ""
    for buffer, nbytes in work.outputs:
        device.run([Fill(buffer, nbytes, POISON)])
    device.run((*work.before, *work.commands))
    try:
        work.check()
    except AssertionError as error:
        return str(error) or "the check failed without a message"
    return ""


def _storable(stamped_ns: int) -> int:
    """A time by event stamps within what a results file holds: stamps that leap may be any distance apart, and the record of
    such a point is suspect but must be kept."""
    return max(-MOST_NS, min(MOST_NS, stamped_ns))


def _rate_end(device: Device, work: Work, budget: Budget, quantum_ns: float) -> _End:
    """Enough passes that a sample outlasts QUANTA steps of its clock.

    A pass with state of its own stays alone, and so does one timed from its queueing or to the host's knowing that it ended:
    several would be waited for at once. The host's clock counts ns.
    """
    batch = next((c for c in work.commands if isinstance(c, Batch)), None)
    wanted, most = (BATCH_NS, batch.most) if batch is not None else (2e4, 10_000)
    end, wanted = _End(work), max(QUANTA * quantum_ns, wanted)
    single = max(1, end.ns(end.sample(device)))  # of what was not checked, the first pass compiles and touches pages
    end.warmups_ns.append(single)
    if work.check is None or single < SURELY * wanted:
        single = max(1, min(end.ns(end.sample(device)) for _ in range(2)))
    if work.clock == "device" and not work.reads:
        end.passes = int(min(most, max(1, -(-wanted // single)), max(1, budget.most_s * 1e9 / 32 // single)))
    return end


def _slope_ends(device: Device, slope: Slope, budget: Budget, quantum_ns: float) -> list[_End]:
    """Double the amount until the ends lie QUANTA steps and `slope_ns` apart, or the slope's own limit is reached."""
    amount, wanted = slope.start, max(QUANTA * quantum_ns, budget.slope_ns)
    near, far = _End(slope.work(amount)), _End(slope.work(3 * amount))
    near.sample(device), far.sample(device)  # warm: compiled, pages touched
    while True:
        took = [(near.ns(near.sample(device)), far.ns(far.sample(device))) for _ in range(2)]
        apart = min(b - a for a, b in took)
        # ends that take so long are far enough apart, whatever disturbed these samples
        if apart >= wanted or 3 * amount >= slope.most or min(b for _, b in took) >= ENOUGH * wanted:
            return [near, far]
        growth = min(64.0, 1.2 * wanted / apart) if apart > 0 else 8.0
        larger = min(max(amount + 1, int(amount * growth)), slope.most // 3)
        if larger <= amount:
            return [near, far]
        amount = larger
        near, far = _End(slope.work(amount)), _End(slope.work(3 * amount))


def _overlap_ends(device: Device, overlap: Overlap) -> list[_End]:
    """As much of the other Work as lasts as long as the one: what hides is of the shorter, and should be all of the one."""
    n = 1
    while True:
        one, other, both = (_End(work) for work in overlap.works(n))
        one.sample(device), other.sample(device)  # warm: compiled, pages touched
        wanted, took = (max(1, min(end.ns(end.sample(device)) for _ in range(2))) for end in (one, other))
        if took >= wanted or n >= overlap.most:
            return [one, other, both]
        n = min(overlap.most, max(n + 1, int(n * min(64.0, LONGER * wanted / took))))


def _sample(device: Device, ends: Sequence[_End], budget: Budget, slope: bool) -> str:
    """Sample all ends in turn; look at the noise only at doublings; say which rule stopped it."""
    started = time.monotonic()
    while True:
        for end in ends:
            end.keep(device)
        taken, elapsed = len(ends[0].timings), time.monotonic() - started
        if budget.trial and (taken >= stats.MIN_SAMPLES or elapsed >= budget.most_s):
            return "tuning trial"
        if elapsed >= budget.most_s and taken >= stats.MIN_SAMPLES:
            return f"budget of {budget.most_s:g} s spent"
        if elapsed >= budget.patience * budget.most_s:
            return f"budget of {budget.most_s:g} s spent {budget.patience:g} times over with {taken} samples"
        if taken in CHECKPOINTS and elapsed >= budget.least_s:
            noise = _noise(ends, slope)
            if noise <= budget.noise:
                return f"noise {noise:.2%} within {budget.noise:.2%}"
        if taken >= CHECKPOINTS[-1]:
            return f"{taken} samples"


def _noise(ends: Sequence[_End], slope: bool) -> float:
    """Of the samples (of an overlap, those of both at once), or for a slope of the difference of its ends."""
    samples = [[float(end.ns(t)) for t in end.timings] for end in ends]
    return stats.difference(samples[0], samples[1]).noise if slope else stats.summarise(samples[-1]).noise


def _add(a: Timing, b: Timing) -> Timing:
    def both(x: int | None, y: int | None) -> int | None:
        return None if x is None or y is None else x + y

    stamped = both(a.device_ns, b.device_ns), both(a.queue_ns, b.queue_ns)
    return Timing(a.host_ns + b.host_ns, *stamped, a.cpu_ns + b.cpu_ns, both(a.submit_ns, b.submit_ns))
