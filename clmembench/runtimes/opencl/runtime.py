"""The OpenCL runtime: lists devices, opens them, and explains why drivers fail at either.

pyopencl is imported only where a driver is called: the command line does that in another process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clmembench.model import DeviceError, DeviceInfo, Driver, Placement, Runtime
from clmembench.runtimes.opencl import drivers, pocl_cache

if TYPE_CHECKING:
    from clmembench.runtimes.opencl.device import OpenCLDevice

# the variable that limits the threads of a CPU driver, by a word of its platform's name
_THREAD_VARIABLES = {"portable": "POCL_MAX_PTHREAD_COUNT", "intel": "DPCPP_CPU_NUM_CUS"}


class OpenCL(Runtime):
    """Every OpenCL device of this host, GPUs first."""

    name = "opencl"

    def devices(self) -> list[DeviceInfo]:
        from clmembench.runtimes.opencl.info import installed_platforms

        return [info for info, _ in installed_platforms().devices]

    def left_out(self) -> Sequence[str]:
        """Devices that cannot be described; PoCL, if its cache prevents its use; and without any device, each driver's
        defects."""
        from clmembench.runtimes.opencl.info import installed_platforms

        installed = installed_platforms()
        reasons = list(installed.left_out)
        if not any(_is_pocl(info) for info, _ in installed.devices):
            reasons += drivers.pocl_without_cache()
        return reasons if installed.devices or reasons else drivers.unloadable()

    def drivers(self) -> Sequence[Driver]:
        return drivers.registered()

    def environment(self, info: DeviceInfo, place: Placement) -> Mapping[str, str]:
        """The extra environment of a worker process: the only driver to load, if that matters, and its placement.

        Drivers of CPUs take a placement as a number of threads.
        """
        alone = drivers.only(info.library) if info.library else {}
        if place.compute_units is None or info.kind != "cpu":
            return alone
        driver = next((name for name in _THREAD_VARIABLES if name in info.platform.lower()), "")
        return {**alone, _THREAD_VARIABLES[driver]: str(place.compute_units)} if driver else alone

    def open(self, info: DeviceInfo) -> OpenCLDevice:
        """The device, with its peers if the claims have any. Raises DeviceError if it is gone or gives wrong results."""
        if "llvmpipe" in info.name.lower():
            raise DeviceError(f"{info.name} caps loops at 65,535 iterations silently, so chases are wrong there: use PoCL")
        if info.library:  # already set in a worker process
            os.environ.update(drivers.only(info.library))
        from clmembench.runtimes.opencl.device import OpenCLDevice
        from clmembench.runtimes.opencl.info import installed_platforms

        installed = installed_platforms()
        for known, handle in installed.devices:
            # two drivers may give a device the same id
            if (known.id, known.platform, known.driver, known.name) == (info.id, info.platform, info.driver, info.name):
                platform = known.selector.partition(":")[0]
                peers = [h for other, h in installed.devices if other.selector.partition(":")[0] == platform and h != handle]
                return OpenCLDevice(info, handle, peers[: info.peers])
        why = "; ".join(installed.left_out) or "see clmembench devices"
        raise DeviceError(f"device {info.name} ({info.id}) is no longer there: {why}")

    def death_cause(self, info: DeviceInfo, log: str, environment: Mapping[str, str]) -> str:
        return pocl_cache.damage(log, environment) if _is_pocl(info) else ""

    def repair(self, info: DeviceInfo) -> None:
        """Remove PoCL's broken programs. Its cache may have tens of thousands of files: looking at them takes 0.4 s."""
        if _is_pocl(info):
            pocl_cache.remove_empty_programs()


def _is_pocl(info: DeviceInfo) -> bool:
    return "portable" in info.platform.lower()


RUNTIME = OpenCL()

__all__ = ["RUNTIME", "OpenCL"]
