import math
from dataclasses import replace

import pytest

from clmembench.analysis.derive import derive, derive_point, left_out, values_of
from clmembench.gates.point import judged
from clmembench.model import BenchmarkInfo, Cause, Metric, Placement, Run
from tests.builders import BANDWIDTH, CHASE, COST, LATENCY, STREAM, clock, device, header, record, run, series, slope


def test_a_rate_is_amount_over_time():
    # 3000 B in 100 ns, 150 ns and 200 ns: 30, 20 and 15 B/ns, which is GB/s
    assert values_of(record("stream", {}, series([100, 150, 200], nbytes=3000)), BANDWIDTH) == [30.0, 20.0, 15.0]


def test_a_rate_counts_every_pass_of_a_sample():
    # 4 passes of 3000 B in 100 ns: 12000 / 100 = 120 GB/s
    assert values_of(record("stream", {}, series([100], nbytes=3000, passes=4)), BANDWIDTH) == [120.0]


def test_a_cost_is_time_over_amount_in_its_unit():
    # 6000 ns for 2 ops in each of 3 passes: 6000 / (2 * 3) = 1000 ns = 1 us
    assert values_of(record("launch", {}, series([6000], ops=2, passes=3)), COST) == [1.0]


def test_a_slope_is_the_extra_time_of_the_extra_amount():
    # (7000 - 3000) ns / (300 - 100) ops = 20 ns; (8000 - 3000) / 200 = 25 ns
    works = series([3000, 3000], ops=100), series([7000, 8000], ops=300)
    assert values_of(record("pchase", {}, *works), LATENCY) == [20.0, 25.0]
    assert values_of(record("pchase", {}, *reversed(works)), LATENCY) == [20.0, 25.0]


def test_a_slope_divides_each_end_by_its_own_passes():
    # near 6000 / 2 = 3000 ns, far 28000 / 4 = 7000 ns: (7000 - 3000) / 200 = 20 ns
    works = series([6000], ops=100, passes=2), series([28000], ops=300, passes=4)
    assert values_of(record("pchase", {}, *works), LATENCY) == [20.0]


@pytest.mark.parametrize("chosen", ["host", "device", "queue"])
def test_times_are_those_of_the_series_own_clock(chosen):
    # 100 B in 10, 20 and 50 ns: 10, 5 and 2 GB/s
    work = series([1], nbytes=100, clock=chosen, host_ns=(10,), device_ns=(20,), queue_ns=(50,))
    assert values_of(record("x", {}, work), BANDWIDTH) == [{"host": 10.0, "device": 5.0, "queue": 2.0}[chosen]]


@pytest.mark.parametrize(("part", "ns"), [("submit", [5.0, 40.0]), ("wait", [45.0, 10.0]), ("run", [20.0, 30.0])])
def test_a_cost_may_be_of_a_part_of_the_way_by_the_stamps(part, ns):
    work = series([1, 1], ops=1, clock="queue", device_ns=(20, 30), queue_ns=(50, 50), submit_ns=(5, 40))
    assert values_of(record("x", {}, work), Metric("m", "ns", "ops", "cost", "lower", part=part)) == ns
    unsaid = replace(work, submit_ns=None)
    assert values_of(record("x", {}, unsaid), Metric("m", "ns", "ops", "cost", "lower", part=part)) == (
        ns if part == "run" else []
    )


@pytest.mark.parametrize(("both", "hidden"), [(160, 100.0), (260, 0.0), (210, 50.0), (300, -40.0)])
def test_what_hides_is_the_time_saved_over_the_shorter_of_the_two(both, hidden):
    # 100 and 160 ns alone; two passes of the latter
    works = series([100], nbytes=9), series([320], nbytes=9, passes=2), series([both], nbytes=9)
    metric = Metric("hidden", "%", "nbytes", "overlap", "higher", scale=100)
    assert values_of(record("x", {}, *works), metric) == [hidden]
    assert values_of(record("x", {}, *works[:2]), metric) == []
    assert values_of(record("x", {}, replace(works[0], device_ns=(0,)), *works[1:]), metric) == []


def test_what_a_work_does_not_speak_of_has_no_value():
    one = series([100], nbytes=3000)
    assert values_of(record("x", {}, one), COST) == []  # no ops
    assert values_of(record("x", {}, one), LATENCY) == []  # one end of a slope
    assert values_of(record("x", {}), BANDWIDTH) == []
    assert values_of(record("x", {}, one, one), BANDWIDTH) == []
    assert values_of(record("x", {}, series([1], ops=5), series([2], ops=5)), LATENCY) == []  # no extra amount
    assert values_of(record("x", {}, replace(one, device_ns=None)), BANDWIDTH) == []


