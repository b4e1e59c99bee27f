"""Children that answer, die, hang and refuse: real processes on the fake device."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.analysis.derive import derive
from clmembench.benchmarks import discovered, named
from clmembench.host.processes import pin_threads
from clmembench.measure import runner, worker_process
from clmembench.measure.job import Job, ProbeResult, job_line, parse_job
from clmembench.measure.runner import run_selection, run_selections
from clmembench.measure.worker_process import WorkerError, WorkerProcess
from clmembench.model import Cause, Placement, Point, Record, Run
from clmembench.plan import estimate
from clmembench.plan.budget import Budget, Deadline
from clmembench.plan.estimate import estimate_run
from clmembench.plan.selection import Selection, selected_benchmarks
from clmembench.plan.sweep import benchmark_card
from clmembench.results.jsonl import decode_record
from clmembench.results.tuned import unfinished_note
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import header, series
from tests.faulty import within

FAST = Budget(min_time_s=0.0, max_time_s=0.01, max_noise=0.5, slope_ns=1e3)
FOUND = ProbeResult(FAKE_DEVICE_INFO.features, 1.0, "test", 1.0)
POINT = Point("launch", {"groups": 1})


def job(benchmark: str = "launch") -> Job:
    return Job(
        "fake", FAKE_DEVICE_INFO, benchmark, budget=FAST, features=FAKE_DEVICE_INFO.features, cycles_per_op=1.0, origin="test"
    )


def of_launch(timeout_s: float = 60.0, globs: tuple[str, ...] = ("launch",)):
    selection = Selection(suite="all", globs=globs, axes={"groups": (1, 2, 4)}, timeout_s=timeout_s)
    return list(run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_child_answers_with_a_record_of_its_point():
    with WorkerProcess(job()) as child:
        record = child.measure(POINT, 60)
    # the fake device runs nothing, so the kernel's token is missing: the check must notice
    assert record.status == "wrong"
    assert "did not run" in record.reason
    assert record.series == ()
    assert record.params == {"groups": 1}
    assert record.sources


def test_a_job_is_read_as_it_was_written_and_claims_at_their_defaults_are_not_sent():
    """A worker of an older version knows no claims that were added since."""
    job = Job(
        "fake",
        replace(FAKE_DEVICE_INFO, local_mem_type=""),
        "launch",
        Placement(2, (0, 1), "compact", 1),
        features=frozenset({"fp64"}),
    )
    line = json.loads(job_line(job))
    assert "local_mem_type" not in line["device"] and "name" in line["device"]
    assert parse_job(line) == job
    whole = replace(job, device=replace(job.device, local_mem_type="global", sub_group_items=8))
    assert parse_job(json.loads(job_line(whole))) == whole


def test_a_child_probes_and_a_fake_device_proves_nothing():
    with WorkerProcess(Job("fake", FAKE_DEVICE_INFO)) as child:
        found = child.probe()
    # ticks and stores never arrive, so what INFO claims of them is not believed
    assert not {"ptx", "tsc"} & (found.features - FAKE_DEVICE_INFO.features)
    assert "fp64" not in found.features
    assert found.cycles_per_op is None


def test_a_segfault_costs_its_points_and_names_the_signal(monkeypatch):
    monkeypatch.setenv("CLMEMBENCH_FAKE_FAULT", "segfault:mark")
    records = of_launch()
    assert [r.status for r in records] == ["failed"] * 3
    assert "SIGSEGV" in records[0].reason
    assert "not tried" in records[2].reason


def test_a_shape_whose_trial_ends_its_process_costs_only_itself(monkeypatch):
    # every launch of stream's kernel crashes: each shape is tried once, and no trial counts against the benchmark
    monkeypatch.setenv("CLMEMBENCH_FAKE_FAULT", "segfault:stream")
    axes = {"op": ("copy", "write"), "dtype": ("float",), "array_bytes": (1 << 20,), "order": ("item",), "nontemporal": (0,)}
    selection = Selection(globs=("stream",), axes=axes, processes=1)
    records = list(run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection))
    trials = [r for r in records if r.role == "tune"]
    shapes = {"order", "nontemporal", "width", "work_group"}
    crashed = [tuple(r.params[n] for n in sorted(shapes)) for r in trials if "SIGSEGV" in r.reason]
    assert crashed
    assert len(set(crashed)) == len(crashed)
    assert any("this configuration has ended its process" in r.reason for r in trials)
    measured = [r for r in records if r.role == "measure"]
    assert all("SIGSEGV" in r.reason for r in measured)


def test_a_child_that_cannot_be_started_is_a_failed_point(monkeypatch):
    def full() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    records = of_launch()
    assert {r.status for r in records} == {"failed"}
    assert "no process could be started" in records[0].reason


def test_a_hang_is_ended_and_the_run_goes_on(monkeypatch):
    monkeypatch.setenv("CLMEMBENCH_FAKE_FAULT", "hang:mark")
    records = of_launch(timeout_s=3.0, globs=("launch", "barrier"))
    launches = [r for r in records if r.benchmark == "launch"]
    assert [r.status for r in launches] == ["timeout", "timeout", "failed"]
    assert "no answer within 3 s" in launches[0].reason
    others = [r for r in records if r.benchmark == "barrier"]
    assert others
    assert all(r.status == "wrong" for r in others)


def test_a_refusal_is_a_failed_point_and_the_child_lives_on(monkeypatch):
    monkeypatch.setenv("CLMEMBENCH_FAKE_FAULT", "refuse:mark")
    records = of_launch()
    assert [(r.status, r.reason) for r in records] == [("failed", "the fake device refuses")] * 3


def test_a_child_that_is_killed_from_outside_is_a_failed_point():
    with WorkerProcess(job()) as child:
        child.measure(POINT, 60)
        os.kill(child._process.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="SIGKILL"):
            child.measure(POINT, 60)


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.write('x' * (9 << 20)); sys.stdout.flush(); sys.stdin.read()",
        "import sys; print('[' * 100000); sys.stdout.flush(); sys.stdin.read()",
        "import sys; print('[1]'); sys.stdout.flush(); sys.stdin.read()",
        "import sys; print('{\"features\": []}'); sys.stdout.flush(); sys.stdin.read()",
        "import sys; print('nothing'); sys.stdout.flush(); sys.stdin.read()",
    ],
    ids=["endless", "deep", "a list", "half", "a word"],
)
def test_what_is_no_answer_is_a_child_error_and_ends_the_child(monkeypatch, code):
    start = subprocess.Popen

    def other(command, **options):
        return start([sys.executable, "-c", code], **options)

    monkeypatch.setattr(subprocess, "Popen", other)
    child = WorkerProcess(Job("fake", FAKE_DEVICE_INFO))
    with pytest.raises(WorkerError, match="something that is no answer"):
        child.probe()
    assert child._process.poll() is not None


def test_a_missing_feature_is_skipped_without_a_child():
    found = ProbeResult(frozenset(), None, "", 1.0)
    selection = Selection(globs=("stream",), axes={"op": ("write",), "dtype": ("double",), "order": ("item",)})
    records = list(run_selection("fake", FAKE_DEVICE_INFO, found, selection))
    assert {(r.status, r.reason) for r in records} <= {
        ("skipped", "device has no fp64"),
        ("skipped", "device has no fp64, nontemporal"),
    }
    assert records


def test_a_spent_budget_skips_what_is_left_and_says_so():
    selection = Selection(suite="all", globs=("launch",), budget_s=1e-9)
    records = list(run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection))
    assert {(r.status, r.reason) for r in records} == {("skipped", "the run's --budget was spent")}


@pytest.mark.parametrize("several", [False, True])
def test_a_budget_is_shared_among_the_benchmarks_of_a_run(monkeypatch, several):
    """A measurement takes a second here. The budget allows a fraction of the points, and each benchmark gets its share, whether
    one selection names it or one of several."""
    now = [0.0]

    def measured(self, point, process):
        now[0] += 1.0
        over = self._deadline.is_over()
        cause = Cause.BUDGET if over else Cause.NONE
        return Record(point.benchmark, 1, point.params, point.place, process, "skipped" if over else "ok", cause=cause)

    monkeypatch.setattr(runner._Attempts, "record", measured)
    after = Deadline.after
    monkeypatch.setattr(Deadline, "after", lambda seconds, clock=lambda: now[0]: after(seconds, clock))
    memory = Selection(suite="memory", budget_s=60.0)
    alone = [replace(memory, suite="all", globs=(b.name,)) for b in selected_benchmarks(memory)]
    selections = alone if several else [memory]
    records = list(run_selections("fake", FAKE_DEVICE_INFO, FOUND, selections, 60.0))
    counts = Counter(r.benchmark for r in records if r.status == "ok")
    assert sum(counts.values()) == 59 and set(counts) == {r.benchmark for r in records}
    ended = {name for name, count in counts.items() if count == sum(r.benchmark == name for r in records)}
    assert ended < set(counts)  # some were cut short, and those had as much time as the others
    assert max(counts[name] for name in set(counts) - ended) <= 4 * min(counts[name] for name in set(counts) - ended)


def test_leaving_a_run_early_leaves_no_child_behind():
    others = {int(p) for p in children(os.getpid())}  # of other tests, such as Python's own tracker of a pool's resources
    records = run_selection("fake", FAKE_DEVICE_INFO, FOUND, Selection(suite="all", globs=("launch",)))
    next(records)
    before = {int(p) for p in children(os.getpid())} - others
    assert before
    records.close()
    assert not any(alive(pid) and pid in map(int, children(os.getpid())) for pid in before)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_child_ends_when_its_parent_is_killed():
    code = (
        "from tests.measure.test_worker_process import *\n"
        "child = WorkerProcess(job()); child.measure(POINT, 60); print(child._process.pid, flush=True)\n"
        "import time; time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 200
    while alive(pid) and time.monotonic() < deadline:
        if state(pid) in ("Z", ""):
            break
        time.sleep(0.05)
    assert not alive(pid) or state(pid) == "Z"


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_child_runs_on_the_cpus_of_its_place_and_sees_as_many_compute_units(monkeypatch):
    # the fake device is told by a CPU's child how many threads to have; its own mask is what the system says of it
    cpu = max(os.sched_getaffinity(0))
    with WorkerProcess(replace(job(), place=Placement(1, (cpu,), "compact"))) as child:
        record = child.measure(POINT, 60)
        assert os.sched_getaffinity(child._process.pid) == {cpu}
    assert record.place == Placement(1, (cpu,), "compact")
    held = Placement(1, (cpu,), "compact").seen(replace(FAKE_DEVICE_INFO, kind="cpu"))
    assert (held.compute_units, held.work_groups) == (1, None)
    assert (Placement(3).seen(FAKE_DEVICE_INFO).compute_units, Placement(3).seen(FAKE_DEVICE_INFO).work_groups) == (
        FAKE_DEVICE_INFO.compute_units,
        3,
    )
    assert Placement().seen(FAKE_DEVICE_INFO) is FAKE_DEVICE_INFO


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_each_placement_on_a_cpu_has_a_process_and_numbers_of_work_groups_share_one(monkeypatch, kind):
    started, start = [], WorkerProcess.__init__

    def noted(self, job):
        started.append(job.place)
        start(self, job)

    monkeypatch.setattr(WorkerProcess, "__init__", noted)
    info = replace(FAKE_DEVICE_INFO, kind=kind)
    axes = {"compute_units": (1, 2), "op": ("copy",), "array_bytes": (4096,), "width": (1,), "order": ("item",)}
    records = list(run_selection("fake", info, FOUND, Selection(suite="all", globs=("stream",), axes=axes, processes=1)))
    assert started == [Placement(1), Placement(2)][: None if kind == "cpu" else 1]
    assert {r.place for r in records} == {Placement(1), Placement(2)}


def test_what_is_known_of_a_run_is_not_measured_again_and_answers_the_plan():
    first = of_launch()
    cut = [replace(r, status="skipped", cause=Cause.BUDGET) if r.params["groups"] == 4 else r for r in first]
    selection = Selection(suite="all", globs=("launch",), axes={"groups": (1, 2, 4)}, timeout_s=60.0)
    again = list(run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection, cut))
    # what was skipped for want of time is no answer
    assert [r.params["groups"] for r in again] == [4]
    assert again[0].status == "wrong"  # as the fake device has it
    assert list(run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection, first)) == []


def test_a_resumed_search_that_finds_the_same_configuration_renews_its_note(monkeypatch):
    def run(known=()):
        return list(run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection, known))

    def measured(_, point, limit_s):
        samples = (series([100] * 8, nbytes=1000),)
        return Record(point.benchmark, 1, point.params, point.place, 0, "ok", series=samples, role=point.role, seconds=1.0)

    monkeypatch.setattr(runner.WorkerSlot, "measure", lambda slot, job, *asked: measured(job, *asked))
    axes = {"op": ("copy",), "dtype": ("double",), "array_bytes": (4096,)}
    selection = Selection(suite="all", globs=("stream",), axes=axes, processes=1)
    *trials, winner = run()
    assert len(trials) > 2 and {r.role for r in trials} == {"tune"} and winner.role == "measure"

    def interrupted(done):
        cut = [replace(r, status="skipped", cause=Cause.BUDGET) for r in trials[done:]]
        return [*trials[:done], *cut, replace(winner, notes=("kept", unfinished_note(len(cut), len(trials))))]

    first = interrupted(1)
    *again, last = run(first)
    assert again == trials[1:] and last == replace(winner, notes=("kept",), seconds=0.0)
    assert run([*first, *again, last]) == [] == run([*trials, winner])
    head = header(cards={"stream": benchmark_card(discovered()["stream"])})
    assert {value.notes for value in derive(Run("x", head, (*first, *again, last)))} == {("kept",)}


def test_workers_are_held_to_a_cpu_each_where_they_are_as_many(monkeypatch):
    held = {}
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cpus: held.update({thread: cpus}), raising=False)
    pin_threads((4, 6), {101, 100})
    assert held == {100: {4}, 101: {6}}
    held.clear()
    pin_threads((4, 6), {100, 101, 102})
    pin_threads((), set())
    assert held == {}


def test_an_answer_that_is_there_counts_however_late_it_is_read():
    """As after Ctrl-Z and fg: the run stood still for longer than --timeout, and its child did not."""
    with WorkerProcess(job()) as child:
        child.measure(POINT, 60)
        child._send('{"params": {"groups": 2}, "role": "measure"}')
        selector = selectors.DefaultSelector()
        selector.register(child._process.stdout, selectors.EVENT_READ)
        assert selector.select(60)
        assert decode_record(child._answer(0.0)).params == {"groups": 2}
        # and the child lives on
        assert child.measure(POINT, 60).params == {"groups": 1}


STOPPED = """
from tests.measure.test_worker_process import *
with WorkerProcess(job()) as child:
    own = child._process
    late = "import pathlib, sys, time; time.sleep(1); print('late', flush=True); pathlib.Path(sys.argv[1]).touch(); "
    late += "time.sleep(600)"
    child._process = subprocess.Popen([sys.executable, "-c", late, sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True)
    print("asks", flush=True)
    try:
        print(child._answer(2.0), flush=True)
    finally:
        child._process.kill()
        child._process = own
"""


def test_an_answer_that_comes_while_this_process_is_stopped_counts(tmp_path):
    """The system then says that the time to wait is up, and not that there is something to be read."""
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "answered")]
    asker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert asker.stdout.readline() == "asks\n"
    time.sleep(0.3)
    asker.send_signal(signal.SIGSTOP)
    time.sleep(2.5)  # longer than it waits
    assert within(200, (tmp_path / "answered").exists)
    asker.send_signal(signal.SIGCONT)
    assert asker.communicate(timeout=200)[0] == "b'late'\n"


LONG = "print('{' + 'x' * (1 << 20) + '}', flush=True); import time; time.sleep(600)"


def test_a_late_answer_that_fills_the_pipe_is_read_to_its_end():
    with WorkerProcess(job()) as child:
        own = child._process
        other = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, start_new_session=True)
        try:
            child._process = other
            selector = selectors.DefaultSelector()
            selector.register(other.stdout, selectors.EVENT_READ)
            assert selector.select(60)
            assert len(child._answer(0.0)) == (1 << 20) + 2
        finally:
            child._process = own
            other.kill()
            other.wait()
            other.stdout.close()


def test_without_an_answer_the_limit_holds():
    with WorkerProcess(job()) as child:
        child.measure(POINT, 60)
        with pytest.raises(WorkerError, match=r"no answer within 0\.2 s"):
            child._answer(0.2)


@pytest.mark.parametrize("ask", [lambda child: child.measure(POINT, 0.5), lambda child: child.probe(0.5)])
def test_a_child_that_is_stopped_while_it_starts_costs_no_more_than_a_points_time(monkeypatch, ask):
    monkeypatch.setattr(worker_process, "START_S", 10_000.0)  # which a child that works may take
    with WorkerProcess(job()) as child:
        os.kill(child._process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerError, match=r"no answer within 0\.5 s: its process was stopped") as error:
            ask(child)
        assert error.value.status == "timeout" and child._process.poll() is not None


def test_a_child_that_is_stopped_and_goes_on_measures():
    with WorkerProcess(job()) as child:
        os.kill(child._process.pid, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (child._process.pid, signal.SIGCONT)).start()
        assert child.measure(POINT, 60).params == {"groups": 1}


FORKING = """
import os
from clmembench.benchmarks import axis, benchmark
from clmembench.model import Device, Metric, Work
from clmembench.model import Launch
import numpy as np
from clmembench.runtimes.fake import FakeKernel

@benchmark(Metric("time", "ns", "ops", "cost", "lower"), suite="own", source="this project", w=axis(1, 2, 3, 4))
def forking(device: Device, w: int) -> Work:
    '''Leaves a copy of its process behind.'''
    {fork}
    return Work(commands=(Launch(FakeKernel("k"), (np.uint32(w),), (1,), (1,)),), ops=w, check=lambda: None)
"""


@pytest.mark.parametrize("fork", ["os.fork()", "import ctypes; ctypes.CDLL(None).fork()"], ids=["Python", "C"])
def test_a_benchmark_that_forks_leaves_no_copy_that_answers_or_takes_questions(tmp_path, fork):
    (tmp_path / "forking.py").write_text(FORKING.format(fork=fork))
    with WorkerProcess(replace(job("forking"), folders=(str(tmp_path),))) as child:
        records = [child.measure(Point("forking", {"w": w}), 60) for w in (1, 2, 3, 4, 4, 1)]
    assert [(r.params["w"], r.series[0].ops) for r in records] == [(w, w) for w in (1, 2, 3, 4, 4, 1)]


@pytest.mark.parametrize("line", [b"0 {}", b"7 {}", b"{}", b"printed by a driver", b""])
def test_an_answer_without_the_number_of_its_question_is_refused(monkeypatch, line):
    with WorkerProcess(job()) as child:
        answer = child._answer
        child.measure(POINT, 60)
        monkeypatch.setattr(child, "_answer", lambda *limits: (answer(*limits), line)[1])
        with pytest.raises(WorkerError, match="something that is no answer to this point"):
            child.measure(POINT, 60)
        assert child._process.poll() is not None


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_one_process_measures_several_benchmarks_until_a_point_fails(monkeypatch, kind):
    """A further process of a point is a new one, and so is the one after a failure."""
    started = stubbed(monkeypatch)
    firsts = [(name, 0, "ok") for name in ("launch", "launch_wait", "stream")]
    others = [("stream", 1, "ok"), ("stream", 0, "ok"), ("barrier", 0, "failed"), ("barrier", 0, "ok"), ("atomic", 0, "ok")]
    last = [("launch_call", 0, "ok"), ("transpose", 0, "ok")]  # the first of these is declared to be fresh
    with runner.WorkerSlot(isolated=True) as slot:
        for name, process, status in (*firsts, *others, *last):
            other = replace(job(name), process=process, device=replace(FAKE_DEVICE_INFO, kind=kind))
            slot.measure(other, Point(name, {"status": status}), 1.0)
    assert started == [("launch", 0), ("stream", 1), ("stream", 0), ("atomic", 0), ("launch_call", 0)]


def test_a_worker_process_goes_on_with_another_benchmark():
    with WorkerProcess(job()) as child:
        first = child.measure(POINT, 60)
        child.move(job("launch_wait"))
        second = child.measure(replace(POINT, benchmark="launch_wait"), 60)
    assert (first.benchmark, second.benchmark, second.cause) == ("launch", "launch_wait", first.cause)


def stubbed(monkeypatch) -> list[tuple[str, int]]:
    """Has worker processes answer at once; of each that starts, its first benchmark and its number."""
    started: list[tuple[str, int]] = []

    class Stub:
        def __init__(self, job):
            self.job = job
            started.append((job.benchmark, job.process))

        def move(self, job):
            self.job = job

        def rest(self):
            pass

        def measure(self, point, limit_s):
            return Record(point.benchmark, 1, point.params, point.place, self.job.process, point.params.get("status", "ok"))

        def end(self):
            pass

    monkeypatch.setattr(runner, "WorkerProcess", Stub)
    return started


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_benchmarks_share_their_further_processes_too(monkeypatch, kind):
    started = stubbed(monkeypatch)
    info, names = replace(FAKE_DEVICE_INFO, kind=kind), ("launch", "launch_wait")
    selection = Selection(globs=names, axes={"groups": (1, 2)}, processes=3)
    order = [(record.benchmark, record.process) for record in run_selection("fake", info, FOUND, selection)]
    assert order == [(name, process) for process in range(3) for name in names for _ in range(2)]
    assert started == [("launch", process) for process in range(3)]
    assert len(started) == sum(one.processes for one in estimate_run(info, selection).benchmarks)


@pytest.mark.parametrize(("kind", "dies"), [("gpu", False), ("gpu", True), ("cpu", False)])
def test_peers_have_a_process_beside_ours_and_the_idle_one_holds_no_memory(monkeypatch, kind, dies):
    """Ours and the peers take turns; on a CPU, where an idle process may wait busily, one ends before the other starts."""
    seen: list[str] = []
    alive: list[object] = []

    class Stub:
        def __init__(self, job):
            self.job, self.name = job, f"{job.benchmark} {job.process}"
            seen.append(f"start {self.name}")
            alive.append(self)
            assert len(alive) <= (1 if kind == "cpu" else 2)

        def move(self, job):
            self.job = job

        def rest(self):
            seen.append(f"rest {self.name}")
            if dies:
                raise WorkerError("gone", Cause.PROCESS_DIED)

        def measure(self, point, limit_s):
            return Record(point.benchmark, 1, {}, point.place, self.job.process, "ok")

        def end(self):
            alive.remove(self)

    monkeypatch.setattr(runner, "WorkerProcess", Stub)
    order = [("stream", 0), ("stream", 0), ("cuda_copy", 0), ("reduction", 0), ("cub_sum", 0), ("stream", 1), ("cuda_copy", 1)]
    with runner.WorkerSlot(isolated=True) as slot:
        for name, process in order:
            other = replace(job(name), process=process, device=replace(FAKE_DEVICE_INFO, kind=kind))
            slot.measure(other, Point(name, {}), 1.0)
    starts = [what.removeprefix("start ") for what in seen if what.startswith("start")]
    if kind == "cpu" or dies:
        assert starts == ["stream 0", "cuda_copy 0", "reduction 0", "cub_sum 0", "stream 1", "cuda_copy 1"]
    else:
        assert starts == ["stream 0", "cuda_copy 0", "stream 1", "cuda_copy 1"]
        rests = [what.removeprefix("rest ") for what in seen if what.startswith("rest")]
        assert rests == ["stream 0", "cuda_copy 0", "stream 0", "cuda_copy 0", "stream 1"]
    assert not alive


def test_where_a_gpu_is_one_processs_at_a_time_the_idle_one_ends(monkeypatch):
    """As in NVIDIA's mode EXCLUSIVE_PROCESS, which clusters set; then it is not tried again in this run."""
    started, alive = list[str](), list[object]()

    class Exclusive:
        def __init__(self, job):
            self.job = job
            started.append(job.benchmark)
            alive.append(self)

        def move(self, job):
            self.job = job

        def rest(self):
            pass

        def measure(self, point, limit_s):
            if len(alive) > 1 or point.benchmark == "atomic":
                raise WorkerError("the device cannot be opened", Cause.DEVICE_UNAVAILABLE)
            return Record(point.benchmark, 1, {}, point.place, self.job.process, "ok")

        def end(self):
            alive.remove(self)

    monkeypatch.setattr(runner, "WorkerProcess", Exclusive)
    with runner.WorkerSlot(isolated=True) as slot:
        for name in ("stream", "cuda_copy", "cuda_copy", "stream"):
            slot.measure(replace(job(name), device=replace(FAKE_DEVICE_INFO, kind="gpu")), Point(name, {}), 1.0)
        assert started == ["stream", "cuda_copy", "cuda_copy", "stream"] and len(alive) == 1
        with pytest.raises(WorkerError, match="cannot be opened"):  # by itself neither
            slot.measure(replace(job("atomic"), device=replace(FAKE_DEVICE_INFO, kind="gpu")), Point("atomic", {}), 1.0)


def test_a_worker_process_that_rests_goes_on():
    with WorkerProcess(job()) as child:
        first = child.measure(POINT, 60)
        child.rest()
        assert child.measure(POINT, 60).cause == first.cause
        child._process.kill()
        with pytest.raises(WorkerError):
            child.rest()


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_rounds_of_peers_go_over_all_benchmarks_and_the_estimate_knows_their_starts(monkeypatch, kind):
    started = stubbed(monkeypatch)
    peers = {"launch": (named("clpeak_launch"),), "launch_wait": (named("clpeak_wait"),)}
    for module in (runner, estimate):
        monkeypatch.setattr(module, "available_peers", lambda benchmark, info: peers[benchmark.name])
    info, names = replace(FAKE_DEVICE_INFO, kind=kind), ("launch", "launch_wait")
    selection = Selection(globs=names, axes={"groups": (1024,)}, processes=3, reference=True)
    order = [(record.benchmark, record.process) for record in run_selection("fake", info, FOUND, selection)]
    each = [(name, peers[name][0].name) for name in names]
    assert order == [(name, process) for process in range(3) for pair in each for name in pair]
    assert started == (order if kind == "cpu" else [(name, process) for process in range(3) for name in each[0]])
    assert len(started) == sum(one.processes for one in estimate_run(info, selection).benchmarks)


def test_threads_that_a_check_leaves_sleep_beside_our_samples_and_a_librarys_own_stay_as_they_are(monkeypatch):
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    seen = {}
    for name in ("", "launch", "numpy_gemm"):
        with WorkerProcess(job(name)) as child:
            seen[name] = child._variables.get("OPENBLAS_THREAD_TIMEOUT")
    assert seen == {"": "4", "launch": "4", "numpy_gemm": None}
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")  # of the user
    with WorkerProcess(job()) as child:
        assert child._variables["OPENBLAS_THREAD_TIMEOUT"] == "20"
