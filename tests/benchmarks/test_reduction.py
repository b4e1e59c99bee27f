"""The reduction on PoCL in every method and shape, its inputs and their sum as the host knows them, and its points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.benchmarks.reduction import MAX_SINGLE_GROUP_ELEMENTS, NOTE_FEWER_GROUPS, ROW_BITS, exact_total, hash_9_bits
from clmembench.measure import sampling
from clmembench.model import Launch, Placement, Skip
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from tests.builders import open_cpu, walked
from tests.cases import each

MIB = 1 << 20
REDUCTION = discovered()["reduction"]
CPU = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=2, shares_host_memory=True, host_mem_bytes=24 << 30)
SHAPES = [("loop", 1), ("tree", 64), ("tree", 7), ("atomic", 64), ("atomic", 7)]  # 7: a tree that is not a power of two
A_ROW_AND_TEN = 2**16 + 10  # elements


@pytest.fixture(scope="module")
def device():
    return open_cpu()


def prepared(device, n, method="loop", groups=3, width=4, work_group=None):
    return REDUCTION.prepare(
        device, n=n, method=method, groups_a_unit=groups, width=width, work_group=work_group or (1 if method == "loop" else 64)
    )


def result(work) -> object:
    """The buffer of the one double: the last output."""
    return work.outputs[-1][0]


def lengths(info) -> tuple:
    return REDUCTION.axes["n"].values(info)


# ---- on a real device -----------------------------------------------------------------------------------------------


@each(("method", "work_group"), SHAPES)
@each("n", [1, 7, 1024, 100_003])
def test_every_method_is_exact(device, method, work_group, n):
    for width in (1, 4):
        work = prepared(device, n, method, 3, width, work_group)
        assert sampling.check_outputs(device, work) == ""
        assert (work.ops, work.nbytes, work.flops) == (1, 8 * n, n - 1)


@pytest.mark.parametrize("method", ["loop", "tree"])
def test_every_width_is_exact_with_a_tail(device, method):
    for width in (2, 8, 16):
        assert sampling.check_outputs(device, prepared(device, 100_003, method, 5, width)) == ""


@pytest.mark.parametrize("method", ["loop", "tree", "atomic"])
def test_many_rows_are_exact_after_any_number_of_passes(device, method):
    work = prepared(device, 3 * MAX_SINGLE_GROUP_ELEMENTS + 5, method, 4)
    for _ in range(3):
        assert sampling.check_outputs(device, work) == ""
        device.run(work.commands)
        work.check()


@pytest.mark.parametrize("method", ["loop", "tree", "atomic"])
def test_as_many_work_groups_as_a_place_asks_for(device, monkeypatch, method):
    monkeypatch.setattr(device, "info", replace(device.info, work_groups=6))
    work = prepared(device, 5, method, groups=1)  # more groups than elements: some have nothing to add
    launch = next(c for c in work.commands if isinstance(c, Launch))
    assert launch.global_size[0] == 6 * launch.local_size[0]
    assert not work.notes
    assert sampling.check_outputs(device, work) == ""


@each("method", ["loop", "tree", "atomic"])
@each("error", [1.0, -1.0, float("nan")])
def test_a_damaged_result_is_noticed(device, method, error):
    work = prepared(device, A_ROW_AND_TEN, method)
    assert sampling.check_outputs(device, work) == ""
    device.upload(result(work), device.download(result(work), np.float64, 1) + error)
    with pytest.raises(AssertionError, match="the sum is"):
        work.check()


@pytest.mark.parametrize(("method", "work_group"), SHAPES)
def test_one_launch_leaves_its_count_as_it_found_it(device, method, work_group):
    work = prepared(device, A_ROW_AND_TEN, method, 3, 4, work_group)
    (launch,) = work.commands
    groups = launch.global_size[0] // work_group
    assert groups > 1
    assert sampling.check_outputs(device, work) == ""
    ended = launch.args[2]
    assert device.download(ended, np.uint32, 1)[0] == 0
    device.upload(ended, np.array([groups + 1], np.uint32))  # of a launch before that went wrong: nobody is the last one
    assert "the sum is nan" in sampling.check_outputs(device, work)


def test_what_a_launch_before_left_in_the_cell_is_noticed(device):
    atomic = prepared(device, A_ROW_AND_TEN, "atomic")
    (launch,) = atomic.commands
    device.upload(launch.args[1], np.array([1.0]))
    assert "the sum is" in sampling.check_outputs(device, atomic)
    assert sampling.check_outputs(device, atomic) == ""  # the last group has taken what was there


@pytest.mark.parametrize("method", ["loop", "tree"])
def test_an_element_left_out_or_added_twice_is_noticed(device, method):
    work = prepared(device, A_ROW_AND_TEN, method)
    elements, *_ = work.commands[0].args
    values = device.download(elements, np.float64, A_ROW_AND_TEN)
    for damage in (0.0, 2.0):
        damaged = values.copy()
        damaged[12_345] *= damage
        device.upload(elements, damaged)
        assert "the sum is" in sampling.check_outputs(device, work)
    device.upload(elements, values)
    assert sampling.check_outputs(device, work) == ""


def element_value(index, seed):
    """The element at each index, from 1 to 1023, as reduction.cl computes it."""
    column, row = index & ((1 << ROW_BITS) - 1), index >> ROW_BITS
    return 1 + hash_9_bits(column, seed) + hash_9_bits(row, seed ^ 0xFFFFFFFF)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("method", ["loop", "tree"])
def test_the_device_holds_the_hosts_values(device, monkeypatch, method, seed):
    monkeypatch.setattr(device, "seed", seed)
    elements, *_ = prepared(device, 200_003, method).commands[0].args
    assert np.array_equal(device.download(elements, np.float64, 200_003), element_value(np.arange(200_003), 0x9E3779B9 + seed))


# ---- the inputs -----------------------------------------------------------------------------------------------------


@each("n", [1, 7, 1024, 65_535, 65_536, 65_537, 100_003, (1 << 22) + 12_345])
@each("seed", [0, 0x9E3779B9])
def test_the_sum_of_rows_and_columns_is_the_sum_of_the_elements(n, seed):
    assert exact_total(n, seed) == int(element_value(np.arange(n), seed).sum(dtype=np.int64))


def test_sums_of_the_largest_default_are_exact_in_double():
    # elements are at most 1023, so no partial sum of 2^30 of them reaches 2^53
    assert exact_total(1 << 30, 0) < 1023 << 30 < 1 << 53


def test_values_are_positive_differ_by_index_and_depend_on_the_seed():
    index = np.arange(300_000)
    values = element_value(index, 3)
    assert values.min() >= 1 and values.max() >= 1000
    assert values.max() <= 1023
    assert (values[1:] != values[:-1]).mean() > 0.99
    assert (values[65_536:] != values[:-65_536]).mean() > 0.99  # the row counts as well as the column
    assert (element_value(index, 4) != values).mean() > 0.99


# ---- the points -----------------------------------------------------------------------------------------------------


@each(
    ("info", "largest"),
    [
        (FAKE_DEVICE_INFO, 1 << 28),  # a GPU with 16 GiB: 2 GiB of doubles
        (replace(FAKE_DEVICE_INFO, global_mem_bytes=1 << 40, max_alloc_bytes=1 << 40), 1 << 30),
        (replace(FAKE_DEVICE_INFO, global_mem_bytes=4 << 30), 1 << 26),  # an eighth of it
        (replace(FAKE_DEVICE_INFO, max_alloc_bytes=300 * MIB), 1 << 25),  # 37.5 Mi doubles, rounded down
        (CPU, 1 << 26),  # a 32nd of 24 GiB are 96 Mi doubles
        (replace(CPU, host_mem_bytes=1 << 30), 1 << 25),  # but 256 MiB
        (replace(CPU, array_bytes=5_000_000), 1 << 19),  # the user's word, rounded down
        (replace(CPU, array_bytes=4 << 40, max_alloc_bytes=1 << 30), 1 << 27),
        (replace(CPU, array_bytes=1), 1),
    ],
)
def test_lengths_follow_the_device_and_the_user(info, largest):
    assert lengths(info)[-1] == largest
    assert list(lengths(info)) == sorted(set(lengths(info)))
    assert REDUCTION.scaling(info)["n"] <= largest


def test_lengths_are_every_fourth_power_of_two_and_the_largest():
    assert lengths(replace(FAKE_DEVICE_INFO, array_bytes=8 << 13)) == (1 << 10, 1 << 12, 1 << 13)
    assert lengths(FAKE_DEVICE_INFO) == tuple(1 << bits for bits in range(10, 29, 2))


def asked_in(info, suite="all") -> list:
    """Every point of a suite, with its trials."""
    return walked(sweep.explore(REDUCTION, info, Selection(suite=suite)))


@pytest.mark.parametrize("info", [FAKE_DEVICE_INFO, CPU], ids=["gpu", "cpu"])
def test_trials_are_few_and_short_sums_are_not_searched(info):
    asked = asked_in(info)
    for n in lengths(info):
        for method in ("loop", "tree", "atomic"):
            trials = [p for p in asked if p.role == "tune" and (p.params["n"], p.params["method"]) == (n, method)]
            assert len(trials) <= (4 if n >= 1 << 20 else 2)
    quick = asked_in(info, "quick")
    assert [p.params["n"] for p in quick if p.role == "measure"] == [min(1 << 24, max(lengths(info)))]
    assert len(quick) <= 3


@pytest.mark.parametrize(
    ("info", "usual", "other"), [(FAKE_DEVICE_INFO, "tree", "loop"), (CPU, "loop", "tree")], ids=["gpu", "cpu"]
)
def test_the_usual_method_is_shown_at_every_length_and_the_others_at_few(info, usual, other):
    shown = [p.params for p in asked_in(info) if p.role == "measure" and p.place == Placement()]
    assert sorted(p["n"] for p in shown if p["method"] == usual) == list(lengths(info))
    assert 1 <= sum(p["method"] == other for p in shown) <= 3


def test_short_sums_say_that_fewer_groups_are_launched():
    work = prepared(FakeDevice(CPU), MAX_SINGLE_GROUP_ELEMENTS, groups=4)
    assert work.notes == (NOTE_FEWER_GROUPS,)
    assert [c.global_size for c in work.commands] == [(1,)]  # alone, and no second launch
    assert prepared(FakeDevice(CPU), 64 * MAX_SINGLE_GROUP_ELEMENTS, groups=4).notes == ()


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"width": 3}, "vector of 3"),
        ({"method": "tree", "work_group": 2048}, "work-group of 2048 is over"),
        ({"n": 0}, "at least one element"),
        ({"groups": 0}, "at least one element, one work-group"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(params, reason):
    with pytest.raises(Skip, match=reason):
        prepared(FakeDevice(CPU), **{"n": 1024, **params})
