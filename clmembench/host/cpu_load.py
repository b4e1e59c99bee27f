"""CPU time during a measurement by consumer: this process, other programs, other guests; and how long threads had no CPU.

The wait of threads shows every lack of CPUs alike: other programs, too small a CPU set, a quota; but no guests of a hypervisor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WAKE_NS = 20_000  # of each time that a thread began to run: waking takes 9 to 20 us where nothing else runs

Waits = Mapping[str, tuple[int, int]]  # by thread: ns that it was ready and waited, and how often it began to run

TICK_S = 0.01  # of the kernel's accounting
MIN_WORK_SHARE = 0.5  # of the time that the busiest CPU wanted to run: CPUs of one kernel want to run for about as long
MIN_ACCOUNTING_TICKS = 5  # a shorter stretch says nothing
MIN_SAMPLES_S = 20 * TICK_S  # of samples whose own accounting says more than that of the whole point


def read_waits(tasks: Path = Path("/proc/self/task")) -> Waits | None:
    """The waits of all threads so far; None where the system does not count them."""
    found = {}
    counted = False
    try:
        for task in tasks.iterdir():  # by descriptors: a driver has dozens of threads, and each point reads them twice
            try:
                file = os.open(task / "schedstat", os.O_RDONLY)
            except FileNotFoundError:  # the thread has ended, or the kernel was built without the statistics
                continue
            try:
                ran, waited, times = map(int, os.read(file, 128).split())
            finally:
                os.close(file)
            found[task.name] = waited, times
            counted |= ran > 0
    except (OSError, ValueError):
        return None
    return found if counted else None


def longest_share(before: Waits | None, after: Waits | None, wall_ns: int) -> float | None:
    """The largest share of that time for which one thread waited, waking apart: what it lengthened the work by at most."""
    if before is None or after is None or wall_ns <= 0:
        return None
    waited = 0
    for thread, (ns, times) in after.items():
        ns_before, times_before = before.get(thread, (0, 0))
        waited = max(waited, ns - ns_before - WAKE_NS * (times - times_before))
    return round(min(1.0, waited / wall_ns), 3)


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of CPU time since boot: all that ran, what was stolen; this process's own; the time of the reading; and what ran
    and was stolen on each CPU, by its name."""

    busy_s: float
    stolen_s: float
    own_s: float
    at_s: float
    by_cpu: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Load:
    """Shares of all of the host's CPUs, from 0 to 1, that other processes used and that a hypervisor gave to other guests; and
    the largest share of the time that the hypervisor took from one of the CPUs at work."""

    others: float
    stolen: float
    stolen_at_work: float = 0.0


def read(stat: Path = Path("/proc/stat")) -> Reading | None:
    """The system's accounting now; None where it keeps none."""
    try:
        with stat.open(encoding="utf-8") as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
        tick = os.sysconf("SC_CLK_TCK")
        used = {words[0]: _busy_and_stolen(words, tick) for words in lines if len(words) > 8}
    except (OSError, ValueError, ArithmeticError, AttributeError):
        return None
    if "cpu" not in used:
        return None
    busy_s, stolen_s = used.pop("cpu")
    # programs that this process ran and waited for are its own
    own = time.process_time() + sum(os.times()[2:4])
    return Reading(busy_s, stolen_s, own, time.monotonic(), used)


def _busy_and_stolen(words: Sequence[str], tick: int) -> tuple[float, float]:
    """Seconds that ran and that were stolen, by a line of the accounting. User and nice hold a guest's time already."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq) / tick, steal / tick


def between(before: Reading | None, after: Reading | None, cpus: int) -> Load | None:
    """CPU use between two readings on a host of that many CPUs; None where they are too close together or missing."""
    if before is None or after is None or cpus < 1:
        return None
    wall = after.at_s - before.at_s
    if wall < MIN_ACCOUNTING_TICKS * TICK_S:
        return None
    others = after.busy_s - before.busy_s - (after.own_s - before.own_s)
    stolen = _share(after.stolen_s - before.stolen_s, wall * cpus)
    return Load(_share(others, wall * cpus), stolen, _stolen_at_work(before, after, wall))


def since(readings: Sequence[Reading | None], after: Reading | None, cpus: int) -> Load | None:
    """CPU use up to `after`, from the latest of these readings that lies MIN_SAMPLES_S or more before it; from
    the first if none does. The accounting of a shorter point says nothing; with the points before it, it does."""
    known = [one for one in readings if one is not None]
    if after is None or not known:
        return None
    return between(next((one for one in reversed(known) if after.at_s - one.at_s >= MIN_SAMPLES_S), known[0]), after, cpus)


def _stolen_at_work(before: Reading, after: Reading, wall_s: float) -> float:
    """The largest share of the time that was stolen from a CPU at work: idle CPUs lose time too when they wake for a moment,
    and on a host of many that adds up to more than one CPU's, but it lengthens nothing."""
    used = []
    for name, (busy_s, stolen_s) in after.by_cpu.items():
        busy_before_s, stolen_before_s = before.by_cpu.get(name, (busy_s, stolen_s))
        used.append((busy_s - busy_before_s, stolen_s - stolen_before_s))
    most_s = max((busy + stolen for busy, stolen in used), default=0.0)
    at_work = [stolen for busy, stolen in used if busy + stolen >= MIN_WORK_SHARE * most_s]
    return _share(max(at_work, default=0.0) - TICK_S, wall_s)


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Use of the CPUs over the samples of a point: the shares of others, None of samples too short for it, and the longest
    share of the time for which a thread of this process had no CPU."""

    load: Load | None = None
    waited: float | None = None


class Watch:
    """Reads who uses the CPUs from its making on."""

    def __init__(self) -> None:
        self._before, self._waits, self._at_ns = read(), read_waits(), time.monotonic_ns()

    def use(self) -> CpuUse:
        """The use since then."""
        wall_ns = time.monotonic_ns() - self._at_ns
        waited = longest_share(self._waits, read_waits(), wall_ns)
        is_long = wall_ns >= 1e9 * MIN_SAMPLES_S
        return CpuUse(between(self._before, read(), os.cpu_count() or 0) if is_long else None, waited)


def _share(part: float, whole: float) -> float:
    return round(min(1.0, max(0.0, part / whole)), 3)
