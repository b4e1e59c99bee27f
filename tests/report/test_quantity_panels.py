"""The panels of the key quantities: the order of devices, axes, marks, notes, published rows, and distributions of many."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from clmembench.report.figures.quantity_panels import MAX_ROWS, quantity_panels
from clmembench.report.frame import parts
from clmembench.report.page.page import render_html
from clmembench.report.scorecard.scorecard import verdict
from clmembench.results.imported import published_run
from clmembench.specs.sheets import published_sheets
from tests.builders import device, header, run
from tests.report.test_scorecard import CARDS, copy, launch, multiplied, of, published, triad


def panels_of(*runs, others=()):
    return quantity_panels(verdict(parts(runs), others=others), others)


def gpus(*rates, **changes):
    return [run([triad(rate, 1 << 30)], header(device(f"GPU {n}", **changes), CARDS)) for n, rate in enumerate(rates)]


def test_devices_have_one_order_by_the_first_quantity_and_marks_lie_on_the_axis():
    slow = of("cpu", triad(100.0, 1 << 30), launch(4_000), copy(10.0))
    fast = of("gpu", triad(4000.0, 1 << 30), launch(8_000))
    bandwidth, time, link = panels_of(slow, fast).panels
    assert [[row.name for row in panel.rows] for panel in (bandwidth, time, link)] == [["Fast GPU", "Slow CPU"]] * 3
    assert (bandwidth.caption, time.caption) == ("GB/s, higher is better, log scale", "us, lower is better")
    assert [(row.text, row.kind, row.mark) for row in bandwidth.rows] == [("4,000", "best", "★"), ("100", "value", "")]
    assert [row.text for row in time.rows] == ["8.00", "4.00"] and [row.text for row in link.rows] == ["–", "10.00"]
    assert 0 < bandwidth.rows[1].number < 5 < 95 < bandwidth.rows[0].number < 100
    assert [row.number for row in time.rows] == [100.0, 50.0] and time.ticks[0] == (0.0, "0")
    assert link.ticks == () and link.rows[1].number is None  # one number is compared with nothing


def test_what_is_not_compared_is_hollow_or_a_word_with_a_numbered_note():
    suspect = triad(9000.0, 1 << 30, status="suspect", gate="peak", reason="over the theoretical peak")
    bound = of("cpu", triad(100.0, 1 << 30), cache_bytes=512 << 20)
    newer = {**CARDS, "stream": replace(CARDS["stream"], version=2)}
    new = run([triad(50.0, 1 << 30, version=2)], header(device("New"), newer))
    known = panels_of(run([suspect], header(device("Odd"), CARDS)), bound, new)
    rows = {row.name: row for row in known.panels[0].rows}
    assert (rows["Odd"].text, rows["Odd"].kind, rows["Odd"].number) == ("suspect", "none", None)
    assert known.notes[rows["Odd"].note - 1] == "Suspect: over the theoretical peak."
    older = panels_of(*gpus(400.0), new, bound)
    by_name = {row.name: row for row in older.panels[0].rows}
    assert (by_name["GPU 0"].text, by_name["GPU 0"].kind) == ("400", "hollow") and by_name["GPU 0"].number > 0
    assert "older version" in older.notes[by_name["GPU 0"].note - 1]
    assert by_name["Slow CPU"].text == "≤ 100" or "older version" in older.notes[by_name["Slow CPU"].note - 1]
    assert {"○", "≥ ≤"} <= {mark for mark, _ in older.keys}


def test_one_device_is_shown_against_its_peak():
    h200 = device("NVIDIA H200", platform="NVIDIA CUDA", vendor="NVIDIA Corporation", compute_units=132)
    (bandwidth, time) = panels_of(run([triad(4368.0, 1 << 30), launch(12_900)], header(h200, CARDS))).panels
    assert bandwidth.ticks[-1] == (100.0, "peak 4,800") and bandwidth.rows[0].number == pytest.approx(91.0)
    assert time.ticks == ()


def test_published_devices_follow_hollow_some_folded_and_never_in_another_unit():
    others = [published_run(sheet) for sheet in published_sheets(["all"])]
    bandwidth, *_ = panels_of(*gpus(4000.0, 400.0), others=others).panels
    assert next((row.name, row.text, row.kind) for row in bandwidth.published) == ("Xeon Phi", "~160", "hollow")
    assert len(bandwidth.published) == 3 and len(bandwidth.folded) == 1
    phi = bandwidth.published[0]
    assert phi.low < phi.number < phi.high and "about 160 GB/s" in phi.title
    assert panels_of(*gpus(4000.0), others=[published("nvidia-gtx-980")]).panels[0].published == ()


def test_over_twelve_devices_are_a_distribution_with_the_best_the_median_and_the_worst():
    rates = [100.0 * 1.2**n for n in range(MAX_ROWS + 1)]
    (few,) = panels_of(*gpus(*rates[1:])).panels
    (many,) = panels_of(*gpus(*rates)).panels
    assert len(few.rows) == MAX_ROWS and few.dots == () and len(many.dots) == MAX_ROWS + 1
    assert [(row.mark, row.name) for row in many.rows] == [("best", "GPU 12"), ("median", "GPU 6"), ("worst", "GPU 0")]
    (bounds,) = panels_of(*gpus(*rates, cache_bytes=512 << 20)).panels
    assert len(bounds.dots) == MAX_ROWS + 1 and bounds.rows == () and {row.kind for row in bounds.dots} == {"hollow"}
    page = render_html(gpus(*rates))
    assert len(re.findall(r'<i class="dot (?:best|value)', page)) == MAX_ROWS + 1


def test_a_hostile_name_is_text_in_a_panel():
    page = render_html([run([triad(100.0, 1 << 30)], header(device("<script>x</script>"), CARDS)), *gpus(5.0)])
    assert "<script>x" not in page


def test_a_value_at_another_size_is_hollow_and_its_note_says_the_size():
    found = panels_of(multiplied("Big", 4096), multiplied("Small", 512))
    big, small = next(panel for panel in found.panels if panel.line == "DGEMM").rows
    assert (big.name, big.kind, small.name, small.kind) == ("Big", "value", "Small", "hollow")
    assert found.notes[small.note - 1] == "Measured up to n=512, the best value at n=4096."


def test_a_value_of_another_meaning_is_hollow_and_its_note_says_the_meaning():
    slow = of("cpu", triad(100.0, 1 << 30), copy(10.0), shares_host_memory=True)
    fast = of("gpu", triad(4000.0, 1 << 30), copy(8.0))
    found = panels_of(slow, fast)
    (link,) = (panel for panel in found.panels if panel.title.startswith("Host link"))
    gpu, cpu = link.rows
    assert (gpu.kind, gpu.note, cpu.kind) == ("value", 0, "hollow")
    assert found.notes[cpu.note - 1] == "Another quantity: a copy within the host's memory, over no link."
