"""What a terminal shows first: the end of a run, the opening of a comparison, and a report without a page."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from clmembench.model import Cause
from clmembench.report import frame, render, summary
from clmembench.report.device_runs import short_names
from clmembench.report.page import text_pages
from clmembench.report.scorecard import key_tables
from clmembench.report.scorecard.key_quantities import KEY_QUANTITIES
from clmembench.report.scorecard.scorecard import verdict
from clmembench.report.sections.time_table import lead_s, times_of
from clmembench.report.table import one_table
from clmembench.results import jsonl
from tests.builders import device, header, record, run, series
from tests.commands import ROOT

GPU, CPU = (jsonl.read(ROOT / "reports" / f"{name}-quick.jsonl.gz") for name in ("h100-sxm", "xeon-2-cores-pocl"))


def ending(found, width=100):
    sheet = frame.sheet_of(found)
    return summary.run_summary(*frame.judged_rows(found, sheet), sheet, width)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_long_run_ends_with_its_key_quantities_and_no_table(width):
    shown = ending(GPU, width)
    lines = render.text(shown.key, width=width).splitlines()
    assert max(map(len, lines)) <= width and not shown.tables.sections
    title = "NVIDIA H100 80GB HBM3, NVIDIA CUDA 580.159.04 · 63 points of 14 benchmarks in 19 s"
    assert " ".join(lines).startswith(title)
    rows = {quantity.title: next(line for line in lines if quantity.title in line) for quantity in KEY_QUANTITIES}
    assert len(rows) == 8 and rows["DGEMM"].endswith("90% matrix")
    bar = rows["DGEMM"].split()[-3]
    assert set(bar) == {"▇", "·"} and bar.count("▇") == round(0.900 * len(bar)) and len(bar) in key_tables.BAR_COLUMNS
    assert shown.lines[0] == "Every point has a value."


def interval_of(table, title):
    row = next(row for row in table.rows if title in str(row[0]))
    return tuple(float(end.replace(",", "")) for end in str(row[2]).split(" to "))


@pytest.mark.parametrize(("of", "title"), [(CPU, "DGEMM"), (CPU, "SpMV"), (GPU, "DGEMM")])
def test_the_interval_of_a_key_quantity_is_that_of_a_further_run(of, title):
    """One process's own interval holds what repeats within it, and not the value of the next run."""
    judged, rows = frame.judged_rows(of, frame.sheet_of(of))
    table = summary.key_table(judged, rows, frame.sheet_of(of), 100)
    own = key_tables.run_table(verdict(frame.parts([of])), 100)
    assert table.header[2] == summary.NEXT_RUN and summary.NEXT_RUN_NOTE in table.notes
    low, high = interval_of(table, title)
    assert low < interval_of(own, title)[0] and interval_of(own, title)[1] < high
    if of is CPU:  # which shares its host: other runs of its day had 78.2 and 92.5 GFLOP/s, 3.97 and 4.43
        assert low < {"DGEMM": 78.2, "SpMV": 3.97}[title]
        assert str(table.rows[0][2]) == ""  # triad is a bound
    peaks = [row.peak.value for row in rows if row.value.benchmark == title.lower() and row.peak]
    assert high <= 1.001 * max(peaks, default=math.inf)


def test_a_report_of_one_run_has_the_same_key_quantities():
    assert summary.NEXT_RUN in text_pages.render_text([CPU]) and "95% interval" not in text_pages.render_text([CPU])
    assert summary.NEXT_RUN not in text_pages.render_text([CPU, GPU])


def test_a_bar_is_in_colour_on_a_terminal_alone():
    shown = ending(GPU).key
    assert "\x1b[36m▇" in render.text(shown, bold=True) and "\x1b" not in render.text(shown)


def test_what_a_value_is_not_stands_below_the_key_quantities_and_lasting_conditions_in_one_line():
    unknown = replace(CPU, header=replace(CPU.header, device=replace(CPU.header.device, name="a CPU", cpu_id="")))
    shown = ending(unknown)
    text = render.text(shown.key, width=100)
    assert "≤ 37.1 GB/s [1]" in text and "a cache may hold part of it" in text and "of peak" not in text
    state, notes = shown.lines
    assert state == "Without a value: 5 suspect (pchase, barrier), 1 undetermined (barrier)"
    assert notes.startswith("Notes: ") and notes.endswith("a virtual machine; no spec sheet; intervals are from one process")


def test_a_short_run_shows_its_tables_and_why_a_point_broke():
    broken = record("stream", {"op": "dot"}, status="wrong", reason="3 is not 4")
    shown = ending(run([record("stream", {"op": "copy"}, series([100] * 8, nbytes=1000)), broken]))
    assert [table.title for table in shown.tables.sections] == ["Bandwidth of global memory."] and not shown.key.sections
    assert shown.lines[0] == "Without a value: 1 wrong (stream op=dot: 3 is not 4)"


def test_the_time_of_an_interrupted_run_is_that_of_its_parts():
    times = ("2026-01-01T00:00:05+00:00", "2026-01-01T00:00:10.500+00:00", "2026-01-03T00:00:00+00:00")
    points = [
        record("stream", {"op": op}, series([100] * 8, nbytes=1000), started=at, seconds=2.0)
        for op, at in zip(("copy", "add", "dot"), times, strict=True)
    ]
    found = run(points, replace(header(), started="2026-01-01T00:00:00+00:00"))
    assert ending(found).key.heading.endswith(" 3 points of 1 benchmark in 14 s")  # 5 + 2 + 3.5 + 2 + 2
    assert "point" in (heading := ending(run([replace(points[0], started="")])).key.heading) and " in " not in heading


def scorecard(*runs):
    return verdict(frame.parts(runs, [f"device {n}" for n in range(len(runs))]))


