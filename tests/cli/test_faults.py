"""docs/tables/faults.csv, row by row: processes that are killed, starved, hung and lied to, and what is left of their runs."""

from __future__ import annotations

import ast
import csv
import fcntl
import functools
import gzip
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from clmembench.measure import device_list
from clmembench.results import jsonl
from clmembench.runtimes.opencl import RUNTIME, info
from clmembench.runtimes.opencl.info import cl
from tests.commands import cli, is_measured
from tests.faulty import BAD_LAUNCH, ROOT, WITHOUT_TEMPORARY, Command, mountable, tree, whole_lines, within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
mounts = pytest.mark.skipif(sys.platform == "linux" and not mountable(), reason="this user may not mount, even in a namespace")
LIMIT_S = 200.0  # on a host that does much else too


@pytest.fixture(scope="module")
def fake(tmp_path_factory) -> Path:
    """The package with a device that fails when told to in the place of OpenCL."""
    return tree(tmp_path_factory.mktemp("fake"))


@pytest.fixture(scope="module")
def pocl(tmp_path_factory) -> Path:
    """The package with a kernel that fails at some numbers of work-groups."""
    return tree(tmp_path_factory.mktemp("pocl"), fake=False, kernels={"launch": BAD_LAUNCH})


IN_ORDER = ("--seed", "380")  # with it two to five points are measured in the order they are named in


def launches(tmp_path: Path, groups: str, *more: str) -> tuple[str, ...]:
    points = ("-s", "quick", "-b", "launch", "-a", f"groups=[{groups}]", *IN_ORDER)
    return ("run", "-d", "0", *points, "-o", str(tmp_path / "r.jsonl"), *more)


def resumed(tmp_path: Path) -> tuple[str, ...]:
    return ("run", "--resume", str(tmp_path / "r.jsonl"))


def ended(package: Path, tmp_path: Path, *args: str, **rest) -> tuple[int | None, str]:
    """Exit code and standard error of a command of which nothing is left, and which had no traceback."""
    with Command(package, args, tmp_path, **rest) as command:
        code = command.wait(LIMIT_S)
        assert code is not None, "it hangs"
        assert command.gone(), command.alive()
    assert "Traceback" not in command.said()
    return code, command.said()


@pytest.fixture(scope="module")
def whole(fake, tmp_path_factory) -> tuple[Path, int | None]:
    """The folder of a whole run of three points, on a device whose driver prints at the second of them, and its exit code."""
    folder = tmp_path_factory.mktemp("whole")
    code, _ = ended(fake, folder, *launches(folder, "1,2,4"), environment={"FAULTY_DEVICE": "chatter:2"})
    return folder, code


def outcomes(tmp_path: Path) -> dict[object, tuple[str, str]]:
    run = jsonl.read(tmp_path / "r.jsonl")
    assert run.notes == ()
    return {r.params["groups"]: (r.status, r.reason) for r in run.records}


def lock_is_free(tmp_path: Path) -> bool:
    for path in (tmp_path / "tmp").glob("*.lock"):
        with path.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


# ---- a child or its device fails ------------------------------------------------------------------------------------


# by benchmark, and by the work-groups of the point: a benchmark that has ended two processes is not tried again
HARM = {"launch": {2: "deaf", 4: "memory"}, "launch_dispatch": {2: "lost", 8: "abort"}, "launch_wait": {2: "exit"}}


