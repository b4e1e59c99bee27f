"""What `tune` asks and concludes: plans driven by hand with made-up times, a made-up clock, and noise of a known size."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.model import Metric, Placement, Point, Record, Series, Tuned, Work
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.tune import candidates, search
from clmembench.tune.candidates import SearchOutcome, TuningCase

TIME = Metric("time", "ns", "ops", "cost", "lower")


@benchmark(
    BANDWIDTH,
    suite="test",
    source="none",
    where=lambda info, op, n, width, order, depth: not (order == "block" and width == 1),
    default_subset=lambda info, op, n, width, order, depth: n < 100 or (op == "copy" and depth == 1),
    op=axis("copy", "sum", needs={"sum": ["sums"]}),
    n=axis(10, 100),
    width=axis(1, 2, 4, 8, tuning=True),
    order=axis("item", "block", tuning=True, needs={"block": ["fp64"]}),
    depth=axis(1, 2, 3, tuning=True),
)
def shaped(device, op, n, width, order, depth):
    """A benchmark with three tuning axes."""
    return Work(())


COPIES = Selection(axes={"op": ("copy",)})
ALL = 4 * 3 + 3 * 3  # shapes of a point: block order is not for a width of 1

Speed = Callable[[Mapping[str, object]], float]


def record(point: Point, process: int, gb_s: float, metric: Metric = BANDWIDTH) -> Record:
    status = "ok" if gb_s > 0 else "failed"
    ns = tuple(int(1e12 / gb_s) + i for i in range(8)) if gb_s > 0 else ()
    series = (Series(10**12, 0, 1, "device", 1, (), ns, ns, ns, ns),) if ns else ()
    return Record(point.benchmark, 1, point.params, Placement(), process, status, "it broke", role=point.role, series=series)


class Clock:
    """A second for each record, unless told otherwise."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 1000.0, step

    def __call__(self) -> float:
        return self.now


def tuned(
    speed: Callable[[Point, int], float], seconds: float = 1e6, bench=shaped, points=None, clock=None
) -> tuple[list[SearchOutcome], list[tuple[Point, int]]]:
    """The outcomes, and every point in each of its processes, in an order that is not the plan's."""
    clock = clock or Clock()
    found = points or candidates.tuning_cases(bench, FAKE_DEVICE_INFO, Selection(axes={"op": ("copy",), "n": (10,)}), {})
    plan = search.search_plan(bench, found, 0, seconds, clock)
    asked: list[tuple[Point, int]] = []
    answers: list[Record] | None = None
    while True:
        try:
            batch = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            return [c.outcome() for c in found], asked
        runs = [(p, process) for p in batch for process in range(p.first, p.processes)]
        random.Random(len(asked)).shuffle(runs)
        asked += runs
        clock.now += clock.step * len(runs)
        answers = [record(p, process, speed(p, process)) for p, process in runs]


def by(shape: Speed) -> Callable[[Point, int], float]:
    return lambda point, process: shape(point.params)


def hill(params) -> float:
    """The best is width 4, block, depth 3; along single axes from the first choice there is a lower top."""
    if params["order"] == "item":
        return 12.0 - params["width"] - params["depth"]
    return {2: 5.0, 4: 30.0, 8: 6.0}[params["width"]] + params["depth"]


def test_every_shape_is_tried_and_the_best_is_proved_beside_the_first_choice():
    (outcome,), asked = tuned(by(hill))
    assert outcome.best == {"width": 4, "order": "block", "depth": 3}
    assert outcome.first == {"width": 1, "order": "item", "depth": 1}
    assert (outcome.tried, outcome.shapes) == (ALL, ALL)
    assert outcome.ratio is not None and outcome.ratio.value == pytest.approx(3.3, rel=1e-3)
    trials = [p.params for p, process in asked if p.role == "tune" and process == 0]
    assert len(trials) == ALL and all(trials.count(params) == 1 for params in trials)
    proofs = [(p.params["width"], process) for p, process in asked if p.role == "measure"]
    assert sorted(proofs) == [(width, process) for width in (1, 4) for process in range(search.COMPARED_PROCESSES)]


def test_what_looked_best_by_chance_is_not_kept():
    # all shapes are equally good; trials and processes differ by 5%
    noise = random.Random(3)
    (outcome,), asked = tuned(lambda point, process: 10 * noise.lognormvariate(0, 0.05))
    assert outcome.best in (outcome.first, None)
    assert outcome.winner != outcome.first and any(p.role == "measure" for p, _ in asked)


