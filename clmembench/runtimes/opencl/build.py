"""Builds OpenCL programs and reads their compiler's facts about a kernel; part of the OpenCL runtime."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyopencl as cl

from clmembench.model import BuildError, Kernel, Value
from clmembench.runtimes.opencl.pocl_cache import cache_folder, unusable_reason
from clmembench.runtimes.shared import first_error

_KERNEL = re.compile(r"\b(?:__)?kernel\b|\.entry\b")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '[^']+'\s*$")
_PROPERTIES = re.compile(r"Function properties for '?([^\s']+?)'?\s*$")
_FRAME = re.compile(r"\b(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\s*$")
_REGISTERS = re.compile(r"\bUsed (\d+) registers\b")

_QUERIES = {
    "private_bytes": cl.kernel_work_group_info.PRIVATE_MEM_SIZE,
    "local_bytes": cl.kernel_work_group_info.LOCAL_MEM_SIZE,
    "preferred_multiple": cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
    "work_group_max": cl.kernel_work_group_info.WORK_GROUP_SIZE,
}
_SPACES = {
    cl.kernel_arg_address_qualifier.GLOBAL: "global",
    cl.kernel_arg_address_qualifier.LOCAL: "local",
    cl.kernel_arg_address_qualifier.CONSTANT: "constant",
    cl.kernel_arg_address_qualifier.PRIVATE: "private",
}
_NVIDIA_COMPILER = "cl_nv_compiler_options"  # the extension with the option
_VERBOSE = "-cl-nv-verbose"


def nvidia_facts(log: str, kernel: str) -> Mapping[str, int]:
    """registers, stack_bytes, spill_store_bytes and spill_load_bytes of the kernel of this name, per work-item.

    Empty if the log does not mention the kernel (as for a program from the driver's cache) or contradicts itself. A line in an
    unexpected form contributes no numbers, and functions that the kernel calls are ignored.
    """
    numbers_by_name: dict[str, set[int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, function = match[1], ""
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif entry != kernel:
            continue
        elif (match := _FRAME.search(line)) and function == kernel:
            for name, number in zip(("stack_bytes", "spill_store_bytes", "spill_load_bytes"), match.groups(), strict=True):
                numbers_by_name.setdefault(name, set()).add(int(number))
        elif match := _REGISTERS.search(line):
            numbers_by_name.setdefault("registers", set()).add(int(match[1]))
    if any(len(numbers) > 1 for numbers in numbers_by_name.values()):
        return {}
    return {name: numbers.pop() for name, numbers in numbers_by_name.items()}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel as its source has it: `space` is global, local, constant or private, `type` such as float* or a
    name that the source defines."""

    name: str
    type: str
    space: str


@dataclass(frozen=True, slots=True)
class OpenCLKernel:
    """A kernel object, stored as long as its launches: getting it from the program again makes launches far more expensive.

    `source` and `options` are those of its program, whose source is OpenCL C or PTX; `log` is what its compiler said. `program`
    makes further objects of it: Intel's driver refuses the one that it names itself for a kernel.
    """

    name: str
    handle: Any
    source: str = ""
    options: tuple[str, ...] = ()
    is_ptx: bool = False
    log: str = ""
    program: Any = None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters; empty where the driver does not report them."""
        try:
            return tuple(
                Parameter(
                    self.handle.get_arg_info(number, cl.kernel_arg_info.NAME),
                    self.handle.get_arg_info(number, cl.kernel_arg_info.TYPE_NAME),
                    _SPACES[self.handle.get_arg_info(number, cl.kernel_arg_info.ADDRESS_QUALIFIER)],
                )
                for number in range(self.handle.num_args)
            )
        except cl.Error:
            return ()

    @property
    def key(self) -> str:
        """A hash of its source, options and name."""
        return hashlib.sha256("\0".join((self.source, *self.options, self.name)).encode()).hexdigest()[:16]


def build_program(context: Any, source: str, options: Sequence[str], is_ptx: bool = False) -> Mapping[str, Kernel]:
    """Every kernel of the source, by name.

    Raises BuildError with the first error and the log, or with PoCL's cache folder, which its errors do not name.
    """
    log = ""
    try:
        verbose = [_VERBOSE] if all(_reports_facts(device) for device in context.devices) else []
        program = _program(context, source, [*options, *verbose], is_ptx)
        if verbose:
            log = program.get_build_info(context.devices[0], cl.program_build_info.LOG) or ""
        kernels = {
            k.function_name: OpenCLKernel(k.function_name, k, source, tuple(options), is_ptx, log, program)
            for k in program.all_kernels()
        }
    except cl.Error as error:
        log = str(error)
        if _is_pocl(context) and (reason := unusable_reason()):
            raise BuildError(reason, "") from error
        if isinstance(error, cl.RuntimeError):
            raise BuildError(first_error(log), log) from error
        raise BuildError(log.splitlines()[0], log) from error
    if not kernels and not _KERNEL.search(source):
        raise BuildError("the source has no kernel", "")
    if not kernels:  # happens if a file of the driver's cache is truncated
        hint = f", {cache_folder()}" if _is_pocl(context) else ""
        raise BuildError(f"the driver built a program without kernels: remove its cache of programs{hint}", "")
    return kernels


def compile_program(context: Any, device: Any, kernel: OpenCLKernel) -> Mapping[str, Value]:
    """Facts about a kernel from its compiler: those that OpenCL can query, and those of NVIDIA's build log."""
    facts: dict[str, Value] = {}
    for name, query in _QUERIES.items():
        try:
            facts[name] = int(kernel.handle.get_work_group_info(query, device))
        except cl.Error:  # the driver does not report it
            continue
    return {**facts, **_logged(context, device, kernel)}


def _is_pocl(context: Any) -> bool:
    return any("portable" in device.platform.name.lower() for device in context.devices)


def _reports_facts(device: Any) -> bool:
    return _NVIDIA_COMPILER in device.extensions.split()


def _logged(context: Any, device: Any, kernel: OpenCLKernel) -> Mapping[str, Value]:
    """Facts from the log of its build, or where that has none, of another build with the same source and options.

    NVIDIA's driver takes earlier results from a cache on disk, and the log is then empty. Turning the cache off in the worker
    process's environment would make every benchmark compile all its kernels anew. Therefore a kernel with a new name is
    appended to the source: whether the cache is keyed by source, options or PTX, it does not contain that program.
    """
    name = f"unseen_{uuid4().hex}"
    entry = (
        f".visible .entry {name}() {{ ret; }}" if kernel.is_ptx else f"kernel void {name}(global int* out) {{ out[0] = 1; }}"
    )
    unseen = f"{kernel.source}\n{entry}\n"
    try:
        if not _reports_facts(device) or not kernel.source:
            return {}
        if facts := nvidia_facts(kernel.log, kernel.name):
            return facts
        program = _program(context, unseen, [*kernel.options, _VERBOSE], kernel.is_ptx)
        log = program.get_build_info(device, cl.program_build_info.LOG)
    except cl.Error:  # the kernel itself was built: without a log only its facts are missing
        return {}
    return nvidia_facts(log or "", kernel.name)


def _program(context: Any, source: str, options: Sequence[str], is_ptx: bool) -> Any:
    made = (
        cl.Program(context, context.devices, [source.encode()] * len(context.devices))
        if is_ptx
        else cl.Program(context, source)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # several compilers always write something to the log
        return made.build(list(options))
