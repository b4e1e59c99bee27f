"""Gates: each catches a violation planted for it, on both sides where it has two, and passes a clean run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench.analysis.derive import derive
from clmembench.gates.point import GATES, judged
from clmembench.gates.whole import CROSS_POINT_GATES, SINGLE_VALUE_GATES, judged_run
from clmembench.model import BenchmarkInfo, Metric, Placement
from clmembench.report.frame import point_values, rows
from clmembench.specs.sheets import Figure, Match, SpecSheet
from tests.builders import BANDWIDTH, CHASE, COST, LATENCY, STREAM, clock, device, header, record, run, series, slope
from tests.cases import each

KIB, MIB = 1 << 10, 1 << 20
SHEET = SpecSheet(
    "a sheet", "gpu", Match(("Synthetic GPU",)), {"memory_bandwidth_gb_s": Figure(100.0, "GB/s", "the data sheet")}
)
METRICS = (BANDWIDTH, LATENCY)
BARRIER = replace(LATENCY, name="barrier")


def gate_of(one, metrics=METRICS):
    found = judged(one, metrics)
    assert (found.status == "suspect") == bool(found.gate) == bool(found.reason)
    return found.gate


# ---- one record ---------------------------------------------------------------------------------------------------------

clean = series([10**7] * 8, nbytes=10**8, host_ns=(10**7 + 20_000,) * 8)


@each(
    ("times", "gate"),
    [
        (clean, ""),
        (replace(clean, device_ns=(11 * 10**6,) * 8), "stamps"),  # more than the host saw pass
        (replace(clean, device_ns=(10**4,) * 8), "stamps"),  # counts microseconds
        (replace(clean, device_ns=(10**7,) * 7 + (-5,)), "stamps"),
        (
            replace(clean, host_ns=(22 * 10**6,) * 8, passes=30),
            "",
        ),  # thirty launches and a slow host
        (replace(clean, device_ns=(36_000,) * 8, host_ns=(3_600_000,) * 8, passes=4), "stamps"),  # short, and a hundredth
        (replace(clean, clock="queue", queue_ns=(5,) * 8), ""),
        (replace(clean, clock="queue", queue_ns=(-5,) * 8), "stamps"),
        (replace(clean, clock="queue", queue_ns=(10**7,) * 7 + (3600 * 10**9,)), "stamps"),
        (replace(clean, clock="queue", queue_ns=(9,) * 8, submit_ns=(4,) * 8), ""),
        (replace(clean, clock="queue", queue_ns=(9,) * 8, submit_ns=(4,) * 7 + (-1,)), "stamps"),
        (replace(clean, clock="queue", queue_ns=(9,) * 8, submit_ns=(4,) * 7 + (10,)), "stamps"),
        (replace(clean, host_ns=clean.host_ns[:5], device_ns=clean.device_ns[:5]), "samples"),
    ],
)
def test_a_record_is_held_against_itself(times, gate):
    assert gate_of(record("stream", {"op": "copy"}, times)) == gate


@pytest.mark.parametrize(
    ("clocked", "passes", "gate"), [("host", 2, "together"), ("queue", 3, "together"), ("host", 1, ""), ("device", 2, "")]
)
def test_a_cost_whose_passes_were_waited_for_together(clocked, passes, gate):
    times = series([1000] * 8, ops=1, clock=clocked, passes=passes, queue_ns=(1000,) * 8)
    assert gate_of(record("launch", {"groups": 1}, times), (COST,)) == gate


@pytest.mark.parametrize(
    ("near", "far", "gate"),
    [
        (15_000, 35_000, ""),  # 5 us of overhead and 10 ns a step
        (10_000, 30_000, ""),  # no overhead at all
        (10_000, 33_500, "grows"),  # three times the work, more than three times the time
        (35_000, 30_000, "grows"),  # and less time
        (35_000, 34_900, ""),  # what a compiler removed, and noise
    ],
)
def test_time_grows_with_work_and_no_more_than_in_proportion(near, far, gate):
    ends = (series([near, near + 9] * 8, ops=1000), series([far, far + 9] * 8, ops=3000))
    assert gate_of(record("pchase", {"array_bytes": 4096}, *ends)) == gate


def test_work_that_took_no_time_at_all_was_not_done():
    ends = (series([0] * 8, ops=1000), series([35_000] * 8, ops=3000))
    assert gate_of(record("pchase", {"array_bytes": 4096}, *ends)) == "grows"


def test_noise_is_no_curvature():
    near, far = [10_000, 12_000, 9_000, 15_000] * 4, [33_500, 30_000, 40_000, 31_000] * 4
    assert gate_of(record("pchase", {"array_bytes": 4096}, series(near, ops=1000), series(far, ops=3000))) == ""


@pytest.mark.parametrize(
    ("each_ns", "ghz", "gate"),
    [
        (0.18, 3.4, "cycle"),  # as PoCL's compiler left 16 barriers of one work-group: 0.6 cycles each
        (0.18, 6.0, ""),  # 1.1 cycles
        (5.0, 2.0, ""),
        (0.0, 3.4, ""),  # not distinguishable from 0: undetermined when its value is derived
        (0.18, None, ""),  # without a clock nothing is known of cycles
    ],
)
def test_a_barrier_that_costs_less_than_a_cycle_did_not_happen(each_ns, ghz, gate):
    ends = [series([int(5_000 + each_ns * n)] * 8, ops=n) for n in (1_000_000, 3_000_000)]
    reading = clock(ghz) if ghz is not None else None
    one = record("barrier", {"work_items": 256}, *ends, core_clock=reading)
    assert gate_of(one, (BARRIER,)) == gate
    assert gate_of(one, (LATENCY,)) == ""  # other operations overlap
    if gate:
        reason = judged(one, (BARRIER,)).reason
        assert "less than one core cycle" in reason and "a compiler removed" in reason


@pytest.mark.parametrize(("moved", "gate"), [(1.0, "cycle"), (1.4, "")])
def test_a_clock_that_moved_may_have_run_faster_than_a_barrier_looks(moved, gate):
    ends = [series([5_000 + n // 4] * 8, ops=n) for n in (1_000_000, 3_000_000)]  # 0.25 ns each
    reading = replace(clock(3.9), after_ns=moved * clock(3.9).after_ns)
    assert gate_of(record("barrier", {}, *ends, core_clock=reading, role="tune"), (BARRIER,)) == gate


@pytest.mark.parametrize(("moved", "gate"), [(1.0, ""), (1.1, ""), (1.3, "drift"), (0.7, "drift")])
def test_a_core_clock_that_moves_far_leaves_no_number(moved, gate):
    reading = replace(clock(2.0), after_ns=moved * clock(2.0).after_ns)
    assert gate_of(record("stream", {"op": "copy"}, clean, core_clock=reading)) == gate


def test_what_has_no_number_is_not_judged_and_the_first_gate_names_it():
    broken = replace(clean, device_ns=(10**4,) * 5, host_ns=clean.host_ns[:5])
    assert gate_of(record("stream", {"op": "copy"}, broken)) == next(iter(GATES))
    for status in ("failed", "wrong", "skipped", "timeout"):
        one = record("stream", {"op": "copy"}, broken, status=status, reason="why")
        assert judged(one, METRICS) == one


# ---- a whole run --------------------------------------------------------------------------------------------------------


def gates_of(found, sheet=None):
    """The gate of each point, by its number on the axis, or by what tells it from others."""
    return {tuple(r.params.values())[-1]: r.gate for r in judged_run(found, sheet).records}


def rate(gb_s, op="copy", array_bytes=256 * MIB, footprint=None, **changes):
    nbytes = footprint or array_bytes
    times = series([round(nbytes / gb_s)] * 8, nbytes=nbytes)
    return record("stream", {"op": op, "array_bytes": array_bytes}, times, **changes)


@pytest.mark.parametrize(("gb_s", "gate"), [(90.0, ""), (101.0, ""), (103.0, "peak"), (9e4, "peak"), (0.2, "")])
def test_no_rate_is_over_its_peak(gb_s, gate):
    assert gates_of(run([rate(gb_s)]), SHEET) == {256 * MIB: gate}


@pytest.mark.parametrize("share_of_peak", [1e-2, 1e-4, 1e-6, 1e-9])
def test_slowness_contradicts_nothing(share_of_peak):
    # a matrix of which one row is dense keeps one work-item busy, and a transfer of 4 bytes moves next to nothing
    assert gates_of(run([rate(100.0 * share_of_peak, array_bytes=MIB, footprint=256 * MIB)]), SHEET) == {MIB: ""}


# ---- a clock that counts another unit ------------------------------------------------------------------------------------


def counted(true_ns, factor, **changes):
    """A series whose stamps say `factor` times the ns that its passes took, beside the host's clock, which counts ns."""
    passes = changes.get("passes", 1)
    host = (round(true_ns * passes) + 20_000,) * 8
    return series([round(true_ns * passes * factor)] * 8, host_ns=host, **changes)


