"""Costs of a runtime on the host: a launch by each method of its library, and the build of a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Literal
from uuid import uuid4

import numpy as np

from clmembench.benchmarks import ROUND_TRIPS, axis, axis_of, benchmark
from clmembench.benchmarks.launch import TOKEN
from clmembench.model import Call, Device, DeviceInfo, Kernel, Launch, Metric, Quantity, Value, Work
from clmembench.resources import kernel_source

METHOD_LATENCY = Metric("method_round_trip", "ns", "ops", "cost", "lower")
BUILD_TIME = Metric("build_time", "ms", "ops", "cost", "lower", scale=1e-6)
PREPARED = "prepared"  # the launch of all other benchmarks: its arguments are converted beforehand
METHODS: Mapping[str, tuple[str, ...]] = {"opencl": ("enqueue",), "sycl": ("out_of_order", "submit_async", "submit")}
Method = Literal["prepared", "out_of_order", "enqueue", "submit_async", "submit"]
GROUP_SIZE = 64
# sources by size, each with one of its kernels and its macros
STREAM_MACROS: Mapping[str, Value] = {"T": "float", "V": "float4", "OP": 3, "NONTEMPORAL": 0, "BLOCKED": 0, "LOOP": 0}
SOURCES: Mapping[str, tuple[str, Mapping[str, Value]]] = {
    "launch": ("mark", {}),
    "stream": ("stream", STREAM_MACROS),
}


def _methods(info: DeviceInfo) -> tuple[str, ...]:
    return (PREPARED, *METHODS.get(info.runtime, ()))


@benchmark(
    METHOD_LATENCY,
    suite="sync",
    source="SYCL 2020 specification, section 4.9.4 (command group handlers); dpctl's and pyopencl's manuals",
    quantities=[Quantity(ROUND_TRIPS, METHOD_LATENCY.name, {"method": ("prepared",)})],
    method=axis_of(_methods),
)
def launch_method(device: Device, method: Method) -> Work:
    """Round trip of a nearly empty kernel by each of the runtime library's own methods, by the host's clock.

    prepared: the driver's call with arguments converted beforehand, as in launch. out_of_order: the same call on SYCL's default
    kind of queue. enqueue: pyopencl's enqueue_nd_range_kernel. submit_async: dpctl's, which converts all arguments at each
    call. submit: dpctl's, which also keeps them alive until the kernel has ended, by a task on the host.
    """
    done, group = device.alloc(4), min(GROUP_SIZE, device.info.max_work_group)
    mark = device.build(kernel_source("launch"))["mark"]
    launch = Launch(mark, (done, np.uint32(TOKEN)), (group,), (group,), method="" if method == "prepared" else method)

    def check() -> None:
        left = int(device.download(done, np.uint32, 1)[0])
        assert left == TOKEN, f"the kernel wrote {left:#x} instead of {TOKEN:#x}: it did not run"

    return Work((launch,), ops=1, outputs=((done, 4),), check=check, clock="host")


@benchmark(
    BUILD_TIME,
    suite="sync",
    source="SYCL 2020 specification, section 4.11 (kernel bundles)",
    min_time_s=1.0,  # some builds take a tenth of a second
    program=axis(*SOURCES),
)
def kernel_build(device: Device, program: str) -> Work:
    """Time to build an OpenCL C program that no cache contains, by the host's clock: a SYCL kernel bundle, an OpenCL program.

    A macro that the source does not use has a new value in each build. A driver may defer a part of its compiler's work to the
    first launch, as PoCL does. The facts are the compiler's, about the first kernel; through SYCL they include the width of its
    sub-groups.
    """
    name, macros = SOURCES[program]
    unseen, source, numbers = uuid4().int % 10**9, kernel_source(program), itertools.count()

    def build() -> Kernel:
        return device.build(source, UNSEEN=f"{unseen}{next(numbers):04}", **macros)[name]

    def check() -> None:
        try:
            build()
        except KeyError as error:
            raise AssertionError(f"the program has no kernel {name}") from error

    return Work((Call(build),), ops=1, check=check, clock="host", facts=device.compiled(build()))
