"""References beside our points: which there are, in which order both are measured, and a run of both on PoCL."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.benchmarks import axis, benchmark, discovered
from clmembench.model import Metric, Placement, Point, Record, Work
from clmembench.plan import interleave
from clmembench.plan.measurements import ordered_measurements
from clmembench.plan.selection import Selection
from clmembench.results import jsonl
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import record, series
from tests.commands import Ended, as_on_a_quiet_host, brief_points, call, cli, is_measured
from tests.studies.peers.test_reference_programs import NL, stream, table

MIB = 1 << 20
RATE = Metric("rate", "GB/s", "nbytes", "rate", "higher")
CPU = replace(FAKE_DEVICE_INFO, kind="cpu", shares_host_memory=True)


@benchmark(RATE, suite="memory", source="test", n=axis(1, 2), variant=axis("portable", "fast"))
def ours(device: object, n: int, variant: str) -> Work:
    """Ours."""
    return Work(())


def reference(name: str, **axes: object):
    def prepare(device: object, **params: object) -> Work:
        """A reference."""
        return Work(())

    prepare.__name__ = name
    return benchmark(RATE, suite="memory", source="test", peer_of="ours", **axes)(prepare)


LIBRARY = reference("library", n=axis(1, 2))
OTHER = reference("other", n=axis(1, 2))
WORDS = reference("words", variant=axis("portable"))
POINTS = [Point("ours", {"n": n, "variant": v}) for n in (1, 2) for v in ("portable", "fast")]


def trials():
    """A trial, and then the points that were found best."""
    yield [Point("ours", {"n": 1, "variant": "fast"}, role="tune")]
    yield POINTS


def asked(plan, status="ok", reasons=None):
    """Every batch that a plan asks for, as (benchmark, n, first process, processes), and what it answered the inner plan."""
    batches, answers = [], None
    while True:
        try:
            points = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            return batches
        batches.append(points)
        answers = [
            Record(p.benchmark, 1, p.params, p.place, process, (reasons or {}).get(p.benchmark, status))
            for p in points
            for process in range(p.first, p.processes)
        ]


def processes(batches, name):
    found = {}
    for batch in batches:
        for point in batch:
            if point.benchmark == name and point.role == "measure":
                key = tuple(point.params.values())
                found.setdefault(key, []).extend(range(point.first, point.processes))
    return found


def test_each_process_of_ours_is_followed_by_one_of_each_reference():
    batches = asked(interleave.interleave_peers(trials(), ours, (LIBRARY, OTHER), FAKE_DEVICE_INFO, Selection(reference=True)))
    assert [p.role for p in batches[0]] == ["tune"]
    assert processes(batches, "ours") == {(n, v): [0, 1, 2] for n in (1, 2) for v in ("portable", "fast")}
    assert processes(batches, "library") == processes(batches, "other") == {(1,): [0, 1, 2], (2,): [0, 1, 2]}
    order = [(process, point.benchmark) for batch in batches[1:] for _, point, process in ordered_measurements(batch, 0, 1)]
    assert list(dict.fromkeys(order)) == [(p, name) for p in range(3) for name in ("ours", "library", "other")]


@pytest.mark.parametrize(
    ("selection", "rounds"),
    [(Selection(processes=5), 5), (Selection(processes=1), 1), (Selection(isolated=False), 1), (Selection(suite="quick"), 3)],
)
def test_rounds_are_as_the_user_says(selection, rounds):
    points = iter([[replace(p, processes=selection.processes or 1) for p in POINTS]])
    batches = asked(interleave.interleave_peers((batch for batch in points), ours, (LIBRARY,), FAKE_DEVICE_INFO, selection))
    assert set(map(tuple, processes(batches, "library").values())) == {tuple(range(rounds))}
    assert set(map(tuple, processes(batches, "ours").values())) == {tuple(range(rounds))}


def test_a_point_that_takes_more_processes_by_itself_keeps_them():
    points = [replace(p, processes=6) for p in POINTS]
    batches = asked(interleave.interleave_peers((batch for batch in [points]), ours, (LIBRARY,), FAKE_DEVICE_INFO, Selection()))
    assert set(map(tuple, processes(batches, "library").values())) == {(0, 1, 2)}
    assert set(map(tuple, processes(batches, "ours").values())) == {(0, 1, 2, 3, 4, 5)}


def test_a_reference_that_is_not_here_after_all_costs_one_process():
    batches = asked(
        interleave.interleave_peers((batch for batch in [POINTS]), ours, (LIBRARY, OTHER), FAKE_DEVICE_INFO, Selection()),
        reasons={"library": "skipped"},
    )
    assert set(map(tuple, processes(batches, "library").values())) == {(0,)}
    assert set(map(tuple, processes(batches, "other").values())) == {(0, 1, 2)}
    alone = asked(
        interleave.interleave_peers((batch for batch in [POINTS]), ours, (LIBRARY,), FAKE_DEVICE_INFO, Selection()),
        reasons={"library": "skipped"},
    )
    assert set(map(tuple, processes(alone, "ours").values())) == {(0,)}


def test_later_rounds_are_of_the_leaders_the_portable_and_those_in_the_references_format():
    speeds = {"fast": 100, "near": 90, "csr_slow": 30, "csr_slower": 20, "slow": 60, "none": 10}
    points = [Point("ours", {"n": 1, "variant": v}) for v in speeds] + [
        Point("ours", {"n": 1, "variant": "slow"}, Placement(1))
    ]

    def answered(point, process):
        work = series([1000] * 8, nbytes=speeds.get(point.params.get("variant"), 50))
        return record(point.benchmark, point.params, work, process=process, facts={"variant": "csr", "threads": 1})

    plan = interleave.interleave_peers((b for b in [points]), ours, (LIBRARY,), FAKE_DEVICE_INFO, Selection(leaders=True))
    first = next(plan)
    later = plan.send([answered(p, 0) for p in first])
    again = [(p.params["n"], p.params["variant"]) for p in later if p.benchmark == "ours" and p.processes > 1]
    assert again == [(1, "fast"), (1, "near"), (1, "csr_slow"), (1, "none")]
    assert [p.first for p in later if p.benchmark == "library"] == [1]
    everything = interleave.interleave_peers((b for b in [points]), ours, (LIBRARY,), FAKE_DEVICE_INFO, Selection())
    later = everything.send([answered(p, 0) for p in next(everything)])
    assert sum(p.benchmark == "ours" for p in later) == len(speeds)


def test_the_inner_plan_is_told_of_its_own_records_alone():
    told = []

    def plan():
        told.extend((yield POINTS))

    asked(interleave.interleave_peers(plan(), ours, (LIBRARY,), FAKE_DEVICE_INFO, Selection()))
    assert {r.benchmark for r in told} == {"ours"} and len(told) == 3 * len(POINTS)


def searches():
    """In a run with a budget: each point right after its search, and further processes at the end."""
    for n in range(1, 9):
        for variant in ("portable", "fast"):
            yield [Point("ours", {"n": n, "variant": variant}, role="tune")]
            yield [Point("ours", {"n": n, "variant": variant})]
    yield [Point("ours", {"n": 1, "variant": "fast"}, first=1, processes=4)]


def test_in_a_run_with_a_budget_programs_take_turns_rarely():
    library = reference("library", n=axis(*range(1, 9)))
    hurried = Selection(budget_s=100.0, processes=3)
    batches = asked(interleave.interleave_peers(searches(), ours, (library,), FAKE_DEVICE_INFO, hurried))
    every = {(n, v): [0, 1, 2] for n in range(1, 9) for v in ("portable", "fast")}
    assert processes(batches, "ours") == {**every, (1, "fast"): [0, 1, 2, 3]}
    assert processes(batches, "library") == {(n,): [0, 1, 2] for n in range(1, 9)}
    order = [(process, point.benchmark) for batch in batches for _, point, process in ordered_measurements(batch, 0, 1)]
    turns = [key for key, before in zip(order, [None, *order], strict=False) if key != before]
    first = [(0, "ours"), (0, "library")] * 2  # six of the library's eight points, and then two
    assert turns == [*first, (1, "ours"), (1, "library"), (2, "ours"), (2, "library"), (3, "ours")]


def test_what_a_reference_does_not_know_it_is_not_asked():
    points = [Point("ours", {"n": 1, "variant": "fast"}), Point("ours", {"n": 1, "variant": "portable"}, Placement(1))]
    batches = asked(interleave.interleave_peers((batch for batch in [points]), ours, (WORDS,), FAKE_DEVICE_INFO, Selection()))
    assert batches == [points]


def test_there_are_references_only_where_they_are_asked_for():
    names = interleave.peer_names(Selection(globs=("dgemm",)), CPU)
    assert names == ()
    assert "numpy_gemm" in interleave.peer_names(Selection(globs=("dgemm",), reference=True), CPU)
    assert "numpy_gemm" not in interleave.peer_names(Selection(globs=("dgemm",), reference=True), FAKE_DEVICE_INFO)
    with pytest.raises(ValueError, match="plan of its own"):
        from clmembench.plan.selection import selected_benchmarks

        selected_benchmarks(Selection(globs=("numpy_gemm",)))


def put_in(folder: Path, patch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A PATH that holds what is put there."""
    folder.mkdir()
    patch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def put(name: str, body: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return put


@pytest.fixture
def programs(tmp_path, monkeypatch):
    return put_in(tmp_path / "bin", monkeypatch)


SHAPE = ("-a", "width=4", "-a", "order=item", "-a", "nontemporal=0", "-a", "work_group=256")
STREAM = ("-b", "stream", "-s", "quick", "-a", "op=triad", "-a", "array_bytes=16MiB", *SHAPE)


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Iterator[tuple[Path, Ended]]:
    """A run with two references, of which one is garbage: its file, and what the command said. What it is measured with stays
    there."""
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch, brief_points():
        put = put_in(folder / "bin", patch)
        put("omp-stream", stream(NL.join(table(2 * MIB))))
        put("babelstream", "echo garbage")
        yield folder / "r.jsonl", cli("run", *STREAM, "--reference", "--processes", "2", "-o", str(folder / "r.jsonl"))


def test_a_run_with_references_keeps_both_and_shows_the_ratio(both, tmp_path):
    path, done = both
    assert done.returncode == 0  # another program's failure is not the device's
    run = jsonl.read(path)
    mine = [r for r in run.records if r.role == "measure"]
    assert [(r.benchmark, r.process) for r in mine if r.benchmark != "babelstream"] == [
        (name, process) for process in (0, 1) for name in ("stream", "omp_stream")
    ]
    assert all(is_measured(r) for r in mine if r.benchmark == "stream")
    assert {r.status for r in mine if r.benchmark == "omp_stream"} == {"ok"}
    assert {r.status for r in mine if r.benchmark == "babelstream"} == {"failed"}
    assert run.header.benchmarks["omp_stream"].peer_of == "stream"
    path = as_on_a_quiet_host(path, tmp_path / "settled.jsonl")
    out = call("show", path)[1]
    assert "Comparison with this host's peers" in out and "BabelStream OpenMP 5.0" in out
    assert "the program's own host clock, mean of 10 after the first" in out
    assert "babelstream: failed: babelstream: it does not say that it is BabelStream" in out
    # the ratio is that of the same processes
    code, out, _ = call("peers", path, "--json")
    line = next(entry for entry in json.loads(out)["lines"] if entry["benchmark"] == "stream")
    peer = next(p for p in line["peers"] if p["benchmark"] == "omp_stream")
    assert peer["ratio_low"] <= peer["ratio"] <= peer["ratio_high"]
    assert peer["median"] == pytest.approx(8.0, rel=1e-3)
    for form in (("show", path), ("peers", path), ("peers", path, "--md"), ("report", path, "-f", "html")):
        code, out, _ = call(*form)
        assert code == 0 and "BabelStream OpenMP 5.0" in out


def test_a_run_without_any_is_as_it_was(tmp_path, programs):
    path = tmp_path / "r.jsonl"
    code, out, _ = call("run", *STREAM, "--reference", "-o", path)
    assert code == 0 and "Comparison with" not in out
    assert {r.benchmark for r in jsonl.read(path).records} == {"stream"}


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_with_its_references(both, tmp_path):
    path = tmp_path / "r.jsonl"
    whole = both[0].read_text()
    path.write_text(whole)
    before = [(r.benchmark, r.process) for r in jsonl.read(path).records if r.role == "measure"]
    assert {name for name, process in before[-3:] if process == 1} == {"stream", "omp_stream", "babelstream"}
    path.write_text("".join(whole.splitlines(keepends=True)[:-3]))  # without the last of ours and of the references'
    code, _, _ = call("run", "--resume", path)
    assert code == 0
    assert [(r.benchmark, r.process) for r in jsonl.read(path).records if r.role == "measure"] == before


def test_a_dry_run_says_which_there_are(programs):
    programs("omp-stream", "exit 1")
    _, out, _ = call("run", *STREAM, "--reference", "--dry-run")
    assert "peers here: omp_stream" in out.replace("numpy_stream, ", "")
    assert "omp_stream" not in call("run", *STREAM, "--dry-run")[1]
    assert discovered()["omp_stream"].peer_of == "stream"
