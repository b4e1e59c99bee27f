"""A hierarchy drawn for a terminal: what it says, and that it stays within its columns whatever a file says."""

import re
from dataclasses import replace

import pytest

from clmembench.model import CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.specs.claims import Claim, list_claims
from clmembench.studies.hierarchy.views.tree import columns, draw_tree
from tests import found_hierarchies as hierarchies
from tests.cases import each
from tests.found_hierarchies import KIB, MIB, known, level, unknown

GPU = (hierarchies.gpu(), hierarchies.gpu_device(), list_claims(hierarchies.gpu_device()))
CPU = (hierarchies.cpu(), hierarchies.cpu_device(), list_claims(hierarchies.cpu_device()))
EVIL = ["<script>", "\x1b[31mred\x07\n", "\u202eleft", "漢字" * 30, "e\u0301" * 40, "x" * 500, "", "a (b [1] c)", "│┌┐"]


def of(*findings, name="L1"):
    return Hierarchy((level(name, "global", *findings),))


def inside(text):
    """What stands in boxes, on one line."""
    return " ".join(re.sub(r"[│┌┐└┘├┤┬┴─]+", " ", text).split())


@each("width", [60, 80, 100, 140])
@each("shown", [GPU, CPU, (hierarchies.traces(), None, ())])
def test_no_line_is_wider_than_asked_and_every_box_is_closed(shown, width):
    text = draw_tree(*shown, width)
    assert max(map(columns, text.split("\n"))) <= width
    for line in text.split("\n"):
        assert line.count("┌") == line.count("┐") and line.count("└") == line.count("┘")
    assert text.count("┌") == text.count("└")


def test_levels_stand_from_the_compute_unit_outwards():
    text = draw_tree(*GPU)
    titles = re.findall(r"┌[─┴]+ (.*?) ─", text)
    assert [t for t in titles if "TLB" not in t and "constant" not in t and "image" not in t] == [
        "compute unit, one of 132", "L1", "L2 near", "L2 far", "DRAM",
    ]  # fmt: skip
    assert {"L1 TLB", "L2 TLB", "constant L1", "constant L1.5", "image L1 (image1d_buffer)"} <= set(titles)


def titles_below(text, heading):
    """The titles of the boxes in the tree under a heading, which may stand in either of two columns."""
    lines = text.split("\n")
    (first,) = [n for n, line in enumerate(lines) if heading in line]
    at = lines[first].index(heading)
    column = [line[at:] for line in lines[first + 1 :]]
    tree = column[: next((n for n, line in enumerate(column) if not line.strip()), len(column))]
    assert tree[0].strip()[0] == "│", "the tree begins with a line from the compute unit"
    return [found[1] for line in tree if (found := re.match(r"┌[─┴]+ (.*?) ─", line))]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_paths_of_other_spaces_are_trees_of_their_own_and_nothing_stands_below_memory(width):
    text = draw_tree(hierarchies.gpu_with_other_spaces(), GPU[1], GPU[2], width)
    main, others = text.split("Other paths, each from the compute unit")
    titles = [title for title in re.findall(r"┌[─┴]+ (.*?) ─", main) if "TLB" not in title]
    assert titles[-1] == "DRAM" and "readonly" not in main and "private" not in main
    for heading, levels in {
        "Read-only global memory": ["readonly L1", "readonly L2"], "Private memory": ["private"],
        "Constant memory": ["constant L1", "constant L1.5"], "Constant arrays": ["constant L1 (constant_array)"],
        "Images over a buffer": ["image L1 (image1d_buffer)"],
    }.items():  # fmt: skip
        found = titles_below(others, heading)
        assert len(found) == len(levels), heading
        assert all(level.startswith(title.removesuffix("…")) for level, title in zip(levels, found, strict=True)), found
    assert max(map(columns, text.split("\n"))) <= width


