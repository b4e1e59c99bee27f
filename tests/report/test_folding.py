"""Tables that fit their terminal: columns are wrapped or folded, and no text is lost."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.report import folding, frame, render, summary
from clmembench.report.table import Cell, Column, Document, Table
from clmembench.results import jsonl
from tests.cases import each
from tests.terminals import on_terminal

ROOT = Path(__file__).parents[2]
QUICK = ROOT / "reports" / "xeon-2-cores-pocl-quick.jsonl.gz"
COLUMNS = (Column("name"), Column("median", is_number=True), Column("a long remark on the point"), Column("best width/tile"))
SECTION = Table(
    "Title.",
    COLUMNS,
    (
        ("stream op=copy", "4,272 GB/s", "nothing to remark", "2/256"),
        ("stream op=triad dtype=double", "1,234,567 GB/s", "a remark that goes on " * 8, "16/1024"),
        (
            "failed point",
            "failed",
            Cell("the reason of it, which runs on over all the columns beside it " * 3, runs_on=True),
            "",
        ),
    ),
)


def letters(text: str) -> list[str]:
    return sorted(text.replace(" ", "").replace("\n", ""))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_a_folded_table_is_no_wider_than_its_terminal(width):
    lines = render.aligned(SECTION, width=width)
    assert max(map(len, lines)) <= width


def test_a_table_that_fits_is_as_it_is_in_a_pipe():
    narrow = Table("", COLUMNS[:2], (("copy", "1 GB/s"), ("triad", "2 GB/s")))
    assert render.aligned(narrow, width=80) == render.aligned(narrow)


def test_text_in_a_column_is_wrapped_beneath_its_heading():
    section = Table("", (Column("name"), Column("what it is for", max_cell=200)), (("copy", "word " * 30),))
    heading, *lines = render.aligned(section, width=60)
    at = heading.index("what it is for")
    assert len(lines) > 2 and all(line[at:].startswith("word") for line in lines)


def test_columns_that_do_not_fit_stand_below_their_row_with_their_headings():
    columns = (Column("name"), *(Column(f"number {n}", is_number=True) for n in range(9)))
    section = Table("", columns, (("a", *(f"{n}234,567 GB/s" for n in range(9))), ("b", *("" for _ in range(9)))))
    lines = render.aligned(section, width=60)
    assert max(map(len, lines)) <= 60
    below = "\n".join(lines[1:])
    for n in range(9):
        assert f"{n}234,567 GB/s" in below
    assert "number 8: 8234,567 GB/s" in below
    assert lines[-1].strip() == "b"  # nothing stands below a row that has nothing there


cells = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=60)
tables = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(cells.filter(lambda t: ":" not in t), st.booleans()), min_size=n, max_size=n),
        st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1, max_size=4),
    )
)


@settings(max_examples=60, deadline=None)
@given(tables, st.integers(40, 140))
def test_folding_loses_no_letter_of_any_row(table, width):
    head, rows = table
    section = Table("", tuple(Column(name, is_number) for name, is_number in head), tuple(map(tuple, rows)))
    lines = render.aligned(section, width=width)
    assert max(map(len, lines)) <= width
    shown = letters("".join(lines))
    for letter in set("".join(cell for row in rows for cell in row)) - {" "}:
        assert shown.count(letter) >= sum(cell.count(letter) for row in rows for cell in row)


def words(text: str) -> set[str]:
    return set(re.split(r"[\s/,=;:_.-]+", text))


@each("width", [60, 80, 110, 140, 200])
@each("name", ["xeon-2-cores-pocl-quick", "h200-sxm-quick", "h100-sxm-all"])
def test_no_table_breaks_within_a_word_or_between_a_number_and_its_unit(name, width, documents):
    shown = render.text(documents(name), width=width)
    assert words(shown) <= words(render.text(documents(name)))
    assert max(map(folding.columns, shown.splitlines())) <= width
    broken = re.compile(r"(?<![\w.])(?:[KMGT]i?B|GB/s|ns|us|ms)(?![\w/])")
    for line in shown.splitlines():
        assert not broken.match(line.strip()), line


@pytest.fixture(scope="module")
def documents():
    """A function that gives the summary of a stored run."""

    @functools.cache
    def document(name: str) -> Document:
        run = jsonl.read(ROOT / "reports" / f"{name}.jsonl.gz")
        sheet = frame.sheet_of(run)
        return summary.summary_document(*frame.judged_rows(run, sheet), sheet)

    return document


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("spacing_bytes=256 B", ["spacing_bytes=", "256 B"]),
        ("215 KiB to 1.5 GB/s", ["215 KiB", " ", "to", " ", "1.5 GB/s"]),
        ("2 sockets", ["2", " ", "sockets"]),
        ("of the latency, GB/s", ["of", " ", "the", " ", "latency, GB/s"]),
        ("a_name_that_is_long/b", ["a_", "name_", "that_", "is_", "long/", "b"]),
        ("item/0/2,x", ["item/", "0/", "2,", "x"]),
    ],
)
def test_a_text_is_broken_at_separators(text, pieces):
    assert folding._pieces(text) == pieces


def test_wide_letters_take_two_columns():
    name = "\u8a08\u7b97" * 30
    section = Table("", COLUMNS[:3], ((name, "1 GB/s", "a remark " * 9), ("plain", "2 GB/s", name)))
    lines = render.aligned(section, width=60)
    assert max(map(folding.columns, lines)) <= 60 and "".join(lines).count("\u8a08") == 60
    assert max(map(folding.columns, folding.wrap(name, 60))) <= 60


def test_titles_notes_and_warnings_are_wrapped_too():
    section = Table("A title of many words. " * 8, COLUMNS, SECTION.rows, ("a note of many words " * 9,))
    document = Document((section,), "a heading of many words " * 7, ("a warning of many words " * 9,))
    assert max(map(len, render.text(document, width=80).split("\n"))) <= 80
    assert "note:" in render.text(document, width=80)


def test_colour_marks_statuses_and_changes_no_letter():
    rows = (("a", "suspect"), ("b", "failed: no memory"), ("c", "ok"))
    section = Table("", (Column("point"), Column("status")), rows)
    plain, coloured = render.aligned(section), render.aligned(section, colour=True)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain
    assert "\x1b[33m" in coloured[1] and "\x1b[31m" in coloured[2] and "\x1b" not in coloured[3]


@pytest.mark.parametrize("columns", [80, pytest.param(100, marks=pytest.mark.slow)])
def test_show_fits_its_terminal(columns):
    done = on_terminal("show", str(QUICK), columns=columns)
    assert done.returncode == 0 and max(map(len, done.text.split("\n"))) <= columns
    assert done.colours


def test_show_is_not_folded_where_wide_is_wanted_and_not_coloured_under_no_color():
    done = on_terminal("show", str(QUICK), "--wide", columns=80, NO_COLOR="1")
    assert max(map(len, done.text.split("\n"))) > 80
    assert not done.colours and "suspect" in done.text


def test_a_dumb_terminal_gets_no_codes():
    done = on_terminal("show", str(QUICK), "-b", "stream", columns=90, TERM="dumb")
    assert done.returncode == 0 and "\x1b" not in done.written and max(map(len, done.text.split("\n"))) <= 90
