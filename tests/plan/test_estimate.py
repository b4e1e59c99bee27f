"""Estimates of a run before it, held against runs of reports/ that were measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from clmembench.benchmarks import discovered
from clmembench.cli.running import run_preview, session
from clmembench.cli.running.run_request import PlannedRun
from clmembench.host import device_lock
from clmembench.measure import runner, worker_process
from clmembench.model import Cause, Header, Point
from clmembench.plan import configurations, estimate, sweep
from clmembench.plan.selection import EVERYTHING, Selection, selected_benchmarks, suites
from clmembench.results import jsonl, run_files
from clmembench.results.limits import MAX_FILE_BYTES
from clmembench.studies.hierarchy import command as topology
from tests.builders import device, record, series
from tests.cases import each
from tests.commands import ROOT, brief_points, cli

RUNS = [ROOT / "reports" / f"{name}.jsonl.gz" for name in (
    "h200-sxm-quick", "h200-sxm-all", "xeon-16-cores-pocl-quick", "xeon-2-cores-pocl-quick", "xeon-2-cores-intel-quick",
    "xeon-2-cores-pocl-sync", "h100-sxm-quick", "epyc-2-cores-pocl-quick",
)]  # fmt: skip


def selection_of(head: Header) -> Selection:
    names = tuple(name for name, card in head.benchmarks.items() if not card.peer_of and name in discovered())
    return Selection(suite=head.suite, globs=names, axes=head.axes, processes=head.processes, tuning=head.tuning)


@each("path", RUNS)
def test_a_measured_run_took_the_time_and_the_disk_that_are_estimated(path: Path):
    run = jsonl.read(path)
    found = estimate.estimate_run(run.header.device, selection_of(run.header))
    last = run.records[-1]
    took = (datetime.fromisoformat(last.started) - datetime.fromisoformat(run.header.started)).total_seconds() + last.seconds
    least, most = found.seconds_range
    assert least <= took <= most
    assert 0.5 <= found.all_records / len(run.records) <= 1.5
    assert 1 / 3 <= found.file_bytes / len(run_files.read_regular(path, MAX_FILE_BYTES)) <= 3


@each("name", ["h200-sxm-quick", "h200-sxm-all"])
def test_as_many_worker_processes_start_as_are_estimated(name):
    run = jsonl.read(ROOT / "reports" / f"{name}.jsonl.gz")
    found = estimate.estimate_run(run.header.device, replace(selection_of(run.header), budget_s=run.header.budget_s))
    started = Counter(record.benchmark for record in run.records if "start" in record.parts_s)
    assert {one.name: one.processes for one in found.benchmarks if one.processes} == started


def test_points_processes_and_arrays_are_counted():
    info = device(kind="cpu", features=frozenset())
    one = estimate.estimate_run(
        info, Selection(globs=("stream",), axes={"op": ("copy",), "array_bytes": (1 << 20,)}, processes=3)
    )
    two = estimate.estimate_run(
        info, Selection(globs=("stream",), axes={"op": ("copy", "triad"), "array_bytes": (1 << 20, 4 << 20)}, processes=3)
    )
    assert two.points == 4 * one.points and one.array_bytes == 1 << 20 and two.array_bytes == 4 << 20
    assert one.benchmarks[0].repeats == 2 * one.points and two.seconds > one.seconds
    assert not one.benchmarks[0].grows
    shared = estimate.estimate_run(replace(info, kind="gpu"), Selection(globs=("stream", "launch", "launch_call"), processes=3))
    assert one.benchmarks[0].processes == 3
    assert [of.processes for of in shared.benchmarks] == [6, 0, 3]  # launch goes on in stream's
    assert estimate.estimate_run(info, Selection(globs=("pchase",))).benchmarks[0].grows


def test_what_the_device_lacks_takes_no_time():
    with_doubles = Selection(globs=("dgemm",), axes={"dtype": ("double",), "variant": ("portable",), "n": (64,)})
    able, unable = (estimate.estimate_run(device(features=frozenset(features)), with_doubles) for features in (("fp64",), ()))
    assert able.seconds > 0 == unable.seconds and unable.points == able.points


def test_suite_everything_has_all_benchmarks_peers_and_the_hierarchy():
    chosen = Selection(suite=EVERYTHING, reference=True)
    assert set(suites()["all"]) - set(suites()[EVERYTHING]) == {"l2_map"}  # which the hierarchy measures, in places of its own
    planned = PlannedRun(device(kind="cpu"), chosen, selected_benchmarks(chosen))
    names = [one.name for one in planned.estimate(planned.info).benchmarks]
    assert names == [*suites()[EVERYTHING], "chase", "cache_sharing", "l2_map"]
    assert {"chase", "cache_sharing", "l2_map"} <= set(planned.cards())
    quick = PlannedRun(device(), Selection(suite="quick"), ())
    assert not {"chase", "cache_sharing", "l2_map"} & {one.name for one in quick.estimate(quick.info).benchmarks}


def test_a_disk_that_is_too_small_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(run_preview.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "too little" in run_preview._disk_text(10_000, tmp_path / "r.jsonl")
    assert "too little" not in run_preview._disk_text(10, tmp_path / "r.jsonl")


def test_a_dry_run_says_points_time_memory_and_disk():
    done = cli("run", "-d", "0", "--dry-run", "-b", "stream", "-a", "array_bytes=4MiB", "--budget", "1s")
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines()[2:])
    assert set(said) == {"points", "measurements", "time", "memory", "disk"} and done.returncode == 0
    assert "--budget ends it after 1 s" in said["time"] and said["memory"].startswith("at most 12 MiB of ")
    small = cli("run", "-d", "0", "--dry-run", "-b", "launch").stdout
    assert "memory: not known" in small


def test_what_a_dry_run_prints_is_what_runs(tmp_path):
    args = ("run", "-d", "0", "-b", "stream", "-a", "op=copy", "-a", "array_bytes=64KiB", "--processes", "2")
    plan = cli(*args, "--dry-run").stdout
    with brief_points():
        done = cli(*args, "-o", str(tmp_path / "r.jsonl"))
    planned = re.search(r"measurements: (at most \d+) \((\d+ points?, .*)\)", plan)
    measured = re.search(r"measured (\d+ points?, .*): (\d+) of (at most \d+) measurements planned", done.stderr)
    assert planned and measured, (plan, done.stderr)
    assert (measured[3], measured[1]) == (planned[1], planned[2]) and planned[1].endswith(f" {measured[2]}")
    assert len(jsonl.read(tmp_path / "r.jsonl").records) == int(measured[2])
    again = cli("run", "--resume", str(tmp_path / "r.jsonl"), "--dry-run").stdout
    assert f"of which {tmp_path / 'r.jsonl'} has {measured[2]}" in again


def test_a_dry_run_plans_with_the_features_that_a_run_finds(monkeypatch):
    plain = device(kind="cpu", features=frozenset())
    more = SimpleNamespace(features=frozenset({"nontemporal"}))
    monkeypatch.setattr(worker_process, "probed", lambda *_: more)
    assert session.with_probed_features.__wrapped__(plain, Selection()).features == more.features


@pytest.mark.parametrize(
    "error", [worker_process.WorkerError("no memory", Cause.PROCESS_DIED), device_lock.HeldError("in use")]
)
def test_a_device_that_cannot_be_probed_is_planned_by_its_drivers_claims(monkeypatch, capsys, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(worker_process, "probed", fails)
    plain = device(features=frozenset({"fp64"}))
    assert session.with_probed_features.__wrapped__(plain, Selection()) == plain
    assert "was not probed" in (said := capsys.readouterr().err) and str(error) in said


def winning(points: Iterator[Point], best: int) -> list[Point]:
    """The points of a plan in which trials get better up to the one of that number."""
    asked: list[Point] = []
    answers = None
    while True:
        try:
            found = next(points) if answers is None else points.send(answers)
        except StopIteration:
            return asked
        asked += found
        trials = sum(p.role == "tune" for p in asked)
        times = [1000 + 100 * abs(best - trials)] * 40
        answers = [record(p.benchmark, p.params, series(times, nbytes=1 << 20, flops=1000), role=p.role) for p in found]


@each("kind", ["cpu", "gpu"])
@each("name", ["dgemm", "stream", "datatypes"])
def test_no_search_has_more_trials_than_were_planned(name, kind):
    info = device(kind=kind, features=frozenset({"fp64", "nontemporal"}))
    selection = Selection(globs=(name,), axes={"n": (512,), "dtype": ("double",), "op": ("triad",)})
    benchmark = discovered()[name]
    most = configurations.most_trials(benchmark, info, selection)
    found = [len([p for p in winning(sweep.explore(benchmark, info, selection), n) if p.role == "tune"]) for n in range(12)]
    assert 0 < max(found) <= most


def test_suite_everything_takes_no_narrower_choice():
    done = cli("run", "-d", "0", "--dry-run", "-s", "everything", "-b", "stream")
    assert done.returncode == 2 and "use -s all" in done.stderr
    whole = cli("run", "-d", "0", "--dry-run", "-s", "everything")
    assert whole.returncode == 0 and "chase: the memory hierarchy" in whole.stdout and "peers here:" in whole.stdout


def test_the_parts_of_suite_everything_are_measured_one_after_the_other(monkeypatch):
    chosen = Selection(suite=EVERYTHING, reference=True, budget_s=60.0)
    planned = PlannedRun(device(kind="cpu"), chosen, ())
    known = [record("stream"), record("chase")]
    asked = []

    def selected(runtime, info, found, selection, known, deadline):
        asked.append(("all", tuple(known)))
        assert 10.0 < deadline.left_s() < 55.0  # the hierarchy has the rest
        yield record("stream", {"op": "triad"})

    def hierarchy(info, found, *, selection, known, deadline):
        asked.append(("hierarchy", tuple(known)))
        assert 0 < deadline.left_s() <= 60.0
        yield record("chase")

    monkeypatch.setattr(runner, "run_selection", selected)
    monkeypatch.setattr(topology, "hierarchy_records", hierarchy)
    found = list(planned.records(planned.info, None, known))
    assert [one.benchmark for one in found] == ["stream", "chase"]
    assert asked == [("all", tuple(known)), ("hierarchy", tuple(known))]
