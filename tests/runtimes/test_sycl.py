"""The SYCL runtime on Intel's CPU driver, where the extra `sycl` is installed, and what is said where it is not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import probe, sampling
from clmembench.model import BuildError, DeviceError, Fill, Launch, Local, Map, Overlap, Skip, Slope
from clmembench.plan import sweep
from clmembench.plan.budget import Budget
from clmembench.plan.selection import Selection
from clmembench.resources import kernel_names, kernel_source
from clmembench.results import jsonl
from clmembench.runtimes import runtime
from clmembench.runtimes.sycl import build, library
from clmembench.runtimes.sycl.build import KernelBundle
from tests.builders import walked
from tests.cases import each
from tests.commands import brief_points, cli, process
from tests.runtimes.test_runtimes import cpu_of

MIB = 1 << 20
TINY = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4)


@pytest.fixture(scope="module")
def device():
    found = cpu_of("sycl")
    return runtime("sycl").open(replace(found.info, array_bytes=4 * MIB))


@pytest.fixture
def no_dpctl(monkeypatch):
    """As where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "dpctl", None)
    for cached in (library.dpctl, library.memory, library.compiler):
        cached.cache_clear()
    yield
    for cached in (library.dpctl, library.memory, library.compiler):
        cached.cache_clear()


@pytest.fixture
def no_devices_known(monkeypatch):
    from clmembench.runtimes.sycl import device as sycl_device

    sycl_device.installed_devices.cache_clear()
    yield
    sycl_device.installed_devices.cache_clear()


def test_without_the_extra_one_line_names_it_and_opencl_is_as_before(no_dpctl, no_devices_known):
    for args in (("run", "-d", "sycl:0"), ("run", "-d", "sycl:opencl:cpu", "--dry-run"), ("tune", "-d", "sycl:0", "dgemm")):
        done = cli(*args)
        assert done.returncode == 3 and done.stdout == ""
        assert len(done.stderr.splitlines()) == 1 and "pip install 'clmembench[sycl]'" in done.stderr
    listed = json.loads(cli("devices", "--json").stdout)
    assert listed and {one["runtime"] for one in listed} == {"opencl"}


@pytest.fixture
def fresh_spirv():
    build.missing_remedy.cache_clear()
    yield
    build.missing_remedy.cache_clear()


def fake_clang(folder, script: str) -> None:
    program = folder / "clang"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_backend_that_cannot_be_built_for_names_the_remedy(monkeypatch, tmp_path, fresh_spirv):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.missing_remedy("opencl") == ""
    assert "-d 0" in build.missing_remedy("cuda")
    assert "clang cannot be run" in build.missing_remedy("level_zero") and "install clang" in build.missing_remedy("level_zero")


def test_a_clang_without_its_translator_is_none_and_its_error_is_told(monkeypatch, tmp_path, fresh_spirv):
    fake_clang(tmp_path, """echo 'clang: error: unable to execute command: "llvm-spirv" does not exist!' >&2; exit 1""")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    said = build.missing_remedy("level_zero")
    assert "llvm-spirv" in said and "does not exist" in said and len(said.splitlines()) == 1


