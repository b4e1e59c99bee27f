"""Private arrays and divergence: what their kernels must leave behind, and the way of a compiler's word into a record."""

from __future__ import annotations

import itertools
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import sampling
from clmembench.model import Kernel, Launch, Skip, Slope, Work
from clmembench.plan.budget import Budget
from clmembench.results.jsonl import decode_record, encode
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.runtimes.opencl import build as opencl_build
from tests.builders import record
from tests.cases import each

PRIVATE = import_module("clmembench.benchmarks.private_array")
DIVERGENCE = import_module("clmembench.benchmarks.divergence")
FACTS = {"private_bytes": 64, "registers": 40, "stack_bytes": 64}


@pytest.fixture(scope="module")
def pocl():
    return runtime("opencl").open(next(d for d in runtime("opencl").devices() if d.kind == "cpu"))


@each("rounds", [1, 2, 5])
@each("words", [4, 9])
def test_what_rounds_leave_is_what_doing_them_one_by_one_leaves(rounds, words):
    added = PRIVATE._initial_contents("add", words, 3, seed=1)
    assert np.array_equal(PRIVATE._expected("add", added, rounds), added + rounds)
    values = PRIVATE._initial_contents("sort", words, 3, seed=1)
    assert (np.diff(values.astype(np.int64), axis=0) < 0).all(), "the worst order to sort"
    held = values
    for number in range(rounds):
        held = np.uint32(2**32 - 1 - number) - np.sort(held, axis=0)
    assert np.array_equal(PRIVATE._expected("sort", values, rounds), held)
    factors = PRIVATE._initial_contents("matmul", words, 3, seed=1).astype(object)
    side = int(words**0.5)
    for item in range(3):
        a, b = (factors[half : half + words, item].reshape(side, side) for half in (0, words))
        for _ in range(rounds):
            a = a @ b % (1 << 32)
        assert np.array_equal(
            PRIVATE._expected("matmul", factors.astype(np.uint32), rounds)[:, item], a.ravel().astype(np.uint32)
        )


@each("every", [2, 3, 4, 6])
@each("least", [2, 10, 100, 1001])
def test_sorts_that_were_left_out_leave_another_order(every, least):
    prepared = discovered()["private_array"].prepare(FakeDevice(), pattern="sort", indexing="static", words=9)
    rounds = int(prepared.work(least).commands[0].args[-1])
    assert least <= rounds < least + 12 and prepared.work(3 * least).ops > prepared.work(least).ops
    given = PRIVATE._initial_contents("sort", 9, 3, seed=1)
    held = given
    for number in range(rounds):
        held = np.uint32(2**32 - 1 - number) - (held if number % every else np.sort(held, axis=0))
    assert (held != PRIVATE._expected("sort", given, rounds)).any()


