"""One sample of commands: prepared and timed, with its event stamps read; part of the OpenCL runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clmembench.model import Command, Copy, DeviceError, Fill, Launch, Map, Migrate, Timing, TimingMethod
from clmembench.runtimes.opencl import enqueue

BLOCKING_SOURCE = """// One work-item computes for `rounds` steps, each of which needs the one before.
kernel void hold_queue(global uint* out, const uint rounds) {
    uint x = rounds;
    for (uint i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    out[0] = x;
}
"""
BLOCKING_TIME_FACTOR = 1.5  # times the time of enqueueing before
MIN_BLOCKING_NS = 2e5
MIN_BLOCKING_SHARE = 0.05  # of a batch's own time: where the host was not ahead, the whole batch is repeated
FIRST_ROUND_NS = 2.0  # of the blocking kernel, until one was measured; some five cycles
MAX_BATCH_TRIES = 6  # behind longer and longer blocking kernels


@dataclass(frozen=True, slots=True)
class CommandTimer:
    """A prepared sample. One of the method batch stamps its last command alone."""

    commands: Sequence[Command]
    passes: int
    clock: TimingMethod
    calls: list[enqueue.LibraryCall]
    events: enqueue.Events | None
    waits: list[enqueue.LibraryCall]  # for everything enqueued


def bind_command(command: Command, queues: Sequence[Any]) -> enqueue.PreparedCommand:
    """The call of a command other than a launch, on its queue."""
    if isinstance(command, Copy):
        return enqueue.bind_copy(command, queues[command.queue])
    if isinstance(command, Migrate):
        return enqueue.bind_migrate(command, queues[command.queue])
    if isinstance(command, Fill):
        return enqueue.bind_fill(command, queues[command.queue])
    if isinstance(command, Map):
        return enqueue.bind_map_and_unmap(command, queues[command.queue])
    raise TypeError(f"{type(command).__name__} is not a device command")


def prepare_commands(
    commands: Sequence[Command],
    passes: int,
    clock: TimingMethod,
    bound: Sequence[enqueue.PreparedCommand],
    used: Mapping[int, Any],
) -> CommandTimer:
    """Every call of a sample in its order; `used` are the queues by their number.

    Queues run concurrently within a pass, never across passes: the calls between passes wait for all of them.
    """
    waits = [enqueue.bind_finish(queue) for queue in used.values()]
    flushes = {number: enqueue.bind_flush(queue) for number, queue in used.items()}
    between = [*flushes.values(), *waits] if len(used) > 1 else []
    after = {n: c.after for n, c in enumerate(commands) if isinstance(c, Launch | Copy | Migrate) and c.after is not None}
    if after:
        return _prepare_dependent_commands(commands, passes, clock, bound, after, flushes, waits)
    events = None if clock == "host" else enqueue.Events(2 if clock == "batch" else len(bound) * passes)
    slots = events.slots() if events is not None else None
    alike = [command(None) for command in bound] if slots is None or clock == "batch" else []
    calls: list[enqueue.LibraryCall] = []
    if slots is not None and clock == "batch":
        calls = [*(alike * passes)[:-1], bound[-1](slots[1])]
        return CommandTimer(commands, passes, clock, calls, events, waits)
    for number in range(passes):
        first = number * len(bound)
        calls += alike if slots is None else [command(slots[first + n]) for n, command in enumerate(bound)]
        calls += between
    return CommandTimer(commands, passes, clock, calls if between else [*calls, *waits], events, waits)


def _prepare_dependent_commands(
    commands: Sequence[Command],
    passes: int,
    clock: TimingMethod,
    bound: Sequence[enqueue.PreparedCommand],
    after: Mapping[int, int],
    flushes: Mapping[int, enqueue.LibraryCall],
    waits: list[enqueue.LibraryCall],
) -> CommandTimer:
    """Commands some of which wait for others, by number. Each is submitted at once, so that those that wait for it begin."""
    if any(before >= number for number, before in after.items()) or clock == "batch":
        raise ValueError("a command waits for an earlier one of its pass, and not in a batch")
    events, wanted = enqueue.Events(len(bound) * passes), set(after.values())
    slots, calls = events.slots(), list[enqueue.LibraryCall]()
    for first in range(0, len(slots), len(bound)):
        for number, command in enumerate(bound):
            slot = slots[first + number] if clock != "host" or number in wanted else None
            waiting = {"after": slots[first + after[number]]} if number in after else {}
            calls += [command(slot, **waiting), flushes[getattr(commands[number], "queue", 0)]]
        calls += waits
    return CommandTimer(commands, passes, clock, calls, events, waits)


def time_commands(sample: CommandTimer) -> Timing:
    """Make the calls. Raises OpenCLFailure for one that fails, after everything enqueued before it has ended.

    Those commands may still use memory that its owner is about to release.
    """
    try:
        cpu, start = time.process_time_ns(), time.perf_counter_ns()
        enqueue.run_calls(sample.calls)
        host_ns = time.perf_counter_ns() - start
        cpu_ns = time.process_time_ns() - cpu
        if sample.events is None or sample.clock == "host":
            return Timing(host_ns, None, None, cpu_ns)
        return _stamped(sample, sample.events, host_ns, cpu_ns)
    except enqueue.OpenCLFailure:
        for wait in sample.waits:
            wait()
        raise
    finally:
        if sample.events is not None:
            sample.events.release()


@dataclass(slots=True)
class QueueBlocker:
    """Launches of a kernel that holds a queue for a while. `launch` takes its number of rounds."""

    launch: Callable[[int], enqueue.PreparedCommand]
    round_ns: float = FIRST_ROUND_NS
    wait_ns: float = BLOCKING_TIME_FACTOR * MIN_BLOCKING_NS

    def time_batch(self, sample: CommandTimer, flush: enqueue.LibraryCall) -> Timing:
        """The calls, all enqueued behind the blocking kernel: from its end to that of the last command.

        Whether the host was ahead is verified: where the blocking kernel had ended before the last call, all is repeated behind
        a longer one. Raises DeviceError where that does not help, and OpenCLFailure.
        """
        events = sample.events
        assert events is not None
        for _ in range(MAX_BATCH_TRIES):
            try:
                rounds = min(2**32 - 1, int(self.wait_ns / self.round_ns))
                cpu, start = time.process_time_ns(), time.perf_counter_ns()
                enqueue.run_calls([self.launch(rounds)(events.slots()[0]), flush])
                started = time.perf_counter_ns()
                enqueue.run_calls(sample.calls)
                enqueue_ns, ahead = time.perf_counter_ns() - started, not events.has_ended(0)
                enqueue.run_calls(sample.waits)
                host_ns, cpu_ns = time.perf_counter_ns() - start, time.process_time_ns() - cpu
                (begun,) = events.stamps(enqueue.PROFILING_STARTED, [0])
                free, ended = events.stamps(enqueue.PROFILING_ENDED, [0, 1])
            except enqueue.OpenCLFailure:
                for wait in sample.waits:
                    wait()
                raise
            finally:
                events.release()
            self.round_ns = max(0.01, _signed(free - begun) / max(1, rounds))
            device_ns = _signed(ended - free)
            if ahead:  # one slow call, as a program's first, must not hold every later batch for as long
                least_ns = BLOCKING_TIME_FACTOR * max(MIN_BLOCKING_NS, enqueue_ns)
                # stamps may leap, the host's clock does not
                self.wait_ns = max(least_ns, self.wait_ns / 2, MIN_BLOCKING_SHARE * min(device_ns, host_ns))
                return Timing(max(0, host_ns - _signed(free - begun)), device_ns, None, cpu_ns)
            self.wait_ns = 2 * max(self.wait_ns, enqueue_ns)
        raise DeviceError("the device began before the host had queued all passes: they cannot be timed together")


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
