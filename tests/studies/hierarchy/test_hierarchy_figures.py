"""Figures of a hierarchy: shapes and text alone, every number that they are given, and nothing where there is nothing."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from clmembench.model import Answer, Finding, Pattern, Probe
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.views.latency_figures import classic, disagreements, patterns, regions
from tests.found_hierarchies import KIB, known, unknown
from tests.report.test_report import HOSTILE, SVG_ATTRIBUTES, SVG_TAGS, Page, slowly

PICTURE = re.compile(r'<image xlink:href="data:image/png;base64,([^"]*)"[^>]*/>')


def words(svg):
    """The texts of a figure, which must hold no pictures but those of maps, and no addresses."""
    page = Page(PICTURE.sub("", svg))
    assert set(page.tags) <= SVG_TAGS
    assert {name for name, _ in page.attributes} <= SVG_ATTRIBUTES
    assert not any(value.startswith(("http", "javascript", "data")) for _, value in page.attributes)
    return [word.strip() for word in page.words if word.strip()]


def answer(size, stride, value):
    return Answer(Probe(Pattern("sequential", size // stride, stride), "image1d_buffer"), value)


def texture(fine=True):
    """A cache of 12 KiB: 32 B lines over strides; steps 128 B wide over sizes."""
    strides = [answer(n * KIB, s, 230.0 if n > 12 and s >= 32 else 108.0) for n in (8, 12, 16, 48) for s in (8, 16, 32, 64)]
    sizes = [answer(12 * KIB + extra, 32, 108.0 + 30 * -(-extra // 128)) for extra in range(-512, 640, 32)]
    line = {"size_bytes": known("size_bytes", 12 * KIB), "line_bytes": known("line_bytes", 32), "ways": unknown("ways", "x")}
    wide = {"size_bytes": known("size_bytes", 12 * KIB), "line_bytes": known("line_bytes", 128), "ways": known("ways", 24)}
    single = {"line_bytes": known("line_bytes", 32), "ways": known("ways", 96)} if fine else None
    return ClassicReadings("image", tuple(strides), tuple(sizes), line, wide, single)


# ---- the map ------------------------------------------------------------------------------------------------------------


def test_a_map_has_a_cell_for_each_unit_and_region_and_its_unit():
    cycles = np.linspace(258.0, 575.0, 132 * 10).reshape(132, 10)
    full, holed = regions(cycles, "H100"), regions(np.where(np.eye(132, 10) > 0, np.nan, cycles), "H100")
    assert {"H100: 258 to 575 cycles", "latency (cycles)", "compute unit", "region of the L2"} <= set(words(full))
    pictures = [Image.open(io.BytesIO(base64.b64decode(PICTURE.search(svg)[1]))) for svg in (full, holed)]
    assert [picture.size for picture in pictures] == [(10, 132)] * 2
    assert [(np.asarray(picture)[..., 3] == 0).sum() for picture in pictures] == [0, 10]


def test_a_map_of_one_value_is_drawn_and_one_of_none_is_not():
    assert "300 to 300 cycles" in words(regions(np.full((2, 3), 300.0)))
    assert regions(np.full((2, 3), np.nan)) == regions(np.empty((0, 4))) == ""


# ---- latency patterns ---------------------------------------------------------------------------------------------------


def test_patterns_of_devices_stand_side_by_side_with_their_values():
    one = {"P1": known("p", 82.0, unit="cycles"), "P3": unknown("p", "no such pattern")}
    other = {"P1": known("p", 351.0, 340, 362, unit="cycles"), "P3": known("p", 462.0, unit="cycles")}
    shown = words(patterns([("A", 0, one), ("B", 1, {**other, "P6": unknown("p", "none")})]))
    assert {"82.0", "351", "462", "latency (cycles)", "P1: cache hit, L1 TLB hit"} <= set(shown)
    assert (shown.count("undetermined"), shown.count("not measured")) == (2, 1)


def test_patterns_in_another_unit_have_a_plot_of_their_own():
    shown = words(patterns([("A", 0, {"P1": known("p", 82.0, unit="cycles")}), ("B", 1, {"P1": known("p", 20.0, unit="ns")})]))
    assert {"latency (cycles)", "latency (ns)"} <= set(shown)


def test_patterns_that_are_kept_in_both_units_are_drawn_once():
    found = {"P1": known("p", 82.0, unit="cycles"), "P1_ns": known("p", 41.0, unit="ns")}
    shown = words(patterns([("A", 0, {**found, "P3": unknown("p", "none"), "P3_ns": unknown("p", "none")})]))
    assert shown.count("undetermined") == 1 and "P3_ns" not in shown


def test_no_pattern_is_no_figure():
    assert patterns([]) == patterns([("A", 0, {})]) == patterns([("A", 0, {"P1": unknown("p", "why")})]) == ""


@pytest.mark.parametrize("low", [None, 90.0, float("-inf"), 120.0])
def test_an_interval_that_is_open_or_does_not_hold_its_value_is_no_error(low):
    assert "100" in words(patterns([("A", 0, {"P1": Finding("p", 100.0, low, None, "cycles", "ok", "m", ("chase:6",))})]))


# ---- the classic methods ------------------------------------------------------------------------------------------------


def test_both_methods_stand_side_by_side_with_what_each_reads_off():
    shown = words(classic(texture()))
    assert {"Saavedra 1992: latency over stride", "Wong 2010: latency over array size"} <= set(shown)
    assert "size 12 KiB, line 32 B, not ways" in shown
    assert "size 12 KiB, line 128 B, ways 24" in shown
    assert {"stride", "array size, stride 32 B", "up to 12 KiB", "48 KiB"} <= set(shown)


def test_methods_contradict_each_other_where_no_number_fits_both():
    assert disagreements(texture()) == [
        "line: Saavedra 1992, 32 B; Wong 2010, 128 B; Single accesses, 32 B",
        "ways: Wong 2010, 24; Single accesses, 96",
    ]
    assert len(disagreements(texture(fine=False))) == 1


def test_intervals_that_meet_are_no_contradiction():
    by = [{"ways": known("ways", 16, 16, 31)}, {"ways": known("ways", 24, 24, 24)}]
    assert disagreements(ClassicReadings("image", (), (), *by)) == []


def test_methods_without_answers_are_no_figure_and_one_alone_is():
    none = Answer(Probe(Pattern("sequential", 4, 32)), None, reason="it failed")
    assert classic(ClassicReadings("image", (none,), (), {}, {})) == ""
    whole = texture()
    assert words(classic(ClassicReadings("image", (), whole.sizes, {}, whole.by_sizes)))
    assert words(classic(ClassicReadings("image", whole.strides, (), whole.by_strides, {})))


def test_a_flat_curve_is_drawn_whole():
    flat = [answer(n * KIB, 32, 100.0) for n in (1, 2, 4)]
    assert words(classic(ClassicReadings("image", (), tuple(flat), {}, {})))


# each name in one kind of place; all names in all of them with the slow tests
@pytest.mark.parametrize(
    ("title", "name", "unit"),
    [*((HOSTILE + HOSTILE[:1])[n : n + 3] for n in range(0, len(HOSTILE), 3)), *slowly([h] * 3 for h in HOSTILE)],
)
def test_hostile_names_in_figures_are_text(title, name, unit):
    found = Finding(name, unit, None, None, unit, "ok", title, (title,))
    number = Finding(name, 3.0, 2.0, 4.0, unit, "ok", title, (title,))
    whole = ClassicReadings(title, texture().strides, texture().sizes, {name: found}, {name: number})
    for svg in (regions(np.eye(3), title, name, unit), patterns([(title, 0, {name: number})]), classic(whole)):
        words(svg)
        assert [c for c in svg if not c.isprintable() and c != "\n"] == []
    disagreements(whole)
