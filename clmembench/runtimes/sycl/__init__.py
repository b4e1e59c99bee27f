"""The runtime for SYCL through dpctl; device.py puts its parts together."""

from clmembench.runtimes.sycl.device import RUNTIME

__all__ = ["RUNTIME"]
