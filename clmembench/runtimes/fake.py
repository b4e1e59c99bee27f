"""A device that runs nothing and returns scripted times: for tests, exact and fast."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from clmembench.model import (
    Array,
    Command,
    DeviceError,
    DeviceInfo,
    ImageForm,
    Kernel,
    Launch,
    MemoryKind,
    Placement,
    Runtime,
    Timing,
    TimingMethod,
    Value,
)

FAKE_DEVICE_INFO = DeviceInfo(
    id="fake",
    name="Fake device",
    platform="Fake",
    vendor="nobody",
    kind="gpu",
    driver="1.0",
    version="OpenCL 3.0 fake",
    compute_units=8,
    global_mem_bytes=16 << 30,
    max_alloc_bytes=4 << 30,
    local_mem_bytes=48 << 10,
    max_work_group=1024,
    line_bytes=128,
    cache_bytes=4 << 20,
    max_clock_mhz=1000,
    timer_resolution_ns=1,
    shares_host_memory=False,
    host_mem_bytes=64 << 30,
    features=frozenset({"fp64", "int64_atomics", "images", "nontemporal", "ptx"}),
    image_width=32 << 10,
    image_height=32 << 10,
    image_buffer_texels=128 << 20,
    selector="0:0",
    uuid="fa4e",
    runtime="fake",
)

Script = Callable[[Sequence[Command], int], int]  # commands and passes to device ns


def script_by_arguments(commands: Sequence[Command], passes: int) -> int:
    """The default script: 1 us per launch, and 1 ns for each unit of the launch's last integer argument."""
    total = 0
    for command in commands:
        numbers = [int(a) for a in command.args if isinstance(a, np.integer)] if isinstance(command, Launch) else []
        total += 1000 + (numbers[-1] if numbers else 0)
    return passes * total


@dataclass(slots=True, eq=False)
class FakeBuffer:
    """A buffer that stores uploaded data and is zero elsewhere."""

    nbytes: int
    kind: str
    content: Array | None = None


@dataclass(frozen=True, slots=True)
class FakeKernel:
    """A name."""

    name: str


class _AnyKernel(dict[str, Kernel]):
    """A mapping in which every name is a kernel."""

    def __missing__(self, name: str) -> Kernel:
        return FakeKernel(name)


