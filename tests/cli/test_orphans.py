"""Nothing that a command has started outlives it, or runs beside what is measured next: other people's programs, workers."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clmembench.host import processes
from clmembench.results import jsonl
from clmembench.results.jsonl import Writer
from clmembench.studies.peers.benchmarks import programs
from tests.builders import STREAM, device, header, record, series
from tests.faulty import Command, kill, tree, within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
# clpeak as a script that starts another process, says so and does not end; one of them takes no notice of TERM
HANGS = """#!/bin/sh
sh -c 'trap "" TERM; while :; do sleep 0.1; done' &
trap "" TERM
echo $$ >> {folder}/started
while :; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory) -> Path:
    return tree(tmp_path_factory.mktemp("fake"))


def program(folder: Path, text: str, name: str = "clpeak") -> Path:
    path = folder / name
    path.write_text(text.format(folder=folder))
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


@pytest.fixture
def measuring(fake, tmp_path):
    """A run that waits for a program of somebody else's, which has started another one."""
    program(tmp_path, HANGS)
    path = f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"
    args = ("run", "-b", "launch", "-a", "groups=1024", "--reference", "--processes", "1", "-o", str(tmp_path / "r.jsonl"))
    with Command(fake, args, tmp_path, environment={"PATH": path}) as command:
        assert within(200, lambda: (tmp_path / "started").exists()), command.said()
        yield command


def others(command: Command) -> list[int]:
    """The processes of the program: those that run no Python."""
    return [pid for pid in command.alive() if "python" not in name(pid)]


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").resolve().name
    except OSError:
        return "python, or gone"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_no_program_behind(measuring, number):
    assert within(20, lambda: len(others(measuring)) >= 2)  # the second one begins as a copy of the first
    measuring.process.send_signal(number)
    measuring.process.wait()
    assert measuring.gone(), measuring.alive()
    assert [path.name for path in (measuring.folder / "tmp").iterdir() if path.suffix != ".lock"] == []


def test_an_interrupted_run_leaves_no_program_behind(measuring):
    measuring.interrupt()
    assert measuring.wait(200) == 130 and measuring.gone()


def test_a_child_that_dies_leaves_no_program_behind_for_what_is_measured_next(measuring, tmp_path):
    programs_of_it = others(measuring)
    (worker,) = {worker_of(measuring, pid) for pid in programs_of_it}  # that of ours rests beside it
    kill(worker, signal.SIGKILL)
    assert within(200, lambda: not set(programs_of_it) & set(measuring.alive()))
    assert measuring.wait(200) == 0 and measuring.gone()
    outcome = {r.benchmark: r for r in jsonl.read(tmp_path / "r.jsonl").records}
    assert outcome["launch"].status == "ok" and "SIGKILL" in outcome["clpeak_launch"].reason


def worker_of(command: Command, pid: int) -> int:
    """The child of the command that started this process, or started what did."""
    while parent(pid) != command.process.pid:
        pid = parent(pid)
    return pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_point_whose_time_is_up_leaves_no_program_behind(fake, tmp_path):
    program(tmp_path, HANGS)
    args = ("run", "-b", "launch", "-a", "groups=1024", "--reference", "--processes", "1", "--timeout", "1s")
    path = f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"
    with Command(fake, (*args, "-o", str(tmp_path / "r.jsonl")), tmp_path, environment={"PATH": path}) as command:
        assert command.wait(200) == 0 and command.gone()
    outcome = {r.benchmark: r.status for r in jsonl.read(tmp_path / "r.jsonl").records}
    assert outcome == {"launch": "ok", "clpeak_launch": "timeout"}


def test_what_a_program_leaves_running_is_ended_and_not_waited_for(tmp_path):
    path = program(tmp_path, "#!/bin/sh\nsleep 600 &\necho $! > {folder}/left\necho said; echo odd >&2\n")
    assert programs.run_program(str(path)) == "said\n"
    left = int((tmp_path / "left").read_text())
    assert within(200, lambda: not Path(f"/proc/{left}").exists() or state(left) == "Z")


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\nkill -SEGV $$\n", "exit code 139"),
        ("#!/nowhere/sh\n", "exit code 127: FileNotFoundError"),
        ("\x7fELF", "exit code 127: OSError: Exec format error"),
    ],
)
def test_a_program_that_cannot_run_or_crashes_says_so(tmp_path, text, says):
    with pytest.raises(programs.OutputError, match=says):
        programs.run_program(str(program(tmp_path, text)))


