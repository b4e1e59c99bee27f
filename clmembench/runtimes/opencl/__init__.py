"""The runtime for OpenCL through pyopencl; runtime.py combines its parts."""

from clmembench.runtimes.opencl.runtime import RUNTIME

__all__ = ["RUNTIME"]
