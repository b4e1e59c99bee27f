"""The child's half: sessions on the fake device, whose clock is made to move, be lost, or stay."""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clmembench.host import cpu_load
from clmembench.host.cpu_load import Load, Reading
from clmembench.measure import core_clock, probe, sampling, timed_work, worker
from clmembench.measure.core_clock import ChainTimes, CoreClock
from clmembench.measure.job import Job
from clmembench.measure.worker import MIN_REPEATED_POINTS, POINTS_PER_REPEATED_POINT, Session
from clmembench.measure.worker_process import InProcessWorker, WorkerError
from clmembench.model import DeviceError, Launch, Placement, Point, Record, Slope, Work
from clmembench.plan.budget import Budget
from clmembench.results.jsonl import decode_record, encode
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeKernel

FAST = Budget(min_time_s=0.0, max_time_s=0.01, max_noise=0.5, slope_ns=1e3)
JOB = Job("fake", FAKE_DEVICE_INFO, "moves", budget=FAST, features=FAKE_DEVICE_INFO.features, cycles_per_op=1.0, origin="test")


@pytest.fixture
def moving(monkeypatch):
    """A clock whose readings are those of a list, and a benchmark that is always right."""
    from clmembench.benchmarks import discovered
    from clmembench.model import Work

    known = discovered()["launch"]
    always = replace(known, name="moves", prepare=lambda device, groups: Work(commands=(), ops=1, clock="host"))
    monkeypatch.setattr(worker, "named", {"moves": always}.__getitem__)
    readings: list[float] = []

    def read(self, device, times=5):
        # never recent, however fast the host is
        self.last = ChainTimes(-math.inf, 0.0, readings.pop(0) if readings else 1e6)
        return self.last

    monkeypatch.setattr(CoreClock, "read", read)
    return readings


def test_what_was_sampled_while_the_clock_moved_is_void_and_taken_once_more(moving):
    session = Session(JOB)
    moving[:] = [1e6, *[1.2e6] * 3, *[1e6] * 3, 1.01e6]
    record = session.record({"groups": 1}, "measure")
    assert record.status == "ok" and record.core_clock.moved == pytest.approx(0.01)
    assert 0 < record.parts_s["sample"] <= record.seconds
    assert "taken a second time, since the core clock moved by 20% the first" in record.stopped


def test_a_clock_that_moves_twice_is_in_the_record(moving):
    session = Session(JOB)
    moving[:] = [1e6, *[1.6e6] * 3, *[1e6] * 3, *[1.5e6] * 3]
    record = session.record({"groups": 1}, "measure")
    assert (record.status, record.gate) == ("suspect", "drift") and not moving
    assert record.core_clock.moved == pytest.approx(0.5)


def test_the_samples_beside_the_steadier_clock_count(moving):
    session = Session(JOB)
    moving[:] = [1e6, *[1.1e6] * 3, *[1e6] * 3, *[1.5e6] * 3]
    record = session.record({"groups": 1}, "measure")
    assert record.status == "ok" and record.core_clock.moved == pytest.approx(0.1)
    assert "the first samples count: the core clock moved by 50% the second time" in record.stopped


def test_a_reading_that_was_interrupted_costs_two_more_and_no_samples(moving):
    session = Session(JOB)
    moving[:] = [1e6, 7e6, 1.01e6, 1e6]
    record = session.record({"groups": 1}, "measure")
    assert record.core_clock.moved == pytest.approx(0.01) and ";" not in record.stopped and not moving


def test_a_steady_clock_costs_nothing_and_a_trial_is_never_repeated(moving):
    session = Session(JOB)
    moving[:] = [1e6, 1.02e6]
    assert ";" not in session.record({"groups": 1}, "measure").stopped and not moving
    moving[:] = [1e6, *[1.2e6] * 3]
    assert ";" not in session.record({"groups": 1}, "tune").stopped and not moving


