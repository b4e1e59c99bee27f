"""What runtimes share: limits checked before a driver is called, options and hashes of builds, timing of library work."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from clmembench.model import Array, Batch, Call, Command, DeviceError, DeviceInfo, Launch, Local, Timing, Value


def unusable_claim(info: DeviceInfo) -> str:
    """The reason why nothing can be measured on a device with such claims; empty if something can."""
    for claim, number in (
        ("allocate at most", info.max_alloc_bytes),
        ("have a memory of", info.global_mem_bytes),
    ):
        if number < 1:
            return f"its driver claims to {claim} {number} B"
    for claim, number in (("compute units", info.compute_units), ("work-items in a work-group, at most", info.max_work_group)):
        if number < 1:
            return f"its driver claims {number} {claim}"
    return ""


def check_buffer(info: DeviceInfo, nbytes: int) -> None:
    """Raises DeviceError for a buffer over the device's largest, with the sizes, before the driver allocates anything."""
    limit = info.max_alloc_bytes
    if nbytes > limit:
        raise DeviceError(
            f"a buffer of {nbytes / 2**30:.2f} GiB is over this device's largest, {limit / 2**30:.2f} GiB: lower --size (or -a)"
        )


def check_shape(info: DeviceInfo, launch: Launch) -> None:
    """Raises DeviceError for local memory or work-groups over the device's limits.

    Some drivers report no error for these: they crash, or continue.
    """
    local = sum(a.nbytes for a in launch.args if isinstance(a, Local))
    if local > info.local_mem_bytes:
        raise DeviceError(f"{local} B of local memory for a work-group is over this device's {info.local_mem_bytes} B")
    items = int(np.prod(launch.local_size)) if launch.local_size else 1
    if items > info.max_work_group:
        raise DeviceError(f"a work-group of {items} is over this device's {info.max_work_group} work-items")


def host_address(array: Array, nbytes: int) -> int:
    """The address of a host array.

    Raises ValueError where it is not `nbytes` of contiguous memory: a driver would access memory beyond it.
    """
    if not array.flags.c_contiguous or array.nbytes < nbytes:
        raise ValueError(f"a host array of {array.nbytes} B is not {nbytes} B of contiguous memory")
    return int(array.ctypes.data)


def first_error(log: str) -> str:
    """The first line of a build log that names an error, without the driver's file name for the source."""
    for line in log.splitlines():
        if re.search(r"\berror\b(?! generated)", line, re.IGNORECASE) and "clBuildProgram failed" not in line:
            return "build failed: " + re.sub(r"(?:^|(?<= ))\S*?(?=\d+:\d+:|line )", "", line.strip())
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return "build failed: " + (lines[0] if lines else "the driver gave no log")


def options_of(defines: Mapping[str, Value]) -> list[str]:
    """Compiler options that define these macros. Drivers divide options at blanks, so that a value has comments for them."""
    texts = {name: str(int(v) if isinstance(v, bool) else v) for name, v in sorted(defines.items())}
    return [f"-D{name}={'/**/'.join(text.split())}" for name, text in texts.items()]


class BuiltSources:
    """Sources that were built since the last call of `hashes`, with their options, and how long all builds took."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self.seconds = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time of a build."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begun

    def add(self, source: str, options: list[str]) -> str:
        """Record a build; the result is a key of its program."""
        self._keys.append(source + "\0" + " ".join(options))
        return self._keys[-1]

    def hashes(self) -> str:
        """Two hashes of what was built since the last call, joined by a dash: of the sources only, and of sources and
        options."""
        built, self._keys = sorted(set(self._keys)), []
        alone = sorted({key.partition("\0")[0] for key in built})
        return "-".join(hashlib.sha256("\0\0".join(text).encode()).hexdigest()[:16] for text in (alone, built)) if built else ""


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
