"""The rotation itself in NumPy, its cubes, and every version of its kernels on PoCL against it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

from clmembench.benchmarks import discovered
from clmembench.measure import sampling
from clmembench.measure.job import ProbeResult
from clmembench.model import Skip
from clmembench.plan.selection import Selection
from clmembench.resources import kernel_source
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.mnf import plan as casestudy
from clmembench.studies.mnf.benchmarks import cubes, numpy_mnf
from clmembench.studies.mnf.benchmarks.cubes import CubeSize, parse_cube_size
from clmembench.studies.mnf.benchmarks.mnf_host import HOST_STEPS, ParallelPipeline, SerialPipeline, steps_of
from clmembench.studies.mnf.benchmarks.mnf_kernels import COVARIANCES, FILTERS, STAGED_PIXELS, TRANSFORMS, slice_pixels
from clmembench.studies.mnf.benchmarks.mnf_steps import cube_of, default_size, noise_of
from clmembench.studies.mnf.command import _records
from clmembench.studies.mnf.versions import VERSION_CHANGES
from tests.builders import open_cpu, record, series, walked
from tests.cases import each

# pixels and bands that no group, tile or slice divides; at last more bands than the transformation stages at once
UNDIVIDED_CUBES = ("37x7x5", "131x5x18", "23x31x17", "13x7x41")
CPU = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=2, shares_host_memory=True)


@pytest.fixture(scope="module")
def device():
    return open_cpu()


@pytest.fixture(scope="module")
def covariances():
    """Of the noise and of the data of a small cube, and its rotation."""
    size = CubeSize(40, 30, 12)
    cube = cubes.make_cube(size, 3)
    noise, data = (
        numpy_mnf.covariance(*numpy_mnf.exact_sums(x), size.pixels) for x in (numpy_mnf.filter_noise(cube, "mean"), cube)
    )
    return noise, data, numpy_mnf.solve_rotation(noise, data)


# ---- cubes -------------------------------------------------------------------------------------------------------------


def test_a_cube_is_its_seeds_and_like_a_hyperspectral_image():
    size = CubeSize(60, 50, 32)
    cube = cubes.make_cube(size, 1)
    assert cube.shape == (32, 50, 60) and cube.dtype == np.uint8
    assert np.array_equal(cube, cubes.make_cube(size, 1)) and not np.array_equal(cube, cubes.make_cube(size, 2))
    assert np.isin(cube, (0, 255)).mean() < 0.01  # hardly anything is cut off
    spectra = cube.reshape(32, -1).astype(float)
    near = np.corrcoef(spectra)[np.arange(31), np.arange(1, 32)]
    assert np.median(near) > 0.8  # smooth over the bands
    space = [np.corrcoef(b[:, :-1].ravel(), b[:, 1:].ravel())[0, 1] for b in cube.astype(float)]
    assert np.median(space) > 0.7  # and over the image
    variances = np.linalg.eigvalsh(np.cov(spectra))[::-1]
    assert variances[:8].sum() > 0.95 * variances.sum()  # as few dimensions as there are materials


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("614x1087", CubeSize(614, 1087, 224)), (" 37x7x5 ", CubeSize(37, 7, 5)), ("20x40x9", CubeSize(20, 40, 9))],
)
def test_sizes_are_read(text, wanted):
    assert parse_cube_size(text) == wanted and parse_cube_size(str(wanted)) == wanted


@each(
    "text",
    [
        "",
        "614",
        "614x",
        "0x9x2",
        "2x90x5",
        "20x20x1",
        "20x20x224",
        "9999x9999",
        "1e2x3",
        "-5x9x2",
        "614x1087x1025",
        "\uff16x9x2",
    ],
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"size of a cube|a cube has|at most"):
        parse_cube_size(text)


def test_the_size_follows_the_device():
    assert str(default_size(FAKE_DEVICE_INFO)) == "614x1087x224"
    assert default_size(CPU).pixels < 5000 < default_size(replace(CPU, compute_units=16)).pixels
    least = default_size(replace(FAKE_DEVICE_INFO, max_alloc_bytes=64 << 20))
    assert 2 * least.pixels * least.bands <= 32 << 20 and least.width == 614
    for nbytes in (1, 9000, 1 << 20):
        assert parse_cube_size(str(default_size(replace(FAKE_DEVICE_INFO, array_bytes=nbytes))))


# ---- the rotation in NumPy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 3), (3, 17, 5), (2, 6, 41)])
def test_filters_are_those_of_scipy(shape):
    cube = np.random.default_rng(5).integers(0, 256, shape).astype(np.uint8)
    for band, found in zip(cube, numpy_mnf.filter_noise(cube, "median"), strict=True):
        assert np.array_equal(band - found, ndimage.median_filter(band.astype(int), size=3, mode="nearest"))
    for band, found in zip(cube, numpy_mnf.filter_noise(cube, "mean"), strict=True):
        sums = ndimage.correlate(band.astype(int), np.ones((3, 3), int), mode="nearest")
        assert np.array_equal(band - found, np.floor(sums / 9 + 0.5))


def test_covariances_are_exact(monkeypatch):
    monkeypatch.setattr(numpy_mnf, "CHUNK_PIXELS", 64)  # more threads, ranges and chunks than one, which divide nothing
    monkeypatch.setattr(numpy_mnf, "available_cpus", lambda: 3)
    values = np.random.default_rng(6).integers(-255, 256, (4, 3, 301)).astype(np.int16)
    totals, products = numpy_mnf.exact_sums(values)
    flat = values.reshape(4, -1).astype(object)  # Python's whole numbers
    assert (totals == flat.sum(axis=1)).all() and (products == flat @ flat.T).all()
    assert np.allclose(numpy_mnf.covariance(totals, products, 903), np.cov(flat.astype(float)), rtol=1e-12, atol=0)


def test_sums_of_the_largest_cube_stay_exact_in_64_bits():
    pixels = cubes.MAX_PIXELS
    assert pixels * pixels * 255**2 < 2**63 and pixels * 255**2 < 2**53


def test_a_noise_subspace_that_is_known_is_found():
    # three sources of known strength over white noise, seen through an invertible mixing of the bands
    rng = np.random.default_rng(7)
    bands, strengths = 9, np.array([900.0, 100.0, 16.0])
    mixing = rng.normal(size=(bands, bands))
    noise = mixing @ mixing.T
    data = mixing @ np.diag([*(1 + strengths), *np.ones(bands - 3)]) @ mixing.T
    found = numpy_mnf.solve_rotation(noise, data)
    assert np.allclose(found.values, [*(1 + strengths), *np.ones(bands - 3)], rtol=1e-9)
    assert np.allclose(found.vectors.T @ noise @ found.vectors, np.eye(bands), atol=1e-9)
    # of what the components were mixed from, the first three have the sources alone and the others noise alone
    unmixed = np.abs(found.vectors.T @ mixing)
    assert np.allclose(unmixed[:3, :3], np.eye(3), atol=1e-6) and np.allclose(unmixed[3:, :3], 0, atol=1e-6)


def test_two_ways_to_the_eigenspaces_agree(covariances):
    noise, data, found = covariances
    assert max(numpy_mnf.deviation(found, numpy_mnf.reference_solution(noise, data), noise)) < 1e-10


def test_signs_and_the_basis_of_equal_eigenvalues_do_not_count(covariances):
    noise, _, found = covariances
    flipped = numpy_mnf.Rotation(found.values, found.vectors * np.where(np.arange(12) % 2, -1, 1))
    assert max(numpy_mnf.deviation(flipped, found, noise)) < 1e-10
    equal = np.array([9.0, 4.0, *np.ones(10)])
    turn = np.eye(12)
    turn[2:, 2:] = np.linalg.qr(np.random.default_rng(8).normal(size=(10, 10)))[0]
    one, other = numpy_mnf.Rotation(equal, found.vectors), numpy_mnf.Rotation(equal, found.vectors @ turn)
    assert max(numpy_mnf.deviation(other, one, noise)) < 1e-10


@each("wrong", ["noise", "data", "turned", "swapped", "shrunk", "value"])
def test_what_is_wrong_is_seen(covariances, wrong):
    noise, data, right = covariances
    bad = {"noise": noise.copy(), "data": data.copy()}
    if wrong in bad:
        bad[wrong][2, 5] *= 1.01
        bad[wrong][5, 2] = bad[wrong][2, 5]
        found = numpy_mnf.solve_rotation(bad["noise"], bad["data"])
    else:
        values, vectors = right.values.copy(), right.vectors.copy()
        if wrong == "turned":
            angle = 1e-3
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            vectors[:, :2] = vectors[:, :2] @ turn
        elif wrong == "swapped":
            vectors[:, [0, 5]] = vectors[:, [5, 0]]
        elif wrong == "shrunk":
            vectors[:, 3] *= 1 - 1e-5
        else:
            values[7] *= 1 + 1e-5
        found = numpy_mnf.Rotation(values, vectors)
    assert max(numpy_mnf.deviation(found, right, noise)) > 1e-6


def test_bands_without_noise_have_no_rotation():
    with pytest.raises(ValueError, match="no noise"):
        numpy_mnf.solve_rotation(np.diag([1.0, 0.0, 2.0]), np.eye(3))


# ---- the kernels -------------------------------------------------------------------------------------------------------


def points():
    yield from (("mnf_filter", {"variant": v}) for v in FILTERS)
    yield from (("mnf_covariance", {"variant": v, "of": of}) for v in COVARIANCES for of in ("noise", "data"))
    yield from (("mnf_transform", {"variant": v}) for v in TRANSFORMS)


def two_cubes_each():
    """Each version with two of the cubes, each cube with half of the versions."""
    for number, (name, params) in enumerate(points()):
        yield name, params, [UNDIVIDED_CUBES[(number + step) % len(UNDIVIDED_CUBES)] for step in (0, 1)]


@each(("name", "params", "sizes"), [*two_cubes_each()])
def test_every_version_is_right_at_odd_sizes_and_after_any_number_of_passes(device, name, params, sizes):
    for size in sizes:
        work = discovered()[name].prepare(device, size=size, **params)
        assert sampling.check_outputs(device, work) == ""
        device.run(work.commands * 2)
        work.check()


@each(("name", "params"), [*points()])
def test_a_wrong_result_is_seen(device, name, params):
    work = discovered()[name].prepare(device, size=UNDIVIDED_CUBES[0], **params)
    device.run(work.commands)
    work.check()
    buffer, nbytes = work.outputs[-1]
    kept = device.download(buffer, np.uint8, nbytes)
    wrong = kept.copy()
    wrong[3 if name == "mnf_transform" else 0] ^= 1 if name != "mnf_transform" else 0x40
    device.upload(buffer, wrong)
    with pytest.raises(AssertionError, match=r"not those of|differ from"):
        work.check()


def test_extreme_values_do_not_overflow(device, monkeypatch):
    # a chessboard of 0 and 255 has the largest noise there is, and its sums of products are the largest
    size = CubeSize(131, 5, 18)
    board = np.broadcast_to(255 * (np.indices((5, 131)).sum(axis=0) % 2), (18, 5, 131)).astype(np.uint8)
    steps = import_module("clmembench.studies.mnf.benchmarks.mnf_steps")
    monkeypatch.setattr(steps, "cube_of", lambda *_: board)
    monkeypatch.setattr(steps, "noise_of", lambda s, seed, kind: numpy_mnf.filter_noise(board, kind))
    monkeypatch.setattr(
        steps, "sums_of", lambda s, seed, of: numpy_mnf.exact_sums(board if of == "data" else numpy_mnf.filter_noise(board, of))
    )
    assert np.abs(numpy_mnf.filter_noise(board, "median")).max() == 255
    for name, params in points():
        assert sampling.check_outputs(device, discovered()[name].prepare(device, size=str(size), **params)) == ""


@pytest.mark.parametrize("memory", ["device", "host"])
@pytest.mark.parametrize("variants", [casestudy.FIRST_VERSIONS, casestudy.LAST_VERSIONS], ids=["first", "last"])
def test_the_whole_is_right(device, variants, memory):
    work = discovered()["mnf"].prepare(device, memory=memory, size=UNDIVIDED_CUBES[2], **variants)
    assert sampling.check_outputs(device, work) == ""
    device.run(work.commands)
    work.check()


@pytest.mark.parametrize("library", ["blas", "serial"])
def test_the_host_is_right_at_every_step(device, library):
    assert set(steps_of("blas")) == set(HOST_STEPS[1:]) and set(HOST_STEPS[1:]) - set(steps_of("serial")) == {"convert"}
    for step in ("whole", *steps_of(library)):
        work = discovered()["mnf_host"].prepare(device, library=library, step=step, size=UNDIVIDED_CUBES[2])
        assert sampling.check_outputs(device, work) == ""


@pytest.mark.parametrize("library", ["blas", "serial"])
@pytest.mark.parametrize("wrong", [np.nan, 1.0])
def test_one_wrong_component_in_the_last_chunk_of_pixels_is_seen(device, monkeypatch, library, wrong):
    monkeypatch.setattr(numpy_mnf, "CHUNK_PIXELS", 64)
    made = {"blas": ParallelPipeline, "serial": SerialPipeline}[library]
    transform = made.transform

    def broken(self):
        transform(self)
        self.z[2, -1] = self.z[2, -1] + wrong

    monkeypatch.setattr(made, "transform", broken)
    work = discovered()["mnf_host"].prepare(device, library=library, step="transform", size=UNDIVIDED_CUBES[0])
    assert "1 components differ" in sampling.check_outputs(device, work)


def test_threads_share_out_every_band_and_pixel_once(monkeypatch):
    size = CubeSize(67, 31, 21)  # several chunks, blocks and threads, none of which divides it
    cube = cubes.make_cube(size, 4)
    host = import_module("clmembench.studies.mnf.benchmarks.mnf_host")
    monkeypatch.setattr(host, "CHUNK_PIXELS", 500)
    monkeypatch.setattr(host, "MIN_BLOCK_VALUES", 3 * size.pixels - 1)
    monkeypatch.setattr(numpy_mnf, "available_cpus", lambda: 5)
    found = ParallelPipeline(cube)
    assert found.group == 3 and found.chunks == 5 and len(found.scratch) == 5
    for _ in range(2):  # a pass leaves nothing behind that the next one adds to
        for step in steps_of("blas"):
            getattr(found, step)()
    noise, flat = numpy_mnf.filter_noise(cube, "mean"), cube.reshape(21, -1).astype(float)
    assert np.array_equal(found.noise, noise)
    for one, values in zip(found.covariances, (noise.reshape(21, -1).astype(float), flat), strict=True):
        assert np.allclose(one, np.cov(values), rtol=1e-4, atol=1e-4)
    assert np.allclose(found.z, found.vectors.T @ flat, rtol=1e-4, atol=1e-3)


def test_the_serial_program_does_each_product_once_and_right():
    size = CubeSize(20, 15, 7)
    found = SerialPipeline(cubes.make_cube(size, 4))
    for step in steps_of("serial"):
        getattr(found, step)()
    assert np.array_equal(found.noise, numpy_mnf.filter_noise(found.cube, "median"))
    for one, values in zip(found.covariances, (found.noise.reshape(7, -1), found.flat), strict=True):
        assert np.allclose(one, np.cov(values.astype(float)), rtol=1e-12)
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        real = np.einsum
        patch.setattr(np, "einsum", lambda *args, **more: asked.append(args[2].shape) or real(*args, **more))
        found.covariance()
    assert sum(shape[0] for shape in asked) == 2 * 7 * 8 / 2


@pytest.mark.parametrize("name", casestudy.BENCHMARKS)
def test_the_blas_has_one_thread_wherever_times_are_taken(device, name):
    from threadpoolctl import ThreadpoolController

    every = ThreadpoolController()
    before = every.info()
    try:
        every.limit(limits=2)
        first = {n: axis.values(device.info)[0] for n, axis in discovered()[name].axes.items()}
        work = discovered()[name].prepare(device, **{**first, "size": UNDIVIDED_CUBES[2]})
        assert {pool["num_threads"] for pool in every.info() if pool["user_api"] == "blas"} == {1}
        device.run(work.commands)
        work.check()
        assert {pool["num_threads"] for pool in every.info() if pool["user_api"] == "blas"} == {1}
    finally:
        every.limit(limits={pool["prefix"]: pool["num_threads"] for pool in before})


def test_a_cube_that_is_not_brought_or_components_that_are_not_are_seen(device, monkeypatch):
    params = {**casestudy.LAST_VERSIONS, "memory": "host", "size": UNDIVIDED_CUBES[2]}
    work = discovered()["mnf"].prepare(device, **params)
    assert sampling.check_outputs(device, work) == ""
    own = device.upload
    cube = cube_of(parse_cube_size(UNDIVIDED_CUBES[2]), device.seed)
    monkeypatch.setattr(device, "upload", lambda buffer, array: None if array is cube else own(buffer, array), raising=False)
    with pytest.raises(AssertionError, match="not those of"):
        assert sampling.check_outputs(device, work) == ""
    monkeypatch.undo()
    assert sampling.check_outputs(device, work) == ""
    back = device.download

    def blank(buffer, dtype, count, offset_bytes=0):
        found = back(buffer, dtype, count, offset_bytes)
        return found * np.nan if np.dtype(dtype) == np.float32 else found

    monkeypatch.setattr(device, "download", blank, raising=False)
    assert "components differ" in sampling.check_outputs(device, work)


def test_versions_differ_in_what_they_are_named_for():
    forms = [FILTERS[v] for v in ("V0", "V0n", "V1", "V2", "V3")]
    fields = ("network", "kind", "staged", "group")
    differ = [{f for f in fields if getattr(a, f) != getattr(b, f)} for a, b in pairwise(forms)]
    assert differ == [{"network"}, {"network", "kind"}, {"staged"}, {"group"}]  # a mean has neither array nor network
    assert forms[3].group[0] * forms[3].group[1] == forms[4].group[0] * forms[4].group[1]
    assert {name: {c.variant for c in of} | {"V0"} for name, of in VERSION_CHANGES.items()} == {
        "mnf_filter": set(FILTERS),
        "mnf_covariance": set(COVARIANCES),
        "mnf_transform": set(TRANSFORMS),
    }
    assert all({c.over for c in of} <= {c.variant for c in of} | {"V0"} for of in VERSION_CHANGES.values())


def built(name, variant, **params):
    """What a version's programs are built with, and its launch: (defines, launch)."""
    made = FakeDevice()
    work = discovered()[name].prepare(made, variant=variant, size=UNDIVIDED_CUBES[0], **params)
    return made.built[-1], next(c for c in work.commands if c.kernel.name in ("filter", "covariance", "transform"))


