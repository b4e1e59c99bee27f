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
from clmembench.benchmarks.gemm.gemm_ptx import GemmTiles, program
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


def products(text: str, dtype: str, columns: int, grid: tuple[int, int], slabs: int, groups: int):
    """What a program makes of random matrices, and their product."""
    random, depth = np.random.default_rng(1), slabs * 128 // GEMM.element_bits(dtype).itemsize
    a, b = (random.integers(-4, 5, (lines, depth)) for lines in (128 * grid[0], columns * grid[1]))
    c = np.full((len(a), len(b)), -1, GEMM.result_type(dtype))
    Interpreter(text, groups, operand(dtype, a), operand(dtype, b), c, *grid, slabs * 128).run()
    return c, a @ b.T


@each(
    ("dtype", "columns", "stages", "flying", "grid", "slabs", "groups"),
    [
        ("half", 256, 4, 1, (1, 1), 2, 1),  # fewer slabs than the ring has
        ("half", 64, 4, 2, (2, 3), 5, 2),  # several tiles for each work-group
        ("bfloat16", 128, 3, 1, (9, 1), 1, 3),  # more rows of tiles than a band, of a slab each
        ("tf32", 64, 3, 0, (1, 2), 7, 1),
        ("char", 64, 8, 1, (1, 2), 3, 3),  # more work-groups than tiles
    ],
)
def test_a_program_multiplies(dtype, columns, stages, flying, grid, slabs, groups):
    found, wanted = products(program(GemmTiles(BY_TYPE[dtype], columns, stages, flying)), dtype, columns, grid, slabs, groups)
    assert np.array_equal(found, wanted)


@each(
    ("old", "new"),
    [
        (r"cp.async.wait_group 1;", "cp.async.wait_group 2;"),  # announced before it has arrived
        (r"(add.s64 %b64_\d+, %b64_\d+, )4;", r"\g<1>2;"),  # a part of a slab twice, and another not at all
        (r"(mbarrier.try_wait.parity.shared.b64 %pred_\d+, \[%b32_\d+)\+0\]", r"\g<1>+8]"),  # another barrier
        (r"shr.u32 (%b32_\d+), (%b32_\d+), 7;\n\tmul", r"shr.u32 \1, \2, 8;\n\tmul"),  # half of the slabs
    ],
)
def test_a_wrong_program_is_noticed(old, new):
    text, changed = program(GemmTiles(BY_TYPE["half"], 64, 4)), 0
    text, changed = re.subn(old, new, text)
    assert changed
    try:
        found, wanted = products(text, "half", 64, (1, 2), 6, 1)
    except (AssertionError, KeyError):
        return
    assert not np.array_equal(found, wanted)


def test_a_ring_whose_slabs_all_fly_stands_still():
    with pytest.raises(AssertionError, match="wait for each other"):
        products(program(GemmTiles(BY_TYPE["half"], 64, 3, 2)), "half", 64, (1, 1), 6, 1)


@pytest.mark.skipif(not shutil.which("ptxas"), reason="no ptxas")
@each("dtype", GEMM.RATES)
def test_programs_are_assembled_without_spilling(tmp_path, dtype):
    for columns, stages in GEMM.STAGES.items():
        text = re.sub(r"\.shared (.*)\[\d+\];", r".extern .shared \1[];", program(GemmTiles(BY_TYPE[dtype], columns, stages)))
        (tmp_path / "program.ptx").write_text(text)
        command = ["ptxas", "-arch=sm_90a", "-v", "-o", os.devnull, str(tmp_path / "program.ptx")]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0 and "0 bytes spill stores" in told.stderr and "serialized" not in told.stderr, told.stderr


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
    assert work.flops == 2 * 130**3 and launch.global_size == (3 * 384,) and launch.local_size == (384,)
    assert [int(x) for x in launch.args[3:]] == [2, 3, 640]
    assert prepare(FakeDevice(GPU), dtype="half", n=64, columns=64).commands[0].global_size == (384,)
    with pytest.raises(Skip, match="columns"):
        prepare(FakeDevice(GPU), dtype="half", n=64, columns=96)

    class Old(FakeDevice):
        def assemble(self, program):
            raise BuildError("no wgmma here", "log")

    with pytest.raises(Skip, match="wgmma"):
        prepare(Old(GPU), dtype="half", n=64, columns=64)
