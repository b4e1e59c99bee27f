"""Which points are asked for, in which order, and what becomes of them; Plans are driven by hand with made-up records."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest

from clmembench.benchmarks import BANDWIDTH, LATENCY, axis, axis_of, benchmark, discovered, growing
from clmembench.host.cpu_topology import HardwareThread
from clmembench.measure.job import Job
from clmembench.measure.runner import WorkerSlot, _Attempts
from clmembench.model import Cause, Headline, Placement, Point, Record, Series, Skip, Work
from clmembench.plan import configurations, sweep
from clmembench.plan.budget import NEVER
from clmembench.plan.configurations import missing_features
from clmembench.plan.measurements import ordered_measurements
from clmembench.plan.selection import (
    FULL_BUDGET,
    OWN_SUITES,
    QUICK_BUDGET,
    Selection,
    accepts_value,
    check_axes,
    selected_benchmarks,
    suites,
)
from clmembench.results.tuned import UNFINISHED
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import walked


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
    return Record(point.benchmark, 1, point.params, Placement(), 0, status, role=point.role, series=series)


def rate(point: Point, gb_s: float) -> Record:
    ns = (int(1e9 / gb_s),) * 8
    return record(point, (Series(10**9, 0, 0, "device", 1, (), ns, ns, ns, ns),))


def slope(point: Point, ns: float) -> Record:
    near, far = ((int(1000 * ns * n) + 500,) * 8 for n in (1, 3))
    ends = tuple(Series(0, 0, 1000 * n, "device", 1, (), t, t, t, t) for n, t in ((1, near), (3, far)))
    return record(point, ends)


def drive(bench, selection, answer, info=FAKE_DEVICE_INFO):
    """All points that a plan asks for, given a function that makes each one's record."""
    return walked(sweep.explore(bench, info, selection), answer)


def test_grid_is_the_product_of_its_axes():
    asked = drive(grid, Selection(), record)
    assert [dict(p.params) for p in asked] == [{"dtype": d, "n": n} for d in ("float", "double") for n in (1, 2)]


def test_a_value_the_device_cannot_do_is_missing_a_feature():
    assert configurations.missing_features(grid, {"dtype": "double", "n": 1}, frozenset()) == ["fp64"]
    assert configurations.missing_features(grid, {"dtype": "float", "n": 1}, frozenset()) == []


def test_a_need_of_either_feature_is_met_by_each_and_a_user_may_name_the_value_before_the_probe():
    halves = axis_of(lambda info: ("half",) * ("ptx" in info.features), needs={"half": ["fp16 or ptx"]})
    either = replace(grid, axes={"dtype": halves})
    for features, missing in (((), ["fp16 or ptx"]), (("fp64",), ["fp16 or ptx"]), (("fp16",), []), (("ptx",), [])):
        assert configurations.missing_features(either, {"dtype": "half"}, frozenset(features)) == missing
    assert accepts_value(halves, replace(FAKE_DEVICE_INFO, features=frozenset()), "half")


def test_tuning_measures_the_winner_again_and_only_the_winner():
    speeds = {(1, "item"): 10, (2, "item"): 30, (4, "item"): 20, (2, "block"): 40}
    asked = drive(tuned, Selection(), lambda p: rate(p, speeds.get((p.params["width"], p.params["order"]), 5)))
    copies = [p for p in asked if p.params["op"] == "copy"]
    assert [p.role for p in copies] == ["tune"] * (len(copies) - 1) + ["measure"]
    assert dict(copies[-1].params) == {"op": "copy", "width": 2, "order": "block"}


def test_of_few_configurations_all_are_tried_since_some_values_are_good_together_alone():
    pairs = ((1, "item"), (2, "item"), (4, "block"))
    few = replace(tuned, where=lambda info, op, width, order: (width, order) in pairs)
    asked = drive(few, Selection(axes={"op": ("copy",)}), lambda p: rate(p, 10 * p.params["width"]))
    assert [(p.params["width"], p.params["order"]) for p in asked] == [*pairs, (4, "block")]
    assert configurations.most_trials(few, FAKE_DEVICE_INFO, Selection(axes={"op": ("copy",)})) == len(pairs)


