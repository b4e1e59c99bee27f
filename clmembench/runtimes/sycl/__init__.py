"""The runtime for SYCL through dpctl; device.py combines its parts."""

from clmembench.runtimes.sycl.device import RUNTIME

__all__ = ["RUNTIME"]
