"""Enqueues through the OpenCL library's own functions, one foreign call per command, and explains their errors.

pyopencl creates an event object for every command and converts the arguments of every call anew. Here arguments are converted
before the clock starts, and events are created only if they are read, since drivers spend time on each.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import pyopencl as cl

from clmembench.model import Copy, DeviceError, Fill, Launch, Map, Migrate
from clmembench.runtimes.shared import host_address

LibraryCall = Callable[[], int]  # one call of the library; returns its error code, 0 for success
# a command that lacks only the address for its event, and that of the event for which it waits (`after`) where it waits for one
PreparedCommand = Callable[..., LibraryCall]

PROFILING_INFO_NOT_AVAILABLE = -7  # CL_PROFILING_INFO_NOT_AVAILABLE
MAX_TIMESTAMP_ATTEMPTS = 20
EXECUTION_STATUS, COMPLETE = 0x11D3, 0  # CL_EVENT_COMMAND_EXECUTION_STATUS and one of its values; errors are below
PROFILING_QUEUED, PROFILING_SUBMITTED, PROFILING_STARTED, PROFILING_ENDED = range(0x1280, 0x1284)  # CL_PROFILING_COMMAND_*
BLOCKING, PENDING = 1, 0
DISCARD = 2  # CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED
NO_WAIT = (0, None)  # the number of events to wait for, and the events

_Pointer, _Size = ctypes.c_void_p, ctypes.c_size_t

REMEDY_OF_CODE = {
    -4: "the device could not allocate memory: lower --size (or -a), or free memory on the device",
    -5: "the device is out of resources: lower --size (or -a), or close other programs that use it",
    -6: "the host is out of memory: lower --size (or -a)",
    -54: "the work-group size does not suit this kernel on this device",
    -55: "the work-items of a work-group do not suit this device",
    -61: "a buffer is over the device's largest allocation: lower --size (or -a)",
}


class OpenCLFailure(Exception):
    """A call of the library failed."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function} failed: {cl.status_code.to_string(code, 'error %d')}")
        self.code = code


@cache
def opencl_library(held: bool = False) -> ctypes.CDLL:
    """The OpenCL library that pyopencl itself has loaded, since its handles are invalid in any other.

    `held`: calls keep Python's lock, which saves some 40 ns for calls that do not wait.
    """
    kind = ctypes.PyDLL if held else ctypes.CDLL
    cdll = kind(cl._cl.__file__)  # missing symbols are looked up in the linked libraries
    if not hasattr(cdll, "clFinish"):  # not on Windows, where a library is loaded by its name
        cdll = kind("OpenCL")
    cdll.clEnqueueMapBuffer.restype = _Pointer
    return cdll


@cache
def no_operation() -> Any:
    """A function of the C library that returns 0 when its first argument is 0, and does nothing else."""
    return (ctypes.PyDLL("msvcrt") if sys.platform == "win32" else ctypes.PyDLL(None)).abs


def handle(of: Any) -> ctypes.c_void_p:
    """The handle of a queue, kernel or buffer of pyopencl's."""
    return _Pointer(of.int_ptr)


def run_calls(calls: Iterable[LibraryCall]) -> None:
    """Make the calls one after the other: this loop is what is timed. Raises OpenCLFailure for the first that fails."""
    for call in calls:
        code = call()
        if code:
            raise OpenCLFailure(getattr(getattr(call, "func", call), "__name__", "OpenCL"), code)


def bind_finish(queue: Any) -> LibraryCall:
    """Wait until everything enqueued has ended."""
    return partial(opencl_library().clFinish, handle(queue))


def bind_flush(queue: Any) -> LibraryCall:
    """Make the driver submit everything enqueued."""
    return partial(opencl_library(held=True).clFlush, handle(queue))


def bind_launch(command: Launch, kernel: Any, queue: Any) -> PreparedCommand:
    """A launch; `kernel` is the object whose arguments are those of the command."""
    if command.method:
        return bind_method(command, kernel, queue)
    return partial(_to, opencl_library(held=True).clEnqueueNDRangeKernel, handle(queue), handle(kernel), *_range(command))


def bind_method(command: Launch, kernel: Any, queue: Any) -> PreparedCommand:
    """A launch by pyopencl's own method, which always creates an event.

    Raises ValueError for an unknown method, and where event stamps are needed.
    """
    if command.method != "enqueue":
        raise ValueError(f"pyopencl has no method {command.method!r}: choose enqueue")
    sizes = command.global_size, command.local_size

    def ready(event: ctypes.c_void_p | None) -> LibraryCall:
        if event is not None:
            raise ValueError("a launch by pyopencl's method is timed by the host's clock")

        def launch() -> int:
            cl.enqueue_nd_range_kernel(queue, kernel, *sizes)
            return 0

        return launch

    return ready


def bind_host_part(command: Launch, kernel: Any) -> PreparedCommand:
    """The call that a launch would make, with the same arguments, to a function that does nothing."""
    return partial(_to, no_operation(), _Pointer(0), handle(kernel), *_range(command))


def _range(command: Launch) -> tuple[Any, ...]:
    sizes = _Size * len(command.global_size)
    local = None if command.local_size is None else sizes(*map(int, command.local_size))
    return len(command.global_size), None, sizes(*map(int, command.global_size)), local


def _to(function: Any, *args: Any, after: ctypes.c_void_p | None = None) -> LibraryCall:
    """The call of a function whose last argument, here the last of `args`, is the address for its event; `after` is that of an
    event for which it waits."""
    return partial(function, *args[:-1], *(NO_WAIT if after is None else (1, after)), args[-1])


