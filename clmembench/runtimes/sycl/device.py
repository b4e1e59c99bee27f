"""SYCL devices through dpctl: opens a device, runs and times commands."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from clmembench.model import (
    Array,
    Command,
    Copy,
    DeviceError,
    DeviceInfo,
    HostPart,
    ImageForm,
    Kernel,
    Launch,
    MemoryKind,
    Placement,
    Runtime,
    Skip,
    Timing,
    TimingMethod,
    Value,
)
from clmembench.runtimes.hardware import cpu_features, cpu_id, listed
from clmembench.runtimes.shared import BuiltSources, check_buffer, check_shape, options_of, time_library_work
from clmembench.runtimes.sycl import build, enqueue
from clmembench.runtimes.sycl.build import SyclKernel, build_bundle, kernel_facts
from clmembench.runtimes.sycl.library import dpctl, memory
from clmembench.runtimes.sycl.sample import NO_MAP, CommandTimer, bind_command, prepare_commands, time_commands

_ALLOCATORS: Mapping[MemoryKind, str] = {"device": "MemoryUSMDevice", "shared": "MemoryUSMShared", "host": "MemoryUSMHost"}
PAGE_BYTES, MIN_ALIGNMENT_BYTES = 4096, 128  # OpenCL's alignment of buffers: the widest vector; pages for large ones
_ASPECTS = {
    "fp64": "fp64",
    "fp16": "fp16",
    "atomic64": "int64_atomics",
    "usm_shared_allocations": "usm_shared",
    "usm_host_allocations": "usm_host",
}
_KINDS: dict[str, Literal["gpu", "cpu", "accelerator"]] = {"gpu": "gpu", "cpu": "cpu"}


class SyclDevice:
    """One device with two queues that stamp events and two that do not.

    They are in-order, like OpenCL's: for allocations by pointers SYCL tracks no dependences between commands.
    """

    def __init__(self, info: DeviceInfo, handle: Any) -> None:
        self.info = info
        self.seed = 0
        self.known_facts: dict[str, Mapping[str, Value]] = {}
        self._stamped = [self.queue("in_order", "enable_profiling", handle=handle) for _ in range(2)]
        self._plain = [self.queue("in_order", handle=handle) for _ in range(2)]
        self._out_of_order: dict[bool, list[Any]] = {}  # by whether they stamp events; created on first use
        self._kept: dict[str, Any] = {}
        self._built = BuiltSources()
        self._programs: dict[str, Mapping[str, Kernel]] = {}
        self._last: CommandTimer | None = None

    def queue(self, *properties: str, handle: Any = None) -> Any:
        """A dpctl queue with these properties, out-of-order without "in_order"."""
        try:
            return dpctl().SyclQueue(handle or self._plain[0].sycl_device, property=list(properties))
        except dpctl().SyclQueueCreationError as error:
            raise DeviceError(f"{self.info.name} gives no SYCL queue: {error}") from error

    def alloc(self, nbytes: int, kind: MemoryKind = "device") -> Any:
        """An allocation. Raises Skip for a kind that SYCL does not have.

        Raises DeviceError, with the sizes and before allocating, for an allocation over the device's limits.
        """
        self._last = None  # it holds the memory of the previous point
        if kind not in _ALLOCATORS:
            raise Skip(NO_MAP)
        check_buffer(self.info, nbytes)
        alignment = PAGE_BYTES if nbytes >= PAGE_BYTES else MIN_ALIGNMENT_BYTES
        try:
            return getattr(memory(), _ALLOCATORS[kind])(nbytes, alignment=alignment, queue=self._plain[0])
        except memory().USMAllocationError as error:
            raise DeviceError(f"the device could not allocate {nbytes} B of {kind} memory: lower --size (or -a)") from error

    def kept(self, name: str, nbytes: int) -> Any:
        """The buffer of this name, replaced only by a larger one, of the next power of two so that this is rare."""
        if name not in self._kept or self._kept[name].nbytes < nbytes:
            self._kept.pop(name, None)  # released before the larger one is allocated
            self._kept[name] = self.alloc(max(nbytes, min(1 << (nbytes - 1).bit_length(), self.info.max_alloc_bytes)))
        return self._kept[name]

    def release(self) -> None:
        self._kept.clear()
        self._last = None

    def image(self, texels: Array, form: ImageForm) -> Any:
        """Raises Skip: SYCL images cannot be passed to OpenCL C kernels."""
        raise Skip("SYCL through dpctl has no images")

    def host_array(self, nbytes: int, pinned: bool) -> Array:
        """Host memory as bytes: pageable memory with all pages touched, or a SYCL host allocation.

        The latter is page-locked if the device has its own memory.
        """
        self._last = None
        array = np.asarray(self.alloc(nbytes, "host")) if pinned else np.empty(nbytes, dtype=np.uint8)
        array[:] = 1
        return array

    def upload(self, buffer: Any, array: Array) -> None:
        source = np.ascontiguousarray(array)
        if source.nbytes:
            self._copy(Copy(buffer, source, source.nbytes))

    def download(self, buffer: Any, dtype: npt.DTypeLike, count: int, offset_bytes: int = 0) -> Array:
        array = np.empty(count, dtype=dtype)
        if array.nbytes:
            self._copy(Copy(array, buffer, array.nbytes, blocking=True, src_offset=offset_bytes))
        return array

    def _copy(self, command: Copy) -> None:
        calls = [enqueue.bind_copy(command, self._plain[0]), enqueue.bind_wait(self._plain[0])]
        events: list[int] = []
        try:
            enqueue.run_calls(calls, events)
        except enqueue.SyclFailure as error:
            raise DeviceError(str(error)) from error
        finally:
            enqueue.delete_events(events)

    @contextmanager
    def mapped(self, buffer: Any, nbytes: int, mode: Literal["read", "write"]) -> Iterator[Array]:
        """The first bytes of a shared or host allocation, as the host sees them. Raises Skip for device memory."""
        if buffer.get_usm_type() == "device":
            raise Skip(NO_MAP)
        self._plain[0].wait()
        yield np.asarray(buffer)[:nbytes]

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        """Every kernel of the source, by name, compiled once. Raises BuildError with the first error and the log."""
        options = options_of(defines)
        key = self._built.add(source, options)
        if key not in self._programs:
            with self._built.timed():
                self._programs[key] = build_bundle(self._plain[0], source, options)
        return self._programs[key]

    def assemble(self, program: str) -> Mapping[str, Kernel]:
        raise Skip("SYCL takes no programs in PTX")

    def compiled(self, kernel: Kernel) -> Mapping[str, Value]:
        """Facts about a kernel from its compiler: see `sycl.build`."""
        assert isinstance(kernel, SyclKernel)
        return kernel_facts(kernel)

    @property
    def build_s(self) -> float:
        return self._built.seconds

    def sources(self) -> str:
        return self._built.hashes()

    def run(self, commands: Sequence[Command]) -> None:
        self.time(commands, 1, "host")

    def time(self, commands: Sequence[Command], passes: int, clock: TimingMethod) -> Timing:
        """One sample of `passes` passes. Queues without stamps are used where `clock` is the host's."""
        clock = "device" if clock == "batch" else clock
        timing = time_library_work(commands, passes)
        if timing is not None:
            return timing
        try:
            return time_commands(self._sample(commands, passes, clock))
        except enqueue.SyclFailure as error:
            self._last = None
            raise DeviceError(str(error)) from error

    def _sample(self, commands: Sequence[Command], passes: int, clock: TimingMethod) -> CommandTimer:
        """The calls of a sample; those of the last sample again if it is the same and nothing else was prepared since."""
        last = self._last
        if last is not None and last.commands is commands and (last.passes, last.clock) == (passes, clock):
            return last
        queues = self._queues(commands, clock)
        bound: dict[int, enqueue.LibraryCall] = {}
        for command in commands:
            if id(command) not in bound:
                launch = command.launch if isinstance(command, HostPart) else command
                if isinstance(launch, Launch):
                    check_shape(self.info, launch)
                bound[id(command)] = bind_command(command, queues)
        used = [queues[n] for n in sorted({getattr(command, "queue", 0) for command in commands})]
        sample = prepare_commands(commands, passes, clock, [bound[id(command)] for command in commands], used)
        self._last = sample if isinstance(commands, tuple) else None  # a list may have changed by the next call
        return sample

    def _queues(self, commands: Sequence[Command], clock: TimingMethod) -> Sequence[Any]:
        """The queues for the commands: with or without stamps, or out-of-order ones for launches that require them.

        Nothing else is submitted to out-of-order queues at the same time.
        """
        kinds = {command.method == "out_of_order" if isinstance(command, Launch) else False for command in commands}
        if kinds != {True}:
            if True in kinds:
                raise ValueError(
                    "launches on an out-of-order queue cannot be mixed with other commands, which would not wait for them"
                )
            return self._plain if clock == "host" else self._stamped
        if not self._out_of_order:
            self._out_of_order = {
                c: [self.queue(*(["enable_profiling"] if c else [])) for _ in range(2)] for c in (False, True)
            }
        return self._out_of_order[clock != "host"]


