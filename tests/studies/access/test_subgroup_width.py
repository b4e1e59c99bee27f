"""The width of a sub-group from synthetic costs of work-items that go two ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from clmembench.analysis.derive import derive
from clmembench.model import BenchmarkInfo, Metric, Record
from clmembench.report.frame import rows
from clmembench.studies.access.private_arrays import width_sections
from clmembench.studies.access.subgroup_width import NO_LOCKSTEP, SubGroupWidth, measure_sub_group_width
from tests.builders import clock, device, header, record, run, series
from tests.cases import each

COST = Metric("multiply_add", "ns", "ops", "slope", "lower", cycles=True)
CARDS = {"divergence": BenchmarkInfo(1, "access", "Cost.", "Fang et al. 2017", (COST,), x="span")}
GROUP = 256
SPANS = [1 << k for k in range(9)]


def point(span: int, cost: float, noise: float = 0.004, **changes) -> Record:
    rng = random.Random(span)
    samples = [cost * (1 + rng.gauss(0, noise)) for _ in range(16)]
    ends = [series([5000 + round(n * ns) for ns in samples], ops=n) for n in (10_000, 30_000)]
    changes = {"facts": {"preferred_multiple": 32}, "core_clock": clock(1.0), **changes}
    return record("divergence", {"span": span}, *ends, index=span, **changes)


def lockstep(items: int) -> Callable[[int], float]:
    """Twice the cost where a sub-group of that many work-items has both ways in it."""
    return lambda span: 4.0 if span < items and span < GROUP else 2.0


def records(cost: Callable[[int], float], spans: Sequence[int] = SPANS, **changes) -> list[Record]:
    return [point(span, cost(span), **changes) for span in spans]


def found(measured: list[Record], claimed: int = 0) -> SubGroupWidth:
    one = run(measured, header(device(sub_group_items=claimed), cards=CARDS))
    width_found = measure_sub_group_width(derive(one), one.header.device)
    assert width_found is not None
    return width_found


@each("noise", [0.0, 0.004, 0.05])
@each("items", [2, 8, 16, 32, 64, 128])
def test_widths_are_found_again(items, noise):
    one = found(records(lockstep(items), noise=noise), items)
    assert (one.finding.status, one.finding.value, one.finding.low, one.finding.high) == ("ok", items, items, items)
    assert one.verdict == "as the device claims"
    assert set(one.finding.evidence) == {f"divergence:{span}:0" for span in SPANS}


def test_without_lockstep_the_width_is_1_and_says_why():
    one = found(records(lockstep(1)))
    assert (one.finding.status, one.finding.value, one.finding.reason) == ("ok", 1, NO_LOCKSTEP)
    assert one.verdict == "the device claims nothing"


def test_no_step_against_a_claim_is_undetermined():
    one = found(records(lockstep(1)), 32)
    assert (one.finding.status, one.finding.value, one.finding.low, one.finding.high) == ("undetermined", None, 1, 32)
    assert "claims 32" in one.finding.reason


def test_another_width_than_claimed_is_said():
    one = found(records(lockstep(32)), 64)
    assert one.finding.value == 32
    assert one.verdict == "differs: the device claims 64"


def test_a_group_within_one_sub_group_bounds_the_width_from_below():
    one = found(records(lockstep(512)))
    assert (one.finding.status, one.finding.low, one.finding.high) == ("undetermined", 256, None)


def test_what_takes_neither_once_nor_twice_as_long_tells_bounds_alone():
    def partly(span: int) -> float:
        return 4.0 if span < 16 else 3.0 if span == 16 else 2.0

    one = found(records(partly), 32)
    assert (one.finding.status, one.finding.low, one.finding.high) == ("undetermined", 16, 32)
    assert "with 16 neighbours" in one.finding.reason


def test_noise_that_hides_the_step_gives_no_width():
    assert found(records(lockstep(32), noise=0.8)).finding.status == "undetermined"


def test_a_step_the_wrong_way_round_gives_no_width():
    one = found(records(lambda span: 4.0 if span in (1, 2, 32) else 2.0))
    assert (one.finding.status, one.finding.value) == ("undetermined", None)


@pytest.mark.parametrize("left_out", [16, 32])
def test_spans_beside_the_step_are_needed(left_out):
    one = found(records(lockstep(32), [s for s in SPANS if s != left_out]))
    assert one.finding.status == "undetermined"


def test_spans_that_begin_wide_do_not_tell_a_width():
    assert found(records(lockstep(8), [8, 16, 32, 64, 256])).finding.value is None


def test_ways_of_unlike_cost_are_told_from_waiting():
    # where all go the cheaper way, half of what the two cost together: as good as a sub-group of the whole group
    one = found(records(lambda span: 2.0 if span == GROUP else 3.0))
    assert (one.finding.status, one.finding.low) == ("undetermined", None)


def test_too_few_costs_are_no_evidence():
    measured = records(lockstep(32))
    failed = [record("divergence", r.params, status="failed", reason="no") for r in measured[2:]]
    assert found([*measured[:2], *failed]).finding.status == "undetermined"
    one = run([], header(cards=CARDS))
    assert measure_sub_group_width([], one.header.device) is None


def test_a_clock_that_differs_between_points_does_not_count():
    slow = [
        point(s, 2 * lockstep(32)(s) if s > 64 else lockstep(32)(s), core_clock=clock(0.5 if s > 64 else 1.0)) for s in SPANS
    ]
    assert found(slow, 32).finding.value == 32


def test_the_section_stands_the_claim_beside_the_measured_width():
    one = run(records(lockstep(32)), header(device(sub_group_items=64), cards=CARDS))
    first, second = width_sections(one, rows(one, None))
    assert first.rows == (("32", "64", "32", "ok", "differs: the device claims 64"),)
    assert [row[0] for row in second.rows] == [str(span) for span in SPANS]
    assert all(len(row) == len(s.header) for s in (first, second) for row in s.rows)
    low, high = map(float, second.rows[0][3].split(" to "))
    assert low < 2 < high
    assert width_sections(run([], header(cards=CARDS)), []) == []
    bad = run([*records(lockstep(32), SPANS[1:]), record("divergence", {"span": 1}, status="failed", reason="why")], one.header)
    section = width_sections(bad, rows(bad, None))[1]
    assert [tuple(map(str, row)) for row in section.rows if row[0] == "1"] == [("1", "failed [1]", "", "")]
    assert any("[1]" in note and "why" in note for note in section.notes)


@each("fact", [0, -1, 1 << 62, "<script>" * 9, True])
@each("span", [0, -1, 3, 1 << 62, -(1 << 63), "", True])
def test_whatever_a_file_holds_can_be_shown(span, fact):
    odd = [point(1, 2.0, facts={"preferred_multiple": fact}), point(2, 1e-9), point(4, 1e9)]
    odd += [record("divergence", params, *odd[0].series, index=9) for params in ({"span": span}, {})]
    for measured in (odd, [*records(lockstep(32)), odd[3], odd[4]]):
        one = run(measured, header(device(sub_group_items=-(1 << 62)), cards=CARDS))
        for section in width_sections(one, rows(one, None)):
            assert all(len(row) == len(section.header) for row in section.rows)
