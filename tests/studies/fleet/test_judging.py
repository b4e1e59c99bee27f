"""Which devices stand apart, on simulated fleets of known truth; scripts/fleet_detection.py measures the rates."""

import numpy as np
import pytest

from clmembench.studies.fleet.drift import History, drifts
from clmembench.studies.fleet.judging import Levels, Values, _inverse_trigamma, common_factors, judge, modes
from tests.cases import each

RNG = np.random.default_rng(49)


def values(slowness, quantity=0, sd=0.003, slack=0.0):
    n = len(slowness)
    every = [np.full(n, one) for one in (sd, 4.0, slack)] if np.isscalar(sd) else [sd, np.full(n, 4.0), np.full(n, slack)]
    return Values(quantity, 0, np.arange(n), np.asarray(slowness, dtype=float), *every)


def fleet(devices, slow, effect, quantities=60, spread=0.01):
    made = RNG.normal(0, spread, (quantities, devices))
    made[:20, slow] += -np.log1p(-effect)
    return [values(row, number) for number, row in enumerate(made)]


def flagged(found):
    return {(found.populations[flag.population].quantity, flag.device) for flag in found.flags}


@each(("devices", "slow", "effect", "share"), [(5, [2], 0.3, 0.9), (20, [3, 4], 0.2, 0.9), (300, [7, 8, 9], 0.1, 0.9)])
def test_slow_devices_are_found_in_the_quantities_that_they_are_slow_in(devices, slow, effect, share):
    found = judge(fleet(devices, slow, effect))
    planted = {(quantity, device) for quantity in range(20) for device in slow}
    assert len(flagged(found) & planted) >= share * len(planted)
    assert len(flagged(found) - planted) <= 2 and all(flag.is_slow for flag in found.flags if flag.device in slow)
    assert found.judged == 60 * devices


@each("devices", [3, 10, 300])
def test_healthy_fleets_have_no_flags(devices):
    assert len(judge(fleet(devices, [], 0.0)).flags) <= 1


def test_two_devices_are_not_judged():
    found = judge([values([0.0, 1.0])])
    assert (found.judged, found.alone, found.flags) == (0, 2, ())


@each(
    ("changes", "is_flagged"),
    [
        ({}, True),
        ({"sd": np.r_[0.15, np.full(199, 0.003)]}, False),  # so noisy that its interval includes the others
        ({"slack": 0.15}, False),  # other programs may have slowed it
    ],
)
def test_a_value_is_flagged_by_its_interval_too(changes, is_flagged):
    slowness = RNG.normal(0, 0.005, 200)
    slowness[0] = 0.1
    assert bool(judge([values(slowness, **changes)]).flags) == is_flagged


@each("effect", [0.015, 0.025])
def test_a_small_effect_is_none_however_alike_the_others_are(effect):
    assert judge([values(np.r_[effect, np.zeros(199)], sd=1e-6)]).flags == ()


def test_two_populations_are_told_apart_and_judged_each():
    slowness = np.r_[RNG.normal(0, 0.005, 150), RNG.normal(0.2, 0.005, 50)]
    slowness[3], slowness[160] = 0.09, 0.3
    found = judge([values(slowness)])
    assert [(of.mode, of.modes, of.count) for of in found.populations] == [(0, 2, 150), (1, 2, 50)]
    assert {flag.device for flag in found.flags} == {3, 160}
    assert len(modes(np.r_[slowness, 9.0])) == 2  # however far off an outlier is


@each(
    "made", [np.arange(100) / 100, np.sort(RNG.normal(size=100)), np.repeat([0.0, 0.5], [95, 5]), np.zeros(100), np.arange(9)]
)
def test_other_distributions_are_one_population(made):
    assert [len(one) for one in modes(np.asarray(made, dtype=float))] == [len(made)]


def test_what_slow_devices_have_in_common_is_named_first():
    hosts = Levels.of([f"n{number // 8}" for number in range(400)])
    racks = Levels.of([f"r{number // 80}" for number in range(400)])
    drivers = Levels.of(["1" if number % 2 else "2" for number in range(400)])
    temperature = np.r_[np.full(8, 90.0), RNG.normal(60, 2, 392)]
    temperature[20] = np.nan
    found = common_factors(np.arange(8), {"rack": racks, "host": hosts, "driver": drivers}, {"temperature": temperature})
    assert [one.factor for one in found] == ["host", "temperature"]
    assert (found[0].level, found[0].inside, found[0].inside_all, found[0].outside) == ("n0", 8, 8, 0)
    assert found[1].inside_median == 90 and 59 < found[1].outside_median < 61
    assert common_factors(np.array([1, 99, 200, 399]), {"host": hosts, "driver": drivers}, {}) == []


def test_the_inverse_of_trigamma():
    from scipy.special import polygamma

    assert [float(polygamma(1, _inverse_trigamma(value))) for value in (0.01, 1, 40)] == pytest.approx([0.01, 1, 40])


def history(medians, better="higher", sd=0.01, **changes):
    n = len(medians)
    plain = {"device": "d", "name": "n0 0:0", "model": "m", "host": "n0", "quantity": "triad", "unit": "GB/s"}
    started = tuple(f"2026-11-{day + 1:02}" for day in range(n))
    drivers = ("1",) * (n - 1) + ("2",)
    return History(**plain, better=better, medians=tuple(medians), sds=(sd,) * n, freedoms=(4.0,) * n, slacks=(0.0,) * n,
                   started=started, drivers=drivers, revisions=drivers, **changes)  # fmt: skip


@each(("better", "ratio"), [("higher", 0.8), ("lower", 1.25)])
def test_a_latest_run_that_differs_from_the_earlier_ones_is_a_drift(better, ratio):
    (found,) = drifts([history([100, 101, 99, 80], better)], 0.02)
    assert found.ratio == pytest.approx(ratio, rel=0.01) and (found.since, found.changed) == (
        "2026-11-04",
        "driver 1 -> 2, clmembench",
    )
    assert drifts([history([100, 101, 99, 98], better), history([100, 99])], 0.02) == []
    assert drifts([history([100, 101, 99, 80], better, sd=0.2)], 0.02) == []


def test_a_change_point_of_a_long_history_is_a_drift_since_its_first_run():
    pytest.importorskip("ruptures")
    (found,) = drifts([history([*RNG.normal(100, 0.5, 8), *RNG.normal(90, 0.5, 8)])], 0.02)
    assert found.since == "2026-11-09" and 0.88 < found.ratio < 0.92 and found.changed == ""
