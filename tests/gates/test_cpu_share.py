"""Values that lacked CPUs are suspect, on made records of busy and quiet hosts, small CPU sets, quotas and hypervisors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench.gates.cpu_share import is_disturbed
from clmembench.gates.whole import judged_values
from clmembench.measure.quiet import MAX_WAIT_S, NO_WAIT_VARIABLE, Repeats
from clmembench.measure.timed_work import TimedWork
from clmembench.model import Call, Copy, Launch, Placement, Work
from clmembench.plan.budget import Deadline
from tests.builders import BANDWIDTH, CHASE, COST, STREAM, device, header, record, run, series, slope
from tests.cases import each

MS = 10**6
HOST = {"cpu": "Test CPU", "virtual": False, "logical_cpus": 2, "usable_cpus": 2, "cpu_limit": None}
CARDS = {"stream": replace(STREAM, metrics=(BANDWIDTH,)), "pchase": CHASE, "launch": replace(STREAM, metrics=(COST,))}


def judged(one, host=None, kind="cpu", units=2):
    """The only value of a run of one record on a host."""
    head = header(device(kind=kind, compute_units=units), CARDS, host={**HOST, **(host or {})})
    _, (value,) = judged_values(run([one], head), None)
    return value


def copy(used=2.0, busy=2, pass_ms=10.0, **changes):
    """A copy that used so many of two compute units."""
    times = (round(pass_ms * MS),) * 16
    cpu = (round(used * pass_ms * MS),) * 16
    return record("stream", {"op": "copy"}, series(times, nbytes=10**8, cpu_ns=cpu, busy=busy), **changes)


def chase(**changes):
    """A chase of one work-item that had its CPU for half of each sample."""
    one = slope({"array_bytes": 4096}, [2.0] * 16, **changes)
    return replace(one, series=tuple(replace(s, busy=1, cpu_ns=tuple(t // 2 for t in s.cpu_ns)) for s in one.series))


def launch(pass_us=30.0, **changes):
    """A launch by the host's clock."""
    times = (round(1000 * pass_us),) * 16
    return record("launch", {"groups": 1}, series(times, ops=1, clock="host"), **changes)


QUIET = {"cpu_waited": 0.01, "cpu_others": 0.01, "cpu_stolen": 0.0}
BUSY = {"cpu_waited": 0.5, "cpu_others": 0.5, "cpu_stolen": 0.0}


@pytest.mark.parametrize("one", [copy(**QUIET), copy(used=1.3, **QUIET), chase(**QUIET), launch(**QUIET)])
def test_on_a_quiet_host_nothing_is_suspect(one):
    """Work that used fewer units without waiting for them, as short kernels do, did not lack them."""
    assert judged(one).status == "ok"


@pytest.mark.parametrize("one", [copy(used=1.0, **BUSY), copy(busy=0, **BUSY), chase(**BUSY), launch(**BUSY)])
def test_threads_that_waited_while_other_programs_ran_make_any_value_suspect(one):
    value = judged(one)
    assert (value.status, value.gate) == ("suspect", "cores")
    assert "its threads waited for CPUs that other programs used" in value.reason
    assert "--wait-quiet" in value.reason


def test_one_other_program_on_one_of_many_cpus_is_enough_where_it_made_a_thread_wait():
    one = copy(used=8.5, busy=16, cpu_waited=0.5, cpu_others=0.04, cpu_stolen=0.0)
    assert judged(one, {"logical_cpus": 16, "usable_cpus": 16}, units=16).status == "suspect"


@pytest.mark.parametrize("waited", [0.05, 0.12])
def test_a_wait_that_lengthens_nothing_by_15_percent_is_no_harm(waited):
    assert judged(copy(cpu_waited=waited, cpu_others=0.2, cpu_stolen=0.0)).status == "ok"


def test_a_wait_while_nobody_else_ran_is_waking():
    assert judged(launch(cpu_waited=0.4, cpu_others=0.01, cpu_stolen=0.0)).status == "ok"
    # but not where units that should be at work were not: two threads shared one CPU
    assert judged(copy(used=1.0, cpu_waited=0.5, cpu_others=0.0, cpu_stolen=0.0)).gate == "cores"


@each(
    ("used", "pass_ms", "gate"),
    [(2.0, 10.0, ""), (1.6, 10.0, ""), (1.0, 10.0, "cores"), (0.26, 10.0, "cores"), (1.06, 3.0, "cores"), (1.0, 0.1, "")],
)
def test_without_counted_waits_cpu_time_says_how_many_units_were_at_work(used, pass_ms, gate):
    """As in runs of older versions, and on systems other than Linux. Passes of 0.1 ms end before both threads are awake."""
    assert judged(copy(used, pass_ms=pass_ms, cpu_others=0.2)).gate == gate