def test_in_hundreds_of_searches_without_a_difference_few_winners_are_kept():
    noise = random.Random(5)
    points = candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, Selection(axes={"op": ("copy",), "n": (10,), "depth": (1,)}), {})
    kept = proved = 0
    for _ in range(300):
        fresh = [TuningCase(c.params, c.shapes) for c in points]
        (outcome,), _ = tuned(lambda point, process: 10 * noise.lognormvariate(0, 0.02), points=fresh)
        kept += outcome.best is not None and outcome.best != outcome.first
        proved += outcome.ratio is not None
    assert proved > 200 and kept <= 0.06 * proved  # 2.5% a look, and there are two


def test_a_true_gain_is_found_in_noise():
    noise = random.Random(7)
    (outcome,), _ = tuned(lambda point, process: hill(point.params) * noise.lognormvariate(0, 0.03))
    assert outcome.best == outcome.winner and outcome.best["width"] == 4 and outcome.best["order"] == "block"
    assert outcome.ratio is not None and outcome.ratio.low > 2


def test_those_near_the_best_go_on_by_halves_in_twice_as_many_processes_each():
    flat = lambda params: 10.0 + 0.001 * params["width"] + 0.0001 * params["depth"]  # noqa: E731
    (outcome,), asked = tuned(by(flat))
    sizes = {process: sum(1 for p, at in asked if p.role == "tune" and at == process) for process in range(1, 8)}
    assert sizes == {1: 8, 2: 4, 3: 4, 4: 2, 5: 2, 6: 2, 7: 2}
    # the best by a hair's breadth is not better by more than anybody would care about
    assert outcome.winner["width"] == 8 and outcome.best == outcome.first


def test_where_one_is_far_better_there_are_no_rounds():
    _, asked = tuned(
        by(lambda params: 100.0 if params["width"] == 8 and params["depth"] == 3 and params["order"] == "item" else 1.0)
    )
    assert not [p for p, process in asked if p.role == "tune" and process > 0]


def test_a_winner_that_is_hardly_better_leaves_the_first_choice_and_an_undecided_one_nothing():
    points = TuningCase({"op": "copy"}, [{"width": 1}, {"width": 2}], climbed=True)
    points.trials = {0: None, 1: None}
    points.rounds = {0: [1.0], 1: [1.2]}
    points.pairs = [(1.0, 1.01), (1.0, 0.99), (1.0, 1.0)]
    assert points.outcome().best == {"width": 1}
    points.pairs = [(1.0, 1.3), (1.0, 0.9), (1.0, 1.1)]
    assert points.outcome().best is None and "quieten the host" in points.outcome().reason
    points.pairs = [(1.0, 1.2), (1.0, 1.21)]
    assert points.outcome().best is None and "only 2 processes" in points.outcome().reason
    points.pairs = [(1.0, 1.2), (1.0, 1.21), (1.0, 1.19)]
    assert points.outcome().best == {"width": 2}


def test_where_six_processes_do_not_decide_there_are_six_more():
    def speed(point: Point, process: int) -> float:
        if point.role == "tune":
            return 10.0 + point.params["width"]
        return 10.0 if point.params["width"] == 1 else 10.0 * (1.25 if process % 2 else 0.95)

    _, asked = tuned(speed)
    assert {process for p, process in asked if p.role == "measure"} == set(range(2 * search.COMPARED_PROCESSES))


def test_time_is_kept_and_what_was_not_climbed_is_not_stored():
    clock = Clock()
    (outcome,), asked = tuned(by(hill), seconds=8.0, clock=clock)
    assert outcome.best is None and "raise --budget" in outcome.reason
    assert 0 < outcome.tried < ALL and len(asked) == outcome.tried and clock.now - 1000 <= 8


def test_a_climb_is_enough_where_the_time_is_short():
    # every step is uphill: a single climb comes to the top, and is proved in the fewest processes
    uphill = by(lambda params: params["width"] + 0.1 * params["depth"] + (params["order"] == "item"))
    (outcome,), asked = tuned(uphill, seconds=18.0)
    assert outcome.best == {"width": 8, "order": "item", "depth": 3} and outcome.tried < ALL
    assert {process for p, process in asked if p.role == "measure"} == set(range(candidates.MIN_COMPARED_PROCESSES))


def test_points_share_the_time_and_those_it_does_not_reach_are_said():
    points = candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, COPIES, {})
    assert [c.params for c in points] == [{"op": "copy", "n": 10}, {"op": "copy", "n": 100}]
    outcomes, asked = tuned(by(hill), seconds=40.0, points=points)
    trials = [p.params["n"] for p, process in asked if p.role == "tune" and process == 0]
    assert trials.count(10) == pytest.approx(trials.count(100), abs=2) and len(trials) <= 26
    outcomes, asked = tuned(by(hill), seconds=0.0, points=candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, COPIES, {}))
    assert asked == [] and [o.reason for o in outcomes] == ["the search did not begin: raise --budget"] * 2