@pytest.fixture(scope="module")
def harmed(fake, tmp_path_factory) -> tuple[int | None, dict[tuple[str, object], tuple[str, str]]]:
    """One run with a fault of each kind: its exit code, and the outcome of each point of each benchmark."""
    folder = tmp_path_factory.mktemp("harmed")
    faults = ",".join(f"{fault}:{groups}:{name}" for name, harm in HARM.items() for groups, fault in harm.items())
    args = launches(folder, "1,2,4,8", "-b", "launch_dispatch", "-b", "launch_wait", "--timeout", "3s")
    code, _ = ended(fake, folder, *args, environment={"FAULTY_DEVICE": faults})
    run = jsonl.read(folder / "r.jsonl")
    assert run.notes == ()
    return code, {(r.benchmark, r.params["groups"]): (r.status, r.reason) for r in run.records}


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("abort", "failed", "died of SIGABRT"),
        ("exit", "failed", "ended with exit code 7"),
        ("deaf", "timeout", "no answer within 3 s"),
        ("memory", "failed", "MEM_OBJECT_ALLOCATION_FAILURE: the device could not allocate memory: lower --size"),
        ("lost", "failed", "the device was lost: clFinish failed"),
    ],
)
def test_a_fault_costs_its_point_and_no_other(harmed, fault, status, says):
    code, outcomes = harmed
    assert code == 4
    at = {(name, groups): kind for name, harm in HARM.items() for groups, kind in harm.items()}
    ((harmed_status, reason),) = (outcomes[point] for point, kind in at.items() if kind == fault)
    assert harmed_status == status and says in reason
    others = {(name, groups) for name in HARM for groups in (1, 2, 4, 8)} - set(at)
    assert {point: outcomes[point] for point in outcomes.keys() - at.keys()} == dict.fromkeys(others, ("ok", ""))


def test_a_device_that_is_lost_twice_is_not_tried_again_for_that_benchmark(fake, tmp_path):
    args = ("run", "-s", "quick", "-b", "launch", "-b", "launch_wait", "-a", "groups=[1,2,4]", "-o", str(tmp_path / "r.jsonl"))
    code, _ = ended(fake, tmp_path, *args, environment={"FAULTY_DEVICE": "lost:0"})
    reasons = [r.reason for r in jsonl.read(tmp_path / "r.jsonl").records if r.benchmark == "launch"]
    assert code == 4
    # a process in which it was lost would say DEVICE_NOT_AVAILABLE: the second point had a new one
    assert all("the device was lost: clFinish failed: OUT_OF_RESOURCES" in reason for reason in reasons[:2])
    assert "not tried: launch has ended its process 2 times" in reasons[2]
    assert jsonl.read(tmp_path / "r.jsonl").records[3].benchmark == "launch_wait"
    assert "was lost" in jsonl.read(tmp_path / "r.jsonl").records[3].reason


def test_a_kernels_bad_access_and_its_bad_instruction_on_pocl(pocl, tmp_path):
    code, _ = ended(pocl, tmp_path, *launches(tmp_path, "1,3,5", "--processes", "1"))
    found = outcomes(tmp_path)
    (first,) = (r for r in jsonl.read(tmp_path / "r.jsonl").records if r.params["groups"] == 1)
    assert code == 4 and is_measured(first)
    assert found[3] == ("failed", "its process died of SIGSEGV")
    assert found[5][0] == "failed" and "its process died of SIG" in found[5][1]


def test_memory_that_the_driver_cannot_have_costs_its_point_on_pocl(pocl, tmp_path):
    # within 1 GB of addresses two arrays of 400 MiB are too many; what PoCL then does is its own affair
    shape = [word for axis in ("op=copy", "dtype=float", "width=1", "order=item", "nontemporal=0") for word in ("-a", axis)]
    args = (
        "run",
        "-s",
        "quick",
        "-b",
        "stream",
        *shape,
        "-a",
        "work_group=256",
        "-a",
        "array_bytes=[1MiB,400MiB]",
        "--processes",
        "1",
        *IN_ORDER,
    )
    before = ("sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh")
    code, _ = ended(pocl, tmp_path, *args, "-o", str(tmp_path / "r.jsonl"), before=before)
    small, large = jsonl.read(tmp_path / "r.jsonl").records
    assert code == 4
    assert is_measured(small) and small.params["array_bytes"] == 1 << 20
    assert large.status == "failed" and large.reason and not large.series


def test_what_a_driver_prints_is_no_answer(whole):
    folder, code = whole
    assert code == 0 and outcomes(folder) == {1: ("ok", ""), 2: ("ok", ""), 4: ("ok", "")}


