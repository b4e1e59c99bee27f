"""answers: records of known latency to answers, and what has none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import ClockReading, Pattern, Placement, Probe, Record, Trace
from clmembench.studies.hierarchy import chase_latency
from tests.builders import clock, record, series

LAP = Probe(Pattern("random", 64, 64))
TRACE = Probe(Pattern("random", 64, 64), mode="trace", record=5)
COST, CHAIN = 20, 16384
TICKS_A_CYCLE = 0.5


def lap(ns_per_step: float, **changes) -> Record:
    jitter = np.arange(-10, 11)
    ends = [series([5000 + round(n * ns_per_step) + int(j) for j in jitter], ops=n) for n in (10_000, 30_000)]
    return record("chase", LAP.params(), *ends, **{"core_clock": clock(2.0), **changes})


def trace(cycles: np.ndarray, costs: np.ndarray | None = None, **changes) -> Record:
    """Of accesses of that many cycles, (samples, record), on a core whose counter ticks at half its clock."""
    rows = len(cycles)
    ticks = np.round(COST + TICKS_A_CYCLE * cycles).astype(np.uint32)
    costs = np.full((rows, 8), COST, np.uint32) if costs is None else costs
    # the clock's chain takes 4 cycles an operation
    chain = np.full((rows, 2), [CHAIN, COST + 4 * CHAIN * TICKS_A_CYCLE], np.uint64)
    reads = {
        "ticks": Trace.pack("ticks", list(ticks)),
        "cost": Trace.pack("ticks", list(costs)),
        "chain": Trace.pack("", list(chain)),
    }
    return record("chase", TRACE.params(), series([1000] * rows, ops=5, reads=reads), **{"core_clock": clock(2.0), **changes})


def test_the_mean_over_laps_is_in_cycles_of_the_core_and_names_its_record():
    found = chase_latency.answer(lap(15.0, index=7), LAP)
    assert (found.unit, found.evidence, found.reason) == ("cycles", ("chase:7",), "")
    assert found.value == pytest.approx(30.0) and found.ns == pytest.approx(15.0)
    assert 29.9 < found.low < found.value < found.high < 30.1


def test_a_further_process_is_told_apart():
    assert chase_latency.answer(lap(15.0, index=7, process=2, place=Placement()), LAP).evidence == ("chase:7/2",)


@pytest.mark.parametrize("unknown", [None, clock(2.0, None)], ids=["no reading", "cycles not known"])
def test_without_a_known_clock_it_is_in_ns(unknown):
    found = chase_latency.answer(lap(15.0, core_clock=unknown), LAP)
    assert (found.unit, found.value) == ("ns", found.ns) and found.ns == pytest.approx(15.0)


@pytest.mark.parametrize(("probe", "made"), [(LAP, lap(15.0)), (TRACE, trace(np.full((8, 5), 30.0)))], ids=["lap", "trace"])
def test_a_clock_that_moved_widens_the_interval(probe, made):
    moved = replace(made, core_clock=ClockReading(1000, 1960, 2040, 4.0, "test"))
    steady, unsteady = chase_latency.answer(made, probe), chase_latency.answer(moved, probe)
    assert unsteady.value == pytest.approx(steady.value)
    assert unsteady.high >= 1.02 * unsteady.value and unsteady.low <= 0.98 * unsteady.value


@pytest.mark.parametrize("status", ["suspect", "wrong", "skipped", "failed", "timeout"])
def test_a_record_that_is_not_ok_has_no_value_but_its_reason(status):
    found = chase_latency.answer(lap(15.0, status=status, reason="so it is"), LAP)
    assert (found.value, found.low, found.high, found.ns, found.reason) == (None, None, None, None, "so it is")


@pytest.mark.parametrize(
    ("probe", "made", "says"),
    [
        (LAP, lap(0.0), "not distinguishable from 0"),
        (LAP, record("chase", LAP.params()), "no samples"),
        (TRACE, trace(np.zeros((8, 5))), "not distinguishable from 0"),
        (TRACE, record("chase", TRACE.params(), series([1, 2], ops=5)), "no trace"),
        (TRACE, trace(np.full((8, 5), 30.0), core_clock=None), "the duration of a tick is unknown"),
    ],
)
def test_what_is_no_latency_is_not_given_as_one(probe, made, says):
    found = chase_latency.answer(made, probe)
    assert found.value is None and says in found.reason


def test_a_trace_is_ticks_less_the_cost_of_a_bracket_in_cycles():
    cycles = np.tile([30.0, 200.0, 30.0, 30.0, 200.0], (8, 1))
    found = chase_latency.answer(trace(cycles), TRACE)
    assert found.latencies.shape == (8, 5)
    np.testing.assert_allclose(found.latencies, cycles, rtol=1e-9)
    assert found.value == pytest.approx(98.0) and found.ns == pytest.approx(49.0)


def test_brackets_and_passes_that_were_interrupted_do_not_count():
    costs = np.full((8, 8), COST, np.uint32)
    costs[0, 0] = 50_000
    cycles = np.full((8, 5), 30.0)
    cycles[2, 3] = 1e6
    found = chase_latency.answer(trace(cycles, costs), TRACE)
    assert found.value == pytest.approx(30.0)


def test_a_coarse_counter_still_gives_the_mean():
    rng = np.random.default_rng(1)
    step, cost = 26, 60.0  # ticks

    def read(true: np.ndarray) -> np.ndarray:
        start = rng.uniform(0, step, true.shape)
        return (step * (np.floor((start + true) / step) - np.floor(start / step))).astype(np.uint32)

    ticks, costs = read(np.full((64, 100), cost + 90 * TICKS_A_CYCLE)), read(np.full((64, 32), cost))
    made = trace(np.zeros((64, 5)), costs)
    coarse = {**made.series[0].reads, "ticks": Trace.pack("ticks", list(ticks))}
    made = replace(made, series=(replace(made.series[0], reads=coarse),))
    found = chase_latency.answer(made, TRACE)
    assert found.value == pytest.approx(90, rel=0.05)


def ends(near: list[int], far: list[int]) -> Record:
    return record("chase", LAP.params(), series(near, ops=10_000), series(far, ops=30_000), core_clock=clock(2.0))


CLEAN = 21  # samples
QUIET = [105_000] * CLEAN, [305_000] * CLEAN  # 10 ns a step


@pytest.mark.parametrize("slow", [0, 5, 17], ids=lambda n: f"{n} of 21 disturbed")
def test_for_structure_the_samples_that_were_left_alone_count(slow):
    disturbed = [305_000 + 40_000 * (k + 1) for k in range(slow)]
    found = chase_latency.usual(ends(QUIET[0], [*disturbed, *QUIET[1][slow:]]), LAP, 2.0)
    assert found.value == pytest.approx(20.0) and found.unit == "cycles"


@pytest.mark.parametrize("gate", ["drift", "cores"])
def test_a_disturbance_says_nothing_against_the_samples_that_were_left_alone(gate):
    disturbed = replace(ends(QUIET[0], [345_000] * 5 + QUIET[1][5:]), status="suspect", gate=gate, reason="disturbed")
    assert chase_latency.usual(disturbed, LAP, 2.0).value == pytest.approx(20.0)
    assert chase_latency.usual(replace(disturbed, gate="stamps"), LAP, 2.0).value is None
    assert chase_latency.answer(disturbed, LAP).value is None


def test_samples_that_were_fast_by_chance_do_not_count_where_none_agree():
    far = [305_000 + 4_000 * k for k in range(-10, 11)]  # nowhere do three lie within half a percent
    lucky = [205_000, 215_000, *far[2:]]
    assert chase_latency.usual(ends(QUIET[0], far), LAP, 2.0).value == pytest.approx(20.0)
    assert chase_latency.usual(ends(QUIET[0], lucky), LAP, 2.0).value == pytest.approx(20.0, rel=0.05)
