"""Sensors and energy counters beside the samples of one point: read before and after them, never between."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from clmembench.analysis.energy import MAX_RESOLUTION, MIN_BUSY, too_short
from clmembench.analysis.stats import MIN_SAMPLES
from clmembench.host.point_sensors import Counted, PointSensors
from clmembench.measure.timed_work import TimedWork
from clmembench.model import Batch, Context, Device, EnergyReading, Fact
from clmembench.plan.budget import Budget

LONG_SAMPLE_NS = 50_000_000  # of passes in one go while a counter moves, so that the device waits for the host little
MAX_PASSES = 10_000  # in one go, as of samples
OVERLAP_WORKS = 3
NO_ENERGY_OF_OVERLAP = "Works alone and at once were sampled in turn, whose energy one counter does not tell apart"


class ContextRecorder:
    """Reads the sensors of one point. Without sensors there is no context."""

    def __init__(self, sensors: PointSensors | None) -> None:
        self._sensors = sensors
        self._before: Mapping[str, Fact] = {}
        self._start: Counted | None = None
        self._counts = True

    def begin(self, ends: Sequence[TimedWork], budget: Budget) -> None:
        """Read everything, right before the first sample; the counter, which takes NVML 4 ms, only where the samples can take
        as long as its updates ask for."""
        if self._sensors is not None:
            self._before = self._sensors.sample()
            longest_ns = max(1e9 * budget.max_time_s, MIN_SAMPLES * sum(sum(end.warmups_ns[-1:]) for end in ends))
            self._counts = budget.energy or self._sensors.sensors.update_ns <= MAX_RESOLUTION * longest_ns
            self._start = self._sensors.count() if self._counts else None

    def end(self, device: Device, ends: Sequence[TimedWork], budget: Budget) -> Context | None:
        """Read everything again, right after the last sample. Where the budget says so, passes go on until the energy counter
        has been updated often enough."""
        sensors = self._sensors
        if sensors is None:
            return None
        stop = sensors.count() if self._counts else None
        after = sensors.sample()
        if sensors.sensors.microjoules is None:
            return Context(self._before, after, None, sensors.sensors.reason)
        if len(ends) == OVERLAP_WORKS:
            return Context(self._before, after, None, NO_ENERGY_OF_OVERLAP)
        if not self._counts:
            return Context(self._before, after, None, too_short(sensors.sensors.update_ns))
        passes = {id(end): len(end.timings) * end.passes for end in ends}
        busy_ns = sum(end.ns(timing) for end in ends for timing in end.timings)
        energy = _reading(sensors, self._start, stop, ends, passes, busy_ns)
        if budget.energy and energy is not None and not _is_enough(energy):
            energy = _longer(sensors, device, ends[-1])
        return Context(self._before, after, energy, "" if energy else "the energy counter could not be read")


def _reading(
    sensors: PointSensors,
    start: Counted | None,
    stop: Counted | None,
    ends: Sequence[TimedWork],
    passes: Mapping[int, int],
    busy_ns: int,
) -> EnergyReading | None:
    if start is None or stop is None:
        return None

    def amount(name: str) -> int:
        return sum(passes[id(end)] * end.work.amount(name) for end in ends)

    window_ns = stop.at_ns - start.at_ns
    return EnergyReading(
        sensors.sensors.source,
        sensors.joules(start, stop),
        window_ns,
        sensors.sensors.update_ns,
        max(0, min(busy_ns, window_ns)),
        amount("nbytes"),
        amount("flops"),
        amount("ops"),
        sensors.sensors.shared,
    )


def _is_enough(energy: EnergyReading) -> bool:
    """Whether the samples' own energy can be told."""
    resolved = energy.update_ns <= MAX_RESOLUTION * energy.window_ns
    return resolved and energy.busy_ns >= MIN_BUSY * energy.window_ns


def _longer(sensors: PointSensors, device: Device, end: TimedWork) -> EnergyReading | None:
    """Energy of passes back to back, none of which is a sample, for as long as the counter needs."""
    work, longer = end.work, TimedWork(end.work, end.passes)
    alone = work.before or work.reads or work.clock != "device" or any(isinstance(c, Batch) for c in work.commands)
    if not alone and end.timings:
        pass_ns = max(1.0, end.ns(end.timings[-1]) / end.passes)
        longer.passes = int(max(end.passes, min(MAX_PASSES, LONG_SAMPLE_NS / pass_ns)))
    needed_ns = 1.05 * sensors.sensors.update_ns / MAX_RESOLUTION
    start, busy_ns, passes = sensors.count(), 0, 0
    if start is None:
        return None
    while time.monotonic_ns() - start.at_ns < needed_ns:
        busy_ns += longer.ns(longer.sample(device))
        passes += longer.passes
    return _reading(sensors, start, sensors.count(), [end], {id(end): passes}, busy_ns)
