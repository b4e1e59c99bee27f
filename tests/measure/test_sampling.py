"""Warm-up, sample sizes, the stopping rule and checks, on a device with scripted times."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.gates.point import judged
from clmembench.measure import core_clock, sampling, timed_work
from clmembench.measure.core_clock import MAX_READING_AGE_S, ChainTimes, CoreClock, clock_step_ns
from clmembench.model import Fill, Launch, Overlap, Read, Slope, Work
from clmembench.plan.budget import Budget
from clmembench.results.jsonl import decode_record, encode
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeBuffer, FakeDevice, FakeKernel, script_by_arguments
from tests.builders import record
from tests.cases import each

QUICK = Budget(min_time_s=0.0, max_time_s=0.05, max_noise=0.01, slope_ns=1e4)


def launch(units: int) -> Launch:
    return Launch(FakeKernel("k"), (np.uint32(units),), (1,), (1,))


def test_rate_takes_passes_until_a_sample_outlasts_a_hundred_quanta():
    device = FakeDevice()
    found = sampling.sample_point(device, Work((launch(0),), nbytes=64), replace(QUICK, max_time_s=10), quantum_ns=5_000)
    # one pass takes 1000 ns and a sample must last 100 x 5000 ns
    assert found.series[0].passes == 500
    assert found.series[0].device_ns[0] == 500_000


@pytest.mark.parametrize(("pass_ns", "looks"), [(50_000_000, 1), (50_000, 3)])
def test_a_long_pass_that_was_checked_is_taken_alone_at_its_first_look(pass_ns, looks):
    """A trial has no other warm-up, so what was timed beside its samples is what was looked at."""
    device = FakeDevice(script=lambda commands, passes: pass_ns * passes)
    budget = replace(QUICK, max_time_s=10, trial=True)
    found = sampling.sample_point(device, Work((launch(0),), nbytes=64, check=lambda: None), budget, quantum_ns=1)
    series = found.series[0]
    assert series.passes == 1 and len(device.timed) - len(series.host_ns) - len(series.warmups_ns) + 1 == looks


@pytest.mark.parametrize(
    ("kind", "first_ns", "pass_ns", "looks", "passes"),
    [
        ("cpu", 150_000_000, 10_000, 3, 2),  # a neighbour held a CPU for that long
        ("cpu", 150_000_000, 150_000_000, 1, 1),
        ("gpu", 150_000_000, 10_000, 1, 1),  # another program's CPU time does not prolong a kernel there
    ],
)
def test_a_first_pass_on_a_cpu_is_long_only_by_its_cpu_time(kind, first_ns, pass_ns, looks, passes):
    class Shared(FakeDevice):
        def time(self, *asked):
            found = super().time(*asked)
            return replace(found, cpu_ns=self.info.compute_units * pass_ns)

    device = Shared(replace(FAKE_DEVICE_INFO, kind=kind), script=lambda _, n: n * pass_ns if device.timed[1:] else first_ns)
    found = timed_work.rate_work(device, Work((launch(0),), nbytes=64, check=lambda: None), replace(QUICK, max_time_s=10), 1)
    assert (len(device.timed), found.passes) == (looks, passes)


@pytest.mark.parametrize(("pass_ns", "most"), [(300_000_000, 1), (90_000_000, 2), (1_000_000, 9)])
def test_a_long_pass_is_not_warmed_up_for_longer_than_the_limit(pass_ns, most):
    device = FakeDevice(script=lambda commands, passes: pass_ns * passes)
    found = sampling.sample_point(device, Work((launch(0),), check=lambda: None, ops=1), QUICK, quantum_ns=1)
    assert 1 <= len(found.series[0].warmups_ns) <= most


def test_slope_grows_until_its_ends_are_far_enough_apart():
    device = FakeDevice()
    found = sampling.sample_point(device, Slope(lambda n: Work((launch(n),), ops=n), start=1), QUICK, quantum_ns=1)
    near, far = found.series
    assert far.ops == 5 * near.ops  # their sum is smaller than with 3, for the same distance
    assert far.device_ns[0] - near.device_ns[0] >= 1e4
    assert near.passes == far.passes == 1


@pytest.mark.parametrize(("kind", "looks"), [("gpu", 1), ("cpu", 3)])
def test_ends_of_a_slope_that_last_a_tenth_of_a_second_on_a_gpu_are_not_looked_at_again(kind, looks):
    device = FakeDevice(replace(FAKE_DEVICE_INFO, kind=kind), script=lambda c, passes: int(c[0].args[0]) * 100_000_000 * passes)
    near, far = timed_work.slope_works(device, Slope(lambda n: Work((launch(n),), ops=n), start=1), QUICK, quantum_ns=1)
    assert len(device.timed) == 2 * looks and far.work.ops == 3 * near.work.ops
    assert (near.warmups_ns, far.warmups_ns) == ([100_000_000] * min(looks, 2), [300_000_000] * min(looks, 2))


def test_slope_stops_growing_at_its_own_limit():
    asked: list[int] = []

    def work(n: int) -> Work:
        asked.append(n)
        return Work((launch(0),), ops=n)

    found = sampling.sample_point(FakeDevice(), Slope(work, start=1, most=3000), QUICK, quantum_ns=1)
    assert max(asked) <= 3000
    assert found.series[1].ops <= 3000


def test_constant_times_stop_at_the_first_look_because_there_is_no_noise():
    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1), QUICK, quantum_ns=1)
    assert len(found.series[0].host_ns) == sampling.STOPPING_RULE_SAMPLES[0]
    assert found.stopped == "noise 0.00% within 1.00%"


@pytest.mark.parametrize(
    ("most_s", "stopped", "samples"),
    [(0.1, "budget of 0.1 s spent", 67), (10.0, "1024 samples", sampling.STOPPING_RULE_SAMPLES[-1])],
)
def test_noise_that_never_falls_stops_on_the_budget_or_the_last_look_and_says_so(monkeypatch, most_s, stopped, samples):
    times, now_s = itertools.cycle([10**6, 2 * 10**6]), [0.0]

    def script(commands, passes):
        ns = passes * next(times)
        now_s[0] += ns / 1e9
        return ns

    for module in (sampling, timed_work):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    budget = replace(QUICK, max_time_s=most_s, min_time_s=0.0)
    found = sampling.sample_point(FakeDevice(script=script), Work((launch(0),), nbytes=1), budget, quantum_ns=1)
    assert (found.stopped, len(found.series[0].host_ns)) == (stopped, samples)


@pytest.mark.parametrize(("patience", "samples"), [(4, 1), (1e12, 6)])
def test_a_slow_point_is_given_as_many_samples_as_an_interval_needs_where_there_is_patience(patience, samples):
    slow = Budget(min_time_s=0.0, max_time_s=1e-9, max_noise=0.0, patience=patience)
    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1), slow, quantum_ns=1)
    assert len(found.series[0].host_ns) == samples


def scripted_time(monkeypatch, ns: Callable[[float], int]) -> tuple[FakeDevice, list[float]]:
    """A device on which a pass that begins at some second takes `ns` of it, and the clock that sampling sees."""
    now_s = [0.0]

    def script(commands, passes):
        took = passes * ns(now_s[0])
        now_s[0] += took / 1e9
        return took

    for module in (sampling, timed_work, core_clock):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return FakeDevice(script=script), now_s


@pytest.mark.parametrize(("pass_s", "samples"), [(0.45, 6), (0.8, 6), (1.2, 2), (2.5, 1)])
def test_samples_of_which_half_were_taken_are_completed(monkeypatch, pass_s, samples):
    device, _ = scripted_time(monkeypatch, lambda now_s: int(pass_s * 1e9))
    budget = Budget(min_time_s=0.0, max_time_s=0.5, max_noise=0.0)  # its patience ends after 2 s
    found = sampling.sample_point(device, Work((launch(0),), nbytes=1), budget, quantum_ns=1)
    assert len(found.series[0].host_ns) == samples


def test_what_is_done_between_samples_takes_a_small_share_of_their_time(monkeypatch):
    device, now_s = scripted_time(monkeypatch, lambda now_s: 1_000_000)
    began_s = []

    def between() -> None:
        began_s.append(now_s[0])
        now_s[0] += 0.003

    budget = replace(QUICK, max_noise=-1.0, max_time_s=1.0)
    sampling.sample_point(device, Work((launch(0),), nbytes=1), budget, 1, between=between)
    assert len(began_s) > 10 and 0.003 * len(began_s) <= sampling.MAX_BETWEEN_SHARE * now_s[0]
    count = len(began_s)
    sampling.sample_point(device, Work((launch(0),), nbytes=1, own_clock=True), budget, 1, between=between)
    assert len(began_s) == count


@pytest.mark.parametrize(("readings", "counts", "taken"), [
    ([103.0], 103.0, 1),
    ([700.0, 101.0, 99.0], 101.0, 3),  # the first was interrupted
    ([130.0, 131.0, 129.0], 130.0, 3),  # the clock drifted
    ([-5.0, 100.0, 99.0], 99.0, 3),
])  # fmt: skip
def test_a_reading_unlike_another_is_confirmed_by_two_more(monkeypatch, readings, counts, taken):
    remaining = list(readings)
    monkeypatch.setattr(CoreClock, "read", lambda self, device, times=0: ChainTimes(0.0, 0.0, remaining.pop(0)))
    clock = CoreClock(lambda steps: [launch(steps)], 1, 1.0, "test")
    assert clock.confirmed(FakeDevice(), ChainTimes(0.0, 0.0, 100.0)).ns == counts
    assert len(readings) - len(remaining) == taken


def test_the_clock_of_each_half_of_the_samples_is_the_difference_of_medians():
    clock = CoreClock(lambda steps: [launch(steps)], 1, 1.0, "test")
    quiet, slow = ChainTimes(0.0, 50.0, 150.0), ChainTimes(0.0, 65.0, 195.0)
    near_interrupted, far_interrupted = replace(quiet, near_ns=750.0), replace(quiet, far_ns=850.0)
    for beside, moved in (
        ((), 0.3),
        ([quiet], 0.3),
        ([quiet] * 6, 0.0),  # what is slow after the last sample is not their clock
        ([quiet, near_interrupted, quiet, slow, slow, slow], 0.3),
        ([quiet, quiet, far_interrupted, slow, far_interrupted, slow], 0.3),
    ):
        times = [replace(one, at_s=float(n)) for n, one in enumerate(beside)]
        assert clock.reading(quiet, slow, times).moved == pytest.approx(moved)


def test_outputs_are_poisoned_before_the_check_and_the_check_runs_again_after_sampling():
    events: list[str] = []
    buffer = FakeBuffer(64, "device")

    def script(commands, passes):
        return script_by_arguments(commands, passes)

    device = FakeDevice(script=script)

    def check() -> None:
        events.append("check")
        poisons = [c for c in device.log if isinstance(c, Fill)]
        assert poisons == [Fill(buffer, 64, sampling.POISON_BYTE)]
        assert isinstance(device.log[-1], Launch)

    found = sampling.sample_point(device, Work((launch(0),), nbytes=1, outputs=((buffer, 64),), check=check), QUICK, 1)
    assert found.checked
    assert not found.wrong
    assert events == ["check", "check"]


def test_a_failed_check_gives_no_samples():
    def check() -> None:
        raise AssertionError("3 of 8 elements are wrong")

    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1, check=check), QUICK, 1)
    assert found.wrong == "3 of 8 elements are wrong"
    assert found.series == ()


def test_a_check_that_fails_only_after_sampling_voids_the_samples():
    calls = itertools.count()

    def check() -> None:
        assert next(calls) == 0, "the output went stale"

    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1, check=check), QUICK, 1)
    assert found.wrong.startswith("after sampling: the output went stale")
    assert found.series == ()


def test_an_overlap_has_as_much_of_the_other_work_as_lasts_as_long():
    # 1000 ns a launch and 1 ns a unit: 50 us, and 2 us each
    one = Work((launch(49_000),), nbytes=1, clock="host")
    overlap = Overlap(one, lambda n: Work((launch(1000),) * n, nbytes=n, clock="host"))
    found = sampling.sample_point(FakeDevice(), overlap, QUICK, quantum_ns=1)
    alone, other, both = (s.host_ns[0] for s in found.series)
    assert alone <= other <= 1.3 * alone and both == alone + other
    assert [s.passes for s in found.series] == [1, 1, 1]
    few = sampling.sample_point(FakeDevice(), replace(overlap, most=3), QUICK, quantum_ns=1)
    assert few.series[1].nbytes == 3


def test_both_works_of_an_overlap_are_checked_before_and_after():
    seen = []
    one = Work((launch(1),), nbytes=1, check=lambda: seen.append("one"), clock="host")
    other = Work((launch(1),), nbytes=1, check=lambda: seen.append("other"), clock="host")
    sampling.sample_point(FakeDevice(), Overlap(one, lambda n: other), QUICK, quantum_ns=1)
    assert seen == ["one", "other"] * 2


def test_before_runs_untimed_before_every_pass():
    buffer = FakeBuffer(4, "device")
    device = FakeDevice()
    work = Work((launch(7),), ops=1, before=(Fill(buffer, 4),))
    found = sampling.sample_point(device, work, QUICK, quantum_ns=1)
    kinds = [type(c).__name__ for c in device.log]
    assert kinds.count("Fill") == kinds.count("Launch")
    assert all(a != b for a, b in itertools.pairwise(kinds))
    # the fill costs nothing: each pass is one launch of 1007 ns
    assert set(found.series[0].device_ns) == {found.series[0].passes * 1007}


def test_reads_are_kept_with_every_sample():
    device, buffer = FakeDevice(), FakeBuffer(16, "device", np.arange(4, dtype=np.uint32))
    work = Work((launch(0),), ops=1, reads={"ticks": Read(buffer, "uint32", 4, "tick")})
    series = sampling.sample_point(device, work, QUICK, quantum_ns=1e9).series[0]
    assert series.passes == 1  # a second pass would overwrite what the first one left
    assert series.reads["ticks"].unit == "tick"
    assert series.reads["ticks"].unpack().tolist() == [[0, 1, 2, 3]] * len(series.host_ns)


@pytest.mark.parametrize(("clock", "expected"), [("device", 1000), ("host", 2000), ("queue", 100)])
def test_the_clock_a_work_asks_for_is_the_one_its_times_come_from(clock, expected):
    series = sampling.sample_point(FakeDevice(), Work((launch(0),), ops=1, clock=clock), QUICK, quantum_ns=1).series[0]
    assert set(series.times_ns()) == {expected * series.passes}


def test_a_trial_far_slower_than_the_best_one_ends_before_it_is_sampled():
    """A first pass may hold the kernel's compilation, as PoCL's does: a second one decides, unless none takes so long."""
    checks: list[int] = []
    work = Work((launch(0),), nbytes=64, check=lambda: checks.append(1))
    pass_ms = 50.0
    device = FakeDevice(script=lambda commands, passes: int(pass_ms * 1e6) * passes)
    trial = replace(QUICK, trial=True, give_up_ns=60e6)
    assert sampling.sample_point(device, work, trial, quantum_ns=1).stopped == "tuning trial" and checks == [1]
    before = len(device.timed)
    with pytest.raises(sampling.SlowConfiguration, match="a pass of 50 ms"):
        sampling.sample_point(device, work, replace(trial, give_up_ns=40e6), quantum_ns=1)
    assert len(device.timed) == before + 2 and checks == [1]
    pass_ms, before = 3000.0, len(device.timed)
    with pytest.raises(sampling.SlowConfiguration, match="a pass of 3e\\+03 ms"):
        sampling.sample_point(device, work, replace(trial, give_up_ns=40e6), quantum_ns=1)
    assert len(device.timed) == before + 1 and checks == [1]
    compiled = itertools.chain([431.0], itertools.repeat(4.0))  # of PoCL: 12 x 16 tiles of DGEMM with an empty kernel cache
    device = FakeDevice(script=lambda commands, passes: int(next(compiled) * 1e6) * passes)
    buffer = FakeBuffer(16, "device", np.zeros(4, np.uint32))
    fresh = replace(work, outputs=((buffer, 16),))
    found = sampling.sample_point(device, fresh, replace(trial, give_up_ns=12e6), quantum_ns=1)
    assert found.stopped == "tuning trial" and set(found.series[0].device_ns) == {4_000_000}
    assert checks == [1, 1]


def test_a_tuning_trial_takes_few_samples():
    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1), replace(QUICK, trial=True), quantum_ns=1)
    assert len(found.series[0].host_ns) <= 6
    assert found.stopped == "tuning trial"


def test_core_clock_is_the_slope_of_the_chain():
    # 32 operations a step at 0.5 ns each: 16 ns a step, and a launch cost that must cancel
    device = FakeDevice(script=lambda commands, passes: 5_000 + 16 * int(commands[0].args[0]))
    clock = CoreClock(lambda steps: [launch(steps)], 32, 1.0, "test")
    reading = clock.reading(clock.read(device), clock.read(device))
    assert reading.ghz == pytest.approx(2.0)


def test_core_clock_takes_as_many_steps_as_jitter_asks_for():
    device = FakeDevice(script=lambda commands, passes: 5_000 + 16 * int(commands[0].args[0]))
    clock = CoreClock(lambda steps: [launch(steps)], 32, 1.0, "test")
    clock.settle(device, 0.0)
    assert 5e5 <= 2 * clock.steps * 16 <= 5.5e5  # 0.5 ms, and hardly more
    assert clock.reading(clock.read(device), clock.read(device)).ghz == pytest.approx(2.0)


def test_clock_step_is_the_common_divisor_of_differences():
    device = FakeDevice(script=lambda commands, passes: 7 + 32 * int(commands[0].args[0]))
    timings = [device.time([launch(n)], 1, "device") for n in (3, 5, 10, 4)]
    assert clock_step_ns(timings) == 32


@pytest.mark.parametrize(("clock", "passes"), [("device", 100), ("host", 1), ("queue", 1)])
def test_only_stamped_kernels_are_repeated_within_a_sample(clock, passes):
    # a round trip that shares its wait with others is none
    device = FakeDevice(script=lambda commands, passes: 10 * passes)
    series = sampling.sample_point(device, Work((launch(0),), ops=1, clock=clock), QUICK, quantum_ns=10).series[0]
    assert (series.passes > 1) == (passes > 1)


def test_a_slopes_limit_is_kept_to():
    amounts = []

    def work(amount):
        amounts.append(amount)
        return Work((Launch(FakeKernel("k"), (np.uint32(1),), (1,)),), ops=amount)

    sampling.sample_point(FakeDevice(), Slope(work, start=1, most=1000), QUICK, 1.0)
    assert max(amounts) <= 1000 and max(amounts) > 900


STAMPED = 2**64 - 3_600_000_000_000  # what is left of a stamp an hour below zero, of 64 bits without a sign


class Leaping(FakeDevice):
    """Every tenth sample's stamps are off by so much."""

    leap, taken = 0, 0

    def time(self, commands, passes, clock):
        timing = FakeDevice.time(self, commands, passes, clock)
        self.taken += 1
        if self.taken % 10 != 9 or timing.device_ns is None:
            return timing
        return replace(timing, device_ns=timing.device_ns + self.leap, queue_ns=timing.queue_ns + self.leap)


