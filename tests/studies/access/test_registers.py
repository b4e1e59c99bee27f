"""The largest private array in registers, found again on synthetic devices of known truth, Fang et al.'s table 3 among them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from clmembench.analysis.derive import derive
from clmembench.model import BenchmarkInfo, Metric, Record, Value
from clmembench.report.figures.curves import drawn
from clmembench.report.frame import parts, rows
from clmembench.studies.access.private_arrays import PUBLISHED, registers_sections
from clmembench.studies.access.registers import COST_EVIDENCE, MEMORY_EVIDENCE, SPILL_EVIDENCE, RegisterLimit, register_limits
from tests.builders import clock, header, record, run, series

STEP = Metric("step", "ns", "ops", "slope", "lower", cycles=True)
CARDS = {"private_array": BenchmarkInfo(1, "access", "A step.", "Fang et al. 2017", (STEP,), x="words")}
SIZES = {
    "add": (2, 4, 8, 16, 29, 32, 64, 73, 96, 128, 256),
    "matmul": (4, 9, 16, 25, 36, 49, 64, 144),
    "sort": (2, 4, 16, 64, 256),
}
SM_10 = {"add": 29, "matmul": 4, "sort": 0}
SM_35 = {"add": 73, "matmul": 36, "sort": 0}

Facts = Callable[[str, int, bool], Mapping[str, Value]]  # of a pattern, words and whether they are in registers


def stack(pattern: str, words: int, fits: bool) -> Mapping[str, Value]:
    """As NVIDIA's build log has it, where an array is in registers or not at all."""
    arrays = 3 if pattern == "matmul" else 1
    frame = 0 if fits else 4 * words * arrays
    return {"private_bytes": 0, "stack_bytes": frame, "spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 40}


def private(pattern: str, words: int, fits: bool) -> Mapping[str, Value]:
    """As a driver without a log has it."""
    return {"private_bytes": 0 if fits else 4 * words}


def nothing(pattern: str, words: int, fits: bool) -> Mapping[str, Value]:
    """As PoCL has it."""
    return {"private_bytes": 1024, "preferred_multiple": 8}


def point(pattern: str, words: int, cost: float, facts: Mapping[str, Value], indexing: str = "static", **changes) -> Record:
    rng = random.Random(f"{pattern}{words}")
    samples = [cost * (1 + rng.gauss(0, 0.003)) for _ in range(16)]
    ends = [series([5000 + round(n * ns) for ns in samples], ops=n) for n in (100_000, 300_000)]
    params = {"pattern": pattern, "indexing": indexing, "words": words}
    return record("private_array", params, *ends, facts=facts, core_clock=clock(2.0), index=words, **changes)


def points(truth: Mapping[str, int], facts: Facts, spilled_cost: float = 8.0) -> list[Record]:
    """Small arrays cost somewhat more by their loop's overhead, spilled ones `spilled_cost` times as much."""

    def cost(words: int, fits: bool) -> float:
        return (1 + 1 / words) * (1 if fits else spilled_cost)

    return [
        point(pattern, words, cost(words, words <= most), facts(pattern, words, words <= most))
        for pattern, most in truth.items()
        for words in SIZES[pattern]
    ]


def found(records: list[Record]) -> dict[str, RegisterLimit]:
    one = run(records, header(cards=CARDS))
    return {k.pattern: k for k in register_limits(derive(one))}


@pytest.mark.parametrize("facts", [stack, private])
@pytest.mark.parametrize("truth", [SM_10, SM_35], ids=["sm_10", "sm_35"])
def test_the_papers_table_is_found_again(truth, facts):
    for pattern, one in found(points(truth, facts)).items():
        sizes, limit = SIZES[pattern], one.limit
        above = min(words for words in sizes if words > truth[pattern])
        assert (limit.status, limit.value, limit.low, limit.high) == ("ok", truth[pattern], truth[pattern], above - 1)
        assert one.spilled_from == above
        assert one.by[MEMORY_EVIDENCE].value == truth[pattern]
        assert set(limit.evidence) == {f"private_array:{words}:0" for words in sizes}
        if truth[pattern] > sizes[1]:
            assert (one.by[COST_EVIDENCE].low, one.by[COST_EVIDENCE].high) == (truth[pattern], above - 1)
            assert "the cost agrees" in limit.method
            assert one.registers_cost == pytest.approx(2 * (1 + 1 / truth[pattern]), rel=0.02)
        else:  # with nothing in registers there is no step to see
            assert one.by[COST_EVIDENCE].status == "undetermined" or pattern == "matmul"
        assert one.unit == "cycles"


def test_an_array_that_is_spilled_from_the_least_size_has_a_limit_of_0():
    one = found(points(SM_35, stack))["sort"]
    assert (one.limit.value, one.limit.low, one.limit.high, one.spilled_from) == (0, 0, 1, 2)
    assert one.registers_cost is None
    assert "no rise" in one.by[COST_EVIDENCE].reason


def test_a_few_spilled_registers_count_before_the_cost_shows_them():
    def few(words: int) -> Mapping[str, Value]:
        over = max(0, 4 * (words - 64))
        return {"stack_bytes": over, "spill_store_bytes": over, "spill_load_bytes": over}

    records = [point("add", w, 1.0 if w <= 73 else 3.0, few(w)) for w in (8, 16, 32, 64, 73, 128, 256)]
    one = found(records)["add"]
    assert (one.limit.status, one.limit.low, one.limit.high) == ("ok", 64, 72)
    assert (one.by[SPILL_EVIDENCE].low, one.by[SPILL_EVIDENCE].high) == (64, 72)
    assert (one.by[COST_EVIDENCE].low, one.by[COST_EVIDENCE].high) == (73, 127)


def test_that_nothing_was_spilled_is_no_evidence_of_registers():
    one = found(points({"sort": 0}, stack))["sort"]
    assert one.by[SPILL_EVIDENCE].status == "undetermined"
    only = [point("sort", w, 4.0, {"spill_store_bytes": 0, "spill_load_bytes": 0}) for w in SIZES["sort"]]
    assert found(only)["sort"].limit.status == "undetermined"


@pytest.mark.parametrize("limit", [29, 0], ids=["a step", "none"])
def test_where_the_compiler_says_nothing_the_cost_alone_decides_nothing(limit):
    one = found(points({"add": limit}, nothing))["add"]
    assert one.limit.status == "undetermined"
    assert one.limit.value is None
    assert "1024 B whatever the array" in one.limit.reason
    assert (one.limit.low, one.limit.high) == ((29, 31) if limit else (None, None))


def test_a_driver_whose_private_memory_is_never_0_is_not_believed():
    grows = [point("add", w, 1.0, {"private_bytes": 16 + 4 * w}) for w in SIZES["add"]]
    assert found(grows)["add"].limit.status == "undetermined"
    zero = [point("add", w, 1.0, {"private_bytes": 0}) for w in SIZES["add"]]
    assert found(zero)["add"].limit.status == "undetermined"


def test_cost_that_rises_while_all_is_in_registers_is_a_contradiction():
    records = [point("add", w, 1.0 if w <= 16 else 4.0, stack("add", w, w <= 96)) for w in SIZES["add"]]
    one = found(records)["add"].limit
    assert (one.status, one.value, one.low, one.high) == ("inconsistent", None, 16, 127)
    assert "rises at 29 words" in one.reason
    assert "96 words are in registers" in one.reason


def test_cost_that_stays_low_with_the_array_in_memory_is_a_contradiction():
    records = [point("add", w, 1.0 if w <= 96 else 4.0, stack("add", w, w <= 16)) for w in SIZES["add"]]
    one = found(records)["add"].limit
    assert one.status == "inconsistent"
    assert "most of 29 words are in memory" in one.reason


def test_arrays_kept_at_every_size_bound_the_limit_from_below():
    one = found([point("add", w, 1.0, stack("add", w, True)) for w in SIZES["add"]])["add"]
    assert (one.limit.status, one.limit.low, one.limit.high) == ("undetermined", 256, None)
    assert one.spilled_from is None


def test_a_larger_array_that_is_kept_again_gives_no_one_limit():
    records = [point("add", w, 1.0, stack("add", w, w != 64)) for w in SIZES["add"]]
    one = found(records)["add"].limit
    assert (one.status, one.value, one.low, one.high) == ("undetermined", None, 32, 256)
    assert "64 words are not kept, 256 are" in one.reason


def test_points_without_a_cost_still_tell_what_the_compiler_said_and_wrong_ones_do_not():
    records = points(SM_35, stack)
    flat = [replace(r, series=tuple(replace(s, device_ns=(9000,) * 16) for s in r.series)) for r in records]
    assert {pattern: one.limit.value for pattern, one in found(flat).items()} == SM_35
    wrong = [replace(r, status="wrong") if r.params["words"] == 73 else r for r in records]
    assert found(wrong)["add"].limit.low == 64
    assert found([replace(r, status="failed", series=(), facts={}) for r in records]) == {}


def test_the_section_has_the_papers_rows_and_says_which_evidence():
    one = run(points(SM_35, stack), header(cards=CARDS))
    (section,) = registers_sections(one, rows(one, None))
    shown = {row[0]: row[1:] for row in section.rows}
    assert shown["add"][:4] == ("static", "73", "96", "73, under 96")
    assert shown["matmul"][1:3] == ("6*6", "7*7")
    assert shown["sort"][1:3] == ("0", "2")
    assert [row[-1] for row in section.rows] == ["ok"] * 3
    assert PUBLISHED in section.notes
    assert all(len(row) == len(section.header) for row in section.rows)
    quiet = run(points(SM_35, nothing), header(cards=CARDS))
    (section,) = registers_sections(quiet, rows(quiet, None))
    assert {row[2] for row in section.rows} <= {"–", "73, under 96", "6*6, under 7*7"}
    assert {row[-1] for row in section.rows} == {"undetermined"}


def test_the_figure_tells_what_is_in_registers_where_the_compiler_does():
    one, quiet = (run(points(SM_35, facts), header(cards=CARDS)) for facts in (stack, nothing))
    card = CARDS["private_array"]
    first, second = parts([one, quiet], ["first", "second"])
    svg = drawn("private_array", card, [first])
    assert svg.startswith("<svg")
    assert svg == drawn("private_array", card, [first]), "byte-stable"
    for text in ("static, in registers", "static, not in registers", "matmul", "cycles a step"):
        assert text in svg
    silent = drawn("private_array", card, [second])
    assert "in registers" not in silent
    both = drawn("private_array", card, [first, second])
    assert "first, static, in registers" in both
    assert drawn("private_array", card, parts([run([], header(cards=CARDS))])) == ""


EXTREMES = [0, -1, 1, 1 << 62, -(1 << 63), "", "<script>" * 9, True]


FACTS = [-1, 1 << 62, "<script>"]


# each value once; every pair of them with the slow tests
@pytest.mark.parametrize(
    ("words", "fact"),
    [
        pytest.param(words, fact, marks=[pytest.mark.slow] * (n % len(FACTS) != m))
        for n, words in enumerate(EXTREMES)
        for m, fact in enumerate(FACTS)
    ],
)
def test_whatever_a_file_holds_can_be_shown(words, fact):
    records = points({"add": 29}, stack)
    facts = dict.fromkeys(("private_bytes", "stack_bytes", "spill_store_bytes"), fact)
    odd = replace(records[0], params={**records[0].params, "words": words}, facts=facts)
    bare = replace(records[1], params={"words": words}, core_clock=None)
    one = run([*records, odd, bare, replace(odd, params={})], header(cards=CARDS))
    table = rows(one, None)
    assert registers_sections(one, table)[0].rows
    assert drawn("private_array", CARDS["private_array"], parts([one]))
