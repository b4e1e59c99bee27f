"""The scripts' error tables: what exists counts where it was not found, and bounds are judged."""

import re

import pytest

from clmembench.model import CacheLevel, Hierarchy, TlbLevel
from clmembench.model.findings import measured_finding, undetermined_finding
from scripts.dissect_error_rate import judge_hierarchy
from scripts.trace_error_rate import DOCS, sentence, table, write_block
from tests.cases import each
from tests.published import PUBLISHED
from tests.simulated import KIB, Cache, Machine, Path, Tlb, plain

DEVICE = Machine(
    "known", {"global": Path((Cache(plain(64, 8, 64), 64, 4.0),), 100.0, (Tlb(plain(1, 32, 4096), 4096, 7.0),))}, ghz=2.0
)


def found(name, value, **more):
    return measured_finding(name, value, "test", ("chase:1",), **more)


def outcomes(hierarchy):
    return {(row.parameter, row.outcome) for row in judge_hierarchy("known", DEVICE, hierarchy)}


def test_what_exists_and_was_not_found_is_missing():
    said = judge_hierarchy("known", DEVICE, Hierarchy(levels=()))
    assert {row.outcome for row in said} == {"missing"} and len(said) == 7 + 1 + 7
    assert "| all | 15 | 0 (0.0%) | 0 (0.0%) | 0 (0.0%) | 0 (0.0%) | 15 (100.0%) | 0, 0 |" in table(said)


def test_answers_are_right_or_wrong_and_levels_that_do_not_exist_are_wrong():
    level = CacheLevel("L1", "global", {"ways": found("ways", 8), "sets": found("sets", 32)})
    second = CacheLevel("L2", "global", {"ways": found("ways", 8)})
    tlb = TlbLevel("L1 TLB", {"entries": found("entries", 32)})
    said = outcomes(Hierarchy(levels=(level, second), tlb=(tlb,)))
    assert {
        ("ways", "right"),
        ("sets", "wrong"),
        ("ways", "wrong"),
        ("TLB entries", "right"),
        ("line_bytes", "missing"),
    } <= said


def test_a_level_of_unknown_number_is_judged_by_the_cache_that_it_can_be():
    """One that names its number is judged by that cache; one that says that it is not known by the nearest latency."""
    caches = tuple(Cache(plain(16 << 2 * n, 8, 64), 64, hit) for n, hit in enumerate((4.0, 20.0, 60.0)))
    device = Machine("three", {"global": Path(caches, 300.0, ())}, ghz=2.0)
    first = CacheLevel("L1", "global", {"latency_cycles": found("latency_cycles", 4.0)})
    for name, outcome in (("L2", "wrong"), ("L2?", "right")):
        far = {"latency_cycles": found("latency_cycles", 60.0), "size_bytes": found("size_bytes", caches[2].size_bytes)}
        rows = judge_hierarchy("three", device, Hierarchy(levels=(first, CacheLevel(name, "global", far))))
        assert [row.outcome for row in rows if row.said == caches[2].size_bytes] == [outcome]
        assert sum(row.outcome == "missing" and row.parameter == "size_bytes" for row in rows) == 2
    wrong = CacheLevel("L2?", "global", {"latency_cycles": found("latency_cycles", 90.0)})
    rows = judge_hierarchy("three", device, Hierarchy(levels=(first, wrong)))
    assert [row.true for row in rows if row.outcome == "wrong"] == [60.0]


@pytest.mark.parametrize(("low", "high", "hold"), [(16, 48, True), (33.5, 64, False), (None, 30, False), (None, None, None)])
def test_bounds_of_what_is_undetermined_are_judged(low, high, hold):
    ends = [end and end * KIB for end in (low, high)]
    level = CacheLevel("L1", "global", {"size_bytes": undetermined_finding("size_bytes", "why", "test", (), *ends)})
    row = next(r for r in judge_hierarchy("known", DEVICE, Hierarchy(levels=(level,))) if r.parameter == "size_bytes")
    assert (row.outcome, row.bounds_hold) == ("undetermined", hold)


@each("name", PUBLISHED)
def test_a_published_device_names_its_source_and_what_is_assumed(name):
    device = PUBLISHED[name]()
    assert device.source and device.facts["assumed"]
    sizes = [cache.size_bytes for cache in device.paths["global"].caches]
    assert sizes == sorted(sizes)


def blocks(page: str) -> dict[str, str]:
    """What the docs have between the marks of each table of errors."""
    return {
        found[1]: found[2] for found in re.finditer(r"<!-- begin (errors-[\w-]+) -->\n(.*?)<!-- end \1 -->", page, re.DOTALL)
    }


def test_the_docs_have_each_table_of_errors_once_and_its_sentence_is_the_tables():
    found = blocks(DOCS.read_text())
    assert set(found) == {"errors-of-drawn", "errors-of-published", "errors-of-traces"}
    for text in found.values():
        told, *rows = [line for line in text.splitlines() if line]
        right, wrong = re.search(r"([\d.]+)% right, [\d.]+% wrong \((\d+)\)", told).groups()
        for row in rows[-1:]:
            cells = [cell.strip() for cell in row.split("|")[1:-1]]
            assert cells[0] == "all" and f"{cells[1]} answers" in told and f"({right}%)" in cells[2]
            assert cells[3].startswith(f"{wrong} (")


def test_no_other_sentence_has_rates_of_errors_of_its_own():
    """They were four different ones: README, changelog and two places of the docs."""
    root = DOCS.parent.parent
    rate = re.compile(r"% of [\d,]+ (?:\w+ )?answers|answers\s+(?:are|were)\s+(?:right|wrong)|[\d.]+%\s+wrong")
    for path in (root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").glob("*.md"))):
        text = path.read_text()
        for block in blocks(text).values():
            text = text.replace(block, "")
        assert not rate.search(text), (path.name, rate.search(text))


def test_a_table_is_written_where_it_stood(tmp_path):
    page = tmp_path / "topology.md"
    page.write_text("# Title\n\n<!-- begin errors-of-drawn -->\nold\n<!-- end errors-of-drawn -->\nafter\n")
    rows = judge_hierarchy("known", DEVICE, Hierarchy(levels=()))
    told = sentence(rows, "Seeds 1 to 2", 1, 2)
    assert told.startswith("Seeds 1 to 2, 1 of 2 done in time: 15 answers, 0.0% right, 0.00% wrong (0)")
    for _ in range(2):
        write_block("errors-of-drawn", f"{told}\n\n{table(rows)}", page)
        text = page.read_text()
        assert text.startswith("# Title\n\n<!-- begin") and text.endswith("<!-- end errors-of-drawn -->\nafter\n")
        assert told in blocks(text)["errors-of-drawn"] and "old" not in text and text.count(told) == 1
    with pytest.raises(ValueError, match="no block other"):
        write_block("other", told, page)