def test_a_time_of_zero_gives_no_infinite_rate():
    assert values_of(record("x", {}, series([0, 100], nbytes=100)), BANDWIDTH) == [1.0]


def test_a_derived_value_has_its_statistics_and_identity():
    # 12000 B in 100..700 ns: 120, 60, 40, 30, 24, 20, 12000/700 GB/s; the median is 30, the interval of 7 is their range
    times = [100, 200, 300, 400, 500, 600, 700]
    (found,) = derive(run([record("stream", {"op": "copy"}, series(times, nbytes=12_000))]))
    assert (found.benchmark, found.params, found.metric, found.unit) == ("stream", {"op": "copy"}, "bandwidth", "GB/s")
    assert (found.status, found.median, found.ci_high, found.n, found.processes) == ("ok", 30.0, 120.0, 7, 1)
    assert found.ci_low == found.least == pytest.approx(12000 / 700)
    assert (found.peak, found.better, found.checked, found.stopped) == ("memory_bandwidth_gb_s", "higher", True, "noise")
    assert found.cycles is None


def test_too_few_samples_have_a_median_and_no_interval():
    (found,) = derive(run([record("stream", {}, series([100] * 5, nbytes=100), status="suspect", reason="5 samples")]))
    assert (found.status, found.reason, found.median, found.ci_low, found.ci_high) == ("suspect", "5 samples", 1.0, None, None)


def chase_run(*records):
    return run(records, header(cards={"pchase": CHASE}))


def test_a_slope_within_the_noise_is_undetermined():
    noise = [-0.5, 0.4, -0.3, 0.3, 0.1, -0.1, 0.2, -0.2]
    (found,) = derive(chase_run(slope({"array_bytes": 4096}, noise)))
    assert found.status == "undetermined"
    assert " 0" in found.reason and "ns" in found.reason
    assert (found.median, found.ci_low, found.ci_high, found.cycles, found.n) == (None, None, None, None, 8)


def test_a_slope_below_zero_has_no_value():
    below = slope({"array_bytes": 4096}, [-2.0, -2.1] * 8)
    (found,) = derive(chase_run(below))
    assert (found.status, found.median) == ("undetermined", None)
    (found,) = derive(chase_run(replace(below, status="suspect", gate="grows", reason="more work took less time")))
    assert (found.status, found.median, found.reason) == ("suspect", None, "more work took less time")


def test_a_slope_without_an_interval_is_undetermined():
    few = slope({"array_bytes": 4096}, [10.0] * 5)
    (found,) = derive(chase_run(few))
    assert (found.status, found.median) == ("undetermined", None)
    (found,) = derive(chase_run(judged(few, [LATENCY])))
    assert (found.status, found.median) == ("suspect", None) and found.reason.startswith("only 5 samples")


def test_a_slope_clear_of_zero_is_a_value():
    # medians 15000 and 35000 ns, ranges +-200 and +-600 ns: 20000 +- hypot(200, 600) ns over 2000 ops is 10 +- 0.316 ns
    (found,) = derive(chase_run(slope({"array_bytes": 4096}, [9.9, 10.0, 10.1, 10.0, 10.0, 9.8, 10.2])))
    assert (found.status, found.median) == ("ok", pytest.approx(10.0))
    assert (found.ci_low, found.ci_high) == pytest.approx((10 - math.hypot(0.1, 0.3), 10 + math.hypot(0.1, 0.3)))


def test_tuning_trials_are_left_out():
    trial = record("stream", {"op": "copy", "wg": 64}, series([1] * 8, nbytes=1000), role="tune")
    winner = record("stream", {"op": "copy", "wg": 128}, series([100] * 8, nbytes=1000))
    card = replace(STREAM, tuning=("wg",))
    (found,) = derive(run([trial, winner], header(cards={"stream": card})))
    assert (found.median, found.params, found.tuning) == (10.0, {"op": "copy"}, {"wg": 128})


def test_a_benchmark_that_the_header_lacks_is_left_out():
    assert derive(run([record("nameless", {}, series([100] * 8, nbytes=1000))])) == []


