"""CPU time during a measurement by consumer: this process, other processes, other guests of the hypervisor."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

MIN_ACCOUNTING_TICKS = 5  # of the kernel's accounting: a shorter stretch says nothing


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
    if wall < MIN_ACCOUNTING_TICKS * 0.01:
        return None
    others = after.busy_s - before.busy_s - (after.own_s - before.own_s)
    return Load(_share(others, wall * cpus), _share(after.stolen_s - before.stolen_s, wall * cpus))


def _share(part: float, whole: float) -> float:
    return round(min(1.0, max(0.0, part / whole)), 3)