def test_where_the_clock_never_rests_only_some_points_are_repeated(moving):
    session = Session(JOB)
    session._clock.last = ChainTimes(-math.inf, 0.0, 1.2e6)
    repeated = 0
    for _ in range(20):
        moving[:] = ([1e6] * 3 + [1.2e6] * 3) * 2
        stopped = session.record({"groups": 1}, "measure").stopped
        assert "the core clock moved" in stopped
        repeated += "taken a second time" in stopped
    assert MIN_REPEATED_POINTS <= repeated <= MIN_REPEATED_POINTS + 20 // POINTS_PER_REPEATED_POINT + 1


def test_a_lost_device_is_told_from_a_refusal(moving, monkeypatch):
    session = Session(JOB)
    assert not session.lost()

    def gone(self, device, times=5):
        raise DeviceError("out of resources")

    monkeypatch.setattr(CoreClock, "read", gone)
    assert session.lost()


def test_without_a_child_there_is_one_place_and_one_process(moving):
    here = InProcessWorker(JOB)
    assert here.measure(Point("moves", {"groups": 1}), 1.0).status == "ok"
    here.end()
    for elsewhere in (replace(JOB, process=1), replace(JOB, place=Placement(1))):
        with pytest.raises(WorkerError, match="--no-isolate"):
            InProcessWorker(elsewhere)


