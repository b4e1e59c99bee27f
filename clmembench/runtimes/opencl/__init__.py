"""The runtime for OpenCL through pyopencl; runtime.py puts its parts together."""

from clmembench.runtimes.opencl.runtime import RUNTIME

__all__ = ["RUNTIME"]
