"""Comparing runs: verdicts on planted changes, what is no comparison, baselines, and the forms a comparison takes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from clmembench.analysis import compare, matching
from clmembench.analysis.baseline_check import advice, judge
from clmembench.analysis.matching import objections, pooled
from clmembench.gates.whole import judged_run
from clmembench.report import comparison, render
from tests.builders import BANDWIDTH, CHASE, COST, STREAM, device, header, record, run, series, slope
from tests.cases import each

CARDS = {"stream": STREAM, "pchase": CHASE}


def points(factor=1.0, processes=6, spread=0.01, **changed):
    """Three bandwidths and a latency in several processes; everything `factor` times as fast."""
    found = []
    for process in range(processes):
        luck = 1 + spread * (process - (processes - 1) / 2)
        for index, op in enumerate(("copy", "triad", "read")):
            times = series([round(10**7 * luck / factor)] * 8, nbytes=10**8)
            found.append(record("stream", {"op": op}, times, process=process, index=index, sources="aa-11"))
        ns = [10.0 * luck / factor, 10.01 * luck / factor] * 8
        found.append(slope({"array_bytes": 4096}, ns, process=process, index=9, sources="bb-22"))
    return run(found, header(cards=CARDS), **changed)


def verdicts(a, b, margin=0.05):
    return {change.verdict for change in compare.compare(a, b, margin).changes}


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.005, "same"), (1.5, "faster"), (1 / 1.5, "slower")])
def test_what_changed_is_told_of_rates_and_times_alike(factor, verdict):
    assert verdicts(points(), points(factor)) == {verdict}


def test_what_processes_differ_by_is_no_change():
    wild = [points(factor, spread=0.15) for factor in (1.0, 1.15)]
    assert verdicts(*wild) == {"undecided"}
    # and where only one process speaks for a run, what such devices are known for is believed
    assert verdicts(points(processes=1), points(2.0, processes=1)) == {"faster"}
    shared = header(device(kind="cpu"), CARDS, host={"virtual": True})
    one = [replace(points(factor, processes=1), header=shared) for factor in (1.0, 1.1)]
    assert verdicts(*one) == {"undecided"}


def test_a_change_within_the_margin_is_the_same_and_the_margin_is_the_users():
    a, b = points(spread=0.0001), points(1.2, spread=0.0001)
    assert verdicts(a, b, 0.05) == {"faster"} and verdicts(a, b, 0.5) == {"same"}


def test_ratio_is_second_over_first_and_gain_is_more_where_it_is_better():
    found = {c.benchmark: c for c in compare.compare(points(), points(1.5)).changes}
    assert found["stream"].ratio.value == pytest.approx(1.5, rel=1e-6) == found["stream"].gain.value
    assert found["pchase"].ratio.value == pytest.approx(1 / 1.5, rel=1e-3)
    assert found["pchase"].gain.value == pytest.approx(1.5, rel=1e-3)
    low, high = found["pchase"].gain.low, found["pchase"].gain.high
    assert low < found["pchase"].gain.value < high and found["pchase"].ratio.low == pytest.approx(1 / high)


def test_the_mean_of_a_suite_is_geometric_and_no_narrower_for_more_points():
    a = points()
    pairs = zip(a.records, points(2.0).records, strict=True)
    b = replace(a, records=tuple(old if old.params.get("op") == "copy" else new for old, new in pairs))
    found = compare.compare(a, b)
    assert found.means["memory, bandwidth"].value == pytest.approx(2 ** (2 / 3), rel=1e-6)
    widths = [math.log(c.gain.high / c.gain.low) for c in found.changes if c.suite == "memory"]
    assert math.log(found.means["memory, bandwidth"].high / found.means["memory, bandwidth"].low) == pytest.approx(
        sum(widths) / len(widths)
    )


def test_a_point_without_a_value_is_undecided_and_one_that_broke_is_told():
    a, b = points(), points()
    failed = tuple(
        replace(r, status="failed", reason="it crashed", series=()) if r.params.get("op") == "copy" else r for r in b.records
    )
    found = {c.params.get("op"): c for c in compare.compare(a, replace(b, records=failed)).changes}
    assert found["copy"].broken and found["copy"].verdict == "undecided" and "it crashed" in found["copy"].reason
    assert not found["read"].broken
    back = {c.params.get("op"): c for c in compare.compare(replace(b, records=failed), a).changes}
    assert not back["copy"].broken


def test_other_work_under_one_name_is_not_compared():
    a = points()
    b = replace(
        a, records=tuple(replace(r, series=tuple(replace(s, nbytes=s.nbytes // 2) for s in r.series)) for r in a.records)
    )
    found = compare.compare(a, b).changes
    assert {c.verdict for c in found if c.benchmark == "stream"} == {"undecided"}
    assert all("not the same work" in c.reason for c in found if c.benchmark == "stream")


def test_what_others_took_from_a_cpu_is_no_change_of_it():
    own = header(device(kind="cpu"), CARDS, host={"virtual": False})
    a, b = (replace(points(f), header=own) for f in (1.0, 2.0))
    crowded = replace(a, records=tuple(replace(r, cpu_others=0.5) for r in a.records))
    assert verdicts(a, b) == {"faster"} and verdicts(crowded, b) == {"undecided"}
    assert "other programs used the CPU" in compare.compare(crowded, b).changes[0].reason
    # but they explain no speed: what is slower although others slowed the first run down is slower
    assert verdicts(crowded, replace(points(0.5), header=own)) == {"slower"}


def test_a_part_of_a_cpu_is_not_the_cpu_become_slower():
    def of(units, **host):
        whole = {"cpu": "Test CPU", "logical_cpus": 2, "virtual": False, **host}
        return replace(points(units / 2), header=header(device(kind="cpu", compute_units=units), CARDS, host=whole))

    found = compare.compare(of(2), of(1))
    assert not found.changes and set(found.left_out) == {"stream", "pchase"}
    assert "2 compute units of this CPU in the first and 1 in the second" in found.left_out["stream"]
    assert judge(found, 0.05).outcome == "CANNOT DECIDE"
    assert {change.verdict for change in compare.compare(of(2), of(1), force=True).changes} == {"slower"}
    # two CPUs of one model may have as many cores as they like
    assert {change.verdict for change in compare.compare(of(2), of(1, logical_cpus=1)).changes} == {"slower"}


def test_values_that_lacked_cpus_are_left_out():
    head = header(device(kind="cpu", compute_units=2), CARDS, host={"virtual": False, "logical_cpus": 2, "usable_cpus": 1})
    quiet, limited = (
        replace(points(f), header=h) for f, h in ((1.0, replace(head, host={**head.host, "usable_cpus": 2})), (0.5, head))
    )
    busy = tuple(
        replace(r, series=tuple(replace(s, busy=2 if r.benchmark == "stream" else 1) for s in r.series))
        for r in limited.records
    )
    first, second = (judged_run(one, None) for one in (quiet, replace(limited, records=busy)))
    found = {c.benchmark: c for c in compare.compare(first, second).changes}
    assert found["stream"].verdict == "undecided" and "may use 1 of the 2 CPUs" in found["stream"].reason


def test_the_order_of_two_runs_only_turns_the_ratio():
    a, b = points(), points(1.3)
    there, back = compare.compare(a, b).changes, compare.compare(b, a).changes
    for x, y in zip(there, back, strict=True):
        assert x.ratio.low == pytest.approx(1 / y.ratio.high) and x.ratio.high == pytest.approx(1 / y.ratio.low)


def test_runs_of_a_virtual_machine_may_differ_by_more():
    virtual = header(device(kind="cpu"), CARDS, host={"virtual": True})
    own = header(device(kind="cpu"), CARDS, host={"virtual": False})
    pairs = [[replace(points(f, 1), header=head) for f in (1.0, 1.3)] for head in (virtual, header(cards=CARDS))]
    assert [verdicts(*pair) for pair in pairs] == [{"undecided"}, {"faster"}]
    # its processes do not show what its neighbours change between runs; where there are none, they show what there is
    quiet = [[replace(points(f), header=head) for f in (1.0, 2.5)] for head in (virtual, own)]
    shared, alone = (compare.compare(*pair).changes for pair in quiet)
    assert all(a.smallest > b.smallest for a, b in zip(shared, alone, strict=True))
    assert {c.verdict for c in shared if c.benchmark == "stream"} == {"undecided"} and {c.verdict for c in alone} == {"faster"}


def test_points_of_one_run_alone_are_listed():
    a, b = points(), points()
    found = compare.compare(a, replace(b, records=tuple(r for r in b.records if r.params.get("op") != "copy")))
    assert found.only_first == ("stream op=copy",) and found.only_second == ()
    assert len(found.changes) == 3


def test_a_tuned_shape_is_no_part_of_a_point_unless_it_alone_tells_them_apart():
    card = replace(STREAM, tuning=("width",))

    def at(*widths):
        made = [record("stream", {"op": "copy", "width": w}, series([10**7] * 8, nbytes=10**8)) for w in widths]
        return run(made, header(cards={"stream": card}))

    assert len(compare.compare(at(1), at(4)).changes) == 1
    assert len(compare.compare(at(1, 4), at(1, 4)).changes) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda r: replace(r, header=header(cards={**CARDS, "stream": replace(STREAM, version=2)})),
            "of version 1 in the first and 2",
        ),
        (lambda r: replace(r, records=tuple(replace(x, sources="cc-11") for x in r.records)), "kernels of stream"),
        (
            lambda r: replace(r, records=tuple(replace(x, params={**x.params, "op": "dot"}) for x in r.records)),
            "no parameters in common",
        ),
        (lambda r: replace(r, header=header(cards={"other": STREAM})), "no benchmark in common"),
    ],
)
def test_runs_that_are_not_comparable_are_refused(change, says):
    found = objections(points(), change(points()))
    assert any(says in objection for objection in found), found


def test_runs_that_are_comparable_are_not_refused():
    # another shape and its options, and a file from before sources and options had hashes of their own
    other = replace(points(), records=tuple(replace(r, sources=r.sources[:3] + "99") for r in points().records))
    old = replace(points(), records=tuple(replace(r, sources="0123") for r in points().records))
    for b in (points(2.0), other, old):
        assert objections(points(), b) == []


def test_a_baseline_has_the_processes_of_all_its_runs():
    a, b = points(processes=3), points(1.2, processes=3)
    made = pooled([a, b], ("baseline", "create"))
    assert {r.process for r in made.records} == set(range(6)) and len(made.records) == len(a.records) + len(b.records)
    assert made.header.argv == ("baseline", "create")
    # what runs differ by is then in its intervals
    assert verdicts(made, points(1.1, processes=6)) == {"undecided"}
    with pytest.raises(ValueError, match="Another GPU"):
        pooled([a, replace(b, header=header(device("Another GPU")))], ())


def test_a_run_is_the_same_as_itself_however_noisy():
    noisy = replace(points(spread=0.3), header=header(device(kind="cpu"), CARDS, host={"virtual": True}))
    found = compare.compare(noisy, noisy)
    assert {c.verdict for c in found.changes} == {"same"} and found.means["memory, bandwidth"].low == 1.0


def test_what_neither_run_can_measure_is_no_value():
    skipped = record("stream", {"op": "dot"}, status="skipped", reason="no fp64")
    a, b = (replace(points(f), records=(*points(f).records, skipped)) for f in (1.0, 1.5))
    assert len(compare.compare(a, b).changes) == len(compare.compare(points(), points(1.5)).changes)


def test_a_benchmark_whose_version_changed_is_left_out_and_the_rest_is_compared():
    newer = header(cards={**CARDS, "stream": replace(STREAM, version=2)})
    found = compare.compare(points(), replace(points(0.5), header=newer))
    assert {c.benchmark for c in found.changes} == {"pchase"} and found.count("slower") == 1
    assert list(found.left_out) == ["stream"] and "version 1 in the first and 2" in found.left_out["stream"]
    assert "left out: stream is of version 1" in comparison.comparison_text(["a", "b"], [found], everything=False)
    forced = compare.compare(points(), replace(points(0.5), header=newer), force=True)
    assert {c.benchmark for c in forced.changes} == {"pchase", "stream"} and not forced.left_out


def test_each_benchmark_has_one_weight_in_a_mean_however_many_points():
    chase = replace(CHASE, suite="memory")
    sync = replace(STREAM, suite="memory")

    def of(stream_factor, other_factor):
        made = [
            record("stream", {"op": "copy"}, series([round(10**7 / stream_factor)] * 8, nbytes=10**8), process=p)
            for p in range(6)
        ]
        for size in range(100):
            time = series([round(10**7 / other_factor)] * 8, nbytes=10**8)
            made += [record("other", {"size": size}, time, process=p, index=size + 1) for p in range(6)]
        return run(made, header(cards={"stream": sync, "other": sync, "pchase": chase}))

    found = compare.compare(of(1.0, 1.0), of(4.0, 1.0))
    assert found.means["memory, bandwidth"].value == pytest.approx(2.0, rel=1e-3)


def test_latency_and_bandwidth_have_means_of_their_own():
    cards = {"stream": STREAM, "pchase": replace(CHASE, suite="memory")}
    a, b = (replace(points(f), header=header(cards=cards)) for f in (1.0, 2.0))
    assert set(compare.compare(a, b).means) == {"memory, bandwidth", "memory, time"}


def tuned(*widths, factor=1.0, processes=1):
    """Runs that found other widths best, each measured in processes of its own."""
    card = replace(STREAM, tuning=("width",))
    found = []
    for width in widths:
        times = series([round(10**7 / factor)] * 8, nbytes=10**8)
        made = [record("stream", {"op": "copy", "width": width}, times, process=p) for p in range(processes)]
        found.append(run(made, header(cards={"stream": card})))
    return found


def test_a_baseline_of_runs_with_other_tuned_configurations_is_one_point():
    made = pooled(tuned(1, 2, 4), ("baseline", "create"))
    found = compare.compare(made, tuned(8, factor=0.5)[0])
    (change,) = found.changes
    assert change.verdict == "slower" and found.only_first == () and found.only_second == ()
    values = matching.by_point(matching.own_values(made))
    assert [len(v.medians) for v in values.values()] == [3]


# ---- check --------------------------------------------------------------------------------------------------------------


def judged(a, b, margin=0.05):
    return judge(compare.compare(a, b, margin), margin)


def on_a_shared_cpu(of):
    return replace(of, header=header(device(kind="cpu"), CARDS, host={"virtual": True}))


@each("processes", [1, 3, 6])
@each("host", [lambda r: r, on_a_shared_cpu])
@each("spread", [0.001, 0.1, 0.3])
def test_a_run_ten_times_slower_never_passes(processes, host, spread):
    found = judged(host(points(1.0, processes, spread)), host(points(0.1, processes, spread)))
    assert found.outcome in ("FAIL", "CANNOT DECIDE"), found
    one = tuple(
        r if r.params.get("op") == "copy" else old
        for r, old in zip(points(0.1, processes, spread).records, points(1.0, processes, spread).records, strict=True)
    )
    found = judged(host(points(1.0, processes, spread)), host(replace(points(1.0, processes, spread), records=one)))
    assert found.outcome in ("FAIL", "CANNOT DECIDE"), found


def test_the_outcome_follows_what_was_decided():
    assert judged(points(), points(1.001)).outcome == "PASS"
    assert judged(points(), points(1.5)).outcome == "PASS"
    assert judged(points(), points(0.8)).outcome == "FAIL"
    noisy = [on_a_shared_cpu(points(f, spread=0.2)) for f in (1.0, 1.05)]
    found = judged(*noisy)
    assert found.outcome == "CANNOT DECIDE" and "none of 4 values" in found.reason and found.smallest > 1.3
    assert "compare --live" in advice(found)
    nothing = judged(points(), replace(points(), records=()))
    assert nothing.outcome == "CANNOT DECIDE" and nothing.smallest is None


def test_a_point_that_broke_fails_a_check():
    b = points()
    failed = tuple(
        replace(r, status="failed", reason="it crashed", series=()) if r.params.get("op") == "copy" else r for r in b.records
    )
    found = judged(points(), replace(b, records=failed))
    assert found.outcome == "FAIL" and "1 failed (stream op=copy)" in found.reason


def test_a_suspect_value_that_looks_far_slower_is_no_ground_to_pass():
    b = points(0.999)
    slow = [r for r in points(0.1).records if r.params.get("op") == "copy"]
    marked = [replace(r, status="suspect", gate="drift", reason="the clock moved") for r in slow]
    rest = [r for r in b.records if r.params.get("op") != "copy"]
    found = judged(points(), replace(b, records=(*marked, *rest)))
    assert found.outcome == "CANNOT DECIDE" and "stream op=copy" in found.reason


def without(of, keep):
    return replace(of, records=tuple(r for r in of.records if keep(r)))


def with_changed_kernels(of, benchmark):
    return replace(of, records=tuple(replace(r, sources="cc-33") if r.benchmark == benchmark else r for r in of.records))


def marked(of, op, **changes):
    return replace(of, records=tuple(replace(r, **changes) if r.params.get("op") == op else r for r in of.records))


LOST = {
    "kernels changed": (lambda b: with_changed_kernels(b, "stream"), 3, "the kernels of stream are not the same"),
    "version changed": (
        lambda b: replace(b, header=header(cards={**CARDS, "stream": replace(STREAM, version=2)})),
        3,
        "stream is of version 1 in the first and 2 in the second",
    ),
    "point missing": (lambda b: without(b, lambda r: r.params.get("op") != "copy"), 1, "missing"),
    "benchmark missing": (
        lambda b: replace(without(b, lambda r: r.benchmark != "stream"), header=header(cards={"pchase": CHASE})), 3, "missing",
    ),
    "point skipped": (lambda b: marked(b, "copy", status="skipped", reason="the budget was spent", series=()), 1, "skipped"),
    "point suspect": (lambda b: marked(b, "copy", status="suspect", gate="drift", reason="the clock moved"), 1, "suspect"),
}  # fmt: skip


@each(("change", "values", "says"), LOST.values())
def test_a_check_that_left_values_of_the_baseline_out_passes_only_on_request_and_counts_them(change, values, says):
    found = compare.compare(points(), change(points(1.001)))
    default, allowed = judge(found, 0.05), judge(found, 0.05, allow_left_out=True)
    assert (default.outcome, default.left_out) == ("CANNOT DECIDE", values) and says in default.reason
    assert f"{values} of 4 values of the baseline were not compared" in default.reason
    assert (allowed.outcome, allowed.left_out) == ("PASS", values) and says in allowed.reason
    assert f"{4 - values} of 4 values are the same or faster" in allowed.reason
    assert "--allow-left-out" in advice(default)
    cases = list(ElementTree.fromstring(comparison.junit_text(found, default)).iter("testcase"))
    values_of = [case for case in cases if case.get("classname") != "clmembench.check"]
    assert len(values_of) == 4 and sum(case.find("skipped") is not None for case in values_of) == values
    (outcome,) = [case for case in cases if case.get("classname") == "clmembench.check"]
    assert default.reason in outcome.find("error").get("message")
    (outcome,) = [
        case
        for case in ElementTree.fromstring(comparison.junit_text(found, allowed)).iter("testcase")
        if case.get("classname") == "clmembench.check"
    ]
    assert outcome.find("error") is None and outcome.find("failure") is None


def test_a_slower_value_fails_a_check_whatever_was_left_out():
    found = judged(points(), with_changed_kernels(points(0.5), "stream"))
    assert found.outcome == "FAIL" and "3 of 4 values of the baseline were not compared" in found.reason


def test_a_changed_kernel_that_computes_a_wrong_result_fails_a_check_though_it_is_left_out():
    wrong = marked(with_changed_kernels(points(1.001), "stream"), "copy", status="wrong", reason="a[0] is 0", series=())
    found = judge(compare.compare(points(), wrong), 0.05, allow_left_out=True)
    assert found.outcome == "FAIL" and "1 failed (stream op=copy)" in found.reason


def test_what_the_baseline_itself_could_not_measure_is_not_left_out_and_what_it_measured_badly_is():
    skipped = marked(points(), "copy", status="skipped", reason="no fp64", series=())
    assert judged(skipped, points(1.001)).outcome == "PASS" and judged(skipped, skipped).left_out == 0
    suspect = marked(points(), "copy", status="suspect", gate="cores", reason="busy")
    found = judged(suspect, points(1.001))
    assert (found.outcome, found.left_out) == ("CANNOT DECIDE", 1) and "suspect in the first" in found.reason


def test_only_the_wanted_part_of_what_was_left_out_counts():
    found = compare.compare(points(), with_changed_kernels(points(1.001), "stream"))
    part = compare.restricted(found, {"pchase"}, lambda params: True)
    assert judge(part, 0.05).outcome == "PASS" and judge(part, 0.05).left_out == 0
    part = compare.restricted(found, {"stream"}, lambda params: params.get("op") == "copy")
    assert judge(part, 0.05).left_out == 1


def test_what_a_check_could_have_seen_falls_with_noise():
    sees = [judged(points(spread=s), points(1.001, spread=s)).smallest for s in (0.001, 0.05, 0.2)]
    assert sees == sorted(sees) and sees[0] < 1.1 < sees[-1]


# ---- forms --------------------------------------------------------------------------------------------------------------


def test_text_has_counts_means_and_what_changed_first():
    found = compare.compare(points(), points(1 / 1.5))
    text = comparison.comparison_text(["a.jsonl", "b.jsonl"], [found], everything=False)
    assert "b.jsonl against a.jsonl" in text and "4 slower, 0 faster, 0 undecided, 0 same of 4 values" in text
    assert "geometric means of the gains: memory, bandwidth 0.667" in text
    assert "stream op=copy: bandwidth" in text and "10.00 GB/s" in text
    same = compare.compare(points(), points())
    assert "op=copy" not in comparison.comparison_text(["a", "b"], [same], everything=False)
    assert "op=copy" in comparison.comparison_text(["a", "b"], [same], everything=True)


FIRST = device("One", uuid="1" * 32, driver="1.0")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (FIRST, "  both on One, Test Platform 1.0\n"),
        (device("Two", uuid="2" * 32, driver="1.0"), "the devices differ"),
        (replace(FIRST, uuid="2" * 32), "two devices of one model"),
        (replace(FIRST, uuid="2" * 32), f"first on One, Test Platform 1.0 (uuid {'1' * 32})\n"),
        (replace(FIRST, uuid="2" * 32), f"second on One, Test Platform 1.0 (uuid {'2' * 32})\n"),
        (replace(FIRST, platform="Unlike"), "the platforms differ"),
        (replace(FIRST, driver="2.0"), "the drivers differ"),
    ],
    ids=["same", "model", "card", "first uuid", "second uuid", "platform", "driver"],
)
def test_a_comparison_names_both_devices_and_says_when_they_differ(second, said):
    text = comparison.comparison_text(["a", "b"], [compare.compare(points(), points())], False, devices=(FIRST, second))
    assert said in text and text.count("  note: ") == (second != FIRST)
    for one in (FIRST, second):
        assert f"{one.name}, {one.platform} {one.driver}" in text


def test_json_says_all():
    runs = points(path="a"), points(1.5, path="b")
    (found,) = comparison.comparison_objects(runs, [compare.compare(*runs)])
    found = json.loads(render.json_text(found))
    assert (found["first"], found["second"]) == ("a", "b") and found["same_device"] and len(found["changes"]) == 4
    assert {"verdict", "ratio", "gain", "params"} <= found["changes"][0].keys()
    assert found["geometric_means"]["memory, bandwidth"]["value"] > 1.4


def test_junit_has_a_case_for_each_value_and_is_xml_whatever_the_names(tmp_path):
    evil = '<script>"]]>\x00\x1b[31m\u202e'
    slower = compare.compare(points(), points(1 / 1.5))
    odd = replace(slower, changes=tuple(replace(c, params={evil: evil}, reason=evil) for c in slower.changes))
    root = ElementTree.fromstring(comparison.junit_text(odd, judge(odd, 0.05)))
    cases = root.findall(".//testcase")
    assert len(cases) == 5 and all(case.find("failure") is not None for case in cases)
    assert sum(int(suite.get("failures")) for suite in root) == 5
    undecided = compare.compare(points(spread=0.15), points(1.1, spread=0.15))
    cases = list(ElementTree.fromstring(comparison.junit_text(undecided, judge(undecided, 0.05))).iter("testcase"))
    assert len(cases) == 5 and all(case.find("skipped") is not None for case in cases[:4])


def test_hostile_names_cannot_steer_a_terminal():
    evil = "\x1b[2Jevil\u202e"
    found = compare.compare(points(), points(1 / 1.5))
    odd = replace(
        found,
        changes=tuple(replace(c, benchmark=evil, params={evil: evil}, metric=evil, unit=evil) for c in found.changes),
        only_first=(evil,),
    )
    text = comparison.comparison_text([evil, evil], [odd], everything=True)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_metric_that_is_a_cost_gains_by_falling():
    card = replace(STREAM, metrics=(COST, BANDWIDTH))

    def of(ns):
        made = [record("stream", {"op": "copy"}, series([ns] * 8, ops=1, nbytes=10**8), process=p) for p in range(6)]
        return run(made, header(cards={"stream": card}))

    found = compare.compare(of(10**7), of(5 * 10**6))
    assert {c.metric: (c.verdict, c.headline) for c in found.changes} == {
        COST.name: ("faster", True),
        BANDWIDTH.name: ("faster", False),
    }
    assert found.means["memory, time"].value == pytest.approx(2.0)


def test_other_libraries_in_a_run_are_no_points_of_it():
    def beside(factor):
        plain = points()
        theirs = [
            record("library", r.params, *r.series, process=r.process) for r in points(factor).records if r.benchmark == "stream"
        ]
        cards = {**CARDS, "library": replace(STREAM, peer_of="stream")}
        return run([*plain.records, *theirs], header(cards=cards))

    found = compare.compare(beside(1.0), beside(2.0))
    assert {c.benchmark for c in found.changes} == {"stream", "pchase"}
    assert found.means["memory, bandwidth"].value == pytest.approx(1.0)
    assert objections(beside(1.0), points()) == [] and compare.compare(beside(1.0), points()).only_first == ()
