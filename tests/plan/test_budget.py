"""Deadlines: one way to tell when a budget of time is spent, by a clock that a test moves."""

import math

from clmembench.plan.budget import Deadline


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_deadline_comes_when_its_seconds_have_passed():
    clock = Clock()
    deadline = Deadline.after(10, clock)
    assert deadline.left_s() == 10 and not deadline.is_over()
    clock.now += 9.999
    assert not deadline.is_over()
    clock.now = 110.0
    assert deadline.is_over() and deadline.left_s() == 0
    clock.now = 200.0
    assert deadline.is_over() and deadline.left_s() == 0


def test_without_a_budget_it_never_comes():
    deadline = Deadline.after(None, Clock())
    assert deadline.left_s() == math.inf and not deadline.is_over()
    assert deadline.share(0.3) == deadline
    assert Deadline() == Deadline.after(None)


def test_a_share_is_of_what_is_left_when_it_is_taken():
    clock = Clock()
    deadline = Deadline.after(10, clock)
    clock.now += 5
    assert deadline.share(0.6).at_s == 108.0
    clock.now += 50
    assert deadline.share(0.6).is_over()
