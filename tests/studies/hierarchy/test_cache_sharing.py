"""cache_sharing: its walks on PoCL, what is skipped and why, and the map of compute units with work-groups in their place."""

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure.sampling import check_outputs, sample_point
from clmembench.model import Device, Skip
from clmembench.plan.budget import Budget
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.hierarchy.benchmarks.cache_sharing import FIT_LAPS, PATH_CODES, SAME_WALKS, WALKS
from clmembench.studies.hierarchy.benchmarks.sharing_memory import region_cells
from clmembench.studies.hierarchy.benchmarks.sharing_units import SLICE_BYTES, SLICE_NODES, constant_chain, units_work
from clmembench.studies.hierarchy.sharing.sharing_records import eviction_of, fit_of
from tests.builders import record
from tests.cases import each

KIB = 1 << 10
TINY = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4)
SHARING = discovered()["cache_sharing"]
PORTABLE = ("global", "image1d_buffer", "constant", "constant_array")  # without PTX
PAIRS = [(a, b) for a in PORTABLE for b in PORTABLE if a != b and {a, b} != {"constant", "constant_array"}]


@pytest.fixture(scope="module")
def device() -> Device:
    info = next(d for d in runtime("opencl").devices() if d.kind == "cpu")
    return runtime("opencl").open(replace(info, compute_units=2, features=info.features | {"tsc", "fence", "images"}))


@pytest.mark.parametrize("path", PORTABLE)
def test_every_walk_of_a_fit_ends_where_its_set_does(device, path):
    work = SHARING.prepare(device, question="fit", owner=path)
    assert check_outputs(device, work) == ""
    steps = device.download(work.reads["steps"].buffer, np.uint32, work.reads["steps"].count)
    nbytes = device.download(work.reads["bytes"].buffer, np.uint32, work.reads["bytes"].count)
    assert steps[:2].tolist() == [0, 0] and steps.size == 2 + FIT_LAPS * nbytes.size
    spacing = SLICE_BYTES // SLICE_NODES if path.startswith("constant") else device.info.line_bytes
    more = 0 if path.startswith("constant") else 1  # a lap and one step: where a lap ends does not show that it was walked
    assert ((steps[2::FIT_LAPS] - more) * spacing == nbytes).all()


@each(("owner", "other"), PAIRS)
def test_laps_of_two_paths_are_right_and_readable(device, owner, other):
    params = {"question": "paths", "owner": owner, "other": other, "array_bytes": 4 * KIB, "other_bytes": 20 * KIB}
    found = sample_point(device, SHARING.prepare(device, **params), TINY, 1.0)
    assert not found.wrong and found.checked
    read = eviction_of(record("cache_sharing", params, *found.series))
    assert (read.owner, read.other, read.same) == (owner, other, None) and read.warm.min() > 0


def test_a_fit_is_read_as_it_was_measured(device):
    params = {"question": "fit", "owner": "global"}
    found = sample_point(device, SHARING.prepare(device, **params), TINY, 1.0)
    read = fit_of(record("cache_sharing", params, *found.series))
    assert read is None or (read.path == "global" and len(read.ticks) == len(read.sizes))
    assert found.series[0].reads["bytes"].unpack().shape[1] >= 10