def test_a_device_that_cannot_be_opened_is_said_and_leaves_no_file(fake, tmp_path):
    code, said = ended(fake, tmp_path, *launches(tmp_path, "1"), environment={"FAULTY_OPEN": "refuse"})
    assert code == 3 and "cannot be used: clCreateContext failed: DEVICE_NOT_AVAILABLE" in said and said.count("\n") == 1
    assert not (tmp_path / "r.jsonl").exists()


def _fails(code: int, text: str):
    def fail(*_: object) -> list:
        raise cl.LogicError(cl._cl._ErrorRecord("clGet", code, text))

    return fail


@pytest.fixture
def platforms_anew():
    """The platforms are listed again in this test, and in those after it."""
    info.installed_platforms.cache_clear()
    yield
    info.installed_platforms.cache_clear()


@pytest.mark.parametrize(
    ("owner", "name", "driver"),
    [
        (cl, "get_platforms", _fails(-1001, "PLATFORM_NOT_FOUND_KHR")),
        (cl, "get_platforms", list),
        (cl.Platform, "get_devices", lambda *_: []),
        (cl.Platform, "get_devices", _fails(-1, "DEVICE_NOT_FOUND")),
    ],
)
@pytest.mark.usefixtures("platforms_anew")
def test_no_platform_and_platforms_without_a_device(owner, name, driver, tmp_path, monkeypatch):
    monkeypatch.setattr(owner, name, driver)
    here = device_list.Listing(RUNTIME.devices(), RUNTIME.left_out())
    monkeypatch.setattr(device_list, "listed", lambda runtime: here)
    done = cli("run", cwd=tmp_path)
    assert done.returncode == 3
    assert "no OpenCL device found" in done.stderr and "pip install 'clmembench[pocl]'" in done.stderr
    assert done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


# ---- the place that is written to -----------------------------------------------------------------------------------

SMALL_DISK = """
mkdir disk && mount -t tmpfs -o size=32k none disk || exit 99
"$@"; code=$?; cp disk/r.jsonl kept; exit $code
"""


@mounts
def test_a_disk_that_fills_up_keeps_what_was_written(fake, tmp_path):
    args = ("run", "-s", "quick", "-b", "launch", "-a", "groups=[1,2,3,4,5]", "-o", "disk/r.jsonl")
    code, said = ended(fake, tmp_path, *args, before=("unshare", "-rm", "sh", "-c", SMALL_DISK, "sh"))
    assert code == 1
    assert "cannot write disk/r.jsonl: No space left on device" in said and "free space" in said
    assert "resume a run with clmembench run --resume disk/r.jsonl" in said
    assert jsonl.read(tmp_path / "kept").records[0].status == "ok"
    assert (tmp_path / "kept").stat().st_size == 32 << 10


def test_a_limit_on_the_files_size_is_met_and_later_gone_on_from(fake, tmp_path):
    # tags in a long header leave little for records, which have few samples on a busy host
    tags = (word for n in range(55) for word in ("--tag", f"t{n}={190 * 'x'}"))
    args = launches(tmp_path, "1,2,3,4,5", *tags)
    # in blocks of 512 bytes
    code, said = ended(fake, tmp_path, *args, before=("sh", "-c", 'ulimit -f 80; exec "$@"', "sh"))
    kept = whole_lines(tmp_path / "r.jsonl")
    assert code == 1 and "File too large: records before this one are kept" in said
    assert 1 < kept.count(b"\n") < 6 and len(kept) <= 80 * 512
    assert ended(fake, tmp_path, *resumed(tmp_path))[0] == 0
    assert (tmp_path / "r.jsonl").read_bytes().startswith(kept)
    assert [r.params["groups"] for r in jsonl.read(tmp_path / "r.jsonl").records] == [1, 2, 3, 4, 5]


def test_a_place_where_nobody_may_write(fake, tmp_path):
    code, said = ended(fake, tmp_path, "run", "-b", "launch", "-a", "groups=1", "-o", "/proc/none/r.jsonl")
    assert code == 1 and "cannot write /proc/none/r.jsonl" in said and "choose another place with -o" in said


