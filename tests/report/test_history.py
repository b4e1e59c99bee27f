"""Runs of a device over time: change points by their error rates, what is not ok, driver changes, formats and the figure."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

from clmembench.analysis.noise import MIN_RUNS, change_points
from clmembench.cli.program import app
from clmembench.report.many_runs import history_tables
from clmembench.report.many_runs.history import histories
from clmembench.report.render import aligned
from clmembench.report.table import Table
from tests.builders import STREAM, device, header, run, write_run
from tests.report.test_schemas import made, problems  # noqa: F401 - a fixture
from tests.report.test_scorecard import triad

# not imported here, which takes a second in every process that collects tests
pytestmark = pytest.mark.skipif(not find_spec("ruptures"), reason="pip install 'clmembench[history]'")
SERIES = 1000


def neighbours_alike(random, runs):
    """Noise of which each value has 0.3 of the one before."""
    found = random.normal(size=runs + 20)
    for place in range(1, len(found)):
        found[place] += 0.3 * found[place - 1]
    return found[20:]


NOISE = {
    "normal": (lambda random, runs: random.normal(size=runs), 0.01),
    "heavy tails": (lambda random, runs: random.standard_t(3, size=runs), 0.01),
    "neighbours alike": (neighbours_alike, 0.04),
}


def test_noise_alone_has_hardly_any_change_point():
    random, rates = np.random.default_rng(7), {}
    for name, (noise, most) in NOISE.items():
        for runs in (MIN_RUNS, 20, 60):
            false = sum(bool(change_points(np.exp(0.02 * noise(random, runs)))) for _ in range(SERIES)) / SERIES
            if false > most:
                rates[name, runs] = false
    assert rates == {}


def test_a_step_is_found_where_it_is_with_a_ratio_that_holds_it():
    random, low = np.random.default_rng(8), {}
    for runs, deviations, least in ((MIN_RUNS, 8, 0.95), (12, 5, 0.9), (24, 4, 0.95), (60, 3, 0.85)):
        found = held = 0
        for _ in range(SERIES // 4):
            logs = 0.02 * random.normal(size=runs) - 0.02 * deviations * (np.arange(runs) >= runs // 2)
            points = [point for point in change_points(np.exp(logs)) if abs(point.index - runs // 2) <= 1]
            found += bool(points)
            held += bool(points) and points[0].ratio.low <= np.exp(-0.02 * deviations) <= points[0].ratio.high
        if found < least * SERIES // 4 or held < 0.9 * found:
            low[runs, deviations] = found, held
    assert low == {}


def test_few_runs_and_equal_values_have_none_and_a_step_without_noise_is_one():
    assert change_points([1.0] * 4 + [2.0] * 5) == [] and change_points([3.0] * 30) == []
    (point,) = change_points([2.0] * 6 + [1.0] * 6)
    assert point.index == 6 and point.ratio.value == pytest.approx(0.5)
    with pytest.raises(ValueError, match="above 0"):
        change_points([1.0, 0.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """14 runs of a GPU, by 7% slower from the ninth on, which has another driver; the third is suspect; and a foreign file."""
    path, random = tmp_path_factory.mktemp("history"), np.random.default_rng(9)
    for number in range(14):
        info = device("Card", driver="1.0" if number < 8 else "2.0", uuid="same")
        head = header(info, {"stream": STREAM}, run_id=f"01J{number:023d}", started=f"2026-01-{number + 1:02d}T08:00:00+00:00")
        gb_s = 1000 * (1 if number < 8 else 0.93) * (1 + 0.002 * random.normal())
        doubt = {"status": "suspect", "gate": "peak", "reason": "too fast"} if number == 2 else {}
        write_run(path / f"run{13 - number}.jsonl", [triad(gb_s, 1 << 30, **doubt)], head)
    (path / "other.jsonl").write_text('{"a": 1}\n')
    return path


def test_a_change_is_named_with_its_run_ratio_and_driver(folder, made):  # noqa: F811
    done = CliRunner().invoke(app, ["history", str(folder), "--json"])
    assert done.exit_code == 0 and "left out" in done.stderr and "other.jsonl" in done.stderr
    told = json.loads(done.stdout)
    assert problems(made["history"], told) == []
    (quantity,) = told[0]["quantities"]
    (change,) = quantity["change_points"]
    assert change["run"] == 9 and change["changed"] == "driver 1.0 -> 2.0" and change["low"] < 0.93 < change["high"]
    values = quantity["values"]
    assert [one["run"] for one in values] == list(range(1, 15)) and values[2]["status"] == "suspect" and not values[2]["value"]
    text = CliRunner().invoke(app, ["history", str(folder)]).stdout
    assert "from run 9 on (2026-01-09): x 0.9" in text and "with driver 1.0 -> 2.0" in text
    lines = CliRunner().invoke(app, ["history", str(folder), "--csv"]).stdout.splitlines()
    assert len(lines) == 15 and [line.endswith("True") for line in lines].index(True) == 9
    every = json.loads(CliRunner().invoke(app, ["history", str(folder), "-b", "str*", "--json"]).stdout)[0]["quantities"]
    assert [(one["group"], one["quantity"]) for one in every] == [("stream", "bandwidth")] and len(every[0]["values"]) == 14


def test_what_other_programs_took_from_a_cpu_is_no_change_point():
    def history(others):
        runs = []
        for number in range(16):
            busy = number in (6, 7, 8, 9)
            head = header(
                device("CPU", kind="cpu"), {"stream": STREAM}, run_id=f"01J{number:023d}", started=f"2026-01-{number + 1:02d}"
            )
            point = triad(
                100.0 * (0.5 if busy else 1.0) * (1 + 0.001 * (number % 3)), 1 << 30, cpu_others=others if busy else 0.0
            )
            runs.append(run([point], head))
        (found,) = histories(runs)
        return found

    quiet, busy = history(0.0), history(0.6)
    assert [c.run for c in quiet.quantities[0].change_points] == [7, 11]
    assert busy.quantities[0].change_points == () and len(busy.quantities[0].good()) == 16
    assert any(note.startswith("4 values measured while other programs used the CPU") for note in busy.notes)


def test_too_few_runs_and_a_missing_library_are_said_and_no_change_is_claimed(folder, monkeypatch):
    few = CliRunner().invoke(app, ["history", *(str(folder / f"run{n}.jsonl") for n in range(6))])
    assert few.exit_code == 0 and "not looked for" in few.stdout and "a change point needs 10 runs" in few.stdout
    monkeypatch.setitem(sys.modules, "ruptures", None)
    done = CliRunner().invoke(app, ["history", str(folder)])
    assert done.exit_code == 0 and "pip install 'clmembench[history]'" in done.stderr and "from run" not in done.stdout


def test_the_figure_and_what_is_refused(folder, tmp_path):
    out = tmp_path / "h.png"
    done = CliRunner().invoke(app, ["history", str(folder), "--figure", str(out)])
    assert done.exit_code == 0 and out.read_bytes().startswith(b"\x89PNG")
    other = tmp_path / "b.jsonl"
    write_run(other, [triad(1.0, 1 << 30)], header(device("Other"), {"stream": STREAM}, run_id="01B"))
    for words, said in (
        ([str(folder), str(other), "--figure", str(tmp_path / "x.svg")], "these runs are of 2: Other, Card"),
        ([str(other), "--figure", str(tmp_path / "x.svg")], "nothing to draw"),
        ([str(folder), "--figure", str(tmp_path / "x.txt")], "ends with .png, .svg, .pdf"),
        ([str(tmp_path / "none.jsonl")], "cannot read"),
        ([str(folder / "other.jsonl")], "no results file of clmembench"),
    ):
        done = CliRunner().invoke(app, ["history", *words])
        assert done.exit_code == 2 and said in done.stderr, (words, done.stderr)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert CliRunner().invoke(app, ["history", str(empty)]).exit_code == 2


def test_long_names_of_quantities_leave_columns_aligned():
    rows = tuple((name, "", "2", "1 ns", "2 ns", "1 to 2 ns", "1 to 2 ns", "none") for name in ("a", 60 * "b"))
    header, *lines = aligned(Table("", history_tables.COLUMNS, rows))
    assert {one.index("1 ns") for one in lines} == {header.index("first") + 1}
