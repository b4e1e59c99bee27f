"""The sides of an interleaved A/B run: interpreters, environments, kernels and devices."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clmembench import resources
from clmembench.host import processes
from clmembench.measure.device_list import decode_device
from clmembench.measure.worker_process import Start
from clmembench.model import DeviceInfo

MAX_DEVICE_LIST_S = 60.0  # for an interpreter to start and its drivers to list their devices
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIST = """
import dataclasses, json, sys, clmembench
from clmembench.host import environment
from clmembench.runtimes import runtime
try:
    from clmembench.measure.device_list import listed
    found = listed(sys.argv[1]).devices
except ImportError:  # an older version
    found = runtime(sys.argv[1]).devices()
found = [dataclasses.asdict(info) for info in found]
print("\\n" + json.dumps([clmembench.__version__, environment.packages(), found], default=sorted))
"""


class SideError(Exception):
    """A side cannot be used; the message says which one and why."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Versions of clmembench and its packages, and the devices, of an interpreter in an environment."""

    version: str
    packages: Mapping[str, str]
    devices: Sequence[DeviceInfo]


def parse_start(side: str, environment: Sequence[str], kernels: Path | None, python: Path | None) -> Start:
    """How the worker processes of a side start, from NAME=VALUE texts, a folder of kernels and an interpreter or a virtual
    environment. Raises ValueError for anything else, and for a repeated name."""
    option, variables = f"--{side.lower()}", dict[str, str]()
    for text in environment:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError(f"{option}-env {text!r}: write NAME=VALUE")
        if name in variables:
            raise ValueError(f"{option}-env sets {name} twice: set it once")
        if name in ("PYTHONPATH", "PYTHONHOME"):
            raise ValueError(f"{option}-env {name}: another clmembench is chosen by {option}-python")
        variables[name] = value
    if kernels is not None:
        if resources.KERNELS_VARIABLE in variables:
            raise ValueError(
                f"{option}-env {resources.KERNELS_VARIABLE} and {option}-kernels set the same folder: leave out one of them"
            )
        if python is not None:
            raise ValueError(f"{option}-python has kernels of its own: leave out {option}-kernels, or change them there")
        variables[resources.KERNELS_VARIABLE] = str(_kernels(f"{option}-kernels", kernels))
    return Start(str(_interpreter(f"{option}-python", python)) if python is not None else "", variables)


def _kernels(option: str, folder: Path) -> Path:
    found = sorted(path.stem for path in folder.glob("*.cl")) if folder.is_dir() else []
    if not found:
        raise ValueError(f"{option} {folder} has no .cl files: name a folder with changed copies of those in cl_kernels/")
    unknown = [name for name in found if name not in resources.kernel_names()]
    if unknown:
        raise ValueError(
            f"{option}: {unknown[0]}.cl is no kernel file of clmembench: choose from {', '.join(resources.kernel_names())}"
        )
    return folder.resolve()


def _interpreter(option: str, path: Path) -> Path:
    path = path / "bin" / "python" if path.is_dir() else path
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise ValueError(f"{option} {path} is no interpreter: name a virtual environment that has clmembench, or its python")
    return path.absolute()  # a link leads out of its virtual environment


def read_installation(side: str, start: Start, runtime: str = "opencl") -> Installation:
    """The installation of a side's interpreter, with the devices of one runtime. Raises SideError if the query fails."""
    environment = start.variables()
    if not start.python:  # -P keeps the current folder from being code, and with it a checkout that is not installed
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [processes.ROOT, environment.get("PYTHONPATH")]))
    command, safe = [start.python or sys.executable, "-P", "-c", _LIST, runtime], processes.python_environment(environment)
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=safe, timeout=MAX_DEVICE_LIST_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SideError(f"{side} cannot be started: {error}") from error
    try:
        version, packages, found = json.loads(done.stdout.splitlines()[-1])
        return Installation(str(version), dict(packages), [decode_device(one) for one in found])
    except (ValueError, TypeError, KeyError, IndexError) as error:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if "No module named 'clmembench." in last:  # clmembench is installed, but its modules have other names
            raise SideError(f"{side} has a clmembench too old for compare --live: install this version there") from error
        raise SideError(f"{side} does not list its devices: {last}") from error