def test_the_one_path_that_was_looked_at_is_drawn_as_such():
    text = draw_tree(Hierarchy((level("L1", "readonly", known("latency_cycles", 34.0)),)))
    assert "Other paths" not in text and "L1 (readonly)" in text


def test_values_stand_with_their_intervals_and_units():
    text = inside(draw_tree(*GPU))
    for words in (
        "233 KiB (205 to 256 KiB)",
        "32.2 cycles (32.0 to 32.4) · 16.2 ns (16.1 to 16.4)",
        "sector 32 B",
        "bandwidth 3,070 GB/s (3,062 to 3,079)",
        "reach 32 MiB (28 to 34 MiB)",
        "local memory · 29.0 cycles",
        "8.5 times the latency of L1",
    ):
        assert words in text, words


@each(
    ("finding", "words"),
    [
        (known("size_bytes", 32 * KIB), "32 KiB"),
        (known("size_bytes", MIB, 0.97 * MIB, 1.02 * MIB), "1 MiB (0.97 to 1.02 MiB)"),
        (known("size_bytes", MIB, 512 * KIB, 1.5 * MIB), "1 MiB (0.5 to 1.5 MiB)"),
        (Finding("size_bytes", 8 * MIB, 6 * MIB, None, "B", "ok", "m", ("chase:4",)), "8 MiB (at least 6 MiB)"),
        (Finding("size_bytes", 8 * MIB, 6 * MIB, float("inf"), "B", "ok", "m", ("chase:4",)), "8 MiB (at least 6 MiB)"),
        (Finding("size_bytes", 8 * MIB, None, None, "B", "ok", "m", ("chase:4",)), "8 MiB"),
        (unknown("size_bytes", "why", 64 * MIB), "size ? (at least 64 MiB) [1]"),
        (unknown("ways", "why", 2, 8), "ways ? (2 to 8) [1]"),
        (unknown("policy", "why"), "policy ? [1]"),
        (known("ways", 1), "1 way"),
        (known("ways", 8, 7, 8), "8 ways (7 to 8)"),
        (known("policy", "tree-PLRU"), "policy tree-PLRU"),
        (known("set_bits", "6-11"), "set bits 6-11"),
        (known("latency_cycles", 34.0, 33, 36, unit="as recorded"), "34.0 as recorded (33.0 to 36.0)"),
        (Finding("size_bytes", 8 * MIB, 6 * MIB, 11 * MIB, "B", "inconsistent", "a; b", (), "why"),
         "8 MiB (6 to 11 MiB), inconsistent [1]"),
        (Finding("size_bytes", None, 6 * MIB, 11 * MIB, "B", "inconsistent", "a; b", (), "why"),
         "size inconsistent ? (6 to 11 MiB) [1]"),
    ],
)  # fmt: skip
def test_a_finding_in_words(finding, words):
    (line,) = [line for line in draw_tree(of(finding)).split("\n") if line.startswith("│")]
    assert line.strip("│ ") == words


def test_what_is_not_known_has_its_reason_once():
    text = draw_tree(*GPU)
    assert text.count(hierarchies.HASHED[:40]) == 1
    assert "[1] L1 ways, sets, policy; L2 near ways, sets, policy: " in text
    assert text.count("ways, sets, policy ? [1]") == 2
    assert "Not measured\n  private: the compiler" in text


def test_a_reason_that_is_missing_is_said_to_be():
    assert "[1] L1 ways: no measurement determined it" in draw_tree(of(unknown("ways", "")))


def test_claims_stand_beside_what_was_found_and_contradictions_are_told():
    text = inside(draw_tree(*GPU))
    assert "line 128 B, as the driver claims" in text
    # 132 times 32 KiB are the first caches of all compute units, and no claim about the L2
    assert "the driver claims 4.1 MiB for all compute units, 32 KiB" in text
    assert "≠ the driver claims 4.1 MiB" not in text and "L2 far: the driver" not in text
    assert "the driver claims 48 KiB" in text and "≠ the driver claims 48 KiB" not in text
    assert "L3: the driver claims 32 MiB, found 8 MiB (6.7 to 11 MiB)" in draw_tree(*CPU)


