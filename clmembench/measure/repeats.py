"""Measuring a point again whose CPUs other programs took: waits until they do not, for a bounded part of the run's time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from clmembench.gates.cpu_share import is_disturbed
from clmembench.host import quiet
from clmembench.model import DeviceInfo, Record
from clmembench.plan.budget import NEVER, Deadline

MAX_WAIT_S = 5.0  # for one point: whatever lasts longer is no passing disturbance
FREE_WAIT_S = 5.0  # that every run may wait in all, however short it is
MAX_WAIT_SHARE = 0.2  # of the time that a run has taken, or has left, that it waits and measures again in all
MIN_WAIT_S = 2 * quiet.LOOK_S  # a shorter wait sees nothing end

Wait = Callable[[DeviceInfo, float], list[str]]


class Repeats:
    """Decides which points of a run are measured again."""

    def __init__(
        self,
        info: DeviceInfo,
        deadline: Deadline = NEVER,
        wait: Wait = quiet.wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._info, self._deadline, self._wait, self._clock = info, deadline, wait, clock
        self._began_s = clock()
        self._spent_s = 0.0

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
        self._spent_s += self._clock() - began_s
        if not is_calm or second.status not in ("ok", "suspect"):
            return first
        better = min(second, first, key=lambda record: (self._is_disturbed(record), record.cpu_waited or 0.0))
        other = "first" if better is second else "second"
        said = f"; measured twice, {waited_s:.2g} s apart: other programs took its CPUs the {other} time"
        return replace(better, stopped=better.stopped + said)

    def _is_disturbed(self, record: Record) -> bool:
        return record.status in ("ok", "suspect") and is_disturbed(record, self._info.kind == "cpu", os.cpu_count() or 1)

    def _most_wait_s(self, now_s: float) -> float:
        """How long the next wait may be. Of a budget it takes no more than the same share of what is left."""
        left_s = FREE_WAIT_S + MAX_WAIT_SHARE * (now_s - self._began_s) - self._spent_s
        return min(MAX_WAIT_S, left_s, MAX_WAIT_SHARE * self._deadline.left_s())