def kinds(factor, ms=10.0):
    """A record of each kind of point, whose event stamps count another unit; the shortest of its passes takes that long."""
    ns = 1e6 * ms
    stamps = (round(factor * ns),) * 8
    of = {
        "rate": [counted(ns, factor, nbytes=10**6)],
        "several passes": [counted(ns / 16, factor, nbytes=10**6, passes=16)],
        "slope": [counted(ns, factor, ops=1000), counted(3 * ns, factor, ops=3000)],
        "overlap": [counted(ns, factor, nbytes=10**6)] * 2 + [counted(1.2 * ns, factor, nbytes=2 * 10**6)],
        "queue": [replace(counted(ns, 1.0, ops=1), clock="queue", queue_ns=stamps, submit_ns=stamps)],
    }
    return {kind: record(kind, {"op": "copy"}, *works) for kind, works in of.items()}


KINDS = ("rate", "several passes", "slope", "overlap", "queue")


@each("kind", KINDS)
@each("factor", [125 / 3, 1000.0, 1e6])  # ticks where 24 MHz are meant; ps; a thousandth of these
def test_stamps_that_count_a_smaller_unit_than_ns_span_more_time_than_the_host_saw(kind, factor):
    # this alone makes what is fast look slow, and it needs no peak
    for ms in (0.1, 10.0):
        assert gate_of(kinds(factor, ms)[kind], (replace(BANDWIDTH, peak=None),)) == "stamps"


