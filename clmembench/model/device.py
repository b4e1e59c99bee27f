"""Devices: their claims, and the two interfaces (Device, Runtime) that a runtime implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy.typing as npt

from clmembench.model.work import Array, Buffer, Clock, Command, Kernel, Value

ImageForm = Literal["1d_buffer", "1d", "2d"]
MemoryKind = Literal["device", "mapped", "shared", "host"]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Claims of a runtime about a device, to be audited. Sizes in bytes; cpu_id is vendor-family-model."""

    id: str
    name: str
    platform: str
    vendor: str
    kind: Literal["gpu", "cpu", "accelerator"]
    driver: str
    version: str
    compute_units: int
    global_mem_bytes: int
    max_alloc_bytes: int
    local_mem_bytes: int
    max_work_group: int
    line_bytes: int
    cache_bytes: int
    max_clock_mhz: int
    timer_resolution_ns: int
    shares_host_memory: bool
    host_mem_bytes: int
    features: frozenset[str]
    selector: str = ""  # platform:device index
    uuid: str = ""
    pci: str = ""
    cpu_id: str = ""
    array_bytes: int | None = None  # the user's --size
    work_groups: int | None = None  # launch exactly that many, where a Place asks for it; on CPUs compute_units is what changes
    constant_bytes: int = 64 << 10  # of one constant buffer
    image_width: int = 0  # texels, of an image in one dimension too
    image_height: int = 0
    image_buffer_texels: int = 0
    sub_group_items: int = 0  # where the driver says how wide all sub-groups are; else 0
    local_mem_type: Literal["", "local", "global"] = ""  # where local memory lies, by the driver; "" in runs of older versions
    runtime: str = "opencl"  # the name of the runtime that listed it and opens it
    instance: int = 0  # from 1, among devices of one driver that are alike and have neither UUID nor PCI address of their own
    library: str = ""  # of its driver, where it is the only one that worker processes may load: another one ends them

    @property
    def has_cpu_cores(self) -> bool:
        """Whether work-groups run as threads on cores with caches: on CPUs, and on an accelerator that keeps local memory in
        cached global memory, as Intel's runtime reports a Xeon Phi. Kernels' shapes, orders and mappings ask this; what needs
        the host's own processor (its threads, memory, sensors and CPU time) asks whether `kind` is cpu."""
        in_cache = self.local_mem_type == "global" and self.cache_bytes > 0
        return self.kind == "cpu" or (self.kind == "accelerator" and in_cache)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a process runs: on that many compute units (None: all) of a CPU, its threads on those CPUs in that order (empty:
    any); on other devices with that many work-groups. `placement` names how the CPUs were chosen. A process has one."""

    compute_units: int | None = None
    cpus: tuple[int, ...] = ()
    placement: str = ""
    cores: int | None = None  # that those CPUs are threads of

    def seen(self, info: DeviceInfo) -> DeviceInfo:
        """The device as benchmarks see it here: a CPU with fewer compute units, others with a number of work-groups."""
        if self.compute_units is None:
            return info
        if info.kind == "cpu":
            return replace(info, compute_units=self.compute_units)
        return replace(info, work_groups=self.compute_units)


MAX_TIME_NS = 2**63 - 1  # of a time, 292 years: what 64 bits hold with a sign


@dataclass(frozen=True, slots=True)
class Timing:
    """One sample, in ns: host (enqueue to completion), device (sum over passes of first start to last end over all queues),
    queue and submit (of a pass's first command queued to start, and queued to submitted, summed over passes) and CPU time of
    this process. What is stamped is None where commands are not."""

    host_ns: int
    device_ns: int | None
    queue_ns: int | None
    cpu_ns: int
    submit_ns: int | None = None


class Device(Protocol):
    """An open device. `run` is untimed; `time` is the only timing method there is. All of them raise DeviceError.

    alloc takes bytes and a kind: mapped buffers are for `mapped`, shared allocations move between host and device where they
    are used, host allocations stay in page-locked memory of the host; a runtime raises Skip for a kind that it does not have.
    kept gives the buffer of that name again while it is large enough, so that points measured one after the other lie in the
    same pages; image makes a read-only one of uint32 texels, of one channel (width,) where its form is 1d or 1d_buffer, of four
    (height, width, 4) where it is 2d; host_array gives bytes (uint8) of ordinary or page-locked host memory; mapped lends the
    host a buffer's first bytes; build gives the kernels of a source by name, or raises BuildError; compiled is what the
    compiler says of a kernel (private_bytes, local_bytes, preferred_multiple and work_group_max; through SYCL sub_group_items;
    on NVIDIA registers, stack_bytes, spill_store_bytes and spill_load_bytes), without what it does not say;
    sources is the hash of what was built since it was last asked.
    """

    seed: int  # of the random inputs; another in each process

    @property
    def info(self) -> DeviceInfo: ...
    def alloc(self, nbytes: int, kind: MemoryKind = "device") -> Buffer: ...
    def kept(self, name: str, nbytes: int) -> Buffer: ...
    def image(self, texels: Array, form: ImageForm) -> Buffer: ...
    def host_array(self, nbytes: int, pinned: bool) -> Array: ...
    def upload(self, buffer: Buffer, array: Array) -> None: ...
    def download(self, buffer: Buffer, dtype: npt.DTypeLike, count: int, offset_bytes: int = 0) -> Array: ...
    def mapped(self, buffer: Buffer, nbytes: int, mode: Literal["read", "write"]) -> AbstractContextManager[Array]: ...
    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]: ...
    def compiled(self, kernel: Kernel) -> Mapping[str, Value]: ...
    def run(self, commands: Sequence[Command]) -> None: ...
    def time(self, commands: Sequence[Command], passes: int, clock: Clock) -> Timing: ...
    def sources(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver that a runtime loads: its name and where it is registered, for messages; its library; and the environment of a
    process that loads no other."""

    name: str
    library: str
    environment: Mapping[str, str]


class Runtime(Protocol):
    """A way to reach devices: OpenCL, the scripted fake, host libraries. A runtime that inherits from it has all but the first
    four from here: nothing to say."""

    @property
    def name(self) -> str: ...
    def devices(self) -> list[DeviceInfo]: ...
    def environment(self, info: DeviceInfo, place: Placement) -> Mapping[str, str]: ...
    def open(self, info: DeviceInfo) -> Device: ...

    def left_out(self) -> Sequence[str]:
        """Why a device or a driver is not among `devices`, a sentence each."""
        return ()

    def drivers(self) -> Sequence[Driver]:
        """The drivers that are registered, in the order in which they are loaded; without loading any."""
        return ()

    def death_cause(self, info: DeviceInfo, log: str, environment: Mapping[str, str]) -> str:
        """What the driver's last output or its files show about the death of a process with that environment, and the remedy;
        empty where they show nothing."""
        return ""
