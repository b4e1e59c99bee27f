"""Faults of the storm that concern several processes: peer programs, two jobs, stops, a report's workers.

Part of fault_storm.py: python scripts/fault_storm.py --fault TEXT
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from clmembench.results import jsonl
from scripts.storm_trial import EXIT_LIMIT_S, FAILED, INTERNAL, NO_DEVICE, OK, USAGE, Trial
from tests.faulty import Command, kill, within

# a clpeak script that ignores TERM, leaves another process running, and ends after some tenths of a second
PROGRAM = """#!/bin/sh
trap "" TERM
(while :; do sleep 0.1; done) &
echo $$ >> {folder}/started
for tenth in $(seq {tenths}); do sleep 0.1; done
"""
ENDLESS = 6000  # tenths of a second
REFUSALS = "is in use by another run|is being written by another run|exists: choose another|is no results file|cannot read"
SLOW, SLOW_POINT_S = {"FAULTY_DEVICE": "slow:0"}, 0.6  # a run or its worker process is stopped within a point
GRACE_PERIODS_S = 6.0  # until a worker process is killed: for the end of its input, for TERM, for KILL
SLACK_S = 15.0  # for a busy host
WORKER_ENDED = "clmembench: a process that read the runs was ended from outside"


# ---- peer programs --------------------------------------------------------------------------------------------------


def _reference_orphan(trial: Trial) -> None:
    trial.reference = "clpeak"
    trial.groups.insert(trial.rng.randrange(len(trial.groups) + 1), 1024)
    trial.environment["PATH"] = _path_with_program(trial, trial.rng.choice([3, 15, ENDLESS]))
    number, of_child = trial.rng.choice([signal.SIGTERM, signal.SIGKILL]), trial.rng.random() < 0.5
    with trial.running() as command:
        if trial.rng.random() < 0.5:
            within(trial.stage.limit_s, lambda: (trial.folder / "started").exists() or command.process.poll() is not None)
            time.sleep(trial.rng.uniform(0.0, 0.5))
        else:
            trial.moment()
        if of_child:
            _kill_child(trial, command, number)
        elif command.process.poll() is None:
            command.process.send_signal(number)
    trial.harmed(command, OK, *((FAILED, NO_DEVICE) if of_child else (-number,)))


def _path_with_program(trial: Trial, tenths: int) -> str:
    """PATH with a peer program before all others."""
    folder = trial.folder / "bin"
    folder.mkdir(parents=True)
    program = folder / "clpeak"
    program.write_text(PROGRAM.format(folder=trial.folder, tenths=tenths))
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _kill_child(trial: Trial, command: Command, number: int) -> None:
    """Signals the worker process that measures. The programs that it has started end with it, while the run continues."""
    child = _child(command)
    if child is None:
        return
    programs = _descendants(command, child)
    kill(child, number)
    if not within(EXIT_LIMIT_S, lambda: not programs & set(command.alive())):
        trial.found["orphan"].append(f"processes {programs & set(command.alive())} outlived their child {child}")


def _child(command: Command) -> int | None:
    """The worker process of a run, once it exists and has executed its own program (before that it and its parent share one
    image, and stop together); None where the run ends before."""
    found: list[int] = []

    def look() -> bool:
        mine = (pid for pid in command.workers() if _parent(pid) == command.process.pid)
        found[:] = [pid for pid in mine if b"clmembench.measure.worker" in _command_line(pid)]
        return bool(found) or command.process.poll() is not None

    within(10, look)
    return found[0] if found else None


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _descendants(command: Command, of: int) -> set[int]:
    parents = {pid: _parent(pid) for pid in command.workers()}
    found = {of}
    for _ in parents:
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {of}


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


# ---- concurrent jobs ------------------------------------------------------------------------------------------------


def _per_job_folders(trial: Trial) -> None:
    """Two commands on one device and one results file, as two jobs of a cluster: each has its own TMPDIR, and at times its own
    folder for locks. The first may be stopped until the second has ended."""
    first_args, second_args = _two_jobs(trial)
    locks_apart, stopped = trial.rng.random() < 0.3, trial.rng.random() < 0.5
    with trial.watched(), trial.ending(first_args, environment=_job(trial, 1, locks_apart)) as first:
        if stopped and trial.rng.random() < 0.7:  # when it holds device and file
            within(trial.stage.limit_s, lambda: trial.file.exists() or first.process.poll() is not None)
            _child(first)
        else:
            trial.moment(0.7)
        if stopped:
            kill(first.process.pid, signal.SIGSTOP)
        try:
            with trial.ending(second_args, environment=_job(trial, 2, locks_apart)) as second:
                pass
        finally:
            kill(first.process.pid, signal.SIGCONT)
    for command in (first, second):
        trial.harmed(command, OK, INTERNAL, USAGE, NO_DEVICE)
        if command.process.returncode and not re.search(REFUSALS, command.said()):
            trial.found["other"].append(f"refused, and does not say why: {command.said()[-600:]}")
    if OK not in (first.process.returncode, second.process.returncode):
        trial.found["other"].append(f"both were refused: {first.said()[-300:]} {second.said()[-300:]}")


def _two_jobs(trial: Trial) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two resumes of a torn file; or a run, and a resume or an overwriting run of its file."""
    kind = trial.rng.choice(["resumes", "resume", "overwrite"])
    if kind == "resumes":
        with trial.running():
            pass
        trial.tear()
        return trial.args("--resume"), trial.args("--resume")
    trial.overwritten = kind == "overwrite"
    return trial.args(), trial.args(f"--{kind}")


