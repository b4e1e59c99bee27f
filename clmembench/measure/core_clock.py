"""The clock of a device's cores, by a chain of dependent operations, and the step of its event clock."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clmembench.analysis.record_values import MOVED
from clmembench.model import ClockReading, Device, Launch, Timing

MIN_READING_NS = 5e5  # a launch's jitter, up to some 20 us on CPU runtimes, is little beside it
READING_TRIES = {"gpu": 3}  # launches whose least time counts, by kind of device: nothing else runs on most GPUs
USUAL_READING_TRIES = 4
MAX_CHAIN_STEPS = 80_000
MAX_READING_AGE_S = 0.1  # of the reading after one point that is also that before the next: answering and preparing take less
MIN_CLOCK_LEAP_NS = 1e9  # by which stamps span more than the host saw pass: more than the step of any event clock


@dataclass(frozen=True, slots=True)
class ChainTimes:
    """Times of a short chain and of one three times as long at one moment, by the host's clock in s."""

    at_s: float
    near_ns: float
    far_ns: float

    @property
    def ns(self) -> float:
        return self.far_ns - self.near_ns


NEVER_READ = ChainTimes(-math.inf, 0.0, 0.0)


@dataclass(slots=True)
class CoreClock:
    """A chain of dependent operations that reads the core's clock beside the samples.

    `chain(steps)` is its launches; `ops_per_step` dependent operations a step, each of `cycles_per_op` cycles (None: unknown).
    A reading is the time of 2 * `steps` more steps, which `settle` makes long enough for the device's jitter.
    """

    chain: Callable[[int], Sequence[Launch]]
    ops_per_step: int
    cycles_per_op: float | None
    origin: str
    steps: int = 5_000
    last: ChainTimes = NEVER_READ

    def settle(self, device: Device, least_s: float) -> None:
        """Keep the device busy for `least_s`, so that its clock leaves the idle state; then find how many steps to read."""
        started = time.monotonic()
        while time.monotonic() - started < least_s:
            device.run(self.chain(20_000))
        while self.steps < MAX_CHAIN_STEPS and (took_ns := self.read(device).ns) < MIN_READING_NS:
            growth = min(
                2.0, max(1.1, 1.05 * MIN_READING_NS / max(1.0, took_ns))
            )  # no longer than needed: every point reads it
            self.steps = min(MAX_CHAIN_STEPS, int(growth * self.steps))

    def read(self, device: Device, times: int = 0) -> ChainTimes:
        """The least times, of `times` (0: as many as usual), of a short and of a long chain, since disturbances only add."""
        times = times or READING_TRIES.get(device.info.kind, USUAL_READING_TRIES)
        near, far = (
            min(_duration_ns(t) for t in [device.time(self.chain(n), 1, "device") for _ in range(times)])
            for n in (self.steps, 3 * self.steps)
        )
        self.last = ChainTimes(time.monotonic(), float(near), float(far))
        return self.last

    def recent(self, device: Device) -> ChainTimes:
        """The last reading where it is of just now, else a new one."""
        last = self.last
        return last if time.monotonic() - last.at_s <= MAX_READING_AGE_S else self.confirmed(device, last)

    def confirmed(self, device: Device, other: ChainTimes, times: int = 0) -> ChainTimes:
        """A reading; the middle one of three where the first differs from another. Further ones tell a clock that drifted from
        a reading that was interrupted, which lasts for milliseconds where a host's cores are shared."""
        first = self.read(device, times)
        if other is NEVER_READ or self._clock_reading(first.ns, other.ns).moved <= MOVED:
            return first
        self.last = sorted([first, self.read(device, times), self.read(device, times)], key=lambda one: one.ns)[1]
        return self.last

    def reading(self, before: ChainTimes, after: ChainTimes, beside: Sequence[ChainTimes] = ()) -> ClockReading:
        """The clock in the first and in the second half of the samples, from readings before, `beside` and after them.

        Of each half the times of the short and of the long chain are medians, as those of samples are: one that was interrupted
        does no harm. Of an even number the lower one counts, since disturbances only add; one reading beside, at the first
        sample, says nothing of where the halves meet.
        """
        beside = beside if len(beside) > 1 else ()
        middle_s = (beside[0].at_s + beside[-1].at_s) / 2 if beside else 0.0
        halves = (
            [before, *(one for one in beside if one.at_s <= middle_s)],
            [*(one for one in beside if one.at_s > middle_s), after],
        )
        first, second = (
            statistics.median_low([one.far_ns for one in half]) - statistics.median_low([one.near_ns for one in half])
            for half in halves
        )
        return self._clock_reading(first, second)

    def _clock_reading(self, before_ns: float, after_ns: float) -> ClockReading:
        return ClockReading(2 * self.steps * self.ops_per_step, before_ns, after_ns, self.cycles_per_op, self.origin)


def clock_step_ns(timings: Sequence[Timing]) -> float:
    """The step of the device's event clock in ns: the greatest common divisor of the differences of durations."""
    times = [t.host_ns if t.device_ns is None else t.device_ns for t in timings if not _has_leapt(t)]
    differences = [abs(t - times[0]) for t in times if t != times[0]]
    return float(max(1, math.gcd(*differences))) if differences else 1.0


def _has_leapt(timing: Timing) -> bool:
    """Whether the stamps cannot be true: an end before its start, or far more time between them than the host saw pass."""
    return timing.device_ns is not None and not 0 <= timing.device_ns <= timing.host_ns + MIN_CLOCK_LEAP_NS


def _duration_ns(timing: Timing) -> int:
    """How long a sample ran, by its stamps; by the host's clock where it has none, or such as cannot be true."""
    return timing.host_ns if _has_leapt(timing) else timing.device_ns or timing.host_ns
