"""The HTML page as a document: order of sections, contents, tables, text alternatives, notes, colours, and many devices."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from clmembench.report import render
from clmembench.report.many_runs import digests, fleet
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.page.packing import packed
from clmembench.report.page.page import SUITES, anchors, contents, render_html
from clmembench.report.table import Column, Table, reasons_as_notes
from clmembench.results import jsonl
from clmembench.results.imported import published_run
from clmembench.results.jsonl import Writer
from clmembench.specs.sheets import Match, Published, SpecSheet
from tests import found_hierarchies as hierarchies
from tests.builders import STREAM, device, found_of, header, record, series
from tests.pages import Page, assert_harmless, demanded
from tests.report.test_report import HOSTILE, bandwidth, dissected_gpu, hostile, ordinary

SCRIPTED = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def source():
    """Two devices, one with a memory hierarchy, a third with hostile names, and published results of a fourth."""
    published = Published("pchase", "latency", 82.0, "cycles", "Somebody 2015, table 1", "table")
    runs = [ordinary(), ordinary("Device B", 80.0), hostile(" ".join(h for h in HOSTILE if "$" not in h))]
    triads = tuple(bandwidth({"op": "triad", "dtype": "double", "array_bytes": 1 << 30}, gb_s) for gb_s in (50.0, 80.0))
    runs[:2] = [replace(one, records=(*one.records, triad)) for one, triad in zip(runs, triads, strict=False)]
    found = found_of(dissected_gpu(), None, hierarchies.cpu())
    return render_html(runs, [published_run(SpecSheet("Old", "gpu", Match(), {}, (published,)))], found)


def test_sections_come_in_the_order_comparison_suites_studies_devices_points(source):
    found = ["quantities", "devices-compared", "memory", "other", "studies", "devices", "points", "published"]
    assert re.findall(r'<section id="([^"]*)"', source) == found


def test_every_entry_of_the_contents_leads_somewhere_and_every_section_is_in_them(source):
    page = Page(source)
    ids, links = page.ids(), [link.removeprefix("#") for link in page.links()]
    assert sorted({one for one in ids if ids.count(one) > 1}) == []
    assert sorted(set(links) - set(ids)) == []
    assert all(re.fullmatch(r"[a-z][\w.-]*", one) for one in links), links
    contents = Page(source[source.index("<nav") : source.index("</nav>")]).links()
    assert contents == [f"#{one}" for one in re.findall(r'<section id="([^"]*)"', source)]
    assert {"hierarchy", "stream", "device-1", "device-3"} <= set(ids)


def test_all_suites_and_sections_together_are_fifteen_entries_of_the_contents():
    suites = [{"id": suite} for suite in SUITES]
    everything = dict.fromkeys(("quantities", "roofline", "studies", "points", "published", "peers", "which"), True)
    assert len(contents({**everything, "compared": {"title": "Devices"}, "suites": suites})) <= 15


def test_a_benchmark_called_like_a_section_has_another_anchor():
    found = anchors(["stream", "points", "points-stream", 'x" onclick="', "stream2"])
    assert found["stream"] == "stream" and len(set(found.values())) == 5
    assert {found["points"], found["points-stream"], found['x" onclick="']} == {f"benchmark-{n}" for n in (2, 3, 4)}


def test_tables_figures_and_headings_are_those_of_a_document_that_is_read_aloud(source):
    page, failures = Page(source), []
    tables = source.split("<table")[1:]
    failures += [table[:200] for table in tables if not re.match(r"[^>]*><caption>[^<]", table)]
    failures += [
        str(found) for tag, found in page.elements if tag == "th" and found.get("scope") not in ("col", "row", "rowgroup")
    ]
    failures += [
        str(found)
        for tag, found in page.elements
        if tag == "svg" and "aria-hidden" not in found and not (found.get("role") == "img" and found.get("aria-label"))
    ]
    failures += [str(found) for tag, found in page.elements if tag == "img" and not found.get("alt")]
    scrolled = [found for tag, found in page.elements if tag == "div" and "scroll" in found.get("class", "").split()]
    failures += [str(found) for found in scrolled if not (found.get("tabindex") == "0" and found.get("aria-label"))]
    levels = [int(level) for level in re.findall(r"<h(\d)", source)]
    failures += [f"h{before} is followed by h{after}" for before, after in itertools.pairwise(levels) if after > before + 1]
    assert failures == [] and levels.count(1) == 1
    assert len(tables) == source.count('class="scroll') - source.count('class="scroll figure')


def test_the_page_is_harmless(source):
    assert_harmless(source)


def test_every_number_in_a_table_has_its_note_below_it(source):
    assert "<sup>[1]</sup>" in source
    for table, below in re.findall(r"<table(.*?)</table>(.*?)(?=<table|</section>)", source, re.DOTALL):
        numbers = set(re.findall(r"<sup>(\[\d+\])</sup>", table))
        assert numbers <= set(re.findall(r"<li>(\[\d+\]) ", below)), (numbers, table[:300])


def test_columns_of_reasons_become_notes():
    columns = (Column("level"), Column("value", is_number=True), Column("status"), Column("why"))
    rows = (("L1", "1", "ok", ""), ("L2", "–", "undetermined", "too noisy"), ("L3", "–", "undetermined", "too noisy"))
    found = reasons_as_notes(Table("Findings", columns, rows, ("a note",)), ("why",))
    assert [column.name for column in found.columns] == ["level", "value", "status"]
    assert [str(row[-1]) for row in found.rows] == ["ok", "undetermined [1]", "undetermined [1]"]
    assert found.notes == ("[1] too noisy", "a note")


def test_a_figure_in_a_page_is_the_same_drawing_with_the_same_text():
    text = '&lt;path id="a" d="M 1.23456 2"/&gt; 1.23456'
    path = "M 10.123456 20.5 \nL 30.987654 40 \nL 50 60.000001 \nz\n"
    plot = (
        '<svg width="720pt" height="300pt" viewBox="0 0 720 300" version="1.1">\n <defs>\n  <clipPath id="p1">\n'
        f'   <path id="unused" d="{path}"/>\n  </clipPath>\n </defs>\n <g id="axes_1" clip-path="url(#p1)">'
        f'<path d="{path}" style="fill: #ffffff; stroke: #0173b2"/><text style="fill: #262626" x="1.23456">{text}</text>'
        "</g>\n</svg>"
    )
    first, second = embedded(plot + plot, f"{SCRIPTED} & more")
    assert f">{text}</text>" in first and "unused" not in first and "axes_1" not in first
    (name,) = {name for one in (first, second) for name in re.findall(r'<[^>]* id="([^"]*)"', one)}
    assert all(f'clip-path="url(#{name})"' in one for one in (first, second)), "what two figures share has one name"
    assert "fill:var(--gf);stroke:#0173b2" in first and "fill:var(--g2)" in first
    assert 'd="m10.1 20.5 20.9 19.5 19 20z"' in first, "relative, to a tenth of a point"
    assert 'role="img" aria-label="&lt;script&gt;' in first and "(2 of 2)" in second and "<script" not in first + second


def test_marks_of_a_curve_are_markers_on_its_line_and_a_long_curve_keeps_what_a_screen_shows():
    shape = '<defs><path id="m" d="M -2 2 \nL 2 2 \nz" style="stroke: #0173b2"/></defs>'
    line = "".join(f"{'ML'[n > 0]} {n} {n % 7}\n" for n in range(9))
    uses = "".join(f'<use xlink:href="#m" x="{n}" y="{n % 7}" style="fill: #0173b2"/>' for n in range(9))
    (one,) = embedded(f'<svg viewBox="0 0 9 9"><path d="{line}" style="fill: none"/>{shape}<g>{uses}</g></svg>', "a curve")
    assert one.count("<path") == 2 and one.count("<marker") == 1 and "<use" not in one and "fill:#0173b2;stroke:#0173b2" in one
    dense = "".join(f"{'ML'[n > 0]} {n / 1000:.3f} {n % 7 + 90 * (n == 777)}\n" for n in range(4000))
    (one,) = embedded(f'<svg viewBox="0 0 9 9"><path d="{dense}" style="fill: none"/></svg>', "a curve")
    assert len(one) < 600 and "9" in re.search(r' d="([^"]*)"', one)[1], "the highest point stays"


def test_a_page_says_once_what_its_figures_share_and_makes_long_tables_on_demand():
    clip, path = '<clipPath id="p"><rect x="1"/></clipPath>', '<path d="M 1 1 L 2 2" style="fill: none"/>'
    plot = f'<svg viewBox="0 0 9 9"><defs>{clip}</defs><g clip-path="url(#p)">{path}</g></svg>'
    table = Table(
        "", (Column("group", is_group=True), Column("name"), Column("value", True)), (("a", SCRIPTED, "1"), ("b", "y", "2"))
    )
    macro = render.html("points.html.j2", {"points": [{"name": "x", "id": "x", "points": table}], "fleet": None})
    page = packed(f"<style></style><body>{''.join(embedded(plot * 2, 'plot'))}<main>{macro}</main></body>")
    assert page.count("<clipPath") == 1 and page.count('class="s0"') == 2 and page.count("fill:none") == 1
    (found,) = demanded(page).values()
    assert found == {"columns": [["name", 0], ["value", 1]], "groups": [["a", [[SCRIPTED, "1"]]], ["b", [["y", "2"]]]]}
    assert "<td" not in page and "clmembench show FILE --csv" in page


def luminance(colour):
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_every_text_has_contrast_on_a_light_and_on_a_dark_page():
    """WCAG 2.1, success criterion 1.4.3: 4.5 to 1; greys of text in figures are those up to #666666."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w+);", block))
        for block in re.findall(r":root \{(.*?)\}", render.asset("page.css"), re.S)
    )
    assert light.keys() == dark.keys() and len(light) == 33
    pairs = [*itertools.product(("ink", "soft", "bad", "odd", "link", "claim"), ("paper", "band", "box"))]
    pairs += [("ink", ground) for ground in ("unit", *(f"shade-{level}" for level in range(4)))]
    pairs += [(f"g{level}", "gf") for level in range(7)]
    failures = [
        (theme, text, on, round(contrast(colours[text], colours[on]), 2))
        for theme, colours in (("light", light), ("dark", dark))
        for text, on in pairs
        if contrast(colours[text], colours[on]) < 4.5
    ]
    assert failures == []


