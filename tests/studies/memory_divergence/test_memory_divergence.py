"""memory_divergence and mlp: verified on a real device that is taken for a GPU, their shapes, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure.sampling import check_outputs
from clmembench.model import Launch, Skip
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.memory_divergence.benchmarks import memory_divergence as module
from clmembench.studies.memory_divergence.benchmarks.memory_divergence import LINE_BYTES, DivergenceShape, expected_intervals
from tests.cases import each

MIB = 1 << 20
BENCHMARK, MLP = discovered()["memory_divergence"], discovered()["mlp"]
POINT = {"lines": 4, "fmas": 16, "loads": 2, "sub_groups": 4, "footprint_bytes": MIB, "stores": 1}


@pytest.fixture(scope="module")
def device():
    """PoCL, taken for a GPU of two compute units: its work-items run one after the other, and compute the same."""
    found = runtime("opencl")
    info = next(one for one in found.devices() if one.kind == "cpu")
    return found.open(replace(info, kind="gpu", local_mem_type="local", compute_units=2, array_bytes=4 * MIB))


def changed(**params):
    return {**POINT, **params}


POINTS = [changed(), changed(fmas=0, loads=1, stores=0), changed(loads=4, lines=32), changed(lines=1, sub_groups=1),
          changed(sub_groups=64, lines=16), changed(footprint_bytes=1000 * 1000)]  # fmt: skip


@each("params", POINTS)
def test_what_is_loaded_and_stored_is_right_after_any_number_of_passes(device, params):
    slope = BENCHMARK.prepare(device, **params)
    for intervals in (1, 3, 70):  # of which 70 go round what is stored
        work = slope.work(intervals)
        assert check_outputs(device, work) == ""
        device.run(work.commands)
        work.check()


def test_a_wrong_word_is_seen(device):
    work = BENCHMARK.prepare(device, **POINT).work(5)
    (launch,) = work.commands
    data, sums, stored = launch.args[:3]
    device.run(work.commands)
    work.check()
    for buffer, said in ((sums, "did not load"), (stored, "did not store")):
        device.run(work.commands)
        rows = 4 if buffer is stored else 0  # the last of five intervals
        items = launch.global_size[0]
        kept = device.download(buffer, np.float32, (rows + 1) * items)
        kept[rows * items] += 1
        device.upload(buffer, kept)
        with pytest.raises(AssertionError, match=f"1 of {items} work-items {said}"):
            work.check()
    device.upload(data, np.zeros(MIB // 4, np.float32))
    device.run(work.commands)
    with pytest.raises(AssertionError, match="did not load"):
        work.check()


@each(("lines", "sectors"), [(1, 1), (1, 4), (32, 1), (40, 4), (224, 1), (4096, 1)])
def test_rounds_of_any_number_of_lines_are_verified(device, lines, sectors):
    prepared = MLP.prepare(device, lines=lines, sectors=sectors, footprint_bytes=MIB)
    work = prepared.work(9)
    assert work.ops == 9 and work.nbytes == 9 * lines * sectors * 32
    assert check_outputs(device, work) == ""


def test_an_interval_touches_as_many_distinct_lines_as_it_says():
    """By the words that sums are of: each work-item's lines over 40 loads, and those of a sub-group's load."""
    for lines in (1, 2, 4, 8, 16, 32):
        shape = DivergenceShape(1, 64, 32, 32 // lines, 1, 1 << 10)
        lane = np.arange(32)
        region = lane // shape.sharing
        counters = (region * module.SCRAMBLE_FACTOR + 7).astype(np.uint32)
        met = []
        for load in range(40):
            line = module.line_of(counters + np.uint32(load), shape.region_lines - 1) + region * shape.region_lines
            assert len(np.unique(line)) == lines
            met.append(line)
        assert len(np.unique(met)) > 0.95 * 40 * lines, "lines are hardly met again"
        assert shape.footprint_bytes == lines * 1024 * 128
        assert expected_intervals(np.arange(64), shape, 2, 7, 5, 3).shape == (5, 64)


def test_sub_groups_fill_compute_units_evenly():
    device = FakeDevice(FAKE_DEVICE_INFO)  # 8 compute units, work-groups of 1024
    for sub_groups, groups, items in ((1, 8, 32), (32, 8, 1024), (64, 16, 1024)):
        work = BENCHMARK.prepare(device, **changed(sub_groups=sub_groups)).work(6)
        (launch,) = [c for c in work.commands if isinstance(c, Launch)]
        assert launch.global_size == (groups * items,) and launch.local_size == (items,)
        assert work.ops == 6 and work.nbytes == 6 * 2 * 4 * LINE_BYTES * 8 * sub_groups
        assert work.reads["ticks"].count == groups


def test_uneven_work_groups_are_no_measurement():
    module._check_places(np.repeat(np.arange(100), 2), 100)
    doubled = np.arange(100)
    doubled[:1] = 99
    module._check_places(doubled, 100)  # one of a hundred
    doubled[:5] = 99
    with pytest.raises(Skip, match="5 of 100 work-groups shared"):
        module._check_places(doubled, 100)


def test_sub_groups_that_registers_leave_no_room_for_are_skipped():
    """64 sub-groups of 32 work-items have 32 registers each: with more, a part of them would run after the others."""
    full = changed(sub_groups=64)
    assert BENCHMARK.prepare(FakeDevice(FAKE_DEVICE_INFO, facts={"registers": 32}), **full).work(6).facts == {"registers": 32}
    with pytest.raises(Skip, match="2048 work-items of 33 registers are not resident at once"):
        BENCHMARK.prepare(FakeDevice(FAKE_DEVICE_INFO, facts={"registers": 33}), **full)
    BENCHMARK.prepare(FakeDevice(FAKE_DEVICE_INFO, facts={"registers": 33}), **changed(sub_groups=32))


@pytest.mark.parametrize("benchmark", [BENCHMARK, MLP])
def test_cores_without_sub_groups_are_skipped_with_the_reason(benchmark):
    cpu = FakeDevice(replace(FAKE_DEVICE_INFO, kind="cpu", local_mem_type="global"))
    params = {name: axis.values(FAKE_DEVICE_INFO)[0] for name, axis in benchmark.axes.items()}
    with pytest.raises(Skip, match="one after the other"):
        benchmark.prepare(cpu, **params)


@pytest.mark.parametrize(
    ("params", "said"),
    [({"lines": 64}, "cannot touch 64 lines"), ({"lines": 3}, "cannot touch 3"), ({"sub_groups": 65}, "over two work-groups"),
     ({"footprint_bytes": 256}, "no two lines"), ({"footprint_bytes": 1 << 40}, "does not fit")],
)  # fmt: skip
def test_what_a_device_cannot_run_is_skipped(params, said):
    with pytest.raises(Skip, match=said):
        BENCHMARK.prepare(FakeDevice(FAKE_DEVICE_INFO), **changed(**params))
    with pytest.raises(Skip, match="over 4 loads"):
        MLP.prepare(FakeDevice(FAKE_DEVICE_INFO), lines=8192, sectors=1, footprint_bytes=MIB)
    with pytest.raises(Skip, match="power of two"):
        MLP.prepare(FakeDevice(FAKE_DEVICE_INFO), lines=32, sectors=1, footprint_bytes=3 * MIB)
