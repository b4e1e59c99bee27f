"""Whatever the reader accepts can be derived from and shown: small runs with fields set to extreme values, and every output."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clmembench.model import Placement, Run
from clmembench.report import frame, render, summary, views
from clmembench.report.page.page import render_html
from clmembench.report.page.text_pages import render_markdown
from clmembench.report.table import one_table as only
from clmembench.results.jsonl import ResultsError, encode, read
from clmembench.specs.sheets import SpecError
from tests.builders import CHASE, STREAM, clock, device, header, record, run, series, slope
from tests.cases import each
from tests.pages import without_own_script

KIB = 1 << 10
EXTREMES: dict[type, list[Any]] = {
    int: [0, 1, 2, 3, 6, -1, 1 << 31, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)],
    float: [0.0, 5e-324, 1e-9, 1.0, 1e12, 1e300, -1.0],
    str: [
        "", "<script>", "$", "\\", "\u202e|\x1b[31m", "x" * 5000, "stream", "pchase", "array_bytes", "ns", "us", "GB/s",
        "op", "n", "rate", "cost", "slope", "slope_rate", "overlap", "nbytes", "flops", "ops", "device", "queue", "host", "gpu",
        "cpu", "ok", "suspect", "wrong", "skipped", "failed", "timeout", "measure", "tune", "higher", "lower", "link",
        "memory_bandwidth_gb_s", "NVIDIA H100 80GB HBM3",
    ],
    bool: [True, False],
    type(None): [None],
}  # fmt: skip
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # to make a failure smaller would take longer than a test may
ANY = [None, 0, -1, 1.5, 1 << 62, "", "op", True, [], {}, [1], [1, 2, 3, 4, 5, 6, 7, 8]]


def small() -> list[str]:
    """The lines of a run with a bit of everything: rates, slopes, costs, tuning, places, statuses, levels, a clock, a trace."""
    per_second = replace(CHASE.metrics[0], form="slope_rate", better="higher", times="wg")
    cards = {
        "stream": STREAM,
        "pchase": CHASE,
        "barrier": replace(CHASE, metrics=(per_second,), growing="", x="wg"),
        "triad": replace(STREAM, tuning=("wg",), x="op"),
    }
    found = [record("stream", {"op": "copy", "array_bytes": n * KIB}, series([100] * 8, nbytes=n)) for n in (1, 4, 16, 64)]
    found += [
        slope({"array_bytes": n << 12}, [2.0 if n < 16 else 9.0] * 8, core_clock=clock(2.0)) for n in (1, 2, 4, 8, 16, 32, 64)
    ]
    found += [record("barrier", {"wg": n}, series([90] * 8, ops=9), series([190] * 8, ops=27)) for n in (32, 64)]
    found += [
        record("triad", {"op": "triad", "wg": 64}, series([9] * 8, nbytes=9, busy=n), place=Placement(n, (0,), "compact", 1))
        for n in (1, 2)
    ]
    found += [record("stream", {"op": s}, status=s, reason="because") for s in ("skipped", "failed", "wrong")]
    golden = (Path(__file__).parents[1] / "golden" / "schema1.jsonl").read_text().splitlines()
    return [encode(header(device("Some CPU", kind="cpu"), cards)), *map(encode, found), golden[2]]


LINES = [json.loads(line) for line in small()]


PLACED = (Placement(), Placement(1), Placement(2))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything within a JSON value."""
    if at:
        yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


PLACES = [(n, at) for n, line in enumerate(LINES) for at in places(line)]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """The run as text with some fields changed: to an extreme of their type, mostly, or to anything."""
    lines = copy.deepcopy(LINES)
    for number, at in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=6)):
        everywhere = draw(st.booleans())  # in each record that has the field
        for line in lines if everywhere and number else [lines[number]]:
            inside: Any = line
            try:
                for key in at[:-1]:
                    inside = inside[key]
                old = inside[at[-1]]
            except (KeyError, IndexError, TypeError):
                continue
            if isinstance(old, list):
                new = draw(
                    st.sampled_from([[], old[:1], old * 2, old[::-1], [draw(st.sampled_from(EXTREMES[int]))] * len(old)])
                )
            elif isinstance(old, dict):
                new = draw(st.sampled_from([{}, {"op": 1}, {"array_bytes": 0}, {**old, "array_bytes": 1.5}, {"\x1b": "<b>"}]))
            else:
                new = draw(st.sampled_from(EXTREMES[type(old)]) if draw(st.integers(0, 9)) else st.sampled_from(ANY))
            inside[at[-1]] = new
    return "".join(json.dumps(line) + "\n" for line in lines)


def stored(folder: Path, content: str) -> Run | None:
    """The run that the reader makes of a file, or None where it refuses the file."""
    path = folder / "r.jsonl"
    path.write_text(content)
    try:
        return read(path)
    except ResultsError as error:
        assert "\n" not in str(error)
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("extremes")


def test_the_run_that_is_damaged_is_good_itself(folder):
    """Else the tests below would show nothing."""
    found = stored(folder, "".join(json.dumps(line) + "\n" for line in LINES))
    assert found is not None and found.notes == () and len(found.records) == len(LINES) - 1
    assert {row.status for row in frame.rows(found, None)} >= {"ok", "skipped", "failed", "wrong"}


@each("params", [{}, {"op": 1}, {"array_bytes": "large"}, {"array_bytes": 0}, {"array_bytes": -4096}])
@each("card", [CHASE, STREAM])
def test_points_without_a_number_on_the_axis_of_a_figure_are_in_the_tables_alone(params, card):
    work = [series([100] * 8, ops=1000, nbytes=1000), series([300] * 8, ops=3000, nbytes=3000)]
    points = [
        record("x", {**params, "n": n}, *(work if card is CHASE else work[:1]), place=place)
        for n in range(4)
        for place in PLACED
    ]
    found = run(points, header(device(kind="cpu"), {"x": card}))
    assert "n=3" in render_html([found]) and "n=3" in render_markdown([found])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(content=damaged())
def test_whatever_is_read_is_derived_and_shown_as_text(folder, content):
    found = stored(folder, content)
    if found is None:
        return
    try:
        sheet = frame.sheet_of(found)
    except SpecError:
        return
    table = frame.rows(found, sheet)
    for row in json.loads(
        render.json_text(frame.point_values(table))
    ):  # which has no nan and no infinity: json_text refuses them
        assert row["status"] != "ok" or row["median"] is not None
        assert row["median"] is None or row["ci_low"] is None or row["ci_low"] <= row["median"] <= row["ci_high"]
    head, *lines = csv.reader(io.StringIO(render.csv_text(frame.point_fields(table)))) if table else [[]]
    assert [len(line) for line in lines] == [len(head)] * len(table)
    shown = (
        render.text(summary.summary_document(found, table, sheet))
        + render.markdown(only(views.point_table(table)))
        + render.latex(only(views.point_table(table)))
        + render_markdown([found])
    )
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(content=damaged(), other=damaged())
def test_whatever_is_read_makes_a_page(folder, content, other):
    runs = [run for run in (stored(folder, content), stored(folder, other)) if run is not None]
    try:
        page = render_html(runs)
    except SpecError:
        return
    HTMLParser().feed(page)
    assert "<script" not in without_own_script(page)
