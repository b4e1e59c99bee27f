"""Chains of multiply-adds on PoCL: exact after any number of steps, and a step too few or too many is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import iterate_multiply_add
from clmembench.benchmarks.arithmetic import CONSTANTS, arithmetic
from clmembench.benchmarks.gemm.wgmma import BY_TYPE, SUMS, WORK_GROUP, product_program, rate_program
from clmembench.benchmarks.low_precision import BY_PTX, HALF, STARTS, STEPS_PER_ROUND, instruction_product, sum_note
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


@each(
    ("dtype", "chains", "operations", "steps"),
    [("char_dot", 8, 2 * 64, 4096), ("char_matrix", 4, 2 * 16 * 16 * 64, 1024), ("bfloat16_matrix", 4, 2 * 16 * 16 * 32, 1024)],
)
def test_instructions_of_x86_end_where_they_should_or_are_skipped(dtype, chains, operations, steps):
    opened = RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))
    if not opened.info.features & {"vnni" if dtype == "char_dot" else "amx"}:
        with pytest.raises(Skip, match="neither by PTX nor by a CPU's"):
            arithmetic.prepare(opened, dtype=dtype, width=16, chains=chains)
        return
    work = arithmetic.prepare(opened, dtype=dtype, width=16, chains=chains).work(6)
    (launch,) = work.commands
    assert work.flops == 6 * steps * chains * opened.info.compute_units * operations
    assert check_outputs(opened, work) == ""
    opened.run([replace(launch, args=(*launch.args[:-1], np.uint32(3)))])
    with pytest.raises(AssertionError, match=f"6 chains of {steps} steps"):
        work.check()


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


class InterpretedDevice:
    """A device whose buffers are arrays and whose kernel is a program in PTX."""

    def alloc(self, nbytes):
        return np.zeros(nbytes, np.uint8)

    def upload(self, buffer, array):
        buffer[:] = np.ascontiguousarray(array).view(np.uint8).ravel()

    def download(self, buffer, dtype, count):
        return buffer.view(dtype)[:count]

    def run(self, commands):
        (launch,) = commands
        Interpreter(launch.kernel, 1, *launch.args).run()


@each("kind", [kind for kind in BY_TYPE if kind != "char"])
def test_the_product_of_four_sub_groups_has_every_element_at_its_place(kind):
    low, random = BY_PTX[f"{kind}_matrix"], np.random.default_rng(1)
    element = np.dtype(f"u{32 // low.depth}")
    a, b = (random.choice([-2.0, -1, 0.5, 1, 2, 3], (rows, low.depth)) for rows in (16, 8))
    c = random.integers(-9, 9, (16, 8)).astype(np.float32)
    multiply = instruction_product(InterpretedDevice(), product_program(BY_TYPE[kind]), WORK_GROUP)
    assert np.array_equal(multiply(low.encode(a).astype(element), low.encode(b).astype(element), c), a @ b.T + c)


def decoded(low, bits):
    """The numbers in elements of matrices."""
    if bits.dtype == np.uint16:
        return _values("half" if low.fraction == 10 else "bfloat16", bits.astype(np.uint32)).astype(np.float64)
    if bits.dtype == np.uint32:
        return bits.view(np.float32).astype(np.float64)
    code = (bits & 0x7F).astype(int)
    return np.where(code < 8, code * 2.0**-9, (1 + code % 8 / 8) * 2.0 ** (code // 8 - 7.0)) * np.where(bits & 0x80, -1, 1)


def added(low, bits, keep, to_float):
    """A matrix instruction whose terms have so many bits below the largest one."""

    def multiply(a, b, c):
        a, b = (decoded(low, one) for one in (a, b))
        terms = np.concatenate((a[:, None, :] * b[None, :, :], c[:, :, None]), axis=2)
        last = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(terms).max(axis=2), 1e-30))) - bits)
        return to_float(keep(terms / last[:, :, None]).sum(axis=2) * last)

    return multiply


def cut(x):
    """Numbers cut off to float."""
    found = x.astype(np.float32)
    return np.where(np.abs(found) > np.abs(x), np.nextafter(found, np.float32(0)), found)


@each(
    ("kind", "bits", "keep", "to_float", "wanted"),
    [
        ("half", 25, np.trunc, cut, "half adds exact products with 25 bits below the largest term; what is below is cut off"),
        (
            "tf32",
            24,
            np.floor,
            np.float32,
            "with 24 bits below the largest term; what is below is rounded down, and a sum",
        ),
        ("bfloat16", 23, np.rint, cut, "below the largest term; what is below is rounded to nearest, and a sum is cut off"),
        (
            "fp8",
            13,
            np.trunc,
            cut,
            "13 bits below the largest term; what is below is cut off, and a running sum keeps 13",
        ),
        ("fp8", 24, np.trunc, cut, "adds exact products with at least 18 bits below the largest term"),
        ("half", 12, np.trunc, cut, "adds rounded products"),
    ],
)
def test_how_a_matrix_instruction_adds_is_found(kind, bits, keep, to_float, wanted):
    low = BY_PTX[f"{kind}_matrix"]
    assert wanted in sum_note(kind, low, added(low, bits, keep, to_float))


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
