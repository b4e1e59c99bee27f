"""Reports over many runs: groups of one device, spreads over runs, and those that are drawn."""

from __future__ import annotations

import re
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import active_children

import pytest
from typer.testing import CliRunner

from clmembench.cli.program import app
from clmembench.report.many_runs import digests, fleet
from clmembench.report.page.page import render_html
from clmembench.report.page.text_pages import render_fleet_markdown
from clmembench.results import jsonl
from clmembench.results.jsonl import ResultsError, Writer
from tests.builders import STREAM, device, header, record, run, series
from tests.pages import without_own_script

COPY = {"op": "copy", "dtype": "double", "array_bytes": 1 << 30}


def stored(folder, number, ns=1000, name="Synthetic GPU", cards=None, **changes):
    """A run with copy's rate 1000 / ns TB/s."""
    cards = cards or {"stream": STREAM}
    head = header(
        device(name), cards=cards, run_id=f"RUN{number:023d}", started=f"2026-01-{1 + number % 28:02d}T00:00:00+00:00"
    )
    path = folder / f"{number}.jsonl"
    with Writer(path, head) as writer:
        for benchmark in cards:
            writer.write(replace(record(benchmark, COPY, series([ns, ns + 1] * 8, nbytes=1_000_000)), **changes))
    return path


@pytest.fixture
def many(tmp_path):
    """30 runs of one device and 4 of another; run 7 is slow, run 8 suspect."""
    paths = [stored(tmp_path, n, ns=2000 if n == 7 else 1000 + n % 3) for n in range(30) if n != 8]
    paths.append(stored(tmp_path, 8, status="suspect", gate="drift"))
    return [*paths, *(stored(tmp_path, 100 + n, name="Other GPU") for n in range(4))]


def test_runs_are_grouped_by_device_and_their_spread_is_told(many):
    groups = fleet.grouped(digests.digests(many, False, 1))
    assert [(g.label, len(g.runs)) for g in groups] == [("Synthetic GPU", 30), ("Other GPU", 4)]
    ((_, _, ours, other),) = fleet.points(groups, "stream").rows
    assert re.fullmatch(r"99\d\.\d GB/s \(99\d\.\d to 999\.\d in 29\), 1 suspect", ours.text)
    assert "(999.5 to 999.5 in 4)" in other.text
    assert "least: run RUN00000000000000000000007" in ours.detail


def test_a_digest_is_what_the_run_s_rows_say(tmp_path):
    one = digests.digest(stored(tmp_path, 1))
    ((key, unit, status, median),) = one.values
    assert key == ("stream", "op=copy dtype=double array_bytes=1 GiB", "bandwidth")
    assert (unit, status, median) == ("GB/s", "ok", pytest.approx(999.5, rel=1e-3))
    assert one.count == 1 and one.versions == {"stream": 1}


def test_the_latest_run_of_each_device_speaks_and_then_what_has_more_benchmarks(tmp_path):
    both = {"stream": STREAM, "other": replace(STREAM, summary="Other.")}
    paths = [stored(tmp_path, n) for n in (3, 9, 5)]
    paths += [stored(tmp_path, 2, cards={"other": both["other"]}), stored(tmp_path, 1, name="Other GPU")]
    groups = fleet.grouped(digests.digests(paths, False, 1))
    assert [path.name for path in fleet.representative_runs(groups)] == ["9.jsonl", "1.jsonl", "2.jsonl"]


def test_devices_with_many_kinds_of_runs_leave_room_for_others(tmp_path):
    cards = {f"b{n}": replace(STREAM, summary=f"{n}.") for n in range(2 * fleet.MAX_SHOWN_RUNS)}
    paths = [stored(tmp_path, n, cards={name: card}) for n, (name, card) in enumerate(cards.items())]
    paths.append(stored(tmp_path, 99, name="Other GPU"))
    found = fleet.representative_runs(fleet.grouped(digests.digests(paths, False, 1)))
    assert len(found) == fleet.MAX_SHOWN_RUNS and "99.jsonl" in [path.name for path in found]