class Sycl(Runtime):
    """Every SYCL device of this host, GPUs first. Its methods raise ImportError where the extra `sycl` is not installed."""

    name = "sycl"

    def devices(self) -> list[DeviceInfo]:
        return [info for info, _ in installed_devices()]

    def environment(self, info: DeviceInfo, place: Placement) -> Mapping[str, str]:
        """The extra environment of a worker process: its placement, which Intel's CPU driver takes as a number of threads."""
        return {} if place.compute_units is None or info.kind != "cpu" else {"DPCPP_CPU_NUM_CUS": str(place.compute_units)}

    def open(self, info: DeviceInfo) -> SyclDevice:
        """Raises DeviceError if the device is gone, or if no kernel can be built for it on this host."""
        for known, handle in installed_devices():
            if (known.id, known.driver) == (info.id, info.driver):
                missing = build.missing_remedy(handle.backend.name)
                if missing:
                    raise DeviceError(missing)
                return SyclDevice(info, handle)
        raise DeviceError(f"SYCL device {info.name} ({info.selector}) is no longer there: see clmembench devices")


RUNTIME = Sycl()

__all__ = ["RUNTIME", "Sycl", "SyclDevice"]


@cache
def installed_devices() -> list[tuple[DeviceInfo, Any]]:
    """(info, handle) of every usable SYCL device, GPUs before accelerators before CPUs. Raises ImportError without dpctl.

    A usable device can allocate device memory by pointers (USM). On others, such as PoCL's, kernels of OpenCL C cannot be given
    arguments: SYCL's buffers cannot be passed to them.
    """
    usable = [handle for handle in dpctl().get_devices() if handle.has_aspect_usm_device_allocations]
    return listed([(describe(handle), handle) for handle in usable])


