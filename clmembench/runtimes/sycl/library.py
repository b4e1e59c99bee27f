"""dpctl and its C library: loaded on first use, after the environment that they need is set."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

_DRIVERS = "OCL_ICD_FILENAMES"  # further OpenCL drivers for SYCL's loader
_VERBOSITY = "DPCTL_VERBOSITY"  # whether the C library prints the reason of a failed call on standard error
_REASON = re.compile(r"\[ERR\] (.*?) in DPCTL\w+ at ", re.DOTALL)


def packaged_driver() -> Path | None:
    """Intel's CPU driver from PyPI: it is in this environment's lib folder, and registered nowhere."""
    driver = Path(sys.prefix) / "lib" / "libintelocl.so"
    return driver if driver.is_file() else None


@cache
def dpctl() -> ModuleType:
    """dpctl, after SYCL has searched for its devices. Raises ImportError where the extra `sycl` is not installed.

    Its own driver is passed to SYCL's loader unless the user has named drivers. The loader reads the variable once; worker
    processes set it themselves.
    """
    driver = packaged_driver()
    named = _DRIVERS not in os.environ and driver is not None
    if named:
        os.environ[_DRIVERS] = str(driver)
    try:
        module = import_module("dpctl")
        module.get_devices()
    finally:
        if named:
            del os.environ[_DRIVERS]
    return module


@cache
def memory() -> ModuleType:
    """dpctl's module for allocations."""
    dpctl()
    return import_module("dpctl.memory")


@cache
def compiler() -> ModuleType:
    """dpctl's compiler module, which newer releases have renamed."""
    dpctl()
    try:
        return import_module("dpctl.compiler")
    except ModuleNotFoundError:
        return import_module("dpctl.program")


@cache
def c_library(held: bool = False) -> ctypes.CDLL:
    """dpctl's C library, whose calls take no Python objects.

    `held`: calls keep Python's lock, which saves time for calls that do not wait.
    """
    kind = ctypes.PyDLL if held else ctypes.CDLL
    folder = Path(str(dpctl().__file__)).parent
    name = "DPCTLSyclInterface.dll" if sys.platform == "win32" else "libDPCTLSyclInterface.so"
    library = kind(str(folder / name))
    for function in ("SubmitNDRange", "SubmitRange", "Memcpy", "Memset"):
        getattr(library, f"DPCTLQueue_{function}").restype = ctypes.c_void_p
    for stamp in ("Submit", "Start", "End"):
        getattr(library, f"DPCTLEvent_GetProfilingInfo{stamp}").restype = ctypes.c_uint64
    for function in ("DPCTLQueue_Wait", "DPCTLEvent_Wait", "DPCTLEvent_Delete"):
        getattr(library, function).restype = None
    return library


def failure_reason(call: Callable[[], Any]) -> str:
    """The reason why a call of the C library fails, or "".

    The library prints reasons only on standard error, and only if enabled, so the call is repeated for it. The reason is "" if
    the library prints none or the repeated call succeeds.
    """
    before, stderr = os.environ.get(_VERBOSITY), os.dup(2)
    os.environ[_VERBOSITY] = "error"
    try:
        with tempfile.TemporaryFile() as messages:
            os.dup2(messages.fileno(), 2)
            try:
                call()
            finally:
                os.dup2(stderr, 2)
            messages.seek(0)
            match = _REASON.search(messages.read(1 << 16).decode(errors="replace"))
    finally:
        os.close(stderr)
        if before is None:
            del os.environ[_VERBOSITY]
        else:
            os.environ[_VERBOSITY] = before
    return " ".join(match[1].split()) if match else ""