@each(
    ("name", "one", "other", "wanted"),
    [
        ("mnf_filter", "V0", "V0n", {"MEDIAN": (1, 2)}),
        ("mnf_filter", "V0n", "V1", {"MEDIAN": (2, 0)}),
        ("mnf_filter", "V1", "V2", {"STAGED": (False, True)}),
        ("mnf_filter", "V2", "V3", {"GROUP_COLUMNS": (128, 32), "GROUP_ROWS": (1, 4)}),
        ("mnf_covariance", "V0", "V1", {"VERSION": (0, 1)}),
        ("mnf_covariance", "V1", "V2", {"VERSION": (1, 2)}),
        ("mnf_covariance", "V2", "V3", {"VERSION": (2, 3)}),
        ("mnf_covariance", "V3", "V4", {"VERSION": (3, 4), "PAD": (0, 2)}),
        ("mnf_transform", "V0", "V1", {"PLACE": (0, 2)}),
        ("mnf_transform", "V1", "V2", {"STAGED": (False, True)}),
        ("mnf_transform", "V0", "V1p", {"PLACE": (0, 1)}),
        ("mnf_transform", "V1p", "V2p", {"STAGED": (False, True)}),
    ],
)
def test_programs_differ_in_what_versions_are_named_for(name, one, other, wanted):
    of = {"of": "noise"} if name == "mnf_covariance" else {}
    (a, first), (b, second) = built(name, one, **of), built(name, other, **of)
    assert {n: (a[n], b[n]) for n in a if a[n] != b[n]} == wanted and a.keys() == b.keys()
    # work-groups are of one size, but for V3 and V4 of the covariance one of tiles is one of as many items
    assert math.prod(first.local_size) == math.prod(second.local_size)


