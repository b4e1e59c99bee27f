"""Estimates of a run before it, held against runs of reports/ that were measured."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from clmembench.benchmarks import discovered
from clmembench.cli import run_preview, topology
from clmembench.cli.run_request import PlannedRun
from clmembench.measure import runner
from clmembench.model import Header
from clmembench.plan import estimate
from clmembench.plan.selection import EVERYTHING, Selection, selected_benchmarks, suites
from clmembench.results import jsonl
from tests.builders import device, record
from tests.commands import ROOT, cli

RUNS = [ROOT / "reports" / f"{name}.jsonl" for name in (
    "h200-sxm-quick", "h200-sxm-sync", "xeon-16-cores-pocl-quick", "xeon-2-cores-pocl-quick", "xeon-2-cores-intel-quick",
    "xeon-2-cores-pocl-sync", "h100-sxm", "epyc-2-cores-pocl",
)]  # fmt: skip


def selection_of(head: Header) -> Selection:
    names = tuple(name for name, card in head.benchmarks.items() if not card.peer_of and name in discovered())
    return Selection(suite=head.suite, globs=names, axes=head.axes, processes=head.processes, tuning=head.tuning)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_measured_run_took_the_time_and_the_disk_that_are_estimated(path: Path):
    run = jsonl.read(path)
    found = estimate.estimate_run(run.header.device, selection_of(run.header))
    last = run.records[-1]
    took = (datetime.fromisoformat(last.started) - datetime.fromisoformat(run.header.started)).total_seconds() + last.seconds
    least, most = found.seconds_range
    assert least <= took <= most
    assert 0.5 <= found.all_records / len(run.records) <= 1.5
    assert 1 / 3 <= found.file_bytes / path.stat().st_size <= 3


def test_points_processes_and_arrays_are_counted():
    info = device(kind="cpu", features=frozenset())
    one = estimate.estimate_run(
        info, Selection(globs=("stream",), axes={"op": ("copy",), "array_bytes": (1 << 20,)}, processes=3)
    )
    two = estimate.estimate_run(
        info, Selection(globs=("stream",), axes={"op": ("copy", "triad"), "array_bytes": (1 << 20, 4 << 20)}, processes=3)
    )
    assert two.points == 4 * one.points and one.array_bytes == 1 << 20 and two.array_bytes == 4 << 20
    assert one.benchmarks[0].records == 3 * one.points and two.seconds > one.seconds
    assert not one.benchmarks[0].grows
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
    assert not PlannedRun(device(), Selection(suite="quick"), ()).has_hierarchy


def test_a_disk_that_is_too_small_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(run_preview.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "too little" in run_preview._disk_text(10_000, tmp_path / "r.jsonl")
    assert "too little" not in run_preview._disk_text(10, tmp_path / "r.jsonl")


def test_a_dry_run_says_points_time_memory_and_disk():
    done = cli("run", "-d", "0", "--dry-run", "-b", "stream", "-a", "array_bytes=4MiB", "--budget", "1s")
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines()[2:])
    assert set(said) == {"points", "time", "memory", "disk"} and done.returncode == 0
    assert "--budget ends it after 1 s" in said["time"] and said["memory"].startswith("at most 12 MiB of ")
    small = cli("run", "-d", "0", "--dry-run", "-b", "launch").stdout
    assert "memory: not known" in small


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

    def selected(runtime, info, found, selection, known):
        asked.append(("all", tuple(known)))
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