@each("kind", [kind for kind in KINDS if kind != "queue"])
@each("factor", [3 / 125, 1e-3, 1e-6])
def test_stamps_that_count_a_larger_unit_than_ns_span_far_less_time_than_the_host_waited(kind, factor):
    assert gate_of(kinds(factor)[kind], (replace(BANDWIDTH, peak=None),)) == "stamps"


@pytest.mark.parametrize("factor", [3 / 125, 1e-3, 125 / 3, 1e3])
def test_the_chain_of_dependent_operations_tells_the_unit_beside_passes_that_are_short(factor):
    # as its two readings are timed by the same stamps: 20 us a pass leave the host's launches in doubt
    short = counted(20_000, factor, nbytes=10**6, passes=4)
    told = clock(2.0 / factor)
    assert gates_of(run([record("stream", {"op": "copy"}, short, core_clock=told)]))["copy"] in ("stamps", "clock")


@pytest.mark.parametrize("kind", KINDS)
def test_stamps_in_ns_pass_for_every_kind_of_point(kind):
    assert gate_of(kinds(1.0)[kind], (replace(BANDWIDTH, peak=None),)) == ""


def test_a_point_that_fails_a_gate_is_no_value_in_any_of_its_rows():
    (found,) = rows(run([rate(5000.0)]), SHEET)
    assert (found.status, found.value.gate, point_values([found])[0].gate) == ("suspect", "peak", "peak")
    assert "theoretical peak of 100: the data sheet" in found.reason


