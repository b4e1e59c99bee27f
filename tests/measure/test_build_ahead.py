"""Programs that several processes build before a run: which they are, what comes back, and what a failure costs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import build_ahead, runner
from clmembench.measure.job import Job, ProbeResult, Program, job_line, parse_job
from clmembench.measure.worker_process import WorkerError, WorkerProcess
from clmembench.model import Cause, Point, Record
from clmembench.plan.measurements import walked_points
from clmembench.plan.selection import Selection, measuring_order
from clmembench.plan.sweep import explore
from clmembench.runtimes.fake import FAKE_DEVICE_INFO as FAKE
from clmembench.runtimes.opencl import device as opencl_device
from tests.builders import open_cpu

NVIDIA = replace(FAKE, kind="gpu", features=FAKE.features | {"nvidia", "ptx"}, global_mem_bytes=1 << 35)
FOUND = ProbeResult(FAKE.features, 1.0, "test", 1.0)
ALL = Selection()


def programs(name, info=NVIDIA):
    benchmark = discovered()[name]
    points = walked_points(explore(benchmark, info, ALL), benchmark, info)
    return points, list(build_ahead.collect_programs([(benchmark, points)], info, 0))


def test_each_program_is_collected_once_with_the_kernels_whose_facts_are_asked_for():
    points, found = programs("private_array")
    assert len(found) == len(set(found)) == len(points) and {program.kernels for program in found} == {
        ("add",),
        ("matmul",),
        ("sort",),
    }
    points, found = programs("atomic")
    assert 1 < len(found) < len(points) and not any(program.kernels for program in found)
    assert any(program.is_ptx and program.kernels for program in programs("dgemm")[1])


def test_a_preparation_that_needs_a_result_or_fails_ends_there():
    def prepare(device, n):
        device.build("first", N=n)
        device.upload(device.alloc(4), None)
        device.download(None, "u4", 1)
        device.build("never")

    def broken(device, n):
        raise ZeroDivisionError

    launch = discovered()["launch"]
    first = walked_points(explore(launch, NVIDIA, ALL), launch, NVIDIA)[:2]
    points = [replace(point, params={"n": n}) for n, point in enumerate(first)]
    both = [(replace(launch, prepare=one), points) for one in (broken, prepare, prepare)]
    assert list(build_ahead.collect_programs(both, NVIDIA, 0)) == [Program("first", (("N", n),)) for n in range(2)]


@pytest.mark.parametrize(
    ("info", "cpus", "wanted"),
    [
        (NVIDIA, 16, 15),
        (NVIDIA, 6, 5),
        (NVIDIA, 2, 0),
        (replace(NVIDIA, global_mem_bytes=1 << 31), 16, 2),
        (replace(NVIDIA, features=FAKE.features), 16, 0),
        (replace(NVIDIA, kind="cpu"), 16, 0),
    ],
)
def test_builders_need_a_cache_that_processes_share_and_cpus(monkeypatch, info, cpus, wanted):
    monkeypatch.setattr(build_ahead, "usable_cpus", lambda: range(cpus))
    assert build_ahead._builders(info) == wanted


@pytest.mark.parametrize(
    ("globs", "left_s", "is_built"), [((), math.inf, True), ((), 60.0, False), (("launch",), math.inf, False)]
)
def test_only_a_long_run_has_its_programs_built_ahead(monkeypatch, globs, left_s, is_built):
    monkeypatch.setattr(build_ahead, "usable_cpus", lambda: range(16))
    monkeypatch.setattr(build_ahead, "_build", lambda job, programs, *_: {str(programs.get()): {}})
    job, chosen = Job("fake", NVIDIA, "launch"), measuring_order([Selection(globs=globs)], False)
    assert bool(build_ahead.build_programs(job, chosen, left_s)) == is_built


@pytest.fixture(scope="module")
def pocl():
    return open_cpu()


def test_processes_build_programs_of_a_device_and_their_facts_are_not_compiled_again(pocl, monkeypatch):
    monkeypatch.setattr(build_ahead, "_builders", lambda info: 2)
    monkeypatch.setattr(build_ahead, "MIN_POINTS", 1)
    broken = "kernel void broken(global int *a) { a[0] = nothing; }"
    sound = "kernel void sound(global int *a) { a[0] = A; }"
    wanted = [Program(broken, kernels=("broken",)), *(Program(sound, (("A", n),), kernels=("sound",)) for n in range(4))]
    monkeypatch.setattr(build_ahead, "collect_programs", lambda *_: wanted)
    chosen = measuring_order([Selection(globs=("launch",))], False)
    facts = build_ahead.build_programs(Job("opencl", pocl.info, "launch"), chosen, math.inf)
    assert len(facts) == 4
    monkeypatch.setattr(opencl_device, "compile_program", lambda *_: pytest.fail("it is compiled again"))
    pocl.known_facts.update(facts)
    assert pocl.compiled(pocl.build(sound, A=3)["sound"])["work_group_max"] >= 1


def test_a_builder_that_dies_leaves_its_programs_to_the_others(monkeypatch):
    class Stub:
        def __init__(self, job):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def build(self, program, timeout_s):
            if program.source == "deadly":
                raise WorkerError("its process died", Cause.PROCESS_DIED)
            return {program.source: {}}

    monkeypatch.setattr(build_ahead, "WorkerProcess", Stub)
    monkeypatch.setattr(build_ahead, "_builders", lambda info: 2)
    monkeypatch.setattr(build_ahead, "collect_programs", lambda *_: [Program(s) for s in ("deadly", "a", "b", "c")])
    job, chosen = Job("fake", NVIDIA, "launch"), measuring_order([ALL], False)
    assert set(build_ahead.build_programs(job, chosen, math.inf)) == {"a", "b", "c"}


def test_facts_reach_the_worker_processes_of_a_run_and_not_those_of_a_resumed_one(monkeypatch):
    facts, seen = {"key": {"registers": 7}}, []
    monkeypatch.setattr(runner, "build_programs", lambda job, chosen, left_s: facts)

    class Stub:
        def __init__(self, job):
            self.job = job

        def measure(self, point, limit_s):
            seen.append(self.job.facts)
            return Record(point.benchmark, 1, point.params, point.place, 0, "ok")

        def end(self):
            pass

    monkeypatch.setattr(runner, "WorkerProcess", Stub)
    selection = Selection(globs=("launch",), axes={"groups": (1, 2)})
    (first, _) = runner.run_selection("fake", FAKE, FOUND, selection)
    assert seen == [facts, facts]
    list(runner.run_selection("fake", FAKE, FOUND, selection, [first]))
    assert seen[2:] == [{}]


def test_a_job_carries_facts_and_one_without_names_none():
    job = Job("fake", FAKE, "launch", facts={"key": {"registers": 7}})
    assert parse_job(json.loads(job_line(job))).facts == job.facts
    assert "facts" not in job_line(replace(job, facts={}))


def test_a_worker_process_that_has_built_still_measures():
    with WorkerProcess(Job("fake", FAKE, "launch", features=FAKE.features, cycles_per_op=1.0, origin="test")) as worker:
        assert worker.build(Program("kernel void a() {}"), 60.0) == {}
        assert worker.measure(Point("launch", {"groups": 1}), 60.0).benchmark == "launch"