def _job(trial: Trial, number: int, locks_apart: bool) -> Mapping[str, str]:
    folder = trial.folder / f"tmp-of-job-{number}"
    folder.mkdir(parents=True)
    return {"TMPDIR": str(folder), **({"CLMEMBENCH_LOCKS": str(folder)} if locks_apart else {})}


# ---- stops ----------------------------------------------------------------------------------------------------------


def _stopped_parent(trial: Trial) -> None:
    """Stops the runner for longer than a point may take, as Ctrl-Z and fg do."""
    with trial.running(environment=SLOW) as command:
        _wait_for_moment(trial, command)
        kill(command.process.pid, signal.SIGSTOP)
        time.sleep(trial.stage.timeout_s + trial.rng.uniform(0.2, 1.0))
        kill(command.process.pid, signal.SIGCONT)
    trial.harmed(command, OK)
    if timeouts := _statuses(trial).count("timeout"):
        trial.found["lost"].append(f"{timeouts} points that were measured while their run was stopped are timeouts")


def _stopped_child(trial: Trial) -> None:
    """Stops the worker process until it is killed, as long as a point may take."""
    with trial.running(environment=SLOW) as command:
        _wait_for_moment(trial, command)
        child = _child(command)
        if child is not None:
            kill(child, signal.SIGSTOP)
        since = time.monotonic()
        command.wait(trial.stage.limit_s)
        took_s = time.monotonic() - since
    trial.harmed(command, OK, FAILED, NO_DEVICE)
    points = len(trial.groups) * trial.processes
    limit_s = trial.stage.timeout_s + GRACE_PERIODS_S + 2 * (trial.stage.whole_s + points * SLOW_POINT_S) + SLACK_S
    if took_s > limit_s:
        trial.found["hang"].append(f"a stopped child cost {took_s:.1f} s, over {limit_s:.1f} s")
    wanted = {FAILED: 1, OK: 0}.get(command.process.returncode)
    statuses = _statuses(trial)
    good = statuses.count("ok") + (statuses.count("suspect") if trial.stage.on_pocl else 0)  # a real device's gates may object
    if wanted is not None and (statuses.count("timeout"), good) != (wanted, len(statuses) - wanted):
        trial.found["other"].append(f"exit code {command.process.returncode} with records that are {statuses}")


def _wait_for_moment(trial: Trial, command: Command) -> None:
    """Waits for a moment while points are measured, or for any moment."""
    if trial.rng.random() < 0.7:
        within(trial.stage.limit_s, lambda: trial.file.exists() or command.process.poll() is not None)
        time.sleep(trial.rng.uniform(0.0, trial.stage.whole_s if trial.stage.on_pocl else len(trial.groups) * SLOW_POINT_S))
    else:
        trial.moment()


