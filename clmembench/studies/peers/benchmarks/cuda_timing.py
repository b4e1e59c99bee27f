"""CUDA libraries through CuPy on the GPU of the OpenCL device, and passes timed behind a blocking kernel."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from clmembench.model import DeviceError, DeviceInfo, Skip, Value
from clmembench.model.device_identity import driver_uuid, pci_address

# one work-item that reads the clock until that many cycles have passed
SPIN_SOURCE = """extern "C" __global__ void spin(long long cycles) {
    long long begun = clock64();
    while (clock64() - begun < cycles) { }
}"""
MAX_CLOCK_GHZ = 3.0  # of any GPU: converts a minimum time to cycles
BLOCKING_TIME_FACTOR = 1.5  # times the time of enqueueing before
MIN_BLOCKING_NS = 2e5
OLDEST_GENERATION = 2  # of a whole collection of garbage
MAX_TRIES = 6  # with longer and longer blocking
NOTE_TIMING = "back-to-back passes behind a blocking kernel, timed by CUDA events"


def is_available(info: DeviceInfo) -> bool:
    """Whether CuPy seems to be installed, for a GPU."""
    return info.kind == "gpu" and find_spec("cupy") is not None


def cupy_on(info: DeviceInfo) -> Any:
    """CuPy with that GPU as its current device. Raises Skip where it does not load or does not find that GPU."""
    try:
        import cupy

        runtime = cupy.cuda.runtime
        for number in range(runtime.getDeviceCount()):
            if _is_same_device(info, runtime.deviceGetPCIBusId(number), runtime.getDeviceProperties(number).get("uuid")):
                cupy.cuda.Device(number).use()
                _give_memory_back(cupy)
                return cupy
    except Exception as error:  # a half-installed CUDA may raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise Skip(f"CuPy does not work here: {reason[:200]}") from error
    raise Skip("CuPy does not see this GPU")


@cache
def _give_memory_back(cupy: Any) -> None:
    """Have CuPy, which keeps freed memory, give it back when a worker process collects garbage: between two points, and before
    another process measures, which may need it."""

    def free(phase: str, how: Mapping[str, int]) -> None:
        if phase == "stop" and how["generation"] == OLDEST_GENERATION:
            cupy.get_default_memory_pool().free_all_blocks()
            cupy.get_default_pinned_memory_pool().free_all_blocks()

    gc.callbacks.append(free)


def _is_same_device(info: DeviceInfo, pci: str, uuid: object) -> bool:
    """Whether a CUDA device is the OpenCL device: by its UUID, else by its PCI address."""
    known, address = driver_uuid(info), pci_address(info.pci)
    if isinstance(uuid, bytes) and known and uuid.hex() == known:
        return True
    return address is not None and address == pci_address(pci)


def library_facts(cupy: Any, library: str, version: Callable[[], int], major: int) -> Mapping[str, Value]:
    """Facts of a record about a CUDA library. `version` returns the library's version as a number in which `major` is one major
    version and 100 one minor version; where it fails, the failure is the fact."""
    try:
        number = version()
        version_text = f"{number // major}.{number % major // 100}.{number % 100}"
    except Exception:  # an older or newer CuPy may lack it
        version_text = "unknown"
    return {"library": library, "version": version_text, "cupy": str(cupy.__version__), "timed": NOTE_TIMING}


@cache
def _blocking_kernel(cupy: Any) -> Any:
    return cupy.RawKernel(SPIN_SOURCE, "spin")


def timed_batch(cupy: Any, call: Callable[[], object]) -> Callable[[int], tuple[int, int]]:
    """The function of a Batch: enqueues `call`, one pass, that many times behind a blocking kernel.

    The blocking kernel holds the queue until all passes are enqueued, so the time between two events includes neither Python
    nor launches. Whether the host was ahead is verified: where the first event had passed before the last call was enqueued,
    all is repeated behind a longer blocking kernel. The function raises DeviceError where that does not help.
    """
    enqueue_ns = MIN_BLOCKING_NS

    def passes(count: int) -> tuple[int, int]:
        nonlocal enqueue_ns
        waited_ns, wait_ns = 0.0, BLOCKING_TIME_FACTOR * enqueue_ns
        for _ in range(MAX_TRIES):
            first, begin, end = (cupy.cuda.Event() for _ in range(3))
            first.record()
            _blocking_kernel(cupy)((1,), (1,), (int(wait_ns * MAX_CLOCK_GHZ),))
            begin.record()
            started = time.perf_counter_ns()
            for _ in range(count):
                call()
            end.record()
            enqueue_ns = float(time.perf_counter_ns() - started)
            ahead = not begin.done
            end.synchronize()
            waited_ns += 1e6 * float(cupy.cuda.get_elapsed_time(first, begin))
            taken_ns = 1e6 * float(cupy.cuda.get_elapsed_time(begin, end))
            if ahead:
                return max(1, round(taken_ns)), round(waited_ns)
            waited_ns += taken_ns
            wait_ns = max(2 * wait_ns, BLOCKING_TIME_FACTOR * enqueue_ns)
        raise DeviceError("the host did not queue the library's calls before the GPU began them: they cannot be timed")

    return passes
