"""Patterns, lines and bank conflicts of requests against their truth; reuse against an exact cache."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.studies.kernel import patterns, reuse
from clmembench.studies.kernel.patterns import Requests
from clmembench.studies.kernel.trace import BRANCH, EVENT, LOAD
from tests.cases import each


def events(addresses, sizes=4, items=None, nth=0, group=0, space=1, operation=LOAD):
    """Events of one instruction, one for each address; arrays or numbers."""
    found = np.zeros(len(addresses), EVENT)
    found["address"], found["size"], found["nth"], found["group"] = addresses, sizes, nth, group
    found["item"] = np.arange(len(addresses)) if items is None else items
    found["space"], found["operation"] = space, operation
    return found


PLACES = np.arange(64)
SHUFFLED = np.concatenate([np.random.default_rng(n).permutation(32) + 32 * n for n in range(2)])
PATTERNS = {
    "broadcast": (np.zeros(64), 4, ("broadcast", None)),
    "unit": (4 * PLACES, 4, ("unit stride", None)),
    "doubles": (8 * PLACES, 8, ("unit stride", None)),
    "backwards": (4 * PLACES[::-1], 4, ("stride", -4)),
    "stride": (12 * PLACES, 4, ("stride", 12)),
    "rows of sixteen": (4 * (PLACES % 16) + 4096 * (PLACES // 16), 4, ("unit stride", None)),
    "permuted": (4 * SHUFFLED, 4, ("permuted", None)),
    "scattered": (4 * np.random.default_rng(3).integers(0, 10**6, 64), 4, ("scattered", None)),
}


@each("case", PATTERNS)
def test_a_pattern_is_the_one_that_was_made(case):
    addresses, size, found = PATTERNS[case]
    assert Requests.of(events(addresses, size)).pattern() == found


def test_work_items_that_rest_leave_the_pattern_as_it_is():
    items = np.flatnonzero(np.random.default_rng(5).random(64) < 0.5)
    assert Requests.of(events(16 * items, items=items)).pattern() == ("stride", 16)
    assert Requests.of(events(np.array([64, 128]), items=np.array([0, 32]))).pattern() == ("single", None)


@settings(max_examples=60, deadline=None)
@given(
    stride=st.integers(-40, 40), size=st.sampled_from([1, 2, 4, 8, 16]), first=st.integers(2000, 5000),
    items=st.sets(st.integers(0, 127), min_size=1), executions=st.integers(1, 3),
)  # fmt: skip
def test_lines_and_bank_ways_are_those_of_a_count_by_hand(stride, size, first, items, executions):
    lanes = np.array(sorted(items) * executions)
    nth = np.repeat(np.arange(executions), len(items))
    addresses = (first + lanes * stride + 7 * nth) * size
    requests = Requests.of(events(addresses, size, lanes, nth)[np.random.default_rng(1).permutation(len(lanes))])
    for width in (8, 32):
        for line in (32, 128):
            touched = {}
            for lane, n, address in zip(lanes, nth, addresses, strict=True):
                touched.setdefault((n, lane // width), set()).update(range(address // line, (address + size - 1) // line + 1))
            counts = [len(lines) for lines in touched.values()]
            assert requests.lines_per_request(width, line) == np.mean(counts)
        words = {}
        parts = max(1, size // 4)
        for lane, n, address in zip(lanes, nth, addresses, strict=True):
            turn = (n, lane // width, lane % width * parts // width)
            words.setdefault(turn, set()).update(range(address // 4, (address + size - 1) // 4 + 1))
        for banks in (16, 32):
            ways = [max(np.bincount([word % banks for word in turn])) for turn in words.values()]
            assert np.isclose(requests.bank_ways(width)[banks], np.mean(ways))


def test_conflicts_are_those_that_authors_know():
    def ways(words, size=4):
        return Requests.of(events(4 * np.asarray(words), size, np.arange(32), space=3)).bank_ways(32)[32]

    lanes = np.arange(32)
    assert [ways(lanes * n) for n in (0, 1, 2, 32, 33)] == [1, 1, 2, 32, 1]
    assert ways(2 * lanes, 8) == 1  # two passes of sixteen


def test_a_branch_diverges_where_the_items_of_a_sub_group_go_different_ways():
    targets = np.array([1, 2] * 8 + [1] * 48)
    found = events(targets, items=PLACES, operation=BRANCH)
    assert [patterns.divergent_share(found, width) for width in (8, 16, 32, 64)] == [2 / 8, 1 / 4, 1 / 2, 1]


def exact_misses(lines, capacity):
    """Misses of a fully associative LRU cache, access by access."""
    held, misses = OrderedDict(), 0
    for line in lines:
        if line in held:
            held.move_to_end(line)
            continue
        misses += 1
        held[line] = None
        if len(held) > capacity:
            held.popitem(last=False)
    return misses


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.integers(0, 30), min_size=1, max_size=200))
def test_the_curve_of_misses_is_that_of_an_exact_cache(lines):
    capacities = np.array([1, 2, 3, 5, 8, 16, 40])
    found, cold = reuse.miss_ratios(np.array(lines), capacities)
    assert np.allclose(found, [exact_misses(lines, capacity) / len(lines) for capacity in capacities])
    assert np.isclose(cold, len(set(lines)) / len(lines))


def test_sampled_lines_give_nearly_the_curve_of_all(monkeypatch):
    random = np.random.default_rng(7)
    lines = (random.pareto(0.8, 60_000) * 50).astype(np.int64) % 20_000
    capacities = np.array([64, 256, 1024, 4096])
    exact, _ = reuse.miss_ratios(lines, capacities)
    monkeypatch.setattr(reuse, "MOST_TOUCHES", 12_000)
    sampled, _ = reuse.miss_ratios(lines, capacities)
    assert np.abs(sampled - exact).max() < 0.1 and not np.array_equal(sampled, exact)
