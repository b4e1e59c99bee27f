"""How far a run is: counts, and times to go that follow what its points took."""

from __future__ import annotations

import statistics
from datetime import datetime
from itertools import accumulate

import pytest

from clmembench.benchmarks import discovered
from clmembench.cli.running import progress
from clmembench.cli.running.outlook import ProgressEstimate, Snapshot
from clmembench.model import Cause, Run
from clmembench.plan import estimate
from clmembench.plan.estimate import Amount, BenchmarkEstimate, RunEstimate
from clmembench.plan.selection import Selection
from clmembench.results import jsonl
from clmembench.units import format_duration
from tests.builders import record, series
from tests.cases import each
from tests.commands import ROOT


def part(name: str, count: int, seconds: float, **more: object) -> BenchmarkEstimate:
    return BenchmarkEstimate(name, count, {"first": Amount(count, seconds)}, **more)


TWO = (part("stream", 10, 10.0), part("dgemm", 10, 30.0))


def after(outlook: ProgressEstimate, benchmark: str, count: int, each_s: float, since_s: float = 0.0) -> Snapshot:
    """The outlook after so many measurements, each of which took so long."""
    for n in range(1, count + 1):
        found = outlook.add(record(benchmark, {"n": n}), since_s + n * each_s)
    return found


def test_before_the_first_measurement_the_estimate_is_all_there_is():
    at = ProgressEstimate(TWO).at(0.0)
    assert (at.done, at.total, at.share) == (0, 20, 0.0) and at.left_s == pytest.approx(40.0)
    assert at.range_s[0] < 25 < 60 < at.range_s[1]


def test_measurements_that_take_as_long_as_estimated_leave_the_rest_of_the_estimate():
    at = after(ProgressEstimate(TWO), "stream", 5, 1.0)
    assert (at.done, at.total) == (5, 20) and at.left_s == pytest.approx(35.0)


def test_repeats_that_follow_other_benchmarks_are_counted():
    launch = BenchmarkEstimate("launch", 1, {"first": Amount(1, 1.0), "further": Amount(5, 5.0)})
    outlook = ProgressEstimate((launch, part("spmv", 1, 1.0)))
    after(outlook, "launch", 1, 1.0)
    after(outlook, "spmv", 1, 1.0, 1.0)
    for process in range(1, 6):
        at = outlook.add(record("launch", {"n": 1}, process=process), 2.0 + process)
    assert not outlook.others and (at.done, at.total) == (7, 7)
    ended = "measured 2 points, 5 repeats in further processes: 7 of 7 measurements planned"
    assert progress.conclusion(outlook, False) == ended


def test_measurements_that_take_longer_make_the_rest_longer_most_of_all_that_of_their_benchmark():
    slow = after(ProgressEstimate(TWO), "stream", 5, 4.0)
    assert 35.0 * 1.3 < slow.left_s < 35.0 * 4
    end = after(ProgressEstimate(TWO), "dgemm", 5, 3.0)
    other = after(ProgressEstimate(TWO), "dgemm", 5, 12.0)
    assert other.left_s > 2 * end.left_s


def test_the_time_since_the_last_measurement_is_taken_from_the_next_one_alone():
    outlook = ProgressEstimate(TWO)
    after(outlook, "stream", 5, 1.0)
    assert outlook.at(5.5).left_s == pytest.approx(34.5, abs=0.1)
    assert outlook.at(500.0).left_s == outlook.at(50.0).left_s > 30  # a point that hangs makes no other shorter


def test_the_range_narrows_as_a_run_goes_on():
    outlook = ProgressEstimate([part(f"bench{n}", 10, 10.0) for n in range(10)])
    ratios = []
    for n in range(9):
        at = after(outlook, f"bench{n}", 10, 1.0, 10.0 * n)
        ratios.append(at.range_s[1] - at.range_s[0])
    assert ratios == sorted(ratios, reverse=True) and at.range_s[0] < 10.0 < at.range_s[1]


def test_a_curve_that_settles_early_leaves_fewer_points():
    outlook = ProgressEstimate(TWO)
    after(outlook, "stream", 4, 1.0)
    at = outlook.add(record("dgemm"), 5.0)
    assert (at.done, at.total) == (5, 14)


def test_points_that_may_not_be_needed_count_half_until_that_is_known():
    growing = ProgressEstimate([part("pchase", 100, 100.0, grows=True, least_share=0.5)])
    assert growing.at(0.0).left_s == pytest.approx(75.0)
    at = after(growing, "pchase", 90, 1.0)
    assert at.left_s == pytest.approx(5.0, rel=0.05) and at.bound == "at most "


def test_more_measurements_than_expected_are_no_share_above_one():
    at = after(ProgressEstimate(TWO[:1]), "stream", 15, 1.0)
    assert (at.done, at.total, at.share, at.left_s) == (15, 15, 1.0, 0.0)


