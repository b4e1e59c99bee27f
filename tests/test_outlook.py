"""How far a run is: counts, and times to go that follow what its points took."""

from __future__ import annotations

import pytest

from clmembench.cli import progress
from clmembench.cli.outlook import Expected, Outlook, Snapshot
from clmembench.units import format_duration
from tests.builders import record, series

TWO = (Expected("stream", 10, 10.0), Expected("dgemm", 10, 30.0))


def after(outlook: Outlook, benchmark: str, count: int, each_s: float, since_s: float = 0.0) -> Snapshot:
    """The outlook after so many records, each of which took so long."""
    for n in range(1, count + 1):
        found = outlook.add(benchmark, since_s + n * each_s)
    return found


def test_before_the_first_record_the_estimate_is_all_there_is():
    at = Outlook(TWO).at(0.0)
    assert (at.done, at.total, at.share) == (0, 20, 0.0) and at.left_s == pytest.approx(40.0)


def test_points_that_take_as_long_as_estimated_leave_the_rest_of_the_estimate():
    at = after(Outlook(TWO), "stream", 5, 1.0)
    assert (at.done, at.total) == (5, 20) and at.left_s == pytest.approx(35.0)


def test_points_that_take_longer_make_the_rest_longer():
    slow, plain = (after(Outlook(TWO), "stream", 5, each) for each in (4.0, 1.0))
    assert slow.left_s > 2 * plain.left_s
    assert after(Outlook(TWO), "stream", 10, 4.0).left_s == pytest.approx(30.0 * (5 + 40) / (5 + 10))


def test_a_curve_that_settles_early_leaves_fewer_points():
    outlook = Outlook(TWO)
    after(outlook, "stream", 4, 1.0)
    at = outlook.add("dgemm", 5.0)
    assert (at.done, at.total) == (5, 14)


def test_more_records_than_expected_are_no_share_above_one():
    at = after(Outlook(TWO[:1]), "stream", 15, 1.0)
    assert (at.done, at.total, at.share, at.left_s) == (15, 15, 1.0, 0.0)


def test_records_of_peers_count_for_the_benchmark_that_they_are_compared_with():
    outlook = Outlook(TWO, {"numpy_stream": "stream"})
    outlook.add("stream", 1.0)
    assert outlook.add("numpy_stream", 2.0).done == 2 and outlook.at(2.0).total == 20


def test_a_resumed_run_begins_where_the_interrupted_one_ended():
    at = Outlook(TWO, {"numpy_stream": "stream"}, known={"stream": 6, "numpy_stream": 2}).at(0.0)
    assert (at.done, at.total) == (8, 20) and at.left_s == pytest.approx(32.0)


def test_a_budget_bounds_the_time_to_go():
    assert Outlook(TWO, budget_s=15.0).at(5.0).left_s == pytest.approx(10.0)
    assert Outlook(TWO, budget_s=15.0).at(50.0).left_s == 0.0


def test_without_an_estimate_there_is_no_total():
    at = after(Outlook(), "chase", 3, 1.0)
    assert (at.done, at.total, at.left_s, at.share) == (3, None, None, None)
    assert progress.snapshot_text(at) == "3 points, 3 s"


def test_a_snapshot_in_words():
    assert progress.snapshot_text(Snapshot(14, 62, 31.0, 100.0)) == "14 of 62 points (23%), 31 s, about 1 min 40 s left"


@pytest.mark.parametrize(
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
    assert "of too few samples" in few
    assert progress.point_text(record("stream", {"op": "triad"}, status="failed")) == "stream op=triad: failed"
    assert progress.point_text(record("own", {"op": "\x1b[31mred"}, status="ok")) == "own op=?[31mred: ok"


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
    with progress.progress(Outlook(TWO)) as shown:
        for _ in range(10):
            clock.now += 3.0
            shown.show(record("stream", {"op": "copy"}, series([1000] * 64, nbytes=10_000), seconds=3.0))
        shown.show(record("dgemm", {"n": 64}, status="skipped"))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" points")[0] for line in lines[:2]] == ["4 of 20", "8 of 20"]
    assert lines[0].endswith("; stream op=copy: 10.0 GB/s +-0.0%")
    assert lines[2:] == ["stream: 10 points, 30.0 s", "dgemm: 1 point, 0.0 s"]


def test_a_closed_standard_error_ends_no_run(clock, monkeypatch):
    class Closed:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Closed())
    outlook = Outlook(TWO)
    with progress.progress(outlook) as shown:
        clock.now += 11.0
        shown.show(record("stream", {"op": "copy"}, status="failed"))
    assert outlook.at(12.0).done == 1  # it went on counting