@mounts
def test_a_folder_that_may_only_be_read(fake, tmp_path):
    (tmp_path / "shut").mkdir()
    shut = 'mount --bind shut shut && mount -o remount,ro,bind shut || exit 99; exec "$@"'
    args = ("run", "-s", "quick", "-b", "launch", "-a", "groups=1", "-o", "shut/r.jsonl")
    code, said = ended(fake, tmp_path, *args, before=("unshare", "-rm", "sh", "-c", shut, "sh"))
    assert code == 1 and "cannot write shut/r.jsonl: Read-only file system: choose another place with -o" in said


@mounts
def test_a_host_without_a_folder_for_temporary_files(fake, tmp_path):
    rest = {"before": WITHOUT_TEMPORARY, "cwd": Path("/proc"), "environment": {"TMPDIR": "/proc"}}
    code, said = ended(fake, tmp_path, *launches(tmp_path, "1"), **rest)
    assert code == 3 and "set TMPDIR to a folder that can be written" in said


@pytest.mark.parametrize("moved", [True, False])
def test_a_folder_that_goes_during_a_run(fake, tmp_path, moved):
    folder, there = tmp_path / "out", tmp_path / "there"
    folder.mkdir()
    at = tmp_path / "at"
    with Command(fake, launches(folder, "1,2,4"), tmp_path, {"FAULTY_DEVICE": "gate:2", "FAULTY_AT": str(at)}) as command:
        assert within(LIMIT_S, lambda: at.exists() and whole_lines(folder / "r.jsonl").count(b"\n") > 1)
        if moved:
            folder.rename(there)
        else:
            shutil.rmtree(folder)
        at.unlink()  # only now does the second point go on
        assert command.wait(LIMIT_S) == 1 and command.gone()
    assert "cannot read" in command.said() and "it was there when the run began" in command.said()
    assert "Traceback" not in command.said()
    if moved:
        # the run's file is where the folder now is
        assert [r.status for r in jsonl.read(there / "r.jsonl").records] == ["ok", "ok", "ok"]


# ---- the run is ended -----------------------------------------------------------------------------------------------


def gets_stuck(command: Command, tmp_path: Path, done: int = 1) -> bytes:
    """What it has written once it is within its endless kernel, after so many points."""
    assert within(LIMIT_S, lambda: whole_lines(tmp_path / "r.jsonl").count(b"\n") == 1 + done), command.said()
    if "FAULTY_DEVICE" in command.environment:
        assert within(LIMIT_S, (tmp_path / "at").exists)
    else:
        time.sleep(0.5)  # from the first point's record to the second one's kernel, of which nothing tells
    assert command.process.poll() is None and command.workers()
    return whole_lines(tmp_path / "r.jsonl")


ENDS = [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]


def end_while_stuck(package: Path, tmp_path: Path, args: tuple[str, ...], end: int, code: int, done: int, fault: str) -> bytes:
    """What a run leaves that is ended within an endless kernel after so many points: its file, as it was, and no more."""
    environment = {"FAULTY_DEVICE": fault, "FAULTY_AT": str(tmp_path / "at")} if fault else {}
    (tmp_path / "at").unlink(missing_ok=True)
    with Command(package, args, tmp_path, environment) as command:
        kept = gets_stuck(command, tmp_path, done)
        os.killpg(command.process.pid, end)
        assert command.wait(LIMIT_S) == code
        assert command.gone(), "a child outlived its run"
    assert "Traceback" not in command.said()
    assert ("holds every record up to here" in command.said()) == (end == signal.SIGINT)
    assert (tmp_path / "r.jsonl").read_bytes() == kept and lock_is_free(tmp_path)
    return kept