def test_tuning_respects_where_and_starts_from_the_first_choice_allowed():
    asked = drive(tuned, Selection(), lambda p: rate(p, 10))
    sums = [p for p in asked if p.params["op"] == "sum"]
    assert all(p.params["order"] == "block" for p in sums)
    # nothing beats the first choice by more than the margin, so it stays
    assert dict(sums[-1].params) == {"op": "sum", "width": 1, "order": "block"}


def test_a_failed_trial_does_not_win():
    asked = drive(tuned, Selection(), lambda p: rate(p, 10) if p.params["width"] == 1 else record(p, status="failed"))
    assert {p.params["width"] for p in asked if p.role == "measure"} == {1}


def test_trials_give_up_at_a_multiple_of_the_best_time_so_far():
    speeds = {1: 10, 2: 40, 4: 20}
    asked = drive(tuned, Selection(axes={"op": ("sum",)}), lambda p: rate(p, speeds[p.params["width"]]))
    limits = {p.params["width"]: p.give_up_ns for p in asked if p.role == "tune"}
    assert limits[1] == 0 and limits[2] == pytest.approx(4 * limits[4]) and limits[4] > 0
    assert all(p.give_up_ns == 0 for p in asked if p.role == "measure")


def test_under_a_budget_each_winner_is_measured_before_the_next_search():
    asked = drive(tuned, Selection(budget_s=60.0), lambda p: rate(p, 10))
    roles = [(p.params["op"], p.role) for p in asked]
    assert roles.index(("copy", "measure")) < roles.index(("sum", "tune"))
    assert [r for r in roles if r[1] == "measure"] == [("copy", "measure"), ("sum", "measure")]


@pytest.mark.parametrize(("left_out", "note"), [({4}, "1 of 3"), ({2, 4}, "2 of 3"), ({1, 2, 4}, "3 of 3"), (set(), "")])
@pytest.mark.parametrize("cause", [Cause.BUDGET, Cause.BENCHMARK_BUDGET])
def test_a_point_says_that_the_time_ended_its_search(left_out, note, cause):
    def answer(point):
        is_cut = point.role == "tune" and point.params["width"] in left_out
        return replace(record(point, status="skipped"), cause=cause) if is_cut else rate(point, 10)

    asked = drive(tuned, Selection(axes={"op": ("sum",)}, budget_s=60.0), answer)
    assert [p.note for p in asked if p.role == "tune"] == [""] * 3
    (winner,) = (p for p in asked if p.role == "measure")
    assert winner.note == (f"{UNFINISHED}: {note} configurations were not tried" if note else "")


def test_a_failed_trial_ends_no_search():
    asked = drive(tuned, Selection(), lambda p: record(p, status="failed") if p.role == "tune" else rate(p, 10))
    assert all(p.note == "" for p in asked)


def test_under_a_budget_the_points_of_headlines_come_first():
    named = replace(grid, headlines=(Headline("memory", "doubles", "bandwidth", {"dtype": "double"}, {"n": "largest"}),))
    asked = drive(named, Selection(budget_s=60.0), record)
    assert dict(asked[0].params) == {"dtype": "double", "n": 2} and len(asked) == 4


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
    small_claim = replace(FAKE_DEVICE_INFO, kind="cpu", cache_bytes=1 << 20)
    asked = drive(grows, Selection(), lambda p: slope(p, staircase(p.params["array_bytes"])), small_claim)
    sizes = [p.params["array_bytes"] for p in asked]
    assert 4 * (32 << 20) <= max(sizes) < 1 << 30
    assert sizes == sorted(set(sizes))