def test_a_metric_speaks_only_of_its_parameter_values():
    read = Metric("read", "GB/s", "nbytes", "rate", "higher", only={"op": ("read", "dot")})
    write = Metric("write", "GB/s", "nbytes", "rate", "higher", only={"op": ("write",)})
    card = BenchmarkInfo(1, "memory", "", "", (read, write))
    work = series([100] * 8, nbytes=1000)
    records = [record("both", {"op": op}, work) for op in ("read", "write", "dot")]
    found = derive(run(records, header(cards={"both": card})))
    assert [(d.params["op"], d.metric) for d in found] == [("read", "read"), ("write", "write"), ("dot", "read")]


def test_a_point_that_no_metric_speaks_of_has_no_number():
    card = BenchmarkInfo(1, "memory", "", "", (replace(BANDWIDTH, only={"op": ("read",)}),))
    found = derive_point([record("both", {"op": "write"}, series([100] * 8, nbytes=1000))], card)
    assert all(d.median is None for d in found)


def test_a_skipped_point_that_no_metric_speaks_of_stays_skipped_with_its_reason():
    only = replace(BANDWIDTH, only={"op": ("triad",)})
    skipped = record("stream", {"op": "copy"}, status="skipped", reason="doubles alone")
    (point,) = derive_point([skipped], replace(STREAM, metrics=(only,)))
    assert (point.status, point.reason) == ("skipped", "doubles alone")


def test_a_point_has_every_metric_its_works_speak_of():
    card = BenchmarkInfo(1, "memory", "", "", (BANDWIDTH, COST))
    both, one = series([1000] * 8, nbytes=1000, ops=1), series([1000] * 8, ops=1)
    assert [d.metric for d in derive_point([record("x", {}, both)], card)] == ["bandwidth", "cost"]
    assert [d.metric for d in derive_point([record("x", {}, one)], card)] == ["cost"]


def test_processes_are_pooled_into_one_value():
    # 10, 20 and 40 GB/s: the median of the processes' medians is 20, and three processes span their range
    records = [record("stream", {"op": "copy"}, series([ns] * 8, nbytes=1000), process=i) for i, ns in enumerate((100, 50, 25))]
    (found,) = derive(run(records))
    assert (found.median, found.ci_low, found.ci_high, found.n, found.processes) == (20.0, 10.0, 40.0, 24, 3)


def test_the_order_of_parameters_does_not_part_processes():
    work = series([100] * 8, nbytes=1000)
    records = [record("stream", {"a": 1, "b": 2}, work), record("stream", {"b": 2, "a": 1}, work, process=1)]
    assert [d.processes for d in derive(run(records))] == [2]


def test_places_are_points_of_their_own():
    work = series([100] * 8, nbytes=1000)
    records = [record("stream", {}, work), record("stream", {}, work, place=Placement(compute_units=1))]
    assert [d.place.compute_units for d in derive(run(records))] == [None, 1]


def test_points_of_words_come_as_planned():
    work = series([100] * 8, nbytes=1000)
    records = [record("stream", {"op": op}, work, process=p) for p in (0, 1) for op in ("triad", "add", "copy")]
    assert [d.params["op"] for d in derive(run(records))] == ["triad", "add", "copy"]


@pytest.mark.parametrize("status", ["skipped", "failed", "wrong", "timeout"])
def test_a_point_without_a_result_has_its_reason_and_no_number(status):
    bad = record("stream", {"op": "copy"}, series([100] * 8, nbytes=1000), status=status, reason="because", checked=False)
    (found,) = derive(run([bad]))
    assert (found.status, found.reason) == (status, "because")
    numbers = (found.median, found.ci_low, found.ci_high, found.q1, found.q3, found.least, found.cycles, found.ghz)
    assert numbers == (None,) * 8 and found.n == 0


def test_a_failed_process_does_not_spoil_the_others():
    good = record("stream", {}, series([100] * 8, nbytes=1000), process=1)
    (found,) = derive(run([record("stream", {}, status="failed", reason="crash"), good]))
    assert (found.status, found.median, found.processes) == ("ok", 10.0, 1)


def test_a_record_without_samples_says_so():
    (found,) = derive(run([record("stream", {})]))
    assert (found.status, found.reason, found.median) == ("failed", "no samples were kept", None)


