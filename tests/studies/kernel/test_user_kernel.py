"""A user's kernel: its launch as text and as parameters, and its time on a device with the data that it began with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.gates import cpu_share
from clmembench.measure import worker_process
from clmembench.model import Copy, Local, Skip
from clmembench.runtimes import runtime
from clmembench.studies.kernel.launch import KernelLaunch, LaunchError, argument
from clmembench.studies.kernel.measured import measure, point_of
from tests.cases import each

ADD = "kernel void add(global uint *sums, global const uint *ones) { sums[get_global_id(0)] += ones[get_global_id(0)] + N; }"


@pytest.fixture
def launch(tmp_path) -> KernelLaunch:
    source, ones = tmp_path / "a file.cl", tmp_path / "ones.npy"
    source.write_text(ADD)
    np.save(ones, np.ones((4, 16), np.uint32))
    return KernelLaunch(source, "add", (64,), (16,), ("buffer:256", f"file:{ones}"), {"N": "7"})


def test_a_launch_is_the_same_as_parameters(launch):
    assert KernelLaunch.of_params(launch.params()) == launch


@each("sizes", [((64,), (48,)), ((64, 64), (8,)), ((0,), None), ((8, 8, 8, 8), None)])
def test_sizes_that_no_device_launches_are_refused(sizes):
    with pytest.raises(LaunchError, match="--global"):
        KernelLaunch(Path("x.cl"), "x", *sizes, ())


def test_arguments_are_bytes_numbers_and_local_memory(tmp_path):
    assert argument("local:4KiB") == Local(4096)
    assert argument("uint:0x10") == np.uint32(16) and argument("double:1e-3") == np.float64(1e-3)
    assert argument("float3:1,2,3").tobytes() == np.float32([1, 2, 3, 1]).tobytes()
    assert not argument("buffer:1KiB").any() and argument("buffer:1KiB").nbytes == 1024
    random = argument("buffer:1KiB:random").view(np.float32)
    assert random.size == 256 and 0 <= random.min() < random.max() < 1


@each("text", ["buffer:", "buffer:4:ones", "int:x", "char:300", "float4:1", "int5:1,2,3,4,5", "file:none.npy", "nonsense"])
def test_an_argument_that_cannot_be_meant_names_what_can(text):
    with pytest.raises(LaunchError, match=r"--arg .*: not buffer:SIZE"):
        argument(text)


def test_every_pass_starts_from_the_same_data(launch):
    device = runtime("opencl").open(runtime("opencl").devices()[0])
    work = discovered()["user_kernel"].prepare(device, **launch.params())
    (restored,) = work.before
    assert isinstance(restored, Copy)
    for _ in range(3):
        device.run([*work.before, *work.commands])
    assert (device.download(restored.dst, np.uint32, 64) == 8).all()


def test_a_kernel_that_is_not_there_is_told(launch):
    device = runtime("opencl").open(runtime("opencl").devices()[0])
    with pytest.raises(Skip, match="no kernel 'sub', only add"):
        discovered()["user_kernel"].prepare(device, **{**launch.params(), "kernel": "sub"})


def test_a_crash_ends_its_own_launch_alone(launch, tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_share, "is_disturbed", lambda *_: False)  # this test is not of the time
    crash = tmp_path / "crash.cl"
    crash.write_text("kernel void crash(global int *p) { p[(long)1 << 40] = 1; }")
    broken = KernelLaunch(crash, "crash", (1,), (1,), ("buffer:4",))
    failed, timed = measure(runtime("opencl").devices()[0], [point_of(broken), point_of(launch)], 60)
    assert failed.ns is None and "SIGSEGV" in failed.reason
    assert (timed.ns is not None and timed.ns.value > 0) or "the core clock drifted" in timed.reason, timed


def test_a_time_beside_other_programs_is_no_value(launch, monkeypatch):
    whole = worker_process.WorkerProcess.measure
    busy = {"cpu_waited": 0.9, "cpu_others": 0.9, "core_clock": None}  # whose drift beside this test would be named first
    monkeypatch.setattr(worker_process.WorkerProcess, "measure", lambda *args: replace(whole(*args), **busy))
    (timed,) = measure(runtime("opencl").devices()[0], [point_of(launch)], 60)
    assert timed.ns is None and "suspect: other programs took the CPUs" in timed.reason
