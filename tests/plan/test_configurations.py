"""Stored shapes in a run: what is taken, what begins a search, and what is stale and only searched as before."""

from __future__ import annotations

from dataclasses import replace

from clmembench.benchmarks import BANDWIDTH, axis, axis_of, benchmark
from clmembench.measure import runner
from clmembench.measure.job import ProbeResult
from clmembench.model import Placement, Point, Record, Tuned, Work
from clmembench.plan import configurations, sweep
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import walked
from tests.cases import each


@benchmark(
    BANDWIDTH,
    suite="test",
    source="none",
    where=lambda info, op, n, width, order: not (op == "sum" and order == "item"),
    default_subset=lambda info, op, n, width, order: n < 1000 or width == 1,
    quick={"n": axis(64), "width": axis(1, tuning=True), "order": axis("item", "block", tuning=True)},
    scaling=lambda info: {"op": "copy", "n": 64},
    op=axis("copy", "sum", needs={"sum": ["sums"]}),
    n=axis(64, 4096),
    width=axis(1, 2, 4, tuning=True, needs={4: ["wide"]}),
    order=axis_of(lambda info: ("item", "block"), tuning=True),
)
def shaped(device, op, n, width, order):
    """A benchmark with two tuning axes."""
    return Work(())


ABLE = replace(FAKE_DEVICE_INFO, features=FAKE_DEVICE_INFO.features | {"wide", "sums"})
SMALL = Tuned(
    device="Fake device", platform="Fake", compute_units=8, benchmark="shaped", version=1, params={"op": "copy", "n": 64},
    tuning={"width": 4, "order": "block"}, date="2026-11-22", tool_version="0", driver="1.0", origin="shipped",
)  # fmt: skip


def asked(*entries: Tuned, info=ABLE, **changes) -> list[Point]:
    selection = replace(Selection(tuning=entries, isolated=False), **changes)
    return walked(sweep.explore(shaped, info, selection))


def of(points: list[Point], op: str, n: int) -> list[tuple[str, object, object]]:
    mine = [p for p in points if (p.params["op"], p.params["n"]) == (op, n)]
    return [(p.role, p.params["width"], p.params["order"]) for p in mine]


def test_a_stored_shape_is_taken_without_a_trial_and_says_so():
    points = asked(SMALL)
    assert of(points, "copy", 64) == [("measure", 4, "block")]
    assert [p.note for p in points if p.params["n"] == 64 and p.params["op"] == "copy"] == ["tuned: shipped 2026-11-22"]
    assert {p.note for p in points if p.params["op"] == "sum"} == {""}


def test_a_stored_shape_that_fails_is_searched_around_and_its_record_stays():
    def answer(point: Point) -> Record:
        status = "failed" if point.params["width"] == 4 else "ok"
        return Record("shaped", 1, point.params, Placement(), 0, status, "no registers", role=point.role)

    selection = Selection(tuning=(SMALL,), isolated=False, axes={"op": ("copy",), "n": (64,)})
    points = walked(sweep.explore(shaped, ABLE, selection), answer)
    assert of(points, "copy", 64)[0] == ("measure", 4, "block")
    assert of(points, "copy", 64)[1:] == [
        *[("tune", w, "item") for w in (1, 2, 4)],
        ("tune", 1, "block"),
        ("measure", 1, "item"),
    ]
    # one that was not measured since the time was over is not searched either
    points = walked(sweep.explore(shaped, ABLE, selection), lambda point: replace(answer(point), status="skipped"))
    assert of(points, "copy", 64) == [("measure", 4, "block")]


def test_what_one_point_has_stored_begins_the_search_of_another():
    tuning = replace(SMALL, tuning={"width": 2, "order": "block"})
    points = asked(tuning, axes={"n": (64, 100)})
    assert of(points, "copy", 64) == [("measure", 2, "block")]
    # every neighbour is tried, and nothing beats the stored one
    assert of(points, "copy", 100)[0] == ("tune", 2, "block") and of(points, "copy", 100)[-1] == ("measure", 2, "block")
    assert len(of(points, "copy", 100)) == 1 + 2 + 1 + 1
    # nor is it taken for another word
    assert of(points, "sum", 100)[0] == ("tune", 1, "block")
    assert not any(p.note for p in points if p.params["n"] == 100)


def test_what_a_search_leaves_out_to_save_time_costs_nothing_where_it_is_stored():
    assert of(asked(), "copy", 4096) == [("tune", 1, "item"), ("tune", 1, "block"), ("measure", 1, "item")]
    assert of(asked(replace(SMALL, params={"op": "copy"})), "copy", 4096) == [("measure", 4, "block")]


