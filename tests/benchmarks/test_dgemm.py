"""The product of dense matrices: every form in OpenCL C on PoCL, programs in PTX by an interpreter; and what is pure."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.benchmarks.dgemm.gemm_ptx import program
from clmembench.benchmarks.dgemm.gemm_tiles import Tiles
from clmembench.measure import sampling
from clmembench.model import Local, Placement, Skip
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from tests.builders import open_cpu, walked
from tests.cases import covering, each
from tests.ptx_interpreter import Interpreter

DGEMM = import_module("clmembench.benchmarks.dgemm.dgemm")
CHECK = import_module("clmembench.benchmarks.dgemm.dgemm")
SHAPE = import_module("clmembench.benchmarks.dgemm.gemm_shape")
CPU = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=2)
TYPES = {"double": np.float64, "float": np.float32}
UNASKED = [  # of the shapes that are tried unasked some with each work-group, tile and depth, of each kernel and type
    (dtype, tuple(shape.values()))
    for info in (CPU, FAKE_DEVICE_INFO)
    for dtype in TYPES
    for shape in covering(
        [
            {"group": group, "tile": tile, "depth": depth}
            for group, tile, depth in itertools.product(DGEMM._group_sizes(info), DGEMM._tiles(info), DGEMM._depths(info))
            for point in [(info, dtype, "portable", 1024, group, tile, depth, 0)]
            if DGEMM._where(*point) and DGEMM._in_default_subset(*point)
        ]
    )
]
UNDIVIDED_SHAPES = [
    ("double", (1, "5x3", 7)),
    ("float", (1, "6x8", 64)),
    ("float", (2, "4x4", 8)),
    ("double", (1, "7x24", 16)),
    ("double", (1, "3x2", 9)),
]


@pytest.fixture(scope="module")
def device():
    return open_cpu()


def prepare(device, n=37, dtype="double", shape=(1, "6x8", 256), variant="portable", split=0):
    group, tile, depth = shape
    params = {"dtype": dtype, "variant": variant, "n": n, "work_group": group, "tile": tile, "depth": depth, "split": split}
    return discovered()["dgemm"].prepare(device, **params)


def stored(device, work, dtype):
    """All of C as the device holds it, padding too."""
    buffer, nbytes = work.outputs[0]
    return device.download(buffer, TYPES[dtype], nbytes // np.dtype(TYPES[dtype]).itemsize)


@each(("dtype", "shape"), UNASKED + UNDIVIDED_SHAPES)
def test_every_shape_is_right_at_any_size_and_after_any_number_of_passes(device, dtype, shape):
    for n in (1, 37, 130):
        work = prepare(device, n, dtype, shape)
        assert work.flops == 2 * n**3
        assert sampling.check_outputs(device, work) == ""
        device.run(work.commands * 2)
        work.check()


@each("groups", [1, 3, 50])
@each("shape", [(1, "6x8", 256), (64, "8x8", 8)])
def test_any_number_of_work_groups_shares_the_tiles(device, monkeypatch, groups, shape):
    monkeypatch.setattr(device, "info", replace(device.info, work_groups=groups))
    work = prepare(device, 300, "double", shape)  # 5 x 5 tiles of 64 x 64, in bands
    assert work.commands[-1].global_size == (groups * shape[0],)
    assert sampling.check_outputs(device, work) == ""


@pytest.mark.parametrize("shape", [(1, "6x8", 64), (1, "12x16", 256), (64, "8x8", 8)], ids=str)
def test_a_product_too_large_to_be_compared_whole_is_checked(device, shape):
    n = CHECK.MAX_WHOLE_CHECK_SIZE + 88  # more than one block of rows and of depth, and more than one band of tiles
    work = prepare(device, n, "float", shape)
    assert sampling.check_outputs(device, work) == ""
    first, second = (CHECK.element(np.arange(n * n), seed + device.seed).reshape(n, n) for seed in CHECK.SEEDS)
    found = stored(device, work, "float")
    wide = DGEMM._parse_shape("portable", "float", shape[1], shape[2], shape[0], 0).tile[1]
    padded = -(-n // wide) * wide
    assert np.array_equal(found.reshape(-1, padded)[:n, :n], first @ second)


@each("n", [37, 600])
@each("dtype", ["double", "float"])
@each("shape", [(1, "6x8", 256), (64, "8x8", 8)])
def test_one_wrong_element_is_noticed_wherever_it_is(device, n, dtype, shape):
    work = prepare(device, n, dtype, shape)
    assert sampling.check_outputs(device, work) == ""
    whole = stored(device, work, dtype)
    columns = -(-n // (64 if shape[0] > 1 else 8)) * (64 if shape[0] > 1 else 8)
    for row, column in ((0, 0), (n // 2, n // 3), (n - 1, n - 1)):
        damaged = whole.copy()
        damaged[row * columns + column] += 1
        device.upload(work.outputs[0][0], damaged)
        with pytest.raises(AssertionError, match=f"1 rows of the product are wrong, the first one row {row}"):
            work.check()
    device.upload(work.outputs[0][0], whole)
    work.check()


def test_two_wrong_elements_that_cancel_in_the_sum_of_a_row_are_noticed(device):
    work = prepare(device, 600)
    assert sampling.check_outputs(device, work) == ""
    damaged = stored(device, work, "double")
    damaged[10] += 1
    damaged[11] -= 1
    device.upload(work.outputs[0][0], damaged)
    with pytest.raises(AssertionError, match="row 0"):
        work.check()


@pytest.mark.parametrize("shape", [(1, "6x8", 256), (64, "8x8", 8)], ids=str)
def test_inputs_are_what_the_host_computes_with_zeros_around_them(device, shape):
    n, launches = 37, []
    run = device.run
    device.run = lambda commands: (launches.extend(commands), run(commands))  # type: ignore[method-assign]
    try:
        prepare(device, n, "double", shape)
    finally:
        del device.run
    for launch, seed in zip(launches, CHECK.SEEDS, strict=True):
        buffer, stride = launch.args[0], int(launch.args[2])
        found = device.download(buffer, np.float64, int(launch.args[-1])).reshape(-1, stride)
        want = np.zeros_like(found)
        want[:n, :n] = CHECK.element(np.arange(n * n), seed + device.seed).reshape(n, n)
        assert np.array_equal(found, want)
        assert set(want.ravel()) == set(range(-CHECK.MAX_ELEMENT, CHECK.MAX_ELEMENT + 1))


def test_another_seed_gives_other_matrices():
    index = np.arange(1000)
    assert (CHECK.element(index, 1) != CHECK.element(index, 2)).mean() > 0.8


def test_expected_vectors_are_those_of_the_whole_product():
    n, seeds = 50, (3, 4)
    first, second = (CHECK.element(np.arange(n * n), seed).reshape(n, n) for seed in seeds)
    vectors, want = CHECK.expected_products(n, seeds)
    assert np.array_equal(first @ second @ vectors, want)
    assert np.array_equal(first @ second, CHECK.product(n, seeds))
    assert vectors.min() >= 1


@each(
    ("n", "shape", "info", "reason"),
    [
        (0, (1, "6x8", 256), CPU, "at least one element"),
        (100_000, (1, "6x8", 256), CPU, r"n=100000 needs 74\.\d+ GiB, over this device's largest buffer, 4 GiB"),
        (
            20_000,
            (256, "8x8", 8),
            replace(FAKE_DEVICE_INFO, global_mem_bytes=8 << 30),
            r"n=20000 needs .* memory, 8 GiB: lower n",
        ),
        (64, (1, "six", 256), CPU, "is not a tile"),
        (64, (1, "64x64", 256), CPU, "at most 2048 B"),
        (64, (1, "6x8", 0), CPU, "at least 1"),
        (64, (1, "6x8", 2000), CPU, "96384 B of local memory are over this device's 49152 B"),
        (64, (2048, "8x8", 8), FAKE_DEVICE_INFO, "work-group of 2048 is over"),
        (64, (192, "8x8", 8), FAKE_DEVICE_INFO, "power of two"),
        (64, (64, "7x8", 8), FAKE_DEVICE_INFO, "multiples of 2"),
        (64, (256, "2x2", 8), FAKE_DEVICE_INFO, "cannot share"),
        (64, (256, "8x8", 16), FAKE_DEVICE_INFO, "66048 B of local memory are not below this device's 49152 B"),
    ],
)
def test_what_cannot_run_is_skipped_with_a_reason(n, shape, info, reason):
    with pytest.raises(Skip, match=reason):
        prepare(FakeDevice(info), n, "double", shape)


@each(
    ("shape", "dtype", "split", "reason"),
    [
        ((256, "64x32", 12), "double", 0, "a depth of 8, 16 or 32"),
        ((256, "64x32", 8), "double", 0, "doubles at a depth of 16 or 32"),
        ((512, "64x32", 16), "double", 0, "here at least 64 and at most 256"),
        ((64, "16x16", 16), "float", 0, "here at least 128 and at most 512"),
        ((384, "32x16", 16), "float", 0, "a work-group is 64, 128, 256 or 512"),
        ((512, "32x16", 16), "double", 0, "of floats 32 by 16"),
        ((256, "48x32", 16), "float", 0, "32 or 64 rows by 32 or 64 columns"),
        ((256, "16x32", 16), "float", 0, "16 by 16, or"),
        ((256, "64x64", 16), "double", 0, "at most 2048 elements"),
        ((256, "64x32", 32), "double", 0, "262160 B of local memory are over 231424 B"),
        ((256, "64x32", 16), "double", 9, "1 to 8 work-groups"),
    ],
)
def test_what_a_program_in_ptx_cannot_do_is_skipped_with_a_reason(shape, dtype, split, reason):
    with pytest.raises(Skip, match=reason):
        prepare(FakeDevice(FAKE_DEVICE_INFO), 64, dtype, shape, "ptx", split)


def test_opencl_c_splits_no_tiles():
    with pytest.raises(Skip, match="splits no tiles"):
        prepare(FakeDevice(FAKE_DEVICE_INFO), 64, "double", (64, "8x8", 8), "portable", 1)


@pytest.mark.parametrize(("info", "n"), [(CPU, 2048), (FAKE_DEVICE_INFO, 8192)], ids=["cpu", "gpu"])
def test_few_shapes_are_tried_unasked(info, n):
    # the first is the likely best, and each one costs a compilation
    tried = [p for p in walked(sweep.explore(discovered()["dgemm"], info, Selection())) if p.place == Placement()]
    points = [p for p in tried if p.params["n"] == n and p.params["dtype"] == "double"]
    likely = {"portable": ("6x8", "8x8"), "ptx": ("64x32",)}
    variants = {v: [p for p in points if p.params["variant"] == v] for v in DGEMM._variants(info)}
    assert sum(map(len, variants.values())) == len(points)
    for variant, largest in variants.items():
        assert 1 <= len(largest) <= 4
        assert largest[0].params["tile"] in likely[variant]
    largest = variants["portable"]
    assert max(sum(p.params == q.params | {"n": m} for p in tried for q in largest[:1]) for m in (512, n)) <= 2


def test_every_candidate_in_ptx_of_a_small_product_of_floats_is_tried():
    # work-groups of 512 suit one tile alone, and some tiles need a split: no search along one axis after the other finds them
    asked = Selection(axes={"dtype": ("float",), "variant": ("ptx",), "n": (1000,)}, tuning=())
    points = walked(sweep.explore(discovered()["dgemm"], FAKE_DEVICE_INFO, asked))
    trials = {(p.params["tile"], p.params["work_group"], p.params["split"]) for p in points if p.role == "tune"}
    assert trials == DGEMM.PTX_CANDIDATES["float"].keys()


@pytest.mark.parametrize(("kind", "units", "n"), [("gpu", 132, 2048), ("gpu", 108, 4096), ("cpu", 16, 4096), ("cpu", 2, 2048)])
def test_the_scaling_study_has_a_product_whose_tiles_keep_all_units_busy(kind, units, n):
    assert DGEMM._scaling_point(replace(FAKE_DEVICE_INFO, kind=kind, compute_units=units))["n"] == n


@pytest.mark.parametrize("suite", ["quick", "all"])
def test_both_variants_are_measured_where_there_is_ptx(suite):
    for features, wanted in (
        (FAKE_DEVICE_INFO.features, {"portable", "ptx"}),
        (FAKE_DEVICE_INFO.features - {"ptx"}, {"portable"}),
    ):
        info = replace(FAKE_DEVICE_INFO, features=features)
        tried = walked(sweep.explore(discovered()["dgemm"], info, Selection(suite=suite)))
        assert {p.params["variant"] for p in tried if p.params["dtype"] == "double"} == wanted
        assert {p.params["variant"] for p in tried if p.params["dtype"] == "float"} <= wanted


def test_each_variant_is_compared_with_the_peak_of_its_instructions():
    peaks = {(m.only["dtype"], m.only["variant"]): m.peak for m in discovered()["dgemm"].metrics}
    assert peaks == {
        (("double",), ("portable",)): "fp64_vector_gflop_s",
        (("double",), ("ptx",)): "fp64_matrix_gflop_s",
        (("float",), ("portable",)): "fp32_vector_gflop_s",
        (("float",), ("ptx",)): "fp32_vector_gflop_s",
    }


@each(
    ("tiles", "grid", "inner", "groups", "whole_rounds", "split", "overlap"),
    [
        (Tiles(8, 64, 64, 2, 2, 16, 4), (2, 2), 64, 4, 1, False, False),  # a tile for each work-group
        (Tiles(8, 64, 64, 2, 2, 16, 3), (2, 2), 96, 3, 0, True, True),  # every tile is shared
        (
            Tiles(8, 64, 64, 2, 2, 32, 3),
            (9, 1),
            192,
            4,
            1,
            True,
            True,
        ),  # more rows of tiles than a band; the rest is shared
        (Tiles(8, 128, 64, 4, 2, 16, 4), (1, 2), 96, 5, 0, True, False),  # several work-groups for each tile
        (Tiles(4, 64, 64, 1, 2, 16, 4), (2, 2), 64, 3, 0, True, False),
        (Tiles(4, 64, 64, 2, 1, 16, 3), (2, 2), 96, 2, 2, False, False),  # two tiles for each work-group
        (Tiles(8, 32, 32, 1, 1, 64, 3, 4), (3, 3), 128, 4, 3, False, False),  # four sub-groups for each tile
        (Tiles(4, 32, 64, 1, 2, 64, 3, 4), (2, 2), 256, 4, 1, False, False),
        (Tiles(8, 64, 32, 2, 1, 64, 3, 4), (2, 2), 384, 3, 0, True, False),  # and several work-groups
        (Tiles(4, 32, 32, 1, 1, 64, 3, 4), (2, 2), 384, 5, 0, True, False),
        (Tiles(4, 64, 128, 1, 4, 64, 3, 4), (1, 2), 128, 2, 1, False, False),  # whose rows lie in fours 32 apart
    ],
)
def test_a_program_in_ptx_multiplies_after_any_number_of_launches(tiles, grid, inner, groups, whole_rounds, split, overlap):
    scalar, random = TYPES["double" if tiles.size == 8 else "float"], np.random.default_rng(1)
    shape = grid[0] * tiles.rows, inner, grid[1] * tiles.columns
    a, b = (random.integers(-4, 5, size).astype(scalar) for size in (shape[:2], shape[1:]))
    c, sums = np.full((shape[0], shape[2]), np.nan, scalar), np.zeros(2 * groups * tiles.rows * tiles.columns, scalar)
    arrivals = np.zeros(grid[0] * grid[1], np.uint32)
    text = program(tiles, split, overlap)
    launch = Interpreter(text, groups, a, b, c, *grid, inner, sums, arrivals, whole_rounds)
    launch.run()
    assert np.array_equal(c, a @ b)
    assert not arrivals.any()  # ready for the next launch
    if tiles.depth == 32:
        c[:] = np.nan
        launch.run()
        assert np.array_equal(c, a @ b)


@each("change", [("cp.async.wait_group 2;", "cp.async.wait_group 3;")])
def test_a_program_that_waits_too_little_is_noticed(change):
    tiles = Tiles(8, 64, 64, 2, 2, 16, 4)
    a, b, c = np.ones((64, 64)), np.ones((64, 64)), np.zeros((64, 64))
    text = program(tiles, split=False, overlap=False)
    assert change[0] in text
    Interpreter(text.replace(*change), 1, a, b, c, 1, 1, 64, np.zeros(2), np.zeros(1, np.uint32), 1).run()
    assert not np.array_equal(c, a @ b)


@pytest.mark.skipif(not shutil.which("ptxas"), reason="no ptxas")
@each("dtype", ["double", "float"])
def test_programs_in_ptx_are_assembled_without_spilling(tmp_path, dtype):
    for tile, group, split in DGEMM.PTX_CANDIDATES[dtype]:
        shape = DGEMM._parse_shape("ptx", dtype, tile, DGEMM.PTX_DEPTH, group, split)
        # ptxas allows 48 KiB of static local memory, the driver more
        text = re.sub(r"\.shared (.*)\[\d+\];", r".extern .shared \1[];", shape.text)
        (tmp_path / "program.ptx").write_text(text)
        command = ["ptxas", "-arch=sm_90", "-v", "-o", os.devnull, str(tmp_path / "program.ptx")]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        assert " 0 bytes spill stores" in told.stderr + told.stdout


@each(("dtype", "shape", "tile"), [
    ("double", (256, "64x32"), (128, 128)), ("double", (256, "32x32"), (128, 64)), ("double", (128, "32x32"), (64, 64)),
    ("float", (256, "64x32"), (128, 128)), ("float", (128, "64x32"), (64, 128)), ("float", (256, "64x64"), (128, 256)),
    ("double", (128, "16x16"), (32, 32)), ("double", (256, "16x16"), (64, 32)), ("float", (256, "16x16"), (32, 64)),
    ("float", (512, "32x16"), (64, 128)),
])  # fmt: skip
def test_sub_groups_form_a_tile_as_square_as_possible(dtype, shape, tile):
    assert DGEMM._parse_shape("ptx", dtype, shape[1], 16, shape[0], 0).tile == tile


@each("split", [1, 2])
def test_of_few_tiles_each_is_shared_by_as_many_work_groups(split):
    shape, info = DGEMM._parse_shape("ptx", "float", "64x32", 16, 256, split), replace(FAKE_DEVICE_INFO, compute_units=132)
    for tiles in (1, 36, 64, 100, 131, 132, 133, 200, 265):
        groups = shape.groups(info, tiles)
        assert groups <= split * 132 and (groups % tiles == 0 or tiles > split * 132)
        assert groups + min(tiles, groups) > split * 132  # no more would be even


def test_shares_of_tiles_leave_a_round_and_more_to_be_split():
    shape = DGEMM._parse_shape("ptx", "double", "64x32", 16, 256, 1)
    info = replace(FAKE_DEVICE_INFO, compute_units=132)
    assert [shape.whole_rounds(shape.groups(info, tiles), tiles) for tiles in (1, 132, 133, 264, 1024)] == [0, 1, 0, 2, 6]


@each("local_mem_bytes", [40 << 10, 256 << 10, 1 << 20, 2 << 20])
@each("units", [1, 2, 7, 96])
@each("n", [1, 64, 1000, 2048])
def test_a_cpus_tiles_are_enough_for_its_compute_units_fit_its_local_memory_and_cover_c(n, units, local_mem_bytes):
    shape = DGEMM._parse_shape("portable", "double", "6x8", 256, 1, 0)
    panels = -(-n // 6), -(-n // 8)
    info = replace(CPU, compute_units=units, local_mem_bytes=local_mem_bytes)
    high, wide = SHAPE.fit_cpu_tile(shape, *panels, info)
    tiles = -(-panels[0] // high) * -(-panels[1] // wide)
    assert 1 <= high <= panels[0]
    assert 1 <= wide <= panels[1]
    assert tiles >= min(4 * units, panels[0] * panels[1])
    assert high * 6 <= SHAPE.CPU_TILE_LIMITS[0]
    assert wide * 8 <= SHAPE.CPU_TILE_LIMITS[1]
    assert shape.local_bytes(high, wide) <= local_mem_bytes


@pytest.mark.parametrize("local_mem_bytes", [40 << 10, 100 << 10])
def test_a_cpu_with_little_local_memory_computes_the_same(device, monkeypatch, local_mem_bytes):
    monkeypatch.setattr(device, "info", replace(device.info, local_mem_bytes=local_mem_bytes))
    work = prepare(device, 300, "double", (1, "12x16", 128))
    assert sum(arg.nbytes for arg in work.commands[-1].args if isinstance(arg, Local)) <= local_mem_bytes
    assert sampling.check_outputs(device, work) == ""
