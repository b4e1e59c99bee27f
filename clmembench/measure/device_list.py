"""Lists a runtime's devices in a process of its own: a driver that crashes or hangs there costs its own devices alone.

All drivers are loaded at the first call, so that one that crashes takes the others with it. Only when that has happened is each
asked alone, to name the one and to keep the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import IO, Any

from clmembench.host import processes
from clmembench.host.failures import describe_end, last_words, not_started
from clmembench.host.processes import end_with_parent
from clmembench.model import DeviceInfo, Driver
from clmembench.runtimes import runtime
from clmembench.runtimes.hardware import listing_order

TIMEOUT_VARIABLE, DEFAULT_TIMEOUT_S = "CLMEMBENCH_DRIVER_TIMEOUT", 30.0  # for all drivers together to list their devices
FIRST_SHARE = 1 / 3  # of that time, after which each driver is asked alone too
END_S = 2.0  # for a process that was killed, which a driver's call may hold
NO_ANSWER = "no answer within"
LOADED_INTO_EACH = ("OPENCL_LAYERS", "LD_PRELOAD")  # variables that name libraries that every driver's process loads


@dataclass(frozen=True, slots=True)
class Listing:
    """Devices in the order in which they are listed, and why devices and drivers are not among them, a sentence each."""

    devices: Sequence[DeviceInfo]
    left_out: Sequence[str] = ()


@cache
def listed(name: str) -> Listing:
    """Every device of that runtime. Raises ImportError where its library does not load, and ValueError for a time limit that is
    none."""
    limit_s = _limit_s()
    try:
        return _ask(name, limit_s)
    except OSError as error:
        return Listing((), (not_started(error, "to list devices"),))


def _ask(name: str, limit_s: float) -> Listing:
    """What all drivers together list, or each alone where that fails. Raises OSError where no process can be started."""
    began = time.monotonic()

    def left_s() -> float:
        return max(0.0, began + limit_s - time.monotonic())

    with _start(name) as together:
        found = together.answer(limit_s * FIRST_SHARE)
        if isinstance(found, Listing):
            return found
        drivers = runtime(name).drivers()
        alone = _ask_each(name, drivers, left_s()) if len(drivers) > 1 else []
        found = found or together.answer(left_s()) or f"{NO_ANSWER} {limit_s:g} s"
    if isinstance(found, Listing):
        return found
    if alone:
        return _merged(drivers, [one or f"{NO_ANSWER} {limit_s:g} s" for one in alone], found)
    return Listing((), (_blamed(drivers[0], found) if drivers else f"the devices of {name} cannot be listed: {found}",))


def decode_device(raw: Mapping[str, Any]) -> DeviceInfo:
    """A device from JSON, without claims that this version does not know. Raises KeyError or TypeError for what is none."""
    known = {field.name for field in fields(DeviceInfo)}
    return DeviceInfo(**{**{k: v for k, v in raw.items() if k in known}, "features": frozenset(raw["features"])})


def _limit_s() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        limit_s = float(text or DEFAULT_TIMEOUT_S)
    except ValueError:
        limit_s = 0.0
    if not 0 < limit_s < 1e6:
        raise ValueError(f"{TIMEOUT_VARIABLE}={text}: give a number of seconds, such as 120")
    return limit_s


def _blamed(driver: Driver, how: str) -> str:
    slow = f", or set {TIMEOUT_VARIABLE} to more seconds" if how.startswith(NO_ANSWER) else ""
    return f"the driver {driver.name} is left out, since listing its devices failed: {how}: update or unregister it{slow}"


def _ask_each(name: str, drivers: Sequence[Driver], limit_s: float) -> list[Listing | str | None]:
    """What each driver lists in a process without the others, all at the same time."""
    deadline = time.monotonic() + limit_s
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_start_fresh(name, driver.environment)) for driver in drivers]
        return [process.answer(max(0.0, deadline - time.monotonic())) for process in processes]


def _merged(drivers: Sequence[Driver], alone: Sequence[Listing | str], together: str) -> Listing:
    """One listing from that of each driver, whose devices remember which driver to load."""
    devices, left_out, empty, platforms = list[DeviceInfo](), list[str](), list[str](), 0
    for driver, found in zip(drivers, alone, strict=True):
        if isinstance(found, str):
            left_out.append(_blamed(driver, found))
            continue
        own = list(dict.fromkeys(info.platform for info in found.devices))
        for info in found.devices:
            selector = f"{platforms + own.index(info.platform)}:{info.selector.rpartition(':')[2]}"
            devices.append(replace(info, selector=selector, library=driver.library))
        platforms += len(own)
        (left_out if found.devices else empty).extend(found.left_out)
    failed = [found for found in alone if isinstance(found, str)]
    shared = " and ".join(f"{name}={os.environ[name]}" for name in LOADED_INTO_EACH if os.environ.get(name))
    if not failed:
        names = ", ".join(driver.name for driver in drivers)
        left_out.append(f"the drivers {names} cannot be loaded together ({together}): each is used in processes of its own")
    elif len(failed) == len(alone) and shared:
        left_out = [f"no driver can list its devices with {shared}: {failed[0]}: unset it"]
    return Listing(listing_order(devices, lambda info: info), left_out if devices else [*left_out, *empty])


class _Asked:
    """A process that lists devices. Use it as a context manager: leaving it ends the process."""

    def __init__(self, pid: int, answers: int, errors: IO[bytes]) -> None:
        self._pid, self._answers, self._errors = pid, answers, errors
        self._buffer = b""
        self._code: int | None = None

    def __enter__(self) -> _Asked:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            self._wait()
        os.close(self._answers)
        self._errors.close()

    def answer(self, limit_s: float) -> Listing | str | None:
        """The listing, or how the process ended without one; None where it has not answered in time. Raises ImportError where
        the runtime's library does not load."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            chunk = os.read(self._answers, 1 << 20)
            if not chunk:
                return self._end()
            self._buffer += chunk
        answer = json.loads(self._buffer.partition(b"\n")[0])
        if "missing" in answer:
            raise ImportError(answer["missing"])
        return Listing([decode_device(one) for one in answer["devices"]], answer["left_out"])

    def _end(self) -> str:
        """How the process, which has closed its answers, ended."""
        self._wait()
        self._errors.seek(0)
        log = self._errors.read().decode(errors="replace")
        return f"its process {'does not end' if self._code is None else describe_end(self._code)}{last_words(log)}"

    def _wait(self) -> None:
        """Wait for the process, but not for one that a driver's call holds even after it was killed."""
        deadline = time.monotonic() + END_S
        while self._code is None and time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.001)


