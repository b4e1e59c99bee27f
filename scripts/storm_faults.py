"""Faults of the storm that harm one run: its processes, its device, its file, its surroundings.

Part of fault_storm.py: python scripts/fault_storm.py --fault TEXT
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.storm_trial import FAILED, INTERNAL, INTERRUPTED, NO_DEVICE, OK, Trial
from tests.faulty import WITHOUT_TEMPORARY, Command, kill, whole_lines, within

COMPRESSION = 3  # a compressed results file is about so many times smaller


def _child_killed(trial: Trial) -> None:
    with trial.running() as command:
        trial.moment()
        within(10, lambda: command.workers() or command.process.poll() is not None)
        for pid in command.workers()[:1]:
            kill(pid, signal.SIGKILL)
    trial.harmed(command, OK, FAILED, NO_DEVICE)


def _signalled(trial: Trial, send: Callable[[Command], None], *allowed: int) -> None:
    with trial.running() as command:
        trial.moment()
        if command.process.poll() is None:
            send(command)
    trial.harmed(command, OK, *allowed)


def _parent_killed(trial: Trial) -> None:
    _signalled(trial, lambda c: c.process.kill(), -signal.SIGKILL)


def _parent_terminated(trial: Trial) -> None:
    _signalled(trial, lambda c: c.process.terminate(), -signal.SIGTERM)


def _ctrl_c(trial: Trial) -> None:
    _signalled(trial, lambda c: c.interrupt(), INTERRUPTED, -signal.SIGINT)  # the state of Python before it handles signals


def _ctrl_c_in_a_hang(trial: Trial) -> None:
    if trial.stage.on_pocl:
        trial.groups.insert(0, 7)
    environment = {"FAULTY_DEVICE": f"hang:{trial.groups[0]}"}
    with trial.running(environment=environment) as command:
        trial.moment()
        within(20, lambda: trial.file.exists() or command.process.poll() is not None)
        time.sleep(trial.rng.uniform(0.5, 1.5))  # until its first child starts, whose first kernel is the endless one
        command.interrupt()
    trial.harmed(command, INTERRUPTED, FAILED)


def _bad_kernel(kind: str, groups: int) -> Callable[[Trial], None]:
    """Plants a kernel fault of the fake device, or of PoCL where launches of that many groups have one."""

    def fault(trial: Trial) -> None:
        if trial.stage.on_pocl:
            trial.groups.insert(trial.rng.randrange(len(trial.groups)), groups)
        with trial.running(environment={"FAULTY_DEVICE": f"{kind}:{trial.rng.choice(trial.groups)}"}) as command:
            pass
        trial.harmed(command, FAILED)

    return fault


def _file_torn(trial: Trial) -> None:
    with trial.running() as command:
        pass
    trial.harmed(command, OK)
    trial.tear(header=False)


def _disk_full(trial: Trial) -> None:
    most = trial.rng.randrange(trial.stage.whole_bytes // (COMPRESSION if trial.compressed else 1))
    with trial.running() as command:
        if trial.stage.on_pocl:  # without space for its cache PoCL cannot be used at all: it compiles first
            within(60, lambda: whole_lines(trial.file).count(b"\n") > 1 or command.process.poll() is not None)
            most = max(most, trial.file.stat().st_size if trial.file.exists() else 0)
        if command.process.poll() is None:
            resource.prlimit(command.process.pid, resource.RLIMIT_FSIZE, (most, most))
    # its cache reaches the limit too, and then a kernel may not be compiled
    trial.harmed(command, OK, INTERNAL, NO_DEVICE, *((FAILED,) if trial.stage.on_pocl else ()))


def _second_run(trial: Trial) -> None:
    with trial.running() as first:
        trial.moment(0.5)
        args = (str(trial.file.with_name(f"second-{trial.file.name}")) if a == str(trial.file) else a for a in trial.args())
        with trial.ending(tuple(args)) as second:
            pass
    trial.harmed(first, OK, NO_DEVICE)
    trial.harmed(second, OK, NO_DEVICE)


def _no_temporary_folder(trial: Trial) -> None:
    with trial.running(environment={"TMPDIR": "/proc"}, before=WITHOUT_TEMPORARY, cwd=Path("/proc")) as command:
        pass
    trial.harmed(command, NO_DEVICE)


def _torn_pipe(trial: Trial) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with trial.running(stdout=writer) as command:
            pass
    finally:
        os.close(writer)
    trial.harmed(command, OK)


def _full_output(trial: Trial) -> None:
    with Path("/dev/full").open("wb") as full, trial.running(stdout=full.fileno()) as command:
        pass
    trial.harmed(command, INTERNAL)


RUN_FAULTS: Mapping[str, Callable[[Trial], None]] = {
    "child killed": _child_killed,
    "run killed": _parent_killed,
    "run terminated": _parent_terminated,
    "Ctrl-C": _ctrl_c,
    "Ctrl-C in an endless kernel": _ctrl_c_in_a_hang,
    "a kernel's bad access": _bad_kernel("segfault", 3),
    "abort, a trap": _bad_kernel("abort", 5),
    "endless kernel": _bad_kernel("hang", 7),
    "refusal": _bad_kernel("refuse", 3),
    "device out of memory": _bad_kernel("memory", 3),
    "device lost": _bad_kernel("lost", 3),
    "deaf to TERM": _bad_kernel("deaf", 7),
    "file torn": _file_torn,
    "disk full": _disk_full,
    "second run": _second_run,
    "no temporary folder": _no_temporary_folder,
    "torn pipe": _torn_pipe,
    "output on a full disk": _full_output,
}