@pytest.mark.parametrize("fewer", [lambda steps: 0 * steps, lambda steps: steps - (steps > 0), lambda steps: steps // 2])
def test_steps_that_were_not_made_are_noticed(device, fewer):
    work = SHARING.prepare(device, question="fit", owner="global")
    device.run(work.commands)
    work.check()
    schedule = next(
        arg for arg in work.commands[0].args if arg is not None and getattr(arg, "size", 0) == 16 * work.reads["steps"].count
    )
    words = device.download(schedule, np.uint32, 4 * work.reads["steps"].count).reshape(-1, 4)
    words[:, 2] = fewer(words[:, 2])
    device.upload(schedule, words)
    device.run(work.commands)
    with pytest.raises(AssertionError, match="did not end at the expected node"):
        work.check()


def test_a_damaged_chain_is_noticed(device):
    work = SHARING.prepare(device, question="fit", owner="global")
    arena = work.commands[0].args[0]
    cells = device.download(arena, np.uint32, 1024 * KIB // 4)
    cells[:] = 0
    device.upload(arena, cells)
    device.run(work.commands)
    with pytest.raises(AssertionError, match="did not end at the expected node"):
        work.check()


def test_each_region_is_one_cycle_over_all_its_lines():
    regions, cells = region_cells((4 * KIB, 640), 64, 5)
    for first, nbytes, second in regions:
        seen, node = set(), first
        for _ in range(nbytes // 64):
            seen.add(node)
            node = int(cells[node // 4])
        assert second == cells[first // 4] and node == first and len(seen) == nbytes // 64 and max(seen) < first + nbytes


def test_slices_lead_into_each_other(device):
    chain = constant_chain(device.info, 1)
    node = 0
    for step in range(1, SLICE_NODES * 3 + 1):
        node = int(chain[node // 4])
        assert node // SLICE_BYTES == step // SLICE_NODES
    assert node == 3 * SLICE_BYTES


def test_no_program_has_both_pointers_to_constants_and_an_array_of_them():
    fake = FakeDevice(replace(FAKE_DEVICE_INFO, kind="gpu"))
    for owner, other in (("constant", "constant_array"), ("constant_array", "constant")):
        with pytest.raises(Skip, match="pointer to constants beside an array"):
            SHARING.prepare(fake, question="paths", owner=owner, other=other, array_bytes=KIB, other_bytes=KIB)
    SHARING.prepare(fake, question="paths", owner="constant_array", other="global", array_bytes=KIB, other_bytes=8 * KIB)
    assert fake.built[-1]["ARRAY"] == 1 and fake.built[-1]["PTX"] == 1


def test_with_ptx_lines_that_two_paths_share_by_address_are_looked_at():
    fake = FakeDevice(replace(FAKE_DEVICE_INFO, kind="gpu"))
    pair = {"question": "paths", "array_bytes": KIB, "other_bytes": 8 * KIB}
    same = SHARING.prepare(fake, owner="global", other="readonly", **pair)
    apart = SHARING.prepare(fake, owner="global", other="image1d_buffer", **pair)
    assert (same.reads["ticks"].count, apart.reads["ticks"].count) == (len(WALKS) + len(SAME_WALKS), len(WALKS))


@each(
    ("params", "changes", "says"),
    [
        ({"question": "fit"}, {"features": frozenset()}, "no in-kernel counter"),
        ({"question": "fit", "owner": "readonly"}, {"features": frozenset({"tsc"})}, "read-only path"),
        ({"question": "fit", "owner": "image1d_buffer"}, {"features": frozenset({"ptx"})}, "no images"),
        ({"question": "fit", "local_bytes": 1 << 30}, {"kind": "gpu"}, "of local memory"),
        ({"question": "fit", "local_bytes": KIB}, {"kind": "cpu"}, "ordinary memory"),
        ({"question": "fit", "owner": "constant"}, {"constant_bytes": KIB}, "too few"),
        ({"question": "paths", "owner": "global", "other": "global"}, {}, "must differ"),
        ({"question": "paths", "owner": "global", "other": "constant"}, {}, "at least"),
        (
            {"question": "paths", "owner": "constant", "other": "global", "array_bytes": 1 << 20, "other_bytes": KIB},
            {},
            "leave nothing",
        ),
        ({"question": "units"}, {"kind": "cpu"}, "sysfs"),
        ({"question": "units"}, {"kind": "gpu", "features": frozenset({"tsc"})}, "no inline PTX"),
    ],
)
def test_what_cannot_be_measured_says_why(params, changes, says):
    fake = FakeDevice(replace(FAKE_DEVICE_INFO, **changes))
    with pytest.raises(Skip, match=says):
        SHARING.prepare(fake, **params)


def test_work_groups_in_the_place_of_units_each_walk_their_slice(device):
    work = units_work(device, ptx=0)
    assert check_outputs(device, work) == ""
    count = work.reads["units"].count
    assert work.reads["ticks"].count == count * (count + 1)


def test_a_map_of_which_most_is_missing_is_wrong(device):
    work = units_work(device, ptx=0)
    device.run((*work.before, *work.commands[:2]))
    with pytest.raises(AssertionError, match="walks of compute units"):
        work.check()


def test_every_path_has_a_code_of_its_own():
    assert len(set(PATH_CODES.values())) == len(PATH_CODES)
