"""dpctl and the C library in it: loaded when first asked for, after what it needs from the environment is set."""

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

_DRIVERS = "OCL_ICD_FILENAMES"  # further OpenCL drivers, as SYCL's loader reads them
_VERBOSITY = "DPCTL_VERBOSITY"  # whether the C library says on standard error why a call failed
_REASON = re.compile(r"\[ERR\] (.*?) in DPCTL\w+ at ", re.DOTALL)


def packaged_driver() -> Path | None:
    """Intel's CPU driver from PyPI, which is registered nowhere: it lies in this environment's lib folder."""
    driver = Path(sys.prefix) / "lib" / "libintelocl.so"
    return driver if driver.is_file() else None


@cache
def dpctl() -> ModuleType:
    """dpctl, after SYCL has looked for its devices. Raises ImportError where the extra `sycl` is not installed.

    The driver that comes with it is named to SYCL's loader unless the user has named drivers. The loader reads that once;
    worker processes come here themselves.
    """
    driver = packaged_driver()
    named = _DRIVERS not in os.environ and driver is not None
    if named:
        os.environ[_DRIVERS] = str(driver)
    try:
        found = import_module("dpctl")
        found.get_devices()
    finally:
        if named:
            del os.environ[_DRIVERS]
    return found


@cache
def memory() -> ModuleType:
    """dpctl's allocations."""
    dpctl()
    return import_module("dpctl.memory")


@cache
def compiler() -> ModuleType:
    """dpctl's compiler: a module that newer releases have renamed."""
    dpctl()
    try:
        return import_module("dpctl.compiler")
    except ModuleNotFoundError:
        return import_module("dpctl.program")


@cache
def c_library(held: bool = False) -> ctypes.CDLL:
    """dpctl's C library, whose calls take no Python objects. `held`: calls keep Python's lock, which saves time where a call
    does not wait."""
    kind = ctypes.PyDLL if held else ctypes.CDLL
    folder = Path(str(dpctl().__file__)).parent
    name = "DPCTLSyclInterface.dll" if sys.platform == "win32" else "libDPCTLSyclInterface.so"
    found = kind(str(folder / name))
    for function in ("SubmitNDRange", "SubmitRange", "Memcpy", "Memset"):
        getattr(found, f"DPCTLQueue_{function}").restype = ctypes.c_void_p
    for stamp in ("Submit", "Start", "End"):
        getattr(found, f"DPCTLEvent_GetProfilingInfo{stamp}").restype = ctypes.c_uint64
    for function in ("DPCTLQueue_Wait", "DPCTLEvent_Wait", "DPCTLEvent_Delete"):
        getattr(found, function).restype = None
    return found


def failure_reason(call: Callable[[], Any]) -> str:
    """Why a call of the C library fails: it prints the reason on standard error only, and only if asked.

    So the call is made once more. "" where it does not say, or now succeeds."""
    before, stderr = os.environ.get(_VERBOSITY), os.dup(2)
    os.environ[_VERBOSITY] = "error"
    try:
        with tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 2)
            try:
                call()
            finally:
                os.dup2(stderr, 2)
            said.seek(0)
            match = _REASON.search(said.read(1 << 16).decode(errors="replace"))
    finally:
        os.close(stderr)
        if before is None:
            del os.environ[_VERBOSITY]
        else:
            os.environ[_VERBOSITY] = before
    return " ".join(match[1].split()) if match else ""
