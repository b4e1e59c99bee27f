"""Which points are asked for, in which order, and what becomes of them; Plans are driven by hand with made-up records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench import plan
from clmembench.benchmarks import BANDWIDTH, LATENCY, axis, benchmark, discovered, growing
from clmembench.model import Place, Point, Record, Series, Skip, Work
from clmembench.runtimes.fake import INFO
from clmembench.selection import FULL, QUICK, Selection, selected, suites


@benchmark(
    BANDWIDTH,
    suite="test",
    source="none",
    where=lambda info, op, width, order: not (op == "sum" and order == "item"),
    op=axis("copy", "sum"),
    width=axis(1, 2, 4, tuning=True),
    order=axis("item", "block", tuning=True),
)
def tuned(device, op, width, order):
    """A benchmark with two tuning axes."""
    raise Skip("never prepared here")


@benchmark(LATENCY, suite="test", source="none", array_bytes=growing(4096, lambda info: 1 << 30, per_octave=4))
def grows(device, array_bytes):
    """A benchmark with a growing axis."""
    raise Skip("never prepared here")


@benchmark(BANDWIDTH, suite="test", source="none", dtype=axis("float", "double", needs={"double": ["fp64"]}), n=axis(1, 2))
def grid(device, dtype, n):
    """A plain grid."""
    return Work(())


def record(point: Point, series: tuple[Series, ...] = (), status="ok") -> Record:
    return Record(point.benchmark, 1, point.params, Place(), 0, status, role=point.role, series=series)


def rate(point: Point, gb_s: float) -> Record:
    ns = (int(1e9 / gb_s),) * 8
    return record(point, (Series(10**9, 0, 0, "device", 1, (), ns, ns, ns, ns),))


def slope(point: Point, ns: float) -> Record:
    near, far = ((int(1000 * ns * n) + 500,) * 8 for n in (1, 3))
    ends = tuple(Series(0, 0, 1000 * n, "device", 1, (), t, t, t, t) for n, t in ((1, near), (3, far)))
    return record(point, ends)


def drive(bench, selection, answer):
    """All points that a plan asks for, given a function that makes each one's record."""
    asked, found = [], plan.explore(bench, INFO, selection)
    answers = None
    while True:
        try:
            points = next(found) if answers is None else found.send(answers)
        except StopIteration:
            return asked
        asked += points
        answers = [answer(p) for p in points]


def test_grid_is_the_product_of_its_axes():
    asked = drive(grid, Selection(), record)
    assert [dict(p.params) for p in asked] == [{"dtype": d, "n": n} for d in ("float", "double") for n in (1, 2)]


def test_a_value_the_device_cannot_do_is_missing_a_feature():
    assert plan.missing(grid, {"dtype": "double", "n": 1}, frozenset()) == ["fp64"]
    assert plan.missing(grid, {"dtype": "float", "n": 1}, frozenset()) == []


def test_tuning_measures_the_winner_again_and_only_the_winner():
    speeds = {(1, "item"): 10, (2, "item"): 30, (4, "item"): 20, (2, "block"): 40}
    asked = drive(tuned, Selection(), lambda p: rate(p, speeds.get((p.params["width"], p.params["order"]), 5)))
    copies = [p for p in asked if p.params["op"] == "copy"]
    assert [p.role for p in copies] == ["tune"] * (len(copies) - 1) + ["measure"]
    assert dict(copies[-1].params) == {"op": "copy", "width": 2, "order": "block"}


def test_tuning_respects_where_and_starts_from_the_first_choice_allowed():
    asked = drive(tuned, Selection(), lambda p: rate(p, 10))
    sums = [p for p in asked if p.params["op"] == "sum"]
    assert all(p.params["order"] == "block" for p in sums)
    # nothing beats the first choice by more than the margin, so it stays
    assert dict(sums[-1].params) == {"op": "sum", "width": 1, "order": "block"}


def test_a_failed_trial_does_not_win():
    asked = drive(tuned, Selection(), lambda p: rate(p, 10) if p.params["width"] == 1 else record(p, status="failed"))
    assert {p.params["width"] for p in asked if p.role == "measure"} == {1}


