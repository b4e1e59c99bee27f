"""Whether other programs use what is to be measured, now: looked at for a moment before a run, and waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clmembench.host import cpu_load, sensors
from clmembench.host.checks import LIMITS
from clmembench.host.cpu_load import Load
from clmembench.model import DeviceInfo, Fact

LOOK_S = 0.3  # of the kernel's accounting of CPU time, which has ticks of 10 ms
WAIT_STEP_S = 2.0  # between two looks at a busy host
MAX_OTHERS_SHARE = {"cpu": 0.05, "gpu": 0.5}  # of all CPUs: a CPU's kernels need all of them, a GPU's host one


@dataclass(frozen=True, slots=True)
class HostUse:
    """What others use now: shares of the host's CPUs, and percent of the device; None where it is not known."""

    load: Load | None
    device_percent: float | None

    def complaints(self, kind: str) -> list[str]:
        """What is in the way of measuring a device of that kind; none on a quiet host."""
        found = []
        most = MAX_OTHERS_SHARE["cpu" if kind == "cpu" else "gpu"]
        if self.load is not None and self.load.others > most:
            found.append(f"other programs use {self.load.others:.0%} of the CPUs")
        if kind == "cpu" and self.load is not None and self.load.stolen > LIMITS.max_steal_share:
            found.append(f"other virtual machines take {self.load.stolen:.0%} of the CPU time")
        if self.device_percent is not None and self.device_percent > LIMITS.max_utilisation_percent:
            found.append(f"other programs keep the device {self.device_percent:g}% busy")
        return found


def look(info: DeviceInfo, seconds: float = LOOK_S, sleep: Callable[[float], None] = time.sleep) -> HostUse:
    """What others use over a moment of so many seconds."""
    before = cpu_load.read()
    if before is not None:
        sleep(seconds)
    load = cpu_load.between(before, cpu_load.read(), os.cpu_count() or 1)
    return HostUse(load, _percent(sensors.read(info)) if info.kind != "cpu" else None)


def _percent(facts: Mapping[str, Fact]) -> float | None:
    value = facts.get("utilisation_percent")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def wait(
    info: DeviceInfo,
    most_s: float,
    waiting: Callable[[list[str]], None] = lambda uses: None,
    look: Callable[[DeviceInfo], HostUse] = look,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Wait for at most `most_s` seconds until no other program disturbs a measurement on the device. Returns what still
    disturbs it. `waiting` is called with that list before each pause."""
    end = clock() + most_s
    while True:
        found = look(info).complaints(info.kind)
        if not found or clock() >= end:
            return found
        waiting(found)
        sleep(min(WAIT_STEP_S, max(0.0, end - clock())))