def test_a_record_says_who_used_the_cpus(moving, monkeypatch):
    first, samples, last = (
        Reading(100.0, 5.0, 1.0, 50.0, {"cpu0": (90.0, 3.0), "cpu1": (10.0, 2.0)}),
        Reading(102.0, 5.0, 2.0, 52.0, {"cpu0": (91.0, 3.0), "cpu1": (11.0, 2.0)}),
        Reading(104.0, 6.0, 2.0, 54.0, {"cpu0": (92.0, 4.01), "cpu1": (12.0, 2.0)}),
    )
    readings = [first, first, samples, last]  # the first at the start of the process
    monkeypatch.setattr(cpu_load, "read", lambda: readings.pop(0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    record = Session(JOB).record({"groups": 1}, "measure")
    # in 4 s of 2 CPUs: 4 s were used, 1 s by this process; 1 s was stolen from one of them, and a tick more
    assert (record.cpu_others, record.cpu_stolen) == (0.375, 0.25)
    # of samples that are long enough for the accounting, theirs alone: in 2 s of 2 CPUs 2 s were used by others
    readings = [first, first, samples, last, last]
    monkeypatch.setattr(cpu_load, "MIN_SAMPLES_S", 0.0)
    record = Session(JOB).record({"groups": 1}, "measure")
    assert (record.cpu_others, record.cpu_stolen) == (0.5, 0.5)


def test_a_point_too_short_for_the_accounting_is_held_against_earlier_points(moving, monkeypatch):
    """Each of 30 ms, while another program uses one of two CPUs: of a single one nothing would be known, and all be ok."""
    now = [Reading(100.0, 0.0, 1.0, 50.0)]

    def read():
        last = now[-1]
        now.append(replace(last, busy_s=last.busy_s + 0.015, at_s=last.at_s + 0.015))
        return last

    monkeypatch.setattr(cpu_load, "read", read)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    session = Session(JOB)
    shares = [session.record({"groups": 1}, "measure").cpu_others for _ in range(20)]
    assert shares[0] is None and set(shares[-10:]) == {0.5}


def test_a_record_says_how_long_a_thread_had_no_cpu(moving, monkeypatch):
    waits = [{"1": (0, 0)}, {"1": (10**15, 1)}]
    monkeypatch.setattr(cpu_load, "read_waits", lambda: waits.pop(0))
    assert Session(JOB).record({"groups": 1}, "measure").cpu_waited == 1.0


def test_shares_are_between_nothing_and_all_and_need_time_to_pass():
    then = Reading(100.0, 5.0, 1.0, 50.0)
    assert cpu_load.between(then, replace(then, busy_s=200.0, at_s=51.0), 2) == Load(1.0, 0.0)
    assert cpu_load.between(then, replace(then, own_s=3.0, at_s=51.0), 2) == Load(0.0, 0.0)
    assert cpu_load.between(then, replace(then, at_s=50.01), 2) is None
    assert cpu_load.between(None, then, 2) is None and cpu_load.between(then, None, 2) is None


def test_time_stolen_from_idle_cpus_lengthens_nothing():
    idle = {f"cpu{n}": (0.0, 0.0) for n in range(16)}
    then = Reading(100.0, 5.0, 1.0, 50.0, {**idle, "cpu3": (0.0, 0.0)})
    woke = dict.fromkeys(idle, (0.02, 0.05))
    alone = replace(then, at_s=52.0, busy_s=102.3, stolen_s=5.77, own_s=3.0, by_cpu={**woke, "cpu3": (2.0, 0.02)})
    found = cpu_load.between(then, alone, 16)
    assert found is not None and found.stolen_at_work == pytest.approx(0.005)  # though 0.4 of one CPU were stolen in all
    taken = cpu_load.between(then, replace(alone, by_cpu={**woke, "cpu3": (1.4, 0.61)}), 16)
    assert taken is not None and taken.stolen_at_work == pytest.approx(0.3)
    every = dict.fromkeys(idle, (1.9, 0.1))
    slowest = cpu_load.between(then, replace(alone, by_cpu={**every, "cpu7": (1.2, 0.81)}), 16)
    assert slowest is not None and slowest.stolen_at_work == pytest.approx(0.4)  # a kernel ends with its slowest unit


def test_programs_that_were_waited_for_are_ones_own():
    before = cpu_load.read()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    after = cpu_load.read()
    assert before is not None and after is not None
    assert after.own_s - before.own_s > 0.05  # s of its CPU time, however long it took


def test_the_systems_accounting_is_read_and_may_be_missing(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 30 400 50 6 7 80 90 10\ncpu0 1 2 3\n")
    found = cpu_load.read(stat)
    assert found is not None and found.stolen_s > 0 and found.busy_s == pytest.approx(found.stolen_s * 163 / 80)
    assert not found.by_cpu
    stat.write_text("cpu  2 0 0 0 0 0 0 4 0 0\ncpu0 1 0 0 0 0 0 0 4 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\nintr 5\n")
    found = cpu_load.read(stat)
    assert found is not None and set(found.by_cpu) == {"cpu0", "cpu1"}
    assert found.by_cpu["cpu0"][1] == found.stolen_s > found.by_cpu["cpu1"][1] == 0
    for text in ("", "cpu 1 2", "cpu a b c d e f g h"):
        stat.write_text(text)
        assert cpu_load.read(stat) is None
    assert cpu_load.read(tmp_path / "none") is None


def test_what_the_host_does_is_not_held_against_another_devices_clock(moving, monkeypatch):
    from clmembench.benchmarks import discovered
    from clmembench.model import Call, Work

    hosted = replace(
        discovered()["launch"], name="moves", prepare=lambda device, groups: Work((Call(int),), ops=1, clock="host")
    )
    monkeypatch.setattr(worker, "named", {"moves": hosted}.__getitem__)
    for kind, clocks in (("gpu", 0), ("cpu", 2)):
        session = Session(replace(JOB, device=replace(FAKE_DEVICE_INFO, kind=kind)))
        moving[:] = [1e6, 1.01e6]
        record = session.record({"groups": 1}, "measure")
        assert record.status == "ok" and (record.core_clock is None) == (kind == "gpu") and len(moving) == 2 - clocks


@pytest.mark.parametrize(
    ("amounts", "says"),
    [
        ({"ops": 2**63}, "Work.ops is 9223372036854775808 (int), not a number that fits into 64 bits"),
        ({"ops": 1, "facts": {"library": "x" * 2**21}}, "cannot be stored"),
        ({"nbytes": -1}, "Work.nbytes is -1 (int), not a number from 0 up"),
    ],
)
def test_what_cannot_be_stored_is_a_failed_point_and_not_a_lost_process(moving, monkeypatch, amounts, says):
    from clmembench.benchmarks import discovered
    from clmembench.model import Work

    odd = replace(
        discovered()["launch"], name="moves", prepare=lambda device, groups: Work(commands=(), clock="host", **amounts)
    )
    monkeypatch.setattr(worker, "named", {"moves": odd}.__getitem__)
    record = Session(JOB).record({"groups": 1}, "measure")
    assert record.status == "failed" and says in record.reason
    assert decode_record(encode(record)) == record


CYCLES_PER_OP = 5


@pytest.fixture
def simulated(monkeypatch):
    """Returns the record of a chase of five cycles an operation on a core whose period in ns is a function of the second, with
    launches that are interrupted for a few ms as often as `interrupted` says."""
    from clmembench.benchmarks import discovered

    def work(steps: int) -> Work:
        return Work((Launch(FakeKernel("k"), (np.uint32(steps),), (1,)),), ops=steps)

    known = replace(discovered()["pchase"], name="moves", prepare=lambda device, array_bytes: Slope(work, 1000, 1 << 20))
    monkeypatch.setattr(worker, "named", {"moves": known}.__getitem__)
    now_s = [0.0]
    for module in (sampling, timed_work, core_clock):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    budget = Budget(min_time_s=0.03, max_time_s=0.3, max_noise=0.0, slope_ns=3e5)
    job = replace(JOB, device=replace(FAKE_DEVICE_INFO, kind="cpu"), budget=budget)

    def measured(period_ns, seed=0, interrupted=0.0, noise=0.0):
        now_s[0], draw = 0.0, random.Random(seed)
        session = Session(job)

        def script(commands, passes):
            (launch,) = commands
            chain = launch.kernel.name == "alu_chain"
            cycles = int(launch.args[2]) * probe.OPS_PER_STEP if chain else int(launch.args[0]) * CYCLES_PER_OP
            took = 3000 + cycles * period_ns(now_s[0]) * (1 + noise * draw.random())
            took += draw.expovariate(1 / 3e6) if draw.random() < interrupted else 0
            now_s[0] += passes * took / 1e9
            return int(passes * took)

        session.device.script = script
        session.settle()
        return session.record({"array_bytes": 4096}, "measure")

    return measured


def cycles_of(record: Record) -> float:
    near, far = record.series
    apart = statistics.median(far.times_ns()) - statistics.median(near.times_ns())
    return apart / (far.ops - near.ops) * record.core_clock.ghz


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95])
def test_a_clock_that_steps_during_the_samples_spoils_no_cycles_unseen(simulated, share):
    steps = [share * 0.3 + 0.06 + 0.36 * n for n in range(2)]  # in the samples, and in those taken again
    record = simulated(lambda now_s: 0.3 * 1.4 ** sum(now_s > step for step in steps))
    assert record.status == "suspect" or cycles_of(record) == pytest.approx(CYCLES_PER_OP, rel=0.05)


def test_on_a_shared_host_few_points_are_suspect_and_cycles_of_the_others_are_right(simulated):
    """A neighbour slows the core by up to 40% for 0.2 s, about every second; one launch in twenty is interrupted."""
    found = []
    for seed in range(30):
        draw = random.Random(seed)
        starts = [draw.uniform(0, 4) for _ in range(4)]

        def period_ns(now_s, starts=starts):
            slow = max((math.sin(math.pi * (now_s - s) / 0.2) for s in starts if 0 < now_s - s < 0.2), default=0.0)
            return 0.3 * (1 + 0.4 * slow)

        found.append(simulated(period_ns, seed, interrupted=0.05, noise=0.1))
    good = [record for record in found if record.status == "ok"]
    assert len(good) >= 28
    assert all(cycles_of(record) == pytest.approx(CYCLES_PER_OP, rel=0.10) for record in good)
