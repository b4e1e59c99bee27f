"""Times the work of peer libraries by the host's clock or their own: commands that no runtime enqueues."""

from __future__ import annotations

import time
from collections.abc import Sequence

from clmembench.model import Batch, Call, Command, Timing


def time_library_work(commands: Sequence[Command], passes: int) -> Timing | None:
    """One sample of commands that belong to a library; None for commands of a device."""
    if any(isinstance(command, Batch) for command in commands):
        return _time_batch(commands, passes)
    if any(isinstance(command, Call) for command in commands):
        return _time_calls(commands, passes)
    return None


def _time_calls(commands: Sequence[Command], passes: int) -> Timing:
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(passes):
        for command in commands:
            if not isinstance(command, Call):
                raise TypeError("a Call cannot be mixed with device commands in one Work")
            command.function()
    return Timing(time.perf_counter_ns() - start, None, None, time.process_time_ns() - cpu)


def _time_batch(commands: Sequence[Command], passes: int) -> Timing:
    """A library's passes by its own clock. The time that it kept the device busy before them is subtracted from the host's
    time."""
    command = commands[0]
    if len(commands) != 1 or not isinstance(command, Batch):
        raise TypeError("a Batch is the only command of its Work")
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    device_ns, before_ns = command.function(passes)
    host_ns = time.perf_counter_ns() - start
    return Timing(max(0, host_ns - before_ns), device_ns, None, time.process_time_ns() - cpu)
