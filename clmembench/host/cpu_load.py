"""CPU time during a measurement by consumer: this process, other processes, other guests; and how long it had none."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from clmembench.host import cpu_waits

TICK_S = 0.01  # of the kernel's accounting
MIN_ACCOUNTING_TICKS = 5  # a shorter stretch says nothing
MIN_SAMPLES_S = 20 * TICK_S  # of samples whose own accounting says more than that of the whole point


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of CPU time since boot: all that ran, what was stolen; this process's own; and the time of the reading."""

    busy_s: float
    stolen_s: float
    own_s: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """Shares of all of the host's CPUs, from 0 to 1, that other processes used and that a hypervisor gave to other guests."""

    others: float
    stolen: float


def read(stat: Path = Path("/proc/stat")) -> Reading | None:
    """The system's accounting now; None where it keeps none."""
    try:
        with stat.open(encoding="utf-8") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
        tick = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    if len(fields) < 8 or tick <= 0:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    # user and nice hold a guest's time, so it is not added again; programs that this process ran and waited for are its own
    own = time.process_time() + sum(os.times()[2:4])
    return Reading((user + nice + system + irq + softirq) / tick, steal / tick, own, time.monotonic())


def between(before: Reading | None, after: Reading | None, cpus: int) -> Load | None:
    """CPU use between two readings on a host of that many CPUs; None where they are too close together or missing."""
    if before is None or after is None or cpus < 1:
        return None
    wall = after.at_s - before.at_s
    if wall < MIN_ACCOUNTING_TICKS * TICK_S:
        return None
    others = after.busy_s - before.busy_s - (after.own_s - before.own_s)
    return Load(_share(others, wall * cpus), _share(after.stolen_s - before.stolen_s, wall * cpus))


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Use of the CPUs over the samples of a point: the shares of others, None of samples too short for it, and the longest
    share of the time for which a thread of this process had no CPU."""

    load: Load | None = None
    waited: float | None = None


class Watch:
    """Reads who uses the CPUs from its making on."""

    def __init__(self) -> None:
        self._before, self._waits, self._at_ns = read(), cpu_waits.read(), time.monotonic_ns()

    def use(self) -> CpuUse:
        """The use since then."""
        wall_ns = time.monotonic_ns() - self._at_ns
        waited = cpu_waits.longest_share(self._waits, cpu_waits.read(), wall_ns)
        is_long = wall_ns >= 1e9 * MIN_SAMPLES_S
        return CpuUse(between(self._before, read(), os.cpu_count() or 0) if is_long else None, waited)


def _share(part: float, whole: float) -> float:
    return round(min(1.0, max(0.0, part / whole)), 3)
