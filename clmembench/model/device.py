"""Devices: a driver's claims about them, and the two interfaces (Device, Runtime) that a runtime implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy.typing as npt

from clmembench.model.work import Array, Buffer, Command, Kernel, TimingMethod, Value

ImageForm = Literal["1d_buffer", "1d", "2d"]
MemoryKind = Literal["device", "mapped", "shared", "host"]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Claims of a runtime about a device, to be audited. Sizes are in bytes; cpu_id is vendor-family-model."""

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
    work_groups: int | None = None  # launch exactly this many, if a Placement says so; on CPUs it sets compute_units instead
    constant_bytes: int = 64 << 10  # of one constant buffer
    image_width: int = 0  # texels, also of a one-dimensional image
    image_height: int = 0
    image_buffer_texels: int = 0
    sub_group_items: int = 0  # the width of all sub-groups, if the driver reports one; else 0
    local_mem_type: Literal["", "local", "global"] = ""  # the kind of local memory, by the driver; "" in runs of older versions
    runtime: str = "opencl"  # the name of the runtime that listed it and opens it
    instance: int = 0  # numbers equal devices of one driver without UUIDs and PCI addresses, from 1
    library: str = ""  # the only driver library that worker processes may load, where another one would end them
    peers: int = 0  # other devices of its platform, which one context can hold with it

    @property
    def has_cpu_cores(self) -> bool:
        """Whether work-groups run as threads on cores with caches.

        This is so on CPUs, and on an accelerator that keeps local memory in cached global memory, as Intel's runtime reports a
        Xeon Phi. Shapes, orders and mappings of kernels depend on it; code that needs the host's own processor (its threads,
        memory, sensors and CPU time) tests whether `kind` is cpu.
        """
        in_cache = self.local_mem_type == "global" and self.cache_bytes > 0
        return self.kind == "cpu" or (self.kind == "accelerator" and in_cache)


NODE_PLACEMENT = "node "  # the rule of a placement on the CPUs of the NUMA node whose number follows


@dataclass(frozen=True, slots=True)
class Placement:
    """The compute units on which a process runs; one process has one placement.

    On a CPU these are `compute_units` units (None: all), with the threads on `cpus` in this order (empty: any CPUs); on other
    devices the number is that of work-groups. `placement` names the rule by which the CPUs were chosen.
    """

    compute_units: int | None = None
    cpus: tuple[int, ...] = ()
    placement: str = ""
    cores: int | None = None  # the number of cores of these CPUs

    def seen(self, info: DeviceInfo) -> DeviceInfo:
        """The device as benchmarks see it at this placement: a CPU with fewer compute units, another device with a number of
        work-groups."""
        if self.compute_units is None:
            return info
        if info.kind == "cpu":
            return replace(info, compute_units=self.compute_units)
        return replace(info, work_groups=self.compute_units)


MAX_TIME_NS = 2**63 - 1  # 292 years: signed 64 bits


@dataclass(frozen=True, slots=True)
class Timing:
    """One sample, in ns.

    host: from enqueue to completion. device: per pass from the first start to the last end over all queues, summed over passes.
    queue and submit: from queued to started and from queued to submitted, of each pass's first command, summed over passes. CPU
    time is that of this process. Times that need event stamps are None where commands are not stamped.
    """

    host_ns: int
    device_ns: int | None
    queue_ns: int | None
    cpu_ns: int
    submit_ns: int | None = None


class Device(Protocol):
    """An open device. `run` is untimed; `time` is the only timing method. All methods raise DeviceError.

    By the clock "batch", passes are timed together behind a blocking kernel; a runtime that cannot times them by "device".

    alloc takes bytes and a kind. Mapped buffers are for `mapped`; shared allocations migrate between host and device; host
    allocations stay in page-locked host memory. A runtime raises Skip for a kind that it does not have. kept returns the buffer
    of this name again while it is large enough, so that consecutive points use the same pages; release frees these buffers.
    image makes a read-only image of uint32 texels: with one channel, (width,), for the forms 1d and 1d_buffer; with four,
    (height, width, 4), for 2d. host_array returns bytes (uint8) of pageable or page-locked host memory. mapped gives the host
    access to a buffer's first bytes. build returns the kernels of a source by name, or raises BuildError; assemble does so for
    a program in PTX, and raises Skip where the runtime takes none.

    compiled returns the compiler's facts about a kernel: private_bytes, local_bytes, preferred_multiple and work_group_max;
    through SYCL sub_group_items; on NVIDIA registers, stack_bytes, spill_store_bytes and spill_load_bytes. Facts that the
    compiler does not report are absent. sources returns the hash of everything built since its last call; build_s is how many
    seconds all builds took so far, facts included.
    """

    seed: int  # of the random inputs; each process has another one
    known_facts: dict[str, Mapping[str, Value]]  # that `compiled` has returned here or in another process, by a runtime's keys
    info: DeviceInfo  # as benchmarks see it at the placement of the next point

    def alloc(self, nbytes: int, kind: MemoryKind = "device") -> Buffer: ...
    def kept(self, name: str, nbytes: int) -> Buffer: ...
    def release(self) -> None: ...
    def image(self, texels: Array, form: ImageForm) -> Buffer: ...
    def host_array(self, nbytes: int, pinned: bool) -> Array: ...
    def upload(self, buffer: Buffer, array: Array) -> None: ...
    def download(self, buffer: Buffer, dtype: npt.DTypeLike, count: int, offset_bytes: int = 0) -> Array: ...
    def mapped(self, buffer: Buffer, nbytes: int, mode: Literal["read", "write"]) -> AbstractContextManager[Array]: ...
    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]: ...
    def assemble(self, program: str) -> Mapping[str, Kernel]: ...
    def compiled(self, kernel: Kernel) -> Mapping[str, Value]: ...
    def run(self, commands: Sequence[Command]) -> None: ...
    def time(self, commands: Sequence[Command], passes: int, clock: TimingMethod) -> Timing: ...
    def sources(self) -> str: ...
    @property
    def build_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver that a runtime loads.

    It has a name and a place of registration for messages, its library, and the environment of a process that loads no other
    driver.
    """

    name: str
    library: str
    environment: Mapping[str, str]


class Runtime(Protocol):
    """A way to reach devices: OpenCL, SYCL, the scripted fake.

    A runtime that inherits from it gets defaults for the last four methods.
    """

    @property
    def name(self) -> str: ...
    def devices(self) -> list[DeviceInfo]: ...
    def environment(self, info: DeviceInfo, place: Placement) -> Mapping[str, str]: ...

    def open(self, info: DeviceInfo) -> Device:
        """The device, in one context with its peers where these claims have any: benchmarks that do not need them get none."""
        ...

    def left_out(self) -> Sequence[str]:
        """Reasons why devices or drivers are missing from `devices`, a sentence each."""
        return ()

    def drivers(self) -> Sequence[Driver]:
        """The registered drivers in load order; none is loaded for this."""
        return ()

    def death_cause(self, info: DeviceInfo, log: str, environment: Mapping[str, str]) -> str:
        """Cause and remedy for the death of a process with this environment, from the driver's last output or its files.

        Empty if they show nothing.
        """
        return ""

    def repair(self, info: DeviceInfo) -> None:
        """Mend what an earlier crash has left in the driver's files. Called once a run, before the device is first opened."""
        return
