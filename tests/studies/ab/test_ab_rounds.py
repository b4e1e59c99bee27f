"""The rounds of an A/B run on scripted processes: order, pairs, looks, budget, and what ends a point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from clmembench.benchmarks import discovered
from clmembench.measure.job import ProbeResult
from clmembench.model import Record
from clmembench.plan.budget import Deadline
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.studies.ab import ab_outcome, ab_rounds
from clmembench.studies.ab.ab_case import MAX_WORK_DIFFERENCE, Case, different_work
from clmembench.studies.ab.ab_rounds import ABSide, conclude, find_cases, run_rounds
from tests.builders import header, record, run, series

FOUND = ProbeResult(FAKE_DEVICE_INFO.features, 1.0, "test", 1.0)
STREAM = discovered()["stream"]
AXES = {
    "op": ("triad", "copy"), "dtype": ("float",), "array_bytes": (1 << 20,), "order": ("item",), "nontemporal": (0,),
    "width": (4,), "work_group": (64,),
}  # fmt: skip
SELECTION = Selection(suite="all", globs=("stream",), axes=AXES)


def sides(changes: Mapping[str, Any] | None = None) -> tuple[ABSide, ABSide]:
    return ABSide("A", FAKE_DEVICE_INFO, FOUND), ABSide("B", FAKE_DEVICE_INFO, FOUND, changes=changes or {})


class Script:
    """Stands for worker processes: what each side answers, and a clock that its points move."""

    def __init__(self, **b_ns: Any) -> None:
        self.b_ns, self.started, self.asked, self.now = b_ns, [], [], 0.0
        self.status: dict[tuple[str, int], Record] = {}

    def __call__(self, job: Any, side: ABSide, timeout_s: float) -> Script:
        self.job, self.side = job, side
        return self

    def measure(self, benchmark: Any, params: Mapping[str, Any], place: Any, role: str) -> Record:
        self.asked.append((self.job.process, self.side.name, params["op"]))
        self.now += 1.0
        ns = 1000 if self.side.name == "A" else self.b_ns.get(params["op"], 1000)
        ns = ns[self.job.process % len(ns)] if isinstance(ns, tuple) else ns
        plain = record("stream", params, series([ns * 1000] * 8, nbytes=1 << 20), version=STREAM.version)
        answer = replace(plain, process=self.job.process, sources="a-b")
        special = self.status.get((self.side.name, self.job.process))
        return replace(answer, **special) if special else answer  # type: ignore[arg-type]

    def end(self) -> None:
        pass

    def clock(self) -> float:
        return self.now


@pytest.fixture
def script(monkeypatch) -> Iterator[Script]:
    made = Script()
    monkeypatch.setattr(ab_rounds, "_SideProcess", made)
    yield made


def cases(selection: Selection = SELECTION) -> list[Case]:
    search = find_cases(STREAM, sides()[0], selection, Deadline(1e9, lambda: 0.0))
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value


def rounds(script: Script, found: list[Case], until: float = 1e9, changes: Mapping[str, Any] | None = None) -> list[Record]:
    made = list(run_rounds(found, sides(changes), SELECTION, 0.05, Deadline(until, script.clock)))
    conclude(found, 0.05)
    return [r for _, r in made]


def verdicts(found: list[Case]) -> dict[str, str]:
    return {str(c.params["op"]): c.failed or c.decisions["bandwidth"].verdict for c in found}


def test_named_shapes_are_taken_without_a_search(script):
    found = cases()
    assert [(c.params["op"], c.params["width"], list(c.metrics)) for c in found] == [
        ("triad", 4, ["bandwidth"]),
        ("copy", 4, ["bandwidth"]),
    ]
    assert script.asked == []


def test_a_shape_that_is_not_named_is_searched_on_a_alone_and_used_on_both(script):
    axes = {name: values for name, values in AXES.items() if name != "work_group"} | {"op": ("copy",)}
    found = cases(replace(SELECTION, axes=axes))
    assert {who for _, who, _ in script.asked} == {"A"}
    assert len(found) == 1 and found[0].params["work_group"] in STREAM.axes["work_group"].values(FAKE_DEVICE_INFO)


def test_an_axis_that_grows_is_no_point():
    search = find_cases(discovered()["pchase"], sides()[0], Selection(suite="all", globs=("pchase",)), Deadline())
    with pytest.raises(ValueError, match="name its values, as in -a array_bytes"):
        next(search)


def test_each_round_measures_both_sides_and_which_is_first_is_drawn_anew(script):
    found = cases()
    rounds(script, found)
    number = ab_rounds.plan_looks(found).rounds[0]
    assert {p for p, _, _ in script.asked} == set(range(number))
    first = []
    for process in range(number):
        mine = [who for p, who, _ in script.asked if p == process]
        assert mine in (["A", "A", "B", "B"], ["B", "B", "A", "A"])
        first.append(mine[0])
    assert 2 <= first.count("A") <= number - 2  # a fair coin, of a seed
    before = [(p, who) for p, who, _ in script.asked]
    script.asked.clear()
    rounds(script, cases())
    assert [(p, who) for p, who, _ in script.asked] == before  # the same seed, the same order


def test_what_is_decided_is_not_measured_again_and_the_rest_goes_on(script):
    script.b_ns = {"triad": 1500, "copy": (700, 760, 880, 1130, 1310, 1420, 1000)}
    found = cases()
    made = rounds(script, found)
    first = ab_rounds.plan_looks(found).rounds[0]
    assert verdicts(found) == {"triad": "slower", "copy": "undecided"}
    assert sum(r.params["op"] == "triad" for r in made) == 2 * first
    assert sum(r.params["op"] == "copy" for r in made) == 2 * ab_rounds.plan_looks(found).most


def test_no_round_begins_that_would_end_after_the_budget(script):
    found = cases()
    rounds(script, found, until=10.5)  # a round takes 4
    assert script.now == 8.0
    assert set(verdicts(found).values()) == {"undecided"}
    assert found[0].decisions["bandwidth"].reason == "2 rounds of 12 that it needs"


@pytest.mark.parametrize("status", ["failed", "wrong", "timeout", "skipped"])
@pytest.mark.parametrize("who", ["A", "B"])
def test_a_side_that_fails_ends_its_points_with_one_reason_and_no_verdict(script, status, who):
    script.status[(who, 1)] = {"status": status, "reason": "the sum is 3, not 4"}  # type: ignore[assignment]
    found = cases()
    rounds(script, found)
    assert set(verdicts(found).values()) == {f"{status} in {who}: the sum is 3, not 4"}
    assert max(p for p, _, _ in script.asked) == 1


def test_a_round_without_a_good_value_is_lost_and_one_of_a_disturbed_host_is_not(script):
    stamps = {"status": "suspect", "gate": "stamps", "reason": "stamps lie"}
    drift = {"status": "suspect", "gate": "drift", "reason": "the clock moved"}
    script.status = {("B", 0): stamps, ("A", 1): drift}  # type: ignore[dict-item]
    found = cases()
    rounds(script, found)
    assert found[0].lost["bandwidth"] == ["suspect in B: stamps lie"]
    assert len(found[0].pairs["bandwidth"]) == ab_rounds.plan_looks(found).rounds[1] - 1  # at the first look it had one too few


def test_work_that_is_not_the_same_is_not_compared():
    a = record("stream", {}, series([1] * 8, nbytes=1000))
    assert different_work(a, a, 0.0) == ""
    b = record("stream", {}, series([1] * 8, nbytes=995))
    assert "nbytes of a pass are 1000 in A and 995 in B" in different_work(a, b, 0.0)
    assert different_work(a, b, MAX_WORK_DIFFERENCE) == ""
    # the ends of a slope are as long as they need be, but an operation of it is the same
    ends = [record("pchase", {}, series([1] * 8, ops=n), series([2] * 8, ops=3 * n)) for n in (100, 200)]
    assert different_work(ends[0], ends[1], 0.0) == ""
    per = [record("x", {}, *(series([1] * 8, ops=n, nbytes=k * n) for n in (100, 300))) for k in (4, 8)]
    assert "not the same work: ops" in different_work(per[0], per[1], 0.0)


def test_another_version_of_a_benchmark_is_another_measurement(script):
    script.status[("B", 0)] = {"version": 99}  # type: ignore[assignment]
    found = cases()
    rounds(script, found)
    assert "they measure different things" in found[0].failed


def outcome(script: Script, found: list[Case], **b_record: Any) -> Any:
    made = list(run_rounds(found, sides(), SELECTION, 0.05, Deadline(1e9, script.clock)))
    conclude(found, 0.05)
    cards = {"stream": ab_rounds.benchmark_card(STREAM)}
    runs = [run([r for w, r in made if w == which], header(FAKE_DEVICE_INFO, cards)) for which in (0, 1)]
    runs[1] = replace(runs[1], records=tuple(replace(r, **b_record) for r in runs[1].records))
    return ab_outcome.outcomes(found, (runs[0], runs[1]), {}, overlaid=True)


def test_an_outcome_has_the_medians_of_both_sides_and_the_verdict(script):
    script.b_ns = {"triad": 1500}
    triad, copy = outcome(script, cases())
    assert (triad.verdict, copy.verdict) == ("slower", "same")
    assert triad.b == pytest.approx(triad.a / 1.5)
    assert triad.ratio.value == pytest.approx(1 / 1.5)
    assert triad.notes == ["A and B use identical kernel sources for this point"]


def test_a_value_that_its_file_calls_impossible_has_no_verdict(script):
    script.b_ns = {"triad": 500}
    triad, _ = outcome(script, cases(), status="suspect", gate="peak", reason="over the theoretical peak")
    assert triad.verdict == "undecided"
    assert triad.reason == "suspect in B: over the theoretical peak"


def test_a_value_of_a_disturbed_host_keeps_its_verdict_and_says_so(script):
    script.b_ns = {"triad": 1500}
    triad, _ = outcome(script, cases(), status="suspect", gate="cores", reason="1.2 of 2 compute units")
    assert triad.verdict == "slower"
    assert triad.notes[0] == "suspect in B: 1.2 of 2 compute units"


def test_where_most_rounds_are_lost_there_is_no_verdict(script):
    stamps = {"status": "suspect", "gate": "stamps", "reason": "stamps lie"}
    script.status = {("B", n): stamps for n in range(200) if n % 3}  # type: ignore[misc]
    triad, _ = outcome(script, cases())
    assert triad.verdict == "undecided"
    assert "stamps lie" in triad.reason
    assert "rounds gave no pair of values, most often because: suspect in B: stamps lie" in triad.notes[0]