def test_macros_and_source_reach_clang(monkeypatch, tmp_path):
    script = """for last; do :; done
    while [ "$1" != -o ]; do
        [ "$1" = -DA=1 ] && cat "$last" > "$OUT"
        shift
    done
    cp "$last" "$2" """
    fake_clang(tmp_path, script)
    monkeypatch.setenv("OUT", str(tmp_path / "seen"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert build.compile_source("the source", ["-DA=1"]) == b"the source"
    assert (tmp_path / "seen").read_text(encoding="utf-8") == "the source"


def test_kernels_run_from_spirv_where_clang_makes_it(device, monkeypatch, fresh_spirv):
    why = build.missing_remedy("level_zero")
    if why:
        pytest.skip(why)
    monkeypatch.setattr(build, "is_needed", lambda of: True)
    other = runtime("sycl").open(device.info)
    for name in ("stream", "transpose", "launch", "subgroup"):
        params = small_points(other, name)[0]
        prepared = discovered()[name].prepare(other, **params)
        assert not sampling.sample_point(other, prepared, TINY, quantum_ns=50).wrong
    with pytest.raises(BuildError, match="nonsense"):
        other.build("kernel void f(global int*a){a[0]=nonsense;}")


class Everything:
    """A bundle that has every kernel but one."""

    def has_sycl_kernel(self, name):
        return name != "hidden"

    def get_sycl_kernel(self, name):
        return name


@each("name", kernel_names())
def test_the_kernels_of_a_source_are_those_that_it_defines(name):
    source = kernel_source(name)
    names = list(KernelBundle(Everything(), source, ()))
    # macros make some kernels of several files: what the source spells out is found, and nothing else
    assert len(names) == len(set(names)) and all(f"{one}(" in source for one in names)


def test_a_kernel_with_attributes_is_found_and_one_that_the_bundle_lacks_is_not():
    source = """kernel void plain(global int* a) {}
    __attribute__((reqd_work_group_size(64, 1, 1))) kernel void before(global int* a) {}
    kernel __attribute__((reqd_work_group_size(64, 1, 1))) void within(global int* a) {}
    kernel void hidden(global int* a) {}"""
    bundle = KernelBundle(Everything(), source, ())
    assert list(bundle) == ["plain", "before", "within"] and len(bundle) == 3
    with pytest.raises(KeyError):
        bundle["hidden"]


def test_the_device_has_what_was_probed(device):
    found = probe.probe(device)
    assert {"fp64", "int64_atomics", "usm_shared", "usm_host"} <= found.features
    assert not {"images", "ptx"} & found.features
    assert found.cycles_per_op == 1.0


def test_what_sycl_does_not_have_is_skipped_with_its_reason(device):
    with pytest.raises(Skip, match="no images"):
        device.image(np.zeros(4, np.uint32), "1d")
    with pytest.raises(Skip, match="no map and unmap"):
        device.alloc(64, "mapped")
    buffer = device.alloc(64)
    with pytest.raises(Skip, match="no map and unmap"):
        device.run([Map(buffer, 64, "read")])
    with pytest.raises(Skip, match="no map and unmap"), device.mapped(buffer, 64, "read"):
        pass
    mark = device.build(kernel_source("launch"))["mark"]
    with pytest.raises(Skip, match="float16"):
        device.run([Launch(mark, (buffer, np.float16(1)), (1,))])


@pytest.mark.parametrize("kind", ["shared", "host"])
def test_the_host_sees_what_a_kernel_writes_to_shared_and_host_allocations(device, kind):
    buffer = device.alloc(4, kind)
    mark = device.build(kernel_source("launch"))["mark"]
    with device.mapped(buffer, 4, "write") as array:
        array[:] = 0
    device.run([Launch(mark, (buffer, np.uint32(0x01020304)), (1,))])
    with device.mapped(buffer, 4, "read") as array:
        assert array.view(np.uint32)[0] == 0x01020304


def test_a_failed_build_has_the_log_of_the_compiler(device):
    with pytest.raises(BuildError, match="build failed: 1:34: error: use of undeclared identifier 'nonsense'") as caught:
        device.build("kernel void f(global int*a){a[0]=nonsense;}")
    assert "Compilation failed" in caught.value.log


def test_a_command_that_is_refused_says_why(device):
    mark, buffer = device.build(kernel_source("launch"))["mark"], device.alloc(4)
    for clock in ("host", "device"):
        with pytest.raises(DeviceError, match=r"Global work size .* is not evenly divisible"):
            device.time((Launch(mark, (buffer, np.uint32(1)), (3,), (2,)),), 2, clock)
    with pytest.raises(DeviceError, match="takes 2 arguments, not 1"):
        device.run([Launch(mark, (buffer,), (1,))])
    with pytest.raises(DeviceError, match="do not fit"):
        device.download(buffer, np.uint32, 2)
    device.run([Launch(mark, (buffer, np.uint32(7)), (1,))])
    assert int(device.download(buffer, np.uint32, 1)[0]) == 7


def small_points(device, name: str) -> list[dict[str, object]]:
    found = walked(sweep.explore(discovered()[name], device.info, Selection(suite="quick")))
    return [dict(point.params) for point in found if not point.reason]


@pytest.mark.parametrize("name", [name for name, benchmark in discovered().items() if not benchmark.adaptive])
def test_every_benchmark_is_right_through_sycl_or_skipped(device, name):
    points = small_points(device, name)
    for params in points[:: max(1, len(points) // 3)]:
        try:
            prepared = discovered()[name].prepare(device, **params)
            result = sampling.sample_point(device, prepared, TINY, quantum_ns=50)
        except Skip as skip:
            assert any(why in str(skip) for why in ("SYCL", "no images", "at the same time", "over this device's")), (
                params,
                str(skip),
            )
            continue
        assert not result.wrong and result.checked, (params, result.wrong)
        assert len(result.series) == ({Slope: 2, Overlap: 3}.get(type(prepared), 1))


def test_a_run_and_the_list_of_devices_know_the_runtime(device, tmp_path):
    path = tmp_path / "r.jsonl"
    with brief_points():
        done = cli("run", "-d", "sycl:opencl:cpu", "-b", "launch", "-a", "groups=1", "-o", str(path))
    assert done.returncode == 0, done.stderr
    run = jsonl.read(path)
    assert (run.header.runtime, run.header.device.runtime) == ("sycl", "sycl")
    assert [record.status for record in run.records] in (["ok"], ["suspect"])
    listed = json.loads(cli("devices", "--json").stdout)
    (own,) = [one for one in listed if one["id"] == device.info.id]
    assert own["runtime"] == "sycl" and own["index"] == 0 and "0" in own["same_hardware"]
    assert all("sycl:0" in one["same_hardware"] for one in listed if one["type"] == "cpu" and one is not own)


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_usm_benchmarks_are_right_for_every_kind_and_notice_damage(device, kind):
    for op, last_touch in (("read", "device"), ("write", "device"), ("read", "host"), ("write", "host")):
        if kind == "device" and last_touch == "host":
            continue
        params = {"memory": kind, "op": op, "last_touch": last_touch, "array_bytes": 100_004}
        work = discovered()["usm_bandwidth"].prepare(device, **params)
        assert sampling.check_outputs(device, work) == ""
        device.run([Fill(work.outputs[0][0], 4, 0xEE)])
        with pytest.raises(AssertionError, match="is wrong"):
            work.check()
    for by in ("device", "host")[: 1 if kind == "device" else 2]:
        work = discovered()["usm_first_touch"].prepare(device, memory=kind, by=by, array_bytes=100_000)
        assert work.ops == 24
        with pytest.raises(AssertionError, match="pages of 24"):
            work.check()
        assert sampling.check_outputs(device, work) == ""


@pytest.mark.parametrize("method", ["submit_async", "submit"])
def test_dpctls_own_methods_launch_with_the_same_arguments(device, method):
    source = """kernel void fill(global float* out, local float* near, const float value, const uint times) {
        near[get_local_id(0)] = value * times + get_global_id(0) + 100 * get_local_size(0);
        out[get_global_id(0)] = near[get_local_id(0)];
    }"""
    kernel, out = device.build(source)["fill"], device.alloc(4 * 8)
    args = (out, Local(16), np.float32(0.5), np.uint32(3))
    launch = Launch(kernel, args, (8,), (4,), method=method)
    device.run([launch])
    assert device.download(out, np.float32, 8).tolist() == [401.5 + n for n in range(8)]
    with pytest.raises(ValueError, match="host's clock"):
        device.time((launch,), 1, "device")
    with pytest.raises(ValueError, match="choose submit_async or submit"):
        device.run([replace(launch, method="enqueue")])


def test_launches_on_an_out_of_order_queue_all_run_and_mix_with_nothing_else(device):
    mark = device.build(kernel_source("launch"))["mark"]
    buffers = [device.alloc(4) for _ in range(3)]
    commands = tuple(Launch(mark, (b, np.uint32(n)), (64,), (8,), method="out_of_order") for n, b in enumerate(buffers, 1))
    for clock in ("host", "device"):
        device.run([Fill(b, 4) for b in buffers])
        timing = device.time(commands, 2, clock)
        assert [int(device.download(b, np.uint32, 1)[0]) for b in buffers] == [1, 2, 3]
        assert clock == "host" or timing.device_ns > 0
    with pytest.raises(ValueError, match="cannot be mixed"):
        device.run([commands[0], Fill(buffers[0], 4)])


def test_intels_driver_as_an_opencl_platform_sorts_in_registers(device, tmp_path):
    # with min() and max() its compiler gives wrong values here
    driver, path = library.packaged_driver(), tmp_path / "r.jsonl"
    if driver is None:
        pytest.skip("Intel's driver is not installed from PyPI")
    points = ("-b", "private_array", "-a", "pattern=sort", "-a", "indexing=static", "-a", "words=[4,8]")
    done = process("run", "-d", "0", *points, "--processes", "1", "-o", str(path), OCL_ICD_VENDORS=str(driver))
    run = jsonl.read(path)
    assert run.header.device.platform.startswith("Intel") and run.header.device.runtime == "opencl", done.stderr
    assert len(run.records) == 2 and not [r for r in run.records if r.status in ("wrong", "failed")]
    assert run.header.environment["OCL_ICD_VENDORS"] == str(driver)