@pytest.mark.parametrize(("one", "status"), [(copy(**QUIET), "suspect"), (launch(**QUIET), "suspect"), (chase(**QUIET), "ok")])
def test_a_smaller_cpu_set_than_the_driver_has_threads_leaves_what_needs_one_cpu_alone(one, status):
    value = judged(one, {"usable_cpus": 1})
    assert value.status == status
    if status == "suspect":
        assert "may use 1 of the 2 CPUs" in value.reason and "-a compute_units=1" in value.reason


@pytest.mark.parametrize(("quota", "remedy"), [(1.0, "-a compute_units=1"), (1.5, "-a compute_units=1"), (0.5, "raise")])
def test_a_quota_below_the_units_at_work_makes_them_suspect(quota, remedy):
    value = judged(copy(**QUIET), {"cpu_limit": quota})
    assert value.gate == "cores" and f"limits the process to {quota:g} CPU" in value.reason and remedy in value.reason
    assert judged(chase(**QUIET), {"cpu_limit": max(1.0, quota)}).status == "ok"
    assert judged(copy(**QUIET), {"cpu_limit": 2.0}).status == "ok"


def test_the_remedy_for_a_limit_gives_values():
    placed = copy(used=1.0, busy=1, place=Placement(1, (0,), "compact"), **QUIET)
    for host in ({"usable_cpus": 1}, {"cpu_limit": 1.0}):
        assert judged(placed, host).status == "ok"


def test_a_quota_that_throttles_is_named():
    value = judged(chase(cpu_waited=0.4, cpu_others=0.0, cpu_stolen=0.0), {"cpu_limit": 0.6})
    assert value.gate == "cores" and "control group limits the process to 0.6 CPUs" in value.reason


def test_stolen_time_makes_values_suspect_though_no_thread_waited_and_all_units_seem_used():
    value = judged(copy(used=2.0, cpu_waited=0.0, cpu_others=0.0, cpu_stolen=0.3))
    assert value.gate == "cores" and "other virtual machines took the CPUs" in value.reason
    one = chase(cpu_waited=0.0, cpu_others=0.0, cpu_stolen=0.25)  # of the time of the one CPU in use
    assert judged(one).gate == "cores"
    assert judged(copy(cpu_waited=0.0, cpu_others=0.0, cpu_stolen=0.02)).status == "ok"


@pytest.mark.parametrize("one", [copy, chase, launch])
def test_other_programs_share_caches_and_memory_where_no_thread_waits(one):
    """CPUs that others keep awake answer sooner, too: such values may be better than a quiet host's."""
    found = judged(one(cpu_waited=0.02, cpu_others=0.5, cpu_stolen=0.0))
    assert found.gate == "cores" and "caches and memory" in found.reason
    assert judged(one(cpu_waited=0.02, cpu_others=0.15, cpu_stolen=0.0)).status == "ok"
    assert judged(one(cpu_waited=0.9, cpu_others=0.21, cpu_stolen=0.0)).gate == "cores"  # for less than half of the wait


def test_what_a_gpu_times_itself_needs_no_cpu():
    assert judged(copy(used=0.1, busy=0, **BUSY), kind="gpu").status == "ok"
    assert judged(launch(**BUSY), kind="gpu").gate == "cores"  # by the host's clock it does


def test_of_several_processes_the_usual_one_counts():
    head = header(device(kind="cpu", compute_units=2), CARDS, host=HOST)
    for disturbed, status in ((2, "ok"), (4, "suspect")):
        several = [copy(used=1.0, process=n, **(BUSY if n < disturbed else QUIET)) for n in range(6)]
        assert judged_values(run(several, head), None)[1][0].status == status


def test_load_that_begins_midway_leaves_earlier_points_alone():
    points = [replace(copy(used=1.0, **(QUIET if n < 3 else BUSY)), params={"op": "copy", "n": n}, index=n) for n in range(6)]
    head = header(device(kind="cpu", compute_units=2), CARDS, host=HOST)
    assert [v.status for v in judged_values(run(points, head), None)[1]] == ["ok"] * 3 + ["suspect"] * 3


@pytest.mark.parametrize(("trial_ms", "disturbance", "gate"), [(15.0, BUSY, "cores"), (25.0, BUSY, ""), (15.0, QUIET, "")])
def test_a_configuration_that_may_be_better_was_tried_while_others_had_the_cpus(trial_ms, disturbance, gate):
    """The chosen one takes 10 ms, and a trial whose threads waited for half of the time may take half of what it took."""
    card = replace(CARDS["stream"], tuning=("width",))
    head = header(device(kind="cpu", compute_units=2), {"stream": card}, host=HOST)

    def of(width, pass_ms, **changes):
        return replace(copy(used=1.0, pass_ms=pass_ms, **changes), params={"op": "copy", "width": width})

    trials = [of(1, 10.5, role="tune", **QUIET), of(2, trial_ms, role="tune", **disturbance)]
    (found,) = judged_values(run([*trials, of(1, 10.0, **QUIET)], head), None)[1]
    assert found.gate == gate and ("another configuration may be better" in found.reason) == bool(gate)
    other = replace(trials[1], params={"op": "add", "width": 2})  # the search of another point
    assert judged_values(run([other, of(1, 10.0, **QUIET)], head), None)[1][0].gate == ""


