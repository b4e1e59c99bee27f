"""The log of a failed build, from the OpenCL library that SYCL itself has loaded; part of the SYCL runtime."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_NAME, _DRIVER_VERSION = 0x102B, 0x102D  # CL_DEVICE_NAME, CL_DRIVER_VERSION
_ALL_DEVICES, _BUILD_LOG = 0xFFFFFFFF, 0x1183
_Pointer, _Size, _Number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32


def opencl_build_log(device: Any, source: str, options: str) -> str:
    """The log of building a source for a SYCL device of the OpenCL backend; "" where that has none."""
    if device.backend.name != "opencl":
        return ""
    try:
        library = ctypes.CDLL("OpenCL" if sys.platform == "win32" else "libOpenCL.so.1")  # as it is loaded already
    except OSError:
        return ""
    found = _device(library, device.name, device.driver_version)
    return _log(library, found, source.encode(), options.encode()) if found else ""


def _device(library: ctypes.CDLL, name: str, driver: str) -> Any:
    """The OpenCL device of that name and driver."""
    for platform in _handles(library.clGetPlatformIDs):
        for device in _handles(library.clGetDeviceIDs, _Pointer(platform), ctypes.c_uint64(_ALL_DEVICES)):
            if (_text(library, device, _NAME), _text(library, device, _DRIVER_VERSION)) == (name.strip(), driver.strip()):
                return device
    return None


def _handles(function: Any, *args: Any) -> list[int]:
    count = _Number()
    if function(*args, 0, None, ctypes.byref(count)) or not count.value:
        return []
    found = (_Pointer * count.value)()
    return [] if function(*args, count, found, None) else [one for one in found if one]


def _text(library: ctypes.CDLL, device: int, what: int) -> str:
    room = ctypes.create_string_buffer(4096)
    failed = library.clGetDeviceInfo(_Pointer(device), what, _Size(len(room)), room, None)
    return "" if failed else room.value.decode(errors="replace").strip()


def _log(library: ctypes.CDLL, device: int, source: bytes, options: bytes) -> str:
    for function in (library.clCreateContext, library.clCreateProgramWithSource):
        function.restype = _Pointer
    devices, code = (_Pointer * 1)(device), ctypes.c_int32()
    context = library.clCreateContext(None, 1, devices, None, None, ctypes.byref(code))
    if not context:
        return ""
    text = ctypes.c_char_p(source)
    program = library.clCreateProgramWithSource(_Pointer(context), 1, ctypes.byref(text), None, ctypes.byref(code))
    said = b""
    if program:
        library.clBuildProgram(_Pointer(program), 1, devices, options, None, None)
        size = _Size()
        library.clGetProgramBuildInfo(_Pointer(program), _Pointer(device), _BUILD_LOG, _Size(0), None, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value + 1)
        library.clGetProgramBuildInfo(_Pointer(program), _Pointer(device), _BUILD_LOG, size, room, None)
        said = room.value
        library.clReleaseProgram(_Pointer(program))
    library.clReleaseContext(_Pointer(context))
    return said.decode(errors="replace").strip()
