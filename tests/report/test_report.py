import csv
import io
import json
import re
import unicodedata
from dataclasses import asdict, replace

import numpy as np
import pytest

from clmembench import sanitize
from clmembench.analysis import plateaus
from clmembench.model import CHASE_BENCHMARK as CHASE_NAME
from clmembench.model import BenchmarkInfo, CacheLevel, Finding, Hierarchy, Metric, Placement, TlbLevel
from clmembench.report import render, summary
from clmembench.report.figures import curves, style
from clmembench.report.finding_tables import entries
from clmembench.report.frame import parts, point_fields, point_values, rows
from clmembench.report.page.page import render_html
from clmembench.report.page.text_pages import render_markdown
from clmembench.report.run_warnings import warnings
from clmembench.report.sections import level_table
from clmembench.report.summary import sections
from clmembench.report.table import one_table as only
from clmembench.report.views import point_table
from clmembench.results.imported import published_run
from clmembench.specs.sheets import Figure, Match, Published, SpecSheet
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.views.section import HierarchyFindings
from tests import found_hierarchies as hierarchies
from tests.builders import BANDWIDTH, CHASE, COST, STREAM, clock, device, found_of, header, record, run, series, slope
from tests.cases import each
from tests.commands import ROOT
from tests.pages import Page, assert_harmless

KIB, MIB = 1 << 10, 1 << 20
SHEET = SpecSheet("Test sheet", "gpu", Match(), {"memory_bandwidth_gb_s": Figure(100.0, "GB/s", "the data sheet")})

SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    SCRIPT,
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "a|b",
    "back\\slash\\|pipe",
    "\x1b[31mred\x07\x00\r\n\tend",
    "\u202eright to left\u202c\u2066isolate\u2069",
    "=1+cmd|' /C calc'!A0",
    "[click](javascript:alert(1)) ![x](http://evil.example)",
    "{{ 7 * 7 }} {% raw %}",
    "$\\frac{1}{$ and $x$",
    "]]> &amp; &#60;script&#62;",
]


def bandwidth(params, gb_s=50.0, nbytes=1_000_000, benchmark="stream", **changes):
    return record(benchmark, params, series([round(nbytes / gb_s)] * 8, nbytes=nbytes), **changes)


