"""A device that runs launch's kernel and fails when told to: for the OpenCL runtime in a copy of the package.

FAULTY_DEVICE=KIND:GROUPS in the environment makes launches of that many work-groups fail, 0 all of them; several such, with
commas between, are as many faults. (A name that a run's header does not keep, so that a run can go on without the fault.)
KIND:GROUPS:BENCHMARK is a fault of the samples of one benchmark alone: launch, launch_wait or launch_dispatch, which the device
tells from each other by the commands of a sample. What hangs makes the file FAULTY_AT first, where that is named.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from clmembench.model import (
    BuildError,
    Clock,
    Command,
    DeviceError,
    DeviceInfo,
    Fill,
    Kernel,
    Launch,
    Placement,
    Runtime,
    Timing,
    Value,
)
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeBuffer, FakeDevice

HOUR_NS = 3_600_000_000_000
# what is added to the time on the device and in the queue; stamps may be any number of 64 bits
LEAPS = {
    "ahead": (HOUR_NS, HOUR_NS),
    "back": (-HOUR_NS, -HOUR_NS),
    "wrapped": (HOUR_NS - 2**64, HOUR_NS - 2**64),
    "beyond": (2**64 - HOUR_NS, 2**64 - HOUR_NS),
    "queued": (0, HOUR_NS),
}
MEMORY = "clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE: the device could not allocate memory: lower --size"


@dataclass(slots=True)
class FaultyDevice(FakeDevice):
    """Leaves what launch's kernel leaves, so that its points are ok, in constant times."""

    lost: bool = False
    samples: int = 0
    passed: bool = False  # the gate

    def run(self, commands: Sequence[Command]) -> None:
        self._launch(commands, 1, "")

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        if any(kind == "build" for kind, *_ in _faults()) and "mark" in source:
            raise BuildError("build failed: 3:5: error: use of undeclared identifier 'nonsense'", "the whole log")
        return FakeDevice.build(self, source, **defines)

    def time(self, commands: Sequence[Command], passes: int, clock: Clock) -> Timing:
        return self._launch(commands, passes, clock)

    def _launch(self, commands: Sequence[Command], passes: int, clock: Clock | Literal[""]) -> Timing:
        if self.lost:
            raise DeviceError("clFinish failed: DEVICE_NOT_AVAILABLE")
        device_ns = queue_ns = groups = 0
        launches = sum(isinstance(command, Launch) for command in commands)
        benchmark = "launch_dispatch" if launches > 1 else {"host": "launch", "queue": "launch_wait"}.get(clock, "")
        for command in commands:
            if isinstance(command, Fill):
                command.buffer.content = np.full(command.nbytes, command.byte, np.uint8)
            elif isinstance(command, Launch):
                steps = int(command.args[2]) if command.kernel.name == "alu_chain" else 0
                device_ns, queue_ns = device_ns + 1000 + 10 * steps, queue_ns + 500
                if command.kernel.name == "mark":
                    groups = _groups(command)
                    self._mark(command, benchmark)
        device_ns, queue_ns, host_ns = passes * device_ns, passes * queue_ns, 2 * passes * device_ns
        if clock in ("host", ""):
            return Timing(host_ns, None, None, device_ns)
        # every tenth sample: what a clock that was set meanwhile leaves
        self.samples += 1
        leap, late = next((LEAPS[kind] for kind in _kinds(groups, benchmark) if kind in LEAPS), (0, 0))
        if self.samples % 10 != 9:
            leap = late = 0
        return Timing(host_ns, device_ns + leap, queue_ns + late, device_ns)

    def _mark(self, launch: Launch, benchmark: str) -> None:
        for kind in _kinds(_groups(launch), benchmark):
            if kind in FAULTS:
                FAULTS[kind](self)
        buffer: FakeBuffer = launch.args[0]
        buffer.content = np.array([launch.args[1]], np.uint32)


def _groups(launch: Launch) -> int:
    return launch.global_size[0] // (launch.local_size[0] if launch.local_size else 1)


def _faults() -> list[tuple[str, int, str]]:
    """Of each fault its kind, the number of work-groups or 0, and the benchmark or ""."""
    parts = [fault.split(":") for fault in os.environ.get("FAULTY_DEVICE", "").split(",") if fault]
    return [(kind, int(rest[0]) if rest else 0, rest[1] if rest[1:] else "") for kind, *rest in parts]


def _kinds(groups: int, benchmark: str) -> list[str]:
    """The faults of a launch."""
    return [kind for kind, of, only in _faults() if of in (0, groups) and only in ("", benchmark)]


def _segfault(device: FaultyDevice) -> None:
    ctypes.string_at(0)


def _abort(device: FaultyDevice) -> None:
    os.abort()


def _exit(device: FaultyDevice) -> None:
    os._exit(7)


def _hang(device: FaultyDevice) -> None:
    """As a driver's blocking call does: outside Python, which then notices nothing."""
    if "FAULTY_AT" in os.environ:
        Path(os.environ["FAULTY_AT"]).touch()
    while True:
        ctypes.PyDLL(None).pause()


def _deaf(device: FaultyDevice) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang(device)


def _refuse(device: FaultyDevice) -> None:
    raise DeviceError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES: the device is out of resources: lower --size")


def _memory(device: FaultyDevice) -> None:
    raise DeviceError(MEMORY)


def _lose(device: FaultyDevice) -> None:
    device.lost = True
    raise DeviceError("clFinish failed: OUT_OF_RESOURCES")


def _chatter(device: FaultyDevice) -> None:
    os.write(1, b"a driver's word on standard output\n")


def _gate(device: FaultyDevice) -> None:
    """Makes FAULTY_AT and waits until it is gone: what a test does meanwhile is done within this point."""
    gate = Path(os.environ["FAULTY_AT"])
    if not device.passed:
        device.passed = True
        gate.touch()
        while gate.exists():
            time.sleep(0.01)


def _slow(device: FaultyDevice) -> None:
    """Its points take some tenths of a second, in the place of a hundredth."""
    time.sleep(0.02)


FAULTS: Mapping[str, Callable[[FaultyDevice], None]] = {
    "segfault": _segfault,
    "abort": _abort,
    "exit": _exit,
    "hang": _hang,
    "deaf": _deaf,
    "refuse": _refuse,
    "memory": _memory,
    "lost": _lose,
    "chatter": _chatter,
    "gate": _gate,
    "slow": _slow,
}


class Faulty(Runtime):
    """Says that it is OpenCL, and has one device; FAULTY_OPEN=hang or refuse makes opening it fail, as probing does first."""

    name = "opencl"

    def devices(self) -> list[DeviceInfo]:
        return [replace(FAKE_DEVICE_INFO, id="fau17", name="Faulty device", runtime="opencl")]

    def environment(self, info: DeviceInfo, place: Placement) -> Mapping[str, str]:
        return {}

    def open(self, info: DeviceInfo) -> FaultyDevice:
        device = FaultyDevice(replace(info))
        if os.environ.get("FAULTY_OPEN") == "hang":
            _hang(device)
        if os.environ.get("FAULTY_OPEN") == "refuse":
            raise DeviceError("clCreateContext failed: DEVICE_NOT_AVAILABLE")
        return device


RUNTIME = Faulty()
