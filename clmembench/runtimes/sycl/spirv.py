"""OpenCL C to SPIR-V by clang, for SYCL backends that build no OpenCL C; part of the SYCL runtime."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from clmembench.model import BuildError
from clmembench.runtimes.built_sources import first_error

MAX_COMPILE_S = 120.0
SOURCE_BACKENDS = ("opencl",)  # that build OpenCL C
SPIRV_BACKENDS = ("level_zero", "ext_oneapi_level_zero")  # that build SPIR-V alone
# OpenCL C as drivers build it by default, for 64-bit addresses. What clang's own passes make of some kernels SPIR-V has no
# instruction for (freeze), so the driver has the optimisation to itself.
_CLANG = ("--target=spirv64", "-c", "-x", "cl", "-cl-std=CL1.2", "-O2", "-Xclang", "-disable-llvm-passes")
_HEADER = ("-Xclang", "-finclude-default-header")


def is_needed(device: Any) -> bool:
    """Whether a SYCL device builds no OpenCL C, but SPIR-V."""
    return device.backend.name not in SOURCE_BACKENDS


@cache
def missing_remedy(backend: str) -> str:
    """Why kernels of OpenCL C cannot be built for a backend on this host, with the remedy; "" where they can. For SPIR-V a
    small kernel is compiled: a clang without its translator is none."""
    if backend in SOURCE_BACKENDS:
        return ""
    if backend not in SPIRV_BACKENDS:
        return f"SYCL's backend {backend} builds neither OpenCL C nor SPIR-V: use this device through OpenCL, -d 0"
    try:
        compile_source("kernel void probe(global int* out) { out[0] = 1; }", ())
    except BuildError as error:
        needed = f"SYCL's backend {backend} builds kernels from SPIR-V alone"
        return f"{needed}, and clang does not make it here ({error}): install clang and llvm-spirv of one version"
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