# ---- report's workers -------------------------------------------------------------------------------------------------


def slow_report(folder: Path, more: str = "") -> Path:
    """The package with a report whose workers wait for a run that never comes."""
    slow = tree(folder / "slow")
    with (slow / "clmembench" / "report" / "many_runs" / "digests.py").open("a") as file:
        file.write("\n\ndef sheet_of(run):\n    import time\n    time.sleep(600)\n" + more)
    return slow


def runs(folder: Path) -> list[str]:
    """Enough run files that a report starts workers, and where to write the report."""
    paths = [str(folder / f"{number}.jsonl") for number in range(14)]
    for number, path in enumerate(paths):
        with Writer(Path(path), header(device(), cards={"stream": STREAM}, run_id=f"RUN{number:023d}")) as writer:
            writer.write(record("stream", {"op": "copy"}, series([1000, 1001] * 8, nbytes=1_000_000)))
    return [*paths, "-o", str(folder / "r.html")]


@pytest.fixture
def reporting(tmp_path):
    with Command(slow_report(tmp_path), ("report", *runs(tmp_path)), tmp_path) as command:
        assert within(200, lambda: len(workers(command)) >= 2), command.said()
        yield command


def workers(command: Command) -> list[int]:
    """Of multiprocessing, but not its tracker of resources."""
    found = []
    for pid in command.workers():
        try:
            found += [pid] * (b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has no workers")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_report_that_is_killed_leaves_no_worker_behind(reporting, number):
    reporting.process.send_signal(number)
    reporting.process.wait()
    assert reporting.gone(), reporting.alive()


def blocks_ctrl_c(pid: int) -> int:
    mask = re.search(r"^SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(mask[1], 16) >> (signal.SIGINT - 1) & 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has no workers")
def test_a_worker_gets_no_ctrl_c_however_young_it_is_and_a_report_that_gets_one_waits_for_none(reporting):
    assert all(blocks_ctrl_c(pid) for pid in workers(reporting))
    # the parent holds Ctrl-C back until it has started the last of them
    assert within(200, lambda: not blocks_ctrl_c(reporting.process.pid))
    reporting.interrupt()
    assert reporting.wait(200) == 130 and reporting.gone()
    assert "Traceback" not in reporting.said()


INTERRUPTED_AT_ONCE = """

class ProcessPoolExecutor(ProcessPoolExecutor):
    def submit(self, *args):
        os.kill(os.getpid(), signal.SIGINT)  # held back here: it comes at the moment at which the last worker has been started
        return super().submit(*args)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has no workers")
def test_a_ctrl_c_that_comes_while_workers_are_started_ends_them_too(tmp_path):
    with Command(slow_report(tmp_path, INTERRUPTED_AT_ONCE), ("report", *runs(tmp_path)), tmp_path) as command:
        assert command.wait(200) == 130 and command.gone()
        assert "Traceback" not in command.said()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has no workers")
def test_a_worker_that_is_killed_is_an_error_of_one_line(reporting):
    kill(workers(reporting)[0], signal.SIGKILL)
    assert reporting.wait(200) == 1 and reporting.gone()
    assert reporting.said().startswith("clmembench: a process that read the runs was ended from outside")
    assert reporting.said().count("\n") == 1


def test_what_a_program_leaves_running_ends_with_it_though_nobody_else_ends_it(tmp_path):
    """As where the process that asked is killed at the moment at which the program ends."""
    ours, guards = socket.socketpair()
    script = f"(while :; do sleep 0.1; done) & echo $! > {tmp_path}/left; exit 3"
    command = [*processes.python_command("clmembench.host.processes"), "sh", "-c", script]
    guard = subprocess.Popen(command, stdin=guards, start_new_session=True)
    guards.close()
    with ours:
        ours.settimeout(200)
        assert ours.recv(16) == b"3"
        assert ours.recv(16) == b""
    assert guard.wait(200) == -signal.SIGKILL
    left = int((tmp_path / "left").read_text())
    assert within(60, lambda: not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text().split()[2])