def test_what_nobody_contradicts_has_no_such_heading():
    assert "contradicted" not in draw_tree(hierarchies.gpu(), hierarchies.gpu_device())
    agreed = draw_tree(of(known("ways", 8)), None, (Claim("L1", "ways", 8, "the manual"),))
    assert "8 ways, as the manual claims" in agreed and "≠" not in agreed


def test_latencies_are_compared_only_where_both_are_sure_and_in_one_unit():
    sure = known("latency_cycles", 4.0)

    def compared(*second):
        return "times the latency" in draw_tree(Hierarchy((level("L1", "global", sure), level("L2", "global", *second))))

    assert compared(known("latency_cycles", 12.0))
    assert not compared(unknown("latency_cycles", "why"))
    assert not compared(known("latency_cycles", 12.0, unit="as recorded"))
    assert not compared(replace(known("latency_cycles", 12.0), status="inconsistent"))
    assert not compared()


def test_patterns_have_bars_in_proportion_and_say_where_there_is_none():
    text = draw_tree(*GPU)
    bars = {line.split()[0]: line.count("▇") for line in text.split("\n") if re.match(r"  P\d ", line)}
    assert list(bars) == ["P1", "P2", "P3", "P4", "P5", "P6"]
    assert bars["P5"] > bars["P4"] > bars["P1"] > 0 == bars["P3"] == bars["P6"]
    assert "cache miss, both TLBs miss" in text and "undetermined [4]" in text
    both = {"P1": known("P1", 32.0, unit="cycles"), "P1_ns": known("P1_ns", 16.0, unit="ns")}
    assert "32.0 cycles, 16.0 ns" in draw_tree(Hierarchy(patterns=both))


def test_nothing_found_is_drawn_without_an_error():
    assert "compute unit" in draw_tree(Hierarchy())
    assert "L1" in draw_tree(Hierarchy((CacheLevel("L1", "global", {}),), (TlbLevel("L1 TLB", {}),)))


def test_bold_adds_codes_and_nothing_else():
    plain, bold = draw_tree(*GPU), draw_tree(*GPU, bold=True)
    assert "\x1b" not in plain and "\x1b[1mL1\x1b[0m" in bold
    assert re.sub(r"\x1b\[[01]m", "", bold) == plain


@each("evil", EVIL)
def test_whatever_a_file_says_stays_in_its_box(evil):
    found = Finding("size_bytes", 4096, 4096, 4096, evil, "inconsistent", evil, (evil,), evil)
    word = Finding(evil, evil, None, None, "", "ok", evil, ("chase:0", evil))
    one = CacheLevel(evil, evil, {"size_bytes": found, evil: word, "ways": unknown("ways", evil)})
    hierarchy = Hierarchy(
        (one, one), (TlbLevel(evil, {"reach_bytes": found}),), one, (one,), (one,), {evil: found, "P1": word}, (evil,)
    )
    info = replace(hierarchies.gpu_device(), name=evil, platform=evil, driver=evil)
    text = draw_tree(hierarchy, info, (Claim(evil, "size_bytes", 1, evil), Claim("L1", evil, 2, evil)), 80)
    assert [c for c in text if c != "\n" and not c.isprintable()] == []
    assert max(map(columns, text.split("\n"))) <= 80


def test_a_name_takes_as_many_columns_as_a_terminal_gives_it():
    assert [columns(text) for text in ("L1", "漢", "e\u0301", "\x1b[1mL1\x1b[0m")] == [2, 2, 1, 2]
    text = draw_tree(of(known("size_bytes", 4096), name="漢字"))
    boxed = [line for line in text.split("\n") if line[:1] in "┌│└"]
    assert {columns(line) for line in boxed} == {100}
