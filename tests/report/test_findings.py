"""The table of every finding: as CSV, Markdown and LaTeX."""

import csv
import io
import math
import re

import pytest

from clmembench.model import CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.report import finding_tables, render
from clmembench.report.table import one_table as only
from tests import found_hierarchies as hierarchies
from tests.cases import each
from tests.found_hierarchies import KIB, known, level, unknown

EVIL = ["=1+cmd|' /C calc'!A0", "a|b", "<script>", "\x1b[31mred\n", "\u202eleft", "\\input{x}", "a & b_c"]


def test_every_finding_of_every_path_is_in_the_table_once():
    hierarchy = hierarchies.gpu()
    paths = (*hierarchy.levels, *hierarchy.tlb, hierarchy.local, *hierarchy.constant, *hierarchy.image)
    entries = finding_tables.entries(hierarchy)
    assert len(entries) == sum(len(of.findings) for of in paths) + len(hierarchy.patterns)
    assert len({(e.level, e.space, e.name) for e in entries}) == len(entries)
    assert {e.space for e in entries} == {"global", "local", "constant", "image1d_buffer"}


@pytest.mark.parametrize("form", [render.markdown, render.latex])
def test_a_table_has_a_heading_before_each_path_that_is_not_the_one_to_memory(form):
    lines = [
        line
        for line in form(only(finding_tables.finding_table(hierarchies.gpu_with_other_spaces()))).split("\n")
        if line.strip(" |&\\")
    ]
    firsts = [re.split(r"[|&]", line.strip("| "))[0].strip() for line in lines]
    dram = max(n for n, first in enumerate(firsts) if first == "DRAM")
    headings = [n for n, first in enumerate(firsts) if first.endswith("from the compute unit")]
    assert [firsts[n].split(":")[0] for n in headings] == [
        "Local memory", "Read-only global memory", "Private memory", "Constant arrays",
        "Constant memory", "Images over a buffer",
    ]  # fmt: skip
    others = [n for n, line in enumerate(lines) if re.search(r"readonly|private|constant|image", line) and n not in headings]
    assert dram < headings[0] < min(others)


def test_csv_has_numbers_as_they_are():
    rows = list(csv.DictReader(io.StringIO(render.csv_text(finding_tables.finding_fields(hierarchies.cpu())))))
    (size,) = [row for row in rows if (row["level"], row["property"]) == ("L3", "size_bytes")]
    assert (float(size["value"]), float(size["low"]), size["unit"]) == (8388608, 6.7 * 1024 * KIB, "B")
    assert (size["status"], size["evidence"]) == ("inconsistent", "chase-40")
    (policy,) = [row for row in rows if (row["level"], row["property"]) == ("L2", "policy")]
    assert (policy["value"], policy["status"], policy["reason"]) == ("", "undetermined", hierarchies.NO_CLOCK)


def test_tables_for_people_have_units_and_no_value_for_what_is_not_known():
    lines = render.markdown(only(finding_tables.finding_table(hierarchies.gpu()))).split("\n")
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert "| L1 | global | size | 233 KiB | 205 to 256 KiB | ok |" in lines[2]
    (entries,) = [line for line in lines if line.startswith("| L2 TLB | global | entries |")]
    assert "| – | at least 32768 | undetermined |" in entries
    (line,) = [line for line in lines if line.startswith("| L1 | constant | line |")]
    assert "| 64 B | exact | ok |" in line


def test_a_latency_in_a_unit_of_its_own_is_not_called_one_in_cycles():
    assert "| L1 | global | latency | 88.0 as recorded |" in render.markdown(
        only(finding_tables.finding_table(hierarchies.traces()))
    )
    assert "| L1 | global | latency in ns | 1.11 ns |" in render.markdown(only(finding_tables.finding_table(hierarchies.cpu())))


def test_long_evidence_is_counted_for_people_and_whole_in_csv():
    ids = tuple(f"chase-{n}" for n in range(40))
    hierarchy = Hierarchy((level("L1", "global", Finding("ways", 8, 8, 8, "", "ok", "sets", ids)),))
    assert "chase-0, chase-1, chase-2 and 37 more" in render.markdown(only(finding_tables.finding_table(hierarchy)))
    assert " ".join(ids) in render.csv_text(finding_tables.finding_fields(hierarchy))


def test_latex_is_a_whole_table():
    text = render.latex(only(finding_tables.finding_table(hierarchies.cpu())))
    assert text.startswith(r"\begin{tabular}{lllrrllll}") and text.endswith(r"\end{tabular}")
    rows = [line for line in text.split("\n") if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {8}


@each("evil", EVIL)
def test_hostile_text_stays_text(evil):
    found = Finding(evil, evil, None, None, evil, "inconsistent", evil, (evil,), evil)
    hierarchy = Hierarchy((CacheLevel(evil, evil, {evil: found}),), (TlbLevel(evil, {evil: found}),), patterns={evil: found})
    for line in csv.reader(io.StringIO(render.csv_text(finding_tables.finding_fields(hierarchy)))):
        assert len(line) == len(finding_tables.FIELDS)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in line)
    markdown = render.markdown(only(finding_tables.finding_table(hierarchy)))
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown.split("\n")}) == 1
    assert not re.search(r"(?<!\\)<[a-z/]", markdown)
    latex = render.latex(only(finding_tables.finding_table(hierarchy)))
    assert r"\input" not in latex
    assert [c for c in markdown + latex if c != "\n" and not c.isprintable()] == []


@each(
    ("finding", "words"),
    [
        (Finding("n", None, None, None, "B", "undetermined", ""), ""),
        (Finding("n", 5, 5, 5, "", "ok", "", ("chase:2",)), ""),
        (Finding("n", 5, 4.5, 6, "", "ok", "", ("chase:2",)), "4.50 to 6"),
        (Finding("n", 5.0, 4.5, 6, "ns", "ok", "", ("chase:2",)), "4.50 to 6.00"),
        (Finding("n", None, None, 64, "B", "undetermined", ""), "at most 64 B"),
        (Finding("n", None, -math.inf, math.inf, "B", "undetermined", ""), ""),
        (Finding("n", 4096, 1024, 1 << 30, "B", "ok", "", ("chase:2",)), "1 KiB to 1 GiB"),
        (Finding("n", 16384, 16384, 16416, "B", "ok", "", ("chase:2",)), "16 to 16.03 KiB"),
        (Finding("n", 16384, 16416, 16416, "B", "ok", "", ("chase:2",)), "16 KiB"),
    ],
)
def test_an_interval_in_words(finding, words):
    assert finding_tables.interval_text(finding) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [("line_bytes", "line"), ("latency_ns", "latency in ns"), ("bandwidth_gb_s", "bandwidth"), ("set_bits", "set bits")],
)
def test_a_property_has_a_name_for_people(name, words):
    assert finding_tables.property_label(name) == words


def test_words_of_a_finding():
    assert finding_tables.value_text(known("size_bytes", 233 * KIB, 205 * KIB, 256 * KIB)) == "233 KiB (205 to 256 KiB)"
    assert finding_tables.value_text(unknown("ways", "why", 2, 8)) == "undetermined, 2 to 8"