def staircase(fast_ns=2.0, slow_ns=100.0):
    """A cache of 64 KiB before memory, 4 KiB to 2 GiB, two points an octave."""
    sizes = [int(4 * KIB * 2 ** (i / 2)) // KIB * KIB for i in range(39)]
    return [slope({"array_bytes": s}, [fast_ns if s <= 64 * KIB else slow_ns] * 8, core_clock=clock(2.0)) for s in sizes]


def ordinary(name="Device A", gb_s=50.0):
    points = [
        bandwidth({"op": op, "array_bytes": size}, gb_s) for op in ("copy", "triad") for size in (MIB, 4 * MIB, 256 * MIB)
    ]
    skipped = record("stream", {"op": "dot", "array_bytes": 256 * MIB}, status="skipped", reason="device has no fp64")
    head = header(device(name), {"stream": STREAM, "pchase": CHASE})
    return run([*points, skipped, *staircase()], head)


def hostile(evil):
    """Every text that a file or a driver can hold, replaced."""
    metric = replace(BANDWIDTH, name=evil, unit=evil, peak=None)
    card = BenchmarkInfo(1, evil, evil, evil, (metric,), x=evil)
    names = {"plain": replace(STREAM, summary=evil, source=evil), evil: card}
    info = device(evil, platform=evil, driver=evil, vendor=evil)
    head = header(info, names, suite=evil, tool_version=evil, run_id=evil, started=evil, host={"cpu": evil})
    points = [
        bandwidth({"op": evil}, benchmark="plain", notes=(evil,)),
        bandwidth({evil: evil}, benchmark=evil),
        record("plain", {"op": "none"}, status="failed", reason=evil, log=evil),
        record(evil, {"op": 1}, status="wrong", reason=evil),
    ]
    return run(points, head, notes=(evil,), path=evil)


def markdown_columns(line):
    return len(re.split(r"(?<!\\)(?:\\\\)*\|", line.strip())) - 2


def assert_tables_are_rectangular(markdown):
    width = None
    for line in markdown.split("\n"):
        width = (width or markdown_columns(line)) if line.startswith("|") else None
        assert width is None or markdown_columns(line) == width, line


# ---- rows, and the forms they take --------------------------------------------------------------------------------------


def test_a_row_has_its_value_and_share_of_the_peak():
    (row,) = rows(run([bandwidth({"op": "copy"}, 50.0)]), SHEET)
    assert (row.status, row.value.median, row.peak.value, row.fraction) == ("ok", 50.0, 100.0, 0.5)
    (bare,) = rows(run([bandwidth({"op": "copy"}, 50.0)]), None)
    assert (bare.peak, bare.fraction) == (None, None)


@pytest.mark.parametrize(("gb_s", "status"), [(100.0, "ok"), (101.9, "ok"), (102.1, "suspect"), (5000.0, "suspect")])
def test_a_value_over_the_theoretical_peak_is_suspect(gb_s, status):
    (row,) = rows(run([bandwidth({"op": "copy"}, gb_s, nbytes=10**9)]), SHEET)
    assert row.status == status
    assert ("theoretical peak of 100: the data sheet" in row.reason) == (status == "suspect")


def test_a_suspect_value_is_not_shown_as_a_result():
    odd = run(
        [bandwidth({"op": "copy", "array_bytes": 256 * MIB}, 4000.0, nbytes=10**9)], header(device("NVIDIA H100 80GB HBM3"))
    )
    table = rows(odd, parts([odd])[0].sheet)
    assert [row.status for row in table] == ["suspect"]
    (section,) = sections(odd, table)
    assert str(section.rows[0][1]) == "suspect [1]"
    assert section.notes[0].startswith("[1] ") and "over the theoretical peak" in section.notes[0]
    assert any("1 point is suspect" in warning for warning in warnings(odd, table, SHEET))
    (shown,) = [line for line in render.markdown(only(point_table(table))).split("\n") if "op=copy" in line]
    cells = [cell.strip() for cell in shown.strip("|").split("|")]
    assert not re.search(r"\d", cells[3] + cells[4] + cells[5]), "value, interval and share of a suspect row"
    assert not re.search(r"4,000 GB/s|119\.\d%", render_html([odd]))
    assert not re.search(r"4,000 GB/s|119\.\d%", render_markdown([odd]))
    assert point_values(table)[0].status == "suspect"


def test_json_holds_every_row_as_it_is():
    table = rows(ordinary(), SHEET)
    back = json.loads(render.json_text(point_values(table)))
    assert back == [json.loads(json.dumps(asdict(point))) for point in point_values(table)]
    assert len(back) == 7 + 39
    assert back[0]["median"] == pytest.approx(50.0) and back[0]["fraction_of_peak"] == pytest.approx(0.5)
    assert [(r["status"], r["reason"], r["median"]) for r in back if r["status"] != "ok"] == [
        ("skipped", "device has no fp64", None)
    ]


def test_csv_has_one_line_a_row_and_a_column_for_each_parameter():
    tuned = header(cards={"stream": replace(STREAM, tuning=("wg",)), "pchase": CHASE})
    found = run([bandwidth({"op": "copy", "wg": 64}), slope({"array_bytes": 4096}, [2.0] * 8)], tuned)
    back = list(csv.DictReader(io.StringIO(render.csv_text(point_fields(rows(found, None))))))
    assert [(r["benchmark"], r["param.op"], r["tuning.wg"], r["param.array_bytes"]) for r in back] == [
        ("stream", "copy", "64", ""),
        ("pchase", "", "", "4096"),
    ]
    assert float(back[0]["median"]) == pytest.approx(50.0)


@each("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_a_csv_is_a_formula(start):
    evil = start + "cmd|' /C calc'!A0"
    for line in csv.reader(io.StringIO(render.csv_text(point_fields(rows(hostile(evil), None))), newline="")):
        assert [cell for cell in line if cell[:1] in ("=", "+", "-", "@", "\t", "\r")] == []


@each("evil", HOSTILE)
def test_csv_and_json_keep_their_shape_with_hostile_names(evil):
    table = rows(hostile(evil), None)
    head, *lines = csv.reader(io.StringIO(render.csv_text(point_fields(table)), newline=""))
    assert [len(line) for line in lines] == [len(head)] * len(table)
    assert [row["benchmark"] for row in json.loads(render.json_text(point_values(table)))] == ["plain", "plain", evil, evil]


def test_nothing_makes_an_empty_report_and_no_error():
    empty = run([], header(cards={}))
    assert rows(empty, None) == [] and sections(empty, []) == []
    assert json.loads(render.json_text(point_values([]))) == []
    assert len(render.markdown(only(point_table([]))).split("\n")) == 2
    assert "<html" in render_html([empty]) and render.csv_text(point_fields([])).strip() == ""
    assert "Synthetic GPU" in render.text(summary.summary_document(empty, [], None))


# ---- summary and text ---------------------------------------------------------------------------------------------------


def test_a_section_shows_the_largest_size_and_every_row_fills_its_header():
    found = ordinary()
    stream, chase = sections(found, rows(found, SHEET))
    assert "256 MiB" in stream.title
    assert [(r[0], str(r[1])) for r in stream.rows] == [("copy", "50.0 GB/s"), ("triad", "50.0 GB/s"), ("dot", "skipped [1]")]
    for section in (stream, chase):
        assert {len(row) for row in section.rows} == {len(section.header)}


def test_levels_are_named_only_as_far_as_they_are_known():
    found = ordinary()
    _, chase = sections(found, rows(found, SHEET))
    assert [(r[1], r[3], r[4]) for r in chase.rows] == [("L1", "4.00", "2.00 ns"), ("memory", "200", "100 ns")]
    assert chase.rows[0][2] == "64 KiB to 90 KiB"
    cut = run([r for r in staircase() if r.params["array_bytes"] <= MIB], found.header)
    (unsettled,) = sections(cut, rows(cut, SHEET))
    assert [r[1] for r in unsettled.rows] == ["L1", "plateau 2", "largest set"]
    assert any("not settled" in note for note in unsettled.notes)


def spaced(line_bytes, spacing=256):
    """A curve that ends at 64 KiB of the array, with nodes further apart than a line."""
    points = [replace(r, params={"spacing_bytes": spacing, **r.params}) for r in staircase()]
    return run(points, header(device(line_bytes=line_bytes), {"pchase": CHASE}))


def test_a_level_ends_with_the_bytes_of_lines_that_are_touched_and_the_extent_of_the_array_stands_beside():
    found = spaced(128)
    (section,) = sections(found, rows(found, None))
    assert section.header[2:4] == ("ends with lines of", "in an array of")
    assert section.rows[0][1:4] == ("L1", "32 KiB to 45 KiB", "64 KiB to 90 KiB")
    assert any("one line, of 128 B as the device reports" in note for note in section.notes)


def test_where_no_line_is_reported_the_bytes_held_are_said_to_be_unknown():
    for line_bytes in (0, 100):
        found = spaced(line_bytes)
        (section,) = sections(found, rows(found, None))
        assert section.rows[0][1:4] == ("L1", "line not known", "64 KiB to 90 KiB")
        assert any("reports no line" in note for note in section.notes)


@pytest.mark.parametrize(("line_bytes", "spacing"), [(64, "line"), (64, 64), (128, 64), (0, "line")])
def test_an_array_whose_every_line_is_touched_has_one_extent(line_bytes, spacing):
    found = spaced(line_bytes, spacing)
    (section,) = sections(found, rows(found, None))
    assert section.header[2] == "ends with lines of" and section.rows[0][2] == "64 KiB to 90 KiB"


def test_the_docs_explain_the_words_of_the_latency_table():
    reading = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    (section,) = sections(found := spaced(64, 256), rows(found, None))
    headings = [heading for heading in section.header if heading.startswith(("ends", "in an"))]
    assert len(headings) == 2 and all(f"`{heading}`" in reading for heading in headings)


@pytest.mark.parametrize(
    ("next_bytes", "overlap"),
    [((8, 40, None), ""), ((20, 40, None), "L1 and plateau 2"), ((8, None, None), "plateau 2 and memory")],
)
def test_levels_whose_ends_overlap_are_explained(next_bytes, overlap):
    firsts, lasts = (1, 8, 40), (7, 19, 80)
    found = [
        plateaus.Plateau(ns, ns, ns, None, first, last, over)
        for ns, first, last, over in zip((1.0, 5.0, 9.0), firsts, lasts, next_bytes, strict=True)
    ]
    notes = level_table._overlaps("spacing_bytes=line", list(zip(("L1", "plateau 2", "memory"), found, strict=True)))
    assert len(notes) == bool(overlap)
    assert all(f"the ends of {overlap} overlap" in note for note in notes)


@pytest.mark.parametrize("status", ["suspect", "failed", "wrong", "timeout"])
def test_a_reason_widens_no_column_and_stands_below_the_table(status):
    reason = "so many words that they would take all the other rows' numbers off the page, were they a cell of it"
    bad = [replace(bandwidth({"op": op}), status=status, reason=reason) for op in ("add", "dot")]
    found = run([bandwidth({"op": "copy"}), *bad])
    (section,) = sections(found, rows(found, None))
    assert not any(reason in str(cell) for row in section.rows for cell in row)
    assert [str(row[1]) for row in section.rows[1:]] == [f"{status} [1]"] * 2
    assert section.notes[0] == f"[1] {reason}"
    lines = render.text(summary.summary_document(found, rows(found, None), None)).split("\n")
    table = [line for line in lines if line.split()[:1] in (["copy"], ["add"], ["dot"])]
    assert max(map(len, table)) < 80
    assert reason in " ".join(Page(render_html([found])).words)


def test_the_reason_of_a_place_without_a_value_stands_below_the_table():
    found = study()
    slow = replace(found.records[1], status="failed", reason="a long story " * 10, series=())
    _, scaling = sections(changed := replace(found, records=(found.records[0], slow, *found.records[2:])), rows(changed, None))
    assert str(scaling.rows[0][2]) == "failed [1]" and "a long story" in scaling.notes[0]


def test_warnings_say_what_to_do():
    shaky = replace(clock(2.0), after_ns=1.1 * clock(2.0).after_ns)
    noisy = series([100, 200, 300, 400, 500, 600, 700, 800], nbytes=10**4)
    found = run(
        [
            record("stream", {"op": "copy"}, noisy, core_clock=shaky),
            record("stream", {"op": "add"}, status="failed", reason="it crashed"),
            record("stream", {"op": "dot"}, status="wrong", reason="3 is not 4"),
            record("stream", {"op": "read"}, status="timeout", reason="120 s"),
        ],
        notes=("r.jsonl:7: the last line is torn and was dropped",),
    )
    told = warnings(found, rows(found, None), None)
    for phrase in (
        "torn",
        "it crashed",
        "3 is not 4",
        "--timeout",
        "the core clock drifted by over",
        "wider than",
        "add one to platforms/",
        "--processes",
    ):
        assert sum(phrase in warning for warning in told) == 1, phrase
    assert told[-1].startswith("the whole run: ") and "no spec sheet" in told[-1] and "one process" in told[-1]


def test_text_is_aligned_and_plain():
    found = ordinary()
    shown = render.text(summary.summary_document(found, rows(found, SHEET), SHEET))
    assert "\x1b" not in shown and "peaks of Test sheet" in shown
    assert "\x1b[1m" in render.text(summary.summary_document(found, rows(found, SHEET), SHEET), bold=True)
    copy, triad = (line for line in shown.split("\n") if line.split()[:1] in (["copy"], ["triad"]))
    assert copy.index("50.0 GB/s") == triad.index("50.0 GB/s")


@each("evil", HOSTILE)
def test_hostile_names_cannot_steer_a_terminal(evil):
    found = hostile(evil)
    shown = render.text(summary.summary_document(found, rows(found, None), None))
    assert [c for c in shown if c != "\n" and not c.isprintable()] == []


# ---- Markdown -----------------------------------------------------------------------------------------------------------


@each("evil", HOSTILE)
def test_markdown_tables_keep_their_columns(evil):
    found = hostile(evil)
    table = rows(found, None)
    assert len(render.markdown(only(point_table(table))).split("\n")) == 2 + len(table)
    assert_tables_are_rectangular(render.markdown(only(point_table(table))))
    assert_tables_are_rectangular(render.markdown(summary.summary_document(found, table, None)))
    assert_tables_are_rectangular(render_markdown([found, ordinary()]))


@each("evil", HOSTILE)
def test_markdown_has_no_live_markup_from_names(evil):
    shown = render_markdown([hostile(evil)])
    assert re.findall(r"(?<!\\)<[a-z/]", shown) == []
    assert re.findall(r"(?<!\\)\[[^\]]*\]\(", shown) == []
    assert [c for c in shown if c != "\n" and not c.isprintable()] == []


@each(
    ("name", "escaped"),
    [("a|b", "a\\|b"), ("a\\b", "a\\\\b"), ("a\\|b", "a\\\\\\|b"), ("<b>", "\\<b>"), ("a\nb", "a b"), ("op=copy", "op=copy")],
)
def test_markdown_is_escaped(name, escaped):
    assert sanitize.markdown(name) == escaped


# ---- HTML ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two():
    """Two devices, one with hostile names throughout, as a page."""
    runs = [ordinary(), ordinary("Device B", 80.0), hostile(" ".join(h for h in HOSTILE if "$" not in h))]
    return runs, render_html(runs)


@pytest.fixture(scope="module")
def ordinary_page():
    return render_html([ordinary()])


def test_a_page_of_several_devices_is_harmless(two):
    assert_harmless(two[1])


def assert_no_control_or_bidirectional_characters(source):
    assert sorted({hex(ord(c)) for c in source if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf")}) == []


@each("evil", [h for h in HOSTILE if "$" not in h])
def test_hostile_text_is_escaped_and_still_readable(evil):
    source = render_html([hostile(evil)])
    assert_harmless(source)
    assert_no_control_or_bidirectional_characters(source)
    if evil.isprintable():
        assert evil in "".join(Page(source).words)


SVG_TAGS = {"svg", "g", "path", "text", "tspan", "use", "defs", "style", "clippath", "rect"}
SVG_ATTRIBUTES = {
    "id", "class", "style", "d", "x", "y", "transform", "width", "height", "viewbox", "version", "clip-path",
    "xlink:href", "type", "role", "aria-label",
}  # fmt: skip


IN_FIGURES = [*HOSTILE, *(f"$${h}_{{" for h in HOSTILE)]


def slowly(cases):
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


# each name in one kind of place; all names in all of them with the slow tests
@pytest.mark.parametrize(
    ("metric", "axis", "line", "name"),
    [*((IN_FIGURES + IN_FIGURES[:3])[n : n + 4] for n in range(0, len(IN_FIGURES), 4)), *slowly([h] * 4 for h in IN_FIGURES)],
)
def test_a_figure_with_hostile_names_is_shapes_and_text(metric, axis, line, name):
    # in titles, legends, names of bars, names of axes
    rate = replace(BANDWIDTH, name=f"rate {metric}", peak=None)
    card = replace(STREAM, metrics=(rate,), x=f"n {axis}")
    names = (line, f"{line} 2")
    points = [bandwidth({"op": op, f"n {axis}": n}, 10.0 * n) for op in names for n in (1, 2, 4)]
    points += [bandwidth({"op": line, f"n {axis}": 4}, place=Placement(n, (), p)) for n in (1, 2) for p in names]
    head = header(device(name, kind="cpu"), {"stream": card})
    plots = re.findall(r"<svg role.*?</svg>", render_html([run(points, head), run(points, head)]), re.S)
    assert len(plots) == 3
    for plot in plots:
        page = Page(plot)
        assert set(page.tags) <= SVG_TAGS
        assert {name for name, _ in page.attributes} <= SVG_ATTRIBUTES
        assert not any(value.startswith(("http", "javascript", "data")) for _, value in page.attributes)
        assert [c for c in plot if not c.isprintable() and c != "\n"] == []
        if SCRIPT in (metric, axis, line, name):
            assert SCRIPT in "".join(page.words)


@pytest.mark.parametrize("evil", ["$", "$x$", "$\\frac{1}{$ and $x$", "^_{}$$"])
def test_dollars_in_names_are_no_formulas_and_no_error(evil):
    found = hostile(evil)
    chase = run(staircase(), header(device(evil), {"pchase": CHASE}))
    assert_harmless(render_html([found, chase]))


def test_every_table_of_a_page_is_rectangular(two):
    tables = Page(two[1]).tables
    assert len(tables) >= 5
    assert [t for t in tables if len(set(t)) > 1] == []


def test_a_page_names_no_address_at_all():
    source = render_html([ordinary(), ordinary("Another")])
    assert "<svg" in source
    assert "http:" not in source and "https:" not in source


def test_a_page_shows_every_device_and_benchmark(two):
    words = " ".join(Page(two[1]).words)
    for expected in (
        "Device A",
        "Device B",
        "stream",
        "pchase",
        "op=triad array_bytes=256 MiB",
        "50.00 GB/s",
        "80.00 GB/s",
        "skipped",
    ):
        assert expected in words, expected
    assert two[1].count("<svg role") >= 2


def test_devices_of_one_name_are_told_apart():
    labels = [p.label for p in parts([ordinary(), ordinary("Device B"), ordinary()])]
    assert labels == ["Device A #1", "Device B", "Device A #2"]


def test_output_is_the_same_twice(two):
    runs, source = two
    assert render_html(runs) == source
    assert render_markdown(runs) == render_markdown(runs)
    table = rows(runs[0], SHEET)
    again = rows(runs[0], SHEET)
    assert point_values(table) == point_values(again)
    assert render.csv_text(point_fields(table)) == render.csv_text(point_fields(again))
    assert render.markdown(only(point_table(table))) == render.markdown(only(point_table(again)))
    assert render.text(summary.summary_document(runs[0], table, SHEET)) == render.text(
        summary.summary_document(runs[0], rows(runs[0], SHEET), SHEET)
    )


def test_the_order_of_other_runs_does_not_change_a_figure(ordinary_page):
    render_html([ordinary("Another")])
    alone, again = (re.findall(r"<svg role.*?</svg>", page, re.DOTALL) for page in (ordinary_page, render_html([ordinary()])))
    assert alone == again and len(alone) == 3  # latency, and bandwidth as bars and over size


@pytest.mark.parametrize(
    "card", [STREAM, CHASE, replace(CHASE, x=""), replace(STREAM, x="", metrics=(replace(BANDWIDTH, form="cost"),))]
)
def test_a_benchmark_known_only_from_the_file_is_shown_everywhere(card):
    name = "from_the_future"
    card = replace(card, summary="What nobody knows yet.", source="Somebody 2030")
    points = [replace(r, benchmark=name) for r in staircase()] if card.growing else [bandwidth({"op": "copy"}, benchmark=name)]
    found = run(points, header(cards={name: card}))
    table = rows(found, None)
    assert [row.value.benchmark for row in table] == [name] * len(points)
    (section,) = sections(found, table)
    assert section.header[0].split(":")[0] == name and section.rows
    assert name in render.text(summary.summary_document(found, table, None))
    words = " ".join(Page(render_html([found])).words)
    assert name in words and "What nobody knows yet." in words and "Somebody 2030" in words


def test_benchmarks_of_a_page_come_in_order_of_first_appearance():
    def of(*names):
        return run([bandwidth({"op": "copy"}, benchmark=n) for n in names], header(cards=dict.fromkeys(names, STREAM)))

    source = render_html([of("one", "two"), of("two", "three")])
    assert re.findall(r'<details class="part" id="(\w+)"', source) == ["one", "two", "three"]


def test_no_point_of_a_page_is_lost():
    # a user who names values of a tuning axis, or places, wants to see each of them
    tuned = header(cards={"stream": replace(STREAM, tuning=("wg",))})
    by_tuning = run([bandwidth({"op": "copy", "wg": wg}, gb_s) for wg, gb_s in ((64, 40.0), (128, 50.0))], tuned)
    by_place = run([bandwidth({"op": "copy"}, gb_s, place=Placement(n)) for n, gb_s in ((1, 40.0), (2, 50.0))])
    for found in (by_tuning, by_place):
        compared = render_html([found]).split("All points")[1]
        assert "40.00 GB/s" in compared and "50.00 GB/s" in compared


def test_failed_points_carry_their_reason_into_a_page():
    found = run([record("stream", {"op": "copy"}, status="failed", reason="the child crashed")])
    source = render_html([found])
    assert "failed <sup>[1]</sup></td>" in source and "<li>[1] the child crashed</li>" in source
    assert "<svg" not in source


def test_two_metrics_of_one_point_are_two_rows_of_a_page():
    read = Metric("first", "GB/s", "nbytes", "rate", "higher")
    found = run(
        [bandwidth({"op": "copy"})], header(cards={"stream": replace(STREAM, metrics=(read, replace(read, name="second")))})
    )
    words = Page(render_html([found]).split('<section id="points"')[1]).words
    assert [w for w in words if w in ("first", "second")] == ["first", "second"]
    (section,) = sections(found, rows(found, None))
    assert section.header[-1] == "second" and len(section.rows) == 1


def test_a_latency_is_no_bar_among_bandwidths():
    # as a device that shares memory with the host: a copy's bandwidth beside a mapping's latency of 70,000 ns
    mapping = Metric("zero_copy_map", "ns", "ops", "cost", "lower")
    cards = {"stream": replace(STREAM, metrics=(STREAM.metrics[0], mapping))}
    mapped = replace(bandwidth({"op": "map"}), series=(replace(bandwidth({}).series[0], nbytes=0, ops=1),))
    (copied,) = re.findall(
        r"<svg role.*?</svg>", render_html([run([bandwidth({"op": "copy"}), mapped], header(cards=cards))]), re.S
    )
    assert "op=copy" in copied
    assert "op=map" not in copied
    alone = render_html([run([mapped], header(cards=cards))])
    assert "<svg role" not in alone
    assert "op=map" in " ".join(Page(alone).words)


def test_a_name_wider_than_a_plot_is_cut_in_the_plot_only():
    name = "x" * 300
    source = render_html([run([bandwidth({"op": "copy"})], header(device(name)))])
    (plot,) = re.findall(r"<svg role.*?</svg>", source, re.S)
    assert not any("x" * 61 in word for word in Page(plot).words)
    assert name in source


def test_memory_has_no_fraction_of_peak_where_a_cache_could_hold_the_arrays():
    small = rows(run([bandwidth({"op": "copy", "array_bytes": 128 * KIB}, 400.0)]), SHEET)[0]
    large = rows(run([bandwidth({"op": "copy", "array_bytes": 512 * KIB}, 50.0)]), SHEET)[0]
    assert (small.status, small.fraction) == ("ok", None)  # over memory's peak, and no lie
    assert large.fraction == 0.5
    known = replace(SHEET, figures={**SHEET.figures, "l2_bytes": Figure(50 * MIB, "B", "the data sheet")})
    assert rows(run([bandwidth({"op": "copy", "array_bytes": 100 * MIB})]), known)[0].fraction is None


def test_only_a_sweep_from_the_smallest_sizes_on_has_an_l1():
    whole = run(staircase(), header(cards={"pchase": CHASE}))
    upper = replace(whole, records=tuple(r for r in whole.records if r.params["array_bytes"] >= MIB))
    assert sections(whole, rows(whole, None))[0].rows[0][1] == "L1"
    assert sections(upper, rows(upper, None))[0].rows[0][1] == "plateau 1"


def test_a_trial_that_was_wrong_is_told():
    trial = record("stream", {"op": "copy"}, status="wrong", reason="3 is not 4", role="tune")
    found = run([trial, bandwidth({"op": "copy"})])
    assert any("1 tuning trial gave no value" in w and "3 is not 4" in w for w in warnings(found, rows(found, SHEET), SHEET))


def test_versions_of_a_benchmark_that_differ_are_told():
    runs = [run([bandwidth({"op": "copy"})], header(cards={"stream": replace(STREAM, version=v)})) for v in (1, 2)]
    assert "not comparable" in render_html(runs)
    assert "not comparable" not in render_html(runs[:1])


def test_published_results_are_shown_as_such_and_escaped(ordinary_page):
    names = [h for h in HOSTILE if "$" not in h]
    others = []
    for evil in names:
        where = f"Somebody 2015, table 1 {evil}"
        result = Published("pchase", "latency", 82.0, "cycles", where, "table", {"memory": evil}, evil)
        peak = {"memory_bandwidth_gb_s": Figure(224.0, "GB/s", "x")}
        others.append(published_run(SpecSheet(f"Old {evil}", "gpu", Match(), peak, (result,))))
    source = render_html([ordinary()], others)
    assert_harmless(source)
    words = " ".join(Page(source).words)
    assert "Not measured here" in words and words.count("224 GB/s per device") == len(names)
    assert {len(set(t)) for t in Page(source).tables} == {1}
    # beside the benchmark that it is of, with the data sheets among the devices, and once more in the whole list
    inside = source[source.index('id="pchase">') : source.index('<section id="devices"')]
    assert "Other devices, as published" in inside and "82 cycles" not in source[: source.index('<section id="memory"')]
    assert inside.count("82 cycles") == source.count("82 cycles") - inside.count("82 cycles") == len(names)
    assert "from their data sheets" in source[source.index('<section id="devices"') :]
    for evil in names:
        assert not evil.isprintable() or f"Old {evil}" in "".join(Page(source).words)
    assert "Not measured here" not in ordinary_page
    table = [line for line in render_markdown([ordinary()], others).splitlines() if "82 cycles" in line]
    assert len(table) == len(names)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {7}


def test_an_empty_cell_of_a_csv_is_empty():
    (row,) = csv.DictReader(io.StringIO(render.csv_text(point_fields(rows(run([bandwidth({"op": "copy"})]), SHEET)))))
    assert (row["reason"], row["notes"], row["param.op"]) == ("", "", "copy")


# ---- over compute units --------------------------------------------------------------------------------------------------


def study(used=lambda n: float(n)):
    """Triad on a whole CPU of four cores, then on 1, 2 (two ways) and 4 of them, at 10 GB/s each."""
    info = device("Test CPU", kind="cpu", compute_units=4)
    card = replace(STREAM, metrics=(BANDWIDTH,))
    places = [Placement()] + [
        Placement(n, tuple(range(n)), p) for n, p in ((1, "compact"), (2, "compact"), (2, "scatter"), (4, "compact"))
    ]
    found = []
    for place in places:
        units = place.compute_units or 4
        times = (10**7 // units,) * 16
        cpu = tuple(int(used(units) * t) for t in times)
        found.append(
            record(
                "stream",
                {"op": "triad", "array_bytes": MIB},
                replace(series(times, nbytes=10**8), cpu_ns=cpu, busy=units),
                place=place,
            )
        )
    return run(found, header(info, {"stream": card}))


def test_a_study_over_compute_units_has_a_section_a_figure_and_speed_ups():
    found = study()
    whole, scaling = sections(found, rows(found, None))
    assert len(whole.rows) == 1 and "compute_units" not in whole.title
    assert scaling.header[0] == "stream: compute units" and "op=triad array_bytes=1 MiB" in scaling.title
    assert [(r[0], r[1], r[4], r[5]) for r in scaling.rows] == [
        ("1", "compact", "1.00", "1.00"),
        ("2", "compact", "2.00", "2.00"),
        ("2", "scatter", "2.00", "2.00"),
        ("4", "compact", "4.00", "4.00"),
    ]
    page = render_html([found])
    # bars, all devices over compute units, and the placements of the one that has several
    assert page.count("<svg role") == 3 and ">compute units</text>" in page and ">scatter</text>" in page
    assert_tables_are_rectangular(render_markdown([found]))


@pytest.mark.parametrize(("used", "status"), [(0.5, "suspect"), (0.76, "ok"), (1.0, "ok"), (1.14, "ok"), (1.5, "suspect")])
def test_a_point_that_did_not_run_on_the_compute_units_asked_for_is_suspect(used, status):
    found = study(lambda n: used * n)
    table = rows(found, None)
    whole = "ok" if used > 1 else status  # threads that are not held to CPUs may be more than compute units
    assert [row.status for row in table] == [whole] + [status] * 4
    on_gpu = replace(found, header=replace(found.header, device=device(kind="gpu")))
    assert {row.status for row in rows(on_gpu, None)} == {"ok"}  # work-groups use no CPU


def test_the_peak_of_some_cores_is_theirs_alone():
    core = SpecSheet("Test", "cpu", Match(), {"fp64": Figure(16, "FLOP/cycle", "a manual", scope="core")})
    card = replace(STREAM, metrics=(Metric("performance", "GFLOP/s", "flops", "rate", "higher", peak="fp64"),))
    found = study()
    records = [
        replace(r, series=tuple(replace(s, flops=10**7) for s in r.series), core_clock=clock(2.0)) for r in found.records
    ]
    table = rows(replace(found, records=tuple(records), header=replace(found.header, benchmarks={"stream": card})), core)
    assert [row.peak.value for row in table] == pytest.approx([128.0, 32.0, 64.0, 64.0, 128.0])


def test_where_all_points_are_at_places_there_is_no_study_beside_them():
    found = study()
    placed = replace(found, records=found.records[1:])
    (section,) = sections(placed, rows(placed, None))
    assert section.header[:2] == ("stream: compute_units", "placement")


def test_a_metric_beside_the_headline_is_a_column_with_its_share_of_the_peak():
    both = replace(STREAM, metrics=(COST, BANDWIDTH))
    found = run(
        [record("stream", {"op": op}, series([10**6] * 8, nbytes=9 * 10**7, ops=1)) for op in ("copy", "add")],
        header(cards={"stream": both}),
    )
    (section,) = sections(found, rows(found, SHEET))
    assert section.header == ("stream: op", "median", "95% interval", "bandwidth")
    assert [r[1] for r in section.rows] == ["1.00 ms"] * 2
    assert [column.is_number for column in section.columns][:2] == [False, True]


def test_axes_label_large_powers_of_two_and_long_times_so_that_they_fit():
    card = BenchmarkInfo(1, "sync", "Sums.", "somebody", (Metric("time", "ns", "ops", "cost", "lower"),), x="n")
    points = [record("reduction", {"n": 1 << k}, series([10 * 2**k] * 8, ops=1)) for k in range(10, 27, 4)]
    page = render_html([run(points, header(cards={"reduction": card}))])
    labels = re.findall(r">([^<>]*)</text>", page)
    # which powers have a tick is matplotlib's choice, and differs between its versions
    assert sum(bool(re.fullmatch(r"2\^(1[7-9]|2[0-9])", label)) for label in labels) >= 2
    assert "10 us" in labels and not any("e+" in label for label in labels)


def test_bars_show_each_line_at_its_own_largest_size():
    card = BenchmarkInfo(
        1, "compute", "Products.", "somebody", (Metric("performance", "GFLOP/s", "flops", "rate", "higher"),), x="n"
    )
    sizes = {"double": (256, 512, 1024), "float": (256,)}
    points = [
        record("dgemm", {"dtype": dtype, "n": n}, series([1000] * 8, flops=10**6)) for dtype, ns in sizes.items() for n in ns
    ]
    page = render_html([run(points, header(cards={"dgemm": card}))])
    labels = re.findall(r">([^<>]*)</text>", page)
    assert {"double, 1024", "float, 256"} <= set(labels) and "double, 256" not in labels


def test_a_device_that_has_one_line_alone_is_drawn_beside_one_that_has_many():
    card = BenchmarkInfo(1, "sync", "Sums.", "somebody", (Metric("time", "ns", "ops", "cost", "lower"),), x="n")

    def of(methods):
        points = [
            record("reduction", {"method": m, "n": n}, series([1000 + n] * 8, ops=1)) for m in methods for n in (1, 2, 4, 8)
        ]
        return run(points, header(cards={"reduction": card}))

    page = render_html([of([f"m{i}" for i in range(9)]), of(["m3"])])
    assert "Synthetic GPU #2" in page and "method=m3" in re.findall(r">([^<>]*)</text>", page)


@pytest.mark.parametrize(("cores", "status"), [(1.0, "suspect"), (1.4, "suspect"), (1.6, "ok"), (2.0, "ok")])
def test_work_groups_that_did_not_run_at_the_same_time_are_suspect(cores, status):
    # two threads on one core take turns: nobody competes, and the number looks fine
    times = (1000,) * 16
    works = [series([n * t for t in times], ops=n, cpu_ns=[int(cores * n * t) for t in times], together=2) for n in (1, 3)]
    card = replace(CHASE, growing="", x="items")
    found = run([record("atomic", {"items": 2}, *works)], header(device(kind="cpu"), {"atomic": card}))
    (row,) = rows(found, None)
    assert row.status == status and ("2 work-groups were to run at the same time" in row.reason) == (status == "suspect")


def test_a_point_that_needs_no_other_core_is_not_held_against_the_compute_units_asked_for():
    found = study(lambda n: 1.0)
    alone = [replace(r, series=tuple(replace(s, busy=0) for s in r.series)) for r in found.records]
    assert {row.status for row in rows(replace(found, records=tuple(alone)), None)} == {"ok"}


def test_lines_that_differ_far_behind_are_two_lines():
    card = BenchmarkInfo(1, "sync", "Atomics.", "somebody", (Metric("time", "ns", "ops", "cost", "lower"),), x="items")
    long = {"operation": "exchange", "a_parameter": "of_some_length", "address": "spread_over_everything"}
    points = [
        record("atomic", {**long, "result": result, "items": n}, series([ns] * 8, ops=1))
        for result, ns in (("used", 100), ("unused", 200))
        for n in (1, 2, 4)
    ]
    page = render_html([run(points, header(cards={"atomic": card}))])
    assert ">Synthetic GPU, result=used</text>" in page and ">Synthetic GPU, result=unused</text>" in page


def test_the_end_of_a_long_name_is_kept():
    files = [f"/a/long/folder/of/some/user/with/many/more/folders/in/it/matrix{n}.mtx" for n in (1, 2)]
    found = run([bandwidth({"matrix": name}) for name in files], header(cards={"stream": replace(STREAM, x="matrix")}))
    page = render_html([found])
    assert "matrix1.mtx</text>" in page and "matrix2.mtx</text>" in page


def test_a_study_whose_fewest_units_have_no_value_says_over_what_its_speed_up_is():
    found = study()
    slow = replace(found.records[1], status="failed", reason="it crashed", series=())
    _, scaling = sections(changed := replace(found, records=(found.records[0], slow, *found.records[2:])), rows(changed, None))
    assert "speed-up over 2" in scaling.header


def test_on_a_gpu_the_study_is_of_work_groups_in_words_and_figures():
    found = study()
    records = [replace(r, place=Placement(r.place.compute_units)) for r in found.records if r.place.placement != "scatter"]
    on_gpu = replace(found, records=tuple(records), header=replace(found.header, device=device("Some GPU")))
    _, scaling = sections(on_gpu, rows(on_gpu, None))
    assert scaling.header == ("stream: work-groups", "median", "95% interval", "speed-up")
    page = render_html([on_gpu, found])  # beside a CPU
    assert ">compute units (of GPUs: work-groups)</text>" in page
    assert ">work-groups</text>" in render_html([on_gpu])
    assert "work_groups=4" in " ".join(Page(page).words) and '"work_groups": 4' in render.json_text(
        point_values(rows(on_gpu, None))
    )


# ---- the memory hierarchy -----------------------------------------------------------------------------------------------


def dissected_gpu(patterns=True):
    cycles = [[260.0 + 200 * ((unit + region) % 2) for region in range(6)] for unit in range(8)]
    hierarchy = hierarchies.gpu() if patterns else replace(hierarchies.gpu(), patterns={})
    return HierarchyFindings(hierarchy, np.array(cycles), (ClassicReadings("image", (), (), {}, {}),))


def dissected_page(*dissected):
    infos = (hierarchies.gpu_device(), hierarchies.cpu_device())
    return render_html([run([], header(info, {})) for info in infos[: len(dissected)]], (), found_of(*dissected))


def test_a_page_draws_the_hierarchy_of_each_device():
    source = dissected_page(dissected_gpu(), HierarchyFindings(hierarchies.cpu()))
    assert_harmless(source)
    assert [t for t in Page(source).tables if len(set(t)) > 1] == []
    text = " ".join(" ".join(Page(source).words).split())
    for expected in (
        "233 KiB (205 to 256 KiB)",
        "32.2 cycles (32.0 to 32.4)",
        "the driver claims 4.1 MiB for all compute units, 32 KiB each",
        "8 MiB (6.7 to 11 MiB), inconsistent",
        "address translation",
        "constant L1.5",
        "no page-table context is ever switched",
        "260 to 460 cycles",
        "P5: cache miss, both TLBs miss",
    ):
        assert expected in text, expected


def test_a_page_draws_paths_of_other_spaces_as_trees_of_their_own():
    source = dissected_page(HierarchyFindings(hierarchies.gpu_with_other_spaces()))
    path, others = source.split("Other paths, each from the compute unit")
    path = path[path.index('<div class="path">') :]
    assert "<b>DRAM</b>" in path and "readonly" not in path and "private" not in path
    trees = others.split('<div class="branch">')[1:]
    assert len(trees) == 5 and all("compute unit, one of 132" in tree for tree in trees)
    assert "<b>readonly L1</b>" in trees[0] and "<b>private</b>" in trees[1]


def test_a_page_has_a_row_for_every_finding():
    source = dissected_page(HierarchyFindings(hierarchies.cpu()))
    table = Page(source).tables[-1]
    assert len(table) - 1 == len(entries(hierarchies.cpu()))


def test_a_page_without_hierarchies_has_no_such_section(ordinary_page):
    assert '-hierarchy"' not in dissected_page(None) and "Memory hierarchy" not in ordinary_page
    assert 'id="device-2-hierarchy"' in dissected_page(None, HierarchyFindings(hierarchies.cpu()))


def test_a_device_without_patterns_has_no_figure_of_them():
    assert "Global latency patterns" not in dissected_page(dissected_gpu(patterns=False))


@each("evil", [h for h in HOSTILE if "$" not in h])
def test_a_hostile_hierarchy_is_text_in_a_page_and_in_markdown(evil):
    found = Finding(evil, evil, None, None, evil, "inconsistent", evil, (evil,), evil)
    size = Finding("size_bytes", 4096, 4096, 4096, evil, "ok", evil, (evil,), evil)
    one = CacheLevel(evil, evil, {evil: found, "size_bytes": size})
    tlb = TlbLevel(evil, {evil: found})
    hierarchy = Hierarchy((one,), (tlb,), one, (one,), (one,), {evil: size}, (evil,))
    none = replace(hostile(evil), records=())  # whose figures are drawn above
    read = HierarchyFindings(hierarchy, classic=(ClassicReadings(evil, (), (), {}, {evil: found}),))
    source = render_html([none], (), found_of(read))
    assert_harmless(source)
    assert_no_control_or_bidirectional_characters(source)
    markdown = render_markdown([hostile(evil)], (), found_of(hierarchy))
    assert_tables_are_rectangular("\n".join(line for line in markdown.split("\n") if not line.startswith("    ")))
    assert [c for c in markdown if c != "\n" and not c.isprintable()] == []


def test_markdown_draws_the_hierarchy_and_lists_its_findings():
    shown = render_markdown([ordinary(), ordinary("B")], (), found_of(None, hierarchies.cpu()))
    assert shown.count("### Memory hierarchy") == 1
    assert "    ┌─┴─ L1 ─" in shown and "| L1 | global | ways | 8 |" in shown
    assert shown.index("## B") < shown.index("### Memory hierarchy")


def test_chases_are_shown_as_what_they_tell_and_not_point_by_point():
    points = [replace(r, benchmark=CHASE_NAME) for r in staircase()]
    found = run(points, header(cards={CHASE_NAME: CHASE}))
    assert sections(found, rows(found, None)) == []
    assert "<svg" not in render_html([found])


# ---- nothing vanishes from a figure without a word ----------------------------------------------------------------------


def left_out(page):
    return " ".join(re.findall(r"Not drawn: (.*?)</p>", page, re.S))


def plotted(page):
    return [word for plot in re.findall(r"<svg role.*?</svg>", page, re.S) for word in re.findall(r">([^<>]*)</text>", plot)]


TIMED = BenchmarkInfo(1, "sync", "Barriers.", "somebody", (Metric("barrier", "ns", "ops", "cost", "lower"),), x="groups")


def timed(ns_by_groups, **changes):
    points = [record("barrier", {"groups": n, **changes}, series([ns] * 8, ops=1)) for n, ns in ns_by_groups.items()]
    return run(points, header(cards={"barrier": TIMED}))


def test_two_points_are_a_line_and_one_alone_is_said_to_be_none():
    two = render_html([timed({2: 100, 4: 120})])
    assert "barrier (ns)" in plotted(two) and "Not drawn" not in two
    one = render_html([timed({2: 100})])
    assert "<svg" not in one and "groups=2: a line needs two values of groups" in left_out(one)
    other = replace(timed({2: 90}), header=header(device("Other GPU"), {"barrier": TIMED}))
    both = left_out(render_html([timed({2: 100}), other]))
    assert "Synthetic GPU, Other GPU: groups=2: a line needs two values of groups" in both


def test_records_of_an_older_version_are_said_to_be_left_out_of_a_figure():
    # the later version's metrics speak of a parameter that the earlier one's points do not have
    later = replace(TIMED, version=2, metrics=(replace(TIMED.metrics[0], only={"of": ("one",)}),))
    new = timed({2: 100, 4: 120, 8: 130}, of="one")
    new = replace(new, header=replace(new.header, device=device("New"), benchmarks={"barrier": later}))
    old = timed({2: 300, 4: 320, 8: 330})
    for runs in ([new, old], [old, new]):
        page = render_html(runs)
        assert "Synthetic GPU: measured with version 1 of barrier, and drawn is version 2" in left_out(page)
        assert "New" in plotted(page) and "Synthetic GPU" not in plotted(page)
    alone = render_html([old])
    assert "barrier (ns)" in plotted(alone) and "Not drawn" not in alone


def test_what_is_in_no_plot_is_said_with_the_reason():
    mapping = Metric("zero_copy_map", "ns", "ops", "cost", "lower")
    cards = {"stream": replace(STREAM, metrics=(STREAM.metrics[0], mapping))}
    mapped = replace(bandwidth({"op": "map"}), series=(replace(bandwidth({}).series[0], nbytes=0, ops=1),))
    failed = record("stream", {"op": "add"}, status="failed", reason="it crashed")
    said = left_out(render_html([run([bandwidth({"op": "copy"}), mapped, failed], header(cards=cards))]))
    assert "op=map: zero_copy_map in ns has no place on an axis of bandwidth in GB/s" in said
    assert "1 value without a result (1 failed)" in said and "op=copy" not in said


def figures_of(*runs):
    """The figures of the runs' only benchmark, as they are before a page makes them shorter."""
    all_parts = parts(runs)
    ((name, card),) = all_parts[0].run.header.benchmarks.items()
    return curves.drawn(name, card, all_parts)


def test_every_logarithmic_axis_of_values_has_labels():
    # from 1e-7 to 100 ns, as a barrier that a compiler removed beside one that is none
    plots = re.findall(
        r'<g id="matplotlib.axis_2">.*?(?=<g id="patch_)', figures_of(timed({2: 1_000_000_000, 4: 100_000, 8: 1})), re.S
    )
    labels = [word for plot in plots for word in re.findall(r">([^<>]*)</text>", plot)]
    assert len(labels) >= 4, labels


@each(("low", "high"), [(1e-9, 1e3), (1e-30, 1e30), (21, 49), (3, 30), (0.9, 1.1), (700, 6_000), (1e-3, 2)])
def test_labels_of_a_logarithmic_axis_are_some_and_not_too_many(low, high):
    found = style.log_labels(low, high)
    assert 2 <= len(found) <= 24 and found == sorted(found)
    assert all(low * (1 - 1e-6) <= value <= high * (1 + 1e-6) for value in found)


def test_bars_name_large_numbers_as_powers_and_sizes_as_sizes():
    card = replace(STREAM, x="")
    points = [bandwidth({"n": n, "array_bytes": size}) for n, size in ((1 << 25, MIB), (1 << 10, 32 * MIB))]
    words = plotted(render_html([run(points, header(cards={"stream": card}))]))
    assert {"2^25, 1 MiB", "1024, 32 MiB"} <= set(words)


def test_a_chase_is_drawn_over_the_lines_that_it_touches():
    words = plotted(render_html([spaced(128)]))
    assert "lines that are touched" in words and any("in an array 2 times as long" in word for word in words)
    assert any("its line is not known" in word for word in plotted(render_html([spaced(0)])))


def test_one_of_anything_is_no_plural():
    published = Published("pchase", "latency", 82.0, "cycles", "Somebody 2015, table 1", "table")
    page = render_html([ordinary()], [published_run(replace(SHEET, published=(published,)))])
    assert "(1 result)" in page and not re.search(r"\b1 (results|runs|points|values|devices|processes)\b|process\(es\)", page)


def test_one_kind_of_set_looks_the_same_in_every_plot_and_one_point_is_drawn():
    rate = Metric("read_bandwidth", "GB/s", "nbytes", "rate", "higher")
    card = BenchmarkInfo(1, "access", "Caches.", "somebody", (rate,), x="set_bytes")

    def of(*kinds):
        points = [
            bandwidth({"set": kind, "path": "plain", "set_bytes": n, "unit_items": 64}, benchmark="cache_read")
            for kind, n in kinds
        ]
        return run(points, header(cards={"cache_read": card}))

    runs = of(("shared", MIB)), of(("own", MIB), ("own", 2 * MIB), ("shared", MIB))
    page, plot = render_html(runs), figures_of(*runs)
    assert plot.count("<svg") == page.count("<svg role") == 1
    assert "Synthetic GPU #1" in plotted(page) and "Synthetic GPU #2" in plotted(page)
    first, second = plot.split('<g id="axes_2">')
    shades = [set(re.findall(r"stroke: (#[0-9a-f]{6}); stroke-width: 1\.4", part)) for part in (first, second)]
    assert len(shades[1]) == 2 and shades[0] < shades[1], shades


def test_a_device_of_one_compute_unit_has_no_plural():
    alone = run([], header(device(compute_units=1), {}))
    assert "1 compute unit " in render.text(
        summary.summary_document(alone, [], None)
    ) + " " and "1 compute units" not in render.text(summary.summary_document(alone, [], None))


def test_the_page_names_results_that_nothing_checked():
    def said(run) -> str:
        return " ".join(" ".join(Page(render_html([run])).words).split())

    found = ordinary()
    assert "Every result shown was verified." in said(found)
    first = found.records[0]
    unchecked = replace(found, records=(replace(first, checked=False), *found.records[1:]))
    assert f"verified but those of {first.benchmark}, which nothing checks." in said(unchecked)


@each(("axis", "values", "bars"), [("dtype", ("float", "double"), True), ("size", (1, 2), False)])
def test_rates_by_slopes_have_bars_where_their_axis_has_no_numbers(axis, values, bars):
    metric = Metric("flop_rate", "GFLOP/s", "ops", "slope_rate", "higher")
    card = BenchmarkInfo(1, "compute", "", "", (metric,), x=axis)
    made = [record("pchase", {axis: v}, series([1000] * 8, ops=10_000), series([3000] * 8, ops=30_000)) for v in values]
    found = run(made, header(cards={"pchase": card}))
    drawn = curves.figure(card, parts([found]))
    assert drawn.count("<svg") == 1 and ("95% interval" in drawn) == bars