def test_cycles_go_by_each_processes_own_clock():
    # 10 ns at 2 GHz and 20 ns at 1 GHz are both 20 cycles; in ns the processes differ by two
    fast = slope({"array_bytes": 4096}, [10.0] * 8, core_clock=clock(2.0))
    slow = slope({"array_bytes": 4096}, [20.0] * 8, core_clock=clock(1.0), process=1)
    (found,) = derive(chase_run(fast, slow))
    assert (found.median, found.ci_low, found.ci_high) == (15.0, 10.0, 20.0)
    assert (found.cycles, found.cycles_low, found.cycles_high) == pytest.approx((20.0, 20.0, 20.0))
    assert found.clock_origin == "test"


def test_no_cycles_without_a_trusted_clock():
    for reading in (None, clock(2.0, cycles_per_op=None)):
        (found,) = derive(chase_run(slope({"array_bytes": 4096}, [10.0] * 8, core_clock=reading)))
        assert (found.median, found.cycles, found.ghz) == (10.0, None, None)


def test_the_cycles_interval_is_never_infinite():
    # one process of two has a clock, and too few samples for an interval of its own
    first = slope({"array_bytes": 4096}, [10.0] * 4, core_clock=clock(2.0), status="suspect")
    second = slope({"array_bytes": 4096}, [10.0] * 4, status="suspect", process=1)
    (found,) = derive(chase_run(first, second))
    assert (found.cycles_low, found.cycles_high) in [(None, None), (20.0, 20.0)]


def test_a_core_clock_is_the_mean_of_both_readings():
    # 1000 ops of 4 cycles in (1000 + 3000) / 2 ns: 4000 / 2000 = 2 GHz
    assert replace(clock(1.0), before_ns=1000.0, after_ns=3000.0).ghz == 2.0
    assert replace(clock(1.0), before_ns=0.0, after_ns=0.0).ghz is None


def test_cpu_over_wall_is_cores_used_while_kernels_ran():
    # medians: 400 ns of CPU in 200 ns of kernels, whatever the host waited besides: 2 cores; one sample was disturbed
    work = series([200, 200, 900], nbytes=100, host_ns=(500, 500, 500), cpu_ns=(400, 400, 450))
    (found,) = derive(run([record("stream", {}, work)]))
    assert found.cpu_over_wall == 2.0


def test_cpu_over_wall_of_a_slope_is_that_of_its_extra_amount():
    # 600 - 150 ns of CPU in 400 - 100 ns: 1.5 cores; order of the ends does not matter
    ends = series([100], ops=1, cpu_ns=(150,)), series([400], ops=3, cpu_ns=(600,))
    for works in (ends, ends[::-1]):
        (found,) = derive_point([record("pchase", {"array_bytes": 4096}, *works)], CHASE)
        assert found.cpu_over_wall == 1.5


def test_cpu_over_wall_of_several_processes_is_their_median():
    works = [series([1000], nbytes=100, cpu_ns=(cpu,)) for cpu in (500, 1000, 4000)]
    (found,) = derive(run([record("stream", {}, w, process=i) for i, w in enumerate(works)]))
    assert found.cpu_over_wall == 1.0


def test_one_wrong_process_makes_a_point_wrong():
    good = record("stream", {"op": "copy"}, series([1000] * 8, nbytes=1000))
    bad = replace(good, status="wrong", reason="3 is not 4", process=1, series=())
    (found,) = derive(run([good, bad, replace(good, process=2)]))
    assert (found.status, found.reason, found.median) == ("wrong", "3 is not 4", None)


def test_processes_that_gave_no_value_are_counted():
    good = record("stream", {"op": "copy"}, series([1000] * 8, nbytes=1000))
    (found,) = derive(run([good, replace(good, status="failed", reason="it crashed", process=1, series=())]))
    assert found.status == "ok"
    assert found.notes == ("1 of 2 processes gave no value",)


def test_an_interval_of_one_process_is_as_much_wider_as_its_clock_moved():
    still, shaky = clock(2.0), replace(clock(2.0), after_ns=1.1 * clock(2.0).after_ns)
    works = slope({"array_bytes": 4096}, [10.0, 10.2] * 8, core_clock=still)
    (steady,), (moved,) = derive(chase_run(works)), derive(chase_run(replace(works, core_clock=shaky)))
    assert moved.median == steady.median
    assert moved.ci_low == pytest.approx(0.95 * steady.ci_low) and moved.ci_high == pytest.approx(1.05 * steady.ci_high)
    # several processes show by themselves how far their clocks moved
    many = [replace(works, core_clock=shaky, process=process) for process in range(3)]
    (pooled,) = derive(chase_run(*many))
    assert pooled.ci_high < moved.ci_high


