"""What every runtime does alike: OpenCL on PoCL, SYCL on Intel's driver where the extra `sycl` is installed, the fake one."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import sampling
from clmembench.model import BuildError, Copy, DeviceError, Fill, Launch, Local
from clmembench.resources import kernel_source
from clmembench.runtimes import NAMES, runtime
from tests.cases import each

NO_SYCL = "no SYCL CPU device here: pip install 'clmembench[sycl]'"


def cpu_of(name: str):
    """An open CPU of that runtime, or a skipped test."""
    if name == "sycl" and find_spec("dpctl") is None:
        pytest.skip(NO_SYCL)
    found = [info for info in runtime(name).devices() if info.kind == "cpu"]
    if not found and name == "sycl":
        pytest.skip(NO_SYCL)
    assert found, "no OpenCL CPU device: pip install 'clmembench[test]' brings PoCL"
    return runtime(name).open(found[0])


@pytest.fixture(scope="module", params=["opencl", "sycl"])
def computing(request):
    """A device that runs kernels."""
    return cpu_of(request.param)


@pytest.fixture(scope="module", params=NAMES)
def device(request):
    return runtime("fake").open(runtime("fake").devices()[0]) if request.param == "fake" else cpu_of(request.param)


def test_what_a_runtime_lists_names_it_and_comes_in_the_same_order(device):
    made = runtime(device.info.runtime)
    first, second = made.devices(), made.devices()
    assert made.name == device.info.runtime
    assert first == second and all(info.runtime == made.name for info in first)
    assert len({info.id for info in first}) == len(first)


def test_a_buffer_of_a_name_lasts_until_it_has_to_grow(device):
    first = device.kept("test", 1000)
    assert device.kept("test", 64) is first and device.kept("test", 1000) is first
    assert device.kept("test", 100_000) is not first


def test_what_was_built_is_hashed_once(device):
    device.sources()
    device.build(kernel_source("launch"))
    assert device.sources() and device.sources() == ""


def test_every_sample_has_a_hosts_time_and_stamps_where_they_are_asked_for(device):
    launch = Launch(device.build(kernel_source("launch"))["mark"], (device.alloc(4), np.uint32(1)), (1,), (1,))
    assert device.time((launch,), 2, "host").device_ns is None
    for clock in ("device", "queue"):
        timing = device.time((launch,), 2, clock)
        assert timing.host_ns > 0 and timing.device_ns > 0 and timing.queue_ns is not None


def test_host_arrays_of_both_kinds_hold_what_is_copied(computing):
    data = np.arange(4096, dtype=np.uint8)
    buffer = computing.alloc(4096)
    for pinned in (False, True):
        source, target = computing.host_array(4096, pinned), computing.host_array(4096, pinned)
        source[:] = data[::-1] if pinned else data
        for blocking in (False, True):
            target[:] = 0
            computing.run([Copy(buffer, source, 4096, blocking=blocking), Copy(target, buffer, 4096, blocking=blocking)])
            assert np.array_equal(target, source)


def test_dimensions_of_a_launch_are_in_the_order_of_opencl(computing):
    source = """kernel void where(global uint* out) {
        size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
        out[at] = get_local_size(0) + 10 * get_local_size(1) + 100 * get_local_size(2) + 1000 * get_group_id(0);
    }"""
    kernel, out = computing.build(source)["where"], computing.alloc(4 * 6 * 4 * 2)
    computing.run([Launch(kernel, (out,), (6, 4, 2), (3, 2, 1))])
    found = computing.download(out, np.uint32, 48).reshape(2, 4, 6)
    assert (found == np.array([123] * 3 + [1123] * 3)).all()


def test_local_memory_and_every_scalar_reach_a_kernel(computing):
    source = """kernel void add_up(global double* out, local float* near, char a, uchar b, short c, ushort d, int e, uint f,
                long g, ulong h, float i) {
        near[get_local_id(0)] = get_local_id(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        out[get_global_id(0)] = near[get_local_size(0) - 1 - get_local_id(0)] + a + b + c + d + e + f + g + h + i;
    }"""
    kernel, out = computing.build(source)["add_up"], computing.alloc(8 * 8)
    numbers = tuple(np.dtype(t).type(n) for n, t in enumerate(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4"), 1))
    computing.run([Launch(kernel, (out, Local(16), *numbers), (8,), (4,))])
    assert computing.download(out, np.float64, 8).tolist() == [48.0, 47.0, 46.0, 45.0] * 2


def test_two_queues_run_all_their_commands(computing):
    mark = computing.build(kernel_source("launch"))["mark"]
    a, b = computing.alloc(4), computing.alloc(4)
    commands = tuple(Launch(mark, (x, np.uint32(n)), (1,), queue=q) for q, (x, n) in enumerate(((a, 5), (b, 6))))
    for clock in ("host", "device"):
        computing.run([Fill(a, 4), Fill(b, 4)])
        timing = computing.time(commands, 3, clock)
        assert [int(computing.download(x, np.uint32, 1)[0]) for x in (a, b)] == [5, 6]
        assert clock == "host" or timing.device_ns > 0


def test_upload_and_download_round_trip_with_an_offset(computing):
    data = np.arange(1000, dtype=np.uint32)
    buffer = computing.alloc(data.nbytes)
    computing.upload(buffer, data)
    assert np.array_equal(computing.download(buffer, np.uint32, 10, offset_bytes=400), data[100:110])


def test_odd_sizes_are_filled_to_the_byte(computing):
    buffer = computing.alloc(16)
    computing.upload(buffer, np.zeros(16, np.uint8))
    computing.run([Fill(buffer, 7, 0xFF)])
    assert computing.download(buffer, np.uint8, 16).tolist() == [255] * 7 + [0] * 9


def test_two_launches_of_one_kernel_keep_their_own_arguments(computing):
    mark = computing.build(kernel_source("launch"))["mark"]
    a, b = computing.alloc(4), computing.alloc(4)
    computing.run([Launch(mark, (a, np.uint32(1)), (1,)), Launch(mark, (b, np.uint32(2)), (1,))])
    assert [int(computing.download(x, np.uint32, 1)[0]) for x in (a, b)] == [1, 2]


def test_timing_has_all_clocks_and_counts_passes(computing):
    mark = computing.build(kernel_source("launch"))["mark"]
    launch = Launch(mark, (computing.alloc(4), np.uint32(1)), (64,), (64,))
    timing = computing.time([launch], 3, "device")
    assert 0 < timing.device_ns <= timing.host_ns
    assert timing.queue_ns is not None
    assert computing.time([launch], 1, "host").device_ns is None


def test_the_hosts_part_of_a_launch_runs_nothing(computing):
    work = discovered()["launch_call"].prepare(computing, of="alone")
    done = work.commands[0].launch.args[0]
    computing.upload(done, np.array([7], np.uint32))
    computing.time(work.commands * 3, 2, "host")
    assert int(computing.download(done, np.uint32, 1)[0]) == 7
    computing.run([work.commands[0].launch])
    with pytest.raises(AssertionError, match="the kernel ran"):
        work.check()


def test_samples_that_are_the_same_run_again_and_others_between_keep_their_own_arguments(computing):
    mark = computing.build(kernel_source("launch"))["mark"]
    a, b = computing.alloc(4), computing.alloc(4)
    first, second = (Launch(mark, (x, np.uint32(n)), (1,)) for x, n in ((a, 1), (b, 2)))
    works, zero = ((first,), (second,), (first, second)), np.zeros(1, np.uint32)
    for order in ((0, 0), (0, 1, 0), (2, 0, 2), (1, 1, 2)):
        for clock in ("host", "device"):
            for number in order:
                for buffer in (a, b):
                    computing.upload(buffer, zero)
                timing = computing.time(works[number], 2, clock)
                left = [int(computing.download(x, np.uint32, 1)[0]) for x in (a, b)]
                assert left == [[1, 0], [0, 2], [1, 2]][number]
                assert clock == "host" or timing.device_ns > 0


def test_a_list_of_commands_that_changed_is_not_taken_for_the_last_one(computing):
    mark = computing.build(kernel_source("launch"))["mark"]
    a, b = computing.alloc(4), computing.alloc(4)
    commands = [Launch(mark, (a, np.uint32(1)), (1,))]
    computing.time(commands, 1, "host")
    commands[0] = Launch(mark, (b, np.uint32(2)), (1,))
    computing.time(commands, 1, "host")
    assert int(computing.download(b, np.uint32, 1)[0]) == 2


def test_a_sample_is_not_kept_beyond_the_next_allocation(computing):
    array = computing.host_array(64, pinned=False)
    computing.time((Copy(computing.alloc(64), array, 64),), 1, "host")
    kept = weakref.ref(array)
    del array
    computing.alloc(64)
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("array", [np.zeros(60, np.uint8), np.zeros(128, np.uint8)[::2]], ids=["short", "strided"])
def test_a_copy_beyond_its_host_array_is_refused(computing, array):
    buffer = computing.alloc(64)
    for copy in (Copy(buffer, array, 64), Copy(array, buffer, 64)):
        with pytest.raises(ValueError, match="of contiguous memory"):
            computing.run([copy])


def test_build_failure_names_the_first_error_and_keeps_the_log(computing):
    with pytest.raises(BuildError, match="error") as caught:
        computing.build("kernel void broken(global int* a) { a[0] = nonsense; }")
    assert "nonsense" in str(caught.value)
    assert len(caught.value.log) > len(str(caught.value))


def test_a_buffer_over_the_limit_is_refused_in_bytes_before_allocating(computing):
    with pytest.raises(DeviceError, match=r"GiB is over this device's largest.*lower --size"):
        computing.alloc(computing.info.max_alloc_bytes + 1)


def test_local_memory_and_work_groups_over_the_limit_are_refused_before_launching(computing):
    exchange = computing.build(kernel_source("barrier"))["exchange"]
    out, numbers = computing.alloc(4), (np.uint32(1), np.uint32(1))
    with pytest.raises(DeviceError, match="local memory"):
        computing.run([Launch(exchange, (out, *numbers, Local(computing.info.local_mem_bytes + 4)), (1,), (1,))])
    too_many = computing.info.max_work_group + 1
    with pytest.raises(DeviceError, match="work-group"):
        computing.run([Launch(exchange, (out, *numbers, Local(4)), (too_many,), (too_many,))])


@each("behind", ["arithmetic", "streaming", "copy_back"])
@each("direction", ["to_device", "from_device"])
def test_a_copy_and_what_it_hides_behind_are_both_right_at_odd_sizes(computing, direction, behind):
    params = {"direction": direction, "behind": behind, "array_bytes": 100_003}
    for missing in ("", "one", "other"):
        overlap = discovered()["transfer_overlap"].prepare(computing, **params)
        one, other, both = overlap.works(3)
        left = {"": both.commands, "one": other.commands, "other": one.commands}[missing]
        assert bool(sampling.check_outputs(computing, replace(both, commands=left))) == bool(missing), missing or "all ran"
