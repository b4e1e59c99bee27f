"""The decision of an interleaved A/B run: exact ranks, looks, and how often it errs where the truth is known."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from clmembench.studies.ab import ab_decision
from tests.cases import each
from tests.paired_rounds import HOSTS, decided

RUNS = 250


def test_the_ranks_left_out_are_those_of_the_published_table():
    # Hollander, Wolfe & Chicken 2014, table A.4: P(T+ <= 8) = 0.0244 for n = 10, P(T+ <= 0) = 0.0156 for n = 6
    assert ab_decision._left_out(10, 0.0245) == 9
    assert ab_decision._left_out(10, 0.0243) == 8
    assert ab_decision._left_out(6, 0.0157) == 1
    assert ab_decision._left_out(6, 0.0156) == 0
    assert ab_decision._left_out(0, 0.5) == 0


def test_the_interval_of_the_fewest_rounds_is_their_range():
    found = ab_decision.interval([math.log(x) for x in (0.9, 1.0, 1.1, 1.2, 1.3, 1.4)], 0.016)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.9, 1.4))


def test_too_few_rounds_decide_nothing_and_say_how_many_are_needed():
    found = ab_decision.decide([0.7] * 10, 0.05, ab_decision.schedule_looks(1).tail)
    assert (found.verdict, found.gain, found.smallest) == ("undecided", None, None)
    assert found.reason == "10 rounds of 11 that it needs"


def test_no_number_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        ab_decision.interval([0.0] * 20 + [math.inf], 0.01)


def test_the_shares_of_all_looks_and_values_add_up_to_the_error():
    for values in (1, 7, 100):
        found = ab_decision.schedule_looks(values)
        assert 2 * found.tail * (len(found.rounds) + 1) * values == pytest.approx(ab_decision.MAX_ERROR_PROBABILITY)
        assert ab_decision._left_out(found.rounds[0], found.tail) == 1
        assert ab_decision._left_out(found.rounds[0] - 1, found.tail) == 0
        assert list(found.rounds) == sorted(set(found.rounds))
        assert found.most > found.rounds[-1]


@each(
    ("factor", "verdict"), [(3.0, "faster"), (1.1, "faster"), (1.0, "same"), (1.04, "same"), (0.9, "slower"), (0.3, "slower")]
)
def test_rounds_that_agree_are_decided_at_the_first_look(factor, verdict):
    plan = ab_decision.schedule_looks(1)
    found = ab_decision.decide([math.log(factor)] * plan.rounds[0], 0.05, plan.tail)
    assert found.verdict == verdict
    assert found.smallest == pytest.approx(0.05)


def test_rounds_that_scatter_are_undecided_and_say_what_they_could_have_seen():
    rng = np.random.default_rng(1)
    found = ab_decision.decide([float(x) for x in rng.normal(0, 0.1, 31)], 0.05, ab_decision.schedule_looks(1).tail)
    assert found.verdict == "undecided"
    assert found.smallest is not None and 0.1 < found.smallest < 0.2


def test_one_round_that_was_disturbed_does_not_hide_a_change():
    logs = [math.log(0.9) + 0.0005 * n for n in range(32)]
    assert ab_decision.decide([*logs[:-1], 3.0], 0.05, ab_decision.schedule_looks(1).tail).verdict == "slower"


@pytest.mark.parametrize("host", HOSTS)
def test_where_nothing_differs_nothing_is_called_different(host):
    said = Counter(decided(host, 1.0, run).verdict for run in range(RUNS))
    assert said["faster"] + said["slower"] <= 0.01 * RUNS


@pytest.mark.parametrize("host", HOSTS)
def test_at_the_margin_itself_verdicts_err_no_oftener_than_said(host):
    """The hardest truth: B is slower by exactly what counts as no change. Any verdict but `undecided` errs."""
    said = Counter(decided(host, 1.05, run).verdict for run in range(RUNS))
    assert said["faster"] == 0
    assert max(said["slower"], said["same"]) <= 0.01 * RUNS + 2  # 2 of 250 more are chance


def test_a_tenth_is_found_on_a_quiet_host_and_on_most_noisy_ones():
    assert Counter(decided("quiet", 1.1, run).verdict for run in range(100))["slower"] == 100
    assert Counter(decided("shared", 1.1, run).verdict for run in range(100))["slower"] >= 80


def test_the_slowdown_that_could_be_seen_is_found_about_as_often_as_said():
    rng, plan = np.random.default_rng(3), ab_decision.schedule_looks(1)
    noise = [[float(x) for x in rng.normal(0, 0.05, 32)] for _ in range(200)]
    could = [ab_decision.decide(logs, 0.05, plan.tail).smallest for logs in noise]
    planted = math.log1p(float(np.median([x for x in could if x is not None])))
    said = Counter(ab_decision.decide([x - planted for x in logs], 0.05, plan.tail).verdict for logs in noise)
    assert 0.7 <= said["slower"] / 200 <= 0.9