@pytest.mark.parametrize(("good", "status"), [(6, "ok"), (3, "ok"), (2, "suspect"), (1, "suspect")])
def test_one_survivor_does_not_speak_for_all(good, status):
    works = slope({"array_bytes": 4096}, [10.0, 10.2] * 8)
    bad = replace(works, status="suspect", gate="grows", reason="bent")
    (found,) = derive(chase_run(*(replace(works if p < good else bad, process=p) for p in range(6))))
    assert (found.status, found.gate) == (status, "" if status == "ok" else "grows")


def test_the_clock_of_several_processes_is_their_median():
    works = slope({"array_bytes": 4096}, [10.0, 10.2] * 8)
    (found,) = derive(chase_run(*(replace(works, process=p, core_clock=clock(ghz)) for p, ghz in enumerate((0.5, 2.0, 2.1)))))
    assert found.ghz == pytest.approx(2.0)


def test_points_come_in_the_order_of_their_axes_however_they_were_measured():
    # a plan begins with what matters most: the largest array of each benchmark, then the rest in turn
    def point(benchmark, op, n, index, **changes):
        return record(benchmark, {"op": op, "n": n}, series([100] * 8, nbytes=1000), index=index, **changes)

    part = Placement(compute_units=2)
    records = [
        point("late", "triad", 9, 0), point("early", "triad", 64, 1), point("early", "triad", 16, 3, place=part),
        point("late", "copy", 9, 2), point("early", "copy", 128, 4), point("early", "triad", 8, 5),
    ]  # fmt: skip
    found = derive(run(records, header(cards={"early": STREAM, "late": STREAM})))
    assert [(d.benchmark, d.params["op"], d.params["n"], d.place.compute_units) for d in found] == [
        ("early", "triad", 8, None), ("early", "triad", 64, None), ("early", "copy", 128, None), ("early", "triad", 16, 2),
        ("late", "triad", 9, None), ("late", "copy", 9, None),
    ]  # fmt: skip


RATE = Metric("throughput", "Gop/s", "ops", "slope_rate", "higher", times="items")
ATOMIC = BenchmarkInfo(1, "sync", "Atomics.", "Razzaq et al. 2016", (LATENCY, RATE), x="items")


def contest(near, far, items=4, **changes):
    return record("atomic", {"items": items}, series(near, ops=100), series(far, ops=300), **changes)


def test_a_rate_of_a_slope_counts_all_work_items():
    # (7000 - 3000) ns for 200 more operations of each of 4 work-items: 20 ns for one's, 800 / 4000 = 0.2 a ns for all
    assert values_of(contest([3000], [7000]), LATENCY) == [20.0]
    assert values_of(contest([3000], [7000]), RATE) == [0.2]
    assert values_of(contest([3000, 3000], [2000, 7000]), RATE) == [0.2]  # a difference below 0 is no rate
    assert values_of(contest([3000], [7000], items="many"), RATE) == []


def test_the_interval_of_a_slopes_rate_is_that_of_its_time_turned_over():
    found = contest([3000] * 8, [6600, 6800, 7000, 7000, 7000, 7000, 7200, 7400])
    time, rate = derive_point([found], ATOMIC)
    assert (time.median, rate.median) == (20.0, 0.2)
    assert time.ci_low < 20.0 < time.ci_high
    assert (rate.ci_low, rate.ci_high) == pytest.approx((4 / time.ci_high, 4 / time.ci_low))
    assert (rate.q1, rate.q3) == pytest.approx((4 / time.q3, 4 / time.q1))


def test_a_slope_that_may_be_0_has_no_rate():
    found = contest([3000, 3500] * 8, [3100, 3300] * 8)
    assert [d.status for d in derive_point([found], ATOMIC)] == ["undetermined"] * 2
    assert all(d.median is None and "not distinguishable from 0" in d.reason for d in derive_point([found], ATOMIC))