def test_growing_in_limited_time_reaches_memory_before_it_is_dense():
    def answer(point):
        return slope(point, staircase(point.params["array_bytes"]))

    info = replace(FAKE_DEVICE_INFO, kind="cpu", cache_bytes=1 << 20)
    sizes = [p.params["array_bytes"] for p in drive(grows, Selection(budget_s=60.0), answer, info)]
    whole = [p.params["array_bytes"] for p in drive(grows, Selection(), answer, info)]
    count = sizes.index(max(sizes)) + 1
    assert sizes[:count] == sweep.octaves(4096, max(sizes), 1) and max(sizes) >= 4 * (32 << 20)
    assert set(sizes[: 2 * count - 1]) == set(sweep.octaves(4096, max(sizes), 2))
    assert len(sizes) == len(set(sizes)) and set(sizes) == {size for size in whole if size <= max(sizes)}
    never = drive(grows, Selection(budget_s=60.0), lambda p: slope(p, p.params["array_bytes"] ** 0.5))
    assert max(p.params["array_bytes"] for p in never) == 1 << 30
    none = replace(grows, axes={"array_bytes": growing(4096, lambda info: 2048, per_octave=4)})
    assert drive(none, Selection(budget_s=60.0), answer) == drive(none, Selection(), answer) == []


def test_growing_goes_to_the_end_where_the_curve_never_settles():
    asked = drive(grows, Selection(), lambda p: slope(p, p.params["array_bytes"] ** 0.5))
    assert max(p.params["array_bytes"] for p in asked) == 1 << 30


def test_octaves_meet_powers_of_two_exactly_and_have_the_density_asked_for():
    sizes = sweep.octaves(4096, 1 << 20, 4)
    assert {1 << k for k in range(12, 21)} <= set(sizes)
    assert sizes == sorted(set(sizes))
    assert all(sum(1 << k <= s < 2 << k for s in sizes) == 4 for k in range(14, 20))


def test_selection_errors_name_what_there_is():
    with pytest.raises(ValueError, match="choose from quick"):
        selected_benchmarks(Selection(suite="nonsense"))
    with pytest.raises(ValueError, match="pchase"):
        selected_benchmarks(Selection(globs=("nonsense*",)))
    with pytest.raises(ValueError, match="array_bytes"):
        selected_benchmarks(Selection(axes={"nonsense": (1,)}))
    with pytest.raises(ValueError, match="--suite"):
        selected_benchmarks(Selection(suite="link", globs=("pchase",)))


def test_every_benchmark_is_in_all_and_in_the_suite_it_names():
    found = suites()
    mine = {name: benchmark for name, benchmark in discovered().items() if not benchmark.adaptive}
    assert set(found["all"]) == {name for name, benchmark in mine.items() if benchmark.suite not in OWN_SUITES}
    for known in mine.values():
        assert known.name in found[known.suite]


def test_what_a_plan_of_its_own_asks_is_in_no_suite_and_not_run_by_itself():
    planned = {name for name, benchmark in discovered().items() if benchmark.adaptive}
    assert planned and not planned & {name for members in suites().values() for name in members}
    for name in planned:
        assert walked(sweep.explore(discovered()[name], FAKE_DEVICE_INFO, Selection())) == []
        with pytest.raises(ValueError, match="plan of its own"):
            selected_benchmarks(Selection(globs=(name,)))


def test_processes_are_done_one_after_the_other_so_that_a_child_serves_all_its_points():
    points = [Point("a", {"n": n}, processes=3, first=n == 1) for n in range(20)]
    order = [(index, p.params["n"], process) for index, p, process in ordered_measurements(points, 100, seed=7)]
    assert [process for *_, process in order] == [0] * 19 + [1] * 20 + [2] * 20
    assert {n for _, n, process in order if process == 0} == set(range(20)) - {1}
    assert all(index == 100 + n for index, n, _ in order)
    # each process in an order of its own, and the same one for the same seed
    orders = [tuple(n for _, n, process in order if process == wanted) for wanted in range(3)]
    assert len(set(orders)) == 3 and orders[1] != tuple(range(20))
    assert order == [(index, p.params["n"], process) for index, p, process in ordered_measurements(points, 100, seed=7)]
    assert order != [(index, p.params["n"], process) for index, p, process in ordered_measurements(points, 100, seed=8)]


