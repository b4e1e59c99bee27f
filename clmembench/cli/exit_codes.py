"""Exit codes, and how a command ends with one: a single line on standard error."""

from __future__ import annotations

import contextlib
import sys
from typing import NoReturn

import typer

from clmembench.sanitize import line

OK = 0
INTERNAL = 1
USAGE = 2
NO_DEVICE = 3
FAILED = 4
REGRESSION = 5
INCONCLUSIVE = 6
INTERRUPTED = 130

NO_OPENCL = (
    "no OpenCL device found. For this CPU: pip install 'clmembench[pocl]' (or a system PoCL: apt install pocl-opencl-icd). "
    "For a GPU: install its vendor's OpenCL driver, or register it with a file in /etc/OpenCL/vendors. See docs/install.md"
)

NO_SYCL = (
    "no SYCL device found that has device allocations (USM). For this CPU: pip install intel-opencl-rt intel-cmplr-lib-rt. "
    "For a GPU: install its vendor's Level Zero or OpenCL driver. See docs/runtimes.md"
)


def say(message: str) -> None:
    """Print one line on standard error, with control characters of files and drivers made harmless. Nobody has to read it."""
    with contextlib.suppress(OSError):  # a full disk or a closed pipe behind it ends no run, and changes no exit code
        print(line(f"clmembench: {message}"), file=sys.stderr, flush=True)


def stop(message: str, code: int) -> NoReturn:
    """End the command with one line on standard error."""
    say(message)
    raise typer.Exit(code)