@pytest.mark.slow
def test_a_run_that_is_ended_within_an_endless_kernel_leaves_nothing_and_goes_on(fake, tmp_path):
    """A run that is ended three times, each time another way and within another point, goes on each time, and at last to its
    end."""
    args, kept = launches(tmp_path, "1,2,4,8"), b""
    for done, ((end, code), groups) in enumerate(zip(ENDS, (2, 4, 8), strict=True), 1):
        before, kept = kept, end_while_stuck(fake, tmp_path, args, end, code, done, f"hang:{groups}")
        assert kept.startswith(before)
        args = resumed(tmp_path)
    assert ended(fake, tmp_path, *args)[0] == 0
    assert (tmp_path / "r.jsonl").read_bytes().startswith(kept)
    assert outcomes(tmp_path) == dict.fromkeys((1, 2, 4, 8), ("ok", ""))
    assert len(jsonl.read(tmp_path / "r.jsonl").records) == 4


@pytest.mark.parametrize(("end", "code"), ENDS)
def test_a_compressed_run_that_is_ended_has_every_record_and_goes_on(fake, tmp_path, end, code):
    path, at = tmp_path / "r.jsonl.gz", tmp_path / "at"
    args = ("run", "-s", "quick", "-b", "launch", "-a", "groups=[1,2,4]", *IN_ORDER, "-o", str(path))
    with Command(fake, args, tmp_path, {"FAULTY_DEVICE": "hang:4", "FAULTY_AT": str(at)}) as command:
        assert within(LIMIT_S, lambda: at.exists() and whole_lines(path).count(b"\n") == 3), command.said()
        os.killpg(command.process.pid, end)
        assert command.wait(LIMIT_S) == code and command.gone()
    kept = path.read_bytes()
    found = jsonl.read(path, strict=True)
    assert [r.params["groups"] for r in found.records] == [1, 2]
    assert ended(fake, tmp_path, "run", "--resume", str(path))[0] == 0
    assert path.read_bytes().startswith(kept) and gzip.decompress(path.read_bytes()) == whole_lines(path)
    assert jsonl.read(path, strict=True).records[:2] == found.records
    assert [r.params["groups"] for r in jsonl.read(path).records] == [1, 2, 4]


@pytest.mark.parametrize(("end", "code"), [ENDS[0], pytest.param(*ENDS[2], marks=pytest.mark.slow)])
def test_an_endless_kernel_on_pocl_ends_with_its_run(pocl, tmp_path, end, code):
    kept = end_while_stuck(pocl, tmp_path, launches(tmp_path, "1,7,2"), end, code, 1, "")
    assert kept.count(b"\n") == 2  # the header and the point before


@pytest.mark.parametrize(("end", "open"), [(signal.SIGINT, True), (signal.SIGKILL, True), (signal.SIGKILL, False)])
@pytest.mark.slow
def test_a_run_that_is_ended_while_its_device_is_probed(fake, tmp_path, end, open):
    with Command(
        fake, launches(tmp_path, "1"), tmp_path, {"FAULTY_OPEN": "hang", "FAULTY_AT": str(tmp_path / "at")}
    ) as command:
        # else at once: the child is still being loaded, and cannot yet have asked to end with its parent
        assert within(LIMIT_S, (tmp_path / "at").exists if open else command.workers)
        os.killpg(command.process.pid, end)
        assert command.wait(LIMIT_S) == (130 if end == signal.SIGINT else -9)
        assert command.gone()
    assert command.said() == ("clmembench: interrupted before anything was measured\n" if end == signal.SIGINT else "")
    assert not (tmp_path / "r.jsonl").exists() and lock_is_free(tmp_path)


def test_ctrl_c_before_the_command_line_is_loaded(fake, tmp_path):
    # an interpreter that is interrupted at the first import of the command line
    early = "import os, signal, sys, runpy\n"
    early += "class Early:\n def find_spec(self, name, *rest):\n"
    early += "  if name == 'clmembench.cli': os.kill(os.getpid(), signal.SIGINT)\n"
    early += "sys.meta_path.insert(0, Early())\nrunpy.run_module('clmembench', run_name='__main__')\n"
    done = subprocess.run([sys.executable, "-c", early], capture_output=True, text=True, timeout=LIMIT_S, cwd=fake)
    assert (done.returncode, done.stderr) == (130, "clmembench: interrupted\n")