def test_points_at_one_place_stay_together():
    points = [Point("a", {"n": n}, Placement(n % 3 + 1)) for n in range(12)]
    places = [p.place for _, p, _ in ordered_measurements(points, 0, seed=1)]
    assert [place for place, _ in groupby(places)] == [Placement(1), Placement(2), Placement(3)]


def test_a_curve_is_explored_by_one_process_and_then_measured_in_as_many_as_each_point_wants():
    chased = replace(grows, processes=lambda info, array_bytes: 5 if array_bytes % 3 else 1)
    asked = walked(sweep.explore(chased, FAKE_DEVICE_INFO, Selection()))
    first = [p for p in asked if p.first == 0]
    assert all(p.processes == 1 for p in first) and len({p.params["array_bytes"] for p in first}) == len(first)
    again = [p for p in asked if p.first == 1]
    assert asked[-len(again) :] == again and all(p.processes == 5 for p in again)
    assert {p.params["array_bytes"] for p in again} == {p.params["array_bytes"] for p in first if p.params["array_bytes"] % 3}


def test_processes_are_the_users_or_else_the_benchmarks_and_one_in_quick():
    chased = replace(grows, processes=lambda info, **_: 5)
    assert Selection().processes_of(chased, FAKE_DEVICE_INFO, {}) == 5
    assert Selection(suite="quick").processes_of(chased, FAKE_DEVICE_INFO, {}) == 1
    assert Selection(suite="quick").processes_of(replace(chased, quick_processes=True), FAKE_DEVICE_INFO, {}) == 5
    assert Selection(processes=2).processes_of(chased, FAKE_DEVICE_INFO, {}) == 2
    assert Selection().processes_of(grows, FAKE_DEVICE_INFO, {}) == 1
    budget = Selection().budget_of(chased)
    assert Selection().budget_in(chased, 0) == budget == Selection(processes=3).budget_in(chased, 2)
    assert budget.min_time_s <= Selection().budget_in(chased, 1).max_time_s < budget.max_time_s
    # a sixteenth of the device takes 16 times as long for the samples that an interval needs; eight work-groups a unit do not
    assert Selection().budget_in(chased, 0, 1 / 16) == replace(budget, patience=16 * budget.patience)
    assert Selection().budget_in(chased, 0, 8.0) == budget


def test_a_benchmark_may_ask_for_longer_sampling_but_never_for_less():
    known = discovered()["launch"]
    assert Selection(suite="quick").budget_of(known) == QUICK_BUDGET
    longer = Selection(suite="quick").budget_of(replace(known, min_time_s=0.5))
    assert (longer.min_time_s, longer.max_time_s) == (0.5, 0.5)
    assert Selection().budget_of(replace(known, min_time_s=0.01)) == FULL_BUDGET


def test_a_point_of_a_curve_samples_for_less_since_a_plateau_has_several():
    curve, point = discovered()["pchase"], discovered()["launch"]
    for suite in ("quick", "all"):
        selection = Selection(suite=suite)
        assert 0 < selection.budget_of(curve).max_time_s < selection.budget_of(point).max_time_s
    assert Selection().budget_of(replace(curve, min_time_s=0.5)).max_time_s == 0.5


def test_slopes_are_shorter_on_gpus_and_a_benchmarks_own_time_is_kept():
    known, selection = discovered()["launch"], Selection()
    shorter = selection.budget_in(known, 0, is_gpu=True)
    assert shorter.min_time_s < FULL_BUDGET.min_time_s and shorter.slope_ns < FULL_BUDGET.slope_ns
    assert replace(shorter, min_time_s=FULL_BUDGET.min_time_s, slope_ns=FULL_BUDGET.slope_ns) == FULL_BUDGET
    assert selection.budget_of(replace(known, min_time_s=0.4), is_gpu=True).min_time_s == 0.4
    assert Selection(suite="quick").budget_of(known, is_gpu=True).slope_ns == QUICK_BUDGET.slope_ns