def test_a_pair_has_the_ratios_that_the_report_decides_and_why_others_are_not_compared():
    table = key_tables.pair_table(scorecard(GPU, CPU), ("first", "second"))
    rows = {str(row[0]): [str(cell) for cell in row] for row in table.rows}
    assert len(rows) == 8
    assert (rows["Launch, round trip"][3].split()[0], rows["Launch, round trip"][4].split()[0]) == ("3.334", "slower")
    assert rows["One atomic add"][3] == "" and rows["One atomic add"][4].startswith("–")  # another quantity on a CPU
    assert rows["SpMV reservoir"][4].split()[0] == "slower"
    cards = CPU.header.benchmarks
    older = replace(CPU.header, benchmarks={**cards, "spmv": replace(cards["spmv"], version=cards["spmv"].version - 1)})
    records = tuple(replace(r, version=r.version - (r.benchmark == "spmv")) for r in CPU.records)
    table = key_tables.pair_table(scorecard(GPU, replace(CPU, header=older, records=records)), ("first", "second"))
    rows = {str(row[0]): [str(cell) for cell in row] for row in table.rows}
    assert rows["SpMV reservoir"][3] == "" and rows["SpMV reservoir"][4].startswith("–")  # another version
    text = render.text(one_table(table), width=100)
    assert max(map(len, text.splitlines())) <= 100
    assert "not compared: measured by another version" in text


def test_a_comparison_opens_with_what_both_runs_measured_under_names_that_differ():
    def opening(first, second):
        return "\n".join(key_tables.pair_opening(first, second, 0.05, 100, False))

    two = opening(GPU, CPU)
    assert two.startswith("  Memory-bound code: ") and "H100" in two and "Xeon 2c" in two and "DGEMM" in two
    again = replace(CPU, records=tuple(r for r in CPU.records if r.benchmark == "launch"))
    one = opening(CPU, again)
    assert "first run  second run" in one and "Launch, round trip" in one and "DGEMM" not in one
    assert opening(CPU, CPU) == opening(CPU, replace(CPU, records=())) == ""


def test_a_report_on_a_terminal_shows_as_many_devices_as_fit():
    found = scorecard(*[replace(run, path=f"{n}.jsonl") for n, run in enumerate([GPU] * 11 + [CPU])])
    names = short_names(found.labels)
    table = key_tables.devices_table(found, names, 100)
    lines = render.text(one_table(table), width=100).splitlines()
    assert max(map(len, lines)) <= 100 and len(table.rows) == 8
    assert [str(cell).rstrip("*") for cell in table.rows[1][:3]] == ["DGEMM", "GFLOP/s", "59,963"]
    assert f"note: {12 - (len(table.columns) - 2)} more devices in the whole report" in "\n".join(lines)
    assert len(key_tables.devices_table(found, names, 40).columns) == 3
    assert "≤ 37.1" in render.text(one_table(key_tables.devices_table(found, names, 300)))


def test_a_report_as_text_has_answers_and_a_table_or_says_that_there_is_none():
    text = text_pages.render_text([GPU], width=100)
    assert "Memory-bound code: H100 reaches 3,046 GB/s" in text and "90% matrix" in text
    odd = run([record("stream", {"op": "copy"}, series([100] * 8, nbytes=1000))], header(device("a\x1b[31m\nb")))
    text = text_pages.render_text([odd, GPU], width=100)
    assert "\x1b" not in text and "2 devices" not in text and "H100" in text
    assert text_pages.render_text([odd]).endswith("No key quantity was measured.")


def test_devices_none_of_which_has_a_value_of_a_key_quantity_are_shown_with_its_unit_and_bounds():
    intel = jsonl.read(ROOT / "reports" / "xeon-2-cores-intel-quick.jsonl.gz")  # of both the array fits into the claimed cache
    text = text_pages.render_text([CPU, intel], width=100)
    assert any(
        line.split()[:4] == ["Memory", "bandwidth,", "triad", "GB/s"] and line.count("≤") == 2 for line in text.splitlines()
    )
    suspect = [replace(of, records=tuple(replace(r, status="suspect") for r in of.records)) for of in (CPU, intel)]
    rows = [line.split() for line in text_pages.render_text(suspect, width=100).splitlines()]
    assert any(row[:2] == ["DGEMM", "GFLOP/s"] and row.count("–") == 2 for row in rows)


def test_the_time_of_a_run_is_that_of_its_parts_by_benchmark():
    """Of two processes: the first starts in 1 s, and its second point ends 0.5 s before the next process begins to start."""
    points = (("a", 10.0, 2.0, {"start": 1.0, "build": 0.5, "check": 0.25, "sample": 1.0}), ("a", 12.0, 1.0, {"sample": 1.0}))
    records = [
        record(name, {"n": n}, started=f"2024-01-01T00:00:{at:02.0f}+00:00", seconds=took, parts_s=parts)
        for n, (name, at, took, parts) in enumerate((*points, ("b", 15.0, 3.0, {"start": 1.5, "repeat": 0.25})))
    ]
    b, a, whole = times_of([*reversed(records), record("b", {}, cause=Cause.BUDGET)])
    assert (a.points, a.total_s, a.other_s) == (2, 4.0, 0.25)
    assert (b.points, b.between_s, b.total_s) == (1, 0.25, 5.0)
    assert (whole.total_s, len(whole.processes)) == (a.total_s + b.total_s, 2)
    whole_run = run(records)
    *_, before, whole = times_of(records, lead_s(whole_run))
    assert (lead_s(whole_run), before.total_s, whole.total_s) == (9.0, 9.0, a.total_s + b.total_s + 9.0)
    assert lead_s(replace(whole_run, records=())) == 0.0