def leaping(leap: int) -> Leaping:
    device = Leaping()
    device.leap = leap
    return device


@each("leap", [STAMPED, -STAMPED, 2**64, -(2**64), 2**63, -(2**63)])
@each("clock", ["device", "queue"])
@each("before", [(), (launch(1),)])
def test_stamps_beyond_64_bits_with_a_sign_are_a_suspect_record_that_can_be_stored(leap, clock, before):
    work = Work((launch(0),), nbytes=64, clock=clock, before=before)
    found = sampling.sample_point(leaping(leap), work, replace(QUICK, max_time_s=1), quantum_ns=1)
    core = CoreClock(lambda steps: [launch(steps)], 1, 1.0, "test")
    reading = core.reading(core.read(leaping(leap)), core.read(leaping(leap)))
    measured = record("launch_wait", {"groups": 1}, *found.series, core_clock=reading)
    suspect = judged(measured, discovered()["launch_wait"].metrics)
    assert (suspect.status, suspect.gate) == ("suspect", "stamps")
    assert decode_record(encode(suspect)) == suspect


@pytest.mark.parametrize("leap", [STAMPED, -STAMPED, -3_600_000_000_000, 3_600_000_000_000])
def test_the_core_clock_is_read_from_stamps_that_did_not_leap(leap):
    core = CoreClock(lambda steps: [launch(steps)], 1, 1.0, "test", steps=100)
    device = leaping(leap)
    assert {core.read(device).ns for _ in range(9)} == {core.read(FakeDevice()).ns}