def test_an_adaptive_plan_that_needs_more_than_its_estimate_has_no_total_and_its_budget_as_a_bound():
    """`topology --budget 3m` on two busy cores said "1266 of about 1269 measurements (100%), 1 s to 6 s left" for 100 s."""
    adaptive = (part("chase", 653, 100.0, is_open=True), part("l2_map", 1, 1.0))
    at = after(ProgressEstimate(adaptive, budget_s=180.0), "chase", 1266, 0.1)
    assert (at.done, at.total, at.share, at.left_s) == (1266, None, None, None)
    assert progress.snapshot_text(at) == "1266 measurements, 2 min 7 s, at most 53 s left"
    assert progress.snapshot_text(after(ProgressEstimate(adaptive), "chase", 700, 0.1)) == "700 measurements, 1 min 10 s"
    assert after(ProgressEstimate(adaptive, budget_s=180.0), "chase", 100, 0.1).total == 654


def test_measurements_of_peers_count_for_the_benchmark_that_they_are_compared_with():
    outlook = ProgressEstimate(TWO, {"numpy_stream": "stream"})
    outlook.add(record("stream"), 1.0)
    assert outlook.add(record("numpy_stream"), 2.0).done == 2 and outlook.at(2.0).total == 20


def test_a_resumed_run_begins_where_the_interrupted_one_ended():
    known = [record("stream", {"n": n}) for n in range(8)]
    at = ProgressEstimate(TWO, known=known).at(0.0)
    assert (at.done, at.total) == (8, 20) and at.left_s == pytest.approx(32.0)


def test_what_a_time_limit_left_out_counts_once_when_a_resumed_run_measures_it():
    left = [
        record("stream", {"n": n}, role=role, status="skipped", cause=Cause.BUDGET) for n, role in ((8, "tune"), (9, "measure"))
    ]
    cut, known = ProgressEstimate(TWO[:1]), [record("stream", {"n": n}) for n in range(8)]
    for n, one in enumerate((*known, *left)):
        at = cut.add(one, float(n))
    assert (at.done, at.total) == (10, 10)
    assert progress.conclusion(cut, True) == "measured 8 points: 8 of 10 measurements planned"
    resumed = ProgressEstimate(TWO[:1], known=(*known, *left))
    assert resumed.at(0.0).done == 8
    resumed.add(record("stream", {"n": 8}, role="tune"), 1.0)
    resumed.add(record("stream", {"n": 9}), 2.0)
    assert progress.conclusion(resumed, False) == "measured 9 points, 1 tuning trial: 10 of 10 measurements planned"


def test_a_budget_bounds_the_time_to_go():
    assert ProgressEstimate(TWO, budget_s=15.0).at(5.0).left_s == pytest.approx(10.0)
    assert ProgressEstimate(TWO, budget_s=15.0).at(50.0).left_s == 0.0


def test_without_an_estimate_there_is_no_total():
    at = after(ProgressEstimate(), "chase", 3, 1.0)
    assert (at.done, at.total, at.left_s, at.share) == (3, None, None, None)
    assert progress.snapshot_text(at) == "3 measurements, 3 s"


def test_a_snapshot_in_words():
    exact = Snapshot(14, 62, 31.0, 100.0, (90.0, 110.0))
    assert progress.snapshot_text(exact) == "14 of 62 measurements (23%), 31 s, about 1 min 40 s left"
    wide = Snapshot(14, 62, 31.0, 100.0, (60.0, 180.0), "at most ")
    assert progress.snapshot_text(wide) == "14 of at most 62 measurements (23%), 31 s, 1 min to 3 min left"


def test_the_end_of_a_run_counts_as_the_plan_before_it():
    parts = (
        BenchmarkEstimate("pchase", 4, {"first": Amount(4), "further": Amount(4)}, grows=True),
        BenchmarkEstimate("dgemm", 1, {"first": Amount(1), "trial": Amount(3)}, most_trials=3),
    )
    outlook = ProgressEstimate(parts)
    for process in (0, 1):
        for n in range(3):
            outlook.add(record("pchase", {"n": n}, process=process), 1.0)
    for n in range(3):
        outlook.add(record("dgemm", {"n": n}, role="tune"), 2.0)
    outlook.add(record("dgemm", {"n": 1}), 2.0)
    assert (RunEstimate(parts).points, RunEstimate(parts).all_records) == (5, 12)
    assert progress.conclusion(outlook, False) == (
        "measured 4 points, 3 repeats in further processes, 3 tuning trials: 10 of at most 12 measurements planned "
        "(pchase 6 of at most 8)"
    )
    assert progress.conclusion(ProgressEstimate(), False) == ""
    adaptive = ProgressEstimate([part("chase", 1, 1.0, is_open=True)])
    after(adaptive, "chase", 2, 1.0)
    assert progress.conclusion(adaptive, False) == "measured 2 points; the estimate was about 1"