def describe(handle: Any) -> DeviceInfo:
    """The driver's claims about a device, as far as SYCL reports them."""
    platform = handle.sycl_platform
    kind = _KINDS.get(handle.device_type.name, "accelerator")
    features = {short for aspect, short in _ASPECTS.items() if getattr(handle, f"has_aspect_{aspect}")}
    sub_groups = sorted(handle.sub_group_sizes)
    if sub_groups and sub_groups[-1] > 1:
        features.add("sub_groups")
    name, pci, uuid = re.sub(r"\s+", " ", handle.name.strip()), *_address(handle)
    made = hashlib.sha256(f"sycl|{platform.name}|{name}|{pci or handle.filter_string}".encode()).hexdigest()[:32]
    return DeviceInfo(
        id=made,
        name=name,
        platform=f"SYCL ({platform.name.strip()})",
        vendor=handle.vendor.strip(),
        kind=kind,
        driver=handle.driver_version.strip(),
        version=f"SYCL by dpctl {dpctl().__version__}, {platform.version.strip()}",
        compute_units=handle.max_compute_units,
        global_mem_bytes=handle.global_mem_size,
        max_alloc_bytes=handle.max_mem_alloc_size,
        local_mem_bytes=handle.local_mem_size,
        max_work_group=handle.max_work_group_size,
        line_bytes=handle.global_mem_cache_line_size,
        cache_bytes=handle.global_mem_cache_size,
        max_clock_mhz=handle.max_clock_frequency,
        timer_resolution_ns=handle.profiling_timer_resolution,
        shares_host_memory=kind == "cpu",  # SYCL 2020 does not report it for other devices
        host_mem_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        features=frozenset(features) | (cpu_features() if kind == "cpu" else frozenset()),
        selector=f"sycl:{handle.filter_string}",
        uuid=uuid or made,
        pci=pci,
        cpu_id=cpu_id() if kind == "cpu" else "",
        sub_group_items=sub_groups[0] if len(sub_groups) == 1 else 0,
        runtime="sycl",
    )


def _address(handle: Any) -> tuple[str, str]:
    """PCI address and UUID of a device, "" where dpctl cannot query them."""
    try:
        from dpctl.utils import intel_device_info

        known = intel_device_info(handle)
    except (ImportError, RuntimeError, TypeError):
        return "", ""
    return str(known.get("pci_address", "")).lower(), str(known.get("uuid", "")).replace("-", "").lower()