@pytest.mark.parametrize(("used", "gate"), [(2.0, ""), (1.9, ""), (1.0, "cores"), (2.5, "cores")])
def test_as_many_compute_units_are_used_as_were_asked_for(used, gate):
    times = series([10**6] * 8, nbytes=10**6, busy=2, cpu_ns=(round(used * 10**6),) * 8)
    one = record("stream", {"op": "copy"}, times, place=Placement(2, (0, 1), "compact"))
    assert gates_of(run([one], header(device(kind="cpu")))) == {"copy": gate}
    assert gates_of(run([one], header(device(kind="gpu")))) == {"copy": ""}  # a GPU's work takes no CPU time


@pytest.mark.parametrize(("ghz", "gate"), [(2.0, ""), (3.5, ""), (0.3, ""), (5.0, "clock"), (0.1, "clock")])
def test_ns_and_cycles_agree_on_a_clock_that_can_be(ghz, gate):
    assert gates_of(run([rate(50.0, core_clock=clock(ghz))])) == {256 * MIB: gate}


def chase(*ns):
    """A latency a working set, from 4 KiB up by octaves."""
    points = [slope({"spacing_bytes": "line", "array_bytes": 4 * KIB << n}, [v, 1.001 * v] * 8) for n, v in enumerate(ns)]
    return run(points, header(cards={"pchase": CHASE, "stream": STREAM}))