@pytest.mark.parametrize("words", [2, 4, 9])
def test_steps_are_counted_as_they_are_done(words):
    assert PRIVATE.steps_per_round("add", "static", words) == words
    values, moves, compared = list(range(words, 0, -1)), 0, 0
    for i in range(1, words):
        for j in range(i, 0, -1):
            assert values[j - 1] > values[j], "insertion meets its worst case"
            values[j - 1], values[j], moves = values[j], values[j - 1], moves + 1
    assert PRIVATE.steps_per_round("sort", "dynamic", words) == moves
    for _ in range(-(-words // 2)):
        for first in (0, 1):
            compared += len(range(first, words - 1, 2))
    assert PRIVATE.steps_per_round("sort", "static", words) == compared
    if words != 2:
        assert PRIVATE.steps_per_round("matmul", "dynamic", words) == len(
            list(itertools.product(range(int(words**0.5)), repeat=3))
        )


@each("pattern", PRIVATE.PATTERN_CODES)
@each("words", [4, 9])
def test_contents_show_the_number_of_rounds(pattern, words):
    given = [PRIVATE._initial_contents(pattern, words, 32, seed) for seed in range(20)]
    for rounds in (4, 64, 1 << 12, 1 << 20):
        for fewer in (rounds // 2, rounds - rounds // 4, rounds - 1, rounds - 2):
            for one in given:
                left, wanted = (PRIVATE._expected(pattern, one, n) for n in (fewer, rounds))
                assert (left != wanted).any(axis=0).all()


@each("pattern", PRIVATE.PATTERN_CODES)
@each("indexing", ["static", "dynamic"])
def test_a_wrong_element_is_noticed_on_a_real_device(pocl, pattern, indexing):
    prepared = discovered()["private_array"].prepare(pocl, pattern=pattern, indexing=indexing, words=9)
    for rounds in (1, 2, 3):
        assert sampling.check_outputs(pocl, prepared.work(rounds)) == ""
        two = prepared.work(rounds)
        assert "elements are wrong after" in sampling.check_outputs(
            pocl, replace(two, commands=prepared.work(rounds + 12).commands)
        )


def test_arrays_that_a_pattern_cannot_have_are_refused():
    prepare = discovered()["private_array"].prepare
    with pytest.raises(Skip, match="not have 8 words"):
        prepare(FakeDevice(), pattern="matmul", indexing="static", words=8)
    with pytest.raises(Skip, match="no neighbours"):
        prepare(FakeDevice(), pattern="sort", indexing="static", words=1)
    with pytest.raises(Skip, match="no 512 neighbours"):
        discovered()["divergence"].prepare(FakeDevice(), span=512)


def test_spans_end_with_the_group_and_groups_are_powers_of_two():
    assert DIVERGENCE._spans(FAKE_DEVICE_INFO) == (1, 2, 4, 8, 16, 32, 64, 128)
    assert DIVERGENCE._spans(replace(FAKE_DEVICE_INFO, max_work_group=100))[-1] == 64


@pytest.mark.parametrize("span", [1, 4, 16])
def test_each_way_leaves_what_its_multiply_adds_leave(span):
    group, steps = 16, 2
    wanted = []
    for lid in range(group):
        a, b = DIVERGENCE.BRANCH_CONSTANTS[(lid // span) % 2]
        chains = [4 * lid + 1 + k for k in range(4)]
        for _ in range(steps * DIVERGENCE.STEPS_PER_ROUND):
            chains = [(x * a + b) % (1 << 32) for x in chains]
        wanted.append(sum(x * weight for x, weight in zip(chains, (1, 3, 5, 7), strict=True)) % (1 << 32))
    assert DIVERGENCE._expected(group, span, steps).tolist() == wanted


def test_a_way_not_taken_is_noticed_on_a_real_device(pocl):
    work = discovered()["divergence"].prepare(pocl, span=2).work(16)
    assert sampling.check_outputs(pocl, work) == ""
    (launch,) = work.commands
    other = replace(launch, args=(launch.args[0], np.uint32(64), *launch.args[2:]))
    assert "64 of 128" in sampling.check_outputs(pocl, replace(work, commands=(other,)))


def fake_slope(device: FakeDevice, check) -> Slope:
    facts = device.compiled(device.build("")["any"])
    launch = Launch(device.build("")["any"], (np.uint32(9),), (1,), (1,))
    return Slope(lambda n: Work((launch,) * n, ops=n, check=check, facts=facts))


def test_facts_go_from_the_work_into_what_is_measured_right_or_wrong():
    device, budget = FakeDevice(facts=FACTS), Budget(0.0, 0.01)
    assert sampling.sample_point(device, fake_slope(device, lambda: None), budget, 1.0).facts == FACTS

    def wrong() -> None:
        raise AssertionError("wrong")

    assert sampling.sample_point(device, fake_slope(device, wrong), budget, 1.0).facts == FACTS


def test_facts_are_kept_in_a_line_and_a_line_without_them_is_read():
    one = record(facts=FACTS)
    assert decode_record(encode(one)).facts == FACTS
    without = encode(one).replace('"facts":{"private_bytes":64,"registers":40,"stack_bytes":64}', '"more":1')
    assert "facts" not in without
    assert decode_record(without).facts == {}
    with pytest.raises(ValueError, match="facts"):
        decode_record(encode(record(facts={str(n): n for n in range(100_000)})))


def test_a_kernel_of_a_real_device_has_facts(pocl):
    kernel = pocl.build("kernel void f(global int *a) { a[0] = 1; }")["f"]
    facts = pocl.compiled(kernel)
    assert {"private_bytes", "local_bytes", "preferred_multiple", "work_group_max"} == set(facts)
    assert facts["work_group_max"] > 0


class NVIDIA:
    """A driver that logs only what it has not compiled before, as one with a cache on disk."""

    extensions = "cl_khr_fp64 cl_nv_compiler_options"

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def program(self, context: object, source: str, options: list[str], is_ptx: bool = False) -> SimpleNamespace:
        log = ""
        if source not in self.seen and "-cl-nv-verbose" in options:
            log = "ptxas info : Compiling entry function 'f' for 'sm_90'\nptxas info : Used 12 registers\n"
        self.seen.add(source)
        return SimpleNamespace(get_build_info=lambda device, what: log)


def test_a_cached_program_is_logged_again(monkeypatch):
    driver, kernel = NVIDIA(), opencl_build.OpenCLKernel("f", object(), "kernel void f() {}", ("-DA=1",))
    monkeypatch.setattr(opencl_build, "_program", driver.program)
    driver.program(None, kernel.source, ["-cl-nv-verbose"])  # as a run before this one
    for _ in range(2):
        assert opencl_build._logged(None, driver, kernel) == {"registers": 12}


def test_a_program_that_is_built_first_is_built_once(monkeypatch):
    driver = NVIDIA()
    built = driver.program(None, "kernel void f() {}", ["-cl-nv-verbose"])
    kernel = opencl_build.OpenCLKernel("f", object(), "kernel void f() {}", log=built.get_build_info(driver, None))
    assert opencl_build._logged(None, driver, kernel) == {"registers": 12} and len(driver.seen) == 1


def test_a_log_that_cannot_be_had_costs_its_facts_alone(monkeypatch):
    def broken(*_: object) -> object:
        raise cl.RuntimeError("build failed")

    kernel = opencl_build.OpenCLKernel("f", object(), "kernel void f() {}")
    monkeypatch.setattr(opencl_build, "_program", broken)
    assert opencl_build._logged(None, NVIDIA(), kernel) == {}
    monkeypatch.setattr(opencl_build, "_program", NVIDIA().program)
    assert opencl_build._logged(None, SimpleNamespace(extensions="cl_khr_fp64"), kernel) == {}


def test_the_fake_devices_compiler_says_what_it_is_told():
    device = FakeDevice(facts=FACTS)
    kernel: Kernel = device.build("")["anything"]
    assert device.compiled(kernel) == FACTS