def test_a_tuning_axis_given_by_the_user_is_shown_value_by_value_each_at_its_best():
    faster = {(1, "block"): 2.0, (4, "item"): 3.0}
    answer = lambda p: rate(p, faster.get((p.params["width"], p.params["order"]), 1.0))  # noqa: E731
    asked = drive(tuned, Selection(axes={"width": (1, 4), "op": ("copy",)}), answer)
    measured = [(p.params["width"], p.params["order"]) for p in asked if p.role == "measure"]
    assert measured == [(1, "block"), (4, "item")]
    assert {p.params["width"] for p in asked} == {1, 4}


def staircase(size: int, knees=((32 << 10, 1.0), (1 << 20, 4.0), (32 << 20, 15.0)), memory=100.0) -> float:
    return next((ns for end, ns in knees if size <= end), memory)


def test_growing_stops_once_the_last_level_is_flat_and_far_behind_the_last_knee():
    small_claim = replace(INFO, kind="cpu", cache_bytes=1 << 20)
    sizes = []
    found = plan.explore(grows, small_claim, Selection())
    answers = None
    while True:
        try:
            points = next(found) if answers is None else found.send(answers)
        except StopIteration:
            break
        sizes += [p.params["array_bytes"] for p in points]
        answers = [slope(p, staircase(p.params["array_bytes"])) for p in points]
    assert 4 * (32 << 20) <= max(sizes) < 1 << 30
    assert sizes == sorted(set(sizes))


def test_growing_goes_to_the_end_where_the_curve_never_settles():
    asked = drive(grows, Selection(), lambda p: slope(p, p.params["array_bytes"] ** 0.5))
    assert max(p.params["array_bytes"] for p in asked) == 1 << 30


def test_octaves_meet_powers_of_two_exactly_and_have_the_density_asked_for():
    sizes = plan.octaves(4096, 1 << 20, 4)
    assert {1 << k for k in range(12, 21)} <= set(sizes)
    assert sizes == sorted(set(sizes))
    assert all(sum(1 << k <= s < 2 << k for s in sizes) == 4 for k in range(14, 20))


def test_selection_errors_name_what_there_is():
    with pytest.raises(ValueError, match="choose from quick"):
        selected(Selection(suite="nonsense"))
    with pytest.raises(ValueError, match="pchase"):
        selected(Selection(globs=("nonsense*",)))
    with pytest.raises(ValueError, match="array_bytes"):
        selected(Selection(axes={"nonsense": (1,)}))
    with pytest.raises(ValueError, match="--suite"):
        selected(Selection(suite="link", globs=("pchase",)))


def test_every_benchmark_is_in_all_and_in_the_suite_it_names():
    found = suites()
    assert set(found["all"]) == set(discovered())
    for known in discovered().values():
        assert known.name in found[known.suite]


def test_processes_are_done_one_after_the_other_so_that_a_child_serves_all_its_points():
    points = [Point("a", {"n": n}, processes=2) for n in (1, 2)]
    assert [(p.params["n"], i) for p, i in plan._processes(points)] == [(1, 0), (2, 0), (1, 1), (2, 1)]


def test_a_benchmark_may_ask_for_longer_sampling_but_never_for_less():
    known = discovered()["launch"]
    assert Selection(suite="quick").budget_of(known) == QUICK
    longer = Selection(suite="quick").budget_of(replace(known, least_s=0.5))
    assert (longer.least_s, longer.most_s) == (0.5, 0.5)
    assert Selection().budget_of(replace(known, least_s=0.01)) == FULL


@benchmark(
    BANDWIDTH,
    suite="test",
    source="none",
    thin=lambda info, op, n: op == "copy" or n == 3,
    op=axis("copy", "sum"),
    n=axis(1, 2, 3),
)
def thinned(device, op, n):
    """Points that are worth their time only when asked for."""
    return Work(())


def test_points_are_thinned_only_where_the_user_named_none():
    asked = drive(thinned, Selection(), lambda p: rate(p, 1.0))
    assert [(p.params["op"], p.params["n"]) for p in asked] == [("copy", 1), ("copy", 2), ("copy", 3), ("sum", 3)]
    asked = drive(thinned, Selection(axes={"n": (1,)}), lambda p: rate(p, 1.0))
    assert [(p.params["op"], p.params["n"]) for p in asked] == [("copy", 1), ("sum", 1)]
