"""Changes of kernels: each is that of the kernel as an author would write it, and its gain bounds the true one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.analysis.little import Estimate
from clmembench.studies.kernel.changes import changes, without_repeated_loads
from clmembench.studies.kernel.cost import cost
from clmembench.studies.kernel.demand import demand
from clmembench.studies.kernel.facts_of_trace import facts_of
from clmembench.studies.kernel.local_memory_changes import local_memory_changes
from clmembench.studies.kernel.requests import LOCAL, Sample
from clmembench.studies.kernel.suggestions import alternatives, gain, suggestions
from clmembench.studies.kernel.trace import ATOMIC, EVENT, LOAD, STORE, Instruction, Trace
from tests.cases import each
from tests.studies.kernel.test_cost import BUFFER, GROUP, ITEMS, LAUNCH, RATES, suggested, traced

LOAD_TEXT = "%0 = load float, float addrspace(1)* %p, align 4"
ADD_TEXT = "%1 = tail call spir_func i32 @_Z10atomic_incPU8CLglobalVj(i32 addrspace(1)* noundef %p)"
CPU = replace(RATES, info=replace(RATES.info, kind="cpu"), width=8, line_bytes=64)


def executed(addresses, operation=LOAD, items=GROUP, text=LOAD_TEXT, space=1) -> Trace:
    """A launch whose work-items execute one instruction in line 7 again and again, an element of `addresses` each time."""
    addresses = np.stack(addresses, axis=1)  # by work-item
    count, times = addresses.shape
    events = np.zeros(addresses.size, EVENT)
    work_item = np.repeat(np.arange(count), times)
    events["address"], events["group"], events["item"] = addresses.ravel(), work_item // items, work_item % items
    events["nth"] = events["step"] = np.tile(np.arange(times), count)
    events["size"], events["space"], events["operation"] = 4, space, operation
    one = Instruction(0, 7, addresses.size, 0, 0, 0, text)
    groups = LAUNCH // items
    return Trace("k", "", (groups * items,), (items,), groups, count // items, 0, 0, 0, {0: one}, events, (), True)


def changed(trace: Trace, rates=RATES, buffer_bytes=4 * LAUNCH):
    """The changes of a launch, and the demand of the launch as it is."""
    sample, facts = Sample.of(trace, {1: buffer_bytes}), facts_of(trace, None, None)
    need = demand(sample, facts, rates.width, rates.line_bytes, rates.is_parallel)
    return [*changes(sample, facts, need), *local_memory_changes(sample, facts, need)], need, facts


@settings(max_examples=25, deadline=None)
@given(fields=st.integers(2, 16), used=st.integers(1, 4), on_gpu=st.booleans())
def test_the_layout_that_is_suggested_costs_what_its_kernel_costs(fields, used, on_gpu):
    used, rates = min(used, fields), RATES if on_gpu else CPU
    structs = executed([BUFFER + 4 * (fields * ITEMS + field) for field in range(used)])
    arrays = executed([BUFFER + 4 * (LAUNCH * field + ITEMS) for field in range(used)])
    (change, *_), _, facts = changed(structs, rates, 4 * fields * LAUNCH)
    found = cost(demand(change.sample, facts, rates.width, rates.line_bytes, rates.is_parallel), rates)
    true = cost(changed(arrays, rates, 4 * fields * LAUNCH)[1], rates)
    assert {name: part.value for name, part in found.parts.items()} == pytest.approx(
        {name: part.value for name, part in true.parts.items()}
    )


@each("operation", [LOAD, STORE])
def test_a_tile_accesses_the_same_words_in_order(operation):
    row, column = ITEMS // GROUP * 16 + ITEMS % GROUP % 16, ITEMS % GROUP // 16  # columns of 16 x 16 numbers
    (change,), need, _ = changed(executed([BUFFER + 4 * (4096 * row + column)], operation))
    before, after = need.sample.accesses, change.sample.accesses
    inside = after.space == LOCAL
    assert inside.sum() == len(before) and sorted(after.address[~inside]) == sorted(before.address)
    first = after[~inside & (after.group == 0) & (after.item < 32)]
    assert len(np.unique(first.address // 128)) == 2 and change.sample.local_bytes == 1024
    assert change.sample.barriers == 2 * need.sample.groups


def test_what_work_items_of_a_group_share_is_loaded_once_into_a_tile():
    trace = executed([BUFFER + 4 * (64 * (ITEMS % GROUP // 16) + n + 4096 * (ITEMS // GROUP)) for n in range(64)])
    every, need, _ = changed(trace)
    (change,) = (one for one in every if one.guideline == "G3")
    outside = change.sample.accesses.space != LOCAL
    assert outside.sum() == len(need.sample.accesses) / 16 and "uses each word 16 times" in change.finding


@given(power=st.integers(7, 12))
@settings(max_examples=6, deadline=None)
def test_padding_takes_powers_of_two_to_one_pass(power):
    (change,), need, _ = changed(traced(BUFFER + (ITEMS % GROUP << power), space=3))
    passes = need.local_passes + change.added["local_passes"]
    assert need.local_passes == 32 * passes and change.change in (
        f"pad rows of {1 << power} B by 4 B",
        "pad rows of 128 B by 4 B",
    )


@each(("ahead", "is_vector"), [([0, 1, 2, 3, 4, 5, 6, 7], True), ([0, 4, 1, 5, 2, 6, 3, 7], False), ([1, 2, 3, 4], False)])
def test_neighbouring_words_that_a_work_item_loads_in_order_are_loaded_as_vectors(ahead, is_vector):
    every, need, _ = changed(executed([BUFFER + 4 * (8 * ITEMS + n) for n in ahead]))
    found = [one for one in every if one.guideline == "X2"]
    assert len(found) == is_vector
    for one in found:
        loads = one.sample.accesses
        assert set(loads.size) == {16} and np.array_equal(loads.address, BUFFER + 16 * np.arange(2 * len(ITEMS)))
        assert one.sample.executed[0] == need.sample.executed[0] / 4


def test_a_sum_in_global_memory_is_stored_once():
    (change, *_), need, _ = changed(executed([BUFFER + 4 * ITEMS] * 16, STORE))
    assert len(change.sample.accesses) == len(ITEMS) and change.sample.executed[0] == need.sample.executed[0] / 16
    assert (change.guideline, change.finding) == ("L1", "a work-item stores the same word 16 times")
    shared = executed([BUFFER + 4 * (ITEMS // 2)] * 16, STORE)
    assert not any(one.guideline == "L1" for one in changed(shared)[0])


@each("rates", [RATES, CPU])
def test_atomics_on_a_few_words_are_added_up_in_groups_unless_their_results_are_read(rates):
    trace = executed([BUFFER + 4 * ((ITEMS * 7 + n) % 64) for n in range(4)], ATOMIC, text=ADD_TEXT)
    (one,) = suggested(trace, rates, 256)
    assert one.guideline == "X6" and one.gain_low > 2
    number = Instruction(1, 8, 1, 0, 0, 0, "store i32 %1, i32 addrspace(1)* %q, align 4")
    assert not suggested(replace(trace, instructions={**trace.instructions, 1: number}), rates, 256)


def test_small_groups_are_to_grow_only_if_work_items_do_not_know_them():
    trace = executed([BUFFER + 64 * ITEMS], items=8)
    found = {one.change for one in changed(trace)[0] if one.guideline == "S4"}
    assert "launch work-groups of 256" in found
    knows = Instruction(1, 6, 1, 0, 0, 0, "%i = tail call i64 @_Z12get_local_idj(i32 noundef 0)")
    assert not [one for one in changed(replace(trace, instructions={**trace.instructions, 1: knows}))[0] if not one.line]


@each(
    "address",
    [BUFFER + 4 * ITEMS, BUFFER + 4 * np.random.default_rng(3).permutation(1 << 20)[: len(ITEMS)], BUFFER + 0 * ITEMS],
)
@each("rates", [RATES, CPU])
def test_streams_random_accesses_and_broadcasts_are_left_alone(address, rates):
    assert not suggested(traced(address), rates)


def test_a_layout_is_not_suggested_if_registers_may_hold_what_is_loaded_again():
    again = executed([BUFFER + 4 * (4 * ITEMS + n % 4) for n in range(64)])
    kept = without_repeated_loads(Sample.of(again, {1: 16 * LAUNCH}))
    assert len(kept.accesses) == 4 * len(ITEMS) and kept.executed[0] == 4 * LAUNCH
    _, need, facts = changed(again, RATES, 16 * LAUNCH)
    as_traced, in_registers = alternatives(need.sample, facts, need)
    assert suggestions([as_traced], RATES) and not suggestions([as_traced, in_registers], RATES)


PARTS = st.dictionaries(st.sampled_from("abcd"), st.tuples(*[st.floats(0.1, 1000)] * 4), min_size=1)


@settings(max_examples=100, deadline=None)
@given(parts=PARTS, overlap=st.booleans(), places=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_the_gain_bounds_that_of_all_parts_within_their_intervals(parts, overlap, places):
    before, after, true = {}, {}, ([], [])
    for (name, (value, spread, times, _)), place in zip(parts.items(), places, strict=False):
        before[name] = Estimate(value, value / (1 + spread), value * (1 + spread))
        after[name] = Estimate(*(times * one for one in (before[name].value, before[name].low, before[name].high)))
        here = before[name].low + place * (before[name].high - before[name].low)
        true[0].append(here)
        true[1].append(times * here)
    low, value, high = gain(10, before, after)
    combined = max if overlap else sum
    assert low * 0.999 <= (10 + combined(true[0])) / (10 + combined(true[1])) <= high * 1.001 and low <= value <= high