def test_the_page_has_a_column_a_device_and_escapes_what_files_say(many, tmp_path):
    odd = stored(tmp_path, 200, name="<script>alert(1)</script>")
    groups = fleet.grouped(digests.digests([*many, odd], False, 1))
    runs = [jsonl.read(path) for path in fleet.representative_runs(groups)]
    page = render_html(runs, groups=groups)
    assert "35 runs of 3 devices" in page and "clmembench fleet import" in page
    assert "<script" not in without_own_script(page) and "&lt;script&gt;" in page
    assert 'id="fleet"' not in render_html(runs)
    text = render_fleet_markdown(groups)
    assert "| Synthetic GPU | 30 |" in text and "### stream" in text


def test_the_command_reports_many_by_several_processes_as_by_one(many, tmp_path):
    alone = [(d.run_id, d.values) for d in digests.digests(many, False, 1)]
    assert [(d.run_id, d.values) for d in digests.digests(many, False, 2)] == alone
    out = tmp_path / "report.html"
    assert CliRunner().invoke(app, ["report", *map(str, many), "-o", str(out)]).exit_code == 0
    assert "34 runs of 2 devices" in out.read_text(encoding="utf-8")


def test_a_file_that_is_none_ends_the_command(many, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(ResultsError, match="no results file"):
        list(digests.digests([*many, bad], False, 2))
    found = CliRunner().invoke(app, ["report", *map(str, many), str(bad)])
    assert found.exit_code == 2 and "no results file" in found.stderr


def test_up_to_that_many_runs_have_a_column_each(many):
    found = [run([record("stream", COPY, series([1000] * 8, nbytes=10**6))])] * 2
    assert "fleet" not in render_html(found)
    assert fleet.MAX_RUNS_WITH_COLUMNS >= 9, "the stored runs are shown side by side"


def test_runs_that_complete_each_other_are_no_fleet_and_repeated_ones_are(tmp_path):
    few = fleet.MAX_REPEATED_RUNS
    cards = [{f"b{n}": replace(STREAM, summary=f"{n}.")} for n in range(fleet.MAX_RUNS_WITH_COLUMNS + 3)]
    paths = [stored(tmp_path, n, cards=card) for n, card in enumerate(cards)]
    assert not fleet.is_fleet(fleet.grouped(digests.digests(paths, False, 1)))
    text = CliRunner().invoke(app, ["report", *map(str, paths), "-f", "md"]).output
    assert "15 runs of this device are shown as one" in text and "## 15 runs" not in text
    again = [stored(tmp_path, 100 + n) for n in range(few + 1)]
    assert not fleet.is_fleet(fleet.grouped(digests.digests(again[:-1], False, 1)))
    assert fleet.is_fleet(fleet.grouped(digests.digests(again, False, 1)))
    devices = [stored(tmp_path, 200 + n, name=f"GPU {n}") for n in range(fleet.MAX_RUNS_WITH_COLUMNS + 1)]
    assert fleet.is_fleet(fleet.grouped(digests.digests(devices, False, 1)))
    by_headers = [fleet.may_be_fleet(list(map(jsonl.read_header, of))) for of in (paths, again[:-1], again, devices)]
    assert by_headers == [False, False, True, True], "without reading the values of runs that are none"


def test_the_verdict_comes_before_the_spreads_of_a_fleet(many):
    text = CliRunner().invoke(app, ["report", *map(str, many), "-f", "md"]).output
    assert 0 <= text.index("### Devices compared") < text.index("## 34 runs")


def test_a_worker_that_dies_while_others_are_started_leaves_none_behind(monkeypatch, tmp_path):
    """As one that is killed before the last has its work: the pool does not know that one yet, and would wait for it."""

    class Broken(ProcessPoolExecutor):
        def submit(self, *args):
            super().submit(time.sleep, 600)
            raise BrokenProcessPool("a worker died")

    monkeypatch.setattr(digests, "ProcessPoolExecutor", Broken)
    before = set(active_children())
    with pytest.raises(digests.ReaderError, match="ended from outside"):
        list(digests.digests([tmp_path / "r.jsonl"], False, 2))
    assert set(active_children()) == before
