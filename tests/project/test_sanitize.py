"""Hostile names through every way out: terminal, Markdown, LaTeX, CSV, and the lines on standard error."""

from __future__ import annotations

import csv
import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from clmembench import sanitize
from clmembench.report import frame, render, views
from clmembench.report.table import one_table as only
from tests.builders import header, record, run, series
from tests.cases import each

BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
INVISIBLE = "\u200b\u2060\ufeff\u00ad\u2028\u2029\ud800\ue000"
CONTROL = "".join(map(chr, [*range(32), *range(127, 160)]))
GITHUB = MarkdownIt("gfm-like", {"linkify": False, "html": True})
anything = st.text() | st.text("\\|`*_{}[]()<>#+-=.!~$&^%\"'\n :/w1a@")


@each("c", [*CONTROL, *BIDIRECTIONAL, *INVISIBLE])
def test_what_cannot_be_seen_or_steers_a_terminal_is_a_question_mark(c):
    assert (
        sanitize.printable(f"a{c}b")
        == sanitize.line(f"a{c}b")
        == sanitize.latex(f"a{c}b")
        == sanitize.csv_cell(f"a{c}b")
        == "a?b"
    )
    assert sanitize.markdown(f"a{c}b") == "a b"


@each("text", ["Ångström µ", "数値 64", "עברית", "a b", "64 KiB – ok", "e\u0301"])
def test_what_can_be_read_stays_as_it_is(text):
    assert sanitize.printable(text) == sanitize.line(text) == sanitize.markdown(text) == sanitize.latex(text) == text


@given(st.text())
def test_printable_text_is_printable_and_as_long(text):
    assert sanitize.printable(text).isprintable() and len(sanitize.printable(text)) == len(text)
    assert {unicodedata.category(c) for c in sanitize.printable(text)}.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def test_a_line_is_cut_where_it_hides_all_others():
    assert sanitize.line("x" * 2000) == "x" * 2000
    assert sanitize.line("x" * 2001) == "x" * 1999 + "…"
    assert sanitize.line("abc\x1b", 3) == "ab…"


# ---- Markdown -----------------------------------------------------------------------------------------------------------


def rendered(source: str) -> tuple[set[str], str]:
    """Tags of a rendering by GitHub's rules, and its text."""
    tags, words = set(), []
    for token in GITHUB.parse(source):
        for inner in [token, *(token.children or [])]:
            if inner.type in ("text", "code_inline", "html_inline", "html_block", "code_block", "fence"):
                words.append(inner.content)
            tags.add(inner.tag if inner.type not in ("html_inline", "html_block") else "html")
    return tags - {""}, "".join(words)


@given(anything)
def test_any_text_stays_text_in_a_paragraph(text):
    tags, words = rendered(sanitize.markdown(text))
    assert tags <= {"p"}
    assert words == sanitize.printable(text, " ").strip()


@given(anything)
def test_any_text_stays_one_cell_of_a_table(text):
    source = f"| a | b |\n|---|---|\n| {sanitize.markdown(text)} | end |"
    tags, words = rendered(source)
    assert tags <= {"table", "thead", "tbody", "tr", "th", "td"}
    assert words == "ab" + sanitize.printable(text, " ").strip() + "end"


@pytest.mark.parametrize("text", ["http://evil.example/x", "https://evil.example", "www.evil.example", "WWW.evil.example"])
def test_an_address_is_no_link(text):
    # what GitHub makes a link of without any brackets
    assert not re.search(r"(?<!\\)://|www\.", sanitize.markdown(text), re.IGNORECASE)
    assert rendered(sanitize.markdown(text))[1] == text


@each(
    ("text", "escaped"),
    [
        ("op=copy array_bytes=256 MiB", "op=copy array_bytes=256 MiB"), ("-2.5 ns", "-2.5 ns"), ("1.5 GB/s", "1.5 GB/s"),
        ("_x_", r"\_x\_"), ("$x$", r"\$x\$"), ("a & b", r"a \& b"), ("# h", r"\# h"), ("- x", r"\- x"), ("1. x", r"1\. x"),
        ("---", r"\---"), ("> q", r"\> q"), ("  code", "code"), ("~~x~~", r"\~\~x\~\~"),
    ],
)  # fmt: skip
def test_only_what_would_be_markup_is_escaped(text, escaped):
    assert sanitize.markdown(text) == escaped


# ---- LaTeX --------------------------------------------------------------------------------------------------------------


def unescaped(source: str) -> str:
    """What LaTeX prints of text in which every special character is escaped; fails at one that is not."""
    words = {
        "textbackslash": "\\",
        "textasciicircum": "^",
        "textasciitilde": "~",
        "textless": "<",
        "textgreater": ">",
        "textbar": "|",
    }
    found, at = [], 0
    while at < len(source):
        if match := re.compile(r"\\(text[a-z]+)\{\}").match(source, at):
            found.append(words[match[1]])
        elif match := re.compile(r"\\[{}$&#_%]|\{[][*]\}").match(source, at):
            found.append(match[0][1])
        else:
            match = re.compile(r"[^\\{}$&#_%^~<>|*\[\]]").match(source, at)
            assert match, f"{source[at:]!r} is not escaped"
            found.append(match[0])
        at = match.end()
    return "".join(found)


@given(anything)
def test_any_text_stays_text_in_latex(text):
    assert unescaped(sanitize.latex(text)) == sanitize.printable(text)


@each("evil", ["\\input{/etc/passwd}", "a & b \\\\ c", "50%", "*x", "[2pt]", "$\\frac{1}{2}$", "x\ny", "|<~^>"])
def test_a_latex_table_keeps_its_shape(evil):
    found = run(
        [record(evil, {evil: evil}, series([100] * 8, nbytes=1000))], header(cards={evil: header().benchmarks["stream"]})
    )
    begin, top, head, mid, line, bottom, end = render.latex(only(views.point_table(frame.rows(found, None)))).split("\n")
    assert (begin, top, mid, bottom, end) == (
        r"\begin{tabular}{lllrlrrl}", r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}",
    )  # fmt: skip
    for row in (head, line):
        assert row.endswith(r" \\")
        assert len([unescaped(cell) for cell in row.removesuffix(r" \\").split(" & ")]) == 8
    assert unescaped(line.split(" & ")[0]) == sanitize.printable(evil)


# ---- CSV ----------------------------------------------------------------------------------------------------------------


@given(st.text())
def test_no_cell_of_a_csv_is_a_formula_or_another_line(text):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([sanitize.csv_cell(text), sanitize.csv_cell(5), sanitize.csv_cell(None)])
    ((cell, number, nothing),) = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert (number, nothing) == ("5", "")
    assert cell in (sanitize.printable(text), "'" + sanitize.printable(text))
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d"))
    assert cell.isprintable()
