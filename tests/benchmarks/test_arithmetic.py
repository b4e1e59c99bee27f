"""Chains of multiply-adds on PoCL: exact after any number of steps, and a step too few or too many is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import iterate_multiply_add
from clmembench.benchmarks.arithmetic import CONSTANTS, arithmetic
from clmembench.benchmarks.gemm.wgmma import BY_TYPE, SUMS, WORK_GROUP, rate_program
from clmembench.benchmarks.low_precision import BY_PTX, HALF, STARTS, STEPS_PER_ROUND
from clmembench.measure.sampling import check_outputs
from clmembench.model import BuildError, Skip
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.runtimes.opencl import RUNTIME
from tests.cases import each
from tests.ptx_interpreter import Interpreter


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def device(request):
    """PoCL; as "gpu" with its groups of many work-items."""
    opened = RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))
    opened.info = replace(opened.info, kind=request.param, compute_units=2)
    return opened


CHAINS = [(dtype, chains) for dtype in ("float", "double", "int") for chains in (1, 2, 4, 8, 12)]


@each(("dtype", "chains"), [*CHAINS, ("long", 8), ("short", 4), ("char", 1)])
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


@each("dtype", ["short", "char"])
@each("share", [2, 3, 4, 8])
def test_numbers_of_few_bits_do_not_return_after_a_share_of_the_steps(device, dtype, share):
    prepared = arithmetic.prepare(device, dtype=dtype, width=1, chains=1)
    for rounds in (16, 64, 4096):
        work = prepared.work(rounds)
        (launch,) = work.commands
        for fewer in (launch.args[-1] // share, launch.args[-1] - launch.args[-1] // share):
            device.run([replace(launch, args=(*launch.args[:-1], np.uint32(fewer)))])
            with pytest.raises(AssertionError):
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


def _values(kind: str, bits):
    """The numbers in the low end of registers."""
    if kind == "half":
        return bits.astype(np.uint16).view(np.float16)
    return (bits << np.uint32(16)).view(np.float32) if kind == "bfloat16" else bits.view(np.float32)


@each("kind", ["half", "bfloat16"])
def test_short_chains_are_exact_in_16_bits(kind):
    low = BY_PTX[kind]
    factors = [_values(kind, np.uint32([bits]))[0] for bits in low.operands[::2]]
    x, kept = _values(kind, low.starts).copy(), np.uint32(0xFFFF) if kind == "bfloat16" else np.uint16(0)
    for step in range(low.steps):
        x = x * factors[step % 2] + factors[step % 2]
        assert not (x.view(kept.dtype) & kept).any(), "a step is not exact"
    assert np.array_equal(x, _values(kind, low.ends))
    assert len(set(low.starts)) == STARTS


@each("kind", [kind for kind, low in BY_PTX.items() if low.form == "MATRIX"])
def test_sums_of_matrix_instructions_need_more_than_16_bits_and_are_exact(kind):
    low = BY_PTX[kind]
    ends = low.ends if kind == "char_matrix" else _values(kind, low.ends)
    assert np.array_equal(ends, np.arange(STARTS) + low.steps // 2 * 3 * low.depth)
    assert ends.max() < (1 << 13 if kind == "fp8_matrix" else 1 << 24) and (kind == "fp8_matrix" or ends.max() > 1 << 15)


def test_half_of_opencl_c_starts_and_ends_as_by_ptx():
    assert np.array_equal(HALF.starts, BY_PTX["half"].starts & 0xFFFF) and np.array_equal(
        HALF.ends, BY_PTX["half"].ends & 0xFFFF
    )
    assert HALF.steps == 64 * STEPS_PER_ROUND


@each("kind", BY_TYPE)
def test_programs_of_four_sub_groups_count_what_is_counted(kind):
    wgmma, out, rounds = BY_TYPE[kind], np.zeros(3 * WORK_GROUP, np.uint32), 2
    one, two = (int(bits) for bits in BY_PTX[f"{kind}_matrix"].encode(np.array([1.0, 2.0])))
    Interpreter(rate_program(wgmma, 3), 3, out, one, two, rounds).run()
    ptx = FakeDevice(replace(FAKE_DEVICE_INFO, compute_units=1, features=FAKE_DEVICE_INFO.features | {"ptx"}))
    work = arithmetic.prepare(ptx, dtype=f"{kind}_wgmma", width=1, chains=1).work(rounds)
    flops = int((out - np.arange(len(out))).sum()) * 2 // 3 * 2  # a product of 1 and one of 2 are two multiply-adds
    assert work.flops == flops and len(out) * SUMS == 3 * 64 * 256
