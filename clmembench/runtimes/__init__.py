"""The ways to reach devices, by name. A new runtime is one module here and its name in NAMES."""

from __future__ import annotations

import os
from importlib import import_module

from clmembench.model import Runtime

os.environ["PYOPENCL_NO_CACHE"] = "1"  # before pyopencl is imported: its caches are pickles in a user's folder
NAMES = ("opencl", "sycl", "fake")


def runtime(name: str) -> Runtime:
    """The runtime with this name. Raises ValueError for a name that is not in NAMES."""
    if name not in NAMES:
        raise ValueError(f"no runtime {name!r}: choose from {', '.join(NAMES)}")
    made: Runtime = import_module(f"clmembench.runtimes.{name}").RUNTIME
    return made
