"""Submits through dpctl's C library, one foreign call per command; part of the SYCL runtime.

dpctl's own methods convert their arguments at each call. Here they are converted before the clock starts, as for OpenCL, so
that SYCL is timed and not Python. SYCL creates an event for every command: each call returns one, which is deleted after the
sample.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np

from clmembench.model import Copy, DeviceError, Fill, Launch, Local, Skip
from clmembench.runtimes.shared import host_address
from clmembench.runtimes.sycl.library import c_library, dpctl, failure_reason

LibraryCall = Callable[[], int | None]  # one call; returns the address of an event, None if it failed
NO_EVENT = 1  # the result of a call that creates no event

_Pointer, _Size = ctypes.c_void_p, ctypes.c_size_t
_Sizes = _Size * 3
_POINTER_ARGUMENT, _LOCAL_ARGUMENT = 10, 11  # DPCTLKernelArgType
_UINT64_ARGUMENT = 7
_SCALAR_ARGUMENTS = {"i1": 0, "u1": 1, "i2": 2, "u2": 3, "i4": 4, "u4": 5, "i8": 6, "u8": 7, "f4": 8, "f8": 9}
NO_WAIT = (None, _Size(0))  # the events to wait for, and how many


class SyclFailure(Exception):
    """A call of the library failed."""


class _LocalArgument(ctypes.Structure):
    """MDLocalAccessor: local memory for so many elements of one type."""

    _fields_ = [("ndim", _Size), ("type", ctypes.c_int), ("sizes", _Sizes)]


@cache
def no_operation() -> Any:
    """A function of the C library that returns 1 when its first argument is 1, and does nothing else."""
    return (ctypes.PyDLL("msvcrt") if sys.platform == "win32" else ctypes.PyDLL(None)).abs


def handle(of: Any) -> ctypes.c_void_p:
    """The reference to a dpctl queue or kernel that its C library takes."""
    return _Pointer(of.addressof_ref())


def run_calls(calls: Iterable[LibraryCall], events: list[int]) -> None:
    """Make the calls one after the other: this loop is what is timed. Raises SyclFailure for the first that fails."""
    for call in calls:
        event = call()
        if not event:
            raise SyclFailure(failure_reason(call) or "the SYCL runtime refused a command and gave no reason")
        events.append(event)


def delete_events(events: list[int]) -> None:
    """Delete the events of a sample."""
    delete = c_library(held=True).DPCTLEvent_Delete
    for event in events:
        if event != NO_EVENT:
            delete(_Pointer(event))
    events.clear()


def bind_wait(queue: Any) -> LibraryCall:
    """Wait until everything submitted has ended."""
    wait, of = c_library().DPCTLQueue_Wait, handle(queue)

    def waited() -> int:
        wait(of)
        return NO_EVENT

    return waited


def bind_launch(command: Launch, kernel: Any, queue: Any) -> LibraryCall:
    """The submission of a kernel."""
    if command.method not in ("", "out_of_order"):
        return bind_method(command, kernel, queue)
    function = "SubmitRange" if command.local_size is None else "SubmitNDRange"
    return _submission(command, kernel, queue, partial(getattr(c_library(held=True), f"DPCTLQueue_{function}"), handle(kernel)))


def bind_method(command: Launch, kernel: Any, queue: Any) -> LibraryCall:
    """A launch by a method of dpctl's queues, which converts the arguments at each call.

    Raises ValueError for an unknown method, and where event stamps are needed: the event is dpctl's own object, which is
    released at once.
    """
    if command.method not in ("submit", "submit_async"):
        raise ValueError(f"dpctl has no method {command.method!r}: choose submit_async or submit")
    if queue.has_enable_profiling:
        raise ValueError("a launch by dpctl's method is timed by the host's clock")
    submit, args = getattr(queue, command.method), [_scalar(argument) for argument in command.args]
    sizes = [list(map(int, reversed(size))) for size in (command.global_size, command.local_size) if size is not None]

    def launch() -> int:
        submit(kernel, args, *sizes)
        return NO_EVENT

    return launch


def _scalar(argument: Any) -> Any:
    """An argument in the form that dpctl's methods take."""
    if isinstance(argument, Local):
        return dpctl().LocalAccessor("u8", (-(-argument.nbytes // 8),))
    if isinstance(argument, np.generic):
        kind: Any = np.ctypeslib.as_ctypes_type(argument.dtype)  # type: ignore[arg-type]  # its type hints cover only fixed types
        return kind(argument)
    return argument


def bind_host_part(command: Launch, kernel: Any, queue: Any) -> LibraryCall:
    """The call that a submission would make, with the same arguments, to a function that does nothing."""
    return _submission(command, kernel, queue, partial(no_operation(), _Pointer(NO_EVENT)))


def _submission(command: Launch, kernel: Any, queue: Any, function: partial[Any]) -> LibraryCall:
    """The call of a function whose first argument is bound, with the remaining arguments of a submission."""
    if kernel.num_args != len(command.args):  # the library would read beyond the arguments
        raise DeviceError(f"kernel {command.kernel.name} takes {kernel.num_args} arguments, not {len(command.args)}")
    values, types, owners = _arguments(command)
    sizes = [_reversed(command.global_size)]
    if command.local_size is not None:
        sizes.append(_reversed(command.local_size))
    call = partial(
        function, handle(queue), values, types, _Size(len(command.args)), *sizes, _Size(len(command.global_size)), *NO_WAIT
    )
    call.owners = owners  # type: ignore[attr-defined]  # of the memory to which the arguments point
    return call


def _reversed(sizes: tuple[int, ...]) -> Any:
    """Sizes in SYCL's order: neighbouring work-items are in the last dimension."""
    return _Sizes(*map(int, reversed(sizes)))


def _arguments(command: Launch) -> tuple[Any, Any, list[Any]]:
    """Addresses of the arguments, their types, and the objects that must live as long as they do."""
    count, owners = len(command.args), list[Any]()
    values, types = (_Pointer * count)(), (ctypes.c_int * count)()
    for number, argument in enumerate(command.args):
        if isinstance(argument, Local):
            owner: Any = _LocalArgument(1, _UINT64_ARGUMENT, _Sizes(-(-argument.nbytes // 8), 1, 1))
            values[number], types[number] = ctypes.addressof(owner), _LOCAL_ARGUMENT
        elif isinstance(argument, np.generic):
            owner = np.array(argument)
            code = _SCALAR_ARGUMENTS.get(owner.dtype.str[1:])
            if code is None:
                raise Skip(f"SYCL through dpctl takes no kernel argument of type {owner.dtype.name}")
            values[number], types[number] = owner.ctypes.data, code
        else:
            owner = argument
            values[number], types[number] = pointer(argument), _POINTER_ARGUMENT
        owners.append(owner)
    return values, types, owners


def pointer(buffer: Any) -> int:
    """The address of a dpctl allocation."""
    return int(buffer._pointer)


def _address(of: Any, nbytes: int) -> int:
    """The address of a host array or an allocation. Raises ValueError or DeviceError if it has fewer bytes."""
    if isinstance(of, np.ndarray):
        return host_address(of, nbytes)
    if nbytes > of.nbytes:
        raise DeviceError(f"{nbytes} B do not fit into an allocation of {of.nbytes} B")
    return pointer(of)


def bind_copy(command: Copy, queue: Any) -> LibraryCall:
    """A copy between host arrays and allocations; a blocking one includes the wait for it."""
    target = _address(command.dst, command.dst_offset + command.nbytes) + command.dst_offset
    source = _address(command.src, command.src_offset + command.nbytes) + command.src_offset
    copy = c_library(held=not command.blocking).DPCTLQueue_Memcpy
    call: LibraryCall = partial(copy, handle(queue), _Pointer(target), _Pointer(source), _Size(command.nbytes))
    if not command.blocking:
        return call
    wait = c_library().DPCTLEvent_Wait

    def blocking() -> int | None:
        event = call()
        if event:
            wait(_Pointer(event))
        return event

    return blocking


def bind_fill(command: Fill, queue: Any) -> LibraryCall:
    """Fill an allocation with one byte."""
    there = _Pointer(_address(command.buffer, command.nbytes))
    set_bytes = c_library(held=True).DPCTLQueue_Memset
    return partial(set_bytes, handle(queue), there, ctypes.c_uint8(command.byte), _Size(command.nbytes))