@pytest.mark.parametrize("leap", [2**64, -STAMPED])
def test_the_step_of_a_clock_is_not_that_of_a_leap(leap):
    timings = [FakeDevice().time([launch(n)], 1, "device") for n in (20, 40, 60)]
    late = replace(timings[0], device_ns=timings[0].device_ns + leap + 1)
    assert clock_step_ns([*timings, late]) == clock_step_ns(timings)
    assert clock_step_ns([late, late]) == 1.0


def test_a_reading_of_the_core_clock_after_one_point_is_that_before_the_next(monkeypatch):
    taken = []
    device = FakeDevice(script=lambda commands, passes: taken.append(1) or 5_000 + 16 * int(commands[0].args[0]))
    clock, now = CoreClock(lambda steps: [launch(steps)], 32, 1.0, "test"), [100.0]
    monkeypatch.setattr("clmembench.measure.core_clock.time", SimpleNamespace(monotonic=lambda: now[0]))
    first, once = clock.read(device), len(taken)
    now[0] += MAX_READING_AGE_S / 2
    assert (clock.recent(device), len(taken)) == (first, once)
    now[0] += MAX_READING_AGE_S
    clock.recent(device)
    assert len(taken) == 2 * once


@each("returned", [False, np.False_, True, "", 0, np.ones(3)])
def test_a_check_that_returns_anything_passes_nothing(returned):
    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1, check=lambda: returned), QUICK, quantum_ns=1)
    assert found.series == () and "use assert" in found.wrong

    both = Overlap(Work((launch(0),), check=lambda: returned), lambda n: Work((launch(n),), check=lambda: None))
    assert "use assert" in sampling.sample_point(FakeDevice(), both, QUICK, quantum_ns=1).wrong


def test_a_check_is_refused_after_sampling_too_and_none_is_said():
    answers = iter([None, False])
    found = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1, check=lambda: next(answers)), QUICK, quantum_ns=1)
    assert found.series == () and found.wrong.startswith("after sampling: its check returned False")
    unchecked = sampling.sample_point(FakeDevice(), Work((launch(0),), nbytes=1), QUICK, quantum_ns=1)
    assert not unchecked.checked and unchecked.notes == (sampling.NOTE_UNVERIFIED,)
