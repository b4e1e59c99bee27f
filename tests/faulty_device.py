"""A device that runs launch's kernel and fails when told to: for the OpenCL runtime in a copy of the package.

FAULTY_DEVICE=KIND:GROUPS in the environment makes launches of that many work-groups fail, 0 all of them. (A name that a run's
header does not keep, so that a run can go on without the fault.) What hangs makes the file
FAULTY_AT first, where that is named.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clmembench.model import BuildError, Clock, Command, DeviceError, DeviceInfo, Fill, Kernel, Launch, Place, Timing, Value
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

    def run(self, commands: Sequence[Command]) -> None:
        self.time(commands, 1, "host")

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        if _fault()[0] == "build" and "mark" in source:
            raise BuildError("build failed: 3:5: error: use of undeclared identifier 'nonsense'", "the whole log")
        return FakeDevice.build(self, source, **defines)

    def time(self, commands: Sequence[Command], passes: int, clock: Clock) -> Timing:
        if self.lost:
            raise DeviceError("clFinish failed: DEVICE_NOT_AVAILABLE")
        device_ns = queue_ns = 0
        for command in commands:
            if isinstance(command, Fill):
                command.buffer.content = np.full(command.nbytes, command.byte, np.uint8)
            elif isinstance(command, Launch):
                steps = int(command.args[2]) if command.kernel.name == "alu_chain" else 0
                device_ns, queue_ns = device_ns + 1000 + 10 * steps, queue_ns + 500
                if command.kernel.name == "mark":
                    self._mark(command)
        device_ns, queue_ns, host_ns = passes * device_ns, passes * queue_ns, 2 * passes * device_ns
        if clock == "host":
            return Timing(host_ns, None, None, device_ns)
        # every tenth sample: what a clock that was set meanwhile leaves
        self.samples += 1
        leap, late = LEAPS.get(_fault()[0], (0, 0)) if self.samples % 10 == 9 else (0, 0)
        return Timing(host_ns, device_ns + leap, queue_ns + late, device_ns)

    def _mark(self, launch: Launch) -> None:
        kind, groups = _fault()
        local = launch.local_size[0] if launch.local_size else 1
        if launch.global_size[0] in (groups * local, groups or launch.global_size[0]) and kind in FAULTS:
            FAULTS[kind](self)
        buffer: FakeBuffer = launch.args[0]
        buffer.content = np.array([launch.args[1]], np.uint32)


def _fault() -> tuple[str, int]:
    kind, _, groups = os.environ.get("FAULTY_DEVICE", "").partition(":")
    return kind, int(groups or 0)


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
    "slow": _slow,
}


class Faulty:
    """Says that it is OpenCL, and has one device; FAULTY_OPEN=hang or refuse makes opening it fail, as probing does first."""

    name = "opencl"

    def devices(self) -> list[DeviceInfo]:
        return [replace(FAKE_DEVICE_INFO, id="fau17", name="Faulty device")]

    def environment(self, info: DeviceInfo, place: Place) -> Mapping[str, str]:
        return {}

    def open(self, info: DeviceInfo) -> FaultyDevice:
        device = FaultyDevice(replace(info))
        if os.environ.get("FAULTY_OPEN") == "hang":
            _hang(device)
        if os.environ.get("FAULTY_OPEN") == "refuse":
            raise DeviceError("clCreateContext failed: DEVICE_NOT_AVAILABLE")
        return device


RUNTIME = Faulty()