@pytest.fixture
def forty(tmp_path):
    """A run of each of 40 devices, and two more of the first; each faster than the one before it."""
    paths = []
    for number in range(42):
        name = f"Device {number % 40:02d} {SCRIPTED if number == 3 else ''}"
        paths.append(tmp_path / f"{number:02d}.jsonl")
        head = header(
            device(name),
            {"stream": STREAM},
            run_id=f"RUN{number:023d}",
            started=f"2026-01-{1 + number % 28:02d}T00:00:00+00:00",
        )
        point = {"op": "triad", "dtype": "double", "array_bytes": 1 << 30}
        times = [1_000_000 - 10_000 * (number % 40) + 1000 * (number // 40)] * 8
        with Writer(paths[-1], head) as writer:
            writer.write(record("stream", point, series(times, nbytes=1 << 30)))
    return paths


def test_the_comparison_of_forty_devices_has_all_of_them_and_names_the_best(forty):
    groups = fleet.grouped(digests.digests(forty, False, 1))
    page = render_html([jsonl.read(path) for path in fleet.representative_runs(groups)], groups=groups)
    assert_harmless(page)
    verdict = page[page.index('<section id="devices-compared"') : page.index('<section id="memory"')]
    assert len(re.findall(r'<th scope="col" class="number"(?: title="[^"]*")?>Device', verdict)) == 40
    for summary in (
        "1,760 GB/s</span><small>Device 39, Device 38 and 1 more",
        "1,342 GB/s",
        "1,073 GB/s</span><small>Device 00",
    ):
        assert summary in verdict
    best = "Device 39, Device 38 and Device 37 are equal within 5%"
    assert f"<b>Memory-bound code:</b> {best}, 1.07 times as fast as Device 35; undecided against Device 36." in page
    assert "median of 3 runs" in verdict or "median of 2 runs" in verdict
    assert [t for t in Page(page).tables if len(set(t)) > 1] == []
