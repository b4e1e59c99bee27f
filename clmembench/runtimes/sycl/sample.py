"""One sample of commands: prepared and timed, with its event stamps read; part of the SYCL runtime."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clmembench.model import Command, Copy, Fill, HostPart, Launch, Map, Skip, Timing, TimingMethod
from clmembench.runtimes.sycl import enqueue
from clmembench.runtimes.sycl.library import c_library

NO_AFTER = "commands on several queues that wait for each other are OpenCL's"
NO_MAP = "SYCL has no map and unmap: host and device both see shared and host allocations"


@dataclass(frozen=True, slots=True)
class CommandTimer:
    """A prepared sample: every call of it in its order."""

    commands: Sequence[Command]
    passes: int
    clock: TimingMethod
    calls: list[enqueue.LibraryCall]
    waits: list[enqueue.LibraryCall]  # for everything submitted


def bind_command(command: Command, queues: Sequence[Any]) -> enqueue.LibraryCall:
    """The call of a command, on its queue."""
    if isinstance(command, Launch):
        return enqueue.bind_launch(command, command.kernel.handle, queues[command.queue])  # type: ignore[attr-defined]
    if isinstance(command, HostPart):
        launch = command.launch
        return enqueue.bind_host_part(launch, launch.kernel.handle, queues[launch.queue])  # type: ignore[attr-defined]
    if getattr(command, "after", None) is not None:
        raise Skip(NO_AFTER)
    if isinstance(command, Copy):
        return enqueue.bind_copy(command, queues[command.queue])
    if isinstance(command, Fill):
        return enqueue.bind_fill(command, queues[command.queue])
    if isinstance(command, Map):
        raise Skip(NO_MAP)
    raise TypeError(f"{type(command).__name__} is not a device command")


def prepare_commands(
    commands: Sequence[Command], passes: int, clock: TimingMethod, bound: Sequence[enqueue.LibraryCall], used: Sequence[Any]
) -> CommandTimer:
    """Every call of a sample in its order.

    Queues run concurrently within a pass, never across passes: the calls between passes wait for all of them.
    """
    waits = [enqueue.bind_wait(queue) for queue in used]
    calls = [*bound, *waits] * passes if len(used) > 1 else [*list(bound) * passes, *waits]
    return CommandTimer(commands, passes, clock, calls, waits)


def time_commands(sample: CommandTimer) -> Timing:
    """Make the calls. Raises SyclFailure for one that fails, after everything submitted before it has ended.

    Those commands may still use memory that its owner is about to release.
    """
    events: list[int] = []
    try:
        cpu, start = time.process_time_ns(), time.perf_counter_ns()
        enqueue.run_calls(sample.calls, events)
        host_ns = time.perf_counter_ns() - start
        cpu_ns = time.process_time_ns() - cpu
        if sample.clock == "host":
            return Timing(host_ns, None, None, cpu_ns)
        return _stamped(sample, [event for event in events if event != enqueue.NO_EVENT], host_ns, cpu_ns)
    except enqueue.SyclFailure:
        for wait in sample.waits:
            wait()
        raise
    finally:
        enqueue.delete_events(events)


def _stamped(sample: CommandTimer, events: Sequence[int], host_ns: int, cpu_ns: int) -> Timing:
    """Times of each pass: the delay from submission to start of its first command, and the time from first start to last end.

    SYCL takes the stamp of the submission within the call that submits; it has no stamp between that and the start.
    """
    commands = len(sample.commands)
    firsts = range(0, commands * sample.passes, commands)
    starts, ends = _stamps(events, "Start"), _stamps(events, "End")
    submitted = _stamps([events[n] for n in firsts], "Submit")
    device_ns = sum(max(ends[n : n + commands]) - min(starts[n : n + commands]) for n in firsts)
    return Timing(host_ns, _signed(device_ns), _signed(sum(starts[n] for n in firsts) - sum(submitted)), cpu_ns)


def _stamps(events: Sequence[int], which: str) -> list[int]:
    ask = getattr(c_library(held=True), f"DPCTLEvent_GetProfilingInfo{which}")
    return [ask(ctypes.c_void_p(event)) for event in events]


def _signed(difference: int) -> int:
    """A difference of stamps, which are unsigned, as a signed 64-bit number."""
    return (difference + (1 << 63)) % (1 << 64) - (1 << 63)