def _start(name: str) -> _Asked:
    """Start a process that lists the devices of a runtime with the drivers of this environment. A copy of this process costs a
    tenth of a fresh interpreter; but one of a process that has threads, or loaded a driver, might never end."""
    loaded = {"pyopencl", "dpctl"} & set(sys.modules)
    if sys.platform == "linux" and threading.active_count() == 1 and not loaded:
        return _fork(name)
    return _start_fresh(name, {})


def _start_fresh(name: str, variables: Mapping[str, str]) -> _Asked:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
    answers, end = os.pipe()
    try:
        process = subprocess.Popen(
            [*processes.python_command(__name__), name],
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=errors,
            env=processes.python_environment({**os.environ, **variables}),
            start_new_session=True,
        )
    finally:
        os.close(end)
    process.returncode = 0  # it is waited for here, not when the object is deleted
    return _Asked(process.pid, answers, errors)


def _fork(name: str) -> _Asked:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
    answers, end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: numpy's library ends its own before
        pid = os.fork()
    if pid == 0:
        ended = 1
        with contextlib.suppress(BaseException):
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(errors.fileno(), 2)
            os.dup2(end, 1)
            ended = _serve(name)
        os._exit(ended)
    os.close(end)
    return _Asked(pid, answers, errors)


def _serve(name: str) -> int:
    """Write the listing to what was standard output, in the process that was started for it. Returns its exit code."""
    answers = os.dup(1)
    os.dup2(2, 1)  # drivers print to standard output
    try:
        end_with_parent()
        answer: dict[str, object]
        try:
            made = runtime(name)
            answer = {"devices": [dataclasses.asdict(info) for info in made.devices()], "left_out": list(made.left_out())}
        except ImportError as error:
            answer = {"missing": str(error)}
        data = json.dumps(answer, default=sorted).encode() + b"\n"
        while data:
            data = data[os.write(answers, data) :]
        return 0
    except BaseException:  # its last line says why there is no answer
        os.write(2, traceback.format_exc().encode(errors="replace"))
        return 1


if __name__ == "__main__":
    os._exit(_serve(sys.argv[1]))  # drivers may take long to unload