REPLAYED = ("epyc-2-cores-pocl-quick", "h100-sxm-all", "h200-sxm-all", "h200-sxm-quick", "h100-sxm-quick",
            "xeon-16-cores-pocl-quick", "xeon-2-cores-intel-quick", "xeon-2-cores-intel-sync", "xeon-2-cores-pocl-quick",
            "xeon-2-cores-pocl-sync")  # fmt: skip


def replayed(run: Run) -> tuple[list[float], list[bool]]:
    """The error of the whole time as foreseen at 25%, 50% and 75% of a stored run, and whether the ranges of the time left
    held, there and at 10%."""
    head = run.header
    names = tuple(name for name, card in head.benchmarks.items() if not card.peer_of and name in discovered())
    asked = {"axes": head.axes, "processes": head.processes, "tuning": head.tuning, "budget_s": head.budget_s}
    selection = Selection(suite=head.suite, globs=names, **asked)
    outlook = ProgressEstimate(estimate.estimate_run(head.device, selection).benchmarks, budget_s=head.budget_s)
    begun = datetime.fromisoformat(head.started)
    starts = [(datetime.fromisoformat(r.started) - begun).total_seconds() if r.started else 0.0 for r in run.records]
    ends = list(accumulate((at + r.seconds for at, r in zip(starts, run.records, strict=True)), max))  # 0: skipped at once
    moments, errors, held = [0.1, 0.25, 0.5, 0.75], [], []
    for one, now in zip(run.records, ends, strict=True):
        at = outlook.add(one, now)
        if moments and now >= moments[0] * ends[-1]:
            if moments.pop(0) > 0.1:
                errors.append(abs(now + at.left_s - ends[-1]) / ends[-1])
            held.append(at.range_s[0] <= ends[-1] - now <= at.range_s[1])
    return errors, held


def test_stored_runs_took_as_long_as_was_foreseen_on_the_way():
    found = [replayed(jsonl.read(ROOT / "reports" / f"{name}.jsonl.gz")) for name in REPLAYED]
    quarter, half, late = (statistics.mean(errors[n] for errors, _ in found) for n in range(3))
    assert quarter < 0.22 and half < 0.12 and late < 0.07, (quarter, half, late)
    held = [one for _, all_of_them in found for one in all_of_them]
    assert sum(held) / len(held) >= 0.8


@each(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (7500, "2 h 5 min"), (7199, "2 h")],
)
def test_durations_have_their_two_largest_units(seconds, text):
    assert format_duration(seconds) == text


def test_a_point_is_shown_with_its_value_and_noise():
    times = [1000 + 10 * (i % 3) for i in range(64)]
    shown = progress.point_text(record("stream", {"op": "triad"}, series(times, nbytes=10_000)))
    assert shown.startswith("stream op=triad: 9.9") and "GB/s +-" in shown
    few = progress.point_text(record("stream", {"op": "triad"}, series([1000], nbytes=10_000)))
    assert few.endswith("(too few samples for an interval)")
    assert progress.point_text(record("stream", {"op": "triad"}, status="failed")) == "stream op=triad: failed"
    assert progress.point_text(record("own", {"op": "\x1b[31mred"}, status="ok")) == "own op=?[31mred: ok"
    long = progress.point_text(record("chase", {"segments": "0:0:1:1;" * 99}, status="failed"))
    assert len(long) < 140 and long.endswith("…: failed")


class Clock:
    """A clock that is moved by hand, in the place of the time module."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(progress, "time", moved)
    return moved


def test_without_a_terminal_there_is_a_line_every_ten_seconds_and_one_a_benchmark(clock, capsys):
    with progress.progress(ProgressEstimate(TWO)) as shown:
        for n in range(10):
            clock.now += 3.0
            shown.show(record("stream", {"op": "copy", "n": n}, series([1000] * 64, nbytes=10_000), seconds=3.0))
        shown.show(record("dgemm", {"n": 64}, status="skipped"))
        shown.show(record("spmv", status="skipped", cause=Cause.BUDGET))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" measurements")[0] for line in lines[:2]] == ["4 of 20", "8 of 20"]
    assert lines[0].endswith("; stream op=copy n=3: 10.0 GB/s +-0.0%")
    assert lines[2:] == ["stream: 10 points, 30.0 s", "dgemm: 1 point, 0.0 s", "spmv: not measured, the time was spent"]


def test_a_closed_standard_error_ends_no_run(clock, monkeypatch):
    class Closed:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Closed())
    outlook = ProgressEstimate(TWO)
    with progress.progress(outlook) as shown:
        clock.now += 11.0
        shown.show(record("stream", {"op": "copy"}, status="failed"))
    assert outlook.at(12.0).done == 1  # it went on counting
