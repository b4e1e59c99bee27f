"""OpenCL C to SPIR-V by clang, for SYCL backends that build no OpenCL C; part of the SYCL runtime."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clmembench.model import BuildError
from clmembench.runtimes.build_errors import first_error

MAX_COMPILE_S = 120.0
SOURCE_BACKENDS = ("opencl",)  # that build OpenCL C
SPIRV_BACKENDS = ("level_zero", "ext_oneapi_level_zero")  # that build SPIR-V alone
# kernels with 64-bit addresses, OpenCL C as drivers build it by default
_CLANG = ("-c", "-x", "cl", "-cl-std=CL1.2", "-O2", "-Xclang", "-finclude-default-header", "-cl-ext=+all")


def is_needed(device: Any) -> bool:
    """Whether a SYCL device builds no OpenCL C, but SPIR-V."""
    return device.backend.name not in SOURCE_BACKENDS


def missing_remedy(backend: str) -> str:
    """Why kernels of OpenCL C cannot be built for a backend on this host, with the remedy; "" where they can."""
    if backend in SOURCE_BACKENDS or (backend in SPIRV_BACKENDS and shutil.which("clang")):
        return ""
    if backend in SPIRV_BACKENDS:
        return f"SYCL's backend {backend} builds kernels from SPIR-V alone: install clang with its SPIR-V target"
    return f"SYCL's backend {backend} builds neither OpenCL C nor SPIR-V: use this device through OpenCL, -d 0"


def compile_source(source: str, options: Sequence[str]) -> bytes:
    """The SPIR-V of a source. Raises BuildError with the compiler's log."""
    with tempfile.TemporaryDirectory() as folder:
        kernel, code = Path(folder) / "kernel.cl", Path(folder) / "kernel.spv"
        kernel.write_text(source, encoding="utf-8")
        command = [shutil.which("clang") or "clang", "--target=spirv64", *_CLANG, *options, "-o", str(code), str(kernel)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_COMPILE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"clang cannot compile to SPIR-V: {error}", str(error)) from error
        if done.returncode or not code.is_file():
            raise BuildError(first_error(done.stderr), done.stderr)
        return code.read_bytes()
