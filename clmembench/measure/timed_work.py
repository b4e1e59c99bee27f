"""One Work that is being sampled: how many passes a sample takes, how much work the ends of a slope do, and its samples."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from clmembench.analysis import stats
from clmembench.model import MAX_TIME_NS, Array, Batch, Device, DeviceInfo, Launch, Overlap, Series, Slope, Timing, Trace, Work
from clmembench.plan.budget import Budget

MIN_SAMPLE_CLOCK_STEPS = 100  # a sample lasts at least this many steps of its clock
MAX_WARM_UP_RELATIVE_CHANGE = 0.05  # two warm-up blocks whose medians differ by no more are warm
BLOCK_SAMPLES = 3
MIN_BLOCK_SAMPLES = 2  # of a block whose median says anything
MIN_BATCH_NS = 5e6  # of passes back to back, many times the resolution of events
MAX_BATCH_PASSES = 100  # of ours, as of a Batch
UNDISTURBED_PASS_RATIO = 500  # times the wanted sample time, 10 ms and more: no disturbance makes a short pass last so long
UNDISTURBED_NS = 1e8  # nor does any make it compute this long, whichever sample time is wanted
MAX_SLOPE_DISTANCE_RATIO = 4.0  # times the wanted distance of a slope's ends
SLOPE_END_RATIO = 5  # of the amounts of a slope's ends, at most: a shorter near end would be mostly launch
MIN_OVERLAP_DURATION_RATIO = 1.1  # times the duration of an overlap's one Work, which the other should outlast


@dataclass(slots=True)
class TimedWork:
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
            return device.time(work.commands, self.passes, "batch" if work.back_to_back else work.clock)
        total = Timing(0, 0, 0, 0, 0)
        for _ in range(self.passes):
            device.run(work.before)
            total = _sum_timings(total, device.time(work.commands, 1, work.clock))
        return total

    def ns(self, timing: Timing) -> int:
        chosen = {"host": timing.host_ns, "device": timing.device_ns, "queue": timing.queue_ns}[self.work.clock]
        return timing.host_ns if chosen is None else _within_storable_ns(chosen)

    def warm(self, device: Device, limit_s: float) -> None:
        """Sample in blocks of three until two blocks' medians agree or a block would outlast the limit; samples are kept,
        marked. Those that found the amount of work are the first block: so long ones need no other."""
        started, block = time.monotonic(), self.warmups_ns[-MIN_BLOCK_SAMPLES:]
        if len(block) < MIN_BLOCK_SAMPLES and (not block or block[0] < limit_s * 1e9):
            block = [self.ns(self.sample(device))]
            self.warmups_ns += block
        while time.monotonic() - started + BLOCK_SAMPLES * block[-1] / 1e9 < limit_s:
            last, block = block, [self.ns(self.sample(device)) for _ in range(BLOCK_SAMPLES)]
            self.warmups_ns += block
            if len(last) > 1 and stats.medians_agree(last, block, MAX_WARM_UP_RELATIVE_CHANGE):
                return

    def keep(self, device: Device) -> None:
        self.timings.append(self.sample(device))
        for name, read in self.work.reads.items():
            self.reads.setdefault(name, []).append(device.download(read.buffer, read.dtype, read.count))

    def series(self, info: DeviceInfo) -> Series:
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
            device_ns=tuple(_within_storable_ns(t.device_ns or 0) for t in timings) if stamped else None,
            queue_ns=tuple(_within_storable_ns(t.queue_ns or 0) for t in timings) if queued else None,
            cpu_ns=tuple(t.cpu_ns for t in timings),
            busy=_expected_units(work, info),
            together=work.concurrent_units,
            reads={name: Trace.pack(work.reads[name].unit, rows) for name, rows in self.reads.items()},
            submit_ns=tuple(_within_storable_ns(t.submit_ns or 0) for t in timings) if submitted else None,
        )


def _within_storable_ns(stamped_ns: int) -> int:
    """A time by event stamps, clamped to what a results file holds: stamps that leap may be any distance apart, and the record
    of such a point is suspect but must be stored."""
    return max(-MAX_TIME_NS, min(MAX_TIME_NS, stamped_ns))


def _expected_units(work: Work, info: DeviceInfo) -> int:
    """Compute units of a CPU that the kernels of a Work keep busy, on average over rounds of equal work-groups; 0 where that is
    unknown. By the host's clock what the host does counts too."""
    if work.expected_units is not None or info.kind != "cpu" or work.clock != "device":
        return work.expected_units or 0
    launches = [command for command in work.commands if isinstance(command, Launch)]
    if not launches or len(launches) < len(work.commands):
        return 0
    groups = min(_work_groups(launch) for launch in launches)
    return groups // -(-groups // max(1, info.compute_units))


