"""Rounds of an A/B run on hosts that are made up, so that the truth is known: what the calibration's table is made with too."""

from __future__ import annotations

import math

import numpy as np

from clmembench.studies.ab import ab_decision

MAX_ROUNDS = 88  # rounds that a budget of two minutes has of a short point

# Of a process the standard deviation of the logarithm; the share of processes that are disturbed and by how much at most; the
# step of a random walk of the host from process to process; how much slower the second process of a round is.
HOSTS = {
    "quiet": (0.01, 0.0, 0.0, 0.0, 0.0),
    "shared": (0.03, 0.15, 0.5, 0.02, 0.0),
    "busy": (0.08, 0.3, 0.7, 0.05, 0.0),
    "second process slower": (0.02, 0.1, 0.3, 0.0, 0.1),
    "two kinds of process": (0.01, 0.4, 0.0, 0.0, 0.0),
}


def logs(host: str, slowdown: float, run: int, rounds: int = MAX_ROUNDS) -> list[float]:
    """Log ratios of the rounds, each side a process whose time is A's, times the slowdown for B."""
    spread, share, most, step, second = HOSTS[host]
    rng = np.random.default_rng((2026, run, sorted(HOSTS).index(host)))
    times = rng.normal(0, spread, (rounds, 2)) + np.cumsum(rng.normal(0, step, 2 * rounds)).reshape(rounds, 2)
    disturbed = rng.random((rounds, 2)) < share
    times += disturbed * (rng.random((rounds, 2)) * most if most else math.log(1.3))  # by any amount, or by one
    times[:, 1] += second
    flipped = rng.random(rounds) < 0.5
    a, b = np.where(flipped, times[:, 1], times[:, 0]), np.where(flipped, times[:, 0], times[:, 1])
    return [float(x) for x in a - b - math.log(slowdown)]


def decided(host: str, slowdown: float, run: int, margin: float = 0.05, most: int = MAX_ROUNDS) -> ab_decision.ABDecision:
    """What the run ends in: looks as they are planned, and one more when its rounds are over."""
    found, plan = logs(host, slowdown, run, most), ab_decision.schedule_looks(1)
    for rounds in (*(n for n in plan.rounds if n < most), most):
        decision = ab_decision.decide(found[:rounds], margin, plan.tail)
        if decision.verdict != "undecided":
            break
    return decision