def test_a_place_is_among_the_parameters_and_keeps_points_apart():
    works = [series([100] * 8, nbytes=1000)]
    places = [Placement(), Placement(1, (0,), "compact"), Placement(2, (0, 1), "compact"), Placement(2, (0, 2), "scatter")]
    records = [record("stream", {"op": "copy"}, *works, place=place) for place in places]
    on_gpu = derive(run(records))
    assert dict(on_gpu[1].params) == {"op": "copy", "work_groups": 1, "placement": "compact"}
    found = derive(run(records, header(device(kind="cpu"))))
    assert [dict(d.params) for d in found] == [
        {"op": "copy"},
        {"op": "copy", "compute_units": 1, "placement": "compact"},
        {"op": "copy", "compute_units": 2, "placement": "compact"},
        {"op": "copy", "compute_units": 2, "placement": "scatter"},
    ]


def test_of_two_records_of_one_point_and_process_the_later_one_counts():
    # a run that went on after its budget had been spent
    skipped = record("stream", {"op": "copy"}, status="skipped", reason="the run's --budget was spent")
    (found,) = derive(run([skipped, record("stream", {"op": "copy"}, series([100] * 8, nbytes=1000))]))
    assert (found.status, found.median, found.notes) == ("ok", 10.0, ())


def test_quartiles_and_extremes_of_a_rate_of_a_slope_are_of_its_pairs_or_absent():
    found = contest([3000] * 8, [6600, 6800, 7000, 7000, 7000, 7000, 7200, 7400])
    _, rate = derive_point([found], ATOMIC)
    # the longest pair took 4400 ns for 800 operations
    assert rate.least == pytest.approx(800 / 4400) and rate.least <= rate.q1 <= rate.median <= rate.q3
    # a quarter of the pairs is below 0, and the medians' difference is not: no quartile below 0, none without bound
    near, far = [1000] * 18 + [9000] * 6, [2000] * 24
    time, rate = derive_point([contest(near, far)], ATOMIC)
    assert time.status == rate.status == "ok"
    assert time.q1 is None and time.least is None and rate.q3 is None and rate.least is not None


def test_the_evidence_of_a_value_are_its_measured_records():
    processes = [record("stream", {"op": "copy"}, series([1000] * 8, nbytes=1), index=3, process=p) for p in (0, 1)]
    (value,) = derive(Run("x", header(), (*processes, record("stream", {"op": "copy"}, index=4, role="tune"))))
    assert value.evidence == ("stream:3:0", "stream:3:1")


def test_a_resumed_search_replaces_what_was_measured_before_it_ended():
    """Of a failed configuration the record stays, and configurations that a user names are points of their own."""
    card = replace(STREAM, tuning=("width",))

    def steps(*of, **more):
        made = [
            record(
                "stream",
                {"n": 1, "width": width},
                *([series([100] * 6, nbytes=1000)] if status == "ok" else []),
                role=role,
                status=status,
            )
            for role, width, status in of
        ]
        found = derive(run(made, header(cards={"stream": card}, **more)))
        return [(value.tuning["width"], value.status) for value in found]

    first = (("tune", 1, "ok"), ("tune", 2, "skipped"))
    assert steps(*first, ("measure", 1, "ok"), ("tune", 2, "ok"), ("measure", 2, "ok")) == [(2, "ok")]
    assert steps(*first, ("measure", 1, "skipped"), ("tune", 2, "ok"), ("measure", 2, "ok")) == [(2, "ok")]
    assert steps(*first, ("measure", 1, "ok"), ("tune", 2, "ok"), ("measure", 1, "ok")) == [(1, "ok")]
    assert len(steps(("measure", 1, "failed"), ("tune", 2, "ok"), ("measure", 2, "ok"))) == 2
    assert len(steps(("measure", 1, "ok"), ("tune", 2, "ok"), ("measure", 2, "ok"), axes={"width": (1, 2)})) == 2


def test_a_resumed_run_makes_good_what_its_budget_left_out():
    """A trial by any later one of its search; a run that is not resumed lacks its trials although the point was measured."""
    head = header(cards={"stream": replace(STREAM, tuning=("width",))})

    def steps(*of):
        return [
            record("stream", {"n": 1, "width": width}, role=role, status="ok" if done else "skipped",
                   cause=Cause.NONE if done else Cause.BUDGET)
            for role, width, done in of
        ]  # fmt: skip

    first = steps(("tune", 1, True), ("tune", 2, False), ("measure", 1, True))
    assert [r.role for r in left_out(run(first, head))] == ["tune"]
    cut = steps(("tune", 1, False), ("measure", 1, False))
    assert [r.role for r in left_out(run(cut, head))] == ["tune", "measure"]
    assert not left_out(run([*cut, *steps(("tune", 2, True), ("measure", 2, True))], head))
