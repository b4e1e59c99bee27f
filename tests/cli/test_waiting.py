"""Waiting before a run: for the device's lock, and for other programs to leave the host alone."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from clmembench.cli import waiting
from clmembench.cli.waiting import with_wait
from clmembench.host import device_lock, environment
from clmembench.host.cpu_load import Load
from clmembench.measure import quiet
from clmembench.measure.quiet import HostUse
from clmembench.results import jsonl
from tests.builders import device
from tests.cases import each
from tests.commands import brief_points, cli

BUSY, QUIET = HostUse(Load(0.4, 0.0), None), HostUse(Load(0.01, 0.0), None)


@pytest.fixture
def locks(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CLMEMBENCH_LOCKS", str(tmp_path))
    return tmp_path


@pytest.fixture
def measured_device(locks):
    """The device that -d 0 is."""
    from clmembench.cli import devices

    return devices.listed()[0]


ONE_POINT = ("run", "-d", "0", "-b", "launch", "-a", "groups=1", "--processes", "1")


def test_a_held_device_is_refused_at_once_and_after_waiting(measured_device, tmp_path):
    with device_lock.held(measured_device):
        at_once = cli(*ONE_POINT, cwd=tmp_path)
        later = cli(*ONE_POINT, "--wait", "20ms", cwd=tmp_path)
    assert (at_once.returncode, later.returncode) == (3, 3)
    assert "is in use by another run" in at_once.stderr and "--wait waits" not in at_once.stderr
    assert "--wait waits for 0 s at most: " in later.stderr and later.stderr.count("is in use by another run") == 2
    assert not (tmp_path / "reports").exists()


def test_a_waiting_run_measures_once_the_device_is_free(measured_device, tmp_path, monkeypatch):
    holder = ExitStack()
    holder.enter_context(device_lock.held(measured_device))
    slept = []

    def freed_while_asleep(seconds: float) -> None:
        slept.append(seconds)
        holder.close()

    monkeypatch.setattr(waiting.time, "sleep", freed_while_asleep)
    with brief_points():
        done = cli(*ONE_POINT, "--wait", "-o", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0 and waiting.LOCK_STEP_S in slept
    assert "--wait waits without limit: " in done.stderr and "is free" in done.stderr
    assert jsonl.read(tmp_path / "r.jsonl").records


def test_nobody_waits_for_a_file_that_is_no_lock(measured_device, tmp_path):
    path = device_lock.path_of(measured_device)
    path.write_text("")
    (tmp_path / "other-name").hardlink_to(path)
    done = cli(*ONE_POINT, "--wait", cwd=tmp_path)
    assert done.returncode == 3 and "remove it" in done.stderr and "--wait waits" not in done.stderr


@each(
    ("given", "parsed"),
    [
        (["--wait"], ["--wait", "forever"]),
        (["--wait", "5m", "-d", "0"], ["--wait", "5m", "-d", "0"]),
        (["--wait", "-d", "0"], ["--wait", "forever", "-d", "0"]),
        (["--wait", "stream"], ["--wait", "forever", "stream"]),
        (["--wait=5m"], ["--wait=5m"]),
        (["--wait-quiet", "5m"], ["--wait-quiet", "5m"]),
    ],
)
def test_wait_may_stand_without_a_duration(given, parsed):
    assert with_wait(given) == parsed


@pytest.mark.parametrize(("option", "value"), [("--wait=soon", ""), ("--wait-quiet", "soon")])
def test_what_is_no_duration_is_refused(option, value):
    done = cli("run", "-d", "0", "-b", "launch", "--dry-run", option, *([value] if value else []))
    assert done.returncode == 2 and "no duration" in done.stderr


@each(
    ("use", "kind", "said"),
    [
        (HostUse(Load(0.4, 0.0), None), "cpu", "other programs use 40% of the CPUs"),
        (HostUse(Load(0.01, 0.2), None), "cpu", "other virtual machines take 20%"),
        (HostUse(Load(0.4, 0.2), 50.0), "gpu", "other programs keep the device 50% busy"),
        (HostUse(Load(0.9, 0.0), 1.0), "gpu", "other programs use 90% of the CPUs"),
        (HostUse(Load(0.04, 0.01), None), "cpu", ""),
        (HostUse(Load(0.4, 0.2), 2.0), "gpu", ""),
        (HostUse(None, None), "cpu", ""),
    ],
)
def test_what_is_in_the_way_of_measuring_a_device(use, kind, said):
    assert said in "; ".join(use.complaints(kind)) and bool(said) == bool(use.complaints(kind))


def test_waiting_ends_when_the_host_is_quiet_or_the_time_is_over():
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    looks, told = iter([BUSY, BUSY, QUIET]), []
    assert quiet.wait(device(kind="cpu"), 60.0, told.append, lambda _: next(looks), lambda: now[0], sleep) == []
    assert now[0] == 2 * quiet.WAIT_STEP_S and told == [BUSY.complaints("cpu")] * 2
    now[0] = 0.0
    assert quiet.wait(device(kind="cpu"), 5.0, told.append, lambda _: BUSY, lambda: now[0], sleep) == BUSY.complaints("cpu")
    assert now[0] == 5.0


def test_a_busy_host_is_warned_of_before_the_run_and_waited_for(capsys, monkeypatch):
    waited = []
    monkeypatch.setattr(environment, "cpus", lambda: {"logical_cpus": 2, "usable_cpus": 2, "cpu_limit": None})
    monkeypatch.setattr(quiet, "look", lambda info: BUSY)
    monkeypatch.setattr(quiet, "wait", lambda info, most_s, told: waited.append(most_s) or [])
    waiting.warn_of_others(device(kind="cpu"), 0.0)
    assert "warning: other programs use 40% of the CPUs" in capsys.readouterr().err and not waited
    waiting.warn_of_others(device(kind="cpu"), 120.0)
    said = capsys.readouterr().err
    assert (
        waited == [120.0]
        and "warning" not in said
        and "--wait-quiet waits for 2 min at most: other programs use 40% of the CPUs" in said
        and "no other program" in said
    )
    monkeypatch.setattr(quiet, "wait", lambda info, most_s, told: BUSY.complaints("cpu"))
    waiting.warn_of_others(device(kind="cpu"), 120.0)
    assert "warning: other programs use 40%" in capsys.readouterr().err
    monkeypatch.setattr(quiet, "look", lambda info: QUIET)
    waiting.warn_of_others(device(kind="cpu"), 120.0)
    assert capsys.readouterr().err == ""


def test_a_wait_says_what_it_waits_for_again_each_minute_and_how_it_ended(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    said = waiting._Said("--wait", 600.0)
    said.ends("free")  # it never waited
    for second in range(0, 130, 10):
        now[0] = float(second)
        said.waits(f"process {second}")
    said.ends("free")
    assert [text.removeprefix("clmembench: ") for text in capsys.readouterr().err.splitlines()] == [
        "--wait waits for 10 min at most: process 0",
        "--wait has waited for 1 min: process 60",
        "--wait has waited for 2 min: process 120",
        "--wait waited for 2 min: free",
    ]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"usable_cpus": 1}, "only 1 of 4 CPUs may be used"),
        ({"cpu_limit": 1.5}, "a control group limits this process to 1.5 of"),
    ],
)
def test_cpus_that_the_process_may_not_use_are_warned_of_before_the_run(capsys, monkeypatch, limits, said):
    monkeypatch.setattr(quiet, "look", lambda info: QUIET)
    monkeypatch.setattr(environment, "cpus", lambda: {"logical_cpus": 4, "usable_cpus": 4, "cpu_limit": None, **limits})
    waiting.warn_of_others(device(kind="cpu"), 0.0)
    found = capsys.readouterr().err
    assert f"warning: {said}" in found and "-a compute_units" in found
    waiting.warn_of_others(device(kind="gpu"), 0.0)
    assert capsys.readouterr().err == ""


def test_a_look_at_this_host_gives_shares():
    found = quiet.look(device(kind="cpu"), seconds=0.1)
    assert found.device_percent is None
    assert found.load is None or 0 <= found.load.others <= 1


@pytest.mark.parametrize("command", ["topology", "advise", "peers"])
def test_studies_wait_as_a_run_does(measured_device, tmp_path, command):
    with device_lock.held(measured_device):
        done = cli(command, "-d", "0", "--wait", "20ms", cwd=tmp_path)
    assert done.returncode == 3 and "--wait waits for 0 s at most: " in done.stderr
    assert cli(command, "-d", "0", "--wait-quiet", "soon", cwd=tmp_path).returncode == 2
