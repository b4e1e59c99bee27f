"""Atomics on PoCL at small shapes of both kinds, and that each check notices the damage it is there for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import packaged
from clmembench.benchmarks.atomic import CELL_DISTANCE_BYTES, SPREAD_CELLS, _atomic_case, atomic
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.runtimes.opencl import RUNTIME
from tests.cases import each

CPU = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=2)
DEFAULT = {"op": "add", "dtype": "int", "memory": "global", "address": "same", "result": "used"}
CHOICES = [
    DEFAULT | changes
    for changes in (
        {},
        {"result": "unused"},
        {"dtype": "long"},
        {"dtype": "float"},
        {"dtype": "double"},
        {"op": "cas"},
        {"op": "cas", "dtype": "long", "address": "spread"},
        {"op": "exchange"},
        {"op": "exchange", "result": "unused", "address": "group"},
        {"address": "group"},
        {"address": "line"},
        {"address": "spread"},
        {"memory": "local"},
        {"memory": "local", "address": "spread", "op": "exchange"},
        {"memory": "local", "address": "near", "result": "unused"},
        {"memory": "local", "dtype": "double", "address": "spread"},
    )
]


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def device(request):
    """PoCL; as "gpu" with its groups of many work-items."""
    opened = RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))
    opened.info = replace(opened.info, kind=request.param)
    return opened


@each("params", CHOICES)
def test_every_kind_is_right_on_pocl(device, params):
    items = device.info.compute_units if device.info.kind == "cpu" else 512
    prepared = atomic.prepare(device, **params, items=items)
    for rounds in (1, 7, 300):
        assert check_outputs(device, prepared.work(rounds)) == ""


def left_behind(contest, rounds):
    """Cells, carried and counted words as work-items that ran one after the other would leave them."""
    cells, held = np.zeros(contest.cells, contest.word), np.zeros(contest.items, contest.word)
    counts, seen = np.zeros(contest.items, contest.word), np.zeros(contest.items, contest.word)
    for item in range(contest.items):
        cell = {"same": 0, "group": item // contest.group, "line": item * CELL_DISTANCE_BYTES // contest.word.itemsize}[
            contest.address
        ]
        held[item] = item + 1 if contest.op == "exchange" else 0
        for _ in range(rounds):
            if contest.op == "exchange" and contest.used:
                held[item], cells[cell] = cells[cell], held[item] + 1
            elif contest.op == "exchange":
                counts[item] += cells[cell]
                cells[cell] = held[item]
                held[item] += 1
            elif contest.op == "cas":
                won = cells[cell] == seen[item]
                counts[item] += won
                held[item] += not won  # the kernel carries out failures
                seen[item] = cells[cell] + won
                cells[cell] += won
            else:
                counts[item] += cells[cell]
                cells[cell] += 1
    return cells, held, counts


@each("address", ["same", "group", "line"])
@each("op", ["add", "cas", "exchange"])
def test_checks_accept_what_is_right_and_notice_one_wrong_word(op, address):
    contest = _atomic_case(FAKE_DEVICE_INFO, op, "int", "global", address, "used", 512)
    cells, held, counts = left_behind(contest, 3)
    contest.verify(3, cells, held, counts)
    for other in (1, 2, 4, 6):
        with pytest.raises(AssertionError):
            contest.verify(other, cells, held, counts)
    with pytest.raises(AssertionError):
        contest.verify(3, cells + (np.arange(len(cells)) == 0).astype(cells.dtype), held, counts)
    if op == "exchange":
        held[5] = 5000
    else:
        counts[5] += 1
    with pytest.raises(AssertionError):
        contest.verify(3, cells, held, counts)


def test_a_lost_update_is_noticed_in_spread_cells_and_in_floats():
    contest = _atomic_case(FAKE_DEVICE_INFO, "add", "int", "global", "spread", "used", 512)
    cells, words = np.zeros(SPREAD_CELLS, np.uint32), np.zeros(512, np.uint32)
    cells[: 512 * 3] = 1
    contest.verify(3, cells, words, words)
    cells[7] -= 1
    with pytest.raises(AssertionError, match="1536 additions left 1535"):
        contest.verify(3, cells, words, words)
    cells[:] = 0
    cells[7] = 512 * 3
    with pytest.raises(AssertionError, match="reached 1 cells; random ones reach 1535"):
        contest.verify(3, cells, words, words)
    contest = _atomic_case(FAKE_DEVICE_INFO, "add", "double", "global", "same", "used", 512)
    three = np.full(512, 3, np.uint64)
    contest.verify(3, np.array([1536.0]).view(np.uint64), three, three)
    with pytest.raises(AssertionError, match="additions of 1 left 1535"):
        contest.verify(3, np.array([1535.0]).view(np.uint64), three, three)


def test_compare_and_swaps_that_were_never_tried_are_noticed():
    # two work-items, three attempts each: at least three succeed
    contest = _atomic_case(CPU, "cas", "int", "global", "same", "used", 2)
    words = np.zeros(2, np.uint32)
    contest.verify(3, np.array([3], np.uint32), words + np.array([2, 1], np.uint32), np.array([1, 2], np.uint32))
    with pytest.raises(AssertionError, match="made 1 attempts instead of 3"):
        contest.verify(3, np.array([3], np.uint32), words, np.array([1, 2], np.uint32))
    with pytest.raises(AssertionError, match="a cell has 2 successes"):
        contest.verify(3, np.array([2], np.uint32), words + np.uint32(2), np.array([1, 1], np.uint32))


@pytest.mark.parametrize("address", ["same", "group", "line"])
def test_exchanges_whose_results_nobody_waits_for_are_counted(address):
    contest = _atomic_case(FAKE_DEVICE_INFO, "exchange", "int", "global", address, "unused", 512)
    cells, held, counts = left_behind(contest, 5)
    contest.verify(5, cells, held, counts)
    for fewer in (1, 2, 4):  # operations left out, though the loop went round
        cells, _, counts = left_behind(contest, fewer)
        with pytest.raises(AssertionError, match="exchanges are missing"):
            contest.verify(5, cells, held, counts)


@pytest.mark.parametrize("items", [1, 2, 512, 1 << 18])
def test_sums_that_wrap_show_every_number_of_operations(items):
    contest = _atomic_case(FAKE_DEVICE_INFO, "add", "int", "global", "same", "unused", items)
    for least in (16, 1 << 14, 1 << 20, 1 << 28):
        rounds = contest.telling(least)
        assert least <= rounds < least + 64
        for made in (rounds // 2, rounds // 4, rounds - rounds // 4, rounds - 1):
            assert items * made % 2**32 != items * rounds % 2**32


def test_counts_may_wrap():
    contest = _atomic_case(CPU, "add", "int", "global", "same", "unused", 2)
    words = np.zeros(2, np.uint32)
    contest.verify(1 << 31, np.zeros(1, np.uint32), words, words)  # 2 * 2^31 additions leave 0
    with pytest.raises(AssertionError, match="additions left 1"):
        contest.verify(1 << 31, np.ones(1, np.uint32), words, words)


def test_what_cannot_compete_is_skipped():
    with pytest.raises(Skip, match="one after the other"):
        atomic.prepare(FakeDevice(CPU), **DEFAULT, items=3)
    with pytest.raises(Skip, match="not a whole number"):
        atomic.prepare(FakeDevice(FAKE_DEVICE_INFO), **DEFAULT, items=300)


def test_floats_are_counted_no_further_than_they_are_exact():
    prepared = atomic.prepare(FakeDevice(CPU), **(DEFAULT | {"dtype": "float"}), items=2)
    assert prepared.most * 2 <= 1 << 24


def test_one_addition_is_of_random_words_on_a_gpu_and_of_one_word_on_a_cpu():
    (headline,) = (one for one in packaged()["atomic"].headlines if one.name == "add by one work-item")
    assert [p["address"] for p in headline.params_on(has_cpu_cores=False)] == ["spread"]
    assert [p["address"] for p in headline.params_on(has_cpu_cores=True)] == ["same"]
