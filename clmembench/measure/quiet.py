"""Waits until other programs leave alone what is measured: before a run, and before a disturbed point is repeated."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from clmembench.gates.cpu_share import is_disturbed
from clmembench.host import cpu_load, sensors
from clmembench.host.checks import LIMITS
from clmembench.host.cpu_load import Load
from clmembench.model import DeviceInfo, Record
from clmembench.model.work import fact_number
from clmembench.plan.budget import NEVER, Deadline

LOOK_S = 0.3  # of the kernel's accounting of CPU time, which has ticks of 10 ms
WAIT_STEP_S = 2.0  # between two looks at a busy host
MAX_OTHERS_SHARE = {"cpu": 0.05, "gpu": 0.5}  # of all CPUs: a CPU's kernels need all of them, a GPU's host one

MAX_WAIT_S = 5.0  # for one point: whatever lasts longer is no passing disturbance
NO_WAIT_VARIABLE = "CLMEMBENCH_NO_WAIT"  # set to anything: no point is measured again, as where other programs never end
FREE_WAIT_S = 5.0  # that every run may wait in all, however short it is
MAX_WAIT_SHARE = 0.2  # of the time that a run has taken, or has left, that it waits and measures again in all
MIN_WAIT_S = 2 * LOOK_S  # a shorter wait sees nothing end

Wait = Callable[[DeviceInfo, float], list[str]]


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
    return HostUse(load, fact_number(sensors.read(info), "utilisation_percent") if info.kind != "cpu" else None)


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


class Repeats:
    """Decides which points of a run are measured again."""

    def __init__(
        self,
        info: DeviceInfo,
        deadline: Deadline = NEVER,
        wait: Wait = wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._info, self._deadline, self._wait, self._clock = info, deadline, wait, clock
        self._began_s = clock()
        self._spent_s = 0.0
        self._max_wait_s = 0.0 if os.environ.get(NO_WAIT_VARIABLE) else MAX_WAIT_S

    def measured(self, measure: Callable[[], Record]) -> Record:
        """A record that `measure` makes, or another of the same point where others took the CPUs of the first and stop in time.
        The record with the shorter wait counts, and says so."""
        first = measure()
        if not self._is_disturbed(first):
            return first
        began_s = self._clock()
        most_s = self._most_wait_s(began_s)
        is_calm = most_s >= MIN_WAIT_S and not self._wait(self._info, most_s)
        waited_s = self._clock() - began_s
        second = measure() if is_calm else first
        lost_s = self._clock() - began_s
        self._spent_s += lost_s
        if not is_calm or second.status not in ("ok", "suspect"):
            return _with_repeat(first, lost_s)
        better = min(second, first, key=lambda record: (self._is_disturbed(record), record.cpu_waited or 0.0))
        other = "first" if better is second else "second"
        said = f"; measured twice, {waited_s:.2g} s apart: other programs took its CPUs the {other} time"
        better = _with_repeat(better, lost_s + first.seconds - better.seconds)
        return replace(better, stopped=better.stopped + said)

    def _is_disturbed(self, record: Record) -> bool:
        return record.status in ("ok", "suspect") and is_disturbed(record, self._info.kind == "cpu", os.cpu_count() or 1)

    def _most_wait_s(self, now_s: float) -> float:
        """How long the next wait may be. Of a budget it takes no more than the same share of what is left."""
        left_s = FREE_WAIT_S + MAX_WAIT_SHARE * (now_s - self._began_s) - self._spent_s
        return min(self._max_wait_s, left_s, MAX_WAIT_SHARE * self._deadline.left_s())


def _with_repeat(record: Record, seconds: float) -> Record:
    """The record with the time that waiting and its other measurement took, if there was any."""
    return replace(record, parts_s={**record.parts_s, "repeat": round(seconds, 3)}) if seconds > 5e-4 else record
