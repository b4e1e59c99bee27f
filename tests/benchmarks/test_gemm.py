"""The product of matrices in low precision: programs in PTX by an interpreter, contents of matrices on PoCL, what is pure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.benchmarks.dgemm.dgemm import MAX_ELEMENT, element
from clmembench.benchmarks.gemm.gemm_ptx import MAP_BYTES, MAPS, GemmTiles, kept_sums, map_program, program
from clmembench.benchmarks.gemm.wgmma import BY_TYPE
from clmembench.model import BuildError, Skip
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from tests.builders import open_cpu
from tests.cases import each
from tests.ptx_interpreter import Interpreter

GEMM = import_module("clmembench.benchmarks.gemm.gemm")
GPU = replace(FAKE_DEVICE_INFO, features=FAKE_DEVICE_INFO.features | {"ptx"}, compute_units=3)


def operand(dtype: str, numbers):
    """The bits of a matrix of small whole numbers."""
    return GEMM.element_bits(dtype)[numbers + MAX_ELEMENT]


def products(text: str, maps_text: str, dtype: str, columns: int, n: int, row_bytes: int, groups):
    """What programs make of random matrices of n rows, and their product."""
    random, depth = np.random.default_rng(1), row_bytes // GEMM.element_bits(dtype).itemsize
    a, b = (random.integers(-4, 5, (n, depth)) for _ in range(2))
    down, along = -(-n // (64 if columns == 32 else 128)), -(-n // columns)
    wide = -(-n // 4) * 4
    matrices = (operand(dtype, a), operand(dtype, b), np.full((n, wide), -1, GEMM.result_type(dtype)))
    maps = np.zeros(MAPS * MAP_BYTES, np.uint8)
    Interpreter(maps_text, 1, *matrices[:2], maps, n, row_bytes).run()
    Interpreter(text, groups, *matrices, maps, down, along, n, row_bytes, 4 * wide).run()
    return matrices[2][:, :n], a @ b.T


@each(
    ("dtype", "columns", "stages", "n", "row_bytes", "groups"),
    [
        ("half", 256, 4, 70, 256, 1),  # fewer slabs than the ring has
        ("half", 64, 4, 130, 592, 2),  # several tiles for each work-group, and a part of a slab
        ("bfloat16", 128, 3, 1100, 16, 3),  # more rows of tiles than a band, of a part of a slab each
        ("tf32", 64, 3, 128, 896, 1),
        ("char", 64, 8, 128, 384, 3),  # more work-groups than tiles
        ("half", 64, 4, 130, 592, (2, 3)),  # one tile for each
        ("half", 32, 4, 130, 592, (3, 5)),  # one tile of a warp group for each
        ("tf32", 32, 3, 67, 284, 2),  # several of them
        ("half", 256, 4, 300, 1552, 2),  # sums that are kept, in two or three tiles, of the fewest slabs
        ("char", 256, 3, 260, 1680, 7),  # more work-groups than tiles, which keep theirs to the end
    ],
)
def test_a_program_multiplies(dtype, columns, stages, n, row_bytes, groups):
    kept = kept_sums(columns, row_bytes)
    tiles = GemmTiles(BY_TYPE[dtype], columns, stages, isinstance(groups, tuple), kept)
    assert bool(kept) == (row_bytes > 1536 and columns == 256)
    found, wanted = products(program(tiles), map_program(tiles), dtype, columns, n, row_bytes, groups)
    assert np.array_equal(found, wanted)


@each(
    ("old", "new"),
    [
        (r"(add.u32 %b32_\d+, %b32_\d+, )128;", r"\g<1>64;"),  # halves of slabs twice
        (r"(arrive.expect_tx.*, )24576;", r"\g<1>24560;"),  # a piece more arrives than is waited for
        (r"(mbarrier.try_wait.parity.shared.b64 %pred_\d+, \[%b32_\d+)\+0\]", r"\g<1>+8]"),  # another barrier
        (r"(global_dim.*, 0, )%\w+;", r"\g<1>256;"),  # zeros in place of the last slab
        (r"(box_dim.*, 1, )128;", r"\g<1>64;"),  # half of the rows
        (r"\{(%b32_\d+), (%b32_\d+)\}\], \[", r"{\2, \1}], ["),  # along the rows
        (r"selp.f32 (\S+), (\S+), (\S+),", r"selp.f32 \1, \3, \2,"),  # the pair that a work-item keeps to its neighbour
        (r"(st.global.v4.* \[%b64_\d+\+)64\]", r"\g<1>0]"),  # a piece of C in another's place
    ],
)
def test_a_wrong_program_is_noticed(old, new):
    tiles, changed = GemmTiles(BY_TYPE["half"], 64, 4), 0
    texts = []
    for text in (program(tiles), map_program(tiles)):
        text, count = re.subn(old, new, text)
        texts.append(text)
        changed += count
    assert changed
    try:
        found, wanted = products(*texts, "half", 64, 128, 384, 1)
    except (AssertionError, KeyError):
        return
    assert not np.array_equal(found, wanted)


@pytest.mark.skipif(not shutil.which("ptxas"), reason="no ptxas")
@each("dtype", GEMM.RATES)
def test_programs_are_assembled_without_spilling(tmp_path, dtype):
    for columns, stages in GEMM.STAGES.items():
        tiles = GemmTiles(BY_TYPE[dtype], columns, stages)
        keeping = replace(tiles, kept=kept_sums(columns, 8192))
        for text in (program(tiles), program(keeping), program(replace(tiles, single=True)), map_program(tiles)):
            text = re.sub(r"\.shared (.*)\[\d+\];", r".extern .shared \1[];", text)
            (tmp_path / "program.ptx").write_text(text)
            command = ["ptxas", "-arch=sm_90a", "-v", "-o", os.devnull, str(tmp_path / "program.ptx")]
            told = subprocess.run(command, capture_output=True, text=True, check=False)
            assert told.returncode == 0 and "0 bytes spill stores" in told.stderr and "serialized" not in told.stderr, (
                told.stderr
            )


@each("dtype", ["half", "tf32", "char"])
def test_matrices_are_those_of_dgemm_the_second_one_transposed(dtype):
    device, n, bits = open_cpu(), 29, GEMM.element_bits(dtype)
    stride = 128 // bits.itemsize
    rows, seed = 41, 7
    matrix = device.alloc(rows * 128)
    for transposed in (False, True):
        GEMM._fill_matrix(device, n, matrix, rows * 128, 128, bits, seed, transposed)
        found = device.download(matrix, bits.dtype, rows * stride).reshape(rows, stride)
        numbers = element(np.arange(n * n), seed).reshape(n, n).astype(int)
        wanted = np.zeros((rows, stride), int)
        wanted[:n, :n] = numbers.T if transposed else numbers
        assert np.array_equal(found, operand(dtype, wanted))


def test_work_counts_the_product_alone_and_launches_a_work_group_for_each_unit_or_tile():
    prepare = discovered()["gemm"].prepare
    work = prepare(FakeDevice(GPU), dtype="tf32", n=130, columns=64)
    (launch,) = work.commands
    assert work.flops == 2 * 130**3 and launch.global_size == (3 * 288, 1) and launch.local_size == (288, 1)
    assert [int(x) for x in launch.args[4:]] == [2, 3, 130, 640, 528]
    assert prepare(FakeDevice(GPU), dtype="half", n=64, columns=64).commands[0].global_size == (288, 1)
    assert prepare(FakeDevice(GPU), dtype="half", n=130, columns=128).commands[0].global_size == (3 * 288, 1)
    assert prepare(FakeDevice(GPU), dtype="half", n=66, columns=64).commands[0].global_size == (288, 2)
    assert prepare(FakeDevice(GPU), dtype="half", n=64, columns=32).commands[0].global_size == (160, 2)
    assert prepare(FakeDevice(GPU), dtype="half", n=65, columns=32).commands[0].global_size == (3 * 160, 1)
    with pytest.raises(Skip, match="columns"):
        prepare(FakeDevice(GPU), dtype="half", n=64, columns=96)

    class Old(FakeDevice):
        def assemble(self, program):
            raise BuildError("no wgmma here", "log")

    with pytest.raises(Skip, match="wgmma"):
        prepare(Old(GPU), dtype="half", n=64, columns=64)