@each(
    "stale",
    [
        replace(SMALL, tuning={"width": 16, "order": "block"}),  # no longer on its axis
        replace(SMALL, tuning={"width": 4}),  # before there was another axis
        replace(SMALL, tuning={"width": 4, "order": "block", "tile": 8}),  # or after there was
        replace(SMALL, tuning={"width": "4", "order": "block"}),
        replace(SMALL, params={"op": "copy", "n": 64, "tile": 8}),
        replace(SMALL, compute_units=4, tuning={"width": 1, "order": "item"}),
        replace(SMALL, benchmark="other"),
    ],
)
def test_a_stale_shape_is_as_none(stale):
    assert of(asked(stale), "copy", 64) == of(asked(), "copy", 64)
    assert {p.note for p in asked(stale)} == {""}


def test_a_shape_that_is_no_point_or_that_the_device_cannot_do_is_as_none():
    everywhere = replace(SMALL, params={}, tuning={"width": 4, "order": "item"})
    points = asked(everywhere)
    assert of(points, "copy", 64) == [("measure", 4, "item")]
    assert of(points, "sum", 64) == of(asked(), "sum", 64)  # where it is not allowed
    narrow = replace(ABLE, features=FAKE_DEVICE_INFO.features | {"sums"})
    assert of(asked(everywhere, info=narrow), "copy", 64) == of(asked(info=narrow), "copy", 64)
    # a point that lacks a feature is asked once, to be skipped with its reason
    lacking = [
        p
        for p in asked(replace(everywhere, tuning={"width": 2, "order": "block"}), info=FAKE_DEVICE_INFO)
        if p.params["op"] == "sum"
    ]
    assert len(lacking) == 2 and all(
        configurations.missing_features(shaped, p.params, FAKE_DEVICE_INFO.features) == ["sums"] for p in lacking
    )


def test_values_that_a_user_names_on_a_tuning_axis_overrule_what_is_stored():
    points = asked(SMALL, axes={"width": (1, 2), "op": ("copy",), "n": (64,)})
    assert points == asked(axes={"width": (1, 2), "op": ("copy",), "n": (64,)})
    assert {p.params["width"] for p in points} == {1, 2}


def test_suite_quick_takes_what_its_own_short_search_would_not_find():
    assert of(asked(SMALL, suite="quick"), "copy", 64) == [("measure", 4, "block")]


def test_on_fewer_compute_units_a_stored_shape_begins_the_search_and_the_study_is_in_it():
    cpu = replace(ABLE, kind="cpu")
    points = asked(SMALL, info=cpu, isolated=True)
    study = [p for p in points if p.place != Placement()]
    assert study and {(p.params["width"], p.params["order"]) for p in study} == {(4, "block")}
    halved = [p for p in asked(SMALL, info=cpu, isolated=True, axes={"compute_units": (4,)}) if p.params["n"] == 64]
    assert next((p.role, p.params["width"]) for p in halved if p.params["op"] == "copy") == ("tune", 4)


def test_the_outlook_says_how_many_points_are_in_a_stored_shape():
    selection = Selection(tuning=(SMALL, replace(SMALL, params={"op": "sum"}, origin="own", driver="0.9")))
    assert sweep.describe_plan(shaped, ABLE, selection).endswith(
        "3 of 4 points in a stored configuration (shipped 2026-11-22, own 2026-11-22, with driver 0.9)"
    )
    assert "stored" not in sweep.describe_plan(shaped, ABLE, Selection())
    assert "stored" not in sweep.describe_plan(shaped, replace(ABLE, compute_units=4), selection)


def test_a_points_note_is_kept_with_its_record_behind_those_of_the_measurement(monkeypatch):
    def record(self, point: Point, process: int) -> Record:
        return Record(point.benchmark, 1, point.params, point.place, process, "ok", notes=("its own",))

    monkeypatch.setattr(runner._Attempts, "record", record)
    found = list(runner.run_plan(
        sweep.explore(shaped, ABLE, Selection(tuning=(SMALL,), isolated=False)), shaped, "fake", ABLE,
        ProbeResult(ABLE.features, None, "", 1.0), Selection(),
    ))  # fmt: skip
    notes = {r.notes for r in found if (r.params["op"], r.params["n"], r.params["width"]) == ("copy", 64, 4)}
    assert notes == {("its own", "tuned: shipped 2026-11-22")}
    assert {r.notes for r in found if r.params["op"] == "sum"} == {("its own",)}