@benchmark(
    BANDWIDTH,
    suite="test",
    source="none",
    default_subset=lambda info, op, n: op == "copy" or n == 3,
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


# ---- places --------------------------------------------------------------------------------------------------------------

CPU4 = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=4)
# two sockets of two cores, numbered as Linux does: 0 and 1 on the first, 2 and 3 on the second
SOCKETS = tuple(HardwareThread(cpu, cpu // 2, cpu % 2, 0) for cpu in range(4))


@benchmark(
    BANDWIDTH,
    suite="test",
    source="none",
    scaling=lambda info: {"op": "copy", "groups": info.work_groups or info.compute_units},
    op=axis("copy", "sum"),
    groups=axis_of(lambda info: (1, info.compute_units)),
    width=axis(1, 2, tuning=True),
)
def scales(device, op, groups, width):
    """A benchmark with a study over compute units."""
    return Work(())


def test_a_study_over_compute_units_is_in_the_best_shape_at_every_place_that_differs():
    asked = drive(scales, Selection(topology=SOCKETS), lambda p: rate(p, float(p.params["width"])), CPU4)
    study = [p for p in asked if p.place != Placement()]
    # one thread has one place; two are on one socket or on two; three and four alternate between sockets in scatter alone
    assert [(p.place.compute_units, p.place.cpus, p.place.placement) for p in study] == [
        (1, (0,), "compact"),
        (2, (0, 1), "compact"),
        (2, (0, 2), "scatter"),
        (3, (0, 1, 2), "compact"),
        (3, (0, 2, 1), "scatter"),
        (4, (0, 1, 2, 3), "compact"),
        (4, (0, 2, 1, 3), "scatter"),
    ]
    # groups goes with the units, and the shape is the winner on all of them
    assert [dict(p.params) for p in study] == [{"op": "copy", "groups": n, "width": 2} for n in (1, 2, 2, 3, 3, 4, 4)]


def test_balanced_differs_from_scatter_where_neighbouring_threads_are_on_other_sockets():
    """Of the same CPUs scatter puts neighbours on alternate sockets, balanced side by side; on one socket they are one."""
    two = tuple(HardwareThread(cpu, cpu % 8 // 4, cpu % 4, cpu // 8) for cpu in range(16))
    one = tuple(HardwareThread(cpu, 0, cpu % 8, cpu // 8) for cpu in range(16))
    cpu16 = replace(CPU4, compute_units=16)

    def places(topology, count):
        return {p.placement: p.cpus for p in Selection(topology=topology, axes={"compute_units": (count,)}).sweep(cpu16)}

    assert places(two, 4) == {"compact": (0, 8, 1, 9), "scatter": (0, 4, 1, 5), "balanced": (0, 1, 4, 5)}
    assert places(two, 2) == {"compact": (0, 8), "scatter": (0, 4)}
    assert places(one, 4) == {"compact": (0, 8, 1, 9), "scatter": (0, 1, 2, 3)}
    assert list(places(one, 10)) == ["compact", "scatter"]


def test_the_products_of_a_scaling_study_are_as_large_on_few_compute_units_as_on_all():
    cpu16 = replace(CPU4, compute_units=16)
    asked = drive(discovered()["dgemm"], Selection(), lambda p: rate(p, 1.0), cpu16)
    study = [(p.place.compute_units, p.params["n"]) for p in asked if p.place != Placement()]
    assert [point for point in study if point[1] == 4096] == [(n, 4096) for n in (1, 2, 4, 8, 16)]
    assert [point for point in study if point[1] != 4096] == [(1, n) for n in (64, 256, 512, 1024, 2048)]
    # CSR and ELL too, as Razzaq et al. 2016 compare them
    asked = drive(discovered()["spmv"], Selection(), lambda p: rate(p, 1.0), CPU4)
    formats = {p.params["format"] for p in asked if p.place != Placement()}
    assert formats == {"sell", "csr_row", "ell"}


def test_on_a_gpu_the_study_is_over_work_groups():
    asked = drive(scales, Selection(), lambda p: rate(p, 1.0), replace(FAKE_DEVICE_INFO, compute_units=16))
    study = [p for p in asked if p.place != Placement()]
    assert [p.place for p in study] == [Placement(n) for n in (1, 4, 16, 32, 64, 128)]
    assert [p.params["groups"] for p in study] == [1, 4, 16, 32, 64, 128]


def test_there_is_no_study_where_the_user_named_values_and_in_quick():
    for selection in (Selection(axes={"op": ("copy",)}, topology=SOCKETS), Selection(suite="quick", topology=SOCKETS)):
        assert {p.place for p in drive(scales, selection, lambda p: rate(p, 1.0), CPU4)} == {Placement()}


def test_a_user_may_have_every_point_at_a_place():
    chosen = Selection(axes={"compute_units": (2,), "placement": ("scatter",)}, topology=SOCKETS)
    asked = drive(grid, chosen, record, CPU4)
    assert {p.place for p in asked} == {Placement(2, (0, 2), "scatter", cores=2)} and len(asked) == 4
    # the axes are those of a device with two compute units
    assert {p.params["groups"] for p in drive(scales, chosen, lambda p: rate(p, 1.0), CPU4)} == {1, 2}


def test_threads_are_placed_only_where_the_device_is_the_hosts_cpus():
    seven = Selection(topology=(*SOCKETS, HardwareThread(9, 2, 0, 0)))
    assert seven.sweep(CPU4) == [Placement(n) for n in (1, 2, 3, 4)]


def test_counts_of_a_large_host_are_powers_of_two_sockets_cores_and_all():
    # 2 sockets x 28 cores x 2 hardware threads, as in Razzaq's Haswell system
    haswell = tuple(HardwareThread(n, n // 28 % 2, n % 28, n // 56) for n in range(112))
    sweep = Selection(topology=haswell, axes={"placement": ("compact",)}).sweep(replace(CPU4, compute_units=112))
    assert [p.compute_units for p in sweep] == [1, 2, 4, 8, 16, 32, 56, 64, 112]


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"compute_units": (5,)}, "5 is not a number from 1 to 4"),
        ({"compute_units": (0,)}, "from 1 to 4"),
        ({"compute_units": ("two",)}, "'two' is not a number"),
        ({"placement": ("dense",)}, "compact, scatter, balanced"),
    ],
)
def test_places_that_cannot_be_are_refused(axes, says):
    with pytest.raises(ValueError, match=says):
        check_axes([scales], CPU4, Selection(axes=axes, topology=SOCKETS))


def test_a_placement_of_a_gpu_is_refused_and_so_are_work_groups_where_no_benchmark_takes_them():
    with pytest.raises(ValueError, match="only threads of this host's CPUs"):
        check_axes([scales], FAKE_DEVICE_INFO, Selection(axes={"placement": ("compact",)}))
    with pytest.raises(ValueError, match="stream"):
        check_axes([grid], FAKE_DEVICE_INFO, Selection(axes={"compute_units": (1,)}))
    check_axes([scales], FAKE_DEVICE_INFO, Selection(axes={"compute_units": (1000,)}))


def test_a_value_that_an_axis_accepts_is_one_though_it_is_not_among_its_own():
    def accepts(value):
        if value == "broken.mtx":
            raise ValueError("broken.mtx:3: no number")
        return str(value).endswith(".mtx")

    takes = replace(grid, axes={"dtype": axis("float", accepts=accepts), "n": axis(1)})
    check_axes([takes], FAKE_DEVICE_INFO, Selection(axes={"dtype": ("a.mtx",)}))
    with pytest.raises(ValueError, match=r"broken\.mtx:3: no number"):
        check_axes([takes], FAKE_DEVICE_INFO, Selection(axes={"dtype": ("broken.mtx",)}))
    with pytest.raises(ValueError, match="is not one of float"):
        check_axes([takes], FAKE_DEVICE_INFO, Selection(axes={"dtype": ("a.txt",)}))


def test_two_benchmarks_with_an_axis_of_one_name_each_take_their_own_words():
    chosen = Selection(axes={"op": ("copy", "read"), "n": (1,)})
    other = replace(thinned, name="other", axes={"op": axis("read", "write"), "n": axis(1)}, default_subset=None)
    check_axes([thinned, other], FAKE_DEVICE_INFO, chosen)
    assert [p.params["op"] for p in drive(thinned, chosen, lambda p: rate(p, 1.0))] == ["copy"]
    assert [p.params["op"] for p in drive(other, chosen, lambda p: rate(p, 1.0))] == ["read"]
    assert drive(other, Selection(axes={"op": ("copy",)}), lambda p: rate(p, 1.0)) == []
    with pytest.raises(ValueError, match="'jump' is not one of copy, sum, read, write"):
        check_axes([thinned, other], FAKE_DEVICE_INFO, Selection(axes={"op": ("jump",)}))


def test_a_value_whose_feature_only_a_probe_tells_is_taken_and_skipped_where_it_is_missing():
    """As spmv's hints=ptx is: what was listed of the device does not say so."""

    def hints(info):
        return ("none", "ptx") if "ptx" in info.features else ("none",)

    probed = replace(thinned, axes={"op": axis_of(hints, needs={"ptx": ["ptx"]}), "n": axis(1)}, default_subset=None)
    unprobed, named = replace(FAKE_DEVICE_INFO, features=frozenset()), Selection(axes={"op": ("ptx",)})
    check_axes([probed], unprobed, named)
    (asked,) = drive(probed, named, lambda p: rate(p, 1.0), unprobed)
    assert asked.params == {"op": "ptx", "n": 1} and missing_features(probed, asked.params, unprobed.features) == ["ptx"]
    with pytest.raises(ValueError, match="'other' is not one of none"):
        check_axes([probed], unprobed, Selection(axes={"op": ("other",)}))


def test_a_place_knows_how_many_cores_its_threads_are_of():
    # one core with two hardware threads, and another
    smt = (HardwareThread(0, 0, 0, 0), HardwareThread(1, 0, 0, 1), HardwareThread(2, 0, 1, 0), HardwareThread(3, 0, 1, 1))
    places = Selection(topology=smt, axes={"compute_units": (2,)}).sweep(CPU4)
    assert [(p.placement, p.cpus, p.cores) for p in places] == [("compact", (0, 1), 1), ("scatter", (0, 2), 2)]


@pytest.mark.parametrize("name", ["atomic", "device_barrier"])
def test_what_has_the_number_of_work_groups_as_its_axis_is_not_placed_on_a_gpu(name):
    known = discovered()[name]
    with pytest.raises(ValueError, match="can be limited to a number of work-groups"):
        check_axes([known], FAKE_DEVICE_INFO, Selection(axes={"compute_units": (1,)}))
    beside = drive(known, Selection(axes={"compute_units": (1, 4)}), record)
    assert beside and {p.place for p in beside} == {Placement()}  # as in a suite with others that can


def test_a_point_that_no_shape_suits_is_skipped_and_says_so():
    unfit = replace(tuned, where=lambda info, op, width, order: op == "copy")
    asked = drive(unfit, Selection(), lambda p: rate(p, 1.0))
    assert [(p.params["op"], p.reason) for p in asked if p.reason] == [
        ("sum", "no width/order among the candidates suits this device")
    ]
    attempts = _Attempts(unfit, Job("fake", FAKE_DEVICE_INFO, "test"), Selection(), NEVER, WorkerSlot(isolated=True))
    found = attempts.record(asked[-1], 0)
    assert (found.status, found.reason) == ("skipped", asked[-1].reason)