def test_versions_of_the_covariance_are_told_apart_by_their_tree_their_sum_and_their_tiles():
    found = re.findall(r"#if VERSION ([<=]+ \d)", kernel_source("mnf_covariance"))
    assert found == ["< 3", "== 0", "< 2"]  # so that V3 and V4 are one program but for PAD, and V1 and V2 but for the sum


def test_the_median_by_exchanges_is_that_of_numpy():
    written = re.findall(r"EXCHANGE\((\d), (\d)\)", kernel_source("mnf_filter"))
    assert [(int(a), int(b)) for a, b in written] == list(numpy_mnf.MEDIAN_NETWORK)


def test_what_the_compiler_says_of_a_filter_is_kept():
    work = discovered()["mnf_filter"].prepare(FakeDevice(facts={"stack_bytes": 16}), variant="V0", size=UNDIVIDED_CUBES[0])
    assert work.facts == {"stack_bytes": 16}


def test_everything_between_two_launches_is_poisoned(device):
    for variant in COVARIANCES:
        work = discovered()["mnf_covariance"].prepare(device, variant=variant, of="data", size=UNDIVIDED_CUBES[1])
        poisoned = [buffer for buffer, _ in work.outputs]
        assert len(poisoned) == 4
        # what a launch writes for the next: of parts that are left out sums are wrong
        kept = [c for c in work.commands if c.kernel.name != "covariance"]
        assert sampling.check_outputs(device, replace(work, commands=tuple(kept))) != ""
        assert sampling.check_outputs(device, work) == ""


