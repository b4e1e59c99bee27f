"""Faults of the storm in what surrounds a run: drivers, what a device claims, PoCL's cache folder, a busy host, plug-ins.

Part of fault_storm.py: python scripts/fault_storm.py --fault 'driver|claims|cache|busy|plug-in'
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock

from scripts.storm_trial import FAILED, NO_DEVICE, OK, USAGE, Trial
from tests import faulty_drivers
from tests.faulty import Command, within

DRIVER_FAULTS = {**faulty_drivers.FAULTS, "crashes": "*(volatile int *)16 = 1"}
DRIVER_LIMIT = {"CLMEMBENCH_DRIVER_TIMEOUT": "15"}  # a driver that hangs costs that many seconds
# of clGetDeviceInfo: numbers from the type and the compute units to the local memory, and texts such as name and extensions
NUMBERS = (0x1000, 0x1002, 0x1004, 0x100C, 0x1010, 0x1016, 0x101D, 0x101E, 0x101F, 0x1020, 0x1022, 0x1023, 0x1025, 0x1035)
TEXTS = (0x102B, 0x102C, 0x102D, 0x102F, 0x1030)
_COMPILING = Lock()  # trials at once need the same library
PLUG_IN = """
import os, subprocess, sys, time
from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.model import Fill, Work

PLACE, _, FAULT = os.environ.get("PLUG_IN_FAULT", "").partition(" ")
FAULT = compile(FAULT, "fault", "exec")  # of a text that raises KeyboardInterrupt Python makes SIGINT at its end
if PLACE == "import":
    exec(FAULT)

@benchmark(BANDWIDTH, suite="launch", source="this project", n=axis(1))
def theirs(device, n):
    '''Does nothing, well.'''
    if PLACE == "function":
        exec(FAULT)
    return Work(commands=(Fill(device.alloc(64), 64),), nbytes=64)
"""
# what a plug-in does, and whether it can still be measured; a process that it starts at import, or detaches, is its own
PLUG_IN_FAULTS: Mapping[str, bool] = {
    "import os.fork()": False,
    "import time.sleep(1000)": False,
    "import sys.exit('no GPU')": False,
    "import os._exit(0)": False,
    "import os.abort()": False,
    "import raise KeyboardInterrupt": False,
    "import print('words'); os.write(1, b'raw')": True,
    "function os.fork() or time.sleep(1000)": True,
    "function subprocess.Popen(['sleep', '1000'])": True,
    "function os.fork()": True,
    "function time.sleep(1000)": True,
    "function sys.exit(3)": True,
    "function os._exit(0)": True,
    "function os.abort()": True,
    "function print('words' * 100_000); os.write(1, b'raw')": True,
    "function os.close(0); os.close(1); os.close(2)": True,
}


def impatient(tree: Path) -> Path:
    """That copy of the package, which waits 10 s for a plug-in's import instead of 30."""
    with (tree / "clmembench" / "benchmarks" / "import_trial.py").open("a") as module:
        module.write("\nIMPORT_LIMIT_S = 10.0\n")
    return tree


def _begun(trial: Trial) -> tuple[str, ...]:
    """In half of the trials a run without a fault, whose file is then torn. Returns the option to go on with it."""
    if trial.rng.random() < 0.5:
        return ()
    with trial.running():
        pass
    trial.tear()
    return ("--resume",)


def _harmed(trial: Trial, begun: tuple[str, ...], *allowed: int, **rest: object) -> Command:
    """A run with a fault around it, or the rest of one."""
    with trial.running(*begun, **rest) as command:
        pass
    trial.harmed(command, OK, FAILED, *allowed)
    trial.check_reasons(command)
    return command


# ---- drivers and devices --------------------------------------------------------------------------------------------


def _library(folder: Path, name: str, source: str, *defines: str) -> Path:
    with _COMPILING:
        return _compiled(folder, name, source, *defines)


@cache
def _compiled(folder: Path, name: str, source: str, *defines: str) -> Path:
    found = faulty_drivers.compiled(folder / f"{name}.so", source, *defines)
    if found is None:
        raise FileNotFoundError("no C compiler here to make a driver with")
    return found


def _bad_driver(trial: Trial) -> None:
    """One or two drivers beside PoCL that fail while devices are listed: PoCL is measured."""
    vendors = trial.folder / "vendors"
    vendors.mkdir(parents=True)
    trial.environment |= {"OCL_ICD_VENDORS": str(vendors), **DRIVER_LIMIT}
    begun = _begun(trial)
    for name in trial.rng.sample(sorted(DRIVER_FAULTS), trial.rng.choice([1, 1, 2])):
        library = _library(trial.stage.tree, name, faulty_drivers.DRIVER, f"-DFAULT={DRIVER_FAULTS[name]}")
        (vendors / f"{name}.icd").write_text(f"{library}\n")
    _harmed(trial, begun)
    for path in vendors.iterdir() if trial.rng.random() < 0.8 else ():
        path.unlink()  # the driver is unregistered, as the message says