def test_shapes_that_fail_do_not_win_and_where_all_do_the_reason_is_said():
    (outcome,), _ = tuned(by(lambda params: 0.0 if params["order"] == "block" else hill(params)))
    assert outcome.best == outcome.first
    (outcome,), asked = tuned(by(lambda params: 0.0))
    assert outcome.best is None and "it broke" in outcome.reason and {p.role for p, _ in asked} == {"tune"}


def test_where_the_first_choice_does_not_run_the_winner_is_kept_without_a_gain():
    (outcome,), _ = tuned(by(lambda params: 0.0 if params["width"] == 1 else hill(params)))
    assert outcome.best == {"width": 4, "order": "block", "depth": 3} and outcome.ratio is None
    entry = search.tuned_entry(outcome, shaped, FAKE_DEVICE_INFO, ("f", "p"))
    assert entry is not None and entry.gain is None and entry.tuning == outcome.best


def test_less_is_better_where_the_metric_says_so():
    def cost(point: Point, process: int) -> float:
        return hill(point.params)  # a rate of operations, so that the time is its inverse

    (outcome,), _ = tuned(cost, bench=replace(shaped, metrics=(TIME,)))
    assert outcome.best == {"width": 4, "order": "block", "depth": 3}
    assert outcome.ratio is not None and outcome.ratio.value == pytest.approx(3.3, rel=1e-3)


# ---- what is tuned -------------------------------------------------------------------------------------------------------


def test_points_that_are_worth_their_time_are_tuned_in_all_shapes_that_the_device_can_do():
    found = candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, Selection(), {})
    # no sums: the device has none; at n=100 a run would search one depth only
    assert [(c.params, len(c.shapes)) for c in found] == [({"op": "copy", "n": n}, ALL) for n in (10, 100)]
    assert all(c.shapes[0] == {"width": 1, "order": "item", "depth": 1} for c in found)
    found = candidates.tuning_cases(shaped, replace(FAKE_DEVICE_INFO, features=frozenset()), Selection(), {})
    assert [len(c.shapes) for c in found] == [12, 12]


def test_values_named_on_a_tuning_axis_are_all_that_is_tried():
    found = candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, COPIES, {"width": (4, 8), "unheard_of": (1,)})
    assert all(len(c.shapes) == 2 * 2 * 3 and {s["width"] for s in c.shapes} == {4, 8} for c in found)
    assert candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, COPIES, {"width": (4,), "order": ("item",), "depth": (1,)}) == []


def test_the_second_climb_begins_at_a_stored_shape():
    stored = Tuned(
        device="f", platform="p", compute_units=8, benchmark="shaped", version=1, params={"op": "copy", "n": 40},
        tuning={"width": 8, "order": "block", "depth": 2}, date="2026-11-22", tool_version="0", driver="1",
    )  # fmt: skip
    found = candidates.tuning_cases(shaped, FAKE_DEVICE_INFO, replace(COPIES, tuning=(stored,)), {})
    assert [c.shapes[c.start] for c in found] == [stored.tuning] * 2
    # nothing is better than the first choice, so the climb from it tries its neighbours alone
    _, asked = tuned(by(lambda params: 1.0), points=found[:1])
    order = [{k: p.params[k] for k in stored.tuning} for p, process in asked if p.role == "tune" and process == 0]
    assert order.index(dict(stored.tuning)) == 1 + 3 + 2


def test_an_entry_has_the_gain_with_its_interval_or_1_for_the_first_choice():
    (outcome,), _ = tuned(by(hill))
    entry = search.tuned_entry(outcome, shaped, FAKE_DEVICE_INFO, ("family", "platform"))
    assert entry is not None and (entry.device, entry.platform, entry.compute_units) == ("family", "platform", 8)
    assert entry.gain_low < entry.gain < entry.gain_high and entry.gain == pytest.approx(3.3, rel=1e-3)
    assert (entry.params, entry.tuning, entry.driver) == ({"op": "copy", "n": 10}, outcome.best, "1.0")
    (outcome,), _ = tuned(by(lambda params: 1.0 / params["width"]))
    entry = search.tuned_entry(outcome, shaped, FAKE_DEVICE_INFO, ("family", "platform"))
    assert entry is not None and (entry.gain, entry.gain_low, entry.tuning) == (1.0, None, outcome.first)
    assert search.tuned_entry(replace(outcome, best=None), shaped, FAKE_DEVICE_INFO, ("family", "platform")) is None