def bind_copy(command: Copy, queue: Any) -> PreparedCommand:
    """A copy. Raises ValueError where a host array is not `nbytes` of contiguous memory: the library would access memory beyond
    it."""
    nbytes, waits = _Size(command.nbytes), BLOCKING if command.blocking else PENDING
    whose = opencl_library(held=not command.blocking)
    if isinstance(command.src, np.ndarray):
        there = _Pointer(host_address(command.src, command.nbytes))
        at = _Size(command.dst_offset)
        return partial(_to, whose.clEnqueueWriteBuffer, handle(queue), handle(command.dst), waits, at, nbytes, there)
    if isinstance(command.dst, np.ndarray):
        there = _Pointer(host_address(command.dst, command.nbytes))
        at = _Size(command.src_offset)
        return partial(_to, whose.clEnqueueReadBuffer, handle(queue), handle(command.src), waits, at, nbytes, there)
    buffers, places = (handle(command.src), handle(command.dst)), (_Size(command.src_offset), _Size(command.dst_offset))
    return partial(_to, whose.clEnqueueCopyBuffer, handle(queue), *buffers, *places, nbytes)


def bind_migrate(command: Migrate, queue: Any) -> PreparedCommand:
    """Move a buffer to the device of the queue."""
    buffers, flags = (_Pointer * 1)(handle(command.buffer)), ctypes.c_uint64(DISCARD if command.discard else 0)
    return partial(_to, opencl_library(held=True).clEnqueueMigrateMemObjects, handle(queue), 1, buffers, flags)


def bind_fill(command: Fill, queue: Any) -> PreparedCommand:
    """Fill a buffer with one byte."""
    # in some drivers each work-item writes one pattern: the widest possible pattern is up to 16 times faster
    width = next(w for w in (16, 8, 4, 2, 1) if command.nbytes % w == 0)
    pattern = (ctypes.c_uint8 * width)(*[command.byte] * width)
    sizes = _Size(width), _Size(0), _Size(command.nbytes)
    return partial(_to, opencl_library(held=True).clEnqueueFillBuffer, handle(queue), handle(command.buffer), pattern, *sizes)


def bind_map_and_unmap(command: Map, queue: Any) -> PreparedCommand:
    """A map and an unmap; the event is that of the unmap."""
    flags = cl.map_flags.READ if command.mode == "read" else cl.map_flags.WRITE_INVALIDATE_REGION
    code, whose = ctypes.c_int32(), opencl_library()
    area = ctypes.c_uint64(flags), _Size(0), _Size(command.nbytes)
    mapping = partial(
        whose.clEnqueueMapBuffer, handle(queue), handle(command.buffer), BLOCKING, *area, *NO_WAIT, None, ctypes.byref(code)
    )
    unmapping = partial(whose.clEnqueueUnmapMemObject, handle(queue), handle(command.buffer))

    def ready(event: ctypes.c_void_p | None) -> LibraryCall:
        def both() -> int:
            there = mapping()
            return code.value or unmapping(_Pointer(there), *NO_WAIT, event)

        return both

    return ready


class Events:
    """An array of events and their stamps. `release` releases all of them, and the array can be used again."""

    def __init__(self, count: int) -> None:
        self._slots = (_Pointer * count)()
        self._stamp = ctypes.c_uint64()
        self._ask = opencl_library(held=True).clGetEventProfilingInfo

    def slots(self) -> list[ctypes.c_void_p]:
        """The address for each event."""
        first, step = ctypes.addressof(self._slots), ctypes.sizeof(_Pointer)
        return list(map(_Pointer, range(first, first + step * len(self._slots), step)))

    def stamps(self, which: int, events: Sequence[int]) -> list[int]:
        """One of the four stamps of each of these events, in ns. Raises OpenCLFailure where the driver does not provide it."""
        stamp, query, stamps_ns = self._stamp, self._ask, []
        size, there, slots = _Size(8), ctypes.byref(stamp), self._slots
        for number in events:
            event = _Pointer(slots[number])
            code = query(event, which, size, there, None)
            if code:
                self._late(event, which, code)
            stamps_ns.append(stamp.value)
        return stamps_ns

    def has_ended(self, number: int) -> bool:
        """Whether the command of an event has ended. Raises OpenCLFailure."""
        status = ctypes.c_int32()
        query = opencl_library(held=True).clGetEventInfo
        code = query(_Pointer(self._slots[number]), EXECUTION_STATUS, _Size(4), ctypes.byref(status), None)
        if code:
            raise OpenCLFailure("clGetEventInfo", code)
        return status.value <= COMPLETE

    def _late(self, event: ctypes.c_void_p, which: int, code: int) -> None:
        """Wait for a late stamp: drivers may provide one only some time after the queue has finished."""
        for _ in range(MAX_TIMESTAMP_ATTEMPTS):
            if code != PROFILING_INFO_NOT_AVAILABLE:
                break
            time.sleep(0.001)
            code = self._ask(event, which, _Size(8), ctypes.byref(self._stamp), None)
            if not code:
                return
        raise OpenCLFailure("clGetEventProfilingInfo", code)

    def release(self) -> None:
        give_up = opencl_library(held=True).clReleaseEvent
        for number, event in enumerate(self._slots):
            if event:
                give_up(_Pointer(event))
                self._slots[number] = None


@contextmanager
def explained_errors() -> Iterator[None]:
    """Convert the driver's errors to a DeviceError of one line with a remedy."""
    try:
        yield
    except (cl.Error, OpenCLFailure) as error:
        remedy = REMEDY_OF_CODE.get(error.code, "")
        first_line = str(error).strip().splitlines()[0]
        raise DeviceError(f"{first_line}{': ' + remedy if remedy else ''}") from error
