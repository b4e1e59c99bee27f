"""The runtime for OpenCL through pyopencl; device.py puts its parts together."""

from clmembench.runtimes.opencl.device import RUNTIME

__all__ = ["RUNTIME"]