def test_ctrl_c_during_a_callback_of_a_weak_reference_is_not_lost(fake):
    # which is what runs while a module is imported; CPython ignores what such a callback raises
    late = "import signal, time, weakref\nimport clmembench.__main__ as entry\nfrom clmembench.cli import program\n"
    late += "class Owner: pass\n"
    late += "def measuring():\n owner = Owner()\n"
    late += " callback = weakref.ref(owner, lambda dead: signal.raise_signal(signal.SIGINT))\n del owner\n time.sleep(30)\n"
    late += "program.main = measuring\nentry.main()\n"
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, timeout=LIMIT_S, cwd=fake)
    assert (done.returncode, done.stderr) == (130, "clmembench: interrupted\n")


def test_a_second_ctrl_c_does_not_wait(fake, tmp_path):
    # the child ignores TERM, so that to end it takes a while
    environment = {"FAULTY_DEVICE": "deaf:2", "FAULTY_AT": str(tmp_path / "at")}
    with Command(fake, launches(tmp_path, "1,2,4"), tmp_path, environment) as command:
        kept = gets_stuck(command, tmp_path)
        command.interrupt()
        time.sleep(0.5)
        command.interrupt()
        assert command.wait(LIMIT_S) == 130 and command.gone()
    assert "Traceback" not in command.said() and "holds every record up to here" in command.said()
    assert (tmp_path / "r.jsonl").read_bytes() == kept


def test_what_another_run_did_until_the_lock_was_free_is_not_repeated(fake, tmp_path, whole):
    path, other = tmp_path / "r.jsonl", whole[0] / "r.jsonl"
    path.write_bytes(b"".join(other.read_bytes().splitlines(keepends=True)[:2]))
    environment = {"FAULTY_MEANWHILE": f"{other},{path}"}
    assert ended(fake, tmp_path, *resumed(tmp_path), environment=environment)[0] == 0
    assert path.read_bytes() == other.read_bytes()


def test_a_file_that_was_cut_at_any_byte_is_gone_on_with(fake, tmp_path, whole):
    whole = (whole[0] / "r.jsonl").read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    around = {end + n for end in ends for n in (-2, -1, 0, 1)}  # and before the first there is no header to go on with
    for cut in sorted({*range(ends[0], len(whole), 401), *(n for n in around if ends[0] <= n < len(whole))}):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(whole[:cut])
        with jsonl.Writer.going_on(path):
            pass
        # complete lines stay, and so does a last one that lacks but its newline
        assert path.read_bytes() == whole[: max(end for end in ends if end - 1 <= cut)]
    (tmp_path / "r.jsonl").write_bytes(whole[: ends[2] - 7])
    assert ended(fake, tmp_path, *resumed(tmp_path))[0] == 0
    assert (tmp_path / "r.jsonl").read_bytes().startswith(whole[: ends[1]])
    assert outcomes(tmp_path) == dict.fromkeys((1, 2, 4), ("ok", ""))


# ---- clocks ---------------------------------------------------------------------------------------------------------

