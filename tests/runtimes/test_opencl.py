"""The OpenCL runtime and every benchmark's check on a real device: PoCL, which the test extra installs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import probe, sampling
from clmembench.measure.core_clock import CoreClock
from clmembench.model import Copy, DeviceError, Fill, Launch, Map, Overlap, Placement, Skip, Slope, Work
from clmembench.plan import sweep
from clmembench.plan.budget import Budget
from clmembench.plan.selection import Selection
from clmembench.resources import kernel_source
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO as GPU
from clmembench.runtimes.opencl import enqueue as opencl_enqueue
from clmembench.runtimes.opencl import sample as opencl_sample
from clmembench.runtimes.opencl.sample import CommandTimer
from clmembench.runtimes.shared import first_error
from tests.builders import open_cpu, walked
from tests.cases import covering, each

KIB, MIB = 1 << 10, 1 << 20
PCHASE = import_module("clmembench.benchmarks.pchase")
TRANSFER = import_module("clmembench.benchmarks.link.transfer")
ATTEMPTS = 50  # at points whose work-groups are to run at the same time, on a host that others use
TINY = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4)


@pytest.fixture(scope="module")
def device():
    return open_cpu(array_bytes=4 * MIB)


@pytest.fixture(scope="module")
def found(device):
    return probe.probe(device)


UNCACHED = """
import os, sys
from clmembench.runtimes import runtime  # as every use of a device begins, in the parent and in children
import pyopencl, pyopencl.characterize
info = runtime("opencl").devices()[0]
# as for a driver that keeps no cache of its own, for which pyopencl would keep one
pyopencl.characterize.has_src_build_cache = lambda device: False
runtime("opencl").open(info).build("kernel void f(global int *a) { a[0] = 1; }")
print(sorted({d for _, names, files in os.walk(sys.argv[1]) for d in [*names, *files]} & {"pyopencl", "pytools"}))
"""


def test_no_pickle_of_pyopencl_is_written_or_read(tmp_path):
    folder = {"XDG_CACHE_HOME": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path / "pocl"), "PYOPENCL_NO_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", UNCACHED, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, **folder},
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_devices_have_stable_ids_and_come_once():
    first, second = runtime("opencl").devices(), runtime("opencl").devices()
    assert [d.id for d in first] == [d.id for d in second]
    assert len({d.id for d in first}) == len(first)


def test_probing_believes_behaviour(found):
    assert "fp64" in found.features
    # PTX may compile on an x86 and return garbage as ticks: it must not be believed
    assert "ptx" not in found.features
    assert found.cycles_per_op == 1.0


def test_core_clock_reads_a_plausible_frequency(device, found):
    launches, _ = probe.build_alu_chain(device)
    clock = CoreClock(launches, probe.OPS_PER_STEP, found.cycles_per_op, found.origin)
    clock.settle(device, 0.05)
    ghz = clock.reading(clock.read(device), clock.read(device)).ghz
    # a chain that a compiler had folded, or that ran two operations a cycle, would be far outside
    assert 0.8 < ghz < 7.0


def test_fill_copy_and_map_do_what_they_say(device):
    a, b = device.alloc(64), device.alloc(64, "mapped")
    device.run([Fill(a, 64, 0xAB), Copy(b, a, 64)])
    assert (device.download(b, np.uint8, 64) == 0xAB).all()
    with device.mapped(b, 64, "write") as array:
        array[:] = 7
    assert (device.download(b, np.uint8, 64) == 7).all()
    timing = device.time([Map(b, 64, "read")], 2, "host")
    assert timing.host_ns > 0
    assert timing.device_ns is None


def test_a_batch_is_timed_behind_a_kernel_that_holds_the_queue(device):
    work = discovered()["launch_wait"].prepare(device, groups=1)
    for passes in (1, 4):
        timing = device.time(work.commands, passes, "batch")
        assert timing.device_ns > 0
        assert timing.queue_ns is None


class StampedEvents:
    """Events of a batch: the kernel that holds the queue, and the last command."""

    def __init__(self, held_ns, batch_ns, enqueue_ns):
        self.held_ns, self.batch_ns, self.enqueue_ns = held_ns, batch_ns, enqueue_ns

    def slots(self):
        return [0, 1]

    def has_ended(self, number):
        return self.held_ns() <= self.enqueue_ns()

    def stamps(self, which, events):
        ends = [self.held_ns(), self.held_ns() + self.batch_ns]
        return [0] if which == opencl_enqueue.PROFILING_STARTED else [int(ends[number]) for number in events]

    def release(self):
        pass


def test_one_slow_call_does_not_hold_every_later_batch(monkeypatch):
    """The blocking kernel is as long as calls take of late; where the host falls behind, the batch is repeated."""
    now_ns, took_ns, waited_ns, rounds = [0.0], [50_000.0], [1_000_000.0], [0]
    clocks = SimpleNamespace(perf_counter_ns=lambda: int(now_ns[0]), process_time_ns=lambda: 0)
    monkeypatch.setattr(opencl_sample, "time", clocks)

    def launch(count):
        rounds.append(count)
        return lambda slot: lambda: 0

    def call():
        now_ns[0] += took_ns[0]
        return 0

    def finish():
        now_ns[0] += waited_ns[0]
        return 0

    events = StampedEvents(lambda: 2.0 * rounds[-1], 1_000_000, lambda: took_ns[0])
    sample = CommandTimer((), 1, "batch", [call], events, [finish])
    blocker = opencl_sample.QueueBlocker(launch)

    def held_ns(after_ns):
        """How long the queue was held by each try of a batch whose calls take so long."""
        took_ns[0], before = after_ns, len(rounds)
        assert blocker.time_batch(sample, lambda: 0).device_ns == 1_000_000
        return [2.0 * count for count in rounds[before:]]

    least_ns = opencl_sample.BLOCKING_TIME_FACTOR * opencl_sample.MIN_BLOCKING_NS
    assert held_ns(50_000) == [least_ns]
    slow = held_ns(5_000_000)
    assert len(slow) == 2 and slow[1] > 5_000_000
    later = [held_ns(50_000) for _ in range(8)]
    assert all(len(tries) == 1 for tries in later) and later[-1] == [least_ns]
    long = StampedEvents(lambda: 2.0 * rounds[-1], 100_000_000, lambda: took_ns[0])
    for waited_ns[0], held in ((1_000_000.0, least_ns), (100_000_000.0, opencl_sample.MIN_BLOCKING_SHARE * 100_000_000)):
        blocker.time_batch(CommandTimer((), 1, "batch", [call], long, [finish]), lambda: 0)
        assert held_ns(50_000) == [held]  # a long batch is not repeated, but one that is long by stamps that leap


def test_a_driver_without_ptx_takes_no_program_in_it(device):
    with pytest.raises(Skip, match="no programs in PTX"):
        device.assemble(".version 7.8")


def test_the_way_of_a_launch_has_its_parts(device):
    work = discovered()["launch_wait"].prepare(device, groups=1)
    timing = device.time(work.commands, 1, "queue")
    assert 0 <= timing.submit_ns <= timing.queue_ns
    assert timing.queue_ns + timing.device_ns <= timing.host_ns


def test_a_command_that_the_library_refuses_is_named_with_a_remedy(device):
    mark = device.build(kernel_source("launch"))["mark"]
    wrong = (Launch(mark, (device.alloc(4), np.uint32(1)), (3,), (2,)), Fill(device.alloc(4), 4, 1))
    for clock in ("host", "device"):
        with pytest.raises(DeviceError, match=r"clEnqueueNDRangeKernel failed: INVALID_WORK_GROUP_SIZE: the work-group size"):
            device.time(wrong, 2, clock)
    with pytest.raises(DeviceError, match="clEnqueueWriteBuffer failed"):
        device.run([Copy(device.alloc(4), np.zeros(64, np.uint8), 64)])


@pytest.mark.parametrize("words", [1, 5, (1 << 18) - 1, (1 << 18) + 3])
def test_the_pattern_of_a_copy_is_the_kernels_and_one_wrong_word_is_seen(device, words):
    kernel = device.build(kernel_source("transfer"))["pattern"]
    buffer, view = device.alloc(4 * words), np.zeros(words, np.uint32)
    device.run([Launch(kernel, (buffer, np.uint32(77)), (words,))])
    TRANSFER.fill_pattern(view, 77)
    assert np.array_equal(view, device.download(buffer, np.uint32, words)) and TRANSFER.is_pattern(view, 77)
    view[words - 1] ^= 1
    assert not TRANSFER.is_pattern(view, 77)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("<kernel>:3:5: error: use of undeclared identifier 'x'", "3:5: error: use of undeclared identifier 'x'"),
        ("1 error generated\nerror: /root/.cache/tempfile_5w.cl:2:8: unknown type", "error: 2:8: unknown type"),
        ("error: /root/.cache/tempfile_5w.cl:2:8: unknown type name 'voyd'", "error: 2:8: unknown type name 'voyd'"),
        ("ptxas application line 9; error: bad", "ptxas application line 9; error: bad"),
        ("", "the driver gave no log"),
    ],
)
def test_the_first_error_of_a_build_names_no_file_of_the_drivers(log, reason):
    assert first_error(log) == f"build failed: {reason}"


def small_points(name: str) -> list[dict[str, object]]:
    info = replace(runtime("opencl").devices()[-1], array_bytes=4 * MIB)
    info = replace(info, features=info.features | {"nontemporal"})
    return [dict(p.params) for p in walked(sweep.explore(discovered()[name], info, Selection(suite="quick")))]


@pytest.mark.parametrize("name", [name for name, benchmark in discovered().items() if not benchmark.adaptive])
def test_every_benchmark_is_verified_on_a_real_device(device, name):
    missing = set(discovered()[name].needs) & {"peers", "ptx"} - device.info.features
    if missing:
        pytest.skip(f"it needs {', '.join(missing)}: tests of its own")
    points = small_points(name)
    if name == "transpose":  # whose sizes do not follow the arrays'
        points = [point for point in points if point["n"] == min(other["n"] for other in points)]
    assert points
    measured = sum(verified(device, discovered()[name], params) for params in covering(points, 10))
    assert measured or device.info.compute_units == 1


def verified(device, known, params) -> bool:
    """Whether a point could be verified. One that needs its work-groups to run at the same time is tried again: while other
    programs hold the CPUs they do not, which it notices at first or in its check."""
    for _ in range(ATTEMPTS):
        try:
            prepared = known.prepare(device, **params)
            result = sampling.sample_point(device, prepared, TINY, quantum_ns=50)
        except Skip as skip:
            if "at the same time" not in str(skip):
                return False
            continue
        assert not result.wrong, (params, result.wrong)
        assert result.checked
        assert len(result.series) == ({Slope: 2, Overlap: 3}.get(type(prepared), 1))
        return True
    return False


@pytest.mark.parametrize("refusals", [0, 1, 2, 5])
def test_work_groups_that_did_not_run_together_are_tried_again(device, refusals):
    known, left = discovered()["device_barrier"], [1] * refusals

    def prepare(device, **params):
        def check():
            if left and left.pop():
                raise Skip("2 work-groups stopped running at the same time while it was measured: close other programs")

        return Work((Fill(device.alloc(4), 4),), ops=1, check=check)

    assert verified(device, replace(known, prepare=prepare), {"groups": 2}) and not left


@pytest.mark.parametrize("op", ["triad", "dot"])
def test_stream_notices_a_damaged_result(device, op):
    order = "blocked" if op == "dot" else "item"
    params = {"op": op, "dtype": "double", "array_bytes": MIB, "nontemporal": 0, "width": 1, "work_group": 64}
    work = discovered()["stream"].prepare(device, order=order, **params)
    assert sampling.check_outputs(device, work) == ""
    buffer, nbytes = work.outputs[0]
    middle = nbytes // 16 * 8 if op == "triad" else 0  # the middle is where only the device looks
    value = device.download(buffer, np.float64, nbytes // 8)
    value[middle // 8] += 1
    device.upload(buffer, value)
    with pytest.raises(AssertionError, match=r"wrong|sum"):
        work.check()


def test_a_whole_lap_of_pchase_ends_where_it_began(device):
    prepared = discovered()["pchase"].prepare(device, array_bytes=64 * KIB, spacing_bytes="line")
    work = prepared.work(prepared.start)
    assert sampling.check_outputs(device, work) == ""
    cursor = work.commands[0].args[0]
    start = int(device.download(cursor, np.uint64, 1)[0])
    device.run(work.commands)
    assert int(device.download(cursor, np.uint64, 1)[0]) == start


@pytest.mark.parametrize("alone_to", [0, 128 * MIB], ids=["many walkers", "one walker"])
def test_pchase_notices_a_chain_of_two_cycles(device, monkeypatch, alone_to):
    whole = PCHASE.random_cycle

    def two_cycles(nodes: int, seed: int):
        order, successor = whole(nodes, seed)
        a, b = order[nodes // 3], order[nodes // 2]
        successor[[a, b]] = successor[[b, a]]
        return order, successor

    monkeypatch.setattr(PCHASE, "MAX_SINGLE_ITEM_LAP_BYTES", alone_to)
    monkeypatch.setattr(device, "info", replace(device.info, cache_bytes=0))
    prepare = discovered()["pchase"].prepare
    assert sampling.check_outputs(device, prepare(device, array_bytes=MIB, spacing_bytes="line").work(16)) == ""
    monkeypatch.setattr(PCHASE, "random_cycle", two_cycles)
    assert "has another order" in sampling.check_outputs(
        device, prepare(device, array_bytes=MIB, spacing_bytes="line").work(16)
    )


def test_transfer_notices_that_nothing_arrived(device):
    work = discovered()["transfer"].prepare(device, direction="to_device", memory="pageable", array_bytes=64 * KIB)
    broken = replace(work, commands=(Fill(work.commands[0].dst, 64 * KIB, 0),))
    assert "did not receive" in sampling.check_outputs(device, broken)


def test_pocl_maps_without_copying(device):
    work = discovered()["transfer"].prepare(device, direction="from_device", memory="mapped", array_bytes=64 * KIB)
    assert (work.nbytes, work.ops) == (0, 1)
    assert any("zero-copy" in note for note in work.notes)


@each("groups", [1, 3, 70])
@each("name", [b.name for b in discovered().values() if b.scaling and b.scaling(GPU)])
def test_a_fixed_number_of_work_groups_is_launched_and_does_all_the_work(device, monkeypatch, name, groups):
    # as a study over work-groups asks for it on a GPU
    known = discovered()[name]
    claims = replace(device.info, kind="gpu", array_bytes=MIB, work_groups=groups)
    monkeypatch.setattr(device, "info", claims)
    first = {n: next(iter(a.values(claims))) for n, a in known.axes.items() if a.tuning}
    small = {"n": 300} if name == "dgemm" else {}
    for point in (known.scaling(claims), *(known.scaling_also(claims) if known.scaling_also else ())):
        work = known.prepare(device, **{**first, **point, **small})
        assert sampling.check_outputs(device, work) == "", point
        launch = next(c for c in work.commands if isinstance(c, Launch))
        assert launch.global_size[0] == groups * launch.local_size[0], point


class Stamps:
    """Events of one launch a pass, which have these stamps."""

    def __init__(self, **stamps: list[int]) -> None:
        self.known = {getattr(opencl_enqueue, name): values for name, values in stamps.items()}

    def stamps(self, which, events):
        return [self.known[which][n] for n in events]


BELOW = 2**64 - 1000  # 1000 ns below zero


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        # queued, submitted, started, ended; then start to end, queued to start, queued to submitted
        ((10, 20, 30, 70), (40, 20, 10)),
        ((10, 20, 30, BELOW), (-1030, 20, 10)),
        ((10, 20, BELOW, 70), (1070, -1010, 10)),
        ((10, BELOW, 30, 70), (40, 20, -1010)),
        ((BELOW, 20, 30, 70), (40, 1030, 1020)),
    ],
)
def test_a_stamp_below_zero_is_an_earlier_one_and_not_one_in_584_years(stamps, expected):
    queued, submitted, started, ended = ([stamp] for stamp in stamps)
    events = Stamps(PROFILING_QUEUED=queued, PROFILING_SUBMITTED=submitted, PROFILING_STARTED=started, PROFILING_ENDED=ended)
    sample = CommandTimer([None], 1, "queue", [], None, [])
    timing = opencl_sample._stamped(sample, events, 100, 100)
    assert (timing.device_ns, timing.queue_ns, timing.submit_ns) == expected


def test_pyopencls_own_method_launches_and_has_no_stamps(device):
    mark, out = device.build(kernel_source("launch"))["mark"], device.alloc(4)
    launch = Launch(mark, (out, np.uint32(9)), (64,), (64,), method="enqueue")
    device.run([Fill(out, 4), launch])
    assert int(device.download(out, np.uint32, 1)[0]) == 9
    with pytest.raises(ValueError, match="host's clock"):
        device.time((launch,), 1, "device")
    with pytest.raises(ValueError, match="choose enqueue"):
        device.run([replace(launch, method="submit")])


@pytest.mark.parametrize(
    ("platform", "kind", "expected"),
    [
        ("Portable Computing Language", "cpu", {"POCL_MAX_PTHREAD_COUNT": "3"}),
        ("Intel(R) OpenCL", "cpu", {"DPCPP_CPU_NUM_CUS": "3"}),
        ("Intel(R) OpenCL Graphics", "gpu", {}),
        ("NVIDIA CUDA", "gpu", {}),
        ("Else", "cpu", {}),
    ],
)
def test_a_drivers_threads_are_limited_by_its_own_variable(platform, kind, expected):
    info = replace(GPU, platform=platform, kind=kind, runtime="opencl")
    assert runtime("opencl").environment(info, Placement(3)) == expected
    assert runtime("opencl").environment(info, Placement()) == {}


def test_further_objects_of_a_kernel_are_made_without_the_program_that_a_driver_names(device, monkeypatch):
    def refused(_kernel):
        raise cl.LogicError("clRetainProgram", cl.status_code.INVALID_PROGRAM, "Intel's driver")

    monkeypatch.setattr(cl.Kernel, "program", property(refused))
    kernel = device.build("kernel void put(global int* out, int value) { *out = value; }")["put"]
    out = [device.alloc(4) for _ in range(3)]
    launches = [Launch(kernel, (one, np.int32(n)), (1,), (1,)) for n, one in enumerate(out)]
    for _ in range(2):  # in two turns
        device.run(tuple(launches))
    assert [int(device.download(one, np.int32, 1)[0]) for one in out] == [0, 1, 2]
