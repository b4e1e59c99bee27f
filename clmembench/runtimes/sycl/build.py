"""Builds OpenCL C for SYCL devices, via SPIR-V where needed, and reads build logs; part of the SYCL runtime."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from clmembench.model import BuildError, Kernel, Value
from clmembench.runtimes.shared import first_error
from clmembench.runtimes.sycl.library import compiler

_NAME, _DRIVER_VERSION = 0x102B, 0x102D  # CL_DEVICE_NAME, CL_DRIVER_VERSION
_ALL_DEVICES, _BUILD_LOG = 0xFFFFFFFF, 0x1183
_Pointer, _Size, _Number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32

MAX_COMPILE_S = 120.0
SOURCE_BACKENDS = ("opencl",)  # they build OpenCL C
SPIRV_BACKENDS = ("level_zero", "ext_oneapi_level_zero")  # they build only SPIR-V
# OpenCL C as drivers build it by default, for 64-bit addresses. Only the driver optimises: clang's passes turn some kernels
# into code that SPIR-V cannot express (freeze).
_CLANG = ("--target=spirv64", "-c", "-x", "cl", "-cl-std=CL1.2", "-O2", "-Xclang", "-disable-llvm-passes")
_HEADER = ("-Xclang", "-finclude-default-header")

_FACTS = {
    "private_bytes": "private_mem_size",
    "preferred_multiple": "preferred_work_group_size_multiple",
    "work_group_max": "work_group_size",
    "sub_group_items": "max_sub_group_size",
}
_ATTRIBUTES = r"(?:__attribute__\s*\(\(.*?\)\)\s*)*"
_KERNEL = re.compile(rf"\bkernel\s+{_ATTRIBUTES}void\s+{_ATTRIBUTES}(\w+)\s*\(", re.DOTALL)


def opencl_build_log(device: Any, source: str, options: str) -> str:
    """The log of building a source for a SYCL device of the OpenCL backend; "" without a log."""
    if device.backend.name != "opencl":
        return ""
    try:
        library = ctypes.CDLL("OpenCL" if sys.platform == "win32" else "libOpenCL.so.1")  # the library that SYCL has loaded
    except OSError:
        return ""
    opencl_device = _device(library, device.name, device.driver_version)
    return _log(library, opencl_device, source.encode(), options.encode()) if opencl_device else ""


def _device(library: ctypes.CDLL, name: str, driver: str) -> Any:
    """The OpenCL device with this name and driver."""
    for platform in _handles(library.clGetPlatformIDs):
        for device in _handles(library.clGetDeviceIDs, _Pointer(platform), ctypes.c_uint64(_ALL_DEVICES)):
            if (_text(library, device, _NAME), _text(library, device, _DRIVER_VERSION)) == (name.strip(), driver.strip()):
                return device
    return None


def _handles(function: Any, *args: Any) -> list[int]:
    count = _Number()
    if function(*args, 0, None, ctypes.byref(count)) or not count.value:
        return []
    handles = (_Pointer * count.value)()
    return [] if function(*args, count, handles, None) else [one for one in handles if one]


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
    log = b""
    if program:
        library.clBuildProgram(_Pointer(program), 1, devices, options, None, None)
        size = _Size()
        library.clGetProgramBuildInfo(_Pointer(program), _Pointer(device), _BUILD_LOG, _Size(0), None, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value + 1)
        library.clGetProgramBuildInfo(_Pointer(program), _Pointer(device), _BUILD_LOG, size, room, None)
        log = room.value
        library.clReleaseProgram(_Pointer(program))
    library.clReleaseContext(_Pointer(context))
    return log.decode(errors="replace").strip()


def is_needed(device: Any) -> bool:
    """Whether a SYCL device builds SPIR-V instead of OpenCL C."""
    return device.backend.name not in SOURCE_BACKENDS


@cache
def missing_remedy(backend: str) -> str:
    """The reason why OpenCL C kernels cannot be built for a backend on this host, with the remedy; "" if they can.

    For SPIR-V a small kernel is compiled, since clang may lack its translator.
    """
    if backend in SOURCE_BACKENDS:
        return ""
    if backend not in SPIRV_BACKENDS:
        return f"SYCL's backend {backend} builds neither OpenCL C nor SPIR-V: use this device through OpenCL, -d 0"
    try:
        compile_source("kernel void probe(global int* out) { out[0] = 1; }", ())
    except BuildError as error:
        needed = f"SYCL's backend {backend} builds kernels only from SPIR-V"
        return f"{needed}, and clang cannot produce it here ({error}): install clang and llvm-spirv of one version"
    return ""


def compile_source(source: str, options: Sequence[str]) -> bytes:
    """The SPIR-V of a source. Raises BuildError with the compiler's log."""
    with tempfile.TemporaryDirectory() as folder:
        kernel, code = Path(folder) / "kernel.cl", Path(folder) / "kernel.spv"
        kernel.write_text(source, encoding="utf-8")
        command = [shutil.which("clang") or "clang", *_CLANG, *_HEADER, *options, "-o", str(code), str(kernel)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_COMPILE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"clang cannot be run: {getattr(error, 'strerror', None) or error}", str(error)) from error
        if done.returncode or not code.is_file():
            raise BuildError(first_error(done.stderr), done.stderr)
        return code.read_bytes()


@dataclass(frozen=True, slots=True)
class SyclKernel:
    """A kernel object; `source` and `options` are those of its bundle."""

    name: str
    handle: Any
    source: str = ""
    options: tuple[str, ...] = ()


class KernelBundle(Mapping[str, Kernel]):
    """The kernels of a source by name. SYCL does not list kernels, so the names are those in the source that the bundle has."""

    def __init__(self, bundle: Any, source: str, options: Sequence[str]) -> None:
        self._bundle, self._source, self._options = bundle, source, tuple(options)
        self._made: dict[str, SyclKernel] = {}

    def __getitem__(self, name: str) -> SyclKernel:
        if name not in self._made:
            if not self._bundle.has_sycl_kernel(name):
                raise KeyError(name)
            self._made[name] = SyclKernel(name, self._bundle.get_sycl_kernel(name), self._source, self._options)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(_KERNEL.findall(self._source))
        return (name for name in names if self._bundle.has_sycl_kernel(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def build_bundle(queue: Any, source: str, options: Sequence[str]) -> KernelBundle:
    """The kernels of a source. Raises BuildError with the first error and the compiler's log.

    SYCL provides no log: if the driver is an OpenCL one, it builds the source once more for the log.
    """
    made = compiler()
    try:
        if not is_needed(queue.sycl_device):
            return KernelBundle(made.create_program_from_source(queue, source, " ".join(options)), source, options)
        code = compile_source(source, options)
        return KernelBundle(made.create_program_from_spirv(queue, code), source, options)
    except made.SyclProgramCompilationError as error:
        log = str(error) or opencl_build_log(queue.sycl_device, source, " ".join(options))
        raise BuildError(first_error(log), log) from error


def kernel_facts(kernel: SyclKernel) -> Mapping[str, Value]:
    """Facts about a kernel from its compiler."""
    return {name: int(getattr(kernel.handle, attribute)) for name, attribute in _FACTS.items()}