@pytest.fixture(scope="module")
def narrow():
    """PoCL that says that its work-groups have 128 work-items at most."""
    found = next(d for d in runtime("opencl").devices() if d.kind == "cpu")
    return runtime("opencl").open(replace(found, max_work_group=128))


@each(("name", "params"), [*points()])
def test_every_version_is_right_where_work_groups_are_small(narrow, name, params):
    work = discovered()[name].prepare(narrow, size=UNDIVIDED_CUBES[0], **params)
    assert all(math.prod(c.local_size) <= 128 for c in work.commands if c.local_size)
    assert sampling.check_outputs(narrow, work) == ""


def test_slices_cover_all_pixels_and_give_every_compute_unit_work():
    for pairs, pixels in ((105, 667_418), (25_200, 667_418), (1, 50), (3, 64)):
        count, each = slice_pixels(replace(FAKE_DEVICE_INFO, compute_units=132), pairs, pixels)
        assert each % STAGED_PIXELS == 0 and (count - 1) * each < pixels <= count * each
        assert pairs * count >= min(132 * 16, pairs * -(-pixels // STAGED_PIXELS)) * 0.9


def test_what_cannot_run_is_skipped():
    small = FakeDevice(replace(FAKE_DEVICE_INFO, max_work_group=16))
    for name, params in points():
        with pytest.raises(Skip, match="work-groups"):
            discovered()[name].prepare(small, size=UNDIVIDED_CUBES[0], **params)
    with pytest.raises(Skip, match="constant buffer"):
        discovered()["mnf_transform"].prepare(
            FakeDevice(replace(FAKE_DEVICE_INFO, constant_bytes=64)), variant="V1", size=UNDIVIDED_CUBES[0]
        )
    with pytest.raises(Skip, match="no size"):
        discovered()["mnf_filter"].prepare(FakeDevice(), variant="V0", size="big")


# ---- plans -------------------------------------------------------------------------------------------------------------


def test_the_plans_ask_for_every_version_and_what_was_quickest():
    asked = [
        p.params for name in casestudy.BENCHMARKS[:3] for p in walked(casestudy.plan(name, FAKE_DEVICE_INFO, None, None, ()))
    ]
    wanted = [{**params, "size": "614x1087x224"} for _, params in points()]
    assert sorted(map(str, asked)) == sorted(map(str, wanted))
    known = [
        record("mnf_filter", {"variant": v, "size": "s"}, series([t] * 6, ops=1))
        for v, t in (("V0", 1), ("V1", 5), ("V2", 3), ("V3", 4))
    ]
    known += [
        record("mnf_covariance", {"variant": v, "of": of, "size": "s"}, series([t] * 6, ops=1))
        for v, times in (("V0", (9, 9)), ("V3", (2, 6)), ("V4", (3, 3)))
        for of, t in zip(("noise", "data"), times, strict=True)
    ]
    known += [
        record("mnf_transform", {"variant": v, "size": "s"}, series([t] * 6, ops=1))
        for v, t in (("V0", 5), ("V1", 1), ("V1p", 4))
    ]
    assert casestudy.fastest_versions(known) == {"filter": "V2", "covariance": "V4", "transform": "V1p"}
    # noise of one and data of another are not compared, however quick
    lost = [r for r in known if (r.params["variant"], r.params.get("of")) not in (("V4", "data"), ("V3", "noise"))]
    assert casestudy.fastest_versions(lost)["covariance"] == "V0"
    lost = [r for r in lost if r.params["variant"] != "V0"]
    assert casestudy.fastest_versions(lost)["covariance"] == casestudy.LAST_VERSIONS["covariance"]
    points_of = walked(casestudy.plan("mnf", FAKE_DEVICE_INFO, None, None, known))
    assert [p.params["filter"] for p in points_of] == ["V0", "V0", "V3", "V3", "V2", "V2"]
    assert {p.params["memory"] for p in points_of} == {"device", "host"}
    assert {p.params["memory"] for p in walked(casestudy.plan("mnf", CPU, None, None, known))} == {"device"}
    assert casestudy.fastest_versions([]) == casestudy.LAST_VERSIONS


@pytest.mark.parametrize(("asked", "wanted"), [(None, (3, 3, 3, 3, 2)), (6, (6, 6, 6, 6, 6)), (1, (1, 1, 1, 1, 1))])
def test_every_point_is_measured_in_as_many_processes_as_asked_for(asked, wanted):
    found = [
        {p.processes for p in walked(casestudy.plan(name, FAKE_DEVICE_INFO, None, asked, ()))} for name in casestudy.BENCHMARKS
    ]
    assert found == [{count} for count in wanted]
    assert {p.processes for p in walked(casestudy.plan("mnf_filter", CPU, None, None, ()))} == {4}


def test_the_serial_cube_is_small_and_large_enough():
    for text in ("614x1087", "20x40x9", "9x9x30"):
        size = parse_cube_size(text)
        small = casestudy.serial_size(size)
        assert parse_cube_size(str(small)) and small.pixels <= max(casestudy.MIN_SERIAL_PIXELS + size.width, 3 * size.bands)


def test_the_cube_is_made_once():
    size = CubeSize(30, 20, 4)
    assert cube_of(size, 1) is cube_of(size, 1) and noise_of(size, 1, "mean") is noise_of(size, 1, "mean")


def test_each_step_has_its_part_of_a_budget(monkeypatch):
    parts = []

    def measured(*_args, deadline, **_more):
        parts.append(deadline.left_s())
        return iter(())

    monkeypatch.setattr("clmembench.measure.runner.run_plan", measured)
    for budget_s in (60.0, None):
        list(
            _records(
                CPU, ProbeResult(frozenset(), None, "", 1.0), selection=Selection(budget_s=budget_s), size=None, processes=1
            )
        )
    given, unlimited = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    # of the steps, each leaves what it did not need to those after it
    assert given == [pytest.approx(60 / n, abs=1) for n in range(len(casestudy.BENCHMARKS), 0, -1)]
    assert unlimited == [math.inf] * len(casestudy.BENCHMARKS)


@pytest.mark.parametrize("budget_s", [60.0, None])
def test_cublas_is_interleaved_with_the_sums_in_as_many_processes(monkeypatch, budget_s):
    monkeypatch.setattr("clmembench.studies.peers.benchmarks.cuda_timing.find_spec", lambda _: True)
    asked, slots = {}, set()

    def measured(points, benchmark, *_args, others, slot, **_more):
        answer = lambda point: record(point.benchmark, point.params, series([1] * 6, ops=1))  # noqa: E731
        asked[benchmark.name] = ({other.name for other in others}, walked(points, answer))
        slots.add(slot)
        return iter(())

    monkeypatch.setattr("clmembench.measure.runner.run_plan", measured)
    found = ProbeResult(frozenset(), None, "", 1.0)
    list(_records(FAKE_DEVICE_INFO, found, selection=Selection(budget_s=budget_s), size=None, processes=2))
    assert [name for name, (others, _) in asked.items() if others] == ["mnf_covariance"] and len(slots) == 1
    others, points = asked["mnf_covariance"]
    assert others == {"cublas_syrk", "cublas_gram"}
    measurements = [(p.benchmark, str(p.params), n) for p in points for n in range(p.first, p.processes)]
    assert len(measurements) == len(set(measurements)) == 2 * (2 * len(COVARIANCES) + 2 * len(others))