@pytest.mark.parametrize(
    ("ns", "suspect"),
    [
        ((1, 1, 1, 4, 4, 15, 15, 100, 100), {}),
        ((1, 1, 1.2, 1, 4, 15, 15, 100, 100), {}),  # within what differs between allocations
        ((1, 1, 8, 4, 4, 15, 15, 100, 100), {16}),  # slower than larger sets
        ((1, 1, 1, 4, 4, 15, 0.5, 100, 100), {256}),  # faster than smaller sets, which it does not condemn
    ],
)
def test_latency_never_falls_as_the_working_set_grows(ns, suspect):
    found = gates_of(chase(*ns))
    assert {size // KIB for size, gate in found.items() if gate == "levels"} == set(suspect)
    assert set(found.values()) <= {"", "levels"}


def test_a_level_does_not_count_what_failed_a_gate():
    from clmembench.analysis import plateaus

    found = judged_run(chase(1, 1, 8, 4, 4, 15, 15, 100, 100), None)
    assert 16 * KIB not in [s.array_bytes for s in plateaus.curve_points(found.records, LATENCY, "array_bytes")]


@pytest.mark.parametrize(
    ("times_us", "suspect"),
    [
        ((10, 20, 40, 80), set()),
        ((10, 10, 12, 30), set()),  # a launch's own time
        ((10, 90, 40, 80), {2}),  # a longer pass than twice and four times the work
        ((10, 20, 40, 8), {8}),  # and one that cannot have done it
    ],
)
def test_more_work_takes_no_less_time(times_us, suspect):
    card = BenchmarkInfo(1, "compute", "Sums.", "somebody", (replace(BANDWIDTH, peak=None),), x="n")
    points = [record("sum", {"n": 1 << k}, series([1000 * us] * 8, nbytes=8 << k)) for k, us in enumerate(times_us)]
    found = gates_of(run(points, header(cards={"sum": card})))
    assert {n for n, gate in found.items() if gate == "sizes"} == suspect
    assert set(found.values()) <= {"", "sizes"}


@pytest.mark.parametrize(
    ("memory_ns", "large_gb_s", "gate"),
    [
        (100.0, 20.0, ""),  # latency rises, bandwidth falls
        (15.0, 38.0, ""),  # neither
        (15.0, 20.0, "knee"),  # bandwidth falls where latency says that nothing changes
    ],
)
def test_bandwidth_falls_only_where_latency_rises(memory_ns, large_gb_s, gate):
    curve = chase(1, 1, 1, 4, 4, 4, 15, 15, 15, 15, 15, *[memory_ns] * 6)
    small, large = rate(40.0, array_bytes=2 * MIB), rate(large_gb_s, array_bytes=256 * MIB)
    found = judged_run(replace(curve, records=(*curve.records, small, large)), None)
    assert {r.params["array_bytes"]: r.gate for r in found.records if r.benchmark == "stream"} == {2 * MIB: gate, 256 * MIB: ""}


def test_a_clean_run_passes_every_gate_and_judging_twice_changes_nothing():
    curve = chase(1, 1, 1, 4, 4, 4, 15, 15, 100, 100, 100)
    clean_run = replace(curve, records=(*curve.records, rate(60.0, array_bytes=MIB), rate(50.0, core_clock=clock(2.0))))
    found = judged_run(clean_run, SHEET)
    assert {r.status for r in found.records} == {"ok"} and found.records == clean_run.records
    assert judged_run(found, SHEET) is found
    assert all(d.status == "ok" for d in derive(found))


def test_a_clock_reading_that_is_none_is_a_move_and_no_clock():
    broken = replace(clock(2.0), before_ns=-5.0)
    assert (broken.ghz, broken.moved) == (None, 1.0)
    assert replace(clock(2.0), before_ns=5e-324).moved == 1000.0
    assert gate_of(record("stream", {"op": "copy"}, clean, core_clock=broken)) == "drift"


def test_sizes_that_are_close_do_not_hide_a_contradiction_of_others():
    card = BenchmarkInfo(1, "compute", "Sums.", "somebody", (replace(BANDWIDTH, peak=None),), x="n")
    times = ((4096, 10**5), (5000, 10**4), (16384, 10**4))
    points = [record("sum", {"n": n}, series([ns] * 8, nbytes=8 * n)) for n, ns in times]
    assert gates_of(run(points, header(cards={"sum": card})))[4096] == "sizes"
    # where the work does not grow with the number, less time is no contradiction
    same = [record("sum", {"n": n}, series([ns] * 8, nbytes=8)) for n, ns in times]
    assert set(gates_of(run(same, header(cards={"sum": card}))).values()) == {""}


def test_a_line_of_very_many_points_takes_no_time():
    points = [slope({"spacing_bytes": "line", "array_bytes": 4096 + n}, [9e5 - n] * 8) for n in range(0, 8000, 4)]
    assert set(gates_of(run(points, header(cards={"pchase": CHASE}))).values()) == {""}


def test_every_gate_has_a_violation_here():
    planted = {
        "stamps", "samples", "together", "grows", "cycle", "drift", "peak", "cores", "clock", "impossible", "levels", "sizes",
        "knee", "agreement",  # the last one's are in test_agreement
    }  # fmt: skip
    assert planted == {*GATES, *SINGLE_VALUE_GATES, *CROSS_POINT_GATES}


# ---- what no hardware does ------------------------------------------------------------------------------------------------

RATES = {
    "read": Metric("read", "GB/s", "nbytes", "slope_rate", "higher"),
    "bits": Metric("bits", "Tbit/s", "nbytes", "rate", "higher", scale=8e-3),
    "flop_rate": Metric("flop_rate", "GFLOP/s", "flops", "rate", "higher"),
    "each": Metric("each", "ns", "ops", "cost", "lower"),
    "atomics": Metric("throughput", "Gop/s", "ops", "rate", "higher"),
    "waits": Metric("queued_to_submitted", "ns", "ops", "cost", "lower", part="submit"),
}


def judged_rate(metric: Metric, amount: float, ns: int, suite: str = "memory", clock: str = "device", **claims):
    """The value of a pass, or of a slope, that does this amount in so many ns on a device with these claims."""
    amounts = {"nbytes": 0, "flops": 0, "ops": 0, metric.amount: int(amount)}
    ends = [series([ns] * 8, clock=clock, queue_ns=(ns,) * 8, submit_ns=(ns,) * 8, **amounts)]
    if metric.form.startswith("slope"):
        ends.append(series([3 * ns] * 8, clock=clock, **{name: 3 * n for name, n in amounts.items()}))
    card = BenchmarkInfo(1, suite, "", "", (metric,))
    one = run([record("mine", {}, *ends)], header(device(**claims), {"mine": card}))
    (value,) = derive(judged_run(one, None))
    return value


@each(
    ("metric", "amount", "ns", "claims", "sound"),
    [
        ("bits", 2**62, 16_000_000, {}, False),  # a plug-in that names an amount it never moved
        ("bits", 2**62, 16_000_000, {"kind": "accelerator", "compute_units": 0, "max_clock_mhz": 0}, False),
        ("read", 4.3e10 * 1e6, 10**6, {"kind": "cpu", "compute_units": 2}, False),  # loads that a compiler removed
        ("read", 4 * 2 * 128 * 1e6, 10**6, {}, True),  # 128 bytes a cycle of 2 GHz on each of 4 units
        ("read", 4 * 2 * 512 * 1e6, 10**6, {}, True),  # the widest units there are
        ("read", 4 * 2 * 4096 * 1e6, 10**6, {}, False),
        ("read", 33_000 * 1e6, 10**6, {"compute_units": 132, "max_clock_mhz": 1980}, True),  # all L1 of an H100
        ("read", 460 * 1e6, 10**6, {"kind": "accelerator", "compute_units": 1, "max_clock_mhz": 300}, True),  # an FPGA with HBM
        ("read", 2000 * 1e6, 10**6, {"compute_units": 1, "max_clock_mhz": 1}, True),  # a clock that no device has
        ("flop_rate", 67_000 * 1e6, 10**6, {"compute_units": 132, "max_clock_mhz": 1980}, True),  # FP64 matrix instructions
        ("flop_rate", 67_000_000 * 1e6, 10**6, {"compute_units": 132, "max_clock_mhz": 1980}, False),
        ("each", 10**12, 10**6, {}, False),
        ("each", 10**6, 10**6, {}, True),
        ("atomics", 132 * 1.98 * 32 * 1e6, 10**6, {"compute_units": 132, "max_clock_mhz": 1980}, True),
        ("atomics", 132 * 1.98 * 1e5 * 1e6, 10**6, {"compute_units": 132, "max_clock_mhz": 1980}, False),
    ],
)
def test_a_rate_that_no_hardware_reaches_is_suspect_without_a_sheet(metric, amount, ns, claims, sound):
    value = judged_rate(RATES[metric], amount, ns, **claims)
    assert (value.status, value.gate) == (("ok", "") if sound else ("suspect", "impossible")), value.reason
    assert sound or "the amount of work or the time is wrong" in value.reason


@pytest.mark.parametrize("amount", ["nbytes", "flops"])
def test_what_a_pass_is_said_to_do_is_judged_whatever_the_metric_is(amount):
    times = replace(series([10**6] * 8, ops=1000, nbytes=10**6), flops=10**6)
    card = BenchmarkInfo(1, "memory", "", "", (RATES["each"],))
    for said, status in ((10**6, "ok"), (2**62, "suspect")):
        one = run([record("mine", {}, replace(times, **{amount: said}))], header(cards={"mine": card}))
        assert {v.status for v in derive(judged_run(one, None))} == {status}


@each(
    ("metric", "ns", "suite", "clock", "sound"),
    [
        (LATENCY, 0.6, "memory", "device", True),  # 1.2 cycles at 2 GHz
        (LATENCY, 0.1, "memory", "device", False),
        (replace(LATENCY, name="step"), 0.1, "access", "device", True),  # several steps may end in one cycle
        (RATES["each"], 40.0, "sync", "host", True),
        (RATES["each"], 1.0, "sync", "host", False),  # a launch
        (RATES["each"], 1.0, "memory", "host", True),  # a page that is touched
        (RATES["waits"], 1.0, "sync", "queue", True),  # parts of the way may be short
    ],
)
def test_steps_and_calls_take_some_time(metric, ns, suite, clock, sound):
    value = judged_rate(metric, 10**6, int(ns * 10**6), suite, clock)
    assert (value.status, value.gate) == (("ok", "") if sound else ("suspect", "impossible")), value.reason


@pytest.mark.parametrize(("gb_s", "sound"), [(900, True), (5300, True), (40_000, False)])
def test_no_link_carries_more(gb_s, sound):
    big = {"compute_units": 300, "max_clock_mhz": 2000}
    value = judged_rate(Metric("link", "GB/s", "nbytes", "rate", "higher"), gb_s * 10**6, 10**6, "link", "host", **big)
    assert (value.status, value.gate) == (("ok", "") if sound else ("suspect", "impossible"))
