"""Builds OpenCL C for SYCL devices, and asks what their compiler made of a kernel; part of the SYCL runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clmembench.model import BuildError, Kernel, Value
from clmembench.runtimes.built_sources import first_error
from clmembench.runtimes.sycl import spirv
from clmembench.runtimes.sycl.build_log import opencl_build_log
from clmembench.runtimes.sycl.library import compiler

_FACTS = {
    "private_bytes": "private_mem_size",
    "preferred_multiple": "preferred_work_group_size_multiple",
    "work_group_max": "work_group_size",
    "sub_group_items": "max_sub_group_size",
}
_ATTRIBUTES = r"(?:__attribute__\s*\(\(.*?\)\)\s*)*"
_KERNEL = re.compile(rf"\bkernel\s+{_ATTRIBUTES}void\s+{_ATTRIBUTES}(\w+)\s*\(", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SyclKernel:
    """A kernel object; `source` and `options` are what it was built from."""

    name: str
    handle: Any
    source: str = ""
    options: tuple[str, ...] = ()


class KernelBundle(Mapping[str, Kernel]):
    """The kernels of a source by name. SYCL does not list them: the names are those in the source that the bundle has."""

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
    """The kernels of a source. Raises BuildError: the first error, and the compiler's log.

    SYCL gives no log: where the driver is an OpenCL one, the source is built by that once more for it.
    """
    made = compiler()
    try:
        if not spirv.is_needed(queue.sycl_device):
            return KernelBundle(made.create_program_from_source(queue, source, " ".join(options)), source, options)
        code = spirv.compile_source(source, options)
        return KernelBundle(made.create_program_from_spirv(queue, code), source, options)
    except made.SyclProgramCompilationError as error:
        log = str(error) or opencl_build_log(queue.sycl_device, source, " ".join(options))
        raise BuildError(first_error(log), log) from error


def kernel_facts(kernel: SyclKernel) -> Mapping[str, Value]:
    """Facts about a kernel from its compiler."""
    return {name: int(getattr(kernel.handle, attribute)) for name, attribute in _FACTS.items()}
