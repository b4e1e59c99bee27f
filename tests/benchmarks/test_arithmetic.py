"""Chains of multiply-adds on PoCL: exact after any number of steps, and a step too few or too many is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import iterate_multiply_add
from clmembench.benchmarks.arithmetic import CONSTANTS, arithmetic
from clmembench.measure.sampling import check_outputs
from clmembench.model import BuildError, Skip
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.runtimes.opencl import RUNTIME
from tests.cases import each


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def device(request):
    """PoCL; as "gpu" with its groups of many work-items."""
    opened = RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))
    opened.info = replace(opened.info, kind=request.param, compute_units=2)
    return opened


@each("chains", [1, 2, 4, 8, 12])
@each("dtype", ["float", "double", "int"])
def test_every_chain_ends_where_it_should(device, dtype, chains):
    prepared = arithmetic.prepare(device, dtype=dtype, width=4 if device.info.kind == "cpu" else 1, chains=chains)
    for rounds in (1, 7, 300):
        assert check_outputs(device, prepared.work(rounds)) == ""


@each("dtype", ["float", "double", "int"])
@each("place", [1, 3])  # the others are those of matrix instructions
def test_another_factor_is_seen(device, dtype, place):
    """A product by 1 may be left out unseen, and so may half of the operations that are counted."""
    work = arithmetic.prepare(device, dtype=dtype, width=1, chains=2).work(10)
    (launch,) = work.commands
    args = list(launch.args)
    args[place] = args[place].dtype.type(1 if args[place] != 1 else 0)
    device.run([replace(launch, args=tuple(args))])
    with pytest.raises(AssertionError, match="160 steps"):
        work.check()


@pytest.mark.parametrize("off", [-1, 1])
def test_a_step_too_few_or_too_many_is_seen(device, off):
    prepared = arithmetic.prepare(device, dtype="float", width=1, chains=2)
    device.run(prepared.work(10 + off).commands)
    with pytest.raises(AssertionError, match="160 steps"):
        prepared.work(10).check()


def test_flops_are_those_of_all_chains_vectors_and_work_items():
    fake = FakeDevice(replace(FAKE_DEVICE_INFO, compute_units=3))
    work = arithmetic.prepare(fake, dtype="float", width=1, chains=4).work(10)
    assert work.flops == 2 * 4 * 160 * 3 * 2048
    ptx = FakeDevice(replace(FAKE_DEVICE_INFO, compute_units=3, features=FAKE_DEVICE_INFO.features | {"ptx", "fp64"}))
    work = arithmetic.prepare(ptx, dtype="double_matrix", width=1, chains=4).work(10)
    assert work.flops == 4096 * 4 * 160 * 3 * 2048 // 32


def test_a_compiler_without_matrix_instructions_is_no_failure():
    class Old(FakeDevice):
        def build(self, source, **defines):
            raise BuildError("no mma here", "log")

    with pytest.raises(Skip, match="m16n8k16"):
        arithmetic.prepare(
            Old(replace(FAKE_DEVICE_INFO, features=FAKE_DEVICE_INFO.features | {"ptx"})),
            dtype="double_matrix",
            width=1,
            chains=4,
        )


def test_steps_modulo_two_to_the_32_are_those_of_doing_them():
    start = np.arange(5, dtype=np.uint64)
    x = start.copy()
    for _ in range(37):
        x = (x * CONSTANTS["int"][0] + 12345) % 2**32
    assert np.array_equal(iterate_multiply_add(start, CONSTANTS["int"][0], 12345, 37), x)