LEAPING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    static long calls;
    const char *leaping = getenv("LEAPING_CLOCK"), *seconds = getenv("LEAPING_S");
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, t);
    if (leaping && id == atoi(leaping) && ++calls % 100 >= 50) t->tv_sec -= seconds ? atol(seconds) : 3600;
    return code;
}
"""


@pytest.fixture(scope="module")
def leaping(tmp_path_factory) -> Path:
    """A library to be loaded first, in which a clock goes back, by an hour unless told otherwise, and forward again after every
    50 readings."""
    folder = tmp_path_factory.mktemp("clock")
    (folder / "leaping.c").write_text(LEAPING)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to make a clock leap with")
    library = folder / "leaping.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "leaping.c"), "-ldl"], check=True)
    return library


@pytest.mark.slow
def test_a_wall_clock_that_leaps_changes_nothing(pocl, tmp_path, leaping):
    environment = {"LD_PRELOAD": str(leaping), "LEAPING_CLOCK": str(time.CLOCK_REALTIME)}
    code, said = ended(pocl, tmp_path, *launches(tmp_path, "1,2"), environment=environment)
    assert code == 0 and outcomes(tmp_path) == {1: ("ok", ""), 2: ("ok", "")}
    assert 0 < float(re.search(r"launch: 2 points, ([-0-9.]+) s", said)[1]) < LIMIT_S
    for record in jsonl.read(tmp_path / "r.jsonl").records:
        assert 0 < record.seconds < LIMIT_S and all(0 < ns < 1e9 for s in record.series for ns in s.host_ns)


LEAPS = ("ahead", "back", "wrapped", "beyond", "queued")


@pytest.fixture(scope="module")
def leapt(fake, tmp_path_factory) -> tuple[int | None, dict[object, tuple[str, str]]]:
    """A run in which the stamps of each point leap in another way: its exit code, and what became of each."""
    folder = tmp_path_factory.mktemp("leapt")
    args = ("run", "-s", "quick", "-b", "launch_wait", "-a", "groups=[1,2,3,4,5]", "-o", str(folder / "r.jsonl"))
    faults = ",".join(f"{fault}:{groups}" for groups, fault in enumerate(LEAPS, 1))
    code, _ = ended(fake, folder, *args, environment={"FAULTY_DEVICE": faults})
    return code, outcomes(folder)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("ahead", "span more time than the host saw"),
        ("back", "ended before it started"),
        ("wrapped", "ended before it started"),
        ("beyond", "span more time than the host saw"),
        ("queued", "queued for more time than the host saw"),
    ],
)
def test_event_stamps_that_leap_are_suspect(leapt, fault, says):
    code, found = leapt
    assert set(found) == {1, 2, 3, 4, 5}
    status, reason = found[LEAPS.index(fault) + 1]
    assert (code, status) == (0, "suspect") and says in reason


@pytest.mark.parametrize("below_zero", [False, True])
@pytest.mark.slow
def test_the_clock_of_pocls_event_stamps_leaps_and_the_point_is_suspect(pocl, tmp_path, leaping, below_zero):
    """That clock counts from the start of the host: back by more than that and a stamp, of 64 bits without a sign, is huge."""
    uptime_s = int(time.clock_gettime(time.CLOCK_MONOTONIC_RAW))
    back_s = uptime_s + 3600 if below_zero else max(1, uptime_s // 2)
    args = ("run", "-s", "quick", "-b", "launch_wait", "-a", "groups=1", "-o", str(tmp_path / "r.jsonl"))
    clock = {"LEAPING_CLOCK": str(time.CLOCK_MONOTONIC_RAW), "LEAPING_S": str(back_s)}
    environment = {"LD_PRELOAD": str(leaping), **clock}
    code, _ = ended(pocl, tmp_path, *args, environment=environment)
    ((status, reason),) = outcomes(tmp_path).values()
    if status == "ok":
        pytest.skip("this PoCL stamps events by another clock")
    assert (code, status) == (0, "suspect") and "event stamps" in reason


# ---- standard output and error --------------------------------------------------------------------------------------


HERE = "--no-isolate"  # where what the command itself prints is all that matters: two processes fewer


@pytest.fixture
def stored(whole) -> Path:
    return whole[0] / "r.jsonl"


@pytest.mark.parametrize("command", ["show", "run"])
def test_standard_output_on_a_full_disk_is_an_error_of_one_line(fake, tmp_path, stored, command):
    args = launches(tmp_path, "1", HERE) if command == "run" else ("show", str(stored))
    with Path("/dev/full").open("wb") as full:
        code, said = ended(fake, tmp_path, *args, stdout=full.fileno())
    assert code == 1
    assert said.splitlines()[-1] == "clmembench: cannot write to standard output: No space left on device"
    if command == "run":
        assert outcomes(tmp_path) == {1: ("ok", "")}


@pytest.mark.parametrize("command", ["show", "run"])
def test_a_closed_pipe_is_no_error(fake, tmp_path, stored, command):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        args = launches(tmp_path, "1", HERE) if command == "run" else ("show", str(stored))
        code, said = ended(fake, tmp_path, *args, stdout=writer)
    finally:
        os.close(writer)
    ours = [line for line in said.splitlines() if "clmembench:" in line and "clmembench: measured " not in line]
    assert code == 0 and not ours
    if command == "run":
        assert outcomes(tmp_path) == {1: ("ok", "")}


def test_nobody_reading_the_progress_is_no_reason_to_stop(fake, tmp_path):
    args = ("run", "-s", "quick", "-b", "launch", "-b", "launch_wait", "-a", "groups=1", HERE, "-o", str(tmp_path / "r.jsonl"))
    torn = 'exec 2>&-; exec "$@" 2>/dev/full'
    code, _ = ended(fake, tmp_path, *args, before=("sh", "-c", torn, "sh"))
    assert code == 0 and [r.status for r in jsonl.read(tmp_path / "r.jsonl").records] == ["ok", "ok"]


def test_closed_descriptors_are_not_taken_for_files(fake, tmp_path):
    code, _ = ended(fake, tmp_path, *launches(tmp_path, "1"), before=("sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh"))
    assert code == 0 and outcomes(tmp_path) == {1: ("ok", "")}


# ---- the table and the storm ----------------------------------------------------------------------------------------


def test_every_test_that_the_table_names_is_there_and_every_row_names_one():
    with (ROOT / "docs" / "tables" / "faults.csv").open(encoding="utf-8", newline="") as file:
        table = [row["test"] for row in csv.DictReader(file)]
    assert len(table) > 20

    @functools.cache
    def functions(module: str) -> set[str]:
        (path,) = (ROOT / "tests").rglob(f"{module}.py")
        parsed = ast.parse(path.read_text())
        return {node.name for node in parsed.body if isinstance(node, ast.FunctionDef)}

    for row in table:
        named = re.findall(r"`(test_\w+)`: `(test_\w+)`", row)
        assert named, row
        for module, name in named:
            assert name in functions(module), (module, name)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "scripts").is_dir(), reason="no scripts beside the tests")
def test_a_small_storm_passes(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "scripts" / "fault_storm.py"), "--runs", "2", "--pocl", "0", "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\| all \| 2 \| 0 \|  \| 0 \| 0 \| 0 \| 0 \| 0 \| 0 \|", done.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not (ROOT / "scripts").is_dir(), reason="no scripts beside the tests")
def test_the_storm_sees_what_is_lost_and_left(fake, tmp_path):
    storm = runpy.run_path(str(ROOT / "scripts" / "fault_storm.py"))
    stage = storm["Stage"]("fake", fake, "3s", LIMIT_S, {})
    trial = storm["Trial"](0, stage, tmp_path, None, [1, 2])
    assert ended(fake, tmp_path, *trial.args())[0] == 0
    trial._look()
    whole = trial.file.read_bytes()
    trial.file.write_bytes(whole + b"half a line")
    trial._look()
    assert not trial.found
    trial.file.write_bytes(whole.replace(b'"status":"ok"', b'"status":"OK"', 1))
    trial._look()
    assert trial.found["lost"] == ["of 3 lines [2] changed or went"]
    refused = SimpleNamespace(process=SimpleNamespace(returncode=2), said=lambda: "one\ntwo\n")
    trial.check_reasons(refused)
    assert trial.found.pop("other") == ["exit code 2 is not said in one line: one\ntwo\n"]
    (tmp_path / "tmp" / "forgotten").touch()
    held = min((tmp_path / "tmp").glob("clmembench-*.lock"))
    with held.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        trial._left()
    assert sorted(trial.found["left"]) == [f"lock {held.name} is held", "temporary file forgotten"]
    with Command(fake, trial.args("--overwrite"), tmp_path, {"FAULTY_OPEN": "hang"}) as command:
        assert within(LIMIT_S, command.workers)
        # the process that lists devices may have ended, and the one that hangs not begun
        assert within(LIMIT_S, lambda: len(command.alive()) > 1) and command.process.pid in command.alive()
    assert command.gone()
