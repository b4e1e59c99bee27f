"""Ours beside the host's libraries: ratios with intervals on synthetic records, the table, and what `peers` measures."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.analysis.derive import derive
from clmembench.analysis.peers import Spreads, by_best, peer_ratios
from clmembench.cli import exit_codes
from clmembench.gates.whole import judged_run
from clmembench.model import BenchmarkInfo, Cause, Metric
from clmembench.plan import sweep
from clmembench.plan.selection import Selection, selected_benchmarks
from clmembench.report import frame, render, run_warnings, summary
from clmembench.report.sections import peer_values
from clmembench.results import jsonl
from clmembench.results.tuned import unfinished_note
from clmembench.specs.sheets import Figure, Match, SpecSheet
from clmembench.studies.peers import peer_table
from clmembench.studies.peers import plan as peers
from tests.builders import device, header, record, run, series
from tests.cases import each
from tests.commands import call

RATE = Metric("performance", "GFLOP/s", "flops", "rate", "higher", peak="fp64_vector_gflop_s")
TIME = Metric("round_trip", "ns", "ops", "cost", "lower")
CARDS = {
    "dgemm": BenchmarkInfo(1, "compute", "Products.", "test", (RATE,), tuning=("tile",), x="n"),
    "cublas_gemm": BenchmarkInfo(1, "compute", "cuBLAS.", "test", (RATE,), peer_of="dgemm", x="n"),
    "other_gemm": BenchmarkInfo(1, "compute", "Another.", "test", (RATE,), peer_of="dgemm", x="n"),
    "launch": BenchmarkInfo(1, "sync", "Launches.", "test", (TIME,), x="groups"),
    "clpeak_launch": BenchmarkInfo(1, "sync", "clpeak's.", "test", (TIME,), peer_of="launch", x="groups"),
}
SPREADS = Spreads(0.02, 0.1, 5e4)
FACTS = {"library": "cuBLAS", "version": "13.0.2", "timed": "passes back to back, CUDA events around them"}
SHEET = SpecSheet(
    "Sheet", "gpu", Match(("Synthetic GPU",)), {"fp64_vector_gflop_s": Figure(100.0, "GFLOP/s", "its data sheet")}
)


REPORTS = Path(__file__).parents[3] / "reports"


def product(name: str, gflop_s: float, process: int = 0, variant: str | None = None, n: int = 64, **changes):
    """A record of a product at that rate, 20 samples of a millisecond."""
    times = [1_000_000 + k for k in range(20)]
    params: dict[str, object] = {"dtype": "double", "n": n}
    params |= {} if variant is None else {"variant": variant, "tile": "8x8"}
    plain = record(name, params, series(times, flops=int(gflop_s * 1e6)), process=process)
    return replace(plain, **changes)


def held(records, **changes):
    return judged_run(run(records, header(device(), CARDS, **changes)), SHEET)


def pairs(records):
    mine = held(records)
    return peer_ratios(derive(mine), mine.header.benchmarks, SPREADS)


def several(ours, theirs, **changes):
    made = [product("dgemm", v, p, "ptx") for p, v in enumerate(ours)]
    return made + [product("cublas_gemm", v, p, facts=FACTS, **changes) for p, v in enumerate(theirs)]


def test_a_ratio_is_of_the_same_process_round():
    # both wander by a factor of two from round to round, together: the ratio does not
    (pair,) = pairs(several((10.0, 20.0, 15.0), (20.0, 40.0, 30.0)))
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(0.5, rel=1e-3)
    assert 0.45 < pair.ratio.low < 0.5 < pair.ratio.high < 0.55


def test_of_what_takes_time_the_peers_stands_above():
    times = {"launch": 5_000, "clpeak_launch": 10_000}
    made = [
        record(name, {"groups": 1024}, series([ns] * 20, ops=1, clock="host"), process=p)
        for name, ns in times.items()
        for p in range(3)
    ]
    (pair,) = pairs(made)
    assert pair.ratio is not None and pair.ratio.value == pytest.approx(2.0)
    # what is as short as a launch is the host's doing too
    assert pair.ratio.high / pair.ratio.low > 1.2


def test_intervals_hold_what_is_true_and_are_not_endless():
    rng, held_, wide = random.Random(1), 0, 0
    trials = 100
    for _ in range(trials):
        shared = [rng.gauss(0, 0.2) for _ in range(3)]
        ours = [50 * 2 ** (s + rng.gauss(0, 0.02)) for s in shared]
        theirs = [40 * 2 ** (s + rng.gauss(0, 0.02)) for s in shared]
        (pair,) = pairs(several(ours, theirs))
        assert pair.ratio is not None
        held_ += pair.ratio.low <= 1.25 <= pair.ratio.high
        wide += pair.ratio.high / pair.ratio.low > 1.5
    assert held_ >= 0.9 * trials and wide <= 0.1 * trials


def test_rounds_that_contradict_each_other_tell_nothing():
    made = several((10.0, 30.0), (30.0, 10.0))
    (pair,) = pairs(made)
    assert pair.ratio is not None and pair.ratio.low < 0.01 and pair.ratio.high > 100
    assert peer_values.peer_cells(pair)[2:] == ("undetermined", "too few rounds for their noise")


def test_only_rounds_that_measured_both_count():
    made = [product("dgemm", v, p, "ptx") for p, v in ((0, 30.0), (1, 30.0), (2, 90.0))]
    made += [product("cublas_gemm", 30.0, p) for p in (0, 1, 7)]
    (pair,) = pairs(made)
    assert pair.ratio is not None and pair.ratio.value == pytest.approx(1.0, rel=1e-3)
    (none,) = pairs([product("dgemm", 30.0, 0, "ptx"), product("cublas_gemm", 30.0, 1)])
    assert none.ratio is None and none.reason == "no process measured both"


@each("status", ["wrong", "failed", "skipped", "timeout", "suspect"])
@each("whose", ["dgemm", "cublas_gemm"])
def test_what_has_no_value_has_no_ratio(status, whose):
    made = several((30.0, 30.0, 30.0), (30.0, 30.0, 30.0))
    made = [replace(r, status=status, reason="off by one", gate="x") if r.benchmark == whose else r for r in made]
    if status not in ("suspect",):
        made = [replace(r, series=()) if r.benchmark == whose else r for r in made]
    (pair,) = pairs(made)
    assert pair.ratio is None and status in pair.reason and "off by one" in pair.reason
    section = peer_values.section(held(made), frame.rows(held(made), SHEET))
    if (status, whose) == ("skipped", "dgemm"):  # what this device does not have, no library is held against
        assert section is None
        return
    assert section is not None
    (row,) = section.rows
    assert row[-2:] == ("–", "–") and status in row
    if whose == "cublas_gemm":
        assert any(f"cublas_gemm: {status}: off by one" in note for note in section.notes)


def test_one_wrong_process_of_a_library_is_wrong():
    made = several((30.0, 30.0, 30.0), (30.0, 30.0, 30.0))
    made[-1] = replace(made[-1], status="wrong", reason="a row", series=())
    (pair,) = pairs(made)
    assert pair.ratio is None and "wrong" in pair.reason


def test_other_points_and_places_have_no_peer():
    from clmembench.model import Placement

    made = [product("dgemm", 30.0, 0, "ptx", n=65), replace(product("dgemm", 30.0, 0, "ptx"), place=Placement(2))]
    assert pairs([*made, product("cublas_gemm", 30.0, 0)]) == []


def test_the_best_peer_is_the_best_of_those_with_a_value():
    made = [*several((30.0,), (20.0,)), product("other_gemm", 40.0, 0)]
    first, second = by_best(pairs(made))
    assert (first.peer.benchmark, second.peer.benchmark) == ("other_gemm", "cublas_gemm")
    made[-1] = replace(made[-1], status="wrong", series=())
    assert [p.peer.benchmark for p in by_best(pairs(made))] == ["cublas_gemm", "other_gemm"]


def test_a_busy_host_is_said_beside_the_ratio():
    made = [replace(r, cpu_others=0.4) for r in several((30.0,) * 3, (30.0,) * 3)]
    (pair,) = pairs(made)
    assert pair.ratio is not None and pair.busy == 0.4


# ---- the table --------------------------------------------------------------------------------------------------------


def told(records):
    mine = held(records)
    return peer_table.peer_lines(mine, frame.rows(mine, SHEET))


def test_the_best_variant_is_a_line_and_the_portable_one_beside_it():
    made = several((60.0,) * 3, (50.0,) * 3) + [product("dgemm", 25.0, p, "portable") for p in range(3)]
    best, portable = told(made)
    assert (best.choice, best.ours.value.params["variant"]) == ("best", "ptx")
    assert (portable.choice, portable.ours.value.params["variant"]) == ("portable", "portable")
    assert best.peers[0].ratio.value == pytest.approx(1.2, rel=1e-3)
    assert portable.peers[0].ratio.value == pytest.approx(0.5, rel=1e-3)
    assert best.limit.value == 100.0 and best.ours.fraction == pytest.approx(0.6, rel=1e-3)
    assert peer_table.cells(portable)[0] == "dgemm double n=64, portable"
    # where the portable one is the best there is one line
    assert [line.choice for line in told([*several((20.0,), (50.0,)), product("dgemm", 25.0, 0, "portable")])] == ["best"]


def test_lines_are_in_the_order_of_axes_whatever_the_run_measured_first():
    limited = jsonl.read(REPORTS / "h200-sxm-gemm.jsonl.gz")  # n = 8192 came before n = 1000
    lines = [tuple(line.what.values()) for line in peer_table.peer_lines(limited, frame.rows(limited, SHEET))]
    assert lines == [(dtype, n) for dtype in ("double", "float") for n in (1000, 1024, 2048, 3001, 4096, 8192)]


def test_what_a_peer_has_as_its_format_is_a_line_beside_the_best():
    rate = Metric("bandwidth", "GB/s", "nbytes", "rate", "higher")
    cards = {
        "spmv": BenchmarkInfo(1, "compute", "SpMV.", "test", (rate,)),
        "cusparse_spmv": BenchmarkInfo(1, "compute", "x", "test", (rate,), peer_of="spmv"),
    }
    made = [
        record("spmv", {"matrix": "a", "format": form}, series([1_000_000] * 20, nbytes=nbytes * 10**6))
        for form, nbytes in (("ell", 90), ("csr_row", 50), ("csr_team", 70))
    ]
    made.append(record("cusparse_spmv", {"matrix": "a"}, series([1_000_000] * 20, nbytes=60 * 10**6), facts={"format": "csr"}))
    mine = run(made, header(device(), cards))
    lines = peer_table.peer_lines(mine, frame.rows(mine, None))
    assert [(line.choice, line.ours.value.params["format"]) for line in lines] == [("best", "ell"), ("csr", "csr_team")]
    assert [line.peers[0].ratio.value for line in lines] == [pytest.approx(1.5), pytest.approx(70 / 60)]


def test_a_line_without_a_peer_has_its_limit_and_one_without_a_value_its_reason():
    (alone,) = told([product("dgemm", 40.0, 0, "ptx")])
    assert peer_table.cells(alone)[3:7] == ("–", "–", "–", "–") and peer_table.cells(alone)[-1] == "40.0%"
    (failed,) = told([replace(product("dgemm", 40.0, 0, "ptx"), status="failed", reason="no memory", series=())])
    assert failed.choice == "none" and "failed" in peer_table.cells(failed)
    mine = held([replace(product("dgemm", 40.0, 0, "ptx"), status="failed", reason="no memory", series=())])
    assert any("no memory" in note for note in peer_table.peer_section(mine, [failed]).notes)


@each("cause", [Cause.BUDGET, Cause.BENCHMARK_BUDGET])
def test_a_variant_that_time_left_out_is_named_beside_the_best(cause):
    cut = replace(product("dgemm", 40.0, 0, "ptx"), status="skipped", reason="no time", cause=cause, series=())
    lacking = replace(cut, cause=Cause.MISSING_FEATURE)
    for records, named in (([cut], True), ([lacking], False)):
        mine = held([product("dgemm", 25.0, 0, "portable"), *records])
        (line,) = peer_table.peer_lines(mine, frame.rows(mine, SHEET))
        notes = "\n".join(peer_table.peer_section(mine, [line]).notes)
        assert line.choice == "best" and line.ours.value.params["variant"] == "portable"
        assert ("dgemm double n=64: best of those measured, without variant=ptx skipped: no time" in notes) == named


def test_a_search_that_time_ended_is_named():
    note = unfinished_note(1, 3)
    for notes in ((note, "tuned: shipped"), ("tuned: shipped",)):
        mine = held([replace(product("dgemm", 25.0, 0, "portable"), notes=notes)])
        (line,) = peer_table.peer_lines(mine, frame.rows(mine, SHEET))
        shown = peer_table.peer_section(mine, [line]).notes
        assert (f"dgemm double n=64: {note}" in shown) == (note in notes), shown
        assert not any("shipped" in text for text in shown)


def test_the_table_says_with_what_and_how_it_was_measured():
    made = several((30.0,) * 3, (30.0,) * 3)
    mine = held(made, packages={"pyopencl": "2026.1"})
    notes = "\n".join(peer_table.peer_section(mine, peer_table.peer_lines(mine, frame.rows(mine, SHEET))).notes)
    for part in ("2024-01-01", "Synthetic GPU", "Test Platform 1.0", "pyopencl 2026.1", "Test CPU", "clmembench 0.0"):
        assert part in notes
    assert "cuBLAS 13.0.2: passes back to back" in notes and "event profiling" in notes
    assert "gaps included" in notes and "its data sheet" in notes and "rounds: 3" in notes


def test_json_has_every_peer_with_interval_method_and_samples():
    made = several((30.0,) * 3, (60.0,) * 3) + [product("other_gemm", 20.0, p) for p in range(3)]
    mine = held(made)
    data = json.loads(render.json_text(peer_table.peer_object(mine, peer_table.peer_lines(mine, frame.rows(mine, SHEET)))))
    (line,) = data["lines"]
    assert [p["benchmark"] for p in line["peers"]] == ["cublas_gemm", "other_gemm"]
    assert line["peers"][0]["facts"]["timed"] and line["peers"][0]["ratio"] == pytest.approx(0.5, rel=1e-3)
    assert line["limit"] == 100.0 and line["what"] == {"dtype": "double", "n": 64} and len(line["process_medians"]) == 3


def test_references_are_no_benchmarks_of_ours_in_a_summary():
    made = several((30.0,) * 3, (30.0,) * 3)
    mine = held(made)
    table = frame.rows(mine, SHEET)
    assert [s.header[0] for s in summary.sections(mine, table)] == ["dgemm: dtype"]
    bad = held([replace(r, status="wrong", reason="x", series=()) if r.benchmark == "cublas_gemm" else r for r in made])
    assert not any("wrong" in warning for warning in run_warnings.warnings(bad, frame.rows(bad, SHEET), SHEET))


def test_a_run_without_references_has_no_section():
    mine = held([product("dgemm", 40.0, 0, "ptx")])
    assert peer_values.section(mine, frame.rows(mine, SHEET)) is None


# ---- the command ------------------------------------------------------------------------------------------------------


@each("kind", ["cpu", "gpu", "accelerator"])
@each("features", [frozenset(), frozenset({"fp64", "ptx"})])
def test_what_it_measures_are_points_of_its_benchmarks(kind, features):
    from clmembench.plan.selection import check_axes

    info = device(kind=kind, features=features, shares_host_memory=kind == "cpu", cache_bytes=32 << 20)
    chosen = peers.selections(Selection(suite="peers"), info)
    names = [b.name for selection in chosen for b in selected_benchmarks(selection)]
    left_out = {"mnf_covariance", *(("transfer",) if kind == "cpu" else ()), *(() if kind == "gpu" else ("gemm",))}
    assert len(names) == len(set(names)) and set(names) == set(peer_table.PARAMETERS_OF_LINE) - left_out
    for selection in chosen:
        assert selection.reference and selection.suite == "all"
        check_axes(selected_benchmarks(selection), info, selection)
        assert next(sweep.explore(selected_benchmarks(selection)[0], info, selection))


@each("kind", ["cpu", "gpu", "accelerator"])
def test_the_header_names_what_is_measured_before_features_are_probed(kind):
    info = device(kind=kind, features=frozenset({"fp64"}), shares_host_memory=kind == "cpu", cache_bytes=32 << 20)
    probed = replace(info, features=frozenset({"fp64", "fp16", "ptx", "atomics64"}))
    plain = Selection(suite="peers", reference=True)
    measured = {b.name for chosen in peers.selections(plain, probed) for b in selected_benchmarks(chosen)}
    assert measured <= set(peers.names(plain, info))


@pytest.mark.slow
def test_a_small_budget_leaves_lines_out_and_keeps_the_file(tmp_path):
    path = tmp_path / "new.jsonl"
    code, out, _ = call("peers", "-d", "0", "--budget", "1s", "--processes", "1", "-o", path)
    assert code == exit_codes.OK and f"Results: {path}" in out
    kept = jsonl.read(path)
    assert kept.header.suite == "peers" and any("budget" in r.reason for r in kept.records)
