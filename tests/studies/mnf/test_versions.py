"""Verdicts on optimisations, ways to the whole and the host's hotspots: on records of known truth, as tables and data."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from dataclasses import replace

import pytest

from clmembench.analysis import stats
from clmembench.benchmarks import discovered
from clmembench.measure import runner
from clmembench.measure.worker_process import InProcessWorker
from clmembench.plan import sweep
from clmembench.report import render
from clmembench.results import jsonl
from clmembench.studies.mnf import mnf_data, mnf_whole, versions
from clmembench.studies.mnf import mnf_tables as report
from clmembench.studies.mnf import plan as casestudy
from tests.builders import device, header, record, run, series, write_run
from tests.cases import each
from tests.commands import brief_points, call

CARDS = {name: sweep.benchmark_card(discovered()[name]) for name in casestudy.BENCHMARKS}
MS = 1_000_000
SIZE = "614x1087x224"


def timed(benchmark, ms, processes=3, noise=0.002, speeds=(1.0,), **params):
    """Records of a point that takes that long, in each process by its own speed."""
    rng = random.Random(f"{benchmark} {params}")
    found = []
    for process in range(processes):
        mine = ms * MS * speeds[process % len(speeds)]
        times = [round(mine * rng.gauss(1, noise)) for _ in range(12)]
        work = series(times, ops=1)
        found.append(record(benchmark, {"size": SIZE, **params}, work, process=process, index=len(params)))
    return found


def filters(times, **changes):
    return [r for v, ms in times.items() for r in timed("mnf_filter", ms, variant=v, **changes)]


def study(records):
    return run(records, header(device(kind="gpu"), CARDS))


def by_variant(records):
    return {gain.variant: gain for gain in report.gains(study(records))}


def test_each_verdict_is_that_of_its_truth():
    found = by_variant(filters({"V0": 60, "V0n": 20, "V1": 20, "V2": 20, "V3": 40}))
    assert {v: gain.verdict for v, gain in found.items()} == {
        "V0": None,
        "V0n": "paid off",
        "V1": "no difference",
        "V2": "no difference",
        "V3": "cost",
    }
    gain = found["V0n"].over_previous
    assert gain.low < 3 < gain.high and gain.value == pytest.approx(3, rel=0.01)
    assert found["V3"].over_first.value == pytest.approx(1.5, rel=0.01)
    assert found["V0n"].change.guideline == "L3" and found["V3"].change.guideline == "S6"
    finding = found["V0n"].finding()
    assert (finding.status, finding.value) == ("ok", gain.value) and len(finding.evidence) == 6
    assert found["V0"].finding().status == "undetermined"


def test_what_noise_hides_is_undecided_and_says_so():
    found = by_variant(filters({"V0": 20, "V0n": 19.5}, noise=0.3))["V0n"]
    assert found.verdict == "undecided" and "more processes" in found.reason
    assert found.finding().status == "undetermined"


def test_what_slows_a_whole_process_hides_nothing():
    quiet = by_variant(filters({"V0": 60, "V0n": 20}))["V0n"].over_previous
    shaken = by_variant(filters({"V0": 60, "V0n": 20}, speeds=(1.0, 3.0, 1.7)))["V0n"].over_previous
    assert shaken.high / shaken.low < 1.2 * quiet.high / quiet.low
    # of other processes than three or more in pairs, it does
    alone = versions.speed_up_ratio(*(g.value for g in by_variant(filters({"V0": 60, "V0n": 20}, processes=2)).values()), 0.02)
    assert alone.low < 3 < alone.high


@each(
    ("ratio", "wanted"),
    [
        ((1.2, 1.1, 1.3), "paid off"),
        ((1.0, 0.97, 1.04), "no difference"),
        ((0.8, 0.7, 0.9), "cost"),
        ((0.95, 0.9, 1.04), "no gain"),
        ((1.05, 0.9, 1.2), "undecided"),
        ((1.02, 0.96, 1.06), "undecided"),
    ],
)
def test_a_verdict_is_what_the_whole_interval_says(ratio, wanted):
    assert versions.gain_verdict(stats.Ratio(*ratio), 0.05) == wanted


def test_a_ratio_of_pairs_covers_the_truth_as_often_as_it_says():
    rng, covered, narrow = random.Random(1), 0, []
    for _ in range(400):
        speeds = [rng.lognormvariate(0, 0.5) for _ in range(5)]
        a = [s * rng.lognormvariate(0, 0.03) for s in speeds]
        b = [2 * s * rng.lognormvariate(0, 0.03) for s in speeds]
        found = stats.paired_ratio(a, b, 0.03)
        covered += found.low < 2 < found.high
        narrow.append(found.high / found.low)
    assert covered >= 0.93 * 400 and max(narrow) < 1.5
    for bad in (([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0])):
        with pytest.raises(ValueError, match="pairs"):
            stats.paired_ratio(*bad, 0.1)


def test_ratios_are_of_the_processes_that_measured_both():
    # two equal versions on a host that drifts: one fails in the first process, the other in the last
    drift, found = (1.0, 1.2, 1.44, 1.73), []
    for variant, failed in (("V0", 0), ("V0n", 3)):
        for r in filters({variant: 60}, processes=4, speeds=drift):
            bad = replace(r, status="failed", series=(), reason="of a test")
            found.append(bad if r.process == failed else r)
    values = by_variant(found)
    assert values["V0"].value.measured_in == (1, 2, 3) and values["V0n"].value.measured_in == (0, 1, 2)
    assert len(versions.common_process_medians(values["V0"].value, values["V0n"].value)) == 2
    gain = values["V0n"]
    assert gain.verdict != "paid off" and gain.over_previous.low < 1 < gain.over_previous.high
    # with a fifth process both have three in common, and those agree
    more = [replace(r, process=4) for v in ("V0", "V0n") for r in filters({v: 60}, processes=1, speeds=(2.0,))]
    gain = by_variant(found + more)["V0n"]
    assert gain.over_previous.value == pytest.approx(1, rel=0.01) and gain.verdict == "no difference"


def test_processes_of_two_benchmarks_are_no_pairs():
    one, other = (replace(by_variant(filters({"V0": 60}))["V0"].value, benchmark=name) for name in ("mnf", "mnf_host"))
    assert versions.common_process_medians(one, other) == [] and len(versions.common_process_medians(one, one)) == 3


def test_versions_that_differ_in_nothing_are_seldom_told_apart_and_small_gains_are_seen():
    (plain,) = (g.value for g in by_variant(filters({"V0": 60})).values())
    rng, false, seen = random.Random(2), 0, 0

    def value(ms, speeds):
        return replace(plain, medians=tuple(ms * s * rng.lognormvariate(0, 0.01) for s in speeds))

    for _ in range(300):
        speeds = [rng.lognormvariate(0, 0.3) for _ in range(3)]  # of the processes: a busy host
        pairs = [(value(60, speeds), value(60, speeds)) for _ in range(8)]
        spread = versions.log_ratio_deviation(pairs, 0.08)
        assert spread < 0.06
        same = versions.speed_up_ratio(*pairs[0], 0.08, spread)
        false += not same.low < 1 < same.high
        gain = versions.speed_up_ratio(value(60, speeds), value(50, speeds), 0.08, spread)
        seen += versions.gain_verdict(gain, 0.05) == "paid off"
    assert false <= 0.07 * 300 and seen >= 0.9 * 300
    assert versions.log_ratio_deviation(pairs[:2], 0.08) == pytest.approx(0.08 * math.sqrt(2))


@pytest.mark.parametrize("status", ["wrong", "failed", "skipped", "suspect"])
def test_a_version_without_a_value_has_no_verdict_nor_has_the_next(status):
    records = [r for r in filters({"V0": 60, "V0n": 50, "V1": 20, "V2": 20, "V3": 10}) if r.params["variant"] != "V1"]
    samples = [series([MS] * 8, ops=1)] if status == "suspect" else []
    records.append(record("mnf_filter", {"size": SIZE, "variant": "V1"}, *samples, status=status, reason="of a test"))
    found = by_variant(records)
    assert [found[v].verdict for v in ("V1", "V2", "V3")] == [None, None, "paid off"]
    assert "V1 is " in found["V1"].reason and "of a test" in found["V2"].reason
    (section,) = report.filter_sections(study(records), ())
    assert [row[-1] for row in section.rows] == ["", "paid off", "no value", "no value", "paid off"]


def test_a_version_that_was_left_out_is_said_to_be():
    found = by_variant(filters({"V0": 60, "V2": 20}))
    assert found["V2"].verdict is None and found["V2"].reason == "V1 was not measured"


def whole():
    """Records of a whole study: kernels ten times as fast as NumPy, the last ones twenty times."""
    records = filters({"V0": 60, "V0n": 20, "V1": 20, "V2": 20, "V3": 10})
    for of in ("noise", "data"):
        for v, ms in (("V0", 50), ("V1", 40), ("V2", 40), ("V3", 12), ("V4", 6)):
            records += timed("mnf_covariance", ms, variant=v, of=of)
    for v, ms in (("V0", 8), ("V1", 6), ("V2", 4), ("V1p", 8), ("V2p", 5)):
        records += timed("mnf_transform", ms, variant=v)
    for variants, ms in ((casestudy.FIRST_VERSIONS, 200), (casestudy.LAST_VERSIONS, 100)):
        for memory, more in (("device", 0), ("host", 50)):
            records += timed("mnf", ms + more, memory=memory, **variants)
    for step, ms in (
        ("whole", 2000),
        ("filter", 1000),
        ("convert", 400),
        ("covariance", 300),
        ("eigen", 50),
        ("transform", 100),
    ):
        records += timed("mnf_host", ms, 1, library="blas", step=step)
    for step, ms in (("whole", 500), ("filter", 40), ("covariance", 300), ("eigen", 50), ("transform", 10)):
        records += timed("mnf_host", ms, 1, library="serial", step=step)
    return [
        record(r.benchmark, {**r.params, "size": "614x13x224"}, *r.series) if r.params.get("library") == "serial" else r
        for r in records
    ]


def test_the_ways_to_the_whole_are_compared_like_with_like():
    *kernels, numpy = mnf_whole.rotation_variants(study(whole()), 0.1)
    assert numpy.kernels == {} and numpy.over_numpy is None
    told = {(w.kernels["filter"], w.memory): w for w in kernels}
    last = told["V3", "host"]
    assert last.over_first.value == pytest.approx(250 / 150, rel=0.01)
    assert last.over_numpy.value == pytest.approx(2000 / 150, rel=0.01)
    assert told["V0", "host"].over_first is None
    assert last.kernels_ms == pytest.approx(10 + 6 + 6 + 5, rel=0.01)
    assert told["V0", "device"].kernels_ms == pytest.approx(60 + 50 + 50 + 8, rel=0.01)


def test_hotspots_are_shares_and_the_eigenproblems_do_not_grow():
    spots = {(s.library, s.step): s for s in mnf_whole.host_hotspots(study(whole()))}
    assert spots["serial", "covariance"].share == pytest.approx(0.75, rel=0.01)
    times = 1087 / 13
    wanted = 300 * times / (350 * times + 50)
    assert spots["serial", "covariance"].scaled_share == pytest.approx(wanted, rel=0.01)
    assert spots["blas", "eigen"].scaled_share == pytest.approx(spots["blas", "eigen"].share)
    for library in ("blas", "serial"):
        for name in ("share", "scaled_share"):
            shares = [getattr(s, name) for s in spots.values() if s.library == library and s.step != "whole"]
            assert sum(shares) == pytest.approx(1)
    assert spots["serial", "whole"].share is None


@pytest.mark.parametrize("how", ["timeout", "absent", "all"])
def test_without_every_step_there_are_no_shares_and_the_reason_is_told(how):
    def is_lost(r):
        of = r.benchmark == "mnf_host" and r.params["library"] == "serial"
        return of and r.params["step"] != "whole" and (how == "all" or r.params["step"] == "covariance")

    lost = {"status": "timeout", "series": (), "reason": "took too long"}
    records = [replace(r, **lost) if is_lost(r) else r for r in whole() if how != "absent" or not is_lost(r)]
    found = {(s.library, s.step): s for s in mnf_whole.host_hotspots(study(records))}
    assert all(s.share is None and s.scaled_share is None for s in found.values() if s.library == "serial")
    assert found["blas", "filter"].share == pytest.approx(1000 / 1850, rel=0.01)
    (section,) = report.host_sections(study(records), ())
    notes = " ".join(section.notes)
    assert "no shares" in notes and ("took too long" in notes) == (how != "absent")
    rows = {row[0]: row for row in section.rows}
    assert rows["filter"][7:9] == ("–", "–") and "–" not in rows["filter"][1:5]
    assert ("serial covariance: not measured" in notes) == (how == "absent")
    told = {(s["library"], s["step"]): s for s in json.loads(render.json_text(mnf_data.study_object(study(records))))["host"]}
    if how != "absent":
        lost = told["serial", "covariance"]
        assert (lost["status"], lost["reason"], lost["time_ms"], lost["share"]) == ("timeout", "took too long", None, None)


def test_a_version_that_changes_two_others_is_compared_with_both():
    found = {(g.variant, g.change.over): g for g in report.gains(study(whole())) if g.of == "data" and g.change}
    padded, instead = found["V4", "V3"], found["V4", "V2"]
    assert padded.over_previous.value == pytest.approx(2, rel=0.01) and padded.change.guideline == "S1"
    assert instead.over_previous.value == pytest.approx(40 / 6, rel=0.01) and instead.verdict == "paid off"
    assert instead.value is padded.value or instead.value == padded.value


def test_memory_that_the_compiler_tells_stands_below_and_what_is_not_of_a_versions_name_too():
    for told, wanted in (
        ({"V0": {"stack_bytes": 16, "private_bytes": 1}, "V0n": {"stack_bytes": 0}}, "stack of a work-item"),
        ({"V0": {"private_bytes": 16}, "V0n": {"private_bytes": 0}}, "private memory of a work-item"),
        ({"V0": {"private_bytes": 16}, "V0n": {"private_bytes": 16}}, ""),
        ({}, ""),
    ):
        records = [replace(r, facts=told.get(r.params["variant"], {})) for r in filters({"V0": 60, "V0n": 20, "V1": 10})]
        (section,) = report.filter_sections(study(records), ())
        found = [note for note in section.notes if "by the compiler" in note]
        assert found == ([f"{wanted}, reported by the compiler: V0 16 B, V0n 0 B"] if wanted else [])
    assert any("another filter" in note for note in section.notes)
    sections = {s.title.partition(" as table ")[2][:1]: s for s in report.sections(study(whole()))}
    assert any("registers by themselves" in note for note in sections["6"].notes)
    assert any("uses the median" in note for note in sections["8"].notes)


def test_a_host_without_any_time_says_why():
    records = timed("mnf_host", 5, 1, library="blas", step="filter")
    bad = [replace(r, status="failed", series=(), reason="out of memory") for r in records]
    (section,) = report.host_sections(study(bad), ())
    assert section.rows[0][1] == "failed" and any("out of memory" in note for note in section.notes)


def test_cores_that_were_used_are_told():
    records = [replace(r, series=tuple(replace(s, cpu_ns=tuple(13 * t for t in s.cpu_ns)) for s in r.series)) for r in whole()]
    (section,) = report.host_sections(study(records), ())
    assert section.header[2] == "cores" and {row[2] for row in section.rows} == {"13.0"}
    assert {s["cores"] for s in json.loads(render.json_text(mnf_data.study_object(study(records))))["host"]} == {13.0}


def test_what_the_paper_found_stands_beside_cubes_like_its_own_alone():
    (section,) = report.filter_sections(study(whole()), ())
    assert "K20c over V0" in section.header and section.rows[-1][-2] == "5.9x"
    (section,) = report.covariance_sections(study(whole()), ())
    assert "K20c over V0" not in section.header and sum("30.7x" in note for note in section.notes) == 1
    small = [replace(r, params={**r.params, "size": "614x1087x100"}) for r in whole()]
    for section in report.sections(study(small)):
        text = " ".join((*section.header, *section.notes))
        assert not any(of in text for of in ("K20c", "in the paper", "at 614x1087"))
        assert all(len(row) == len(section.header) for row in section.rows)


def test_there_is_a_table_for_each_of_the_papers_and_one_of_the_host():
    sections = report.sections(study(whole()))
    assert [s.title.partition(":")[0] for s in sections] == ["MNF"] * 4 + ["MNF on the host"]
    assert all(len(row) == len(section.header) for section in sections for row in section.rows)
    assert [len(s.rows) for s in sections] == [5, 12, 5, 5, 6]
    assert sections[1].rows[4][-1] == "paid off" and "S1" in sections[1].rows[4]
    assert report.sections(study(filters({"V0": 9})))[0].rows[0][-1] == ""


def test_programs_get_everything():
    told = json.loads(render.json_text(mnf_data.study_object(study(whole()))))
    assert told["size"] == SIZE and len(told["steps"]) == 22 and len(told["whole"]) == 5 and len(told["host"]) == 11
    v1 = told["steps"][1]
    assert (v1["variant"], v1["over"], v1["guideline"], v1["verdict"], v1["verified"]) == ("V0n", "V0", "L3", "paid off", True)
    assert v1["gain_low"] < 3 < v1["gain_high"] and v1["evidence"]
    serial = next(spot for spot in told["host"] if (spot["library"], spot["step"]) == ("serial", "covariance"))
    assert (serial["size"], serial["status"], serial["verified"]) == ("614x13x224", "ok", True)
    assert serial["time_low_ms"] <= serial["time_ms"] <= serial["time_high_ms"] and serial["share"] > 0.7
    rows = list(csv.DictReader(io.StringIO(render.csv_text(mnf_data.version_fields(study(whole()))))))
    assert len(rows) == 22 and tuple(rows[0]) == mnf_data.FIELDS
    assert json.loads(render.json_text(mnf_data.study_object(study([]))))["steps"] == []


# ---- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "mnf.jsonl"
    return write_run(path, whole(), header(device(kind="gpu"), CARDS, suite="casestudy"))


@each(
    ("args", "says"),
    [
        (("{stored}", "--size", "9x9", "--overwrite"), "leave out RUN or --size, --overwrite"),
        (("{stored}", "--latex", "--csv"), "choose one of"),
        (("--size", "large"), "is no size of a cube"),
        (("--size", "9x9x99"), "twice as many pixels as bands"),
    ],
)
def test_what_cannot_be_done_is_one_line_that_names_the_remedy(stored, args, says):
    code, out, err = call("casestudy", "mnf", *(arg.format(stored=stored) for arg in args))
    assert (code, out) == (2, "") and says in err and err.count("\n") == 1


def test_a_stored_run_is_shown_in_every_form_and_by_show_and_report(stored, tmp_path):
    code, out, err = call("casestudy", "mnf", stored)
    assert (code, err) == (0, "") and "table 5" in out and "table 8" in out and "paid off" in out
    assert json.loads(call("casestudy", "mnf", stored, "--json")[1])["steps"]
    assert call("casestudy", "mnf", stored, "--csv")[1].startswith("step,of,variant,")
    assert "### MNF: noise filter" in call("casestudy", "mnf", stored, "--md")[1]
    latex = call("casestudy", "mnf", stored, "--latex")[1]
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 5 and r"\toprule" in latex
    assert "% MNF: noise filter" in latex
    bodies = [line for line in latex.splitlines() if not line.startswith("%")]
    assert not any("%" in line.replace(r"\%", "") for line in bodies)  # shares are no comments
    assert "table 7" in call("show", stored)[1]
    assert call("report", stored, "-o", tmp_path / "r.html")[0] == 0
    assert "as table 6" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_a_small_cube_is_measured_kept_and_told(tmp_path, monkeypatch):
    path = tmp_path / "new.jsonl"
    args = ("-d", "0", "--size", "61x7x18", "--processes", "1", "--seed", "5", "--json", "-o", path)
    # a process for each benchmark takes longer than their points do, and nothing here is of processes
    monkeypatch.setattr(runner, "WorkerProcess", InProcessWorker)
    with brief_points():
        code, out, _ = call("casestudy", "mnf", *args)
    kept = jsonl.read(path)
    bad = [(r.benchmark, r.params, r.reason) for r in kept.records if r.status not in ("ok", "suspect")]
    assert code == 0 and not bad
    assert {r.benchmark for r in kept.records} == set(casestudy.BENCHMARKS) and kept.header.seed == 5
    assert all(r.checked for r in kept.records)
    told = json.loads(out)
    assert told["size"] == "61x7x18" and len(told["steps"]) == 22
