"""The predicted time of a kernel: each resource bounds what it should, and changes save what they should."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clmembench.analysis.kernel_time import MEMORY, BandwidthLevel, DeviceRates, LatencyLevel
from clmembench.analysis.little import Estimate
from clmembench.results import jsonl
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.studies.kernel import cost as costs
from clmembench.studies.kernel import lockstep, program
from clmembench.studies.kernel.cost import ATOMICS, FIRST, ISSUE, LATENCY, LOCAL, SHARED, STORES, cost, resident_groups
from clmembench.studies.kernel.demand import demand
from clmembench.studies.kernel.facts_of_trace import facts_of
from clmembench.studies.kernel.issue import Dependences, machine_instructions
from clmembench.studies.kernel.loops import Loops
from clmembench.studies.kernel.prediction import measured_devices
from clmembench.studies.kernel.rates import FirstCache, KernelRates
from clmembench.studies.kernel.requests import Accesses, Branches, Sample, requests
from clmembench.studies.kernel.suggestions import alternatives, suggestions
from clmembench.studies.kernel.trace import ATOMIC, EVENT, LOAD, STORE, Instruction, Trace
from clmembench.studies.kernel.traffic import traffic
from tests.cases import each

LOAD_TEXT = "%0 = load float, float addrspace(1)* %p, align 4"
EXACT = Estimate.exact
INFO = replace(FAKE_DEVICE_INFO, kind="gpu", compute_units=100, local_mem_bytes=48 << 10, sub_group_items=32)
RATES = KernelRates(
    INFO,
    DeviceRates(
        bandwidths=(BandwidthLevel("L2", 32 << 20, EXACT(8000), "cache_read"),
                    BandwidthLevel(MEMORY, math.inf, Estimate(1000, 950, 1050), "stream")),
        latencies=(LatencyLevel("L1", 1, 1 << 17, EXACT(20)), LatencyLevel("L2", 1 << 18, 1 << 25, EXACT(150)),
                   LatencyLevel(MEMORY, 1 << 27, 1 << 30, EXACT(400))),
        vector_gflop_s=EXACT(10_000),
    ),
    width=32, line_bytes=128, issue_g_s=EXACT(10_000), float_gflop_s=EXACT(20_000),
    first_cache=FirstCache(1 << 17, EXACT(20_000)), local_gb_s=EXACT(20_000), atomics=((1.0, EXACT(1)), (1e5, EXACT(50))),
    local_atomic=EXACT(500), lines_memory=EXACT(10), lines_shared=EXACT(200), stored_lines=EXACT(20), launch_ns=EXACT(5000),
)  # fmt: skip
GROUP, TRACED = 256, 16
ITEMS = np.arange(GROUP * TRACED)
LAUNCH = 1 << 28  # work-items
BUFFER = 1 << 48  # address of the first one


def traced(address, groups=LAUNCH // GROUP, space=1, operation=LOAD, local_bytes=0) -> Trace:
    """A launch whose traced work-items access one address each, by one instruction in line 7."""
    events = np.zeros(len(ITEMS), EVENT)
    events["address"], events["group"], events["item"] = address, ITEMS // GROUP, ITEMS % GROUP
    events["size"], events["space"], events["operation"] = 4, space, operation
    one = Instruction(0, 7, len(ITEMS), 0, 0, 0, LOAD_TEXT)
    return Trace("k", "", (groups * GROUP,), (GROUP,), groups, TRACED, 0, 0, local_bytes, {0: one}, events, (), True)


def demanded(trace: Trace, width=32, line=128, lockstep=True, buffer_bytes=4 * LAUNCH):
    return demand(Sample.of(trace, {1: buffer_bytes}), facts_of(trace, None, None), width, line, lockstep)


def suggested(trace: Trace, rates=RATES, buffer_bytes=4 * LAUNCH):
    """What is to be changed on the device of these rates."""
    sample, facts = Sample.of(trace, {1: buffer_bytes}), facts_of(trace, None, None)
    need = demand(sample, facts, rates.width, rates.line_bytes, rates.is_parallel)
    return suggestions(alternatives(sample, facts, need), rates)


def test_streaming_takes_its_bytes_over_the_bandwidth_of_memory():
    found = cost(demanded(traced(BUFFER + 4 * ITEMS)), RATES)
    assert found.bound == MEMORY
    bytes_ns = (4 * LAUNCH - (32 << 20)) / 1000
    assert found.parts[MEMORY].value == pytest.approx(bytes_ns, rel=0.01)
    assert found.ns.value == 5000 + found.parts[MEMORY].value + found.parts[LATENCY].value  # of loads behind the queue
    assert found.ns.low < found.ns.value < found.ns.high and found.roofline.value == pytest.approx(5000 + bytes_ns, rel=0.05)


def test_scattered_loads_of_a_cached_set_are_bound_by_requests_and_told_to_be_ordered():
    trace = traced(BUFFER + 128 * (ITEMS % 512))
    found = cost(demanded(trace, buffer_bytes=1 << 16), RATES)
    assert found.bound == FIRST and found.parts[FIRST].value == pytest.approx(LAUNCH * 128 / 20_000)
    (change,) = suggested(trace, buffer_bytes=1 << 16)
    assert (change.guideline, change.line) == ("G3", 7) and change.gain_low > 5


def test_bank_conflicts_cost_their_passes_and_padding_saves_them():
    trace = traced(BUFFER + 128 * (ITEMS % GROUP), space=3)
    found = cost(demanded(trace), RATES)
    assert found.bound == LOCAL and found.parts[LOCAL].value == pytest.approx(LAUNCH * 128 / 20_000)
    (change,) = suggested(trace)
    assert (change.guideline, change.line) == ("S1", 7) and change.gain_low > 10


@each(("address", "per_ns"), [(BUFFER + 0 * ITEMS, 1), (BUFFER + 256 * ITEMS, 50)])
def test_atomics_meet_at_one_address_or_do_not(address, per_ns):
    found = cost(demanded(traced(address, operation=ATOMIC)), RATES)
    assert found.parts[ATOMICS].value == pytest.approx(LAUNCH / per_ns)


def test_a_launch_of_few_work_groups_leaves_compute_units_idle():
    few, many = (cost(demanded(traced(BUFFER + 4 * ITEMS, groups)), RATES) for groups in (25, 200))
    assert many.parts[ISSUE].value == pytest.approx(2 * few.parts[ISSUE].value)  # 8 times the work on 4 times the units


def test_the_launch_is_what_bounds_a_kernel_that_takes_less_time_than_an_empty_one():
    need = demanded(traced(BUFFER + 4 * ITEMS, groups=TRACED))
    found, slower = (cost(need, replace(RATES, launch_ns=EXACT(ns))) for ns in (5000, 50))
    assert found.ns.value < 2 * 5000 and (found.bound, slower.bound) == (costs.LAUNCH, LATENCY)


def test_local_memory_of_all_arrays_limits_the_groups_of_a_compute_unit():
    """A first cache and local memory of 128 KiB hold three work-groups of 40 KiB, whatever part of it they access."""
    need = demanded(traced(BUFFER + 4 * (ITEMS % GROUP), space=3, local_bytes=40 << 10))
    assert resident_groups(need, RATES) == 3


def test_what_the_run_lacks_is_named_and_nothing_is_predicted():
    need = demanded(traced(BUFFER + 4 * ITEMS))
    found = cost(need, replace(RATES, issue_g_s=None, launch_ns=None))
    assert found.ns is None and found.missing == ("arithmetic", "launch_wait") and ISSUE not in found.parts
    assert cost(need, replace(RATES, local_gb_s=None)).ns is not None  # needs none


def test_a_core_fills_its_vectors_or_one_lane_at_a_time():
    rates = replace(RATES, info=replace(INFO, kind="cpu"), width=8, line_bytes=64)
    found = cost(demanded(traced(BUFFER + 4 * ITEMS), 8, 64, lockstep=False), rates)
    assert found.parts[ISSUE].high == pytest.approx(8 * found.parts[ISSUE].low)


@each(("platform", "text", "lanes"), [
    ("Fake", "%r = add i32 %a, %b", 1), ("Fake", "%r = phi i32 [ %s, %loop ]", 8), ("Fake", "%r = trunc i64 %i to i32", 8),
    ("Intel(R) OpenCL", "%r = phi i32 [ %s, %loop ]", 1),
])  # fmt: skip
def test_a_core_has_one_item_in_a_vector_where_its_compiler_sees_a_loop_or_a_short_index(platform, text, lanes):
    texts = [LOAD_TEXT, text, "%s = add i32 %r, 1", "%i = call i64 @_Z13get_global_idj(i32 0)"]
    trace = replace(traced(BUFFER + 4 * ITEMS), instructions={n: Instruction(n, 7, len(ITEMS), 0, 0, 0, one)
                                                              for n, one in enumerate(texts)})  # fmt: skip
    rates = replace(RATES, info=replace(INFO, kind="cpu", platform=platform), width=8, line_bytes=64)
    issue = cost(demanded(trace, 8, 64, lockstep=False), rates).parts[ISSUE]
    least = cost(demanded(trace, 8, 64, lockstep=False), replace(rates, info=replace(rates.info, platform="Intel"))).parts[
        ISSUE
    ]
    assert issue.value == pytest.approx(lanes * least.value) and issue.high == least.high


def test_a_core_foresees_loads_that_walk_on_and_waits_once_for_those_that_wait_for_equally_many():
    scattered = BUFFER + 64 * np.random.default_rng(5).permutation(len(ITEMS)).astype(np.int64)
    walk, jump = (demanded(traced(address), 1, 64, lockstep=False) for address in (BUFFER + 4 * ITEMS, scattered))
    assert walk.prefetched.all() and not jump.prefetched.any()
    assert [len(one) for one in jump.intervals.requests] == [1]


def test_random_accesses_to_more_than_the_cache_come_from_memory_and_those_to_less_do_not():
    random = BUFFER + 4 * np.random.default_rng(3).integers(0, 1 << 20, len(ITEMS))
    found = traffic(demanded(traced(random), buffer_bytes=4 << 20), 1 << 15, 8)
    blocks, every = (4 << 20) / 32, found.buffers[1].far
    assert found.distinct == blocks
    assert found.from_memory(8 * blocks).blocks == 0
    assert 0.7 * every < found.from_memory(0.25 * blocks).blocks < 0.8 * every


def test_lines_that_are_touched_in_part_come_at_their_own_rates():
    random = BUFFER + 128 * np.random.default_rng(4).permutation(len(ITEMS)).astype(np.int64)
    loads, stores = (cost(demanded(traced(random, operation=one), buffer_bytes=128 * LAUNCH), RATES) for one in (LOAD, STORE))
    assert loads.parts[MEMORY].value == pytest.approx(LAUNCH / 10, rel=0.01)
    assert stores.parts[MEMORY].value == pytest.approx(2 * LAUNCH / 10, rel=0.01)  # a store of a part loads the rest
    assert (loads.parts[SHARED].value, stores.parts[STORES].value) == (pytest.approx(LAUNCH / 200), pytest.approx(LAUNCH / 20))


def test_a_launch_of_which_a_part_was_traced_is_as_uncertain_as_its_stretches_differ():
    """Two of eight stretches do much more than the others, as the middle of a picture may: the traced mean may be far off."""
    even, uneven = (traced(BUFFER + 4 * ITEMS) for _ in range(2))
    stretch = (LAUNCH // GROUP) // 8

    def spread(trace, repeats):  # two work-groups of each stretch, whose work-items access that many words
        events = np.repeat(trace.events, np.repeat(repeats, 2 * GROUP))
        events["group"] = stretch * (events["group"] // 2) + events["group"] % 2
        return replace(trace, events=events)

    same, other = (Sample.of(spread(trace, times), {}).error for trace, times in ((even, [2] * 8), (uneven, [1] * 6 + [9] * 2)))
    means = np.array([1.0] * 6 + [9.0] * 2)
    assert same == 0 and other == pytest.approx(2.365 * means.std(ddof=1) / 8**0.5 / means.mean(), rel=0.01)
    assert Sample.of(even, {}).error == 0  # all in one stretch: nothing is known
    need = demanded(even)
    known, unsure = (cost(replace(need, sample=replace(need.sample, error=one)), RATES).ns for one in (0.0, 0.5))
    assert (unsure.low, unsure.value, unsure.high) == pytest.approx((known.low / 1.5, known.value, known.high * 1.5))


def test_lines_that_are_touched_in_part_take_up_to_whole_ones_where_no_rate_of_theirs_is_known():
    """Which of them a memory fetches is the device's matter: an H200's takes 2.3 times as long as the bytes alone."""
    random = BUFFER + 128 * np.random.default_rng(4).permutation(len(ITEMS)).astype(np.int64)
    unknown = replace(RATES, lines_memory=None, lines_shared=None, stored_lines=None)
    known, loads, stores = (
        cost(demanded(traced(random, operation=one), buffer_bytes=128 * LAUNCH), rates)
        for one, rates in ((LOAD, RATES), (LOAD, unknown), (STORE, unknown))
    )
    assert loads.parts[MEMORY].value == pytest.approx(LAUNCH * 32 / 1000, rel=0.01)
    assert loads.parts[MEMORY].high == pytest.approx(LAUNCH * 128 / 950, rel=0.01)
    assert loads.ns.low < loads.ns.value < known.ns.value < loads.ns.high
    assert (known.unmeasured, loads.unmeasured) == ((), ("memory_divergence",))
    assert stores.unmeasured == ("memory_divergence", "transpose")
    whole = cost(demanded(traced(BUFFER + 4 * ITEMS)), unknown)
    assert whole.parts[MEMORY].high == pytest.approx((4 * LAUNCH - (32 << 20)) / 950, rel=0.01) and whole.unmeasured == ()


LOOP = ["%i = phi i32 [ 0, %entry ], [ %n, %body ]", "%s = phi float [ 1.0, %entry ], [ %t, %body ]",
        "%c = icmp ult i32 %i, 256", "br i1 %c, label %body, label %end",
        "%q = getelementptr float, float addrspace(1)* %p, i32 %i", "%x = load float, float addrspace(1)* %q, align 4",
        "%m = fmul float %x, %s", "%t = fadd float %m, %s", "%n = add nuw nsw i32 %i, 1", "br label %loop"]  # fmt: skip


def test_counters_and_addresses_of_unrolled_loops_are_free_and_sums_wait_for_each_other():
    texts = dict(enumerate(LOOP))
    loops = Loops(texts, dict.fromkeys(texts, 256.0))
    assert {number for number, share in loops.left.items() if share == 0} == {0, 2, 3, 4, 8}
    assert loops.chained == 2 * 256 and not loops.is_in_runtime_loop(5)
    texts |= {10: "%a = alloca [9 x float], align 4", 12: "%y = load float, float* %e, align 4",
              11: "%e = getelementptr [9 x float], [9 x float]* %a, i64 0, i32 %i"}  # fmt: skip
    assert Loops(texts, dict.fromkeys(texts, 256.0)).private == {12: True}  # of a register
    assert Loops(texts | {11: texts[11].replace("%i", "%count")}, dict.fromkeys(texts, 256.0)).private == {12: False}
    texts[2] = "%c = icmp ult i32 %i, %count"
    assert Loops(texts, dict.fromkeys(texts, 256.0)).left[4] == 0.25


def test_an_array_with_one_place_that_values_choose_is_in_memory_as_a_whole():
    texts = dict(enumerate([*LOOP, "%a = alloca [9 x i8], align 1", "%e = getelementptr [9 x i8], [9 x i8]* %a, i64 0, i32 %i",
                            "%y = load i8, i8* %e, align 1", "%z = load i8, i8* %f, align 1", "store i8 %z, i8* %g, align 1",
                            "%f = getelementptr [9 x i8], [9 x i8]* %b, i64 0, i64 4", "%b = alloca [9 x i8], align 1",
                            "%g = getelementptr [9 x i8], [9 x i8]* %a, i64 0, i32 %k"]))  # fmt: skip
    loops = Loops(texts, dict.fromkeys(texts, 256.0))
    assert loops.private == {12: False, 13: True, 14: False}
    assert (loops.lines(12, 32), loops.lines(14, 32), loops.lines(14, 1)) == ((1, 1), (1, 3), (1, 1))  # nine bytes: three words


@each(("text", "nbytes"), [("%a = alloca [3 x [5 x i8]], align 1", 15), ("%x = load <4 x float>, <4 x float>* %p", 16),
                           ("store i64 %v, i64* %p, align 8", 8), ("%o = alloca %struct.pair, align 8", 0)])  # fmt: skip
def test_the_size_of_what_is_allocated_loaded_or_stored_is_in_the_text(text, nbytes):
    assert program.size(text) == nbytes


def test_stores_to_private_arrays_in_memory_reach_the_shared_cache():
    """A whole line of each sub-group at best, at worst one for each word of the array, at the rate of lines stored in part."""
    trace, items = traced(BUFFER + 4 * ITEMS), len(ITEMS)
    texts = [LOAD_TEXT, "%a = alloca [12 x i8], align 1", "%g = getelementptr [12 x i8], [12 x i8]* %a, i64 0, i32 %k",
             "store i8 %v, i8* %g, align 1"]  # fmt: skip
    trace = replace(trace, instructions={n: Instruction(n, 7, items, 0, 0, 0, text) for n, text in enumerate(texts)})
    need, sub_groups = demanded(trace), LAUNCH / 32
    assert (need.private_stores, need.most_requests - need.requests) == ((sub_groups, 3 * sub_groups), 2 * sub_groups)
    stores = cost(need, RATES).parts[STORES]
    assert (stores.value, stores.high) == pytest.approx((sub_groups * 128 / 8000, 3 * sub_groups / 20))


def branched(paths, group_items=4, width=4):
    """The lanes issued for each execution of an instruction of two nested loops, by how often each work-item goes round the
    inner one, in each round of the outer."""
    texts = {0: "br label %outer", 1: "br i1 %a, label %inner, label %end", 2: "br i1 %b, label %body, label %left",
             3: "%x = add i32 1, 1", 4: "br label %inner", 5: "%y = add i32 1, 1", 6: "br label %outer",
             7: "ret void"}  # fmt: skip
    taken = []
    for item, rounds in enumerate(paths):
        for times in rounds:
            taken += [(1, item, 2), *[(2, item, 3)] * times, (2, item, 5)]
        taken.append((1, item, 7))
    instruction, items, target = np.array(taken).T
    return lockstep.lanes(Branches(instruction, items, 0 * items, target), texts, group_items, width)


def test_work_items_wait_for_the_longest_way_in_each_round_of_the_loop_around():
    """Four go round 3 times in all, each in another round of four: one after another, while their sums say together."""
    found = branched([[3, 0, 0, 0], [0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3]])
    assert found[3] == found[4] == 4 and found[2] == 4 * 16 / 28
    assert found[1] == found[5] == found[6] == found[7] == 1 and 0 not in found
    assert set(branched([[2, 1]] * 4).values()) == {1.0} and set(branched([[2, 1]] * 6, group_items=2).values()) == {2.0}
    assert branched([[4], [1], [1], [2]])[3] == 4 * 4 / 8 and branched([[4], [1], [1], [2]])[5] == 1


def test_an_instruction_waits_as_long_as_the_operations_since_the_load_take():
    texts = dict(enumerate([*LOOP, "%r = call float @_Z12native_rsqrtf(float %m)", "%u = fmul float %r, %r"]))
    found = Dependences(texts)
    assert found.way({5}, [7]) == ("mul float", "add float") and found.way({5}, [2]) == ()
    assert found.way({5}, ()) == ("mul float", "native_rsqrt float", "mul float")


def test_a_loop_takes_as_long_as_its_operations_and_at_most_as_if_no_load_came_before_its_round():
    """Eight rounds with a load each: two batches of four, at most eight."""
    rounds = 8
    events = np.repeat(traced(BUFFER + 4 * (ITEMS % GROUP), groups=100).events, rounds)
    events["nth"] = events["step"] = np.tile(np.arange(rounds), len(ITEMS))
    texts = [text.replace("256", "%count") for text in LOOP]
    executed = {n: Instruction(n, 7, len(ITEMS) * rounds, 0, 0, 0, text) for n, text in enumerate(texts)}
    events["instruction"] = 5
    trace = replace(traced(BUFFER + 4 * ITEMS, groups=100), events=events, instructions=executed)
    rates = replace(RATES, operation_ns={"fma float": EXACT(2), "mul float": EXACT(3), "add float": EXACT(4)})
    need = demanded(trace)
    plain, found = (cost(need, one).parts[LATENCY] for one in (RATES, rates))
    waits, sums = 3 + 4, 2 * 2 * rounds  # from the load to the sum, and from sum to sum
    assert [len(one.requests) for one in (need.intervals, need.slow_intervals)] == [2, rounds]
    assert found.value - plain.value == pytest.approx(2 * waits + sums)
    assert found.high - plain.high == pytest.approx(rounds * waits + sums) and plain.high > plain.value


def test_loads_of_a_long_loop_come_in_fewer_rounds_before_the_first_use():
    ahead = []
    for more in (0, 15, 60):
        texts = dict(enumerate([*(text.replace("256", "%count") for text in LOOP), *["%u = fmul float %t, %t"] * more]))
        ahead.append(Loops(texts, dict.fromkeys(texts, 256.0)).rounds_ahead[5])
    assert ahead == [4, 2, 1]


def test_rates_are_those_of_a_stored_run():
    run = jsonl.read(Path(__file__).parents[3] / "reports" / "h200-sxm-quick.jsonl.gz")
    (device,) = measured_devices([run, run])  # of one device together
    assert (device.rates.width, device.rates.launch_ns, device.rates.group_ns) == (32, EXACT(4960), 0)
    ((one, same), (many, spread)) = device.rates.atomics
    assert (one, many) == (1, (4 << 20) / 32) and 43 < same.value < 44 and 77 < spread.value < 78
    alone = replace(run, records=[r for r in run.records if r.benchmark != "atomic" or r.params["items"] == 1])
    assert measured_devices([alone])[0].rates.atomics == ()  # the time of one work-item's addition is no throughput
    assert device.rates.issue_g_s is device.rates.first_cache is None
    assert device.hardware is None  # without reads of caches there are no inputs of the memory divergence model


def test_in_lockstep_sub_groups_take_turns_and_on_a_core_work_items_do():
    n = np.arange(128)  # 64 work-items load twice each before the next one starts
    zeros = np.zeros(128, np.int64)
    accesses = Accesses(n % 2, zeros, n // 2, zeros, 4 * n, zeros + 4, zeros + 1, zeros, zeros)
    together = requests(accesses, 64, 32, True)
    assert together.count == 4 and together.sub_group.tolist() == [0, 1, 0, 1]
    assert requests(accesses, 64, 1, False).of.tolist() == list(range(128))


def test_an_instruction_waits_for_the_load_that_its_operand_comes_from():
    texts = ["%x = load i32, i32 addrspace(1)* %a, align 4", "%p = getelementptr i32, i32 addrspace(1)* %b, i32 %x",
             "%y = load i32, i32 addrspace(1)* %p, align 4", "store i32 %y, i32 addrspace(1)* %c, align 4"]  # fmt: skip
    found = Dependences(dict(enumerate(texts)))
    assert (found.waits_for[2], found.waits_for[3], found.has_loop) == ({0}, {2}, False)
    loop = [*texts, "%a = getelementptr i32, i32 addrspace(1)* %c, i32 %y"]
    assert Dependences(dict(enumerate(loop))).has_loop


@each(("text", "fewest", "most"), [
    ("%3 = fmul <4 x float> %sub, %sub", 4, 4), ("%i = phi i32 [ 0, %entry ], [ %n, %body ]", 0, 0), (LOAD_TEXT, 1, 1),
    ("%q = getelementptr float, float addrspace(1)* %p, i64 %i", 0, 2), ("%d = fdiv float %a, %b", 1, 10),
    ("%r = tail call spir_func float @_Z12native_rsqrtf(float noundef %add)", 1, 1),
])  # fmt: skip
def test_machine_instructions_are_between_bounds(text, fewest, most):
    assert machine_instructions(text) == (fewest, most)