@dataclass(slots=True)
class FakeDevice:
    """A device that logs every command; times come from `script`."""

    info: DeviceInfo = FAKE_DEVICE_INFO
    script: Script = script_by_arguments
    seed: int = 0
    log: list[Command] = field(default_factory=list)
    built: list[Mapping[str, Value]] = field(default_factory=list)
    timed: list[tuple[int, TimingMethod]] = field(default_factory=list)
    buffers: dict[str, FakeBuffer] = field(default_factory=dict)
    facts: Mapping[str, Value] = field(default_factory=dict)  # its compiler's facts about any kernel
    build_s: float = 0.0
    known_facts: dict[str, Mapping[str, Value]] = field(default_factory=dict)

    def alloc(self, nbytes: int, kind: MemoryKind = "device") -> FakeBuffer:
        """Raises DeviceError over the largest allocation, like a real device."""
        if nbytes <= 0 or nbytes > self.info.max_alloc_bytes:
            raise DeviceError(f"{nbytes} bytes are not between 1 and the largest allocation, {self.info.max_alloc_bytes}")
        return FakeBuffer(nbytes, kind)

    def kept(self, name: str, nbytes: int) -> FakeBuffer:
        if name not in self.buffers or self.buffers[name].nbytes < nbytes:
            self.buffers[name] = self.alloc(nbytes)
        return self.buffers[name]

    def release(self) -> None:
        self.buffers.clear()

    def image(self, texels: Array, form: ImageForm) -> FakeBuffer:
        return FakeBuffer(texels.nbytes, form, texels.copy())

    def host_array(self, nbytes: int, pinned: bool) -> Array:
        return np.zeros(nbytes, dtype=np.uint8)

    def upload(self, buffer: FakeBuffer, array: Array) -> None:
        if array.nbytes > buffer.nbytes:
            raise DeviceError(f"{array.nbytes} bytes do not fit into {buffer.nbytes}")
        buffer.content = array.copy()

    def download(self, buffer: FakeBuffer, dtype: npt.DTypeLike, count: int, offset_bytes: int = 0) -> Array:
        end = offset_bytes + count * np.dtype(dtype).itemsize
        if end > buffer.nbytes:
            raise DeviceError(f"bytes up to {end} are outside a buffer of {buffer.nbytes}")
        if buffer.content is not None and buffer.content.nbytes >= end:
            return buffer.content.view(np.uint8).ravel()[offset_bytes:end].view(dtype).copy()
        return np.zeros(count, dtype=dtype)

    @contextmanager
    def mapped(self, buffer: FakeBuffer, nbytes: int, mode: Literal["read", "write"]) -> Iterator[Array]:
        yield np.zeros(nbytes, dtype=np.uint8)

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        """Every kernel name exists; the defines are stored."""
        self.built.append(defines)
        return _AnyKernel()

    def assemble(self, program: str) -> Mapping[str, Kernel]:
        """Like build."""
        return self.build(program)

    def compiled(self, kernel: Kernel) -> Mapping[str, Value]:
        """The same facts for every kernel."""
        return self.facts

    def sources(self) -> str:
        built, self.built = self.built, []
        return f"fake-{len(built)}" if built else ""

    def run(self, commands: Sequence[Command]) -> None:
        self.log.extend(commands)
        self.script(commands, 1)  # a script may raise an error, crash or hang

    def time(self, commands: Sequence[Command], passes: int, clock: TimingMethod) -> Timing:
        """The script's time as device time, twice that as host time, a tenth of it as queue time."""
        self.log.extend(commands)
        self.timed.append((passes, clock))
        device_ns = self.script(commands, passes)
        stamped = clock != "host"
        return Timing(2 * device_ns, device_ns if stamped else None, device_ns // 10 if stamped else None, device_ns)


class Fake(Runtime):
    """A runtime with one fake device, or as many as CLMEMBENCH_FAKE_DEVICES says. CLMEMBENCH_FAKE_FAULT=KIND:KERNEL in the
    environment makes that kernel crash, hang or fail."""

    name = "fake"

    def devices(self) -> list[DeviceInfo]:
        count = int(os.environ.get("CLMEMBENCH_FAKE_DEVICES", "1"))
        further = (replace(FAKE_DEVICE_INFO, id=f"fake-{n}", uuid=f"fa4e{n}", selector=f"0:{n}") for n in range(1, count))
        return [FAKE_DEVICE_INFO if count == 1 else replace(FAKE_DEVICE_INFO, uuid="fa4e0"), *further]

    def environment(self, info: DeviceInfo, place: Placement) -> Mapping[str, str]:
        return {} if place.compute_units is None else {"CLMEMBENCH_FAKE_UNITS": str(place.compute_units)}

    def open(self, info: DeviceInfo) -> FakeDevice:
        kind, _, kernel = os.environ.get("CLMEMBENCH_FAKE_FAULT", "").partition(":")
        return FakeDevice(replace(info), script=_faulty(kind, kernel) if kind else script_by_arguments)


def _faulty(kind: str, kernel: str) -> Script:
    """The default script, which fails at a launch of this kernel."""

    def script(commands: Sequence[Command], passes: int) -> int:
        if any(isinstance(c, Launch) and c.kernel.name == kernel for c in commands):
            _FAULTS[kind]()
        return script_by_arguments(commands, passes)

    return script


def _segfault() -> None:
    ctypes.string_at(0)


def _hang() -> None:
    while True:
        time.sleep(1)


def _refuse() -> None:
    raise DeviceError("the fake device refuses")


_FAULTS = {"segfault": _segfault, "hang": _hang, "refuse": _refuse}

RUNTIME = Fake()