# ---- expected compute units -------------------------------------------------------------------------------------------


def started(groups, local=1):
    return Launch(object(), (), (groups * local,), (local,))


@each(
    ("work", "kind", "units"),
    [
        (Work((started(64, 8),)), "cpu", 4),
        (Work((started(1, 64),)), "cpu", 1),  # a chase, or a barrier of one work-group
        (Work((started(3),)), "cpu", 3),
        (Work((started(5),)), "cpu", 2),  # 5 in two rounds on 4 units: 2.5 on average
        (Work((started(8), started(1))), "cpu", 1),  # the fewest: how long each takes is unknown
        (Work((Launch(object(), (), (64,)),)), "cpu", 1),  # the driver chooses
        (Work((started(64),), expected_units=0), "cpu", 0),  # unequal work, which the benchmark knows
        (Work((started(64),), clock="host"), "cpu", 0),
        (Work((started(64), Copy(None, None, 8))), "cpu", 0),
        (Work((Call(lambda: None),)), "cpu", 0),
        (Work((started(64),)), "gpu", 0),
    ],
)
def test_expected_units_follow_from_the_launches(work, kind, units):
    assert TimedWork(work).series(device(kind=kind, compute_units=4)).busy == units


# ---- repeats ----------------------------------------------------------------------------------------------------------


class Host:
    """A host that is calm after so many seconds, by a clock of its own, and what is measured on it."""

    def __init__(self, calm_after_s, records):
        self.now_s, self.calm_at_s, self.records, self.waits = 0.0, calm_after_s, list(records), []

    def wait(self, info, most_s):
        self.waits.append(most_s)
        self.now_s += min(most_s, max(0.0, self.calm_at_s - self.now_s))
        return [] if self.now_s >= self.calm_at_s else ["other programs use 50% of the CPUs"]

    def measure(self):
        self.now_s += 1.0
        return self.records.pop(0)

    def repeats(self, deadline=None):
        info = device(kind="cpu", compute_units=2)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(NO_WAIT_VARIABLE, raising=False)
            return Repeats(info, deadline or Deadline(clock=lambda: self.now_s), self.wait, lambda: self.now_s)


def test_a_disturbed_point_is_measured_again_when_the_host_is_calm():
    host = Host(3.0, [copy(used=1.0, **BUSY), copy(**QUIET)])
    found = host.repeats().measured(host.measure)
    assert (found.cpu_waited, host.records) == (0.01, [])
    assert "measured twice, 2 s apart: other programs took its CPUs the first time" in found.stopped


def test_no_point_is_measured_again_where_the_user_does_not_want_to_wait(monkeypatch):
    monkeypatch.setenv(NO_WAIT_VARIABLE, "1")
    host = Host(3.0, [copy(used=1.0, **BUSY)])
    assert Repeats(device(kind="cpu"), wait=host.wait).measured(host.measure).stopped == "noise" and not host.waits


def test_of_two_disturbed_measurements_the_less_disturbed_counts():
    worse = {**BUSY, "cpu_waited": 0.7, "cpu_others": 0.7}
    host = Host(2.0, [copy(used=1.0, **BUSY), copy(used=0.6, **worse)])
    assert host.repeats().measured(host.measure).cpu_waited == 0.5


@pytest.mark.parametrize(
    "one",
    [
        copy(**QUIET), copy(status="failed", **BUSY), copy(),
        copy(cpu_waited=0.5, cpu_others=0.0, cpu_stolen=0.0),  # a quota or a small CPU set, which waiting does not change
    ],
)  # fmt: skip
def test_other_points_are_measured_once(one):
    host = Host(0.0, [one])
    assert host.repeats().measured(host.measure) == one and not host.waits


def test_a_host_that_never_calms_down_costs_a_bounded_part_of_the_run():
    host = Host(float("inf"), [copy(used=1.0, **BUSY)] * 100)
    repeats = host.repeats()
    for _ in range(100):
        assert repeats.measured(host.measure).stopped == "noise"
    assert max(host.waits) <= MAX_WAIT_S and 100 < host.now_s <= 100 / 0.8 + 10


def test_waiting_leaves_most_of_a_budget():
    host = Host(float("inf"), [copy(used=1.0, **BUSY)] * 2)
    host.repeats(Deadline(11.0, lambda: host.now_s)).measured(host.measure)
    assert host.waits == [2.0]
    host.waits.clear()
    host.repeats(Deadline(4.5, lambda: host.now_s)).measured(host.measure)
    assert not host.waits


def test_a_record_is_disturbed_by_others_and_by_a_hypervisor_alone():
    assert is_disturbed(copy(used=1.0, **BUSY), True, 2) and not is_disturbed(copy(**QUIET), True, 2)
    assert is_disturbed(copy(cpu_waited=0.0, cpu_others=0.0, cpu_stolen=0.3), True, 2)
    assert not is_disturbed(copy(used=1.0, **BUSY), False, 2) and is_disturbed(launch(**BUSY), False, 2)
