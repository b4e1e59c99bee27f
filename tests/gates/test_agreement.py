"""Values of one run that measure one thing: which pairs there are, what explains a difference, and which values are doubted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench.analysis.derive import derive
from clmembench.benchmarks import discovered
from clmembench.gates.agreement import GATE, pairs
from clmembench.gates.whole import judged_run
from clmembench.model import Cause, Placement, Quantity
from clmembench.plan.sweep import benchmark_card
from clmembench.report import render, summary
from clmembench.report.frame import judged_rows
from tests.builders import device, header, record, run, series

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
NAMES = (
    "stream", "cache_read", "usm_bandwidth", "copy_grid", "datatypes", "local_read", "local_copy", "arithmetic", "dgemm",
    "spmv", "reduction", "transpose", "pchase", "step_latency", "banks", "launch", "launch_method",
)  # fmt: skip
CARDS = {name: benchmark_card(discovered()[name]) for name in NAMES}
CPU = device("Two cores", kind="cpu", compute_units=2, cache_bytes=32 * MIB, local_mem_bytes=MIB)
GPU = device(compute_units=132, cache_bytes=50 * MIB)


def rate(benchmark, params, per_ns, nbytes=GIB, spread=0.001, index=0, **changes):
    times = [round(nbytes / per_ns * (1 + spread * (n % 5 - 2))) for n in range(16)]
    own = {name: changes.pop(name) for name in ("clock", "cpu_ns", "flops") if name in changes}
    return record(benchmark, params, series(times, nbytes=nbytes, **own), index=index, **changes)


def steep(benchmark, params, per_ns, amount="nbytes", index=0):
    near, far = (
        series([round(n * 1e9 / per_ns * (1 + 0.001 * (k % 5 - 2))) + 5000 for k in range(16)], **{amount: int(n * 1e9)})
        for n in (1, 3)
    )
    return record(benchmark, params, near, far, index=index)


def read(gb_s, **changes):
    params = {"op": "read", "dtype": "double", "array_bytes": GIB, "order": "blocked", "nontemporal": 0, "width": 4}
    return rate("stream", params | changes.pop("params", {}), gb_s, **changes)


def copy(gb_s, **changes):
    params = {"op": "copy", "dtype": "double", "array_bytes": GIB, "order": "item", "nontemporal": 1, "width": 8}
    return rate("stream", params, gb_s, nbytes=2 * GIB, **changes)


def grid(gb_s, groups=2, index=50, **changes):
    params = {"work_group": 64, "ilp": 4, "groups": groups, "array_bytes": GIB, "width": 16, "nontemporal": 1}
    return rate("copy_grid", params, gb_s, nbytes=2 * GIB, index=index, **changes)


def usm(gb_s, **changes):
    params = {"memory": "device", "op": "read", "last_touch": "device", "array_bytes": GIB}
    return rate("usm_bandwidth", params, gb_s, index=60, **changes)


def shared(gb_s, set_bytes=4 * GIB, index=70):
    params = {"set": "shared", "set_bytes": set_bytes, "path": "plain", "unit_items": 1024}
    return steep("cache_read", params, gb_s, index=index)


def whole(*records, info=CPU, **changes):
    return run(records, header(info, CARDS, **changes))


def found(*records, info=CPU, **changes):
    one = whole(*records, info=info, **changes)
    return pairs(derive(one), one, None)


def judged(*records, info=CPU, **changes):
    one = judged_run(whole(*records, info=info, **changes), None)
    assert judged_run(replace(one, judged=False), None).records == one.records  # again changes nothing
    return [(r.benchmark, r.status, r.gate) for r in one.records]


def test_a_kernel_whose_order_suits_another_device_is_doubted_and_the_faster_one_is_not():
    assert judged(read(31.0), usm(0.82)) == [("stream", "ok", ""), ("usm_bandwidth", "suspect", GATE)]
    (pair,) = found(read(31.0), usm(0.82))
    assert pair.contradicts and pair.share == pytest.approx(0.0265, rel=0.01)
    assert "stream op=read" in pair.why and "31" in pair.why


def test_what_agrees_or_nearly_does_is_a_pair_with_its_reason():
    (pair,) = found(read(4500.0), shared(4502.0), info=GPU)
    assert not pair.contradicts and pair.why == "within the intervals of both"
    (pair,) = found(read(4350.0), shared(4560.0), info=GPU)
    assert not pair.contradicts and "launch" in pair.why and "within 10%" in pair.why
    assert {status for _, status, _ in judged(read(4350.0), shared(4560.0), info=GPU)} == {"ok"}


def test_a_wide_interval_that_comes_near_is_not_called_near():
    (pair,) = found(read(31.0), usm(24.0, spread=0.1))
    assert pair.share < 0.8 and 0.9 < pair.share_high < 1 and not pair.contradicts
    assert "only its interval lies partly within 10%" in pair.why


def test_a_roof_that_a_kernel_exceeds_is_no_roof():
    shape = {"dtype": "float", "n": 1024, "variant": "portable", "tile": "6x16", "depth": 256, "work_group": 1}
    product = record("dgemm", shape, series([10_000_000] * 16, flops=3_000_000_000), index=9)
    slow = steep("arithmetic", {"dtype": "float", "width": 16, "chains": 8}, 189.0, "flops")
    assert judged(slow, product) == [("arithmetic", "suspect", GATE), ("dgemm", "ok", "")]
    fast = steep("arithmetic", {"dtype": "float", "width": 16, "chains": 8}, 370.0, "flops")
    assert [status for _, status, _ in judged(fast, product)] == ["ok", "ok"]
    assert found(fast, product) == []  # that a kernel stays below its roof is no comparison
    near = steep("arithmetic", {"dtype": "float", "width": 16, "chains": 8}, 285.0, "flops")
    assert judged(near, product)[0] == ("arithmetic", "suspect", GATE)  # nothing exceeds a roof by 5%


def test_a_copy_with_a_limit_of_its_own_is_explained_down_to_the_share_that_it_names():
    ok, doubted = found(copy(37.0), grid(29.0)), found(copy(37.0), grid(16.0), grid(12.0, 8, index=51))
    assert [pair.contradicts for pair in ok + doubted] == [False, True]
    assert "in a loop" in ok[0].why and "in a loop" in doubted[0].why and "no explanation of so much" in doubted[0].why
    states = judged(copy(37.0), grid(16.0), grid(12.0, 8, index=51))
    assert [state for _, state, _ in states] == ["ok", "suspect", "suspect"]  # the best of it, and so all of it


def test_a_runtime_that_copies_with_one_thread_is_explained_by_the_units_at_work():
    params = {"dtype": "device_copy", "array_bytes": GIB, "work_group": 256, "elements": 1, "nontemporal": 0}
    times = [round(2 * GIB / 12.0)] * 16
    one = record("datatypes", params, series(times, nbytes=2 * GIB, cpu_ns=tuple(times)), index=5)
    both = copy(37.0)
    both = replace(both, series=(replace(both.series[0], cpu_ns=tuple(2 * t for t in both.series[0].host_ns)),))
    (pair,) = found(both, one)
    assert not pair.contradicts and "1.00 compute units were at work, and 2.00 there" in pair.why
    (pair,) = found(both, one, info=GPU)  # whose units take no time of the host
    assert "compute units were at work" not in pair.why


def test_sets_that_a_cache_may_hold_are_another_quantity():
    assert found(read(31.0), shared(200.0, set_bytes=64 * MIB)) == []
    (pair,) = found(read(31.0), shared(3.0, set_bytes=64 * MIB))  # no cache makes it slower
    assert pair.contradicts and pair.other.benchmark == "cache_read"
    claims = replace(CPU, cache_bytes=480 * MIB)  # of a whole socket, four times which no array here is
    assert [pair.contradicts for pair in found(copy(37.0), grid(16.0), info=claims)] == [True]
    small = {"array_bytes": 16 * MIB}
    (pair,) = found(read(110.0, params=small, index=3), read(31.0), usm(30.5))
    assert pair.better.median == pytest.approx(31.0, rel=0.01)


def test_a_driver_that_claims_a_cores_cache_makes_no_memory_of_a_sockets():
    info = replace(CPU, cache_bytes=2 * MIB)
    fast = replace(product(8.0, 2, nbytes=110 * MIB), place=Placement())
    assert found(read(33.0), fast, info=info) == []
    assert {pair.contradicts for pair in found(product(1.0, 1, 128 * MIB), product(2.7, 2, 128 * MIB, 1), info=info)} == {False}


def test_a_value_that_is_mostly_launching_is_no_bandwidth():
    short = rate("usm_bandwidth", usm(1.0).params | {"array_bytes": 64 * MIB}, 1714.0, nbytes=64 * MIB, clock="host", index=60)
    (pair,) = found(read(4530.0), short, info=GPU)
    assert pair.contradicts and "launch" in pair.why


def test_points_that_the_user_chose_or_the_budget_left_are_not_doubted():
    (pair,) = found(copy(37.0), grid(9.0, groups=1), axes={"groups": (1,)})
    assert not pair.contradicts and "-a groups" in pair.why
    left = replace(grid(20.0, 8, index=52), status="skipped", reason="the budget was spent", series=(), cause=Cause.BUDGET)
    (pair,) = found(copy(37.0), grid(9.0, groups=1), left)
    assert not pair.contradicts and "gave no value" in pair.why
    lacking = replace(left, cause=Cause.MISSING_FEATURE)
    assert [pair.contradicts for pair in found(copy(37.0), grid(9.0, groups=1), lacking)] == [True]


def test_local_memory_of_a_core_is_its_cache_and_that_of_a_gpu_is_not():
    local = steep("local_read", {"path": "portable", "work_group": 1, "groups_a_unit": 1, "ilp": 4}, 89.0)
    own = steep("cache_read", {"set": "own", "set_bytes": 16 * KIB, "path": "plain", "unit_items": 1}, 528.0, index=7)
    assert judged(local, own) == [("local_read", "suspect", GATE), ("cache_read", "ok", "")]
    assert found(local, own, info=GPU) == []


def slow(benchmark, params, ns, index=0):
    ends = (series([round(n * ns * (1 + 0.001 * (k % 5 - 2))) + 5000 for k in range(16)], ops=n) for n in (10_000, 30_000))
    return record(benchmark, params, *ends, index=index)


def test_latencies_of_one_thing_agree_the_least_is_the_best():
    chase = slow("pchase", {"array_bytes": 4 * KIB, "spacing_bytes": "line"}, 16.2)
    indexed = slow("step_latency", {"memory": "global", "step": 1}, 20.8, index=1)
    (pair,) = found(chase, indexed, info=GPU)
    assert not pair.contradicts and pair.better.benchmark == "pchase" and "address" in pair.why
    assert pair.share == pytest.approx(16.2 / 20.8, rel=0.01)
    assert judged(chase, slow("step_latency", {"memory": "global", "step": 1}, 33.0, index=1), info=GPU)[1][1] == "suspect"
    local = slow("step_latency", {"memory": "local", "step": 1}, 11.6)
    ones = slow("banks", {"stride": 1, "word_bytes": 4, "items": 32}, 11.6, index=2)
    assert [pair.why for pair in found(local, ones, info=GPU)] == ["within the intervals of both"]
    assert found(local, ones) == []  # the work-items of a core are a loop


def test_round_trips_by_the_host_differ_with_the_cpu_of_the_process():
    def trip(benchmark, params, us, index):
        return record(benchmark, params, series([round(us * 1000)] * 16, ops=1, clock="host"), index=index)

    for us, contradicts in ((12.3, False), (30.0, True)):
        (pair,) = found(trip("launch", {"groups": 1}, us, 0), trip("launch_method", {"method": "prepared"}, 10.7, 1), info=GPU)
        assert pair.contradicts == contradicts and "host's clock" in pair.why


def test_a_sum_that_reads_faster_is_no_roof_that_was_exceeded():
    total = {"n": 1 << 30, "method": "tree", "groups_a_unit": 4, "width": 4, "work_group": 1024}
    fast = record("reduction", total, series([round(8 * GIB / 3112)] * 16, nbytes=8 * GIB, ops=1), index=8)
    assert [state for _, state, _ in judged(usm(2921.0), fast, info=GPU)] == ["ok", "ok"]


def test_a_plug_in_declares_what_it_measures():
    card = replace(CARDS["usm_bandwidth"], quantities=(Quantity("memory reads", "usm_bandwidth"),))
    mine = replace(usm(9.0), benchmark="mine")
    one = run([read(31.0), mine], header(CPU, CARDS | {"mine": card}))
    assert [r.status for r in judged_run(one, None).records] == ["ok", "suspect"]


def product(gflop_s, units, nbytes=GIB, index=0):
    params = {"matrix": "reservoir", "format": "csr_row", "order": "blocked", "team": 2, "work_group": 64, "hints": "none"}
    flops = 2 * nbytes // 12
    times = series([round(flops / gflop_s)] * 16, nbytes=nbytes, flops=flops, ops=1)
    times = replace(times, cpu_ns=tuple(units * t for t in times.host_ns))
    return record("spmv", params, times, place=Placement(units, tuple(range(units)), "compact"), index=index)


def test_a_speed_up_above_the_number_of_units_is_explained_or_suspect():
    states = judged(product(1.0, 1), product(2.5, 2, index=1))
    assert [state for _, state, _ in states] == ["suspect", "suspect"]
    assert found(product(1.0, 1), product(2.1, 2, index=1)) == []
    cached = found(product(1.0, 1, nbytes=64 * MIB), product(2.5, 2, nbytes=64 * MIB, index=1))
    assert {pair.contradicts for pair in cached} == {False} and all("caches" in pair.why for pair in cached)


def test_the_summary_lists_every_pair_with_its_ratio_and_why_contradictions_first():
    one, table = judged_rows(whole(read(31.0), shared(30.9), usm(0.82)), None)
    text = render.text(summary.summary_document(one, table, None))
    lines = text[text.index("Agreement") :].splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["memory", "reads"]] * 2
    assert "usm_bandwidth" in lines[2] and "0.026" in lines[2] and "CONTRADICTION [1]" in lines[2]
    assert "cache_read" in lines[3] and "0.997" in lines[3] and "[2]" in lines[3]
    assert "within the intervals of both" in text and "contradictions: 1 of 2 pairs" in text
    plain = render.text(summary.summary_document(*judged_rows(whole(read(31.0)), None), None))
    assert "Agreement" not in plain