def _failing_query(trial: Trial) -> None:
    """A device one of whose queries fails, always or at random, or whose claim is the least or greatest number."""
    kind = trial.rng.choice(["FAILS", "ODDS", "CLAIM"])
    layer = {"OPENCL_LAYERS": str(_library(trial.stage.tree, "layer", faulty_drivers.LAYER))}
    if kind == "CLAIM":
        layer |= {"LAYER_CLAIM": str(trial.rng.choice(NUMBERS)), "LAYER_BYTE": str(trial.rng.choice([0, 0xFF]))}
    else:
        layer[f"LAYER_{kind}"] = str(trial.rng.choice([*NUMBERS, *TEXTS] if kind == "FAILS" else [1, 3, 10]))
    code = _harmed(trial, _begun(trial), NO_DEVICE, USAGE, environment=layer).process.returncode
    if kind == "CLAIM" and code in (OK, FAILED):
        trial.environment |= layer  # a run goes on with the claims that it began with


# ---- the host -------------------------------------------------------------------------------------------------------


def _bad_cache(trial: Trial) -> None:
    """PoCL's cache folder is a file, within one, or where none can be made; or a file takes its place during the run."""
    trial.folder.mkdir(parents=True)
    (file := trial.folder / "file").touch()
    if trial.rng.random() < 0.3:
        _cache_lost(trial, file)
        return
    place = trial.rng.choice([file, file / "below", Path("/proc/cache"), Path("/dev/null")])
    before: tuple[str, ...] = ()
    if trial.rng.random() < 0.5:
        variables = {"POCL_CACHE_DIR": str(place)}
    else:
        variables, before = {"XDG_CACHE_HOME": str(place)}, ("env", "-u", "POCL_CACHE_DIR")
    command = _harmed(trial, _begun(trial), NO_DEVICE, environment=variables, before=before)
    if command.process.returncode != NO_DEVICE or "set POCL_CACHE_DIR to" not in command.said():
        trial.found["other"].append(f"with the cache folder {variables} it says {command.said()[-600:]}")


def _cache_lost(trial: Trial, file: Path) -> None:
    """A file takes the place of the cache folder while a run goes on."""
    (folder := trial.folder / "cache").mkdir()
    with trial.running(environment={"POCL_CACHE_DIR": str(folder)}) as command:
        trial.moment()
        within(trial.rng.choice([0.0, 20.0]), lambda: trial.file.exists() or command.process.poll() is not None)
        folder.rename(trial.folder / "moved")
        file.rename(folder)
    trial.harmed(command, OK, FAILED, NO_DEVICE)
    trial.check_reasons(command)


def _busy_host(trial: Trial) -> None:
    """Every core, or more than there are, has another program on it."""
    loops = (os.cpu_count() or 1) * trial.rng.choice([1, 1, 2])
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        _harmed(trial, _begun(trial))
    finally:
        for other in others:
            other.kill()
            other.wait()


# ---- plug-ins -------------------------------------------------------------------------------------------------------


def _bad_plug_in(trial: Trial) -> None:
    """A plug-in of --path, or of an installed package, that forks, hangs, ends its process or prints."""
    fault, usable = trial.rng.choice(sorted(PLUG_IN_FAULTS.items()))
    installed = trial.rng.random() < 0.4
    site = trial.folder / "site"
    (info := site / "storm_plug_in-1.dist-info").mkdir(parents=True)
    (site / "storm_plug_in.py").write_text(PLUG_IN)
    if installed:
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: storm-plug-in\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[clmembench.benchmarks]\nstorm_plug_in = storm_plug_in\n")
        trial.environment["PYTHONPATH"] = f"{site}{os.pathsep}{trial.stage.tree}"
    else:
        trial.plug_in = ("--path", str(site / "storm_plug_in.py"))
    trial.theirs = usable or not installed  # an installed one that cannot be imported is left out
    code = _harmed(trial, _begun(trial), USAGE, environment={"PLUG_IN_FAULT": fault}).process.returncode
    if (usable or installed) and code == USAGE:
        trial.found["other"].append(f"a plug-in with the fault {fault!r} refuses the run")


SURROUNDINGS: Mapping[str, Callable[[Trial], None]] = {
    "driver that fails at listing": _bad_driver,
    "claims that fail or lie": _failing_query,
    "cache folder of PoCL": _bad_cache,
    "busy host": _busy_host,
    "plug-in that forks, hangs or prints": _bad_plug_in,
}
POCL_ONLY = {"driver that fails at listing", "claims that fail or lie", "cache folder of PoCL"}