def _statuses(trial: Trial) -> list[str]:
    return [r.status for r in jsonl.read(trial.file).records] if trial.file.exists() else []


# ---- a report's workers ---------------------------------------------------------------------------------------------


def _killed_report(trial: Trial) -> None:
    """Kills a report over so many runs that several processes read them; the digests beside the runs are computed anew."""
    trial.to_finish = False
    (trial.folder / "runs").mkdir(parents=True)
    paths = [Path(shutil.copy(path, trial.folder / "runs")) for path in trial.stage.runs]
    number, of_worker = trial.rng.choice([signal.SIGTERM, signal.SIGKILL]), trial.rng.random() < 0.5
    with trial.watched(), trial.ending(report_args(trial, paths), environment=report_environment(trial)) as command:
        if of_worker:
            within(20, lambda: _report_workers(command) or command.process.poll() is not None)
            time.sleep(trial.rng.choice([0.0, trial.rng.uniform(0.0, 0.5 * trial.stage.report_s)]))
            if workers := _report_workers(command):
                kill(trial.rng.choice(workers), number)
        else:
            time.sleep(trial.rng.uniform(0.1, trial.stage.report_s))
            if command.process.poll() is None:
                command.process.send_signal(number)
    trial.harmed(command, OK, INTERNAL if of_worker else -number)
    said = command.said()
    if command.process.returncode == INTERNAL and not (said.startswith(WORKER_ENDED) and said.count("\n") == 1):
        trial.found["other"].append(f"a killed worker is not said in one line: {said[-2000:]}")
    _check_report(trial, paths, command.process.returncode == OK)
    with trial.watched(), trial.ending(report_args(trial, paths), environment=report_environment(trial)) as again:
        pass
    if again.process.returncode != OK:
        trial.found["other"].append(f"the report after it: exit code {again.process.returncode}: {again.said()[-600:]}")
    _check_report(trial, paths, True)


def report_args(trial: Trial, paths: list[Path]) -> tuple[str, ...]:
    """The command line of a report over these runs."""
    return ("report", *map(str, paths), "-o", str(trial.folder / "r.html"), "--overwrite")


def report_environment(trial: Trial) -> Mapping[str, str]:
    """Variables that keep the key which signs digests in the trial's folder."""
    return {"XDG_DATA_HOME": str(trial.folder / "data")}


def _report_workers(command: Command) -> list[int]:
    """The worker processes of multiprocessing, without its resource tracker."""
    return [pid for pid in command.workers() if b"spawn_main" in _command_line(pid)]


def _check_report(trial: Trial, paths: list[Path], wanted: bool) -> None:
    """Checks that the report is whole or absent, that no run has changed, and that no other file is left beside them."""
    output = trial.folder / "r.html"
    if output.exists() and not output.read_text().rstrip().endswith("</html>"):
        trial.found["left"].append(f"half a report of {output.stat().st_size} bytes")
    if wanted and not output.exists():
        trial.found["lost"].append("the report")
    changed = [
        path.name for path, given in zip(paths, trial.stage.runs, strict=True) if path.read_bytes() != given.read_bytes()
    ]
    if changed:
        trial.found["lost"].append(f"runs {changed} changed")
    left = [path.name for path in (trial.folder / "runs").rglob("*") if path.is_file() and path.suffix in (".part", ".tmp")]
    left += [path.name for path in trial.folder.iterdir() if path.suffix == ".part"]
    if left:
        trial.found["left"].append(f"beside the runs: {left}")


PROCESS_FAULTS: Mapping[str, Callable[[Trial], None]] = {
    "run or child killed beside a reference program": _reference_orphan,
    "second job on one file, per-job folders": _per_job_folders,
    "run stopped for longer than a point's time": _stopped_parent,
    "child stopped for good": _stopped_child,
    "report or its worker killed": _killed_report,
}
