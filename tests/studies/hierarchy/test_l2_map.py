"""l2_map: the kernels on PoCL, where work-groups stand for compute units; what a device without PTX says; a core's latency."""

from dataclasses import replace

import numpy as np
import pytest

from clmembench.analysis import stats
from clmembench.benchmarks import discovered
from clmembench.measure.sampling import check_outputs, sample_point
from clmembench.model import Device, Skip
from clmembench.plan.budget import Budget
from clmembench.plan.selection import Selection
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.hierarchy.benchmarks.l2_map import LINES, SPREAD_BYTES, prepare_gpu_map, random_line_offsets
from tests.cases import each

KIB = 1 << 10
TINY = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4)
L2_MAP = discovered()["l2_map"]


@pytest.fixture(scope="module")
def info():
    return next(d for d in runtime("opencl").devices() if d.kind == "cpu")


@pytest.fixture(scope="module")
def device(info) -> Device:
    return runtime("opencl").open(replace(info, compute_units=2))


@pytest.mark.parametrize("seed", [1, 2])
def test_lines_are_scattered_none_met_twice(seed):
    offsets = random_line_offsets(seed)
    assert offsets.size == LINES == np.unique(offsets // 128).size
    assert offsets.max() < SPREAD_BYTES and (offsets % 128 == 0).all()
    assert np.unique(np.diff(offsets)).size > LINES / 2, "a regular spacing could fall into one slice"
    assert not np.array_equal(offsets, random_line_offsets(seed + 7))


def test_each_unit_in_turn_fills_its_own_row(device):
    """Sixteen work-groups stand for units, of which each measures in one launch and is told by its number."""
    slope = prepare_gpu_map(device, "load", ptx=0)
    work = slope.work(4)
    assert work.ops == 16 * LINES * 21 and len(work.commands) == 16
    assert check_outputs(device, work) == ""
    unit = device.download(work.reads["unit"].buffer, np.uint32, 16)
    assert unit.tolist() == list(range(16))


def test_a_unit_that_is_not_met_leaves_its_row_as_of_nowhere(device):
    work = prepare_gpu_map(device, "load", ptx=0).work(4)
    device.run((*work.before, *work.commands[1:]))
    unit = device.download(work.reads["unit"].buffer, np.uint32, 16)
    assert unit.tolist() == [0xFFFFFFFF, *range(1, 16)]
    work.check()


def test_a_map_of_which_most_is_missing_is_wrong(device):
    work = prepare_gpu_map(device, "load", ptx=0).work(4)
    device.run((*work.before, *work.commands[:3]))
    with pytest.raises(AssertionError, match="3 of 16 compute units"):
        work.check()


@each("every", [2, 3, 4, 8])
@each("first", [0, 1, -1])
@each("made", [True, False])
@each("far", [22, 100, 1000, 30001])
def test_steps_that_are_left_out_end_elsewhere_in_the_sector_at_one_end_of_the_slope(device, far, made, first, every):
    """Every second, third ... step is made, or left out, from whichever on: one of both ends' checks must see it."""
    slope = prepare_gpu_map(device, "load", ptx=0)
    near, far = (int(slope.work(least).commands[0].args[-1]) for least in (slope.start, far))
    missing = [sum((n % every == first % every) != made for n in range(steps)) for steps in (near, far)]
    assert any(steps % 4 for steps in missing)
    assert near % 4 and far % 4, "no steps at all"


@pytest.mark.parametrize("fewer", [1, 7, 8, 14])
def test_accesses_that_were_not_made_are_noticed(device, fewer):
    work = prepare_gpu_map(device, "load", ptx=0).work(30)
    device.run((*work.before, *(replace(c, args=(*c.args[:-1], np.uint32(fewer))) for c in work.commands)))
    work.check()  # what the kernel was asked for
    memory = work.commands[0].args[0]
    rings = device.download(memory, np.uint64, SPREAD_BYTES // 8)
    first = random_line_offsets(20170101 + device.seed) // 8
    rings[first + 1] = rings[first]  # a step that leads nowhere, as of an access that was not made
    device.upload(memory, rings)
    device.run((*work.before, *work.commands))
    with pytest.raises(AssertionError, match="had fewer accesses"):
        work.check()


def test_a_line_that_leads_elsewhere_is_noticed(device):
    work = prepare_gpu_map(device, "load", ptx=0).work(30)
    memory = work.commands[0].args[0]
    damaged = device.download(memory, np.uint64, SPREAD_BYTES // 8)
    node = int(random_line_offsets(20170101 + device.seed)[5]) // 8
    damaged[node : node + 4] = damaged[node]
    device.upload(memory, damaged)
    device.run((*work.before, *work.commands))
    with pytest.raises(AssertionError, match="had fewer accesses, or one that led elsewhere"):
        work.check()


def test_without_ptx_it_says_what_opencl_c_does_not_tell():
    gpu = FakeDevice(replace(FAKE_DEVICE_INFO, features=frozenset()))
    for access in L2_MAP.axes["access"].values(gpu.info):
        with pytest.raises(Skip, match="for the compute unit"):
            L2_MAP.prepare(gpu, access=access)


def test_with_ptx_each_launch_has_a_target_and_every_pass_begins_anew():
    device = FakeDevice()
    slope = L2_MAP.prepare(device, access="atomic")
    near, far = slope.work(slope.start), slope.work(3 * slope.start)
    assert device.built[-1]["PTX"] == 1 and device.built[-1]["ATOMIC"] == 1
    assert far.ops == near.ops // 21 * 67 and near.before and set(near.reads) == {"ticks", "unit"}


def test_a_process_that_is_held_to_no_core_says_so(device, info):
    alone = runtime("opencl").open(replace(info, compute_units=1, array_bytes=256 * KIB))
    assert len(L2_MAP.prepare(alone, access="load").work(1).notes) == 1
    free = runtime("opencl").open(replace(info, compute_units=2, array_bytes=256 * KIB))
    assert "not pinned to a core" in L2_MAP.prepare(free, access="load").work(1).notes[-1]


def test_a_small_cache_is_not_taken_for_the_last(info):
    alone = runtime("opencl").open(replace(info, compute_units=1, cache_bytes=1 << 20, array_bytes=None))
    with pytest.raises(Skip, match="may be a core's own"):
        L2_MAP.prepare(alone, access="load")


def test_a_core_chases_a_set_that_no_core_holds_alone(info):
    alone = runtime("opencl").open(replace(info, compute_units=1, array_bytes=256 * KIB))
    found = sample_point(alone, L2_MAP.prepare(alone, access="load"), TINY, 1.0)
    assert not found.wrong and found.checked and len(found.series) == 2
    laps, rest = divmod(found.series[0].ops, 256 * KIB // alone.info.line_bytes)
    assert laps >= 1 and rest == 0


def test_its_time_suffices_for_an_interval_on_a_gpu_of_132_units():
    """Both ends of the slope, as often as an interval needs, with 300 ns an access."""
    slope = L2_MAP.prepare(FakeDevice(), access="load")
    near, far = slope.work(slope.start), slope.work(3 * slope.start)
    accesses = (near.ops + far.ops) * 132 / len(near.commands)
    budget = Selection().budget_of(L2_MAP)
    assert stats.MIN_SAMPLES * accesses * 300e-9 <= budget.patience * budget.max_time_s