def _work_groups(launch: Launch) -> int:
    """Work-groups of a launch; 1, the fewest, where the driver chooses."""
    if launch.local_size is None:
        return 1
    return max(1, math.prod(launch.global_size) // math.prod(launch.local_size))


def rate_work(device: Device, work: Work, budget: Budget, quantum_ns: float) -> TimedWork:
    """Enough passes that a sample outlasts QUANTA steps of its clock.

    A pass with state of its own stays alone, and so does one timed from its queueing or to the host's knowing that it ended:
    several would be waited for at once. The host's clock counts ns.
    """
    batch = next((c.most for c in work.commands if isinstance(c, Batch)), MAX_BATCH_PASSES if work.back_to_back else None)
    wanted, most = (MIN_BATCH_NS, batch) if batch is not None else (2e4, 10_000)
    end, wanted = TimedWork(work), max(MIN_SAMPLE_CLOCK_STEPS * quantum_ns, wanted)
    first = end.sample(device)  # without a check, it compiles and touches pages
    single = max(1, end.ns(first))
    end.warmups_ns.append(single)
    if work.clock == "device" and not work.reads:
        if work.check is None or _computing_ns(first, single, device.info) < min(
            UNDISTURBED_NS, UNDISTURBED_PASS_RATIO * wanted
        ):
            single = max(1, min(end.ns(end.sample(device)) for _ in range(2)))
        end.passes = int(min(most, max(1, -(-wanted // single)), max(1, budget.max_time_s * 1e9 / 32 // single)))
    return end


def _computing_ns(sample: Timing, ns: int, info: DeviceInfo) -> float:
    """The part of a sample's `ns` that is no disturbance. On a CPU another program may hold any of the threads, and sure is
    only an even share of the process's CPU time for each compute unit."""
    return min(ns, sample.cpu_ns / max(1, info.compute_units)) if info.kind == "cpu" else ns


def slope_works(device: Device, slope: Slope, budget: Budget, quantum_ns: float) -> list[TimedWork]:
    """Increase the amounts until the ends lie QUANTA steps and `slope_ns` apart, or the slope's own limit is reached: from the
    least amount and three times that on, to such as are five times apart, whose sum is smaller for the same distance."""
    amount, more, wanted = slope.start, 2 * slope.start, max(MIN_SAMPLE_CLOCK_STEPS * quantum_ns, budget.slope_ns)
    near, far = TimedWork(slope.at(amount)), TimedWork(slope.at(amount + more))
    took = [(near.ns(near.sample(device)), far.ns(far.sample(device)))]  # warm: compiled, pages touched
    if device.info.kind == "cpu" or min(took[0]) < UNDISTURBED_NS:
        took = []
    while True:
        took = took or [(near.ns(near.sample(device)), far.ns(far.sample(device))) for _ in range(2)]
        near.warmups_ns, far.warmups_ns = ([pair[i] for pair in took] for i in range(2))
        apart = min(b - a for a, b in took)
        # ends that take so long are far enough apart, whatever disturbed these samples
        if apart >= wanted or amount + more >= slope.most or min(b for _, b in took) >= MAX_SLOPE_DISTANCE_RATIO * wanted:
            return [near, far]
        growth = min(64.0, 1.2 * wanted / apart) if apart > 0 else 8.0
        larger = min(max(more + 1, int(more * growth)), slope.most - max(slope.start, slope.most // SLOPE_END_RATIO))
        if larger <= more:
            return [near, far]
        amount, more = max(slope.start, larger // (SLOPE_END_RATIO - 1)), larger
        near, far, took = TimedWork(slope.at(amount)), TimedWork(slope.at(amount + more)), []


def overlap_works(device: Device, overlap: Overlap) -> list[TimedWork]:
    """An overlap whose other Work lasts as long as the one: at most the shorter can be hidden, which should be all of the
    one."""
    n = 1
    while True:
        one, other, both = (TimedWork(work) for work in overlap.works(n))
        one.sample(device), other.sample(device)  # warm: compiled, pages touched
        wanted, took = (max(1, min(end.ns(end.sample(device)) for _ in range(2))) for end in (one, other))
        if took >= wanted or n >= overlap.most:
            return [one, other, both]
        n = min(overlap.most, max(n + 1, int(n * min(64.0, MIN_OVERLAP_DURATION_RATIO * wanted / took))))


def _sum_timings(a: Timing, b: Timing) -> Timing:
    def both(x: int | None, y: int | None) -> int | None:
        return None if x is None or y is None else x + y

    stamped = both(a.device_ns, b.device_ns), both(a.queue_ns, b.queue_ns)
    return Timing(a.host_ns + b.host_ns, *stamped, a.cpu_ns + b.cpu_ns, both(a.submit_ns, b.submit_ns))
