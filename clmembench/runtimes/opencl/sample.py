"""One sample of commands: prepared and timed, with its event stamps read; part of the OpenCL runtime."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clmembench.model import Clock, Command, Copy, Fill, Map, Timing
from clmembench.runtimes.opencl import enqueue


@dataclass(frozen=True, slots=True)
class CommandTimer:
    """A prepared sample."""

    commands: Sequence[Command]
    passes: int
    clock: Clock
    calls: list[enqueue.LibraryCall]
    events: enqueue.Events | None
    waits: list[enqueue.LibraryCall]  # for everything enqueued


def bind_command(command: Command, queues: Sequence[Any]) -> enqueue.PreparedCommand:
    """The call of a command other than a launch, on its queue."""
    if isinstance(command, Copy):
        return enqueue.bind_copy(command, queues[command.queue])
    if isinstance(command, Fill):
        return enqueue.bind_fill(command, queues[command.queue])
    if isinstance(command, Map):
        return enqueue.bind_map_and_unmap(command, queues[command.queue])
    raise TypeError(f"{type(command).__name__} is not a device command")


def prepare_commands(
    commands: Sequence[Command], passes: int, clock: Clock, bound: Sequence[enqueue.PreparedCommand], used: Sequence[Any]
) -> CommandTimer:
    """Every call of a sample in its order.

    Queues run concurrently within a pass, never across passes: the calls between passes wait for all of them.
    """
    events = None if clock == "host" else enqueue.Events(len(bound) * passes)
    waits = [enqueue.bind_finish(queue) for queue in used]
    between = [*map(enqueue.bind_flush, used), *waits] if len(used) > 1 else []
    slots = events.slots() if events is not None else None
    alike = [command(None) for command in bound] if slots is None else []
    calls: list[enqueue.LibraryCall] = []
    for number in range(passes):
        first = number * len(bound)
        calls += alike if slots is None else [command(slots[first + n]) for n, command in enumerate(bound)]
        calls += between
    return CommandTimer(commands, passes, clock, calls if between else [*calls, *waits], events, waits)


def time_commands(sample: CommandTimer) -> Timing:
    """Make the calls. Raises OpenCLFailure for one that fails, after everything enqueued before it has ended.

    Those commands may still use memory that its owner is about to release.
    """
    try:
        cpu, start = time.process_time_ns(), time.perf_counter_ns()
        enqueue.run_calls(sample.calls)
        host_ns = time.perf_counter_ns() - start
        cpu_ns = time.process_time_ns() - cpu
        if sample.events is None:
            return Timing(host_ns, None, None, cpu_ns)
        return _stamped(sample, sample.events, host_ns, cpu_ns)
    except enqueue.OpenCLFailure:
        for wait in sample.waits:
            wait()
        raise
    finally:
        if sample.events is not None:
            sample.events.release()


def _stamped(sample: CommandTimer, events: enqueue.Events, host_ns: int, cpu_ns: int) -> Timing:
    """Times of each pass: the delay of its first command, and the time from the first start to the last end of its commands.

    The submission stamp is read only if the delay before the start is measured: reading a stamp takes half a microsecond.
    """
    commands = len(sample.commands)
    every, firsts = range(commands * sample.passes), range(0, commands * sample.passes, commands)
    starts, ends = events.stamps(enqueue.PROFILING_STARTED, every), events.stamps(enqueue.PROFILING_ENDED, every)
    queued = events.stamps(enqueue.PROFILING_QUEUED, firsts)
    submit_ns = (
        _signed(sum(events.stamps(enqueue.PROFILING_SUBMITTED, firsts)) - sum(queued)) if sample.clock == "queue" else None
    )
    device_ns = _signed(sum(max(ends[n : n + commands]) - min(starts[n : n + commands]) for n in firsts))
    queue_ns = _signed(sum(starts[n] for n in firsts) - sum(queued))
    return Timing(host_ns, device_ns, queue_ns, cpu_ns, submit_ns)


def _signed(difference: int) -> int:
    """A difference of stamps as a signed 64-bit number.

    Stamps are unsigned, and a clock that was set back gives a difference of nearly 2^64.
    """
    return (difference + (1 << 63)) % (1 << 64) - (1 << 63)
