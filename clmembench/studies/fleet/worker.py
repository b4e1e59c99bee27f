"""Measurement on a fleet's hosts: the functions that Dask's workers call. They take and return plain values and bytes only.

A device is measured by `clmembench run` in a process of its own, into a file of this host, which outlives the worker, the
scheduler and the client. The client copies that file from where its own copy ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import platform
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import typer

from clmembench import __version__
from clmembench.cli import devices, exit_codes
from clmembench.cli.running import several_devices
from clmembench.cli.running.session import slug
from clmembench.host import failures, processes
from clmembench.host.environment import NAME_VARIABLE
from clmembench.measure import device_list
from clmembench.results.whole_file import write_whole

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo

FOLDER_VARIABLE = "CLMEMBENCH_FLEET"  # names another folder for the files of this host
MAX_COPY_BYTES = 4 << 20  # of a file, for each time that the client asks
MEASURED = (exit_codes.OK, exit_codes.FAILED)  # exit codes of a run that has all its records


class HostDevices(TypedDict):
    """Answer of `prepare`: the devices of a worker's host by their names in the fleet, and the selectors by which `run` knows
    them; why others are not among them."""

    host: str
    version: str
    devices: dict[str, dict[str, Any]]
    selectors: dict[str, str]
    left_out: list[str]


class Job(TypedDict):
    """One device's measurement: `arguments` are those of `run`, and `resuming` those that `run --resume` needs too; `attempt`
    counts from 1."""

    fleet: str
    name: str
    selector: str
    arguments: list[str]
    resuming: list[str]
    attempt: int


class Outcome(TypedDict):
    """How a device's `run` ended in its last attempt."""

    attempt: int
    exit: int
    said: str


def host_name() -> str:
    """The name of this host, as results files have it."""
    return os.environ.get(NAME_VARIABLE) or platform.node()


def resource(host: str, name: str) -> str:
    """The resource that the workers of a host have for its device, and that the device's task needs."""
    return f"{host}/{name}"


def folder(fleet: str) -> Path:
    """The folder of this host's files of a fleet."""
    from platformdirs import user_state_path

    named = os.environ.get(FOLDER_VARIABLE)
    return (Path(named) if named else user_state_path("clmembench") / "fleet") / fleet


def dask_setup(dask_worker: Any) -> None:
    """Leave Ctrl-C to the client, which ends its workers: Dask calls this of a module that it loads before a worker starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


async def prepare(selector: str, dask_worker: Any = None) -> bytes:
    """Give the worker a resource for each device of its host that the selector names: a HostDevices as JSON."""
    found = await asyncio.to_thread(host_devices, selector)
    await dask_worker.set_resources(**{resource(found["host"], name): 1.0 for name in found["devices"]})
    return json.dumps(found, default=sorted).encode()


def host_devices(selector: str) -> HostDevices:
    """The devices of this host that a selector of `run` names."""
    listed, problems = device_list.listed(devices.runtime_of(selector)), list[str]()
    try:
        chosen = several_devices.select(listed.devices, selector) if listed.devices else []
    except typer.Exit:
        chosen = []
    if not chosen:
        problems = [f"{host_name()} has no device {selector}"]
    names = _names(chosen)
    return HostDevices(
        host=host_name(),
        version=__version__,
        devices={name: asdict(info) for name, info in zip(names, chosen, strict=True)},
        selectors={name: _selector(info, listed.devices) for name, info in zip(names, chosen, strict=True)},
        left_out=[*problems, *(f"{host_name()}: {text}" for text in listed.left_out)],
    )


def _names(chosen: Sequence[DeviceInfo]) -> list[str]:
    """A name for each device, unlike the others on its host and the same in each of its processes."""
    names: list[str] = []
    for info in chosen:
        name = f"{slug(info.name)}-{slug(info.id)[:12]}"
        names.append(f"{name}-{names.count(name) + 1}" if name in names else name)
    return names


def _selector(info: DeviceInfo, among: Sequence[DeviceInfo]) -> str:
    """The text of `run -d` for one of these devices."""
    prefix = "" if info.runtime == "opencl" else f"{info.runtime}:"
    same = [one for one in among if one.uuid and one.uuid.startswith(info.uuid)]
    return f"{prefix}uuid:{info.uuid}" if info.uuid and len(same) == 1 else f"{prefix}{list(among).index(info)}"


def restore(fleet: str, name: str, known: bytes) -> bool:
    """Write the beginning of a device's file where this host has less of it than the client; False where it has something
    else."""
    path = folder(fleet) / f"{name}.jsonl"
    here = path.read_bytes() if path.is_file() else b""
    if here.startswith(known):
        return True
    if not known.startswith(here):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, known, overwrite=True)
    return True


def measure(job: Job) -> None:
    """Measure a device, or what an earlier attempt has not, and write how that ended. The process of `run` ends with this
    worker."""
    path = folder(job["fleet"]) / f"{job['name']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until a task ends that goes on although its client or its scheduler is gone
        known = _outcome(path)
        if known is None or (known["exit"] not in MEASURED and known["attempt"] < job["attempt"]):
            _measure(job, path)


def _measure(job: Job, path: Path) -> None:
    if path.is_file() and b"\n" in path.read_bytes():
        arguments = ["--resume", str(path), *job["resuming"]]
    else:
        path.unlink(missing_ok=True)
        arguments = ["-d", job["selector"], *job["arguments"], "-o", str(path)]
    code, said = _run(arguments, path.with_suffix(".log"))
    write_whole(path.with_suffix(".outcome"), json.dumps(Outcome(attempt=job["attempt"], exit=code, said=said)), overwrite=True)


def _run(arguments: list[str], log: Path) -> tuple[int, str]:
    """Exit code and last words of a `run`, which is killed where this process ends."""
    ours, guards = socket.socketpair()
    with ours, log.open("wb") as errors:
        process = subprocess.Popen(
            [
                *processes.python_command("clmembench.host.processes"),
                *processes.python_command("clmembench"),
                "run",
                *arguments,
            ],
            stdin=guards.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=processes.python_environment(os.environ),
            start_new_session=True,
        )
        guards.close()
        status = ours.recv(16)  # until the guard, whom alone it concerns, ends
        process.wait()
    words = failures.last_words(log.read_text(encoding="utf-8", errors="replace")[-20_000:])
    return int(status) if status else 137, words.removeprefix("; it last said: ").removeprefix("clmembench: ")


def _outcome(path: Path) -> Outcome | None:
    with contextlib.suppress(OSError, ValueError):
        found: Outcome = json.loads(path.with_suffix(".outcome").read_text(encoding="utf-8"))
        return found
    return None


def read_since(fleet: str, offsets: Mapping[str, int]) -> dict[str, tuple[bytes, bool, str]]:
    """Content of these devices' files behind an offset, up to the last whole line; whether that is all; and an Outcome as JSON,
    "" for one that is being measured. Whole lines of a file never change."""
    found = {}
    for name, offset in offsets.items():
        path = folder(fleet) / f"{name}.jsonl"
        ended = _outcome(path)  # before the content, of which there is none later
        content = b""
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        found[name] = whole[:MAX_COPY_BYTES], len(whole) <= MAX_COPY_BYTES, json.dumps(ended) if ended else ""
    return found
