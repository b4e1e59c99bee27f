"""What a point asks of a device, without running it: a simulator need not be asked the same twice."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from clmembench.model import Array, Benchmark, Command, DeviceInfo, ImageForm, Kernel, Prepared, Value, Work
from clmembench.runtimes.fake import FakeBuffer, FakeDevice, FakeKernel


class _Unknown(Exception):
    """Something whose effect cannot be compared, such as a function of the host's."""


class _Kernels(dict[str, Kernel]):
    """Every name is a kernel of that build."""

    def __init__(self, build: int) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, name: str) -> Kernel:
        return FakeKernel(f"{self._build}.{name}")


class Recorder(FakeDevice):
    """A device that runs nothing and keeps what it is asked, in the order of asking."""

    def __init__(self, info: DeviceInfo) -> None:
        super().__init__(info)
        self.asked: list[Any] = []
        self._known: list[FakeBuffer] = []  # kept, so that no two have one id

    def _new(self, buffer: FakeBuffer, *of: Any) -> FakeBuffer:
        self._known.append(buffer)
        self.asked.append(("new", buffer.nbytes, *of))
        return buffer

    def alloc(self, nbytes: int, kind: Literal["device", "mapped"] = "device") -> FakeBuffer:
        return self._new(super().alloc(nbytes, kind), kind)

    def image(self, texels: Array, form: ImageForm) -> FakeBuffer:
        return self._new(super().image(texels, form), form, self.plain(texels))

    def upload(self, buffer: FakeBuffer, array: Array) -> None:
        super().upload(buffer, array)
        self.asked.append(("upload", self.plain(buffer), self.plain(array)))

    def mapped(self, buffer: FakeBuffer, nbytes: int, mode: Literal["read", "write"]) -> Any:
        raise _Unknown

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        self.asked.append(("build", source, sorted(defines.items())))
        return _Kernels(len(self.asked))

    def run(self, commands: Sequence[Command]) -> None:
        self.asked.append(("run", self.plain(commands)))

    def plain(self, value: Any) -> Any:
        """A value as text and numbers; buffers are numbered. Raises _Unknown."""
        if isinstance(value, FakeBuffer):
            return "buffer", next(n for n, known in enumerate(self._known) if known is value)
        if isinstance(value, np.ndarray | np.generic):
            return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()
        if isinstance(value, tuple | list):
            return [self.plain(one) for one in value]
        if dataclasses.is_dataclass(value):
            return type(value).__name__, [self.plain(getattr(value, f.name)) for f in dataclasses.fields(value)]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise _Unknown


def request(
    benchmark: Benchmark, info: DeviceInfo, params: Mapping[str, Value], ends: Callable[[Prepared], list[Work]]
) -> str | None:
    """A hash of all builds, contents of buffers and commands of a point; None where they are not known beforehand."""
    device = Recorder(info)
    try:
        works = ends(benchmark.prepare(device, **params))
        asked = [[device.plain(getattr(work, name)) for name in ("before", "commands", "outputs", "clock")] for work in works]
        if any(work.reads for work in works):
            return None
        return hashlib.sha256(repr((device.asked, asked)).encode()).hexdigest()
    except Exception:  # which then is the simulated device's to meet
        return None
