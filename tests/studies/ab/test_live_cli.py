"""`compare --live` on PoCL: real processes, both sides' files, exit codes, options that cannot be meant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clmembench.results import jsonl
from clmembench.studies.ab import ab_decision
from tests.cases import each
from tests.commands import brief_points, cli
from tests.faulty import ROOT
from tests.slowed_kernels import broken, slowed

POINT = (
    *("-d", "0", "-b", "stream", "-a", "op=triad", "-a", "dtype=float", "-a", "array_bytes=256KiB", "-a", "order=item"),
    *("-a", "nontemporal=0", "-a", "width=8", "-a", "work_group=64"),
)


def live(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    return cli("compare", "--live", *args, **more)


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    with brief_points():
        yield


@pytest.fixture(scope="module")
def slower_build(tmp_path_factory):
    """A against a build that moves seven times the data: what was said, and the files of both sides. The first look is
    after 4 rounds in the place of 11: how many rounds which error takes, test_ab_decision and test_ab_rounds show."""
    folder = tmp_path_factory.mktemp("live")
    args = ("--b-kernels", str(slowed(folder / "k", 6.0)), "--budget", "9m", "--json", "-o", str(folder / "new" / "r"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ab_decision, "MAX_ERROR_PROBABILITY", 1.0)
        assert ab_decision.schedule_looks(1).rounds[0] == 4
        done = live(*POINT, *args)
    return done, folder / "new" / "r-a.jsonl", folder / "new" / "r-b.jsonl"


def test_a_build_that_moves_seven_times_the_data_is_slower_and_exits_with_5(slower_build):
    done, *files = slower_build
    assert done.returncode == 5, done.stderr
    said = json.loads(done.stdout)
    (value,) = said["values"]
    assert value["verdict"] == "slower"
    assert value["gain"]["high"] < 1 / 1.05
    assert value["b"] < value["a"]
    assert said["files"] == list(map(str, files))
    assert "1 of 1 values are slower in B" in done.stderr


def test_both_sides_were_measured_in_each_round_and_which_was_first_was_drawn(slower_build):
    done, *files = slower_build
    runs = [jsonl.read(path) for path in files]
    rounds = json.loads(done.stdout)["rounds"]
    started = [{r.process: r.started for r in run.records} for run in runs]
    assert list(started[0]) == list(started[1]) == list(range(rounds))
    first = [started[0][n] < started[1][n] for n in range(rounds)]
    assert True in first and False in first
    # interleaved: no side begins a round before the other one has ended the last
    assert all(min(of[n] for of in started) > max(of[n - 1] for of in started) for n in range(1, rounds))


def test_the_files_are_runs_like_others_and_say_what_differed(slower_build):
    _, *files = slower_build
    runs = [jsonl.read(path) for path in files]
    assert all(run.notes == () and all(r.checked for r in run.records) for run in runs)
    assert runs[1].header.environment["CLMEMBENCH_KERNELS"].endswith("/k")
    assert "CLMEMBENCH_KERNELS" not in runs[0].header.environment
    hashes = [{r.sources.partition("-")[0] for r in run.records} for run in runs]
    assert len(hashes[0]) == len(hashes[1]) == 1 and hashes[0] != hashes[1]
    shown = json.loads(cli("show", str(files[0]), "--json").stdout)
    assert [row["metric"] for row in shown] == ["bandwidth"]
    refused = live(*POINT, "-o", str(files[0]).removesuffix("-a.jsonl"))
    assert refused.returncode == 2 and "--overwrite" in refused.stderr


def test_a_build_that_computes_wrongly_is_no_speed_and_exits_with_4(tmp_path):
    done = live(*POINT, "--b-kernels", str(broken(tmp_path / "k")), "-o", str(tmp_path / "r"))
    assert done.returncode == 4
    assert "wrong in B:" in done.stderr and "of triad are wrong" in done.stderr
    assert {r.process for r in jsonl.read(tmp_path / "r-b.jsonl").records} == {0}


@pytest.mark.slow
def test_a_budget_that_ends_before_the_first_look_is_undecided_and_exits_with_6(tmp_path):
    done = live(*POINT, "--budget", "1ms", "-o", str(tmp_path / "r"))
    assert done.returncode == 6, done.stderr
    assert "undecided" in done.stdout and "rounds of 11 that it needs" in done.stdout
    assert "A and B are the same" in done.stderr and "raise --budget" in done.stderr


@pytest.mark.parametrize(
    ("last_line", "said"),
    [
        ("no clmembench here", "B does not list its devices: no clmembench here"),
        (
            "ModuleNotFoundError: No module named 'clmembench.host'",  # as one before docs/architecture.md's packages says
            "B has a clmembench too old for compare --live: install this version there",
        ),
    ],
)
def test_a_side_that_has_no_devices_to_name_is_a_failure_in_one_line(tmp_path, last_line, said):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "{last_line}" >&2\nexit 1\n')
    python.chmod(0o755)
    done = live(*POINT, "--b-python", str(python), "-o", str(tmp_path / "r"))
    assert done.returncode == 4
    assert done.stderr.strip() == f"clmembench: {said}"
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.slow
def test_an_environment_reaches_only_its_side(tmp_path):
    done = live(*POINT, "--budget", "1ms", "--b-env", "POCL_MAX_PTHREAD_COUNT=1", "-o", str(tmp_path / "r"))
    assert done.returncode in (4, 6), done.stderr  # another number of compute units may be other work
    heads = [jsonl.read(tmp_path / f"r-{side}.jsonl").header for side in "ab"]
    assert [head.environment.get("POCL_MAX_PTHREAD_COUNT") for head in heads] == [None, "1"]
    assert heads[1].device.compute_units == 1


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_ctrl_c_leaves_two_whole_files_and_no_process(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "clmembench", "compare", "--live", *POINT, "--budget", "10m", "-o", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as running:
        until = time.monotonic() + 200
        files = [tmp_path / "r-a.jsonl", tmp_path / "r-b.jsonl"]
        while time.monotonic() < until and not all(f.is_file() and f.read_text().count("\n") > 1 for f in files):
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=200)
    assert running.returncode == 130, err
    assert "interrupted" in err and "undecided" in out
    assert all(jsonl.read(f).notes == () and jsonl.read(f).records for f in files)


@each(
    ("args", "says"),
    [
        (("x.jsonl",), "leave out x.jsonl"),
        (("-b", "pchase"), "pchase grows along array_bytes: name its values"),
        (("-b", "nonsense"), "no benchmark matches"),
        ((*POINT, "--b-axis", "work_group=[32,64]"), "has 2 values: name one"),
        ((*POINT, "--b-axis", "groups=1"), "not every selected benchmark has this axis"),
        ((*POINT, "--b-axis", "width=many"), "'many' is not"),
        ((*POINT, "-a", "width=[4,8]", "--b-axis", "width=2"), "gives B only one"),
        ((*POINT, "--b-env", "NAME"), "write NAME=VALUE"),
        ((*POINT, "--b-env", "A=1", "--b-env", "A=2"), "sets A twice"),
        ((*POINT, "--b-env", "PYTHONPATH=/x"), "--b-python"),
        ((*POINT, "--b-kernels", "nowhere"), "has no .cl files"),
        ((*POINT, "--b-python", "nowhere"), "is no interpreter"),
        ((*POINT, "--margin", "x"), "no share"),
        ((*POINT, "--budget", "x"), "no duration"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_at_once_in_one_line(args, says, tmp_path):
    done = cli("compare", "--live", *args, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_kernels_of_other_names_and_twice_the_same_are_refused(tmp_path):
    (tmp_path / "streem.cl").write_text("")
    done = live(*POINT, "--b-kernels", str(tmp_path))
    assert done.returncode == 2 and "streem.cl is no kernel file" in done.stderr
    (tmp_path / "streem.cl").rename(tmp_path / "stream.cl")
    both = live(*POINT, "--b-kernels", str(tmp_path), "--b-env", f"CLMEMBENCH_KERNELS={tmp_path}")
    assert both.returncode == 2 and "leave out one of them" in both.stderr


def test_options_of_a_measurement_without_live_are_refused():
    done = cli("compare", "a.jsonl", "b.jsonl", "--b-axis", "width=4")
    assert done.returncode == 2
    assert done.stderr.strip() == "clmembench: --b-axis is an option of --live: add --live, and leave out results files"


@pytest.mark.slow
def test_the_exit_code_does_not_depend_on_who_reads_the_text(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "clmembench", "compare", "--live", *POINT, "--budget", "1ms", "-o", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        running.stderr.read()
        assert running.wait(200) == 6
